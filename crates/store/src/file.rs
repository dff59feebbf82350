//! The log in a folder; `docs/design/log-format.md` describes the bytes.
//!
//! ```text
//!   append ──► journal ──► durable, and acknowledged
//!                 └ full, or the end ──► database
//! ```
//!
//! The database is kept by redb, which gives atomic transactions and survives power cuts; this file gives them
//! the meaning of a log. Nothing else in the workspace knows that redb is there.

mod folder;
mod journal;
pub(crate) mod snapshot;
mod tables;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _, StorageBackend};
use tenure_core::Revision;

use crate::format::{self, StoredEntry};
use crate::log::{
    AppendDurability, AppendError, Commit, CompactionOutcome, DEFAULT_VALUE_BYTES_MAX, KeyWrite,
    Log, LogEntry, LogStats, REVISION_STEP, ReplayError, Replayed, SaveError, check_batch,
    step_after,
};
use folder::FolderLock;
use journal::Journal;
pub use snapshot::{RestoreError, restore, restore_telling, save_entries};
use tables::{ENTRIES, FileLogError, LogMetadata};

/// The name of the log in its data folder.
const LOG_NAME: &str = "log.redb";
/// The name of the journal in its data folder.
const JOURNAL_NAME: &str = "log.journal";
/// The name under which a log is built, so that a crash leaves no half-made one.
const NEW_LOG_NAME: &str = "log.redb.new";
/// The round of a journal that nothing was written to.
const FIRST_ROUND: u64 = 1;
/// How many entries one transaction of a compaction looks at.
const COMPACTION_ENTRIES: usize = 4096;

/// Is told of work that may take long: how much is done, and of how much.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(u64, u64);

/// How a log in a folder behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// When an append returns.
    pub durability: AppendDurability,
    /// How much of the file is kept in memory; the log is read once, so little is needed.
    pub cache_bytes: usize,
    /// The largest value that is taken.
    pub value_bytes_max: usize,
    /// How large the journal becomes before it goes into the database: what an open after a crash writes again.
    pub journal_bytes: usize,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            durability: AppendDurability::Strict,
            cache_bytes: 32 * 1024 * 1024,
            value_bytes_max: DEFAULT_VALUE_BYTES_MAX,
            journal_bytes: 4 * 1024 * 1024,
        }
    }
}

/// Why a log could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogOpenError {
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

/// A log in a folder.
#[derive(Debug)]
pub struct FileLog {
    // The order matters: the database closes before the folder is given up.
    database: Database,
    journal: Journal,
    /// What is in the journal and not in the database yet.
    pending: Vec<Commit>,
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
    pub fn open(dir: &Path, options: FileOptions) -> Result<FileLog, LogOpenError> {
        let lock = folder::prepare(dir)?;
        let path = dir.join(LOG_NAME);
        let failed = |trouble: FileLogError| trouble.into_open(&path.display().to_string());
        if !path.exists() {
            create(dir, options).map_err(failed)?;
        }
        let file = tenure_files::open_or_create(&path).map_err(|e| failed(e.into()))?;
        let database = builder(options).create_file(file).map_err(|e| failed(e.into()))?;
        let journal = open_journal(dir).map_err(failed)?;
        let mut log = FileLog::start(database, journal, options).map_err(failed)?;
        log.place = Some((path, lock));
        Ok(log)
    }

    /// Opens a log on other storage; empty storage becomes an empty log.
    pub fn with_storage(
        database: impl StorageBackend,
        journal: impl StorageBackend,
        options: FileOptions,
    ) -> Result<FileLog, LogOpenError> {
        let open = || {
            let database = builder(options).create_with_backend(database)?;
            if tables::is_blank(&database)? {
                tables::initialise(&database, FIRST_ROUND)?;
            }
            FileLog::start(database, Box::new(journal), options)
        };
        open().map_err(|trouble: FileLogError| trouble.into_open("the storage"))
    }

    fn start(
        database: Database,
        journal: Box<dyn StorageBackend>,
        options: FileOptions,
    ) -> Result<FileLog, FileLogError> {
        let meta = tables::read_meta(&database)?;
        let (newest, entries) = tables::newest_and_count(&database)?;
        let mut journal = Journal::new(journal, options.journal_bytes);
        let found = journal.read(meta.journal, !meta.unsynced)?;
        let mut last = meta.last.max(newest);
        let pending: Vec<Commit> =
            found.commits.into_iter().filter(|commit| commit.revision > last).collect();
        last = pending.last().map_or(last, |commit| commit.revision);
        if meta.unsynced {
            // Revisions after the newest one here may have been handed out and lost.
            last = step_after(last);
        }
        let unsynced = options.durability == AppendDurability::Relaxed;
        let stale = found.used || meta.journal == 0;
        let mut log = FileLog {
            database,
            journal,
            pending,
            place: None,
            options,
            last,
            compacted: meta.compacted,
            synced: last,
            entries,
            stopped: None,
        };
        log.journal.begin(meta.journal);
        if stale || meta.last != last && meta.unsynced || meta.unsynced != unsynced {
            log.entries += log.pending.iter().map(|commit| commit.writes.len() as u64).sum::<u64>();
            log.move_on(&[], last)?;
        }
        Ok(log)
    }

