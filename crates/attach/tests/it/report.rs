//! `install ownership-report`, with the rights that it prints and no others.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_attach::install::{self, ReportInstall};
use tenure_attach::uninstall::uninstall;
use tenure_attach::{AttachFeature, ReportAttachment, ReportSettings};

use crate::town::{SERVER, Town, documents};

fn printed() -> String {
    let wanted = ReportInstall {
        types: [(String::new(), "configmaps".to_owned())].into(),
        image: "tenure:test".into(),
    };
    install::ownership_report(SERVER, &wanted).unwrap()
}

async fn attached(town: &Town) -> ReportAttachment {
    let account = "tenure-ownership-report";
    let client = town.cluster.service_account_client("tenure-system", account).await.unwrap();
    let every = Some(Duration::from_millis(100));
    let settings = ReportSettings { identity: "one".into(), listen: None, every };
    ReportAttachment::start(client, &settings).await.unwrap()
}

async fn until(running: &ReportAttachment, line: &str) {
    for _ in 0..500 {
        if running.metrics().lines().any(|found| found == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never {line}: {}", running.metrics());
}

#[tokio::test(flavor = "multi_thread")]
async fn a73_a_finding_is_counted_and_told_once() {
    let town = Town::start_with(|config| {
        config.controllers = vec!["-garbage-collector-controller".into(), "*".into()]
    })
    .await;
    town.apply_all(&printed()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000001" });
    town.made(maps, &json!({ "metadata": { "name": "lost", "ownerReferences": [owner] } })).await;
    let running = attached(&town).await;
    until(&running, "tenure_ownership_findings{finding=\"dangling\"} 1").await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let ours = |list: &Value| -> Vec<Value> {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|one| one["reportingController"] == "tenure.dev/ownership-report")
            .collect()
    };
    let list = town.until(events, "an event", |list| !ours(list).is_empty()).await;
    let event = ours(&list).remove(0);
    assert_eq!(
        (&event["reason"], &event["regarding"]["name"]),
        (&json!("Dangling"), &json!("lost"))
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    running.leave().await;
    // Another process finds it told.
    let running = attached(&town).await;
    until(&running, "tenure_ownership_findings{finding=\"dangling\"} 1").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(ours(&town.get(events).await).len(), 1);
    let (code, _) =
        town.send("DELETE", &format!("{maps}/lost"), "application/json", &Value::Null).await;
    assert_eq!(code, 200);
    for _ in 0..500 {
        if !running.metrics().contains("finding=") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!running.metrics().contains("finding="), "{}", running.metrics());
    running.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a85_the_report_leaves_nothing_behind() {
    let town = Town::start().await;
    let before = town.inventory().await;
    town.apply_all(&printed()).await;
    assert_ne!(town.inventory().await, before);
    uninstall(&town.client, AttachFeature::OwnershipReport, false, &mut |_| {}).await.unwrap();
    let is_gone = |list: &Value| !list.to_string().contains("tenure-system");
    town.until("/api/v1/namespaces", "gone", is_gone).await;
    assert_eq!(town.inventory().await, before);
}

#[test]
fn a73_it_reads_and_writes_events_alone() {
    for object in documents(&printed()) {
        if !matches!(object["kind"].as_str(), Some("ClusterRole")) {
            continue;
        }
        for rule in object["rules"].as_array().unwrap() {
            let is_events = rule["resources"] == json!(["events"]);
            let wanted =
                if is_events { json!(["create"]) } else { json!(["get", "list", "watch"]) };
            assert_eq!(rule["verbs"], wanted, "{rule}");
            assert!(!rule["resources"].to_string().contains("secrets"), "{rule}");
        }
    }
}
