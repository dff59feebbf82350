//! The state at a revision: records, snapshots, the sequencer, watches.
//!
//! One thread owns the order of writes; everybody else reads immutable states and never waits.
//! No kind, no rule and no HTTP lives here.
//!
//! ```text
//!   Proposal ──► sequencer ──► log ──► World (published) ──► Handle::current
//!                                 └──► Change (retained) ──► Watch::next, Handle::at
//! ```

mod clock;
mod compaction;
mod handle;
mod header;
mod history;
mod metrics;
mod ownership;
mod past;
mod proposal;
mod quota;
mod record;
mod replay;
mod scan;
mod sequencer;
mod shared;
mod snapshot;
mod transfer;
mod watch;

pub use compaction::Compaction;
pub use handle::{ChoreError, Submission, WorldHandle, WorldOptions, WriteAvailability, open};
pub use header::{BadRecord, PlainLayout, SelectableFields, SelectablePath};
pub use history::Change;
pub use metrics::CommitMetrics;
pub use ownership::Ownership;
pub use past::RevisionError;
pub use proposal::{Committed, LockStep, Precondition, Proposal, ProposalError, WriteOperation};
pub use record::{Draft, Owner, Record};
pub use replay::WorldOpenError;
pub use snapshot::World;
pub use transfer::{Received, Transfer};
pub use watch::{CompactedError, Interest, Watch, WatchEnded};
