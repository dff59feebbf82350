//! Rules of spec/api-server.md: deletion, its options, grace and what it answers.

use serde_json::{Value, json};

use crate::house::*;

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

#[tokio::test]
async fn r36_deletes_answer_a_status_or_the_object_by_kind() {
    let house = House::new().await;
    let service = json!({ "metadata": { "name": "a" }, "spec": { "ports": [{ "port": 80 }] } });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let class = json!({ "metadata": { "name": "a" }, "provisioner": "example.com/p" });
    for (collection, body, kind) in [
        (CONFIG_MAPS, named("a"), "Status"),
        (SECRETS, named("a"), "Status"),
        (DEPLOYMENTS, deployment("a"), "Status"),
        (PODS, pod("a"), "Pod"),
        (SERVICES, service, "Service"),
        (accounts, named("a"), "ServiceAccount"),
        (classes, class, "StorageClass"),
    ] {
        let made = house.made(collection, body).await;
        let path = format!("{collection}/a");
        let answer = house.delete(&path).await.with(200);
        assert_eq!(answer["kind"], kind, "{collection}");
        if kind == "Status" {
            assert_eq!(answer["status"], "Success");
            assert_eq!(answer["details"]["name"], "a");
            assert_eq!(answer["details"]["kind"], collection.rsplit('/').next().unwrap());
            assert_eq!(answer["details"]["uid"], made["metadata"]["uid"]);
        } else {
            assert_eq!(answer["metadata"]["uid"], made["metadata"]["uid"]);
        }
        house.get(&path).await.fails(404, "NotFound");
        house.delete(&path).await.fails(404, "NotFound");
    }
    let gone = house.delete(&format!("{DEPLOYMENTS}/a")).await.fails(404, "NotFound");
    assert_eq!(gone["details"], json!({ "name": "a", "group": "apps", "kind": "deployments" }));
}

#[tokio::test]
async fn r69_preconditions_are_kept() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    for condition in [json!({ "uid": "another" }), json!({ "resourceVersion": "1" })] {
        let status = house
            .delete_with(&a(), json!({ "preconditions": condition }))
            .await
            .fails(409, "Conflict");
        assert_eq!(status["details"]["kind"], "ConfigMap");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("Precondition failed: "), "{message}");
    }
    // A condition that cannot be read must not count as none.
    for condition in [json!({ "uid": 5 }), json!({ "resourceVersion": 7 }), json!([]), json!("x")] {
        house
            .delete_with(&a(), json!({ "preconditions": condition }))
            .await
            .fails(400, "BadRequest");
    }
    let right = json!({ "uid": made["metadata"]["uid"], "resourceVersion": version(&made) });
    house.delete_with(&a(), json!({ "preconditions": right })).await.with(200);
}

