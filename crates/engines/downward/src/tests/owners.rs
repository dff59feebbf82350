//! Rules of spec/downward-api.md, section 5.

use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_core::field_path::FieldPath;

use super::object;
use crate::field::resolve_field;
use crate::owners::owner_envelope;
use crate::view::{DownwardApiOptions, RuntimeView, ValueDestination};

const UID: &str = "6be1683f-da9c-4f68-9440-82376231cfa6";

fn daemon_set() -> Value {
    json!({
        "uid": UID, "name": "d", "kind": "DaemonSet", "apiVersion": "apps/v1",
        "blockOwnerDeletion": true, "controller": true,
    })
}

#[test]
fn r40_r41_r42_the_envelope_of_a_variable() {
    assert_eq!(
        owner_envelope(&[daemon_set()], ValueDestination::Env),
        r#"{"kind":"OwnerReference","apiVersion":"meta/v1","items":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"d","uid":"6be1683f-da9c-4f68-9440-82376231cfa6","controller":true,"blockOwnerDeletion":true}]}"#
    );
}

#[test]
fn r41_only_what_is_set_shows_and_nothing_else() {
    let reference = json!({
        "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1",
        "controller": false, "blockOwnerDeletion": null, "extra": "x",
    });
    let text = owner_envelope(&[reference], ValueDestination::Env);
    assert!(
        text.ends_with(
            r#"[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1","controller":false}]}"#
        ),
        "{text}"
    );
}

#[test]
fn r210_r211_nothing_shows_that_a_reader_of_the_pod_would_not_see() {
    let pod = object(json!({
        "metadata": {
            "name": "p", "labels": {"secret": "label"}, "annotations": {"secret": "annotation"},
            "ownerReferences": [daemon_set()],
        },
        "spec": {"nodeName": "secret"},
    }));
    let path = FieldPath::parse("metadata.ownerReferences").unwrap();
    for form in [ValueDestination::Env, ValueDestination::File] {
        let text = resolve_field(&path, &pod, &RuntimeView::default(), form).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        let stored = pod["metadata"]["ownerReferences"][0].as_object().unwrap();
        for (member, value) in shown["items"][0].as_object().unwrap() {
            assert_eq!(stored.get(member), Some(value), "{member}");
        }
        let members = shown["items"][0].as_object().unwrap().len();
        assert_eq!(members, 6, "names, uids and two flags: {shown}");
    }
}

#[test]
fn r43_the_envelope_of_a_file() {
    let plain = json!({ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1" });
    assert_eq!(
        owner_envelope(&[daemon_set(), plain], ValueDestination::File),
        r#"{
    "kind": "OwnerReference",
    "apiVersion": "meta/v1",
    "items": [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "d",
            "uid": "6be1683f-da9c-4f68-9440-82376231cfa6",
            "controller": true,
            "blockOwnerDeletion": true
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "n",
            "uid": "1"
        }
    ]
}"#
    );
}

#[test]
fn r44_files_may_be_written_as_variables_are() {
    let pod = object(json!({ "metadata": { "ownerReferences": [daemon_set()] } }));
    let path = FieldPath::parse("metadata.ownerReferences").unwrap();
    let settings = DownwardApiOptions { compact_files: true, ..DownwardApiOptions::default() };
    let runtime = RuntimeView { settings, ..RuntimeView::default() };
    let file = resolve_field(&path, &pod, &runtime, ValueDestination::File).unwrap();
    assert_eq!(file, owner_envelope(&[daemon_set()], ValueDestination::Env));
}

#[test]
fn r45_no_owner_is_an_empty_envelope() {
    let want = r#"{"kind":"OwnerReference","apiVersion":"meta/v1","items":[]}"#;
    assert_eq!(owner_envelope(&[], ValueDestination::Env), want);
    let file = "{\n    \"kind\": \"OwnerReference\",\n    \"apiVersion\": \"meta/v1\",\n    \"items\": []\n}";
    assert_eq!(owner_envelope(&[], ValueDestination::File), file);
    let path = FieldPath::parse("metadata.ownerReferences").unwrap();
    for pod in [json!({}), json!({ "metadata": { "ownerReferences": null } })] {
        let runtime = RuntimeView::default();
        assert_eq!(
            resolve_field(&path, &object(pod), &runtime, ValueDestination::Env).unwrap(),
            want
        );
    }
}

#[test]
fn r46_as_few_escapes_as_json_needs() {
    let reference = json!({
        "apiVersion": "v1", "kind": "<K>&\u{2028}\u{7f}", "uid": "1",
        "name": "a\"b\\c\n\t\r\u{8}\u{c}\u{1}\u{1f}",
    });
    let text = owner_envelope(&[reference], ValueDestination::Env);
    assert!(text.contains("\"kind\":\"<K>&\u{2028}\u{7f}\""), "{text}");
    assert!(text.contains(r#""name":"a\"b\\c\n\t\r\b\f\u0001\u001f""#), "{text}");
}

#[test]
fn r47_r50_the_references_of_the_pod_as_stored() {
    // A mirror pod is owned by its node; owners of owners are not looked for.
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": true });
    let set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "2" });
    let pod = object(json!({ "metadata": { "ownerReferences": [set, node] } }));
    let path = FieldPath::parse("metadata.ownerReferences").unwrap();
    let text = resolve_field(&path, &pod, &RuntimeView::default(), ValueDestination::Env).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> =
        read["items"].as_array().unwrap().iter().map(|item| &item["kind"]).collect();
    assert_eq!(names, ["ReplicaSet", "Node"]);
}

#[test]
fn r54_without_the_feature_the_field_is_not_told() {
    let path = FieldPath::parse("metadata.ownerReferences").unwrap();
    let mut settings = DownwardApiOptions::default();
    settings.extra.owner_references = false;
    let runtime = RuntimeView { settings, ..RuntimeView::default() };
    for form in [ValueDestination::Env, ValueDestination::File] {
        let error = resolve_field(&path, &object(json!({})), &runtime, form).unwrap_err();
        assert_eq!(
            alloc::string::ToString::to_string(&error),
            "unsupported fieldPath: metadata.ownerReferences"
        );
    }
}

prop_compose! {
    fn references()(all in prop::collection::vec(
        (any::<[String; 4]>(), any::<Option<bool>>(), any::<Option<bool>>()), 0..4)) -> Vec<Value> {
        all.into_iter().map(|([version, kind, name, uid], controller, block)| {
            let mut reference = json!({ "apiVersion": version, "kind": kind, "name": name, "uid": uid });
            if let Some(controller) = controller { reference["controller"] = controller.into(); }
            if let Some(block) = block { reference["blockOwnerDeletion"] = block.into(); }
            reference
        }).collect()
    }
}

proptest! {
    #[test]
    fn r40_readers_get_back_what_was_stored(references in references()) {
        let want = json!({ "kind": "OwnerReference", "apiVersion": "meta/v1", "items": references });
        for form in [ValueDestination::Env, ValueDestination::File] {
            let read: Value = serde_json::from_str(&owner_envelope(&references, form)).unwrap();
            prop_assert_eq!(&read, &want);
        }
        prop_assert!(!owner_envelope(&references, ValueDestination::Env).contains('\n'));
        prop_assert!(!owner_envelope(&references, ValueDestination::File).ends_with('\n'));
    }
}
