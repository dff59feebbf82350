//! Files that a node keeps current: how soon a change of a pod's metadata, or of a ConfigMap that it
//! mounts, is in its files while many pods run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};

use super::measure::{Measure, milliseconds};
use super::node::{Ground, PODS, create, pod, real, running};

/// The change of a pod by its number.
type Change = fn(usize) -> Value;

/// From sending a change to the file that has it, while five hundred pods run.
pub(super) async fn refreshes() -> Result<Vec<Measure>> {
    const COUNT: usize = 500;
    let (_folder, server, files) = pods(COUNT, with_volumes).await?;
    let mut connection = server.access()?.connect().await?;
    let mut measures = Vec::new();
    let rows: [([&'static str; 2], &str, Change); 3] = [
        (
            ["label change → file, 500 pods", "label change → file, 500 pods, p99"],
            "podinfo/labels",
            label,
        ),
        (
            ["annotation change → file, 500 pods", "annotation change → file, 500 pods, p99"],
            "podinfo/annotations",
            annotation,
        ),
        (
            ["owner change → file, 500 pods", "owner change → file, 500 pods, p99"],
            "podinfo/owners",
            owner,
        ),
    ];
    for (names, file, change) in rows {
        let mut times = Vec::new();
        for number in 0..CHANGES {
            let (pod, folders) = files.get(number * 7 % COUNT).context("a pod")?;
            let place = folders.place(file)?;
            let path = format!("{PODS}/{pod}");
            times.push(seen(&mut connection, &path, &change(number), &place, number).await?);
        }
        measures.extend(both(names, [10.0, 50.0], &mut times));
    }
    eprintln!("  {} MB for {COUNT} pods", server.peak_bytes()? / 1_000_000);
    server.stop()?;
    Ok(measures)
}

/// From sending a change of a ConfigMap to the file of the one pod that mounts it.
pub(super) async fn settings() -> Result<Vec<Measure>> {
    const COUNT: usize = 100;
    let (_folder, server, files) = pods(COUNT, with_settings).await?;
    let mut connection = server.access()?.connect().await?;
    let mut times = Vec::new();
    for number in 0..CHANGES {
        let (pod, folders) = files.get(number * 7 % COUNT).context("a pod")?;
        let path = format!("/api/v1/namespaces/default/configmaps/{pod}");
        let change = json!({ "data": { "mark": mark(number) } });
        let place = folders.place("settings/mark")?;
        times.push(seen(&mut connection, &path, &change, &place, number).await?);
    }
    server.stop()?;
    let names = ["ConfigMap change → file, 100 pods", "ConfigMap change → file, 100 pods, p99"];
    Ok(both(names, [10.0, 100.0], &mut times))
}

/// From sending a change of one ConfigMap to the last file of the thousand pods that mount it.
pub(super) async fn shared() -> Result<Vec<Measure>> {
    const COUNT: usize = 1000;
    let (_folder, server, files) = pods(COUNT, with_shared).await?;
    let mut connection = server.access()?.connect().await?;
    let mut times = Vec::new();
    for number in 0..5 {
        let change = json!({ "data": { "mark": mark(number) } }).to_string();
        let begin = Instant::now();
        patch(&mut connection, "/api/v1/namespaces/default/configmaps/shared", &change).await?;
        for (_, folders) in &files {
            arrived(&folders.place("settings/mark")?, number, begin).await?;
        }
        times.push(begin.elapsed());
        // The next change finds a node at rest.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    server.stop()?;
    let name = "one ConfigMap changes → files of 1,000 pods";
    Ok(vec![Measure::at_most(name, 1000.0, milliseconds(percentile(&mut times, 50)), "ms")])
}

const CHANGES: usize = 200;

/// A node with so many pods that run, and where their files are.
async fn pods(
    count: usize,
    make: fn(&str) -> Value,
) -> Result<(Ground, Server, Vec<(String, Folders)>)> {
    let folder = Ground::new()?;
    let server = real(folder.path()).await?;
    let access = server.access()?;
    prepare(&access, count).await?;
    let begin = Instant::now();
    create(&access, count, make).await?;
    running(&access, count).await?;
    eprintln!("  {count} pods run after {:.1} s", begin.elapsed().as_secs_f64());
    let list = access.once("GET", PODS, None).await?.json()?;
    let items = list.get("items").and_then(Value::as_array).context("a list of pods")?;
    let mut found = Vec::new();
    for item in items {
        let text = |pointer| item.pointer(pointer).and_then(Value::as_str).context("a pod");
        let uid = text("/metadata/uid")?;
        found.push((text("/metadata/name")?.to_owned(), Folders::new(folder.path(), uid)));
    }
    Ok((folder, server, found))
}

/// The ConfigMaps that pods mount.
async fn prepare(access: &Access, count: usize) -> Result<()> {
    let mut connection = access.connect().await?;
    for name in (0..count).map(|number| format!("p-{number}")).chain(["shared".to_owned()]) {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "mark": "none", "other": "a value" },
        });
        let path = "/api/v1/namespaces/default/configmaps";
        let answer = connection.send("POST", path, Some(body.to_string().as_bytes())).await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    Ok(())
}

fn with_volumes(name: &str) -> Value {
    let items = [
        json!({ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } }),
        json!({ "path": "annotations", "fieldRef": { "fieldPath": "metadata.annotations" } }),
        json!({ "path": "owners", "fieldRef": { "fieldPath": "metadata.ownerReferences" } }),
    ];
    pod(name, &json!({ "name": "podinfo", "downwardAPI": { "items": items } }))
}

