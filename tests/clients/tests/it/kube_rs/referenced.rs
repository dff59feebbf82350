//! The example controller of crates/references, unchanged, against the built server: its service account has
//! no right on Secrets in RBAC. Rules of spec/referential-authorization.md.

#[path = "../../../../../crates/references/examples/gateway/controller.rs"]
mod controller;
#[path = "../../../../../crates/references/examples/gateway/objects.rs"]
mod objects;
#[path = "../../../../../crates/references/examples/gateway/story.rs"]
mod story;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tenure_client_tests::Server;

#[tokio::test]
async fn r114_r115_a_controller_without_rights_on_secrets_serves_what_is_granted() {
    let server = Server::ephemeral().unwrap();
    let file = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    let admin = Client::try_from(config.clone()).unwrap();
    story::set_up(&admin).await.unwrap();
    let token = "/api/v1/namespaces/edge-system/serviceaccounts/edge/token";
    let body =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let request = http::Request::post(token)
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let answer: Value = admin.request(request).await.unwrap();
    let mut account = Config::new(config.cluster_url.clone());
    account.root_cert = config.root_cert.clone();
    account.auth_info =
        serde_json::from_value(json!({ "token": answer["status"]["token"] })).unwrap();
    story::tell(&admin, Client::try_from(account).unwrap()).await.unwrap();
}
