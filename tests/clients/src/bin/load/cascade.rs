//! Cascades over HTTP on the durable store: from sending the DELETE until nothing is left to do.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};

use super::measure::{CLIENTS, Measure, OBJECTS, middle, milliseconds};

const DEPENDENTS: usize = 5_000;
const DEPTH: usize = 500;

/// One wide owner deleted in each way, and one deep chain. Each takes about a tenth of a second, in which
/// a disk may be slow once: the middle of three, each on a server of its own.
pub(super) async fn rates() -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for (name, policy, left) in [
        ("background cascade of 5,000 dependents", "Background", 0),
        ("foreground cascade of 5,000 dependents", "Foreground", 0),
        ("orphaning of 5,000 dependents", "Orphan", DEPENDENTS),
    ] {
        let time = middle_of_three(async |access| wide(access, policy, left).await).await?;
        #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
        let rate = DEPENDENTS as f64 / time.as_secs_f64();
        measures.push(Measure::at_least(name, 20_000.0, rate));
    }
    let time = middle_of_three(deep).await?;
    let name = "foreground chain of 500 levels";
    measures.push(Measure::at_most(name, 100.0, milliseconds(time), "ms"));
    Ok(measures)
}

async fn middle_of_three(take: impl AsyncFn(&Access) -> Result<Duration>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..3 {
        let folder = tempfile::TempDir::new()?;
        let server = Server::durable(folder.path())?;
        times.push(take(&server.access()?).await?);
    }
    Ok(middle(&mut times))
}

/// Deletes an owner of many; what is left afterwards must refer to nobody.
async fn wide(access: &Access, policy: &str, left: usize) -> Result<Duration> {
    let mut connection = access.connect().await?;
    let owner = create(&mut connection, "owner", None).await?;
    let next = Rc::new(Cell::new(0));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection = access.connect().await?;
        let (next, owner) = (Rc::clone(&next), owner.clone());
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < DEPENDENTS {
                let number = next.get();
                next.set(number + 1);
                create(&mut connection, &format!("m-{number}"), Some(&owner)).await?;
            }
            Ok::<(), anyhow::Error>(())
        }));
    }
    for client in clients {
        client.await??;
    }
    let time = delete(&mut connection, "owner", policy).await?;
    let list = connection.send("GET", OBJECTS, None).await?.json()?;
    let items = list.get("items").and_then(Value::as_array).context("a list")?;
    let name =
        |item: &Value| item.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
    let mut dependents =
        items.iter().filter(|item| name(item).is_some_and(|name| name.starts_with("m-")));
    let count = dependents.clone().count();
    ensure!(count == left, "{count} dependents are left, not {left}");
    let orphaned = dependents.all(|item| item.pointer("/metadata/ownerReferences").is_none());
    ensure!(orphaned, "a dependent still names its owner");
    Ok(time)
}

/// Deletes the first of a long chain of objects, each of which blocks the one before.
async fn deep(access: &Access) -> Result<Duration> {
    let mut connection = access.connect().await?;
    let mut owner = create(&mut connection, "c-0", None).await?;
    for number in 1..DEPTH {
        owner = create(&mut connection, &format!("c-{number}"), Some(&owner)).await?;
    }
    let time = delete(&mut connection, "c-0", "Foreground").await?;
    let path = format!("{OBJECTS}/c-{}", DEPTH - 1);
    let answer = connection.send("GET", &path, None).await?;
    ensure!(answer.code == 404, "the chain is still there: {}", answer.code);
    Ok(time)
}

/// Deletes an object and waits until the engines have nothing left to do.
async fn delete(connection: &mut Connection, name: &str, policy: &str) -> Result<Duration> {
    let path = format!("{OBJECTS}/{name}?propagationPolicy={policy}");
    let begin = Instant::now();
    let answer = connection.send("DELETE", &path, None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    let answer = connection.send("POST", "/tenure/settle", None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(begin.elapsed())
}

/// Creates an object that may have an owner, and gives back the reference to it.
async fn create(connection: &mut Connection, name: &str, owner: Option<&Value>) -> Result<Value> {
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "ownerReferences": owner.map(|owner| vec![owner]) },
        "data": { "k": "x".repeat(100) },
    });
    let answer = connection.send("POST", OBJECTS, Some(body.to_string().as_bytes())).await?;
    ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    let uid = answer.json()?.pointer("/metadata/uid").cloned();
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
        "blockOwnerDeletion": true,
    }))
}
