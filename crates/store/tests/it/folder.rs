//! The data folder: who may use it, what is refused and in which words.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use redb::{Database, ReadableDatabase as _, TableDefinition};
use tempfile::TempDir;
use tenure_core::Revision;
use tenure_store::{AppendDurability, FileLog, FileOptions, Log, LogOpenError, RestoreError, file};

use crate::contract::{commit, put, state};

fn open(path: &Path) -> Result<FileLog, LogOpenError> {
    FileLog::open(path, FileOptions::default())
}

#[test]
fn r194_one_process_at_a_time() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    let lock = folder.path().join("lock").display().to_string();
    let holder = format!("process {}", std::process::id());
    assert_eq!(error.to_string(), format!("the data folder is in use: {holder} holds `{lock}`"));
    assert_eq!(error, LogOpenError::InUse { path: lock, holder });
    drop(first);
    open(folder.path()).unwrap();
}

#[test]
fn r196_the_folder_is_made_and_private() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("a/b");
    let log = open(&place).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    assert_eq!(mode(&place.join("log.redb")), 0o600);
    assert!(log.stats().bytes_on_disk > 0);
}

#[test]
fn r196_a_half_made_log_is_replaced() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("log.redb.new"), "torn").unwrap();
    open(folder.path()).unwrap();
    assert!(!folder.path().join("log.redb.new").exists());
}

#[test]
fn r196_unusable_folders_are_named() {
    let folder = TempDir::new().unwrap();
    let taken = folder.path().join("file");
    fs::write(&taken, "").unwrap();
    for path in [taken.clone(), taken.join("below")] {
        assert_eq!(
            open(&path).unwrap_err().to_string(),
            format!(
                "the data folder `{}` cannot be used: a file is where a folder is needed",
                path.display()
            )
        );
    }
    let error = open(Path::new("/proc/nowhere")).unwrap_err();
    assert!(matches!(error, LogOpenError::Folder { .. }), "{error}");
}

#[test]
fn r196_other_files_are_refused() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("log.redb");
    fs::write(&place, "not a log, but long enough to be looked at. ".repeat(200)).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, LogOpenError::Foreign { .. }), "{error}");
    fs::remove_file(&place).unwrap();
    Database::create(&place).unwrap();
    assert_eq!(
        open(folder.path()).unwrap_err().to_string(),
        format!(
            "`{}` is not a log of Tenure: it lacks the table of facts about the log",
            place.display()
        )
    );
}

#[test]
fn r196_a_newer_format_is_refused() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    let database = Database::create(folder.path().join("log.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    transaction.open_table(meta).unwrap().insert("format", 7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(
        open(folder.path()).unwrap_err().to_string(),
        "the log has format 7, and this release reads up to 2; use the release that wrote it or a \
         newer one"
    );
}

#[test]
fn r182_restore_refuses_what_it_would_overwrite() {
    let folder = TempDir::new().unwrap();
    let (data, snapshot) = (folder.path().join("data"), folder.path().join("snapshot"));
    let mut log = open(&data).unwrap();
    log.append(&[commit(1, vec![put("a", "1", 0)])]).unwrap();
    log.save(&snapshot).unwrap();
    drop(log);
    assert_eq!(
        file::restore(&snapshot, &data),
        Err(RestoreError::NotEmpty { path: data.display().to_string() })
    );
    let missing = folder.path().join("missing");
    assert_eq!(
        file::restore(&missing, &folder.path().join("r")).unwrap_err().to_string(),
        format!("the snapshot `{}` cannot be read: it does not exist", missing.display())
    );
    let bad = folder.path().join("bad");
    fs::write(&bad, "x".repeat(10_000)).unwrap();
    let restored = folder.path().join("r");
    let error = file::restore(&bad, &restored).unwrap_err();
    assert!(matches!(error, RestoreError::Snapshot { .. }), "{error}");
    // The failed attempt left the folder empty, so the right snapshot still goes in.
    file::restore(&snapshot, &restored).unwrap();
    let mut log = open(&restored).unwrap();
    assert_eq!(state(&mut log).1, 1 << 20);
}

#[test]
fn r30_the_file_can_be_shrunk() {
    let folder = TempDir::new().unwrap();
    let mut log = open(folder.path()).unwrap();
    let value = "x".repeat(10_000);
    for revision in 1..200 {
        log.append(&[commit(revision, vec![put("a", &value, revision - 1)])]).unwrap();
    }
    log.compact(Revision(199)).unwrap();
    let before = log.stats();
    log.shrink().unwrap();
    let after = log.stats();
    assert!(after.bytes_on_disk < before.bytes_on_disk / 2, "{before:?} {after:?}");
    log.append(&[commit(200, vec![put("a", "end", 199)])]).unwrap();
    drop(log);
    assert_eq!(open(folder.path()).unwrap().stats().entries, 2);
}

