//! Rules of spec/api-server.md.
//!
//! Watches: what starts them, what they tell, how they end. Rows and metadata live in `tables`.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::house::*;

const WATCH_LIST: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn revision(object: &Value) -> u64 {
    version(object).parse().unwrap()
}

/// Lets the stream start to wait, then moves the clock, which must stand still.
async fn pass(stream: &mut Stream, seconds: u64) {
    assert!(stream.is_silent().await);
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test]
async fn r9_a_stop_ends_watches_between_events() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    let mut stream = house.watch(&format!("{SECRETS}?watch=1")).await;
    stream.expect(&["ADDED a"]).await;
    house.stop();
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn r103_events_are_json_lines() {
    let house = House::new().await;
    let made = house.made(SECRETS, named("a")).await;
    let path = format!("{SECRETS}?watch=1");
    let response = house.send(admin(), build("GET", &path, &[], "")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], JSON);
    assert!(!response.headers().contains_key("content-length"));
    let mut stream = house.watch(&path).await;
    assert_eq!(stream.next().await.unwrap(), json!({ "type": "ADDED", "object": made }));
}

#[tokio::test]
async fn r104_events_come_in_order_and_end_with_the_last_state() {
    let house = House::new().await;
    let start = house.revision();
    let path = format!("{SECRETS}/a");
    let made = house.made(SECRETS, named("a")).await;
    let changed = house.merge(&path, json!({ "stringData": { "k": "2" } })).await.with(200);
    house.merge(&path, json!({ "stringData": { "k": "2" } })).await.with(200);
    house.delete(&path).await.with(200);
    let other = house.made(SECRETS, named("b")).await;
    let mut stream = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={start}")).await;
    assert_eq!(stream.next().await.unwrap()["object"], made);
    let event = stream.next().await.unwrap();
    assert_eq!((brief(&event), &event["object"]), ("MODIFIED a".into(), &changed));
    let event = stream.next().await.unwrap();
    assert_eq!(brief(&event), "DELETED a");
    assert!(revision(&changed) < revision(&event["object"]));
    assert!(revision(&event["object"]) < revision(&other));
    let mut last = changed;
    last["metadata"]["resourceVersion"] = event["object"]["metadata"]["resourceVersion"].clone();
    assert_eq!(event["object"], last);
    assert_eq!(stream.next().await.unwrap()["object"], other);
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn r104_a_watch_resumes_after_any_event() {
    let house = House::new().await;
    let start = house.revision();
    for at in 0..6 {
        house.made(SECRETS, named(&format!("s{}", at % 3))).await;
        if at % 2 == 1 {
            house.delete(&format!("{SECRETS}/s{}", at % 3)).await.with(200);
        }
        if at == 2 {
            house.delete(&format!("{SECRETS}/s0")).await.with(200);
            house.delete(&format!("{SECRETS}/s2")).await.with(200);
        }
    }
    let mut stream = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={start}")).await;
    let mut all = Vec::new();
    for _ in 0..11 {
        all.push(stream.next().await.unwrap());
    }
    assert!(stream.is_silent().await);
    assert!(all.is_sorted_by(|a, b| revision(&a["object"]) < revision(&b["object"])));
    for (at, event) in all.iter().enumerate() {
        let from = version(&event["object"]);
        let mut again = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
        for expected in &all[at + 1..] {
            assert_eq!(again.next().await.as_ref(), Some(expected), "after {from}");
        }
    }
}

#[tokio::test]
async fn r104_concurrent_watches_see_the_same_order() {
    let house = House::new().await;
    let start = house.revision();
    let mut live = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={start}")).await;
    let mut all = house.watch(&format!("/api/v1/secrets?watch=1&resourceVersion={start}")).await;
    let write = |half: usize| {
        let house = &house;
        async move {
            for at in 0..20 {
                house.made(SECRETS, named(&format!("s{half}-{at}"))).await;
            }
        }
    };
    tokio::join!(write(0), write(1), write(2));
    let mut late = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={start}")).await;
    for _ in 0..60 {
        let event = live.next().await;
        assert_eq!(event, all.next().await);
        assert_eq!(event, late.next().await);
    }
}

#[tokio::test]
async fn r105_events_are_relative_to_the_selector() {
    let house = House::new().await;
    let a = format!("{SECRETS}/a");
    let made = house.made(SECRETS, labelled("a", json!({ "t": "no" }))).await;
    let label = |value: &str| json!({ "metadata": { "labels": { "t": value } } });
    let data = |value: &str| json!({ "stringData": { "k": value } });
    house.merge(&a, data("1")).await.with(200);
    house.merge(&a, label("yes")).await.with(200);
    house.merge(&a, data("2")).await.with(200);
    let matched = house.get(&a).await.with(200);
    let left = house.merge(&a, label("no")).await.with(200);
    house.merge(&a, data("3")).await.with(200);
    house.merge(&a, label("yes")).await.with(200);
    house.delete(&a).await.with(200);
    let from = version(&made);
    let path = format!("{SECRETS}?watch=1&labelSelector=t%3Dyes&resourceVersion={from}");
    let mut stream = house.watch(&path).await;
    stream.expect(&["ADDED a", "MODIFIED a"]).await;
    let event = stream.next().await.unwrap();
    assert_eq!(brief(&event), "DELETED a");
    let mut last = matched;
    last["metadata"]["resourceVersion"] = left["metadata"]["resourceVersion"].clone();
    assert_eq!(event["object"], last);
    stream.expect(&["ADDED a", "DELETED a"]).await;
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn r105_field_selectors_make_transitions_too() {
    let house = House::new().await;
    let start = house.revision();
    let path = format!("{PODS}?watch=1&resourceVersion={start}&fieldSelector=spec.nodeName%3D");
    let mut waiting = house.watch(&path).await;
    let mut bound = house.watch(&format!("{path}n1")).await;
    house.made(PODS, pod("p")).await;
    let target = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n1" } });
    house.post(&format!("{PODS}/p/binding"), target).await.with(201);
    waiting.expect(&["ADDED p", "DELETED p"]).await;
    bound.expect(&["ADDED p"]).await;
}

#[tokio::test]
async fn r106_the_version_says_where_a_watch_starts() {
    let house = House::new().await;
    house.made(SECRETS, named("b")).await;
    let a = house.made(SECRETS, named("a")).await;
    let from = version(&a);
    for (query, events) in [
        (format!("watch=1&resourceVersion={from}"), vec!["ADDED c"]),
        ("watch=1".to_owned(), vec!["ADDED a", "ADDED b", "ADDED c"]),
        ("watch=1&resourceVersion=".into(), vec!["ADDED a", "ADDED b", "ADDED c"]),
        ("watch=1&resourceVersion=0".into(), vec!["ADDED a", "ADDED b", "ADDED c"]),
        ("watch=1&resourceVersion=0&fieldSelector=metadata.name%3Da".into(), vec!["ADDED a"]),
    ] {
        let mut stream = house.watch(&format!("{SECRETS}?{query}")).await;
        house.made(SECRETS, named("c")).await;
        stream.expect(&events).await;
        assert!(stream.is_silent().await, "{query}");
        house.delete(&format!("{SECRETS}/c")).await.with(200);
    }
}

#[tokio::test]
async fn r107_a_version_that_is_gone_is_an_error_event() {
    let house = House::new().await;
    let made = house.made(SECRETS, named("a")).await;
    house.made(SECRETS, named("b")).await;
    house.compact().await;
    let from = version(&made);
    let mut stream = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
    let event = stream.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    let status = &event["object"];
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(410)));
    assert_eq!(status["reason"], "Expired");
    let text = format!("too old resource version: {from} ({})", house.revision());
    assert_eq!(status["message"], text);
    assert_eq!(stream.next().await, None);
    let now = house.revision();
    assert!(
        house.watch(&format!("{SECRETS}?watch=1&resourceVersion={now}")).await.is_silent().await
    );
}

