//! The way in for the followers of this process: they read the world and write as their own account.
//!
//! A write goes through the same defaults, admission, validation and sequencer as a client's.
//! It is tried once: whoever decided learns that something moved, and decides again.
//! Where there is an audit log, each write is a line there like a client's (ownership R148).
//! Nothing here decides what to write.

mod standing;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::{RoleChange, Rule};
use tenure_token::{LegacyClaims, issue_legacy};
use tenure_world::{Guard, Handle, Proposal, Record, Refused, Submission, Write};
use tokio::sync::watch;

use crate::admit::policy::{self, Subject};
use crate::admit::{self, Operation};
use crate::answer::Found;
use crate::api::{Api, no_such_resource};
use crate::audit::Trail;
use crate::authenticate::User;
use crate::clock::now;
use crate::internal::{self, OPTIONS};
use crate::pods;
use crate::query::Query;
use crate::registry::{Registry, Served};
use crate::request::Request;
use crate::system_objects;
use crate::write::commit::{Extras, draft, refused_failure};
use crate::write::decide::{Step, decide};
use crate::write::delete::DeleteOptions;
use crate::write::managed::{self, Fields};
use crate::write::update::{self, Live, Stored};
use crate::write::{apply, create, decode};

pub use standing::{Standing, owner};

pub use crate::write::delete::Propagation;
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
pub enum Written {
    /// The object is stored so.
    Stored(Arc<Record>),
    /// The object is gone.
    Gone,
    /// The object, or something the decision relied on, has moved: nothing was written.
    Moved,
}

/// What a write leaves of an object.
enum Left<'a> {
    /// This.
    Object(Object),
    /// Nothing of this.
    Nothing(&'a Object),
}

/// The members of some metadata that other metadata has not, or not so. What is equal belongs to the same
/// managers before and after an edit, and is most of it.
fn except(metadata: &Object, other: &Object) -> Object {
    let differs = |(name, value): &(&String, &Value)| other.get(*name) != Some(value);
    let copied = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    metadata.iter().filter(differs).map(copied).collect()
}

fn within_metadata(metadata: Object) -> Object {
    Object::from_iter([("metadata".to_owned(), Value::Object(metadata))])
}

/// A write that can be made now, or not.
pub enum Prepared {
    /// Nothing would change.
    Nothing,
    /// It has to wait until the write before it is committed.
    Early,
    /// It can be submitted.
    Ready(Ready),
}

/// A write that can be submitted.
pub struct Ready {
    after: Option<Arc<Object>>,
    proposal: Proposal,
    trail: Trail,
}

impl Ready {
    /// Says why, for the audit log; nothing is asked where there is none.
    pub fn because(&mut self, why: impl FnOnce() -> String) {
        self.trail.because(why);
    }

    /// What the object will be; `None` when it will be gone.
    #[must_use]
    pub fn after(&self) -> Option<&Arc<Object>> {
        self.after.as_ref()
    }
}

/// A write on its way.
pub struct Submitted {
    gone: bool,
    submission: Submission,
    trail: Trail,
}

impl Submitted {
    /// What came of it.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn outcome(self) -> Result<Written, Failure> {
        let came = match self.submission.await {
            Ok(_) if self.gone => Ok(Written::Gone),
            Ok(committed) => Ok(match committed.record() {
                Some(record) => Written::Stored(Arc::clone(record)),
                None => Written::Gone,
            }),
            Err(Refused::Guard { .. }) => Ok(Written::Moved),
            Err(refused) => Err(refused_failure(&refused)),
        };
        note(self.trail, 200, &came);
        came
    }
}

/// Writes down what came of a write.
fn note(trail: Trail, code: u16, came: &Result<Written, Failure>) {
    match came {
        Ok(Written::Moved) => trail.lost(),
        Ok(Written::Stored(_) | Written::Gone) => trail.close(Ok(code)),
        Err(failure) => trail.close(Err(failure)),
    }
}

/// The door.
#[derive(Clone)]
pub struct Door {
    api: Arc<Api>,
    /// Whether what is written is no line in the audit log.
    unaudited: bool,
}

impl Door {
    /// A door into this server.
    #[must_use]
    pub fn new(api: Arc<Api>) -> Door {
        Door { api, unaudited: false }
    }

    /// A door for what the server writes before it is ready: nobody could have asked for that.
    pub(crate) fn at_start(api: Arc<Api>) -> Door {
        Door { api, unaudited: true }
    }

