//! Watches: a cursor over the shared changes and an interest.
//!
//! A watch reads at its own pace and never delays a writer or another watch.
//! It never encodes, filters by labels or holds a queue; the server does the first two.
//!
//! ```text
//!   published world ──► dispatcher: who is interested in this key? ──► note the number, wake
//!                                                                       │
//!   watch: jump to the noted number, read up to the published end ◄─────┘
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Revision;
use tokio::sync::Notify;

use crate::history::Change;
use crate::past;
use crate::record::Record;
use crate::shared::PublishedState;

/// No change has been noted for this watch.
const NONE: u64 = u64::MAX;

/// The keys a watch wants to hear about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Every key that begins with this text.
    Prefix(String),
    /// This key alone.
    Key(String),
}

impl Interest {
    /// Whether a key is wanted.
    #[must_use]
    pub fn holds(&self, key: &str) -> bool {
        match self {
            Interest::Prefix(prefix) => key.starts_with(prefix.as_str()),
            Interest::Key(wanted) => key == wanted,
        }
    }

    /// The bucket the dispatcher looks into: a whole key, or a prefix that ends with a slash.
    fn bucket(&self) -> &str {
        match self {
            Interest::Key(key) => key,
            Interest::Prefix(prefix) => {
                let end = prefix.rfind('/').map_or(0, |slash| slash + 1);
                prefix.get(..end).unwrap_or_default()
            }
        }
    }
}

/// Why a watch has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// A change that concerns the watch is no longer kept.
    #[error("the watch fell behind: history before revision {oldest} is compacted")]
    Compacted {
        /// The oldest revision that a new watch may start after.
        oldest: Revision,
    },
    /// The world was stopped.
    #[error("the world was stopped")]
    Stopped,
}

/// A watch cannot start: the history it asks for is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("history before revision {oldest} is compacted")]
pub struct CompactedError {
    /// The oldest revision that is still known.
    pub oldest: Revision,
}

/// The dispatcher's side of one watch.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The number of the first change noted since the watch last took note.
    first: AtomicU64,
    wake: Notify,
}

impl Waiter {
    fn note(&self, number: u64) {
        // Numbers come in order, so only the first one counts.
        let noted =
            self.first.compare_exchange(NONE, number, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if noted {
            self.wake.notify_one();
        }
    }
}

type Buckets = HashMap<Box<str>, Vec<Arc<Waiter>>>;

/// Everybody who watches, by what they want to hear about.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    buckets: Mutex<Buckets>,
    /// Every change before this number has been noted with all who want it.
    dispatched: AtomicU64,
    ended: AtomicBool,
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, interest: &Interest) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter { first: AtomicU64::new(NONE), wake: Notify::new() });
        self.lock().entry(interest.bucket().into()).or_default().push(waiter.clone());
        waiter
    }

    fn leave(&self, interest: &Interest, waiter: &Arc<Waiter>) {
        let mut buckets = self.lock();
        let Some(bucket) = buckets.get_mut(interest.bucket()) else { return };
        if let Some(at) = bucket.iter().position(|other| Arc::ptr_eq(other, waiter)) {
            bucket.swap_remove(at);
        }
        if bucket.is_empty() {
            buckets.remove(interest.bucket());
        }
    }

    /// How many watches there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().values().map(Vec::len).sum()
    }

    /// Notes changes with all who want them, and says so.
    ///
    /// The lock is let go between calls, so a new watch waits for one call at most.
    pub(crate) fn dispatch<'a>(&self, changes: impl Iterator<Item = (u64, &'a str)>) {
        let buckets = self.lock();
        if buckets.is_empty() {
            return;
        }
        for (number, key) in changes {
            // The narrowest first: those who follow everything are the server's own, and can wait.
            let slashes = key.rmatch_indices('/').map(|(at, _)| at + 1);
            let ends = std::iter::once(key.len()).chain(slashes).chain(std::iter::once(0));
            for end in ends {
                let bucket = key.get(..end).and_then(|prefix| buckets.get(prefix));
                for waiter in bucket.into_iter().flatten() {
                    waiter.note(number);
                }
            }
        }
    }

    /// Notes a number with everybody: whoever lags behind it will find that it is gone.
    pub(crate) fn dispatch_all(&self, number: u64) {
        for waiter in self.lock().values().flatten() {
            waiter.note(number);
        }
    }

    /// The number of the first change that has not been dispatched.
    pub(crate) fn done(&self) -> u64 {
        self.dispatched.load(Ordering::SeqCst)
    }

    /// Every change before `end` has been dispatched.
    pub(crate) fn dispatched(&self, end: u64) {
        self.dispatched.store(end, Ordering::SeqCst);
    }

    /// Ends every watch, once it has read what there is.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for waiter in self.lock().values().flatten() {
            waiter.wake.notify_one();
        }
    }
}