#[tokio::test]
async fn r108_a_version_to_come_is_waited_for_in_silence() {
    let house = House::new().await;
    let from = house.revision().0 + 3;
    let mut stream = house.watch(&format!("{SECRETS}?watch=1&resourceVersion={from}")).await;
    for at in 0.. {
        let made = house.made(SECRETS, named(&format!("s{at}"))).await;
        if revision(&made) > from {
            assert_eq!(stream.next().await.unwrap()["object"], made);
            return;
        }
        assert!(stream.is_silent().await);
    }
}

#[tokio::test]
async fn r109_bookmarks_come_every_minute_to_those_who_asked() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    let path = format!("{SECRETS}?watch=1&resourceVersion={}", house.revision());
    let mut stream = house.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    let mut plain = house.watch(&path).await;
    house.config_map("elsewhere").await;
    let now = house.revision().to_string();
    tokio::time::pause();
    assert!(plain.is_silent().await);
    pass(&mut stream, 60).await;
    let event = stream.next().await.unwrap();
    assert_eq!(
        event,
        json!({
            "type": "BOOKMARK",
            "object": { "kind": "Secret", "apiVersion": "v1", "metadata": { "resourceVersion": now } },
        })
    );
    assert!(plain.is_silent().await);
    pass(&mut stream, 60).await;
    assert_eq!(brief(&stream.next().await.unwrap()), "BOOKMARK");
}

