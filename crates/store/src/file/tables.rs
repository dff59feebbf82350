//! The two tables of the file, and what can go wrong in them.

use std::io;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    TableDefinition, TableHandle as _, WriteTransaction,
};
use tenure_core::Revision;

use super::folder::in_words;
use super::journal::JournalError;
use super::{LogOpenError, ReplayError};
use crate::format::{self, FORMAT_VERSION, FORMAT_VERSION_ALONE, FormatError};

/// Revision and key to tag, replaced revision and value.
pub(super) const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");
/// A few numbers about the whole log.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

const FORMAT: &str = "format";
const LAST: &str = "last";
const COMPACTED: &str = "compacted";
const UNSYNCED: &str = "unsynced";
const JOURNAL: &str = "journal";

/// What the meta table says besides the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogMetadata {
    /// No revision up to here is handed out again; entries may be newer.
    pub(super) last: Revision,
    /// The history before this revision is incomplete.
    pub(super) compacted: Revision,
    /// Whether revisions may have been acknowledged that are not in the file.
    pub(super) unsynced: bool,
    /// The round of the journal that goes on from here; 0 where none does.
    pub(super) journal: u64,
}

impl LogMetadata {
    /// The facts about a log without a journal that has a place, and no history before it.
    pub(super) fn at(last: Revision, compacted: Revision) -> LogMetadata {
        LogMetadata { last, compacted, unsynced: false, journal: 0 }
    }
}

/// What can go wrong between a log and its file.
#[derive(Debug)]
pub(super) enum FileLogError {
    Storage(Box<redb::Error>),
    Format(FormatError),
    Newer(u64),
    Foreign,
}

impl<E: Into<redb::Error>> From<E> for FileLogError {
    fn from(error: E) -> Self {
        FileLogError::Storage(Box::new(error.into()))
    }
}

impl From<JournalError> for FileLogError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Io(error) => error.into(),
            JournalError::Format(error) => error.into(),
        }
    }
}

impl From<FormatError> for FileLogError {
    fn from(error: FormatError) -> Self {
        FileLogError::Format(error)
    }
}

impl std::fmt::Display for FileLogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileLogError::Storage(error) => match &**error {
                redb::Error::Io(error) => f.write_str(&in_words(error)),
                redb::Error::PreviousIo => f.write_str("an earlier access to the file failed"),
                redb::Error::Corrupted(detail) => write!(f, "the file is damaged: {detail}"),
                error => write!(f, "{error}"),
            },
            FileLogError::Format(error) => write!(f, "{error}"),
            FileLogError::Newer(found) => write!(f, "it has the newer format {found}"),
            FileLogError::Foreign => f.write_str("it lacks the table of facts about the log"),
        }
    }
}

impl FileLogError {
    pub(super) fn is_disk_full(&self) -> bool {
        let FileLogError::Storage(error) = self else { return false };
        match &**error {
            redb::Error::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }

    pub(super) fn into_open(self, path: &str) -> LogOpenError {
        let (path, cause) = (path.to_owned(), self.to_string());
        match self {
            FileLogError::Newer(found) => LogOpenError::Newer { found, known: FORMAT_VERSION },
            FileLogError::Foreign => LogOpenError::Foreign { path, cause },
            FileLogError::Storage(error) => match &*error {
                redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                    LogOpenError::Foreign { path, cause }
                }
                redb::Error::TableTypeMismatch { .. } => LogOpenError::Foreign { path, cause },
                _ => LogOpenError::Failed { path, cause },
            },
            FileLogError::Format(_) => LogOpenError::Failed { path, cause },
        }
    }

    pub(super) fn into_replay(self) -> ReplayError {
        let cause = self.to_string();
        match self {
            FileLogError::Format(_) => ReplayError::Damaged { cause },
            _ => ReplayError::Failed { cause },
        }
    }
}

/// Starts a write that is durable and leaves a file that opens quickly after a crash.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction, FileLogError> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Whether no table exists, as after a crash before the first transaction.
pub(super) fn is_blank(database: &Database) -> Result<bool, FileLogError> {
    Ok(database.begin_read()?.list_tables()?.next().is_none())
}

/// Makes the tables of an empty log that goes on in this round of a journal, if in any.
pub(super) fn initialise(database: &Database, journal: u64) -> Result<(), FileLogError> {
    let transaction = begin(database)?;
    transaction.open_table(ENTRIES)?;
    let meta = LogMetadata { journal, ..LogMetadata::at(Revision::ZERO, Revision::ZERO) };
    set_meta(&transaction, meta)?;
    transaction.commit()?;
    Ok(())
}

/// Reads the facts about the log, and refuses a file that this build cannot read.
pub(super) fn read_meta(database: &Database) -> Result<LogMetadata, FileLogError> {
    let transaction = database.begin_read()?;
    if !transaction.list_tables()?.any(|table| table.name() == META.name()) {
        return Err(FileLogError::Foreign);
    }
    let table = transaction.open_table(META)?;
    let number = |name: &str| -> Result<u64, FileLogError> {
        Ok(table.get(name)?.ok_or(FileLogError::Foreign)?.value())
    };
    let format = number(FORMAT)?;
    if format > FORMAT_VERSION {
        return Err(FileLogError::Newer(format));
    }
    Ok(LogMetadata {
        last: Revision(number(LAST)?),
        compacted: Revision(number(COMPACTED)?),
        unsynced: number(UNSYNCED)? != 0,
        journal: table.get(JOURNAL)?.map_or(0, |round| round.value()),
    })
}

/// Writes the facts about the log in a durable transaction of their own.
pub(super) fn write_meta(database: &Database, meta: LogMetadata) -> Result<(), FileLogError> {
    let transaction = begin(database)?;
    set_meta(&transaction, meta)?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn set_meta(
    transaction: &WriteTransaction,
    meta: LogMetadata,
) -> Result<(), FileLogError> {
    let mut table = transaction.open_table(META)?;
    table.insert(LAST, meta.last.0)?;
    table.insert(COMPACTED, meta.compacted.0)?;
    table.insert(UNSYNCED, u64::from(meta.unsynced))?;
    table.insert(JOURNAL, meta.journal)?;
    // What an older release would take for the whole must not look like it.
    let format = if meta.journal == 0 { FORMAT_VERSION_ALONE } else { FORMAT_VERSION };
    table.insert(FORMAT, format)?;
    Ok(())
}

/// The revision of the newest entry, and how many entries there are.
pub(super) fn newest_and_count(database: &Database) -> Result<(Revision, u64), FileLogError> {
    let table = database.begin_read()?.open_table(ENTRIES)?;
    let newest = match table.last()? {
        Some((key, _)) => format::decode_key(key.value())?.0,
        None => Revision::ZERO,
    };
    Ok((newest, table.len()?))
}