#[tokio::test]
async fn r70_a_dry_run_delete_keeps_the_object() {
    let house = House::new().await;
    house.config_map("a").await;
    house.made(CONFIG_MAPS, held("h")).await;
    let before = house.revision();
    house.delete(&format!("{}?dryRun=All", a())).await.with(200);
    house.delete_with(&a(), json!({ "dryRun": ["All"] })).await.with(200);
    let marked = house.delete(&format!("{CONFIG_MAPS}/h?dryRun=All")).await.with(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    house.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.with(200);
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r71_options_come_from_the_body_or_the_query() {
    let house = House::new().await;
    house.config_map("a").await;
    let wrong = json!({ "preconditions": { "uid": "another" } });
    house.delete_with(&a(), wrong).await.fails(409, "Conflict");
    let yaml = "apiVersion: v1\nkind: DeleteOptions\npreconditions: {uid: another}\n";
    let answer = house.ask("DELETE", &a(), &[("content-type", "application/yaml")], yaml).await;
    answer.fails(409, "Conflict");
    // A body, even an empty object, hides the query.
    let path = format!("{}?dryRun=All", a());
    house.delete(&path).await.with(200);
    house.get(&a()).await.with(200);
    house.delete_with(&path, json!({})).await.with(200);
    house.get(&a()).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r71_null_is_options_that_say_nothing() {
    let house = House::new().await;
    house.config_map("a").await;
    // Like any body it hides the query.
    house.delete_with(&format!("{}?dryRun=All", a()), json!(null)).await.with(200);
    house.get(&a()).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r69_preconditions_are_looked_at_before_admission() {
    let house = House::new().await;
    let options = json!({ "preconditions": { "uid": "another" } });
    let path = format!("{NAMESPACES}/kube-system");
    house.delete_with(&path, options).await.fails(409, "Conflict");
    house.delete(&path).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn r71_options_that_cannot_be_read_keep_the_object() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    for (options, code) in [
        (json!([]), 400),
        (json!("x"), 400),
        (json!({ "dryRun": "All" }), 400),
        (json!({ "dryRun": [1] }), 400),
        (json!({ "dryRun": ["All", 1] }), 400),
        (json!({ "gracePeriodSeconds": 1.5 }), 400),
        (json!({ "gracePeriodSeconds": "5" }), 400),
        (json!({ "orphanDependents": "x" }), 400),
        (json!({ "propagationPolicy": 5 }), 400),
        (json!({ "kind": "Pod" }), 400),
        (json!({ "kind": 1 }), 400),
        (json!({ "dryRun": ["Some"] }), 422),
        (json!({ "propagationPolicy": "Sometimes" }), 422),
        (json!({ "propagationPolicy": "" }), 422),
        (json!({ "propagationPolicy": "Orphan", "orphanDependents": true }), 422),
    ] {
        let answer = house.delete_with(&a(), options.clone()).await;
        assert_eq!(answer.code, code, "{options}: {}", answer.text());
        if code == 422 {
            let details = &answer.json["details"];
            assert_eq!(
                (&details["group"], &details["kind"]),
                (&json!("meta.k8s.io"), &json!("DeleteOptions"))
            );
        }
    }
    for query in ["gracePeriodSeconds=abc", "propagationPolicy=No", "dryRun=Some", "timeout=soon"] {
        let answer = house.delete(&format!("{}?{query}", a())).await;
        assert!(matches!(answer.code, 400 | 422), "{query}: {}", answer.text());
    }
    let answer = house.ask("DELETE", &a(), &[("content-type", "text/plain")], "{}").await;
    assert_eq!(answer.code, 415);
    assert_eq!(version(&house.get(&a()).await.with(200)), version(&made));
}

#[tokio::test]
async fn r72_finalizers_decide_between_removal_and_mark() {
    let house = House::new().await;
    let start = house.revision();
    let mut watch = house.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
    house.config_map("a").await;
    house.delete(&a()).await.with(200);
    house.made(CONFIG_MAPS, held("h")).await;
    let marked = house.delete(&format!("{CONFIG_MAPS}/h")).await.with(200);
    assert_eq!(marked["kind"], "ConfigMap");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    watch.expect(&["ADDED a", "DELETED a", "ADDED h", "MODIFIED h"]).await;
    // The mark counts as a change of the spec.
    let mut body = deployment("d");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(DEPLOYMENTS, body).await;
    let marked = house.delete(&format!("{DEPLOYMENTS}/d")).await.with(200);
    assert_eq!(marked["metadata"]["generation"], 2);
}

#[tokio::test]
async fn r73_the_last_finalizer_takes_the_object_along() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("h")).await;
    let path = format!("{CONFIG_MAPS}/h");
    let marked = house.delete(&path).await.with(200);
    let mut watch =
        house.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&marked))).await;
    let last = house
        .merge(&path, json!({ "metadata": { "finalizers": null }, "data": { "k": "v" } }))
        .await
        .with(200);
    assert_eq!(last["data"]["k"], "v");
    house.get(&path).await.fails(404, "NotFound");
    let event = watch.next().await.unwrap();
    assert_eq!(brief(&event), "DELETED h");
    assert_eq!(version(&event["object"]), house.revision().to_string());
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn r74_a_second_delete_changes_nothing_more() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("h")).await;
    let path = format!("{CONFIG_MAPS}/h");
    let first = house.delete(&path).await.with(200);
    let second = house.delete(&path).await.with(200);
    assert_eq!(version(&first), version(&second));
    let pod = house.bound(pod("p")).await;
    let first = house.delete(&format!("{pod}?gracePeriodSeconds=20")).await.with(200);
    let longer = house.delete(&format!("{pod}?gracePeriodSeconds=60")).await.with(200);
    assert_eq!(version(&first), version(&longer));
    let shorter = house.delete(&format!("{pod}?gracePeriodSeconds=5")).await.with(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert!(
        shorter["metadata"]["deletionTimestamp"].as_str()
            < first["metadata"]["deletionTimestamp"].as_str()
    );
    assert_eq!(shorter["metadata"]["generation"], first["metadata"]["generation"]);
}

