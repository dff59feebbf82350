//! Snapshots: a consistent copy in one file, and a data folder made from one.
//!
//! A snapshot has the format of the log itself, so every tool that reads one reads the other.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use redb::Database;
use tenure_core::Revision;

use super::folder::{self, in_words};
use super::tables::{self, ENTRIES, FileLogError, LogMetadata};
use super::{FileOptions, LOG_NAME, LogOpenError, NEW_LOG_NAME, ProgressCallback, builder};
use crate::format::{self, StoredEntry};
use crate::log::{LogEntry, Replayed, SaveError, step_after};

/// How many bytes are collected before they are written.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Why a snapshot was not restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The folder holds something that would be lost.
    #[error("the data folder `{path}` is not empty; a snapshot is restored into an empty one")]
    NotEmpty {
        /// The folder.
        path: String,
    },
    /// The snapshot cannot be read.
    #[error("the snapshot `{path}` cannot be read: {cause}")]
    Snapshot {
        /// The file as given.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The folder, or the copy in it, cannot be used.
    #[error(transparent)]
    Open(#[from] LogOpenError),
}

/// Takes entries in order and writes them in large transactions.
pub(crate) struct Sink {
    database: Database,
    path: PathBuf,
    waiting: Vec<(Vec<u8>, Vec<u8>)>,
    waiting_bytes: usize,
}

impl Sink {
    pub(crate) fn push(
        &mut self,
        revision: Revision,
        key: &str,
        stored: StoredEntry<'_>,
    ) -> Result<(), SaveError> {
        let (mut full_key, mut entry) = (Vec::new(), Vec::new());
        format::encode_key(revision, key, &mut full_key);
        format::encode_entry(stored, &mut entry);
        self.waiting_bytes = self.waiting_bytes.saturating_add(full_key.len() + entry.len());
        self.waiting.push((full_key, entry));
        if self.waiting_bytes >= CHUNK_BYTES {
            self.flush().map_err(|trouble| failed(&self.path, &trouble.to_string()))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FileLogError> {
        let transaction = tables::begin(&self.database)?;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            for (key, entry) in self.waiting.drain(..) {
                table.insert(key.as_slice(), entry.as_slice())?;
            }
        }
        transaction.commit()?;
        self.waiting_bytes = 0;
        Ok(())
    }
}

fn failed(path: &Path, cause: &str) -> SaveError {
    SaveError::Failed { path: path.display().to_string(), cause: cause.to_owned() }
}

/// Writes a snapshot beside `path` and moves it there when it is whole.
pub(crate) fn write(
    path: &Path,
    position: Replayed,
    fill: impl FnOnce(&mut Sink) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    if path.symlink_metadata().is_ok() {
        return Err(SaveError::Exists { path: path.display().to_string() });
    }
    let (partial, file) =
        tenure_files::create_sibling(path).map_err(|error| failed(path, &in_words(&error)))?;
    let result = write_partial(path, &partial, file, position, fill);
    if result.is_err() {
        // The partial file is of no use to anybody; its removal is a courtesy.
        let _ = fs::remove_file(&partial);
    }
    result
}

fn write_partial(
    path: &Path,
    partial: &Path,
    file: fs::File,
    position: Replayed,
    fill: impl FnOnce(&mut Sink) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    let trouble = |trouble: FileLogError| failed(path, &trouble.to_string());
    let io = |error: io::Error| failed(path, &in_words(&error));
    let database =
        builder(FileOptions::default()).create_file(file).map_err(|e| trouble(e.into()))?;
    tables::initialise(&database, 0).map_err(trouble)?;
    let mut sink = Sink { database, path: path.to_owned(), waiting: Vec::new(), waiting_bytes: 0 };
    fill(&mut sink)?;
    sink.flush().map_err(trouble)?;
    let Replayed { last, compacted } = position;
    tables::write_meta(&sink.database, LogMetadata::at(last, compacted)).map_err(trouble)?;
    drop(sink);
    tenure_files::publish(partial, path).map_err(io)
}

/// Writes a snapshot of entries that somebody hands over; each key occurs once, and there is no history.
pub fn save_entries(
    path: &Path,
    revision: Revision,
    entries: impl Iterator<Item = io::Result<LogEntry>>,
) -> Result<(), SaveError> {
    let position = Replayed { last: revision, compacted: revision };
    write(path, position, |sink| {
        for entry in entries {
            let entry = entry.map_err(|error| SaveError::Cut { cause: in_words(&error) })?;
            let stored = StoredEntry { replaces: None, value: entry.value.as_deref() };
            sink.push(entry.revision, &entry.key, stored)?;
        }
        Ok(())
    })
}

/// Makes a data folder from a snapshot; revisions go on where nobody has been.
pub fn restore(snapshot: &Path, dir: &Path) -> Result<(), RestoreError> {
    restore_telling(snapshot, dir, &mut |_, _| {})
}

/// As [`restore`], and tells how many bytes are copied, and of how many.
pub fn restore_telling(
    snapshot: &Path,
    dir: &Path,
    progress: ProgressCallback<'_>,
) -> Result<(), RestoreError> {
    let unreadable =
        |cause: String| RestoreError::Snapshot { path: snapshot.display().to_string(), cause };
    if !fs::metadata(snapshot).map_err(|e| unreadable(in_words(&e)))?.is_file() {
        return Err(unreadable("it is not a file".to_owned()));
    }
    if fs::read_dir(dir).is_ok_and(|mut items| items.next().is_some()) {
        return Err(RestoreError::NotEmpty { path: dir.display().to_string() });
    }
    let _lock = folder::prepare(dir)?;
    let (new, place) = (dir.join(NEW_LOG_NAME), dir.join(LOG_NAME));
    let copied =
        copy(snapshot, &new, progress).and_then(|()| Ok(tenure_files::publish(&new, &place)?));
    copied.map_err(|trouble| {
        // The folder was empty before, so a second attempt should find it empty again.
        let _ = fs::remove_file(&new);
        let _ = fs::remove_file(dir.join(folder::LOCK_NAME));
        match trouble.into_open(&snapshot.display().to_string()) {
            LogOpenError::Foreign { cause, .. } => unreadable(cause),
            error => RestoreError::Open(error),
        }
    })
}

fn copy(snapshot: &Path, new: &Path, progress: ProgressCallback<'_>) -> Result<(), FileLogError> {
    let mut from = fs::File::open(snapshot)?;
    let (mut to, all) = (tenure_files::create_new(new)?, from.metadata()?.len());
    let mut copied = 0_u64;
    loop {
        let part = io::copy(&mut (&mut from).take(CHUNK_BYTES as u64), &mut to)?;
        if part == 0 {
            break;
        }
        copied = copied.saturating_add(part);
        progress(copied, all);
    }
    let database =
        builder(FileOptions::default()).create_file(tenure_files::open_or_create(new)?)?;
    let meta = tables::read_meta(&database)?;
    let (newest, _) = tables::newest_and_count(&database)?;
    // The server that wrote the snapshot may have gone on afterwards.
    let last = step_after(meta.last.max(newest));
    tables::write_meta(&database, LogMetadata::at(last, meta.compacted))
}
