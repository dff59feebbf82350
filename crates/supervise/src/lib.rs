//! Tasks that run for ever: one that panics is started again, later each time.
//!
//! ```text
//!   task ──► ends by itself ──► done
//!        └─► panics ──► logged and counted ──► a pause ──► started again
//! ```
//!
//! Beside that it shows what the process takes of its machine, which every process here does alike.
//! What a task does, and what becomes of the process when it cannot be started again, never lives here.

mod process;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

pub use process::ProcessCollector;

/// The wait after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_secs(10);

/// How often each kind of task of this process panicked. Names are constants, so there are few.
static RESTARTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Runs a task until it ends by itself, and again whenever it panics.
pub async fn keep_running<F>(task: &'static str, mut run: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    let mut wait = FIRST;
    while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
        panicked(task, "", &*panic);
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(MOST);
    }
}

/// Logs and counts the panic of a task that its caller starts again; `subject` is what it worked on.
pub fn panicked(task: &'static str, subject: &str, panic: &(dyn Any + Send)) {
    *restart_counts().entry(task).or_default() += 1;
    tracing::error!(task, subject, why = message(panic), "a task panicked and is started again");
}

/// How often each kind of task of this process panicked and was started again.
#[must_use]
pub fn restarts() -> BTreeMap<&'static str, u64> {
    restart_counts().clone()
}

/// Shows at each scrape how often each kind of task of this process panicked and was started again.
#[derive(Debug)]
pub struct TaskRestartCollector;

impl Collector for TaskRestartCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let about = "Tasks that panicked and were started again.";
        let mut family =
            encoder.encode_descriptor("tenure_task_restarts", about, None, MetricType::Counter)?;
        restarts().into_iter().try_for_each(|(task, count)| {
            ConstCounter::new(count).encode(family.encode_family(&[("task", task)])?)
        })
    }
}

/// What a panic says.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

fn restart_counts() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    RESTARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use prometheus_client::registry::Registry;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panics_is_started_again_and_what_ends_is_left_alone() {
        let runs = AtomicU32::new(0);
        keep_running("a test", || async {
            assert!(runs.fetch_add(1, Ordering::Relaxed) >= 3, "not yet");
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        assert_eq!(restarts().get("a test"), Some(&3));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(TaskRestartCollector));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("tenure_task_restarts_total{task=\"a test\"} 3\n"), "{text}");
    }
}
