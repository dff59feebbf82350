//! A permit: what one request may do, and in which states (R260, referential authorization R180).
//!
//! ```text
//!   authenticate ──► authorize ──► Permit ──► redeem: wait, state, does it hold there? ──► Redeemed ──► answer
//!                                     ├────► check: before something is written
//!                                     └────► Hold: for as long as a stream is open
//! ```
//!
//! Whoever answers with what is stored reads it from a [`Redeemed`] state, and only a permit makes one. Who may do
//! what is decided elsewhere.

pub(crate) mod credential;
mod hold;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_machinery::status::{Details, StatusCause};
use tenure_world::{RevisionError, World, WorldHandle};

use crate::access::{AccessGrant, AuthorizerChain, refusal, refused};
use crate::authenticate::{Acting, User, impersonate, unauthorized};
use crate::authorize::{AccessQuestion, Consultation};
use crate::fair;
use crate::node;
use crate::read::list::expired;
use crate::reference::Visibility;
use crate::request_line::RequestLine;

pub(crate) use credential::Credential;
pub(crate) use hold::Hold;

/// How long a reader waits for a revision that is not there yet (R17).
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// How long a commit may take to be seen.
const COMMIT_MOST: Duration = Duration::from_secs(1);
/// How often a state is looked for in which references let something be read, while they change.
const TRIES_MAX: usize = 16;

/// Why something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// By a role, or because of `system:masters`.
    Roles,
    /// By what is bound to a node.
    Node,
    /// By a reference to the one object.
    Reference,
    /// By references to some objects of the collection (referential authorization R155).
    References,
    /// By the answer of a webhook.
    Webhook,
    /// Because everybody may do everything.
    Everything,
}

/// Who asks, and as whom.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Who the request runs as.
    pub(crate) user: Arc<User>,
    /// What proves who asks.
    pub(crate) credential: Credential,
    /// Who acts as somebody else.
    pub(crate) impersonator: Option<Impersonator>,
}

/// Somebody who acts as somebody else.
#[derive(Clone)]
pub(crate) struct Impersonator {
    user: Arc<User>,
    /// The headers that say as whom.
    headers: HeaderMap,
    /// The verb that limits it, if the right does (R152).
    pub(crate) constraint: Option<&'static str>,
}

impl Caller {
    /// Who has shown a credential, or whom they may act as.
    pub(crate) async fn new(
        user: Arc<User>,
        credential: Credential,
        headers: &HeaderMap,
        attributes: &tenure_rbac::RequestAttributes<'_>,
        access: &AuthorizerChain,
        consultation: &Consultation,
    ) -> Result<Caller, Failure> {
        let acting = || impersonate(&user, headers, attributes, access, consultation);
        let Some(acting) = consultation.settle(acting).await? else {
            return Ok(Caller { user, credential, impersonator: None });
        };
        let is_about = |name: &http::HeaderName| name.as_str().starts_with("impersonate-");
        let about = headers.iter().filter(|(name, _)| is_about(name));
        let headers = about.map(|(name, value)| (name.clone(), value.clone())).collect();
        let impersonator = Some(Impersonator { user, headers, constraint: acting.constraint });
        Ok(Caller { user: Arc::new(acting.user), credential, impersonator })
    }
}

/// What a request may do.
#[derive(Clone)]
pub(crate) struct Permit {
    /// None for what the server does of itself.
    granted: Option<Arc<AuthorizedRequest>>,
}

struct AuthorizedRequest {
    access: Arc<AuthorizerChain>,
    line: Arc<RequestLine>,
    caller: Caller,
    basis: Basis,
    /// Whether webhooks let it pass: a stream asks them again.
    by_webhook: bool,
    /// A verb that is needed as well.
    also: Option<&'static str>,
    /// The revocations that the decision knew of.
    generation: u64,
    /// The order of authorizers that it knew of.
    epoch: u64,
}

