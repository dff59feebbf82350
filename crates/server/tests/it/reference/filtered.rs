//! Rules of spec/referential-authorization.md: whole collections for consumers (R155).

use serde_json::json;
use tenure_server::Peer;
use tenure_server::reference::ReferenceOptions;

use super::access::{LOCAL, TLS, gateways_path, town_in, watched};
use super::*;
use crate::watch_cut::change_together;

const ALL: &str = "/api/v1/secrets";

/// The house of the access tests, where collections are filtered.
async fn town() -> (House, Peer) {
    town_in(
        House::referring(ReferenceOptions { filtered_lists: true, ..ReferenceOptions::default() })
            .await,
    )
    .await
}

async fn listed(house: &House, who: &Peer, path: &str) -> (Vec<String>, String) {
    let list = house.ask_as(who, "GET", path, &[], "").await.with(200);
    let names = list["items"].as_array().unwrap().iter().map(key).collect();
    (names, version(&list).to_owned())
}

async fn refer_to(house: &House, names: &[&str]) {
    let refs: Vec<Value> =
        names.iter().map(|name| json!({ "kind": "Secret", "name": name })).collect();
    let spec = json!({ "listeners": [{ "tls": { "certificateRefs": refs } }] });
    house.merge(&format!("{}/web", gateways_path()), json!({ "spec": spec })).await.with(200);
}

async fn relabel(house: &House, path: &str, value: &str) {
    house.merge(path, json!({ "metadata": { "labels": { "a": value } } })).await.with(200);
}

#[tokio::test]
async fn r155_lists_show_what_is_referenced_and_only_consumers_get_them() {
    let (house, contour) = town().await;
    let (seen, _) = listed(&house, &contour, ALL).await;
    assert_eq!(seen, ["prod-tls/acme-tls", "prod/local"]);
    assert_eq!(listed(&house, &contour, LOCAL).await.0, ["prod/local"]);
    assert_eq!(listed(&house, &contour, TLS).await.0, ["prod-tls/acme-tls"]);
    assert!(listed(&house, &contour, "/api/v1/namespaces/default/secrets").await.0.is_empty());
    // Selectors narrow what is seen, and pages say nothing of what is not.
    let labelled = format!("{ALL}?labelSelector=a%3Db");
    assert!(listed(&house, &contour, &labelled).await.0.is_empty());
    let page = house.ask_as(&contour, "GET", &format!("{ALL}?limit=1"), &[], "").await.with(200);
    assert_eq!(names(&page), ["acme-tls"]);
    assert!(page["metadata"].get("remainingItemCount").is_none());
    let next = page["metadata"]["continue"].as_str().unwrap();
    let path = format!("{ALL}?limit=1&continue={next}");
    let page = house.ask_as(&contour, "GET", &path, &[], "").await.with(200);
    assert_eq!(names(&page), ["local"]);
    assert!(page["metadata"].get("continue").is_none());
    // Other kinds, other names, other people and other verbs stay closed.
    for path in [
        "/api/v1/configmaps",
        "/api/v1/secrets?fieldSelector=metadata.name=local",
        "/api/v1/namespaces/prod/secrets?fieldSelector=metadata.name=other",
        "/api/v1/namespaces/prod/secrets/other",
    ] {
        assert_eq!(house.ask_as(&contour, "GET", path, &[], "").await.code, 403, "{path}");
    }
    assert_eq!(house.ask_as(&contour, "DELETE", LOCAL, &[], "").await.code, 403);
    let stranger = peer("stranger", &[]);
    assert_eq!(house.ask_as(&stranger, "GET", ALL, &[], "").await.code, 403);
    // Who may read everything sees everything.
    user(&house, "contour", "prod", &[rule(&["list"], "", "secrets", &[])]).await;
    assert_eq!(listed(&house, &contour, LOCAL).await.0, ["prod/local", "prod/other"]);
    assert_eq!(listed(&house, &contour, ALL).await.0, ["prod-tls/acme-tls", "prod/local"]);
}

