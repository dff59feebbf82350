//! Rules of spec/api-server.md: namespaces, what is in them from the start, and how they go.

use serde_json::{Value, json};

use crate::house::*;

/// All keys that belong to a namespace.
fn keys_of(house: &House, namespace: &str) -> Vec<String> {
    let state = house.world.current();
    let keys = state.range("/registry/", None).map(|record| record.key().to_string());
    let inside = format!("/{namespace}/");
    keys.filter(|key| key.contains(&inside) || key.ends_with(&format!("/namespaces/{namespace}")))
        .collect()
}

#[tokio::test]
async fn r76_ns1_a_deleted_namespace_takes_its_content_along() {
    let house = House::new().await;
    let made = house.made(NAMESPACES, named("n")).await;
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(made["status"]["phase"], "Active");
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
    house.made("/api/v1/namespaces/n/configmaps", named("a")).await;
    house.made("/api/v1/namespaces/n/pods", pod("p")).await;
    house.made("/apis/apps/v1/namespaces/n/deployments", deployment("d")).await;
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    house.made("/api/v1/namespaces/n/services", service).await;
    let marked = house.delete("/api/v1/namespaces/n").await.with(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(marked["status"]["phase"], "Terminating");
    house.until("/api/v1/namespaces/n", 404).await;
    assert_eq!(keys_of(&house, "n"), Vec::<String>::new());
    let addresses = house.get("/apis/networking.k8s.io/v1/ipaddresses").await.with(200);
    assert_eq!(names(&addresses), ["10.96.0.1"], "the Service gave its address back");
}

#[tokio::test]
async fn r76_ns1_a_namespace_says_what_it_waits_for() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
    house.made("/api/v1/namespaces/n/configmaps", held("h")).await;
    house.delete("/api/v1/namespaces/n").await.with(200);
    let live =
        house.until_looks("/api/v1/namespaces/n", |live| live["status"]["conditions"].is_array());
    let conditions = live.await["status"]["conditions"].clone();
    for (kind, status, reason) in [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain"),
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain"),
    ] {
        let condition = conditions.as_array().unwrap().iter().find(|c| c["type"] == kind).unwrap();
        assert_eq!((&condition["status"], &condition["reason"]), (&json!(status), &json!(reason)));
    }
    house
        .merge("/api/v1/namespaces/n/configmaps/h", json!({ "metadata": { "finalizers": null } }))
        .await
        .with(200);
    house.until("/api/v1/namespaces/n", 404).await;
}

#[tokio::test]
async fn r76_some_namespaces_may_not_be_deleted() {
    let house = House::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        let status = house.delete(&format!("{NAMESPACES}/{name}")).await.fails(403, "Forbidden");
        assert!(status["message"].as_str().unwrap().ends_with("this namespace may not be deleted"));
        assert_eq!(
            house.get(&format!("{NAMESPACES}/{name}")).await.with(200)["status"]["phase"],
            "Active"
        );
    }
}

#[tokio::test]
async fn r76_ns1_only_finalize_changes_the_finalizers_of_the_spec() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    for patch in [
        json!({ "spec": { "finalizers": null } }),
        json!({ "spec": null }),
        json!({ "spec": { "finalizers": ["a/b"] } }),
    ] {
        let live = house.merge(&path, patch).await.with(200);
        assert_eq!(live["spec"]["finalizers"], json!(["kubernetes"]));
    }
    for odd in [json!({}), json!([]), json!(null), json!({ "metadata": { "name": "other" } })] {
        house.put(&format!("{path}/finalize"), odd).await.fails(400, "BadRequest");
    }
    let body = json!({ "metadata": { "name": "n" }, "spec": { "finalizers": ["kubernetes", "example.com/x"] } });
    let live = house.put(&format!("{path}/finalize"), body).await.with(200);
    assert_eq!(live["spec"]["finalizers"].as_array().unwrap().len(), 2);
    // It now goes when both are gone.
    house.delete(&path).await.with(200);
    let left = json!(["example.com/x"]);
    house.until_looks(&path, |live| live["spec"]["finalizers"] == left).await;
    house
        .put(&format!("{path}/finalize"), json!({ "metadata": { "name": "n" }, "spec": {} }))
        .await
        .with(200);
    house.until(&path, 404).await;
    assert!(keys_of(&house, "n").is_empty());
}

