//! What readers, the sequencer and the dispatcher share: the published state, lock-free to read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tenure_core::Revision;

use crate::history::RetainedChanges;
use crate::metrics::CommitMetrics;
use crate::past::Past;
use crate::snapshot::World;
use crate::watch::Watchers;

/// The most changes noted while watches cannot come or go.
const DISPATCH_MAX: u64 = 256;

/// The published state and who waits for it.
#[derive(Debug)]
pub(crate) struct PublishedState {
    /// The newest state. Published after the changes that led to it are in `retained`, so whoever
    /// reads this first and `retained` second finds every change, or knows that it was let go.
    pub(crate) world: ArcSwap<World>,
    pub(crate) retained: Arc<ArcSwap<RetainedChanges>>,
    pub(crate) watchers: Watchers,
    pub(crate) past: Past,
    /// Why writes are refused for ever, once they are.
    pub(crate) stopped: OnceLock<Arc<str>>,
    /// The sequencer has ended; nothing more will be published.
    pub(crate) ended: AtomicBool,
    /// Which thread panicked, and why: the process cannot do its work any more.
    pub(crate) broken: tokio::sync::watch::Sender<Option<Arc<str>>>,
    /// The newest revision, for those who wait for one.
    pub(crate) advanced: tokio::sync::watch::Sender<Revision>,
    /// What commits cost.
    pub(crate) commits: CommitMetrics,
    /// The thread that panics at its next turn, because a test wants to see what becomes of it.
    pub(crate) planted: OnceLock<&'static str>,
}

impl PublishedState {
    pub(crate) fn new(world: World, retained: Arc<ArcSwap<RetainedChanges>>) -> PublishedState {
        let (advanced, _) = tokio::sync::watch::channel(world.revision);
        let shared = PublishedState {
            world: ArcSwap::from_pointee(world),
            retained,
            watchers: Watchers::default(),
            past: Past::default(),
            stopped: OnceLock::new(),
            ended: AtomicBool::new(false),
            broken: tokio::sync::watch::Sender::new(None),
            advanced,
            commits: CommitMetrics::default(),
            planted: OnceLock::new(),
        };
        shared.watchers.dispatched(shared.world.load().end);
        shared
    }

    /// Runs one of the threads; if it panics, writes stop, every watch ends and [`PublishedState::broken`] says so.
    pub(crate) fn guard<T>(&self, thread: &str, run: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => Some(value),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let why: Arc<str> =
                    format!("the {thread} panicked: {}", text.unwrap_or_default()).into();
                let _ = self.stopped.set(Arc::clone(&why));
                self.broken.send_replace(Some(why));
                self.watchers.end();
                None
            }
        }
    }

    /// Panics if a test asked this thread for it.
    #[expect(clippy::panic, reason = "what a test asks for, to see what becomes of it")]
    pub(crate) fn panic_if_planted(&self, thread: &str) {
        if self.planted.get().is_some_and(|planted| *planted == thread) {
            panic!("planted by a test");
        }
    }

    /// The dispatcher: tells those who wait of every change, until the sequencer has ended.
    ///
    /// It runs on its own thread, so that waking a thousand watches never delays a commit.
    pub(crate) fn dispatch(&self) {
        // Where the log began, not where it is: writes may have come before this thread did.
        let mut done = self.watchers.done();
        loop {
            let ended = self.ended.load(Ordering::SeqCst);
            let world = self.world.load_full();
            self.panic_if_planted("dispatcher");
            while done < world.end {
                done = self.dispatch_some(done, world.end);
                self.watchers.dispatched(done);
            }
            self.advanced.send_if_modified(|revision| {
                let moved = world.revision > *revision;
                *revision = world.revision;
                moved
            });
            self.past.forget(self.retained.load().oldest);
            drop(world);
            if ended {
                self.watchers.end();
                return;
            }
            std::thread::park();
        }
    }

    /// Notes some of the changes from `done` on and answers how far it came.
    fn dispatch_some(&self, done: u64, end: u64) -> u64 {
        let retained = self.retained.load();
        let begin = retained.begin();
        if done < begin {
            // The log has moved on before anybody was told: whoever has not read that far must
            // find out for themselves.
            self.watchers.dispatch_all(done);
            return begin.min(end);
        }
        let upto = end.min(done + DISPATCH_MAX);
        self.watchers.dispatch((done..upto).filter_map(|n| retained.get(n).map(|c| (n, &*c.key))));
        upto
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryWriter;

    #[test]
    fn a_dispatcher_that_panics_stops_writes_and_is_told() {
        let recorder = HistoryWriter::new(1 << 20);
        let shared = PublishedState::new(World::default(), recorder.shared());
        assert_eq!(shared.guard("dispatcher", || 5), Some(5));
        assert!(shared.broken.borrow().is_none());
        assert_eq!(shared.guard("dispatcher", || -> u32 { panic!("a fault") }), None);
        let why = shared.broken.borrow().clone().unwrap();
        assert_eq!(&*why, "the dispatcher panicked: a fault");
        assert_eq!(shared.stopped.get(), Some(&why));
    }
}