#[tokio::test]
async fn r155_without_the_gate_whole_collections_stay_closed() {
    let (house, contour) = super::access::town().await;
    for path in [ALL.to_owned(), LOCAL.to_owned(), format!("{ALL}?watch=1")] {
        assert_eq!(house.ask_as(&contour, "GET", &path, &[], "").await.code, 403, "{path}");
    }
}

#[tokio::test]
async fn r155_a_watch_follows_objects_and_edges() {
    let (house, contour) = town().await;
    let path = format!("{LOCAL}?watch=1&allowWatchBookmarks=true");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED local"]).await;
    relabel(&house, &format!("{LOCAL}/local"), "1").await;
    watch.expect(&["MODIFIED local"]).await;
    // What is not referenced is not told.
    relabel(&house, &format!("{LOCAL}/other"), "1").await;
    relabel(&house, &format!("{TLS}/acme-tls"), "1").await;
    assert!(watch.is_silent().await);
    // An edge appears: the object keeps its version, the bookmark behind it says how far the client is.
    refer_to(&house, &["local", "other"]).await;
    watch.expect(&["ADDED other", "BOOKMARK"]).await;
    relabel(&house, &format!("{LOCAL}/other"), "2").await;
    watch.expect(&["MODIFIED other"]).await;
    // An edge vanishes: the client is shown once more what it has, and nothing of later.
    refer_to(&house, &["local"]).await;
    let shown = house.get(&format!("{LOCAL}/other")).await.json;
    relabel(&house, &format!("{LOCAL}/other"), "3").await;
    let gone = watch.next().await.unwrap();
    assert_eq!(brief(&gone), "DELETED other");
    assert_eq!(gone["object"]["metadata"]["labels"]["a"], "2");
    assert_eq!(gone["object"]["metadata"]["uid"], shown["metadata"]["uid"]);
    assert!(version(&gone["object"]).parse::<u64>().unwrap() > version(&shown).parse().unwrap());
    // Objects come and go under an edge that stays.
    refer_to(&house, &["local", "next"]).await;
    house.made(LOCAL, named("next")).await;
    watch.expect(&["ADDED next"]).await;
    house.delete(&format!("{LOCAL}/next")).await.with(200);
    watch.expect(&["DELETED next"]).await;
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn r155_a_list_and_the_watch_from_its_revision_lose_no_edge() {
    let (house, contour) = town().await;
    let (seen, at) = listed(&house, &contour, LOCAL).await;
    assert_eq!(seen, ["prod/local"]);
    // Between the two an edge goes, one comes, and one comes and goes.
    relabel(&house, &format!("{LOCAL}/local"), "before").await;
    refer_to(&house, &["other"]).await;
    relabel(&house, &format!("{LOCAL}/local"), "after").await;
    house.made(LOCAL, named("short")).await;
    refer_to(&house, &["other", "short"]).await;
    refer_to(&house, &["other"]).await;
    let path = format!("{LOCAL}?watch=1&resourceVersion={at}");
    let mut watch = watched(&house, &contour, &path).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let event = watch.next().await.unwrap();
        assert_ne!(event["object"]["metadata"]["labels"]["a"], "after");
        told.push(brief(&event));
    }
    told.sort();
    assert_eq!(told, ["ADDED other", "DELETED local", "DELETED short"]);
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn r155_a_client_that_goes_on_from_an_old_version_loses_nothing() {
    let (house, contour) = town().await;
    relabel(&house, &format!("{LOCAL}/other"), "1").await;
    let path = format!("{LOCAL}?watch=1");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED local"]).await;
    refer_to(&house, &["local", "other"]).await;
    // Without bookmarks the client knows no newer version than that of the object that came into sight.
    let added = watch.next().await.unwrap();
    assert_eq!(brief(&added), "ADDED other");
    drop(watch);
    refer_to(&house, &["local"]).await;
    let path = format!("{LOCAL}?watch=1&resourceVersion={}", version(&added["object"]));
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["DELETED other"]).await;
    // What stayed in sight all the time is not told again, unless it has changed since.
    refer_to(&house, &["local", "other"]).await;
    watch.expect(&["ADDED other"]).await;
}

