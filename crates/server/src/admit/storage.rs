//! Volumes, claims and classes in use are protected; claims get the default class (R163 of ownership).

use serde_json::Value;
use tenure_machinery::{Kind, Object, ObjectExt};
use tenure_world::World;

use crate::protect;

/// Adds the protection finalizer.
pub(super) fn protect(kind: &Kind, object: &mut Object) {
    let Some(name) = protect::finalizer(&kind.group, &kind.plural) else { return };
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
    let annotation = "storageclass.kubernetes.io/is-default-class";
    let class = state
        .range("/registry/storageclasses/", None)
        .filter(|record| {
            serde_json::from_slice::<Object>(record.bytes()).is_ok_and(|class| {
                class.str_at(&["metadata", "annotations", annotation]) == Some("true")
            })
        })
        .max_by_key(|record| {
            (record.created().to_owned(), std::cmp::Reverse(record.name().to_owned()))
        });
    if let Some(class) = class {
        object.map_mut("spec").insert("storageClassName".into(), class.name().into());
    }
}
