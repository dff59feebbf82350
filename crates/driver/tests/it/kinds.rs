//! Rules of spec/ownership.md about kinds that appear and disappear, with the collector running.

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({ "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object" } } })
    };
    json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

fn thing(name: &str, owners: &[Value]) -> Value {
    let mut body = owned(name, owners);
    body["apiVersion"] = json!("example.com/v1");
    body["kind"] = json!("Thing");
    body
}

fn to_thing(owner: &Value) -> Value {
    reference(owner, "example.com/v1", "Thing")
}

impl Estate {
    async fn define(&self) {
        self.house.made(DEFINITIONS, definition()).await;
        self.house.until(THINGS, 200).await;
    }

    /// Deletes the definition and waits until the kind is served no more.
    async fn forget(&self) {
        let path = format!("{DEFINITIONS}/things.example.com");
        self.house.delete(&path).await.with(200);
        self.house.until(&path, 404).await;
    }
}

#[tokio::test]
async fn r133_r134_every_stored_kind_but_events_is_collected() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    let event = json!({
        "metadata": { "name": "e", "ownerReferences": [to(&owner)] },
        "involvedObject": { "namespace": "default", "name": "x" },
    });
    estate.house.made("/api/v1/namespaces/default/events", event).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for path in [SECRETS, lease, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"] {
        estate.house.made(path, owned("d", &[to(&owner)])).await;
    }
    estate.end("o", "Background").await;
    estate.settle().await;
    for path in [SECRETS, lease, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"] {
        estate.house.get(&format!("{path}/d")).await.with(404);
    }
    estate.house.get("/api/v1/namespaces/default/events/e").await.with(200);
}

