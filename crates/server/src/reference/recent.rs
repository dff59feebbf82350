//! Which targets and which subjects have moved lately: whether something that may be read by reference now could
//! be read in an earlier state, too (R180).
//!
//! ```text
//!   commit ──► note ──► the view is replaced ──► published
//!                │
//!   permit:  allowed in the view of now, and nothing of mine was gained after the state ──► allowed in the state
//! ```
//!
//! Names are kept as hashes only: two that share one cost a client a list, and never show it anything. What is
//! allowed is decided by the engine.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::Revision;
use tenure_reference::{Attributes, Index, Outputs};

/// How many moves are kept.
const KEPT_MAX: usize = 1 << 16;

/// Something that a client may read by reference now or no longer.
#[derive(Clone, Copy)]
struct AccessEvent {
    /// The hash of the target or the subject.
    of: u64,
    /// The commit that brought it, or the last one before it.
    state: Revision,
    /// Whether it came between two commits.
    late: bool,
    /// Whether somebody may read more because of it.
    gained: bool,
    /// Whether somebody may read less.
    lost: bool,
    /// The number of the first move that readers saw together with this one.
    together: u64,
}

impl AccessEvent {
    /// Every client that has heard of this revision may have heard of the move.
    fn counts_from(&self) -> Revision {
        Revision(self.state.0.saturating_add(u64::from(self.late)))
    }
}

/// The latest moves.
#[derive(Default)]
pub(super) struct RecentMoves {
    kept: Mutex<AccessHistory>,
    hasher: RandomState,
    /// How many moves there were: noted, and in the view that readers see.
    noted: AtomicU64,
    published: AtomicU64,
}

#[derive(Default)]
struct AccessHistory {
    moves: VecDeque<AccessEvent>,
    /// The number of the first.
    first: u64,
    /// All moves that count after this revision are there.
    since: Revision,
}

/// What has moved of what concerns one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MovedSince {
    /// It may read more.
    pub(crate) gained: bool,
    /// It may have lost what it has now for a while.
    pub(crate) broken: bool,
    /// The newest commit that brought any of it.
    pub(crate) newest: Revision,
    /// Nobody knows any more.
    pub(crate) forgotten: bool,
}

impl RecentMoves {
    fn lock(&self) -> MutexGuard<'_, AccessHistory> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is known of what moved up to a revision.
    pub(super) fn start(&self, at: Revision) {
        *self.lock() = AccessHistory { since: at, first: self.noted(), ..AccessHistory::default() };
    }

    /// Notes what came with a commit, or after it if it is late; before readers see it.
    pub(super) fn note(&self, state: Revision, late: bool, index: &Index, out: &Outputs) {
        if out.transitions.is_empty() && out.subjects.is_empty() {
            return;
        }
        let targets = out.transitions.iter().filter_map(|transition| {
            let target = index.target(transition.target)?;
            let target = target.object();
            let named = (target.group, target.resource, target.namespace, target.name);
            Some((self.hasher.hash_one(named), transition.live, !transition.live))
        });
        let subjects = out.subjects.iter();
        let subjects = subjects.map(|(group, name)| (self.subject(*group, name), true, true));
        let mut kept = self.lock();
        let together = kept.end();
        for (of, gained, lost) in targets.chain(subjects) {
            kept.add(AccessEvent { of, state, late, gained, lost, together });
        }
        self.noted.store(kept.end(), Ordering::SeqCst);
    }

    /// Readers see everything that was noted.
    pub(super) fn publish(&self) {
        self.published.store(self.noted(), Ordering::SeqCst);
    }

    fn noted(&self) -> u64 {
        self.noted.load(Ordering::SeqCst)
    }

