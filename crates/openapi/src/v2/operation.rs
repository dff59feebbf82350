//! Paths of v3, said in the words of v2: bodies are parameters, media types belong to operations.

use serde_json::{Value, json};

use super::definition::definition;
use crate::put;

/// The operations on one path.
pub(super) fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let converted = item.into_iter().map(|(word, member)| {
        let member = if word == "parameters" { parameters(member) } else { operation(member) };
        (word, member)
    });
    Value::Object(converted.collect())
}

fn operation(mut operation: Value) -> Value {
    let Some(members) = operation.as_object_mut() else { return operation };
    let mut given = Vec::new();
    let mut consumes = json!(["*/*"]);
    if let Some(mut body) = members.remove("requestBody") {
        let (types, schema) = content(&mut body);
        consumes = types;
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if let Some(required) = body.get("required") {
            put(&mut parameter, "required", required.clone());
        }
        given.push(parameter);
    }
    if let Some(Value::Array(others)) = members.remove("parameters").map(parameters) {
        given.extend(others);
    }
    let mut produces = json!(["*/*"]);
    if let Some(Value::Object(responses)) = members.get_mut("responses") {
        for response in responses.values_mut() {
            let (types, schema) = content(response);
            if !schema.is_null() {
                produces = types;
                put(response, "schema", schema);
            }
        }
    }
    if !given.is_empty() {
        members.insert("parameters".to_owned(), Value::Array(given));
    }
    members.insert("consumes".to_owned(), consumes);
    members.insert("produces".to_owned(), produces);
    members.insert("schemes".to_owned(), json!(["https"]));
    operation
}

/// Takes media types and the schema they share out of a body; no schema where there is no content.
fn content(body: &mut Value) -> (Value, Value) {
    let taken = body.as_object_mut().and_then(|body| body.remove("content"));
    let Some(Value::Object(content)) = taken else { return (json!([]), Value::Null) };
    let types: Vec<_> = content.keys().cloned().collect();
    let first = content.into_iter().next().map(|(_, media)| media);
    let schema = first.and_then(|media| media.get("schema").cloned()).unwrap_or_default();
    (json!(types), definition(schema))
}

/// What v3 says in a parameter's schema stands in the parameter itself.
fn parameters(parameters: Value) -> Value {
    let Value::Array(parameters) = parameters else { return parameters };
    let flat = parameters.into_iter().map(|parameter| {
        let Value::Object(mut parameter) = parameter else { return parameter };
        if let Some(Value::Object(schema)) = parameter.remove("schema") {
            parameter.extend(schema);
        }
        Value::Object(parameter)
    });
    flat.collect()
}
