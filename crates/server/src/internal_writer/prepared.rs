//! Writes that are made ready first and submitted later, so that what comes next can rest on them.
//!
//! ```text
//!   prepare_delete, prepare_edit ──► PreparedWrite ──► submit ──► SubmittedWrite ──► outcome
//!                                      └─ webhooks are to be asked: afterwards, before it is committed
//! ```
//!
//! What is wanted, and what becomes of it, is the follower's.

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{
    Committed, Precondition, Proposal, ProposalError, Record, Submission, WriteOperation,
};

use super::{Actor, InternalWriteOutcome, InternalWriter, RequestedPropagation, WriteTarget};
use crate::admit::policy::{self, AdmissionAttributes};
use crate::admit::{self, Operation};
use crate::audit::AuditContext;
use crate::clock::now;
use crate::request::ResourceRequest;
use crate::write::commit::{self, Extras, ResultingObject, operation, refused_failure};
use crate::write::decide::{DeletionDecision, decide};
use crate::write::delete::DeleteOptions;
use crate::write::managed;
use crate::write::update;

/// A write that can be made now, or not.
pub enum PrepareOutcome {
    /// Nothing would change.
    Nothing,
    /// It has to wait until the write before it is committed.
    Early,
    /// It can be submitted.
    Ready(PreparedWrite),
}

/// A write that can be submitted.
pub struct PreparedWrite {
    after: Option<Arc<Object>>,
    method: WriteMethod,
    trail: AuditContext,
}

/// How a write is carried out.
enum WriteMethod {
    /// Everybody was asked: it only has to be committed.
    Commit(Proposal),
    /// Webhooks or policies that change objects are asked first; what has moved by then is seen by the guards.
    Defer(Box<DeferredWrite>),
}

/// A write about which webhooks, or policies that change objects, have to be asked.
struct DeferredWrite {
    writer: InternalWriter,
    request: ResourceRequest,
    record: Arc<Record>,
    change: DeferredChange,
}

enum DeferredChange {
    /// The object becomes this, as far as they leave it so.
    Update { new: Object, relied_on: Vec<Precondition> },
    /// The object is marked, or goes.
    Delete(Proposal),
}

impl PreparedWrite {
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
pub struct SubmittedWrite {
    gone: bool,
    progress: SubmissionState,
    trail: AuditContext,
}

/// How far a write is.
enum SubmissionState {
    /// It has its place in the order.
    Submitted(Submission),
    /// It has none before they were asked.
    Deferred(Box<DeferredWrite>),
}

impl DeferredWrite {
    /// Asks them, and writes if they let it.
    async fn carry_out(mut self) -> Result<InternalWriteOutcome, Failure> {
        let writer = self.writer;
        let proposal = match self.change {
            DeferredChange::Delete(proposal) => proposal,
            DeferredChange::Update { new, relied_on } => {
                self.request.relied_on = relied_on;
                return writer.replace(&mut self.request, &self.record, new).await;
            }
        };
        let old = self.request.served.read(&self.record)?;
        let subject = AdmissionAttributes {
            operation: Operation::Delete,
            old: Some(&old),
            new: None,
            dry_run: false,
            kind: None,
            options: None,
        };
        admit::review(&writer.api, &mut self.request, subject, None).await?;
        let removes = proposal.writes.iter().any(|write| {
            write.key() == self.record.key() && matches!(write, WriteOperation::Delete { .. })
        });
        committed(removes, writer.api.world.propose(proposal).await)
    }
}

/// What came of a write that was proposed; `removes` says whether the object goes with it.
pub(super) fn committed(
    removes: bool,
    ended: Result<Committed, ProposalError>,
) -> Result<InternalWriteOutcome, Failure> {
    match ended {
        Ok(committed) => Ok(match committed.record().filter(|_| !removes) {
            Some(record) => InternalWriteOutcome::Stored(Arc::clone(record)),
            None => InternalWriteOutcome::Gone,
        }),
        Err(ProposalError::Guard { .. }) => Ok(InternalWriteOutcome::Moved),
        Err(refused) => Err(refused_failure(&refused)),
    }
}

impl SubmittedWrite {
    /// What came of it.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn outcome(self) -> Result<InternalWriteOutcome, Failure> {
        let came = match self.progress {
            SubmissionState::Submitted(submission) => committed(self.gone, submission.await),
            SubmissionState::Deferred(deferred) => deferred.carry_out().await,
        };
        note(self.trail, 200, &came);
        came
    }
}

