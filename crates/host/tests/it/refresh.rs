//! Rules of spec/downward-api.md: files of running pods that follow what they are made from, what the
//! agent tells of it, and pods that are asked to go; sections 3, 11 to 13.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_host::Config;

use crate::agent::{House, PATIENCE, PODS, container, object, phase, pod, ready};
use crate::scripted::Scripted;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn with_volume(name: &str, source: Value) -> Value {
    let mut volume = source;
    volume["name"] = "info".into();
    pod(
        name,
        json!({
            "nodeName": "node-1",
            "volumes": [volume],
            "containers": [{
                "name": name, "image": "i",
                "volumeMounts": [{"name": "info", "mountPath": "/etc/info"}],
            }],
        }),
    )
}

fn items(paths: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = paths
        .iter()
        .map(|(file, field)| json!({"path": file, "fieldRef": {"fieldPath": field}}))
        .collect();
    json!({"downwardAPI": {"items": items}})
}

/// The folder of a pod's only volume, as a container would see it.
fn folder(runtime: &Scripted, name: &str) -> PathBuf {
    let config = runtime.config(name).unwrap();
    config.mounts.iter().find(|mount| mount.at == "/etc/info").unwrap().from.clone()
}

fn file(runtime: &Scripted, name: &str, file: &str) -> Option<String> {
    std::fs::read_to_string(folder(runtime, name).join(file)).ok()
}

