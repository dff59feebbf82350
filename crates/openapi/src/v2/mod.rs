//! OpenAPI v2: one document for everything served, as JSON or as protobuf.
//!
//! ```text
//!   v3 paths and schemas ──► operation, definition ──► JSON ──► protobuf
//! ```
//!
//! Nothing is read from the tables here: v3 reads them, and this room says the same in the older
//! form. Clients that ask for protobuf check objects and find merge keys by it (R50), and refuse
//! JSON. Choosing between the two is the caller's.

mod definition;
pub mod merge;
mod message;
mod operation;
mod wire;

use serde_json::{Map, Value, json};
use tenure_machinery::kind::Kind;

use crate::{order, v3};

pub use message::protobuf;
pub use v3::CustomSchema;

/// `/openapi/v2`: all paths, and the definitions they refer to.
#[must_use]
pub fn document(kinds: &[&Kind], custom: CustomSchema<'_>) -> Value {
    let groups = order::groups(kinds);
    let versions: Vec<_> = groups
        .iter()
        .flat_map(|group| group.versions.iter().map(|version| (group.name, version)))
        .collect();
    let (paths, schemas) = v3::parts(&versions, custom);
    let paths: Map<_, _> =
        paths.into_iter().map(|(path, item)| (path, operation::path_item(item))).collect();
    let definitions: Map<_, _> =
        schemas.into_iter().map(|(name, schema)| (name, definition::definition(schema))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "definitions": definitions,
        "security": [{"BearerToken": []}],
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
        },
    })
}

#[cfg(test)]
mod tests;
