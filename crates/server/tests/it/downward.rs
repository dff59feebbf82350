//! Rules of spec/downward-api.md that the server keeps: paths, the feature, and who forbids it.

use serde_json::{Value, json};
use tenure_kinds::downward::Downward;

use crate::house::*;

const OWNERS: &str = "metadata.ownerReferences";
const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";
const LABEL: &str = "downward.tenure.dev/owner-references";
const APPLY: &str = "application/apply-patch+yaml";
const OFF: Downward = Downward { owner_references: false, file_users: false, volume_parity: false };

fn container(env: Value) -> Value {
    json!({ "name": "c", "image": "example.com/app:v1", "env": env })
}

/// A specification whose variable reads a field.
fn in_env(field: &str) -> Value {
    let from = json!({ "fieldRef": { "fieldPath": field } });
    json!({ "containers": [container(json!([{ "name": "E", "valueFrom": from }]))] })
}

/// A specification whose file shows a field.
fn in_file(field: &str) -> Value {
    let item = json!({ "path": "f", "fieldRef": { "fieldPath": field } });
    json!({
        "containers": [container(json!([]))],
        "volumes": [{ "name": "v", "downwardAPI": { "items": [item] } }],
    })
}

fn pod_of(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Every kind that holds a pod specification: its collection in a namespace, and an object of it.
fn kinds(namespace: &str, spec: &Value) -> Vec<(String, Value)> {
    let labels = json!({ "app": "x" });
    let mut always = spec.clone();
    always["restartPolicy"] = "Always".into();
    let mut once = spec.clone();
    once["restartPolicy"] = "Never".into();
    let template = |spec: Value| json!({ "metadata": { "labels": labels }, "spec": spec });
    let selector = json!({ "matchLabels": labels });
    let set = json!({ "selector": selector, "template": template(always.clone()) });
    let named = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let apps = |plural: &str| format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
    let batch = |plural: &str| format!("/apis/batch/v1/namespaces/{namespace}/{plural}");
    vec![
        (core("pods"), named("x", spec.clone())),
        (apps("deployments"), named("x", set.clone())),
        (apps("replicasets"), named("x", set.clone())),
        (apps("daemonsets"), named("x", set.clone())),
        (apps("statefulsets"), named("x", set)),
        (
            core("replicationcontrollers"),
            named("x", json!({ "selector": labels, "template": template(always.clone()) })),
        ),
        (batch("jobs"), named("x", json!({ "template": template(once.clone()) }))),
        (
            batch("cronjobs"),
            named(
                "x",
                json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template(once) } } }),
            ),
        ),
        (
            core("podtemplates"),
            json!({ "metadata": { "name": "x" }, "template": template(always) }),
        ),
    ]
}

async fn namespace(house: &House, name: &str, forbids: bool) {
    let labels = if forbids { json!({ LABEL: "forbid" }) } else { json!({}) };
    house.made(NAMESPACES, json!({ "metadata": { "name": name, "labels": labels } })).await;
    let account = json!({ "metadata": { "name": "default" } });
    // The follower may have made it first.
    house.post(&format!("{NAMESPACES}/{name}/serviceaccounts"), account).await;
}

#[tokio::test]
async fn r8_a_key_that_can_never_be_set_is_accepted_with_a_warning() {
    let house = House::new().await;
    let seed =
        r#"metadata.annotations['foo.bar/more\'complicated\]example\[with\'characters"to-escape']"#;
    let answer = house.post(PODS, pod_of("p", in_env(seed))).await;
    let warnings = answer.warnings();
    answer.with(201);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("can never be set"), "{warnings:?}");
    assert!(warnings[0].contains("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"));
    let answer =
        house.merge(&format!("{PODS}/p"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!(answer.warnings(), [""; 0]);
    let plain = house.post(PODS, pod_of("q", in_env("metadata.annotations['a/b']"))).await;
    assert_eq!(plain.warnings(), [""; 0]);
    plain.with(201);
}

#[tokio::test]
async fn r1_r2_r4_r5_r7_paths_that_are_none_are_refused_with_their_field() {
    let house = House::new().await;
    let path = "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath";
    let reference = "spec.containers[0].env[0].valueFrom.fieldRef";
    for (field, place) in [
        ("['k']", path),
        ("metadata.labels[]", path),
        ("metadata.labels[']", path),
        ("metadata.labels['k']x", path),
        ("metadata.labels[ 'k' ]", path),
        ("metadata.ownerReferences['x']", path),
        ("metadata.annotations['a[b]c']", reference),
        (r"metadata.annotations['a\qb']", reference),
        (r"metadata.annotations['a\']", reference),
        (r"metadata.annotations['a\]b'c']", reference),
        (r"metadata.labels['a\[b']", reference),
        ("metadata.labels['Www.k8s.io/test']", reference),
    ] {
        let status = house.post(PODS, pod_of("p", in_env(field))).await.fails(422, "Invalid");
        assert_eq!(fields(&status), [place], "{field}");
    }
}

#[tokio::test]
async fn r48_two_controllers_are_refused_and_one_is_not() {
    let house = House::new().await;
    let owner = |kind: &str, controller: Option<bool>| {
        let mut owner = json!({
            "apiVersion": "apps/v1", "blockOwnerDeletion": true, "kind": kind,
            "name": "an-owned-pod-1722852739", "uid": "6be1683f-da9c-4f68-9440-82376231cfa6",
        });
        if let Some(controller) = controller {
            owner["controller"] = controller.into();
        }
        owner
    };
    for (name, spec) in [("in-env", in_env(OWNERS)), ("in-file", in_file(OWNERS))] {
        let mut pod = pod_of(name, spec);
        let two = json!([owner("DaemonSet", Some(true)), owner("Some-CRD", Some(true))]);
        pod["metadata"]["ownerReferences"] = two;
        let status = house.post(PODS, pod.clone()).await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["metadata.ownerReferences"]);
        pod["metadata"]["ownerReferences"][1] = owner("Some-CRD", None);
        house.made(PODS, pod).await;
    }
}