#[tokio::test]
async fn r109_a_bookmark_comes_before_the_end() {
    let house = House::new().await;
    let now = house.revision();
    let path = format!("{SECRETS}?watch=1&timeoutSeconds=5&resourceVersion={now}");
    let mut stream = house.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    tokio::time::pause();
    pass(&mut stream, 5).await;
    let event = stream.next().await.unwrap();
    assert_eq!((brief(&event).as_str(), revision(&event["object"]) >= now.0), ("BOOKMARK", true));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn r110_options_that_do_not_go_together_are_422() {
    let house = House::new().await;
    let (forbidden, unknown) = ("FieldValueForbidden", "FieldValueNotSupported");
    for (query, reasons) in [
        ("sendInitialEvents=true", vec![forbidden]),
        ("sendInitialEvents=false", vec![forbidden]),
        ("sendInitialEvents=true&allowWatchBookmarks=true", vec![forbidden]),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5",
            vec![forbidden, unknown],
        ),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=5", vec![forbidden]),
        ("resourceVersionMatch=NotOlderThan", vec![forbidden]),
    ] {
        let path = format!("{SECRETS}?watch=1&{query}");
        let status = house.get(&path).await.fails(422, "Invalid");
        assert_eq!(status["details"]["kind"], "ListOptions", "{query}");
        assert_eq!(status["details"]["group"], "meta.k8s.io", "{query}");
        let causes = status["details"]["causes"].as_array().unwrap();
        let found: Vec<&str> = causes.iter().map(|c| c["reason"].as_str().unwrap()).collect();
        assert_eq!(found, reasons, "{query}");
        assert!(causes.iter().all(|c| c["field"] == "resourceVersionMatch"), "{query}");
    }
    for query in ["labelSelector=%3D%3D", "fieldSelector=spec.x%3D1"] {
        house.get(&format!("{SECRETS}?watch=1&{query}")).await.fails(400, "BadRequest");
    }
}

#[tokio::test]
async fn r111_a_watch_list_closes_its_state_with_a_bookmark() {
    let house = House::new().await;
    house.made(SECRETS, named("b")).await;
    let a = house.made(SECRETS, labelled("a", json!({ "x": "1" }))).await;
    let bookmark = |now: &str| {
        json!({
            "type": "BOOKMARK",
            "object": { "kind": "Secret", "apiVersion": "v1", "metadata": {
                "resourceVersion": now, "annotations": { "k8s.io/initial-events-end": "true" },
            }},
        })
    };
    for (query, initial) in [
        (String::new(), vec!["ADDED a", "ADDED b"]),
        (format!("&resourceVersion={}", version(&a)), vec!["ADDED a", "ADDED b"]),
        ("&resourceVersion=0".into(), vec!["ADDED a", "ADDED b"]),
        ("&labelSelector=x%3D1".into(), vec!["ADDED a"]),
        ("&labelSelector=none%3Dhere".into(), vec![]),
    ] {
        let now = house.revision().to_string();
        let mut stream = house.watch(&format!("{SECRETS}?{WATCH_LIST}{query}")).await;
        stream.expect(&initial).await;
        assert_eq!(stream.next().await.unwrap(), bookmark(&now), "{query}");
        house.made(SECRETS, labelled("c", json!({ "x": "1", "none": "here" }))).await;
        house.delete(&format!("{SECRETS}/c")).await.with(200);
        stream.expect(&["ADDED c", "DELETED c"]).await;
    }
}

