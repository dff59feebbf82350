//! Rules of spec/downward-api.md: everything that a pod may not say of what it reads of itself, over
//! HTTP. Each is 422 and names its field (sections 2, 3 and 9).

use serde_json::{Value, json};

use crate::house::*;

const ENV: &str = "spec.containers[0].env[0].valueFrom";
const FILE: &str = "spec.volumes[0].downwardAPI";
const PROJECTED: &str = "spec.volumes[0].projected";

fn container(env: Value) -> Value {
    json!({ "name": "c", "image": "example.com/app:v1", "env": env })
}

fn variable(source: Value) -> Value {
    json!({ "containers": [container(json!([{ "name": "E", "valueFrom": source }]))] })
}

fn field(path: &str) -> Value {
    variable(json!({ "fieldRef": { "fieldPath": path } }))
}

fn volume(source: Value) -> Value {
    let mut volume = source;
    volume["name"] = "v".into();
    json!({ "containers": [container(json!([]))], "volumes": [volume] })
}

fn files(items: Value) -> Value {
    volume(json!({ "downwardAPI": { "items": items } }))
}

fn file(path: &str) -> Value {
    files(json!([{ "path": "f", "fieldRef": { "fieldPath": path } }]))
}

fn file_at(path: &str) -> Value {
    files(json!([{ "path": path, "fieldRef": { "fieldPath": "metadata.name" } }]))
}

fn projected(sources: Value) -> Value {
    volume(json!({ "projected": { "sources": sources } }))
}

fn resource(resource: &str, divisor: &str) -> Value {
    variable(json!({ "resourceFieldRef": { "resource": resource, "divisor": divisor } }))
}

/// Sends a pod, and looks for the field and the words of one cause.
async fn refused(house: &House, spec: Value, field: &str, words: &str) {
    let pod = json!({ "metadata": { "name": "p" }, "spec": spec });
    let answer = house.post(PODS, pod.clone()).await;
    assert_eq!(answer.code, 422, "{pod}: {}", answer.text());
    let status = answer.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap();
    let found = causes.iter().any(|cause| {
        cause["field"] == field && cause["message"].as_str().unwrap_or_default().contains(words)
    });
    assert!(found, "{pod}: no cause of {field} with `{words}`: {causes:#?}");
}

#[tokio::test]
async fn r1_r2_r3_r4_r5_r7_r11_r14_r14a_r14b_paths_that_are_none() {
    let house = House::new().await;
    let path = format!("{ENV}.fieldRef.fieldPath");
    let reference = format!("{ENV}.fieldRef");
    let unknown = "error converting fieldPath: field label not supported: ";
    for text in [
        "['k']",
        "metadata.labels[]",
        "metadata.labels[']",
        "metadata.labels['k']x",
        "metadata.labels[ 'k' ]",
        "metadata.nothing",
        "metadata",
        ".",
        "metadata.ownerReferences[0]",
        "spec.containers[0].name",
        "status.podIPs[0]",
        "Metadata.name",
        " metadata.name",
        r"metadata.annotations['a\q",
    ] {
        refused(&house, field(text), &path, unknown).await;
        refused(&house, file(text), &format!("{FILE}.fieldRef.fieldPath"), unknown).await;
    }
    let subscript = "error converting fieldPath: field label does not support subscript: ";
    for text in ["metadata.ownerReferences['x']", "metadata.name['x']", "spec.nodeName['x']"] {
        refused(&house, field(text), &path, subscript).await;
    }
    for text in [
        "metadata.annotations['']",
        "metadata.labels['']",
        "metadata.annotations['a[b]c']",
        "metadata.annotations['a'b']",
        "metadata.annotations['a/b/c']",
        "metadata.annotations['/a']",
        "metadata.annotations['a/']",
        "metadata.annotations['a b']",
        "metadata.labels['Www.k8s.io/test']",
        r"metadata.labels['a\[b']",
        r"metadata.annotations['a\qb']",
        r"metadata.annotations['a\']",
        r"metadata.annotations['a\]b'c']",
        &format!("metadata.labels['{}']", "x".repeat(64)),
        &format!("metadata.labels['{}/x']", "x".repeat(254)),
    ] {
        refused(&house, field(text), &reference, "Invalid value").await;
        refused(&house, file(text), &format!("{FILE}.fieldRef"), "Invalid value").await;
    }
    let version = |version: &str| {
        variable(json!({ "fieldRef": { "apiVersion": version, "fieldPath": "metadata.name" } }))
    };
    let words = "error converting fieldPath: unsupported pod version: v2";
    refused(&house, version("v2"), &path, words).await;
    refused(&house, field(""), &path, "Required value").await;
}

