//! `kill -9` in the middle of cascades. After the restart every cascade ends as it would have, and
//! nothing that has a living owner is gone (spec/ownership.md S1, S9, S15).
//!
//! ```text
//!   background, foreground: owner ◄─ middle ◄─ leaf      orphan: owner ◄─ leaf
//!   always:                 owner ◄─ shared ─► keeper            keeper ◄─ kept
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::{Access, Connection, Server};
use tokio::task::JoinSet;

use super::{OBJECTS, Random, get, revision_of, settle};

const MIDDLES: usize = 90;
const LEAVES: usize = 9_000;
/// Dependents of the owner that have another one.
const SHARED: usize = 909;
/// Dependents of another owner only.
const KEPT: usize = 100;
/// The owner and all that refer to it, directly or not.
const CASCADE: usize = 1 + MIDDLES + LEAVES + SHARED;
/// How many connections make objects.
const MAKERS: usize = 16;

const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// A tenth of the rounds of the other crash test, because each has ten thousand objects.
fn rounds() -> usize {
    (super::rounds() as usize / 10).max(POLICIES.len())
}

#[test]
fn a_cascade_that_was_cut_off_is_finished() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Box::pin(run(rounds())));
}

/// A folder with everything a round needs, copied for each, and what is in it.
struct Template {
    folder: tempfile::TempDir,
    holds: BTreeMap<String, Value>,
    keeper: Value,
}

async fn run(rounds: usize) {
    let begin = Instant::now();
    let deep = template(true).await;
    let wide = template(false).await;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut cut_off, mut least) = (0, CASCADE);
    for round in 0..rounds {
        let policy = POLICIES[round % POLICIES.len()];
        let template = if policy == "Orphan" { &wide } else { &deep };
        let folder = tempfile::TempDir::new().unwrap();
        copy(template.folder.path(), folder.path());
        let server = Server::durable(folder.path()).unwrap();
        // The watch lags behind the collector, so the cut is well before the end.
        let cut = 1 + usize::try_from(random.next() % 5_000).unwrap();
        let seen = cut_down(&server.access().unwrap(), policy, cut).await;
        server.kill().unwrap();
        assert!(seen >= cut, "round {round}: the watch ended after {seen} of {cut} events");

        // Without a collector the folder shows what the crash left to do.
        let standing = Server::start(&without_collector(folder.path())).unwrap();
        let left = found(&standing.access().unwrap()).await;
        standing.kill().unwrap();
        let undone = undone(template, &left, policy);
        cut_off += usize::from(undone > 0 && undone < CASCADE);
        least = least.min(undone);

        let server = Server::durable(folder.path()).unwrap();
        let access = server.access().unwrap();
        settle(&access).await;
        check(template, &found(&access).await, policy, round);
    }
    assert!(cut_off * 2 > rounds, "only {cut_off} of {rounds} cascades were cut off");
    let seconds = begin.elapsed().as_secs();
    println!(
        "{cut_off} of {rounds} cascades of {CASCADE} objects cut off, with {least} or more to do, \
         and all finished, {seconds} s"
    );
}

/// The flags of a durable server on which nothing is collected.
fn without_collector(folder: &Path) -> [&str; 6] {
    let folder = folder.to_str().unwrap();
    let controllers = "-garbage-collector-controller,*";
    ["--data-dir", folder, "--durability", "strict", "--controllers", controllers]
}