/// A cursor over the changes that concern an interest.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<PublishedState>,
    waiter: Arc<Waiter>,
    interest: Interest,
    after: Revision,
    /// What is told again before anything new.
    again: VecDeque<Arc<Change>>,
    /// The number of the next change to look at.
    next: u64,
    /// The end of what was published when the cursor last looked, and the revision it had.
    end: u64,
    end_revision: Revision,
    /// Everything up to here has been handed out.
    seen: Revision,
}

impl Watch {
    /// Starts a watch of everything after a revision.
    pub(crate) fn start(
        shared: Arc<PublishedState>,
        after: Revision,
        interest: Interest,
    ) -> Result<Watch, CompactedError> {
        // Registering comes first: what is published later is noted, what came before is read below.
        let waiter = shared.watchers.register(&interest);
        let world = shared.world.load_full();
        let retained = shared.retained.load_full();
        let watch = Watch {
            waiter,
            interest,
            after,
            again: VecDeque::new(),
            next: retained.position(after),
            end: world.end,
            end_revision: world.revision,
            seen: after,
            shared,
        };
        if after < retained.oldest {
            return Err(CompactedError { oldest: retained.oldest });
        }
        Ok(watch)
    }

    /// As [`Watch::start`], for somebody who was told up to a revision by a stream that may have been cut inside
    /// it: if its transaction changed several keys of the interest, all of them are told again.
    pub(crate) fn resume(
        shared: Arc<PublishedState>,
        after: Revision,
        interest: Interest,
    ) -> Result<Watch, CompactedError> {
        let mut watch = Watch::start(shared, after, interest)?;
        if matches!(watch.interest, Interest::Prefix(_)) {
            watch.again = watch.changed_at_start()?;
        }
        if watch.again.len() < 2 {
            // A stream cannot be cut inside one event.
            watch.again.clear();
        }
        Ok(watch)
    }

    /// The changes of the interest at the revision that the watch starts after.
    fn changed_at_start(&self) -> Result<VecDeque<Arc<Change>>, CompactedError> {
        let retained = self.shared.retained.load_full();
        if self.after > self.end_revision {
            return Ok(VecDeque::new());
        }
        if retained.is_whole(self.after) {
            let begin = retained.position(Revision(self.after.0.saturating_sub(1)));
            let changes = (begin..self.next).filter_map(|number| retained.get(number));
            let concerns = |change: &&Arc<Change>| self.interest.holds(&change.key);
            return Ok(changes.filter(concerns).cloned().collect());
        }
        self.put_at_start()
    }

    /// As [`Watch::changed_at_start`], from the state itself: at the edge of what is kept some of the
    /// transaction's changes may be gone, but what it put is there.
    fn put_at_start(&self) -> Result<VecDeque<Arc<Change>>, CompactedError> {
        let state = past::at(&self.shared, self.after)
            .map_err(|_| CompactedError { oldest: self.shared.retained.load().oldest })?;
        let put = |record: &&Arc<Record>| {
            record.revision() == self.after && self.interest.holds(record.key())
        };
        let reported = |record: &Arc<Record>| {
            let (key, after) = (Arc::clone(record.key()), Some(Arc::clone(record)));
            Arc::new(Change::new(self.after, key, None, after))
        };
        Ok(state.range(self.interest.bucket(), None).filter(put).map(reported).collect())
    }