#[tokio::test]
async fn r155_initial_events_end_with_a_bookmark() {
    let (house, contour) = town().await;
    let path = format!(
        "{ALL}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls", "ADDED local"]).await;
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let ends = &bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!(ends, "true");
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    watch.expect(&["DELETED acme-tls"]).await;
}

#[tokio::test]
async fn r155_a_watch_ends_when_its_user_is_no_consumer_any_more() {
    let (house, contour) = town().await;
    let mut watch = watched(&house, &contour, &format!("{ALL}?watch=1")).await;
    watch.expect(&["ADDED acme-tls", "ADDED local"]).await;
    let (_, at) = listed(&house, &contour, ALL).await;
    let consumer = format!("{CONSUMERS}/contour-gateway");
    // Another class: everything goes out of sight, and comes back with the class.
    house.merge(&consumer, json!({ "classNames": ["envoy"] })).await.with(200);
    watch.expect(&["DELETED acme-tls", "DELETED local"]).await;
    house.merge(&consumer, json!({ "classNames": ["contour"] })).await.with(200);
    watch.expect(&["ADDED acme-tls", "ADDED local"]).await;
    // What was seen before the rights changed is not known any more: list again.
    let path = format!("{ALL}?watch=1&resourceVersion={at}");
    let expired = watched(&house, &contour, &path).await.next().await.unwrap();
    assert_eq!((&expired["type"], &expired["object"]["code"]), (&json!("ERROR"), &json!(410)));
    house.delete(&consumer).await.with(200);
    let last = watch.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn r155_an_informer_agrees_with_the_server_whatever_happens() {
    let (house, contour) = town().await;
    let mut known = std::collections::BTreeMap::new();
    let (first, mut at) = listed(&house, &contour, LOCAL).await;
    known.extend(first.into_iter().map(|name| (name, String::new())));
    let names = ["a", "b", "c", "d"];
    let mut number = 7_usize;
    for round in 0..40 {
        // The client sees some events, loses its connection and goes on from the last version it was told.
        for _ in 0..3 {
            number = number.wrapping_mul(1_103_515_245).wrapping_add(12_345) % 0x7fff_ffff;
            let name = names[number % 4];
            let path = format!("{LOCAL}/{name}");
            match number / 4 % 4 {
                0 => drop(house.post(LOCAL, named(name)).await),
                1 => drop(house.delete(&path).await),
                2 => {
                    let body = json!({ "metadata": { "labels": { "a": format!("{number}") } } });
                    drop(house.merge(&path, body).await);
                }
                _ => {
                    let from = number / 16 % 4;
                    refer_to(&house, &names[from..(from + number / 64 % 3).min(4)]).await;
                }
            }
        }
        let path = format!("{LOCAL}?watch=1&resourceVersion={at}");
        let mut watch = watched(&house, &contour, &path).await;
        let patience = std::time::Duration::from_millis(30);
        while let Ok(event) = tokio::time::timeout(patience, watch.next()).await {
            let event = event.unwrap();
            let object = &event["object"];
            at = version(object).to_owned();
            match event["type"].as_str().unwrap() {
                "DELETED" => drop(known.remove(&key(object))),
                _ => drop(known.insert(key(object), at.clone())),
            }
        }
        let (seen, _) = listed(&house, &contour, LOCAL).await;
        assert_eq!(known.keys().collect::<Vec<_>>(), seen.iter().collect::<Vec<_>>(), "{round}");
    }
}

#[tokio::test]
async fn r155_a_watch_cut_inside_a_revision_is_told_its_objects_again() {
    let (house, contour) = town().await;
    refer_to(&house, &["local", "other"]).await;
    let at = change_together(&house, "prod", &["local", "other"], 1).await;
    let path = format!("{LOCAL}?watch=1&resourceVersion={at}");
    watched(&house, &contour, &path).await.expect(&["ADDED local", "ADDED other"]).await;
    // What has gone since is told as gone: it may have been shown.
    house.delete(&format!("{LOCAL}/other")).await.with(200);
    let mut resumed = watched(&house, &contour, &path).await;
    resumed.expect(&["ADDED local", "DELETED other"]).await;
    assert!(resumed.is_silent().await);
}
