//! What every measure needs: a line of the table, many clients at once, objects to work on.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tenure_client_tests::Access;

pub(super) const CLIENTS: usize = 32;
pub(super) const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

/// One line of the table.
pub(super) struct Measure {
    pub(super) name: &'static str,
    pub(super) target: String,
    pub(super) measured: String,
    pub(super) met: bool,
}

impl Measure {
    pub(super) fn at_most(name: &'static str, limit: f64, measured: f64, unit: &str) -> Measure {
        let text = |number: f64| format!("{number:.1} {unit}");
        let target = format!("≤ {}", text(limit));
        Measure { name, target, measured: text(measured), met: measured <= limit }
    }

    pub(super) fn at_least(name: &'static str, limit: f64, measured: f64) -> Measure {
        let text = |number: f64| format!("{number:.0} /s");
        let target = format!("≥ {}", text(limit));
        Measure { name, target, measured: text(measured), met: measured >= limit }
    }
}

/// Sends requests from all clients for a while; how many a second were answered.
///
/// A request is made from the number of its client and a number of its own.
pub(super) async fn storm(
    access: &Access,
    time: Duration,
    code: u16,
    make: impl Fn(usize, usize) -> Vec<u8> + 'static,
) -> Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(access.connect().await?);
    }
    let next = Rc::new(Cell::new(0));
    let make = Rc::new(make);
    let begin = Instant::now();
    let mut clients = Vec::new();
    for (client, mut connection) in connections.into_iter().enumerate() {
        let (next, make) = (Rc::clone(&next), Rc::clone(&make));
        clients.push(tokio::task::spawn_local(async move {
            while begin.elapsed() < time {
                let number = next.get();
                next.set(number + 1);
                connection.write(&make(client, number)).await?;
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

/// Tells what one of many requests cost the server's processors; a rate depends on the client as well.
pub(super) fn each(what: &str, cpu: Duration, count: f64) {
    eprintln!("  one {what} costs {:.1} µs of processor", cpu.as_secs_f64() * 1e6 / count);
}

/// Creates objects as fast as all clients can.
pub(super) async fn fill(access: &Access, count: usize, bytes: usize) -> Result<()> {
    fill_at(access, OBJECTS, count, bytes).await
}

/// The same in a collection of ConfigMaps at another path.
pub(super) async fn fill_at(access: &Access, path: &str, count: usize, bytes: usize) -> Result<()> {
    let path: Rc<str> = path.into();
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS.min(count) {
        let mut connection = access.connect().await?;
        let (next, path) = (Rc::clone(&next), Rc::clone(&path));
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let body = config_map(&format!("m-{number}"), bytes);
                let answer = connection.send("POST", &path, Some(body.as_bytes())).await?;
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
pub(super) fn config_map(name: &str, bytes: usize) -> String {
    let value = "x".repeat(bytes);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"k":"{value}"}}}}"#
    )
}

pub(super) fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "megabytes need few digits")]
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}

/// Memory in use by this process, in bytes.
pub(super) fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).context("resident pages")?.parse()?;
    Ok(pages * 4096)
}
