//! Random histories, compared with a map after every step.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tempfile::TempDir;
use tenure_core::Revision;
use tenure_store::{AppendDurability, Commit, FileLog, FileOptions, KeyWrite, Log, MemoryLog};

use crate::contract::{State, commit, gone, put, state};
use crate::disk::Disk;

#[derive(Clone, Debug)]
enum Step {
    /// Commits of (key, value) pairs; no value deletes the key if it is live.
    Append(Vec<BTreeMap<u8, Option<u8>>>),
    /// Compacts up to this share of the history, in percent.
    Compact(u64),
    Reopen,
    /// Ends without closing; only what was appended under strict durability counts.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let write = proptest::collection::btree_map(0u8..6, proptest::option::of(any::<u8>()), 0..4);
    prop_oneof![
        6 => proptest::collection::vec(write, 0..5).prop_map(Step::Append),
        2 => (0u64..110).prop_map(Step::Compact),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
    ]
}

/// The slow, obvious log.
#[derive(Default)]
struct Model {
    entries: BTreeMap<(u64, String), Option<String>>,
    live: BTreeMap<String, u64>,
    last: u64,
    compacted: u64,
}

impl Model {
    fn commit(&mut self, changes: &BTreeMap<u8, Option<u8>>) -> Commit {
        self.last += 1;
        let writes = changes.iter().filter_map(|(key, value)| self.write(*key, *value)).collect();
        commit(self.last, writes)
    }

    fn write(&mut self, key: u8, value: Option<u8>) -> Option<KeyWrite> {
        let key = format!("/registry/{key}");
        let replaces = self.live.remove(&key).unwrap_or(0);
        let write = match value {
            Some(value) => {
                self.live.insert(key.clone(), self.last);
                put(&key, &value.to_string(), replaces)
            }
            None if replaces > 0 => gone(&key, replaces),
            None => return None,
        };
        self.entries.insert((self.last, key), value.map(|value| value.to_string()));
        Some(write)
    }

    fn compact(&mut self, upto: u64) {
        let upto = upto.min(self.last);
        self.compacted = self.compacted.max(upto);
        let all = self.entries.clone();
        self.entries.retain(|(revision, key), value| {
            let superseded =
                all.keys().any(|(newer, k)| k == key && newer > revision && *newer <= upto);
            let deletion = value.is_none() && *revision <= upto;
            !superseded && !deletion
        });
    }

    fn state(&self) -> State {
        let entries =
            self.entries.iter().map(|((r, key), value)| (*r, key.clone(), value.clone())).collect();
        (entries, self.last, self.compacted)
    }
}

/// Runs a history; `again` closes or kills the log and opens it anew.
fn run(
    steps: &[Step],
    mut log: Box<dyn Log>,
    mut again: impl FnMut(Box<dyn Log>, bool) -> Box<dyn Log>,
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Append(changes) => {
                let commits: Vec<Commit> = changes.iter().map(|c| model.commit(c)).collect();
                log.append(&commits).unwrap();
            }
            Step::Compact(share) => {
                let upto = model.last * share / 100;
                let before = model.entries.len();
                model.compact(upto);
                let removed = log.compact(Revision(upto)).unwrap().removed;
                prop_assert_eq!(removed, (before - model.entries.len()) as u64);
            }
            Step::Reopen => log = again(log, false),
            Step::Kill => log = again(log, true),
        }
        prop_assert_eq!(state(&mut *log), model.state());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn r183_memory_equals_the_model(steps in proptest::collection::vec(step(), 0..20)) {
        run(&steps, Box::new(MemoryLog::keeping()), |log, _| log)?;
    }

    #[test]
    fn r183_strict_storage_equals_the_model(steps in proptest::collection::vec(step(), 0..20)) {
        let options = FileOptions {
            cache_bytes: 1024 * 1024,
            journal_bytes: 16 * 1024,
            ..FileOptions::default()
        };
        let mut disk = Disk::default();
        let log = disk.open(options).unwrap();
        run(&steps, Box::new(log), |log, kill| {
            if kill {
                disk = Disk::with_images(disk.images());
            }
            drop(log);
            Box::new(disk.open(options).unwrap())
        })?;
    }

    #[test]
    fn r183_a_relaxed_file_equals_the_model(steps in proptest::collection::vec(step(), 0..12)) {
        let folder = TempDir::new().unwrap();
        let options =
            FileOptions { durability: AppendDurability::Relaxed, ..FileOptions::default() };
        let open = || -> Box<dyn Log> { Box::new(FileLog::open(folder.path(), options).unwrap()) };
        // Without a sync nothing is promised after a kill, so this history only closes.
        run(&steps, open(), |log, _| {
            drop(log);
            open()
        })?;
    }
}
