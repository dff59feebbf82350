//! The stored objects: opened for a server, or saved, restored and compacted while none runs.
//!
//! Which backend keeps them is chosen here and nowhere else.

mod swap;

use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::Revision;
pub use tenure_store::file::ProgressCallback;
use tenure_store::{FileLog, FileOptions, Log, LogOpenError, MemoryLog, RestoreError};
use tenure_world::Received;

use crate::clock;
use crate::config::Durability;
use crate::error::HostStartError;
use crate::folder::LockedDataFolder;
use swap::Swap;

/// The log is read once and then only appended to, so a small cache is enough.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
/// How much time a power cut may cost under relaxed durability.
pub const RELAXED_SYNC: Duration = Duration::from_millis(100);

/// Why stored objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A newer version of this program wrote the files.
    #[error("the objects in `{}` were written by a newer version of tenure", path.display())]
    Newer {
        /// Where the objects are.
        path: PathBuf,
        /// Which format was found.
        source: LogOpenError,
    },
    /// The files are not what was written.
    #[error("the objects in `{}` cannot be read", path.display())]
    Damaged {
        /// Where the objects are.
        path: PathBuf,
        /// What was found.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another process has the files open.
    #[error("the objects in `{}` are in use", path.display())]
    InUse {
        /// Where the objects are.
        path: PathBuf,
        /// Who uses them.
        source: LogOpenError,
    },
    /// The folder holds no objects yet.
    #[error("there are no objects in `{}`", path.display())]
    Absent {
        /// Where they would be.
        path: PathBuf,
    },
    /// A snapshot could not be written or read.
    #[error("the snapshot failed")]
    Snapshot(#[source] Box<dyn Error + Send + Sync>),
    /// The files cannot be written.
    #[error("the objects in `{}` cannot be written", path.display())]
    Write {
        /// Where the objects are.
        path: PathBuf,
        /// What was said.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StorageError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            StorageError::Newer { .. } => {
                Some("update tenure, or use another folder with `--data-dir DIR`".to_owned())
            }
            StorageError::Damaged { .. } => Some(
                "go back to a snapshot with `tenure snapshot restore FILE`, or use another folder \
                 with `--data-dir DIR`"
                    .to_owned(),
            ),
            StorageError::Absent { .. } => {
                Some("name the folder that `tenure up` uses with `--data-dir DIR`".to_owned())
            }
            _ => None,
        }
    }

    fn opening(path: &Path, error: LogOpenError) -> StorageError {
        let path = path.to_owned();
        match error {
            LogOpenError::Newer { .. } => StorageError::Newer { path, source: error },
            LogOpenError::InUse { .. } => StorageError::InUse { path, source: error },
            LogOpenError::Folder { .. } => StorageError::Write { path, source: Box::new(error) },
            LogOpenError::Foreign { .. } | LogOpenError::Failed { .. } => {
                StorageError::Damaged { path, source: Box::new(error) }
            }
        }
    }

    fn writing(path: &Path, error: impl Error + Send + Sync + 'static) -> StorageError {
        StorageError::Write { path: path.to_owned(), source: Box::new(error) }
    }
}

/// Opens the log in a folder, or an empty one in memory.
pub fn open(path: Option<&Path>, durability: Durability) -> Result<Box<dyn Log>, StorageError> {
    let Some(path) = path else { return Ok(Box::new(MemoryLog::forgetting())) };
    Ok(Box::new(open_file(path, durability)?))
}

fn open_file(path: &Path, durability: Durability) -> Result<FileLog, StorageError> {
    let durability = match durability {
        Durability::Strict => tenure_store::AppendDurability::Strict,
        Durability::Relaxed => tenure_store::AppendDurability::Relaxed,
    };
    let options = FileOptions { durability, cache_bytes: CACHE_BYTES, ..FileOptions::default() };
    FileLog::open(path, options).map_err(|error| StorageError::opening(path, error))
}

/// Opens the log of a stopped server; unlike a start it makes none.
fn open_stopped(folder: &LockedDataFolder) -> Result<FileLog, StorageError> {
    settle(folder)?;
    let path = folder.store();
    if !path.is_dir() {
        return Err(StorageError::Absent { path });
    }
    open_file(&path, Durability::Strict)
}

/// Puts what a restore that was cut short left in a folder in order, before anything else is done with it.
pub fn settle(folder: &LockedDataFolder) -> Result<(), StorageError> {
    let place = folder.store();
    swap(folder).settle().map_err(|error| StorageError::writing(&place, error))
}

fn swap(folder: &LockedDataFolder) -> Swap<'_> {
    let now = clock::timestamp().strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    Swap::new(folder.path(), folder.store(), now)
}

