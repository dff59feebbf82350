//! Objects, logs and short forms that the tests share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tenure_core::Revision;
use tenure_store::{
    AppendError, Commit, CompactionOutcome, Log, LogEntry, LogStats, ReplayError, Replayed,
    SaveError,
};
use tenure_world::{
    Change, Committed, Draft, Precondition, Proposal, ProposalError, Watch, WatchEnded,
    WorldHandle, WorldOptions, WriteOperation, open,
};

/// An object of a small kind with a name and some data.
pub(crate) fn object(name: &str, data: &str) -> Map<String, Value> {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
        "data": {"text": data},
    });
    value.as_object().unwrap().clone()
}

pub(crate) fn draft(name: &str, data: &str) -> Draft {
    Draft::encode("ConfigMap", "v1", &object(name, data))
}

pub(crate) fn key(name: &str) -> Arc<str> {
    format!("/registry/configmaps/shop/{name}").into()
}

pub(crate) const PREFIX: &str = "/registry/configmaps/shop/";

/// Puts an object whatever is there.
pub(crate) fn put(name: &str, data: &str) -> WriteOperation {
    WriteOperation::Put { key: key(name), draft: draft(name, data) }
}

pub(crate) fn delete(name: &str) -> WriteOperation {
    WriteOperation::Delete { key: key(name) }
}

pub(crate) fn at(name: &str, revision: Option<u64>) -> Precondition {
    Precondition::At { key: key(name), revision: revision.map(Revision) }
}

pub(crate) async fn write(world: &WorldHandle, writes: Vec<WriteOperation>) -> Committed {
    world.propose(Proposal { guards: vec![], writes }).await.unwrap()
}

pub(crate) async fn write_if(
    world: &WorldHandle,
    guards: Vec<Precondition>,
    writes: Vec<WriteOperation>,
) -> Result<Committed, ProposalError> {
    world.propose(Proposal { guards, writes }).await
}

/// The text of the `data` member, through the bytes.
pub(crate) fn data(bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    value["data"]["text"].as_str().unwrap().to_owned()
}

/// The revision a client sees in the bytes.
pub(crate) fn version(bytes: &[u8]) -> u64 {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    value["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// A change as a line: revision, sign and name.
pub(crate) fn line(change: &Change) -> String {
    let sign = match (&change.before, &change.after) {
        (None, Some(_)) => '+',
        (Some(_), Some(_)) => '~',
        (Some(_), None) => '-',
        (None, None) => '?',
    };
    format!("{}{sign}{}", change.revision, change.key.rsplit('/').next().unwrap())
}

/// Everything a watch has to say now.
pub(crate) fn drain(watch: &mut Watch) -> Result<Vec<String>, WatchEnded> {
    let mut lines = Vec::new();
    while let Some(change) = watch.try_next()? {
        lines.push(line(&change));
    }
    Ok(lines)
}

/// The next change, or a failure instead of a hang.
pub(crate) async fn soon(watch: &mut Watch) -> Result<Arc<Change>, WatchEnded> {
    tokio::time::timeout(Duration::from_secs(10), watch.next()).await.expect("a change in time")
}

/// A log in memory whose content outlives it and whose faults are chosen.
#[derive(Clone, Default)]
pub(crate) struct TestLog {
    pub(crate) inner: Arc<TestLogInner>,
}

#[derive(Default)]
pub(crate) struct TestLogInner {
    pub(crate) entries: Mutex<Vec<LogEntry>>,
    pub(crate) compacted: Mutex<Revision>,
    pub(crate) appends: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    pub(crate) fail: AtomicBool,
    pub(crate) delay: Mutex<Duration>,
}

impl TestLog {
    pub(crate) fn open(&self) -> WorldHandle {
        self.open_with(WorldOptions::default())
    }

    pub(crate) fn open_with(&self, options: WorldOptions) -> WorldHandle {
        open(Box::new(self.clone()), options).unwrap()
    }
}

/// Stands for a full disk.
fn full() -> AppendError {
    AppendError::Failed { cause: "no space left on device".into(), disk_full: true }
}

impl Log for TestLog {
    fn append(&mut self, commits: &[Commit]) -> Result<(), AppendError> {
        if self.inner.fail.load(Ordering::SeqCst) {
            return Err(full());
        }
        std::thread::sleep(*self.inner.delay.lock().unwrap());
        self.inner.appends.fetch_add(1, Ordering::SeqCst);
        let mut entries = self.inner.entries.lock().unwrap();
        for commit in commits {
            for write in &commit.writes {
                entries.push(LogEntry {
                    revision: commit.revision,
                    key: write.key.clone(),
                    value: write.value.clone(),
                });
            }
        }
        Ok(())
    }

    fn replay(&mut self, visit: &mut dyn FnMut(LogEntry)) -> Result<Replayed, ReplayError> {
        let entries = self.inner.entries.lock().unwrap();
        let mut last = Revision::ZERO;
        for entry in entries.iter() {
            last = entry.revision;
            visit(LogEntry {
                revision: entry.revision,
                key: entry.key.clone(),
                value: entry.value.clone(),
            });
        }
        Ok(Replayed { last, compacted: *self.inner.compacted.lock().unwrap() })
    }

    fn compact(&mut self, upto: Revision) -> Result<CompactionOutcome, AppendError> {
        *self.inner.compacted.lock().unwrap() = upto;
        Ok(CompactionOutcome::default())
    }

    fn sync(&mut self) -> Result<(), AppendError> {
        self.inner.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn stats(&self) -> LogStats {
        LogStats::default()
    }

    fn save(&mut self, _path: &Path) -> Result<(), SaveError> {
        Err(SaveError::NotKept)
    }
}
