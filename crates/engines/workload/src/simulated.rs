//! Nodes without containers: pods that are bound to them start, become ready and end.
//!
//! ```text
//!   Node with the label ──► lease, Ready        pods on it ──► Running ──► ended, or run on
//!                                               deleted ones ──► gone at once
//! ```
//!
//! One key for each node: it alone gives addresses to its pods. Annotations of a pod say how it ends:
//! `tenure.dev/outcome` (`succeed`, `fail` or `run`), `tenure.dev/exit-code`,
//! `tenure.dev/duration-seconds`, `tenure.dev/ready-after-seconds` and `tenure.dev/failure-percent`. A
//! node with the annotation `tenure.dev/lease: stopped` renews its lease no more, as if it had failed.
//! Nothing is ever executed.

mod life;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::taints::LEASES;
use crate::view::{ClusterView, VersionedObject};
use crate::{condition, owner, pod, time};

/// The label of nodes whose pods are only imagined.
pub const LABEL: &str = "tenure.dev/runtime";
/// The value of the label.
pub const NONE: &str = "none";
/// The annotation of a node that plays dead, and its value.
const LEASE: &str = "tenure.dev/lease";
const STOPPED: &str = "stopped";
/// How long a lease holds, in seconds; it is renewed after half of that.
const LEASE_SECONDS: i64 = 40;

/// The agent of simulated nodes.
pub struct SimulatedNodes;

impl Controller for SimulatedNodes {
    fn name(&self) -> &'static str {
        "simulated-node-controller"
    }
    fn alias(&self) -> &'static str {
        "simulated-node"
    }
    fn component(&self) -> &'static str {
        "kubelet"
    }
    fn on_by_default(&self) -> bool {
        false
    }
    fn comes_first(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Nodes, BuiltinResource::Pods]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Nodes {
            if change.after.is_some_and(|node| simulated(node)) {
                crate::wake::itself(change, wake);
            }
            return;
        }
        let Some(pod) = change.after.filter(|pod| !pod::node(pod).is_empty()) else { return };
        if !owner::deleting(pod) && life::runs_on(pod) {
            return;
        }
        let node = view.get(BuiltinResource::Nodes, "", pod::node(pod));
        if node.is_some_and(|node| simulated(&node)) {
            wake(ReconcileKey::new("", pod::node(pod)));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let node = pass.view.get(BuiltinResource::Nodes, "", &pass.key.name);
        let Some(node) = node.filter(|node| simulated(node)) else { return out };
        if owner::annotation(&node, LEASE) == Some(STOPPED) {
            return out;
        }
        keep_lease(pass, &node, &mut out);
        if !condition::is(node.list_at(&["status", "conditions"]), "Ready", "True") {
            out.push(woken_up(pass, &node));
        }
        run_pods(pass, &node, &mut out);
        out
    }
}

fn simulated(node: &Object) -> bool {
    owner::label(node, LABEL) == Some(NONE)
}

/// Takes or renews the lease of a node.
fn keep_lease(pass: &Pass<'_>, node: &VersionedObject, out: &mut ReconcileResult) {
    let lease = pass.view.get(BuiltinResource::Leases, LEASES, node.name());
    let renewed = lease.as_ref().and_then(|lease| time::at(lease, &["spec", "renewTime"]));
    if let Some(renewed) = renewed {
        let due = time::after(renewed, LEASE_SECONDS / 2);
        if due > pass.now {
            out.wake_after(time::until(due, pass.now));
            return;
        }
    }
    out.wake_after(core::time::Duration::from_secs(LEASE_SECONDS.unsigned_abs() / 2));
    let spec = json!({
        "holderIdentity": node.name(),
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": micros(pass.now),
    });
    if let Some(lease) = lease {
        let mut object = Object::clone(&lease.object);
        object.insert("spec".to_string(), spec);
        let intent = ControllerIntent::update(
            BuiltinResource::Leases,
            object,
            UpdateEndpoint::Main,
            lease.revision,
        );
        out.push(intent.independent());
        return;
    }
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node.name(),
            "namespace": LEASES,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": owner::uid(node)},
            ],
        },
        "spec": spec,
    });
    let object = object.as_object().cloned().unwrap_or_default();
    out.push(ControllerIntent::create(BuiltinResource::Leases, object).independent());
}

