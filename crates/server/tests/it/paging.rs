//! Rules of spec/api-server.md.
//!
//! Walks over a collection page by page. What one list holds lives in `list`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::house::*;

async fn secrets(house: &House, names: &[&str]) {
    for name in names {
        house.made(SECRETS, named(name)).await;
    }
}

#[tokio::test]
async fn r14_pages_share_one_revision_and_count_what_is_left() {
    let house = House::new().await;
    secrets(&house, &["s0", "s1", "s2", "s3", "s4"]).await;
    let first = house.get(&format!("{SECRETS}?limit=2")).await.with(200);
    let revision = first["metadata"]["resourceVersion"].clone();
    let mut page = first;
    for (found, left) in [(vec!["s0", "s1"], 3), (vec!["s2", "s3"], 1)] {
        assert_eq!(names(&page), found);
        assert_eq!(page["metadata"]["remainingItemCount"], left);
        assert_eq!(page["metadata"]["resourceVersion"], revision);
        let token = page["metadata"]["continue"].as_str().unwrap();
        page = house.get(&format!("{SECRETS}?limit=2&continue={token}")).await.with(200);
    }
    assert_eq!(names(&page), ["s4"]);
    assert_eq!(page["metadata"], json!({ "resourceVersion": revision }));
    for limit in ["5", "0", "-1", "99999999999"] {
        let all = house.get(&format!("{SECRETS}?limit={limit}")).await.with(200);
        assert_eq!(names(&all).len(), 5, "{limit}");
        assert_eq!(all["metadata"].get("continue"), None, "{limit}");
    }
}

#[tokio::test]
async fn r14_a_token_has_the_form_that_clients_look_into() {
    let house = House::new().await;
    secrets(&house, &["a", "b"]).await;
    let page = house.get(&format!("{SECRETS}?limit=1")).await.with(200);
    let text = page["metadata"]["continue"].as_str().unwrap();
    let token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
    assert_eq!(token["v"], "meta.k8s.io/v1");
    assert_eq!(token["rv"].to_string(), version(&page));
    assert_eq!(token["start"], "a\0");
}

