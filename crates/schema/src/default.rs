//! The scalar defaults that the table declares. Defaults that depend on anything else live with their kinds.

use serde_json::Value;
use tenure_machinery::Object;

use crate::facts::{ApiType, Field, TypeId, ValueType, facts};

/// Gives every unset member its declared default, wherever its parent is present. The object is one that
/// `decode` has brought into normal form.
pub fn apply_defaults(of: TypeId, object: &mut Object) {
    if let Some(of) = facts().get(of) {
        members(of, object);
    }
}

fn members(of: &ApiType, object: &mut Object) {
    for field in &of.fields {
        let unset = object.get(field.json).is_none_or(Value::is_null);
        if unset && let Some(value) = declared(field) {
            object.insert(field.json.to_owned(), value);
        }
    }
    for (name, value) in object.iter_mut() {
        if let Some(field) = of.field(name) {
            inside(&field.shape, value);
        }
    }
}

fn inside(shape: &ValueType, value: &mut Value) {
    match (shape, value) {
        (ValueType::Struct(id), Value::Object(object)) => apply_defaults(*id, object),
        (ValueType::List(item), Value::Array(items)) => {
            items.iter_mut().for_each(|value| inside(item, value));
        }
        (ValueType::Map(each), Value::Object(entries)) => {
            entries.values_mut().for_each(|value| inside(each, value));
        }
        _ => {}
    }
}

/// The default, unless it is a zero that would not be written anyway.
fn declared(field: &Field) -> Option<Value> {
    let value: Value = serde_json::from_str(field.default?).ok()?;
    let zero =
        matches!(&value, Value::String(text) if text.is_empty()) || value == 0 || value == false;
    (!(field.omit_zero && zero)).then_some(value)
}
