//! The load generator of `cargo xtask bench`: takes each measure once and prints one table.
//! Loopback only, bounded in count and time; one thread, so that the server keeps a core.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tenure_client_tests::wire::request;
use tenure_client_tests::{Access, Server};
use tokio::task::LocalSet;

const CLIENTS: usize = 32;
const WATCHERS: usize = 50;
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

/// One line of the table.
struct Measure {
    name: &'static str,
    target: String,
    measured: String,
    met: bool,
}

impl Measure {
    fn at_most(name: &'static str, limit: f64, measured: f64, unit: &str) -> Measure {
        let text = |number: f64| format!("{number:.1} {unit}");
        let target = format!("≤ {}", text(limit));
        Measure { name, target, measured: text(measured), met: measured <= limit }
    }

    fn at_least(name: &'static str, limit: f64, measured: f64) -> Measure {
        let text = |number: f64| format!("{number:.0} /s");
        let target = format!("≥ {}", text(limit));
        Measure { name, target, measured: text(measured), met: measured >= limit }
    }
}

fn main() -> Result<()> {
    // A name or part of one chooses measures; without arguments all are taken.
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|part| name.contains(part));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let mut table = Vec::new();
    let mut take = |found: Result<Vec<Measure>>| -> Result<()> {
        table.extend(found?);
        Ok(())
    };
    if wanted("start") {
        eprintln!("measuring the start");
        take(local.block_on(&runtime, start()))?;
    }
    if wanted("rate") {
        eprintln!("measuring creates and gets");
        take(local.block_on(&runtime, rates()))?;
    }
    if wanted("list") {
        eprintln!("measuring lists");
        take(local.block_on(&runtime, list()))?;
    }
    if wanted("watch") {
        eprintln!("measuring watches");
        take(local.block_on(&runtime, watch()))?;
    }
    if wanted("many") {
        eprintln!("measuring 200,000 objects");
        take(local.block_on(&runtime, many()))?;
    }
    println!("| measure | target | measured | |\n|---|---|---|---|");
    for Measure { name, target, measured, met } in &table {
        println!("| {name} | {target} | {measured} | {} |", if *met { "met" } else { "missed" });
    }
    Ok(())
}

/// From the start of the process to an answer of `/readyz`, and the memory a moment later.
async fn start() -> Result<Vec<Measure>> {
    let mut times = Vec::new();
    let mut resident = 0;
    for _ in 0..7 {
        let folder = tempfile::TempDir::new()?;
        let begin = Instant::now();
        let server = Server::durable(folder.path())?;
        let answer = server.access()?.once("GET", "/readyz", None).await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 200, "/readyz answers {}", answer.code);
        tokio::time::sleep(Duration::from_millis(300)).await;
        resident = server.resident_bytes()?;
        server.stop()?;
    }
    Ok(vec![
        Measure::at_most(
            "exec → /readyz, empty store",
            50.0,
            milliseconds(middle(&mut times)),
            "ms",
        ),
        Measure::at_most("memory when idle", 30.0, megabytes(resident), "MB"),
    ])
}

/// Durable creates, then gets, with as many clients as connections.
async fn rates() -> Result<Vec<Measure>> {
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    let access = server.access()?;
    let created = storm(&access, Duration::from_secs(5), 201, |number| {
        let body = config_map(&format!("m-{number}"), 100);
        request("POST", OBJECTS, "application/json", Some(body.as_bytes()))
    });
    let created = created.await?;
    let got = storm(&access, Duration::from_secs(4), 200, |number| {
        request("GET", &format!("{OBJECTS}/m-{}", number % 1000), "", None)
    });
    let got = got.await?;
    Ok(vec![
        Measure::at_least("durable creates, 32 clients", 10_000.0, created),
        Measure::at_least("gets, 32 clients", 25_000.0, got),
    ])
}

