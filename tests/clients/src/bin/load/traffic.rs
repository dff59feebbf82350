//! Plain requests: creates, gets, lists and watches of ConfigMaps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tenure_client_tests::Server;
use tenure_client_tests::wire::request;

use super::measure::{Measure, OBJECTS, config_map, each, fill, middle, milliseconds, storm};

const WATCHERS: usize = 50;

/// Durable creates, then gets, with as many clients as connections.
pub(super) async fn rates() -> Result<Vec<Measure>> {
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    let access = server.access()?;
    let begin = server.cpu()?;
    let created = storm(&access, Duration::from_secs(5), 201, |_, number| {
        let body = config_map(&format!("m-{number}"), 100);
        request("POST", OBJECTS, "application/json", Some(body.as_bytes()))
    });
    let created = created.await?;
    let created_by = server.cpu()?;
    let got = storm(&access, Duration::from_secs(4), 200, |_, number| {
        request("GET", &format!("{OBJECTS}/m-{}", number % 1000), "", None)
    });
    let got = got.await?;
    each("create", created_by - begin, created * 5.0);
    each("get", server.cpu()? - created_by, got * 4.0);
    Ok(vec![
        Measure::at_least("durable creates, 32 clients", 10_000.0, created),
        Measure::at_least("gets, 32 clients", 25_000.0, got),
    ])
}

/// A list of 5,000 objects, read to its end.
pub(super) async fn list() -> Result<Vec<Measure>> {
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

/// From sending a write to each of the watchers having read its event; the middle of three rounds.
pub(super) async fn watch() -> Result<Vec<Measure>> {
    let mut rounds = [lateness().await?, lateness().await?, lateness().await?];
    let p99 = milliseconds(middle(&mut rounds));
    Ok(vec![Measure::at_most("one write to 50 watchers, p99", 2.0, p99, "ms")])
}

/// One round of writes; how late 99 of 100 events were at most.
async fn lateness() -> Result<Duration> {
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
    Ok(delays.get(delays.len() * 99 / 100).copied().unwrap_or_default())
}
