//! Rules of spec/api-server.md: status, scale, bindings and evictions.

use serde_json::{Value, json};

use crate::house::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn status_of(path: &str) -> String {
    format!("{path}/status")
}

/// A pod on a node whose status says that it runs.
async fn running(house: &House, name: &str) -> String {
    let path = house.bound(pod(name)).await;
    house
        .merge(
            &status_of(&path),
            json!({ "status": {
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
    } }),
        )
        .await
        .with(200);
    path
}

#[tokio::test]
async fn r81_a_status_write_takes_the_status_only() {
    let house = House::new().await;
    let made = house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let mut body = made.clone();
    body["spec"]["replicas"] = json!(9);
    body["status"] = json!({ "replicas": 3 });
    let new = house.put(&status_of(&path), body).await.with(200);
    assert_eq!((&new["spec"]["replicas"], &new["status"]["replicas"]), (&json!(1), &json!(3)));
    for (media, patch) in [
        (MERGE, json!({ "spec": { "replicas": 9 }, "status": { "replicas": 4 } })),
        (STRATEGIC, json!({ "spec": { "replicas": 9 }, "status": { "replicas": 5 } })),
        (
            JSON_PATCH,
            json!([
                { "op": "replace", "path": "/spec/replicas", "value": 9 },
                { "op": "replace", "path": "/status/replicas", "value": 6 },
            ]),
        ),
    ] {
        let new = house.patch(&status_of(&path), media, patch).await.with(200);
        assert_eq!(new["spec"]["replicas"], 1, "{media}");
    }
    let live = house.get(&status_of(&path)).await.with(200);
    assert_eq!((&live["kind"], &live["status"]["replicas"]), (&json!("Deployment"), &json!(6)));
    // The main endpoint keeps it, on create it is wiped.
    let kept = house
        .merge(&path, json!({ "status": { "replicas": 7 }, "spec": { "replicas": 2 } }))
        .await
        .with(200);
    assert_eq!(kept["status"]["replicas"], 6);
    let mut body = deployment("e");
    body["status"] = json!({ "replicas": 7 });
    assert_eq!(house.made(DEPLOYMENTS, body).await["status"].get("replicas"), None);
    house.put(&status_of(&path), made).await.fails(409, "Conflict");
    house.merge(&format!("{DEPLOYMENTS}/none/status"), json!({})).await.fails(404, "NotFound");
    house.get(&format!("{CONFIG_MAPS}/kube-root-ca.crt/status")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r81_metadata_in_a_status_write_differs_by_kind() {
    let house = House::new().await;
    let metadata = json!({ "metadata": {
        "labels": { "l": "1" }, "annotations": { "a": "1" }, "finalizers": ["example.com/f"],
        "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "u" }],
        "generation": 77,
    } });
    house.made(PODS, pod("p")).await;
    let new = house.merge(&format!("{PODS}/p/status"), metadata.clone()).await.with(200);
    assert_eq!(new["metadata"]["labels"], json!({ "app": "a", "l": "1" }));
    assert_eq!(new["metadata"]["annotations"], json!({ "a": "1" }));
    assert_eq!(new["metadata"]["finalizers"], json!(["example.com/f"]));
    assert_eq!(new["metadata"].get("ownerReferences"), None);
    assert_eq!(new["metadata"]["generation"], 1);
    house.made(DEPLOYMENTS, deployment("d")).await;
    let new = house.merge(&format!("{DEPLOYMENTS}/d/status"), metadata).await.with(200);
    assert_eq!(new["metadata"].get("labels"), None);
    assert_eq!(new["metadata"]["generation"], 1);
}

#[tokio::test]
async fn r81_odd_status_bodies_are_refused_and_break_nothing() {
    let house = House::new().await;
    house.made(PODS, pod("p")).await;
    let path = format!("{PODS}/p/status");
    for (patch, code) in [
        (json!({ "status": [] }), 422),
        (json!({ "status": "x" }), 422),
        (json!({ "status": { "phase": 5 } }), 422),
        (json!({ "status": { "conditions": {} } }), 422),
        (json!({ "status": { "conditions": [null] } }), 422),
        (json!({ "status": { "conditions": [{ "type": 5 }] } }), 422),
        (json!({ "status": { "startTime": "soon" } }), 422),
        (json!({ "status": { "containerStatuses": [{ "restartCount": 1e20 }] } }), 422),
        (json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } }), 422),
        (json!({ "metadata": { "finalizers": ["plain"] } }), 422),
        (json!({ "metadata": { "name": "q" } }), 400),
        (json!({ "status": null }), 200),
        (json!({ "status": { "conditions": null } }), 200),
    ] {
        let answer = house.merge(&path, patch.clone()).await;
        assert_eq!(answer.code, code, "{patch}: {}", answer.text());
        house.merge(&path, json!({ "status": { "message": "still here" } })).await.with(200);
    }
    for body in ["", "null", "[]", "1", "{}", r#"{"metadata":{"name":"p"},"status":[]}"#] {
        let answer = house.ask("PUT", &path, &[("content-type", JSON)], body).await;
        answer.fails(400, "BadRequest");
    }
}

