//! The log in one file, kept by redb; `docs/design/log-format.md` describes the bytes.
//!
//! redb gives atomic transactions and survives power cuts; this file gives them the meaning of a
//! log. Nothing else in the workspace knows that redb is there.

mod folder;
pub(crate) mod snapshot;
mod tables;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _, StorageBackend};
use tenure_core::Revision;

use crate::format::{self, Stored};
use crate::log::{
    AppendError, Commit, Compacted, DEFAULT_VALUE_BYTES_MAX, Durability, Entry, Log, REVISION_STEP,
    ReplayError, Replayed, SaveError, Stats, check_batch, step_after,
};
use folder::FolderLock;
pub use snapshot::{RestoreError, restore, restore_telling, save_entries};
use tables::{ENTRIES, Meta, Trouble};

/// The name of the log in its data folder.
const LOG_NAME: &str = "log.redb";
/// The name under which a log is built, so that a crash leaves no half-made one.
const NEW_LOG_NAME: &str = "log.redb.new";
/// How many entries one transaction of a compaction looks at.
const COMPACTION_ENTRIES: usize = 4096;

/// Is told of work that may take long: how much is done, and of how much.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// How a log in a file behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// When an append returns.
    pub durability: Durability,
    /// How much of the file is kept in memory; the log is read once, so little is needed.
    pub cache_bytes: usize,
    /// The largest value that is taken.
    pub value_bytes_max: usize,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            durability: Durability::Strict,
            cache_bytes: 32 * 1024 * 1024,
            value_bytes_max: DEFAULT_VALUE_BYTES_MAX,
        }
    }
}

/// Why a log could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made or written.
    #[error("the data folder `{path}` cannot be used: {cause}")]
    Folder {
        /// The folder.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// Another process has the folder open.
    #[error("the data folder is in use: {holder} holds `{path}`")]
    InUse {
        /// The lock file.
        path: String,
        /// Who holds it, as far as the lock file says.
        holder: String,
    },
    /// The log was written by a newer release.
    #[error(
        "the log has format {found}, and this release reads up to {known}; use the release that \
         wrote it or a newer one"
    )]
    Newer {
        /// The version in the file.
        found: u64,
        /// The newest version this build reads.
        known: u64,
    },
    /// The file is something else.
    #[error("`{path}` is not a log of Tenure: {cause}")]
    Foreign {
        /// The file, or `the storage`.
        path: String,
        /// What does not fit.
        cause: String,
    },
    /// The storage failed.
    #[error("the log `{path}` cannot be opened: {cause}")]
    Failed {
        /// The file, or `the storage`.
        path: String,
        /// What the storage said.
        cause: String,
    },
}

/// A log in one file.
#[derive(Debug)]
pub struct FileLog {
    // The order matters: the database closes before the folder is given up.
    database: Database,
    place: Option<(PathBuf, FolderLock)>,
    options: FileOptions,
    last: Revision,
    compacted: Revision,
    /// The newest revision that is known to survive a power cut.
    synced: Revision,
    entries: u64,
    stopped: Option<String>,
}

impl FileLog {
    /// Opens the log in a data folder, and makes both if they are missing.
    pub fn open(dir: &Path, options: FileOptions) -> Result<FileLog, OpenError> {
        let lock = folder::prepare(dir)?;
        let path = dir.join(LOG_NAME);
        let failed = |trouble: Trouble| trouble.into_open(&path.display().to_string());
        if !path.exists() {
            create(dir, options).map_err(failed)?;
        }
        let file = tenure_files::open_or_create(&path).map_err(|e| failed(e.into()))?;
        let database = builder(options).create_file(file).map_err(|e| failed(e.into()))?;
        let meta = tables::read_meta(&database).map_err(failed)?;
        let mut log = FileLog::start(database, meta, options).map_err(failed)?;
        log.place = Some((path, lock));
        Ok(log)
    }

    /// Opens a log on other storage; empty storage becomes an empty log.
    pub fn with_backend(
        backend: impl StorageBackend,
        options: FileOptions,
    ) -> Result<FileLog, OpenError> {
        let open = || {
            let database = builder(options).create_with_backend(backend)?;
            if tables::is_blank(&database)? {
                tables::initialise(&database)?;
            }
            let meta = tables::read_meta(&database)?;
            FileLog::start(database, meta, options)
        };
        open().map_err(|trouble: Trouble| trouble.into_open("the storage"))
    }

