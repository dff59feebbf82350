//! How a pod is reached behind a Service: which pods count, at which ports, under which addresses.
//!
//! EndpointSlices and the older Endpoints both ask here. How the answers are packed is not here.

use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt, validate};

use crate::{owner, pod};

/// Whether a Service finds its pods by a selector; one by external name has none.
#[must_use]
pub fn selects(service: &Object) -> bool {
    service.str_at(&["spec", "type"]) != Some("ExternalName")
        && service.map_at(&["spec", "selector"]).is_some_and(|selector| !selector.is_empty())
}

/// Whether the selector of a Service picks an object.
#[must_use]
pub fn picks(service: &Object, object: &Object) -> bool {
    service.map_at(&["spec", "selector"]).is_some_and(|wanted| {
        !wanted.is_empty()
            && wanted.iter().all(|(key, value)| owner::label(object, key) == value.as_str())
    })
}

/// Whether a Service has no address of its own.
#[must_use]
pub fn headless(service: &Object) -> bool {
    matches!(service.str_at(&["spec", "clusterIP"]), None | Some("" | "None"))
}

/// Whether unready pods are shown as ready.
#[must_use]
pub fn publishes_unready(service: &Object) -> bool {
    service.bool_at(&["spec", "publishNotReadyAddresses"]) == Some(true)
}

/// The address families of a Service, as EndpointSlices write them.
#[must_use]
pub fn families(service: &Object) -> Vec<&str> {
    let named = service.list_at(&["spec", "ipFamilies"]).iter().filter_map(Value::as_str);
    let named: Vec<&str> = named.collect();
    if !named.is_empty() {
        return named;
    }
    let address = service.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    [if address.contains(':') { "IPv6" } else { "IPv4" }].to_vec()
}

/// The addresses that a pod has in a family and that may be shown to others: those of the node itself may
/// not, where that is loopback, and one of them would keep all others from being written (ES4a).
#[must_use]
pub fn addresses<'a>(pod: &'a Object, family: &str) -> Vec<&'a str> {
    let listed = pod.list_at(&["status", "podIPs"]);
    let listed = listed.iter().filter_map(|entry| entry.get("ip").and_then(Value::as_str));
    let mut all: Vec<&str> = listed.collect();
    if all.is_empty() {
        all.extend(pod.str_at(&["status", "podIP"]));
    }
    all.retain(|ip| !ip.is_empty() && ip.contains(':') == (family == "IPv6"));
    all.retain(|ip| validate::ip(ip).is_none_or(|ip| validate::published_ip_faults(ip).is_empty()));
    all
}

/// Whether a pod is in the network of a node that is on loopback, so that it has no address for others.
#[must_use]
pub fn is_left_out(pod: &Object) -> bool {
    let listed = pod.list_at(&["status", "podIPs"]).iter().filter_map(|entry| entry.get("ip"));
    let listed = listed.filter_map(Value::as_str).chain(pod.str_at(&["status", "podIP"]));
    let mut all = listed.filter_map(validate::ip).peekable();
    all.peek().is_some()
        && all.all(|ip| ip.is_loopback() && !validate::published_ip_faults(ip).is_empty())
}

/// Whether an endpoint is in the network of its machine, where nothing serves addresses of Services.
#[must_use]
pub fn in_machine(endpoint: &Object) -> bool {
    let addresses = endpoint.list_at(&["addresses"]).iter().filter_map(Value::as_str);
    addresses.filter_map(validate::ip).any(validate::is_pod_of_machine)
}

/// Whether a pod can be behind a Service at all.
#[must_use]
pub fn counts(pod: &Object, terminating_too: bool) -> bool {
    !pod::terminal(pod)
        && (terminating_too || !owner::deleting(pod))
        && (pod.str_at(&["status", "podIP"]).is_some_and(|ip| !ip.is_empty())
            || !pod.list_at(&["status", "podIPs"]).is_empty())
}

/// Whether a change of a pod can be seen behind a Service.
#[must_use]
pub fn looks_different(before: &Object, after: &Object) -> bool {
    let differs = |path: &[&str]| before.at(path) != after.at(path);
    differs(&["metadata", "labels"])
        || owner::deleting(before) != owner::deleting(after)
        || differs(&["status", "podIPs"])
        || differs(&["status", "podIP"])
        || differs(&["spec", "nodeName"])
        || pod::ready(before) != pod::ready(after)
        || pod::terminal(before) != pod::terminal(after)
}

/// The host name that a pod has under a Service, if the two fit (ES2).
#[must_use]
pub fn hostname<'a>(service: &Object, pod: &'a Object) -> Option<&'a str> {
    let name = pod.str_at(&["spec", "hostname"]).filter(|name| !name.is_empty())?;
    (pod.str_at(&["spec", "subdomain"]) == Some(service.name())).then_some(name)
}

/// Where a pod serves what a Service offers; ports that it does not have are left out.
#[must_use]
pub fn ports(service: &Object, pod: &Object) -> Vec<Value> {
    let offered = service.list_at(&["spec", "ports"]).iter().filter_map(Value::as_object);
    offered.filter_map(|port| resolved(port, pod)).collect()
}

fn resolved(port: &Object, pod: &Object) -> Option<Value> {
    let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
    let number = match port.get("targetPort") {
        Some(Value::String(name)) => match name.parse::<i64>() {
            Ok(number) => number,
            Err(_) => named(pod, name, protocol)?,
        },
        Some(target) => target.as_i64().filter(|number| *number > 0).or(port.int_at(&["port"]))?,
        None => port.int_at(&["port"])?,
    };
    let mut made = json!({
        "name": port.str_at(&["name"]).unwrap_or_default(),
        "port": number,
        "protocol": protocol,
    });
    if let (Some(made), Some(app)) = (made.as_object_mut(), port.get("appProtocol")) {
        made.insert("appProtocol".to_string(), app.clone());
    }
    Some(made)
}

/// The port with a name in a container that keeps running.
fn named(pod: &Object, name: &str, protocol: &str) -> Option<i64> {
    let stays = |container: &&Value| {
        container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
    };
    let first = pod.list_at(&["spec", "initContainers"]).iter().filter(stays);
    let containers = first.chain(pod.list_at(&["spec", "containers"]));
    containers
        .filter_map(Value::as_object)
        .flat_map(|container| container.list_at(&["ports"]))
        .filter_map(Value::as_object)
        .find(|port| {
            port.str_at(&["name"]) == Some(name)
                && port.str_at(&["protocol"]).unwrap_or("TCP") == protocol
        })?
        .int_at(&["containerPort"])
}

/// The entry that points back at a pod.
#[must_use]
pub fn target(pod: &Object) -> Value {
    json!({
        "kind": "Pod",
        "namespace": pod.namespace(),
        "name": pod.name(),
        "uid": owner::uid(pod),
    })
}
