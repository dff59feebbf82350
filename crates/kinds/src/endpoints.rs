//! Endpoints: addresses and ports of a service, one list per set of ports.

use tenure_machinery::validate::{
    ip, objects, objects_mut, port_number, published_ip_faults, text,
};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::{WARNINGS_MAX, address_warning};

/// Rules of Endpoints.
pub(crate) struct EndpointsRules;

/// Who keeps the object.
const KEEPER_LABEL: &str = "endpoints.kubernetes.io/managed-by";

/// Protocols of ports.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

impl Rules for EndpointsRules {
    fn default(&self, object: &mut Object) {
        for subset in objects_mut(object, "subsets") {
            for port in objects_mut(subset, "ports") {
                if text(port, "protocol").is_empty() {
                    port.insert("protocol".to_owned(), "TCP".into());
                }
            }
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        // Their controller writes addresses as it should.
        if object.str_at(&["metadata", "labels", KEEPER_LABEL]) == Some("endpoint-controller") {
            return warnings;
        }
        let list = Path::Root.field("subsets");
        for (index, subset) in objects(object, "subsets") {
            let path = list.index(index);
            for member in ["addresses", "notReadyAddresses"] {
                let list = path.field(member);
                for (index, address) in objects(subset, member) {
                    let place = list.index(index);
                    warnings.extend(address_warning(text(address, "ip"), &place.field("ip")));
                }
            }
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let list = Path::Root.field("subsets");
        for (index, subset) in objects(object, "subsets") {
            let path = list.index(index);
            let empty = |member: &str| subset.list_at(&[member]).is_empty();
            if empty("addresses") && empty("notReadyAddresses") {
                errors.required(&path, "needs addresses or notReadyAddresses");
            }
            for member in ["addresses", "notReadyAddresses"] {
                let list = path.field(member);
                for (index, address) in objects(subset, member) {
                    validate_address(address, &list.index(index), errors);
                }
            }
            let named = subset.list_at(&["ports"]).len() > 1;
            let list = path.field("ports");
            for (index, port) in objects(subset, "ports") {
                validate_port(port, named, &list.index(index), errors);
            }
        }
    }
}

fn validate_address(address: &Object, path: &Path<'_>, errors: &mut Errors) {
    let value = text(address, "ip");
    let parsed = ip(value);
    if parsed.is_none() {
        errors.invalid(&path.field("ip"), format_args!("{value:?}"), "must be an IP address");
    }
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        for why in name::dns_label_faults(hostname) {
            errors.invalid(&path.field("hostname"), format_args!("{hostname:?}"), why);
        }
    }
    if let Some(node) = address.str_at(&["nodeName"]) {
        for why in name::dns_subdomain_faults(node) {
            errors.invalid(&path.field("nodeName"), format_args!("{node:?}"), why);
        }
    }
    for why in parsed.map(published_ip_faults).unwrap_or_default() {
        errors.invalid(&path.field("ip"), format_args!("{value:?}"), why);
    }
}

fn validate_port(port: &Object, named: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = text(port, "name");
    if name.is_empty() {
        if named {
            errors.required(&path.field("name"), "");
        }
    } else {
        for why in name::dns_label_faults(name) {
            errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
        }
    }
    let number = port.int_at(&["port"]).unwrap_or_default();
    if let Some(why) = port_number(number) {
        errors.invalid(&path.field("port"), number, why);
    }
    let protocol = text(port, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(&path.field("protocol"), protocol, PROTOCOLS);
    }
    if let Some(application) = port.str_at(&["appProtocol"]) {
        for why in name::qualified_name_faults(application) {
            errors.invalid(&path.field("appProtocol"), format_args!("{application:?}"), why);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, warned};

    #[test]
    fn r136_endpoints() {
        let kind = row("", "Endpoints");
        let subset =
            |ip: &str| json!({"subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 80}]}]});
        assert_eq!(
            created(&kind, subset("10.9.8.7"))["subsets"][0]["ports"],
            json!([{"port": 80, "protocol": "TCP"}])
        );
        assert!(faults(&kind, subset("10.9.8.7")).is_empty());
        let ip = ["subsets[0].addresses[0].ip FieldValueInvalid"];
        assert_eq!(faults(&kind, subset("127.0.0.1")), ip);
        assert_eq!(faults(&kind, subset("x")), ip);
        assert_eq!(faults(&kind, json!({"subsets": [{}]})), ["subsets[0] FieldValueRequired"]);
        assert!(kind.deprecated.is_some());
    }

    #[test]
    fn r31_addresses_of_endpoints_that_are_written_oddly() {
        let kind = row("", "Endpoints");
        let subsets =
            json!([{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "FD00::1"}]}]);
        assert_eq!(warned(&kind, json!({"subsets": subsets})).len(), 1);
        let labels = json!({"labels": {super::KEEPER_LABEL: "endpoint-controller"}});
        assert_eq!(warned(&kind, json!({"metadata": labels, "subsets": subsets})), [""; 0]);
    }
}
