//! Query and path parameters of operations.

use serde_json::{Value, json};

/// Where a list may be narrowed or continued.
pub(super) const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// How an object is deleted.
pub(super) const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

/// How many objects are deleted.
pub(super) const DELETE_COLLECTION: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// How an object is created or replaced.
pub(super) const WRITE: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];

/// How an object is patched.
pub(super) const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];

/// Which part of a container's output is wanted.
pub(super) const LOG: &[(&str, &str)] = &[
    ("container", "string"),
    ("follow", "boolean"),
    ("limitBytes", "integer"),
    ("previous", "boolean"),
    ("sinceSeconds", "integer"),
    ("stream", "string"),
    ("tailLines", "integer"),
    ("timestamps", "boolean"),
];

/// Query parameters.
pub(super) fn query(parameters: &[(&str, &str)]) -> Vec<Value> {
    parameters
        .iter()
        .map(|(name, kind)| {
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        })
        .collect()
}

/// What all operations of a path have in common.
pub(super) fn shared(name: bool, namespace: bool) -> Vec<Value> {
    let in_path = |name: &str| {
        json!({"name": name, "in": "path", "required": true,
            "schema": {"type": "string", "uniqueItems": true}})
    };
    let mut parameters = Vec::new();
    if name {
        parameters.push(in_path("name"));
    }
    if namespace {
        parameters.push(in_path("namespace"));
    }
    parameters.extend(query(&[("pretty", "string")]));
    parameters
}
