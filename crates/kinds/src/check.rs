//! How tests say what a kind does: an object in, the stored form or the causes out.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Kind, Object};

/// The row of a kind.
pub(crate) fn row(group: &str, kind: &str) -> Kind {
    crate::builtin()
        .into_iter()
        .find(|row| row.group == group && row.kind == kind)
        .unwrap_or_else(|| panic!("no row {group} {kind}"))
}

fn cx() -> Cx {
    Cx { now: "2024-01-02T03:04:05Z".into(), uid: "u".into(), subresource: None, unlabelled: false }
}

fn object(value: Value) -> Object {
    let mut object = value.as_object().cloned().expect("an object");
    object.entry("metadata").or_insert_with(|| json!({}));
    object["metadata"]["name"] = object["metadata"].get("name").cloned().unwrap_or(json!("a"));
    object
}

fn listed(kind: &Kind, mut errors: Errors) -> Vec<String> {
    if kind.tells_once() {
        errors.dedupe();
    }
    errors.causes().iter().map(|c| format!("{} {}", c.field, c.reason.as_str())).collect()
}

/// The object after defaults and preparation, without metadata.
pub(crate) fn created(kind: &Kind, body: Value) -> Value {
    let mut object = object(body);
    kind.rules.default(&mut object);
    kind.rules.prepare_create(&mut object, &cx());
    object.remove("metadata");
    Value::Object(object)
}

/// What a create finds wrong, as `field reason`.
pub(crate) fn faults(kind: &Kind, body: Value) -> Vec<String> {
    let mut object = object(body);
    if kind.namespaced {
        object["metadata"]["namespace"] = json!("n");
    }
    kind.rules.default(&mut object);
    kind.rules.prepare_create(&mut object, &cx());
    let mut errors = Errors::new();
    kind.rules.validate_alone(&object, None, &mut errors);
    if errors.is_empty() {
        kind.validate_new(&object, &mut errors);
    }
    listed(kind, errors)
}

/// What a change finds wrong; `old` is created first.
pub(crate) fn update_faults(kind: &Kind, old: Value, new: Value) -> Vec<String> {
    let mut old = object(old);
    kind.rules.default(&mut old);
    kind.rules.prepare_create(&mut old, &cx());
    let mut new = object(new);
    kind.rules.default(&mut new);
    kind.rules.prepare_update(&mut new, &old, &cx());
    let mut errors = Errors::new();
    kind.rules.validate_alone(&new, Some(&old), &mut errors);
    if errors.is_empty() {
        kind.validate_change(&new, &old, &mut errors);
    }
    listed(kind, errors)
}

/// The object after an update, without metadata.
pub(crate) fn updated(kind: &Kind, old: Value, new: Value) -> Value {
    let mut old = object(old);
    kind.rules.default(&mut old);
    kind.rules.prepare_create(&mut old, &cx());
    let mut new = object(new);
    kind.rules.default(&mut new);
    kind.rules.prepare_update(&mut new, &old, &cx());
    new.remove("metadata");
    Value::Object(new)
}

/// What a client is told on create.
pub(crate) fn warned(kind: &Kind, body: Value) -> Vec<String> {
    let mut object = object(body);
    kind.rules.default(&mut object);
    kind.rules.prepare_create(&mut object, &cx());
    kind.rules.warnings(&object, None)
}

/// What a client is told on update; `old` is created first.
pub(crate) fn warned_update(kind: &Kind, old: Value, new: Value) -> Vec<String> {
    let mut old = object(old);
    kind.rules.default(&mut old);
    kind.rules.prepare_create(&mut old, &cx());
    let mut new = object(new);
    kind.rules.default(&mut new);
    kind.rules.prepare_update(&mut new, &old, &cx());
    kind.rules.warnings(&new, Some(&old))
}

/// What a client is told when it writes `status` only; `old` is created first.
pub(crate) fn warned_status(kind: &Kind, old: Value, status: Value) -> Vec<String> {
    let mut old = object(old);
    kind.rules.default(&mut old);
    kind.rules.prepare_create(&mut old, &cx());
    let mut new = old.clone();
    new.insert("status".to_owned(), status);
    kind.rules.warnings(&new, Some(&old))
}
