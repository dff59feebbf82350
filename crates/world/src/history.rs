//! The retained changes: one shared log that every watch reads and nobody copies.
//!
//! The sequencer alone appends; readers find a change by its number without a lock.
//! Nothing here waits, wakes or filters: `watch.rs` does.
//!
//! ```text
//!   Retained ──► Segment 0..255 ──► Segment 256..300 (closed early: heavy) ──► open Segment
//!                slots: set once, in order, never changed
//! ```

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tenure_core::Revision;

use crate::record::Record;

/// How many changes a segment holds at most.
const SLOTS: usize = 256;

/// A segment is closed early when it keeps this part of the budget.
const PARTS: u64 = 16;

/// What a change costs in memory besides the record it keeps.
const CHANGE_BYTES: u64 = 160;

/// One key as it was and as it is, at the revision that changed it.
#[derive(Debug)]
pub struct Change {
    /// The transaction's revision; several changes may share it.
    pub revision: Revision,
    /// The key that changed.
    pub key: Arc<str>,
    /// The record before, if there was one.
    pub before: Option<Arc<Record>>,
    /// The record after, if there still is one.
    pub after: Option<Arc<Record>>,
    /// The last state with the deletion's revision, made once for all watchers.
    last: OnceLock<Box<Bytes>>,
}

impl Change {
    /// A change of one key.
    #[must_use]
    pub fn new(
        revision: Revision,
        key: Arc<str>,
        before: Option<Arc<Record>>,
        after: Option<Arc<Record>>,
    ) -> Change {
        Change { revision, key, before, after, last: OnceLock::new() }
    }

    /// The record before with this change's revision: the object of a DELETED event.
    ///
    /// It is made once and shared by all who ask. `None` when there was no record.
    #[must_use]
    pub fn last_state(&self) -> Option<Bytes> {
        let before = self.before.as_ref()?;
        let last = self.last.get_or_init(|| Box::new(before.with_revision(self.revision)));
        Some(Bytes::clone(last))
    }

    /// The object that tells of this change: the record after, or the last state of one now gone.
    #[must_use]
    pub fn object(&self) -> Bytes {
        match &self.after {
            Some(after) => after.bytes().clone(),
            None => self.last_state().unwrap_or_default(),
        }
    }

    /// What the log alone keeps alive: the record that is no longer current.
    fn cost(&self) -> u64 {
        CHANGE_BYTES + self.before.as_ref().map_or(0, |record| record.weight() as u64)
    }
}

/// Some consecutive changes.
#[derive(Debug)]
struct HistorySegment {
    /// The number of the first slot's change.
    first: u64,
    slots: Box<[OnceLock<Arc<Change>>]>,
}

impl HistorySegment {
    fn new(first: u64) -> HistorySegment {
        HistorySegment { first, slots: (0..SLOTS).map(|_| OnceLock::new()).collect() }
    }

    fn get(&self, number: u64) -> Option<&Arc<Change>> {
        let slot = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.slots.get(slot)?.get()
    }

    fn first_revision(&self) -> Option<Revision> {
        self.slots.first()?.get().map(|change| change.revision)
    }

    fn last_revision(&self) -> Option<Revision> {
        self.slots.iter().rev().find_map(OnceLock::get).map(|change| change.revision)
    }
}

/// The changes that are still kept.
#[derive(Debug)]
pub(crate) struct RetainedChanges {
    /// Every change after this revision is kept, and every state from it on can be made.
    pub(crate) oldest: Revision,
    // INVARIANT: never empty, and in the order of their numbers without a gap.
    segments: Vec<Arc<HistorySegment>>,
}

impl RetainedChanges {
    /// The change with a number; `None` when it is no longer, or not yet, kept.
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<Change>> {
        let after = self.segments.partition_point(|segment| segment.first <= number);
        self.segments.get(after.checked_sub(1)?)?.get(number)
    }

    /// The number of the first change that is kept.
    pub(crate) fn begin(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.first)
    }

    /// Whether every change at a revision is kept.
    pub(crate) fn is_whole(&self, revision: Revision) -> bool {
        let begins_before = || {
            let first = self.segments.first().and_then(|segment| segment.first_revision());
            first.is_some_and(|first| first < revision)
        };
        self.oldest < revision || begins_before()
    }

    /// The number of the first change after a revision, or the number that the next change will get.
    pub(crate) fn position(&self, after: Revision) -> u64 {
        let later = self
            .segments
            .partition_point(|segment| segment.first_revision().is_some_and(|r| r <= after));
        // The boundary lies inside the last segment that begins at or before the revision.
        let Some(segment) = self.segments.get(later.saturating_sub(1)) else { return 0 };
        let slot = segment
            .slots
            .partition_point(|slot| slot.get().is_some_and(|change| change.revision <= after));
        segment.first + slot as u64
    }
}

