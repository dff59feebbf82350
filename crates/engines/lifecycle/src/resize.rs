//! Resources that change while a pod runs (R111b): what a pod is given on its node, whether more fits, and what
//! that means for each of its containers. Nothing is written to a control group here.
//!
//! ```text
//!   spec ──► fits? ──► given ──► containers: changed in place, or ended and started again
//!              └─ no ──► PodResizePending          └──► PodResizeInProgress until all have it
//! ```

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt as _};

use crate::fit::{NodeCapacity, PodRequests};

/// What can change in place.
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
/// The lists of containers that can change.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// The resources of each container, by name.
pub type PodResources = BTreeMap<String, Object>;

/// How far a change of resources is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodResize {
    /// Why what is wanted was not given.
    pub pending: Option<PendingResize>,
    /// The generation that was given, until all containers have it.
    pub in_progress: Option<i64>,
    /// Why a container does not get it.
    pub error: Option<String>,
}

/// Why what is wanted was not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingResize {
    /// Whether it never can be, rather than not now.
    pub infeasible: bool,
    /// What people read.
    pub message: String,
    /// The generation that was asked for.
    pub generation: i64,
}

impl PendingResize {
    /// The reason of the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        if self.infeasible { "Infeasible" } else { "Deferred" }
    }
}

/// The resources that a pod asks for.
#[must_use]
pub fn pod_resources(pod: &Object) -> PodResources {
    let mut all = PodResources::new();
    for list in LISTS {
        for container in pod.list_at(&["spec", list]).iter().filter_map(Value::as_object) {
            let name = container.str_at(&["name"]).unwrap_or_default().to_owned();
            all.insert(name, container.map_at(&["resources"]).cloned().unwrap_or_default());
        }
    }
    all
}

/// The pod with the resources it was given; `None` if these are what it asks for. A container that is not known
/// keeps its own.
#[must_use]
pub fn with_resources(pod: &Object, given: &PodResources) -> Option<Object> {
    let wanted = pod_resources(pod);
    let same = |(name, wanted): (&String, &Object)| {
        given.get(name).is_none_or(|given| same_resources(given, wanted))
    };
    if wanted.iter().all(same) {
        return None;
    }
    let mut changed = pod.clone();
    let spec = changed.map_mut("spec");
    for list in LISTS {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let name = container.str_at(&["name"]).unwrap_or_default();
            if let Some(given) = given.get(name) {
                container.insert("resources".to_owned(), Value::Object(given.clone()));
            }
        }
    }
    Some(changed)
}

/// Whether two lists of resources mean the same amounts of what can change.
#[must_use]
pub fn same_resources(left: &Object, right: &Object) -> bool {
    RESIZABLE.iter().all(|name| same_amounts(left, right, name))
}

fn same_amounts(left: &Object, right: &Object, name: &str) -> bool {
    let amount = |of: &Object, list: &str| of.at(&[list, name]).and_then(Quantity::from_value);
    ["requests", "limits"].iter().all(|list| amount(left, list) == amount(right, list))
}

/// Why a node cannot give a pod what it asks for beside what the others have; `None` if it can. What grows in
/// nothing always fits.
#[must_use]
pub fn pending_resize(
    given: &PodRequests,
    wanted: &PodRequests,
    room: &NodeCapacity,
    others: &[PodRequests],
    generation: i64,
) -> Option<PendingResize> {
    let sum = |of: fn(&PodRequests) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
    for (name, had, want, used, capacity) in [
        ("cpu", given.cpu_millis, wanted.cpu_millis, sum(|pod| pod.cpu_millis), room.cpu_millis),
        (
            "memory",
            given.memory_bytes,
            wanted.memory_bytes,
            sum(|pod| pod.memory_bytes),
            room.memory_bytes,
        ),
    ] {
        let message = if want <= had {
            continue;
        } else if want > capacity {
            format!(
                "Node didn't have enough capacity: {name}, requested: {want}, capacity: {capacity}"
            )
        } else if used.saturating_add(want) > capacity {
            format!(
                "Node didn't have enough resource: {name}, requested: {want}, used: {used}, \
                 capacity: {capacity}"
            )
        } else {
            continue;
        };
        return Some(PendingResize { infeasible: want > capacity, message, generation });
    }
    None
}

/// Whether a container must be started again to have other resources: it says so of one that differs.
#[must_use]
pub fn resize_restarts(container: &Object, has: &Object, given: &Object) -> bool {
    let policies = container.list_at(&["resizePolicy"]).iter().filter_map(Value::as_object);
    let restarts = |policy: &&Object| policy.str_at(&["restartPolicy"]) == Some("RestartContainer");
    policies
        .filter(restarts)
        .filter_map(|policy| policy.str_at(&["resourceName"]))
        .any(|name| RESIZABLE.contains(&name) && !same_amounts(has, given, name))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn requests(cpu_millis: u64, memory_bytes: u64) -> PodRequests {
        PodRequests { cpu_millis, memory_bytes, ..PodRequests::default() }
    }

    #[test]
    fn r111b_a_pod_keeps_what_it_was_given_until_it_gets_more() {
        let pod = |cpu: &str| {
            object(json!({"spec": {
                "initContainers": [{"name": "i"}],
                "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]}}))
        };
        let given = pod_resources(&pod("1"));
        assert_eq!(with_resources(&pod("1000m"), &given), None, "the same amount");
        assert_eq!(
            with_resources(&pod("2"), &given),
            Some(object(json!({"spec": {
            "initContainers": [{"name": "i", "resources": {}}],
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}})))
        );
    }

    #[test]
    fn r111b_what_never_fits_is_infeasible_and_what_does_not_fit_now_is_deferred() {
        let room = NodeCapacity { cpu_millis: 1000, memory_bytes: 1000, ..NodeCapacity::default() };
        let judge = |given, wanted| {
            let pending = pending_resize(&given, &wanted, &room, &[requests(600, 1200)], 7)?;
            assert_eq!(pending.generation, 7);
            Some((pending.reason(), pending.message))
        };
        assert_eq!(judge(requests(100, 0), requests(400, 0)), None);
        assert_eq!(judge(requests(0, 500), requests(0, 500)), None, "it grows in nothing");
        let words =
            "Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000";
        assert_eq!(judge(requests(100, 0), requests(500, 0)), Some(("Deferred", words.to_owned())));
        let words = "Node didn't have enough capacity: memory, requested: 1001, capacity: 1000";
        assert_eq!(
            judge(requests(0, 0), requests(0, 1001)),
            Some(("Infeasible", words.to_owned()))
        );
    }

    #[test]
    fn r111b_a_container_starts_again_for_what_its_policy_names() {
        let container = object(json!({"resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"}]}));
        let of =
            |cpu: &str, memory: &str| object(json!({"limits": {"cpu": cpu, "memory": memory}}));
        assert!(!resize_restarts(&container, &of("1", "1Mi"), &of("2", "1024Ki")));
        assert!(resize_restarts(&container, &of("1", "1Mi"), &of("1", "2Mi")));
    }
}
