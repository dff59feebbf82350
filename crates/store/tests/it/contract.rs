//! What every log must do; each backend runs the same list.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use tenure_core::Revision;
use tenure_store::{
    AppendDurability, AppendError, Commit, DEFAULT_VALUE_BYTES_MAX, FileLog, FileOptions, KeyWrite,
    Log, LogEntry, MemoryLog, Replayed, SaveError, file,
};

/// Revision, key and value of every entry; then the newest revision and the floor.
pub(crate) type State = (Vec<(u64, String, Option<String>)>, u64, u64);

type Reopen = Box<dyn Fn(Box<dyn Log>) -> Box<dyn Log>>;

/// A log and a way to close and reopen it.
pub(crate) struct Harness {
    pub(crate) log: Option<Box<dyn Log>>,
    reopen: Reopen,
    folder: TempDir,
}

impl Harness {
    fn log(&mut self) -> &mut dyn Log {
        self.log.as_deref_mut().unwrap()
    }

    fn reopen(&mut self) {
        let log = self.log.take().unwrap();
        self.log = Some((self.reopen)(log));
    }

    fn state(&mut self) -> State {
        state(self.log())
    }
}

/// Everything a log holds, in a form that is easy to compare.
pub(crate) fn state(log: &mut dyn Log) -> State {
    let mut entries = Vec::new();
    let Replayed { last, compacted } = log
        .replay(&mut |LogEntry { revision, key, value }| {
            let value = value.map(|v| String::from_utf8(v.to_vec()).unwrap());
            entries.push((revision.0, key.to_string(), value));
        })
        .unwrap();
    assert_eq!(log.stats().entries, entries.len() as u64);
    (entries, last.0, compacted.0)
}

pub(crate) fn put(key: &str, value: &str, replaces: u64) -> KeyWrite {
    KeyWrite {
        key: Arc::from(key),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        replaces: (replaces > 0).then_some(Revision(replaces)),
    }
}

pub(crate) fn gone(key: &str, replaces: u64) -> KeyWrite {
    KeyWrite { value: None, ..put(key, "", replaces) }
}

pub(crate) fn commit(revision: u64, writes: Vec<KeyWrite>) -> Commit {
    Commit { revision: Revision(revision), writes }
}

fn entry(revision: u64, key: &str, value: &str) -> (u64, String, Option<String>) {
    (revision, key.to_owned(), Some(value.to_owned()))
}

fn tombstone(revision: u64, key: &str) -> (u64, String, Option<String>) {
    (revision, key.to_owned(), None)
}

fn memory() -> Harness {
    Harness {
        log: Some(Box::new(MemoryLog::keeping())),
        reopen: Box::new(|log| log),
        folder: TempDir::new().unwrap(),
    }
}

fn file(durability: AppendDurability) -> Harness {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("data");
    let options = FileOptions { durability, ..FileOptions::default() };
    let open = move || -> Box<dyn Log> { Box::new(FileLog::open(&place, options).unwrap()) };
    Harness {
        log: Some(open()),
        reopen: Box::new(move |log| {
            drop(log);
            open()
        }),
        folder,
    }
}

/// Runs every clause on a fresh log each.
fn contract(make: impl Fn() -> Harness) {
    for clause in [
        an_empty_log_stands_at_zero as fn(Harness),
        entries_come_back_in_order,
        revisions_strictly_increase,
        a_refused_batch_leaves_nothing,
        large_values_are_refused,
        an_empty_commit_uses_its_revision,
        compaction_keeps_the_newest,
        compaction_of_everything_keeps_the_counter,
        compaction_goes_on_where_it_stopped,
        a_snapshot_holds_everything,
        any_bytes_are_values,
    ] {
        clause(make());
    }
}

fn an_empty_log_stands_at_zero(mut h: Harness) {
    assert_eq!(h.state(), (vec![], 0, 0));
    h.log().append(&[]).unwrap();
    h.log().sync().unwrap();
    assert_eq!(h.log().compact(Revision(9)).unwrap().removed, 0);
    h.reopen();
    assert_eq!(h.state(), (vec![], 0, 0));
}

