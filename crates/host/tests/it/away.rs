//! Rules of spec/downward-api.md: an agent whose server is away; R84.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane};
use tenure_lifecycle::{NodeCapacity, RestartBackoff};
use tenure_node::client::Client;
use tenure_node::register::{NodeAddresses, NodeDescription};
use tenure_node::volume::{VolumeOptions, Volumes};
use tenure_node::{Agent, AgentConfig, Server};

use crate::agent::{PATIENCE, PODS, container, object, pod, ready};
use crate::scripted::Scripted;

pub(crate) const NODE: &str = "alone";

/// An agent beside the server, as `tenure node` starts one.
pub(crate) fn agent(folder: &Path, server: &Server, runtime: &Scripted) -> Agent {
    let room =
        NodeCapacity { cpu_millis: 4000, memory_bytes: 8 << 30, storage_bytes: 1 << 40, pods: 110 };
    let identity = NodeDescription {
        name: NODE.to_owned(),
        hostname: NODE.to_owned(),
        addresses: NodeAddresses::new(vec!["127.0.0.1".parse().unwrap()], false),
        port: 10250,
        room,
        labels: Vec::new(),
        features: Vec::new(),
    };
    Agent::start(AgentConfig {
        private: Vec::new(),
        identity,
        server: server.clone(),
        runtime: Arc::new(runtime.clone()),
        root: folder.join("agent"),
        logs: folder.join("logs"),
        backoff: RestartBackoff::curve(Duration::from_millis(100), Duration::from_millis(200)),
        settings: tenure_downward::DownwardApiOptions::default(),
        host_path: false,
        egress: true,
        eviction: false,
        foreign_sandboxes_stay: Duration::from_secs(60),
    })
    .unwrap()
}

pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How often a container was started.
pub(crate) fn starts(runtime: &Scripted, name: &str) -> usize {
    let word = format!("start {name}");
    runtime.said().iter().filter(|said| **said == word).count()
}

/// A variable of the newest instance of a container.
fn variable(runtime: &Scripted, name: &str, variable: &str) -> Option<String> {
    let config = runtime.config(name)?;
    let found = config.env.iter().find(|(known, _)| known == variable)?;
    Some(String::from_utf8_lossy(&found.1.0).into_owned())
}

fn volumes(folder: &Path) -> Volumes {
    Volumes::open(VolumeOptions { root: folder.join("agent"), ..VolumeOptions::default() }).unwrap()
}

pub(crate) async fn start(folder: &Path) -> (ControlPlane, Server, Client) {
    let config =
        Config { listen: ([127, 0, 0, 1], 0).into(), nodes: 0, ..Config::new(folder.join("data")) };
    let plane = ControlPlane::start(config).await.unwrap();
    let server = Server {
        url: plane.url().to_owned(),
        authority_pem: plane.authority_pem().to_owned(),
        certificate_pem: plane.admin().certificate_pem.clone(),
        key_pem: plane.admin().key_pem.clone(),
        ..Server::default()
    };
    let client = Client::new(&server).unwrap();
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    until("there is an account", async || client.get(account).await.ok()).await;
    (plane, server, client)
}

