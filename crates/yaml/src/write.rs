//! JSON values to YAML text.
//!
//! What is written here reads back as the same value, by this crate and by Kubernetes clients.

use serde_json::Value;

/// Writes a value as one YAML document that ends with a line break.
#[must_use]
pub fn from_json(value: &Value) -> String {
    let options = serde_saphyr::ser_options! {
        yaml_12: false,
        prefer_block_scalars: false,
    };
    serde_saphyr::to_string_with_options(value, options)
        // JSON is YAML: should the writer ever refuse a value, its JSON form still reads back.
        .unwrap_or_else(|_| format!("{value}\n"))
}
