//! Nodes in trouble, and pods that may not stay there (TN1).
//!
//! ```text
//!   conditions, lease ──► taints of the node ──► pods without toleration go, at once or later
//! ```
//!
//! A node is watched for silence only once an agent has taken a lease for it.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, placement, pod, time};

/// Where agents keep the leases of their nodes.
pub const LEASES: &str = "kube-node-lease";
/// How long an agent may be silent, in seconds.
const SILENCE_SECONDS: i64 = 50;

/// Condition, its bad status, taint.
const SIGNS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The controller that gives nodes their taints.
pub struct NodeLifecycle;

/// The controller that removes pods from tainted nodes.
pub struct TaintEviction;

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        "node-lifecycle-controller"
    }
    fn alias(&self) -> &'static str {
        "nodelifecycle"
    }
    fn component(&self) -> &'static str {
        "node-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Nodes, BuiltinResource::Leases]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let Some(object) = change.object() else { return };
        if change.resource == BuiltinResource::Nodes {
            wake(ReconcileKey::of(object));
        } else if object.namespace() == LEASES && change.before.is_none() {
            // A renewal needs no look: the timer finds it.
            wake(ReconcileKey::new("", object.name()));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let Some(node) = pass.view.get(BuiltinResource::Nodes, "", &pass.key.name) else {
            return out;
        };
        if silent(pass, &node, &mut out) {
            out.push(doubt(&node, pass.now));
        } else {
            out.intents.extend(tainted(&node, pass.now));
        }
        out
    }
}

/// Whether the agent of a node that should be heard has not been heard.
fn silent(pass: &Pass<'_>, node: &VersionedObject, out: &mut ReconcileResult) -> bool {
    let lease = pass.view.get(BuiltinResource::Leases, LEASES, node.name());
    let renewed = lease.and_then(|lease| time::at(&lease, &["spec", "renewTime"]));
    let Some(renewed) = renewed else { return false };
    if condition::is(node.list_at(&["status", "conditions"]), "Ready", "Unknown") {
        return false;
    }
    let late = time::after(renewed, SILENCE_SECONDS);
    if late > pass.now {
        out.wake_after(time::until(late, pass.now));
    }
    late <= pass.now
}

/// Says that nothing is known of a node.
fn doubt(node: &VersionedObject, now: Timestamp) -> ControllerIntent {
    let mut object = Object::clone(&node.object);
    let mut conditions: Vec<Value> = object.list_at(&["status", "conditions"]).to_vec();
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let words = "Kubelet stopped posting node status.";
        condition::set(
            &mut conditions,
            condition::new(kind, "Unknown", "NodeStatusUnknown", words, now),
        );
    }
    object.map_mut("status").insert("conditions".to_string(), Value::Array(conditions));
    let note = InvolvedObject::of(BuiltinResource::Nodes, node)
        .normal("NodeNotReady", format!("Node {} status is now: NodeNotReady", node.name()));
    ControllerIntent::update(BuiltinResource::Nodes, object, UpdateEndpoint::Status, node.revision)
        .when_done(note)
}