    fn start(database: Database, mut meta: Meta, options: FileOptions) -> Result<FileLog, Trouble> {
        let (newest, entries) = tables::newest_and_count(&database)?;
        let mut last = meta.last.max(newest);
        if meta.unsynced {
            // Revisions after the newest one here may have been handed out and lost.
            last = step_after(last);
        }
        let unsynced = options.durability == Durability::Relaxed;
        if meta.last != last && meta.unsynced || meta.unsynced != unsynced {
            (meta.last, meta.unsynced) = (last, unsynced);
            tables::write_meta(&database, meta)?;
        }
        Ok(FileLog {
            database,
            place: None,
            options,
            last,
            compacted: meta.compacted,
            synced: last,
            entries,
            stopped: None,
        })
    }

    /// As [`Log::save`], and tells how many entries are written, and of how many.
    pub fn save_telling(&mut self, path: &Path, progress: Progress<'_>) -> Result<(), SaveError> {
        let position = Replayed { last: self.last, compacted: self.compacted };
        let mut written = 0;
        snapshot::write(path, position, |sink| {
            let mut result = Ok(());
            self.scan(|revision, key, stored| {
                if result.is_ok() {
                    result = sink.push(revision, key, stored);
                    written += 1;
                    progress(written, self.entries);
                }
            })?;
            result
        })
    }

    /// As [`Log::compact`], and tells up to which revision it came, and of which.
    pub fn compact_telling(
        &mut self,
        upto: Revision,
        progress: Progress<'_>,
    ) -> Result<Compacted, AppendError> {
        self.guard()?;
        let upto = upto.min(self.last);
        let mut total = Compacted::default();
        while self.compacted < upto {
            let (reached, removed) =
                self.compact_some(upto).map_err(|trouble| self.stop(&trouble))?;
            self.compacted = reached;
            self.synced = self.last;
            self.entries = self.entries.saturating_sub(removed);
            total.removed = total.removed.saturating_add(removed);
            progress(reached.0, upto.0);
        }
        Ok(total)
    }

    /// Gives free space inside the file back to the file system.
    pub fn shrink(&mut self) -> Result<(), AppendError> {
        self.guard()?;
        self.give_space_back().map_err(|trouble| self.stop(&trouble))
    }

    fn give_space_back(&mut self) -> Result<(), Trouble> {
        while self.database.compact()? {}
        // Leaves the state from which the next open is quick.
        tables::write_meta(&self.database, self.meta(self.last))
    }

    fn meta(&self, last: Revision) -> Meta {
        Meta {
            last,
            compacted: self.compacted,
            unsynced: self.options.durability == Durability::Relaxed,
        }
    }

