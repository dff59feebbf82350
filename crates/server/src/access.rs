//! Who may do what: a chain of authorizers, fed in lock step with the log (R154, R155).
//!
//! ```text
//!   commit ──► Feed ──► Rbac (a copy that shares what stays) ──► judge(user, question)
//!                └────► what is referenced ──────────────────────────┤
//!   configuration ──► order of authorizers, webhooks among them ─────┘
//! ```
//!
//! A grant or its removal holds from the commit on; there is no window in which an old one still reads.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tenure_machinery::{Failure, Object};
use tenure_rbac::{Rbac, RbacDecision, RequestAttributes, Requester, Role, RoleBinding};
use tenure_world::{Change, LockStep, Record, World};
use tokio::sync::watch;

use crate::authenticate::User;
use crate::authorize::configuration::AuthorizationConfiguration;
use crate::authorize::{
    AccessQuestion, AuthorizationMetrics, Authorizer, AuthorizerOrder, Consultation,
    WebhookEndpoint, WebhookVerdict,
};
use crate::node;
use crate::permit::Basis;
use crate::reference::{self, AuthorizerMode, ReferenceAuthorizer, ReferenceOptions};
use crate::registry::ServedKinds;
use crate::revocation::Revocations;

/// The authorizers as they are now.
pub struct AuthorizerChain {
    order: ArcSwap<AuthorizerOrder>,
    /// Tells of each new order.
    reordered: watch::Sender<u64>,
    metrics: Arc<AuthorizationMetrics>,
    rbac: ArcSwap<Rbac>,
    references_index: ReferenceAuthorizer,
    settings: ReferenceOptions,
    revocations: Revocations,
}

/// What was allowed, by what and why.
#[derive(Clone, Debug)]
pub(crate) struct AccessGrant {
    /// What allows it.
    pub(crate) basis: Basis,
    /// Why, in a few words; may be empty. What references allow has its reason looked up by
    /// [`AuthorizerChain::reason`].
    pub(crate) reason: String,
    /// Whether a webhook has let it pass: it is asked again while a stream is open.
    pub(crate) by_webhook: bool,
}

/// Why something is not allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessRefusal {
    /// What authorizers had to say.
    reasons: Vec<String>,
    /// What went wrong, of which clients are told with 500.
    errors: Vec<String>,
    /// Whether somebody denied it; then nobody else was asked.
    pub(crate) is_denied: bool,
}

/// What came of a question.
pub(crate) enum AccessJudgement {
    Allowed(AccessGrant),
    Refused(AccessRefusal),
    /// A webhook has to be asked first.
    Open,
}

impl AccessRefusal {
    /// Nobody could say.
    pub(crate) fn failed(why: &str) -> AccessRefusal {
        AccessRefusal { errors: vec![why.to_owned()], ..AccessRefusal::default() }
    }

    /// What authorizers had to say, for the client.
    pub(crate) fn reason(&self) -> String {
        self.reasons.join("\n")
    }

    /// Whether somebody could not say.
    pub(crate) fn is_failure(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Whether nobody allowed it, and nobody had anything against it.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_denied && self.errors.is_empty()
    }

    /// What went wrong; empty where nothing did.
    pub(crate) fn error(&self) -> String {
        self.errors.join("; ")
    }
}

impl AuthorizerChain {
    /// Nobody may do anything yet; references are treated as said.
    #[must_use]
    pub fn new(settings: ReferenceOptions) -> AuthorizerChain {
        let metrics = Arc::default();
        // The usual order calls nobody, so nothing about it can be wrong.
        let order = AuthorizerOrder::usual(&metrics);
        AuthorizerChain {
            order: ArcSwap::from_pointee(order),
            reordered: watch::Sender::new(0),
            metrics,
            rbac: ArcSwap::default(),
            references_index: ReferenceAuthorizer::new(settings),
            settings,
            revocations: Revocations::default(),
        }
    }

