//! The server proves who it is to a node, and trusts no address that a node names.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_client_tests::server::{Operator, Server};

use super::caller::Caller;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Somebody who looks after nodes and may read nothing else.
async fn keeper_of_nodes(admin: &Caller) -> Caller {
    let role = json!({"metadata": {"name": "keeper"}, "rules": [
        {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status", "nodes/proxy"]}]});
    admin.create(&format!("{RBAC}/clusterroles"), role).await;
    let of = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let binding = json!({
        "metadata": {"name": "keeper"},
        "roleRef": of("ClusterRole", "keeper"), "subjects": [of("User", "mallory")],
    });
    admin.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
    admin.acting_as("mallory", &["system:authenticated"])
}

#[tokio::test]
async fn a_node_named_like_the_server_is_no_way_to_the_server() {
    for operator in Operator::all() {
        let server = Server::start_as(*operator, &["--ephemeral"]).unwrap();
        let access = server.access().unwrap();
        let address = access.address();
        let admin = Caller::new(access);
        let mallory = keeper_of_nodes(&admin).await;
        let secrets = "/api/v1/namespaces/default/secrets";
        admin.create(secrets, json!({"metadata": {"name": "crown"}})).await;
        assert_eq!(mallory.get(secrets).await.code, 403);
        for name in ["localhost", "kubernetes", "kubernetes.default.svc", "127.0.0.1"] {
            mallory.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
            let status = json!({"status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
            }});
            let path = format!("/api/v1/nodes/{name}");
            assert_eq!(mallory.merge(&format!("{path}/status"), &status).await.code, 200);
            for beyond in [secrets, "/api/v1/namespaces/default/secrets/crown", "/version"] {
                let answer = mallory.get(&format!("{path}/proxy{beyond}")).await;
                let said = answer.json.to_string();
                assert_eq!(answer.code, 500, "{operator:?} {name} {beyond}: {said}");
                assert!(said.contains("cannot be reached"), "{said}");
            }
            let crown = format!("{path}/proxy{secrets}/crown");
            let delete = mallory.send("DELETE", &crown, &Value::Null);
            assert_eq!(delete.await.code, 500);
        }
        assert_eq!(admin.get(&format!("{secrets}/crown")).await.code, 200);
    }
}

#[tokio::test]
async fn no_node_gets_a_certificate_in_the_servers_name() {
    for operator in Operator::all() {
        let server = Server::start_as(*operator, &["--ephemeral"]).unwrap();
        let admin = Caller::new(server.access().unwrap());
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let machine = machine.trim().to_ascii_lowercase();
        for name in [machine.as_str(), "kubernetes", "honest"] {
            admin.create("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
            let user = format!("system:node:{name}");
            let node = admin.acting_as(&user, &["system:nodes"]);
            let request = json!({
                "metadata": {"name": name},
                "spec": {
                    "request": STANDARD.encode(super::signing_request(&user, "system:nodes")),
                    "signerName": "kubernetes.io/kubelet-serving",
                    "usages": ["digital signature", "server auth"],
                },
            });
            node.create(REQUESTS, request).await;
            let begin = Instant::now();
            let decided = loop {
                let found = admin.get(&format!("{REQUESTS}/{name}")).await.json;
                if let Some(condition) = found["status"]["conditions"].get(0) {
                    break condition["type"].clone();
                }
                assert!(begin.elapsed() < Duration::from_secs(20), "nobody answered {name}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let wanted = if name == "honest" { "Approved" } else { "Denied" };
            assert_eq!(decided, wanted, "{operator:?} {name}");
        }
    }
}