fn entries_come_back_in_order(mut h: Harness) {
    h.log()
        .append(&[
            commit(1, vec![put("b", "1", 0), put("a", "1", 0)]),
            commit(3, vec![put("a", "3", 1)]),
        ])
        .unwrap();
    h.log().append(&[commit(300, vec![gone("b", 1)])]).unwrap();
    let expected =
        vec![entry(1, "a", "1"), entry(1, "b", "1"), entry(3, "a", "3"), tombstone(300, "b")];
    assert_eq!(h.state(), (expected.clone(), 300, 0));
    h.reopen();
    assert_eq!(h.state(), (expected, 300, 0));
}

fn revisions_strictly_increase(mut h: Harness) {
    let refused = |h: &mut Harness, revision, last| {
        assert_eq!(
            h.log().append(&[commit(revision, vec![put("k", "", 0)])]),
            Err(AppendError::Order { revision: Revision(revision), last: Revision(last) })
        );
    };
    refused(&mut h, 0, 0);
    h.log().append(&[commit(5, vec![put("k", "v", 0)])]).unwrap();
    refused(&mut h, 5, 5);
    refused(&mut h, 4, 5);
    h.reopen();
    refused(&mut h, 5, 5);
    assert_eq!(
        h.log().append(&[commit(6, vec![put("k", "", 6)])]),
        Err(AppendError::Order { revision: Revision(6), last: Revision(6) })
    );
    assert_eq!(h.state(), (vec![entry(5, "k", "v")], 5, 0));
}

fn a_refused_batch_leaves_nothing(mut h: Harness) {
    h.log()
        .append(&[commit(1, vec![put("a", "", 0)]), commit(1, vec![put("b", "", 0)])])
        .unwrap_err();
    for key in ["a", ""] {
        let twice = vec![put("a", "", 0), put(key, "", 0)];
        let error = h.log().append(&[commit(1, twice)]).unwrap_err();
        assert_eq!(error, AppendError::Key { revision: Revision(1), key: key.to_owned() });
    }
    assert_eq!(h.state(), (vec![], 0, 0));
    h.log().append(&[commit(1, vec![put("a", "", 0)])]).unwrap();
    assert_eq!(h.state(), (vec![entry(1, "a", "")], 1, 0));
}

fn large_values_are_refused(mut h: Harness) {
    let large = "x".repeat(DEFAULT_VALUE_BYTES_MAX);
    h.log().append(&[commit(1, vec![put("a", &large, 0)])]).unwrap();
    let writes = vec![put("b", "", 0), put("c", &format!("{large}x"), 0)];
    assert_eq!(
        h.log().append(&[commit(2, writes)]).unwrap_err().to_string(),
        "the value of `c` has 1572865 bytes; at most 1572864 are stored"
    );
    assert_eq!(h.state(), (vec![entry(1, "a", &large)], 1, 0));
}

fn an_empty_commit_uses_its_revision(mut h: Harness) {
    h.log().append(&[commit(7, vec![])]).unwrap();
    h.reopen();
    assert_eq!(h.state(), (vec![], 7, 0));
    h.log().append(&[commit(7, vec![])]).unwrap_err();
}

fn compaction_keeps_the_newest(mut h: Harness) {
    let log = h.log();
    log.append(&[commit(1, vec![put("a", "1", 0), put("b", "1", 0), put("c", "1", 0)])]).unwrap();
    log.append(&[commit(2, vec![put("a", "2", 1)]), commit(3, vec![gone("b", 1)])]).unwrap();
    log.append(&[commit(4, vec![put("a", "4", 2)]), commit(5, vec![put("b", "5", 0)])]).unwrap();
    assert_eq!(h.log().compact(Revision(3)).unwrap().removed, 3);
    let after_three =
        vec![entry(1, "c", "1"), entry(2, "a", "2"), entry(4, "a", "4"), entry(5, "b", "5")];
    assert_eq!(h.state(), (after_three.clone(), 5, 3));
    h.reopen();
    assert_eq!(h.state(), (after_three, 5, 3));
    assert_eq!(h.log().compact(Revision(3)).unwrap().removed, 0);
    assert_eq!(h.log().compact(Revision(99)).unwrap().removed, 1);
    let newest = vec![entry(1, "c", "1"), entry(4, "a", "4"), entry(5, "b", "5")];
    assert_eq!(h.state(), (newest, 5, 5));
}