    /// Asks these authorizers from now on, in this order; `endpoints` are those of the webhooks, as they come.
    ///
    /// # Errors
    /// A webhook cannot be called as it is said; then everything stays as it was.
    pub fn configure(
        &self,
        configuration: &AuthorizationConfiguration,
        endpoints: Vec<WebhookEndpoint>,
    ) -> Result<(), String> {
        let epoch = self.order.load().epoch.saturating_add(1);
        let order = AuthorizerOrder::new(configuration, endpoints, &self.metrics, epoch)?;
        self.order.store(Arc::new(order));
        self.reordered.send_replace(epoch);
        // What others allowed before is looked at again.
        self.revocations.note();
        Ok(())
    }

    /// Counts that a changed configuration was read, whether it is in force or not.
    pub fn count_reload(&self, ok: bool) {
        self.metrics.reloaded(ok);
    }

    /// Shows which text of the configuration is in force.
    pub fn show_configuration(&self, text: &[u8]) {
        self.metrics.in_force(text);
    }

    pub(crate) fn metrics(&self) -> &AuthorizationMetrics {
        &self.metrics
    }

    /// The authorizers of this moment.
    pub(crate) fn order(&self) -> Arc<AuthorizerOrder> {
        self.order.load_full()
    }

    /// Grows with each change of the order.
    pub(crate) fn epoch(&self) -> u64 {
        self.order.load().epoch
    }

    /// Wakes after each change of the order.
    pub(crate) fn reordered(&self) -> watch::Receiver<u64> {
        self.reordered.subscribe()
    }

    /// Whether somebody may have to be waited for.
    pub(crate) fn asks_webhooks(&self) -> bool {
        self.order.load().asks_webhooks()
    }

    /// Whether what references lead to counts.
    pub(crate) fn asks_references(&self) -> bool {
        self.order.load().has(|one| matches!(one, Authorizer::Reference))
    }

    /// Whether what nodes may do by themselves counts.
    pub(crate) fn asks_node(&self) -> bool {
        self.order.load().has(|one| matches!(one, Authorizer::Node))
    }