    /// How many moves are in the view that readers see: as long as this stays the same, so do decisions.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::SeqCst)
    }

    fn subject(&self, is_group: bool, name: &str) -> u64 {
        self.hasher.hash_one((is_group, name))
    }

    /// What concerns a request and came with a commit after a state.
    pub(super) fn after_state(&self, requested: &Attributes<'_>, state: Revision) -> MovedSince {
        let kept = self.lock();
        if kept.moves.back().is_none_or(|newest| newest.state <= state) {
            return MovedSince { forgotten: state < kept.since, ..MovedSince::default() };
        }
        self.of(&kept, requested, state, |made| made.state > state)
    }

    /// What concerns a request and may be unknown to a client that has heard of a revision.
    pub(super) fn after_revision(
        &self,
        requested: &Attributes<'_>,
        revision: Revision,
    ) -> MovedSince {
        self.of(&self.lock(), requested, revision, |made| made.counts_from() > revision)
    }

    /// What concerns a request, from the move of a number on.
    pub(super) fn since_number(&self, requested: &Attributes<'_>, number: u64) -> MovedSince {
        let kept = self.lock();
        let Some(skip) = number.checked_sub(kept.first) else {
            return MovedSince { forgotten: true, ..MovedSince::default() };
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(kept.moves.len());
        self.sum(requested, kept.moves.range(skip..))
    }

    fn of(
        &self,
        kept: &AccessHistory,
        requested: &Attributes<'_>,
        after: Revision,
        is_after: impl Fn(&AccessEvent) -> bool,
    ) -> MovedSince {
        if after < kept.since {
            return MovedSince { forgotten: true, ..MovedSince::default() };
        }
        // They come in the order of their states.
        let from = kept.moves.partition_point(|made| !is_after(made));
        self.sum(requested, kept.moves.range(from..))
    }

    fn sum<'m>(
        &self,
        requested: &Attributes<'_>,
        moves: impl Iterator<Item = &'m AccessEvent>,
    ) -> MovedSince {
        let named = (requested.group, requested.resource, requested.namespace, requested.name);
        let groups = requested.groups.iter().map(|group| self.subject(true, group));
        let mut mine = vec![self.hasher.hash_one(named), self.subject(false, requested.user)];
        mine.extend(groups);
        let (mut sum, mut lost) = (MovedSince::default(), None);
        for made in moves.filter(|made| mine.contains(&made.of)) {
            sum.gained |= made.gained;
            sum.broken |= made.gained && lost.is_some_and(|together| together < made.together);
            sum.newest = sum.newest.max(made.state);
            lost = lost.or(made.lost.then_some(made.together));
        }
        sum
    }
}

impl AccessHistory {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.moves.len() as u64)
    }

    fn add(&mut self, mut made: AccessEvent) {
        // What is told between two commits may name an older one than what was told before it.
        if let Some(newest) = self.moves.back()
            && newest.counts_from() > made.counts_from()
        {
            (made.state, made.late) = (newest.state, newest.late);
        }
        self.moves.push_back(made);
        if self.moves.len() > KEPT_MAX
            && let Some(gone) = self.moves.pop_front()
        {
            self.first = self.first.saturating_add(1);
            self.since = gone.counts_from();
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/referential-authorization.md.

    use super::*;

    const ASKED: Attributes<'static> = Attributes {
        user: "contour",
        groups: &[],
        verb: "get",
        group: "",
        resource: "secrets",
        subresource: "",
        namespace: "shop",
        name: "tls",
    };

    fn noted(moves: &[(u64, bool, bool)]) -> RecentMoves {
        let recent = RecentMoves::default();
        recent.start(Revision(5));
        let of = recent.hasher.hash_one(("", "secrets", "shop", "tls"));
        for (state, late, gained) in moves.iter().copied() {
            let (state, together) = (Revision(state), recent.lock().end());
            recent.lock().add(AccessEvent { of, state, late, gained, lost: !gained, together });
        }
        recent
    }

    #[test]
    fn r180_what_was_gained_after_a_state_is_known() {
        let recent = noted(&[(7, false, true), (9, false, false)]);
        let at = |state| recent.after_state(&ASKED, Revision(state));
        assert!(at(4).forgotten);
        assert!(at(6).gained && at(6).newest == Revision(9));
        assert!(!at(7).gained && !at(7).broken);
        assert_eq!(at(9), MovedSince::default());
        let other = Attributes { name: "other", ..ASKED };
        assert_eq!(recent.after_state(&other, Revision(6)), MovedSince::default());
    }

    #[test]
    fn r180_what_was_lost_for_a_while_is_known() {
        let broken = |moves: &[_]| noted(moves).since_number(&ASKED, 0).broken;
        assert!(!broken(&[(7, false, false)]));
        assert!(!broken(&[(7, false, true), (8, false, false)]));
        assert!(broken(&[(7, false, false), (7, false, true)]));
    }

    #[test]
    fn r180_what_came_between_two_commits_counts_as_of_the_next() {
        let recent = noted(&[(7, true, true)]);
        assert!(!recent.after_state(&ASKED, Revision(7)).gained);
        assert!(recent.after_revision(&ASKED, Revision(7)).gained);
        assert!(!recent.after_revision(&ASKED, Revision(8)).gained);
    }

    #[test]
    fn r180_moves_are_bounded_and_what_is_forgotten_is_said() {
        let many: Vec<_> = (0..KEPT_MAX as u64 + 2).map(|at| (8 + at, false, true)).collect();
        let recent = noted(&many);
        assert!(recent.after_revision(&ASKED, Revision(8)).forgotten);
        assert!(recent.after_revision(&ASKED, Revision(9)).gained);
        assert!(recent.since_number(&ASKED, 1).forgotten);
        assert!(!recent.since_number(&ASKED, 2).forgotten);
    }
}
