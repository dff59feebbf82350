//! How far a follower has come, for those who wait until all is done.

use tenure_core::Revision;
use tokio::sync::watch;

/// Where a follower is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Everything up to here was taken in.
    pub(crate) seen: Revision,
    /// How much waits to be done or is under way.
    pub(crate) depth: usize,
    /// How much of that leaves dependents behind.
    pub(crate) orphaning: usize,
    /// How often a write was refused since the start.
    pub(crate) refusals: u64,
    /// Whether nothing is left to do.
    pub(crate) idle: bool,
    /// Whether it waits for something of its own and passes over all else.
    pub(crate) dormant: bool,
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<Place>);

impl Progress {
    /// A follower that has not begun, and the end that others look at.
    pub(crate) fn new() -> (Progress, watch::Receiver<Place>) {
        let (sender, receiver) = watch::channel(Place::default());
        (Progress(sender), receiver)
    }

    /// The follower is here now.
    pub(crate) fn report(&self, place: Place) {
        self.0.send_if_modified(|old| {
            let moved = *old != place;
            *old = place;
            moved
        });
    }
}