/// The write of a node whose taints do not say what its conditions say.
fn tainted(node: &VersionedObject, now: Timestamp) -> Option<ControllerIntent> {
    let conditions = node.list_at(&["status", "conditions"]);
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, bad, key) in SIGNS {
        if condition::is(conditions, kind, bad) {
            wanted.push((key, "NoSchedule"));
            if kind == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node.bool_at(&["spec", "unschedulable"]) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let ours = |taint: &Value| {
        let key = taint.get("key").and_then(Value::as_str).unwrap_or_default();
        key == UNSCHEDULABLE || SIGNS.iter().any(|(_, _, sign)| *sign == key)
    };
    let is = |taint: &Value, (key, effect): &(&str, &str)| {
        taint.get("key").and_then(Value::as_str) == Some(key)
            && taint.get("effect").and_then(Value::as_str) == Some(effect)
    };
    let known = node.list_at(&["spec", "taints"]);
    let mut taints: Vec<Value> = known.to_vec();
    taints.retain(|taint| !ours(taint) || wanted.iter().any(|wanted| is(taint, wanted)));
    for wanted in &wanted {
        if !taints.iter().any(|taint| is(taint, wanted)) {
            let (key, effect) = wanted;
            taints.push(json!({"key": key, "effect": effect, "timeAdded": time::written(now)}));
        }
    }
    (taints != known).then(|| {
        let mut object = Object::clone(&node.object);
        let spec = object.map_mut("spec");
        if taints.is_empty() {
            spec.remove("taints");
        } else {
            spec.insert("taints".to_string(), Value::Array(taints));
        }
        ControllerIntent::update(
            BuiltinResource::Nodes,
            object,
            UpdateEndpoint::Main,
            node.revision,
        )
    })
}

impl Controller for TaintEviction {
    fn name(&self) -> &'static str {
        "taint-eviction-controller"
    }
    fn alias(&self) -> &'static str {
        "taint-eviction"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Pods, BuiltinResource::Nodes]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let Some(object) = change.after else { return };
        let differs = |path: &[&str]| change.before.is_none_or(|b| b.at(path) != object.at(path));
        if change.resource == BuiltinResource::Pods {
            let placed = !pod::node(object).is_empty()
                && (differs(&["spec", "nodeName"]) || differs(&["spec", "tolerations"]));
            // A node that nobody must leave wakes its pods once that changes.
            if placed
                && view
                    .get(BuiltinResource::Nodes, "", pod::node(object))
                    .is_some_and(|n| evicts(&n))
            {
                wake(ReconcileKey::of(object));
            }
        } else if change.before.is_some() && differs(&["spec", "taints"]) {
            for pod in view.pods_on(object.name()) {
                wake(ReconcileKey::of(&pod));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let pod = pass.view.get(BuiltinResource::Pods, &pass.key.namespace, &pass.key.name);
        let Some(pod) = pod.filter(|pod| pod::active(pod)) else { return out };
        let Some(node) = pass.view.get(BuiltinResource::Nodes, "", pod::node(&pod)) else {
            return out;
        };
        match leaves(&node, &pod, pass.now) {
            Some(time) if time <= pass.now => out.intents = evicted(&pod, pass.now),
            Some(time) => out.wake_after(time::until(time, pass.now)),
            None => {}
        }
        out
    }
}

/// The taints that drive pods away.
fn driving_away(node: &Object) -> impl Iterator<Item = &Object> {
    let taints = node.list_at(&["spec", "taints"]).iter().filter_map(Value::as_object);
    taints.filter(|taint| taint.str_at(&["effect"]) == Some("NoExecute"))
}

fn evicts(node: &Object) -> bool {
    driving_away(node).next().is_some()
}

/// When a pod must leave its node, if it must.
fn leaves(node: &Object, pod: &Object, now: Timestamp) -> Option<Timestamp> {
    let tolerations = pod.list_at(&["spec", "tolerations"]);
    let mut earliest: Option<Timestamp> = None;
    for taint in driving_away(node) {
        let covering = tolerations.iter().filter(|t| placement::tolerates(t, taint));
        let covering: Vec<&Value> = covering.collect();
        if covering.is_empty() {
            return Some(now);
        }
        let limits = covering.iter().filter_map(|t| t.get("tolerationSeconds")?.as_i64());
        if let Some(seconds) = limits.min() {
            let since = time::at(taint, &["timeAdded"]).unwrap_or(now);
            let end = time::after(since, seconds.max(0));
            earliest = Some(earliest.map_or(end, |known| known.min(end)));
        }
    }
    earliest
}

fn evicted(pod: &VersionedObject, now: Timestamp) -> Vec<ControllerIntent> {
    let about = InvolvedObject::of(BuiltinResource::Pods, pod);
    let words = format!("Marking for deletion Pod {}/{}", pod.namespace(), pod.name());
    let mut object = Object::clone(&pod.object);
    let status = object.map_mut("status");
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    let why = "Taint manager: deleting due to NoExecute taint";
    let why = condition::new("DisruptionTarget", "True", "DeletionByTaintManager", why, now);
    condition::set(&mut conditions, why);
    status.insert("conditions".to_string(), Value::Array(conditions));
    [
        ControllerIntent::update(
            BuiltinResource::Pods,
            object,
            UpdateEndpoint::Status,
            pod.revision,
        ),
        ControllerIntent::delete(BuiltinResource::Pods, pod)
            .when_done(about.normal("TaintManagerEviction", words)),
    ]
    .to_vec()
}
