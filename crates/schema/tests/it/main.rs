//! Decoding by the table of spec/dependencies.md R13: what is refused, dropped and filled in.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails panics"
)]

mod decoding;
mod defaults;
mod protobuf;
mod random;
mod table;

use serde_json::Value;
use tenure_machinery::Object;
use tenure_schema::{TypeId, facts};

/// The type of that name.
fn id(name: &str) -> TypeId {
    facts().type_id(name).unwrap_or_else(|| panic!("no type {name}"))
}

/// The members of a JSON object.
fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}
