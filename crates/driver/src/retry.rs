//! When something that was refused is tried again: later each time (R142).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// The first wait after a failure; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(5);
/// No wait is longer.
pub(crate) const MOST: Duration = Duration::from_secs(1000);

/// How long to wait after so many failures in a row.
pub(crate) fn wait_after(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(MOST)
}

/// Things that failed, by uid.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    failures: HashMap<Box<str>, u32>,
    due: BTreeSet<(Instant, Box<str>)>,
    // INVARIANT: holds exactly the uids of `due`.
    waiting: HashSet<Box<str>>,
}

impl Retries {
    /// It failed once more.
    pub(crate) fn fail(&mut self, uid: Box<str>, now: Instant) {
        let failures = self.failures.entry(uid.clone()).or_default();
        *failures = failures.saturating_add(1);
        if let Some(at) = now.checked_add(wait_after(*failures))
            && self.waiting.insert(uid.clone())
        {
            self.due.insert((at, uid));
        }
    }

    /// It succeeded, or is gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.failures.remove(uid);
    }

    /// One that should be tried now.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Box<str>> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, uid) = self.due.pop_first()?;
        self.waiting.remove(&uid);
        Some(uid)
    }

    /// Whether it failed and its time has not come.
    pub(crate) fn is_waiting(&self, uid: &str) -> bool {
        self.waiting.contains(uid)
    }

    /// When the next should be tried.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether nothing waits to be tried again.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/ownership.md.
    use super::*;

    #[test]
    fn r142_each_failure_waits_longer_until_one_succeeds() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        for millis in [5, 10, 20, 40] {
            retries.fail("u".into(), now);
            assert_eq!(retries.due(), now.checked_add(Duration::from_millis(millis)));
            assert_eq!(retries.take(now), None);
            assert_eq!(retries.take(now + Duration::from_millis(millis)), Some("u".into()));
        }
        retries.forget("u");
        retries.fail("u".into(), now);
        assert_eq!(retries.due(), now.checked_add(FIRST));
        assert_eq!(wait_after(u32::MAX), MOST);
    }
}
