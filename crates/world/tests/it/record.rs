//! Records: the bytes, the splice and the header.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_world::{
    BadRecord, Draft, PlainLayout, Record, SelectableFields, SelectablePath, WorldOptions,
};

use crate::support::*;

/// Pods as a server would lay them out.
struct Pods;

impl SelectableFields for Pods {
    fn fields(&self, _key: &str) -> Option<Arc<[SelectablePath]>> {
        Some(
            [
                SelectablePath::new("spec.nodeName", ""),
                SelectablePath::new("status.phase", ""),
                SelectablePath::new("spec.hostNetwork", "false"),
                SelectablePath::new("spec.priority", "0"),
                SelectablePath::new("metadata.name", ""),
                SelectablePath::new("type", "Opaque"),
                SelectablePath::new("spec.missing.deeper", "none"),
            ]
            .into(),
        )
    }
}

fn pod() -> Value {
    json!({
        "apiVersion": "wrong", "kind": "Wrong",
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "u1", "generation": 7,
            "resourceVersion": "999", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"quote": "a \"quoted\" { brace \\ and é"},
            "finalizers": ["one.example/a", "two"],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs1",
                 "controller": true, "blockOwnerDeletion": true},
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n1"},
            ],
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"nodeName": "node-1", "hostNetwork": true, "priority": -5, "containers": [{"x": []}]},
        "status": {"phase": "Running"},
    })
}

/// Commits an object so that its revision has several digits, and reads it back.
async fn stored(value: &Value) -> Arc<Record> {
    let log = TestLog::default();
    let world = log.open_with(WorldOptions { layout: Arc::new(Pods), ..WorldOptions::default() });
    for n in 0..11 {
        write(&world, vec![put("filler", &n.to_string())]).await;
    }
    let draft = Draft::encode("Pod", "v1", value.as_object().unwrap());
    let write_it =
        tenure_world::WriteOperation::Put { key: "/registry/pods/shop/web-1".into(), draft };
    write(&world, vec![write_it]).await.records[0].clone().unwrap()
}

