//! The built-in controllers behind a whole API server. Rules of spec/workload-controllers.md.

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;

pub const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
pub const PODS: &str = "/api/v1/namespaces/default/pods";

pub fn set(name: &str, replicas: i64) -> Value {
    let mut body = deployment(name);
    body["kind"] = json!("ReplicaSet");
    body["spec"]["replicas"] = json!(replicas);
    body["spec"]["selector"]["matchLabels"] = json!({ "app": name });
    body["spec"]["template"]["metadata"]["labels"] = json!({ "app": name });
    body
}

pub async fn pods_of(estate: &Estate, app: &str) -> Vec<Value> {
    let path = format!("{PODS}?labelSelector=app%3D{app}");
    estate.house.get(&path).await.with(200)["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn pu2_pu5_a_pass_sees_one_state_with_all_that_it_wrote() {
    let estate = Estate::new().await;
    let sets = 8;
    for number in 0..sets {
        estate.house.made(SETS, set(&format!("s{number}"), 20)).await;
    }
    // The controllers are woken by every one of their own pods while the others are under way.
    for size in [3, 17, 0, 12, 1, 20] {
        for number in 0..sets {
            let path = format!("{SETS}/s{number}");
            let size = json!({ "spec": { "replicas": size } });
            estate.house.merge(&path, size).await.with(200);
        }
    }
    estate.settle().await;
    for number in 0..sets {
        assert_eq!(pods_of(&estate, &format!("s{number}")).await.len(), 20);
    }
    // From rest, a larger size makes what is missing and never one too many that has to go again.
    let mut events = estate.house.watch(&format!("{PODS}?watch=true")).await;
    for _ in 0..sets * 20 {
        assert_eq!(events.next().await.unwrap()["type"], "ADDED");
    }
    for number in 0..sets {
        let size = json!({ "spec": { "replicas": 60 } });
        estate.house.merge(&format!("{SETS}/s{number}"), size).await.with(200);
    }
    estate.settle().await;
    for _ in 0..sets * 40 {
        assert_eq!(events.next().await.unwrap()["type"], "ADDED");
    }
    assert!(events.is_silent().await);
}

#[tokio::test]
async fn rs6_the_scale_of_both_kinds_shows_and_sets_the_size() {
    let estate = Estate::new().await;
    let mut controller = set("old", 2);
    controller["apiVersion"] = json!("v1");
    controller["kind"] = json!("ReplicationController");
    controller["spec"]["selector"] = json!({ "app": "old" });
    for (collection, name, body) in [(SETS, "web", set("web", 2)), (CONTROLLERS, "old", controller)]
    {
        estate.house.made(collection, body).await;
        estate.settle().await;
        let path = format!("{collection}/{name}/scale");
        let mut scale = estate.house.get(&path).await.with(200);
        assert_eq!(scale["spec"], json!({ "replicas": 2 }));
        let selector = format!("app={name}");
        assert_eq!(scale["status"], json!({ "replicas": 2, "selector": selector }));
        scale["spec"]["replicas"] = json!(5);
        scale["status"]["replicas"] = json!(99);
        let after = estate.house.put(&path, scale).await.with(200);
        assert_eq!(
            (&after["spec"]["replicas"], &after["status"]["replicas"]),
            (&json!(5), &json!(2))
        );
        estate.settle().await;
        assert_eq!(pods_of(&estate, name).await.len(), 5);
        assert_eq!(estate.house.get(&path).await.with(200)["status"]["replicas"], 5);
    }
}
