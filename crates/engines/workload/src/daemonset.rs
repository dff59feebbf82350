//! DaemonSet: one pod on every node that is a place for it (DS1 to DS9).
//!
//! ```text
//!   claim pods, revisions ──► the revision of today ──► status
//!                         ──► one pod per node ──► outdated pods ──► old revisions
//! ```
//!
//! Pods are aimed at nodes here and bound by a scheduler. Whether a node is ready or full is not
//! looked at.

mod failures;
mod manage;
mod pods;
mod revisions;
mod status;
mod update;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

pub use failures::PodFailures;

use crate::claim::{Claim, Claimed};
use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, placement, pod, selector, wake};

/// The controller of DaemonSets.
pub struct DaemonSets;

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset-controller"
    }
    fn alias(&self) -> &'static str {
        "daemonset"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::DaemonSets,
            BuiltinResource::Pods,
            BuiltinResource::ControllerRevisions,
            BuiltinResource::Nodes,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Pods => wake_by_pod(change, view, wake),
            BuiltinResource::ControllerRevisions => {
                wake::by_child(change, view, BuiltinResource::DaemonSets, selector_of, wake);
            }
            BuiltinResource::Nodes => wake_by_node(change, view, wake),
            _ => wake::itself(change, wake),
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

fn selector_of(set: &Object) -> Option<LabelSelector> {
    selector::at(set, &["spec", "selector"])
}

fn wake_by_pod(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if let (Some(before), Some(after)) = (change.before, change.after)
        && !pod::counts_differently(before, after)
        && pod::node(before) == pod::node(after)
    {
        return;
    }
    wake::by_child(change, view, BuiltinResource::DaemonSets, selector_of, wake);
}

/// A node concerns the sets for which it became, or ceased to be, a place (0.1 on DS1 and DS9).
fn wake_by_node(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if let (Some(before), Some(after)) = (change.before, change.after) {
        let same = |path: &[&str]| before.at(path) == after.at(path);
        // Heartbeats come all the time and say nothing about places.
        if same(&["metadata", "labels"]) && same(&["spec", "taints"]) {
            return;
        }
    }
    for set in view.list(BuiltinResource::DaemonSets, None) {
        let tolerations = pods::tolerations(&set);
        let place = |node: Option<&VersionedObject>| {
            node.map_or(NodeEligibility::NONE, |node| NodeEligibility::of(&set, node, &tolerations))
        };
        let misplaced = set.int_at(&["status", "numberMisscheduled"]).unwrap_or_default() > 0;
        if misplaced || place(change.before) != place(change.after) {
            wake(ReconcileKey::of(&set));
        }
    }
}

/// What a node is to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeEligibility {
    /// A pod should be there.
    run: bool,
    /// A pod that is there may stay.
    stay: bool,
}

impl NodeEligibility {
    const NONE: NodeEligibility = NodeEligibility { run: false, stay: false };

    /// Looks at name, labels and taints of a node, and at nothing else (DS1).
    fn of(set: &Object, node: &Object, tolerations: &[Value]) -> NodeEligibility {
        let spec = set.map_at(&["spec", "template", "spec"]);
        let named = spec.and_then(|spec| spec.str_at(&["nodeName"])).unwrap_or_default();
        let attracted = spec.is_none_or(|spec| placement::attracts(spec, node));
        if !(named.is_empty() || named == node.name()) || !attracted {
            return NodeEligibility::NONE;
        }
        let stay = !placement::repels(node, tolerations, &["NoExecute"]);
        NodeEligibility {
            run: stay && !placement::repels(node, tolerations, &["NoSchedule"]),
            stay,
        }
    }
}

/// A set as one pass reads it.
struct DaemonSetContext<'a> {
    object: &'a VersionedObject,
    about: InvolvedObject,
    min_ready: i64,
    now: Timestamp,
    tolerations: Vec<Value>,
}

