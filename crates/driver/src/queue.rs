//! Whose turn it is: keys that wait, keys at work, keys that sleep until a time (PU6).
//!
//! A key is at work once at a time; what wakes it meanwhile brings it back afterwards.
//! Time comes in; nothing here waits.
//!
//! ```text
//!   wake ──► waiting ──► take ──► at work ──► finish ──► rest, or wait again, or sleep
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::retry::wait_after;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// All was done; call again after this time if nothing happens before.
    Done(Option<Duration>),
    /// Something was refused: again after a while that grows.
    Failed,
}

#[derive(Debug, Default)]
struct State {
    waiting: bool,
    at_work: bool,
    woken: bool,
    failures: u32,
    sleeps_until: Option<(Instant, u64)>,
}

/// A queue of keys without repetition.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    waiting: VecDeque<K>,
    states: HashMap<K, State>,
    // INVARIANT: holds exactly the `sleeps_until` of all states.
    sleeping: BTreeMap<(Instant, u64), K>,
    sleeps: u64,
    at_work: usize,
    /// How many sleep because something was refused.
    failing: usize,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new() -> Queue<K> {
        Queue {
            waiting: VecDeque::new(),
            states: HashMap::new(),
            sleeping: BTreeMap::new(),
            sleeps: 0,
            at_work: 0,
            failing: 0,
        }
    }

    /// Something concerns a key.
    pub(crate) fn wake(&mut self, key: K) {
        let state = self.states.entry(key.clone()).or_default();
        if state.at_work {
            state.woken = true;
        } else if !state.waiting {
            state.waiting = true;
            self.waiting.push_back(key);
        }
    }

    /// The key whose turn it is.
    pub(crate) fn take(&mut self, now: Instant) -> Option<K> {
        while let Some(entry) = self.sleeping.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            if let Some(state) = self.states.get_mut(&key) {
                state.sleeps_until = None;
            }
            self.wake(key);
        }
        let key = self.waiting.pop_front()?;
        let state = self.states.entry(key.clone()).or_default();
        state.waiting = false;
        state.at_work = true;
        self.at_work += 1;
        if let Some(slot) = state.sleeps_until.take() {
            self.sleeping.remove(&slot);
        }
        Some(key)
    }

    /// A turn has ended.
    pub(crate) fn finish(&mut self, key: K, finished: Finished, now: Instant) {
        let Some(state) = self.states.get_mut(&key) else { return };
        state.at_work = false;
        self.at_work -= 1;
        let was_failing = state.failures > 0;
        let wait = match finished {
            Finished::Done(wait) => {
                state.failures = 0;
                wait
            }
            Finished::Failed => {
                state.failures = state.failures.saturating_add(1);
                Some(wait_after(state.failures))
            }
        };
        match (was_failing, state.failures > 0) {
            (false, true) => self.failing += 1,
            (true, false) => self.failing -= 1,
            _ => {}
        }
        if let Some(at) = wait.and_then(|wait| now.checked_add(wait)) {
            self.sleeps += 1;
            state.sleeps_until = Some((at, self.sleeps));
            self.sleeping.insert((at, self.sleeps), key.clone());
        }
        let woken = std::mem::take(&mut state.woken);
        if woken {
            self.wake(key);
        } else if state.sleeps_until.is_none() {
            self.states.remove(&key);
        }
    }

    /// When the first sleeper is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.sleeping.keys().next().map(|(at, _)| *at)
    }

    /// How many wait for their turn or are at it.
    pub(crate) fn depth(&self) -> usize {
        self.waiting.len() + self.at_work
    }

    /// Whether nobody waits, works, or will try again after a failure.
    pub(crate) fn is_idle(&self) -> bool {
        self.depth() == 0 && self.failing == 0
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;

    fn queue() -> (Queue<&'static str>, Instant) {
        (Queue::new(), Instant::now())
    }

    #[test]
    fn pu6_a_key_waits_once_and_works_once() {
        let (mut queue, now) = queue();
        queue.wake("a");
        queue.wake("a");
        assert_eq!(queue.take(now), Some("a"));
        assert_eq!(queue.take(now), None);
        queue.wake("a");
        assert_eq!(queue.take(now), None, "it is at work");
        queue.finish("a", Finished::Done(None), now);
        assert_eq!(queue.take(now), Some("a"));
        queue.finish("a", Finished::Done(None), now);
        assert!(queue.is_idle() && queue.states.is_empty());
    }

    #[test]
    fn pu6_failures_wait_longer_each_time_and_success_forgets_them() {
        let (mut queue, now) = queue();
        queue.wake("a");
        let mut at = now;
        for millis in [5, 10, 20] {
            assert_eq!(queue.take(at), Some("a"));
            queue.finish("a", Finished::Failed, at);
            assert!(!queue.is_idle());
            assert_eq!(queue.due(), at.checked_add(Duration::from_millis(millis)));
            assert_eq!(queue.take(at), None);
            at = queue.due().unwrap();
        }
        assert_eq!(queue.take(at), Some("a"));
        queue.finish("a", Finished::Done(None), at);
        assert!(queue.is_idle());
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn pu6_a_wish_for_later_is_replaced_by_the_next_one() {
        let (mut queue, now) = queue();
        queue.wake("a");
        queue.take(now);
        queue.finish("a", Finished::Done(Some(Duration::from_secs(60))), now);
        assert!(queue.is_idle(), "sleeping until a time is rest");
        queue.wake("a");
        assert_eq!(queue.take(now), Some("a"));
        assert_eq!(queue.due(), None);
        queue.finish("a", Finished::Done(Some(Duration::from_secs(5))), now);
        assert_eq!(queue.due(), now.checked_add(Duration::from_secs(5)));
        assert_eq!(queue.take(now + Duration::from_secs(5)), Some("a"));
    }
}