#[tokio::test]
async fn r82_a_scale_shows_and_sets_the_replicas() {
    let house = House::new().await;
    let mut body = deployment("d");
    body["spec"]["selector"]["matchExpressions"] = json!([
        { "key": "app", "operator": "In", "values": ["b", "a"] }, { "key": "z", "operator": "DoesNotExist" },
    ]);
    let made = house.made(DEPLOYMENTS, body).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = house.get(&path).await.with(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        assert_eq!(scale["metadata"][member], made["metadata"][member]);
    }
    assert_eq!(scale["spec"], json!({ "replicas": 1 }));
    assert_eq!(scale["status"], json!({ "replicas": 0, "selector": "app=a,app in (a,b),!z" }));
    let mut body = scale.clone();
    body["spec"]["replicas"] = json!(0);
    body["status"]["replicas"] = json!(7);
    let new = house.put(&path, body).await.with(200);
    assert_eq!((&new["spec"], &new["status"]["replicas"]), (&json!({}), &json!(0)));
    let parent = house.get(&format!("{DEPLOYMENTS}/d")).await.with(200);
    assert_eq!(
        (&parent["spec"]["replicas"], &parent["metadata"]["generation"]),
        (&json!(0), &json!(2))
    );
    // The version is the parent's, and the old one is stale by now.
    house.put(&path, scale).await.fails(409, "Conflict");
    for (media, patch) in [
        (MERGE, json!({ "spec": { "replicas": 3 } })),
        (STRATEGIC, json!({ "spec": { "replicas": 3 } })),
        (JSON_PATCH, json!([{ "op": "test", "path": "/spec/replicas", "value": 3 }])),
    ] {
        assert_eq!(house.patch(&path, media, patch).await.with(200)["spec"]["replicas"], 3);
    }
    let dry = house
        .merge(&format!("{path}?dryRun=All"), json!({ "spec": { "replicas": 9 } }))
        .await
        .with(200);
    assert_eq!(dry["spec"]["replicas"], 9);
    assert_eq!(house.get(&path).await.with(200)["spec"]["replicas"], 3);
}

