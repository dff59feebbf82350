//! Rules of spec/downward-api.md: what a node may do and what it may not, R98, R108, R139.

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn node(name: &str) -> Peer {
    peer(&format!("system:node:{name}"), &["system:nodes"])
}

/// Two nodes, a pod on each, and what the pod on the first mentions.
async fn house() -> House {
    let house = House::new().await;
    for name in ["a", "b"] {
        house.made(NODES, json!({"metadata": {"name": name}})).await;
    }
    for name in ["mine", "other"] {
        house.made(SECRETS, json!({"metadata": {"name": name}})).await;
        house.config_map(name).await;
    }
    house.made(ACCOUNTS, json!({"metadata": {"name": "mine"}})).await;
    house.made(PODS, bound_pod("on-a", "a", "mine")).await;
    house.made(PODS, bound_pod("on-b", "b", "other")).await;
    house
}

fn bound_pod(name: &str, node: &str, mentions: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": if node == "a" { "mine" } else { "default" },
            "containers": [{
                "name": "c", "image": "example.com/app:v1",
                "envFrom": [{"secretRef": {"name": mentions}}],
            }],
            "volumes": [{"name": "v", "configMap": {"name": mentions}}],
        },
    })
}

async fn codes(house: &House, peer: &Peer, paths: &[(&str, u16)]) {
    for (path, code) in paths {
        let answer = house.ask_as(peer, "GET", path, &[], "").await;
        assert_eq!(answer.code, *code, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn r139_a_node_reads_only_what_its_pods_mention() {
    let house = house().await;
    let mine = format!("{SECRETS}?fieldSelector=metadata.name%3Dmine");
    let other = format!("{SECRETS}?fieldSelector=metadata.name%3Dother");
    codes(
        &house,
        &node("a"),
        &[
            (&format!("{SECRETS}/mine"), 200),
            (&format!("{SECRETS}/other"), 403),
            (&mine, 200),
            (&other, 403),
            (SECRETS, 403),
            (&format!("{CONFIG_MAPS}/mine"), 200),
            (&format!("{CONFIG_MAPS}/kube-root-ca.crt"), 200),
            (&format!("{CONFIG_MAPS}/other"), 403),
            (&format!("{ACCOUNTS}/mine"), 200),
            (&format!("{ACCOUNTS}/default"), 403),
            ("/api/v1/services", 200),
            (DEPLOYMENTS, 403),
            (NAMESPACES, 403),
        ],
    )
    .await;
    let answer = house.ask_as(&node("a"), "GET", &format!("{SECRETS}/other"), &[], "").await;
    let words = "no relationship found between node 'a' and this object";
    assert!(answer.text().contains(words), "{}", answer.text());
    let alone = peer("system:node:a", &["others"]);
    codes(&house, &alone, &[(&format!("{SECRETS}/mine"), 403)]).await;
}

#[tokio::test]
async fn r139_a_node_sees_only_itself_and_its_pods() {
    let house = house().await;
    codes(
        &house,
        &node("a"),
        &[
            ("/api/v1/pods", 403),
            ("/api/v1/pods?fieldSelector=spec.nodeName%3Da", 200),
            ("/api/v1/pods?fieldSelector=spec.nodeName%3Db", 403),
            ("/api/v1/watch/pods?fieldSelector=spec.nodeName%3Da", 403),
            (&format!("{PODS}/on-a"), 200),
            (&format!("{PODS}/on-b"), 403),
            (&format!("{NODES}/a"), 200),
            (&format!("{NODES}/b"), 403),
            (NODES, 403),
            (&format!("{LEASES}/b"), 403),
        ],
    )
    .await;
}

#[tokio::test]
async fn r139_a_node_writes_only_itself() {
    let house = house().await;
    let peer = node("a");
    let send = async |method: &str, path: String, kind: &str, body: Value| {
        let headers = [("content-type", kind)];
        house.ask_as(&peer, method, &path, &headers, body.to_string()).await.code
    };
    let patch = |labels: Value| json!({"metadata": {"labels": labels}});
    let label = |name: &str| patch(json!({name: "x"}));
    for (name, body, code) in [
        ("a", label("kubernetes.io/hostname"), 200),
        ("a", label("node-restriction.kubernetes.io/trusted"), 403),
        ("a", label("node-role.kubernetes.io/control-plane"), 403),
        ("a", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), 403),
        ("b", label("kubernetes.io/hostname"), 403),
    ] {
        let found = send("PATCH", format!("{NODES}/{name}"), MERGE, body.clone()).await;
        assert_eq!(found, code, "{name} {body}");
    }
    let made = |name: &str| json!({"metadata": {"name": name, "namespace": "kube-node-lease"}});
    assert_eq!(send("POST", NODES.into(), JSON, json!({"metadata": {"name": "c"}})).await, 403);
    assert_eq!(send("DELETE", format!("{NODES}/a"), JSON, json!({})).await, 403);
    assert_eq!(send("POST", LEASES.into(), JSON, made("a")).await, 201);
    assert_eq!(send("POST", LEASES.into(), JSON, made("b")).await, 403);
    assert_eq!(send("POST", PODS.into(), JSON, pod("new")).await, 403);
    let status = json!({"status": {"phase": "Running"}});
    for (name, code) in [("on-a", 200), ("on-b", 403)] {
        let path = format!("{PODS}/{name}/status");
        assert_eq!(send("PATCH", path, STRATEGIC, status.clone()).await, code, "{name}");
    }
    let path = format!("{PODS}/on-a");
    assert_eq!(send("PATCH", path, MERGE, patch(json!({"x": "y"}))).await, 403);
}

#[tokio::test]
async fn r139_a_node_asks_for_tokens_of_its_pods_only() {
    let house = house().await;
    let uid = house.get(&format!("{PODS}/on-a")).await.json["metadata"]["uid"].clone();
    let request = |bound: Value| {
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [], "boundObjectRef": bound},
        })
    };
    let pod = |name: &str, uid: &Value| json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid});
    for (account, bound, code) in [
        ("mine", pod("on-a", &uid), 201),
        ("mine", pod("on-a", &json!("another")), 403),
        ("mine", pod("on-b", &uid), 403),
        ("mine", Value::Null, 403),
        ("default", pod("on-a", &uid), 403),
    ] {
        let path = format!("{ACCOUNTS}/{account}/token");
        let (headers, body) = ([("content-type", JSON)], request(bound.clone()).to_string());
        let answer = house.ask_as(&node("a"), "POST", &path, &headers, body).await;
        assert_eq!(answer.code, code, "{account} {bound}: {}", answer.text());
    }
}

