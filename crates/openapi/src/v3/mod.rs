//! OpenAPI v3: an index, and one document per group and version.
//!
//! ```text
//!   kinds of one version ──► paths ──► names of body types ──► schemas, and whatever they refer to
//! ```
//!
//! Documents say names, types, keys and verbs; they carry no prose. They are built when first asked
//! for, so the index tells versions of a document apart by a hash of what it would be built from.

mod descriptions;
mod name;
mod parameter;
mod path;
mod schema;

use std::collections::BTreeMap;

use ring::digest;
use serde_json::{Map, Value, json};
use tenure_machinery::kind::Kind;
use tenure_schema::facts;

use crate::order::{self, VersionKinds};
use schema::Schemas;

/// Raised whenever documents change although the tables do not, since clients keep what they read.
const FORM: u32 = 1;

/// Gives the `openAPIV3Schema` of a custom kind.
pub type CustomSchema<'a> = &'a dyn Fn(&Kind) -> Option<Value>;

/// `/openapi/v3`: where the document of each group and version is.
#[must_use]
pub fn index(kinds: &[&Kind], custom: CustomSchema<'_>) -> Value {
    let mut paths = Map::new();
    for group in order::groups(kinds) {
        for version in &group.versions {
            let path = root(group.name, version.version);
            let hash = hash_of(&version.kinds, custom);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// The hash that the index gives a document; `None` when nothing is served there.
#[must_use]
pub fn hash(
    kinds: &[&Kind],
    group: &str,
    version: &str,
    custom: CustomSchema<'_>,
) -> Option<String> {
    let group = order::group(kinds, group)?;
    let version = group.versions.iter().find(|found| found.version == version)?;
    Some(hash_of(&version.kinds, custom))
}

/// The document of one group and version; `None` when nothing is served there.
#[must_use]
pub fn document(
    kinds: &[&Kind],
    group: &str,
    version: &str,
    custom: CustomSchema<'_>,
) -> Option<Value> {
    let found = order::group(kinds, group)?;
    let version = found.versions.iter().find(|found| found.version == version)?;
    let (paths, schemas) = parts(&[(group, version)], custom);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
            },
        },
    }))
}

/// The paths of some versions, each with its group, and all schemas that those paths need.
pub(crate) fn parts<'a>(
    versions: &[(&str, &VersionKinds<'a>)],
    custom: CustomSchema<'a>,
) -> (Map<String, Value>, BTreeMap<String, Value>) {
    let kinds: Vec<_> = versions.iter().flat_map(|(_, version)| version.kinds.clone()).collect();
    let mut schemas = Schemas::new(facts(), &kinds, custom);
    let mut paths = Map::new();
    for (group, version) in versions {
        path::root_path(group, version.version, &mut schemas, &mut paths);
        for kind in &version.kinds {
            path::kind_paths(kind, &mut schemas, &mut paths);
        }
    }
    (paths, schemas.finish())
}

/// `api/v1` or `apis/apps/v1`.
fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Hashes what documents are built from: the rows, the release for the facts table, custom schemas.
fn hash_of(kinds: &[&Kind], custom: CustomSchema<'_>) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut add = |text: &str| {
        context.update(text.as_bytes());
        context.update(&[0]);
    };
    add(env!("CARGO_PKG_VERSION"));
    add(&FORM.to_string());
    for kind in kinds {
        for text in [&kind.group, &kind.version, &kind.kind, &kind.plural, &kind.type_name] {
            add(text);
        }
        add(&format!("{} {:?} {:?}", kind.namespaced, kind.verbs, kind.subresources));
        if kind.type_name.is_empty()
            && let Some(schema) = custom(kind)
        {
            add(&schema.to_string());
        }
    }
    crate::hex(context.finish().as_ref())
}

#[cfg(test)]
mod tests;