    /// Waits for the next change.
    ///
    /// Giving up waiting loses nothing.
    ///
    /// # Errors
    /// The watch fell behind what is kept, or the world was stopped and everything was read.
    pub async fn next(&mut self) -> Result<Arc<Change>, WatchEnded> {
        loop {
            self.ready().await?;
            if let Some(change) = self.try_next()? {
                return Ok(change);
            }
        }
    }

    /// Waits until there is a change to read, and leaves it there.
    ///
    /// # Errors
    /// As [`Watch::next`].
    pub async fn ready(&mut self) -> Result<(), WatchEnded> {
        loop {
            let ended = self.shared.watchers.ended.load(Ordering::SeqCst);
            if self.find()?.is_some() {
                return Ok(());
            }
            if ended {
                return Err(WatchEnded::Stopped);
            }
            self.waiter.wake.notified().await;
        }
    }

    /// The next change, if one is published already.
    ///
    /// The changes of one transaction become visible together, so a caller that asks until there
    /// is none has them all.
    ///
    /// # Errors
    /// The watch fell behind what is kept.
    pub fn try_next(&mut self) -> Result<Option<Arc<Change>>, WatchEnded> {
        let found = self.find()?;
        if found.is_some() && self.again.pop_front().is_none() {
            self.next += 1;
        }
        Ok(found)
    }

    /// Everything up to this revision that concerns the watch has been handed out.
    ///
    /// It moves on with the log even when nothing concerns the watch.
    pub fn delivered(&mut self) -> Revision {
        if let Ok(Some(pending)) = self.find() {
            return self.seen.max(Revision(pending.revision.0.saturating_sub(1)));
        }
        self.seen
    }

    /// What the watch wants to hear about.
    #[must_use]
    pub fn interest(&self) -> &Interest {
        &self.interest
    }

    /// Moves the cursor to the next change that concerns the watch, without taking it.
    fn find(&mut self) -> Result<Option<Arc<Change>>, WatchEnded> {
        if let Some(change) = self.again.front() {
            return Ok(Some(Arc::clone(change)));
        }
        loop {
            if self.next < self.end {
                let retained = self.shared.retained.load();
                while self.next < self.end {
                    let Some(change) = retained.get(self.next) else {
                        return Err(WatchEnded::Compacted { oldest: retained.oldest });
                    };
                    if change.revision > self.after && self.interest.holds(&change.key) {
                        return Ok(Some(change.clone()));
                    }
                    self.next += 1;
                }
            }
            self.seen = self.seen.max(self.end_revision);
            if !self.look_again() {
                return Ok(None);
            }
        }
    }

    /// Looks how far the log is now, and passes over what is known not to concern the watch.
    ///
    /// The order of the three reads matters. Let `end` be what was published after the note was
    /// last taken. A change that concerns the watch and was noted before that lies before `end`,
    /// and the cursor has read up to there; one from `end` on is noted afterwards. So when no note
    /// is there, nothing before `dispatched` (read earlier) is left, and when a note is there,
    /// nothing before the noted number is.
    fn look_again(&mut self) -> bool {
        let dispatched = self.shared.watchers.done();
        let noted = self.waiter.first.swap(NONE, Ordering::SeqCst);
        let skip_to = if noted == NONE { dispatched } else { noted };
        self.next = self.next.max(skip_to);
        let world = self.shared.world.load();
        if world.end <= self.end && world.revision <= self.end_revision {
            return self.next < self.end;
        }
        self.end = world.end;
        self.end_revision = world.revision;
        true
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.watchers.leave(&self.interest, &self.waiter);
    }
}
