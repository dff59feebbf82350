//! Schemas of v3, said in the words of v2.
//!
//! The older form has no alternatives, no null and, by custom, no defaults. Where dropping them would
//! make a client refuse what the server takes, the schema says less instead.

use serde_json::{Map, Value, json};

const POINTER: &str = "#/components/schemas/";
/// Words that v2 does not know, or that clients of v2 do not expect.
const UNKNOWN: &[&str] = &["default", "nullable", "oneOf", "anyOf", "allOf", "not"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const KIND: &str = "x-kubernetes-group-version-kind";

/// A schema, and all schemas inside it.
pub(super) fn definition(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    if is_true(schema.get(PRESERVE))
        && let Some(kind) = schema.remove(KIND)
    {
        // Clients would take any member that is named for all there are.
        return json!({"type": "object", KIND: kind});
    }
    lift_reference(&mut schema);
    if takes_string(&schema) {
        // A number is read as a string where either may stand.
        schema.insert("type".to_owned(), json!("string"));
    }
    loosen(&mut schema);
    for word in UNKNOWN {
        schema.remove(*word);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = definition(property.take());
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(word) {
            *inner = definition(inner.take());
        }
    }
    Value::Object(schema)
}

/// References may have neighbours here, so one that v3 had to wrap is unwrapped.
fn lift_reference(schema: &mut Map<String, Value>) {
    let wrapped = schema.get("allOf").and_then(|all| all.get(0)).and_then(|one| one.get("$ref"));
    let Some(Value::String(target)) = wrapped.or_else(|| schema.get("$ref")) else { return };
    let name = target.strip_prefix(POINTER).unwrap_or(target);
    let reference = format!("#/definitions/{name}");
    schema.insert("$ref".to_owned(), Value::String(reference));
}

fn takes_string(schema: &Map<String, Value>) -> bool {
    let alternatives = schema.get("oneOf").and_then(Value::as_array);
    alternatives.is_some_and(|all| all.iter().any(|one| one.get("type") == Some(&json!("string"))))
}

/// Clients take a type, its items and its properties as the whole truth; where null or unknown members
/// may stand as well, none of these is said.
fn loosen(schema: &mut Map<String, Value>) {
    let null = is_true(schema.get("nullable"));
    let open = is_true(schema.get(PRESERVE));
    if null || open {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let untold = kind == Some("array") && !schema.contains_key("items");
    if null || untold || (open && kind == Some("object")) {
        schema.remove("type");
    }
    let nullable: Vec<String> = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties
            .iter()
            .filter(|(_, property)| is_true(property.get("nullable")))
            .map(|(name, _)| name.clone())
            .collect(),
        None => return,
    };
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !nullable.iter().any(|other| name == other));
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

fn is_true(value: Option<&Value>) -> bool {
    value == Some(&Value::Bool(true))
}