fn check_header(record: &Record) {
    assert_eq!((record.name(), record.namespace(), record.uid()), ("web-1", "shop", "u1"));
    assert_eq!((record.generation(), record.created()), (7, "2026-01-01T00:00:00Z"));
    assert_eq!(record.labels().collect::<Vec<_>>(), [("app", "web"), ("tier", "front")]);
    assert_eq!(record.label("tier"), Some("front"));
    assert_eq!(record.label("none"), None);
    assert_eq!(record.finalizers().collect::<Vec<_>>(), ["one.example/a", "two"]);
    let owners: Vec<_> = record.owners().collect();
    assert_eq!((owners[0].api_version, owners[0].kind), ("apps/v1", "ReplicaSet"));
    assert_eq!((owners[0].name, owners[0].uid), ("web", "rs1"));
    assert!(owners[0].controller && owners[0].block);
    assert!(!owners[1].controller && !owners[1].block);
    assert!(!record.deleting());
    let fields: Vec<_> = record.fields().collect();
    assert_eq!(
        fields,
        [
            ("spec.nodeName", "node-1"),
            ("status.phase", "Running"),
            ("spec.hostNetwork", "true"),
            ("spec.priority", "-5"),
            ("metadata.name", "web-1"),
            ("type", "Opaque"),
            ("spec.missing.deeper", "none"),
        ]
    );
    assert_eq!(record.field("spec.nodeName"), Some("node-1"));
    assert_eq!(record.field("spec.unknown"), None);
    assert_eq!(&record.status()[..], br#"{"phase":"Running"}"#);
    assert_eq!(&record.managed_fields()[..], br#"[{"manager":"kubectl"}]"#);
}

#[tokio::test]
async fn r199_bytes_are_final_and_the_header_knows_their_parts() {
    let record = stored(&pod()).await;
    assert!(record.bytes().starts_with(br#"{"kind":"Pod","apiVersion":"v1","metadata":{"#));
    assert!(record.metadata().ends_with(br#","resourceVersion":"12"}"#));
    let whole: Value = serde_json::from_slice(record.bytes()).unwrap();
    let mut expected = pod();
    expected["kind"] = "Pod".into();
    expected["apiVersion"] = "v1".into();
    expected["metadata"]["resourceVersion"] = "12".into();
    assert_eq!(whole, expected);
    check_header(&record);
}

#[tokio::test]
async fn r199_a_record_read_back_has_the_same_header() {
    let record = stored(&pod()).await;
    let again =
        Record::read(record.key().clone(), record.revision(), record.bytes().clone(), &Pods);
    check_header(&again.unwrap());
}

#[tokio::test]
async fn r200_another_revision_is_spliced_in() {
    let record = stored(&pod()).await;
    let later = record.with_revision(Revision(1_234_567));
    assert_eq!(version(&later), 1_234_567);
    let (mut a, mut b): (Value, Value) =
        (serde_json::from_slice(&later).unwrap(), serde_json::from_slice(record.bytes()).unwrap());
    a["metadata"]["resourceVersion"] = Value::Null;
    b["metadata"]["resourceVersion"] = Value::Null;
    assert_eq!(a, b);
}

#[tokio::test]
async fn r201_typeless_form_is_the_object_without_kind() {
    let record = stored(&pod()).await;
    let text = [b"{".as_slice(), &record.typeless()].concat();
    let value: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value.get("kind"), None);
    assert_eq!(value.get("apiVersion"), None);
    assert_eq!(value["spec"], pod()["spec"]);
}

#[tokio::test]
async fn r206_a_draft_that_says_the_same_is_recognised() {
    let record = stored(&pod()).await;
    let mut value = pod();
    value["metadata"]["resourceVersion"] = "5".into();
    assert!(Draft::encode("Pod", "v1", value.as_object().unwrap()).says_the_same_as(&record));
    value["spec"]["priority"] = 1.into();
    assert!(!Draft::encode("Pod", "v1", value.as_object().unwrap()).says_the_same_as(&record));
}

#[tokio::test]
async fn text_with_escapes_is_read_plainly() {
    let mut value = pod();
    value["metadata"]["name"] = "a\"b\\c\n".into();
    value["metadata"]["labels"] = json!({"k\"": "v\u{1}"});
    value["status"]["phase"] = "x\ty".into();
    value["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z".into();
    let record = stored(&value).await;
    assert_eq!(record.name(), "a\"b\\c\n");
    assert_eq!(record.label("k\""), Some("v\u{1}"));
    assert_eq!(record.field("status.phase"), Some("x\ty"));
    assert_eq!(record.deleted(), Some("2026-02-02T00:00:00Z"));
    assert_eq!(record.uid(), "u1");
}

#[tokio::test]
async fn odd_members_are_passed_over() {
    let value = json!({"metadata": {"name": 5, "labels": null, "finalizers": null,
        "ownerReferences": [null, {}], "deletionTimestamp": null, "generation": null},
        "spec": null, "status": {"phase": ["list"]}});
    let record = stored(&value).await;
    assert_eq!((record.name(), record.namespace(), record.generation()), ("", "", 0));
    assert_eq!((record.labels().len(), record.finalizers().len()), (0, 0));
    assert_eq!(record.owners().len(), 2);
    assert!(!record.deleting());
    assert_eq!(record.field("status.phase"), Some(""));
    let bare = stored(&json!({})).await;
    assert_eq!(&bare.metadata()[..], br#"{"resourceVersion":"12"}"#);
}

#[tokio::test]
async fn damaged_bytes_are_refused_at_every_length() {
    let record = stored(&pod()).await;
    let whole = record.bytes();
    for length in 0..whole.len() {
        let cut = Record::read(record.key().clone(), Revision(1), whole.slice(..length), &Pods);
        assert!(cut.is_err(), "{length} bytes");
    }
    let not_text = Bytes::from_static(b"{\"metadata\":{\"name\":\"\xff\"}}");
    let refused = Record::read("k".into(), Revision(1), not_text, &PlainLayout);
    assert_eq!(refused.unwrap_err(), BadRecord::NotText);
}
