//! A node reads and writes what its own pods need, and nothing else.

use serde_json::{Value, json};
use tenure_client_tests::server::{Operator, Server};

use super::caller::Caller;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRET: &str = "/api/v1/namespaces/default/secrets/crown";

/// The node `thief`, registered, and a Secret that no pod of it mentions.
async fn begin(operator: Operator) -> (Server, Caller, Caller) {
    let server = Server::start_as(operator, &["--ephemeral"]).unwrap();
    let admin = Caller::new(server.access().unwrap());
    let thief = admin.acting_as("system:node:thief", &["system:nodes"]);
    admin.create("/api/v1/namespaces/default/secrets", secret("crown")).await;
    for name in ["thief", "victim"] {
        admin.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
    }
    (server, admin, thief)
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "stringData": {"k": "v"}})
}

/// What a node shows of a pod that it runs from a file.
async fn mirror(thief: &Caller, name: &str, spec: Value) -> Value {
    let node = thief.get("/api/v1/nodes/thief").await;
    let uid = node.json["metadata"]["uid"].clone();
    let mut pod = json!({
        "metadata": {
            "name": name, "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": "thief", "uid": uid, "controller": true,
            }],
        },
        "spec": {"nodeName": "thief", "containers": [{"name": "c", "image": "i"}]},
    });
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    pod
}

#[tokio::test]
async fn a_node_reads_no_secret_through_a_pod_that_it_wrote_itself() {
    for operator in Operator::all() {
        let (_server, _, thief) = begin(*operator).await;
        assert_eq!(thief.get(SECRET).await.code, 403, "{operator:?}");
        let env = json!([{"secretRef": {"name": "crown"}}]);
        let volume = |source: Value| {
            let mut volume = json!({"name": "v"});
            let (member, value) = source.as_object().unwrap().iter().next().unwrap();
            volume[member] = value.clone();
            json!({"volumes": [volume]})
        };
        for spec in [
            json!({"containers": [{"name": "c", "image": "i", "envFrom": env}]}),
            json!({"imagePullSecrets": [{"name": "crown"}]}),
            json!({"serviceAccountName": "default"}),
            volume(json!({"secret": {"secretName": "crown"}})),
            volume(json!({"projected": {"sources": [{"secret": {"name": "crown"}}]}})),
            volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            volume(
                json!({"csi": {"driver": "d.example.com", "nodePublishSecretRef": {"name": "crown"}}}),
            ),
            volume(json!({"persistentVolumeClaim": {"claimName": "c"}})),
        ] {
            let pod = mirror(&thief, "bait", spec).await;
            let answer = thief.post(PODS, &pod).await;
            assert_eq!(answer.code, 403, "{operator:?} {pod}: {}", answer.json);
            assert_eq!(thief.get(SECRET).await.code, 403);
        }
        let token = json!({"spec": {"boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": "bait", "uid": "u"}}});
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        assert_eq!(thief.post(path, &token).await.code, 403);
    }
}

#[tokio::test]
async fn a_node_has_no_token_that_its_pods_do_not_ask_for() {
    for operator in Operator::all() {
        let (_server, admin, thief) = begin(*operator).await;
        let pod = json!({
            "metadata": {"name": "mine"},
            "spec": {"nodeName": "thief", "containers": [{"name": "c", "image": "i"}]},
        });
        let uid = admin.create(PODS, pod).await["metadata"]["uid"].clone();
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let token = |audiences: &[&str]| {
            let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": uid});
            json!({"spec": {"audiences": audiences, "boundObjectRef": bound}})
        };
        assert_eq!(thief.post(path, &token(&[])).await.code, 201, "what the kubelet mounts");
        assert_eq!(thief.post(path, &token(&["bank"])).await.code, 403, "{operator:?}");
        assert_eq!(thief.post(path, &token(&["", "bank"])).await.code, 403);
    }
}

#[tokio::test]
async fn a_node_writes_nothing_of_another() {
    for operator in Operator::all() {
        let (_server, admin, thief) = begin(*operator).await;
        let slices = "/apis/resource.k8s.io/v1/resourceslices";
        let csi = "/apis/storage.k8s.io/v1/csinodes";
        let slice = json!({
            "metadata": {"name": "victim"},
            "spec": {"nodeName": "victim", "driver": "d.example.com",
                "pool": {"name": "victim", "generation": 1, "resourceSliceCount": 1}},
        });
        admin.create(slices, slice).await;
        let of_victim = json!({"metadata": {"name": "victim"}, "spec": {"drivers": []}});
        assert_eq!(thief.post(csi, &of_victim).await.code, 403, "{operator:?}");
        assert_eq!(thief.send("DELETE", slices, &Value::Null).await.code, 403);
        let one = format!("{slices}/victim");
        assert_eq!(thief.send("DELETE", &one, &Value::Null).await.code, 403);
        assert_eq!(admin.get(&one).await.code, 200);
        // What a status may not change is refused even where it would be dropped.
        let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        let answer = thief.merge("/api/v1/nodes/thief/status", &taints).await;
        assert_eq!(answer.code, 403, "{}", answer.json);
    }
}
