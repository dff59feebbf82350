//! From what the engine wants to a write on its way: guards, the edit, and what it came to.

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, WriteRefusal};
use tenure_ownership as ownership;
use tenure_ownership::{DeletionPropagation, OwnerIdentity, OwnershipEngine, WriteAction};
use tenure_server::internal_writer::{
    InternalWriteOutcome, InternalWriter, PrepareOutcome, RequestedPropagation, SubmittedWrite,
    WriteTarget,
};
use tenure_world::{Precondition, World};

use super::objects::{with_object, with_written};
use super::{ACTOR, Collector};
use crate::retention;
use crate::shared_retention::{CollectionDecision, more};

/// What a write came to.
pub(super) enum SubmitOutcome {
    Applied(Revision),
    NotFound,
    UidMismatch,
    Moved,
    Denied,
    Failed,
}

impl Collector {
    pub(super) fn submit(&mut self, key: &Arc<str>, write: &ownership::OwnershipWrite) -> Tried {
        if self.ahead.uid(key).is_some_and(|uid| *uid != *write.key.uid) {
            // The name is still somebody else's until that write is done.
            return Tried::Early;
        }
        let state = self.writer.world().current();
        let stored = match (self.ahead.get(key), state.get(key)) {
            (Some(Some(object)), _) => WriteTarget::Ahead { key, object },
            (Some(None), _) | (None, None) => return Tried::Ended(SubmitOutcome::NotFound),
            (None, Some(record)) if record.uid() != &*write.key.uid => {
                return Tried::Ended(SubmitOutcome::UidMismatch);
            }
            (None, Some(record)) => WriteTarget::Stored(record),
        };
        if self.fingerprint(&stored, write.key.resource) != write.fingerprint {
            return Tried::Ended(SubmitOutcome::Moved);
        }
        let owners = stored.owner_uids();
        let Some(mut guards) = self.guards(&state, write) else {
            return Tried::Ended(SubmitOutcome::Moved);
        };
        guards.extend(self.ahead.absences(&owners));
        let subject = state.get(key).filter(|_| matches!(write.action, WriteAction::Delete(_)));
        let kept = match subject.map(|record| self.keeper.ask(record)) {
            Some(CollectionDecision::Held) => return Tried::Held,
            Some(CollectionDecision::Clear(guard)) => {
                guards.push(guard);
                subject.cloned()
            }
            Some(CollectionDecision::Free) | None => None,
        };
        if matches!(write.action, WriteAction::DropFinalizer(_)) {
            guards.extend(self.ahead.of_dependents(&write.key.uid));
        }
        let mut ready = match prepare(&self.writer, write, &stored, guards) {
            Ok(PrepareOutcome::Ready(ready)) => ready,
            Ok(PrepareOutcome::Early) => return Tried::Early,
            Ok(PrepareOutcome::Nothing) => {
                return Tried::Ended(SubmitOutcome::Applied(state.revision()));
            }
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        ready.because(|| chain(&self.engine, write));
        let after = ready.after().cloned();
        let submitted = match self.writer.submit(ready) {
            Ok(submitted) => submitted,
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        if let Some(record) = kept {
            self.teller.tell(retention::collected(&record));
            more(&self.keeper.counters.collections, 1);
        }
        let mut out = Vec::new();
        let resource = write.key.resource;
        // Told at the revision that is stored, so that the truth is never older news.
        let revision = state.get(key).map_or(state.revision(), |record| record.revision());
        match &after {
            Some(object) => {
                with_written(object, resource, revision, |object| {
                    self.engine.put(object, &mut out);
                });
            }
            None => self.engine.foresee_gone(&write.key.uid, &mut out),
        }
        self.ahead.insert(Arc::clone(key), write, owners, after);
        self.take(out);
        Tried::Submitted(submitted)
    }

    /// What must not have moved when a write is committed; `None` when something has already.
    fn guards(
        &self,
        state: &World,
        write: &ownership::OwnershipWrite,
    ) -> Option<Vec<Precondition>> {
        let guard = |guard: &ownership::OwnershipPrecondition| match guard {
            ownership::OwnershipPrecondition::Same { key, fingerprint, .. } => {
                let path: Arc<str> = self.types.key(key)?.into();
                let stored = match self.ahead.get(&path) {
                    Some(object) => WriteTarget::Ahead { key: &path, object: object.as_ref()? },
                    None => WriteTarget::Stored(state.get(&path)?),
                };
                let same = self.fingerprint(&stored, key.resource) == *fingerprint;
                same.then(|| stored.guard())
            }
            ownership::OwnershipPrecondition::NoNewDependents { uid, since } => {
                Some(Precondition::Dependents { uid: uid.clone(), seen: *since })
            }
        };
        write.guards.iter().map(guard).collect()
    }

    fn fingerprint(&self, stored: &WriteTarget<'_>, resource: ownership::InternedResource) -> u64 {
        let look = |object: &ownership::Object<'_>| self.engine.fingerprint(object);
        match stored {
            WriteTarget::Stored(record) => with_object(record, resource, look),
            WriteTarget::Ahead { object, .. } => {
                with_written(object, resource, Revision::ZERO, look)
            }
        }
    }
}

/// How far a write came at once.
pub(super) enum Tried {
    Submitted(SubmittedWrite),
    /// It rests on bytes that are not stored yet.
    Early,
    /// The object is still needed.
    Held,
    Ended(SubmitOutcome),
}

/// Makes one write ready on the object as it stands.
fn prepare(
    writer: &InternalWriter,
    write: &ownership::OwnershipWrite,
    stored: &WriteTarget<'_>,
    guards: Vec<Precondition>,
) -> Result<PrepareOutcome, Failure> {
    match &write.action {
        WriteAction::Delete(policy) => {
            let propagation = match policy {
                DeletionPropagation::Background => RequestedPropagation::Background,
                DeletionPropagation::Foreground => RequestedPropagation::Foreground,
                DeletionPropagation::Orphan => RequestedPropagation::Orphan,
            };
            writer.prepare_delete(ACTOR, stored, Some(propagation), None, guards)
        }
        WriteAction::DropReferences(references) => {
            writer.prepare_edit(ACTOR, stored, guards, |metadata| {
                drop_references(metadata, references)
            })
        }
        WriteAction::Unblock(references) => {
            writer.prepare_edit(ACTOR, stored, guards, |metadata| unblock(metadata, references))
        }
        WriteAction::DropFinalizer(finalizer) => {
            writer.prepare_edit(ACTOR, stored, guards, |metadata| {
                drop_finalizer(metadata, finalizer.text());
            })
        }
    }
}

/// Why, back to what a client did: rule, uid and revision of each step.
fn chain(engine: &OwnershipEngine, write: &ownership::OwnershipWrite) -> String {
    let step =
        |cause: &ownership::Cause| format!("{} {} {}", cause.rule, cause.key.uid, cause.revision.0);
    engine.chain(write.cause).iter().map(step).collect::<Vec<_>>().join(", ")
}

pub(super) fn came_of(
    writer: &InternalWriter,
    written: Result<InternalWriteOutcome, Failure>,
) -> SubmitOutcome {
    match written {
        Ok(InternalWriteOutcome::Stored(record)) => SubmitOutcome::Applied(record.revision()),
        Ok(InternalWriteOutcome::Gone) => {
            SubmitOutcome::Applied(writer.world().current().revision())
        }
        Ok(InternalWriteOutcome::Moved) => SubmitOutcome::Moved,
        Err(failure) => refusal(&failure),
    }
}

fn refusal(failure: &Failure) -> SubmitOutcome {
    let refusal = failure.refusal();
    tracing::debug!(?refusal, reason = %failure.message, "the collector was refused");
    match refusal {
        WriteRefusal::Absent => SubmitOutcome::NotFound,
        WriteRefusal::Conflict | WriteRefusal::Invalid | WriteRefusal::Forbidden => {
            SubmitOutcome::Denied
        }
        WriteRefusal::Busy | WriteRefusal::Failed => SubmitOutcome::Failed,
    }
}

fn names(entry: &Value, reference: &OwnerIdentity) -> bool {
    let says = |member: &str, text: &str| entry.get(member).and_then(Value::as_str) == Some(text);
    says("uid", &reference.uid)
        && says("name", &reference.name)
        && says("kind", &reference.kind)
        && says("apiVersion", &reference.api_version)
}

/// Removes exactly these references and keeps the order of the rest (R95).
fn drop_references(metadata: &mut Object, references: &[OwnerIdentity]) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    list.retain(|entry| !references.iter().any(|reference| names(entry, reference)));
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

fn unblock(metadata: &mut Object, references: &[OwnerIdentity]) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    for entry in list.iter_mut().filter(|entry| references.iter().any(|r| names(entry, r))) {
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("blockOwnerDeletion".into(), false.into());
        }
    }
}

fn drop_finalizer(metadata: &mut Object, finalizer: &str) {
    let Some(Value::Array(list)) = metadata.get_mut("finalizers") else { return };
    list.retain(|name| name.as_str() != Some(finalizer));
    if list.is_empty() {
        metadata.remove("finalizers");
    }
}
