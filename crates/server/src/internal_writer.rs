//! The way in for the followers of this process: they read the world and write as their own account.
//!
//! A write goes through the same defaults, admission, validation and sequencer as a client's.
//! It is tried once: whoever decided learns that something moved, and decides again.
//! Where there is an audit log, each write is a line there like a client's (ownership R148).
//! Nothing here decides what to write.

mod prepared;
mod write_target;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::{PolicyRule, RoleChange};
use tenure_token::{LegacyClaims, issue_legacy};
use tenure_world::{Precondition, Proposal, Record, WorldHandle};
use tokio::sync::watch;

use prepared::{committed, note};

use crate::admit::policy::{self, AdmissionAttributes};
use crate::admit::{self, Operation};
use crate::aggregate::{self, RemoteDiscovery};
use crate::api::{ApiServer, no_such_resource};
use crate::audit::AuditContext;
use crate::authenticate::User;
use crate::conversion::version_of;
use crate::internal::{self, OPTIONS};
use crate::pods;
use crate::query::Query;
use crate::registry::{Registry, ServedKind};
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::system_objects;
use crate::write::commit::Extras;
use crate::write::managed::ManagedFieldsMode;
use crate::write::stages::StoredObject;
use crate::write::update::{self, UpdateOutcome};
use crate::write::{apply, create, decode};

pub use prepared::{PrepareOutcome, PreparedWrite, SubmittedWrite};
pub use write_target::{WriteTarget, owner};

pub use crate::write::delete::RequestedPropagation;
pub use tenure_kinds::retention::OPTED_IN_TEXT;

/// Who a follower writes as.
#[derive(Clone, Copy, Debug)]
pub struct Actor {
    /// Its account in `kube-system`, such as `generic-garbage-collector`; with a colon in it, a whole user
    /// name such as `system:apiserver`.
    pub account: &'static str,
    /// The name its fields are managed under.
    pub manager: &'static str,
}

/// An object that every cluster has.
#[derive(Debug)]
pub struct BootstrapObject {
    /// The API group.
    pub group: &'static str,
    /// The resource.
    pub resource: &'static str,
    /// Empty where the resource has no namespaces.
    pub namespace: String,
    /// The object as it is made.
    pub object: Object,
    /// Whether it is put right when somebody edits it.
    pub kept: bool,
}

/// What came of a write.
#[derive(Debug)]
pub enum InternalWriteOutcome {
    /// The object is stored so.
    Stored(Arc<Record>),
    /// The object is gone.
    Gone,
    /// The object, or something the decision relied on, has moved: nothing was written.
    Moved,
}

/// Writes for the followers of this process.
#[derive(Clone)]
pub struct InternalWriter {
    api: Arc<ApiServer>,
    /// Whether what is written is no line in the audit log.
    unaudited: bool,
}

impl InternalWriter {
    /// A writer into this server.
    #[must_use]
    pub fn new(api: Arc<ApiServer>) -> InternalWriter {
        InternalWriter { api, unaudited: false }
    }

    /// A writer for what the server makes before it is ready: nobody could have asked for that.
    pub(crate) fn at_start(api: Arc<ApiServer>) -> InternalWriter {
        InternalWriter { api, unaudited: true }
    }

    /// The server that is written to.
    pub(crate) fn api(&self) -> &Arc<ApiServer> {
        &self.api
    }

    /// The state and its changes.
    #[must_use]
    pub fn world(&self) -> &WorldHandle {
        &self.api.world
    }

