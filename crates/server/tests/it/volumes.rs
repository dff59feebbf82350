//! Rules of spec/ownership.md: volumes and claims in use.

use serde_json::{Value, json};

use crate::house::{House, MERGE, NAMESPACES, named, version};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

fn volume(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "hostPath": { "path": "/data" },
        },
    })
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "nodeName": node,
            "containers": [{ "name": "c", "image": "example.com/app:v1" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "used" } }],
        },
    })
}

#[tokio::test]
async fn r163_pv1_volumes_and_claims_are_protected_from_the_start() {
    let house = House::new().await;
    let made = house.made(CLAIMS, claim("c")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let made = house.made(VOLUMES, volume("v")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[tokio::test]
async fn r164_pv1_a_bound_volume_waits_and_goes_when_it_is_released() {
    let house = House::new().await;
    house.made(VOLUMES, volume("v")).await;
    let status = format!("{VOLUMES}/v/status");
    house.patch(&status, MERGE, json!({ "status": { "phase": "Bound" } })).await;
    let path = format!("{VOLUMES}/v");
    house.delete(&path).await;
    // Something else the follower tends shows that it has passed by.
    house.made(VOLUMES, volume("w")).await;
    house.delete(&format!("{VOLUMES}/w")).await;
    house.until(&format!("{VOLUMES}/w"), 404).await;
    assert_eq!(house.get(&path).await.code, 200, "a bound volume stays");
    house.patch(&status, MERGE, json!({ "status": { "phase": "Released" } })).await;
    house.until(&path, 404).await;
}

#[tokio::test]
async fn r165_pv1_a_claim_waits_for_the_last_scheduled_pod_that_uses_it() {
    let house = House::new().await;
    house.made(CLAIMS, claim("used")).await;
    house.made(CLAIMS, claim("unused")).await;
    house.made(PODS, pod("p", "n")).await;
    let (used, unused) = (format!("{CLAIMS}/used"), format!("{CLAIMS}/unused"));
    house.delete(&used).await;
    house.delete(&unused).await;
    house.until(&unused, 404).await;
    assert_eq!(house.get(&used).await.code, 200, "a claim in use stays");
    house.delete_with(&format!("{PODS}/p"), json!({ "gracePeriodSeconds": 0 })).await;
    house.until(&used, 404).await;
}

#[tokio::test]
async fn r166_pv1_a_pod_that_was_never_scheduled_holds_no_claim() {
    let house = House::new().await;
    house.made(CLAIMS, claim("used")).await;
    house.made(PODS, pod("p", "")).await;
    house.delete(&format!("{CLAIMS}/used")).await;
    house.until(&format!("{CLAIMS}/used"), 404).await;
}

#[tokio::test]
async fn r163_protection_that_is_taken_off_a_living_object_comes_back() {
    let house = House::new().await;
    house.made(CLAIMS, claim("c")).await;
    house.made(VOLUMES, volume("v")).await;
    for (path, finalizer) in [
        (format!("{CLAIMS}/c"), "kubernetes.io/pvc-protection"),
        (format!("{VOLUMES}/v"), "kubernetes.io/pv-protection"),
    ] {
        for left in [json!(null), json!(["a/b"])] {
            house
                .patch(&path, MERGE, json!({ "metadata": { "finalizers": left } }))
                .await
                .with(200);
            let protected = |live: &Value| {
                let list = live["metadata"]["finalizers"].as_array();
                list.is_some_and(|list| list.contains(&json!(finalizer)))
            };
            house.until_looks(&path, protected).await;
        }
        // An object that goes is not held anew.
        house.patch(&path, MERGE, json!({ "metadata": { "finalizers": ["a/b"] } })).await;
        house.delete(&path).await.with(200);
        house.until_looks(&path, |live| live["metadata"]["finalizers"] == json!(["a/b"])).await;
        house.patch(&path, MERGE, json!({ "metadata": { "finalizers": null } })).await.with(200);
        house.until(&path, 404).await;
    }
}

#[tokio::test]
async fn r163_classes_are_protected_while_a_claim_or_volume_names_them() {
    let house = House::new().await;
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    let class = |name: &str| json!({ "metadata": { "name": name }, "driverName": "example.com", "parameters": { "a": "b" } });
    let made = house.made(classes, class("used")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/vac-protection"]));
    house.made(classes, class("unused")).await;
    let mut user = claim("c");
    user["spec"]["volumeAttributesClassName"] = json!("used");
    house.made(CLAIMS, user).await;
    let used = format!("{classes}/used");
    house.delete(&used).await.with(200);
    house.delete(&format!("{classes}/unused")).await.with(200);
    house.until(&format!("{classes}/unused"), 404).await;
    assert_eq!(house.get(&used).await.code, 200, "a class in use stays");
    house.delete(&format!("{CLAIMS}/c")).await;
    house.until(&used, 404).await;
}

#[tokio::test]
async fn r165_an_ephemeral_volume_holds_only_the_claim_of_its_own_pod() {
    let house = House::new().await;
    let mut body = pod("p", "n");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    let ephemeral = |name: &str| json!({ "name": name, "ephemeral": { "volumeClaimTemplate": { "spec": claim("")["spec"] } } });
    body["spec"]["volumes"] = json!([ephemeral("own"), ephemeral("foreign")]);
    let made = house.made(PODS, body).await;
    let mut own = claim("p-own");
    own["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"],
        "controller": true,
    }]);
    house.made(CLAIMS, own).await;
    house.made(CLAIMS, claim("p-foreign")).await;
    house.delete(&format!("{CLAIMS}/p-own")).await;
    house.delete(&format!("{CLAIMS}/p-foreign")).await;
    house.until(&format!("{CLAIMS}/p-foreign"), 404).await;
    assert_eq!(house.get(&format!("{CLAIMS}/p-own")).await.code, 200);
    // Once its grace is over the pod has let go, though a finalizer holds it.
    house.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await.with(200);
    house.until(&format!("{CLAIMS}/p-own"), 404).await;
    house.get(&format!("{PODS}/p")).await.with(200);
}

#[tokio::test]
async fn r166_a_finished_pod_holds_its_claim_even_when_it_is_shut_down() {
    let house = House::new().await;
    house.made(CLAIMS, claim("used")).await;
    let mut body = pod("p", "n");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(PODS, body).await;
    let done = json!({ "status": { "phase": "Succeeded" } });
    house.patch(&format!("{PODS}/p/status"), MERGE, done).await.with(200);
    house.delete(&format!("{PODS}/p")).await.with(200);
    let used = format!("{CLAIMS}/used");
    let marked = house.delete(&used).await.with(200);
    house.made(CLAIMS, claim("other")).await;
    house.delete(&format!("{CLAIMS}/other")).await;
    house.until(&format!("{CLAIMS}/other"), 404).await;
    assert_eq!(version(&house.get(&used).await.with(200)), version(&marked));
    house.patch(&format!("{PODS}/p"), MERGE, json!({ "metadata": { "finalizers": null } })).await;
    house.until(&used, 404).await;
}

#[tokio::test]
async fn r167_other_finalizers_and_other_namespaces_are_untouched() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
    // A pod elsewhere that uses a claim of the same name.
    house.made("/api/v1/namespaces/n/pods", pod("p", "node")).await;
    let mut body = claim("used");
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(CLAIMS, body).await;
    let path = format!("{CLAIMS}/used");
    let marked = house.delete(&path).await.with(200);
    let watch = format!("{CLAIMS}?watch=1&resourceVersion={}", version(&marked));
    let mut watch = house.watch(&watch).await;
    house.until_looks(&path, |live| live["metadata"]["finalizers"] == json!(["a/b"])).await;
    house.patch(&path, MERGE, json!({ "metadata": { "finalizers": null } })).await.with(200);
    // One change by the protection, and the end with the last finalizer (R75).
    watch.expect(&["MODIFIED used", "DELETED used"]).await;
}
