//! Node: pod networks set once, taints, allocatable from capacity.

use serde_json::Value;
use tenure_machinery::validate::{cidr, objects, text};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::address_warning::network_warning;
use crate::stored::{is_status_write, keep, member, spec, texts};

/// Rules of Node.
pub(crate) struct NodeRules;

impl Rules for NodeRules {
    fn default(&self, object: &mut Object) {
        if let Some(status) = member(object, "status")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            status.set_default("allocatable", capacity);
        }
        if let Some(spec) = member(object, "spec") {
            pair_networks(spec);
        }
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_status_write(object, old) {
            return warnings;
        }
        let spec = spec(object);
        if spec.map_at(&["configSource"]).is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !text(spec, "externalID").is_empty() {
            let advice = "this field is deprecated, and is unused by Kubernetes";
            warnings.push(format!("spec.externalID: {advice}"));
        }
        let path = Path::Root.field("spec");
        let path = path.field("podCIDRs");
        for (index, network) in texts(spec, "podCIDRs").into_iter().enumerate() {
            warnings.extend(network_warning(network, &path.index(index)));
        }
        warnings
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let meta = Path::Root.field("metadata");
        validate_taints(spec(object), &meta.field("taints"), errors);
        let root = Path::Root.field("spec");
        let path = root.field("podCIDRs");
        let networks = texts(spec(object), "podCIDRs");
        for (index, network) in networks.iter().enumerate() {
            if cidr(network).is_none() {
                let why = "must be a network such as 10.0.0.0/24";
                errors.invalid(&path.index(index), format_args!("{network:?}"), why);
            }
        }
        let families = |v4: bool| {
            networks.iter().filter_map(|n| cidr(n)).filter(|(ip, _)| ip.is_ipv4() == v4).count()
        };
        if networks.len() > 1 && (families(true) > 1 || families(false) > 1) {
            errors.invalid(&path, format_args!("{networks:?}"), "one network per address family");
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let before = texts(spec(old), "podCIDRs");
        if !before.is_empty() && before != texts(spec(object), "podCIDRs") {
            errors.forbidden(&path.field("podCIDRs"), "is set once");
        }
        let provider = text(spec(old), "providerID");
        let new = text(spec(object), "providerID");
        if !provider.is_empty() && provider != new {
            errors.invalid(&path.field("providerID"), format_args!("{new:?}"), "is set once");
        }
    }
}

/// `podCIDR` and the first of `podCIDRs` are one value.
fn pair_networks(spec: &mut Object) {
    let first = texts(spec, "podCIDRs").first().map(|s| (*s).to_owned());
    let single = text(spec, "podCIDR").to_owned();
    match (single.is_empty(), first) {
        (true, Some(first)) => {
            spec.insert("podCIDR".to_owned(), first.into());
        }
        (false, first) if first.as_deref() != Some(single.as_str()) => {
            spec.insert("podCIDRs".to_owned(), Value::Array(vec![single.into()]));
        }
        _ => {}
    }
}

fn validate_taints(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen = Vec::new();
    for (index, taint) in objects(spec, "taints") {
        let path = path.index(index);
        let (key, value, effect) =
            (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        for why in name::qualified_name_faults(key) {
            errors.invalid(&path.field("key"), format_args!("{key:?}"), why);
        }
        for why in name::label_value_faults(value) {
            errors.invalid(&path.field("value"), format_args!("{value:?}"), why);
        }
        if effect.is_empty() {
            errors.required(&path.field("effect"), "");
        } else if !EFFECTS.contains(&effect) {
            errors.not_supported(&path.field("effect"), effect, EFFECTS);
        }
        if seen.contains(&(key, effect)) {
            errors.duplicate(&path, format_args!("{key:?}"));
        }
        seen.push((key, effect));
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults, warned, warned_status, warned_update};

    #[test]
    fn r136_allocatable_is_capacity() {
        let node = created(&row("", "Node"), json!({"status": {"capacity": {"cpu": "4"}}}));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        let node = created(&row("", "Node"), json!({"spec": {"podCIDR": "10.1.0.0/24"}}));
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.1.0.0/24"]));
    }

    #[test]
    fn r136_networks_and_provider_are_set_once() {
        let kind = row("", "Node");
        let old = json!({"spec": {"podCIDR": "10.1.0.0/24", "providerID": "x"}});
        let new = json!({"spec": {"podCIDR": "10.2.0.0/24", "providerID": "y"}});
        assert_eq!(
            update_faults(&kind, old, new.clone()),
            ["spec.podCIDRs FieldValueForbidden", "spec.providerID FieldValueInvalid"]
        );
        assert!(update_faults(&kind, json!({}), new).is_empty());
        let bad =
            json!({"spec": {"podCIDR": "10.1.0.0", "taints": [{"key": "a", "effect": "No"}]}});
        assert_eq!(
            faults(&kind, bad),
            [
                "metadata.taints[0].effect FieldValueNotSupported",
                "spec.podCIDRs[0] FieldValueInvalid"
            ]
        );
    }

    #[test]
    fn r31_members_of_a_node_that_nobody_reads() {
        let kind = row("", "Node");
        let body =
            json!({"spec": {"configSource": {}, "externalID": "x", "podCIDR": "10.0.0.1/24"}});
        assert_eq!(warned(&kind, body.clone()).len(), 3);
        assert_eq!(warned_update(&kind, body.clone(), body.clone()).len(), 3);
        assert_eq!(warned_status(&kind, body, json!({"phase": "x"})), [""; 0]);
        assert_eq!(warned(&kind, json!({"spec": {"podCIDR": "10.0.0.0/24"}})), [""; 0]);
    }
}
