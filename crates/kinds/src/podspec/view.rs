//! Short reads of JSON objects: a missing member reads as the zero of its type.

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt, Path};

/// The text under `name`, or empty.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The integer under `name`, if set.
pub(crate) fn int(object: &Object, name: &str) -> Option<i64> {
    object.get(name).and_then(Value::as_i64)
}

/// The truth under `name`; unset is false.
pub(crate) fn flag(object: &Object, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// The object under `name`, if set.
pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Option<&'a Object> {
    object.get(name).and_then(Value::as_object)
}

/// The objects in the list under `name`.
pub(crate) fn items<'a>(object: &'a Object, name: &str) -> impl Iterator<Item = &'a Object> {
    object.list_at(&[name]).iter().filter_map(Value::as_object)
}

/// The objects in the list under `name`, to be changed.
pub(crate) fn items_mut<'a>(
    object: &'a mut Object,
    name: &str,
) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The texts in the list under `name`.
pub(crate) fn texts<'a>(object: &'a Object, name: &str) -> impl Iterator<Item = &'a str> {
    object.list_at(&[name]).iter().filter_map(Value::as_str)
}

/// Whether the member is there and not null.
pub(crate) fn has(object: &Object, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}

/// Whether the list under `name` has items.
pub(crate) fn any(object: &Object, name: &str) -> bool {
    !object.list_at(&[name]).is_empty()
}

/// The lists of containers, in the order in which they are looked at.
pub(crate) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Every container of a specification at `path`, and where it stands.
pub(crate) fn each_container<'a>(
    spec: &'a Object,
    path: &Path<'_>,
    each: &mut dyn FnMut(&'a Object, &Path<'_>),
) {
    for list in CONTAINERS {
        let list_path = path.field(list);
        for (index, container) in items(spec, list).enumerate() {
            each(container, &list_path.index(index));
        }
    }
}
