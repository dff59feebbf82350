//! How far a follower has come and how it fares, for those who wait, look or measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_core::Revision;
use tokio::sync::watch;

/// How much a follower has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How much waits to be done or is under way.
    pub depth: usize,
    /// How much of that leaves dependents behind.
    pub orphaning: usize,
    /// How often a write was refused since the start.
    pub refusals: u64,
    /// Whether nothing is left to do.
    pub idle: bool,
    /// Whether it waits for something of its own and passes over all else.
    pub dormant: bool,
}

/// Where a follower is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Everything up to here was taken in.
    pub seen: Revision,
    /// What it had to do then.
    pub load: Load,
}

/// A follower as others see it.
#[derive(Clone, Debug, Default)]
pub struct FollowerStatus {
    /// Where it is.
    pub position: Position,
    /// How often it was started again after a panic.
    pub restarts: u64,
    /// Why it does not run, or has not run for long again.
    pub failed: Option<Arc<str>>,
}

/// The writing end.
#[derive(Debug)]
pub struct FollowerProgress {
    sender: watch::Sender<FollowerStatus>,
    fault: Arc<AtomicBool>,
}

/// The end that others look at.
#[derive(Clone, Debug)]
pub struct Observer {
    /// What the follower is called.
    pub name: &'static str,
    receiver: watch::Receiver<FollowerStatus>,
    fault: Arc<AtomicBool>,
}

impl FollowerProgress {
    /// A follower of this name that has not begun, and the end that others look at.
    #[must_use]
    pub fn new(name: &'static str) -> (FollowerProgress, Observer) {
        let (sender, receiver) = watch::channel(FollowerStatus::default());
        let fault = Arc::new(AtomicBool::new(false));
        (FollowerProgress { sender, fault: Arc::clone(&fault) }, Observer { name, receiver, fault })
    }

    /// The follower is here now.
    pub(crate) fn report(&self, position: Position) {
        self.sender.send_if_modified(|known| {
            let moved = known.position != position;
            known.position = position;
            moved
        });
    }

    /// The follower panicked.
    pub(crate) fn failed(&self, why: &str) {
        self.sender.send_modify(|known| {
            known.restarts += 1;
            known.failed = Some(why.into());
            known.position.load.idle = false;
        });
    }

    /// The follower has run for a while since.
    pub(crate) fn recovered(&self) {
        self.sender.send_modify(|known| known.failed = None);
    }

    /// Panics if somebody asked for it.
    #[expect(clippy::panic, reason = "what a test asks for, to see what becomes of it")]
    pub(crate) fn fault(&self) {
        if self.fault.swap(false, Ordering::Relaxed) {
            panic!("planted by a test");
        }
    }
}

impl Observer {
    /// As it is now.
    #[must_use]
    pub fn now(&self) -> FollowerStatus {
        self.receiver.borrow().clone()
    }

    /// As it is now; what changes later is seen by [`Observer::changed`].
    pub(crate) fn look(&mut self) -> FollowerStatus {
        self.receiver.borrow_and_update().clone()
    }

    /// Waits for a change; false when the follower has ended for good.
    pub(crate) async fn changed(&mut self) -> bool {
        self.receiver.changed().await.is_ok()
    }

    /// Whether it has ended for good.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.receiver.has_changed().is_err()
    }

    /// Has the follower panic at its next turn, so that a test sees what becomes of it.
    #[doc(hidden)]
    pub fn plant_panic(&self) {
        self.fault.store(true, Ordering::Relaxed);
    }
}
