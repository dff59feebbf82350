//! The kinds of the storage group: classes, CSI facts, attachments.

use serde_json::{Value, json};
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{objects, same, text, validate_frozen, validate_one_of};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::text::dns_subdomain;
use crate::podspec::{WARNINGS_MAX, node_label_advice};
use crate::stored::{keep, spec};

/// Rules of StorageClass.
pub(crate) struct StorageClassRules;
/// Rules of VolumeAttributesClass.
pub(crate) struct VolumeAttributesClassRules;
/// Rules of CSIDriver.
pub(crate) struct CsiDriverRules;
/// Rules of CSINode.
pub(crate) struct CsiNodeRules;
/// Rules of CSIStorageCapacity.
pub(crate) struct CsiStorageCapacityRules;
/// Rules of VolumeAttachment.
pub(crate) struct VolumeAttachmentRules;

/// How many parameters a class may have.
const PARAMETERS_MAX: usize = 512;
/// How many bytes they may have, keys and values together.
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;
/// How long the name of a driver may be.
const DRIVER_BYTES_MAX: usize = 63;

impl Rules for StorageClassRules {
    fn default(&self, object: &mut Object) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let provisioner = text(object, "provisioner");
        if !provisioner.is_empty() {
            for why in name::qualified_name_faults(&provisioner.to_lowercase()) {
                let path = Path::Root.field("provisioner");
                errors.invalid(&path, format_args!("{provisioner:?}"), why);
            }
        }
        validate_parameters(object, errors);
        validate_one_of(object, "reclaimPolicy", &["Delete", "Retain"], &Path::Root, errors);
        let modes = &["Immediate", "WaitForFirstConsumer"];
        validate_one_of(object, "volumeBindingMode", modes, &Path::Root, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        if text(object, "provisioner").is_empty() {
            errors.required(&Path::Root.field("provisioner"), "");
        }
    }

    fn validate_update_last(&self, object: &Object, old: &Object, errors: &mut Errors) {
        self.validate_last(object, errors);
        for member in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            validate_frozen(object, old, member, &Path::Root, errors);
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        let list = Path::Root.field("allowedTopologies");
        for (index, topology) in objects(object, "allowedTopologies") {
            let place = list.index(index);
            let list = place.field("matchLabelExpressions");
            for (index, expression) in objects(topology, "matchLabelExpressions") {
                if let Some(advice) = node_label_advice(text(expression, "key")) {
                    warnings.push(format!("{}: {advice}", list.index(index).field("key")));
                }
            }
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }
}

/// Parameters have keys and a bound.
fn validate_parameters(class: &Object, errors: &mut Errors) {
    let Some(parameters) = class.map_at(&["parameters"]) else { return };
    let path = Path::Root.field("parameters");
    if parameters.len() > PARAMETERS_MAX {
        return errors.too_long(&path, PARAMETERS_MAX);
    }
    let mut bytes = 0_usize;
    for (key, value) in parameters {
        if key.is_empty() {
            errors.invalid(&path, "\"\"", "a key may not be empty");
        }
        bytes = bytes.saturating_add(key.len() + value.as_str().map_or(0, str::len));
    }
    if bytes > PARAMETERS_BYTES_MAX {
        errors.too_long(&path, PARAMETERS_BYTES_MAX);
    }
}

impl Rules for VolumeAttributesClassRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        if text(object, "driverName").is_empty() {
            errors.required(&Path::Root.field("driverName"), "");
        }
        if object.map_at(&["parameters"]).is_none_or(Object::is_empty) {
            errors.required(&Path::Root.field("parameters"), "needs at least one");
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        for member in ["driverName", "parameters"] {
            if !same(object.get(member), old.get(member)) {
                errors.forbidden(&Path::Root.field(member), "may not change");
            }
        }
    }
}

impl Rules for CsiDriverRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        spec.set_default("attachRequired", true);
        spec.set_default("podInfoOnMount", false);
        spec.set_default("storageCapacity", false);
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.list_at(&["volumeLifecycleModes"]).is_empty() {
            spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
        }
        spec.set_default("requiresRepublish", false);
        spec.set_default("seLinuxMount", false);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let policies = &["ReadWriteOnceWithFSType", "File", "None"];
        validate_one_of(spec(object), "fsGroupPolicy", policies, &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let (spec, stored) = (spec(object), spec(old));
        if !same(spec.get("attachRequired"), stored.get("attachRequired")) {
            let value = spec.get("attachRequired").unwrap_or(&Value::Null);
            // Upstream calls the member so.
            errors.invalid(&path.field("attachedRequired"), value, "field is immutable");
        }
        validate_frozen(spec, stored, "volumeLifecycleModes", &path, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let requests = |driver: &Object| spec(driver).get("tokenRequests").cloned();
        let asks = !spec(object).list_at(&["tokenRequests"]).is_empty();
        let changed = old.is_none_or(|old| requests(old) != requests(object));
        let chosen = spec(object).bool_at(&["serviceAccountTokenInSecrets"]).is_some();
        if !asks || !changed || chosen {
            return Vec::new();
        }
        let advice = "is unset; if supported by this CSI driver, set to true to prevent possible \
                      logging of tokens in volume attributes";
        vec![format!("spec.serviceAccountTokenInSecrets {advice}")]
    }
}

