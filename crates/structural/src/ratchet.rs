//! Finds the old value that corresponds to a new one, so that an update is not blamed for the past.
//!
//! Members correspond by name and items of keyed lists by their keys; items of other lists do not
//! correspond at all.

use std::collections::HashMap;

use serde_json::Value;
use tenure_machinery::Object;

use crate::schema::{ListType, Schema};

/// An old value, with the schema that says how its parts correspond.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    node: BorrowedValue<'a>,
    schema: &'a Schema,
}

/// Whole objects are not wrapped in values, so that none has to be copied.
#[derive(Clone, Copy, Debug)]
enum BorrowedValue<'a> {
    Value(&'a Value),
    Object(&'a Object),
}

/// The items of an old keyed list, found by their keys.
#[derive(Debug)]
pub struct OldItems<'a> {
    by_key: HashMap<String, &'a Value>,
    list: &'a Schema,
    item: &'a Schema,
}

impl<'a> Old<'a> {
    /// The old value of what is validated against `schema`.
    #[must_use]
    pub fn new(value: &'a Value, schema: &'a Schema) -> Old<'a> {
        Old { node: BorrowedValue::Value(value), schema }
    }

    /// The old form of a whole object.
    #[must_use]
    pub fn of(object: &'a Object, schema: &'a Schema) -> Old<'a> {
        Old { node: BorrowedValue::Object(object), schema }
    }

    /// The members, if it is an object.
    #[must_use]
    pub fn object(self) -> Option<&'a Object> {
        match self.node {
            BorrowedValue::Value(value) => value.as_object(),
            BorrowedValue::Object(object) => Some(object),
        }
    }

    /// The value, unless this is a whole object.
    #[must_use]
    pub fn value(self) -> Option<&'a Value> {
        match self.node {
            BorrowedValue::Value(value) => Some(value),
            BorrowedValue::Object(_) => None,
        }
    }

    fn list(self) -> Option<&'a Vec<Value>> {
        self.value()?.as_array()
    }

    /// The old value of a member.
    #[must_use]
    pub fn member(self, name: &str) -> Option<Old<'a>> {
        let value = self.object()?.get(name)?;
        Some(Old::new(value, self.schema.member(name)?))
    }

    /// The old items, if this is a keyed list.
    #[must_use]
    pub fn items(self) -> Option<OldItems<'a>> {
        let item = self.schema.items.as_deref()?;
        let list = self.schema;
        if list.list_type != ListType::Map {
            return None;
        }
        let old = self.list()?;
        let by_key = old.iter().map(|value| (key_of(value, &list.list_map_keys), value)).collect();
        Some(OldItems { by_key, list, item })
    }

    /// Whether nothing changed; the order of keyed lists does not count.
    #[must_use]
    pub fn unchanged(self, new: &Value) -> bool {
        if let Value::Object(new) = new {
            return self.members_unchanged(new);
        }
        if let (Value::Array(new), Some(old), Some(items)) = (new, self.list(), self.items()) {
            return new.len() == old.len()
                && new.iter().all(|v| items.find(v).is_some_and(|old| old.unchanged(v)));
        }
        self.value() == Some(new)
    }

    /// As [`Old::unchanged`], for the members of an object.
    #[must_use]
    pub fn members_unchanged(self, new: &Object) -> bool {
        self.object().is_some_and(|old| {
            new.len() == old.len()
                && new.iter().all(|(name, value)| match self.member(name) {
                    Some(old) => old.unchanged(value),
                    None => old.get(name) == Some(value),
                })
        })
    }
}

impl<'a> OldItems<'a> {
    /// The old item with the keys of a new one.
    #[must_use]
    pub fn find(&self, new: &Value) -> Option<Old<'a>> {
        let value = self.by_key.get(&key_of(new, &self.list.list_map_keys))?;
        Some(Old::new(value, self.item))
    }
}

fn key_of(item: &Value, keys: &[String]) -> String {
    let parts: Vec<&Value> = keys.iter().map(|key| item.get(key).unwrap_or(&Value::Null)).collect();
    serde_json::to_string(&parts).unwrap_or_default()
}
