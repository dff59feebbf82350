//! Fills missing members from the defaults of a schema.
//!
//! A value that is there is never replaced, except a null where null is no value. Whether defaults
//! are legal was decided when the definition was written.

use serde_json::Value;
use tenure_machinery::Object;

use crate::schema::{Additional, Schema};

/// Fills a whole object: nulls that are no values and have no default go first.
pub fn default(object: &mut Object, schema: &Schema) {
    drop_nulls(object, schema);
    fill(object, schema);
}

fn is_stray(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

fn drop_nulls(object: &mut Object, schema: &Schema) {
    object.retain(|name, value| match schema.member(name) {
        Some(member) if is_stray(value, member) && member.default.is_none() => false,
        Some(member) => {
            drop_nulls_below(value, member);
            true
        }
        None => true,
    });
}

fn drop_nulls_below(value: &mut Value, schema: &Schema) {
    match (value, &schema.items) {
        (Value::Object(map), _) => drop_nulls(map, schema),
        (Value::Array(list), Some(items)) => {
            list.iter_mut().for_each(|item| drop_nulls_below(item, items));
        }
        _ => {}
    }
}

fn fill(object: &mut Object, schema: &Schema) {
    for (name, property) in &schema.properties {
        let Some(default) = &property.default else { continue };
        if object.get(name).is_none_or(|value| is_stray(value, property)) {
            object.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in object.iter_mut() {
        match (schema.properties.get(name), &schema.additional) {
            (Some(property), _) => fill_below(value, property),
            (None, Additional::Schema(schema)) => {
                replace_stray(value, schema);
                fill_below(value, schema);
            }
            (None, _) => {}
        }
    }
}

fn fill_below(value: &mut Value, schema: &Schema) {
    match (value, &schema.items) {
        (Value::Object(map), _) => fill(map, schema),
        (Value::Array(list), Some(items)) => {
            for item in list {
                replace_stray(item, items);
                fill_below(item, items);
            }
        }
        _ => {}
    }
}

fn replace_stray(value: &mut Value, schema: &Schema) {
    if is_stray(value, schema)
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use serde_json::json;

    use super::*;

    fn run(properties: Value, spec: Value) -> Value {
        let schema = json!({"type": "object", "properties":
            {"spec": {"type": "object", "properties": properties}}});
        let schema = Schema::parse(&schema).expect("a schema");
        let mut object = json!({"spec": spec});
        default(object.as_object_mut().expect("an object"), &schema);
        object["spec"].take()
    }

    #[test]
    fn r122_nested_defaults_need_an_existing_parent() {
        let properties = json!({
            "a": {"type": "string", "default": "x"},
            "o": {"type": "object", "properties": {"b": {"type": "integer", "default": 3}}},
            "od": {"type": "object", "properties": {"c": {"type": "integer", "default": 4}}, "default": {}},
            "l": {"type": "array", "items": {"type": "object", "properties":
                {"e": {"type": "boolean", "default": true}}}}});
        let table = [
            (
                json!({"l": [{}, {"e": false}]}),
                json!({"a": "x", "l": [{"e": true}, {"e": false}], "od": {"c": 4}}),
            ),
            (json!({"a": "", "o": {}}), json!({"a": "", "o": {"b": 3}, "od": {"c": 4}})),
        ];
        for (spec, want) in table {
            assert_eq!(run(properties.clone(), spec), want);
        }
    }

    #[test]
    fn r122_null_is_kept_replaced_or_dropped() {
        let properties = json!({
            "n": {"type": "string", "nullable": true},
            "d": {"type": "string", "default": "dd"},
            "nd": {"type": "string", "nullable": true, "default": "x"},
            "s": {"type": "string"}});
        let spec = run(properties.clone(), json!({"n": null, "d": null, "nd": null}));
        assert_eq!(spec, json!({"d": "dd", "n": null, "nd": null}));
        assert_eq!(run(properties, json!({"s": null})), json!({"d": "dd", "nd": "x"}));
    }

    #[test]
    fn r122_entries_of_maps_are_filled_too() {
        let properties = json!({"m": {"type": "object", "additionalProperties": {"type": "object",
            "properties": {"x": {"type": "integer", "default": 1}}}}});
        assert_eq!(
            run(properties, json!({"m": {"k": {}, "z": null}})),
            json!({"m": {"k": {"x": 1}}})
        );
    }
}