/// How many objects of a cascade are not yet as it leaves them.
fn undone(template: &Template, left: &BTreeMap<String, Value>, policy: &str) -> usize {
    let owner = &template.holds["owner"]["uid"];
    let refers = |object: &Value| {
        let owners = object["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|other| other["uid"] == *owner))
    };
    let open = |(name, object): &(&String, &Value)| match name.split('-').next().unwrap() {
        "keeper" | "kept" => false,
        "leaf" | "middle" if policy != "Orphan" => true,
        "owner" => true,
        _ => refers(object),
    };
    left.iter().filter(open).count()
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Deletes the owner, and returns once at least so many changes were seen.
async fn cut_down(access: &Access, policy: &str, cut: usize) -> usize {
    let since = revision_of(&get(access, &format!("{OBJECTS}?limit=1")).await);
    let path = format!("{OBJECTS}?watch=true&resourceVersion={since}");
    let mut events = access.connect().await.unwrap().watch(&path).await.unwrap();
    let path = format!("{OBJECTS}/owner?propagationPolicy={policy}");
    let answer = access.once("DELETE", &path, None).await.unwrap();
    assert_eq!(answer.code, 200, "{}", String::from_utf8_lossy(&answer.body));
    let mut seen = 0;
    while seen < cut {
        match tokio::time::timeout(Duration::from_secs(20), events.line()).await {
            Ok(Ok(Some(_))) => seen += 1,
            _ => break,
        }
    }
    seen
}

/// Makes everything on a server of its own; the leaves of a wide one belong to the owner itself.
async fn template(deep: bool) -> Template {
    let folder = tempfile::TempDir::new().unwrap();
    let server = Server::durable(folder.path()).unwrap();
    let access = server.access().unwrap();
    let mut connection = access.connect().await.unwrap();
    let keeper = made(&mut connection, "keeper", &[]).await;
    let owner = made(&mut connection, "owner", &[]).await;
    let (mut wanted, mut middles) = (Vec::new(), Vec::new());
    for number in 0..MIDDLES {
        let name = format!("middle-{number}");
        middles.push(made(&mut connection, &name, std::slice::from_ref(&owner)).await);
    }
    for number in 0..LEAVES {
        let middle = middles.get(number % MIDDLES).filter(|_| deep);
        wanted.push((format!("leaf-{number}"), vec![middle.unwrap_or(&owner).clone()]));
    }
    for number in 0..SHARED {
        wanted.push((format!("shared-{number}"), vec![owner.clone(), keeper.clone()]));
    }
    for number in 0..KEPT {
        wanted.push((format!("kept-{number}"), vec![keeper.clone()]));
    }
    let (wanted, next) = (Arc::new(wanted), Arc::new(AtomicUsize::new(0)));
    let mut makers = JoinSet::new();
    for _ in 0..MAKERS {
        let mut connection = access.connect().await.unwrap();
        let (wanted, next) = (Arc::clone(&wanted), Arc::clone(&next));
        makers.spawn(async move {
            while let Some((name, owners)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                made(&mut connection, name, owners).await;
            }
        });
    }
    while let Some(done) = makers.join_next().await {
        done.unwrap();
    }
    let holds = found(&access).await;
    assert_eq!(holds.len(), 1 + KEPT + CASCADE);
    server.stop().unwrap();
    Template { folder, holds, keeper }
}

/// Creates an object, and gives a blocking reference to it.
async fn made(connection: &mut Connection, name: &str, owners: &[Value]) -> Value {
    let body = json!({ "metadata": { "name": name, "ownerReferences": owners } }).to_string();
    let answer = connection.send("POST", OBJECTS, Some(body.as_bytes())).await.unwrap();
    assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    let uid = &answer.json().unwrap()["metadata"]["uid"];
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
        "blockOwnerDeletion": true,
    })
}

/// The metadata of every object of the test.
async fn found(access: &Access) -> BTreeMap<String, Value> {
    let list = get(access, OBJECTS).await;
    let items = list["items"].as_array().unwrap().iter();
    let named = |item: &Value| {
        let metadata = &item["metadata"];
        (metadata["name"].as_str().unwrap().to_owned(), metadata.clone())
    };
    items.map(named).filter(|(name, _)| name != "kube-root-ca.crt").collect()
}

/// Compares what is left with what a cascade without a crash leaves.
fn check(template: &Template, after: &BTreeMap<String, Value>, policy: &str, round: usize) {
    let what = format!("round {round}, {policy}");
    let Template { holds: before, keeper, .. } = template;
    for (name, old) in before {
        let new = after.get(name);
        let stays = match name.split('-').next().unwrap() {
            "keeper" | "kept" => {
                assert_eq!(new, Some(old), "{what}: {name} was touched");
                continue;
            }
            "shared" => Some(json!([keeper])),
            "leaf" | "middle" if policy == "Orphan" => Some(Value::Null),
            _ => None,
        };
        let Some(owners) = stays else {
            assert_eq!(new, None, "{what}: {name} is left");
            continue;
        };
        let new = new.unwrap_or_else(|| panic!("{what}: {name} is gone"));
        assert_eq!(new["uid"], old["uid"], "{what}: {name} is another");
        assert_eq!(new["ownerReferences"], owners, "{what}: the owners of {name}");
        assert_eq!(new["deletionTimestamp"], Value::Null, "{what}: {name} is going");
    }
    let strange: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
    assert!(strange.is_empty(), "{what}: {strange:?} came from nowhere");
}
