//! From what the engine wants to a write on its way: guards, the edit, and what it came to.

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Failure, Object};
use tenure_ownership as ownership;
use tenure_ownership::{Action, Engine, Policy, Reference};
use tenure_server::door::{Door, Prepared, Propagation, Standing, Submitted, Written};
use tenure_world::{Guard, World};

use super::objects::{with_object, with_written};
use super::{ACTOR, Collector};
use crate::keeper::{Answer, more};
use crate::retain;

/// What a write came to.
pub(super) enum Ended {
    Applied(Revision),
    NotFound,
    UidMismatch,
    Moved,
    Denied,
    Failed,
}

impl Collector {
    pub(super) fn submit(&mut self, key: &Arc<str>, write: &ownership::Write) -> Tried {
        if self.ahead.uid(key).is_some_and(|uid| *uid != *write.key.uid) {
            // The name is still somebody else's until that write is done.
            return Tried::Early;
        }
        let state = self.door.world().current();
        let standing = match (self.ahead.get(key), state.get(key)) {
            (Some(Some(object)), _) => Standing::Ahead { key, object },
            (Some(None), _) | (None, None) => return Tried::Ended(Ended::NotFound),
            (None, Some(record)) if record.uid() != &*write.key.uid => {
                return Tried::Ended(Ended::UidMismatch);
            }
            (None, Some(record)) => Standing::Stored(record),
        };
        if self.fingerprint(&standing, write.key.resource) != write.fingerprint {
            return Tried::Ended(Ended::Moved);
        }
        let owners = standing.owner_uids();
        let Some(mut guards) = self.guards(&state, write) else {
            return Tried::Ended(Ended::Moved);
        };
        guards.extend(self.ahead.absences(&owners));
        let subject = state.get(key).filter(|_| matches!(write.action, Action::Delete(_)));
        let kept = match subject.map(|record| self.keeper.ask(record)) {
            Some(Answer::Held) => return Tried::Held,
            Some(Answer::Clear(guard)) => {
                guards.push(guard);
                subject.cloned()
            }
            Some(Answer::Free) | None => None,
        };
        if matches!(write.action, Action::DropFinalizer(_)) {
            guards.extend(self.ahead.of_dependents(&write.key.uid));
        }
        let mut ready = match prepare(&self.door, write, &standing, guards) {
            Ok(Prepared::Ready(ready)) => ready,
            Ok(Prepared::Early) => return Tried::Early,
            Ok(Prepared::Nothing) => return Tried::Ended(Ended::Applied(state.revision())),
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        ready.because(|| chain(&self.engine, write));
        let after = ready.after().cloned();
        let submitted = match self.door.submit(ready) {
            Ok(submitted) => submitted,
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        if let Some(record) = kept {
            self.teller.tell(retain::collected(&record));
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
    fn guards(&self, state: &World, write: &ownership::Write) -> Option<Vec<Guard>> {
        let guard = |guard: &ownership::Guard| match guard {
            ownership::Guard::Same { key, fingerprint, .. } => {
                let path: Arc<str> = self.types.key(key)?.into();
                let standing = match self.ahead.get(&path) {
                    Some(object) => Standing::Ahead { key: &path, object: object.as_ref()? },
                    None => Standing::Stored(state.get(&path)?),
                };
                let same = self.fingerprint(&standing, key.resource) == *fingerprint;
                same.then(|| standing.guard())
            }
            ownership::Guard::NoNewDependents { uid, since } => {
                Some(Guard::Dependents { uid: uid.clone(), seen: *since })
            }
        };
        write.guards.iter().map(guard).collect()
    }

    fn fingerprint(&self, standing: &Standing<'_>, resource: ownership::Resource) -> u64 {
        let look = |object: &ownership::Object<'_>| self.engine.fingerprint(object);
        match standing {
            Standing::Stored(record) => with_object(record, resource, look),
            Standing::Ahead { object, .. } => with_written(object, resource, Revision::ZERO, look),
        }
    }
}

/// How far a write came at once.
pub(super) enum Tried {
    Submitted(Submitted),
    /// It rests on bytes that are not stored yet.
    Early,
    /// The object is still needed.
    Held,
    Ended(Ended),
}

/// Makes one write ready on the object as it stands.
fn prepare(
    door: &Door,
    write: &ownership::Write,
    standing: &Standing<'_>,
    guards: Vec<Guard>,
) -> Result<Prepared, Failure> {
    match &write.action {
        Action::Delete(policy) => {
            let propagation = match policy {
                Policy::Background => Propagation::Background,
                Policy::Foreground => Propagation::Foreground,
                Policy::Orphan => Propagation::Orphan,
            };
            door.prepare_delete(ACTOR, standing, Some(propagation), None, guards)
        }
        Action::DropReferences(references) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| {
                drop_references(metadata, references)
            })
        }
        Action::Unblock(references) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| unblock(metadata, references))
        }
        Action::DropFinalizer(finalizer) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| {
                drop_finalizer(metadata, finalizer.text());
            })
        }
    }
}

/// Why, back to what a client did: rule, uid and revision of each step.
fn chain(engine: &Engine, write: &ownership::Write) -> String {
    let step =
        |cause: &ownership::Cause| format!("{} {} {}", cause.rule, cause.key.uid, cause.revision.0);
    engine.chain(write.cause).iter().map(step).collect::<Vec<_>>().join(", ")
}

pub(super) fn came_of(door: &Door, written: Result<Written, Failure>) -> Ended {
    match written {
        Ok(Written::Stored(record)) => Ended::Applied(record.revision()),
        Ok(Written::Gone) => Ended::Applied(door.world().current().revision()),
        Ok(Written::Moved) => Ended::Moved,
        Err(failure) => refusal(&failure),
    }
}

fn refusal(failure: &Failure) -> Ended {
    tracing::debug!(code = failure.code, reason = %failure.message, "the collector was refused");
    match failure.code {
        404 => Ended::NotFound,
        400..500 if failure.code != 429 => Ended::Denied,
        _ => Ended::Failed,
    }
}

fn names(entry: &Value, reference: &Reference) -> bool {
    let says = |member: &str, text: &str| entry.get(member).and_then(Value::as_str) == Some(text);
    says("uid", &reference.uid)
        && says("name", &reference.name)
        && says("kind", &reference.kind)
        && says("apiVersion", &reference.api_version)
}

/// Removes exactly these references and keeps the order of the rest (R95).
fn drop_references(metadata: &mut Object, references: &[Reference]) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    list.retain(|entry| !references.iter().any(|reference| names(entry, reference)));
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

fn unblock(metadata: &mut Object, references: &[Reference]) {
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