/// What the audit log calls an operation of a follower.
fn verb_of(operation: Operation) -> &'static str {
    if operation == Operation::Delete { "delete" } else { "patch" }
}

/// Writes down what came of a write.
pub(super) fn note(trail: AuditContext, code: u16, came: &Result<InternalWriteOutcome, Failure>) {
    match came {
        Ok(InternalWriteOutcome::Moved) => trail.lost(),
        Ok(InternalWriteOutcome::Stored(_) | InternalWriteOutcome::Gone) => trail.close(Ok(code)),
        Err(failure) => trail.close(Err(failure)),
    }
}

impl InternalWriter {
    /// Makes a deletion ready to be submitted.
    ///
    /// # Errors
    /// What a client would be told.
    pub fn prepare_delete(
        &self,
        actor: Actor,
        standing: &WriteTarget<'_>,
        propagation: Option<RequestedPropagation>,
        grace_seconds: Option<i64>,
        relied_on: Vec<Precondition>,
    ) -> Result<PrepareOutcome, Failure> {
        let served = self.served_at(standing)?;
        let old = standing.object(&served)?;
        let mut request = self.request(actor, &served, old.namespace(), old.name());
        let state = self.api.world.current();
        let later =
            admit::validate(&self.api, &state, &mut request, Operation::Delete, Some(&old), None)
                .and_then(|()| {
                    let subject = AdmissionAttributes {
                        operation: Operation::Delete,
                        old: Some(&old),
                        new: None,
                        dry_run: false,
                        kind: None,
                        options: None,
                    };
                    policy::enforce_now(&self.api, &mut request, subject)
                })
                .inspect_err(|failure| self.trail(&request, "delete").close(Err(failure)))?;
        let options = DeleteOptions { propagation, grace_seconds, ..DeleteOptions::default() };
        match decide(&served.kind, self.api.collects_garbage, &options, &old) {
            DeletionDecision::Keep => Ok(PrepareOutcome::Nothing),
            DeletionDecision::Mark(new) => {
                self.ready_put((request, later), Operation::Delete, standing, new, relied_on)
            }
            DeletionDecision::Remove(_) => {
                self.ready_removal((request, later), Operation::Delete, standing, &old, relied_on)
            }
        }
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
        standing: &WriteTarget<'_>,
        relied_on: Vec<Precondition>,
        edit: impl FnOnce(&mut Object),
    ) -> Result<PrepareOutcome, Failure> {
        let served = self.served_at(standing)?;
        let old = standing.object(&served)?;
        let mut request = self.request(actor, &served, old.namespace(), old.name());
        let mut new = old.into_owned();
        let unchanged = (!self.api.admission.policies.validating.is_empty()).then(|| new.clone());
        let metadata = new.map_mut("metadata");
        let managers = metadata.remove("managedFields");
        let before = metadata.clone();
        edit(metadata);
        let (was, mut is) = (except(&before, metadata), except(metadata, &before));
        if was.is_empty() && is.is_empty() {
            return Ok(PrepareOutcome::Nothing);
        }
        let mut later = false;
        if let Some(old) = &unchanged {
            let subject = AdmissionAttributes {
                operation: Operation::Update,
                old: Some(old),
                new: Some(&new),
                dry_run: false,
                kind: None,
                options: None,
            };
            later = policy::enforce_now(&self.api, &mut request, subject)
                .inspect_err(|failure| self.trail(&request, "patch").close(Err(failure)))?;
        }
        if update::is_finished(&new) {
            let requested = (request, later);
            return self.ready_removal(requested, Operation::Update, standing, &new, relied_on);
        }
        if let Some(managers) = managers {
            is.insert("managedFields".into(), managers);
            let (was, mut is) = (within_metadata(was), within_metadata(is));
            managed::record(&served, Some(&was), &mut is, actor.manager, None, &now());
            if let Some(managers) = is.map_mut("metadata").remove("managedFields") {
                new.map_mut("metadata").insert("managedFields".into(), managers);
            }
        }
        self.ready_put((request, later), Operation::Update, standing, new, relied_on)
    }

