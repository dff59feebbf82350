//! Volumes, claims and classes in use are protected; claims get the default class (R163 of ownership).

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Failure, Kind, Object, ObjectExt};
use tenure_world::World;

use crate::request::ResourceRequest;

/// Adds the finalizer by which engine `workload` protects what is in use.
pub(super) fn protect(kind: &Kind, object: &mut Object) {
    let name = match (kind.group.as_ref(), kind.plural.as_ref()) {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return,
    };
    let metadata = object.map_mut("metadata");
    let finalizers = metadata.entry("finalizers").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = finalizers
        && !list.iter().any(|finalizer| finalizer.as_str() == Some(name))
    {
        list.push(name.into());
    }
}

/// Names the default StorageClass in a claim that names none: the newest one marked as default.
pub(super) fn default_class(state: &World, kind: &str, object: &mut Object) {
    if kind != "PersistentVolumeClaim" || object.at(&["spec", "storageClassName"]).is_some() {
        return;
    }
    // The old way to name a class counts as naming one.
    if object.at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]).is_some()
    {
        return;
    }
    let marked = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    if let Some(name) = default_of(state, "/registry/storageclasses/", &marked) {
        object.map_mut("spec").insert("storageClassName".into(), name.into());
    }
}

/// The newest class that one of these annotations marks as the default; of equally new ones the first by name.
pub(super) fn default_of(state: &World, prefix: &str, marked: &[&str]) -> Option<String> {
    let is_default = |class: &Object| {
        marked.iter().any(|name| class.str_at(&["metadata", "annotations", name]) == Some("true"))
    };
    state
        .range(prefix, None)
        .filter(|record| {
            serde_json::from_slice(record.bytes()).is_ok_and(|class| is_default(&class))
        })
        .max_by_key(|record| {
            (record.created().to_owned(), std::cmp::Reverse(record.name().to_owned()))
        })
        .map(|class| class.name().to_owned())
}

/// Refuses to grow a claim that has no volume yet, or whose class does not allow it (R254).
pub(super) fn may_grow(
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let Some(old) = old else { return Ok(()) };
    if kind.kind != "PersistentVolumeClaim"
        || !kind.group.is_empty()
        || !request.subresource.is_empty()
    {
        return Ok(());
    }
    let size = |claim: &Object| {
        let size = claim.at(&["spec", "resources", "requests", "storage"]);
        size.and_then(Quantity::from_value).unwrap_or(Quantity::ZERO)
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    let refuse = |why: &str| Err(Failure::forbidden("", "persistentvolumeclaims", new.name(), why));
    if old.str_at(&["status", "phase"]) != Some("Bound") {
        return refuse("only bound persistent volume claims can be expanded");
    }
    let class = |claim: &Object| {
        let old = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
        let named = claim.str_at(&old).or_else(|| claim.str_at(&["spec", "storageClassName"]));
        named.unwrap_or_default().to_owned()
    };
    let allows = |name: &str| {
        let record = state.get(&format!("/registry/storageclasses/{name}"));
        let class = record.and_then(|found| serde_json::from_slice::<Object>(found.bytes()).ok());
        class.is_some_and(|class| class.bool_at(&["allowVolumeExpansion"]) == Some(true))
    };
    let name = class(new);
    if name.is_empty() || name != class(old) || !allows(&name) {
        return refuse("the StorageClass of the claim must exist and have allowVolumeExpansion");
    }
    Ok(())
}
