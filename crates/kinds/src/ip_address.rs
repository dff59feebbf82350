//! IPAddress and ServiceCIDR as stored; handing out addresses is the server's work.

use serde_json::{Value, json};
use tenure_machinery::validate::{cidr, ip, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

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
        let path = Path::Root.field("spec");
        let parent = path.field("parentRef");
        let Some(owner) = spec(object).map_at(&["parentRef"]) else {
            errors.required(&parent, "");
            return;
        };
        for member in ["resource", "name"] {
            if text(owner, member).is_empty() {
                errors.required(&parent.field(member), "");
            }
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        validate_frozen(spec(object), spec(old), "parentRef", &path, errors);
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