#[tokio::test]
async fn r75_pods_get_their_grace() {
    let house = House::new().await;
    for (at, (query, grace)) in [
        ("", json!(30)),
        ("?gracePeriodSeconds=7", json!(7)),
        ("?gracePeriodSeconds=-5", json!(1)),
        ("?gracePeriodSeconds=9223372036854775807", json!(i64::MAX)),
        ("?gracePeriodSeconds=0", Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let path = house.bound(pod(&format!("p{at}"))).await;
        let answer = house.delete(&format!("{path}{query}")).await.with(200);
        if grace.is_null() {
            house.get(&path).await.fails(404, "NotFound");
            continue;
        }
        assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], grace, "{query}");
        assert_eq!(answer["metadata"]["generation"], 2);
        // The object stays until the node lets go of it.
        house.get(&path).await.with(200);
        house.delete(&format!("{path}?gracePeriodSeconds=0")).await.with(200);
        house.get(&path).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn r75_pods_that_run_nowhere_go_at_once() {
    let house = House::new().await;
    house.made(PODS, pod("pending")).await;
    house.delete(&format!("{PODS}/pending?gracePeriodSeconds=60")).await.with(200);
    house.get(&format!("{PODS}/pending")).await.fails(404, "NotFound");
    for phase in ["Succeeded", "Failed"] {
        let path = house.bound(pod(&phase.to_lowercase())).await;
        house
            .merge(&format!("{path}/status"), json!({ "status": { "phase": phase } }))
            .await
            .with(200);
        house.delete(&path).await.with(200);
        house.get(&path).await.fails(404, "NotFound");
    }
    // Grace that is over does not remove a pod that is held.
    let path = house.bound(pod("held")).await;
    house
        .merge(&path, json!({ "metadata": { "finalizers": ["example.com/hold"] } }))
        .await
        .with(200);
    house.delete(&format!("{path}?gracePeriodSeconds=0")).await.with(200);
    house.get(&path).await.with(200);
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r77_a_collection_is_deleted_by_selector() {
    let house = House::new().await;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        house.made(CONFIG_MAPS, labelled(name, json!({ "app": app }))).await;
    }
    let mut held = held("h");
    held["metadata"]["labels"] = json!({ "app": "x" });
    house.made(CONFIG_MAPS, held).await;
    let list = house.delete(&format!("{CONFIG_MAPS}?labelSelector=app%3Dx")).await.with(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(names(&list), ["a", "b", "h"]);
    let left = house.get(CONFIG_MAPS).await.with(200);
    assert_eq!(names(&left), ["c", "h", "kube-root-ca.crt"]);
    assert!(left["items"][1]["metadata"]["deletionTimestamp"].is_string());
    house.delete(&format!("{CONFIG_MAPS}?labelSelector=a%20in%20(")).await.fails(400, "BadRequest");
    house
        .delete_with(CONFIG_MAPS, json!({ "propagationPolicy": "No" }))
        .await
        .fails(422, "Invalid");
    let list = house.delete(&format!("{CONFIG_MAPS}?limit=1")).await.with(200);
    assert_eq!(names(&list), ["c"]);
    house.get(&format!("{CONFIG_MAPS}/h")).await.with(200);
    house.delete(NAMESPACES).await.fails(405, "MethodNotAllowed");
}
