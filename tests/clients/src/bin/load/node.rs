//! A node that runs pods for real: how soon a pod runs, how soon a command in it and a line of its
//! log come back, and what the agent costs.

use std::cell::Cell;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::server::binary;
use tenure_client_tests::{Access, Server};

use super::files::{both, percentile};
use super::measure::{CLIENTS, Measure, megabytes, milliseconds};

pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";
/// No measure takes longer, or something stands still.
const PATIENCE: Duration = Duration::from_secs(300);

/// From sending a pod to the watch that says it runs; nothing else runs meanwhile.
pub(super) async fn starts() -> Result<Vec<Measure>> {
    const COUNT: usize = 100;
    let folder = Ground::new()?;
    let server = real(folder.path()).await?;
    let access = server.access()?;
    let mut connection = access.connect().await?;
    let mut events = access.connect().await?.watch(&format!("{PODS}?watch=true")).await?;
    let mut times = Vec::new();
    for number in 0..COUNT {
        let name = format!("p-{number}");
        let body = simple(&name).to_string();
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
    server.stop()?;
    let names = ["pod created → Running, process", "pod created → Running, process, p99"];
    Ok(both(names, [25.0, 50.0], &mut times))
}

/// A command in a pod from its request to its exit code, and a line of a log from its writing to
/// its reader.
pub(super) async fn talks() -> Result<Vec<Measure>> {
    const COUNT: usize = 100;
    let folder = Ground::new()?;
    let server = real(folder.path()).await?;
    let access = server.access()?;
    create(&access, 1, speaking).await?;
    running(&access, 1).await?;
    let mut commands = Vec::new();
    for _ in 0..COUNT {
        commands.push(exec(&access, "p-0", "true").await?);
    }
    let path = format!("{PODS}/p-0/log?follow=true&tailLines=0");
    let mut lines = access.connect().await?.watch(&path).await?;
    let mut times = Vec::new();
    for _ in 0..COUNT * 2 {
        let line = String::from_utf8(lines.line().await?.context("the log goes on")?)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let written = Duration::from_nanos(line.trim().parse()?);
        times.push(now.saturating_sub(written));
    }
    server.stop()?;
    Ok(vec![
        Measure::at_most(
            "exec of `true`, request → exit code",
            15.0,
            milliseconds(percentile(&mut commands, 50)),
            "ms",
        ),
        Measure::at_most(
            "log line → reader of `logs -f`, p99",
            5.0,
            milliseconds(percentile(&mut times, 99)),
            "ms",
        ),
    ])
}

/// What an agent of its own holds in memory, and how much of a core it needs, with 110 pods at rest.
pub(super) async fn rests() -> Result<Vec<Measure>> {
    const COUNT: usize = 110;
    let time = Duration::from_secs(30);
    let folder = Ground::new()?;
    let server = Server::start(&["--ephemeral"])?;
    let access = server.access()?;
    let agent = Joined::start(&server, folder.path())?;
    registered(&server, &access).await?;
    create(&access, COUNT, bound).await?;
    running(&access, COUNT).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = agent.cpu()?;
    tokio::time::sleep(time).await;
    let share = (agent.cpu()? - before).as_secs_f64() / time.as_secs_f64() * 100.0;
    let memory = megabytes(agent.resident()?);
    // The agent ends them; containers of an agent that is gone would run on.
    access.once("DELETE", PODS, None).await?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(30) {
        let list = access.once("GET", PODS, None).await?.json()?;
        if list.pointer("/items/0").is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(vec![
        Measure::at_most("agent with 110 pods: memory", 31.4, memory, "MB"),
        Measure::at_most("agent with 110 pods at rest: share of a core", 1.0, share, "%"),
    ])
}

/// A folder for a node. A node leaves its file system in memory to its next start, which never comes.
pub(super) struct Ground(tempfile::TempDir);

impl Ground {
    pub(super) fn new() -> Result<Ground> {
        Ok(Ground(tempfile::TempDir::new()?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for place in ["nodes/node-1/volumes/memory", "volumes/memory"] {
            let place = self.path().join(place);
            if place.exists() {
                let _ = Command::new("umount").arg(place).stderr(Stdio::null()).status();
            }
        }
    }
}

/// A node in a process of its own; dropping it ends it.
struct Joined(Child);

impl Joined {
    fn start(server: &Server, folder: &Path) -> Result<Joined> {
        let child = Command::new(binary()?)
            .args(["node", "--node-name", "apart", "--node-ip", "127.0.0.1"])
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Joined(child))
    }

    fn resident(&self) -> Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.0.id()))?;
        let pages: u64 = text.split(' ').nth(1).context("resident pages")?.parse()?;
        Ok(pages * 4096)
    }

    fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        Ok(Duration::from_millis(ticks.sum::<Result<u64, _>>()? * 10))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A durable server whose one node runs pods as processes of this machine.
pub(super) async fn real(folder: &Path) -> Result<Server> {
    let data = folder.to_str().context("a folder in UTF-8")?;
    let flags = ["--data-dir", data, "--nodes", "1", "--node-capacity", "pods=1100,cpu=1000"];
    let server = Server::start(&flags)?;
    registered(&server, &server.access()?).await?;
    Ok(server)
}

async fn registered(server: &Server, access: &Access) -> Result<()> {
    let mut connection = access.connect().await?;
    let begin = Instant::now();
    loop {
        let nodes = connection.send("GET", "/api/v1/nodes", None).await?.json()?;
        if nodes.pointer("/items/0/status/conditions").is_some() {
            return Ok(());
        }
        ensure!(begin.elapsed() < Duration::from_secs(30), "no node: {}", server.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A pod with this volume, which runs until it is ended.
pub(super) fn pod(name: &str, volume: &Value) -> Value {
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
                "volumeMounts": [{ "name": volume.get("name"), "mountPath": "/etc/mounted" }],
            }],
            "volumes": [volume],
        },
    })
}

