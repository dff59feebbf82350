//! The annotation follows the references, whoever writes them.

use serde_json::{Value, json};

use super::{CARRIER, NATIVE, PODS, annotation, envelope, holds, pod, reading, town};
use crate::town::{JSON, MERGE, Town};

fn replica_set(name: &str) -> Value {
    let labels = json!({ "app": "a" });
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": reading(NATIVE) },
        },
    })
}

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// Waits until the one pod has an owner of this name, or none.
async fn owned_by(town: &Town, owner: &Value) -> Value {
    let owner = owner.clone();
    let is_owned = move |list: &Value| {
        list["items"][0]["metadata"].is_object()
            && list["items"][0]["metadata"]["ownerReferences"][0]["name"] == owner
    };
    let list = town.until(PODS, "owned", is_owned).await;
    list["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a52_adoption_and_orphaning_carry_the_annotation_in_the_same_write() {
    adoption_and_orphaning_carry_it(&town().await).await;
}

pub(super) async fn adoption_and_orphaning_carry_it(town: &Town) {
    town.made(SETS, &replica_set("one")).await;
    holds(&owned_by(town, &"one".into()).await);
    let orphan = json!({ "propagationPolicy": "Orphan" });
    let (code, said) = town.send("DELETE", &format!("{SETS}/one"), JSON, &orphan).await;
    assert!(code < 300, "{said}");
    let alone = owned_by(town, &Value::Null).await;
    holds(&alone);
    assert_eq!(
        annotation(&alone),
        Some(r#"{"kind":"OwnerReference","apiVersion":"meta/v1","items":[]}"#)
    );
    town.made(SETS, &replica_set("two")).await;
    let adopted = owned_by(town, &"two".into()).await;
    holds(&adopted);
    assert_eq!(adopted["metadata"]["uid"], alone["metadata"]["uid"], "the same pod");
}

#[tokio::test(flavor = "multi_thread")]
async fn a52_apply_neither_removes_the_annotation_nor_conflicts() {
    let town = town().await;
    let path = format!("{PODS}/a");
    let mut object = pod("a", &reading(NATIVE));
    let (_, first) = town.apply(&path, &object).await;
    holds(&first);
    object["metadata"]["labels"] = json!({ "new": "yes" });
    let (code, second) = town.apply(&path, &object).await;
    assert_eq!(code, 200, "{second}");
    holds(&second);
    let managed = second["metadata"]["managedFields"].to_string();
    assert!(!managed.contains("f:tenure.dev/owner-references"), "{managed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a52_whoever_edits_the_annotation_changes_nothing() {
    let town = town().await;
    // Either spelling of the path.
    for (name, path) in [("native", NATIVE), ("written", CARRIER)] {
        let before = town.made(PODS, &pod(name, &reading(path))).await;
        holds(&before);
        for value in [json!("forged"), Value::Null] {
            let patch =
                json!({ "metadata": { "annotations": { "tenure.dev/owner-references": value } } });
            let (code, after) = town.send("PATCH", &format!("{PODS}/{name}"), MERGE, &patch).await;
            assert_eq!(code, 200, "{after}");
            holds(&after);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a52_a_reference_that_is_written_by_hand_shows_in_the_same_answer() {
    what_is_written_by_hand_shows(&town().await).await;
}

pub(super) async fn what_is_written_by_hand_shows(town: &Town) {
    town.made(PODS, &pod("a", &reading(NATIVE))).await;
    let owners = json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "1", "controller": true,
          "blockOwnerDeletion": false },
        { "apiVersion": "x.io/v1", "kind": "Odd", "name": "\"quoted\" \\ <é> 😀", "uid": "2" },
    ]);
    let patch = json!({ "metadata": { "ownerReferences": owners } });
    let (code, after) = town.send("PATCH", &format!("{PODS}/a"), MERGE, &patch).await;
    assert_eq!(code, 200, "{after}");
    holds(&after);
    let read: Value = serde_json::from_str(&envelope(&after)).unwrap();
    assert_eq!(read["items"], owners, "it is JSON, and says the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a50_an_ephemeral_container_that_reads_is_rewritten() {
    an_ephemeral_container_is_rewritten(&town().await).await;
}

pub(super) async fn an_ephemeral_container_is_rewritten(town: &Town) {
    let plain = json!({ "containers": [{ "name": "a", "image": "x" }] });
    for (name, spec) in [("reads", reading(NATIVE)), ("plain", plain)] {
        town.made(PODS, &pod(name, &spec)).await;
        let path = format!("{PODS}/{name}/ephemeralcontainers");
        let patch = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "x",
            "env": [{ "name": "O", "valueFrom": { "fieldRef": { "fieldPath": NATIVE } } }] }] } });
        let (code, after) = town.send("PATCH", &path, MERGE, &patch).await;
        assert_eq!(code, 200, "{after}");
        let read = &after["spec"]["ephemeralContainers"][0]["env"][0]["valueFrom"]["fieldRef"];
        assert_eq!(read["fieldPath"], CARRIER);
    }
    holds(&town.get(&format!("{PODS}/reads")).await);
    // That way of writing changes no metadata: it comes with the next write (A56).
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let (_, after) = town.send("PATCH", &format!("{PODS}/plain"), MERGE, &patch).await;
    holds(&after);
}

/// Numbers that look random and are the same in every run.
fn roll(state: &mut u64, sides: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap() % sides
}

#[tokio::test(flavor = "multi_thread")]
async fn a93_the_expressions_and_the_engine_write_the_same_of_any_references() {
    let town = town().await;
    let letters: Vec<char> =
        "aZ0-./:\"\\'{}[]$@% <>&éß中\u{e000}\u{feff}\u{2028}😀\u{10fffd}".chars().collect();
    let mut state = 20;
    for _ in 0..60 {
        let owners: Vec<Value> = (0..roll(&mut state, 5))
            .map(|n| {
                let mut word = || -> String {
                    (0..=roll(&mut state, 12)).map(|_| letters[roll(&mut state, letters.len())]).collect()
                };
                let (kind, name) = (word(), word());
                let mut owner = json!({ "apiVersion": "x.io/v1", "kind": kind, "name": name, "uid": n.to_string() });
                for member in ["controller", "blockOwnerDeletion"] {
                    // One controller at most.
                    match roll(&mut state, 3) {
                        0 => owner[member] = false.into(),
                        1 if n == 0 || member != "controller" => owner[member] = true.into(),
                        _ => {}
                    }
                }
                owner
            })
            .collect();
        let mut object = pod("any", &reading(NATIVE));
        object["metadata"]["ownerReferences"] = owners.into();
        let (code, tried) = town.create(&format!("{PODS}?dryRun=All"), &object).await;
        assert_eq!(code, 201, "{object}: {tried}");
        holds(&tried);
    }
}
