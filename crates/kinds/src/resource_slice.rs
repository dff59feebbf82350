//! ResourceSlice as stored: whose devices it lists never changes (R136f).

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::device::{validate_device_name, validate_driver_name, validate_pool_name};
use crate::stored::spec;

/// Rules of ResourceSlice.
pub(crate) struct ResourceSliceRules;

const DEVICES_MAX: usize = 128;
const ONE_OF: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

impl Rules for ResourceSliceRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let (spec, path) = (spec(object), Path::Root.field("spec"));
        validate_driver_name(text(spec, "driver"), &path.field("driver"), errors);
        validate_pool(spec, &path.field("pool"), errors);
        validate_nodes(spec, &path, errors);
        validate_devices(spec, &path.field("devices"), errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let empty = Object::new();
        let pool = |object| spec(object).map_at(&["pool"]).unwrap_or(&empty);
        validate_frozen(pool(object), pool(old), "name", &path.field("pool"), errors);
        for member in ["driver", "nodeName"] {
            validate_frozen(spec(object), spec(old), member, &path, errors);
        }
    }
}

fn validate_pool(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let pool = spec.str_at(&["pool", "name"]).unwrap_or_default();
    validate_pool_name(pool, &path.field("name"), errors);
    let number = |member| spec.int_at(&["pool", member]).unwrap_or(0);
    let (slices, generation) = (number("resourceSliceCount"), number("generation"));
    if slices <= 0 {
        errors.invalid(&path.field("resourceSliceCount"), slices, "must be greater than zero");
    }
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid(&path.field("generation"), generation, why);
    }
}

/// Which nodes reach the devices is said in one way.
fn validate_nodes(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut said = Vec::new();
    if let Some(node) = spec.str_at(&["nodeName"]) {
        let place = path.field("nodeName");
        if node.is_empty() {
            errors.invalid(&place, "\"\"", "must be either unset or set to a non-empty string");
        } else {
            said.push("`nodeName`");
            if let Some(why) = name::dns_subdomain(node) {
                errors.invalid(&place, format_args!("{node:?}"), why);
            }
        }
    }
    if let Some(selector) = spec.map_at(&["nodeSelector"]) {
        said.push("`nodeSelector`");
        let place = path.field("nodeSelector");
        let place = place.field("nodeSelectorTerms");
        let terms = selector.list_at(&["nodeSelectorTerms"]).len();
        if terms != 1 {
            errors.invalid(&place, terms, "must have exactly one node selector term");
        }
    }
    for (member, shown) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec.get(member).and_then(Value::as_bool) {
            Some(true) => said.push(shown),
            Some(false) => {
                errors.invalid(&path.field(member), false, "must be either unset or set to true");
            }
            None => {}
        }
    }
    match said.as_slice() {
        [] => errors.required(path, ONE_OF),
        [_] => {}
        many => {
            let why = format!("{ONE_OF}, but multiple fields are set");
            errors.invalid(path, format_args!("{{{}}}", many.join(", ")), &why);
        }
    }
}

fn validate_devices(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let count = spec.list_at(&["devices"]).len();
    if count > DEVICES_MAX {
        return errors.too_many(path, count, DEVICES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, device) in objects(spec, "devices") {
        let device = text(device, "name");
        let place = path.index(index);
        validate_device_name(device, &place.field("name"), errors);
        if !seen.insert(device) {
            errors.duplicate(&place, format_args!("{device:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use crate::check::{faults, row, update_faults};

    fn slice(spec: Value) -> Value {
        let mut whole = json!({"driver": "d.example.com",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({"spec": whole})
    }

    #[test]
    fn r136f_a_slice_says_in_one_way_which_nodes_reach_its_devices() {
        let kind = row("resource.k8s.io", "ResourceSlice");
        let term = json!({"matchFields": []});
        for (spec, expected) in [
            (json!({"nodeName": "a"}), &[][..]),
            (json!({"allNodes": true}), &[]),
            (json!({"perDeviceNodeSelection": true}), &[]),
            (json!({"nodeSelector": {"nodeSelectorTerms": [term]}}), &[]),
            (json!({}), &["spec FieldValueRequired"]),
            (json!({"nodeName": "a", "allNodes": true}), &["spec FieldValueInvalid"]),
            (json!({"nodeName": "a", "allNodes": false}), &["spec.allNodes FieldValueInvalid"]),
            (json!({"allNodes": true, "nodeName": ""}), &["spec.nodeName FieldValueInvalid"]),
            (json!({"nodeName": "A"}), &["spec.nodeName FieldValueInvalid"]),
            (
                json!({"nodeSelector": {"nodeSelectorTerms": []}}),
                &["spec.nodeSelector.nodeSelectorTerms FieldValueInvalid"],
            ),
            (json!({"allNodes": true, "driver": "a_b"}), &["spec.driver FieldValueInvalid"]),
            (
                json!({"allNodes": true, "pool": {"name": "a//b", "generation": -1}}),
                &[
                    "spec.pool.name FieldValueInvalid",
                    "spec.pool.resourceSliceCount FieldValueInvalid",
                    "spec.pool.generation FieldValueInvalid",
                ],
            ),
            (
                json!({"allNodes": true, "devices": [{"name": "a"}, {"name": "a"}]}),
                &["spec.devices[1] FieldValueDuplicate"],
            ),
        ] {
            assert_eq!(faults(&kind, slice(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn r136f_whose_devices_a_slice_lists_never_changes() {
        let kind = row("resource.k8s.io", "ResourceSlice");
        let old = slice(json!({"nodeName": "a"}));
        let pool = json!({"name": "b", "generation": 1, "resourceSliceCount": 1});
        for (spec, expected) in [
            (json!({"nodeName": "a", "devices": [{"name": "x"}]}), &[][..]),
            (json!({"nodeName": "b"}), &["spec.nodeName FieldValueInvalid"]),
            (json!({"allNodes": true}), &["spec.nodeName FieldValueInvalid"]),
            (json!({"nodeName": "a", "driver": "e"}), &["spec.driver FieldValueInvalid"]),
            (json!({"nodeName": "a", "pool": pool}), &["spec.pool.name FieldValueInvalid"]),
        ] {
            assert_eq!(update_faults(&kind, old.clone(), slice(spec.clone())), expected, "{spec}");
        }
    }
}
