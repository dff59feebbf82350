//! Protobuf bodies (spec/api-server.md R22), written with the prost structs of another project: each says
//! the same as its JSON twin. Bodies recorded from a real client stand beside them.

mod hostile;
mod kinds;
mod pods;
mod recorded;
mod schemas;
mod table;

use std::collections::BTreeMap;

use k8s_pb::api::core::v1 as core;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use k8s_pb::apimachinery::pkg::util::intstr::IntOrString;
use prost::Message;
use serde_json::{Value, json};
use tenure_schema::{TypeId, decode, protobuf};

use crate::{id, object};

/// The body as a client sends it.
fn body(api_version: &str, kind: &str, raw: Vec<u8>) -> Vec<u8> {
    let unknown = Unknown {
        type_meta: Some(TypeMeta { api_version: text(api_version), kind: text(kind) }),
        raw: Some(raw),
        content_encoding: text(""),
        content_type: text(""),
    };
    let mut body = b"k8s\0".to_vec();
    unknown.encode(&mut body).unwrap();
    body
}

/// Both forms of an object come to the same.
fn same(of: &str, message: &impl Message, twin: Value) {
    let body = body("the/version", "TheKind", message.encode_to_vec());
    let envelope = protobuf::envelope(&body).unwrap();
    assert_eq!((&*envelope.api_version, &*envelope.kind), ("the/version", "TheKind"));
    let mut found = protobuf::decode(id(of), envelope.raw).unwrap_or_else(|bad| panic!("{bad}"));
    assert!(!found.contains_key("kind") && !found.contains_key("apiVersion"));
    let mut expected = object(twin);
    for object in [&mut found, &mut expected] {
        let noticed = decode(id(of), object).unwrap_or_else(|wrong| panic!("{}", wrong.message));
        assert!(noticed.unknown.is_empty(), "{:?}", noticed.unknown);
    }
    assert_eq!(Value::Object(found), Value::Object(expected), "{of}");
}

fn text(said: &str) -> Option<String> {
    Some(said.to_owned())
}

fn texts(said: &[&str]) -> Vec<String> {
    said.iter().map(|&one| one.to_owned()).collect()
}

fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn quantities(rows: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    rows.iter().map(|(key, said)| ((*key).to_owned(), Quantity { string: text(said) })).collect()
}

fn number(said: i32) -> Option<IntOrString> {
    Some(IntOrString { r#type: Some(0), int_val: Some(said), str_val: text("") })
}

fn percent(said: &str) -> Option<IntOrString> {
    Some(IntOrString { r#type: Some(1), int_val: Some(0), str_val: text(said) })
}

/// Metadata as Go writes it: every member that is not a pointer, and an empty time.
fn metadata(name: &str) -> Option<meta::ObjectMeta> {
    Some(meta::ObjectMeta {
        name: text(name),
        generate_name: text(""),
        namespace: text("default"),
        self_link: text(""),
        uid: text(""),
        resource_version: text(""),
        generation: Some(0),
        creation_timestamp: Some(meta::Time::default()),
        ..Default::default()
    })
}

fn selector() -> Option<meta::LabelSelector> {
    Some(meta::LabelSelector { match_labels: labels("app", "web"), ..Default::default() })
}

/// A small template as `kubectl create deployment` makes it.
fn template() -> Option<core::PodTemplateSpec> {
    Some(core::PodTemplateSpec {
        metadata: Some(meta::ObjectMeta {
            labels: labels("app", "web"),
            creation_timestamp: Some(meta::Time::default()),
            name: text(""),
            ..Default::default()
        }),
        spec: Some(core::PodSpec {
            containers: vec![core::Container {
                name: text("web"),
                image: text("nginx"),
                working_dir: text(""),
                resources: Some(core::ResourceRequirements::default()),
                tty: Some(false),
                ..Default::default()
            }],
            host_network: Some(false),
            node_name: text(""),
            ..Default::default()
        }),
    })
}

fn template_twin() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
        "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {}}]}
    })
}

/// Every type of the table.
fn every_type() -> impl Iterator<Item = TypeId> {
    (0..tenure_schema::facts().types().len()).map(|at| TypeId(u16::try_from(at).unwrap()))
}
