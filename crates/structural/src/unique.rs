//! Lists of type set and map: no value twice, no keys twice.
//!
//! Every value that repeats is named once, where it stands for the second time.

use std::collections::HashMap;

use serde_json::Value;
use tenure_machinery::{Errors, Object, Path};

use crate::schema::{Additional, ListType, Schema};

/// What repeats in an object.
pub fn validate_unique(object: &Object, schema: &Schema, errors: &mut Errors) {
    in_object(object, schema, &Path::Root, errors);
}

/// Whether anything repeats in an object.
#[must_use]
pub fn is_unique(object: &Object, schema: &Schema) -> bool {
    let mut errors = Errors::new();
    validate_unique(object, schema, &mut errors);
    errors.is_empty()
}

fn in_object(object: &Object, schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
    for (name, value) in object {
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => in_value(value, property, &path.field(name), errors),
            (None, Additional::Schema(schema)) => in_value(value, schema, &path.key(name), errors),
            (None, _) => {}
        }
    }
}

fn in_value(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Object(map) => in_object(map, schema, path, errors),
        Value::Array(items) => {
            match schema.list_type {
                ListType::Atomic => {}
                ListType::Set => repeated(items.iter(), path, errors),
                ListType::Map => in_map_list(items, &schema.list_map_keys, path, errors),
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    in_value(item, schema, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn in_map_list(items: &[Value], keys: &[String], path: &Path<'_>, errors: &mut Errors) {
    let wrong = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(index) = wrong {
        let item = items.get(index).unwrap_or(&Value::Null);
        errors.invalid(&path.index(index), item, "items of a list of type map must be objects");
        return;
    }
    let keys_of = |item: &Value| -> Value {
        let pick = |key: &String| Some((key.clone(), item.get(key)?.clone()));
        Value::Object(keys.iter().filter_map(pick).collect())
    };
    let found: Vec<Value> = items.iter().map(keys_of).collect();
    repeated(found.iter(), path, errors);
}

fn repeated<'a>(items: impl Iterator<Item = &'a Value>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, item) in items.enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.duplicate(&path.index(index), item);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use serde_json::json;

    use super::*;

    #[test]
    fn r120_sets_and_keys_are_unique() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "m": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"]},
            "n": {"type": "object", "additionalProperties": {"type": "array",
                "items": {"type": "integer"}, "x-kubernetes-list-type": "set"}}}}))
        .expect("a schema");
        let table = [
            (json!({"s": ["a", "b"], "m": [{"k": "x"}, {"k": "y"}]}), vec![]),
            (json!({"s": ["a", "a", "a"]}), vec!["s[1]"]),
            (json!({"m": [{"k": "x", "v": 1}, {"k": "x", "v": 2}]}), vec!["m[1]"]),
            (json!({"m": [{}, {}]}), vec!["m[1]"]),
            (json!({"n": {"q": [1, 2, 1]}}), vec!["n[q][2]"]),
        ];
        for (object, want) in table {
            let mut errors = Errors::new();
            validate_unique(object.as_object().expect("an object"), &schema, &mut errors);
            let fields: Vec<_> = errors.causes().iter().map(|c| c.field.as_str()).collect();
            assert_eq!(fields, want, "{object}");
            assert!(errors.causes().iter().all(|c| c.reason.as_str() == "FieldValueDuplicate"));
        }
    }
}
