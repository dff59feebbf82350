//! Pods and claims keep to the LimitRanges of their namespace (R250).
//!
//! What a LimitRange fills in and refuses is decided in `kinds::podspec`; here it meets the state.

use tenure_kinds::podspec::limit_range::{default_limits, refuse_claim, refuse_pod};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::World;

use crate::admit::Operation;
use crate::request::ResourceRequest;

/// What is looked at: pods that are made or resized, and claims.
fn applies(request: &ResourceRequest, operation: Operation, old: Option<&Object>) -> bool {
    // What is on its way out is let go.
    let deleting = |old: &Object| old.str_at(&["metadata", "deletionTimestamp"]).is_some();
    let kind = &request.served.kind;
    if !kind.group.is_empty() || old.is_some_and(deleting) {
        return false;
    }
    matches!(
        (kind.kind.as_ref(), request.subresource.as_str(), operation),
        ("Pod", "", Operation::Create)
            | ("Pod", "resize", Operation::Update)
            | ("PersistentVolumeClaim", "", Operation::Create | Operation::Update)
    )
}

fn ranges(state: &World, namespace: &str) -> Result<Vec<Object>, Failure> {
    let prefix = format!("/registry/limitranges/{namespace}/");
    let records = state.range(&prefix, None);
    records
        .map(|record| serde_json::from_slice(record.bytes()).map_err(Failure::internal))
        .collect()
}

/// Fills in what the containers of a pod leave unsaid.
pub(super) fn fill(
    state: &World,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    object: &mut Object,
) -> Result<(), Failure> {
    if request.served.kind.kind != "Pod" || !applies(request, operation, old) {
        return Ok(());
    }
    for range in ranges(state, object.namespace())? {
        default_limits(&range, object);
    }
    Ok(())
}

/// Refuses what goes beyond a bound.
pub(super) fn refuse(
    state: &World,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    if !applies(request, operation, old) {
        return Ok(());
    }
    let kind = &request.served.kind;
    for range in ranges(state, new.namespace())? {
        let is_pod = kind.kind == "Pod";
        let faults = if is_pod { refuse_pod(&range, new) } else { refuse_claim(&range, new) };
        if !faults.is_empty() {
            let why = match faults.as_slice() {
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            return Err(Failure::forbidden(&kind.group, &kind.plural, new.name(), &why));
        }
    }
    Ok(())
}
