//! What is wrong with a Service, in the order clients know.

use serde_json::Value;
use tenure_machinery::validate::{
    cidr, endpoint_ip_faults, ip, objects, port_number, same, text, validate_labels,
    validate_one_of, validate_port_or_name,
};
use tenure_machinery::{Errors, Object, ObjectExt, Path, name};

use crate::endpoints::PROTOCOLS;
use crate::service::{externally_accessible, headless, health_check_wanted};
use crate::service_families::validate_addresses;
use crate::stored::{spec, texts};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;

/// The service as such.
pub(crate) fn validate(service: &Object, errors: &mut Errors) {
    let spec = spec(service);
    let path = Path::Root.field("spec");
    if spec.list_at(&["ports"]).is_empty()
        && !headless(spec)
        && text(spec, "type") != "ExternalName"
    {
        errors.required(&path.field("ports"), "");
    }
    validate_kind_of_address(spec, &path, errors);
    validate_ports(spec, &path.field("ports"), errors);
    if let Some(selector) = spec.map_at(&["selector"]) {
        validate_labels(selector, &path.field("selector"), errors);
    }
    validate_affinity(spec, &path, errors);
    validate_addresses(spec, &path, errors);
    validate_external(spec, &path, errors);
    if !TYPES.contains(&text(spec, "type")) {
        errors.not_supported(&path.field("type"), text(spec, "type"), TYPES);
    }
    validate_port_numbers(spec, &path.field("ports"), errors);
    validate_load_balancer(spec, &path, errors);
    validate_traffic(spec, &path, errors);
}

/// The change of a service.
pub(crate) fn validate_update(service: &Object, old: &Object, errors: &mut Errors) {
    let (after, before) = (spec(service), spec(old));
    let path = Path::Root.field("spec");
    let external = |spec: &Object| text(spec, "type") == "ExternalName";
    if !external(after) && !external(before) {
        if !(headless(after) && headless(before)) {
            validate_same_addresses(after, before, &path, errors);
        }
        if !headless(after) && !headless(before) {
            let first = |spec: &Object| texts(spec, "ipFamilies").first().map(|f| (*f).to_owned());
            if first(before).is_some() && first(after) != first(before) {
                let list = path.field("ipFamilies");
                errors.invalid(&list.index(0), "[]", "may not change once set");
            }
        }
    }
    if text(after, "type") == "LoadBalancer"
        && text(before, "type") == "LoadBalancer"
        && !same(after.get("loadBalancerClass"), before.get("loadBalancerClass"))
    {
        let value = after.get("loadBalancerClass").unwrap_or(&Value::Null);
        errors.invalid(&path.field("loadBalancerClass"), value, "may not change once set");
    }
    if health_check_wanted(after)
        && health_check_wanted(before)
        && !same(after.get("healthCheckNodePort"), before.get("healthCheckNodePort"))
    {
        errors.forbidden(&path.field("healthCheckNodePort"), "field is immutable");
    }
}

fn validate_same_addresses(after: &Object, before: &Object, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "may not change once set";
    let list = path.field("clusterIPs");
    let (new, stored) = (texts(after, "clusterIPs"), texts(before, "clusterIPs"));
    let value = format!("{new:?}");
    if new.len() == stored.len() {
        for (index, (a, b)) in new.iter().zip(&stored).enumerate() {
            if a != b {
                errors.invalid(&list.index(index), &value, WHY);
            }
        }
        return;
    }
    if new.is_empty() {
        errors.invalid(&list.index(0), &value, "the first address cannot be given back");
    } else if !stored.is_empty() && new.first() != stored.first() {
        errors.invalid(&list.index(0), &value, WHY);
    }
    if new.len() == 1 && stored.len() > 1 && text(after, "ipFamilyPolicy") != "SingleStack" {
        let policy = text(after, "ipFamilyPolicy");
        let why = "must be SingleStack to give back the second address";
        errors.invalid(&path.field("ipFamilyPolicy"), format_args!("{policy:?}"), why);
    }
}

