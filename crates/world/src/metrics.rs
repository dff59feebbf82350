//! What commits cost, for those who measure: counted by the sequencer as it goes, shown by the server.

use prometheus_client::metrics::histogram::Histogram;

/// From a write to memory to a disk that hangs, in seconds.
const DURATION_BOUNDS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 5.0, 10.0,
];

/// Up to the most proposals of one batch.
const BATCH_BOUNDS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// How long commits took, and how many share one; clones count together.
#[derive(Clone, Debug)]
pub struct CommitMetrics {
    /// From the first byte for the log until the batch is as durable as the log promises, in seconds.
    pub duration: Histogram,
    /// How many proposals each batch carried.
    pub batch: Histogram,
}

impl Default for CommitMetrics {
    fn default() -> CommitMetrics {
        CommitMetrics {
            duration: Histogram::new(DURATION_BOUNDS),
            batch: Histogram::new(BATCH_BOUNDS),
        }
    }
}
