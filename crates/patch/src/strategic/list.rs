//! How the lists of a strategic merge patch merge, shrink and are put in order.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tenure_machinery::Object;

use super::{Directive, PATCH, directive, fresh, fresh_map, merge_map};
use crate::PatchError;
use crate::schema::MergeSchema;

/// Merges two lists where the schema names a merge key, else takes the list of the patch.
pub(super) fn merge<S: MergeSchema>(
    schema: &S,
    original: Vec<Value>,
    patch: &[Value],
    node: S::Node,
) -> Result<Vec<Value>, PatchError> {
    let Some(key) = schema.merge_key(node) else {
        return Ok(patch.iter().filter_map(fresh).collect());
    };
    if key.is_empty() {
        merge_values(original, patch)
    } else {
        merge_objects(schema, original, patch, key, node)
    }
}

/// Merges lists of plain values: a union without duplicates.
fn merge_values(original: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    if original.iter().chain(patch).any(|value| value.is_object() || value.is_array()) {
        return Err(PatchError::bad("a merged list of values may only hold plain values"));
    }
    let server_order = ElementOrder::of(&original, "");
    let mut seen = HashSet::new();
    let merged = original.into_iter().chain(patch.iter().cloned());
    let merged = merged.filter(|value| seen.insert(value.clone())).collect();
    Ok(arrange(merged, &ElementOrder::of(patch, ""), &server_order, ""))
}

fn merge_objects<S: MergeSchema>(
    schema: &S,
    mut original: Vec<Value>,
    patch: &[Value],
    key: &str,
    node: S::Node,
) -> Result<Vec<Value>, PatchError> {
    let patch = PatchListItems::read(patch, key)?;
    if original.iter().any(|item| !item.is_object()) {
        return Err(PatchError::bad("a list merged by key may only hold objects"));
    }
    if patch.replace {
        return Ok(patch.plain.iter().map(|(_, item)| Value::Object(fresh_map(item))).collect());
    }
    original.retain(|item| item.get(key).is_none_or(|id| !patch.deleted.contains(id)));
    let server_order = ElementOrder::of(&original, key);
    let mut places = server_order.clone();
    for (id, item) in &patch.plain {
        if let Some(slot) = places.of_id(id).and_then(|at| original.get_mut(at)) {
            if let Value::Object(old) = slot.take() {
                *slot = Value::Object(merge_map(schema, old, &unmarked(item), schema.item(node))?);
            }
        } else {
            places.0.insert((*id).clone(), original.len());
            original.push(Value::Object(fresh_map(item)));
        }
    }
    let patch_order = ElementOrder::from_ids(patch.plain.iter().map(|(id, _)| *id));
    Ok(arrange(original, &patch_order, &server_order, key))
}

/// The item without `$patch: merge`, which says what happens anyway.
fn unmarked(item: &Object) -> std::borrow::Cow<'_, Object> {
    if !item.contains_key(PATCH) {
        return std::borrow::Cow::Borrowed(item);
    }
    let mut item = item.clone();
    item.remove(PATCH);
    std::borrow::Cow::Owned(item)
}

/// The items of a patch list, sorted by what they ask for.
struct PatchListItems<'p> {
    plain: Vec<(&'p Value, &'p Object)>,
    deleted: HashSet<&'p Value>,
    replace: bool,
}

impl<'p> PatchListItems<'p> {
    fn read(patch: &'p [Value], key: &str) -> Result<Self, PatchError> {
        let mut sorted = Self { plain: Vec::new(), deleted: HashSet::new(), replace: false };
        for item in patch {
            let item = item
                .as_object()
                .ok_or_else(|| PatchError::bad("a list merged by key may only hold objects"))?;
            match directive(item)? {
                Directive::Merge => sorted.plain.push((id_of(item, key)?, item)),
                Directive::Delete => {
                    sorted.deleted.insert(id_of(item, key)?);
                }
                Directive::Replace => sorted.replace = true,
            }
        }
        Ok(sorted)
    }
}

fn id_of<'p>(item: &'p Object, key: &str) -> Result<&'p Value, PatchError> {
    item.get(key).ok_or_else(|| {
        PatchError::bad(format!(
            "an element of the patch does not contain declared merge key: {key}"
        ))
    })
}

