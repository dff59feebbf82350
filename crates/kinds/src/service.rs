//! Service: defaults, what each type needs, and what an update keeps or drops.
//!
//! Addresses and node ports are handed out by the server, in this order:
//!
//! ```text
//!   default ─► prepare ─► server: needs_cluster_ip, needs_node_ports, … ─► validate
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{ip, objects, objects_mut, same, text};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::address_warning::{balancer_warnings, network_warning};
use crate::podspec::{WARNINGS_MAX, address_warning};
use crate::stored::{is_status_write, keep, set_status, spec, texts};
use crate::{service_families, service_validate};

/// Rules of Service.
pub(crate) struct ServiceRules;

/// How long a client stays with one endpoint unless the service says.
const AFFINITY_SECONDS: i64 = 10_800;

impl Rules for ServiceRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        fill(spec, "sessionAffinity", "None");
        match text(spec, "sessionAffinity") {
            "None" => {
                spec.remove("sessionAffinityConfig");
            }
            "ClientIP" => {
                let timeout = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
                if spec.int_at(&timeout).is_none() {
                    let config = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
                    spec.insert("sessionAffinityConfig".to_owned(), config);
                }
            }
            _ => {}
        }
        fill(spec, "type", "ClusterIP");
        for port in objects_mut(spec, "ports") {
            default_port(port);
        }
        if externally_accessible(spec) {
            fill(spec, "externalTrafficPolicy", "Cluster");
        }
        if matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer") {
            spec.set_default("internalTrafficPolicy", "Cluster");
        }
        if text(spec, "type") == "LoadBalancer" {
            spec.set_default("allocateLoadBalancerNodePorts", true);
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({"loadBalancer": {}}));
        let spec = object.map_mut("spec");
        pair_cluster_ips(spec, None);
        service_families::fill(spec, None);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
        let before = spec(old).clone();
        let after = object.map_mut("spec");
        keep_allocated(after, &before);
        pair_cluster_ips(after, Some(&before));
        drop_unneeded(after, &before);
        service_families::fill(after, Some(&before));
        if text(after, "type") != "LoadBalancer" && old.map_at(&["status"]).is_some() {
            object.map_mut("status").insert("loadBalancer".to_owned(), json!({}));
        }
    }

    fn validate_alone(&self, object: &Object, old: Option<&Object>, errors: &mut Errors) {
        service_families::validate(spec(object), old.map(spec), errors);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        service_validate::validate(object, errors);
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::First
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        service_validate::validate_update(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if is_status_write(object, old) {
            return balancer_warnings(object);
        }
        service_warnings(object)
    }
}

