//! Rules of spec/downward-api.md, section 18: pods on nodes that run nothing.

use std::time::Instant;

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane};
use tenure_node::client::{Client, ClientError};

use crate::agent::{PATIENCE, PODS, administrator, object, pod, ready};

async fn start() -> (ControlPlane, Client) {
    let config = Config { nodes: 2, ..Config::ephemeral() };
    let plane = ControlPlane::start(config).await.unwrap();
    let client = administrator(&plane);
    until(&client, "/api/v1/namespaces/default/serviceaccounts/default", |_| true).await;
    (plane, client)
}

async fn until(client: &Client, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let found = client.get(path).await.map(Value::Object);
        if let Ok(found) = &found
            && wanted(found)
        {
            return found.clone();
        }
        assert!(begin.elapsed() < PATIENCE, "{path}: {found:?}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r160_a_pod_of_a_simulated_node_has_no_log_and_runs_no_command() {
    let (plane, client) = start().await;
    client.post(PODS, &object(pod("a", json!({})))).await.unwrap();
    let found = until(&client, &format!("{PODS}/a"), ready).await;
    let id = found["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
    assert!(id.starts_with("none://"), "{id}");
    for path in ["log", "exec?command=true&stdout=true", "attach?stdout=true"] {
        let refused = client.get(&format!("{PODS}/a/{path}")).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Refused { code: 501, .. }), "{path}: {refused:?}");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r162_the_files_of_a_simulated_pod_are_computed_when_somebody_looks() {
    let (plane, client) = start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "from a map"}});
    let map = client.post(maps, &object(map)).await.map(Value::Object).unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "hush"}});
    client.post("/api/v1/namespaces/default/secrets", &object(secret)).await.unwrap();
    let items = json!([
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "owners", "fieldRef": {"fieldPath": "metadata.ownerReferences"}},
    ]);
    let mut body = pod(
        "a",
        json!({"volumes": [
            {"name": "info", "downwardAPI": {"items": items}},
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "none", "configMap": {"name": "none"}},
        ]}),
    );
    body["metadata"]["labels"] = json!({"a": "1"});
    client.post(PODS, &object(body)).await.unwrap();
    until(&client, &format!("{PODS}/a"), ready).await;
    let path = "/debug/simulated/volumes?namespace=default&pod=a";
    let seen = client.get(path).await.map(Value::Object).unwrap();
    let text = |seen: &Value, volume: &str, file: &str| {
        seen["volumes"][volume]["files"][file]["text"].clone()
    };
    assert_eq!(text(&seen, "info", "labels"), "a=\"1\"");
    assert_eq!(text(&seen, "map", "k"), "from a map");
    assert_eq!(seen["volumes"]["secret"]["files"]["k"], json!({"mode": 0o644, "bytes": 4}));
    assert_eq!(seen["volumes"]["none"]["error"], "configmap \"none\" not found");
    // The next look sees the next state.
    let patch = object(json!({"metadata": {
        "labels": {"a": "2"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "m",
            "uid": map["metadata"]["uid"]}],
    }}));
    client.patch(&format!("{PODS}/a"), &patch).await.unwrap();
    let seen = client.get(path).await.map(Value::Object).unwrap();
    assert_eq!(text(&seen, "info", "labels"), "a=\"2\"");
    let owners = text(&seen, "info", "owners");
    assert!(owners.as_str().unwrap().contains("\"name\": \"m\""), "{owners}");
    let missing = client.get("/debug/simulated/volumes?namespace=default&pod=b").await;
    assert!(matches!(missing, Err(ClientError::Refused { code: 404, .. })));
    plane.stop().await;
}
