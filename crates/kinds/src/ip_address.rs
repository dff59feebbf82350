//! IPAddress and ServiceCIDR as stored; handing out addresses is the server's work.

use serde_json::{Value, json};
use tenure_machinery::network::IpNetwork;
use tenure_machinery::validate::{ip, same, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::text::dns_subdomain;
use crate::stored::{is_new, keep, set_status, spec, texts};

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
        // Networks that were stored before are left as they are.
        if is_new(object) {
            validate_networks(object, errors);
        }
    }

    /// One network may become two, of both families; nothing else changes.
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let spec_path = Path::Root.field("spec");
        let path = spec_path.field("cidrs");
        let (now, before) = (texts(spec(object), "cidrs"), texts(spec(old), "cidrs"));
        if now.len() != before.len() && (before.len(), now.len()) != (1, 2) {
            let value = spec(object).get("cidrs").unwrap_or(&Value::Null);
            errors.invalid(&path, value, IMMUTABLE);
            return;
        }
        for (index, (now, _)) in now.iter().zip(&before).enumerate().filter(|(_, (n, b))| n != b) {
            errors.invalid(&path.index(index), format_args!("{now:?}"), IMMUTABLE);
        }
        if now.len() > before.len() {
            validate_networks(object, errors);
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let networks = texts(spec(object), "cidrs").into_iter().enumerate();
        let other =
            networks.filter(|(_, text)| IpNetwork::parse(text).is_some_and(|read| !read.is_ipv4()));
        let line = |(index, text)| {
            format!(
                "spec.cidrs[{index}]: this server gives Services IPv4 addresses only, none from {text:?}"
            )
        };
        other.map(line).collect()
    }
}

const IMMUTABLE: &str = "field is immutable";

fn validate_networks(object: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let list = path.field("cidrs");
    let networks = texts(spec(object), "cidrs");
    if networks.is_empty() {
        return errors.required(&list, "at least one CIDR required");
    }
    if networks.len() > 2 {
        let shown = format_args!("{networks:?}");
        return errors.invalid(&list, shown, "may only hold up to 2 values");
    }
    let mut families = Vec::new();
    for (index, network) in networks.iter().enumerate() {
        let why = match IpNetwork::parse(network) {
            None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned(),
            Some(read) if !read.is_masked() => {
                "must not have bits set beyond the prefix length".to_owned()
            }
            Some(read) if read.to_string() != *network => {
                format!("must be in canonical form ({:?})", read.to_string())
            }
            Some(read) => {
                families.push(read.is_ipv4());
                continue;
            }
        };
        errors.invalid(&list.index(index), format_args!("{network:?}"), &why);
    }
    if matches!(families.as_slice(), [first, second] if first == second) {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                   2001:db8::/64";
        errors.invalid(&list, format_args!("{networks:?}"), why);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, update_faults, warned};

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
    fn r79a_a_service_network_is_one_of_each_family_as_it_names_itself() {
        let kind = row(GROUP, "ServiceCIDR");
        let of = |list: &[&str]| json!({"spec": {"cidrs": list}});
        for list in [&["10.0.0.0/24"][..], &["fd00::/64"], &["10.0.0.0/24", "fd00::/64"]] {
            assert!(faults(&kind, of(list)).is_empty(), "{list:?}");
        }
        for (list, fault) in [
            (&[][..], "spec.cidrs FieldValueRequired"),
            (&["10.0.0.0/24", "fd00::/64", "fd01::/64"], "spec.cidrs FieldValueInvalid"),
            (&["10.0.0.0/24", "10.1.0.0/24"], "spec.cidrs FieldValueInvalid"),
            (&["10.0.0.1/24"], "spec.cidrs[0] FieldValueInvalid"),
            (&["10.0.0.0"], "spec.cidrs[0] FieldValueInvalid"),
            (&["10.0.0.0/24", "FD00::/64"], "spec.cidrs[1] FieldValueInvalid"),
            (&["::ffff:10.0.0.0/120"], "spec.cidrs[0] FieldValueInvalid"),
        ] {
            assert_eq!(faults(&kind, of(list)), [fault], "{list:?}");
        }
        let warned = warned(&kind, of(&["10.0.0.0/24", "fd00::/64"]));
        assert_eq!(
            warned,
            [
                "spec.cidrs[1]: this server gives Services IPv4 addresses only, none from \"fd00::/64\""
            ]
        );
    }

    #[test]
    fn r79a_service_networks_grow_only_to_both_families() {
        let kind = row(GROUP, "ServiceCIDR");
        let of =
            |list: &[&str]| json!({"metadata": {"resourceVersion": "1"}, "spec": {"cidrs": list}});
        let both = &["10.0.0.0/24", "fd00::/64"][..];
        for (old, new, want) in [
            (&["10.0.0.0/24"][..], both, &[][..]),
            (both, both, &[]),
            (&["10.0.0.0/24"], &["10.1.0.0/24"], &["spec.cidrs[0] FieldValueInvalid"]),
            (&["10.0.0.0/24"], &["10.1.0.0/24", "fd00::/64"], &["spec.cidrs[0] FieldValueInvalid"]),
            (&["10.0.0.0/24"], &["10.0.0.0/24", "10.1.0.0/24"], &["spec.cidrs FieldValueInvalid"]),
            (both, &["10.0.0.0/24"], &["spec.cidrs FieldValueInvalid"]),
            (both, &[], &["spec.cidrs FieldValueInvalid"]),
        ] {
            assert_eq!(update_faults(&kind, of(old), of(new)), want, "{old:?} {new:?}");
        }
    }
}