/// What was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The size of the file.
    pub bytes: u64,
    /// The revision whose state it holds; none if that is the last of a stopped server.
    pub revision: Option<Revision>,
}

/// Copies all objects of a stopped server into a new file.
pub fn save(
    data_dir: &Path,
    file: &Path,
    progress: ProgressCallback<'_>,
) -> Result<Saved, HostStartError> {
    let folder = LockedDataFolder::open_existing(data_dir, "snapshot save")?;
    let mut log = open_stopped(&folder)?;
    log.save_telling(file, progress).map_err(|error| StorageError::Snapshot(Box::new(error)))?;
    Ok(Saved { bytes: size(file)?, revision: None })
}

/// Writes what a running server sends of its objects into a new file; `/tenure/snapshot` sends them.
pub fn save_sent(
    sent: impl Read,
    file: &Path,
    progress: ProgressCallback<'_>,
) -> Result<Saved, StorageError> {
    let failed = |error: io::Error| StorageError::Snapshot(Box::new(error));
    let objects = Received::new(sent).map_err(failed)?;
    let (revision, all) = (objects.revision, objects.objects);
    let mut written = 0;
    let objects = objects.inspect(|_| {
        written += 1;
        progress(written, all);
    });
    tenure_store::file::save_entries(file, revision, objects)
        .map_err(|error| StorageError::Snapshot(Box::new(error)))?;
    Ok(Saved { bytes: size(file)?, revision: Some(revision) })
}

fn size(file: &Path) -> Result<u64, StorageError> {
    let found = fs::metadata(file).map_err(|error| StorageError::Snapshot(Box::new(error)))?;
    Ok(found.len())
}

/// Replaces all objects of a stopped server with those in a file.
///
/// What was there before is kept beside, under a name of its own; the answer says where.
pub fn restore(
    data_dir: &Path,
    file: &Path,
    progress: ProgressCallback<'_>,
) -> Result<Option<PathBuf>, HostStartError> {
    let folder = LockedDataFolder::open_for(data_dir, "snapshot restore")?;
    settle(&folder)?;
    let swap = swap(&folder);
    let new = swap.half();
    tenure_store::file::restore_telling(file, &new, progress).map_err(|error| {
        // It is put in order at the next use, should this fail.
        let _ = swap.settle();
        match error {
            RestoreError::Open(error @ LogOpenError::Newer { .. }) => {
                StorageError::Newer { path: file.to_owned(), source: error }
            }
            error => StorageError::Snapshot(Box::new(error)),
        }
    })?;
    let place = folder.store();
    Ok(swap.put_in_place().map_err(|error| StorageError::writing(&place, error))?)
}

/// What a compaction achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionReport {
    /// How many old revisions were forgotten.
    pub removed: u64,
    /// The size of the file before.
    pub bytes_before: u64,
    /// The size of the file now.
    pub bytes_after: u64,
}

/// Forgets all old revisions of a stopped server and gives back their space.
pub fn compact(
    data_dir: &Path,
    progress: ProgressCallback<'_>,
) -> Result<CompactionReport, HostStartError> {
    let folder = LockedDataFolder::open_existing(data_dir, "storage compact")?;
    let mut log = open_stopped(&folder)?;
    let path = folder.store();
    let bytes_before = log.stats().bytes_on_disk;
    let newest = Revision(u64::MAX);
    let compacted = log
        .compact_telling(newest, progress)
        .map_err(|error| StorageError::writing(&path, error))?;
    log.shrink().map_err(|error| StorageError::writing(&path, error))?;
    let bytes_after = log.stats().bytes_on_disk;
    Ok(CompactionReport { removed: compacted.removed, bytes_before, bytes_after })
}

#[cfg(test)]
mod tests {
    use tenure_store::{Commit, KeyWrite};

    use super::*;

    fn quiet(_done: u64, _all: u64) {}

    fn put(data_dir: &Path, revision: u64, replaces: Option<u64>, value: &str) {
        let folder = LockedDataFolder::open(data_dir).unwrap();
        let mut log = open(Some(&folder.store()), Durability::Strict).unwrap();
        let write = KeyWrite {
            key: "/registry/x".into(),
            value: Some(value.to_owned().into()),
            replaces: replaces.map(Revision),
        };
        log.append(&[Commit { revision: Revision(revision), writes: vec![write] }]).unwrap();
    }

