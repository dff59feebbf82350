//! PersistentVolume: one source, fixed for life.

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::validate::{same, text, validate_one_of};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::podspec::node_selector_warnings;
use crate::stored::{is_status_write, keep, member, set_status, spec, texts};

/// Rules of PersistentVolume.
pub(crate) struct PersistentVolumeRules;

/// Ways to mount a volume.
pub(crate) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
/// How a volume is presented.
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];

const RECLAIM: &[&str] = &["Delete", "Recycle", "Retain"];

/// Members of the spec that are volume sources.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

impl Rules for PersistentVolumeRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        if text(spec, "persistentVolumeReclaimPolicy").is_empty() {
            spec.insert("persistentVolumeReclaimPolicy".to_owned(), "Retain".into());
        }
        spec.set_default("volumeMode", "Filesystem");
        if let Some(host_path) = member(spec, "hostPath") {
            host_path.set_default("type", "");
        }
        for (source, name, value) in [
            ("iscsi", "iscsiInterface", "default"),
            ("rbd", "pool", "rbd"),
            ("rbd", "user", "admin"),
            ("rbd", "keyring", "/etc/ceph/keyring"),
            ("scaleIO", "storageMode", "ThinProvisioned"),
            ("scaleIO", "fsType", "xfs"),
            ("azureDisk", "cachingMode", "ReadWrite"),
            ("azureDisk", "kind", "Shared"),
            ("azureDisk", "fsType", "ext4"),
        ] {
            if let Some(source) = member(spec, source) {
                source.set_default(name, value);
            }
        }
    }

    fn prepare_create(&self, object: &mut Object, cx: &Cx) {
        set_status(object, json!({"phase": "Pending", "lastPhaseTransitionTime": cx.now}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, cx: &Cx) {
        const SINCE: &str = "lastPhaseTransitionTime";
        let before = old.at(&["status", SINCE]).cloned();
        let moved = object.at(&["status", "phase"]) != old.at(&["status", "phase"]);
        let status = object.map_mut("status");
        let given = status.get(SINCE).filter(|time| !time.is_null()).cloned();
        if moved && (given.is_none() || given == before) {
            status.insert(SINCE.to_owned(), cx.now.as_str().into());
        } else if given.is_none()
            && let Some(before) = before
        {
            status.insert(SINCE.to_owned(), before);
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if is_status_write(object, old) { Vec::new() } else { volume_warnings(object) }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if spec.list_at(&["accessModes"]).is_empty() {
            errors.required(&path.field("accessModes"), "");
        }
        validate_access_modes(spec, &path, errors);
        validate_capacity(spec, &path.field("capacity"), errors);
        validate_one_of(spec, "persistentVolumeReclaimPolicy", RECLAIM, &path, errors);
        validate_source(spec, &path, errors);
        let class = text(spec, "storageClassName");
        if !class.is_empty() {
            for why in name::dns_subdomain_faults(class) {
                errors.invalid(&path.field("storageClassName"), format_args!("{class:?}"), why);
            }
        }
        validate_one_of(spec, "volumeMode", VOLUME_MODES, &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let (after, before) = (spec(object), spec(old));
        let path = Path::Root.field("spec");
        if SOURCES.iter().any(|source| !same_source(after, before, source)) {
            errors.forbidden(&path.field("persistentvolumesource"), "the source is fixed for life");
        }
        if !same(after.get("volumeMode"), before.get("volumeMode")) {
            let value = after.get("volumeMode").unwrap_or(&Value::Null);
            errors.invalid(&Path::Root.field("volumeMode"), value, "field is immutable");
        }
    }
}

/// An expansion secret may be added to a CSI source later.
fn same_source(after: &Object, before: &Object, source: &str) -> bool {
    const SECRET: &str = "controllerExpandSecretRef";
    let mut new = after.get(source).cloned();
    if before.map_at(&[source]).is_some_and(|old| !old.contains_key(SECRET))
        && let Some(Value::Object(new)) = &mut new
    {
        new.remove(SECRET);
    }
    new.as_ref() == before.get(source)
}

/// Known modes; the one for a single pod stands alone.
pub(crate) fn validate_access_modes(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let modes = texts(spec, "accessModes");
    let path = path.field("accessModes");
    for mode in &modes {
        if !ACCESS_MODES.contains(mode) {
            errors.not_supported(&path, mode, ACCESS_MODES);
        }
    }
    let single = |mode: &&&str| **mode == "ReadWriteOncePod";
    let others = modes.iter().filter(|m| !single(m) && ACCESS_MODES.contains(m)).count();
    if modes.iter().any(|m| single(&m)) && others > 0 {
        errors.forbidden(&path, "ReadWriteOncePod stands alone");
    }
}

fn validate_capacity(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let capacity = spec.map_at(&["capacity"]).unwrap_or(&empty);
    if capacity.is_empty() {
        errors.required(path, "");
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        let given = Value::Object(capacity.clone()).to_string();
        errors.not_supported(path, &given, &["storage"]);
    }
    for (resource, value) in capacity {
        if Quantity::from_value(value).is_none_or(|q| q.is_negative() || q.is_zero()) {
            errors.invalid(&path.key(resource), value, "must be greater than zero");
        }
    }
}

fn validate_source(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = false;
    for source in SOURCES {
        if spec.map_at(&[source]).is_none() {
            continue;
        }
        if seen {
            errors.forbidden(&path.field(source), "a volume has one source");
        }
        seen = true;
    }
    if !seen {
        errors.required(path, "needs a source");
    }
    if let Some(host_path) = spec.map_at(&["hostPath"]) {
        let place = path.field("hostPath");
        let text = text(host_path, "path");
        if text.is_empty() {
            errors.required(&place.field("path"), "");
        } else if text.split('/').any(|part| part == "..") {
            let why = "must not contain '..'";
            errors.invalid(&place.field("path"), format_args!("{text:?}"), why);
        }
    }
    if let Some(csi) = spec.map_at(&["csi"]) {
        let place = path.field("csi");
        for member in ["driver", "volumeHandle"] {
            if text(csi, member).is_empty() {
                errors.required(&place.field(member), "");
            }
        }
    }
    if spec.map_at(&["local"]).is_some() && spec.at(&["nodeAffinity", "required"]).is_none() {
        errors.required(&path.field("nodeAffinity"), "a local volume lives on certain nodes");
    }
}

/// Annotations that became members, and sources that are gone.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 2] = [
    (
        "volume.beta.kubernetes.io/storage-class",
        "deprecated since v1.8; use \"storageClassName\" attribute instead",
    ),
    (
        "volume.beta.kubernetes.io/mount-options",
        "deprecated since v1.31; use \"mountOptions\" attribute instead",
    ),
];
const DEPRECATED_SOURCES: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn volume_warnings(object: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, advice) in DEPRECATED_ANNOTATIONS {
        if object.at(&["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {advice}"));
        }
    }
    let spec = spec(object);
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let advice = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is \
                      to use dynamic provisioning.";
        warnings.push(format!("spec.persistentVolumeReclaimPolicy: {advice}"));
    }
    if let Some(required) = spec.map_at(&["nodeAffinity", "required"]) {
        let path = Path::Root.field("spec");
        let path = path.field("nodeAffinity");
        let path = path.field("required");
        warnings.extend(node_selector_warnings(required, &path.field("nodeSelectorTerms")));
    }
    for (source, advice) in DEPRECATED_SOURCES {
        if spec.map_at(&[source]).is_some() {
            // One path is spelled in another way upstream.
            let shown = if source == "storageos" { "storageOS" } else { source };
            warnings.push(format!("spec.{shown}: {advice}"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults, warned, warned_status, warned_update};

    #[test]
    fn r136_persistent_volume() {
        let kind = row("", "PersistentVolume");
        let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none", "hostPath": {"path": "/x"}});
        assert_eq!(
            created(&kind, json!({"spec": spec})),
            json!({
                "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                    "hostPath": {"path": "/x", "type": ""}, "storageClassName": "none",
                    "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending", "lastPhaseTransitionTime": "2024-01-02T03:04:05Z"},
            })
        );
        assert!(faults(&kind, json!({"spec": spec})).is_empty());
        assert_eq!(
            faults(&kind, json!({"spec": {}})),
            [
                "spec.accessModes FieldValueRequired",
                "spec.capacity FieldValueRequired",
                "spec.capacity FieldValueNotSupported",
                "spec FieldValueRequired",
            ]
        );
        let mut moved = spec.clone();
        moved["hostPath"]["path"] = json!("/y");
        assert_eq!(
            update_faults(&kind, json!({"spec": spec}), json!({"spec": moved})),
            ["spec.persistentvolumesource FieldValueForbidden"]
        );
        let mut kept = spec.clone();
        kept["persistentVolumeReclaimPolicy"] = json!("Delete");
        assert!(update_faults(&kind, json!({"spec": spec}), json!({"spec": kept})).is_empty());
    }

    #[test]
    fn r31_a_volume_of_a_kind_that_is_gone() {
        let kind = row("", "PersistentVolume");
        let told = |spec: serde_json::Value| warned(&kind, json!({"spec": spec})).len();
        assert_eq!(told(json!({"hostPath": {"path": "/x"}})), 0);
        for (source, _) in super::DEPRECATED_SOURCES {
            assert_eq!(told(json!({source: {}})), 1, "{source}");
        }
        let term =
            json!({"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]});
        let body = json!({
            "metadata": {"annotations": {
                "volume.beta.kubernetes.io/storage-class": "x", "volume.beta.kubernetes.io/mount-options": "x"}},
            "spec": {"persistentVolumeReclaimPolicy": "Recycle",
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
        });
        assert_eq!(warned(&kind, body.clone()).len(), 4);
        assert_eq!(warned_update(&kind, body.clone(), body.clone()).len(), 4);
        assert_eq!(warned_status(&kind, body, json!({"phase": "Bound"})), [""; 0]);
    }
}
