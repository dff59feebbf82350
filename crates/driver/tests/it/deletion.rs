//! Rules of spec/ownership.md that only show with the collector and the controllers running.

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

impl Estate {
    /// A Deployment with its ReplicaSet and its pods.
    async fn deployed(&self, name: &str, replicas: u32) -> Value {
        let mut body = deployment(name);
        body["spec"]["replicas"] = json!(replicas);
        let made = self.house.made(DEPLOYMENTS, body).await;
        self.settle().await;
        made
    }

    async fn all(&self, path: &str) -> Vec<Value> {
        self.house.get(path).await.with(200)["items"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn r11_controllers_own_their_children_and_hold_themselves_back() {
    let estate = Estate::new().await;
    estate.deployed("web", 2).await;
    estate
        .house
        .made(
            SERVICES,
            json!({
                "metadata": { "name": "web" },
                "spec": { "selector": { "app": "a" }, "ports": [{ "port": 80 }] },
            }),
        )
        .await;
    estate.settle().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for (path, kind, count) in
        [(SETS, "Deployment", 1), (PODS, "ReplicaSet", 2), (slices, "Service", 1)]
    {
        let children = estate.all(path).await;
        // The server's own Service has a slice that nobody makes for it.
        let children: Vec<_> = children
            .iter()
            .filter(|child| !child["metadata"]["ownerReferences"].is_null())
            .collect();
        assert_eq!(children.len(), count, "{path}");
        for child in children {
            let owners = child["metadata"]["ownerReferences"].as_array().unwrap();
            let flags = (&owners[0]["controller"], &owners[0]["blockOwnerDeletion"]);
            assert_eq!((owners.len(), &owners[0]["kind"]), (1, &json!(kind)), "{path}");
            assert_eq!(flags, (&json!(true), &json!(true)), "{path}");
        }
    }
}

#[tokio::test]
async fn r12_a_controller_that_is_going_adopts_nobody() {
    let estate = Estate::new().await;
    let mut body = deployment("web");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    body["spec"]["replicas"] = json!(0);
    estate.house.made(DEPLOYMENTS, body).await;
    estate.settle().await;
    let set = name(&estate.all(SETS).await[0]).to_owned();
    estate.house.delete(&format!("{SETS}/{set}?propagationPolicy=Orphan")).await;
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    estate.settle().await;
    let set = name(&estate.all(SETS).await[0]).to_owned();
    estate.house.merge(&format!("{SETS}/{set}"), hold).await.with(200);
    estate.house.delete(&format!("{SETS}/{set}")).await.with(200);
    // A pod that it would adopt while it lives.
    estate.house.made(PODS, pod("free")).await;
    estate.settle().await;
    let free = estate.house.get(&format!("{PODS}/free")).await.with(200);
    assert_eq!(free["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test]
async fn r97_a_collected_pod_keeps_its_own_grace() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    let mut body = pod("p");
    body["metadata"]["ownerReferences"] = json!([to(&owner)]);
    body["spec"]["terminationGracePeriodSeconds"] = json!(7);
    let path = estate.house.bound(body).await;
    estate.end("o", "Background").await;
    estate.settle().await;
    let going = estate.house.get(&path).await.with(200);
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 7);
    assert_ne!(going["metadata"]["deletionTimestamp"], Value::Null);
}

#[tokio::test]
async fn r102_r112_foreground_answers_at_once_and_shows_the_owner() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    estate.stuck("d", &[blocking(&owner)]).await;
    let going = estate.end("o", "Foreground").await;
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 0);
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["d", "o"]);
}

#[tokio::test]
async fn r110_a_second_foreground_delete_is_processed_again() {
    let estate = Estate::new().await;
    estate.house.made(CONFIG_MAPS, held("o")).await;
    for _ in 0..3 {
        let going = estate.end("o", "Foreground").await;
        let both = json!(["example.com/hold", "foregroundDeletion"]);
        assert_eq!(going["metadata"]["finalizers"], both);
        estate.settle().await;
        let left = estate.house.get(&format!("{CONFIG_MAPS}/o")).await.with(200);
        assert_eq!(left["metadata"]["finalizers"], json!(["example.com/hold"]));
    }
    estate.free("o").await;
    estate.house.get(&format!("{CONFIG_MAPS}/o")).await.with(404);
}

#[tokio::test]
async fn r145_r147_r148_the_collector_writes_under_its_own_name() {
    let estate = Estate::new().await;
    let (owner, other) = (estate.map("o", &[]).await, estate.map("other", &[]).await);
    estate.map("d", &[to(&owner), to(&other)]).await;
    estate.end("o", "Orphan").await;
    estate.settle().await;
    let left = estate.house.get(&format!("{CONFIG_MAPS}/d")).await.with(200);
    assert_eq!(left["metadata"]["ownerReferences"], json!([to(&other)]));
    let mut twice = to(&other);
    twice["blockOwnerDeletion"] = json!(true);
    estate.map("e", &[to(&other), twice.clone(), nobody("ConfigMap")]).await;
    estate.settle().await;
    let left = estate.house.get(&format!("{CONFIG_MAPS}/e")).await.with(200);
    assert_eq!(left["metadata"]["ownerReferences"], json!([to(&other), twice]));
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = "system:controller:generic-garbage-collector";
    let role = estate.house.get(&format!("{roles}/{role}")).await.with(200);
    let verbs = ["delete", "get", "list", "patch", "update", "watch"];
    let all = role["rules"].as_array().unwrap().iter();
    let mut all = all.filter(|rule| rule["resources"] == json!(["*"]));
    assert_eq!(all.next().unwrap()["verbs"], json!(verbs));
}

#[tokio::test]
async fn r146_an_object_that_changes_all_the_time_is_collected_all_the_same() {
    let estate = Estate::new().await;
    for round in 0..5 {
        let owner = estate.map(&format!("o{round}"), &[]).await;
        let path = format!("{CONFIG_MAPS}/d{round}");
        estate.map(&format!("d{round}"), &[to(&owner)]).await;
        estate.house.delete(&format!("{CONFIG_MAPS}/o{round}")).await.with(200);
        for number in 0..1000 {
            let data = json!({ "data": { "n": number.to_string() } });
            if estate.house.merge(&path, data).await.code == 404 {
                break;
            }
            assert!(number < 999, "it outruns the collector");
            tokio::task::yield_now().await;
        }
    }
    estate.settle().await;
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn r128_r146_a_reference_that_changes_in_time_saves_the_object() {
    let estate = Estate::new().await;
    let saviour = estate.map("saviour", &[]).await;
    for round in 0..20 {
        let owner = estate.map(&format!("o{round}"), &[]).await;
        let path = format!("{CONFIG_MAPS}/d{round}");
        estate.map(&format!("d{round}"), &[to(&owner)]).await;
        let delete = format!("{CONFIG_MAPS}/o{round}");
        let references = json!({ "metadata": { "ownerReferences": [to(&saviour)] } });
        let (_, saved) =
            tokio::join!(estate.house.delete(&delete), estate.house.merge(&path, references));
        estate.settle().await;
        // Saved before it was deleted, or too late: never both.
        assert_eq!(estate.house.get(&path).await.code, saved.code, "round {round}");
    }
}

#[tokio::test]
async fn r168_r169_r170_the_order_in_which_clients_see_a_cascade() {
    let estate = Estate::new().await;
    for (policy, order) in [("Foreground", ["d", "r", "o"]), ("Background", ["o", "r", "d"])] {
        let owner = estate.map("o", &[]).await;
        let middle = estate.map("r", &[blocking(&owner)]).await;
        estate.map("d", &[blocking(&middle)]).await;
        estate.settle().await;
        let since = estate.house.revision();
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}");
        let mut watch = estate.house.watch(&path).await;
        estate.end("o", policy).await;
        let (mut gone, mut newest) = (Vec::new(), since.0);
        while gone.len() < 3 {
            let event = watch.next().await.unwrap();
            let revision: u64 = version(&event["object"]).parse().unwrap();
            assert!(revision > newest, "{event}");
            newest = revision;
            if event["type"] == "DELETED" {
                gone.push(name(&event["object"]).to_owned());
            }
        }
        assert_eq!(gone, order, "{policy}");
    }
}

#[tokio::test]
async fn r99_r103_a_deployment_goes_with_all_it_made() {
    let estate = Estate::new().await;
    for policy in ["Background", "Foreground"] {
        estate.deployed("web", 3).await;
        let path = format!("{DEPLOYMENTS}/web?propagationPolicy={policy}");
        estate.house.delete(&path).await.with(200);
        estate.settle().await;
        for path in [DEPLOYMENTS, SETS, PODS] {
            assert!(estate.left(path).await.is_empty(), "{policy}: {path}");
        }
    }
}
