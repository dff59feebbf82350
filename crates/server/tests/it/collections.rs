//! Rules of spec/api-server.md (R77, R194) and spec/ownership.md (R64–R67): deletion of large collections, of
//! which many are under way at a time.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_world::{Change, Interest};

use crate::house::*;

/// More than are under way at a time.
const MANY: usize = 600;
const PREFIX: &str = "/registry/secrets/default/";

fn name_of(number: usize) -> String {
    format!("s-{number:04}")
}

async fn fill(house: &House, count: usize, finalizers: Value) {
    for number in 0..count {
        let meta = json!({ "name": name_of(number), "finalizers": finalizers });
        house.made(SECRETS, json!({ "metadata": meta })).await;
    }
}

/// The names that are there.
async fn left(house: &House) -> BTreeSet<String> {
    let list = house.get(SECRETS).await.with(200);
    names(&list).into_iter().map(str::to_owned).collect()
}

fn range(numbers: std::ops::Range<usize>) -> BTreeSet<String> {
    numbers.map(name_of).collect()
}

#[tokio::test]
async fn r64_r77_each_object_of_a_collection_has_an_end_and_a_revision_of_its_own() {
    let house = House::new().await;
    fill(&house, MANY, json!([])).await;
    let mut watch = house.world.watch(house.revision(), Interest::Prefix(PREFIX.into())).unwrap();
    let list = house.delete(SECRETS).await.with(200);
    assert_eq!(names(&list).len(), MANY, "as it was read");
    assert_eq!(left(&house).await, BTreeSet::new());
    let mut last = None;
    for number in 0..MANY {
        let change: std::sync::Arc<Change> = watch.next().await.unwrap();
        assert_eq!(
            *change.key,
            *format!("{PREFIX}{}", name_of(number)),
            "in the order of the list"
        );
        assert!(change.after.is_none());
        assert!(Some(change.revision) > last, "{number}: a revision of its own");
        last = Some(change.revision);
    }
}

#[tokio::test]
async fn r65_a_refusal_ends_the_request_and_what_was_begun_is_done_when_it_is_told() {
    let house = House::new().await;
    let group = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic";
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["secrets"],
    });
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "matchConstraints": { "resourceRules": [rule] },
        "validations": [{ "expression": "oldObject.metadata.name != 's-0400'" }],
    } });
    let binding = json!({ "metadata": { "name": "b" }, "spec": {
        "policyName": "p", "validationActions": ["Deny"],
    } });
    house.made(&format!("{group}ies"), policy).await;
    house.made(&format!("{group}ybindings"), binding).await;
    fill(&house, MANY, json!([])).await;
    let status = house.delete(SECRETS).await.fails(422, "Invalid");
    assert!(status["message"].as_str().unwrap().contains("s-0400"), "{status}");
    assert_eq!(left(&house).await, range(400..MANY), "no more and no less");
    // What is left goes on: the same object refuses again, at once.
    house.delete(SECRETS).await.fails(422, "Invalid");
    assert_eq!(left(&house).await, range(400..MANY));
}

#[tokio::test]
async fn r65_objects_that_go_or_change_meanwhile_go_all_the_same() {
    let house = House::new().await;
    fill(&house, MANY, json!([])).await;
    let path = |number| format!("{SECRETS}/{}", name_of(number));
    let others = async {
        for number in (0..MANY).rev() {
            let answer = match number % 3 {
                0 => house.delete(&path(number)).await,
                1 => {
                    let mark = json!({ "metadata": { "annotations": { "a": "b" } } });
                    house.merge(&path(number), mark).await
                }
                _ => house.put(&path(number), named(&name_of(number))).await,
            };
            assert!(matches!(answer.code, 200 | 201 | 404 | 409), "{answer:?}");
        }
    };
    let (answer, ()) = tokio::join!(house.delete(SECRETS), others);
    assert_eq!(names(&answer.with(200)).len(), MANY);
    // Only what a PUT has made again behind the deletion is there.
    let remade = left(&house).await;
    assert!(remade.iter().all(|name| range(0..MANY).contains(name)), "{remade:?}");
    house.delete(SECRETS).await.with(200);
    assert_eq!(left(&house).await, BTreeSet::new());
}

#[tokio::test]
async fn r66_a_request_that_is_given_up_leaves_the_rest_untouched() {
    const MORE: usize = 4 * MANY;
    let house = House::new().await;
    fill(&house, MORE, json!([])).await;
    let before = house.revision();
    let moved = async {
        while house.revision() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = moved => {}
        answer = house.delete(SECRETS) => panic!("too fast: {answer:?}"),
    }
    // What had its place in the order is written, all of it.
    house.world.sync().await.unwrap();
    let rest = left(&house).await;
    assert!(!rest.is_empty() && rest.len() < MORE);
    assert_eq!(
        rest,
        range(MORE - rest.len()..MORE),
        "the first of the list are gone, nothing else"
    );
    let marked = house.get(SECRETS).await.with(200);
    let marked = marked["items"].as_array().unwrap();
    assert!(marked.iter().all(|item| item["metadata"].get("deletionTimestamp").is_none()));
    house.delete(SECRETS).await.with(200);
    assert_eq!(left(&house).await, BTreeSet::new());
}

#[tokio::test]
async fn r64_many_finalizers_hold_every_object_of_a_large_collection() {
    let house = House::collecting().await;
    let own: Vec<String> = (0..40).map(|number| format!("example.com/f-{number}")).collect();
    fill(&house, 300, json!(own)).await;
    let begun = house.revision();
    house.delete(&format!("{SECRETS}?propagationPolicy=Foreground")).await.with(200);
    let marked = house.get(SECRETS).await.with(200);
    let mut wanted = own.clone();
    wanted.push("foregroundDeletion".to_owned());
    let mut revisions = BTreeSet::new();
    for item in marked["items"].as_array().unwrap() {
        let meta = &item["metadata"];
        assert!(meta["deletionTimestamp"].is_string(), "{item}");
        assert_eq!(meta["finalizers"], json!(wanted), "{item}");
        revisions.insert(meta["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    }
    assert_eq!(revisions.len(), 300, "a revision of its own each");
    assert!(revisions.first().is_some_and(|first| *first > begun.0));
    // A second wish changes them all again; a third that changes nothing writes nothing.
    for _ in 0..2 {
        house.delete(&format!("{SECRETS}?propagationPolicy=Background")).await.with(200);
    }
    assert_eq!(house.revision().0, begun.0 + 600);
    for name in left(&house).await {
        let nothing = json!({ "metadata": { "finalizers": null } });
        house.merge(&format!("{SECRETS}/{name}"), nothing).await.with(200);
    }
    assert_eq!(left(&house).await, BTreeSet::new());
}

#[tokio::test]
async fn r65_a_sequencer_without_room_is_waited_for() {
    let house = House::narrow(4).await;
    fill(&house, 300, json!([])).await;
    house.delete(SECRETS).await.with(200);
    assert_eq!(left(&house).await, BTreeSet::new());
}

#[tokio::test]
async fn r70_a_rehearsal_of_a_collection_deletes_nothing() {
    let house = House::new().await;
    fill(&house, 300, json!([])).await;
    let before = house.revision();
    let list = house.delete(&format!("{SECRETS}?dryRun=All")).await.with(200);
    assert_eq!(names(&list).len(), 300);
    assert_eq!(house.revision(), before);
    assert_eq!(left(&house).await.len(), 300);
}
