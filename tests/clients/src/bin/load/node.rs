//! A node that runs pods for real: how soon a pod runs, and how soon a change is in its files.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::request;
use tenure_client_tests::{Access, Server};

use super::measure::{CLIENTS, Measure, middle, milliseconds};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// No measure takes longer, or something stands still.
const PATIENCE: Duration = Duration::from_secs(300);

/// From sending a pod to the watch that says it runs; nothing else runs meanwhile.
pub(super) async fn starts() -> Result<Vec<Measure>> {
    const COUNT: usize = 60;
    let folder = tempfile::TempDir::new()?;
    let server = real(folder.path()).await?;
    let access = server.access()?;
    let mut connection = access.connect().await?;
    let mut events = access.connect().await?.watch(&format!("{PODS}?watch=true")).await?;
    let mut times = Vec::new();
    for number in 0..COUNT {
        let name = format!("p-{number}");
        let body = pod(&name).to_string();
        let begin = Instant::now();
        let answer = connection.send("POST", PODS, Some(body.as_bytes())).await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
        loop {
            let line = events.line().await?.context("the watch goes on")?;
            let event: Value = serde_json::from_slice(line.as_ref())?;
            let is = |pointer: &str, text: &str| {
                event.pointer(pointer).and_then(Value::as_str) == Some(text)
            };
            if is("/object/metadata/name", &name) && is("/object/status/phase", "Running") {
                break;
            }
        }
        times.push(begin.elapsed());
    }
    let p99 = percentile(&mut times, 99);
    server.stop()?;
    Ok(vec![
        Measure::at_most(
            "pod created → Running, process",
            50.0,
            milliseconds(middle(&mut times)),
            "ms",
        ),
        Measure::at_most("pod created → Running, process, p99", 100.0, milliseconds(p99), "ms"),
    ])
}

/// From sending a change of a pod's metadata to its file, while five hundred pods run.
pub(super) async fn refreshes() -> Result<Vec<Measure>> {
    const COUNT: usize = 500;
    const CHANGES: usize = 200;
    let folder = tempfile::TempDir::new()?;
    let server = real(folder.path()).await?;
    let access = server.access()?;
    create(&access, COUNT).await?;
    running(&access, COUNT).await?;
    let mut connection = access.connect().await?;
    let mut measures = Vec::new();
    for (name, file, patch) in [
        ("a label change is in the file, 500 pods, p99", "labels", label as fn(usize) -> Value),
        ("an annotation change is in the file, 500 pods, p99", "annotations", annotation),
        ("a change of owner is in the file, 500 pods, p99", "owners", owner),
    ] {
        let mut times = Vec::new();
        for number in 0..CHANGES {
            let path = format!("{PODS}/p-{}", number * 7 % COUNT);
            let uid = connection.send("GET", &path, None).await?.json()?;
            let uid = uid.pointer("/metadata/uid").and_then(Value::as_str).context("a uid")?;
            let place = find(folder.path(), uid, file).context("the file of the pod")?;
            let change = patch(number).to_string();
            let typed = "application/merge-patch+json";
            let bytes = request("PATCH", &path, typed, Some(change.as_bytes()));
            let mark = mark(number);
            let begin = Instant::now();
            connection.write(&bytes).await?;
            let answer = connection.answer().await?;
            ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
            while !std::fs::read_to_string(&place)?.contains(&mark) {
                ensure!(begin.elapsed() < Duration::from_secs(10), "{file} never shows {mark}");
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            times.push(begin.elapsed());
        }
        measures.push(Measure::at_most(name, 50.0, milliseconds(percentile(&mut times, 99)), "ms"));
    }
    eprintln!("  {} MB for {COUNT} pods", server.peak_bytes()? / 1_000_000);
    server.stop()?;
    Ok(measures)
}

/// A durable server whose one node runs pods as processes of this machine.
async fn real(folder: &Path) -> Result<Server> {
    let data = folder.to_str().context("a folder in UTF-8")?;
    let flags = ["--data-dir", data, "--nodes", "1", "--node-capacity", "pods=1000,cpu=1000"];
    let server = Server::start(&flags)?;
    let mut connection = server.access()?.connect().await?;
    let begin = Instant::now();
    loop {
        let nodes = connection.send("GET", "/api/v1/nodes", None).await?.json()?;
        if nodes.pointer("/items/0/status/conditions").is_some() {
            return Ok(server);
        }
        ensure!(begin.elapsed() < Duration::from_secs(30), "no node: {}", server.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn pod(name: &str) -> Value {
    let items = [
        json!({ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }),
        json!({ "path": "annotations", "fieldRef": { "fieldPath": "metadata.annotations" } }),
        json!({ "path": "owners", "fieldRef": { "fieldPath": "metadata.ownerReferences" } }),
    ];
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": "host",
                "command": ["sleep", "100000"],
                "volumeMounts": [{ "name": "podinfo", "mountPath": "/etc/podinfo" }],
            }],
            "volumes": [{ "name": "podinfo", "downwardAPI": { "items": items } }],
        },
    })
}

/// What no file has before the change of this number.
fn mark(number: usize) -> String {
    format!("mark-{number}-")
}

fn label(number: usize) -> Value {
    json!({ "metadata": { "labels": { "mark": format!("{}x", mark(number)) } } })
}

fn annotation(number: usize) -> Value {
    json!({ "metadata": { "annotations": { "mark": mark(number) } } })
}

/// An owner that keeps its kind to itself, so that nobody collects the pod meanwhile.
fn owner(number: usize) -> Value {
    let reference = json!({
        "apiVersion": "example.com/v1", "kind": "Unknown", "name": format!("{}x", mark(number)),
        "uid": format!("00000000-0000-0000-0000-{number:012}"),
    });
    json!({ "metadata": { "ownerReferences": [reference] } })
}

/// Creates pods as fast as all clients can.
async fn create(access: &Access, count: usize) -> Result<()> {
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.min(count) {
        let mut connection = access.connect().await?;
        let next = Rc::clone(&next);
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let body = pod(&format!("p-{number}")).to_string();
                let answer = connection.send("POST", PODS, Some(body.as_bytes())).await?;
                ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
            }
            Ok(())
        }));
    }
    for client in clients {
        client.await??;
    }
    Ok(())
}

/// Waits until that many pods run.
async fn running(access: &Access, wanted: usize) -> Result<()> {
    let mut connection = access.connect().await?;
    let begin = Instant::now();
    loop {
        let path = format!("{PODS}?fieldSelector=status.phase%3DRunning");
        let list = connection.send("GET", &path, None).await?.json()?;
        let found = list.get("items").and_then(Value::as_array).map_or(0, Vec::len);
        if found >= wanted {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "only {found} of {wanted} pods run");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A file of a pod's volume, below the folder of the server's node.
fn find(folder: &Path, uid: &str, file: &str) -> Option<PathBuf> {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            let path = entry.path();
            if entry.file_name().to_str() == Some(uid) {
                let found = [path.join("podinfo"), path.join("volumes/podinfo")];
                if let Some(there) = found.iter().map(|at| at.join(file)).find(|at| at.exists()) {
                    return Some(there);
                }
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            }
        }
    }
    None
}

fn percentile(times: &mut [Duration], of_hundred: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * of_hundred / 100).or(times.last()).copied().unwrap_or_default()
}
