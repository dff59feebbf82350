//! Rules of spec/ownership.md about what the collector leaves for people: events, graph, metrics, and
//! what it knows again after a restart.

use std::time::Duration;

use serde_json::json;

use crate::estate::*;
use crate::house::*;

const GRAPH: &str = "/debug/controllers/garbage-collector-controller/graph";

fn uid(object: &serde_json::Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

#[tokio::test]
async fn r19_r20_r21_r23_an_invalid_reference_is_reported_once_across_restarts() {
    let house = House::collecting().await;
    house.made(NAMESPACES, named("far")).await;
    let owner = house.made("/api/v1/namespaces/far/configmaps", named("owner")).await;
    let role = json!({ "metadata": { "name": "r", "ownerReferences": [to(&owner)] } });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    house.made(roles, role).await;
    let query = "/api/v1/events?fieldSelector=reason%3DOwnerRefInvalidNamespace";
    for round in 0..3 {
        let running = Running::start(&house, &["*"]);
        running.settle(&house).await;
        house.until_looks(query, |list| list["items"] != json!([])).await;
        // Another update of the dependent is no news either.
        let label = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        house.merge(&format!("{roles}/r"), label).await.with(200);
        running.settle(&house).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(running);
        let list = house.get(query).await.with(200);
        let events = list["items"].as_array().unwrap();
        assert_eq!((events.len(), &events[0]["count"]), (1, &json!(1)), "round {round}");
        let about = &events[0]["involvedObject"];
        assert_eq!((&about["kind"], &about["name"]), (&json!("ClusterRole"), &json!("r")));
        assert_eq!(events[0]["source"], json!({ "component": "garbage-collector-controller" }));
        assert_eq!(events[0]["metadata"]["namespace"], "default");
    }
}

#[tokio::test]
async fn r122_r129_r139_what_happened_while_no_collector_ran_is_made_up_for() {
    let house = House::collecting().await;
    let owner = house.config_map("o").await;
    house.made(CONFIG_MAPS, owned("d", &[to(&owner)])).await;
    let kept = house.config_map("kept").await;
    house.made(CONFIG_MAPS, owned("k", &[to(&kept)])).await;
    house.delete(&format!("{CONFIG_MAPS}/o")).await.with(200);
    let running = Running::start(&house, &["*"]);
    running.settle(&house).await;
    house.get(&format!("{CONFIG_MAPS}/d")).await.with(404);
    house.get(&format!("{CONFIG_MAPS}/k")).await.with(200);
    drop(running);
    house.delete(&format!("{CONFIG_MAPS}/kept?propagationPolicy=Foreground")).await.with(200);
    let running = Running::start(&house, &["*"]);
    running.settle(&house).await;
    house.get(&format!("{CONFIG_MAPS}/kept")).await.with(404);
    house.get(&format!("{CONFIG_MAPS}/k")).await.with(404);
}

#[tokio::test]
async fn r171_the_graph_is_served_whole_or_around_some_uids() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    let first = estate.stuck("d", &[blocking(&owner)]).await;
    let apart = estate.map("apart", &[]).await;
    let other = estate.map("e", &[to(&apart)]).await;
    estate.end("o", "Foreground").await;
    estate.settle().await;
    let whole = estate.house.get(GRAPH).await;
    assert_eq!((whole.code, whole.header("content-type")), (200, "text/vnd.graphviz"));
    for object in [&owner, &first, &apart, &other] {
        assert!(whole.text().contains(uid(object)), "{}", whole.text());
    }
    for word in ["digraph", "deletingDependents"] {
        assert!(whole.text().contains(word), "{}", whole.text());
    }
    let part = estate.house.get(&format!("{GRAPH}?uid={}", uid(&first))).await;
    assert!(part.text().contains(uid(&owner)) && part.text().contains(uid(&first)));
    assert!(!part.text().contains(uid(&apart)), "{}", part.text());
    let both = format!("{GRAPH}?uid={}&uid={}", uid(&first), uid(&other));
    assert!(estate.house.get(&both).await.text().contains(uid(&apart)));
    let nobody = peer("eve", &[]);
    let refused = estate.house.ask_as(&nobody, "GET", GRAPH, &[], "").await;
    assert_eq!(refused.code, 403);
}

#[tokio::test]
async fn r172_the_queues_and_errors_of_the_collector_are_metrics() {
    let estate = Estate::new().await;
    estate.map("o", &[]).await;
    estate.settle().await;
    let metrics = estate.house.get("/metrics").await;
    for line in [
        "garbagecollector_controller_resources_sync_error_total 0",
        "workqueue_depth{name=\"garbage_collector_graph_changes\"} 0",
        "workqueue_depth{name=\"garbage_collector_attempt_to_delete\"} 0",
        "workqueue_depth{name=\"garbage_collector_attempt_to_orphan\"} 0",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "no {line}");
    }
}

#[tokio::test]
async fn without_a_collector_nobody_waits_for_it() {
    let house = House::collecting().await;
    let running = Running::start(&house, &["-garbage-collector-controller", "*"]);
    house.api.put_engines(running.engines.clone());
    house.made(CONFIG_MAPS, owned("d", &[nobody("ConfigMap")])).await;
    running.settle(&house).await;
    house.get(&format!("{CONFIG_MAPS}/d")).await.with(200);
    assert_eq!(house.get(GRAPH).await.text(), "");
}
