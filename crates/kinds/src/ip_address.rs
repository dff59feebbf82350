//! IPAddress and ServiceCIDR as stored; handing out addresses is the server's work.

use serde_json::{Value, json};
use tenure_machinery::validate::{cidr, ip, same, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};
use tenure_podspec::text::dns_subdomain;

use crate::stored::{keep, set_status, spec, texts};

/// Rules of IPAddress.
pub(crate) struct IpAddressRules;
/// Rules of ServiceCIDR.
pub(crate) struct ServiceCidrRules;

impl Rules for IpAddressRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let name = object.name();
        if ip(name).is_none_or(|address| address.to_string() != name) {
            let meta = Path::Root.field("metadata");
            let why = "must be an IP address in its shortest form";
            errors.invalid(&meta.field("name"), format_args!("{name:?}"), why);
        }
        validate_parent(object, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        match spec(object).map_at(&["parentRef"]) {
            None => errors.required(&path.field("parentRef"), ""),
            Some(_) => validate_required(object, errors),
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        // Of a parent that changed the types say no more than that, so the code says what it lacks.
        if !same(spec(object).get("parentRef"), spec(old).get("parentRef")) {
            validate_required(object, errors);
        }
    }

    fn validate_update_last(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        if spec(object).map_at(&["parentRef"]).is_none() {
            errors.required(&path.field("parentRef"), "");
        }
        validate_frozen(spec(object), spec(old), "parentRef", &path, errors);
    }
}

/// The form of what is said of the parent.
fn validate_parent(object: &Object, errors: &mut Errors) {
    let Some(parent) = spec(object).map_at(&["parentRef"]) else { return };
    let path = Path::Root.field("spec");
    let place = path.field("parentRef");
    if let Some(group) = parent.str_at(&["group"]).filter(|group| !group.is_empty()) {
        dns_subdomain(group, &place.field("group"), errors);
    }
    for member in ["resource", "name", "namespace"] {
        let given = text(parent, member);
        for why in name::path_segment_faults(given) {
            errors.invalid(&place.field(member), format_args!("{given:?}"), why);
        }
    }
}

/// What a parent must say.
fn validate_required(object: &Object, errors: &mut Errors) {
    let Some(parent) = spec(object).map_at(&["parentRef"]) else { return };
    let path = Path::Root.field("spec");
    let place = path.field("parentRef");
    for member in ["resource", "name"] {
        if text(parent, member).is_empty() {
            errors.required(&place.field(member), "");
        }
    }
}

impl Rules for ServiceCidrRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let list = path.field("cidrs");
        let networks = texts(spec(object), "cidrs");
        if networks.is_empty() {
            errors.required(&list, "needs at least one network");
        }
        if networks.len() > 2 {
            errors.invalid(&list, format_args!("{networks:?}"), "at most two networks");
        }
        for (index, network) in networks.iter().enumerate() {
            if cidr(network).is_none() {
                let why = "must be a network such as 10.0.0.0/24";
                errors.invalid(&list.index(index), format_args!("{network:?}"), why);
            }
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let (now, before) = (texts(spec(object), "cidrs"), texts(spec(old), "cidrs"));
        let kept = before.len() <= now.len() && before.iter().zip(&now).all(|(b, n)| b == n);
        if !kept {
            let path = Path::Root.field("spec");
            let value = spec(object).get("cidrs").unwrap_or(&Value::Null);
            errors.invalid(&path.field("cidrs"), value, "networks may be added, never changed");
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, update_faults};

    const GROUP: &str = "networking.k8s.io";

    #[test]
    fn r136_addresses_are_their_own_names() {
        let kind = row(GROUP, "IPAddress");
        let named = |name: &str| {
            json!({"metadata": {"name": name},
            "spec": {"parentRef": {"resource": "services", "name": "a"}}})
        };
        assert!(faults(&kind, named("10.0.0.1")).is_empty());
        assert!(faults(&kind, named("2001:db8::1")).is_empty());
        assert_eq!(faults(&kind, named("2001:db8:0::1")), ["metadata.name FieldValueInvalid"]);
    }

    #[test]
    fn r136_what_an_address_belongs_to() {
        let kind = row(GROUP, "IPAddress");
        let of = |spec: serde_json::Value| json!({"metadata": {"name": "10.0.0.1"}, "spec": spec});
        let at = |member: &str, reason: &str| format!("spec.parentRef{member} FieldValue{reason}");
        assert_eq!(faults(&kind, of(json!({}))), [at("", "Required")]);
        let parent = json!({"parentRef": {"group": "A", "namespace": "a/b%"}});
        assert_eq!(
            faults(&kind, of(parent.clone())),
            [
                at(".group", "Invalid"),
                at(".namespace", "Invalid"),
                at(".namespace", "Invalid"),
                at(".resource", "Required"),
                at(".name", "Required"),
            ]
        );
        let old = of(json!({"parentRef": {"resource": "services", "name": "a"}}));
        let other = of(json!({"parentRef": {"resource": "services"}}));
        assert_eq!(
            update_faults(&kind, old.clone(), other),
            [at(".name", "Required"), at("", "Invalid")]
        );
        assert_eq!(
            update_faults(&kind, old, of(json!({}))),
            [at("", "Required"), at("", "Invalid")]
        );
    }

    #[test]
    fn r136_service_networks_grow_only() {
        let kind = row(GROUP, "ServiceCIDR");
        let of = |list: &[&str]| json!({"spec": {"cidrs": list}});
        assert_eq!(faults(&kind, of(&[])), ["spec.cidrs FieldValueRequired"]);
        assert!(
            update_faults(&kind, of(&["10.0.0.0/24"]), of(&["10.0.0.0/24", "fd00::/64"]))
                .is_empty()
        );
        assert_eq!(
            update_faults(&kind, of(&["10.0.0.0/24"]), of(&["10.1.0.0/24"])),
            ["spec.cidrs FieldValueInvalid"]
        );
    }
}
