//! The durable log: bytes, keys, revisions.
//!
//! A log takes numbered commits, makes them durable and hands them back after a restart.
//! It knows no kinds, answers no reads while running and starts no thread; the state that
//! clients see is kept elsewhere and rebuilt from [`Log::replay`].

pub mod file;
pub mod format;
mod log;
mod memory;

pub use file::{FileLog, FileOptions, OpenError, RestoreError};
pub use log::{
    AppendError, Commit, Compacted, DEFAULT_VALUE_BYTES_MAX, Durability, Entry, Log, REVISION_STEP,
    ReplayError, Replayed, SaveError, Stats, Write,
};
pub use memory::MemoryLog;
