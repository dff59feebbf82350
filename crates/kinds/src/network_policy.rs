//! NetworkPolicy as stored; enforcing it is the network's work.

use serde_json::{Value, json};
use tenure_machinery::validate::{
    cidr, objects, objects_mut, port_number, text, validate_label_selector, validate_one_of,
    validate_port_or_name,
};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules};

use crate::address_warning::network_warning;
use crate::podspec::WARNINGS_MAX;
use crate::stored::{member, spec, texts};

/// Rules of NetworkPolicy.
pub(crate) struct NetworkPolicyRules;

const TYPES: &[&str] = &["Ingress", "Egress"];
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

impl Rules for NetworkPolicyRules {
    fn default(&self, object: &mut Object) {
        let Some(spec) = member(object, "spec") else { return };
        for (direction, _) in DIRECTIONS {
            for rule in objects_mut(spec, direction) {
                for port in objects_mut(rule, "ports") {
                    port.set_default("protocol", "TCP");
                }
            }
        }
        if spec.list_at(&["policyTypes"]).is_empty() {
            let both = !spec.list_at(&["egress"]).is_empty();
            let types = if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.insert("policyTypes".to_owned(), types);
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        let path = Path::Root.field("spec");
        for (direction, peers) in DIRECTIONS {
            let list = path.field(direction);
            for (index, rule) in objects(spec(object), direction) {
                let place = list.index(index);
                let list = place.field(peers);
                for (index, peer) in objects(rule, peers) {
                    let Some(block) = peer.map_at(&["ipBlock"]) else { continue };
                    let place = list.index(index);
                    let place = place.field("ipBlock");
                    warnings.extend(network_warning(text(block, "cidr"), &place.field("cidr")));
                    let except = place.field("except");
                    for (index, network) in texts(block, "except").into_iter().enumerate() {
                        warnings.extend(network_warning(network, &except.index(index)));
                    }
                }
            }
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        for (direction, peers) in DIRECTIONS {
            let list = path.field(direction);
            for (index, rule) in objects(spec(object), direction) {
                let place = list.index(index);
                let list = place.field(peers);
                for (index, peer) in objects(rule, peers) {
                    let block = peer.map_at(&["ipBlock"]);
                    if block.is_some_and(|block| text(block, "cidr").is_empty()) {
                        errors.required(&list.index(index).field("ipBlock").field("cidr"), "");
                    }
                }
            }
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if let Some(selector) = spec.map_at(&["podSelector"]) {
            validate_label_selector(selector, &path.field("podSelector"), errors);
        }
        for (direction, peers) in DIRECTIONS {
            let list = path.field(direction);
            for (index, rule) in objects(spec, direction) {
                let place = list.index(index);
                let ports = place.field("ports");
                for (index, port) in objects(rule, "ports") {
                    validate_port(port, &ports.index(index), errors);
                }
                let list = place.field(peers);
                for (index, peer) in objects(rule, peers) {
                    validate_peer(peer, &list.index(index), errors);
                }
            }
        }
        let types = texts(spec, "policyTypes");
        let list = path.field("policyTypes");
        if types.len() > TYPES.len() {
            errors.invalid(&list, format_args!("{types:?}"), "at most two types");
            return;
        }
        for (index, kind) in types.iter().enumerate() {
            if !TYPES.contains(kind) {
                errors.not_supported(&list.index(index), kind, TYPES);
            }
        }
    }
}

fn validate_port(port: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_one_of(port, "protocol", &["TCP", "UDP", "SCTP"], path, errors);
    let end = port.int_at(&["endPort"]);
    let value = port.get("port").filter(|value| !value.is_null());
    if let (Some(end), Some(Value::String(_)) | None) = (end, value) {
        errors.invalid(&path.field("endPort"), end, "needs a port by number");
    }
    let Some(value) = value else { return };
    validate_port_or_name(value, &path.field("port"), errors);
    if let (Some(end), Some(first)) = (end, value.as_i64()) {
        if end < first {
            errors.invalid(&path.field("endPort"), end, "must not be below port");
        }
        if let Some(why) = port_number(end) {
            errors.invalid(&path.field("endPort"), end, why);
        }
    }
}

fn validate_peer(peer: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut parts = 0;
    for member in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.map_at(&[member]) {
            parts += 1;
            validate_label_selector(selector, &path.field(member), errors);
        }
    }
    let block = peer.map_at(&["ipBlock"]);
    if let Some(block) = block {
        validate_block(block, &path.field("ipBlock"), errors);
    }
    match (parts, block) {
        (0, None) => errors.required(path, "needs a peer"),
        (1.., Some(_)) => errors.forbidden(path, "ipBlock stands alone"),
        _ => {}
    }
}

fn validate_block(block: &Object, path: &Path<'_>, errors: &mut Errors) {
    const WHY: &str = "must be a network such as 10.0.0.0/8";
    let network = text(block, "cidr");
    if network.is_empty() {
        return;
    }
    let Some((_, bits)) = cidr(network) else {
        errors.invalid(&path.field("cidr"), format_args!("{network:?}"), WHY);
        return;
    };
    let list = path.field("except");
    for (index, hole) in texts(block, "except").iter().enumerate() {
        match cidr(hole) {
            None => errors.invalid(&list.index(index), format_args!("{hole:?}"), WHY),
            Some((_, inner)) if inner <= bits => {
                let why = "must be smaller than cidr";
                errors.invalid(&list.index(index), format_args!("{hole:?}"), why);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, warned};

    #[test]
    fn r136_network_policy() {
        let kind = row("networking.k8s.io", "NetworkPolicy");
        let policy = created(&kind, json!({"spec": {"podSelector": {}}}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress"]));
        let policy = created(&kind, json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}}));
        assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], json!("TCP"));
        let bad = json!({"spec": {"ingress": [{"from": [{}, {"ipBlock": {"cidr": "x"}}],
            "ports": [{"endPort": 5}]}], "policyTypes": ["Other"]}});
        assert_eq!(
            faults(&kind, bad),
            [
                "spec.ingress[0].ports[0].endPort FieldValueInvalid",
                "spec.ingress[0].from[0] FieldValueRequired",
                "spec.ingress[0].from[1].ipBlock.cidr FieldValueInvalid",
                "spec.policyTypes[0] FieldValueNotSupported",
            ]
        );
    }

    #[test]
    fn r31_networks_of_a_policy_that_are_written_oddly() {
        let kind = row("networking.k8s.io", "NetworkPolicy");
        let block = |network: &str| json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": [network]}});
        let body = json!({"spec": {
            "ingress": [{"from": [block("10.1.0.0/16"), block("10.1.0.1/16")]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "FD00::/8"}}]}],
        }});
        let told = warned(&kind, body);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("spec.ingress[0].from[1].ipBlock.except[0]: "), "{told:?}");
        assert!(told[1].starts_with("spec.egress[0].to[0].ipBlock.cidr: "), "{told:?}");
    }
}