#[tokio::test]
async fn r98_a_status_of_another_pod_of_the_name_is_refused() {
    let house = house().await;
    let path = format!("{PODS}/on-a/status");
    let write = |uid: &Value| json!({"metadata": {"uid": uid}, "status": {"phase": "Running"}});
    let uid = house.get(&format!("{PODS}/on-a")).await.json["metadata"]["uid"].clone();
    let answer = house.patch(&path, STRATEGIC, write(&json!("another"))).await;
    // A patch names no precondition: the uid it would write is refused as any change of a uid is.
    let failure = answer.fails(422, "Invalid");
    assert_eq!(failure["details"]["causes"][0]["field"], "metadata.uid");
    assert_eq!(house.get(&path).await.json["status"]["phase"], "Pending");
    house.patch(&path, STRATEGIC, write(&uid)).await.with(200);
}

#[tokio::test]
async fn r108_the_last_delete_names_the_pod_it_means() {
    let house = house().await;
    let peer = node("a");
    let path = format!("{PODS}/on-a");
    let options = |uid: &str| json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    let uid = house.get(&path).await.json["metadata"]["uid"].as_str().unwrap().to_owned();
    let send = async |path: &str, uid: &str| {
        house
            .ask_as(&peer, "DELETE", path, &[("content-type", JSON)], options(uid).to_string())
            .await
            .code
    };
    assert_eq!(send(&path, "another").await, 409);
    let other = format!("{PODS}/on-b");
    let other_uid = house.get(&other).await.json["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(send(&other, &other_uid).await, 403);
    assert_eq!(send(&path, &uid).await, 200);
    house.get(&path).await.fails(404, "NotFound");
}