#[tokio::test]
async fn r14_a_page_with_a_selector_is_full_and_counts_nothing() {
    let house = House::new().await;
    for at in 0..9 {
        let label = if at % 3 == 2 { "x" } else { "y" };
        house.made(SECRETS, labelled(&format!("s{at}"), json!({ "t": label }))).await;
    }
    let page = house.get(&format!("{SECRETS}?limit=2&labelSelector=t%3Dx")).await.with(200);
    assert_eq!(names(&page), ["s2", "s5"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let last = format!("{SECRETS}?limit=2&labelSelector=t%3Dx&continue={token}");
    let last = house.get(&last).await.with(200);
    assert_eq!(names(&last), ["s8"]);
    assert_eq!(last["metadata"].get("continue"), None);
}

#[tokio::test]
async fn r14_bad_tokens_and_mixed_options_are_refused() {
    let house = House::new().await;
    secrets(&house, &["a", "b"]).await;
    let page = house.get(&format!("{SECRETS}?limit=1")).await.with(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let forged = |text: &str| URL_SAFE_NO_PAD.encode(text);
    for query in [
        "continue=garbage".to_owned(),
        format!("continue={token}&resourceVersion=5"),
        format!("continue={}", forged(r#"{"v":"meta.k8s.io/v2","rv":1,"start":"a\u0000"}"#)),
        format!("continue={}", forged(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#)),
        format!("continue={}", forged(r#"{"v":"meta.k8s.io/v1","rv":-7,"start":"a\u0000"}"#)),
        format!("continue={}", forged(r#"{"v":"meta.k8s.io/v1","rv":1}"#)),
        format!("continue={}", forged("[]")),
    ] {
        house.get(&format!("{SECRETS}?{query}")).await.fails(400, "BadRequest");
    }
    let zero = house.get(&format!("{SECRETS}?continue={token}&resourceVersion=0")).await.with(200);
    assert_eq!(names(&zero), ["b"]);
    let mixed =
        format!("{SECRETS}?continue={token}&resourceVersion=5&resourceVersionMatch=NotOlderThan");
    let status = house.get(&mixed).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["resourceVersionMatch"]);
}

#[tokio::test]
async fn r14_a_forged_start_stays_inside_its_collection() {
    let house = House::new().await;
    secrets(&house, &["a", "b"]).await;
    house.config_map("z").await;
    for start in ["", "../", "/", "\\u0000", "a/../../b", "\\uffff"] {
        let revision = house.revision();
        let text = format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":"{start}\u0000"}}"#);
        let token = URL_SAFE_NO_PAD.encode(text);
        let answer = house.get(&format!("{SECRETS}?continue={token}")).await;
        if answer.code == 200 {
            assert!(names(&answer.json).iter().all(|name| ["a", "b"].contains(name)), "{start}");
        } else {
            answer.fails(400, "BadRequest");
        }
    }
}

#[tokio::test]
async fn r15_an_expired_token_comes_with_one_that_goes_on() {
    let house = House::new().await;
    secrets(&house, &["a", "b", "c"]).await;
    let page = house.get(&format!("{SECRETS}?limit=1")).await.with(200);
    secrets(&house, &["bb"]).await;
    house.compact().await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let gone =
        house.get(&format!("{SECRETS}?limit=2&continue={token}")).await.fails(410, "Expired");
    let fresh = gone["metadata"]["continue"].as_str().unwrap();
    let next = house.get(&format!("{SECRETS}?limit=2&continue={fresh}")).await.with(200);
    assert_eq!(names(&next), ["b", "bb"]);
    assert!(version(&next).parse::<u64>().unwrap() > version(&page).parse().unwrap());
    let token = next["metadata"]["continue"].as_str().unwrap();
    let last = house.get(&format!("{SECRETS}?limit=2&continue={token}")).await.with(200);
    assert_eq!(names(&last), ["c"]);
}

/// What happens between two pages.
#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize, bool),
    Delete(usize, usize),
}

const SPACES: [&str; 3] = ["n", "n-a", "n1"];
const NAMES: [&str; 6] = ["a", "a-b", "a.b", "a0", "b", "c"];

/// The slow model: a map from keys to whether the object carries the label.
type Model = BTreeMap<String, bool>;

async fn take(house: &House, model: &mut Model, steps: &[Step]) {
    for step in steps {
        let (Step::Create(space, at, _) | Step::Delete(space, at)) = *step;
        let key = format!("{}/{}", SPACES[space], NAMES[at]);
        let path = format!("/api/v1/namespaces/{}/secrets", SPACES[space]);
        let code = match step {
            Step::Create(_, _, label) => {
                let fresh = !model.contains_key(&key);
                model.entry(key).or_insert(*label);
                let labels = if *label { json!({ "t": "x" }) } else { json!({}) };
                let answer = house.post(&path, labelled(NAMES[at], labels)).await;
                assert_eq!(answer.code == 201, fresh);
                answer.code
            }
            Step::Delete(..) => {
                let there = model.remove(&key).is_some();
                let answer = house.delete(&format!("{path}/{}", NAMES[at])).await;
                assert_eq!(answer.code == 200, there);
                answer.code
            }
        };
        assert!([200, 201, 404, 409].contains(&code), "{step:?} answers {code}");
    }
}

async fn walk(rounds: &[Vec<Step>], limit: usize, space: Option<usize>, by_label: bool) {
    let house = House::new().await;
    for space in SPACES {
        house.made(NAMESPACES, named(space)).await;
    }
    let mut model = Model::new();
    let (first, between) = rounds.split_first().unwrap();
    take(&house, &mut model, first).await;
    let inside = space.map(|space| format!("{}/", SPACES[space])).unwrap_or_default();
    let mut expected: Vec<String> = model
        .iter()
        .filter(|(key, label)| key.starts_with(&inside) && (!by_label || **label))
        .map(|(key, _)| key.clone())
        .collect();
    let collection = space.map_or("/api/v1/secrets".to_owned(), |space| {
        format!("/api/v1/namespaces/{}/secrets", SPACES[space])
    });
    let selector = if by_label { "&labelSelector=t%3Dx" } else { "" };
    let start = format!("{collection}?limit={limit}{selector}");
    let (mut path, mut revision, mut between) = (start.clone(), None, between.iter().cycle());
    loop {
        let page = house.get(&path).await.with(200);
        assert_eq!(*revision.get_or_insert(version(&page).to_owned()), version(&page));
        let found: Vec<String> = page["items"].as_array().unwrap().iter().map(key).collect();
        let rest = expected.split_off(limit.min(expected.len()));
        assert_eq!(found, expected);
        expected = rest;
        let left = page["metadata"].get("remainingItemCount").and_then(Value::as_u64);
        assert_eq!(left, (!expected.is_empty() && !by_label).then_some(expected.len() as u64));
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        path = format!("{start}&continue={token}");
        take(&house, &mut model, between.next().map_or(&[], Vec::as_slice)).await;
    }
    assert_eq!(expected, Vec::<String>::new());
}

fn step() -> impl Strategy<Value = Step> {
    let at = (0..SPACES.len(), 0..NAMES.len());
    prop_oneof![
        3 => (at.clone(), any::<bool>()).prop_map(|((space, at), l)| Step::Create(space, at, l)),
        1 => at.prop_map(|(space, at)| Step::Delete(space, at)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn r14_a_walk_shows_exactly_the_state_of_its_first_page(
        first in prop::collection::vec(step(), 0..24),
        between in prop::collection::vec(prop::collection::vec(step(), 0..4), 0..6),
        limit in 1_usize..5,
        space in prop::option::of(0..SPACES.len()),
        by_label in any::<bool>(),
    ) {
        let rounds: Vec<Vec<Step>> = std::iter::once(first).chain(between).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(walk(&rounds, limit, space, by_label));
    }
}
