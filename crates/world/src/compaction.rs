//! When to compact, decided from a time that is handed in.

use std::time::Duration;

use tenure_core::Revision;

/// Compacts, each interval, to the revision that was newest one interval ago.
///
/// So at least one interval of history is kept, and at most two.
#[derive(Clone, Debug)]
pub struct Compaction {
    interval: Duration,
    seen: Option<(Duration, Revision)>,
}

impl Compaction {
    /// A policy with an interval; five minutes is what clients are used to.
    #[must_use]
    pub fn every(interval: Duration) -> Compaction {
        Compaction { interval, seen: None }
    }

    /// What to compact to at this time, if anything; `now` counts from any fixed moment.
    pub fn due(&mut self, now: Duration, newest: Revision) -> Option<Revision> {
        let Some((at, seen)) = self.seen else {
            self.seen = Some((now, newest));
            return None;
        };
        if now.saturating_sub(at) < self.interval {
            return None;
        }
        self.seen = Some((now, newest));
        (seen > Revision::ZERO).then_some(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compacts_to_the_revision_seen_one_interval_ago() {
        let mut policy = Compaction::every(Duration::from_secs(300));
        let at = Duration::from_secs;
        assert_eq!(policy.due(at(0), Revision(5)), None);
        assert_eq!(policy.due(at(299), Revision(8)), None);
        assert_eq!(policy.due(at(300), Revision(9)), Some(Revision(5)));
        assert_eq!(policy.due(at(301), Revision(10)), None);
        assert_eq!(policy.due(at(700), Revision(20)), Some(Revision(9)));
    }

    #[test]
    fn an_empty_world_needs_no_compaction() {
        let mut policy = Compaction::every(Duration::from_secs(300));
        assert_eq!(policy.due(Duration::ZERO, Revision::ZERO), None);
        assert_eq!(policy.due(Duration::from_secs(300), Revision(1)), None);
    }
}