#[tokio::test]
async fn r111_without_initial_events_only_news_are_sent() {
    let house = House::new().await;
    let a = house.made(SECRETS, named("a")).await;
    house.made(SECRETS, named("b")).await;
    let path =
        format!("{SECRETS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    let mut since = house.watch(&format!("{path}&resourceVersion={}", version(&a))).await;
    let mut now = house.watch(&path).await;
    assert!(now.is_silent().await);
    house.made(SECRETS, named("c")).await;
    since.expect(&["ADDED b", "ADDED c"]).await;
    now.expect(&["ADDED c"]).await;
}

#[tokio::test]
async fn r112_a_watch_ends_after_its_time() {
    let house = House::new().await;
    let from = house.revision();
    house.made(SECRETS, named("a")).await;
    let path = format!("{SECRETS}?watch=1&timeoutSeconds=3&resourceVersion={from}");
    let mut stream = house.watch(&path).await;
    let mut endless = house.watch(&format!("{SECRETS}?watch=1")).await;
    stream.expect(&["ADDED a"]).await;
    endless.expect(&["ADDED a"]).await;
    tokio::time::pause();
    pass(&mut stream, 2).await;
    pass(&mut stream, 1).await;
    assert_eq!(stream.next().await, None);
    pass(&mut endless, 29 * 60).await;
    pass(&mut endless, 31 * 60).await;
    assert_eq!(endless.next().await, None);
}

#[tokio::test]
async fn r112_no_watch_lives_longer_than_an_hour() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    for seconds in ["7200", "9223372036854775807"] {
        let mut stream = house.watch(&format!("{SECRETS}?watch=1&timeoutSeconds={seconds}")).await;
        stream.expect(&["ADDED a"]).await;
        tokio::time::pause();
        pass(&mut stream, 29 * 60).await;
        pass(&mut stream, 31 * 60).await;
        assert_eq!(stream.next().await, None, "{seconds}");
        tokio::time::resume();
    }
    let now = format!("{SECRETS}?watch=1&timeoutSeconds=-1&resourceVersion={}", house.revision());
    assert_eq!(house.watch(&now).await.next().await, None);
}

#[tokio::test]
async fn r113_a_slow_client_holds_nobody_up_and_misses_nothing() {
    let house = House::new().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", house.revision());
    let mut slow = house.watch(&path).await;
    let mut quick = house.watch(&path).await;
    let text = "x".repeat(2_000);
    for at in 0..300 {
        let body = json!({ "metadata": { "name": format!("c{at:03}") }, "data": { "k": text } });
        house.made(CONFIG_MAPS, body).await;
        quick.expect(&[&format!("ADDED c{at:03}")]).await;
    }
    for at in 0..300 {
        slow.expect(&[&format!("ADDED c{at:03}")]).await;
    }
}

#[tokio::test]
async fn r113_a_client_too_slow_for_history_is_told_and_closed() {
    let house = House::new().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", house.revision());
    let mut slow = house.watch(&path).await;
    let text = "x".repeat(2_000);
    for at in 0..300 {
        let body = json!({ "metadata": { "name": format!("c{at:03}") }, "data": { "k": text } });
        house.made(CONFIG_MAPS, body).await;
    }
    house.compact().await;
    for at in 0.. {
        let event = slow.next().await.unwrap();
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410);
            assert!(at < 300, "the client was not slow");
            break;
        }
        assert_eq!(brief(&event), format!("ADDED c{at:03}"));
    }
    assert_eq!(slow.next().await, None);
}