#[tokio::test]
async fn r49_repeated_owners_are_stored_once() {
    let house = House::new().await;
    let mut pod = pod_of("p", in_env(OWNERS));
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u" });
    pod["metadata"]["ownerReferences"] = json!([owner, owner]);
    let stored = house.made(PODS, pod).await;
    assert_eq!(stored["metadata"]["ownerReferences"], json!([owner]));
}

#[tokio::test]
async fn r51_with_the_feature_every_kind_may_use_the_path() {
    let house = House::new().await;
    for (place, spec) in [("one", in_env(OWNERS)), ("two", in_file(OWNERS))] {
        namespace(&house, place, false).await;
        for (collection, object) in kinds(place, &spec) {
            house.made(&collection, object).await;
        }
    }
}

#[tokio::test]
async fn r52_without_the_feature_no_kind_may_use_the_path() {
    let on = House::new().await;
    let off = on.twin(OFF);
    namespace(&on, "one", false).await;
    for (spec, plain) in
        [(in_env(OWNERS), in_env("metadata.name")), (in_file(OWNERS), in_file("metadata.name"))]
    {
        for ((collection, object), (_, before)) in
            kinds("one", &spec).into_iter().zip(kinds("one", &plain))
        {
            let status = off.post(&collection, object.clone()).await.fails(422, "Invalid");
            let message = status["message"].as_str().unwrap();
            assert!(
                message.contains("error converting fieldPath: field label not supported: metadata.ownerReferences"),
                "{message}"
            );
            assert!(fields(&status)[0].ends_with("fieldRef.fieldPath"), "{status}");
            // What is updated may not come to use it either; pods and jobs have no such update.
            if collection.ends_with("/pods") || collection.ends_with("/jobs") {
                continue;
            }
            let path = format!("{collection}/x");
            off.made(&collection, before).await;
            let status = off.put(&path, object).await.fails(422, "Invalid");
            assert!(status["message"].as_str().unwrap().contains("field label not supported"));
            off.delete(&path).await;
            off.until(&path, 404).await;
        }
    }
}

#[tokio::test]
async fn r53_without_the_feature_what_is_stored_stays_valid() {
    let on = House::new().await;
    let off = on.twin(OFF);
    namespace(&on, "one", false).await;
    for (collection, object) in kinds("one", &in_env(OWNERS)) {
        on.made(&collection, object).await;
        let path = format!("{collection}/x");
        let label = json!({ "metadata": { "labels": { "changed": "yes" } } });
        off.merge(&path, label).await.with(200);
        if collection.ends_with("deployments") || collection.ends_with("statefulsets") {
            off.merge(&format!("{path}/scale"), json!({ "spec": { "replicas": 3 } }))
                .await
                .with(200);
            off.merge(&path, json!({ "spec": { "replicas": 2 } })).await.with(200);
        }
        let stored = off.get(&path).await.with(200);
        off.put(&path, stored).await.with(200);
    }
    let status = json!({ "status": { "phase": "Running" } });
    off.merge("/api/v1/namespaces/one/pods/x/status", status).await.with(200);
}