fn compaction_of_everything_keeps_the_counter(mut h: Harness) {
    h.log().append(&[commit(1, vec![put("a", "1", 0)]), commit(2, vec![gone("a", 1)])]).unwrap();
    assert_eq!(h.log().compact(Revision(2)).unwrap().removed, 2);
    h.reopen();
    assert_eq!(h.state(), (vec![], 2, 2));
    h.log().append(&[commit(2, vec![])]).unwrap_err();
}

fn compaction_goes_on_where_it_stopped(mut h: Harness) {
    // More entries than one transaction of a compaction looks at, some in one large commit.
    let large = (0..5000).map(|n| put(&format!("k{n}"), "1", 0)).collect();
    h.log().append(&[commit(1, large)]).unwrap();
    let changes: Vec<Commit> =
        (0..5000).map(|n| commit(n + 2, vec![put(&format!("k{n}"), "2", 1)])).collect();
    h.log().append(&changes).unwrap();
    assert_eq!(h.log().compact(Revision(5000)).unwrap().removed, 4999);
    let (entries, last, compacted) = h.state();
    assert_eq!((entries.len(), last, compacted), (5001, 5001, 5000));
}

fn a_snapshot_holds_everything(mut h: Harness) {
    h.log()
        .append(&[commit(1, vec![put("a", "1", 0)]), commit(2, vec![put("a", "2", 1)])])
        .unwrap();
    h.log().append(&[commit(3, vec![gone("a", 2)]), commit(9, vec![])]).unwrap();
    h.log().compact(Revision(2)).unwrap();
    let (snapshot, restored) = (h.folder.path().join("s"), h.folder.path().join("r"));
    h.log().save(&snapshot).unwrap();
    let (entries, last, compacted) = h.state();
    assert_eq!((last, compacted), (9, 2));
    let again = h.log().save(&snapshot);
    assert_eq!(again, Err(SaveError::Exists { path: snapshot.display().to_string() }));
    h.log().append(&[commit(10, vec![put("b", "", 0)])]).unwrap();

    file::restore(&snapshot, &restored).unwrap();
    let mut copy = FileLog::open(&restored, FileOptions::default()).unwrap();
    // Revisions after the snapshot may be known to somebody, so the copy is ahead of them.
    assert_eq!(state(&mut copy), (entries, 1 << 20, 2));
    assert_eq!(copy.compact(Revision(9)).unwrap().removed, 2);
}

fn any_bytes_are_values(mut h: Harness) {
    let bytes = Bytes::from_static(b"\0\xff{}");
    let write = KeyWrite { key: Arc::from("\u{0}é"), value: Some(bytes.clone()), replaces: None };
    h.log().append(&[commit(1, vec![write])]).unwrap();
    h.reopen();
    let mut found = Vec::new();
    h.log().replay(&mut |entry| found.push((entry.key, entry.value))).unwrap();
    assert_eq!(found, [(Arc::from("\u{0}é"), Some(bytes))]);
}

#[test]
fn r182_r183_r188_memory_keeps_the_contract() {
    contract(memory);
}

#[test]
fn r182_r183_r188_strict_file_keeps_the_contract() {
    contract(|| file(AppendDurability::Strict));
}

#[test]
fn r182_r183_r188_relaxed_file_keeps_the_contract() {
    contract(|| file(AppendDurability::Relaxed));
}

#[test]
fn r33_a_forgetting_log_counts_and_leaves_no_file() {
    let folder = TempDir::new().unwrap();
    let mut log = MemoryLog::forgetting();
    log.append(&[commit(1, vec![put("a", "1", 0)])]).unwrap();
    log.append(&[commit(1, vec![])]).unwrap_err();
    log.compact(Revision(1)).unwrap();
    assert_eq!(state(&mut log), (vec![], 1, 1));
    let path: PathBuf = folder.path().join("s");
    assert_eq!(log.save(&path), Err(SaveError::NotKept));
    assert!(!path.exists());
}
