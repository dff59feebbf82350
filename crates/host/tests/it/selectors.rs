//! Rules of spec/referential-authorization.md, D9 and D13: a selector that was written while its feature was on,
//! in a server that starts without the feature.

use std::path::Path;

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane};
use tenure_node::client::Client;

use crate::agent::object;

const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";

async fn start(folder: &Path, on: bool) -> (ControlPlane, Client) {
    let mut config =
        Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::new(folder.join("data")) };
    config.features.grant_namespace_selector = on;
    config.features.consumer_class_selector = on;
    let plane = ControlPlane::start(config).await.unwrap();
    let client = Client::new(&tenure_node::Server {
        url: plane.url().to_owned(),
        authority_pem: plane.authority_pem().to_owned(),
        certificate_pem: plane.admin().certificate_pem.clone(),
        key_pem: plane.admin().key_pem.clone(),
        ..tenure_node::Server::default()
    });
    (plane, client.unwrap())
}

async fn make(client: &Client, path: &str, value: Value) {
    client.post(path, &object(value)).await.unwrap();
}

/// A ConfigMap of class `inner` in a labelled namespace names a Secret elsewhere.
async fn furnish(client: &Client) {
    for (name, labels) in [("prod", json!({ "team": "web" })), ("tls", json!({}))] {
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        make(client, "/api/v1/namespaces", namespace).await;
    }
    let class =
        json!({ "metadata": { "name": "inner" }, "spec": { "controller": "example.com/c" } });
    make(client, CLASSES, class).await;
    let (origin, target) = (
        json!({ "group": "", "resource": "configmaps" }),
        json!({ "group": "", "resource": "secrets" }),
    );
    let strategy = json!({
        "metadata": { "name": "maps" }, "origin": origin,
        "versions": [{ "version": "v1", "classPath": ".data.class", "references": [{
            "path": ".data.secret", "namespacePath": "$.data.place",
            "target": target, "purpose": "values",
        }] }],
    });
    make(client, &format!("{GROUP}/referencestrategies"), strategy).await;
    let consumer = json!({
        "metadata": { "name": "contour" }, "subject": { "kind": "User", "name": "contour" },
        "classSelector": {
            "group": "networking.k8s.io", "resource": "ingressclasses",
            "controllerPath": ".spec.controller", "controllerName": "example.com/c",
        },
        "references": [{ "origin": origin, "target": target, "purpose": "values" }],
    });
    make(client, &format!("{GROUP}/clusterreferenceconsumers"), consumer).await;
    let grant = json!({
        "metadata": { "name": "teams" },
        "origin": {
            "group": "", "resource": "configmaps",
            "namespaceSelector": { "matchLabels": { "team": "web" } },
        },
        "target": { "group": "", "resource": "secrets", "names": ["far"] },
        "purpose": "values",
    });
    make(client, &format!("{GROUP}/namespaces/tls/referencegrants"), grant).await;
    for (name, data) in [
        ("far", json!({ "class": "inner", "secret": "far", "place": "tls" })),
        ("near", json!({ "class": "inner", "secret": "near" })),
    ] {
        let map = json!({ "metadata": { "name": name }, "data": data });
        make(client, "/api/v1/namespaces/prod/configmaps", map).await;
    }
}

async fn may(client: &Client, namespace: &str, name: &str) -> bool {
    let review = json!({ "spec": { "user": "contour", "resourceAttributes": {
        "verb": "get", "resource": "secrets", "namespace": namespace, "name": name,
    } } });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    client.post(path, &object(review)).await.unwrap()["status"]["allowed"] == true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d9_d13_a_stored_selector_selects_while_its_feature_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let (plane, client) = start(folder.path(), true).await;
    furnish(&client).await;
    assert!(may(&client, "tls", "far").await && may(&client, "prod", "near").await);
    plane.stop().await;

    let (plane, client) = start(folder.path(), false).await;
    assert!(!may(&client, "tls", "far").await && !may(&client, "prod", "near").await);
    let grant = format!("{GROUP}/namespaces/tls/referencegrants/teams");
    // The object can be cared for, but what it selects cannot be changed.
    let care = object(json!({ "metadata": { "finalizers": ["example.com/a"] } }));
    client.patch(&grant, &care).await.unwrap();
    let care = object(json!({ "metadata": { "finalizers": null } }));
    client.patch(&grant, &care).await.unwrap();
    let change = object(json!({ "origin": { "namespaceSelector": { "matchLabels": null } } }));
    assert_eq!(client.patch(&grant, &change).await.unwrap_err().code(), 422);
    // What is listed holds without the feature.
    let listed = object(json!({ "classNames": ["inner"] }));
    let consumer = format!("{GROUP}/clusterreferenceconsumers/contour");
    client.patch(&consumer, &listed).await.unwrap();
    assert!(!may(&client, "tls", "far").await && may(&client, "prod", "near").await);
    let listed = object(json!({ "classNames": null }));
    client.patch(&consumer, &listed).await.unwrap();
    plane.stop().await;

    let (plane, client) = start(folder.path(), true).await;
    assert!(may(&client, "tls", "far").await && may(&client, "prod", "near").await);
    plane.stop().await;
}
