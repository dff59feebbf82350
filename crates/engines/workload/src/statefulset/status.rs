//! The status of a StatefulSet (SS10).

use alloc::string::ToString;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::revisions::Revisions;
use super::{Members, StatefulSetContext, identity};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::{owner, pod};

/// The write of a status that differs from the stored one.
pub(super) fn changed(
    set: &StatefulSetContext<'_>,
    members: &Members,
    revisions: &Revisions,
) -> Option<ControllerIntent> {
    let known = set.object.map_at(&["status"]).cloned().unwrap_or_default();
    let status = new(set, &known, members, revisions);
    (status != known).then(|| write(set, status))
}

/// The write of this status.
pub(super) fn write(set: &StatefulSetContext<'_>, status: Object) -> ControllerIntent {
    let mut object = Object::clone(&set.object.object);
    object.insert("status".to_string(), Value::Object(status));
    ControllerIntent::update(
        BuiltinResource::StatefulSets,
        object,
        UpdateEndpoint::Status,
        set.object.revision,
    )
}

fn new(
    set: &StatefulSetContext<'_>,
    known: &Object,
    members: &Members,
    revisions: &Revisions,
) -> Object {
    let count = |holds: &dyn Fn(&Object) -> bool| -> i64 {
        i64::try_from(members.all().filter(|pod| holds(pod)).count()).unwrap_or(i64::MAX)
    };
    let at = |name: &str| count(&|pod| !owner::deleting(pod) && identity::revision(pod) == name);
    let replicas = count(&|_| true);
    let ready = count(&running);
    let available = count(&|pod| running(pod) && set.available(pod));
    let updated = at(&revisions.update.name);
    let mut current = (revisions.current.name.as_str(), at(&revisions.current.name));
    if [updated, ready, replicas].iter().all(|count| *count == set.replicas) {
        current = (revisions.update.name.as_str(), updated);
    }
    let mut status = known.clone();
    status.insert("observedGeneration".to_string(), owner::generation(set.object).into());
    status.insert("replicas".to_string(), replicas.into());
    status.insert("availableReplicas".to_string(), available.into());
    status.insert("collisionCount".to_string(), revisions.collisions.into());
    status.insert("currentRevision".to_string(), current.0.into());
    status.insert("updateRevision".to_string(), revisions.update.name.as_str().into());
    put(&mut status, "readyReplicas", ready);
    put(&mut status, "currentReplicas", current.1);
    put(&mut status, "updatedReplicas", updated);
    status
}

/// Whether a pod runs and is ready.
pub(super) fn running(pod: &Object) -> bool {
    pod::phase(pod) == "Running" && pod::ready(pod)
}

/// Sets a count, or leaves it out when it is zero.
fn put(status: &mut Object, name: &str, count: i64) {
    if count == 0 {
        status.remove(name);
    } else {
        status.insert(name.to_string(), count.into());
    }
}