#[tokio::test]
async fn r135_a_new_kind_is_collected_from_the_revision_it_is_served() {
    let estate = Estate::new().await;
    estate.define().await;
    // No time passes between the first request that is answered and these.
    let owner = estate.house.made(THINGS, thing("o", &[])).await;
    estate.house.made(THINGS, thing("d", &[to_thing(&owner)])).await;
    estate.house.made(THINGS, thing("gone", &[nobody("ConfigMap")])).await;
    estate.map("m", &[reference(&owner, "example.com/v1beta1", "Thing")]).await;
    estate.settle().await;
    assert_eq!(estate.left(THINGS).await, ["d", "o"]);
    estate.house.delete(&format!("{THINGS}/o")).await.with(200);
    estate.settle().await;
    assert!(estate.left(THINGS).await.is_empty());
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn r136_r137_kinds_that_go_or_cannot_be_served_stop_nobody() {
    let estate = Estate::new().await;
    estate.define().await;
    // It wants a kind that the other has, and is never served.
    let mut second = definition();
    second["metadata"]["name"] = json!("others.example.com");
    second["spec"]["names"]["plural"] = json!("others");
    estate.house.made(DEFINITIONS, second).await;
    estate.house.made(THINGS, thing("gone", &[nobody("ConfigMap")])).await;
    estate.settle().await;
    assert!(estate.left(THINGS).await.is_empty());
    for name in ["others.example.com", "things.example.com"] {
        let path = format!("{DEFINITIONS}/{name}");
        estate.house.delete(&path).await.with(200);
        estate.house.until(&path, 404).await;
    }
    // Without any definition the other kinds are collected as before.
    estate.map("gone", &[nobody("ConfigMap")]).await;
    estate.settle().await;
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn r140_a_reference_to_an_unknown_kind_waits_until_the_kind_is_served() {
    let estate = Estate::new().await;
    let mut unknown = nobody("Thing");
    unknown["apiVersion"] = json!("example.com/v1");
    let before = estate.map("d", &[unknown]).await;
    estate.settle().await;
    let path = format!("{CONFIG_MAPS}/d");
    assert_eq!(estate.house.get(&path).await.with(200), before);
    estate.define().await;
    estate.settle().await;
    estate.house.get(&path).await.with(404);
}

#[tokio::test]
async fn r88_a_version_that_is_no_longer_served_tells_nothing() {
    let estate = Estate::new().await;
    estate.define().await;
    let owner = estate.house.made(THINGS, thing("o", &[])).await;
    estate.map("new", &[reference(&owner, "example.com/v1", "Thing")]).await;
    estate.map("old", &[reference(&owner, "example.com/v1beta1", "Thing")]).await;
    let mut without = definition();
    without["spec"]["versions"][1]["served"] = json!(false);
    let versions = json!({ "spec": { "versions": without["spec"]["versions"] } });
    estate.house.merge(&format!("{DEFINITIONS}/things.example.com"), versions).await.with(200);
    estate.house.until("/apis/example.com/v1beta1/namespaces/default/things", 404).await;
    estate.house.delete(&format!("{THINGS}/o")).await.with(200);
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["old"]);
}

#[tokio::test]
async fn r141_r162_what_instances_own_goes_with_their_definition_again_and_again() {
    let estate = Estate::new().await;
    for round in 0..10 {
        estate.define().await;
        let mut dependents = Vec::new();
        for number in 0..5 {
            let owner = estate.house.made(THINGS, thing(&format!("o{number}"), &[])).await;
            let first = estate.map(&format!("d{round}-{number}"), &[to_thing(&owner)]).await;
            estate.map(&format!("e{round}-{number}"), &[to(&first)]).await;
            dependents.push(first);
        }
        estate.forget().await;
        estate.settle().await;
        let left = estate.left(CONFIG_MAPS).await;
        assert!(left.is_empty(), "round {round}: {left:?} of {}", dependents.len());
    }
}

#[tokio::test]
async fn r86_n2_an_object_that_names_a_kind_removed_moments_ago_is_kept() {
    let estate = Estate::new().await;
    for round in 0..10 {
        estate.define().await;
        let owner = estate.house.made(THINGS, thing("o", &[])).await;
        estate.forget().await;
        let name = format!("late{round}");
        estate.map(&name, &[to_thing(&owner)]).await;
        estate.settle().await;
        estate.house.get(&format!("{CONFIG_MAPS}/{name}")).await.with(200);
        // Served again, the kind has no such owner, and the reference is dangling.
        estate.define().await;
        estate.settle().await;
        estate.house.get(&format!("{CONFIG_MAPS}/{name}")).await.with(404);
        estate.forget().await;
    }
}

#[tokio::test]
async fn r138_what_a_broken_conversion_webhook_would_convert_is_collected_as_it_is_stored() {
    let estate = Estate::new().await;
    let mut conversion = definition();
    conversion["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/convert" },
    } });
    estate.house.made(DEFINITIONS, conversion).await;
    estate.house.until(THINGS, 200).await;
    let (owner, other) = (estate.map("o", &[]).await, estate.map("other", &[]).await);
    estate.house.made(THINGS, thing("gone", &[to(&owner)])).await;
    estate.house.made(THINGS, thing("kept", &[to(&owner), to(&other)])).await;
    let mut held = thing("held", &[to(&owner)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    estate.house.made(THINGS, held).await;
    // From now on another version is stored, so nothing can be read in it.
    let mut versions = definition()["spec"]["versions"].clone();
    (versions[0]["storage"], versions[1]["storage"]) = (json!(false), json!(true));
    let path = format!("{DEFINITIONS}/things.example.com");
    estate.house.merge(&path, json!({ "spec": { "versions": versions } })).await.with(200);
    let beta = THINGS.replace("/v1/", "/v1beta1/");
    let refused = estate.house.get(&beta).await.with(500);
    assert!(
        refused["message"].as_str().unwrap().starts_with("conversion webhook for example.com/v1")
    );
    estate.end("o", "Background").await;
    estate.settle().await;
    estate.house.get(&format!("{THINGS}/gone")).await.with(404);
    let kept = estate.house.get(&format!("{THINGS}/kept")).await.with(200);
    assert_eq!(kept["metadata"]["ownerReferences"], json!([to(&other)]));
    let held = estate.house.get(&format!("{THINGS}/held")).await.with(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string());
}