    /// The state and its changes.
    #[must_use]
    pub fn world(&self) -> &Handle {
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
        let subject = tenure_token::Subject {
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

    /// What every cluster has (api-server R79).
    #[must_use]
    pub fn system_objects(&self) -> Vec<BootstrapObject> {
        let namespaces =
            system_objects::NAMESPACES.map(|name| (system_objects::namespace(name), false));
        let all = namespaces.into_iter().chain(system_objects::namespaced(&self.api));
        all.map(|(wanted, kept)| BootstrapObject {
            group: wanted.group,
            resource: wanted.resource,
            namespace: wanted.namespace,
            object: wanted.object.as_object().cloned().unwrap_or_default(),
            kept,
        })
        .collect()
    }

    /// The names of the ClusterRoles that do not hold the rules they gather, with those rules (api-server
    /// R157a).
    #[must_use]
    pub fn gathered_rules(&self) -> Vec<(String, Vec<Value>)> {
        let gathered = self.api.access.rbac().aggregates(RoleChange::None);
        let values = |rules: Vec<Rule>| rules.iter().map(Rule::to_value).collect();
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
        self.served(record.key())?.read(record)
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
        relied_on: Vec<Guard>,
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
        request: &mut Request,
        mut object: Object,
    ) -> Result<Arc<Record>, Failure> {
        decode::check_schema(&request.served, &mut object).map_err(Failure::internal)?;
        decode::settle_namespace(request, &mut object)?;
        let made =
            create::from_object(&self.api, request, &OPTIONS, object, Fields::Written).await?;
        match made {
            Found::Record(record) => Ok(record),
            Found::Object(_) => Err(Failure::internal("a commit without its object")),
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
        relied_on: Vec<Guard>,
    ) -> Result<Written, Failure> {
        let served = self.served(record.key())?;
        let mut request = self.request(actor, &served, record.namespace(), record.name());
        subresource.clone_into(&mut request.subresource);
        if subresource == "binding" {
            let trail = self.trail(&request, "create");
            let subject = Subject {
                operation: Operation::Create,
                old: None,
                new: Some(&new),
                dry_run: false,
                kind: Some(("", "v1", "Binding")),
            };
            if let Err(failure) = policy::enforce(&self.api, &mut request, subject).await {
                trail.close(Err(&failure));
                return Err(failure);
            }
            let extras = Extras { guards: relied_on, writes: Vec::new() };
            let bound = pods::assign(&self.api, &served, record, &new, extras, false).await;
            let came = bound.map(|bound| bound.map_or(Written::Moved, Written::Stored));
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
        request: &mut Request,
        record: &Arc<Record>,
        new: Object,
    ) -> Result<Written, Failure> {
        let live = Live::read(&request.served, record)?;
        let stored =
            update::store(&self.api, request, &OPTIONS, live, new, Fields::Written).await?;
        Ok(match stored {
            Stored::Done(Found::Record(record)) => Written::Stored(record),
            Stored::Done(Found::Object(_)) => Written::Gone,
            Stored::Moved | Stored::Again => Written::Moved,
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
        propagation: Option<Propagation>,
        grace_seconds: Option<i64>,
        relied_on: Vec<Guard>,
    ) -> Result<Written, Failure> {
        let standing = Standing::Stored(record);
        let prepared =
            self.prepare_delete(actor, &standing, propagation, grace_seconds, relied_on)?;
        match prepared {
            Prepared::Nothing => Ok(Written::Stored(Arc::clone(record))),
            Prepared::Early => Ok(Written::Moved),
            Prepared::Ready(ready) => self.submit(ready)?.outcome().await,
        }
    }

    /// Makes a deletion ready to be submitted.
    ///
    /// # Errors
    /// What a client would be told.
    pub fn prepare_delete(
        &self,
        actor: Actor,
        standing: &Standing<'_>,
        propagation: Option<Propagation>,
        grace_seconds: Option<i64>,
        relied_on: Vec<Guard>,
    ) -> Result<Prepared, Failure> {
        let served = self.served(standing.key())?;
        let old = standing.object(&served)?;
        let mut request = self.request(actor, &served, old.namespace(), old.name());
        admit::validate(&self.api, &mut request, Operation::Delete, Some(&old), None)
            .and_then(|()| {
                let subject = Subject {
                    operation: Operation::Delete,
                    old: Some(&old),
                    new: None,
                    dry_run: false,
                    kind: None,
                };
                policy::enforce_now(&self.api, &mut request, subject)
            })
            .inspect_err(|failure| self.trail(&request, "delete").close(Err(failure)))?;
        let options = DeleteOptions { propagation, grace_seconds, ..DeleteOptions::default() };
        let left = match decide(&served.kind, self.api.collects_garbage, &options, &old) {
            Step::Keep => return Ok(Prepared::Nothing),
            Step::Mark(object) => Left::Object(object),
            Step::Remove(_) => Left::Nothing(&old),
        };
        self.ready("delete", &request, standing, left, relied_on)
    }

    /// Makes an edit of metadata ready to be submitted; an object that waited for its last finalizer
    /// goes with it (ownership R75).
    ///
    /// Nothing but metadata may change, so nothing else is looked at again.
    ///
    /// # Errors
    /// What a client would be told.
    pub fn prepare_edit(
        &self,
        actor: Actor,
        standing: &Standing<'_>,
        relied_on: Vec<Guard>,
        edit: impl FnOnce(&mut Object),
    ) -> Result<Prepared, Failure> {
        let served = self.served(standing.key())?;
        let old = standing.object(&served)?;
        let mut request = self.request(actor, &served, old.namespace(), old.name());
        let mut new = old.into_owned();
        let unchanged = (!self.api.policies.is_empty()).then(|| new.clone());
        let metadata = new.map_mut("metadata");
        let managers = metadata.remove("managedFields");
        let before = metadata.clone();
        edit(metadata);
        let (was, mut is) = (except(&before, metadata), except(metadata, &before));
        if was.is_empty() && is.is_empty() {
            return Ok(Prepared::Nothing);
        }
        if let Some(old) = &unchanged {
            let subject = Subject {
                operation: Operation::Update,
                old: Some(old),
                new: Some(&new),
                dry_run: false,
                kind: None,
            };
            policy::enforce_now(&self.api, &mut request, subject)
                .inspect_err(|failure| self.trail(&request, "patch").close(Err(failure)))?;
        }
        if update::is_finished(&new) {
            return self.ready("patch", &request, standing, Left::Nothing(&new), relied_on);
        }
        if let Some(managers) = managers {
            is.insert("managedFields".into(), managers);
            let (was, mut is) = (within_metadata(was), within_metadata(is));
            managed::record(&served, Some(&was), &mut is, actor.manager, None, &now());
            if let Some(managers) = is.map_mut("metadata").remove("managedFields") {
                new.map_mut("metadata").insert("managedFields".into(), managers);
            }
        }
        self.ready("patch", &request, standing, Left::Object(new), relied_on)
    }

    fn ready(
        &self,
        verb: &'static str,
        request: &Request,
        standing: &Standing<'_>,
        left: Left<'_>,
        relied_on: Vec<Guard>,
    ) -> Result<Prepared, Failure> {
        let key = Arc::clone(standing.key());
        let mut extras = Extras { guards: relied_on, writes: Vec::new() };
        let (write, after) = match left {
            // The bytes of an object can only follow bytes that are stored.
            Left::Object(_) if matches!(standing, Standing::Ahead { .. }) => {
                return Ok(Prepared::Early);
            }
            Left::Object(new) => {
                (Write::Put { key, draft: draft(&request.served, &new)? }, Some(Arc::new(new)))
            }
            Left::Nothing(old) => {
                let state = self.api.world.current();
                admit::release(&self.api, &state, request, old, &mut extras)?;
                (Write::Delete { key }, None)
            }
        };
        let mut proposal = Proposal { guards: vec![standing.guard()], writes: vec![write] };
        proposal.guards.append(&mut extras.guards);
        proposal.writes.append(&mut extras.writes);
        let trail = self.trail(request, verb);
        Ok(Prepared::Ready(Ready { after, proposal, trail }))
    }

    /// Deletes an object whose time is over, as it stands in `record`.
    ///
    /// Upstream's store does that by itself: it is nobody's request, so nothing is admitted or audited.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn expire(&self, record: &Record) -> Result<Written, Failure> {
        let proposal = Proposal::delete(Arc::clone(record.key()), record.revision());
        match self.api.world.propose(proposal).await {
            Ok(_) => Ok(Written::Gone),
            Err(Refused::Guard { .. }) => Ok(Written::Moved),
            Err(refused) => Err(refused_failure(&refused)),
        }
    }

    /// Gives a write its place in the order; what is submitted later may rest on it.
    ///
    /// # Errors
    /// Too many writes wait, or they have stopped.
    pub fn submit(&self, ready: Ready) -> Result<Submitted, Failure> {
        let gone = ready.after.is_none();
        match self.api.world.submit(ready.proposal) {
            Ok(submission) => Ok(Submitted { gone, submission, trail: ready.trail }),
            Err(refused) => {
                let failure = refused_failure(&refused);
                ready.trail.close(Err(&failure));
                Err(failure)
            }
        }
    }

    /// The line of a write in the audit log; nothing where there is none.
    fn trail(&self, request: &Request, verb: &'static str) -> Trail {
        let audit = self.api.audit.as_ref().filter(|_| !self.unaudited);
        Trail::within(audit, request, verb, || self.api.chance.uid())
    }

    /// The kind that is stored under a key.
    fn served(&self, key: &str) -> Result<Arc<Served>, Failure> {
        self.kinds().stored_at(key).cloned().ok_or_else(no_such_resource)
    }

    fn request(&self, actor: Actor, served: &Arc<Served>, namespace: &str, name: &str) -> Request {
        let mut request = internal::request(served, namespace, name, actor.manager);
        let name = match actor.account {
            whole if whole.contains(':') => whole.to_owned(),
            account => format!("system:serviceaccount:kube-system:{account}"),
        };
        request.user = Arc::new(User { name, ..User::clone(&request.user) });
        request
    }
}