/// A state that a permit holds for.
#[derive(Clone, Debug)]
pub(crate) struct Redeemed(Arc<World>);

impl Deref for Redeemed {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Permit {
    /// The server may do everything.
    pub(crate) fn of_server() -> Permit {
        Permit { granted: None }
    }

    /// A request was allowed; `generation` and `epoch` are those of [`AuthorizerChain::revocations`] and of the
    /// order of authorizers from before the decision.
    pub(crate) fn new(
        access: &Arc<AuthorizerChain>,
        line: &Arc<RequestLine>,
        caller: Caller,
        grant: &AccessGrant,
        (generation, epoch): (u64, u64),
    ) -> Permit {
        let (access, line) = (Arc::clone(access), Arc::clone(line));
        // A webhook may be what lets somebody act as somebody else.
        let acts = caller.impersonator.is_some() && access.asks_webhooks();
        let (basis, by_webhook, also) = (grant.basis, grant.by_webhook || acts, None);
        let granted =
            AuthorizedRequest { access, line, caller, basis, by_webhook, also, generation, epoch };
        Permit { granted: Some(Arc::new(granted)) }
    }

    /// The same permit, for which a further verb is needed.
    pub(crate) async fn also(&self, verb: &'static str) -> Result<Permit, Failure> {
        let Some(granted) = &self.granted else { return Ok(self.clone()) };
        let attributes = with_verb(granted.line.attributes(), verb);
        let (access, user) = (&granted.access, &granted.caller.user);
        let (generation, epoch) = (access.revocations().generation(), access.epoch());
        let asks_webhooks = access.asks_webhooks();
        let question = AccessQuestion {
            attributes,
            references: false,
            ..AccessQuestion::of_line(&granted.line, asks_webhooks)
        };
        let decided = Consultation::default().decide(access, user, &question).await;
        let also = decided.map_err(|why| refused(user, &attributes, &why, ""))?;
        let granted = AuthorizedRequest {
            access: Arc::clone(access),
            line: Arc::clone(&granted.line),
            caller: granted.caller.clone(),
            basis: granted.basis,
            by_webhook: granted.by_webhook || also.by_webhook,
            also: Some(verb),
            generation: generation.min(granted.generation),
            epoch: epoch.min(granted.epoch),
        };
        Ok(Permit { granted: Some(Arc::new(granted)) })
    }

    /// The newest state, not older than `revision` if one is given; waits for it (R17).
    pub(crate) async fn newest(
        &self,
        world: &WorldHandle,
        revision: Option<Revision>,
    ) -> Result<Redeemed, Failure> {
        let mut state = world.current();
        let mut waited = false;
        if let Some(revision) = revision.filter(|wanted| *wanted > state.revision()) {
            fair::rest();
            if !world.wait_for(revision, FUTURE_WAIT).await {
                return Err(too_new(revision, world.current().revision()));
            }
            (state, waited) = (world.current(), true);
        }
        let Some(granted) = &self.granted else { return Ok(Redeemed(state)) };
        for _ in 0..TRIES_MAX {
            granted.check(&state, waited)?;
            let Some(newer) = granted.began_after(&state) else { return Ok(Redeemed(state)) };
            // The commit that brought it tells the index before it shows its state.
            world.wait_for(newer, COMMIT_MOST).await;
            (state, waited) = (world.current(), true);
        }
        Err(Failure::new(429, "TooManyRequests", "what refers to this changes too often")
            .with(Details { retry_after_seconds: 1, ..Details::default() }))
    }

    /// The state after just this revision.
    pub(crate) fn exact(
        &self,
        world: &WorldHandle,
        revision: Revision,
    ) -> Result<Redeemed, Failure> {
        let state = world.at(revision).map_err(|error| match error {
            RevisionError::Compacted(oldest) => expired(revision, oldest),
            RevisionError::Future(current) => Failure::bad_request(format!(
                "resourceVersion: {revision} is newer than the current {current}"
            )),
        })?;
        self.since(world, revision)?;
        Ok(Redeemed(state))
    }

