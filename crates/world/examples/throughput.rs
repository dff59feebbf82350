//! How many proposals a second one world takes from 32 tasks, in memory and on a file.
//!
//! With a folder as argument: how long 200,000 objects there take to open, and what they hold.
//! The first run fills the folder, the second one tells.
#![expect(clippy::disallowed_methods, reason = "an example may read the clock and the environment")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_core::Revision;
use tenure_store::{FileLog, FileOptions, Log, MemoryLog};
use tenure_world::{Draft, Interest, Proposal, WorldHandle, WorldOptions, WriteOperation, open};

const TASKS: usize = 32;
const OBJECTS: usize = 200_000;
const TIME: Duration = Duration::from_secs(3);

/// An object of about a kibibyte.
fn draft(name: &str) -> Option<Draft> {
    let object = json!({
        "metadata": {"name": name, "namespace": "bench", "uid": "4a3e5a52-5d0f-4a5c-a6f6-0d4d0f5d8e1c",
            "labels": {"app": "bench", "tier": "load"}},
        "data": {"text": "x".repeat(850)},
    });
    object.as_object().map(|object| Draft::encode("ConfigMap", "v1", object))
}

async fn writer(world: WorldHandle, task: usize, until: Instant) -> u64 {
    let mut done = 0;
    while Instant::now() < until {
        let name = format!("t{task}-{}", done % 1000);
        let key: Arc<str> = format!("/registry/configmaps/bench/{name}").into();
        let revision = world.current().get(&key).map(|record| record.revision());
        let Some(draft) = draft(&name) else { return done };
        if world.propose(Proposal::put(key, revision, draft)).await.is_ok() {
            done += 1;
        }
    }
    done
}

async fn measure(name: &str, log: Box<dyn Log>) -> Result<(), Box<dyn std::error::Error>> {
    let world = open(log, WorldOptions::default())?;
    for tasks in [1, TASKS] {
        let until = Instant::now() + TIME;
        let writers: Vec<_> =
            (0..tasks).map(|task| tokio::spawn(writer(world.clone(), task, until))).collect();
        let mut done = 0;
        for writer in writers {
            done += writer.await?;
        }
        let rate = done as f64 / TIME.as_secs_f64();
        println!("{name}: {tasks} tasks, {rate:.0} proposals a second");
    }
    world.stop().await?;
    Ok(())
}

/// How long after a write was proposed the last of some watchers has heard of it.
async fn hear(watchers: usize) -> Result<(), Box<dyn std::error::Error>> {
    let world = open(Box::new(MemoryLog::forgetting()), WorldOptions::default())?;
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..watchers {
        let interest = Interest::Prefix("/registry/configmaps/bench/".into());
        let mut watch = world.watch(Revision::ZERO, interest)?;
        let heard = heard.clone();
        tokio::spawn(async move {
            while watch.next().await.is_ok() {
                let _ = heard.send(Instant::now());
            }
        });
    }
    let mut times = Vec::new();
    for n in 0..500 {
        let name = format!("w{n}");
        let key = format!("/registry/configmaps/bench/{name}").into();
        let Some(draft) = draft(&name) else { break };
        let before = Instant::now();
        world.propose(Proposal::create(key, draft)).await?;
        let mut last = before;
        for _ in 0..watchers {
            last = hearing.recv().await.map_or(last, |at| last.max(at));
        }
        times.push(last - before);
    }
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    println!("{watchers} watchers heard: median {:?}, 99th {:?}", at(50), at(99));
    Ok(())
}

/// Fills a log with objects, a thousand a proposal.
async fn fill(world: &WorldHandle) -> Result<(), Box<dyn std::error::Error>> {
    let before = Instant::now();
    for batch in 0..OBJECTS / 1000 {
        let names = (0..1000).map(|n| format!("object-{batch}-{n}"));
        let write = |name: String| {
            let draft = draft(&name)?;
            Some(WriteOperation::Put {
                key: format!("/registry/configmaps/bench/{name}").into(),
                draft,
            })
        };
        let writes = names.filter_map(write).collect();
        world.propose(Proposal { guards: Vec::new(), writes }).await?;
    }
    println!("{OBJECTS} objects written in {:?}", before.elapsed());
    Ok(())
}

/// Opens a log, filling it first if it is new, and says what it takes.
async fn inspect(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let before = Instant::now();
    let log = FileLog::open(folder, FileOptions::default())?;
    println!("log opened in {:?}", before.elapsed());
    let world = open(Box::new(log), WorldOptions::default())?;
    println!("{} objects opened in {:?}", world.current().len(), before.elapsed());
    if world.current().is_empty() {
        fill(&world).await?;
    }
    let now = world.current();
    let bytes: usize = now.range("", None).map(|record| record.bytes().len()).sum();
    println!("{} KiB of objects; {} KiB resident", bytes / 1024, resident_kib());
    let before = Instant::now();
    let count = now.count("/registry/configmaps/bench/");
    println!("{count} counted in {:?}", before.elapsed());
    world.stop().await?;
    Ok(())
}

/// The resident memory of this process; zero where the system does not tell.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    if let Some(path) = std::env::args().nth(1) {
        return inspect(Path::new(&path)).await;
    }
    hear(50).await?;
    hear(1000).await?;
    measure("memory", Box::new(MemoryLog::forgetting())).await?;
    let file = FileLog::open(&folder.path().join("log"), FileOptions::default())?;
    measure("file", Box::new(file)).await
}