/// What to tell about what a service says and nobody heeds, or will not for long.
fn service_warnings(object: &Object) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let mut warnings = Vec::new();
    let path = Path::Root.field("spec");
    let spec = spec(object);
    if object.at(&["metadata", "annotations", HINTS]).is_some() {
        let now = "service.kubernetes.io/topology-mode";
        warnings.push(format!("annotation {HINTS} is deprecated, please use {now} instead"));
    }
    let addresses = |member: &str, warnings: &mut Vec<String>| {
        let list = path.field(member);
        for (index, address) in texts(spec, member).into_iter().enumerate() {
            warnings.extend(address_warning(address, &list.index(index)));
        }
    };
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        addresses("clusterIPs", &mut warnings);
    }
    let is_headless = text(spec, "type") == "ClusterIP" && text(spec, "clusterIP") == "None";
    let is_name = text(spec, "type") == "ExternalName";
    let external = !spec.list_at(&["externalIPs"]).is_empty();
    let balancer = text(spec, "loadBalancerIP");
    for (member, is_set) in [
        ("loadBalancerIP", !balancer.is_empty()),
        ("externalIPs", external),
        ("SessionAffinity", text(spec, "sessionAffinity") != "None"),
    ] {
        if is_headless && is_set {
            warnings.push(format!("spec.{member} is ignored for headless services"));
        }
    }
    addresses("externalIPs", &mut warnings);
    if external && !is_headless && !is_name {
        let advice = "is deprecated and may no longer be implemented in some clusters";
        warnings.push(format!("spec.externalIPs {advice}"));
    }
    warnings.extend(address_warning(balancer, &path.field("loadBalancerIP")));
    let list = path.field("loadBalancerSourceRanges");
    for (index, range) in texts(spec, "loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(network_warning(range, &list.index(index)));
    }
    if is_name && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_name && !text(spec, "externalName").is_empty() {
        let advice = "is ignored when spec.type is not \"ExternalName\"";
        warnings.push(format!("spec.externalName {advice}"));
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let advice = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(format!("spec.trafficDistribution: {advice}"));
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

/// Whether the service gets an address of its own: any type but ExternalName, and not headless.
#[must_use]
pub fn needs_cluster_ip(service: &Object) -> bool {
    let spec = spec(service);
    has_address(spec) && !headless(spec)
}

/// The addresses the service asks for by name, in order; `None` is no address.
#[must_use]
pub fn requested_cluster_ips(service: &Object) -> Vec<IpAddr> {
    texts(spec(service), "clusterIPs").into_iter().filter_map(ip).collect()
}

/// Sets the address the server chose.
pub fn set_cluster_ip(service: &mut Object, address: IpAddr) {
    let spec = service.map_mut("spec");
    let address = address.to_string();
    spec.insert("clusterIP".to_owned(), address.clone().into());
    spec.insert("clusterIPs".to_owned(), json!([address]));
}

/// Whether each port gets a port on every node.
#[must_use]
pub fn needs_node_ports(service: &Object) -> bool {
    node_ports_wanted(spec(service))
}

/// Whether a health check gets a node port: load balancers that keep traffic on the node.
#[must_use]
pub fn needs_health_check_port(service: &Object) -> bool {
    health_check_wanted(spec(service))
}

/// Every node port the service has: protocol and number.
#[must_use]
pub fn node_ports(service: &Object) -> Vec<(String, u16)> {
    let spec = spec(service);
    let number = |port: &Object| port.int_at(&["nodePort"]).and_then(|n| u16::try_from(n).ok());
    let mut ports: Vec<(String, u16)> = objects(spec, "ports")
        .filter_map(|(_, port)| Some((text(port, "protocol").to_owned(), number(port)?)))
        .filter(|(_, number)| *number != 0)
        .collect();
    if let Some(check) = spec.int_at(&["healthCheckNodePort"]).and_then(|n| u16::try_from(n).ok())
        && check != 0
    {
        ports.push(("TCP".to_owned(), check));
    }
    ports
}

/// Gives each port without a node port one that `choose` picks; the same number serves all protocols
/// of one port number.
pub fn set_node_ports(service: &mut Object, mut choose: impl FnMut(&str) -> Option<u16>) {
    let spec = service.map_mut("spec");
    let mut chosen: Vec<(i64, i64, String)> = Vec::new();
    for port in objects_mut(spec, "ports") {
        let number = port.int_at(&["port"]).unwrap_or_default();
        let protocol = text(port, "protocol").to_owned();
        let mut node = port.int_at(&["nodePort"]).unwrap_or_default();
        if node == 0 {
            let shared = chosen.iter().find(|(p, _, other)| *p == number && *other != protocol);
            node = match shared {
                Some((_, node, _)) => *node,
                None => choose(&protocol).map_or(0, i64::from),
            };
            if node != 0 {
                port.insert("nodePort".to_owned(), node.into());
            }
        }
        chosen.push((number, node, protocol));
    }
}

/// What the server hands out addresses and node ports from.
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    /// The service network: address and number of fixed bits.
    pub addresses: (IpAddr, u8),
    /// First and last node port.
    pub node_ports: (u16, u16),
}

/// What is wrong with addresses and node ports that the client asked for.
pub fn validate_ranges(service: &Object, ranges: &Ranges, errors: &mut Errors) {
    let root = Path::Root.field("spec");
    if needs_cluster_ip(service) {
        for address in requested_cluster_ips(service) {
            if !inside(ranges.addresses, address) {
                let why = "is outside the range of service addresses";
                errors.invalid(&root.field("clusterIPs"), format_args!("[\"{address}\"]"), why);
            }
        }
    }
    let (first, last) = ranges.node_ports;
    let list = root.field("ports");
    for (index, port) in objects(spec(service), "ports") {
        let node = port.int_at(&["nodePort"]).unwrap_or_default();
        if node != 0 && !(i64::from(first)..=i64::from(last)).contains(&node) {
            let why = format!("must be between {first} and {last}");
            errors.invalid(&list.index(index).field("nodePort"), node, &why);
        }
    }
    let check = spec(service).int_at(&["healthCheckNodePort"]).unwrap_or_default();
    if check != 0 && !(i64::from(first)..=i64::from(last)).contains(&check) {
        let why = format!("must be between {first} and {last}");
        errors.invalid(&root.field("healthCheckNodePort"), check, &why);
    }
}

fn inside((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let shift = |width: u32| width.saturating_sub(u32::from(bits));
    match (network, address) {
        (IpAddr::V4(n), IpAddr::V4(a)) => {
            n.to_bits().checked_shr(shift(32)) == a.to_bits().checked_shr(shift(32))
        }
        (IpAddr::V6(n), IpAddr::V6(a)) => {
            n.to_bits().checked_shr(shift(128)) == a.to_bits().checked_shr(shift(128))
        }
        _ => false,
    }
}

/// Whether the type has addresses at all.
pub(crate) fn has_address(spec: &Object) -> bool {
    text(spec, "type") != "ExternalName"
}

/// Whether the service asks for no address.
pub(crate) fn headless(spec: &Object) -> bool {
    text(spec, "clusterIP") == "None" || texts(spec, "clusterIPs").first() == Some(&"None")
}

/// Whether traffic from outside the cluster may reach the service.
pub(crate) fn externally_accessible(spec: &Object) -> bool {
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !spec.list_at(&["externalIPs"]).is_empty(),
        _ => false,
    }
}

