//! Rules of spec/retention.md, section 9: many writers, many owners, restarts and the end of it.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_driver::Controllers;
use tenure_server::engine_api::EngineApi;

use super::*;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn set(name: &str, refs: &[&str]) -> Value {
    let volume = |name: &&str| json!({ "name": name, "configMap": { "name": name } });
    let volumes: Vec<Value> = refs.iter().map(volume).collect();
    json!({
        "metadata": { "name": name },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "containers": [{ "name": "c", "image": "example.com/app:v1" }],
                    "volumes": volumes,
                },
            },
        },
    })
}

fn opted_in(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "controllersAsOwners": true })
}

async fn owners(house: &House, name: &str) -> Vec<String> {
    let subject = house.get(&format!("{CONFIG_MAPS}/{name}")).await.with(200);
    entries(&subject).iter().map(|found| entry(found).1).collect()
}

#[tokio::test]
async fn r65_conflict_storm_100_writers() {
    let estate = Estate::new().await;
    let house = Arc::new(&estate.house);
    house.made(CONFIG_MAPS, opted_in("a")).await;
    for number in 0..100 {
        let path = format!("{CONFIG_MAPS}/a");
        let note = json!({ "metadata": { "annotations": { format!("n{number}"): "x" } } });
        let (made, noted) = tokio::join!(
            house.made(SETS, set(&format!("s{number}"), &["a"])),
            house.merge(&path, note),
        );
        noted.with(200);
        assert_eq!(made["kind"], json!("ReplicaSet"));
    }
    estate.settle().await;
    let subject = house.get(&format!("{CONFIG_MAPS}/a")).await.with(200);
    assert_eq!(entries(&subject).len(), 100);
    assert_eq!(subject["metadata"]["annotations"].as_object().unwrap().len(), 100);
}

#[tokio::test]
async fn r62_r63_r66_owners_10k_cap() {
    let estate = Estate::new().await;
    for number in 0..2010 {
        estate.house.made(SETS, set(&format!("s{number}"), &["a"])).await;
    }
    estate.house.made(CONFIG_MAPS, opted_in("a")).await;
    estate.settle().await;
    assert_eq!(owners(&estate.house, "a").await.len(), 2000);
    let events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Da";
    let told = |list: &Value, reason: &str| {
        list["items"].as_array().unwrap().iter().any(|event| event["reason"] == json!(reason))
    };
    estate.house.until_looks(events, |list| told(list, "OwnerListFull")).await;
    estate.house.until_looks(events, |list| told(list, "ManyOwners")).await;
    // A holder that found no room is seen by the guard all the same.
    let before = owners(&estate.house, "a").await;
    let out = (0..2010).map(|n| format!("s{n}")).find(|name| !before.contains(name)).unwrap();
    for name in before {
        estate.house.delete(&format!("{SETS}/{name}")).await.with(200);
    }
    estate.settle().await;
    assert!(owners(&estate.house, "a").await.contains(&out));
}

#[tokio::test]
async fn r68_r72_restart_replan_is_noop() {
    let house = House::collecting().await;
    let running = Running::start(&house, &["*"]);
    house.made(CONFIG_MAPS, opted_in("a")).await;
    house.made(SETS, set("one", &["a"])).await;
    running.settle(&house).await;
    let before = house.get(&format!("{CONFIG_MAPS}/a")).await.with(200);
    assert_eq!(entries(&before).len(), 1);
    drop(running);
    let running = Running::start(&house, &["*"]);
    running.settle(&house).await;
    assert_eq!(house.get(&format!("{CONFIG_MAPS}/a")).await.with(200), before);
    drop(running);
    // What happens meanwhile is made up for.
    house.made(SETS, set("two", &["a"])).await;
    house.delete(&format!("{SETS}/one")).await.with(200);
    let running = Running::start(&house, &["*"]);
    running.settle(&house).await;
    assert_eq!(owners(&house, "a").await, ["two"]);
}

#[tokio::test]
async fn r70_drain_leaves_empty_lists() {
    let house = House::collecting().await;
    let running = Running::start(&house, &["*"]);
    let owner = house.made(CONFIG_MAPS, named("owner")).await;
    house.made(CONFIG_MAPS, opted_in("a")).await;
    let mut mixed = opted_in("b");
    mixed["metadata"]["ownerReferences"] = json!([to(&owner)]);
    house.made(CONFIG_MAPS, mixed).await;
    house.made(SETS, set("one", &["a", "b"])).await;
    running.settle(&house).await;
    assert_eq!(owners(&house, "b").await, ["owner", "one"]);
    drop(running);
    // The holder goes while nobody looks: its entry alone would have the subject collected.
    house.delete(&format!("{SETS}/one")).await.with(200);
    let off = Controllers::named(&["*".to_owned()]).unwrap().retaining(false);
    let running = Running::with(&house, off);
    running.settle(&house).await;
    assert_eq!(owners(&house, "a").await, Vec::<String>::new());
    assert_eq!(owners(&house, "b").await, ["owner"]);
    house.made(SETS, set("two", &["a", "b"])).await;
    running.settle(&house).await;
    assert_eq!(owners(&house, "a").await, Vec::<String>::new(), "off is off");
    drop(running);
    let running = Running::start(&house, &["*"]);
    running.settle(&house).await;
    assert_eq!(owners(&house, "a").await, ["two"]);
    assert_eq!(owners(&house, "b").await, ["owner", "two"]);
}

#[tokio::test]
async fn r46_r47_what_is_going_is_left_alone() {
    let estate = Estate::new().await;
    let house = &estate.house;
    let mut held = opted_in("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(CONFIG_MAPS, held).await;
    let mut going = set("going", &["b"]);
    going["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(SETS, going).await;
    house.delete(&format!("{CONFIG_MAPS}/a")).await.with(200);
    house.delete(&format!("{SETS}/going")).await.with(200);
    estate.settle().await;
    house.made(SETS, set("one", &["a", "b"])).await;
    house.made(CONFIG_MAPS, opted_in("b")).await;
    estate.settle().await;
    assert_eq!(owners(house, "a").await, Vec::<String>::new());
    assert_eq!(owners(house, "b").await, ["one"]);
}

#[tokio::test]
async fn r67_edits_of_one_subject_come_together() {
    let estate = Estate::new().await;
    let house = &estate.house;
    let made = house.made(CONFIG_MAPS, opted_in("a")).await;
    estate.settle().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&made));
    let mut changes = house.watch(&path).await;
    for number in 0..20 {
        house.made(SETS, set(&format!("s{number}"), &["a"])).await;
    }
    estate.settle().await;
    assert_eq!(owners(house, "a").await.len(), 20);
    let metrics = estate.running.engines.metrics();
    let line = metrics.lines().find(|line| line.starts_with("tenure_retention_owner_adds_total"));
    assert_eq!(line, Some("tenure_retention_owner_adds_total 20"));
    assert!(metrics.contains("tenure_retention_subjects{state=\"S2\"} 1"), "{metrics}");
    // The first patch carries who was there, the second all that came in a second.
    let mut edits = 0;
    while !changes.is_silent().await {
        edits += 1;
    }
    assert!((1..=3).contains(&edits), "{edits} edits");
}
