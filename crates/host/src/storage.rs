//! The stored objects: opened for a server, or saved, restored and compacted while none runs.
//!
//! Which backend keeps them is chosen here and nowhere else.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_core::Revision;
use tenure_store::{FileLog, FileOptions, Log, MemoryLog, OpenError, RestoreError};

use crate::config::Durability;
use crate::error::StartError;
use crate::folder::Folder;

/// The log is read once and then only appended to, so a small cache is enough.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
/// How much time a power cut may cost under relaxed durability.
pub const RELAXED_SYNC: Duration = Duration::from_millis(100);
/// Where a restore leaves what was there before.
const BEFORE_RESTORE: &str = "store.before-restore";

/// Why stored objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A newer version of this program wrote the files.
    #[error("the objects in `{}` were written by a newer version of tenure", path.display())]
    Newer {
        /// Where the objects are.
        path: PathBuf,
        /// Which format was found.
        source: OpenError,
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
        source: OpenError,
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

    fn opening(path: &Path, error: OpenError) -> StorageError {
        let path = path.to_owned();
        match error {
            OpenError::Newer { .. } => StorageError::Newer { path, source: error },
            OpenError::InUse { .. } => StorageError::InUse { path, source: error },
            OpenError::Folder { .. } => StorageError::Write { path, source: Box::new(error) },
            OpenError::Foreign { .. } | OpenError::Failed { .. } => {
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
        Durability::Strict => tenure_store::Durability::Strict,
        Durability::Relaxed => tenure_store::Durability::Relaxed,
    };
    let options = FileOptions { durability, cache_bytes: CACHE_BYTES, ..FileOptions::default() };
    FileLog::open(path, options).map_err(|error| StorageError::opening(path, error))
}

/// Opens the log of a stopped server; unlike a start it makes none.
fn open_stopped(folder: &Folder) -> Result<FileLog, StorageError> {
    let path = folder.store();
    if !path.is_dir() {
        return Err(StorageError::Absent { path });
    }
    open_file(&path, Durability::Strict)
}

/// Copies all objects of a stopped server into a new file and gives its size in bytes.
pub fn save(data_dir: &Path, file: &Path) -> Result<u64, StartError> {
    let folder = Folder::open_existing(data_dir)?;
    let mut log = open_stopped(&folder)?;
    log.save(file).map_err(|error| StorageError::Snapshot(Box::new(error)))?;
    let size = fs::metadata(file).map_err(|error| StorageError::Snapshot(Box::new(error)))?;
    Ok(size.len())
}

/// Replaces all objects of a stopped server with those in a file.
///
/// What was there before is kept beside, until the next restore; the answer says where.
pub fn restore(data_dir: &Path, file: &Path) -> Result<Option<PathBuf>, StartError> {
    let folder = Folder::open(data_dir)?;
    let (place, before) = (folder.store(), folder.path().join(BEFORE_RESTORE));
    let new = folder.path().join("store.restoring");
    let failed = |error: io::Error| StorageError::writing(&place, error);
    // A restore that was cut short may have left its half.
    remove_if_there(&new).map_err(failed)?;
    tenure_store::file::restore(file, &new).map_err(|error| match error {
        RestoreError::Open(error @ OpenError::Newer { .. }) => {
            StorageError::Newer { path: file.to_owned(), source: error }
        }
        error => {
            let _ = remove_if_there(&new);
            StorageError::Snapshot(Box::new(error))
        }
    })?;
    let kept = place.is_dir();
    if kept {
        remove_if_there(&before).map_err(failed)?;
        fs::rename(&place, &before).map_err(failed)?;
    }
    fs::rename(&new, &place).map_err(failed)?;
    Ok(kept.then_some(before))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What a compaction achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// How many old revisions were forgotten.
    pub removed: u64,
    /// The size of the file before.
    pub bytes_before: u64,
    /// The size of the file now.
    pub bytes_after: u64,
}

/// Forgets all old revisions of a stopped server and gives back their space.
pub fn compact(data_dir: &Path) -> Result<Compacted, StartError> {
    let folder = Folder::open_existing(data_dir)?;
    let mut log = open_stopped(&folder)?;
    let path = folder.store();
    let bytes_before = log.stats().bytes_on_disk;
    let newest = Revision(u64::MAX);
    let compacted = log.compact(newest).map_err(|error| StorageError::writing(&path, error))?;
    log.shrink().map_err(|error| StorageError::writing(&path, error))?;
    let bytes_after = log.stats().bytes_on_disk;
    Ok(Compacted { removed: compacted.removed, bytes_before, bytes_after })
}

#[cfg(test)]
mod tests {
    use tenure_store::{Commit, Write};

    use super::*;

    fn put(data_dir: &Path, revision: u64, replaces: Option<u64>, value: &str) {
        let folder = Folder::open(data_dir).unwrap();
        let mut log = open(Some(&folder.store()), Durability::Strict).unwrap();
        let write = Write {
            key: "/registry/x".into(),
            value: Some(value.to_owned().into()),
            replaces: replaces.map(Revision),
        };
        log.append(&[Commit { revision: Revision(revision), writes: vec![write] }]).unwrap();
    }

    fn values(data_dir: &Path) -> Vec<String> {
        let folder = Folder::open_existing(data_dir).unwrap();
        let mut log = open(Some(&folder.store()), Durability::Strict).unwrap();
        let mut values = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        log.replay(&mut |entry| values.extend(entry.value.as_deref().map(text))).unwrap();
        values
    }

    #[test]
    fn a_snapshot_brings_back_what_was_saved_and_keeps_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        put(&data, 1, None, "one");
        assert!(save(&data, &file).unwrap() > 0);
        put(&data, 2, Some(1), "two");
        let before = restore(&data, &file).unwrap().unwrap();
        assert_eq!(values(&data), ["one"]);
        assert!(before.join("log.redb").exists());
        // A second restore replaces the first one's leftovers.
        restore(&data, &file).unwrap();
        assert_eq!(values(&data), ["one"]);
        // And into a folder that does not exist yet.
        let new = dir.path().join("new");
        assert_eq!(restore(&new, &file).unwrap(), None);
        assert_eq!(values(&new), ["one"]);
    }

    #[test]
    fn a_bad_snapshot_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
        put(&data, 1, None, "one");
        fs::write(&file, "no snapshot").unwrap();
        let error = restore(&data, &file).unwrap_err();
        let expected =
            |error: &StartError| matches!(error, StartError::Storage(StorageError::Snapshot(_)));
        assert!(expected(&error), "{error:?}");
        assert_eq!(values(&data), ["one"]);
        assert!(!data.join("store.restoring").exists());
        let error = save(&data, &file).unwrap_err();
        assert!(expected(&error), "{error:?}");
    }

    #[test]
    fn compaction_forgets_old_revisions() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 1, None, "one");
        put(dir.path(), 2, Some(1), "two");
        assert_eq!(compact(dir.path()).unwrap().removed, 1);
        assert_eq!(values(dir.path()), ["two"]);
    }

    #[test]
    fn a_folder_without_objects_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let error = compact(dir.path()).unwrap_err();
        assert!(matches!(error, StartError::Storage(StorageError::Absent { .. })), "{error:?}");
        let error = compact(&dir.path().join("none")).unwrap_err();
        assert!(matches!(error, StartError::FolderAbsent { .. }), "{error:?}");
    }

    #[test]
    fn a_damaged_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), 1, None, "one");
        fs::write(dir.path().join("store/log.redb"), "nonsense").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let error = open(Some(&folder.store()), Durability::Strict).err().unwrap();
        assert!(matches!(error, StorageError::Damaged { .. }), "{error:?}");
    }
}