/// What was written lately: the log, and the batch that is not in it yet.
pub(crate) struct Recent<'a> {
    pub(crate) log: &'a HistoryWriter,
    pub(crate) batch: &'a [Arc<Change>],
}

impl<'a> Recent<'a> {
    /// The changes after a revision; `None` when not all of them are kept.
    pub(crate) fn since(
        &self,
        after: Revision,
    ) -> Option<impl Iterator<Item = Arc<Change>> + use<'a>> {
        let kept = self.log.shared.load_full();
        if after < kept.oldest {
            return None;
        }
        let logged = (kept.position(after)..self.log.end())
            .map_while(move |number| kept.get(number).cloned());
        Some(logged.chain(self.batch.iter().cloned()))
    }
}

/// The writing end of the log; the sequencer owns it.
#[derive(Debug)]
pub(crate) struct HistoryWriter {
    shared: Arc<ArcSwap<RetainedChanges>>,
    open: Arc<HistorySegment>,
    filled: usize,
    /// The cost of each kept segment, oldest first; the last is the open one's.
    costs: std::collections::VecDeque<u64>,
    total: u64,
    budget: u64,
}

impl HistoryWriter {
    /// An empty log that keeps about `budget` bytes of records that are no longer current.
    pub(crate) fn new(budget: u64) -> HistoryWriter {
        let open = Arc::new(HistorySegment::new(0));
        let retained = RetainedChanges { oldest: Revision::ZERO, segments: vec![open.clone()] };
        HistoryWriter {
            shared: Arc::new(ArcSwap::from_pointee(retained)),
            open,
            filled: 0,
            costs: [0].into(),
            total: 0,
            budget,
        }
    }

    /// The reading end.
    pub(crate) fn shared(&self) -> Arc<ArcSwap<RetainedChanges>> {
        self.shared.clone()
    }

    /// The number that the next change will get.
    pub(crate) fn end(&self) -> u64 {
        self.open.first + self.filled as u64
    }

    /// Appends one change; nobody reads it before a world that counts it is published.
    pub(crate) fn push(&mut self, change: Arc<Change>) {
        if self.is_closed() {
            self.roll();
        }
        let cost = change.cost();
        if let Some(slot) = self.open.slots.get(self.filled) {
            let fresh = slot.set(change).is_ok();
            debug_assert!(fresh, "a slot is set once");
        }
        self.filled += 1;
        self.total += cost;
        if let Some(last) = self.costs.back_mut() {
            *last += cost;
        }
    }

    fn is_closed(&self) -> bool {
        let heavy = self.costs.back().is_some_and(|cost| *cost > self.budget / PARTS);
        self.filled >= self.open.slots.len() || (self.filled > 0 && heavy)
    }

    /// Opens the next segment and lets go of the oldest ones that no longer fit.
    fn roll(&mut self) {
        let kept = self.shared.load();
        let mut segments = kept.segments.clone();
        let mut oldest = kept.oldest;
        drop(kept);
        let mut gone = 0;
        while self.total > self.budget && gone < segments.len() {
            self.total -= self.costs.pop_front().unwrap_or_default();
            oldest = segments.get(gone).and_then(|s| s.last_revision()).unwrap_or(oldest);
            gone += 1;
        }
        segments.drain(..gone);
        self.open = Arc::new(HistorySegment::new(self.end()));
        self.filled = 0;
        segments.push(self.open.clone());
        self.costs.push_back(0);
        self.shared.store(Arc::new(RetainedChanges { oldest, segments }));
    }

    /// Lets go of what lies wholly at or before a revision, and refuses what lies before it.
    pub(crate) fn forget(&mut self, upto: Revision) {
        let kept = self.shared.load();
        let mut segments = kept.segments.clone();
        let oldest = kept.oldest.max(upto);
        drop(kept);
        let whole = segments.len().saturating_sub(1);
        let gone = segments
            .iter()
            .take(whole)
            .take_while(|segment| segment.last_revision().is_none_or(|last| last <= upto))
            .count();
        segments.drain(..gone);
        for _ in 0..gone {
            self.total -= self.costs.pop_front().unwrap_or_default();
        }
        self.shared.store(Arc::new(RetainedChanges { oldest, segments }));
    }
}
