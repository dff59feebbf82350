//! Which pods go when there are too many (RS2).
//!
//! The order is not transitive where ages share a bucket, as upstream's is not; so the sort here is
//! one that any comparison leaves in peace.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::Pass;
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{owner, pod, time};

/// What an annotation says about how much it costs to lose a pod.
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The first `count` of the pods in the order in which they may go.
pub(super) fn choose(
    resource: BuiltinResource,
    pass: &Pass<'_>,
    set: &VersionedObject,
    active: &[VersionedObject],
    count: usize,
) -> Vec<VersionedObject> {
    if count >= active.len() {
        return active.to_vec();
    }
    let crowd = crowd(resource, pass, set);
    let mut facts: Vec<DeletionRank<'_>> =
        active.iter().map(|pod| DeletionRank::of(pod, &crowd, pass.now)).collect();
    facts = sorted(facts);
    facts.into_iter().take(count).map(|facts| facts.seen.clone()).collect()
}

/// How many active pods each node has of all sets with the same controller.
fn crowd(
    resource: BuiltinResource,
    pass: &Pass<'_>,
    set: &VersionedObject,
) -> BTreeMap<alloc::string::String, usize> {
    let mut sets: BTreeSet<alloc::string::String> = BTreeSet::new();
    sets.insert(owner::uid(set).into());
    let controller = owner::controller_of(set).and_then(|entry| entry.str_at(&["uid"]));
    if let Some(controller) = controller {
        let siblings = pass.view.owned_by(controller, resource);
        let siblings = siblings.iter().filter(|sibling| owner::controlled_by(sibling, controller));
        sets.extend(siblings.map(|sibling| owner::uid(sibling).into()));
    }
    let mut crowd = BTreeMap::new();
    for uid in &sets {
        for pod in pass.view.owned_by(uid, BuiltinResource::Pods) {
            if pod::active(&pod) && owner::controlled_by(&pod, uid) {
                *crowd.entry(pod::node(&pod).into()).or_insert(0) += 1;
            }
        }
    }
    crowd
}

/// What the order looks at, read once per pod.
struct DeletionRank<'a> {
    seen: &'a VersionedObject,
    assigned: bool,
    phase: u8,
    ready: bool,
    cost: i32,
    crowd: usize,
    ready_since: Option<Timestamp>,
    restarts: (i64, i64),
    created: Option<Timestamp>,
    now: Timestamp,
}

impl<'a> DeletionRank<'a> {
    fn of(
        seen: &'a VersionedObject,
        crowd: &BTreeMap<alloc::string::String, usize>,
        now: Timestamp,
    ) -> DeletionRank<'a> {
        let node = pod::node(seen);
        DeletionRank {
            seen,
            assigned: !node.is_empty(),
            phase: match pod::phase(seen) {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            ready: pod::ready(seen),
            cost: cost(seen),
            crowd: crowd.get(node).copied().unwrap_or_default(),
            ready_since: pod::ready_since(seen),
            restarts: restarts(seen),
            created: time::created(seen),
            now,
        }
    }

    /// Less goes first.
    fn compare(&self, other: &DeletionRank<'_>) -> Ordering {
        let plain = self
            .assigned
            .cmp(&other.assigned)
            .then(self.phase.cmp(&other.phase))
            .then(self.ready.cmp(&other.ready))
            .then(self.cost.cmp(&other.cost))
            .then(other.crowd.cmp(&self.crowd));
        if plain.is_ne() {
            return plain;
        }
        if self.ready && self.ready_since != other.ready_since {
            return self.younger(other, self.ready_since, other.ready_since);
        }
        if self.restarts != other.restarts {
            return other.restarts.cmp(&self.restarts);
        }
        if self.created != other.created {
            return self.younger(other, self.created, other.created);
        }
        Ordering::Equal
    }

    /// The one with less age goes first; ages of one power of two count as the same.
    fn younger(
        &self,
        other: &DeletionRank<'_>,
        mine: Option<Timestamp>,
        theirs: Option<Timestamp>,
    ) -> Ordering {
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            return mine.is_some().cmp(&theirs.is_some());
        };
        bucket(mine, self.now)
            .cmp(&bucket(theirs, self.now))
            .then_with(|| owner::uid(self.seen).cmp(owner::uid(other.seen)))
    }
}

/// The power of two of an age; times that are not past come before all.
fn bucket(since: Timestamp, now: Timestamp) -> i64 {
    let age = now.duration_since(since).as_nanos();
    match u128::try_from(age) {
        Ok(age) => age.checked_ilog2().map_or(-1, i64::from),
        Err(_) => -1,
    }
}

fn cost(pod: &Object) -> i32 {
    let text = owner::annotation(pod, COST).unwrap_or_default();
    // Signs in front and zeros before the number are not taken, as upstream does.
    let plain = text.strip_prefix('-').unwrap_or(text);
    let odd = plain.starts_with('+') || (plain.len() > 1 && plain.starts_with('0'));
    if odd { 0 } else { text.parse().unwrap_or_default() }
}

/// The most restarts of a container, and of a sidecar.
fn restarts(pod: &Object) -> (i64, i64) {
    let count = |status: &Value| status.get("restartCount").and_then(Value::as_i64);
    let regular = pod.list_at(&["status", "containerStatuses"]).iter().filter_map(count).max();
    let sidecar = |name: Option<&Value>| {
        pod.list_at(&["spec", "initContainers"]).iter().any(|container| {
            container.get("name") == name
                && container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
        })
    };
    let sidecars = pod
        .list_at(&["status", "initContainerStatuses"])
        .iter()
        .filter(|status| sidecar(status.get("name")))
        .filter_map(count)
        .max();
    (regular.unwrap_or_default(), sidecars.unwrap_or_default())
}

/// A merge sort: it ends and loses nothing whatever the comparison answers.
fn sorted(mut all: Vec<DeletionRank<'_>>) -> Vec<DeletionRank<'_>> {
    if all.len() < 2 {
        return all;
    }
    let right = all.split_off(all.len() / 2);
    let (left, right) = (sorted(all), sorted(right));
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let from_right = second.compare(first).is_lt();
        merged.extend(if from_right { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}