impl Rules for CsiNodeRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let root = Path::Root.field("spec");
        let list = root.field("drivers");
        let mut seen = Vec::new();
        for (index, driver) in objects(spec(object), "drivers") {
            let path = list.index(index);
            for member in ["name", "nodeID"] {
                if text(driver, member).is_empty() {
                    errors.required(&path.field(member), "");
                }
            }
            let name = text(driver, "name");
            if seen.contains(&name) {
                errors.duplicate(&path.field("name"), format_args!("{name:?}"));
            }
            seen.push(name);
        }
    }
}

impl Rules for CsiStorageCapacityRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let class = text(object, "storageClassName");
        if let Some(why) = name::dns_subdomain(class) {
            let path = Path::Root.field("storageClassName");
            errors.invalid(&path, format_args!("{class:?}"), why);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        for member in ["nodeTopology", "storageClassName"] {
            validate_frozen(object, old, member, &Path::Root, errors);
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let Some(topology) = object.map_at(&["nodeTopology"]) else { return Vec::new() };
        let mut warnings = Vec::new();
        let path = Path::Root.field("nodeTopology");
        let list = path.field("matchExpressions");
        for (index, expression) in objects(topology, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(advice) = node_label_advice(key) {
                warnings.push(format!("{}: {key} is {advice}", list.index(index).field("key")));
            }
        }
        let labels = path.field("matchLabels");
        for (label, _) in topology.map_at(&["matchLabels"]).into_iter().flatten() {
            if let Some(advice) = node_label_advice(label) {
                warnings.push(format!("{}: {advice}", labels.field(label)));
            }
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }
}

impl Rules for VolumeAttachmentRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({"attached": false}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let source = path.field("source");
        let named = spec.str_at(&["source", "persistentVolumeName"]);
        let inline = spec.map_at(&["source", "inlineVolumeSpec"]).is_some();
        match (named, inline) {
            (None, false) => errors.required(&source, "needs a volume, by name or inline"),
            (Some(_), true) => {
                errors.forbidden(&source, "needs a volume, by name or inline and not both");
            }
            (Some(""), false) => errors.required(&source.field("persistentVolumeName"), ""),
            _ => {}
        }
        dns_subdomain(text(spec, "nodeName"), &path.field("nodeName"), errors);
        if let Some(name) = named {
            dns_subdomain(name, &source.field("persistentVolumeName"), errors);
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let attacher = text(spec(object), "attacher");
        validate_driver(attacher, errors);
        validate_driver_length(attacher, errors);
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::Only
    }

    fn validate_update(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        // What may not change at all is not looked at by the types, so the code says it, in its own order.
        let attacher = text(spec(object), "attacher");
        validate_driver_length(attacher, errors);
        validate_driver(attacher, errors);
        self.validate(object, errors);
    }

    fn validate_update_last(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "spec", &Path::Root, errors);
    }
}

/// What attaches is a name in any case.
fn validate_driver(attacher: &str, errors: &mut Errors) {
    let spec = Path::Root.field("spec");
    match attacher {
        "" => errors.required(&spec.field("attacher"), ""),
        name => dns_subdomain(&name.to_lowercase(), &spec.field("attacher"), errors),
    }
}