/// Ansible's `k8s_scale` sends the parent's kind.
#[tokio::test]
async fn r82_a_strategic_patch_of_a_scale_may_call_itself_anything() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let patch = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": { "name": "d", "namespace": "default" }, "spec": { "replicas": 5 },
    });
    let scale = house.patch(&path, STRATEGIC, patch.clone()).await.with(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    // A merge patch makes a Deployment of it, which is none.
    house.merge(&path, patch).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r82_odd_scales_are_refused() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let before = house.revision();
    let put = |spec: Value| json!({ "metadata": { "name": "d" }, "spec": spec });
    for (body, code) in [
        (json!({}), 400),
        (json!(null), 400),
        (json!([]), 400),
        (put(json!("x")), 400),
        (put(json!({ "replicas": "3" })), 400),
        (put(json!({ "replicas": 1.5 })), 400),
        (put(json!({ "replicas": 99_999_999_999_i64 })), 400),
        (put(json!({ "replicas": -1 })), 422),
        (json!({ "metadata": { "name": "e" }, "spec": { "replicas": 3 } }), 400),
        (
            json!({ "kind": "Deployment", "metadata": { "name": "d" }, "spec": { "replicas": 3 } }),
            400,
        ),
    ] {
        let answer = house.put(&path, body.clone()).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text());
    }
    for (media, patch, code) in [
        (MERGE, json!(null), 400),
        (MERGE, json!({ "metadata": "x" }), 422),
        (MERGE, json!({ "metadata": { "name": "z" } }), 400),
        (MERGE, json!({ "spec": { "replicas": "3" } }), 422),
        (MERGE, json!({ "spec": { "replicas": -1 } }), 422),
        (MERGE, json!({ "kind": "Deployment" }), 422),
        (JSON_PATCH, json!([{ "op": "test", "path": "/spec/replicas", "value": 77 }]), 422),
        (JSON_PATCH, json!([{ "op": "remove", "path": "/nope" }]), 422),
        (JSON_PATCH, json!({}), 400),
        (JSON, json!({}), 415),
    ] {
        let answer = house.patch(&path, media, patch.clone()).await;
        assert_eq!(answer.code, code, "{patch}: {}", answer.text());
    }
    let status = house.merge(&path, json!({ "spec": { "replicas": -1 } })).await.json;
    assert_eq!(
        (fields(&status), &status["details"]["kind"]),
        (vec!["spec.replicas"], &json!("Scale"))
    );
    house.get(&format!("{DEPLOYMENTS}/none/scale")).await.fails(404, "NotFound");
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r141_a_binding_puts_a_pod_on_a_node_once() {
    let house = House::new().await;
    house.made(PODS, pod("p")).await;
    let path = format!("{PODS}/p/binding");
    let body = json!({
        "metadata": { "name": "p", "annotations": { "x": "y" } }, "target": { "kind": "Node", "name": "n" },
    });
    house.made(&format!("{path}?dryRun=All"), body.clone()).await;
    assert_eq!(house.get(&format!("{PODS}/p")).await.with(200)["spec"].get("nodeName"), None);
    let status = house.made(&path, body.clone()).await;
    assert_eq!(
        (&status["kind"], &status["status"], &status["code"]),
        (&json!("Status"), &json!("Success"), &json!(201))
    );
    let live = house.get(&format!("{PODS}/p")).await.with(200);
    assert_eq!(live["spec"]["nodeName"], "n");
    assert_eq!(live["metadata"]["annotations"], json!({ "x": "y" }));
    let condition = &live["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
    house.post(&path, body).await.fails(409, "Conflict");
    // The collection of bindings is the same thing by the name in the body.
    house.made(PODS, pod("q")).await;
    let body = json!({ "metadata": { "name": "q" }, "target": { "name": "n" } });
    house.made("/api/v1/namespaces/default/bindings", body).await;
    assert_eq!(house.get(&format!("{PODS}/q")).await.with(200)["spec"]["nodeName"], "n");
}

#[tokio::test]
async fn r141_pods_that_go_or_wait_are_not_bound() {
    let house = House::new().await;
    let bind = |name: &str| format!("{PODS}/{name}/binding");
    let node = json!({ "target": { "name": "n" } });
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
    house.made(PODS, gated).await;
    house.post(&bind("gated"), node.clone()).await.fails(409, "Conflict");
    let mut going = pod("going");
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(PODS, going).await;
    house.delete(&format!("{PODS}/going")).await.with(200);
    house.post(&bind("going"), node.clone()).await.fails(409, "Conflict");
    house.post(&bind("none"), node).await.fails(404, "NotFound");
    house.made(PODS, pod("p")).await;
    let before = house.revision();
    for body in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "target": "n" }),
        json!({ "target": { "name": 5 } }),
        json!({ "target": { "name": "bad/../name" } }),
        json!({ "target": { "name": "n" }, "metadata": { "name": "q" } }),
        json!({ "target": { "name": "n" }, "metadata": { "annotations": { "a": 1 } } }),
        json!({ "kind": "Pod", "target": { "name": "n" } }),
    ] {
        house.post(&bind("p"), body).await.fails(400, "BadRequest");
    }
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r141_a_binding_writes_what_an_update_could() {
    let house = House::new().await;
    house.made(PODS, pod("p")).await;
    let made = house.get(&format!("{PODS}/p")).await.with(200);
    let path = format!("{PODS}/p/binding");
    let before = house.revision();
    let long = "x".repeat(300 * 1024);
    for (metadata, kind, code) in [
        (json!({ "annotations": { "bad key!!": "x" } }), "Node", 400),
        (json!({ "annotations": { "big": long } }), "Node", 400),
        (json!({ "annotations": { "kubernetes.io/config.mirror": "x" } }), "Node", 400),
        (json!({ "labels": { "a b": "x" } }), "Node", 400),
        (json!({ "labels": { "a": "not a value" } }), "Node", 400),
        (json!({}), "Pod", 400),
        (json!({ "uid": "another" }), "Node", 409),
        (json!({ "resourceVersion": "1" }), "Node", 409),
    ] {
        let body = json!({ "metadata": metadata, "target": { "kind": kind, "name": "n" } });
        for dry in ["?dryRun=All", ""] {
            let answer = house.post(&format!("{path}{dry}"), body.clone()).await;
            assert_eq!(answer.code, code, "{body}: {}", answer.text());
        }
        let mut named = body;
        named["metadata"]["name"] = json!("p");
        let answer = house.post("/api/v1/namespaces/default/bindings", named).await;
        assert_eq!(answer.code, code, "{}", answer.text());
    }
    assert_eq!(house.revision(), before);
    let metadata = json!({
        "uid": made["metadata"]["uid"], "resourceVersion": version(&made),
        "labels": { "zone": "z" }, "annotations": { "example.com/a": "b" },
    });
    house.made(&path, json!({ "metadata": metadata, "target": { "name": "n" } })).await;
    let live = house.get(&format!("{PODS}/p")).await.with(200);
    assert_eq!(live["metadata"]["labels"], json!({ "app": "a", "zone": "z" }));
    assert_eq!(live["metadata"]["annotations"], json!({ "example.com/a": "b" }));
}

