//! The status of a ReplicaSet or ReplicationController (RS5).

use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::{ObservedPods, ReplicaFailure};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{condition, owner, pod};

/// The write of a status that differs from the stored one.
pub(super) fn changed(
    resource: BuiltinResource,
    set: &VersionedObject,
    counted: &ObservedPods,
    trouble: Option<&ReplicaFailure<'_>>,
    now: Timestamp,
) -> Option<ControllerIntent> {
    let known = set.map_at(&["status"]).cloned().unwrap_or_default();
    let status = new(resource, set, &known, counted, trouble, now);
    if status == known {
        return None;
    }
    let mut object = Object::clone(&set.object);
    object.insert("status".to_string(), Value::Object(status));
    Some(ControllerIntent::update(resource, object, UpdateEndpoint::Status, set.revision))
}

fn new(
    resource: BuiltinResource,
    set: &VersionedObject,
    known: &Object,
    counted: &ObservedPods,
    trouble: Option<&ReplicaFailure<'_>>,
    now: Timestamp,
) -> Object {
    let min_ready = set.int_at(&["spec", "minReadySeconds"]).unwrap_or_default();
    let labels = set.map_at(&["spec", "template", "metadata", "labels"]);
    let count =
        |holds: &dyn Fn(&Object) -> bool| counted.active.iter().filter(|pod| holds(pod)).count();
    let mut status = known.clone();
    put(&mut status, "fullyLabeledReplicas", count(&|pod| carries(pod, labels)));
    put(&mut status, "readyReplicas", count(&|pod| pod::ready(pod)));
    put(&mut status, "availableReplicas", count(&|pod| pod::available(pod, min_ready, now)));
    status.insert("replicas".to_string(), counted.active.len().into());
    if resource == BuiltinResource::ReplicaSets {
        status.insert("terminatingReplicas".to_string(), counted.terminating.into());
    }
    status.insert("observedGeneration".to_string(), owner::generation(set).into());
    failure(&mut status, trouble, now);
    status
}

/// Sets a count, or leaves it out when it is zero.
fn put(status: &mut Object, name: &str, count: usize) {
    if count == 0 {
        status.remove(name);
    } else {
        status.insert(name.to_string(), count.into());
    }
}

fn carries(pod: &Object, labels: Option<&Object>) -> bool {
    labels.is_none_or(|labels| {
        labels.iter().all(|(key, value)| pod.at(&["metadata", "labels", key]) == Some(value))
    })
}

/// `ReplicaFailure` is there exactly while the passes fail; its first words stay.
fn failure(status: &mut Object, trouble: Option<&ReplicaFailure<'_>>, now: Timestamp) {
    const FAILURE: &str = "ReplicaFailure";
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    match trouble {
        Some(trouble) if condition::find(&conditions, FAILURE).is_none() => {
            let (reason, message) = (trouble.reason, &trouble.message);
            condition::set(&mut conditions, condition::new(FAILURE, "True", reason, message, now));
        }
        Some(_) => {}
        None => condition::remove(&mut conditions, FAILURE),
    }
    if conditions.is_empty() {
        status.remove("conditions");
    } else {
        status.insert("conditions".to_string(), Value::Array(conditions));
    }
}
