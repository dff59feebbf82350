//! The durable log: bytes, keys, revisions.
//!
//! A log takes numbered commits, makes them durable and hands them back after a restart.
//! It knows no kinds, answers no reads while running and starts no thread; the state that
//! clients see is kept elsewhere and rebuilt from [`Log::replay`].

pub mod file;
pub mod format;
mod log;
mod memory;

pub use file::{FileLog, FileOptions, LogOpenError, RestoreError};
pub use log::{
    AppendDurability, AppendError, Commit, CompactionOutcome, DEFAULT_VALUE_BYTES_MAX, KeyWrite,
    Log, LogEntry, LogStats, REVISION_STEP, ReplayError, Replayed, SaveError,
};
pub use memory::MemoryLog;
