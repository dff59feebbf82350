//! Rules of spec/downward-api.md: what a node does while the feature `DownwardAPIOwnerReferences` is off, and
//! what it makes of sandboxes that are nobody's; section 6, R138 and R154.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane, NodeOptions};
use tenure_node::runtime::{ContainerRuntime as _, PodKey, SandboxConfig};

use crate::agent::{House, PATIENCE, PODS, condition, container, object, phase, pod, ready};
use crate::scripted::Scripted;

const PATH: &str = "metadata.ownerReferences";

/// A server that keeps its objects in a folder, with the feature on or off for everybody.
fn config(folder: &Path, on: bool) -> Config {
    let mut config =
        Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::new(folder.join("data")) };
    config.features.downward_owner_references = on;
    config
}

/// A pod that reads its owner references from a file.
fn reader(name: &str) -> Value {
    pod(
        name,
        json!({
            "nodeName": "node-1",
            "volumes": [{"name": "info", "downwardAPI": {"items": [
                {"path": "owners", "fieldRef": {"fieldPath": PATH}},
            ]}}],
            "containers": [{
                "name": name, "image": "i",
                "volumeMounts": [{"name": "info", "mountPath": "/etc/info"}],
            }],
        }),
    )
}

/// A pod that reads them from a variable, beside a container that does not.
fn variable(name: &str) -> Value {
    let env = json!([{"name": "OWNERS", "valueFrom": {"fieldRef": {"fieldPath": PATH}}}]);
    pod(
        name,
        json!({
            "nodeName": "node-1",
            "containers": [
                {"name": "reads", "image": "i", "env": env},
                {"name": "other", "image": "i"},
            ],
        }),
    )
}

/// What events of a pod say, once there is one with that reason.
async fn told(house: &House, name: &str, reason: &str) -> Vec<Value> {
    let path =
        format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}");
    let found = |list: &Value| -> Vec<Value> {
        let all = list["items"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|event| event["reason"] == reason).collect()
    };
    found(&house.until(&path, reason, |list| !found(list).is_empty()).await)
}

/// The one file of a pod's only volume, as a container would see it.
fn content(runtime: &Scripted, name: &str) -> String {
    let config = runtime.config(name).unwrap();
    let mount = config.mounts.iter().find(|mount| mount.at == "/etc/info").unwrap();
    std::fs::read_to_string(mount.from.join("owners")).unwrap()
}

async fn patch(house: &House, name: &str, metadata: Value) {
    let patch = object(json!({ "metadata": metadata }));
    house.client.patch(&format!("{PODS}/{name}"), &patch).await.unwrap();
}