fn validate_driver_length(attacher: &str, errors: &mut Errors) {
    if attacher.len() > DRIVER_BYTES_MAX {
        errors.too_long(&Path::Root.field("spec").field("attacher"), DRIVER_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults, warned, warned_update};

    const GROUP: &str = "storage.k8s.io";

    #[test]
    fn r136_storage_class() {
        let kind = row(GROUP, "StorageClass");
        let old = json!({"provisioner": "example.com/p", "parameters": {"a": "b"}});
        assert_eq!(
            created(&kind, old.clone()),
            json!({"provisioner": "example.com/p", "parameters": {"a": "b"},
                "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        );
        assert_eq!(faults(&kind, json!({})), ["provisioner FieldValueRequired"]);
        let new = json!({"provisioner": "example.com/q", "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer"});
        assert_eq!(
            update_faults(&kind, old.clone(), new),
            ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]
                .map(|member| format!("{member} FieldValueInvalid"))
        );
        let new = json!({"reclaimPolicy": "Recycle", "parameters": {"": "b"}});
        assert_eq!(
            update_faults(&kind, old, new),
            [
                "parameters FieldValueInvalid",
                "reclaimPolicy FieldValueNotSupported",
                "provisioner FieldValueRequired",
                "provisioner FieldValueInvalid",
                "parameters FieldValueInvalid",
                "reclaimPolicy FieldValueInvalid",
            ]
        );
        let wrong = json!({"provisioner": "", "volumeBindingMode": "Later"});
        assert_eq!(
            faults(&kind, wrong),
            ["volumeBindingMode FieldValueNotSupported", "provisioner FieldValueRequired"]
        );
    }

    #[test]
    fn r136_csi_driver_defaults() {
        let driver = created(&row(GROUP, "CSIDriver"), json!({"spec": {"podInfoOnMount": true}}));
        assert_eq!(
            driver["spec"],
            json!({"attachRequired": true, "podInfoOnMount": true, "storageCapacity": false,
                "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
                "requiresRepublish": false, "seLinuxMount": false})
        );
    }

    #[test]
    fn r136_volume_attachment() {
        let kind = row(GROUP, "VolumeAttachment");
        assert_eq!(
            faults(&kind, json!({"spec": {}})),
            [
                "spec.source FieldValueRequired",
                "spec.nodeName FieldValueInvalid",
                "spec.attacher FieldValueRequired",
            ]
        );
        let of = |attacher: &str, source: serde_json::Value| json!({"spec": {"attacher": attacher, "nodeName": "n", "source": source}});
        let named = json!({"persistentVolumeName": "v"});
        assert!(faults(&kind, of("Example.com", named.clone())).is_empty());
        assert_eq!(
            faults(&kind, of("a_b", json!({"persistentVolumeName": "v", "inlineVolumeSpec": {}}))),
            ["spec.source FieldValueForbidden", "spec.attacher FieldValueInvalid"]
        );
        assert_eq!(
            faults(&kind, of("a", json!({"persistentVolumeName": ""}))),
            ["Required", "Invalid"]
                .map(|r| format!("spec.source.persistentVolumeName FieldValue{r}"))
        );
        let long = "_".repeat(64);
        assert_eq!(
            faults(&kind, of(&long, named.clone())),
            ["spec.attacher FieldValueInvalid", "spec.attacher FieldValueTooLong"]
        );
        assert_eq!(
            update_faults(&kind, of("a", named.clone()), of(&long, named)),
            [
                "spec.attacher FieldValueTooLong",
                "spec.attacher FieldValueInvalid",
                "spec FieldValueInvalid",
            ]
        );
    }

    #[test]
    fn r136_csi_driver_update_names_the_member_as_upstream() {
        let kind = row(GROUP, "CSIDriver");
        let new = json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]}});
        assert_eq!(
            update_faults(&kind, json!({"spec": {}}), new),
            [
                "spec.attachedRequired FieldValueInvalid",
                "spec.volumeLifecycleModes FieldValueInvalid"
            ]
        );
    }

    #[test]
    fn r31_deprecated_labels_of_nodes_in_topologies() {
        let key = "failure-domain.beta.kubernetes.io/zone";
        let class = |key: &str| json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": ["a"]}]}]});
        let kind = row(GROUP, "StorageClass");
        assert_eq!(warned(&kind, class("topology.kubernetes.io/zone")), [""; 0]);
        assert_eq!(warned(&kind, class(key)).len(), 1);
        assert_eq!(warned_update(&kind, class(key), class(key)).len(), 1);
        let kind = row(GROUP, "CSIStorageCapacity");
        let capacity = json!({"nodeTopology": {
            "matchLabels": {key: "a", "b": "c"}, "matchExpressions": [{"key": key, "operator": "Exists"}]}});
        assert_eq!(warned(&kind, capacity).len(), 2);
    }

    #[test]
    fn r31_a_driver_that_does_not_say_where_tokens_go() {
        let kind = row(GROUP, "CSIDriver");
        let asks = json!({"spec": {"tokenRequests": [{"audience": "a"}]}});
        assert_eq!(warned(&kind, json!({"spec": {}})), [""; 0]);
        assert_eq!(warned(&kind, asks.clone()).len(), 1);
        assert_eq!(warned_update(&kind, json!({"spec": {}}), asks.clone()).len(), 1);
        assert_eq!(warned_update(&kind, asks.clone(), asks), [""; 0]);
        let chosen = json!({"spec": {"tokenRequests": [{"audience": "a"}], "serviceAccountTokenInSecrets": false}});
        assert_eq!(warned(&kind, chosen), [""; 0]);
    }
}
