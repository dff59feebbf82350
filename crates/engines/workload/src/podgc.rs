//! Pods that nobody will end any more (PG1, PG2).
//!
//! ```text
//!   node gone for a while ──► its pods fail and go at once
//!   deleted, never bound  ──► goes at once
//!   out of service        ──► what is being deleted there goes at once
//!   too many have ended   ──► the oldest go
//! ```
//!
//! A key without a namespace is a node; one with an empty name looks at all ended pods.

use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, Reliance, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner, pod, time};

/// How long a node must be gone before its pods are given up, in seconds.
const NODE_GONE_SECONDS: i64 = 40;
/// How often ended pods are counted, in seconds.
const COUNT_SECONDS: i64 = 20;
/// How many ended pods may lie around.
const ENDED_MAX: usize = 12_500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The collector of pods.
pub struct PodCollector;

impl Controller for PodCollector {
    fn name(&self) -> &'static str {
        "pod-garbage-collector-controller"
    }
    fn alias(&self) -> &'static str {
        "podgc"
    }
    fn component(&self) -> &'static str {
        "pod-garbage-collector"
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
        if change.resource == BuiltinResource::Nodes {
            crate::wake::itself(change, wake);
            return;
        }
        let Some(pod) = change.after else { return };
        if pod::node(pod).is_empty() {
            if owner::deleting(pod) {
                wake(ReconcileKey::of(pod));
            }
        } else if (change.before.is_none_or(|before| pod::node(before).is_empty())
            || owner::deleting(pod))
            && lost(view.get(BuiltinResource::Nodes, "", pod::node(pod)).as_ref())
        {
            wake(ReconcileKey::new("", pod::node(pod)));
        }
        if pod::terminal(pod) && change.before.is_none_or(|before| !pod::terminal(before)) {
            wake(ReconcileKey::new("", ""));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        if !pass.key.namespace.is_empty() {
            never_bound(pass)
        } else if pass.key.name.is_empty() {
            ended(pass)
        } else {
            on_node(pass)
        }
    }
}

/// Whether a node is gone or was declared out of service.
fn lost(node: Option<&VersionedObject>) -> bool {
    node.is_none_or(|node| out_of_service(node))
}

fn out_of_service(node: &Object) -> bool {
    let taints = node.list_at(&["spec", "taints"]).iter().filter_map(Value::as_object);
    let mut taints = taints.filter_map(|taint| taint.str_at(&["key"]));
    let ready = condition::is(node.list_at(&["status", "conditions"]), "Ready", "True");
    !ready && taints.any(|key| key == OUT_OF_SERVICE)
}

fn never_bound(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let pod = pass.view.get(BuiltinResource::Pods, &pass.key.namespace, &pass.key.name);
    let unbound = |pod: &VersionedObject| pod::node(pod).is_empty() && waits(pod);
    if let Some(pod) = pod.filter(unbound) {
        out.push(ControllerIntent::delete(BuiltinResource::Pods, &pod).within_seconds(0));
    }
    out
}

/// Whether a pod is being deleted and may still take its time.
fn waits(pod: &Object) -> bool {
    owner::deleting(pod) && pod.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(1) > 0
}

fn on_node(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    if let Some(node) = pass.view.get(BuiltinResource::Nodes, "", &pass.key.name) {
        if out_of_service(&node) {
            let going = pass.view.pods_on(&pass.key.name).into_iter().filter(|pod| waits(pod));
            out.intents = going.flat_map(|pod| given_up(pass, &pod, None)).collect();
        }
        return out;
    }
    let pods = pass.view.pods_on(&pass.key.name);
    if pods.is_empty() {
        return out;
    }
    let since = match pass.memory {
        ReconcileMemory::Since(since) => *since,
        _ => pass.now,
    };
    out.memory = ReconcileMemory::Since(since);
    let enough = time::after(since, NODE_GONE_SECONDS);
    if pass.now < enough {
        out.wake_after(time::until(enough, pass.now));
        return out;
    }
    // A node that comes back in this very moment keeps its pods.
    let gone = Reliance::At {
        resource: BuiltinResource::Nodes,
        namespace: "".to_string(),
        name: pass.key.name.to_string(),
        revision: None,
    };
    let left = pods.iter().filter(|pod| !owner::deleting(pod) || waits(pod));
    out.intents = left.flat_map(|pod| given_up(pass, pod, Some(&gone))).collect();
    out
}

/// Marks a pod as failed and removes it without waiting for anybody.
fn given_up(
    pass: &Pass<'_>,
    pod: &VersionedObject,
    gone: Option<&Reliance>,
) -> Vec<ControllerIntent> {
    let mut intents = Vec::new();
    if !pod::terminal(pod) {
        let words = "PodGC: node no longer exists";
        let mut object = Object::clone(&pod.object);
        let status = object.map_mut("status");
        status.insert("phase".to_string(), "Failed".into());
        let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
        let why = condition::new("DisruptionTarget", "True", "DeletionByPodGC", words, pass.now);
        condition::set(&mut conditions, why);
        status.insert("conditions".to_string(), Value::Array(conditions));
        intents.push(ControllerIntent::update(
            BuiltinResource::Pods,
            object,
            UpdateEndpoint::Status,
            pod.revision,
        ));
    }
    intents
        .push(ControllerIntent::delete(BuiltinResource::Pods, pod).within_seconds(0).independent());
    for intent in &mut intents {
        intent.relies_on.extend(gone.cloned());
    }
    intents
}

/// Removes the oldest ended pods where there are too many (PG2).
fn ended(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let since = match pass.memory {
        ReconcileMemory::Since(since) => *since,
        _ => pass.now,
    };
    let due = time::after(since, COUNT_SECONDS);
    if pass.now < due {
        out.memory = ReconcileMemory::Since(since);
        out.wake_after(time::until(due, pass.now));
        return out;
    }
    let mut ended = pass.view.list(BuiltinResource::Pods, None);
    ended.retain(|pod| pod::terminal(pod) && !owner::deleting(pod));
    let excess = ended.len().saturating_sub(ENDED_MAX);
    if excess > 0 {
        let evicted = |pod: &VersionedObject| pod.str_at(&["status", "reason"]) == Some("Evicted");
        ended.sort_by_key(|pod| (!evicted(pod), time::created(pod)));
        let gone = ended.iter().take(excess);
        out.intents = gone
            .map(|pod| {
                ControllerIntent::delete(BuiltinResource::Pods, pod).within_seconds(0).independent()
            })
            .collect();
    }
    out
}
