//! The rules of `spec/api-server.md`, section 6, and R21 of `spec/dependencies.md`.

mod definition;
mod instance;
mod oracle;
mod random;
mod schema;

use serde_json::Value;
use tenure_machinery::{Errors, Object};

/// Field and reason of every cause.
fn causes(errors: &Errors) -> Vec<(String, &'static str)> {
    errors.causes().iter().map(|cause| (cause.field.clone(), cause.reason.as_str())).collect()
}

/// Causes as tables write them, with the prefix of reasons left out.
fn wanted(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(field, reason)| ((*field).to_owned(), format!("FieldValue{reason}")))
        .collect()
}

fn assert_causes(errors: &Errors, list: &[(&str, &str)], about: &Value) {
    let found: Vec<(String, String)> =
        causes(errors).into_iter().map(|(field, reason)| (field, reason.to_owned())).collect();
    assert_eq!(found, wanted(list), "{about} {errors:#?}");
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}