async fn until(what: &str, look: impl Fn() -> bool) {
    let begin = Instant::now();
    while !look() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn patch(house: &House, path: &str, body: Value) {
    house.client.patch(path, &object(body)).await.unwrap();
}

async fn map(house: &House, name: &str, more: Value) {
    let mut map = json!({"metadata": {"name": name}, "data": {"k": "1"}});
    map.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    house.client.post(MAPS, &object(map)).await.unwrap();
}

/// Events of a pod with a reason.
async fn told(house: &House, name: &str, reason: &str) -> Vec<Value> {
    let path =
        format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}");
    let found = |list: &Value| -> Vec<Value> {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|event| event["reason"] == reason).collect()
    };
    found(&house.until(&path, reason, |list| !found(list).is_empty()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r15_addresses_are_in_files_before_a_container_starts() {
    let mut config = Config::ephemeral();
    config.features.downward_volume_parity = true;
    let house = House::with(Scripted::new(), config).await;
    let fields = [("pod", "status.podIP"), ("host", "status.hostIP"), ("node", "spec.nodeName")];
    house.make(with_volume("a", items(&fields))).await;
    until("the container is made", || house.runtime.config("a").is_some()).await;
    assert_eq!(file(&house.runtime, "a", "pod").unwrap(), "10.1.2.3");
    assert_eq!(file(&house.runtime, "a", "host").unwrap(), "127.0.0.1");
    assert_eq!(file(&house.runtime, "a", "node").unwrap(), "node-1");
    house.pod("a", "ready", ready).await;
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r74_what_can_never_change_is_read_once() {
    let house = House::new().await;
    map(&house, "fixed", json!({"immutable": true})).await;
    map(&house, "open", json!({})).await;
    for name in ["fixed", "open"] {
        house.make(with_volume(name, json!({"configMap": {"name": name}}))).await;
        house.pod(name, "ready", ready).await;
    }
    // Both go and come again with other words; only one is watched.
    let options = object(json!({"apiVersion": "v1", "kind": "DeleteOptions"}));
    for name in ["fixed", "open"] {
        house.client.delete(&format!("{MAPS}/{name}"), &options).await.unwrap();
        map(&house, name, json!({"data": {"k": "2"}})).await;
    }
    until("the open one follows", || file(&house.runtime, "open", "k").as_deref() == Some("2"))
        .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(file(&house.runtime, "fixed", "k").as_deref(), Some("1"));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r75_r76_a_burst_is_written_seldom_and_files_of_a_volume_switch_together() {
    let house = House::new().await;
    house
        .make(with_volume("a", items(&[("l", "metadata.labels"), ("x", "metadata.labels['x']")])))
        .await;
    house.pod("a", "ready", ready).await;
    let place = folder(&house.runtime, "a");
    let watching = place.clone();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    // Looks at one generation at a time and notes each that it sees.
    let seen = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let Ok(generation) = std::fs::read_link(watching.join("..data")) else { continue };
            let read = |name: &str| std::fs::read_to_string(watching.join(&generation).join(name));
            let (Ok(labels), Ok(label)) = (read("l"), read("x")) else { continue };
            let line = labels.lines().find_map(|line| line.strip_prefix("x=")).unwrap_or("\"\"");
            assert_eq!(line, format!("{label:?}"), "both files tell of one moment");
            if seen.last() != Some(&generation) {
                seen.push(generation);
            }
        }
        seen
    });
    let begin = Instant::now();
    for number in 0..40 {
        let labels = json!({"metadata": {"labels": {"x": number.to_string()}}});
        patch(&house, &format!("{PODS}/a"), labels).await;
    }
    until("the last state wins", || file(&house.runtime, "a", "x").as_deref() == Some("39")).await;
    let took = begin.elapsed();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let writes = seen.join().unwrap().len();
    let most = usize::try_from(took.as_millis() / 50).unwrap() + 3;
    assert!(writes <= most, "{writes} writes in {took:?}");
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r79_an_object_that_goes_while_it_is_shown_stays_shown() {
    let house = House::new().await;
    map(&house, "m", json!({})).await;
    house.make(with_volume("a", json!({"configMap": {"name": "m"}}))).await;
    house.pod("a", "ready", ready).await;
    let options = object(json!({"apiVersion": "v1", "kind": "DeleteOptions"}));
    house.client.delete(&format!("{MAPS}/m"), &options).await.unwrap();
    let events = told(&house, "a", "FailedMount").await;
    let message = events[0]["message"].as_str().unwrap();
    assert!(message.contains("configmap \"m\" not found"), "{message}");
    assert_eq!(file(&house.runtime, "a", "k").as_deref(), Some("1"));
    let found = house.pod("a", "ready", ready).await;
    assert_eq!(container(&found)["restartCount"], 0);
    map(&house, "m", json!({"data": {"k": "2"}})).await;
    until("it follows again", || file(&house.runtime, "a", "k").as_deref() == Some("2")).await;
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r77_r81_without_its_first_content_nothing_starts() {
    let house = House::new().await;
    house.make(with_volume("a", json!({"configMap": {"name": "late"}}))).await;
    told(&house, "a", "FailedMount").await;
    let found = house.get(&format!("{PODS}/a")).await.unwrap();
    assert_eq!(phase(&found), "Pending");
    assert!(house.runtime.config("a").is_none(), "{:?}", house.runtime.said());
    map(&house, "late", json!({})).await;
    house.pod("a", "ready", ready).await;
    assert_eq!(file(&house.runtime, "a", "k").as_deref(), Some("1"));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r113_an_eviction_goes_unless_a_budget_forbids_it() {
    let house = House::new().await;
    let mut kept = pod("kept", json!({"nodeName": "node-1"}));
    kept["metadata"]["labels"] = json!({"app": "kept"});
    house.make(kept).await;
    house.make(pod("free", json!({"nodeName": "node-1"}))).await;
    for name in ["kept", "free"] {
        house.pod(name, "ready", ready).await;
    }
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
    });
    house.client.post(budgets, &object(budget)).await.unwrap();
    house
        .until(&format!("{budgets}/b"), "looked at", |budget| {
            budget["status"]["observedGeneration"] == 1
        })
        .await;
    let evict = async |name: &str| {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name},
            "deleteOptions": {"gracePeriodSeconds": 1},
        });
        house.client.post(&format!("{PODS}/{name}/eviction"), &object(eviction)).await
    };
    let refused = evict("kept").await.unwrap_err();
    assert!(
        matches!(&refused, tenure_node::client::ClientError::Refused { code: 429, .. }),
        "{refused:?}"
    );
    evict("free").await.unwrap();
    until("the pod is gone", || {
        house.runtime.said().iter().any(|said| said.starts_with("stop free"))
    })
    .await;
    assert!(ready(&house.get(&format!("{PODS}/kept")).await.unwrap()));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r114_events_have_the_names_that_people_look_for() {
    let house = House::new().await;
    house.make(pod("a", json!({"nodeName": "node-1"}))).await;
    house.pod("a", "ready", ready).await;
    house.runtime.exit("a", 1);
    house.pod("a", "restarted", |pod| container(pod)["restartCount"] == 1).await;
    house.runtime.exit("a", 1);
    for reason in ["Pulled", "Created", "Started", "BackOff"] {
        let events = told(&house, "a", reason).await;
        let field = &events[0]["involvedObject"]["fieldPath"];
        assert_eq!(field, "spec.containers{a}", "{reason}");
        assert_eq!(events[0]["involvedObject"]["kind"], "Pod");
    }
    // Only what runs is killed.
    house.make(pod("c", json!({"nodeName": "node-1"}))).await;
    house.pod("c", "ready", ready).await;
    let options =
        object(json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1}));
    house.client.delete(&format!("{PODS}/c"), &options).await.unwrap();
    told(&house, "c", "Killing").await;
    house
        .make(pod(
            "b",
            json!({"nodeName": "node-1", "containers": [{"name": "b", "image": "missing"}]}),
        ))
        .await;
    for reason in ["Pulling", "Failed"] {
        told(&house, "b", reason).await;
    }
    told(&house, "node-1", "Starting").await;
    house.plane.stop().await;
}
