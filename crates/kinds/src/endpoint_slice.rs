//! EndpointSlice: endpoints of one address family, with bounds.

use serde_json::json;
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{
    ip, objects, objects_mut, published_ip_faults, same, text, validate_frozen, validate_labels,
    validate_one_of,
};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::endpoints::PROTOCOLS;
use crate::stored::texts;

/// Rules of EndpointSlice.
pub(crate) struct EndpointSliceRules;

const FAMILIES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

impl Rules for EndpointSliceRules {
    fn default(&self, object: &mut Object) {
        for port in objects_mut(object, "ports") {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
        for endpoint in objects_mut(object, "endpoints") {
            endpoint.set_default("conditions", json!({}));
        }
    }

    fn counts(&self, object: &Object, old: &Object) -> bool {
        object.at(&["metadata", "labels"]) != old.at(&["metadata", "labels"])
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_ports(object, errors);
        validate_endpoints(object, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        validate_family(object, errors);
        validate_counts(object, errors);
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::Only
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        // Of a family that changed the types say no more than that, so the code says whether it is one.
        if !text(object, "addressType").is_empty() {
            validate_family(object, errors);
        }
        validate_ports(object, errors);
        if !same(object.get("endpoints"), old.get("endpoints")) {
            validate_endpoints(object, errors);
        }
    }

    fn validate_update_last(&self, object: &Object, old: &Object, errors: &mut Errors) {
        if text(object, "addressType").is_empty() {
            validate_family(object, errors);
        }
        validate_frozen(object, old, "addressType", &Path::Root, errors);
        if !same(object.get("endpoints"), old.get("endpoints")) {
            validate_counts(object, errors);
        }
    }
}

fn validate_family(object: &Object, errors: &mut Errors) {
    if text(object, "addressType").is_empty() {
        errors.required(&Path::Root.field("addressType"), "");
    } else {
        validate_one_of(object, "addressType", FAMILIES, &Path::Root, errors);
    }
}

fn validate_endpoints(object: &Object, errors: &mut Errors) {
    let list = Path::Root.field("endpoints");
    let count = object.list_at(&["endpoints"]).len();
    if count > ENDPOINTS_MAX {
        return errors.too_many(&list, count, ENDPOINTS_MAX);
    }
    let family = text(object, "addressType");
    for (index, endpoint) in objects(object, "endpoints") {
        validate_endpoint(endpoint, family, &list.index(index), errors);
    }
}

/// How many addresses each endpoint has.
fn validate_counts(object: &Object, errors: &mut Errors) {
    let list = Path::Root.field("endpoints");
    for (index, endpoint) in objects(object, "endpoints") {
        let place = list.index(index);
        match endpoint.list_at(&["addresses"]).len() {
            0 => errors.required(&place.field("addresses"), "needs at least one address"),
            1..=ADDRESSES_MAX => {}
            many => errors.too_many(&place.field("addresses"), many, ADDRESSES_MAX),
        }
    }
}

fn validate_ports(object: &Object, errors: &mut Errors) {
    let list = Path::Root.field("ports");
    let count = object.list_at(&["ports"]).len();
    if count > PORTS_MAX {
        errors.too_many(&list, count, PORTS_MAX);
        return;
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, port) in objects(object, "ports") {
        let path = list.index(index);
        let name = text(port, "name");
        if !name.is_empty()
            && let Some(why) = name::dns_label(name)
        {
            errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
        }
        if !seen.insert(name) {
            errors.duplicate(&path.field("name"), format_args!("{name:?}"));
        }
        validate_one_of(port, "protocol", PROTOCOLS, &path, errors);
        if let Some(application) = port.str_at(&["appProtocol"]) {
            for why in name::qualified_name_faults(application) {
                errors.invalid(&path.field("appProtocol"), format_args!("{application:?}"), why);
            }
        }
    }
}

fn validate_endpoint(endpoint: &Object, family: &str, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("addresses");
    for (index, address) in texts(endpoint, "addresses").iter().enumerate() {
        validate_address(address, family, &list, index, errors);
    }
    if let Some(node) = endpoint.str_at(&["nodeName"])
        && let Some(why) = name::dns_subdomain(node)
    {
        errors.invalid(&path.field("nodeName"), format_args!("{node:?}"), why);
    }
    if let Some(topology) = endpoint.map_at(&["deprecatedTopology"]) {
        let path = path.field("deprecatedTopology");
        if topology.len() > TOPOLOGY_MAX {
            errors.too_many(&path, topology.len(), TOPOLOGY_MAX);
        }
        validate_labels(topology, &path, errors);
    }
    if let Some(hostname) = endpoint.str_at(&["hostname"])
        && let Some(why) = name::dns_label(hostname)
    {
        errors.invalid(&path.field("hostname"), format_args!("{hostname:?}"), why);
    }
    if let Some(hints) = endpoint.map_at(&["hints"]) {
        validate_hints(hints, &path.field("hints"), errors);
    }
}

fn validate_address(
    address: &str,
    family: &str,
    list: &Path<'_>,
    index: usize,
    errors: &mut Errors,
) {
    let path = list.index(index);
    match (family, ip(address)) {
        ("IPv4" | "IPv6", None) => {
            errors.invalid(&path, format_args!("{address:?}"), "must be an IP address");
        }
        ("IPv4" | "IPv6", Some(parsed)) => {
            if parsed.is_ipv4() != (family == "IPv4") {
                let why = format!("must be an {family} address");
                errors.invalid(list, format_args!("{address:?}"), &why);
            }
            for why in published_ip_faults(parsed) {
                errors.invalid(&path, format_args!("{address:?}"), why);
            }
        }
        ("FQDN", _) => {
            let name = address.strip_suffix('.').unwrap_or(address);
            if name::dns_subdomain(name).is_some() || !name.contains('.') {
                let why = "must be a domain name of at least two labels";
                errors.invalid(&path, format_args!("{address:?}"), why);
            }
        }
        _ => {}
    }
}

fn validate_hints(hints: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["forZones", "forNodes"] {
        let list = path.field(member);
        let count = hints.list_at(&[member]).len();
        if count > HINTS_MAX {
            errors.too_many(&list, count, HINTS_MAX);
            return;
        }
        let mut seen = Vec::new();
        for (index, hint) in objects(hints, member) {
            let item = list.index(index);
            let path = item.field("name");
            let name = text(hint, "name");
            if seen.contains(&name) {
                errors.duplicate(&path, format_args!("{name:?}"));
            }
            seen.push(name);
            let fault = match member {
                "forZones" => name::label_value(name),
                _ => name::dns_subdomain(name),
            };
            if let Some(why) = fault {
                errors.invalid(&path, format_args!("{name:?}"), why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use crate::check::{created, faults, row, update_faults};

    fn slice(family: &str, address: &str, ports: Value) -> Value {
        json!({"addressType": family, "endpoints": [{"addresses": [address]}], "ports": ports})
    }

    #[test]
    fn r136_endpoint_slice() {
        let kind = row("discovery.k8s.io", "EndpointSlice");
        let good = slice("IPv4", "10.9.8.7", json!([{"port": 80}]));
        assert_eq!(
            created(&kind, good.clone()),
            json!({"addressType": "IPv4",
                "endpoints": [{"addresses": ["10.9.8.7"], "conditions": {}}],
                "ports": [{"name": "", "port": 80, "protocol": "TCP"}]})
        );
        let cases = [
            (good.clone(), vec![]),
            (slice("Other", "10.9.8.7", json!([])), vec!["addressType FieldValueNotSupported"]),
            (
                slice("IPv4", "fe80::1", json!([])),
                vec![
                    "endpoints[0].addresses FieldValueInvalid",
                    "endpoints[0].addresses[0] FieldValueInvalid",
                ],
            ),
            (
                slice("IPv4", "10.9.8.7", json!([{"port": 80}, {"port": 81}])),
                vec!["ports[1].name FieldValueDuplicate"],
            ),
            (
                slice("FQDN", "example", json!([])),
                vec!["endpoints[0].addresses[0] FieldValueInvalid"],
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(faults(&kind, body), expected);
        }
        assert_eq!(
            update_faults(&kind, good, json!({"addressType": "IPv6", "endpoints": []})),
            ["addressType FieldValueInvalid"]
        );
    }

    #[test]
    fn r136_what_the_types_of_a_slice_say_comes_last() {
        let kind = row("discovery.k8s.io", "EndpointSlice");
        let bad = json!({"addressType": "Other", "endpoints": [{"hostname": "A"}],
            "ports": [{"name": "A"}]});
        let written =
            ["ports[0].name FieldValueInvalid", "endpoints[0].hostname FieldValueInvalid"];
        let counted = "endpoints[0].addresses FieldValueRequired";
        let unknown = "addressType FieldValueNotSupported";
        assert_eq!(faults(&kind, bad.clone()), [&written[..], &[unknown, counted]].concat());
        let old = json!({"addressType": "IPv4", "endpoints": []});
        assert_eq!(
            update_faults(&kind, old.clone(), bad.clone()),
            [&[unknown], &written[..], &["addressType FieldValueInvalid", counted]].concat()
        );
        assert_eq!(
            update_faults(&kind, old, json!({"endpoints": []})),
            ["addressType FieldValueRequired", "addressType FieldValueInvalid"]
        );
        // What was written before there was a rule stays.
        let mut ported = bad.clone();
        ported["ports"] = json!([]);
        assert_eq!(update_faults(&kind, bad, ported), [unknown]);
    }
}