fn validate_kind_of_address(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    match text(spec, "type") {
        kind @ ("LoadBalancer" | "NodePort") if headless(spec) => {
            let list = path.field("clusterIPs");
            errors.invalid(&list.index(0), "\"None\"", &format!("a {kind} needs an address"));
        }
        "ExternalName" => {
            const WHY: &str = "has no meaning for ExternalName";
            for member in ["clusterIPs", "ipFamilies"] {
                if !spec.list_at(&[member]).is_empty() {
                    errors.forbidden(&path.field(member), WHY);
                }
            }
            if !text(spec, "ipFamilyPolicy").is_empty() {
                errors.forbidden(&path.field("ipFamilyPolicy"), WHY);
            }
            let target = text(spec, "externalName");
            let target = target.strip_suffix('.').unwrap_or(target);
            if target.is_empty() {
                errors.required(&path.field("externalName"), "");
            } else {
                for why in name::dns_subdomain_faults(target) {
                    errors.invalid(&path.field("externalName"), format_args!("{target:?}"), why);
                }
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Object, list: &Path<'_>, errors: &mut Errors) {
    let named = spec.list_at(&["ports"]).len() > 1;
    let mut seen = Vec::new();
    for (index, port) in objects(spec, "ports") {
        let path = list.index(index);
        let name = text(port, "name");
        if name.is_empty() {
            if named {
                errors.required(&path.field("name"), "");
            }
        } else {
            for why in name::dns_label_faults(name) {
                errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
            }
            if seen.contains(&name) {
                errors.duplicate(&path.field("name"), format_args!("{name:?}"));
            }
            seen.push(name);
        }
        let number = port.int_at(&["port"]).unwrap_or_default();
        if let Some(why) = port_number(number) {
            errors.invalid(&path.field("port"), number, why);
        }
        validate_one_of(port, "protocol", PROTOCOLS, &path, errors);
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        validate_port_or_name(target, &path.field("targetPort"), errors);
        if let Some(application) = port.str_at(&["appProtocol"]) {
            for why in name::qualified_name_faults(application) {
                errors.invalid(&path.field("appProtocol"), format_args!("{application:?}"), why);
            }
        }
    }
}

fn validate_affinity(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_one_of(spec, "sessionAffinity", &["ClientIP", "None"], path, errors);
    if text(spec, "sessionAffinity") != "ClientIP" {
        return;
    }
    let config = path.field("sessionAffinityConfig");
    let seconds = spec.int_at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    let client = config.field("clientIP");
    match seconds {
        None => errors.required(&client.field("timeoutSeconds"), "ClientIP affinity needs it"),
        Some(seconds) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
            let why = format!("must be between 1 and {AFFINITY_SECONDS_MAX}");
            errors.invalid(&client.field("timeoutSeconds"), seconds, &why);
        }
        Some(_) => {}
    }
}

fn validate_external(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("externalIPs");
    for (index, address) in texts(spec, "externalIPs").iter().enumerate() {
        let faults = ip(address).map_or(vec!["must be an IP address"], endpoint_ip_faults);
        for why in faults {
            errors.invalid(&list.index(index), format_args!("{address:?}"), why);
        }
    }
}

fn validate_port_numbers(spec: &Object, list: &Path<'_>, errors: &mut Errors) {
    let ports = || {
        objects(spec, "ports").map(|(index, port)| {
            let number = |member: &str| port.int_at(&[member]).unwrap_or_default();
            (index, text(port, "protocol"), number("port"), number("nodePort"))
        })
    };
    if text(spec, "type") == "ClusterIP" {
        for (index, _, _, node) in ports().filter(|(.., node)| *node != 0) {
            let why = format!("{node} has no meaning for ClusterIP");
            errors.forbidden(&list.index(index).field("nodePort"), &why);
        }
    }
    let mut seen = Vec::new();
    for (index, protocol, _, node) in ports().filter(|(.., node)| *node != 0) {
        if seen.contains(&(protocol, node)) {
            errors.duplicate(&list.index(index).field("nodePort"), node);
        }
        seen.push((protocol, node));
    }
    let mut seen = Vec::new();
    for (index, protocol, number, _) in ports() {
        if seen.contains(&(protocol, number)) {
            errors.duplicate(&list.index(index), format_args!("{protocol} {number}"));
        }
        seen.push((protocol, number));
    }
}

fn validate_load_balancer(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "has a meaning for LoadBalancer only";
    let balancer = text(spec, "type") == "LoadBalancer";
    // The spelling of this path is what clients see.
    let list = path.field("LoadBalancerSourceRanges");
    let ranges = texts(spec, "loadBalancerSourceRanges");
    if !ranges.is_empty() && !balancer {
        errors.forbidden(&list, WHY);
    }
    for (index, range) in ranges.iter().enumerate() {
        if cidr(range.trim()).is_none() {
            let why = "must be a network such as 10.0.0.0/8";
            errors.invalid(&list.index(index), format_args!("{range:?}"), why);
        }
    }
    if spec.bool_at(&["allocateLoadBalancerNodePorts"]).is_some() && !balancer {
        errors.forbidden(&path.field("allocateLoadBalancerNodePorts"), WHY);
    }
    if let Some(class) = spec.str_at(&["loadBalancerClass"]) {
        if !balancer {
            errors.forbidden(&path.field("loadBalancerClass"), WHY);
        } else {
            for why in name::qualified_name_faults(class) {
                errors.invalid(&path.field("loadBalancerClass"), format_args!("{class:?}"), why);
            }
        }
    }
}

fn validate_traffic(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let external = text(spec, "externalTrafficPolicy");
    match (externally_accessible(spec), external) {
        (false, "") => {}
        (false, _) => {
            let why = "only for services reached from outside";
            let path = path.field("externalTrafficPolicy");
            errors.invalid(&path, format_args!("{external:?}"), why);
        }
        (true, "") => errors.required(&path.field("externalTrafficPolicy"), ""),
        (true, _) => validate_one_of(spec, "externalTrafficPolicy", POLICIES, path, errors),
    }
    let check = spec.int_at(&["healthCheckNodePort"]).unwrap_or_default();
    let fault = if check == 0 {
        None
    } else if health_check_wanted(spec) {
        port_number(check)
    } else {
        Some("only for LoadBalancer with externalTrafficPolicy Local")
    };
    if let Some(why) = fault {
        errors.invalid(&path.field("healthCheckNodePort"), check, why);
    }
    validate_one_of(spec, "internalTrafficPolicy", POLICIES, path, errors);
    validate_one_of(spec, "trafficDistribution", DISTRIBUTIONS, path, errors);
}
