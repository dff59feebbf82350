//! The status of a DaemonSet (DS8).

use alloc::string::ToString;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::{DaemonSetContext, Land, pods};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::{owner, pod};

/// The write of a status that differs from the stored one.
pub(super) fn changed(
    set: &DaemonSetContext<'_>,
    land: &Land,
    hash: &str,
) -> Option<ControllerIntent> {
    let known = set.object.map_at(&["status"]).cloned().unwrap_or_default();
    let status = new(set, &known, land, hash);
    if status == known {
        return None;
    }
    let mut object = Object::clone(&set.object.object);
    object.insert("status".to_string(), Value::Object(status));
    Some(ControllerIntent::update(
        BuiltinResource::DaemonSets,
        object,
        UpdateEndpoint::Status,
        set.object.revision,
    ))
}

fn new(set: &DaemonSetContext<'_>, known: &Object, land: &Land, hash: &str) -> Object {
    let (mut current, mut misplaced, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0);
    for (node, place) in &land.places {
        // Of several pods on a node the first one counts.
        let Some(pod) = land.on(node).first() else { continue };
        if !place.run {
            misplaced += 1;
            continue;
        }
        current += 1;
        if pod::ready(pod) {
            ready += 1;
            available += i64::from(set.available(pod));
        }
        updated += i64::from(pods::updated(set.object, pod, hash));
    }
    let wanted = land.wanted();
    let mut status = known.clone();
    for (name, count) in [
        ("desiredNumberScheduled", wanted),
        ("currentNumberScheduled", current),
        ("numberMisscheduled", misplaced),
        ("numberReady", ready),
    ] {
        status.insert(name.to_string(), i64::into(count));
    }
    for (name, count) in [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", wanted - available),
        ("observedGeneration", owner::generation(set.object)),
    ] {
        if count == 0 {
            status.remove(name);
        } else {
            status.insert(name.to_string(), count.into());
        }
    }
    status
}