/// A time with microseconds, as leases write it.
fn micros(time: jiff::Timestamp) -> String {
    let part = time.as_microsecond().rem_euclid(1_000_000);
    let whole = time::written(time);
    format!("{}.{part:06}Z", whole.trim_end_matches('Z'))
}

/// Says that a node is ready again.
fn woken_up(pass: &Pass<'_>, node: &VersionedObject) -> ControllerIntent {
    let mut object = Object::clone(&node.object);
    let status = object.map_mut("status");
    let conditions = Value::Array(conditions(&time::written(pass.now)).to_vec());
    status.insert("conditions".to_string(), conditions);
    ControllerIntent::update(BuiltinResource::Nodes, object, UpdateEndpoint::Status, node.revision)
        .independent()
}

/// The conditions of a healthy node.
fn conditions(now: &str) -> [Value; 4] {
    let calm = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    [
        calm("MemoryPressure", "False", "KubeletHasSufficientMemory", "there is enough memory"),
        calm("DiskPressure", "False", "KubeletHasNoDiskPressure", "there is enough disk"),
        calm("PIDPressure", "False", "KubeletHasSufficientPID", "there are enough process ids"),
        calm("Ready", "True", "KubeletReady", "the simulated node is ready"),
    ]
}

/// The object of the simulated node with this number, counted from one.
#[must_use]
pub fn node(number: u16, now: jiff::Timestamp) -> Object {
    let name = format!("node-{number}");
    let index = u32::from(number);
    // 1,022 addresses for pods on each node, all inside 10.0.0.0/8.
    let range = Ipv4Addr::from_bits((10 << 24) + (64 << 16) + index * 1024);
    let address = Ipv4Addr::from_bits((172 << 24) + (18 << 16) + index + 1).to_string();
    let given = json!({
        "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "hugepages-2Mi": "0",
        "pods": "1000",
    });
    let range = format!("{range}/22");
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                LABEL: NONE,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"podCIDR": range, "podCIDRs": [range], "providerID": format!("tenure://{name}")},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "allocatable": given,
            "capacity": given,
            "conditions": conditions(&time::written(now)),
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "none://0",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.38.0",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "systemUUID": "",
            },
        },
    });
    node.as_object().cloned().unwrap_or_default()
}

/// A pod on a node as its agent needs it, small enough to be remembered for every pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Whether nothing happens to it by itself: it runs on, or is over.
    rests: bool,
    /// Its address, once it has one.
    address: Option<Ipv4Addr>,
}

impl Resident {
    /// Takes in a pod.
    #[must_use]
    pub fn of(pod: &Object) -> Resident {
        let address = pod.str_at(&["status", "podIP"]).and_then(|ip| ip.parse().ok());
        let rests = !owner::deleting(pod) && (life::runs_on(pod) || pod::terminal(pod));
        Resident { rests, address }
    }
}

/// The pods on a node: those that move on, and the addresses of all.
#[derive(Debug, Default)]
pub struct NodeLoad {
    moving: Vec<VersionedObject>,
    addresses: BTreeSet<u32>,
}

impl NodeLoad {
    /// Adds a pod, which is read only if it moves on.
    pub fn add(&mut self, pod: Resident, read: impl FnOnce() -> Option<VersionedObject>) {
        self.addresses.extend(pod.address.map(Ipv4Addr::to_bits));
        if !pod.rests {
            self.moving.extend(read());
        }
    }
}

