//! What controllers want to know of a pod: is it active, ready, available, and since when (PT3).
//!
//! Also the intents that make and remove pods, with the events people expect (PT2, PT4).

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::Pass;
use crate::intent::{ControllerIntent, InvolvedObject, MessageSuffix};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{condition, owner, time};

/// `status.phase`, or empty.
#[must_use]
pub fn phase(pod: &Object) -> &str {
    pod.str_at(&["status", "phase"]).unwrap_or_default()
}

/// Whether it has ended, one way or the other.
#[must_use]
pub fn terminal(pod: &Object) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it runs or may still run, and nobody deletes it.
#[must_use]
pub fn active(pod: &Object) -> bool {
    !terminal(pod) && !owner::deleting(pod)
}

/// Whether it is being deleted and has not ended.
#[must_use]
pub fn terminating(pod: &Object) -> bool {
    !terminal(pod) && owner::deleting(pod)
}

/// The node it is bound to, or empty.
#[must_use]
pub fn node(pod: &Object) -> &str {
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

/// Whether its condition Ready is True.
#[must_use]
pub fn ready(pod: &Object) -> bool {
    condition::is(pod.list_at(&["status", "conditions"]), "Ready", "True")
}

/// Since when its condition Ready is True.
#[must_use]
pub fn ready_since(pod: &Object) -> Option<Timestamp> {
    let ready = condition::find(pod.list_at(&["status", "conditions"]), "Ready")?;
    if ready.str_at(&["status"]) != Some("True") {
        return None;
    }
    time::at(ready, &["lastTransitionTime"])
}

/// Whether it has been ready for so many seconds.
#[must_use]
pub fn available(pod: &Object, min_ready_seconds: i64, now: Timestamp) -> bool {
    if min_ready_seconds <= 0 {
        return ready(pod);
    }
    ready_since(pod).is_some_and(|since| time::after(since, min_ready_seconds) <= now)
}

/// How long it is until the next of these pods becomes available, if one will by waiting alone.
pub fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a VersionedObject>,
    min_ready_seconds: i64,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds <= 0 {
        return None;
    }
    pods.into_iter()
        .filter_map(|pod| Some(time::after(ready_since(pod)?, min_ready_seconds)))
        .filter(|edge| *edge > now)
        .min()
        .map(|edge| time::until(edge, now))
}

/// Whether a change of a pod can matter to a controller that counts pods.
#[must_use]
pub fn counts_differently(before: &Object, after: &Object) -> bool {
    let metadata = |name: &str| before.at(&["metadata", name]) != after.at(&["metadata", name]);
    metadata("labels")
        || metadata("ownerReferences")
        || metadata("deletionTimestamp")
        || phase(before) != phase(after)
        || ready(before) != ready(after)
        || ready_since(before) != ready_since(after)
}

/// Whether no object can be created in the namespace of this pass, so that trying is useless (PU7).
#[must_use]
pub fn namespace_closed(pass: &Pass<'_>) -> bool {
    pass.refused.iter().any(|refused| refused.namespace_terminating)
        || pass
            .view
            .get(BuiltinResource::Namespaces, "", &pass.key.namespace)
            .is_some_and(|namespace| owner::deleting(&namespace))
}

/// How many pods of one controller may wait for a node.
///
/// A number that nobody can run must not fill memory; those that wait make room for others by being
/// bound.
const WAITING_MAX: usize = 10_000;

/// How many more pods a controller of these may make until enough of them have a node.
#[must_use]
pub fn room_to_wait<'a>(pods: impl IntoIterator<Item = &'a VersionedObject>) -> usize {
    let waiting = pods.into_iter().filter(|pod| node(pod).is_empty()).take(WAITING_MAX).count();
    WAITING_MAX - waiting
}

/// Creates so many pods like this one for a controller, in growing batches (PT2, PT4).
#[must_use]
pub fn creations(pod: &Object, count: usize, about: &InvolvedObject) -> Vec<ControllerIntent> {
    (0..count)
        .map(|index| {
            // Batches of 1, 2, 4 …: a batch begins where the index plus one is a power of two.
            let starts_batch = (index + 1).is_power_of_two();
            creation(pod.clone(), about).together(!starts_batch)
        })
        .collect()
}

/// Creates one pod for a controller.
#[must_use]
pub fn creation(pod: Object, about: &InvolvedObject) -> ControllerIntent {
    let done = about.normal("SuccessfulCreate", "Created pod: ").ending(MessageSuffix::Name);
    let refused = about.warning("FailedCreate", "Error creating: ").ending(MessageSuffix::Error);
    ControllerIntent::create(BuiltinResource::Pods, pod)
        .relying_on(about.living())
        .when_done(done)
        .when_refused(refused)
}

/// Deletes one pod of a controller.
#[must_use]
pub fn deletion(pod: &Object, about: &InvolvedObject) -> ControllerIntent {
    let done = about.normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name()));
    let refused = about.warning("FailedDelete", "Error deleting: ").ending(MessageSuffix::Error);
    ControllerIntent::delete(BuiltinResource::Pods, pod)
        .when_done(done)
        .when_refused(refused)
        .together(true)
}

/// A pod made from a template, with one owner entry and a name left to the server (PT1).
///
/// `None` when the template has no labels: nobody could find such a pod again.
#[must_use]
pub fn from_template(
    template: &Object,
    resource: BuiltinResource,
    controller: &Object,
) -> Option<Object> {
    let mut metadata = Object::new();
    for name in ["labels", "annotations"] {
        if let Some(map) = template.map_at(&["metadata", name]).filter(|map| !map.is_empty()) {
            metadata.insert(name.to_string(), Value::Object(map.clone()));
        }
    }
    metadata.get("labels")?;
    let finalizers = template.list_at(&["metadata", "finalizers"]);
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_string(), Value::Array(finalizers.to_vec()));
    }
    metadata.insert("generateName".to_string(), Value::String(prefix(controller.name())));
    metadata.insert("namespace".to_string(), controller.namespace().into());
    let entry = owner::entry(resource, controller);
    metadata.insert("ownerReferences".to_string(), Value::Array([entry].to_vec()));
    let mut pod = Object::new();
    pod.insert("apiVersion".to_string(), "v1".into());
    pod.insert("kind".to_string(), "Pod".into());
    pod.insert("metadata".to_string(), Value::Object(metadata));
    let spec = template.map_at(&["spec"]).cloned().unwrap_or_default();
    pod.insert("spec".to_string(), Value::Object(spec));
    Some(pod)
}

/// The `generateName` of pods of a controller: with a dash unless the name is too long for it.
#[must_use]
pub fn prefix(controller: &str) -> alloc::string::String {
    let dashed = format!("{controller}-");
    if dashed.len() > 253 { controller.to_string() } else { dashed }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;
    use alloc::sync::Arc;
    use serde_json::json;
    use tenure_core::Revision;

    #[test]
    fn pt4_what_waits_for_a_node_has_a_limit() {
        let pod = |node: &str| {
            let pod = json!({"spec": {"nodeName": node}});
            let object = pod.as_object().cloned().unwrap_or_default();
            VersionedObject { object: Arc::new(object), revision: Revision(1) }
        };
        let mut pods = alloc::vec![pod(""); 9_998];
        pods.push(pod("node-1"));
        assert_eq!(room_to_wait(&pods), 2);
        pods.extend([pod(""), pod(""), pod("")]);
        assert_eq!(room_to_wait(&pods), 0, "and no more, however many are wanted");
    }
}