/// A pod that reads many things, and a Secret where that can be kept.
fn reader(name: &str, secret: bool) -> Value {
    let from = |kind: &str, object: &str| json!({kind: {"name": object, "key": "k"}});
    let mut env = vec![
        json!({"name": "MAP", "valueFrom": from("configMapKeyRef", "map")}),
        json!({"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['own']"}}}),
    ];
    if secret {
        env.push(json!({"name": "SECRET", "valueFrom": from("secretKeyRef", "secret")}));
    }
    let mounts = json!([{"name": "files", "mountPath": "/files"}]);
    let mut pod = pod(
        name,
        json!({
            "nodeName": NODE,
            "containers": [{"name": name, "image": "i", "env": env, "volumeMounts": mounts}],
            "volumes": [{"name": "files", "projected": {"sources": [
                {"configMap": {"name": "map"}},
                {"downwardAPI": {"items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                {"serviceAccountToken": {"path": "token"}},
            ]}}],
        }),
    );
    pod["metadata"]["labels"] = json!({"own": "label"});
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r84_containers_restart_and_pods_are_found_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let (plane, server, client) = start(folder.path()).await;
    let make = async |kind: &str, body: Value| {
        let path = format!("/api/v1/namespaces/default/{kind}");
        client.post(&path, &object(body)).await.unwrap()
    };
    make("configmaps", json!({"metadata": {"name": "map"}, "data": {"k": "from a map"}})).await;
    let secret = json!({"metadata": {"name": "secret"}, "stringData": {"k": "hush"}});
    make("secrets", secret).await;
    let runtime = Scripted::new();
    let first = agent(folder.path(), &server, &runtime);
    // An agent that may not mount memory keeps no Secrets.
    let memory = volumes(folder.path()).memory().is_ok();
    make("pods", reader("a", memory)).await;
    until("the pod is ready", async || {
        let pod = client.get(&format!("{PODS}/a")).await.ok().map(Value::Object)?;
        ready(&pod).then_some(())
    })
    .await;
    assert_eq!(starts(&runtime, "a"), 1);
    // A moment for what is kept to be written.
    tokio::time::sleep(Duration::from_millis(300)).await;

    // The server goes; a container that ends is started again with all that it reads.
    plane.stop().await;
    runtime.exit("a", 1);
    until("the container runs again", async || (starts(&runtime, "a") == 2).then_some(())).await;
    assert_eq!(variable(&runtime, "a", "MAP").unwrap(), "from a map");
    let hush = memory.then(|| "hush".to_owned());
    assert_eq!(variable(&runtime, "a", "SECRET"), hush);

    // The agent goes, too; the next one finds its pod and what the pod reads.
    drop(first);
    let next = runtime.left();
    let second = agent(folder.path(), &server, &next);
    until("the pod is known", async || {
        let known = second.pods().all();
        known.iter().any(|known| known.key.name == "a").then_some(())
    })
    .await;
    assert_eq!(starts(&next, "a"), 0, "what runs is left alone");
    next.exit("a", 1);
    until("the container runs once more", async || (starts(&next, "a") == 1).then_some(())).await;
    assert_eq!(variable(&next, "a", "MAP").unwrap(), "from a map");
    assert_eq!(variable(&next, "a", "OWN").unwrap(), "label");
    assert_eq!(variable(&next, "a", "SECRET"), hush);
    let mount = &next.config("a").unwrap().mounts[0];
    assert_eq!(std::fs::read_to_string(mount.from.join("k")).unwrap(), "from a map");
    assert_eq!(std::fs::read_to_string(mount.from.join("labels")).unwrap(), "own=\"label\"");

    // Secrets are never on the disk.
    let kept = folder.path().join("agent/kept");
    let told = std::process::Command::new("grep").arg("-r").arg("secret").arg(&kept).output();
    let told = String::from_utf8_lossy(&told.unwrap().stdout).into_owned();
    assert!(!told.contains("aHVzaA"), "{told}");
    drop(second);
    // What was lent to this test goes back.
    volumes(folder.path()).close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r84_what_went_meanwhile_goes_when_the_server_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (plane, server, client) = start(folder.path()).await;
    let runtime = Scripted::new();
    let first = agent(folder.path(), &server, &runtime);
    for name in ["stays", "goes"] {
        let body = pod(name, json!({"nodeName": NODE}));
        client.post(PODS, &object(body)).await.unwrap();
    }
    let both = async || {
        let list = client.get(PODS).await.ok().map(Value::Object)?;
        let all = list["items"].as_array()?;
        (all.len() == 2 && all.iter().all(ready)).then_some(())
    };
    until("both are ready", both).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(first);
    let options =
        object(json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}));
    client.delete(&format!("{PODS}/goes"), &options).await.unwrap();
    let next = runtime.left();
    let second = agent(folder.path(), &server, &next);
    until("one is left", async || {
        let known = second.pods().all();
        (known.len() == 1 && known[0].key.name == "stays").then_some(())
    })
    .await;
    let found = client.get(&format!("{PODS}/stays")).await.map(Value::Object).unwrap();
    assert_eq!(container(&found)["restartCount"], 0);
    let kept = folder.path().join("agent/kept/pods");
    until("only one is kept", async || {
        (std::fs::read_dir(&kept).unwrap().count() == 1).then_some(())
    })
    .await;
    drop(second);
    plane.stop().await;
}