    /// Passes if all that came after a revision may be told, and what there was.
    pub(crate) fn since(&self, world: &WorldHandle, revision: Revision) -> Result<(), Failure> {
        let Some(granted) = &self.granted else { return Ok(()) };
        let current = world.current();
        granted.check(&current, false)?;
        let held = match granted.basis {
            // What a role lets be read, it lets be read with its history; what is seen of a part is told from
            // the present.
            Basis::Roles | Basis::References | Basis::Webhook | Basis::Everything => true,
            Basis::Node => match world.at(revision) {
                Ok(past) => granted.holds(&past, granted.generation),
                Err(RevisionError::Compacted(_)) => false,
                Err(RevisionError::Future(_)) => true,
            },
            Basis::Reference => {
                let (user, requested) = (&granted.caller.user, granted.line.attributes());
                let moved =
                    granted.access.reference_authorizer().moved_after(user, &requested, revision);
                !(moved.gained || moved.forgotten) || granted.has_role()
            }
        };
        // The client lists again, from the present.
        held.then_some(()).ok_or_else(|| expired(revision, current.revision()))
    }

    /// Passes if what was decided before the request waited for something still holds.
    pub(crate) fn check(&self, world: &WorldHandle) -> Result<(), Failure> {
        self.granted.as_ref().map_or(Ok(()), |granted| granted.check(&world.current(), true))
    }

    /// What is seen of a collection by one who may not read the whole of it (referential authorization R155).
    pub(crate) fn visibility(&self) -> Result<Option<Visibility>, Failure> {
        let Some(granted) = &self.granted else { return Ok(None) };
        if granted.basis != Basis::References {
            return Ok(None);
        }
        let (user, requested) = (&granted.caller.user, granted.line.attributes());
        let sight = Visibility::of(&granted.access, user, &requested);
        sight.map(Some).ok_or_else(|| refusal(user, &requested))
    }

    /// Holds on to the permit while a stream is open.
    pub(crate) fn hold(&self, world: &WorldHandle) -> Hold {
        Hold::new(self, world)
    }
}

impl AuthorizedRequest {
    /// Passes if it holds in a state that is not older than what the decision knew.
    fn check(&self, state: &World, waited: bool) -> Result<(), Failure> {
        if !self.caller.credential.stands(state, waited) {
            return Err(unauthorized());
        }
        let generation = self.access.revocations().generation();
        if generation != self.generation && !self.still_acts() {
            return Err(self.lost(|| unauthorized_to_act(&self.caller.user)));
        }
        if self.holds(state, generation) {
            return Ok(());
        }
        Err(self.lost(|| refusal(&self.caller.user, &self.line.attributes())))
    }

    /// What is said where what allowed it is gone. A webhook that was not asked might allow it by now, and cannot be
    /// asked here: the client is to ask again.
    fn lost(&self, refused: impl FnOnce() -> Failure) -> Failure {
        if !self.access.asks_webhooks() {
            return refused();
        }
        Failure::new(429, "TooManyRequests", "what allowed this is gone; ask again")
            .with(Details { retry_after_seconds: 1, ..Details::default() })
    }

    fn holds(&self, state: &World, generation: u64) -> bool {
        let user = &*self.caller.user;
        match self.basis {
            Basis::Roles if generation == self.generation => true,
            Basis::Roles => {
                let requested = self.line.attributes();
                let may = |requested: tenure_rbac::RequestAttributes<'_>| {
                    self.access.has_role(user, &requested)
                };
                may(requested) && self.also.is_none_or(|verb| may(with_verb(requested, verb)))
            }
            Basis::Node => {
                let selected = self.line.selected_node();
                let requested = self.line.attributes();
                self.access.asks_node()
                    && node::may(state, user, &requested, selected.as_deref()) == Some(Ok(()))
            }
            Basis::Reference => {
                let references = self.access.reference_authorizer();
                let may = || references.still_may(user, &self.line.attributes());
                (self.access.asks_references() && may()) || self.has_role()
            }
            Basis::References => {
                let Some(path) = self.line.resource() else { return false };
                let references = self.access.reference_authorizer();
                self.access.asks_references()
                    && references.consumes(user, &path.group, &path.resource)
            }
            // Streams ask the webhook again themselves; what is short holds.
            Basis::Webhook => self.access.epoch() == self.epoch,
            Basis::Everything => self.access.allows_everything(),
        }
    }