    /// Turns true when the server is asked to end.
    #[must_use]
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.api.stop.clone()
    }

    /// The kinds that are served now.
    #[must_use]
    pub fn kinds(&self) -> Arc<Registry> {
        self.api.kinds.current()
    }

    /// The certificate of the cluster's authority, in PEM form.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.api.authority_pem
    }

    /// A token for a service account that counts while this Secret of its namespace holds it, as Secrets
    /// write it (api-server R149).
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn issue_token(
        &self,
        secret: &Record,
        account: &str,
        account_uid: &str,
    ) -> Result<String, Failure> {
        let subject = tenure_token::TokenSubject {
            namespace: secret.namespace().to_owned(),
            name: account.to_owned(),
            uid: account_uid.to_owned(),
        };
        let claims = LegacyClaims { subject, secret: secret.name().to_owned() };
        let token = issue_legacy(&self.api.tokens.keys, &claims).map_err(Failure::internal)?;
        Ok(STANDARD.encode(token))
    }

    /// The certificate that a CertificateSigningRequest asks for, for what this node serves, as its status
    /// has it; or why there is none. `None` where nobody signs.
    #[must_use]
    pub fn sign_certificate(&self, request: &str, node: &str) -> Option<Result<String, String>> {
        let signer = self.api.signer.get()?;
        let text = STANDARD.decode(request).map_err(|error| error.to_string());
        let signed = text.and_then(|text| signer.sign(&String::from_utf8_lossy(&text), node));
        Some(signed.map(|certificate| STANDARD.encode(certificate)))
    }

    /// What does not fit in the expressions of a policy when the kinds that it is about are looked at: entries of
    /// `status.typeChecking.expressionWarnings` (api-server R164d). Takes a thread that may be kept.
    ///
    /// # Errors
    /// Too much else waits to be looked at.
    pub async fn expression_warnings(
        &self,
        actor: Actor,
        record: &Record,
        policy: &Object,
    ) -> Result<Vec<Value>, Failure> {
        let request = self.request(actor, &self.served_as(record)?, "", record.name());
        let (kinds, policy) = (self.kinds(), policy.clone());
        let work = move || policy::expression_warnings(&kinds, &policy);
        self.api.offload.run(&request.user, work).await
    }

    /// What every cluster has (api-server R79).
    #[must_use]
    pub fn system_objects(&self) -> Vec<BootstrapObject> {
        let namespaces =
            system_objects::NAMESPACES.map(|name| (system_objects::namespace(name), false));
        let addresses = (system_objects::service_addresses(&self.api), false);
        let all = namespaces.into_iter().chain([addresses]);
        let all = all.chain(system_objects::namespaced(&self.api));
        all.map(|(wanted, kept)| BootstrapObject {
            group: wanted.group,
            resource: wanted.resource,
            namespace: wanted.namespace,
            object: wanted.object.as_object().cloned().unwrap_or_default(),
            kept,
        })
        .collect()
    }

    /// Asks the server that an APIService names whether it is there; what it says of itself is taken over
    /// (api-server R131e, R131f). None if this server serves the group itself.
    pub async fn check_api_service(&self, name: &str) -> Option<Result<(), String>> {
        let remote = self.kinds().remote.named(name).cloned()?;
        Some(aggregate::check(&self.api, &remote).await)
    }

    /// The server that an APIService names cannot be asked: what it serves is not known any more.
    pub fn forget_api_service(&self, name: &str) {
        if let Some(remote) = self.kinds().remote.named(name) {
            self.api.kinds.learn(remote, RemoteDiscovery::default());
        }
    }

    /// The names of the ClusterRoles that do not hold the rules they gather, with those rules (api-server
    /// R157a).
    #[must_use]
    pub fn gathered_rules(&self) -> Vec<(String, Vec<Value>)> {
        let gathered = self.api.access.rbac().aggregates(RoleChange::None);
        let values = |rules: Vec<PolicyRule>| rules.iter().map(PolicyRule::to_value).collect();
        gathered.into_iter().map(|(name, rules)| (name, values(rules))).collect()
    }

    /// The key that an object of a built-in resource is stored under.
    ///
    /// # Errors
    /// There is no such resource.
    pub fn key(&self, at: (&str, &str), namespace: &str, name: &str) -> Result<String, Failure> {
        Ok(internal::find(&self.api, at.0, at.1)?.key(namespace, name))
    }

    /// What a stored object says.
    ///
    /// # Errors
    /// Nothing of its kind is served.
    pub fn read(&self, record: &Record) -> Result<Object, Failure> {
        self.served_as(record)?.read(record)
    }

    /// Creates an object of a built-in resource, in any version of its group.
    ///
    /// # Errors
    /// What a client would be told.
    pub async fn create(
        &self,
        actor: Actor,
        (group, resource): (&str, &str),
        namespace: &str,
        object: Object,
        relied_on: Vec<Precondition>,
    ) -> Result<Arc<Record>, Failure> {
        let served = internal::find(&self.api, group, resource)?;
        let mut request = self.request(actor, &served, namespace, "");
        request.relied_on = relied_on;
        let mut trail = self.trail(&request, "create");
        let made = self.make(&mut request, object).await;
        if let Ok(record) = &made {
            record.name().clone_into(&mut request.name);
            trail.handled(&request);
        }
        trail.close(made.as_ref().map(|_| 201));
        made
    }

    async fn make(
        &self,
        request: &mut ResourceRequest,
        mut object: Object,
    ) -> Result<Arc<Record>, Failure> {
        decode::check_schema(&request.served, &mut object).map_err(Failure::internal)?;
        decode::settle_namespace(request, &mut object)?;
        let made =
            create::from_object(&self.api, request, &OPTIONS, object, ManagedFieldsMode::Written)
                .await?;
        match made {
            ResponseObject::Record(record) => Ok(record),
            ResponseObject::Object(_) => Err(Failure::internal("a commit without its object")),
        }
    }

    /// Replaces an object as it stands in `record`, or one of its subresources, such as `status`;
    /// through `binding`, `new` is a Binding.
    ///
    /// # Errors
    /// What a client would be told.
    pub async fn update(
        &self,
        actor: Actor,
        record: &Arc<Record>,
        subresource: &str,
        new: Object,
        relied_on: Vec<Precondition>,
    ) -> Result<InternalWriteOutcome, Failure> {
        let served = self.served_as(record)?;
        let mut request = self.request(actor, &served, record.namespace(), record.name());
        subresource.clone_into(&mut request.subresource);
        if subresource == "binding" {
            let trail = self.trail(&request, "create");
            let mut new = new;
            let subject = AdmissionAttributes {
                operation: Operation::Create,
                old: None,
                new: None,
                dry_run: false,
                kind: Some(("", "v1", "Binding")),
                options: None,
            };
            let reviewed = admit::review(&self.api, &mut request, subject, Some(&mut new)).await;
            if let Err(failure) = reviewed {
                trail.close(Err(&failure));
                return Err(failure);
            }
            let extras = Extras { guards: relied_on, writes: Vec::new() };
            let bound = pods::assign(&self.api, &served, record, &new, extras, false).await;
            let came = bound.map(|bound| {
                bound.map_or(InternalWriteOutcome::Moved, InternalWriteOutcome::Stored)
            });
            note(trail, 201, &came);
            return came;
        }
        request.relied_on = relied_on;
        let trail = self.trail(&request, "update");
        let came = self.replace(&mut request, record, new).await;
        note(trail, 200, &came);
        came
    }

    async fn replace(
        &self,
        request: &mut ResourceRequest,
        record: &Arc<Record>,
        new: Object,
    ) -> Result<InternalWriteOutcome, Failure> {
        let live = StoredObject::read(&self.api, request, record).await?;
        let stored =
            update::store(&self.api, request, &OPTIONS, live, new, ManagedFieldsMode::Written)
                .await?;
        Ok(match stored {
            UpdateOutcome::Done(ResponseObject::Record(record)) => {
                InternalWriteOutcome::Stored(record)
            }
            UpdateOutcome::Done(ResponseObject::Object(_)) => InternalWriteOutcome::Gone,
            UpdateOutcome::Moved | UpdateOutcome::Again => InternalWriteOutcome::Moved,
        })
    }

    /// Applies a configuration of a cluster-wide object by force.
    ///
    /// # Errors
    /// What a client would be told.
    pub async fn apply(
        &self,
        actor: Actor,
        (group, resource): (&str, &str),
        config: Object,
    ) -> Result<(), Failure> {
        let served = internal::find(&self.api, group, resource)?;
        let mut request = self.request(actor, &served, "", config.name());
        let options = format!("fieldManager={}&force=true", actor.manager);
        request.query = Query::parse(Some(&options));
        request.body = Bytes::from(Value::Object(config).to_string());
        let trail = self.trail(&request, "patch");
        let applied = apply::apply(&self.api, &mut request).await;
        trail.close(applied.as_ref().map(|_| 200));
        applied.map(|_| ())
    }

    /// Deletes an object as it stands in `record`, if what the decision relied on still holds.
    ///
    /// # Errors
    /// What a client would be told.
    pub async fn delete(
        &self,
        actor: Actor,
        record: &Arc<Record>,
        propagation: Option<RequestedPropagation>,
        grace_seconds: Option<i64>,
        relied_on: Vec<Precondition>,
    ) -> Result<InternalWriteOutcome, Failure> {
        let standing = WriteTarget::Stored(record);
        let prepared =
            self.prepare_delete(actor, &standing, propagation, grace_seconds, relied_on)?;
        match prepared {
            PrepareOutcome::Nothing => Ok(InternalWriteOutcome::Stored(Arc::clone(record))),
            PrepareOutcome::Early => Ok(InternalWriteOutcome::Moved),
            PrepareOutcome::Ready(ready) => self.submit(ready)?.outcome().await,
        }
    }

    /// Deletes an object whose time is over, as it stands in `record`.
    ///
    /// Upstream's store does that by itself: it is nobody's request, so nothing is admitted or audited.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn expire(&self, record: &Record) -> Result<InternalWriteOutcome, Failure> {
        let proposal = Proposal::delete(Arc::clone(record.key()), record.revision());
        committed(true, self.api.world.propose(proposal).await)
    }

    /// The line of a write in the audit log; nothing where there is none.
    fn trail(&self, request: &ResourceRequest, verb: &'static str) -> AuditContext {
        let audit = self.api.audit.as_ref().filter(|_| !self.unaudited);
        AuditContext::within(audit, request, verb, || self.api.chance.uid())
    }

    /// The kind of a record, in the version that it is stored in: nobody converts here.
    fn served_as(&self, record: &Record) -> Result<Arc<ServedKind>, Failure> {
        self.kinds().stored_as(record).ok_or_else(no_such_resource)
    }

    /// The same of an object that a write is about.
    fn served_at(&self, target: &WriteTarget<'_>) -> Result<Arc<ServedKind>, Failure> {
        match target {
            WriteTarget::Stored(record) => self.served_as(record),
            WriteTarget::Ahead { key, object } => {
                let kinds = self.kinds();
                let served = kinds.stored_at(key).ok_or_else(no_such_resource)?;
                Ok(served.in_stored_version(version_of(object)))
            }
        }
    }

    fn request(
        &self,
        actor: Actor,
        served: &Arc<ServedKind>,
        namespace: &str,
        name: &str,
    ) -> ResourceRequest {
        let mut request = internal::request(served, namespace, name, actor.manager);
        let name = match actor.account {
            whole if whole.contains(':') => whole.to_owned(),
            account => format!("system:serviceaccount:kube-system:{account}"),
        };
        request.user = Arc::new(User { name, ..User::clone(&request.user) });
        request
    }
}