#[tokio::test]
async fn r13_r15_fields_that_are_not_for_this_place() {
    let house = House::new().await;
    let unsupported = "Unsupported value: ";
    for text in [
        "metadata.labels",
        "metadata.annotations",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    ] {
        let path = format!("{ENV}.fieldRef.fieldPath");
        refused(&house, field(text), &path, unsupported).await;
    }
    for text in [
        "spec.nodeName",
        "spec.host",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
    ] {
        refused(&house, file(text), &format!("{FILE}.fieldRef.fieldPath"), unsupported).await;
        let item = json!({ "path": "f", "fieldRef": { "fieldPath": text } });
        let spec = projected(json!([{ "downwardAPI": { "items": [item] } }]));
        let path = format!("{PROJECTED}.sources[0].downwardAPI.fieldRef.fieldPath");
        refused(&house, spec, &path, unsupported).await;
    }
}

#[tokio::test]
async fn r16_r17_r18_resources_and_divisors() {
    let house = House::new().await;
    let at = |member: &str| format!("{ENV}.resourceFieldRef.{member}");
    for name in ["limits.gpu", "cpu", "limits", "requests.storage", "limits.memory "] {
        refused(&house, resource(name, "1"), &at("resource"), "Unsupported value").await;
    }
    refused(&house, resource("", "1"), &at("resource"), "Required value").await;
    for (name, divisor) in [
        ("limits.cpu", "2"),
        ("limits.cpu", "1Mi"),
        ("limits.cpu", "10m"),
        ("requests.cpu", "1k"),
        ("limits.memory", "1m"),
        ("limits.memory", "2Mi"),
        ("requests.memory", "3"),
        ("limits.ephemeral-storage", "100"),
        ("requests.hugepages-2Mi", "1m"),
    ] {
        refused(&house, resource(name, divisor), &at("divisor"), "Invalid value").await;
    }
    let nameless = json!({ "resource": "limits.cpu" });
    let spec = files(json!([{ "path": "f", "resourceFieldRef": nameless }]));
    let place = format!("{FILE}.resourceFieldRef.containerName");
    refused(&house, spec, &place, "Required value").await;
    let named = json!({ "resource": "limits.gpu", "containerName": "c" });
    let spec = files(json!([{ "path": "f", "resourceFieldRef": named }]));
    let place = format!("{FILE}.resourceFieldRef.resource");
    refused(&house, spec, &place, "Unsupported value").await;
}

#[tokio::test]
async fn r19_one_source_for_one_value() {
    let house = House::new().await;
    let one = json!({ "fieldPath": "metadata.name" });
    let other = json!({ "resource": "limits.cpu" });
    refused(&house, variable(json!({})), ENV, "must specify one of: ").await;
    let two = variable(json!({ "fieldRef": one, "resourceFieldRef": other }));
    refused(&house, two, ENV, "may not have more than one field specified at a time").await;
    let env = json!([{ "name": "E", "value": "x", "valueFrom": { "fieldRef": one } }]);
    let both = json!({ "containers": [container(env)] });
    refused(&house, both, ENV, "may not be specified when `value` is not empty").await;
    let two = files(json!([{
        "path": "f", "fieldRef": one,
        "resourceFieldRef": { "resource": "limits.cpu", "containerName": "c" },
    }]));
    let words = "fieldRef and resourceFieldRef can not be specified simultaneously";
    refused(&house, two, FILE, words).await;
    let none = files(json!([{ "path": "f" }]));
    refused(&house, none, FILE, "one of fieldRef and resourceFieldRef is required").await;
}