    /// Whether a role allows it by now.
    fn has_role(&self) -> bool {
        self.access.has_role(&self.caller.user, &self.line.attributes())
    }

    /// Whether who acts as somebody else still may.
    fn still_acts(&self) -> bool {
        let Some(Impersonator { user, headers, .. }) = &self.caller.impersonator else {
            return true;
        };
        let nobody = Consultation::default();
        let acts = impersonate(user, headers, &self.line.attributes(), &self.access, &nobody);
        // What only a webhook could say does not count here.
        !nobody.has_open() && self.is_who_acts(acts)
    }

    fn is_who_acts(&self, acts: Result<Option<Acting>, Failure>) -> bool {
        acts.is_ok_and(|acting| acting.is_some_and(|acting| acting.user == *self.caller.user))
    }

    /// Whether all that webhooks have let pass they would let pass now; asks them, unless what they said still counts.
    async fn passes_webhooks(&self, state: &World) -> bool {
        let consultation = Consultation::default();
        let (access, user, line) = (&self.access, &self.caller.user, &self.line);
        if let Some(Impersonator { user, headers, .. }) = &self.caller.impersonator {
            let attributes = line.attributes();
            let acting = || impersonate(user, headers, &attributes, access, &consultation);
            if !self.is_who_acts(consultation.settle(acting).await) {
                return false;
            }
            consultation.forget();
        }
        let selected = || line.selected_node();
        let question = AccessQuestion {
            node: node::node_of(user).map(|_| (state, selected())),
            ..AccessQuestion::of_line(line, true)
        };
        match consultation.decide(access, user, &question).await {
            Ok(_) => {}
            // What is seen of a part is seen because nobody allows the whole.
            Err(why) if self.basis == Basis::References && why.is_silent() => {}
            Err(_) => return false,
        }
        let Some(verb) = self.also else { return true };
        let also = AccessQuestion {
            attributes: with_verb(line.attributes(), verb),
            references: false,
            ..AccessQuestion::of_line(line, true)
        };
        consultation.decide(access, user, &also).await.is_ok()
    }

    /// A newer state, if the permit may have begun after this one.
    fn began_after(&self, state: &World) -> Option<Revision> {
        if self.basis != Basis::Reference {
            return None;
        }
        let (user, requested) = (&self.caller.user, self.line.attributes());
        let references = self.access.reference_authorizer();
        let moved = references.moved_after_state(user, &requested, state.revision());
        let began = (moved.gained || moved.forgotten) && !self.has_role();
        began.then_some(moved.newest)
    }
}

fn with_verb<'a>(
    requested: tenure_rbac::RequestAttributes<'a>,
    other: &'static str,
) -> tenure_rbac::RequestAttributes<'a> {
    use tenure_rbac::RequestAttributes::{Path, Resource};
    match requested {
        Resource { group, resource, subresource, namespace, name, .. } => {
            Resource { verb: other, group, resource, subresource, namespace, name }
        }
        Path { path, .. } => Path { verb: other, path },
    }
}

fn unauthorized_to_act(user: &User) -> Failure {
    let why = format!("the right to act as {:?} is gone", user.name);
    Failure::forbidden("", "", "", &why)
}

fn too_new(revision: Revision, current: Revision) -> Failure {
    let message = format!("Timeout: Too large resource version: {revision}, current: {current}");
    Failure::new(504, "Timeout", message).with(Details {
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
        ..Details::default()
    })
}