pub(crate) fn health_check_wanted(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn node_ports_wanted(spec: &Object) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec.bool_at(&["allocateLoadBalancerNodePorts"]).unwrap_or(true),
        _ => false,
    }
}

fn may_have_node_ports(spec: &Object) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

fn fill(spec: &mut Object, member: &str, value: &str) {
    if text(spec, member).is_empty() {
        spec.insert(member.to_owned(), value.into());
    }
}

fn default_port(port: &mut Object) {
    fill(port, "protocol", "TCP");
    let unset = match port.get("targetPort") {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(other) => other.as_i64() == Some(0),
    };
    if unset {
        let number = port.get("port").cloned().unwrap_or_else(|| 0.into());
        port.insert("targetPort".to_owned(), number);
    }
}

/// `clusterIP` and the first of `clusterIPs` are one value. Who writes knows the first only, or both: a list that
/// did not change follows it, one that did must agree with it.
fn pair_cluster_ips(spec: &mut Object, before: Option<&Object>) {
    const LIST: &str = "clusterIPs";
    let single = text(spec, "clusterIP").to_owned();
    let Some(before) = before else {
        if !single.is_empty() && texts(spec, LIST).is_empty() {
            spec.insert(LIST.to_owned(), json!([single]));
        }
        return;
    };
    let is_moved = single != text(before, "clusterIP");
    if !is_moved && texts(spec, LIST).is_empty() && !texts(before, LIST).is_empty() {
        keep(spec, before, LIST);
    }
    if !is_moved || texts(spec, LIST) != texts(before, LIST) {
        return;
    }
    if single.is_empty() {
        // The client took the address away: the list goes with it.
        spec.remove(LIST);
    } else {
        spec.insert(LIST.to_owned(), json!([single]));
    }
}

/// What the server handed out stays when the client leaves it out.
fn keep_allocated(after: &mut Object, before: &Object) {
    if has_address(before) && has_address(after) {
        if text(after, "clusterIP").is_empty() {
            keep(after, before, "clusterIP");
        }
        if after.list_at(&["clusterIPs"]).is_empty() {
            keep(after, before, "clusterIPs");
        }
    }
    if may_have_node_ports(before) && may_have_node_ports(after) {
        keep_node_ports(after, before);
    }
    if health_check_wanted(before)
        && health_check_wanted(after)
        && after.int_at(&["healthCheckNodePort"]).unwrap_or_default() == 0
    {
        keep(after, before, "healthCheckNodePort");
    }
}

fn keep_node_ports(after: &mut Object, before: &Object) {
    let of = |spec: &Object| -> Vec<(String, i64)> {
        objects(spec, "ports")
            .map(|(_, p)| (text(p, "name").to_owned(), p.int_at(&["nodePort"]).unwrap_or_default()))
            .collect()
    };
    let known = of(before);
    let used: BTreeSet<i64> = of(after).into_iter().map(|(_, node)| node).collect();
    for port in objects_mut(after, "ports") {
        if port.int_at(&["nodePort"]).unwrap_or_default() != 0 {
            continue;
        }
        let name = text(port, "name").to_owned();
        let stored = known.iter().rfind(|(other, _)| *other == name).map(|(_, node)| *node);
        if let Some(node) = stored.filter(|node| *node != 0 && !used.contains(node)) {
            port.insert("nodePort".to_owned(), node.into());
        }
    }
}

/// A change of type drops what the new type has no use for, unless the client changed that too.
fn drop_unneeded(after: &mut Object, before: &Object) {
    if has_address(before) && !has_address(after) {
        if same(after.get("clusterIPs"), before.get("clusterIPs")) {
            after.remove("clusterIP");
        }
        for member in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            drop_if_same(after, before, member);
        }
    }
    if may_have_node_ports(before) && !may_have_node_ports(after) {
        let kept: BTreeSet<i64> =
            objects(before, "ports").filter_map(|(_, p)| p.int_at(&["nodePort"])).collect();
        for port in objects_mut(after, "ports") {
            if port.int_at(&["nodePort"]).is_some_and(|node| kept.contains(&node)) {
                port.remove("nodePort");
            }
        }
    }
    if health_check_wanted(before) && !health_check_wanted(after) {
        drop_if_same(after, before, "healthCheckNodePort");
    }
    if text(before, "type") == "LoadBalancer" && text(after, "type") != "LoadBalancer" {
        drop_if_same(after, before, "allocateLoadBalancerNodePorts");
        drop_if_same(after, before, "loadBalancerClass");
    }
    if externally_accessible(before) && !externally_accessible(after) {
        drop_if_same(after, before, "externalTrafficPolicy");
    }
}

fn drop_if_same(after: &mut Object, before: &Object, member: &str) {
    if same(after.get(member), before.get(member)) {
        after.remove(member);
    }
}

#[cfg(test)]
mod tests;
