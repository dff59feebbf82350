//! Rules of spec/api-server.md.
//!
//! Watches that are cut between two objects of one revision, and resumed.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_world::{Draft, Proposal, WriteOperation};

use crate::house::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// Changes Secrets of a namespace together, at one revision, which is the answer.
pub async fn change_together(house: &House, namespace: &str, names: &[&str], bytes: usize) -> u64 {
    let state = house.world.current();
    let write = |name: &&str| {
        let key = format!("/registry/secrets/{namespace}/{name}");
        let record = state.get(&key).unwrap();
        let mut object: Value = serde_json::from_slice(record.bytes()).unwrap();
        object["data"] = json!({ "k": "x".repeat(bytes) });
        let draft = Draft::encode("Secret", "v1", object.as_object().unwrap());
        WriteOperation::Put { key: key.into(), draft }
    };
    let proposal = Proposal { guards: Vec::new(), writes: names.iter().map(write).collect() };
    house.world.propose(proposal).await.unwrap().revision.0
}

#[tokio::test]
async fn r104_quotas_charged_together_are_told_again_to_a_watch_from_their_revision() {
    let house = House::new().await;
    for name in ["a", "b"] {
        let hard = json!({ "count/configmaps": "5" });
        let spec = json!({ "hard": hard });
        house.made(QUOTAS, json!({ "metadata": { "name": name }, "spec": spec })).await;
        let status = json!({ "hard": hard, "used": { "count/configmaps": "0" } });
        let path = format!("{QUOTAS}/{name}/status");
        house.merge(&path, json!({ "status": status })).await.with(200);
    }
    let before = house.revision();
    house.config_map("counted").await;
    let charged = house.get(QUOTAS).await.with(200);
    let at: BTreeSet<&str> = charged["items"].as_array().unwrap().iter().map(version).collect();
    assert_eq!(at.len(), 1, "both are charged at one revision");
    let at = version(&charged["items"][0]);
    let mut whole = house.watch(&format!("{QUOTAS}?watch=1&resourceVersion={before}")).await;
    whole.expect(&["MODIFIED a", "MODIFIED b"]).await;
    assert!(whole.is_silent().await, "nothing is told twice to one watch");
    // The first event said this revision; whoever was cut behind it misses nothing.
    let mut resumed = house.watch(&format!("{QUOTAS}?watch=1&resourceVersion={at}")).await;
    resumed.expect(&["MODIFIED a", "MODIFIED b"]).await;
    house.config_map("also").await;
    resumed.expect(&["MODIFIED a", "MODIFIED b"]).await;
    let one = format!("{QUOTAS}?watch=1&resourceVersion={at}&fieldSelector=metadata.name%3Da");
    let mut one = house.watch(&one).await;
    one.expect(&["MODIFIED a"]).await;
    assert!(one.is_silent().await, "a watch of one object cannot be cut inside a revision");
}

#[tokio::test]
async fn r104_a_watch_that_begins_with_the_state_is_told_once() {
    let house = House::new().await;
    for name in ["a", "b"] {
        house.made(SECRETS, named(name)).await;
    }
    let at = change_together(&house, "default", &["a", "b"], 1).await;
    let mut state = house.watch(&format!("{SECRETS}?watch=1")).await;
    state.expect(&["ADDED a", "ADDED b"]).await;
    assert!(state.is_silent().await);
    house.compact().await;
    let mut resumed = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={at}")).await;
    resumed.expect(&["MODIFIED a", "MODIFIED b"]).await;
    assert!(resumed.is_silent().await);
}

#[tokio::test]
async fn r109_no_bookmark_promises_a_revision_that_is_told_in_part() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut cuts = 0;
    // Which of two things that are due comes first is drawn, so a fault shows in most rounds.
    for _ in 0..8 {
        let house = House::new().await;
        for name in names {
            house.made(SECRETS, named(name)).await;
        }
        let start = house.revision();
        let query = "timeoutSeconds=5&allowWatchBookmarks=true";
        let path = format!("{SECRETS}?watch=1&{query}&resourceVersion={start}");
        let mut stream = house.watch(&path).await;
        // Each fills what may wait for the client, who takes nothing until the time is up.
        let at = change_together(&house, "default", &names, 70 << 10).await;
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(6)).await;
        tokio::time::resume();
        let mut told = BTreeSet::new();
        while let Some(event) = stream.next().await {
            let revision: u64 = version(&event["object"]).parse().unwrap();
            if event["type"] == "BOOKMARK" {
                assert!(revision < at || told.len() == names.len(), "{told:?} of {at}: {revision}");
            } else {
                told.insert(name(&event["object"]).to_owned());
            }
        }
        cuts += usize::from(told.len() < names.len());
    }
    assert!(cuts > 0, "the test no longer cuts the stream");
}