#[tokio::test]
async fn r62_r62a_r62b_r62c_r62e_r62g_r62k_files_that_cannot_be() {
    let house = House::new().await;
    let path = format!("{FILE}.path");
    refused(&house, file_at(""), &path, "Required value").await;
    refused(&house, file_at("/etc/passwd"), &path, "must be a relative path").await;
    for text in ["..", "../x", "a/../b", "a/.."] {
        refused(&house, file_at(text), &path, "must not contain '..'").await;
    }
    for text in ["..data", "..x", "..2026_11_15"] {
        refused(&house, file_at(text), &path, "must not start with '..'").await;
    }
    let words = "must be a number between 0 and 0777 (octal), both inclusive";
    for mode in [-1, 512, 0o7777] {
        let mut item = json!({ "path": "f", "fieldRef": { "fieldPath": "metadata.name" } });
        let spec = volume(json!({ "downwardAPI": { "items": [item], "defaultMode": mode } }));
        refused(&house, spec, &format!("{FILE}.defaultMode"), words).await;
        item["mode"] = mode.into();
        refused(&house, files(json!([item])), &format!("{FILE}.mode"), words).await;
        for (kind, name) in [("configMap", "name"), ("secret", "secretName")] {
            let spec = volume(json!({ kind: { name: "x", "defaultMode": mode } }));
            refused(&house, spec, &format!("spec.volumes[0].{kind}.defaultMode"), words).await;
        }
        let spec = volume(json!({ "projected": { "sources": [], "defaultMode": mode } }));
        refused(&house, spec, &format!("{PROJECTED}.defaultMode"), words).await;
    }
    for (kind, name) in [("configMap", "name"), ("secret", "secretName")] {
        for (item, member, words) in [
            (json!({ "key": "k", "path": "../x" }), "path", "must not contain '..'"),
            (json!({ "key": "k", "path": "/x" }), "path", "must be a relative path"),
            (json!({ "key": "k", "path": "..x" }), "path", "must not start with '..'"),
            (json!({ "key": "k", "path": "" }), "path", "Required value"),
            (json!({ "key": "", "path": "x" }), "key", "Required value"),
        ] {
            let spec = volume(json!({ kind: { name: "x", "items": [item] } }));
            let place = format!("spec.volumes[0].{kind}.items[0].{member}");
            refused(&house, spec, &place, words).await;
        }
    }
    let item = json!({ "path": "a", "fieldRef": { "fieldPath": "metadata.name" } });
    let twice = json!([{ "downwardAPI": { "items": [item, item] } }]);
    let words = "\"a\": conflicting duplicate paths";
    refused(&house, projected(twice), PROJECTED, words).await;
    let keyed = json!({ "name": "from", "items": [{ "key": "k", "path": "a" }] });
    for kind in ["configMap", "secret"] {
        let sources = json!([{ "downwardAPI": { "items": [item] } }, { kind: keyed }]);
        let words = "\"from\": conflicting duplicate paths";
        refused(&house, projected(sources), PROJECTED, words).await;
    }
    let two = json!([{ "configMap": { "name": "x" }, "secret": { "name": "x" } }]);
    let words = "may not specify more than 1 volume type per source";
    refused(&house, projected(two), &format!("{PROJECTED}.sources[0]"), words).await;
    for seconds in [1, 599] {
        let token =
            json!([{ "serviceAccountToken": { "path": "t", "expirationSeconds": seconds } }]);
        let place = format!("{PROJECTED}.sources[0].serviceAccountToken.expirationSeconds");
        refused(&house, projected(token), &place, "less than 10 minutes").await;
    }
}