    /// Makes a write ready that leaves a changed object; `later` says that a policy is still to be asked.
    fn ready_put(
        &self,
        (request, later): (ResourceRequest, bool),
        operation: Operation,
        target: &WriteTarget<'_>,
        new: Object,
        relied_on: Vec<Precondition>,
    ) -> Result<PrepareOutcome, Failure> {
        // The bytes of an object can only follow bytes that are stored.
        let WriteTarget::Stored(record) = target else { return Ok(PrepareOutcome::Early) };
        let trail = self.trail(&request, verb_of(operation));
        let after = Some(Arc::new(new.clone()));
        let asks = later || self.api.admission.may_defer(operation, &request);
        let method = if asks && operation == Operation::Update {
            self.defer(request, record, DeferredChange::Update { new, relied_on })
        } else {
            let result = ResultingObject::Object(&new);
            let proposal = self.proposal(&request, target, result, relied_on)?;
            match asks {
                true => self.defer(request, record, DeferredChange::Delete(proposal)),
                false => WriteMethod::Commit(proposal),
            }
        };
        Ok(PrepareOutcome::Ready(PreparedWrite { after, method, trail }))
    }

    /// Makes a write ready that leaves nothing of an object; `later` says that a policy is still to be asked.
    fn ready_removal(
        &self,
        (request, later): (ResourceRequest, bool),
        operation: Operation,
        target: &WriteTarget<'_>,
        old: &Object,
        relied_on: Vec<Precondition>,
    ) -> Result<PrepareOutcome, Failure> {
        let trail = self.trail(&request, verb_of(operation));
        let asks = later || self.api.admission.may_defer(operation, &request);
        let method = match target {
            // Webhooks see what is stored, which it will be soon.
            WriteTarget::Ahead { .. } if asks => return Ok(PrepareOutcome::Early),
            WriteTarget::Stored(record) if asks && operation == Operation::Update => {
                let change = DeferredChange::Update { new: old.clone(), relied_on };
                self.defer(request, record, change)
            }
            WriteTarget::Stored(_) | WriteTarget::Ahead { .. } => {
                let nothing = ResultingObject::Nothing(old);
                let proposal = self.proposal(&request, target, nothing, relied_on)?;
                match target {
                    WriteTarget::Stored(record) if asks => {
                        self.defer(request, record, DeferredChange::Delete(proposal))
                    }
                    _ => WriteMethod::Commit(proposal),
                }
            }
        };
        Ok(PrepareOutcome::Ready(PreparedWrite { after: None, method, trail }))
    }

    fn defer(
        &self,
        request: ResourceRequest,
        record: &Arc<Record>,
        change: DeferredChange,
    ) -> WriteMethod {
        let (writer, record) = (self.clone(), Arc::clone(record));
        WriteMethod::Defer(Box::new(DeferredWrite { writer, request, record, change }))
    }

    fn proposal(
        &self,
        request: &ResourceRequest,
        standing: &WriteTarget<'_>,
        result: ResultingObject<'_>,
        relied_on: Vec<Precondition>,
    ) -> Result<Proposal, Failure> {
        let state = self.api.world.current();
        let mut extras = Extras { guards: relied_on, writes: Vec::new() };
        let key = standing.key();
        let write = operation(&self.api, &state, request, key, result, &mut extras)?;
        Ok(commit::proposal(standing.guard(), write, extras))
    }

    /// Gives a write its place in the order; what is submitted later may rest on it.
    ///
    /// # Errors
    /// Too many writes wait, or they have stopped.
    pub fn submit(&self, ready: PreparedWrite) -> Result<SubmittedWrite, Failure> {
        let (gone, trail) = (ready.after.is_none(), ready.trail);
        let proposal = match ready.method {
            WriteMethod::Commit(proposal) => proposal,
            WriteMethod::Defer(deferred) => {
                let progress = SubmissionState::Deferred(deferred);
                return Ok(SubmittedWrite { gone, progress, trail });
            }
        };
        match self.api.world.submit(proposal) {
            Ok(submission) => {
                let progress = SubmissionState::Submitted(submission);
                Ok(SubmittedWrite { gone, progress, trail })
            }
            Err(refused) => {
                let failure = refused_failure(&refused);
                trail.close(Err(&failure));
                Err(failure)
            }
        }
    }
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