/// Moves every pod of a node as far as it can go now.
fn run_pods(pass: &Pass<'_>, node: &VersionedObject, out: &mut ReconcileResult) {
    let NodeLoad { moving, addresses } = pass.view.node_load(node.name());
    if moving.is_empty() {
        return;
    }
    let mut addresses = Addresses::of(node, addresses);
    for pod in &moving {
        if owner::deleting(pod) {
            out.intents.extend(ended(pass, pod));
            continue;
        }
        let began = pod.str_at(&["status", "podIP"]).is_some_and(|ip| !ip.is_empty());
        let address = match (began, pod.bool_at(&["spec", "hostNetwork"])) {
            (true, _) => None,
            (false, Some(true)) => Some(addresses.host.clone()),
            (false, _) => addresses.next(),
        };
        let step = life::step(pod, &addresses.host, address, pass.now);
        if let Some(wait) = step.wait {
            out.wake_after(wait);
        }
        if let Some(status) = step.status {
            let mut object = Object::clone(&pod.object);
            object.insert("status".to_string(), Value::Object(status));
            let mut intent = ControllerIntent::update(
                BuiltinResource::Pods,
                object,
                UpdateEndpoint::Status,
                pod.revision,
            );
            if !began {
                let note = InvolvedObject::of(BuiltinResource::Pods, pod);
                intent = intent.when_done(note.normal("Started", "Container started"));
            }
            out.push(intent.independent().together(true));
        }
    }
}

/// Lets go of a pod that is being deleted; one that others still hold is first said to have ended.
fn ended(pass: &Pass<'_>, pod: &VersionedObject) -> Vec<ControllerIntent> {
    let mut intents = Vec::new();
    if pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0)
        && (pod::terminal(pod) || pod.list_at(&["metadata", "finalizers"]).is_empty())
    {
        return intents;
    }
    let held = !pod.list_at(&["metadata", "finalizers"]).is_empty();
    if held && !pod::terminal(pod) {
        let mut object = Object::clone(&pod.object);
        let status = Value::Object(life::killed(pod, pass.now));
        object.insert("status".to_string(), status);
        let intent = ControllerIntent::update(
            BuiltinResource::Pods,
            object,
            UpdateEndpoint::Status,
            pod.revision,
        );
        intents.push(intent.independent().together(true));
        if pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0) {
            return intents;
        }
    }
    let delete = ControllerIntent::delete(BuiltinResource::Pods, pod).within_seconds(0);
    // After a write of the same pod, not beside it.
    let beside = intents.is_empty();
    intents.push(delete.independent().together(beside));
    intents
}

/// The addresses of a node: its own, and those it can still give to pods.
struct Addresses {
    host: String,
    first: u32,
    size: u32,
    used: BTreeSet<u32>,
    at: u32,
}

impl Addresses {
    fn of(node: &Object, used: BTreeSet<u32>) -> Addresses {
        let listed = node.list_at(&["status", "addresses"]).iter().filter_map(Value::as_object);
        let host = listed
            .filter(|address| address.str_at(&["type"]) == Some("InternalIP"))
            .find_map(|address| address.str_at(&["address"]));
        let range = node.str_at(&["spec", "podCIDR"]).unwrap_or("10.64.0.0/22");
        let (first, bits) = range.split_once('/').unwrap_or((range, "22"));
        let first = first.parse::<Ipv4Addr>().map_or(0, Ipv4Addr::to_bits);
        let bits = bits.parse::<u32>().unwrap_or(22).clamp(8, 30);
        Addresses {
            host: host.unwrap_or("172.18.0.1").to_string(),
            first,
            size: 1 << (32 - bits),
            used,
            at: 0,
        }
    }

    /// The lowest address that no pod has, but for the first and the last of the range.
    fn next(&mut self) -> Option<String> {
        while self.at + 2 < self.size {
            self.at += 1;
            let address = self.first.wrapping_add(self.at);
            if self.used.insert(address) {
                return Some(Ipv4Addr::from_bits(address).to_string());
            }
        }
        None
    }
}
