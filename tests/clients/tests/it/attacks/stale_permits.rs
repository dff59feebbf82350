//! A permit holds for the state that is answered, not for a moment before it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_client_tests::{Access, Operator, Server};

const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const NAMED: &str = "fieldSelector=metadata.name%3Dtls";

/// A server with an account that may do nothing yet.
pub(super) struct Scene {
    _server: Server,
    pub(super) admin: Access,
    pub(super) reader: Access,
}

impl Scene {
    pub(super) async fn new(operator: Operator) -> Scene {
        let server = Server::start_as(operator, &["--ephemeral"]).unwrap();
        let admin = server.access().unwrap();
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        must(&admin, "POST", accounts, &json!({ "metadata": { "name": "reader" } })).await;
        let token = format!("{accounts}/reader/token");
        let granted = must(&admin, "POST", &token, &json!({ "spec": {} })).await;
        let token = granted["status"]["token"].as_str().unwrap();
        let reader = Access::bearer(server.kubeconfig(), token).unwrap();
        Scene { _server: server, admin, reader }
    }

    /// Lets the account read the Secrets that Ingresses serve with.
    async fn with_references(self) -> Scene {
        let origin = json!({ "group": "networking.k8s.io", "resource": "ingresses" });
        let target = json!({ "group": "", "resource": "secrets" });
        let path = json!({
            "path": ".spec.tls[*].secretName", "target": target, "purpose": "tls-serving",
        });
        let strategy = json!({
            "metadata": { "name": "ingresses" }, "origin": origin,
            "versions": [{ "version": "v1", "references": [path] }],
        });
        must(&self.admin, "POST", &format!("{GROUP}/referencestrategies"), &strategy).await;
        let consumer = json!({
            "metadata": { "name": "reader" },
            "subject": { "kind": "ServiceAccount", "name": "reader", "namespace": "default" },
            "references": [{ "origin": origin, "target": target, "purpose": "tls-serving" }],
        });
        must(&self.admin, "POST", &format!("{GROUP}/clusterreferenceconsumers"), &consumer).await;
        must(&self.admin, "POST", SECRETS, &secret("first")).await;
        self
    }

    async fn refer(&self) {
        let spec = json!({
            "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
            "tls": [{ "secretName": "tls" }],
        });
        let ingress = json!({ "metadata": { "name": "web" }, "spec": spec });
        must(&self.admin, "POST", INGRESSES, &ingress).await;
    }

    async fn revoke(&self) {
        must(&self.admin, "DELETE", &format!("{INGRESSES}/web"), &Value::Null).await;
    }

    /// Writes the Secret; the version it has then.
    async fn write(&self, text: &str) -> u64 {
        let is = must(&self.admin, "PUT", &format!("{SECRETS}/tls"), &secret(text)).await;
        is["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Writes the Secret until there is a version.
    async fn write_until(&self, version: u64) {
        let mut count = 0;
        while self.write(&format!("written after the revocation {count}")).await < version {
            count += 1;
        }
    }
}

fn secret(text: &str) -> Value {
    json!({ "metadata": { "name": "tls" }, "stringData": { "k": text } })
}

/// A request that must succeed.
pub(super) async fn must(who: &Access, method: &str, path: &str, body: &Value) -> Value {
    let bytes = (!body.is_null()).then(|| body.to_string().into_bytes());
    let answer = who.once(method, path, bytes.as_deref()).await.unwrap();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!((200..300).contains(&answer.code), "{method} {path}: {} {text}", answer.code);
    answer.json().unwrap()
}

/// What an attacker sees of an answer: all of it, or the first event of a watch.
async fn beginning(who: Access, path: String) -> String {
    if !path.contains("watch=1") {
        let answer = who.once("GET", &path, None).await.unwrap();
        return String::from_utf8_lossy(&answer.body).into_owned();
    }
    let mut events = match who.connect().await.unwrap().watch(&path).await {
        Ok(events) => events,
        Err(refused) => return refused.to_string(),
    };
    let first = tokio::time::timeout(Duration::from_secs(10), events.line()).await;
    let first = first.expect("a watch tells something").unwrap().unwrap_or_default();
    String::from_utf8_lossy(&first).into_owned()
}

#[tokio::test]
async fn what_waits_for_a_version_is_refused_when_the_reference_is_gone() {
    for operator in Operator::all() {
        let scene = Scene::new(*operator).await.with_references().await;
        scene.refer().await;
        let version = scene.write("second").await + 10;
        let paths = [
            format!("{SECRETS}/tls?resourceVersion={version}"),
            format!("{SECRETS}?{NAMED}&resourceVersion={version}"),
            format!(
                "{SECRETS}?{NAMED}&watch=1&allowWatchBookmarks=true&sendInitialEvents=true\
                 &resourceVersionMatch=NotOlderThan&resourceVersion={version}"
            ),
        ];
        let ask = |path: &String| tokio::spawn(beginning(scene.reader.clone(), path.clone()));
        let waiting: Vec<_> = paths.iter().map(ask).collect();
        tokio::time::sleep(Duration::from_millis(700)).await;
        scene.revoke().await;
        scene.write_until(version).await;
        for (path, answer) in paths.iter().zip(waiting) {
            let text = answer.await.unwrap();
            assert!(text.contains("\"code\":403"), "{operator:?} {path}: {text}");
        }
    }
}

#[tokio::test]
async fn a_fresh_reference_shows_no_state_from_before_it() {
    for operator in Operator::all() {
        let scene = Scene::new(*operator).await.with_references().await;
        let old = scene.write("known to nobody").await;
        scene.write("shown").await;
        scene.refer().await;
        let hidden = STANDARD.encode("known to nobody");
        let before = old - 1;
        for path in [
            format!("{SECRETS}?{NAMED}&resourceVersionMatch=Exact&resourceVersion={old}"),
            format!("{SECRETS}?{NAMED}&limit=1&resourceVersion={old}"),
            format!("{SECRETS}?{NAMED}&watch=1&allowWatchBookmarks=true&resourceVersion={before}"),
        ] {
            let text = beginning(scene.reader.clone(), path.clone()).await;
            assert!(!text.contains(&hidden), "{operator:?} {path}: {text}");
            assert!(text.contains("\"code\":410"), "{operator:?} {path}: {text}");
        }
        must(&scene.reader, "GET", &format!("{SECRETS}/tls"), &Value::Null).await;
    }
}