#[tokio::test]
async fn r116_a_watch_of_one_name_hears_of_no_other() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    house.made(SECRETS, named("b")).await;
    let old = "/api/v1/watch/namespaces/default/secrets";
    for (path, initial) in [
        (format!("{SECRETS}?watch=1&fieldSelector=metadata.name%3Da"), true),
        ("/api/v1/secrets?watch=1&fieldSelector=metadata.name%3Da".into(), true),
        (format!("{SECRETS}?watch=1&fieldSelector=metadata.name%3Da&resourceVersion="), false),
        (format!("{old}/a?"), true),
        (format!("{old}?fieldSelector=metadata.name%3Da"), true),
        (format!("{old}/a?resourceVersion="), false),
    ] {
        let from = if initial { String::new() } else { house.revision().to_string() };
        let path = path + &from;
        let mut stream = house.watch(&path).await;
        if initial {
            stream.expect(&["ADDED a"]).await;
        }
        for name in ["b", "a", "b"] {
            let step =
                json!({ "metadata": { "annotations": { "at": house.revision().to_string() } } });
            house.merge(&format!("{SECRETS}/{name}"), step).await.with(200);
        }
        stream.expect(&["MODIFIED a"]).await;
        assert!(stream.is_silent().await, "{path}");
    }
}

#[tokio::test]
async fn r117_a_namespace_takes_its_objects_with_it_one_by_one() {
    let house = House::new().await;
    house.made(NAMESPACES, named("shop")).await;
    for name in ["a", "b", "c"] {
        house.made("/api/v1/namespaces/shop/secrets", named(name)).await;
    }
    let from = house.revision();
    let path = format!("/api/v1/namespaces/shop/secrets?watch=1&resourceVersion={from}");
    let mut stream = house.watch(&path).await;
    house.delete("/api/v1/namespaces/shop").await.with(200);
    let mut gone = Vec::new();
    for _ in 0..3 {
        gone.push(brief(&stream.next().await.unwrap()));
    }
    gone.sort();
    assert_eq!(gone, ["DELETED a", "DELETED b", "DELETED c"]);
    house.until("/api/v1/namespaces/shop", 404).await;
    assert!(stream.is_silent().await);
}

/// Writes at random; a list and the events after it must rebuild every later list.
async fn rebuild(steps: &[(usize, u8)], start: usize, selector: &str) {
    let house = House::new().await;
    let mut shown = house.get(&format!("{SECRETS}?{selector}")).await.with(200);
    for (at, (object, action)) in steps.iter().enumerate() {
        if at == start {
            shown = house.get(&format!("{SECRETS}?{selector}")).await.with(200);
        }
        let name = format!("s{object}");
        let path = format!("{SECRETS}/{name}");
        match action {
            0 => house.post(SECRETS, named(&name)).await,
            1 => house.delete(&path).await,
            2 => house.merge(&path, json!({ "metadata": { "labels": { "t": "x" } } })).await,
            3 => house.merge(&path, json!({ "metadata": { "labels": { "t": null } } })).await,
            _ => house.merge(&path, json!({ "stringData": { "k": at.to_string() } })).await,
        };
    }
    let mut state: BTreeMap<String, Value> = items(&shown);
    let marker = house.made(SECRETS, labelled("zz", json!({ "t": "x" }))).await;
    let from = version(&shown);
    let path = format!("{SECRETS}?watch=1&resourceVersion={from}&{selector}");
    let mut stream = house.watch(&path).await;
    loop {
        let event = stream.next().await.unwrap();
        let mut object = event["object"].clone();
        object.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        let name = name(&object).to_owned();
        let kind = event["type"].as_str().unwrap();
        let before = match kind {
            "DELETED" => state.remove(&name),
            _ => state.insert(name, object),
        };
        assert_eq!(before.is_none(), kind == "ADDED", "{event}");
        if event["object"]["metadata"]["resourceVersion"] == marker["metadata"]["resourceVersion"] {
            break;
        }
    }
    let end = house.get(&format!("{SECRETS}?{selector}")).await.with(200);
    assert_eq!(state, items(&end));
}

fn items(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (name(item).to_owned(), item.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn r104_a_list_and_its_watch_rebuild_the_state(
        steps in prop::collection::vec((0_usize..4, 0_u8..5), 1..40),
        start in 0_usize..40,
        selector in prop_oneof![Just(""), Just("labelSelector=t%3Dx"), Just("labelSelector=t")],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(rebuild(&steps, start, selector));
    }
}
