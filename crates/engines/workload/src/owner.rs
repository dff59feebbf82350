//! Metadata that every controller reads, and the owner entries it writes.
//!
//! ```text
//!   dependent ──ownerReferences──► owner, at most one of them with `controller: true`
//! ```
//!
//! Who may own whom is decided in `claim`; what becomes of dependents is decided elsewhere.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::resource::BuiltinResource;

/// `metadata.uid`, or empty.
#[must_use]
pub fn uid(object: &Object) -> &str {
    object.str_at(&["metadata", "uid"]).unwrap_or_default()
}

/// Whether the object is being deleted.
#[must_use]
pub fn deleting(object: &Object) -> bool {
    object.str_at(&["metadata", "deletionTimestamp"]).is_some()
}

/// `metadata.generation`, or zero.
#[must_use]
pub fn generation(object: &Object) -> i64 {
    object.int_at(&["metadata", "generation"]).unwrap_or_default()
}

/// One label.
#[must_use]
pub fn label<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "labels", key])
}

/// One annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "annotations", key])
}

/// The entry with `controller: true`, if there is one.
#[must_use]
pub fn controller_of(object: &Object) -> Option<&Object> {
    object
        .list_at(&["metadata", "ownerReferences"])
        .iter()
        .filter_map(Value::as_object)
        .find(|entry| entry.bool_at(&["controller"]) == Some(true))
}

/// Whether the entry with `controller: true` names this uid.
#[must_use]
pub fn controlled_by(object: &Object, owner_uid: &str) -> bool {
    controller_of(object).and_then(|entry| entry.str_at(&["uid"])) == Some(owner_uid)
}

/// A complete controller entry for this owner (CR12).
#[must_use]
pub fn entry(resource: BuiltinResource, owner: &Object) -> Value {
    json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind(),
        "name": owner.name(),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The object with a complete controller entry; an entry of the same uid is replaced (CR7).
#[must_use]
pub fn adopted(object: &Object, resource: BuiltinResource, owner: &Object) -> Object {
    let mut object = object.clone();
    let mut entries: Vec<Value> = object.list_at(&["metadata", "ownerReferences"]).to_vec();
    let ours = entries.iter_mut().find(|entry| has_uid(entry, uid(owner)));
    match ours {
        Some(ours) => *ours = entry(resource, owner),
        // A new entry comes first, as a patch would put it.
        None => entries.insert(0, entry(resource, owner)),
    }
    object.map_mut("metadata").insert("ownerReferences".to_string(), Value::Array(entries));
    object
}

/// The object without entries of this uid (CR8).
#[must_use]
pub fn released(object: &Object, owner_uid: &str) -> Object {
    let mut object = object.clone();
    let mut entries: Vec<Value> = object.list_at(&["metadata", "ownerReferences"]).to_vec();
    entries.retain(|entry| !has_uid(entry, owner_uid));
    set_list(object.map_mut("metadata"), "ownerReferences", entries);
    object
}

fn has_uid(entry: &Value, wanted: &str) -> bool {
    entry.get("uid").and_then(Value::as_str) == Some(wanted)
}

/// Whether the object has this finalizer.
#[must_use]
pub fn has_finalizer(object: &Object, finalizer: &str) -> bool {
    object.list_at(&["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(finalizer))
}

/// Adds a finalizer unless it is there.
pub fn add_finalizer(object: &mut Object, finalizer: &str) {
    if has_finalizer(object, finalizer) {
        return;
    }
    let mut all: Vec<Value> = object.list_at(&["metadata", "finalizers"]).to_vec();
    all.push(Value::String(finalizer.to_string()));
    set_list(object.map_mut("metadata"), "finalizers", all);
}

/// Removes a finalizer wherever it stands.
pub fn remove_finalizer(object: &mut Object, finalizer: &str) {
    let mut all: Vec<Value> = object.list_at(&["metadata", "finalizers"]).to_vec();
    all.retain(|f| f.as_str() != Some(finalizer));
    set_list(object.map_mut("metadata"), "finalizers", all);
}

/// Sets one annotation and says whether that changed it.
pub fn annotate(object: &mut Object, key: &str, value: &str) -> bool {
    if annotation(object, key) == Some(value) {
        return false;
    }
    let annotations = object.map_mut("metadata").map_mut("annotations");
    annotations.insert(key.to_string(), Value::String(String::from(value)));
    true
}

/// Sets a list, or leaves it out when it is empty.
fn set_list(object: &mut Object, name: &str, list: Vec<Value>) {
    if list.is_empty() {
        object.remove(name);
    } else {
        object.insert(name.to_string(), Value::Array(list));
    }
}
