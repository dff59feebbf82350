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

use crate::access::{AuthorizerChain, refusal};
use crate::authenticate::{User, impersonate, unauthorized};
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
    pub(crate) fn new(
        user: Arc<User>,
        credential: Credential,
        headers: &HeaderMap,
        attributes: &tenure_rbac::RequestAttributes<'_>,
        access: &AuthorizerChain,
    ) -> Result<Caller, Failure> {
        let Some(acting) = impersonate(&user, headers, attributes, access)? else {
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
    /// A verb that is needed as well.
    also: Option<&'static str>,
    /// The revocations that the decision knew of.
    generation: u64,
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

    /// A request was allowed; `generation` is that of [`AuthorizerChain::revocations`] from before the decision.
    pub(crate) fn new(
        access: &Arc<AuthorizerChain>,
        line: &Arc<RequestLine>,
        caller: Caller,
        basis: Basis,
        generation: u64,
    ) -> Permit {
        let (access, line) = (Arc::clone(access), Arc::clone(line));
        let granted = AuthorizedRequest { access, line, caller, basis, also: None, generation };
        Permit { granted: Some(Arc::new(granted)) }
    }

    /// The same permit, for which a further verb is needed.
    pub(crate) fn also(&self, verb: &'static str) -> Result<Permit, Failure> {
        let Some(granted) = &self.granted else { return Ok(self.clone()) };
        let also = with_verb(granted.line.attributes(), verb);
        let (access, user) = (&granted.access, &granted.caller.user);
        let generation = access.revocations().generation();
        if access.may_without_references(user, &also).is_none() {
            return Err(refusal(user, &also));
        }
        let granted = AuthorizedRequest {
            access: Arc::clone(access),
            line: Arc::clone(&granted.line),
            caller: granted.caller.clone(),
            basis: granted.basis,
            also: Some(verb),
            generation: generation.min(granted.generation),
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
            Basis::Roles | Basis::References => true,
            Basis::Node => match world.at(revision) {
                Ok(past) => granted.holds(&past, granted.generation),
                Err(RevisionError::Compacted(_)) => false,
                Err(RevisionError::Future(_)) => true,
            },
            Basis::Reference => {
                let (user, asked) = (&granted.caller.user, granted.line.attributes());
                let moved =
                    granted.access.reference_authorizer().moved_after(user, &asked, revision);
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
        let (user, asked) = (&granted.caller.user, granted.line.attributes());
        let sight = Visibility::of(&granted.access, user, &asked);
        sight.map(Some).ok_or_else(|| refusal(user, &asked))
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
            return Err(unauthorized_to_act(&self.caller.user));
        }
        if self.holds(state, generation) {
            return Ok(());
        }
        Err(refusal(&self.caller.user, &self.line.attributes()))
    }

    fn holds(&self, state: &World, generation: u64) -> bool {
        let user = &*self.caller.user;
        match self.basis {
            Basis::Roles if generation == self.generation => true,
            Basis::Roles => {
                let asked = self.line.attributes();
                let may = |asked: tenure_rbac::RequestAttributes<'_>| {
                    self.access.may_without_references(user, &asked).is_some()
                };
                may(asked) && self.also.is_none_or(|verb| may(with_verb(asked, verb)))
            }
            Basis::Node => {
                let selected = self.line.selected_node();
                let asked = self.line.attributes();
                node::may(state, user, &asked, selected.as_deref()) == Some(Ok(()))
            }
            Basis::Reference => {
                let references = self.access.reference_authorizer();
                references.still_may(user, &self.line.attributes()) || self.has_role()
            }
            Basis::References => {
                let Some(path) = self.line.resource() else { return false };
                self.access.reference_authorizer().consumes(user, &path.group, &path.resource)
            }
        }
    }

    /// Whether a role allows it by now.
    fn has_role(&self) -> bool {
        let asked = self.line.attributes();
        self.access.may_without_references(&self.caller.user, &asked).is_some()
    }

    /// Whether who acts as somebody else still may.
    fn still_acts(&self) -> bool {
        let Some(Impersonator { user, headers, .. }) = &self.caller.impersonator else {
            return true;
        };
        let acts = impersonate(user, headers, &self.line.attributes(), &self.access);
        acts.is_ok_and(|acting| acting.is_some_and(|acting| acting.user == *self.caller.user))
    }

    /// A newer state, if the permit may have begun after this one.
    fn began_after(&self, state: &World) -> Option<Revision> {
        if self.basis != Basis::Reference {
            return None;
        }
        let (user, asked) = (&self.caller.user, self.line.attributes());
        let references = self.access.reference_authorizer();
        let moved = references.moved_after_state(user, &asked, state.revision());
        let began = (moved.gained || moved.forgotten) && !self.has_role();
        began.then_some(moved.newest)
    }
}

fn with_verb<'a>(
    asked: tenure_rbac::RequestAttributes<'a>,
    other: &'static str,
) -> tenure_rbac::RequestAttributes<'a> {
    use tenure_rbac::RequestAttributes::{Path, Resource};
    match asked {
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
