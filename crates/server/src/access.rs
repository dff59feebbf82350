//! Who may do what: a chain of authorizers, fed in lock step with the log (R154, R155).
//!
//! ```text
//!   commit ──► Feed ──► Rbac (a copy that shares what stays) ──► may(user, asked)
//!                └────► what is referenced ─────────────────────────┘
//! ```
//!
//! A grant or its removal holds from the commit on; there is no window in which an old one still reads.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tenure_machinery::{Failure, Object};
use tenure_rbac::{Rbac, RbacDecision, RequestAttributes, Requester, Role, RoleBinding};
use tenure_world::{Change, LockStep, Record, World};

use crate::authenticate::User;
use crate::permit::Basis;
use crate::reference::{self, AuthorizerMode, ReferenceAuthorizer, ReferenceOptions};
use crate::registry::ServedKinds;
use crate::revocation::Revocations;

/// The authorizers as they stand.
#[derive(Default)]
pub struct AuthorizerChain {
    rbac: ArcSwap<Rbac>,
    standing: ReferenceAuthorizer,
    settings: ReferenceOptions,
    revocations: Revocations,
}

impl AuthorizerChain {
    /// Nobody may do anything yet; references are treated as said.
    #[must_use]
    pub fn new(settings: ReferenceOptions) -> AuthorizerChain {
        AuthorizerChain {
            standing: ReferenceAuthorizer::new(settings),
            settings,
            ..AuthorizerChain::default()
        }
    }

    /// How references are treated.
    #[must_use]
    pub fn references(&self) -> ReferenceOptions {
        self.settings
    }

    /// The roles and bindings of this moment.
    #[must_use]
    pub fn rbac(&self) -> Arc<Rbac> {
        self.rbac.load_full()
    }

    /// Why the user may do it; `None` when nothing allows it.
    #[must_use]
    pub fn may(&self, user: &User, asked: &RequestAttributes<'_>) -> Option<String> {
        self.decide(user, asked).map(|(_, reason)| reason)
    }

    /// As [`AuthorizerChain::may`], with what allows it.
    pub(crate) fn decide(
        &self,
        user: &User,
        asked: &RequestAttributes<'_>,
    ) -> Option<(Basis, String)> {
        let held = self.may_without_references(user, asked).map(|why| (Basis::Roles, why));
        // Who only observes wants to know of what roles allow as well.
        if held.is_some() && self.settings.authorizer != AuthorizerMode::Observe {
            return held;
        }
        held.or(self.standing.may(user, asked).map(|why| (Basis::Reference, why)))
    }

    /// How often roles and bindings were taken away.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// What references allow.
    pub(crate) fn reference_authorizer(&self) -> &ReferenceAuthorizer {
        &self.standing
    }

    /// As [`AuthorizerChain::may`], but what the user may do only because something refers to it does not count
    /// (referential authorization R104).
    #[must_use]
    pub fn may_without_references(
        &self,
        user: &User,
        asked: &RequestAttributes<'_>,
    ) -> Option<String> {
        let who = who(user);
        if who.is_master() {
            return Some(String::new());
        }
        match self.rbac.load().allows(&who, asked) {
            RbacDecision::Allow(granted) => Some(format!("RBAC: allowed by {granted}")),
            RbacDecision::NoOpinion => None,
        }
    }

    /// Passes, or says what was missing, without a word on whether the object exists.
    pub fn authorize(&self, user: &User, asked: &RequestAttributes<'_>) -> Result<(), Failure> {
        match self.may(user, asked) {
            Some(_) => Ok(()),
            None => Err(refusal(user, asked)),
        }
    }

    /// The index of references that must be handed to the world, after those of the kinds and of roles.
    #[must_use]
    pub fn reference_feed(
        self: &Arc<AuthorizerChain>,
        kinds: &Arc<ServedKinds>,
    ) -> Box<dyn LockStep> {
        Box::new(reference::ReferenceUpdater::new(Arc::clone(self), Arc::clone(kinds)))
    }

    /// The index that must be handed to the world.
    #[must_use]
    pub fn feed(self: &Arc<AuthorizerChain>) -> Box<dyn LockStep> {
        Box::new(RbacUpdater { access: Arc::clone(self) })
    }
}

/// The user in the words of the engine.
#[must_use]
pub(crate) fn who(user: &User) -> Requester<'_> {
    Requester { user: &user.name, groups: &user.groups }
}

/// 403 in the words clients know.
#[must_use]
pub(crate) fn refusal(user: &User, asked: &RequestAttributes<'_>) -> Failure {
    match asked {
        RequestAttributes::Path { verb, path } => {
            let why = format!("User \"{}\" cannot {verb} path \"{path}\"", user.name);
            Failure::forbidden("", "", "", &why)
        }
        RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let full = match *subresource {
                "" => (*resource).to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            let place = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            let why = format!(
                "User \"{}\" cannot {verb} resource \"{full}\" in API group \"{group}\" {place}",
                user.name
            );
            Failure::forbidden(group, resource, name, &why)
        }
    }
}

struct RbacUpdater {
    access: Arc<AuthorizerChain>,
}

/// What a key is to the authorizers.
#[derive(Clone, Copy)]
enum RbacKind {
    Role,
    Binding,
}

fn kept(key: &str) -> Option<RbacKind> {
    let rest = key.strip_prefix("/registry/")?;
    if rest.starts_with("roles/") || rest.starts_with("clusterroles/") {
        return Some(RbacKind::Role);
    }
    if rest.starts_with("rolebindings/") || rest.starts_with("clusterrolebindings/") {
        return Some(RbacKind::Binding);
    }
    None
}

impl LockStep for RbacUpdater {
    fn start(&mut self, world: &World) {
        let mut rbac = Rbac::new();
        for prefix in ["clusterroles", "roles", "clusterrolebindings", "rolebindings"] {
            for record in world.range(&format!("/registry/{prefix}/"), None) {
                put(&mut rbac, record);
            }
        }
        self.access.rbac.store(Arc::new(rbac));
    }

    fn apply(&mut self, _world: &World, changes: &[Arc<Change>]) {
        let mut changes = changes.iter().filter(|change| kept(&change.key).is_some()).peekable();
        if changes.peek().is_none() {
            return;
        }
        // What is new takes nothing away.
        let takes_away = changes.clone().any(|change| change.before.is_some());
        let mut rbac = Rbac::clone(&self.access.rbac.load());
        for change in changes {
            match (&change.after, &change.before, kept(&change.key)) {
                (Some(record), _, _) => put(&mut rbac, record),
                (None, Some(gone), Some(RbacKind::Role)) => {
                    rbac.remove_role(gone.namespace(), gone.name());
                }
                (None, Some(gone), Some(RbacKind::Binding)) => {
                    rbac.remove_binding(gone.namespace(), gone.name());
                }
                (None, _, _) => {}
            }
        }
        self.access.rbac.store(Arc::new(rbac));
        if takes_away {
            self.access.revocations.note();
        }
    }
}

fn put(rbac: &mut Rbac, record: &Record) {
    let Ok(object) = serde_json::from_slice::<Object>(record.bytes()) else { return };
    match kept(record.key()) {
        Some(RbacKind::Role) => rbac.put_role(Role::from_object(&object)),
        Some(RbacKind::Binding) => match RoleBinding::from_object(&object) {
            Some(binding) => rbac.put_binding(binding),
            // What cannot be understood grants nothing, and what it granted before is taken back.
            None => rbac.remove_binding(record.namespace(), record.name()),
        },
        None => {}
    }
}
