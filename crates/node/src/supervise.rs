//! What a node does for ever is kept running: what panics is started again, later each time.
//!
//! ```text
//!   task ──► ends by itself ──► done
//!        └─► panics ──► said in the log, counted ──► a pause ──► started again
//! ```

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;

/// The wait after the first failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_secs(10);

/// How often something of this process panicked and was started again.
static RESTARTS: AtomicU64 = AtomicU64::new(0);

/// Runs something until it ends by itself, and again whenever it panics.
pub async fn keep_running<F>(name: &str, mut run: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    let mut wait = FIRST;
    while let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await {
        panicked(name, &*panic);
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(MOST);
    }
}

/// Something panicked and will be started again.
pub(crate) fn panicked(name: &str, panic: &(dyn Any + Send)) {
    RESTARTS.fetch_add(1, Ordering::Relaxed);
    tracing::error!(task = name, why = message(panic), "a task panicked and is started again");
}

/// How often something of this process panicked and was started again, for those who measure.
#[must_use]
pub fn restarts() -> u64 {
    RESTARTS.load(Ordering::Relaxed)
}

/// What a panic says.
#[must_use]
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panics_is_started_again_and_what_ends_is_left_alone() {
        let runs = AtomicU32::new(0);
        keep_running("a test", || async {
            assert!(runs.fetch_add(1, Ordering::Relaxed) >= 3, "not yet");
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        assert!(restarts() >= 3);
    }
}