impl<'a> DaemonSetContext<'a> {
    fn read(object: &'a VersionedObject, now: Timestamp) -> DaemonSetContext<'a> {
        DaemonSetContext {
            object,
            about: InvolvedObject::of(BuiltinResource::DaemonSets, object),
            min_ready: object.int_at(&["spec", "minReadySeconds"]).unwrap_or_default(),
            now,
            tolerations: pods::tolerations(object),
        }
    }

    fn available(&self, pod: &Object) -> bool {
        pod::available(pod, self.min_ready, self.now)
    }

    fn rolls(&self) -> bool {
        self.object.str_at(&["spec", "updateStrategy", "type"]) != Some("OnDelete")
    }
}

/// Nodes, and the pods that are on them or aimed at them.
struct Land {
    /// What each node is to the set.
    places: BTreeMap<String, NodeEligibility>,
    /// The pods by node, oldest first; also of nodes that are no more.
    pods: BTreeMap<String, Vec<VersionedObject>>,
}

impl Land {
    fn survey(
        set: &DaemonSetContext<'_>,
        claimed: &[VersionedObject],
        view: &dyn ClusterView,
    ) -> Land {
        let places = view
            .list(BuiltinResource::Nodes, None)
            .iter()
            .map(|node| {
                let place = NodeEligibility::of(set.object, node, &set.tolerations);
                (node.name().to_string(), place)
            })
            .collect();
        let mut pods: BTreeMap<String, Vec<VersionedObject>> = BTreeMap::new();
        for pod in claimed {
            // What has ended and is being deleted waits for others; there is nothing left to do.
            if pod::terminal(pod) && owner::deleting(pod) {
                continue;
            }
            if let Some(node) = pods::target(pod) {
                pods.entry(node.to_string()).or_default().push(pod.clone());
            }
        }
        for pods in pods.values_mut() {
            pods.sort_by(|a, b| pods::order(a, b));
        }
        Land { places, pods }
    }

    fn place(&self, node: &str) -> NodeEligibility {
        self.places.get(node).copied().unwrap_or(NodeEligibility::NONE)
    }

    fn on(&self, node: &str) -> &[VersionedObject] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// How many nodes should have a pod.
    fn wanted(&self) -> i64 {
        i64::try_from(self.places.values().filter(|place| place.run).count()).unwrap_or(i64::MAX)
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let (namespace, name) = (&pass.key.namespace, &pass.key.name);
    let Some(object) = pass.view.get(BuiltinResource::DaemonSets, namespace, name) else {
        return out;
    };
    let Some(selector) = selector_of(&object) else { return out };
    if selector.is_everything() {
        selects_all(pass, &object, &mut out);
        return out;
    }
    // Being deleted, its history may be gone already, and no number could be trusted (DS7).
    if owner::deleting(&object) {
        return out;
    }
    let set = DaemonSetContext::read(&object, pass.now);
    let revisions = claim(&set, &selector, BuiltinResource::ControllerRevisions, pass.view);
    let claimed = claim(&set, &selector, BuiltinResource::Pods, pass.view);
    out.intents.extend(revisions.intents);
    out.intents.extend(claimed.intents);
    if !out.intents.is_empty() {
        out.memory = pass.memory.clone();
        return out;
    }
    let pods = claimed.ours;
    let known = match revisions::decide(&set, revisions.ours, &pods, pass.view) {
        revisions::DaemonRevisionOutcome::Write(intents) => {
            out.intents = intents;
            out.memory = pass.memory.clone();
            return out;
        }
        revisions::DaemonRevisionOutcome::Known(known) => known,
    };
    let land = Land::survey(&set, &pods, pass.view);
    out.intents.extend(status::changed(&set, &land, &known.hash));
    let failures = PodFailures::recall(pass.memory, &object);
    let acted = manage::plan(&set, &land, &known.hash, pass, failures, &mut out);
    if !acted && set.rolls() {
        update::plan(&set, &land, &known.hash, pass, &mut out);
    }
    revisions::prune(&set, &known.old, &pods, &mut out);
    if let Some(wait) = pod::next_available(&pods, set.min_ready, pass.now) {
        out.wake_after(wait);
    }
    out
}

fn claim(
    set: &DaemonSetContext<'_>,
    selector: &LabelSelector,
    children: BuiltinResource,
    view: &dyn ClusterView,
) -> Claimed {
    Claim {
        resource: BuiltinResource::DaemonSets,
        controller: set.object,
        children,
        selector,
        among: |_| true,
        fits: &|_| true,
        finalizer: None,
    }
    .make(view)
}

/// A selector that matches every pod is told about once, and nothing is done.
fn selects_all(pass: &Pass<'_>, set: &VersionedObject, out: &mut ReconcileResult) {
    let generation = owner::generation(set);
    out.memory = ReconcileMemory::Reported(generation);
    if *pass.memory != out.memory {
        let words = "This daemon set is selecting all pods. A non-empty selector is required.";
        let note =
            InvolvedObject::of(BuiltinResource::DaemonSets, set).warning("SelectingAll", words);
        out.push(ControllerIntent::tell(note));
    }
}
