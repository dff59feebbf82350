//! What a node has left to give: resources, places for pods, ports of the host.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

/// A port of the host: protocol, address, number.
type Port = (String, String, i64);

/// What a pod takes from its node, small enough to be remembered for every pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAllocation {
    pub(super) node: String,
    pub(super) priority: i64,
    /// Whether it keeps others away.
    pub(super) shy: bool,
    requests: Vec<(String, i128)>,
    ports: Vec<Port>,
}

impl PodAllocation {
    /// What a pod takes; nothing where it has no node, or is over.
    #[must_use]
    pub fn of(pod: &Object) -> Option<PodAllocation> {
        if crate::pod::node(pod).is_empty() || crate::pod::terminal(pod) {
            return None;
        }
        Some(PodAllocation {
            node: crate::pod::node(pod).to_string(),
            priority: super::priority(pod),
            shy: pod.at(&["spec", "affinity", "podAntiAffinity"]).is_some(),
            requests: requests(pod).into_iter().collect(),
            ports: host_ports(pod),
        })
    }
}

/// What is left on a node, in thousandths of each resource.
#[derive(Clone)]
pub(super) struct FreeCapacity {
    left: BTreeMap<String, i128>,
    pods: i64,
    ports: BTreeSet<Port>,
}

impl FreeCapacity {
    /// An empty node.
    pub(super) fn of(node: &Object) -> FreeCapacity {
        let given = node
            .map_at(&["status", "allocatable"])
            .or_else(|| node.map_at(&["status", "capacity"]));
        let mut left = BTreeMap::new();
        for (name, value) in given.into_iter().flatten() {
            left.insert(name.clone(), thousandths(value));
        }
        let pods = left.remove("pods").unwrap_or_default() / 1000;
        FreeCapacity { left, pods: i64::try_from(pods).unwrap_or(i64::MAX), ports: BTreeSet::new() }
    }

    /// Gives a pod what it asks for.
    pub(super) fn take(&mut self, pod: &Object) {
        self.give(requests(pod), host_ports(pod));
    }

    /// Gives what is known to be taken.
    pub(super) fn hand_over(&mut self, taken: &PodAllocation) {
        self.give(taken.requests.iter().cloned(), taken.ports.iter().cloned());
    }

    fn give(
        &mut self,
        requests: impl IntoIterator<Item = (String, i128)>,
        ports: impl IntoIterator<Item = Port>,
    ) {
        self.pods -= 1;
        for (name, wanted) in requests {
            *self.left.entry(name).or_default() -= wanted;
        }
        self.ports.extend(ports);
    }

    /// Takes back what a pod had.
    pub(super) fn give_back(&mut self, pod: &Object) {
        self.pods += 1;
        for (name, wanted) in requests(pod) {
            *self.left.entry(name).or_default() += wanted;
        }
        for port in host_ports(pod) {
            self.ports.remove(&port);
        }
    }

    /// What a pod asks for that is not left.
    pub(super) fn lacks(&self, pod: &Object) -> Vec<String> {
        if host_ports(pod).iter().any(|port| self.ports.iter().any(|taken| clash(taken, port))) {
            let words = "node(s) didn't have free ports for the requested pod ports";
            return [words.to_string()].to_vec();
        }
        let mut lacking = Vec::new();
        if self.pods <= 0 {
            lacking.push("Too many pods".to_string());
        }
        for (name, wanted) in requests(pod) {
            if wanted > 0 && wanted > self.left.get(&name).copied().unwrap_or_default() {
                lacking.push(format!("Insufficient {name}"));
            }
        }
        lacking
    }
}

fn thousandths(value: &Value) -> i128 {
    Quantity::from_value(value).map_or(0, |quantity| {
        // Beyond what thousandths can hold, whole units are exact enough.
        let units = i128::from(quantity.value());
        if units > i128::from(i64::MAX / 1000) { units * 1000 } else { quantity.milli().into() }
    })
}

/// What a pod asks for: its containers together, or its largest first step, whichever is more.
fn requests(pod: &Object) -> BTreeMap<String, i128> {
    let mut sum: BTreeMap<String, i128> = BTreeMap::new();
    for container in pod.list_at(&["spec", "containers"]).iter().filter_map(Value::as_object) {
        add(&mut sum, container.map_at(&["resources", "requests"]));
    }
    let mut peak: BTreeMap<String, i128> = BTreeMap::new();
    let mut beside: BTreeMap<String, i128> = BTreeMap::new();
    for first in pod.list_at(&["spec", "initContainers"]).iter().filter_map(Value::as_object) {
        let requested = first.map_at(&["resources", "requests"]);
        if first.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut beside, requested);
            add(&mut sum, requested);
            raise(&mut peak, &beside);
        } else {
            let mut now = beside.clone();
            add(&mut now, requested);
            raise(&mut peak, &now);
        }
    }
    raise(&mut sum, &peak);
    add(&mut sum, pod.map_at(&["spec", "overhead"]));
    sum
}

fn add(sum: &mut BTreeMap<String, i128>, requested: Option<&Object>) {
    for (name, value) in requested.into_iter().flatten() {
        *sum.entry(name.clone()).or_default() += thousandths(value);
    }
}

fn raise(most: &mut BTreeMap<String, i128>, other: &BTreeMap<String, i128>) {
    for (name, value) in other {
        let known = most.entry(name.clone()).or_default();
        *known = (*known).max(*value);
    }
}

fn host_ports(pod: &Object) -> Vec<Port> {
    let containers = pod.list_at(&["spec", "containers"]).iter().filter_map(Value::as_object);
    containers
        .flat_map(|container| container.list_at(&["ports"]))
        .filter_map(Value::as_object)
        .filter_map(|port| {
            let number = port.int_at(&["hostPort"]).filter(|number| *number > 0)?;
            let text = |name: &str, or: &str| {
                port.str_at(&[name]).filter(|text| !text.is_empty()).unwrap_or(or).to_string()
            };
            Some((text("protocol", "TCP"), text("hostIP", "0.0.0.0"), number))
        })
        .collect()
}

/// Two ports clash when number and protocol agree and neither address leaves room for the other.
fn clash(one: &Port, other: &Port) -> bool {
    let any = |port: &Port| port.1 == "0.0.0.0";
    one.0 == other.0 && one.2 == other.2 && (one.1 == other.1 || any(one) || any(other))
}
