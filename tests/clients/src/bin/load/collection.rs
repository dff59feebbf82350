//! Collections that go over HTTP on the durable store, and what one write alone costs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};

use super::measure::{Measure, OBJECTS, config_map, fill_at, middle, milliseconds};

const COUNT: usize = 5_000;
const SPACE: &str = "measured";

/// From sending the DELETE of a collection to the end of its answer, and of a namespace until it is gone;
/// the middle of three, each on a server of its own.
pub(super) async fn deletions() -> Result<Vec<Measure>> {
    let (mut plain, mut held, mut emptied) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        let folder = tempfile::TempDir::new()?;
        let server = Server::durable(folder.path())?;
        let access = server.access()?;
        fill_at(&access, OBJECTS, COUNT, 100).await?;
        plain.push(delete_collection(&access, "").await?);
        fill_at(&access, OBJECTS, COUNT, 100).await?;
        held.push(delete_collection(&access, "?propagationPolicy=Foreground").await?);
        emptied.push(empty_namespace(&access).await?);
        server.stop()?;
    }
    let measure = |name, most, times: &mut [Duration]| {
        Measure::at_most(name, most, milliseconds(middle(times)), "ms")
    };
    Ok(vec![
        measure("deletion of a collection of 5,000", 200.0, &mut plain),
        measure("deletion of a collection of 5,000, in the foreground", 400.0, &mut held),
        measure("deletion of a namespace of 5,000, until it is gone", 500.0, &mut emptied),
    ])
}

async fn delete_collection(access: &Access, query: &str) -> Result<Duration> {
    let mut connection = access.connect().await?;
    let begin = Instant::now();
    let answer = connection.send("DELETE", &format!("{OBJECTS}{query}"), None).await?;
    let took = begin.elapsed();
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    // What waits for the collector goes a moment later.
    settle(&mut connection).await?;
    let list = connection.send("GET", OBJECTS, None).await?.json()?;
    let left = list.get("items").and_then(Value::as_array).map_or(usize::MAX, Vec::len);
    // The namespace's own one comes back.
    ensure!(left <= 1, "{left} objects are left");
    Ok(took)
}

async fn settle(connection: &mut Connection) -> Result<()> {
    let answer = connection.send("POST", "/tenure/settle", None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

async fn empty_namespace(access: &Access) -> Result<Duration> {
    let mut connection = access.connect().await?;
    let body = json!({ "metadata": { "name": SPACE } }).to_string();
    let answer = connection.send("POST", "/api/v1/namespaces", Some(body.as_bytes())).await?;
    ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    fill_at(access, &format!("/api/v1/namespaces/{SPACE}/configmaps"), COUNT, 100).await?;
    let path = format!("/api/v1/namespaces/{SPACE}");
    let begin = Instant::now();
    let answer = connection.send("DELETE", &path, None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    while connection.send("GET", &path, None).await?.code != 404 {
        ensure!(begin.elapsed() < Duration::from_secs(60), "the namespace stays");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(begin.elapsed())
}

/// Durable creates of one client, one after the other: what a small commit costs.
pub(super) async fn alone() -> Result<Vec<Measure>> {
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    let access = server.access()?;
    let mut connection = access.connect().await?;
    let mut times = Vec::new();
    let before = (server.cpu()?, server.written_bytes()?);
    for number in 0..3_000 {
        let body = config_map(&format!("m-{number}"), 100);
        let begin = Instant::now();
        let answer = connection.send("POST", OBJECTS, Some(body.as_bytes())).await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    let (cpu, bytes) = (server.cpu()? - before.0, server.written_bytes()? - before.1);
    eprintln!(
        "  one create costs {:?} of processor and {} bytes of disk",
        cpu / 3_000,
        bytes / 3_000
    );
    let time = milliseconds(middle(&mut times));
    Ok(vec![Measure::at_most("one durable create alone, median", 1.0, time, "ms")])
}