    fn values(data_dir: &Path) -> Vec<String> {
        let folder = LockedDataFolder::open_existing(data_dir, "test").unwrap();
        settle(&folder).unwrap();
        let mut log = open(Some(&folder.store()), Durability::Strict).unwrap();
        let mut values = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        log.replay(&mut |entry| values.extend(entry.value.as_deref().map(text))).unwrap();
        values
    }

    #[test]
    fn r198_a_snapshot_brings_back_what_was_saved_and_keeps_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        put(&data, 1, None, "one");
        let mut told = Vec::new();
        assert!(save(&data, &file, &mut |done, all| told.push((done, all))).unwrap().bytes > 0);
        assert_eq!(told, [(1, 1)]);
        put(&data, 2, Some(1), "two");
        let before = restore(&data, &file, &mut quiet).unwrap().unwrap();
        assert_eq!(values(&data), ["one"]);
        // A second restore leaves what the first one kept.
        let again = restore(&data, &file, &mut quiet).unwrap().unwrap();
        assert_ne!(before, again);
        assert_eq!(values(&data), ["one"]);
        // What was kept is a whole store.
        let kept = dir.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::rename(&before, kept.join("store")).unwrap();
        assert_eq!(values(&kept), ["one", "two"]);
        // And into a folder that does not exist yet.
        let new = dir.path().join("new");
        assert_eq!(restore(&new, &file, &mut quiet).unwrap(), None);
        assert_eq!(values(&new), ["one"]);
    }

    #[test]
    fn r198_a_start_after_a_crash_between_the_steps_of_a_restore_has_the_objects() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        put(&data, 1, None, "one");
        save(&data, &file, &mut quiet).unwrap();
        // As a file system leaves it that cannot exchange: the old one is away, the new one not yet there.
        fs::rename(data.join("store"), data.join("store.before-restore.then")).unwrap();
        tenure_store::file::restore(&file, &data.join("store.restored")).unwrap();
        fs::write(data.join("store.restored/restored"), "").unwrap();
        assert_eq!(values(&data), ["one"]);
    }

    #[test]
    fn r198_what_a_running_server_sends_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        let mut sent = b"tenure-snapshot 1 7 1\n".to_vec();
        for part in [&5_u64.to_be_bytes()[..], &11_u32.to_be_bytes(), &3_u32.to_be_bytes()] {
            sent.extend(part);
        }
        let cut = sent.clone();
        sent.extend(b"/registry/xone");
        let saved = save_sent(sent.as_slice(), &file, &mut quiet).unwrap();
        assert_eq!(saved.revision, Some(Revision(7)));
        restore(&data, &file, &mut quiet).unwrap();
        assert_eq!(values(&data), ["one"]);
        let other = dir.path().join("other");
        let error = save_sent(cut.as_slice(), &other, &mut quiet).unwrap_err();
        let said = error.source().unwrap().to_string();
        assert_eq!(said, "the snapshot was not written: its objects broke off: it ends too early");
        assert!(!other.exists());
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|i| i.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "no half file is left: {names:?}");
    }

    #[test]
    fn a_bad_snapshot_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        put(&data, 1, None, "one");
        fs::write(&file, "no snapshot").unwrap();
        let error = restore(&data, &file, &mut quiet).unwrap_err();
        let expected = |error: &HostStartError| {
            matches!(error, HostStartError::Storage(StorageError::Snapshot(_)))
        };
        assert!(expected(&error), "{error:?}");
        assert_eq!(values(&data), ["one"]);
        assert!(!data.join("store.restoring").exists());
        let error = save(&data, &file, &mut quiet).unwrap_err();
        assert!(expected(&error), "{error:?}");
    }

    #[test]
    fn compaction_forgets_old_revisions() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 1, None, "one");
        put(dir.path(), 2, Some(1), "two");
        assert_eq!(compact(dir.path(), &mut quiet).unwrap().removed, 1);
        assert_eq!(values(dir.path()), ["two"]);
    }

    #[test]
    fn a_folder_without_objects_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let error = compact(dir.path(), &mut quiet).unwrap_err();
        assert!(matches!(error, HostStartError::Storage(StorageError::Absent { .. })), "{error:?}");
        let error = compact(&dir.path().join("none"), &mut quiet).unwrap_err();
        assert!(matches!(error, HostStartError::FolderAbsent { .. }), "{error:?}");
    }

    #[test]
    fn a_damaged_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 1, None, "one");
        fs::write(dir.path().join("store/log.redb"), "nonsense").unwrap();
        let folder = LockedDataFolder::open(dir.path()).unwrap();
        let error = open(Some(&folder.store()), Durability::Strict).err().unwrap();
        assert!(matches!(error, StorageError::Damaged { .. }), "{error:?}");
    }
}