fn simple(name: &str) -> Value {
    let items = [json!({ "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } })];
    pod(name, &json!({ "name": "podinfo", "downwardAPI": { "items": items } }))
}

/// A pod of the node apart, for a server without nodes of its own has nobody who binds pods.
fn bound(name: &str) -> Value {
    let mut pod = simple(name);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".to_owned(), "apart".into());
    }
    pod
}

/// A pod that writes the time to its log, again and again.
fn speaking(name: &str) -> Value {
    let mut pod = simple(name);
    let command = json!(["sh", "-c", "while true; do date +%s%N; sleep 0.01; done"]);
    if let Some(place) = pod.pointer_mut("/spec/containers/0/command") {
        *place = command;
    }
    pod
}

/// Runs a command in a pod; the time from opening a connection to its exit code.
async fn exec(access: &Access, pod: &str, command: &str) -> Result<Duration> {
    let begin = Instant::now();
    let mut connection = access.connect().await?;
    let head = format!(
        "GET {PODS}/{pod}/exec?command={command}&stdout=true&stderr=true HTTP/1.1\r\n\
         host: tenure\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n"
    );
    connection.write(head.as_bytes()).await?;
    let (code, head) = connection.head().await?;
    ensure!(code == 101, "exec answers {head}");
    loop {
        let (kind, mut length) = match connection.exact(2).await?.as_slice() {
            [kind, short] => (kind & 0x0f, usize::from(*short)),
            _ => (8, 0),
        };
        if length == 126 {
            let long = connection.exact(2).await?;
            length = long.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
        }
        let data = connection.exact(length).await?;
        // Channel 3 has the status, the last that is said.
        if kind == 2 && data.first() == Some(&3) {
            let text = String::from_utf8_lossy(&data);
            ensure!(text.contains("Success"), "the command ends with {text}");
            return Ok(begin.elapsed());
        }
        ensure!(kind != 8, "exec ended without a status");
    }
}

/// Creates pods as fast as all clients can.
pub(super) async fn create(access: &Access, count: usize, make: fn(&str) -> Value) -> Result<()> {
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.min(count) {
        let mut connection = access.connect().await?;
        let next = Rc::clone(&next);
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let body = make(&format!("p-{number}")).to_string();
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
pub(super) async fn running(access: &Access, wanted: usize) -> Result<()> {
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