/// Pods bound to a node that is not there yet, made while the feature is on.
async fn made_before(folder: &Path, pods: &[Value]) {
    let plane = ControlPlane::start(config(folder, true)).await.unwrap();
    let client = tenure_node::client::Client::new(&tenure_node::Server {
        url: plane.url().to_owned(),
        authority_pem: plane.authority_pem().to_owned(),
        certificate_pem: plane.admin().certificate_pem.clone(),
        key_pem: plane.admin().key_pem.clone(),
        ..tenure_node::Server::default()
    })
    .unwrap();
    let begin = Instant::now();
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    while client.get(account).await.is_err() {
        assert!(begin.elapsed() < PATIENCE, "there is no account");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for pod in pods {
        client.post(PODS, &object(pod.clone())).await.unwrap();
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r54_r55a_r56_pods_wait_while_the_feature_is_off_and_go_on_when_it_is_on() {
    let folder = tempfile::tempdir().unwrap();
    made_before(folder.path(), &[reader("file"), variable("env")]).await;
    let house = House::with(Scripted::new(), config(folder.path(), false)).await;
    // R54: one container waits and says why, the other does not mind.
    let found = house
        .pod("env", "one runs and one waits", |pod| {
            let all = pod["status"]["containerStatuses"].as_array();
            all.is_some_and(|all| all.iter().any(|one| one["state"]["running"].is_object()))
                && all.unwrap().iter().any(|one| {
                    one["name"] == "reads" && one["state"]["waiting"]["message"].is_string()
                })
        })
        .await;
    let all = found["status"]["containerStatuses"].as_array().unwrap();
    let reads = all.iter().find(|one| one["name"] == "reads").unwrap();
    let waiting = &reads["state"]["waiting"];
    assert_eq!(waiting["reason"], "CreateContainerConfigError");
    assert_eq!(waiting["message"], format!("unsupported fieldPath: {PATH}"));
    // R55a: a volume that was never there keeps the pod from starting.
    let events = told(&house, "file", "FailedMount").await;
    assert_eq!(events[0]["type"], "Warning");
    assert!(events[0]["message"].as_str().unwrap().contains("volume \"info\""), "{events:?}");
    let found = house.get(&format!("{PODS}/file")).await.unwrap();
    assert_eq!(phase(&found), "Pending");
    assert_eq!(container(&found)["state"]["waiting"]["reason"], "ContainerCreating");
    assert!(
        !house.runtime.said().contains(&"create file".to_owned()),
        "{:?}",
        house.runtime.said()
    );
    let left = house.runtime.left();
    house.plane.stop().await;
    // R56: nobody but the operator did anything.
    let house = House::with(left, config(folder.path(), true)).await;
    house.pod("file", "ready", ready).await;
    house.pod("env", "ready", ready).await;
    assert!(content(&house.runtime, "file").contains("\"items\""));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r55_a_mounted_volume_keeps_its_last_good_content_while_the_feature_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::with(Scripted::new(), config(folder.path(), true)).await;
    house.make(reader("a")).await;
    let first = house.pod("a", "ready", ready).await;
    let before = content(&house.runtime, "a");
    let held = house.runtime.config("a").unwrap();
    // A copy of what ran and of what was in memory is what a killed agent would have left; the end below
    // stops the one and unmounts the other.
    let left = house.runtime.left();
    let memory = folder.path().join("data/nodes/node-1/volumes/memory");
    let aside = tempfile::tempdir().unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let done = std::process::Command::new("cp").arg("-aT").arg(from).arg(to).status().unwrap();
        assert!(done.success());
    };
    copy(&memory, aside.path());
    house.plane.stop().await;
    copy(aside.path(), &memory);
    let house = House::with(left.clone(), config(folder.path(), false)).await;
    let owner = house.get("/api/v1/namespaces/default/serviceaccounts/default").await.unwrap();
    let owner = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "name": "default",
        "uid": owner["metadata"]["uid"],
    });
    // R53: the server takes a change of a pod that has the path already.
    patch(&house, "a", json!({"ownerReferences": [owner]})).await;
    let events = told(&house, "a", "FailedMount").await;
    assert_eq!(events[0]["type"], "Warning");
    let file =
        held.mounts.iter().find(|mount| mount.at == "/etc/info").unwrap().from.join("owners");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let now = house.get(&format!("{PODS}/a")).await.unwrap();
    assert!(ready(&now), "{now:#}");
    assert_eq!(condition(&now, "PodReadyToStartContainers")["status"], "True");
    assert_eq!(container(&now)["containerID"], container(&first)["containerID"]);
    assert!(!left.said().iter().any(|said| said.starts_with("stop")), "{:?}", left.said());
    // Each wait is longer than the one before, and each is told once.
    let told = told(&house, "a", "FailedMount").await;
    let count: u64 = told.iter().filter_map(|event| event["count"].as_u64()).sum();
    assert!((1..=5).contains(&count), "{told:?}");
    let left = left.left();
    house.plane.stop().await;
    let house = House::with(left, config(folder.path(), true)).await;
    let begin = Instant::now();
    while !std::fs::read_to_string(&file).unwrap().contains("ServiceAccount") {
        assert!(begin.elapsed() < PATIENCE, "the file stays as it was");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r138_a_node_declares_the_feature_only_while_it_has_it() {
    let folder = tempfile::tempdir().unwrap();
    for on in [true, false, true] {
        let house = House::with(Scripted::new(), config(folder.path(), on)).await;
        let path = "/api/v1/nodes/node-1";
        house
            .until(path, "as told", |node| {
                let declared = node["status"]["declaredFeatures"].as_array();
                let name = json!("DownwardAPIOwnerReferences");
                declared.is_some_and(|declared| declared.contains(&name)) == on
            })
            .await;
        house.plane.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r154_a_sandbox_of_no_pod_is_removed_after_its_time() {
    let runtime = Scripted::new();
    let of = |name: &str| SandboxConfig {
        pod: PodKey { namespace: "default".into(), name: name.into(), uid: format!("uid-{name}") },
        ..SandboxConfig::default()
    };
    runtime.run_sandbox(&of("early")).await.unwrap();
    let stay = Duration::from_millis(1500);
    let node = NodeOptions { foreign_sandboxes_stay: stay, ..NodeOptions::default() };
    let begin = Instant::now();
    let house = House::with(runtime.clone(), Config { node, ..Config::ephemeral() }).await;
    house.make(pod("own", json!({}))).await;
    house.pod("own", "ready", ready).await;
    // One that comes while the agent runs is treated no better.
    runtime.run_sandbox(&of("late")).await.unwrap();
    let mut gone = [None; 2];
    while gone.iter().any(Option::is_none) {
        assert!(begin.elapsed() < PATIENCE, "{:?}", runtime.said());
        let names: Vec<String> =
            runtime.list().await.unwrap().into_iter().map(|one| one.pod.name).collect();
        for (gone, name) in gone.iter_mut().zip(["early", "late"]) {
            if !names.iter().any(|found| found == name) {
                gone.get_or_insert(begin.elapsed());
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(gone.iter().flatten().all(|after| *after >= stay), "{gone:?}");
    let found = house.get(&format!("{PODS}/own")).await.unwrap();
    assert!(ready(&found), "what belongs to a pod stays");
    assert_eq!(container(&found)["restartCount"], 0);
    house.plane.stop().await;
}