/// What a killed process leaves in its folder.
fn killed(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in ["log.redb", "log.journal"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn r186_a_killed_process_loses_nothing_whatever_its_durability() {
    for durability in [AppendDurability::Strict, AppendDurability::Relaxed] {
        let folder = TempDir::new().unwrap();
        let (before, after) = (folder.path().join("before"), folder.path().join("after"));
        let options = FileOptions { durability, ..FileOptions::default() };
        let mut log = FileLog::open(&before, options).unwrap();
        for revision in 1..20 {
            log.append(&[commit(revision, vec![put("a", "x", revision - 1)])]).unwrap();
        }
        killed(&before, &after);
        let found = state(&mut FileLog::open(&after, options).unwrap());
        assert_eq!(found.0, state(&mut log).0, "{durability:?}");
        // Under relaxed durability nobody can know, so it jumps all the same.
        let last = if durability == AppendDurability::Strict { 19 } else { 1 << 20 };
        assert_eq!(found.1, last, "{durability:?}");
    }
}

#[test]
fn r196_the_journal_is_empty_after_a_clean_end_and_bounded_before() {
    let folder = TempDir::new().unwrap();
    let journal = folder.path().join("log.journal");
    let options = FileOptions { journal_bytes: 1 << 20, ..FileOptions::default() };
    let mut log = FileLog::open(folder.path(), options).unwrap();
    let value = "x".repeat(100_000);
    for revision in 1..40 {
        log.append(&[commit(revision, vec![put("a", &value, revision - 1)])]).unwrap();
        assert!((1..=1 << 20).contains(&size(&journal)), "{}", size(&journal));
    }
    // A value that is larger than the journal goes past it.
    log.append(&[commit(40, vec![put("a", &"y".repeat(1_200_000), 39)])]).unwrap();
    log.append(&[commit(41, vec![put("b", "end", 0)])]).unwrap();
    let whole = state(&mut log);
    drop(log);
    assert_eq!(size(&journal), 0);
    assert_eq!(state(&mut open(folder.path()).unwrap()), whole);
}

#[test]
fn r196_a_damaged_journal_is_refused_and_not_cut_short() {
    let folder = TempDir::new().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut log = open(&before).unwrap();
    for revision in 1..4 {
        log.append(&[commit(revision, vec![put("a", "x", revision - 1)])]).unwrap();
    }
    killed(&before, &after);
    let place = after.join("log.journal");
    let mut bytes = fs::read(&place).unwrap();
    bytes[4096 + 30] ^= 1;
    fs::write(&place, bytes).unwrap();
    let error = open(&after).unwrap_err().to_string();
    assert!(
        error.ends_with("the journal is damaged at byte 4096: what follows there is whole"),
        "{error}"
    );
}

#[test]
fn r196_a_log_without_a_journal_gets_one_and_a_snapshot_has_none() {
    let folder = TempDir::new().unwrap();
    let (old, snapshot) = (folder.path().join("old"), folder.path().join("snapshot"));
    let mut log = open(&old).unwrap();
    log.append(&[commit(1, vec![put("a", "1", 0)])]).unwrap();
    log.save(&snapshot).unwrap();
    drop(log);
    // A file that stands alone is what earlier releases wrote.
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    fs::copy(&snapshot, place.join("log.redb")).unwrap();
    assert_eq!(format(&place.join("log.redb")), 1);
    let mut log = open(&place).unwrap();
    log.append(&[commit(2, vec![put("a", "2", 1)])]).unwrap();
    let after = folder.path().join("after");
    killed(&place, &after);
    drop(log);
    assert_eq!(format(&place.join("log.redb")), 2);
    assert_eq!(state(&mut open(&after).unwrap()).1, 2);
}

fn format(path: &Path) -> u64 {
    let database = Database::open(path).unwrap();
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let transaction = database.begin_read().unwrap();
    transaction.open_table(meta).unwrap().get("format").unwrap().unwrap().value()
}

#[test]
fn r196_the_journal_of_a_log_that_is_gone_tells_nothing() {
    let folder = TempDir::new().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut log = open(&before).unwrap();
    log.append(&[commit(1, vec![put("a", "1", 0)])]).unwrap();
    killed(&before, &after);
    fs::remove_file(after.join("log.redb")).unwrap();
    assert_eq!(state(&mut open(&after).unwrap()), (Vec::new(), 0, 0));
}
