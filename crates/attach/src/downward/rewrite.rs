//! What the policies of `downward` do to an object, for servers that have none (A57): the native path is rewritten
//! to the annotation's, and the annotation holds the references of the pod. As a JSON patch; nothing is read but
//! the request.

use serde_json::{Value, json};
use tenure_downward::{ValueDestination, owner_envelope};

use crate::api::text;

const NATIVE: &str = "metadata.ownerReferences";
const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";
const ANNOTATION: &str = "tenure.dev/owner-references";
/// The same in a pointer.
const ANNOTATION_POINTER: &str = "/metadata/annotations/tenure.dev~1owner-references";
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Where the specification of a pod is in objects of a kind.
fn specification(kind: &str) -> &'static str {
    match kind {
        "Pod" => "/spec",
        "PodTemplate" => "/template/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    }
}

/// What an admission request lacks.
pub(super) fn patch(request: &Value) -> Vec<Value> {
    let kind = text(request, "/kind/kind");
    let Some(object) = request.get("object").filter(|object| object.is_object()) else {
        return Vec::new();
    };
    let prefix = specification(kind);
    let places = object.pointer(prefix).map(|spec| places(spec, prefix)).unwrap_or_default();
    let mut operations = Vec::new();
    if kind == "Pod" {
        // Owner references in a status write are thrown away after admission: what is stored counts (A53).
        let stored = request.get("oldObject").unwrap_or(&Value::Null);
        let owned = if text(request, "/subResource") == "status" { stored } else { object };
        annotate(object, owned, !places.is_empty(), &mut operations);
    }
    let native = places.into_iter().filter(|(_, path)| path == NATIVE);
    operations.extend(native.map(|(pointer, _)| replace(&pointer)));
    operations
}

