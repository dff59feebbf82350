//! Rules of spec/ownership.md: volumes and claims in use.

use serde_json::{Value, json};

use crate::house::{House, MERGE};

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
async fn r163_volumes_and_claims_are_protected_from_the_start() {
    let house = House::new().await;
    let made = house.made(CLAIMS, claim("c")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    let made = house.made(VOLUMES, volume("v")).await;
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[tokio::test]
async fn r164_a_bound_volume_waits_and_goes_when_it_is_released() {
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
async fn r165_a_claim_waits_for_the_last_scheduled_pod_that_uses_it() {
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
async fn r166_a_pod_that_was_never_scheduled_holds_no_claim() {
    let house = House::new().await;
    house.made(CLAIMS, claim("used")).await;
    house.made(PODS, pod("p", "")).await;
    house.delete(&format!("{CLAIMS}/used")).await;
    house.until(&format!("{CLAIMS}/used"), 404).await;
}
