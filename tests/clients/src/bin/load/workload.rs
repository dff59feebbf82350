//! The controllers under load, on simulated nodes: one large Deployment, many small ones, and what
//! many cost while nothing happens.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};

use super::measure::{CLIENTS, Measure, milliseconds};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// No measure takes longer, or something stands still.
const PATIENCE: Duration = Duration::from_secs(300);

/// One Deployment of a thousand replicas, and a thousand of ten, until all pods are Ready.
pub(super) async fn converge() -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (name, target, deployments, replicas) in [
        ("Deployment of 1,000 replicas, all Ready", 3.0, 1, 1_000),
        ("1,000 Deployments × 10 replicas, all Ready", 20.0, 1_000, 10),
    ] {
        let folder = tempfile::TempDir::new()?;
        let server = start(folder.path(), "12").await?;
        let access = server.access()?;
        let begin = Instant::now();
        create(&access, deployments, replicas).await?;
        settled(&access, deployments, replicas).await?;
        let took = begin.elapsed().as_secs_f64();
        ensure!(ready_pods(&access).await? == deployments * replicas, "some pods are not ready");
        measures.push(Measure::at_most(name, target, took, "s"));
        eprintln!(
            "  {:.1} s of processor, {} MB",
            server.cpu()?.as_secs_f64(),
            server.peak_bytes()? / 1_000_000
        );
        server.stop()?;
    }
    Ok(measures)
}

/// What ten thousand Deployments with a pod each cost while nothing happens.
pub(super) async fn idle() -> Result<Vec<Measure>> {
    const COUNT: usize = 10_000;
    let time = Duration::from_secs(60);
    let folder = tempfile::TempDir::new()?;
    let server = start(folder.path(), "12").await?;
    let access = server.access()?;
    create(&access, COUNT, 1).await?;
    settled(&access, COUNT, 1).await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let before = server.cpu()?;
    tokio::time::sleep(time).await;
    let share = (server.cpu()? - before).as_secs_f64() / time.as_secs_f64() * 100.0;
    let name = "10,000 quiet Deployments, share of a core";
    Ok(vec![Measure::at_most(name, 1.0, share, "%")])
}

/// Five thousand simulated nodes with a hundred thousand pods: time, memory, and an answer meanwhile.
pub(super) async fn simulated() -> Result<Vec<Measure>> {
    const NODES: &str = "5000";
    const COUNT: usize = 1_000;
    const REPLICAS: usize = 100;
    let folder = tempfile::TempDir::new()?;
    let server = start(folder.path(), NODES).await?;
    let access = server.access()?;
    let begin = Instant::now();
    create(&access, COUNT, REPLICAS).await?;
    let mut slowest = Duration::ZERO;
    let mut connection = access.connect().await?;
    let total = COUNT * REPLICAS;
    let mut told = begin;
    loop {
        let running = available(&mut connection).await?;
        if running >= total {
            break;
        }
        let waited = begin.elapsed();
        ensure!(waited < PATIENCE, "only {running} of {total} pods run");
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            eprintln!("  {running} pods run after {:.0} s", waited.as_secs_f64());
        }
        let asked = Instant::now();
        connection.send("GET", "/api/v1/namespaces/default", None).await?;
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = total as f64 / begin.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "gigabytes need few digits")]
    let memory = server.peak_bytes()? as f64 / 1e9;
    server.stop()?;
    Ok(vec![
        Measure::at_least("5,000 simulated nodes: pods to Running", 2_000.0, rate),
        Measure::at_most("5,000 simulated nodes, 100,000 pods: memory", 4.0, memory, "GB"),
        Measure::at_most("the slowest get meanwhile", 1_000.0, milliseconds(slowest), "ms"),
    ])
}

/// A durable server with simulated nodes that are there and ready.
async fn start(folder: &std::path::Path, nodes: &str) -> Result<Server> {
    let folder = folder.to_str().context("a folder in UTF-8")?;
    let server = Server::start(&["--data-dir", folder, "--nodes", nodes, "--runtime", "none"])?;
    let mut connection = server.access()?.connect().await?;
    let answer = connection.send("POST", "/tenure/settle", None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(server)
}

/// Creates Deployments as fast as all clients can.
async fn create(access: &Access, count: usize, replicas: usize) -> Result<()> {
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.min(count) {
        let mut connection = access.connect().await?;
        let next = Rc::clone(&next);
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let body = deployment(number, replicas);
                let answer = connection.send("POST", DEPLOYMENTS, Some(body.as_bytes())).await?;
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

fn deployment(number: usize, replicas: usize) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d-{number}"}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"d-{number}"}}}},"template":{{"metadata":{{"labels":{{"app":"d-{number}"}}}},"spec":{{"containers":[{{"name":"c","image":"example.test/c:1"}}]}}}}}}}}"#
    )
}

/// Waits until every Deployment says that all its replicas are available.
async fn settled(access: &Access, deployments: usize, replicas: usize) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut connection = access.connect().await?;
    loop {
        // It answers once nothing is left to do; a longer wait ends with 504 and is asked for again.
        let answer = connection.send("POST", "/tenure/settle?timeout=20s", None).await?;
        ensure!([200, 504].contains(&answer.code), "{}", String::from_utf8_lossy(&answer.body));
        let ready = available(&mut connection).await?;
        if ready == deployments * replicas {
            return Ok(());
        }
        ensure!(Instant::now() < end, "only {ready} replicas are available");
    }
}

async fn available(connection: &mut Connection) -> Result<usize> {
    let list = connection.send("GET", DEPLOYMENTS, None).await?.json()?;
    let items = list.get("items").and_then(Value::as_array).context("a list")?;
    let of = |item: &Value| item.pointer("/status/availableReplicas").and_then(Value::as_u64);
    Ok(usize::try_from(items.iter().filter_map(of).sum::<u64>())?)
}

async fn ready_pods(access: &Access) -> Result<usize> {
    let list = access.once("GET", PODS, None).await?.json()?;
    let items = list.get("items").and_then(Value::as_array).context("a list")?;
    let ready = |item: &&Value| {
        let conditions = item.pointer("/status/conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("Ready")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    Ok(items.iter().filter(ready).count())
}
