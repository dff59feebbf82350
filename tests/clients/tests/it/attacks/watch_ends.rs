//! A watch ends with the right to it, and a body that comes late writes nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::Operator;
use tenure_client_tests::wire::Events;

use super::stale_permits::{Scene, must};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const ACCOUNT: &str = "/api/v1/namespaces/default/serviceaccounts/reader";

impl Scene {
    /// Lets the account do something with ConfigMaps.
    async fn bind(&self, verbs: &[&str]) {
        let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }]);
        let role = json!({ "metadata": { "name": "r" }, "rules": rules });
        must(&self.admin, "POST", &format!("{RBAC}/roles"), &role).await;
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
        let subjects =
            json!([{ "kind": "ServiceAccount", "name": "reader", "namespace": "default" }]);
        let binding = json!({ "metadata": { "name": "r" }, "roleRef": role, "subjects": subjects });
        must(&self.admin, "POST", &format!("{RBAC}/rolebindings"), &binding).await;
    }

    async fn watch(&self, name: &str) -> Events {
        let path = format!(
            "{CONFIG_MAPS}?watch=1&timeoutSeconds=100000&fieldSelector=metadata.name%3D{name}"
        );
        self.reader.connect().await.unwrap().watch(&path).await.unwrap()
    }
}

#[tokio::test]
async fn a_watch_ends_with_the_binding_the_role_and_the_account() {
    let gone = [format!("{RBAC}/rolebindings/r"), format!("{RBAC}/roles/r"), ACCOUNT.to_owned()];
    for gone in gone {
        let scene = Scene::new(Operator::Caller).await;
        scene.bind(&["watch"]).await;
        let (mut idle, mut busy) = (scene.watch("idle").await, scene.watch("busy").await);
        must(&scene.admin, "DELETE", &gone, &Value::Null).await;
        let begin = Instant::now();
        let busy_one = json!({ "metadata": { "name": "busy" } });
        must(&scene.admin, "POST", CONFIG_MAPS, &busy_one).await;
        for watch in [&mut idle, &mut busy] {
            let last = tokio::time::timeout(Duration::from_secs(10), watch.event()).await;
            let last = last.unwrap_or_else(|_| panic!("still open after {gone} went")).unwrap();
            assert_eq!(last, None, "told after {gone} went");
        }
        // Two seconds are promised; a busy machine gets more.
        assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn a_body_that_comes_after_the_revocation_writes_nothing() {
    let scene = Scene::new(Operator::Caller).await;
    scene.bind(&["create"]).await;
    let body = json!({ "metadata": { "name": "late" } }).to_string();
    let mut connection = scene.reader.connect().await.unwrap();
    let request = connection.request("POST", CONFIG_MAPS, body.as_bytes());
    let (head, body) = request.split_at(request.len() - body.len());
    connection.write(head).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    must(&scene.admin, "DELETE", &format!("{RBAC}/rolebindings/r"), &Value::Null).await;
    connection.write(body).await.unwrap();
    assert_eq!(connection.answer().await.unwrap().code, 403);
    let late = scene.admin.once("GET", &format!("{CONFIG_MAPS}/late"), None).await.unwrap();
    assert_eq!(late.code, 404);
}