#[tokio::test]
async fn r78_ns1_creates_need_a_living_namespace() {
    let house = House::new().await;
    for (path, body) in [
        ("/api/v1/namespaces/none/configmaps", named("a")),
        ("/api/v1/namespaces/none/configmaps?dryRun=All", named("a")),
        ("/apis/apps/v1/namespaces/none/deployments", deployment("d")),
    ] {
        let status = house.post(path, body).await.fails(404, "NotFound");
        assert_eq!(status["message"], "namespaces \"none\" not found");
    }
    house.made(NAMESPACES, named("n")).await;
    let inside = "/api/v1/namespaces/n/configmaps";
    house.made(inside, held("h")).await;
    house.delete(&format!("{NAMESPACES}/n")).await.with(200);
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/r";
    let apply = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b" } });
    for answer in [
        house.post(inside, named("a")).await,
        house.post(&format!("{inside}?dryRun=All"), named("a")).await,
        house.put(role, named("r")).await,
        house
            .patch(&format!("{inside}/b?fieldManager=m"), "application/apply-patch+yaml", apply)
            .await,
    ] {
        let status = answer.fails(403, "Forbidden");
        assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.namespace");
    }
    // Updates and deletes work to the end.
    house.merge(&format!("{inside}/h"), json!({ "data": { "k": "v" } })).await.with(200);
    house.delete(&format!("{inside}/h")).await.with(200);
    house
        .merge(&format!("{inside}/h"), json!({ "metadata": { "finalizers": null } }))
        .await
        .with(200);
    house.until(&format!("{NAMESPACES}/n"), 404).await;
    // The name is free again, and nothing of the old one is left.
    house.made(NAMESPACES, named("n")).await;
    house.get(&format!("{inside}/h")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r79_the_bootstrap_objects_are_there() {
    let house = House::new().await;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let live = house.get(&format!("{NAMESPACES}/{name}")).await.with(200);
        assert_eq!(live["metadata"]["labels"]["kubernetes.io/metadata.name"], name);
    }
    let service = house.get(&format!("{SERVICES}/kubernetes")).await.with(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["name"], &port["port"]), (&json!("https"), &json!(443)));
    let endpoints = house.get("/api/v1/namespaces/default/endpoints/kubernetes").await.with(200);
    // The server listens on loopback here, which may not stand in endpoints.
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.96.0.1");
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], 6443);
    for (name, value) in
        [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)]
    {
        let class = house
            .get(&format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}"))
            .await
            .with(200);
        assert_eq!(class["value"], value);
    }
}

#[tokio::test]
async fn r79_a_needed_namespace_comes_back() {
    let house = House::new().await;
    let path = format!("{NAMESPACES}/kube-node-lease");
    let old = house.get(&path).await.with(200);
    house.delete(&path).await.with(200);
    let is_new = |live: &Value| {
        live["kind"] == "Namespace" && live["metadata"]["uid"] != old["metadata"]["uid"]
    };
    let live = house.until_looks(&path, is_new).await;
    assert_eq!(live["status"]["phase"], "Active");
}

#[tokio::test]
async fn r80_each_namespace_gets_an_account_and_the_authority() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    for _ in 0..2 {
        house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
        let map = house.until("/api/v1/namespaces/n/configmaps/kube-root-ca.crt", 200).await;
        assert_eq!(map.json["data"]["ca.crt"], "the authority");
        // Both come back when they are deleted.
        house.delete("/api/v1/namespaces/n/serviceaccounts/default").await.with(200);
        house.delete("/api/v1/namespaces/n/configmaps/kube-root-ca.crt").await.with(200);
    }
    let live: Value = house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await.json;
    assert_eq!(live["metadata"]["namespace"], "n");
}

#[tokio::test]
async fn r78_what_is_posted_to_an_object_needs_a_living_namespace() {
    let house = House::new().await;
    let posts = |namespace: &str| {
        let at = format!("{NAMESPACES}/{namespace}");
        let binding = json!({ "metadata": { "name": "p" }, "target": { "name": "n" } });
        [
            (format!("{at}/pods/p/eviction"), json!({ "metadata": { "name": "p" } }), "pods", "p"),
            (format!("{at}/pods/p/binding"), binding.clone(), "pods", "p"),
            (format!("{at}/bindings"), binding, "bindings", "p"),
            (format!("{at}/serviceaccounts/a/token"), json!({}), "serviceaccounts", "a"),
        ]
    };
    for (path, body, ..) in posts("none") {
        let status = house.post(&path, body).await.fails(404, "NotFound");
        assert_eq!(status["message"], "namespaces \"none\" not found", "{path}");
    }
    house.made(NAMESPACES, named("n")).await;
    house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
    let mut stays = pod("p");
    stays["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made("/api/v1/namespaces/n/pods", stays).await;
    house.made("/api/v1/namespaces/n/serviceaccounts", held("a")).await;
    house.delete(&format!("{NAMESPACES}/n")).await.with(200);
    for (path, body, kind, name) in posts("n") {
        let status = house.post(&path, body).await.fails(403, "Forbidden");
        let details = &status["details"];
        assert_eq!((&details["kind"], &details["name"]), (&json!(kind), &json!(name)), "{path}");
        assert_eq!(details["causes"][0]["reason"], "NamespaceTerminating");
    }
    // Questions about access are answered.
    let review = json!({
        "metadata": { "namespace": "n" },
        "spec": { "user": "u", "resourceAttributes": { "namespace": "n", "verb": "get", "resource": "pods" } },
    });
    let reviews = "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews";
    house.made(reviews, review).await;
}
