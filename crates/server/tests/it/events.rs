//! Rules of spec/api-server.md.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_driver::event_expiry;
use tenure_server::internal_writer::InternalWriter;
use tokio::sync::oneshot;

use crate::house::{House, MERGE, TABLE, brief, name};

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// An event about a pod, as old recorders write it.
fn old(name: &str, created: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "involvedObject": { "kind": "Pod", "namespace": "default", "name": "web" },
        "reason": "Started", "message": "it runs", "type": "Normal", "count": 1,
        "firstTimestamp": created, "lastTimestamp": created,
        "source": { "component": "kubelet" },
    })
}

/// An event about a pod, as new recorders write it.
fn new(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "regarding": { "kind": "Pod", "namespace": "default", "name": "web" },
        "eventTime": "2024-01-02T03:04:05.000000Z", "type": "Warning", "note": "it waits",
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "Wait",
        "reason": "Waiting",
    })
}

const LONG_AGO: &str = "2024-01-02T03:04:05Z";

/// Deletes events on a thread of its own until the end is dropped.
fn expiring(house: &House, life: Duration) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel();
    let door = InternalWriter::new(Arc::clone(&house.api));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                () = event_expiry::run(door, life) => {}
                _ = ended => {}
            }
        });
    });
    end
}

#[tokio::test]
async fn r146_events_end_and_watches_are_told() {
    let house = House::new().await;
    house.made(CORE, old("before", LONG_AGO)).await;
    let life = Duration::from_millis(1500);
    let _expiring = expiring(&house, life);
    let mut watch = house.watch(&format!("{CORE}?watch=1&resourceVersion=0")).await;
    watch.expect(&["ADDED before"]).await;
    house.made(NEW, new("after")).await;
    watch.expect(&["ADDED after"]).await;
    // On a slow machine both are due at one look, and go together.
    let mut gone = [brief(&watch.next().await.unwrap()), brief(&watch.next().await.unwrap())];
    gone.sort();
    assert_eq!(gone, ["DELETED after", "DELETED before"]);
    assert_eq!(house.get(CORE).await.json["items"], json!([]));
    assert_eq!(house.get(NEW).await.json["items"], json!([]));
}

#[tokio::test]
async fn r146_a_write_gives_an_event_its_time_again() {
    let house = House::new().await;
    let life = Duration::from_secs(2);
    let _expiring = expiring(&house, life);
    for name in ["kept", "left"] {
        house.made(CORE, old(name, LONG_AGO)).await;
    }
    let mut watch = house.watch(&format!("{CORE}?watch=1&resourceVersion=0")).await;
    watch.expect(&["ADDED kept", "ADDED left"]).await;
    tokio::time::sleep(life / 2).await;
    house.merge(&format!("{CORE}/kept"), json!({ "count": 2 })).await.with(200);
    watch.expect(&["MODIFIED kept", "DELETED left"]).await;
    let kept = house.get(&format!("{CORE}/kept")).await.with(200);
    assert_eq!(kept["count"], 2);
    watch.expect(&["DELETED kept"]).await;
}

#[tokio::test]
async fn r187_what_was_written_before_a_start_has_the_rest_of_its_time() {
    let house = House::new().await;
    // No time inside an event makes it older than its write or lets it live for ever.
    house.made(CORE, old("past", LONG_AGO)).await;
    house.made(CORE, old("future", "2999-01-02T03:04:05Z")).await;
    let begin = tokio::time::Instant::now();
    let long = expiring(&house, Duration::from_secs(100));
    tokio::time::sleep(Duration::from_millis(2200)).await;
    assert_eq!(house.get(CORE).await.json["items"].as_array().unwrap().len(), 2);
    drop(long);
    let _short = expiring(&house, Duration::from_secs(4));
    house.until_looks(CORE, |list| list["items"] == json!([])).await;
    // Times in events have whole seconds; four seconds from the second start would be 6.2 in all.
    assert!(begin.elapsed() < Duration::from_millis(6000), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn r146_a_series_is_counted_in_both_views() {
    let house = House::new().await;
    house.made(NEW, new("a")).await;
    let path = format!("{NEW}/a");
    let series =
        json!({ "series": { "count": 2, "lastObservedTime": "2024-01-02T03:05:05.000000Z" } });
    let updated = house.patch(&path, MERGE, series.clone()).await.with(200);
    assert_eq!(updated["series"], series["series"]);
    let shown = house.get(&format!("{CORE}/a")).await.with(200);
    assert_eq!(shown["series"], series["series"]);
    assert_eq!((name(&shown), &shown["message"]), ("a", &json!("it waits")));
    for wrong in [json!({ "series": { "count": 1 } }), json!({ "note": "else" })] {
        house.patch(&path, MERGE, wrong).await.fails(422, "Invalid");
    }
    house.made(CORE, old("b", LONG_AGO)).await;
    let more = json!({ "count": 7, "lastTimestamp": "2024-01-02T04:04:05Z" });
    house.merge(&format!("{CORE}/b"), more).await.with(200);
    for view in [CORE, NEW] {
        let table = house.get_as(&format!("{view}?includeObject=None"), TABLE).await.with(200);
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].as_str().unwrap())
            .collect();
        let count = columns.iter().position(|column| *column == "Count").unwrap();
        let counts: Vec<&Value> =
            table["rows"].as_array().unwrap().iter().map(|row| &row["cells"][count]).collect();
        assert_eq!(counts, [&json!(2), &json!(7)], "{view}");
    }
}
