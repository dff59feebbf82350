//! What a log is: the trait, what goes in, what comes out and how it fails.
//!
//! Nothing here touches a disk; every backend keeps this contract and runs the same suite.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tenure_core::Revision;

/// The largest value a log takes unless told otherwise: etcd's limit, for portability.
pub const DEFAULT_VALUE_BYTES_MAX: usize = 1_572_864;

/// Where the counter goes when revisions may have been handed out that nobody remembers:
/// the next multiple of this.
pub const REVISION_STEP: u64 = 1 << 20;

/// One key and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWrite {
    /// The key, never empty.
    pub key: Arc<str>,
    /// The value; none means the key is gone.
    pub value: Option<Bytes>,
    /// The revision at which this key was last written, if it is live.
    pub replaces: Option<Revision>,
}

/// One transaction: all its writes share a revision, and a key occurs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The transaction's place in the order.
    pub revision: Revision,
    /// What it changed; may be empty.
    pub writes: Vec<KeyWrite>,
}

/// A retained write, as handed back by a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The revision of the transaction.
    pub revision: Revision,
    /// The key that was written.
    pub key: Arc<str>,
    /// The value; none means the key was gone from then on.
    pub value: Option<Bytes>,
}

/// When an append returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppendDurability {
    /// When the commits survive a power cut.
    #[default]
    Strict,
    /// At once; a power cut loses what came after the last [`Log::sync`].
    Relaxed,
}

/// Where a replayed log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The newest revision that may have been handed out; the next one is larger.
    pub last: Revision,
    /// The history before this revision is incomplete.
    pub compacted: Revision,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionOutcome {
    /// How many entries were forgotten.
    pub removed: u64,
}

/// How large a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The space the file takes; zero when there is none.
    pub bytes_on_disk: u64,
    /// How much of that is its journal.
    pub journal_bytes: u64,
    /// How many writes are retained, deletions included.
    pub entries: u64,
}

/// An ordered, durable list of commits.
///
/// One thread owns a log. Batching is the caller's work: one `append` is one durable write,
/// however many commits it carries.
pub trait Log: Send {
    /// Makes the commits durable in order, all of them or none.
    ///
    /// Under strict durability it returns when they are durable; under relaxed durability when
    /// they are queued, and [`Log::sync`] makes them durable.
    fn append(&mut self, commits: &[Commit]) -> Result<(), AppendError>;

    /// Hands over every retained entry in the order of revisions, then of keys.
    fn replay(&mut self, visit: &mut dyn FnMut(LogEntry)) -> Result<Replayed, ReplayError>;

    /// Forgets entries superseded at or before `upto`, and deletions up to there.
    ///
    /// The newest value of each key survives.
    fn compact(&mut self, upto: Revision) -> Result<CompactionOutcome, AppendError>;

    /// Makes durable what relaxed durability left behind.
    fn sync(&mut self) -> Result<(), AppendError>;

    /// How large the log is.
    fn stats(&self) -> LogStats;

    /// Writes a consistent copy to a file that does not exist yet.
    fn save(&mut self, path: &Path) -> Result<(), SaveError>;
}

/// Why commits were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The revision is not larger than the last one; nothing was written.
    #[error("revision {revision} does not follow revision {last}")]
    Order {
        /// The revision that was offered.
        revision: Revision,
        /// The newest revision of the log.
        last: Revision,
    },
    /// A commit names a key twice, or an empty key; nothing was written.
    #[error("the commit at revision {revision} cannot hold the key `{key}` once more")]
    Key {
        /// The revision of the commit.
        revision: Revision,
        /// The key.
        key: String,
    },
    /// A value is larger than the limit; nothing was written.
    #[error("the value of `{key}` has {bytes} bytes; at most {bytes_max} are stored")]
    TooLarge {
        /// The key.
        key: String,
        /// How large the value is.
        bytes: usize,
        /// How large it may be.
        bytes_max: usize,
    },
    /// The storage failed; whether the commits survive is known after the next open only.
    #[error("the log cannot be written: {cause}")]
    Failed {
        /// What the storage said.
        cause: String,
        /// Whether the disk is full.
        disk_full: bool,
    },
    /// An earlier write failed, so the log takes no more until it is opened again.
    #[error("the log takes no writes since one failed: {cause}")]
    Stopped {
        /// What the storage said the first time.
        cause: String,
    },
}

/// Why a log could not be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The storage failed.
    #[error("the log cannot be read: {cause}")]
    Failed {
        /// What the storage said.
        cause: String,
    },
    /// An entry is not in the documented form.
    #[error("the log is damaged: {cause}")]
    Damaged {
        /// Which entry, and what is wrong with it.
        cause: String,
    },
}

/// Why no copy was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// Something is there already.
    #[error("`{path}` exists; a snapshot is never written over a file")]
    Exists {
        /// The path as given.
        path: String,
    },
    /// The log keeps nothing to copy.
    #[error("an ephemeral log keeps nothing that could be saved")]
    NotKept,
    /// The log could not be read.
    #[error("the snapshot was not written: {0}")]
    Read(#[from] ReplayError),
    /// What was to be written could not be had to its end.
    #[error("the snapshot was not written: its objects broke off: {cause}")]
    Cut {
        /// What was said.
        cause: String,
    },
    /// The copy could not be written.
    #[error("the snapshot `{path}` cannot be written: {cause}")]
    Failed {
        /// The path as given.
        path: String,
        /// What the storage said.
        cause: String,
    },
}

/// The revision from which on nothing was ever handed out, given one that may have been.
pub(crate) fn step_after(last: Revision) -> Revision {
    Revision((last.0 / REVISION_STEP).saturating_add(1).saturating_mul(REVISION_STEP))
}

/// Refuses a batch that breaks the contract, and gives the newest revision after it.
pub(crate) fn check_batch(
    mut last: Revision,
    commits: &[Commit],
    value_bytes_max: usize,
) -> Result<Revision, AppendError> {
    for commit in commits {
        let revision = commit.revision;
        if revision <= last {
            return Err(AppendError::Order { revision, last });
        }
        let mut keys = BTreeSet::new();
        for write in &commit.writes {
            check_write(revision, write, value_bytes_max)?;
            // Most commits hold one write and need no set.
            if commit.writes.len() > 1 && !keys.insert(&*write.key) {
                return Err(AppendError::Key { revision, key: write.key.to_string() });
            }
        }
        last = revision;
    }
    Ok(last)
}

fn check_write(revision: Revision, write: &KeyWrite, bytes_max: usize) -> Result<(), AppendError> {
    if write.key.is_empty() {
        return Err(AppendError::Key { revision, key: String::new() });
    }
    if let Some(replaces) = write.replaces
        && replaces >= revision
    {
        return Err(AppendError::Order { revision, last: replaces });
    }
    match &write.value {
        Some(value) if value.len() > bytes_max => {
            Err(AppendError::TooLarge { key: write.key.to_string(), bytes: value.len(), bytes_max })
        }
        _ => Ok(()),
    }
}
