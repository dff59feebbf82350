//! `kubectl events`: both kinds of recorders, series, selection, and the end of an event.

use std::time::{Duration, Instant};

use super::Kubectl;
use super::runner::rows;

/// Three events about two pods: one as old recorders write it, one of a series, one of long ago.
const EVENTS: &str = r#"
apiVersion: v1
kind: Event
metadata: {name: web.started}
involvedObject: {kind: Pod, apiVersion: v1, namespace: shop, name: web}
reason: Started
message: the container runs
type: Normal
count: 3
firstTimestamp: 2024-01-02T03:04:05Z
lastTimestamp: 2024-01-02T04:04:05Z
source: {component: kubelet}
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: web.waiting}
regarding: {kind: Pod, apiVersion: v1, namespace: shop, name: web}
reason: Waiting
note: the volume is missing
type: Warning
eventTime: 2024-01-02T03:04:05.000000Z
series: {count: 7, lastObservedTime: 2024-01-02T05:04:05.000000Z}
reportingController: example.com/volumes
reportingInstance: volumes-1
action: Mount
---
apiVersion: v1
kind: Event
metadata: {name: other.started}
involvedObject: {kind: Pod, apiVersion: v1, namespace: shop, name: other}
reason: Started
message: the other one runs
type: Normal
count: 1
firstTimestamp: 2024-01-02T01:04:05Z
lastTimestamp: 2024-01-02T01:04:05Z
"#;

/// The object and the reason of every line.
fn told(text: &str) -> Vec<(String, String)> {
    // Ages such as `(x3 over 1h)` hold blanks, so lines are cut where the type stands.
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| matches!(*word, "Normal" | "Warning")).unwrap();
        (words[at + 2].to_owned(), words[at + 1].to_owned())
    };
    text.lines().skip(1).map(line).collect()
}

fn pairs(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|(object, reason)| ((*object).to_owned(), (*reason).to_owned())).collect()
}

#[test]
fn events_are_selected_by_object_and_type() {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], EVENTS);
    let table = kubectl.ok(&["get", "events", "--output", "wide", "--sort-by", ".metadata.name"]);
    let counts: Vec<&str> = rows(&table)[1..].iter().map(|row| row[row.len() - 2]).collect();
    assert_eq!(counts, ["1", "3", "7"], "{table}");
    for (selector, wanted) in [
        ("involvedObject.name=web,type=Warning", &["event/web.waiting"][..]),
        ("involvedObject.name=web", &["event/web.started", "event/web.waiting"]),
        ("type=Normal", &["event/other.started", "event/web.started"]),
        ("reason=Started,involvedObject.kind=Pod", &["event/other.started", "event/web.started"]),
        ("involvedObject.name=none", &[]),
    ] {
        let selector = format!("--field-selector={selector}");
        let said = kubectl.ok(&["get", "events", "--output", "name", &selector]);
        let mut found: Vec<&str> = said.lines().collect();
        found.sort_unstable();
        assert_eq!(found, wanted, "{selector}");
    }
    if !kubectl.tells_events() {
        return;
    }
    let all = kubectl.ok(&["events"]);
    assert_eq!(rows(&all)[0], ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    let mut seen = told(&all);
    seen.sort();
    let started = ("Pod/web", "Started");
    let waiting = ("Pod/web", "Waiting");
    assert_eq!(seen, pairs(&[("Pod/other", "Started"), started, waiting]));
    // A series and a count are both told.
    assert!(all.contains("(x3 over ") && all.contains("(x7 over "), "{all}");
    let of_web = kubectl.ok(&["events", "--for", "pod/web", "--types", "Warning"]);
    assert_eq!(told(&of_web), pairs(&[waiting]));
    let mut of_web = told(&kubectl.ok(&["events", "--for", "pod/web"]));
    of_web.sort();
    assert_eq!(of_web, pairs(&[started, waiting]));
    let normal = told(&kubectl.ok(&["events", "--types", "Normal"]));
    assert_eq!(normal.len(), 2, "{normal:?}");
    let none = kubectl.feed_until(&["events", "--for", "pod/none"], "", 0).1;
    assert!(none.contains("No events found"), "{none}");
}

#[test]
fn events_end_when_their_time_is_over() {
    let kubectl = Kubectl::start_with(&["--ephemeral", "--event-ttl", "2s"]);
    let made = kubectl.feed(&["create", "--filename", "-"], EVENTS);
    assert_eq!(made.lines().count(), 3, "{made}");
    let end = Instant::now() + Duration::from_secs(30);
    while !kubectl.ok(&["get", "events", "--output", "name"]).is_empty() {
        assert!(Instant::now() < end, "events stay");
    }
    if kubectl.tells_events() {
        let (_, said) = kubectl.feed_until(&["events"], "", 0);
        assert!(said.contains("No events found"), "{said}");
    }
}
