//! The nine kinds: created, tried, applied again.

use serde_json::{Value, json};

use super::{CARRIER, NATIVE, PODS, annotation, holds, pod, reading, town};
use crate::town::{JSON, Town};

/// A kind, where its objects are, and one that reads by this path.
fn kinds(path: &str) -> Vec<(&'static str, String, Value)> {
    let labels = json!({ "app": "a" });
    let template = json!({ "metadata": { "labels": labels }, "spec": reading(path) });
    let selector = json!({ "matchLabels": labels });
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let all = [
        ("Pod", "v1", "pods", json!({ "spec": reading(path) })),
        (
            "Deployment",
            "apps/v1",
            "deployments",
            json!({ "spec": { "selector": selector, "template": template } }),
        ),
        (
            "ReplicaSet",
            "apps/v1",
            "replicasets",
            json!({ "spec": { "selector": selector, "template": template } }),
        ),
        (
            "StatefulSet",
            "apps/v1",
            "statefulsets",
            json!({ "spec": { "selector": selector, "serviceName": "a", "template": template } }),
        ),
        (
            "DaemonSet",
            "apps/v1",
            "daemonsets",
            json!({ "spec": { "selector": selector, "template": template } }),
        ),
        (
            "ReplicationController",
            "v1",
            "replicationcontrollers",
            json!({ "spec": { "selector": labels, "template": template } }),
        ),
        ("Job", "batch/v1", "jobs", json!({ "spec": { "template": once } })),
        (
            "CronJob",
            "batch/v1",
            "cronjobs",
            json!({ "spec": { "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": once } } } }),
        ),
        ("PodTemplate", "v1", "podtemplates", json!({ "template": template })),
    ];
    let whole = |(kind, version, plural, mut object): (&'static str, &str, &str, Value)| {
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({ "name": kind.to_lowercase() });
        let root = if version.contains('/') { "/apis" } else { "/api" };
        (kind, format!("{root}/{version}/namespaces/default/{plural}"), object)
    };
    all.into_iter().map(whole).collect()
}

/// How often a path stands in an object.
fn count(object: &Value, path: &str) -> usize {
    match object {
        Value::Object(fields) => {
            let here = usize::from(fields.get("fieldPath").is_some_and(|found| found == path));
            here + fields.values().map(|one| count(one, path)).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|one| count(one, path)).sum(),
        _ => 0,
    }
}

/// Each of the four places reads the annotation now.
#[track_caller]
fn rewritten(kind: &str, object: &Value) {
    assert_eq!((count(object, NATIVE), count(object, CARRIER)), (0, 4), "{kind}: {object}");
}

fn revision(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_without_the_policies_the_server_refuses_the_native_path() {
    let town = Town::start().await;
    for (kind, path, object) in kinds(NATIVE) {
        let (code, said) = town.create(&path, &object).await;
        assert_eq!(code, 422, "{kind}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_nine_kinds_are_tried_and_created() {
    are_tried_and_created(&town().await).await;
}

pub(super) async fn are_tried_and_created(town: &Town) {
    for (kind, path, object) in kinds(NATIVE) {
        let (code, tried) = town.create(&format!("{path}?dryRun=All"), &object).await;
        assert_eq!(code, 201, "{kind}: {tried}");
        rewritten(kind, &tried);
        let made = town.made(&format!("{path}?fieldValidation=Strict"), &object).await;
        rewritten(kind, &made);
        let name = made["metadata"]["name"].as_str().unwrap();
        rewritten(kind, &town.get(&format!("{path}/{name}")).await);
        if kind == "Pod" {
            holds(&made);
        } else {
            assert_eq!(annotation(&made), None, "{kind}: the annotation is of pods");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_what_is_applied_again_in_either_spelling_writes_nothing() {
    applied_again_writes_nothing(&town().await).await;
}

pub(super) async fn applied_again_writes_nothing(town: &Town) {
    for (kind, path, object) in kinds(NATIVE) {
        let path = format!("{path}/{}", kind.to_lowercase());
        let (code, first) = town.apply(&path, &object).await;
        assert!(code < 300, "{kind}: {first}");
        rewritten(kind, &first);
        for again in [NATIVE, CARRIER] {
            let (_, _, object) = kinds(again).into_iter().find(|(of, ..)| *of == kind).unwrap();
            let before = town.get(&path).await;
            let (code, stored) = town.apply(&path, &object).await;
            assert!(code < 300, "{kind}: {stored}");
            rewritten(kind, &stored);
            // Controllers write statuses meanwhile.
            if matches!(kind, "Pod" | "PodTemplate") {
                assert_eq!(revision(&stored), revision(&before), "{kind}");
            }
            assert_eq!(stored["metadata"]["generation"], first["metadata"]["generation"], "{kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_a_job_is_sent_again_in_the_native_spelling_though_it_cannot_change() {
    a_job_is_sent_again(&town().await).await;
}

pub(super) async fn a_job_is_sent_again(town: &Town) {
    let (_, path, object) = kinds(NATIVE).into_iter().find(|(kind, ..)| *kind == "Job").unwrap();
    let mut made = town.made(&path, &object).await;
    made["spec"]["template"]["spec"]["containers"][1]["env"][1]["valueFrom"]["fieldRef"]["fieldPath"] =
        NATIVE.into();
    made["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let (code, sent) = town.send("PUT", &format!("{path}/job"), JSON, &made).await;
    assert_eq!(code, 200, "{sent}");
    rewritten("Job", &sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_pods_of_a_job_and_of_a_replica_set_name_their_owner() {
    let town = town().await;
    for (kind, path, object) in kinds(NATIVE) {
        if !matches!(kind, "Job" | "Deployment") {
            continue;
        }
        town.made(&path, &object).await;
        let owner = if kind == "Job" { "Job" } else { "ReplicaSet" };
        let is_made = |list: &Value| list["items"][0]["metadata"].is_object();
        let list = town.until(PODS, "a pod", is_made).await;
        let made = &list["items"][0];
        assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], owner);
        holds(made);
        rewritten(kind, made);
        let (code, said) = town
            .send(
                "DELETE",
                &format!("{path}/{}", kind.to_lowercase()),
                JSON,
                &json!({ "propagationPolicy": "Foreground" }),
            )
            .await;
        assert!(code < 300, "{said}");
        town.until(PODS, "no pod", |list| list["items"][0].is_null()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a51_pods_that_do_not_ask_are_not_touched() {
    let town = town().await;
    let plain = json!({ "containers": [{ "name": "a", "image": "x", "env": [
        { "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
    ] }] });
    let made = town.made(PODS, &pod("plain", &plain)).await;
    assert_eq!(made["metadata"].get("annotations"), None);
    // What nobody reads, nobody may claim either.
    let mut claiming = pod("claiming", &plain);
    claiming["metadata"]["annotations"] =
        json!({ "tenure.dev/owner-references": "mine", "other": "stays" });
    let made = town.made(PODS, &claiming).await;
    assert_eq!(made["metadata"]["annotations"], json!({ "other": "stays" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a51_ten_thousand_variables_are_within_what_may_be_spent() {
    let town = town().await;
    let mut spec = reading(NATIVE);
    let many = (0..10_000).map(|n| json!({ "name": format!("V{n}"), "value": "" }));
    let env = spec["containers"][1]["env"].as_array_mut().unwrap();
    env.extend(many);
    let made = town.made(PODS, &pod("many", &spec)).await;
    rewritten("Pod", &made);
    holds(&made);
}