/// Keeps the annotation of a pod: what its references say where it reads them, nothing where it does not.
fn annotate(object: &Value, owned: &Value, reads: bool, operations: &mut Vec<Value>) {
    let annotations = object.pointer("/metadata/annotations").filter(|all| all.is_object());
    let held = annotations.and_then(|all| all.get(ANNOTATION)).and_then(Value::as_str);
    if !reads {
        if held.is_some() {
            operations.push(json!({ "op": "remove", "path": ANNOTATION_POINTER }));
        }
        return;
    }
    let references = owned.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let references = references.map(Vec::as_slice).unwrap_or_default();
    let wanted = owner_envelope(references, ValueDestination::Env);
    if held == Some(wanted.as_str()) {
        return;
    }
    if annotations.is_none() {
        operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    operations.push(json!({ "op": "add", "path": ANNOTATION_POINTER, "value": wanted }));
}

fn replace(pointer: &str) -> Value {
    json!({ "op": "replace", "path": pointer, "value": CARRIER })
}

/// Every place that reads owner references, by pointer, and how it spells them.
fn places(spec: &Value, prefix: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for list in LISTS {
        for (at, container) in each(spec, list) {
            for (variable, of) in each(container, "env") {
                let pointer = format!("{prefix}/{list}/{at}/env/{variable}/valueFrom");
                take(of.get("valueFrom"), &pointer, &mut found);
            }
        }
    }
    for (at, volume) in each(spec, "volumes") {
        let pointer = format!("{prefix}/volumes/{at}");
        items(volume.get("downwardAPI"), &format!("{pointer}/downwardAPI"), &mut found);
        let projected = volume.get("projected").unwrap_or(&Value::Null);
        for (source, of) in each(projected, "sources") {
            let pointer = format!("{pointer}/projected/sources/{source}/downwardAPI");
            items(of.get("downwardAPI"), &pointer, &mut found);
        }
    }
    found
}

fn items(of: Option<&Value>, pointer: &str, found: &mut Vec<(String, String)>) {
    for (at, item) in each(of.unwrap_or(&Value::Null), "items") {
        take(Some(item), &format!("{pointer}/items/{at}"), found);
    }
}

fn take(of: Option<&Value>, pointer: &str, found: &mut Vec<(String, String)>) {
    let path = of.map(|of| text(of, "/fieldRef/fieldPath")).unwrap_or_default();
    if path == NATIVE || path == CARRIER {
        found.push((format!("{pointer}/fieldRef/fieldPath"), path.to_owned()));
    }
}

/// The items of a list with their numbers, if there is one.
fn each<'v>(object: &'v Value, list: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    object.get(list).and_then(Value::as_array).into_iter().flatten().enumerate()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    fn request(kind: &str, object: Value) -> Value {
        json!({ "kind": { "kind": kind }, "object": object })
    }

    /// An object after a patch, by the few operations there are.
    fn patched(mut object: Value, patch: &[Value]) -> Value {
        for operation in patch {
            let path = text(operation, "/path");
            let (parent, member) = path.rsplit_once('/').unwrap();
            let member = member.replace("~1", "/");
            let fields = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            match text(operation, "/op") {
                "remove" => drop(fields.remove(&member).unwrap()),
                _ => drop(fields.insert(member, operation["value"].clone())),
            }
        }
        object
    }

    fn reading(path: &str) -> Value {
        let field = json!({ "fieldRef": { "fieldPath": path } });
        json!({
            "containers": [{ "name": "a" }, { "env": [{ "name": "A" }, { "name": "B", "valueFrom": field }] }],
            "volumes": [{ "name": "a" }, { "downwardAPI": { "items": [field] } },
                { "projected": { "sources": [{ "secret": {} }, { "downwardAPI": { "items": [field] } }] } }],
        })
    }

    #[test]
    fn a57_what_is_rewritten_once_is_not_rewritten_again() {
        for kind in ["Pod", "PodTemplate", "CronJob", "Deployment"] {
            let mut object = json!({ "metadata": { "ownerReferences": [
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1" },
            ]}});
            let pointer = specification(kind);
            let parts: Vec<&str> = pointer.split('/').skip(1).collect();
            let inner =
                parts.iter().rev().fold(reading(NATIVE), |value, part| json!({ *part: value }));
            object.as_object_mut().unwrap().extend(inner.as_object().unwrap().clone());
            let first = patch(&request(kind, object.clone()));
            let stored = patched(object, &first);
            assert!(!stored.to_string().contains(NATIVE) || kind == "CronJob", "{kind}: {stored}");
            assert_eq!(first.len(), if kind == "Pod" { 5 } else { 3 }, "{kind}: {first:?}");
            assert_eq!(patch(&request(kind, stored)), [Value::Null; 0], "{kind}");
        }
    }

    #[test]
    fn a57_a_pod_that_does_not_read_holds_no_annotation() {
        let plain = json!({ "metadata": { "annotations": { ANNOTATION: "mine", "b": "c" } }, "spec": { "containers": [] } });
        let change = patch(&request("Pod", plain.clone()));
        assert_eq!(patched(plain, &change)["metadata"]["annotations"], json!({ "b": "c" }));
        assert_eq!(patch(&request("Pod", json!({ "metadata": {}, "spec": {} }))), [Value::Null; 0]);
        assert_eq!(patch(&json!({ "kind": { "kind": "Pod" }, "object": null })), [Value::Null; 0]);
    }

    #[test]
    fn a53_a_status_write_is_held_to_what_is_stored() {
        let owner =
            json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "forged", "uid": "1" }]);
        let object = json!({ "metadata": { "ownerReferences": owner }, "spec": reading(CARRIER) });
        let mut status = request("Pod", object.clone());
        status["subResource"] = "status".into();
        status["oldObject"] = json!({ "metadata": {}, "spec": reading(CARRIER) });
        let stored = patched(object, &patch(&status));
        let held = stored["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
        assert_eq!(held, owner_envelope(&[], ValueDestination::Env));
    }
}