/// Removes the values of a `$deleteFromPrimitiveList` directive from the list it names.
pub(super) fn delete_values(
    original: &mut Object,
    list: &str,
    values: &Value,
) -> Result<(), PatchError> {
    let values = values.as_array().ok_or_else(|| {
        PatchError::bad(format!("the values to delete from `{list}` must be a list"))
    })?;
    if let Some(Value::Array(items)) = original.get_mut(list) {
        let values: HashSet<&Value> = values.iter().collect();
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}

/// Merges the list that a `$setElementOrder` directive names and puts it in that order.
///
/// Answers whether the list is done; the directive means nothing for a list that does not merge.
pub(super) fn set_order<S: MergeSchema>(
    schema: &S,
    original: &mut Object,
    patch: &Object,
    list: &str,
    order: &Value,
    node: S::Node,
) -> Result<bool, PatchError> {
    let order = order
        .as_array()
        .ok_or_else(|| PatchError::bad(format!("the element order of `{list}` must be a list")))?;
    let node = schema.member(node, list).node;
    let Some(key) = schema.merge_key(node) else { return Ok(false) };
    let patched = match patch.get(list) {
        Some(Value::Array(items)) => Some(items),
        Some(_) => return Ok(false),
        None => None,
    };
    let old = match original.get_mut(list) {
        Some(Value::Array(items)) => Some(std::mem::take(items)),
        Some(_) => return Ok(false),
        None => None,
    };
    check_order(patched.map_or(&[], Vec::as_slice), order, key)?;
    let server_order = ElementOrder::of(old.as_deref().unwrap_or_default(), key);
    let merged = match (old, patched) {
        (Some(old), Some(patched)) => merge(schema, old, patched, node)?,
        (Some(old), None) => old,
        (None, Some(patched)) => patched.iter().filter_map(fresh).collect(),
        (None, None) => return Ok(true),
    };
    let merged = arrange(merged, &ElementOrder::of(order, key), &server_order, key);
    original.insert(list.to_owned(), Value::Array(merged));
    Ok(true)
}

/// Every patched element must be in the order list, and in that order.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let id = identity(item, key);
        if id.is_none() || !order.any(|listed| identity(listed, key) == id) {
            return Err(PatchError::bad(
                "the order in the patch list does not match its $setElementOrder list",
            ));
        }
    }
    Ok(())
}

fn identity<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    if key.is_empty() { Some(item) } else { item.get(key) }
}

/// Where each element first stands in a list.
#[derive(Clone, Default)]
struct ElementOrder(HashMap<Value, usize>);

impl ElementOrder {
    fn of(list: &[Value], key: &str) -> Self {
        let mut places = HashMap::with_capacity(list.len());
        for (at, item) in list.iter().enumerate() {
            if let Some(id) = identity(item, key) {
                places.entry(id.clone()).or_insert(at);
            }
        }
        Self(places)
    }

    fn from_ids<'v>(ids: impl Iterator<Item = &'v Value>) -> Self {
        let mut places = HashMap::new();
        for (at, id) in ids.enumerate() {
            places.entry(id.clone()).or_insert(at);
        }
        Self(places)
    }

    fn of_id(&self, id: &Value) -> Option<usize> {
        self.0.get(id).copied()
    }

    fn of_item(&self, item: &Value, key: &str) -> Option<usize> {
        self.of_id(identity(item, key)?)
    }
}

/// Puts the elements the patch knows in its order, between the others in the order of the server.
fn arrange(
    merged: Vec<Value>,
    patch: &ElementOrder,
    server: &ElementOrder,
    key: &str,
) -> Vec<Value> {
    let mut known = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let at = server.of_item(&item, key);
        match patch.of_item(&item, key) {
            Some(place) => known.push((place, at, item)),
            None => others.push((at, item)),
        }
    }
    known.sort_by_key(|(place, ..)| *place);
    let mut result = Vec::with_capacity(known.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, at, item) in known {
        // An element only the server has goes first when it stood before this one.
        while let (Some((Some(other), _)), Some(at)) = (others.peek(), at)
            && *other < at
        {
            result.extend(others.next().map(|(_, item)| item));
        }
        result.push(item);
    }
    result.extend(others.map(|(_, item)| item));
    result
}
