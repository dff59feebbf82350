//! The rules of `spec/api-server.md`, section 6, and R21 of `spec/dependencies.md`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may end loudly"
)]

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

/// Causes as tables write them: field, and reason without its prefix.
type Causes<'a> = &'a [(&'a str, &'a str)];

fn wanted(list: Causes<'_>) -> Vec<(String, String)> {
    list.iter()
        .map(|(field, reason)| ((*field).to_owned(), format!("FieldValue{reason}")))
        .collect()
}

fn assert_causes(errors: &Errors, list: Causes<'_>, about: &Value) {
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
