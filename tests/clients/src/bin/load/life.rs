//! The life of a server: its start as a process and inside a test, and the return of much data.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tenure_client_tests::envtest::{EnvironmentOptions, TestEnvironment, install};
use tenure_client_tests::{Access, Server};
use tenure_cluster::Cluster;

use super::measure::{Measure, OBJECTS, fill, megabytes, middle, milliseconds};

/// From the start of the process to an answer of `/readyz`, and the memory of a server without nodes a
/// moment later.
pub(super) async fn start() -> Result<Vec<Measure>> {
    let mut times = Vec::new();
    for _ in 0..7 {
        let folder = tempfile::TempDir::new()?;
        let data_dir = folder.path().to_str().context("a folder in UTF-8")?;
        let begin = Instant::now();
        let server = Server::start(&["--data-dir", data_dir, "--nodes", "1"])?;
        let answer = server.access()?.once("GET", "/readyz", None).await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 200, "/readyz answers {}", answer.code);
        server.stop()?;
    }
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    server.access()?.once("GET", "/readyz", None).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let resident = server.resident_bytes()?;
    server.stop()?;
    Ok(vec![
        Measure::at_most(
            "exec → /readyz, empty store",
            50.0,
            milliseconds(middle(&mut times)),
            "ms",
        ),
        Measure::at_most("memory when idle, without nodes", 30.0, megabytes(resident), "MB"),
    ])
}

/// What a server and its node cost while nobody asks.
pub(super) async fn rest() -> Result<Vec<Measure>> {
    let time = Duration::from_secs(60);
    let folder = tempfile::TempDir::new()?;
    let data_dir = folder.path().to_str().context("a folder in UTF-8")?;
    let server = Server::start(&["--data-dir", data_dir, "--nodes", "1"])?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = server.cpu()?;
    tokio::time::sleep(time).await;
    let share = (server.cpu()? - before).as_secs_f64() / time.as_secs_f64() * 100.0;
    let resident = server.resident_bytes()?;
    server.stop()?;
    Ok(vec![
        Measure::at_most("server and node at rest: share of a core", 0.5, share, "%"),
        Measure::at_most(
            "server and node at rest: memory after a minute",
            40.0,
            megabytes(resident),
            "MB",
        ),
    ])
}

/// A control plane inside this process: from the call to the first answer to a client that read its
/// kubeconfig, TLS handshake included.
pub(super) async fn inside() -> Result<Vec<Measure>> {
    let (mut times, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..20 {
        let begin = Instant::now();
        let cluster = Cluster::start().await?;
        starts.push(begin.elapsed());
        let access = Access::read(cluster.kubeconfig_file())?;
        let answer = access.once("GET", "/readyz", None).await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 200, "/readyz answers {}", answer.code);
        let begin = Instant::now();
        drop(cluster);
        ends.push(begin.elapsed());
    }
    eprintln!("  started after {:?}, ended after {:?}", middle(&mut starts), middle(&mut ends));
    let name = "start inside a test → first answer";
    Ok(vec![Measure::at_most(name, 20.0, milliseconds(middle(&mut times)), "ms")])
}

/// In the place of kube-apiserver: from the start of its process to the answer to a client of its administrator, one
/// after another, and the memory of many at once, what stands in for etcd included.
pub(super) async fn stand_ins() -> Result<Vec<Measure>> {
    const ONE_AFTER_ANOTHER: usize = 100;
    const AT_ONCE: usize = 20;
    let assets = tempfile::TempDir::new()?;
    install(assets.path())?;
    let often = EnvironmentOptions {
        poll_every: Some(Duration::from_millis(1)),
        ..EnvironmentOptions::default()
    };
    let mut times = Vec::new();
    let begin = Instant::now();
    for _ in 0..ONE_AFTER_ANOTHER {
        let environment = TestEnvironment::with(assets.path(), often.clone()).await?;
        let ready = Instant::now();
        usable(&environment).await?;
        times.push(environment.ready + ready.elapsed());
        environment.stop()?;
    }
    let all = begin.elapsed();
    let mut at_once = Vec::new();
    for _ in 0..AT_ONCE {
        at_once.push(TestEnvironment::with(assets.path(), often.clone()).await?);
    }
    let mut resident = 0;
    for environment in &at_once {
        usable(environment).await?;
        resident += environment.resident_bytes()?;
    }
    Ok(vec![
        Measure::at_most(
            "in the place of kube-apiserver: exec → usable client",
            100.0,
            milliseconds(middle(&mut times)),
            "ms",
        ),
        Measure::at_most(
            "100 such control planes, one after another",
            10.0,
            all.as_secs_f64(),
            "s",
        ),
        Measure::at_most("memory of 20 of them at once", 1000.0, megabytes(resident), "MB"),
    ])
}

/// The namespace that envtest waits for, as its administrator.
async fn usable(environment: &TestEnvironment) -> Result<()> {
    let access = Access::read(&environment.kubeconfig("admin", &["system:masters"])?)?;
    let answer = access.once("GET", "/api/v1/namespaces/default", None).await?;
    ensure!(answer.code == 200, "the namespace answers {}", answer.code);
    Ok(())
}

/// Many objects: how fast a killed server opens them and what they cost in memory.
pub(super) async fn many() -> Result<Vec<Measure>> {
    const COUNT: usize = 200_000;
    let folder = tempfile::TempDir::new()?;
    let data_dir = folder.path().to_str().context("a folder in UTF-8")?;
    let server = Server::start(&["--data-dir", data_dir, "--durability", "relaxed"])?;
    let access = server.access()?;
    fill(&access, COUNT, 640).await?;
    server.kill()?;
    let server = Server::durable(folder.path())?;
    let answer = server.access()?.once("GET", &format!("{OBJECTS}/m-{}", COUNT - 1), None).await?;
    // Relaxed durability may lose the last moments, never a whole minute of writes.
    ensure!(answer.code == 200 || answer.code == 404, "a get answers {}", answer.code);
    let size = server.access()?.once("GET", &format!("{OBJECTS}/m-1"), None).await?.body.len();
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs few digits")]
    let ratio = server.resident_bytes()? as f64 / (size * COUNT) as f64;
    eprintln!("  one object has {size} bytes");
    Ok(vec![
        Measure::at_most(
            "open 200,000 objects after kill -9",
            2.0,
            server.ready().as_secs_f64(),
            "s",
        ),
        Measure::at_most("memory per stored byte, 200,000 objects", 2.5, ratio, "×"),
    ])
}
