//! Certificates are approved and signed by who may do so for the signer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_client_tests::server::Server;

use super::caller::Caller;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

fn request(name: &str, signer: &str, user: &str, group: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(super::signing_request(user, group)), "signerName": signer,
            "usages": ["client auth", "digital signature"],
        },
    })
}

fn decided(kinds: &[&str]) -> Value {
    let all = kinds.iter().map(|kind| json!({"type": kind, "status": "True", "reason": "r"}));
    json!({"status": {"conditions": all.collect::<Vec<_>>()}})
}

/// Lets mallory do this.
async fn grant(admin: &Caller, name: &str, rule: Value) {
    let role = json!({"metadata": {"name": name}, "rules": [rule]});
    admin.create(&format!("{RBAC}/clusterroles"), role).await;
    let of = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": of("ClusterRole", name), "subjects": [of("User", "mallory")],
    });
    admin.create(&format!("{RBAC}/clusterrolebindings"), binding).await;
}

#[tokio::test]
async fn nobody_decides_for_a_signer_without_its_right() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let mallory = admin.acting_as("mallory", &["system:authenticated"]);
    let everything = json!({
        "verbs": ["*"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/approval",
            "certificatesigningrequests/status"],
    });
    grant(&admin, "requests", everything).await;
    admin.create(REQUESTS, request("r", CLIENT, "root", "dev")).await;
    let approval = format!("{REQUESTS}/r/approval");
    let status = format!("{REQUESTS}/r/status");
    assert_eq!(mallory.merge(&approval, &decided(&["Approved"])).await.code, 403);
    let certificate = json!({"status": {"certificate": STANDARD.encode("anything")}});
    assert_ne!(mallory.merge(&status, &certificate).await.code, 200);
    assert_ne!(mallory.merge(&status, &decided(&["Approved"])).await.code, 200);
    let other = json!({
        "verbs": ["approve", "sign"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"], "resourceNames": ["example.com/*"],
    });
    grant(&admin, "other", other).await;
    assert_eq!(mallory.merge(&approval, &decided(&["Approved"])).await.code, 403);
    let found = admin.get(&format!("{REQUESTS}/r")).await.json;
    assert_eq!(found["status"], json!({}), "nothing was decided");
    // Whoever may decide decides once.
    let answer = admin.merge(&approval, &decided(&["Approved", "Denied"])).await;
    assert_eq!(answer.code, 422, "{}", answer.json);
    let approved = admin.merge(&approval, &decided(&["Approved"])).await;
    assert_eq!(approved.json["status"]["conditions"][0]["type"], "Approved");
    assert_eq!(admin.merge(&approval, &json!({"status": {"conditions": []}})).await.code, 422);
}

#[tokio::test]
async fn nobody_asks_to_be_an_administrator_and_garbage_is_not_kept() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let masters = request("masters", CLIENT, "root", "system:masters");
    assert_eq!(admin.post(REQUESTS, &masters).await.code, 403);
    for text in [
        "garbage",
        "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n-----END CERTIFICATE REQUEST-----\n",
    ] {
        let mut garbage = request("garbage", "example.com/own", "u", "g");
        garbage["spec"]["request"] = STANDARD.encode(text).into();
        assert_eq!(admin.post(REQUESTS, &garbage).await.code, 422);
    }
    // A node asks in its own name only.
    let thief = admin.acting_as("system:node:thief", &["system:nodes"]);
    for signer in ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"] {
        let victim = request("victim", signer, "system:node:victim", "system:nodes");
        assert_eq!(thief.post(REQUESTS, &victim).await.code, 403, "{signer}");
    }
}