#[tokio::test]
async fn r142_an_eviction_spends_the_budget() {
    let house = House::new().await;
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    house.made(BUDGETS, budget.clone()).await;
    let (one, two) = (running(&house, "p1").await, running(&house, "p2").await);
    let status =
        house.post(&format!("{one}/eviction"), json!({})).await.fails(429, "TooManyRequests");
    assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(status["details"]["retryAfterSeconds"], 10, "nobody has looked at the budget yet");
    assert_eq!(
        status["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    let allowed = json!({ "status": {
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1,
    } });
    house.merge(&format!("{BUDGETS}/b/status"), allowed).await.with(200);
    house.made(&format!("{one}/eviction?dryRun=All"), json!({})).await;
    let path = format!("{BUDGETS}/b");
    assert_eq!(house.get(&path).await.with(200)["status"]["disruptionsAllowed"], 1);
    let done = house.made(&format!("{one}/eviction"), json!({})).await;
    assert_eq!((&done["status"], &done["code"]), (&json!("Success"), &json!(201)));
    let after = house.get(&path).await.with(200);
    assert_eq!(after["status"]["disruptionsAllowed"], 0);
    assert!(after["status"]["disruptedPods"]["p1"].is_string());
    let condition = &after["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("False"), &json!("InsufficientPods"))
    );
    assert!(house.get(&one).await.with(200)["metadata"]["deletionTimestamp"].is_string());
    house.post(&format!("{two}/eviction"), json!({})).await.fails(429, "TooManyRequests");
    // Two budgets for one pod cannot be settled.
    let mut second = budget;
    second["metadata"]["name"] = json!("c");
    house.made(BUDGETS, second).await;
    let unsettled = house.made(&format!("{two}/eviction"), json!({})).await;
    assert_eq!((&unsettled["status"], &unsettled["code"]), (&json!("Failure"), &json!(500)));
    assert_eq!(unsettled.get("reason"), None);
    let left = house.get(&two).await.with(200);
    assert!(left["metadata"].get("deletionTimestamp").is_none(), "nobody decided");
    // A pod that runs nowhere needs no budget.
    house.made(PODS, pod("pending")).await;
    house.made(&format!("{PODS}/pending/eviction"), json!({})).await;
    house.get(&format!("{PODS}/pending")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r142_a_budget_waits_for_evictions_that_nobody_has_confirmed() {
    let house = House::new().await;
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    house.made(BUDGETS, budget).await;
    let path = running(&house, "p").await;
    let going = |count: usize| {
        let pods: serde_json::Map<String, Value> =
            (0..count).map(|n| (format!("p{n}"), json!("2024-01-02T03:04:05Z"))).collect();
        json!({ "status": { "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1,
                            "expectedPods": 2, "observedGeneration": 1, "disruptedPods": pods } })
    };
    house.merge(&format!("{BUDGETS}/b/status"), going(2001)).await.with(200);
    let status = house.post(&format!("{path}/eviction"), json!({})).await.fails(403, "Forbidden");
    assert_eq!(status["details"]["kind"], "poddisruptionbudget");
    assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    let one_less = json!({ "status": { "disruptedPods": { "p0": null } } });
    house.merge(&format!("{BUDGETS}/b/status"), one_less).await.with(200);
    house.made(&format!("{path}/eviction"), json!({})).await;
}

#[tokio::test]
async fn r142_an_unready_pod_goes_where_enough_others_are_healthy() {
    let house = House::new().await;
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    house.made(BUDGETS, budget).await;
    let path = running(&house, "p").await;
    let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    house.merge(&format!("{path}/status"), unready).await.with(200);
    let counts = |healthy: i64| {
        json!({ "status": { "disruptionsAllowed": 0, "currentHealthy": healthy,
                            "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1 } })
    };
    house.merge(&format!("{BUDGETS}/b/status"), counts(0)).await.with(200);
    house.post(&format!("{path}/eviction"), json!({})).await.fails(429, "TooManyRequests");
    house.merge(&format!("{BUDGETS}/b/status"), counts(1)).await.with(200);
    house.made(&format!("{path}/eviction"), json!({})).await;
    let gone = house.get(&path).await.with(200);
    let why = gone["status"]["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(why["reason"], "EvictionByEvictionAPI");
    let live = house.get(&format!("{BUDGETS}/b")).await.with(200);
    assert!(live["status"].get("disruptedPods").is_none(), "nothing was spent");
}

#[tokio::test]
async fn r142_an_eviction_honours_its_options() {
    let house = House::new().await;
    let path = running(&house, "p").await;
    let evict = format!("{path}/eviction");
    let before = house.revision();
    for (body, code) in [
        (json!(null), 400),
        (json!([]), 400),
        (json!({ "kind": "Pod" }), 400),
        (json!({ "deleteOptions": "x" }), 400),
        (json!({ "deleteOptions": { "gracePeriodSeconds": "x" } }), 400),
        (json!({ "deleteOptions": { "preconditions": { "uid": "another" } } }), 409),
        (json!({ "deleteOptions": { "dryRun": ["All"] } }), 201),
    ] {
        let answer = house.post(&evict, body.clone()).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.text());
    }
    assert_eq!(house.revision(), before);
    let body = json!({ "apiVersion": "policy/v1beta1", "kind": "Eviction", "deleteOptions": { "gracePeriodSeconds": 7 } });
    house.made(&evict, body).await;
    assert_eq!(house.get(&path).await.with(200)["metadata"]["deletionGracePeriodSeconds"], 7);
    house.post(&format!("{PODS}/none/eviction"), json!({})).await.fails(404, "NotFound");
    // What is posted to a pod says its name, in its namespace and in a version that there is.
    let (evict, bind) = (format!("{PODS}/none/eviction"), format!("{PODS}/none/binding"));
    for (path, body) in [
        (&evict, json!({})),
        (&evict, json!({ "metadata": { "name": "other" } })),
        (&evict, json!({ "metadata": { "name": "none", "namespace": "other" } })),
        (&evict, json!({ "apiVersion": "v1", "metadata": { "name": "none" } })),
        (&bind, json!({ "target": { "name": "n" } })),
        (&bind, json!({ "apiVersion": "v2", "metadata": { "name": "none" } })),
    ] {
        let answer = house.ask("POST", path, &[("content-type", JSON)], body.to_string()).await;
        answer.fails(400, "BadRequest");
    }
    let unknown = json!({ "metadata": { "name": "none" }, "much": 1 });
    let strict = format!("{evict}?fieldValidation=Strict");
    house.post(&strict, unknown.clone()).await.fails(400, "BadRequest");
    let told = house.post(&evict, unknown).await;
    assert_eq!(told.header("warning"), "299 - \"unknown field \\\"much\\\"\"");
}
