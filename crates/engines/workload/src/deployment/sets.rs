//! A ReplicaSet of a Deployment as one pass sees and changes it.

use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};

use super::annotations::{DESIRED, MAX, REVISION};
use crate::intent::{ControllerIntent, EventReport, InvolvedObject, MessageSuffix, UpdateEndpoint};
use crate::replicas::wanted;
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{owner, time};

/// A ReplicaSet, the changes this pass made to it, and what to tell once they are written.
pub(super) struct ReplicaSetDraft {
    /// As stored; of one still to be created, as it will be.
    stored: VersionedObject,
    changed: Option<Object>,
    exists: bool,
    notes: Vec<EventReport>,
}

impl ReplicaSetDraft {
    pub(super) fn stored(stored: VersionedObject) -> ReplicaSetDraft {
        ReplicaSetDraft { stored, changed: None, exists: true, notes: Vec::new() }
    }

    pub(super) fn new(object: Object) -> ReplicaSetDraft {
        let stored = VersionedObject { object: object.into(), revision: Revision::ZERO };
        ReplicaSetDraft { stored, changed: None, exists: false, notes: Vec::new() }
    }

    /// As it will be after this pass.
    pub(super) fn object(&self) -> &Object {
        self.changed.as_ref().unwrap_or(&self.stored.object)
    }

    /// As it was before this pass.
    pub(super) fn before(&self) -> &VersionedObject {
        &self.stored
    }

    pub(super) fn edit(&mut self) -> &mut Object {
        self.changed.get_or_insert_with(|| Object::clone(&self.stored.object))
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed.is_some()
    }

    pub(super) fn name(&self) -> &str {
        self.stored.name()
    }

    pub(super) fn replicas(&self) -> i64 {
        wanted(self.object())
    }

    pub(super) fn active(&self) -> bool {
        self.replicas() > 0
    }

    pub(super) fn template(&self) -> Option<&Object> {
        self.object().map_at(&["spec", "template"])
    }

    /// A count of the status; zero when it is left out.
    pub(super) fn counted(&self, name: &str) -> i64 {
        self.stored.int_at(&["status", name]).unwrap_or_default()
    }

    pub(super) fn available(&self) -> i64 {
        self.counted("availableReplicas")
    }

    /// Its number in the history; `None` when what stands there is no number.
    pub(super) fn revision(&self) -> Option<i64> {
        match owner::annotation(self.object(), REVISION) {
            None => Some(0),
            Some(text) => text.parse().ok(),
        }
    }

    /// A size written in an annotation.
    pub(super) fn noted_size(&self, key: &str) -> Option<i64> {
        let size: i32 = owner::annotation(self.object(), key)?.parse().ok()?;
        (size >= 0).then_some(i64::from(size))
    }

    /// Sets the size and the annotations that say for which Deployment size it was meant.
    pub(super) fn resize(&mut self, size: i64, desired: i64, max: i64, about: &InvolvedObject) {
        let old = self.replicas();
        let (desired, max) = (desired.to_string(), max.to_string());
        let noted = |key| owner::annotation(self.object(), key);
        if old == size && noted(DESIRED) == Some(&desired) && noted(MAX) == Some(&max) {
            return;
        }
        let object = self.edit();
        object.map_mut("spec").insert("replicas".to_string(), size.into());
        owner::annotate(object, DESIRED, &desired);
        owner::annotate(object, MAX, &max);
        if old != size {
            let note = scaled(about, self.name(), old, size);
            self.notes.push(note);
        }
    }

    /// What it counts in a sort by age: oldest first, then by name.
    pub(super) fn age(&self) -> (Option<jiff::Timestamp>, &str) {
        // One that is still to be created is younger than all.
        let created = time::created(&self.stored).or(Some(jiff::Timestamp::MAX));
        (created, self.name())
    }

    /// The writes that this pass wants, each followed by what it tells (DP19).
    pub(super) fn intents(self, about: &InvolvedObject) -> Vec<ControllerIntent> {
        let mut intents = Vec::new();
        if !self.exists {
            let object = self.changed.unwrap_or_else(|| Object::clone(&self.stored.object));
            let words = alloc::format!("Failed to create new replica set \"{}\": ", object.name());
            let refused =
                about.warning("ReplicaSetCreateError", words).ending(MessageSuffix::Error);
            intents.push(
                ControllerIntent::create(BuiltinResource::ReplicaSets, object)
                    .relying_on(about.living())
                    .when_refused(refused),
            );
        } else if let Some(object) = self.changed {
            let revision = self.stored.revision;
            intents.push(ControllerIntent::update(
                BuiltinResource::ReplicaSets,
                object,
                UpdateEndpoint::Main,
                revision,
            ));
        }
        intents.extend(self.notes.into_iter().map(ControllerIntent::tell));
        intents
    }

    /// Tells that it was created with some pods wanted.
    pub(super) fn tell_created(&mut self, about: &InvolvedObject) {
        if self.replicas() > 0 {
            let note = scaled(about, self.name(), 0, self.replicas());
            self.notes.push(note);
        }
    }

    /// The condition of a type in its status.
    pub(super) fn condition(&self, kind: &str) -> Option<&Object> {
        crate::condition::find(self.stored.list_at(&["status", "conditions"]), kind)
    }

    /// How many of its pods are being deleted; `None` when it was seen to but does not say.
    pub(super) fn terminating(&self) -> Option<i64> {
        match self.stored.at(&["status", "terminatingReplicas"]).and_then(Value::as_i64) {
            None if self.counted("observedGeneration") == 0 => Some(0),
            count => count,
        }
    }
}

fn scaled(about: &InvolvedObject, name: &str, from: i64, to: i64) -> EventReport {
    let way = if from < to { "up" } else { "down" };
    let words = alloc::format!("Scaled {way} replica set {name} from {from} to {to}");
    about.normal("ScalingReplicaSet", words)
}
