//! Strategic merge patch: a merge patch whose lists merge where the schema says so.
//!
//! ```text
//!   patch ── $patch, $retainKeys ──► the map itself
//!         ── $setElementOrder/f ───► order of list f      (list.rs)
//!         ── $deleteFromPrimitiveList/f ─► values leave list f
//!         ── everything else ──────► member by member
//! ```
//!
//! Directives never reach the result: where there is nothing to direct, they are dropped.

mod list;

use serde_json::Value;
use tenure_machinery::Object;

use crate::PatchError;
use crate::schema::MergeSchema;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// Merges the patch over the object by the rules of its schema and returns the result.
pub fn apply<S: MergeSchema>(
    schema: &S,
    object: Object,
    patch: &Value,
) -> Result<Object, PatchError> {
    let patch = patch
        .as_object()
        .ok_or_else(|| PatchError::bad("a strategic merge patch must be an object"))?;
    merge_map(schema, object, patch, schema.root())
}

/// What `$patch` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Object) -> Result<Directive, PatchError> {
    match patch.get(PATCH) {
        None => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "merge" => Ok(Directive::Merge),
        Some(Value::String(text)) if text == "replace" => Ok(Directive::Replace),
        Some(Value::String(text)) if text == "delete" => Ok(Directive::Delete),
        Some(other) => Err(PatchError::bad(format!("unknown patch directive `{other}`"))),
    }
}

fn merge_map<S: MergeSchema>(
    schema: &S,
    mut original: Object,
    patch: &Object,
    node: S::Node,
) -> Result<Object, PatchError> {
    match directive(patch)? {
        Directive::Replace => return Ok(fresh_map(patch)),
        Directive::Delete => return Ok(Object::new()),
        Directive::Merge => {}
    }
    retain_keys(&mut original, patch)?;
    let mut ordered = Vec::new();
    for (name, order) in patch {
        if let Some(list) = directed(name, SET_ELEMENT_ORDER)?
            && list::set_order(schema, &mut original, patch, list, order, node)?
        {
            ordered.push(list);
        }
    }
    for (name, value) in patch {
        if let Some(list) = directed(name, DELETE_FROM_PRIMITIVE_LIST)? {
            list::delete_values(&mut original, list, value)?;
        } else if !is_directive(name) && !ordered.contains(&name.as_str()) {
            merge_member(schema, &mut original, name, value, node)?;
        }
    }
    Ok(original)
}

fn merge_member<S: MergeSchema>(
    schema: &S,
    original: &mut Object,
    name: &str,
    patch: &Value,
    node: S::Node,
) -> Result<(), PatchError> {
    let merged = match (original.get_mut(name).map(Value::take), patch) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let node = schema.member(node, name).node;
            Some(Value::Object(if schema.replaced_whole(node) {
                fresh_map(patch)
            } else {
                merge_map(schema, old, patch, node)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let node = schema.member(node, name).node;
            Some(Value::Array(list::merge(schema, old, patch, node)?))
        }
        _ => fresh(patch),
    };
    match merged {
        Some(value) => original.insert(name.to_owned(), value),
        None => original.remove(name),
    };
    Ok(())
}

/// Drops every member that `$retainKeys` does not list.
fn retain_keys(original: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || {
        PatchError::bad(format!("`{RETAIN_KEYS}` must be a list of all keys present in the patch"))
    };
    let keys = keys.as_array().ok_or_else(malformed)?;
    let listed = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let unlisted =
        |(name, value): (&String, &Value)| !value.is_null() && !is_directive(name) && !listed(name);
    if patch.iter().any(unlisted) {
        return Err(malformed());
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// The list that a directive such as `$setElementOrder/containers` is about.
fn directed<'n>(name: &'n str, prefix: &str) -> Result<Option<&'n str>, PatchError> {
    let Some(rest) = name.strip_prefix(prefix) else { return Ok(None) };
    let list = rest.strip_prefix('/').ok_or_else(|| {
        PatchError::bad(format!("`{name}` must name a list, as in `{prefix}/finalizers`"))
    })?;
    Ok(Some(list))
}

fn is_directive(name: &str) -> bool {
    name == PATCH
        || name == RETAIN_KEYS
        || name.starts_with(SET_ELEMENT_ORDER)
        || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
}

/// What a part of the patch leaves where there was nothing: no nulls and no directives.
fn fresh(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => Some(Value::Object(fresh_map(map))),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(fresh).collect())),
        scalar => Some(scalar.clone()),
    }
}

fn fresh_map(patch: &Object) -> Object {
    let mut result = Object::new();
    for (name, value) in patch {
        if !is_directive(name)
            && !value.is_null()
            && let Some(value) = fresh(value)
        {
            result.insert(name.clone(), value);
        }
    }
    result
}

#[cfg(test)]
mod tests;
