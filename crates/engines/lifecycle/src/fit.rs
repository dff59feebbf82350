//! Whether a node takes a pod (R111). The server may have bound it without asking anybody.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt as _};

/// Why a node does not take a pod, or puts it out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRejection {
    /// One word: `OutOfcpu`, `NodeAffinity`, `Evicted`.
    pub reason: String,
    /// What people read.
    pub message: String,
}

/// What a pod asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of disk.
    pub storage_bytes: u64,
    /// Ports of the node, with address and protocol.
    pub ports: Vec<(String, String, i64)>,
}

/// What a node has for pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCapacity {
    /// Thousandths of a processor.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of disk.
    pub storage_bytes: u64,
    /// Number of pods.
    pub pods: u64,
}

/// What a pod asks for.
#[must_use]
pub fn pod_requests(pod: &Object) -> PodRequests {
    let of = |container: &Object| {
        let request = |name: &str| {
            container.at(&["resources", "requests", name]).and_then(Quantity::from_value)
        };
        let whole = |name| {
            let value = request(name).map_or(0, Quantity::value);
            u64::try_from(value).unwrap_or_default()
        };
        let millis = request("cpu").map_or(0, Quantity::milli);
        let cpu = u64::try_from(millis).unwrap_or_default();
        [cpu, whole("memory"), whole("ephemeral-storage")]
    };
    let list = |name| pod.list_at(&["spec", name]).iter().filter_map(Value::as_object);
    let add = |left: [u64; 3], right: [u64; 3]| {
        let [a, b, c] = left;
        let [x, y, z] = right;
        [a.saturating_add(x), b.saturating_add(y), c.saturating_add(z)]
    };
    let most = |left: [u64; 3], right: [u64; 3]| {
        let [a, b, c] = left;
        let [x, y, z] = right;
        [a.max(x), b.max(y), c.max(z)]
    };
    let mut running = [0; 3];
    let mut highest = [0; 3];
    for container in list("initContainers") {
        let request = of(container);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            running = add(running, request);
            highest = most(highest, running);
        } else {
            highest = most(highest, add(running, request));
        }
    }
    for container in list("containers") {
        running = add(running, of(container));
    }
    let [cpu_millis, memory_bytes, storage_bytes] = most(highest, running);
    let ports = list("containers")
        .flat_map(|container| container.list_at(&["ports"]))
        .filter_map(Value::as_object)
        .filter_map(|port| {
            let number = port.int_at(&["hostPort"]).filter(|port| *port > 0)?;
            let address = port.str_at(&["hostIP"]).unwrap_or("0.0.0.0").to_owned();
            Some((address, port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(), number))
        })
        .collect();
    PodRequests { cpu_millis, memory_bytes, storage_bytes, ports }
}

/// Whether the node takes the pod beside those it has.
///
/// # Errors
/// Why it does not.
pub fn fits(
    pod: &Object,
    wanted: &PodRequests,
    node: &Object,
    room: &NodeCapacity,
    others: &[PodRequests],
) -> Result<(), PodRejection> {
    let labels = node.map_at(&["metadata", "labels"]);
    let label = |name: &str| labels.and_then(|labels| labels.get(name)).and_then(Value::as_str);
    let refuse =
        |reason: &str, message: String| Err(PodRejection { reason: reason.to_owned(), message });
    let system = pod.str_at(&["spec", "os", "name"]);
    if system.is_some_and(|system| label("kubernetes.io/os").is_some_and(|own| own != system)) {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return refuse("PodOSNotSupported", message.to_owned());
    }
    let used = others.len() as u64;
    let sum = |of: fn(&PodRequests) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
    for (name, want, used, capacity) in [
        ("pods", 1, used, room.pods),
        ("cpu", wanted.cpu_millis, sum(|pod| pod.cpu_millis), room.cpu_millis),
        ("memory", wanted.memory_bytes, sum(|pod| pod.memory_bytes), room.memory_bytes),
        (
            "ephemeral-storage",
            wanted.storage_bytes,
            sum(|pod| pod.storage_bytes),
            room.storage_bytes,
        ),
    ] {
        if want > 0 && used.saturating_add(want) > capacity {
            return refuse(
                &format!("OutOf{name}"),
                format!(
                    "Node didn't have enough resource: {name}, requested: {want}, used: {used}, \
                     capacity: {capacity}"
                ),
            );
        }
    }
    if !selected(pod, &label) {
        let message =
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        return refuse("NodeAffinity", message.to_owned());
    }
    let taken = |port: &(String, String, i64)| {
        others.iter().flat_map(|other| &other.ports).any(|other| clash(port, other))
    };
    if wanted.ports.iter().any(taken) {
        let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        return refuse("NodePorts", message.to_owned());
    }
    Ok(())
}

fn clash(left: &(String, String, i64), right: &(String, String, i64)) -> bool {
    let every = |address: &str| address.is_empty() || address == "0.0.0.0";
    left.2 == right.2
        && left.1 == right.1
        && (left.0 == right.0 || every(&left.0) || every(&right.0))
}

/// Whether the labels of the node are those the pod asks for.
fn selected<'a>(pod: &Object, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    let selector = pod.map_at(&["spec", "nodeSelector"]).into_iter().flatten();
    if !selector.into_iter().all(|(name, value)| label(name) == value.as_str()) {
        return false;
    }
    let required = &[
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let terms = pod.list_at(required);
    terms.is_empty() || terms.iter().filter_map(Value::as_object).any(|term| matches(term, label))
}

/// Terms over labels; terms over fields name the node and were the binder's business.
fn matches<'a>(term: &Object, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    let expressions = term.list_at(&["matchExpressions"]);
    if expressions.is_empty() {
        return !term.list_at(&["matchFields"]).is_empty();
    }
    expressions.iter().filter_map(Value::as_object).all(|expression| {
        let found = label(expression.str_at(&["key"]).unwrap_or_default());
        let values: Vec<&str> =
            expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = || values.first().copied().and_then(number);
        match expression.str_at(&["operator"]).unwrap_or_default() {
            "In" => found.is_some_and(|found| values.contains(&found)),
            "NotIn" => !found.is_some_and(|found| values.contains(&found)),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => found.and_then(number).zip(bound()).is_some_and(|(found, bound)| found > bound),
            "Lt" => found.and_then(number).zip(bound()).is_some_and(|(found, bound)| found < bound),
            _ => false,
        }
    })
}