    /// Whether everybody may do everything that nobody denies.
    pub(crate) fn allows_everything(&self) -> bool {
        self.order.load().has(|one| matches!(one, Authorizer::AlwaysAllow))
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

    /// How often roles and bindings were taken away.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// What references allow.
    pub(crate) fn reference_authorizer(&self) -> &ReferenceAuthorizer {
        &self.references_index
    }

    /// Asks everybody in order: the first who allows or denies ends it (R154).
    ///
    /// What webhooks have answered is looked up in the consultation, and what they have to answer is noted there;
    /// without one it stays open.
    pub(crate) fn judge(
        &self,
        user: &User,
        question: &AccessQuestion<'_>,
        consultation: Option<&Consultation>,
    ) -> AccessJudgement {
        let requested = &question.attributes;
        let observes = question.references && self.settings.authorizer == AuthorizerMode::Observe;
        let judged = self.judge_in_order(user, question, consultation);
        // Who only observes wants to know of what others allow as well.
        let counts =
            matches!(&judged, AccessJudgement::Allowed(grant) if grant.basis == Basis::Roles);
        if observes && counts && self.asks_references() {
            self.references_index.may(user, requested);
        }
        judged
    }

    /// Why something was allowed, for somebody who reads it.
    pub(crate) fn reason(
        &self,
        grant: &AccessGrant,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> String {
        match grant.basis {
            Basis::Reference => self.references_index.reason(user, requested),
            _ => grant.reason.clone(),
        }
    }

    fn judge_in_order(
        &self,
        user: &User,
        question: &AccessQuestion<'_>,
        consultation: Option<&Consultation>,
    ) -> AccessJudgement {
        let who = who(user);
        let mut by_webhook = false;
        let allowed = |basis, reason, by_webhook| {
            AccessJudgement::Allowed(AccessGrant { basis, reason, by_webhook })
        };
        if who.is_master() {
            return allowed(Basis::Roles, String::new(), false);
        }
        let requested = &question.attributes;
        let mut refusal = AccessRefusal::default();
        for one in &self.order.load().all {
            let verdict = match &one.authorizer {
                Authorizer::Rbac => match self.rbac.load().allows(&who, requested) {
                    RbacDecision::Allow(granted) => {
                        Some((Basis::Roles, format!("RBAC: allowed by {granted}")))
                    }
                    RbacDecision::NoOpinion => None,
                },
                Authorizer::Reference if question.references => {
                    let allowed = self.references_index.may(user, requested);
                    allowed.then(|| (Basis::Reference, String::new()))
                }
                Authorizer::Reference => None,
                Authorizer::Node => match self.judge_node(user, question) {
                    Some(Ok(())) => Some((Basis::Node, "Node: allowed".to_owned())),
                    Some(Err(why)) => {
                        refusal.reasons.extend(Some(why).filter(|why| !why.is_empty()));
                        None
                    }
                    None => None,
                },
                Authorizer::AlwaysAllow => Some((Basis::Everything, String::new())),
                Authorizer::AlwaysDeny => {
                    refusal.reasons.push(format!("{}: Everything is forbidden.", one.name));
                    None
                }
                Authorizer::Webhook(webhook) => match webhook.judge(user, question, consultation) {
                    WebhookVerdict::Open => return AccessJudgement::Open,
                    WebhookVerdict::Unconcerned => None,
                    WebhookVerdict::Allow(reason) => {
                        by_webhook = true;
                        Some((Basis::Webhook, reason))
                    }
                    WebhookVerdict::Deny { reason, error } => {
                        one.denied.inc();
                        refusal.reasons =
                            Some(reason).filter(|why| !why.is_empty()).into_iter().collect();
                        refusal.errors = error.into_iter().collect();
                        refusal.is_denied = true;
                        return AccessJudgement::Refused(refusal);
                    }
                    WebhookVerdict::NoOpinion { reason, error } => {
                        by_webhook = true;
                        if !reason.is_empty() {
                            refusal.reasons.push(format!("{}: {reason}", one.name));
                        }
                        refusal.errors.extend(error);
                        None
                    }
                },
            };
            if let Some((basis, reason)) = verdict {
                one.allowed.inc();
                return allowed(basis, reason, by_webhook);
            }
        }
        AccessJudgement::Refused(refusal)
    }

    fn judge_node(&self, user: &User, question: &AccessQuestion<'_>) -> Option<Result<(), String>> {
        let (state, selected) = question.node.as_ref()?;
        node::may(state, user, &question.attributes, selected.as_deref())
    }

    /// Whether a role allows it, or membership of `system:masters`; nobody else is asked.
    #[must_use]
    pub fn has_role(&self, user: &User, requested: &RequestAttributes<'_>) -> bool {
        let who = who(user);
        let counts = || self.order.load().has(|one| matches!(one, Authorizer::Rbac));
        who.is_master() || (counts() && self.rbac.load().allows(&who, requested).is_allowed())
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

/// What a client is told who may not do it: 403 with what authorizers said, or with a hint where they said nothing;
/// 500 where one of them could not say.
#[must_use]
pub(crate) fn refused(
    user: &User,
    requested: &RequestAttributes<'_>,
    why: &AccessRefusal,
    hint: &str,
) -> Failure {
    let error = why.error();
    if !error.is_empty() {
        return Failure::internal(format!("authorization failed: {error}"));
    }
    let mut failure = refusal(user, requested);
    let reason = why.reason();
    let said = if reason.is_empty() { hint } else { &reason };
    if !said.is_empty() {
        failure.message = format!("{}: {said}", failure.message);
    }
    failure
}

/// 403 in the words clients know.
#[must_use]
pub(crate) fn refusal(user: &User, requested: &RequestAttributes<'_>) -> Failure {
    match requested {
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
