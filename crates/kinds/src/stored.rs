//! What a write may not touch comes from the stored object.

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

/// Sets `member` to what the stored object has, or removes it.
pub(crate) fn keep(object: &mut Object, old: &Object, member: &str) {
    match old.get(member) {
        Some(value) => object.insert(member.to_owned(), value.clone()),
        None => object.remove(member),
    };
}

/// Sets `status` to the given value.
pub(crate) fn set_status(object: &mut Object, status: Value) {
    object.insert("status".to_owned(), status);
}

/// The object member `name`, if there is one, to change.
pub(crate) fn member<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// `spec`, or an empty object.
pub(crate) fn spec(object: &Object) -> &Object {
    static EMPTY: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    object.map_at(&["spec"]).unwrap_or(&EMPTY)
}

/// The texts in the list under `member`.
pub(crate) fn texts<'a>(object: &'a Object, member: &str) -> Vec<&'a str> {
    object.list_at(&[member]).iter().filter_map(Value::as_str).collect()
}

/// Whether the object is being made: only stored objects have a version.
pub(crate) fn is_new(object: &Object) -> bool {
    object.str_at(&["metadata", "resourceVersion"]).is_none_or(str::is_empty)
}

/// Whether the write went to `status`: other writes leave it as it was, or change it with the specification.
pub(crate) fn is_status_write(object: &Object, old: Option<&Object>) -> bool {
    old.is_some_and(|old| {
        old.get("status") != object.get("status") && old.get("spec") == object.get("spec")
    })
}
