//! Rules of spec/api-server.md: protobuf bodies (R22), encoded by the structs of another project, make
//! the same objects as their JSON twins.

mod cluster;
mod core_kinds;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use k8s_pb::apimachinery::pkg::util::intstr::IntOrString;
use prost::Message;
use serde_json::{Value, json};

use crate::house::{Answer, House, JSON};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// How many kinds the table must have.
const KINDS_MIN: usize = 40;

/// One kind: where it is created, and the same object twice.
#[derive(Clone)]
struct Row {
    path: String,
    api_version: &'static str,
    kind: &'static str,
    raw: Vec<u8>,
    twin: Value,
}

/// A kind in the namespace `default`; the twin gets the metadata of [`named`].
fn row(
    api_version: &'static str,
    plural: &str,
    kind: &'static str,
    message: &impl Message,
    twin: Value,
) -> Row {
    let root = if api_version == "v1" { "/api" } else { "/apis" };
    let path = format!("{root}/{api_version}/namespaces/default/{plural}");
    Row { path, api_version, kind, raw: message.encode_to_vec(), twin }
}

/// A kind without a namespace.
fn wide(
    api_version: &'static str,
    plural: &str,
    kind: &'static str,
    message: &impl Message,
    twin: Value,
) -> Row {
    let mut row = row(api_version, plural, kind, message, twin);
    row.path = row.path.replace("/namespaces/default", "");
    row
}

fn text(said: &str) -> Option<String> {
    Some(said.to_owned())
}

fn texts(said: &[&str]) -> Vec<String> {
    said.iter().map(|&one| one.to_owned()).collect()
}

fn pairs(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn quantities(key: &str, said: &str) -> BTreeMap<String, Quantity> {
    BTreeMap::from([(key.to_owned(), Quantity { string: text(said) })])
}

fn number(said: i32) -> Option<IntOrString> {
    Some(IntOrString { r#type: Some(0), int_val: Some(said), str_val: text("") })
}

fn word(said: &str) -> Option<IntOrString> {
    Some(IntOrString { r#type: Some(1), int_val: Some(0), str_val: text(said) })
}

/// Metadata as Go writes it: also what is empty, and a time that is none.
fn named(name: &str) -> Option<meta::ObjectMeta> {
    Some(meta::ObjectMeta {
        name: text(name),
        generate_name: text(""),
        namespace: text(""),
        self_link: text(""),
        uid: text(""),
        resource_version: text(""),
        generation: Some(0),
        creation_timestamp: Some(meta::Time::default()),
        labels: pairs("app", "web"),
        annotations: pairs("example.com/note", "größer"),
        ..Default::default()
    })
}

fn selector() -> Option<meta::LabelSelector> {
    Some(meta::LabelSelector {
        match_labels: pairs("app", "web"),
        match_expressions: vec![meta::LabelSelectorRequirement {
            key: text("app"),
            operator: text("In"),
            values: texts(&["web", "api"]),
        }],
    })
}

fn selector_twin() -> Value {
    json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [{ "key": "app", "operator": "In", "values": ["web", "api"] }],
    })
}

/// The body as a client sends it.
fn body(row: &Row) -> Vec<u8> {
    let unknown = Unknown {
        type_meta: Some(TypeMeta { api_version: text(row.api_version), kind: text(row.kind) }),
        raw: Some(row.raw.clone()),
        content_encoding: text(""),
        content_type: text(""),
    };
    let mut body = b"k8s\0".to_vec();
    unknown.encode(&mut body).unwrap();
    body
}

/// Creates without storing.
async fn rehearse(house: &House, path: &str, media: &str, body: Vec<u8>) -> Answer {
    let path = format!("{path}?dryRun=All&fieldValidation=Strict");
    house.ask("POST", &path, &[("content-type", media), ("accept", JSON)], body).await
}

/// The object without what differs from create to create.
#[track_caller]
fn timeless(answer: Answer, of: &Row) -> Value {
    assert_eq!(answer.code, 201, "{}: {}", of.kind, answer.text());
    assert!(answer.warnings().iter().all(|text| !text.contains("unknown field")), "{}", of.kind);
    let mut object = answer.json;
    let metadata = object["metadata"].as_object_mut().unwrap();
    assert!(metadata.remove("uid").is_some() && metadata.remove("creationTimestamp").is_some());
    for entry in metadata["managedFields"].as_array_mut().unwrap() {
        assert!(entry.as_object_mut().unwrap().remove("time").is_some());
    }
    // A second may pass between twins.
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    object
}

#[tokio::test]
async fn r22_protobuf_bodies_of_many_kinds_make_what_their_json_twins_make() {
    let house = House::new().await;
    let rows = [core_kinds::rows(), workloads::rows(), cluster::rows()].concat();
    let kinds: BTreeSet<_> = rows.iter().map(|row| (row.api_version, row.kind)).collect();
    assert_eq!(kinds.len(), rows.len());
    assert!(kinds.len() >= KINDS_MIN, "{}", kinds.len());
    for row in rows {
        let mut twin = row.twin.clone();
        let name = twin.as_object_mut().unwrap().remove("name").unwrap_or_else(|| "it".into());
        twin["apiVersion"] = row.api_version.into();
        twin["kind"] = row.kind.into();
        twin["metadata"] = json!({
            "name": name, "labels": { "app": "web" },
            "annotations": { "example.com/note": "größer" }, "creationTimestamp": null,
        });
        let said = rehearse(&house, &row.path, JSON, twin.to_string().into_bytes()).await;
        let said = timeless(said, &row);
        let found = timeless(rehearse(&house, &row.path, PROTOBUF, body(&row)).await, &row);
        assert_eq!(found, said, "{}", row.kind);
        // Not only in rehearsal.
        let headers = [("content-type", PROTOBUF), ("accept", JSON)];
        house.ask("POST", &row.path, &headers, body(&row)).await.with(201);
    }
}