/// Sends requests from all clients for a while; how many a second were answered.
async fn storm(
    access: &Access,
    time: Duration,
    code: u16,
    make: impl Fn(usize) -> Vec<u8> + 'static,
) -> Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(access.connect().await?);
    }
    let next = Rc::new(Cell::new(0));
    let make = Rc::new(make);
    let begin = Instant::now();
    let mut clients = Vec::new();
    for mut connection in connections {
        let (next, make) = (Rc::clone(&next), Rc::clone(&make));
        clients.push(tokio::task::spawn_local(async move {
            while begin.elapsed() < time {
                let number = next.get();
                next.set(number + 1);
                connection.write(&make(number)).await?;
                let answer = connection.answer().await?;
                ensure!(answer.code == code, "{}", String::from_utf8_lossy(&answer.body));
            }
            Ok(())
        }));
    }
    for client in clients {
        client.await??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    Ok(next.get() as f64 / begin.elapsed().as_secs_f64())
}

/// A list of 5,000 objects, read to its end.
async fn list() -> Result<Vec<Measure>> {
    let server = Server::ephemeral()?;
    let access = server.access()?;
    fill(&access, 5_000, 585).await?;
    let mut connection = access.connect().await?;
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..30 {
        let begin = Instant::now();
        let answer = connection.send("GET", OBJECTS, None).await?;
        times.push(begin.elapsed());
        ensure!(answer.code == 200, "a list answers {}", answer.code);
        bytes = answer.body.len();
    }
    eprintln!("  the list has {bytes} bytes");
    Ok(vec![Measure::at_most(
        "list of 5,000 ConfigMaps",
        8.0,
        milliseconds(middle(&mut times)),
        "ms",
    )])
}

/// From sending a write to each of the watchers having read its event.
async fn watch() -> Result<Vec<Measure>> {
    let server = Server::ephemeral()?;
    let access = server.access()?;
    fill(&access, 1, 200).await?;
    let sent = Rc::new(Cell::new(Instant::now()));
    let delays = Rc::new(RefCell::new(Vec::new()));
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let path = format!("{OBJECTS}?watch=true&fieldSelector=metadata.name%3Dm-0");
        let mut events = access.connect().await?.watch(&path).await?;
        events.line().await?.context("the object itself comes first")?;
        let (sent, delays) = (Rc::clone(&sent), Rc::clone(&delays));
        watchers.push(tokio::task::spawn_local(async move {
            while let Ok(Some(_)) = events.line().await {
                delays.borrow_mut().push(sent.get().elapsed());
            }
        }));
    }
    let mut connection = access.connect().await?;
    let writes = 300;
    for number in 0..writes {
        let patch = json!({"data": {"n": number.to_string()}}).to_string();
        let bytes = request(
            "PATCH",
            &format!("{OBJECTS}/m-0"),
            "application/merge-patch+json",
            Some(patch.as_bytes()),
        );
        sent.set(Instant::now());
        connection.write(&bytes).await?;
        let answer = connection.answer().await?;
        ensure!(answer.code == 200, "a patch answers {}", answer.code);
        // Every watcher has read this event before the next write begins.
        let deadline = Instant::now() + Duration::from_secs(5);
        while delays.borrow().len() < (number + 1) * WATCHERS {
            ensure!(Instant::now() < deadline, "an event did not arrive");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    for watcher in watchers {
        watcher.abort();
    }
    let mut delays = delays.take();
    delays.sort_unstable();
    let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or_default();
    Ok(vec![Measure::at_most("one write to 50 watchers, p99", 2.0, milliseconds(p99), "ms")])
}

/// Many objects: how fast a killed server opens them and what they cost in memory.
async fn many() -> Result<Vec<Measure>> {
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

/// Creates objects as fast as all clients can.
async fn fill(access: &Access, count: usize, bytes: usize) -> Result<()> {
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.min(count) {
        let mut connection = access.connect().await?;
        let next = Rc::clone(&next);
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let body = config_map(&format!("m-{number}"), bytes);
                let answer = connection.send("POST", OBJECTS, Some(body.as_bytes())).await?;
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

/// Text, not a tree, because the generator must be cheaper than the server.
fn config_map(name: &str, bytes: usize) -> String {
    let value = "x".repeat(bytes);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"{value}"}}}}"#
    )
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "megabytes need few digits")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
