//! Tells those who are allowed something for long when a role or a binding may have been taken away (R260).
//!
//! ```text
//!   commit ──► generation ──► whoever is about to send compares it: nothing is sent by a right that is gone
//!                  └──► at most once in a while ──► everybody who is idle looks again, and ends
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

/// Those who are idle are woken at most this often: ten thousand of them take a part of it to look again.
pub(crate) const WAKE_EVERY: Duration = Duration::from_secs(1);

/// How often rights were taken away.
#[derive(Clone, Default)]
pub(crate) struct Revocations(Arc<RevocationState>);

#[derive(Default)]
struct RevocationState {
    generation: AtomicU64,
    /// At once, for the one who wakes the others.
    changed: watch::Sender<u64>,
    /// Once in a while, for the others.
    waking: watch::Sender<u64>,
    /// Whether somebody wakes them.
    has_waker: AtomicBool,
}

impl Revocations {
    /// As long as this stays the same, no role allows less than before.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::SeqCst)
    }

    /// A role or binding was changed or removed, and decisions know of it.
    pub(crate) fn note(&self) {
        let now = self.0.generation.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        self.0.changed.send_replace(now);
    }

    /// Wakes whoever is idle after a revocation. Called where tasks can be started.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        if !self.0.has_waker.swap(true, Ordering::SeqCst) {
            let waker = Waker(Arc::downgrade(&self.0));
            tokio::spawn(waker.run(self.0.changed.subscribe()));
        }
        self.0.waking.subscribe()
    }
}

/// Lets the next one start when this one ends with its runtime.
struct Waker(Weak<RevocationState>);

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.has_waker.store(false, Ordering::SeqCst);
        }
    }
}

impl Waker {
    /// Runs as long as there is something to be told.
    async fn run(self, mut changed: watch::Receiver<u64>) {
        while changed.changed().await.is_ok() {
            let now = *changed.borrow_and_update();
            let Some(shared) = self.0.upgrade() else { return };
            shared.waking.send_replace(now);
            drop(shared);
            tokio::time::sleep(WAKE_EVERY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn r260_the_idle_are_woken_at_once_and_then_once_in_a_while() {
        let revocations = Revocations::default();
        let mut woken = revocations.subscribe();
        tokio::task::yield_now().await;
        let begin = tokio::time::Instant::now();
        revocations.note();
        woken.changed().await.unwrap();
        assert!(begin.elapsed() < WAKE_EVERY, "the first at once");
        for _ in 0..1_000 {
            revocations.note();
        }
        woken.changed().await.unwrap();
        assert!(begin.elapsed() >= WAKE_EVERY, "the next ones together");
        assert_eq!(*woken.borrow_and_update(), revocations.generation());
        let more = tokio::time::timeout(WAKE_EVERY * 5, woken.changed()).await;
        assert!(more.is_err(), "and nobody is woken for nothing");
    }
}
