//! Objects as JSON: a view, never typed structs that are written back.

use serde_json::{Map, Value};

/// One Kubernetes object, or any JSON object inside one.
pub type Object = Map<String, Value>;

/// Reads of nested members by name; anything missing or of another type reads as `None`.
pub trait ObjectExt {
    /// The member at a path of names.
    fn at(&self, path: &[&str]) -> Option<&Value>;
    /// The string at a path.
    fn str_at(&self, path: &[&str]) -> Option<&str>;
    /// The integer at a path.
    fn int_at(&self, path: &[&str]) -> Option<i64>;
    /// The truth at a path.
    fn bool_at(&self, path: &[&str]) -> Option<bool>;
    /// The object at a path.
    fn map_at(&self, path: &[&str]) -> Option<&Object>;
    /// The items of the list at a path; empty when there is none.
    fn list_at(&self, path: &[&str]) -> &[Value];
    /// The object member `name`, made empty first if it is missing or not an object.
    fn map_mut(&mut self, name: &str) -> &mut Object;
    /// Sets `name` unless it is present with a value other than null.
    fn set_default(&mut self, name: &str, value: impl Into<Value>);
    /// `metadata.name`, or empty.
    fn name(&self) -> &str {
        self.str_at(&["metadata", "name"]).unwrap_or_default()
    }
    /// `metadata.namespace`, or empty.
    fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"]).unwrap_or_default()
    }
}

impl ObjectExt for Object {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let mut value = self.get(*first)?;
        for segment in rest {
            value = value.as_object()?.get(*segment)?;
        }
        Some(value)
    }

    fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }

    fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path)?.as_i64()
    }

    fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.at(path)?.as_bool()
    }

    fn map_at(&self, path: &[&str]) -> Option<&Object> {
        self.at(path)?.as_object()
    }

    fn list_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn map_mut(&mut self, name: &str) -> &mut Object {
        let slot = self.entry(name).or_insert_with(|| Value::Object(Object::new()));
        if !slot.is_object() {
            *slot = Value::Object(Object::new());
        }
        match slot {
            Value::Object(map) => map,
            _ => unreachable!("the slot was made an object above"),
        }
    }

    fn set_default(&mut self, name: &str, value: impl Into<Value>) {
        match self.get(name) {
            None | Some(Value::Null) => {
                self.insert(name.to_owned(), value.into());
            }
            Some(_) => {}
        }
    }
}
