//! Rules of spec/ownership.md: finalizers, marked objects and namespaces. No collector runs here.

use serde_json::json;

use crate::house::*;

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

#[tokio::test]
async fn r69_r71_finalizers_are_qualified_and_exclude_each_other() {
    let house = House::new().await;
    for (finalizers, field) in [
        (json!(["hold"]), "metadata.finalizers[0]"),
        (json!(["example.com/a b"]), "metadata.finalizers"),
        (json!(["orphan", "foregroundDeletion"]), "metadata.finalizers"),
        (json!(["foregroundDeletion", "a/b", "orphan"]), "metadata.finalizers"),
    ] {
        let body = json!({ "metadata": { "name": "a", "finalizers": finalizers } });
        let status = house.post(CONFIG_MAPS, body.clone()).await.fails(422, "Invalid");
        assert_eq!(fields(&status), [field]);
        house.config_map("a").await;
        let status = house.merge(&a(), body).await.fails(422, "Invalid");
        assert_eq!(fields(&status), [field]);
        house.delete(&a()).await.with(200);
    }
    house
        .made(
            CONFIG_MAPS,
            json!({ "metadata": { "name": "a", "finalizers": ["kubernetes", "a/b", "a/b"] } }),
        )
        .await;
}

#[tokio::test]
async fn r72_r73_nothing_holds_a_going_object_anew() {
    let house = House::new().await;
    house
        .made(CONFIG_MAPS, json!({ "metadata": { "name": "a", "finalizers": ["a/b", "a/c"] } }))
        .await;
    house.delete(&a()).await.with(200);
    for (finalizers, code) in [
        (json!(["a/b", "a/c", "a/d"]), 422),
        (json!(["a/b", "a/d"]), 422),
        (json!(["a/b", "a/c", "orphan"]), 422),
        (json!(["a/b", "a/c", "foregroundDeletion"]), 422),
        (json!(["a/c", "a/b"]), 200),
        (json!(["a/c"]), 200),
        (json!(["a/c", "a/b"]), 422),
    ] {
        let patch = json!({ "metadata": { "name": "a", "finalizers": finalizers } });
        let operation =
            json!([{ "op": "replace", "path": "/metadata/finalizers", "value": finalizers }]);
        for answer in [
            house.put(&a(), patch.clone()).await,
            house.merge(&a(), patch).await,
            house.patch(&a(), JSON_PATCH, operation).await,
        ] {
            assert_eq!(answer.code, code, "{finalizers}: {}", answer.text());
            if code == 422 {
                let cause = &answer.json["details"]["causes"][0];
                assert_eq!(
                    (&cause["field"], &cause["reason"]),
                    (&json!("metadata.finalizers"), &json!("FieldValueForbidden"))
                );
            }
        }
    }
}

#[tokio::test]
async fn r74_r78_clients_neither_set_nor_clear_the_mark() {
    let house = House::new().await;
    let mark = json!({
        "name": "a", "finalizers": ["a/b"],
        "deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
    });
    let made = house.made(CONFIG_MAPS, json!({ "metadata": mark })).await;
    assert_eq!(made["metadata"].get("deletionTimestamp"), None);
    assert_eq!(made["metadata"].get("deletionGracePeriodSeconds"), None);
    house
        .merge(&a(), json!({ "metadata": { "deletionTimestamp": "2030-01-01T00:00:00Z" } }))
        .await
        .fails(422, "Invalid");
    let marked = house.delete(&a()).await.with(200);
    let time = &marked["metadata"]["deletionTimestamp"];
    let plain = json!({ "metadata": { "name": "a", "finalizers": ["a/b"] }, "data": { "k": "1" } });
    for (at, patch) in [
        json!({ "metadata": { "deletionTimestamp": null, "deletionGracePeriodSeconds": null } }),
        json!({ "metadata": { "deletionTimestamp": "2030-01-01T00:00:00Z" } }),
        json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut patch = patch;
        patch["data"] = json!({ "k": format!("m{at}") });
        let live = house.merge(&a(), patch).await.with(200);
        assert_eq!(&live["metadata"]["deletionTimestamp"], time);
    }
    let live = house.put(&a(), plain).await.with(200);
    assert_eq!(&live["metadata"]["deletionTimestamp"], time);
    assert_eq!(live["metadata"]["deletionGracePeriodSeconds"], 0);
    house
        .merge(&a(), json!({ "metadata": { "deletionGracePeriodSeconds": 9 } }))
        .await
        .fails(422, "Invalid");
}