fn with_settings(name: &str) -> Value {
    pod(name, &json!({ "name": "settings", "configMap": { "name": name } }))
}

fn with_shared(name: &str) -> Value {
    pod(name, &json!({ "name": "settings", "configMap": { "name": "shared" } }))
}

/// Changes an object and waits until the file has the mark; the time from the request to the file.
async fn seen(
    connection: &mut Connection,
    path: &str,
    change: &Value,
    place: &Path,
    number: usize,
) -> Result<Duration> {
    let change = change.to_string();
    let begin = Instant::now();
    patch(connection, path, &change).await?;
    arrived(place, number, begin).await?;
    let took = begin.elapsed();
    // Changes that come one by one, not a queue of them.
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(took)
}

async fn patch(connection: &mut Connection, path: &str, change: &str) -> Result<()> {
    let typed = "application/merge-patch+json";
    let answer = connection.send_as("PATCH", path, typed, Some(change.as_bytes())).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

async fn arrived(place: &Path, number: usize, begin: Instant) -> Result<()> {
    let mark = mark(number);
    while !std::fs::read_to_string(place)?.contains(&mark) {
        let waited = begin.elapsed();
        ensure!(waited < Duration::from_secs(10), "{} never shows {mark}", place.display());
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    Ok(())
}

/// What no file has before the change of this number.
fn mark(number: usize) -> String {
    format!("mark-{number}-x")
}

fn label(number: usize) -> Value {
    json!({ "metadata": { "labels": { "mark": mark(number) } } })
}

fn annotation(number: usize) -> Value {
    json!({ "metadata": { "annotations": { "mark": mark(number) } } })
}

/// An owner of a kind nobody knows, so that nobody collects the pod meanwhile.
fn owner(number: usize) -> Value {
    let reference = json!({
        "apiVersion": "example.com/v1", "kind": "Unknown", "name": mark(number),
        "uid": format!("00000000-0000-0000-0000-{number:012}"),
    });
    json!({ "metadata": { "ownerReferences": [reference] } })
}

/// Where the volumes of a pod may be: in memory, or on disk.
struct Folders([PathBuf; 2]);

impl Folders {
    fn new(data: &Path, uid: &str) -> Folders {
        let volumes = data.join("nodes/node-1/volumes");
        Folders([volumes.join("memory").join(uid), volumes.join("pods").join(uid).join("volumes")])
    }

    fn place(&self, file: &str) -> Result<PathBuf> {
        let found = self.0.iter().map(|folder| folder.join(file)).find(|place| place.exists());
        found.with_context(|| format!("no file {file} in {:?}", self.0))
    }
}

/// The middle and the slow end.
pub(super) fn both(
    [name, name_slow]: [&'static str; 2],
    [target, target_slow]: [f64; 2],
    times: &mut [Duration],
) -> Vec<Measure> {
    let (middle, slow) = (percentile(times, 50), percentile(times, 99));
    vec![
        Measure::at_most(name, target, milliseconds(middle), "ms"),
        Measure::at_most(name_slow, target_slow, milliseconds(slow), "ms"),
    ]
}

pub(super) fn percentile(times: &mut [Duration], of_hundred: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len() * of_hundred / 100).or(times.last()).copied().unwrap_or_default()
}
