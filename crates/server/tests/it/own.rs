//! Rules of spec/api-server.md.
//!
//! The server's own objects: made at the start, and again when somebody takes them.

use serde_json::{Value, json};

use crate::house::*;

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
const AUTHENTICATION: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// What was there before, with nothing that differs from one making to the next.
fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for name in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(name);
    }
    object
}

#[tokio::test]
async fn r79_what_the_cluster_needs_comes_back_at_once() {
    let house = House::new().await;
    for path in [SERVICE, ENDPOINTS, SLICE, AUTHENTICATION] {
        let before = house.get(path).await.with(200);
        house.delete(path).await.with(200);
        let again = |object: &Value| !uid(object).is_empty() && uid(object) != uid(&before);
        let after = house.until_looks(path, again).await;
        assert_eq!(plain(after), plain(before), "{path}");
    }
    let service = house.get(SERVICE).await.with(200);
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.1");
    // And after everything of the kind is deleted at once, as `kubectl delete all --all` does it by name.
    let before = service;
    house.delete("/api/v1/namespaces/default/services").await.with(200);
    house.until_looks(SERVICE, |now| !uid(now).is_empty() && uid(now) != uid(&before)).await;
}

#[tokio::test]
async fn r79_endpoints_of_the_server_are_put_right_and_its_service_may_be_edited() {
    let house = House::new().await;
    let before = house.get(ENDPOINTS).await.with(200);
    house.merge(ENDPOINTS, json!({ "subsets": null })).await.with(200);
    house.until_looks(ENDPOINTS, |now| now["subsets"] == before["subsets"]).await;
    let before = house.get(SLICE).await.with(200);
    let labels = json!({ "labels": { "example.com/mine": "yes" } });
    house.merge(SLICE, json!({ "endpoints": [], "metadata": labels })).await.with(200);
    let after = house.until_looks(SLICE, |now| now["endpoints"] == before["endpoints"]).await;
    assert_eq!(after["metadata"]["labels"]["example.com/mine"], "yes", "the rest is left alone");
    let labels = json!({ "metadata": labels });
    let edited = house.merge(SERVICE, labels).await.with(200);
    // Whatever follows a change has followed it when a later one is seen to.
    house.delete(AUTHENTICATION).await.with(200);
    house.until(AUTHENTICATION, 200).await;
    assert_eq!(version(&house.get(SERVICE).await.with(200)), version(&edited));
}

#[tokio::test]
async fn r79_classes_of_the_system_cannot_be_deleted() {
    let house = House::new().await;
    for name in ["system-cluster-critical", "system-node-critical"] {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        let status = house.delete(&path).await.fails(403, "Forbidden");
        let expected = format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: this is a system priority class \
             and cannot be deleted"
        );
        assert_eq!(status["message"], expected);
    }
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    house.made(classes, json!({ "metadata": { "name": "mine" }, "value": 5 })).await;
    house.delete(&format!("{classes}/mine")).await.with(200);
}

#[tokio::test]
async fn r37_the_version_says_what_was_built() {
    let house = House::new().await;
    let version = house.get("/version").await.with(200);
    let text = |name: &str| version[name].as_str().unwrap();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    assert!(digits(text("major")) && digits(text("minor")), "{version}");
    assert!(text("gitVersion").starts_with(&format!("v{}.{}.", text("major"), text("minor"))));
    let commit = text("gitCommit");
    assert!(commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
    for name in ["gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(!text(name).is_empty(), "{name}");
    }
}
