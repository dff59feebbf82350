//! PersistentVolumeClaim: almost frozen after creation.
//!
//! The default class and the protection finalizer are admission's work.

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::validate::{same, text, validate_label_selector, validate_one_of};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::persistent_volume::{VOLUME_MODES, validate_access_modes};
use crate::podspec::claim_warnings;
use crate::stored::{is_status_write, keep, set_status, spec};

/// Rules of PersistentVolumeClaim.
pub(crate) struct PersistentVolumeClaimRules;

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl Rules for PersistentVolumeClaimRules {
    fn default(&self, object: &mut Object) {
        object.map_mut("spec").set_default("volumeMode", "Filesystem");
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({"phase": "Pending"}));
        pair_sources(object.map_mut("spec"));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
        pair_sources(object.map_mut("spec"));
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_status_write(object, old) {
            return warnings;
        }
        if object.at(&["metadata", "annotations", BETA_CLASS]).is_some() {
            let advice = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{BETA_CLASS}]: {advice}"));
        }
        warnings.extend(claim_warnings(spec(object), &Path::Root.field("spec")));
        warnings
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if spec.list_at(&["accessModes"]).is_empty() {
            errors.required(&path.field("accessModes"), "needs at least one mode");
        }
        if let Some(selector) = spec.map_at(&["selector"]) {
            validate_label_selector(selector, &path.field("selector"), errors);
        }
        validate_access_modes(spec, &path, errors);
        let resources = path.field("resources");
        match spec.at(&["resources", "requests", "storage"]) {
            None => errors.required(&resources.key("storage"), ""),
            Some(value) => {
                if Quantity::from_value(value).is_none_or(|q| q.is_negative() || q.is_zero()) {
                    let why = "must be greater than zero";
                    errors.invalid(&resources.key("storage"), value, why);
                }
            }
        }
        let class = text(spec, "storageClassName");
        if !class.is_empty() {
            for why in name::dns_subdomain_faults(class) {
                errors.invalid(&path.field("storageClassName"), format_args!("{class:?}"), why);
            }
        }
        validate_one_of(spec, "volumeMode", VOLUME_MODES, &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        if frozen_part(object, old) != frozen_part(old, old) {
            let why =
                "only the requested size and volumeAttributesClassName of a bound claim change";
            errors.forbidden(&path, why);
        }
        let size = |claim: &Object, at: &[&str]| claim.at(at).and_then(Quantity::from_value);
        let requested = ["spec", "resources", "requests", "storage"];
        let (new, before) = (size(object, &requested), size(old, &requested));
        let granted = size(old, &["status", "capacity", "storage"]);
        if let (Some(new), Some(before)) = (new, before)
            && new < before
            && granted.is_some_and(|granted| new <= granted)
        {
            let resources = path.field("resources");
            let requests = resources.field("requests");
            errors.forbidden(&requests.field("storage"), "must be more than status.capacity");
        }
        if !same(spec(object).get("volumeMode"), spec(old).get("volumeMode")) {
            let value = spec(object).get("volumeMode").unwrap_or(&Value::Null);
            errors.invalid(&Path::Root.field("volumeMode"), value, "field is immutable");
        }
    }
}

/// The spec with everything that may change set to what the stored claim has.
fn frozen_part(claim: &Object, old: &Object) -> Object {
    let mut part = spec(claim).clone();
    let stored = spec(old);
    if text(stored, "volumeName").is_empty() {
        part.remove("volumeName");
    }
    let unclassed = stored.get("storageClassName").is_none_or(Value::is_null)
        && old.str_at(&["metadata", "annotations", BETA_CLASS]).is_none();
    if unclassed {
        part.remove("storageClassName");
    }
    let bound = claim.str_at(&["status", "phase"]) == Some("Bound");
    if bound {
        keep(&mut part, stored, "volumeAttributesClassName");
    }
    let requested = ["resources", "requests", "storage"];
    let amount = |spec: &Object| spec.at(&requested).and_then(Quantity::from_value);
    if (bound || amount(&part) == amount(stored))
        && let Some(value) = stored.at(&requested).cloned()
        && part.map_at(&["resources", "requests"]).is_some()
    {
        part.map_mut("resources").map_mut("requests").insert("storage".to_owned(), value);
    }
    part
}

/// `dataSource` and `dataSourceRef` are one value unless the reference leaves the namespace.
fn pair_sources(spec: &mut Object) {
    let local =
        spec.map_at(&["dataSourceRef"]).is_some_and(|source| text(source, "namespace").is_empty());
    match (spec.map_at(&["dataSource"]).cloned(), spec.map_at(&["dataSourceRef"]).cloned()) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), Value::Object(source));
        }
        (None, Some(reference)) if local => {
            let known = matches!(
                (text(&reference, "apiGroup"), text(&reference, "kind")),
                ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
            );
            if known {
                spec.insert("dataSource".to_owned(), Value::Object(reference));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults, warned, warned_status, warned_update};

    #[test]
    fn r136_persistent_volume_claim() {
        let kind = row("", "PersistentVolumeClaim");
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}});
        assert_eq!(
            created(&kind, json!({"spec": spec})),
            json!({
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            })
        );
        assert!(faults(&kind, json!({"spec": spec})).is_empty());
        assert_eq!(
            faults(&kind, json!({"spec": {}})),
            ["spec.accessModes FieldValueRequired", "spec.resources[storage] FieldValueRequired"]
        );
    }

    #[test]
    fn r136_a_claim_is_almost_frozen() {
        let kind = row("", "PersistentVolumeClaim");
        let claim = |mode: &str, size: &str, volume: &str| {
            json!({"spec": {"accessModes": [mode], "volumeName": volume, "storageClassName": "c",
                "resources": {"requests": {"storage": size}}}})
        };
        let old = claim("ReadWriteOnce", "1Gi", "");
        let forbidden = ["spec FieldValueForbidden"];
        let cases = [
            (claim("ReadOnlyMany", "1Gi", ""), &forbidden[..]),
            (claim("ReadWriteOnce", "2Gi", ""), &forbidden[..]),
            (claim("ReadWriteOnce", "1024Mi", ""), &[]),
            (claim("ReadWriteOnce", "1Gi", "v"), &[]),
        ];
        for (new, expected) in cases {
            assert_eq!(update_faults(&kind, old.clone(), new), expected);
        }
        let unclassed = json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        let mut classed = unclassed.clone();
        classed["spec"]["storageClassName"] = json!("fast");
        assert!(update_faults(&kind, unclassed, classed).is_empty());
    }

    #[test]
    fn r31_a_claim_for_parts_of_bytes_or_with_a_class_by_annotation() {
        let kind = row("", "PersistentVolumeClaim");
        let body =
            |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        assert_eq!(warned(&kind, body("1Gi")), [""; 0]);
        assert_eq!(warned(&kind, body("100m")).len(), 1);
        assert_eq!(warned_update(&kind, body("100m"), body("100m")).len(), 1);
        assert_eq!(warned_status(&kind, body("100m"), json!({"phase": "Bound"})), [""; 0]);
        let mut named = body("1Gi");
        named["metadata"] = json!({"annotations": {super::BETA_CLASS: "x"}});
        assert_eq!(warned(&kind, named).len(), 1);
    }
}
