//! What `/metrics` says of the store: how long commits take, how large the log is, how far it reaches back.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tenure_world::WorldHandle;

/// A sequencer that is busy for longer is not waited for: what it said last is shown again.
const STATS_MOST: Duration = Duration::from_millis(500);

/// What is looked up of the store when somebody asks.
#[derive(Debug, Default)]
pub(super) struct StoreGauges {
    disk: Gauge,
    journal: Gauge,
    entries: Gauge,
    revision: Gauge,
    compacted: Gauge,
    watches: Gauge,
}

impl StoreGauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "tenure_store_disk",
            "Space that the log takes on the disk; 0 where nothing is kept",
            Unit::Bytes,
            self.disk.clone(),
        );
        registry.register_with_unit(
            "tenure_store_journal",
            "How much of that is the journal, which an open after a crash writes again",
            Unit::Bytes,
            self.journal.clone(),
        );
        registry.register(
            "tenure_store_entries",
            "Writes that the log holds, deletions included",
            self.entries.clone(),
        );
        registry.register(
            "tenure_store_revision",
            "The newest revision: it grows with each commit",
            self.revision.clone(),
        );
        registry.register(
            "tenure_store_compacted_revision",
            "The oldest revision that can be read, or watched from; what is older answers 410",
            self.compacted.clone(),
        );
        registry.register(
            "tenure_store_watches",
            "Open watches of the store: those of clients, and of what runs beside the server",
            self.watches.clone(),
        );
    }

    /// Looks up how the store is.
    pub(super) async fn measure(&self, world: &WorldHandle) {
        self.revision.set(number(world.current().revision().0));
        self.compacted.set(number(world.oldest().0));
        self.watches.set(number(world.watches() as u64));
        // The sequencer knows; it may be within a long commit, or gone.
        if let Ok(Ok(stats)) = tokio::time::timeout(STATS_MOST, world.stats()).await {
            self.disk.set(number(stats.bytes_on_disk));
            self.journal.set(number(stats.journal_bytes));
            self.entries.set(number(stats.entries));
        }
    }
}

/// Shows what commits cost, as the sequencer counts it.
pub(super) fn register_commits(registry: &mut Registry, world: &WorldHandle) {
    let commits = world.commit_metrics();
    registry.register_with_unit(
        "tenure_store_commit_duration",
        "How long a batch of writes took to be as durable as the log promises",
        Unit::Seconds,
        commits.duration.clone(),
    );
    registry.register(
        "tenure_store_commit_batch_size",
        "How many writes, or groups of writes, shared a commit",
        commits.batch.clone(),
    );
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