    /// As [`Log::save`], and tells how many entries are written, and of how many.
    pub fn save_telling(
        &mut self,
        path: &Path,
        progress: ProgressCallback<'_>,
    ) -> Result<(), SaveError> {
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
        progress: ProgressCallback<'_>,
    ) -> Result<CompactionOutcome, AppendError> {
        self.guard()?;
        let upto = upto.min(self.last);
        let mut total = CompactionOutcome::default();
        if self.compacted < upto {
            self.flush().map_err(|trouble| self.stop(&trouble))?;
        }
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

    fn give_space_back(&mut self) -> Result<(), FileLogError> {
        self.flush()?;
        while self.database.compact()? {}
        // Leaves the state from which the next open is quick.
        tables::write_meta(&self.database, self.meta(self.last))
    }

    fn meta(&self, last: Revision) -> LogMetadata {
        LogMetadata {
            last,
            compacted: self.compacted,
            unsynced: self.options.durability == AppendDurability::Relaxed,
            journal: self.journal.round(),
        }
    }

    fn guard(&self) -> Result<(), AppendError> {
        match &self.stopped {
            Some(cause) => Err(AppendError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// After a failed write the file's state is unknown, so nothing more is written.
    fn stop(&mut self, trouble: &FileLogError) -> AppendError {
        let cause = trouble.to_string();
        self.stopped = Some(cause.clone());
        AppendError::Failed { cause, disk_full: trouble.is_disk_full() }
    }

    /// Writes commits to the journal, or with all that is there to the database when it has no room.
    fn write(
        &mut self,
        commits: &[Commit],
        last: Revision,
        durable: bool,
    ) -> Result<(), FileLogError> {
        if !self.journal.prepare(commits) {
            if !self.journal.fits() {
                return self.move_on(commits, last);
            }
            self.flush()?;
        }
        self.journal.write()?;
        if durable {
            self.journal.sync()?;
            self.synced = last;
        }
        self.pending.extend_from_slice(commits);
        Ok(())
    }

    /// Brings what only the journal has into the database.
    fn flush(&mut self) -> Result<(), FileLogError> {
        if self.pending.is_empty() { Ok(()) } else { self.move_on(&[], self.last) }
    }

    /// Brings what only the journal has, and what follows it, into the database in one durable transaction;
    /// the journal begins a new round.
    fn move_on(&mut self, commits: &[Commit], last: Revision) -> Result<(), FileLogError> {
        let round = self.journal.round() + 1;
        self.store(commits, LogMetadata { journal: round, ..self.meta(last) })?;
        self.pending.clear();
        self.journal.begin(round);
        self.synced = last;
        Ok(())
    }

    /// Writes what only the journal has, what follows it, and the facts about the log.
    fn store(&self, commits: &[Commit], meta: LogMetadata) -> Result<(), FileLogError> {
        let transaction = tables::begin(&self.database)?;
        {
            let mut table = transaction.open_table(ENTRIES)?;
            let (mut key, mut entry) = (Vec::new(), Vec::new());
            for commit in self.pending.iter().chain(commits) {
                for write in &commit.writes {
                    key.clear();
                    entry.clear();
                    format::encode_key(commit.revision, &write.key, &mut key);
                    format::encode_entry(stored(write), &mut entry);
                    table.insert(key.as_slice(), entry.as_slice())?;
                }
            }
        }
        tables::set_meta(&transaction, meta)?;
        transaction.commit()?;
        Ok(())
    }

    /// Looks at a few entries above the floor and removes what they supersede.
    fn compact_some(&self, upto: Revision) -> Result<(Revision, u64), FileLogError> {
        let transaction = tables::begin(&self.database)?;
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
        let meta = LogMetadata { compacted: reached, ..self.meta(self.last) };
        tables::set_meta(&transaction, meta)?;
        transaction.commit()?;
        Ok((reached, removed))
    }

    fn scan(
        &self,
        mut visit: impl FnMut(Revision, &str, StoredEntry<'_>),
    ) -> Result<(), ReplayError> {
        let mut work = || -> Result<(), FileLogError> {
            let transaction = self.database.begin_read()?;
            let table = transaction.open_table(ENTRIES)?;
            for item in table.iter()? {
                let (key, entry) = item?;
                let (revision, name) = format::decode_key(key.value())?;
                visit(revision, name, format::decode_entry(entry.value())?);
            }
            Ok(())
        };
        work().map_err(FileLogError::into_replay)?;
        for commit in &self.pending {
            let mut writes: Vec<&KeyWrite> = commit.writes.iter().collect();
            writes.sort_unstable_by_key(|write| &write.key);
            for write in writes {
                visit(commit.revision, &write.key, stored(write));
            }
        }
        Ok(())
    }

    /// Leaves everything in the database, and says that nothing is missing there.
    fn close(&mut self) -> Result<(), FileLogError> {
        let relaxed = self.options.durability == AppendDurability::Relaxed;
        if relaxed || !self.pending.is_empty() {
            let round = self.journal.round() + 1;
            let meta = LogMetadata { journal: round, unsynced: false, ..self.meta(self.last) };
            self.store(&[], meta)?;
            self.pending.clear();
        }
        Ok(self.journal.clear()?)
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
        let durable = self.options.durability == AppendDurability::Strict
            || last.0.saturating_sub(self.synced.0) >= REVISION_STEP / 2;
        self.write(commits, last, durable).map_err(|trouble| self.stop(&trouble))?;
        self.last = last;
        self.entries += commits.iter().map(|commit| commit.writes.len() as u64).sum::<u64>();
        Ok(())
    }

    fn replay(&mut self, visit: &mut dyn FnMut(LogEntry)) -> Result<Replayed, ReplayError> {
        self.scan(|revision, key, stored| {
            visit(LogEntry {
                revision,
                key: Arc::from(key),
                value: stored.value.map(Bytes::copy_from_slice),
            });
        })?;
        Ok(Replayed { last: self.last, compacted: self.compacted })
    }

    fn compact(&mut self, upto: Revision) -> Result<CompactionOutcome, AppendError> {
        self.compact_telling(upto, &mut |_, _| {})
    }

    fn sync(&mut self) -> Result<(), AppendError> {
        self.guard()?;
        if self.synced < self.last {
            self.journal.sync().map_err(|error| self.stop(&error.into()))?;
            self.synced = self.last;
        }
        Ok(())
    }

    fn stats(&self) -> LogStats {
        let size = self.place.as_ref().and_then(|(path, _)| fs::metadata(path).ok());
        // The file has holes, so its length says little.
        let database = size.map_or(0, |m| m.blocks().saturating_mul(512));
        let journal_bytes = self.journal.size();
        let bytes_on_disk = database.saturating_add(journal_bytes);
        LogStats { bytes_on_disk, journal_bytes, entries: self.entries }
    }

    fn save(&mut self, path: &Path) -> Result<(), SaveError> {
        self.save_telling(path, &mut |_, _| {})
    }
}

impl Drop for FileLog {
    fn drop(&mut self) {
        if self.stopped.is_none() {
            // Should this fail, the next open reads the journal, or jumps ahead.
            let _ = self.close();
        }
    }
}

/// One write as the database stores it.
fn stored(write: &KeyWrite) -> StoredEntry<'_> {
    StoredEntry { replaces: write.replaces, value: write.value.as_deref() }
}

fn builder(options: FileOptions) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(options.cache_bytes);
    builder
}

/// Opens the journal of a folder, and makes it if it is missing, so that a power cut leaves it there.
fn open_journal(dir: &Path) -> Result<Box<dyn StorageBackend>, FileLogError> {
    let path = dir.join(JOURNAL_NAME);
    let is_new = !path.exists();
    let file = tenure_files::open_or_create(&path)?;
    if is_new {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(Box::new(FileBackend::new(file)?))
}

/// Builds an empty log beside its place and moves it there when it is whole.
fn create(dir: &Path, options: FileOptions) -> Result<(), FileLogError> {
    let new = dir.join(NEW_LOG_NAME);
    folder::remove_if_there(&new)?;
    // The journal of a log that is not there any more tells nothing about this one.
    folder::remove_if_there(&dir.join(JOURNAL_NAME))?;
    let database = builder(options).create_file(tenure_files::create_new(&new)?)?;
    tables::initialise(&database, FIRST_ROUND)?;
    drop(database);
    tenure_files::publish(&new, &dir.join(LOG_NAME))?;
    Ok(())
}