#[tokio::test]
async fn r75_the_last_finalizer_goes_with_the_object_on_every_way() {
    let house = House::new().await;
    let free = json!({ "metadata": { "name": "a", "finalizers": [] } });
    for way in 0..4 {
        house.made(CONFIG_MAPS, held("a")).await;
        let marked = house.delete(&a()).await.with(200);
        let from = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&marked));
        let mut watch = house.watch(&from).await;
        let answer = match way {
            0 => house.put(&a(), free.clone()).await,
            1 => house.merge(&a(), free.clone()).await,
            2 => house.patch(&a(), STRATEGIC, json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/hold"] } })).await,
            _ => house.patch(&a(), JSON_PATCH, json!([{ "op": "remove", "path": "/metadata/finalizers/0" }])).await,
        };
        assert_eq!(answer.with(200)["kind"], "ConfigMap");
        watch.expect(&["DELETED a"]).await;
        assert!(watch.is_silent().await);
        house.get(&a()).await.fails(404, "NotFound");
    }
    // A status write may take it too.
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(PODS, body).await;
    house.delete(&format!("{PODS}/p")).await.with(200);
    house
        .merge(&format!("{PODS}/p/status"), json!({ "metadata": { "finalizers": null } }))
        .await
        .with(200);
    house.get(&format!("{PODS}/p")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r76_a_pod_in_its_grace_outlives_its_finalizers() {
    let house = House::new().await;
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    let path = house.bound(body).await;
    house.delete(&format!("{path}?gracePeriodSeconds=200")).await.with(200);
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    let live = house.get(&path).await.with(200);
    assert_eq!(live["metadata"]["deletionGracePeriodSeconds"], 200);
    house.delete(&format!("{path}?gracePeriodSeconds=0")).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r79_going_objects_are_read_listed_watched_and_patched() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("a")).await;
    let marked = house.delete(&a()).await.with(200);
    let from = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&marked));
    let mut watch = house.watch(&from).await;
    assert!(names(&house.get(CONFIG_MAPS).await.with(200)).contains(&"a"));
    house.merge(&a(), json!({ "data": { "k": "v" } })).await.with(200);
    watch.expect(&["MODIFIED a"]).await;
}

#[tokio::test]
async fn r149_r150_a_namespace_is_marked_once() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    house.made(&format!("{path}/configmaps"), held("h")).await;
    let marked = house.delete(&path).await.with(200);
    assert_eq!(marked["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    let settled = house.until_looks(&path, |live| live["status"]["conditions"].is_array()).await;
    for query in ["", "?gracePeriodSeconds=0", "?propagationPolicy=Foreground"] {
        let again = house.delete(&format!("{path}{query}")).await.with(200);
        assert_eq!(version(&again), version(&settled), "{query}");
    }
    house.made(NAMESPACES, named("m")).await;
    house.made(&format!("{NAMESPACES}/m/configmaps"), held("h")).await;
    house
        .delete_with(&format!("{NAMESPACES}/m"), json!({ "orphanDependents": false }))
        .await
        .with(202);
}

#[tokio::test]
async fn r151_r152_protected_and_going_namespaces() {
    let house = House::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        house.delete(&format!("{NAMESPACES}/{name}?dryRun=All")).await.fails(403, "Forbidden");
    }
    house.made(NAMESPACES, named("n")).await;
    let inside = format!("{NAMESPACES}/n/configmaps");
    house.made(&inside, held("h")).await;
    house.delete(&format!("{NAMESPACES}/n")).await.with(200);
    let status = house.post(&inside, named("late")).await.fails(403, "Forbidden");
    assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    assert_eq!(
        (&status["details"]["kind"], &status["details"]["name"]),
        (&json!("configmaps"), &json!("late"))
    );
    house.merge(&format!("{inside}/h"), json!({ "data": { "k": "v" } })).await.with(200);
}

#[tokio::test]
async fn r154_pods_go_first() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    house.until(&format!("{path}/configmaps/kube-root-ca.crt"), 200).await;
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.until(&format!("{path}/serviceaccounts/default"), 200).await;
    house.made(&format!("{path}/pods"), body).await;
    house.made(&format!("{path}/configmaps"), named("a")).await;
    house.delete(&path).await.with(200);
    // The pod is marked, and while it stays so does everything else (G4: and the pods are reported).
    let pod = format!("{path}/pods/p");
    house.until_looks(&pod, |live| live["metadata"]["deletionTimestamp"].is_string()).await;
    let live = house.until_looks(&path, |live| live["status"]["conditions"].is_array()).await;
    let conditions = live["status"]["conditions"].as_array().unwrap();
    let remaining = conditions.iter().find(|c| c["type"] == "NamespaceContentRemaining").unwrap();
    assert_eq!(remaining["status"], "True");
    assert!(remaining["message"].as_str().unwrap().contains("pods. has 1 resource instances"));
    let map = house.get(&format!("{path}/configmaps/a")).await.with(200);
    assert_eq!(map["metadata"].get("deletionTimestamp"), None);
    house.merge(&pod, json!({ "metadata": { "finalizers": null } })).await.with(200);
    house.until(&path, 404).await;
}

#[tokio::test]
async fn r157_a_namespace_waits_for_its_own_finalizers() {
    let house = House::new().await;
    let body = json!({ "metadata": { "name": "n", "finalizers": ["a/b"] } });
    house.made(NAMESPACES, body).await;
    let path = format!("{NAMESPACES}/n");
    house.made(&format!("{path}/configmaps"), named("in")).await;
    house.delete(&path).await.with(200);
    let live = house.until_looks(&path, |live| live["spec"] == json!({})).await;
    assert_eq!(live["metadata"]["finalizers"], json!(["a/b"]));
    house.get(&format!("{path}/configmaps/in")).await.fails(404, "NotFound");
    house.post(&format!("{path}/configmaps"), named("late")).await.fails(403, "Forbidden");
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}