#[tokio::test]
async fn r58_a_namespace_may_forbid_the_path() {
    let house = House::new().await;
    namespace(&house, "open", false).await;
    namespace(&house, "closed", true).await;
    for field in [OWNERS, CARRIER] {
        for spec in [in_env(field), in_file(field)] {
            for (collection, object) in kinds("closed", &spec) {
                let status = house.post(&collection, object).await.fails(403, "Forbidden");
                let message = status["message"].as_str().unwrap();
                assert!(message.contains("fieldRef.fieldPath"), "{message}");
                assert!(message.contains(&format!("{LABEL}=forbid")), "{message}");
                assert!(fields(&status)[0].ends_with("fieldRef.fieldPath"), "{status}");
            }
        }
    }
    for (collection, object) in kinds("open", &in_env(OWNERS)) {
        house.made(&collection, object).await;
    }
    for (collection, object) in kinds("closed", &in_env("metadata.name")) {
        house.made(&collection, object).await;
    }
    let path = "/apis/apps/v1/namespaces/closed/deployments/x";
    let fields = json!([{ "op": "replace", "value": OWNERS,
        "path": "/spec/template/spec/containers/0/env/0/valueFrom/fieldRef/fieldPath" }]);
    house.patch(path, JSON_PATCH, fields).await.fails(403, "Forbidden");
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "applied" }, "spec": in_env(OWNERS),
    });
    let path = "/api/v1/namespaces/closed/pods/applied?fieldManager=m";
    house.patch(path, APPLY, applied).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn r58_a_label_set_later_wedges_nothing() {
    let house = House::new().await;
    namespace(&house, "one", false).await;
    for (collection, object) in kinds("one", &in_env(OWNERS)) {
        house.made(&collection, object).await;
    }
    let label = json!({ "metadata": { "labels": { LABEL: "forbid" } } });
    house.merge(&format!("{NAMESPACES}/one"), label).await.with(200);
    for (collection, _) in kinds("one", &in_env(OWNERS)) {
        let label = json!({ "metadata": { "labels": { "changed": "yes" } } });
        house.merge(&format!("{collection}/x"), label).await.with(200);
    }
    let pods = "/api/v1/namespaces/one/pods";
    house.post(pods, pod_of("y", in_env(OWNERS))).await.fails(403, "Forbidden");
    let debug = json!({ "spec": { "ephemeralContainers": [{
        "name": "debug", "image": "example.com/app:v1",
        "env": [{ "name": "E", "valueFrom": { "fieldRef": { "fieldPath": OWNERS } } }],
    }] } });
    let answer = house.patch(&format!("{pods}/x/ephemeralcontainers"), STRATEGIC, debug).await;
    answer.fails(403, "Forbidden");
    let label = json!({ "metadata": { "labels": { LABEL: "allow" } } });
    house.merge(&format!("{NAMESPACES}/one"), label).await.with(200);
    house.made(pods, pod_of("y", in_env(OWNERS))).await;
}

#[tokio::test]
async fn r62i_a_name_nobody_can_write_is_warned_of() {
    let house = House::new().await;
    let item = json!({ "path": "x".repeat(256), "fieldRef": { "fieldPath": "metadata.name" } });
    let mut spec = in_file("metadata.name");
    spec["volumes"][0]["downwardAPI"]["items"] = json!([item]);
    let answer = house.post(PODS, pod_of("p", spec)).await;
    assert_eq!(answer.warnings().len(), 1);
    answer.with(201);
}

#[tokio::test]
async fn r59_the_printed_policy_is_a_good_one() {
    let house = House::new().await;
    for strict in [false, true] {
        for document in tenure_downward::policy::owner_references(strict).split("\n---\n") {
            let json =
                tenure_yaml::to_json(document.as_bytes(), tenure_yaml::YamlLimits::default())
                    .unwrap();
            let plural = match json["kind"].as_str().unwrap() {
                "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
                _ => "validatingadmissionpolicybindings",
            };
            let path = format!(
                "/apis/admissionregistration.k8s.io/v1/{plural}?fieldValidation=Strict&dryRun=All"
            );
            house.made(&path, json).await;
        }
    }
}

#[tokio::test]
async fn r62j_users_of_files_are_stored_only_with_the_feature() {
    let off = House::new().await;
    let on = off.twin(Downward { file_users: true, ..Downward::default() });
    let mut spec = in_file("metadata.name");
    spec["volumes"][0]["downwardAPI"]["defaultUser"] = 1000.into();
    spec["volumes"][0]["downwardAPI"]["items"][0]["user"] = 1001.into();
    let source = |pod: &Value| pod["spec"]["volumes"][0]["downwardAPI"].clone();
    let plain = source(&off.made(PODS, pod_of("plain", spec.clone())).await);
    assert_eq!((plain.get("defaultUser"), plain["items"][0].get("user")), (None, None));
    let kept = source(&on.made(PODS, pod_of("kept", spec)).await);
    assert_eq!((&kept["defaultUser"], &kept["items"][0]["user"]), (&json!(1000), &json!(1001)));
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let kept = source(&off.merge(&format!("{PODS}/kept"), label).await.with(200));
    assert_eq!(kept["defaultUser"], 1000);
}