    fn guard(&self) -> Result<(), AppendError> {
        match &self.stopped {
            Some(cause) => Err(AppendError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// After a failed write the file's state is unknown, so nothing more is written.
    fn stop(&mut self, trouble: &Trouble) -> AppendError {
        let cause = trouble.to_string();
        self.stopped = Some(cause.clone());
        AppendError::Failed { cause, disk_full: trouble.is_disk_full() }
    }

    fn write(&self, commits: &[Commit], last: Revision, durable: bool) -> Result<u64, Trouble> {
        let transaction = tables::begin(&self.database, durable)?;
        let mut written = 0;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            let (mut key, mut entry) = (Vec::new(), Vec::new());
            for commit in commits {
                for write in &commit.writes {
                    key.clear();
                    entry.clear();
                    format::encode_key(commit.revision, &write.key, &mut key);
                    let value = write.value.as_deref();
                    format::encode_entry(Stored { replaces: write.replaces, value }, &mut entry);
                    table.insert(key.as_slice(), entry.as_slice())?;
                    written += 1;
                }
            }
        }
        if commits.last().is_some_and(|commit| commit.writes.is_empty()) {
            // No entry will tell that this revision was used.
            tables::set_meta(&transaction, self.meta(last))?;
        }
        transaction.commit()?;
        Ok(written)
    }

    /// Looks at a few entries above the floor and removes what they supersede.
    fn compact_some(&self, upto: Revision) -> Result<(Revision, u64), Trouble> {
        let transaction = tables::begin(&self.database, true)?;
        let (mut removed, mut reached) = (0, upto);
        {
            let mut table = transaction.open_table(ENTRIES)?;
            let mut gone: Vec<Vec<u8>> = Vec::new();
            let from = self.compacted.next().0.to_be_bytes();
            let end = upto.next().0.to_be_bytes();
            let mut previous = self.compacted;
            for (seen, item) in table.range::<&[u8]>(from.as_slice()..end.as_slice())?.enumerate() {
                let (key, entry) = item?;
                let (revision, name) = format::decode_key(key.value())?;
                if seen >= COMPACTION_ENTRIES && revision > previous {
                    // Only whole transactions count as looked at.
                    reached = previous;
                    break;
                }
                previous = revision;
                let stored = format::decode_entry(entry.value())?;
                if let Some(replaced) = stored.replaces {
                    let mut old = Vec::new();
                    format::encode_key(replaced, name, &mut old);
                    gone.push(old);
                }
                if stored.value.is_none() {
                    gone.push(key.value().to_vec());
                }
            }
            for key in gone {
                removed += u64::from(table.remove(key.as_slice())?.is_some());
            }
        }
        let meta = Meta { compacted: reached, ..self.meta(self.last) };
        tables::set_meta(&transaction, meta)?;
        transaction.commit()?;
        Ok((reached, removed))
    }

    fn scan(&self, mut visit: impl FnMut(Revision, &str, Stored<'_>)) -> Result<(), ReplayError> {
        let mut work = || -> Result<(), Trouble> {
            let transaction = self.database.begin_read()?;
            let table = transaction.open_table(ENTRIES)?;
            for item in table.iter()? {
                let (key, entry) = item?;
                let (revision, name) = format::decode_key(key.value())?;
                visit(revision, name, format::decode_entry(entry.value())?);
            }
            Ok(())
        };
        work().map_err(Trouble::into_replay)
    }
}

impl Log for FileLog {
    fn append(&mut self, commits: &[Commit]) -> Result<(), AppendError> {
        self.guard()?;
        let last = check_batch(self.last, commits, self.options.value_bytes_max)?;
        if commits.is_empty() {
            return Ok(());
        }
        // The jump after a crash covers only so many lost revisions.
        let durable = self.options.durability == Durability::Strict
            || last.0.saturating_sub(self.synced.0) >= REVISION_STEP / 2;
        match self.write(commits, last, durable) {
            Ok(written) => {
                self.last = last;
                self.entries = self.entries.saturating_add(written);
                if durable {
                    self.synced = last;
                }
                Ok(())
            }
            Err(trouble) => Err(self.stop(&trouble)),
        }
    }

    fn replay(&mut self, visit: &mut dyn FnMut(Entry)) -> Result<Replayed, ReplayError> {
        self.scan(|revision, key, stored| {
            visit(Entry {
                revision,
                key: Arc::from(key),
                value: stored.value.map(Bytes::copy_from_slice),
            });
        })?;
        Ok(Replayed { last: self.last, compacted: self.compacted })
    }

    fn compact(&mut self, upto: Revision) -> Result<Compacted, AppendError> {
        self.compact_telling(upto, &mut |_, _| {})
    }

    fn sync(&mut self) -> Result<(), AppendError> {
        self.guard()?;
        if self.synced < self.last {
            tables::write_meta(&self.database, self.meta(self.last))
                .map_err(|trouble| self.stop(&trouble))?;
            self.synced = self.last;
        }
        Ok(())
    }

    fn stats(&self) -> Stats {
        let size = self.place.as_ref().and_then(|(path, _)| fs::metadata(path).ok());
        // The file has holes, so its length says little.
        let bytes_on_disk = size.map_or(0, |m| m.blocks().saturating_mul(512));
        Stats { bytes_on_disk, entries: self.entries }
    }

    fn save(&mut self, path: &Path) -> Result<(), SaveError> {
        self.save_telling(path, &mut |_, _| {})
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        if self.stopped.is_none() && self.options.durability == Durability::Relaxed {
            // Should this fail, the next open only jumps ahead.
            let closed = Meta { unsynced: false, ..self.meta(self.last) };
            let _ = tables::write_meta(&self.database, closed);
        }
    }
}

fn builder(options: FileOptions) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes);
    builder
}

/// Builds an empty log beside its place and moves it there when it is whole.
fn create(dir: &Path, options: FileOptions) -> Result<(), Trouble> {
    let new = dir.join(NEW_LOG_NAME);
    folder::remove_if_there(&new)?;
    let database = builder(options).create_file(tenure_files::create_new(&new)?)?;
    tables::initialise(&database)?;
    drop(database);
    tenure_files::publish(&new, &dir.join(LOG_NAME))?;
    Ok(())
}
