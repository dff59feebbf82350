//! Whose turn it is: keys that wait, keys at work, keys that sleep until a time (PU6).
//!
//! A key is at work once at a time; what wakes it meanwhile brings it back afterwards. While many keys
//! are busy, one that had its turn has a break first: what wakes it meanwhile is done in one turn. Keys
//! that bring to an end what others began come before those that begin more.
//! Time comes in; nothing here waits. The clock is read only to tell how long keys waited.
//!
//! ```text
//!   wake ──► waiting ──► take ──► at work ──► finish ──► idle, or sleep until a time
//!               ▲                               └─ many are busy ──► break ──┐
//!               └────────────────────────── woken meanwhile ◄───────────────┘
//! ```

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::clock;
use crate::retry::wait_after;

/// With more keys than this waiting or at work, everyone has a break after a turn.
const BUSY: usize = 64;
/// How long a break lasts at least.
const BREAK: Duration = Duration::from_millis(100);
/// A break is so many times as long as the decision before it took: one key alone never takes most of
/// the time.
const SHARE: u32 = 4;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// All was done; call again after this time if nothing happens before.
    Done(Option<Duration>),
    /// Something was refused: again after a while that grows.
    Failed {
        /// No wait is longer.
        within: Duration,
    },
}

/// What happens to a key, for those who measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueStep {
    /// It is to have a turn, and was not before.
    Added,
    /// Its turn begins.
    Taken {
        /// How long ago it was added.
        waited: Duration,
    },
    /// Its turn has ended.
    Finished {
        /// How long the turn took.
        worked: Duration,
        /// Whether it is tried again.
        failed: bool,
    },
}

#[derive(Debug, Default)]
struct KeyState {
    waiting: bool,
    at_work: bool,
    on_break: bool,
    /// Whether something concerned it while it was at work or on a break.
    woken: bool,
    failures: u32,
    sleeps_until: Option<(Instant, u64)>,
    /// When it was first woken since its last turn began.
    added: Option<Instant>,
    /// When its turn began.
    taken: Option<Instant>,
}

/// Is told what happens to keys.
type Meter<K> = Box<dyn Fn(&K, QueueStep)>;

/// A queue of keys without repetition.
pub(crate) struct WorkQueue<K> {
    comes_first: Box<dyn Fn(&K) -> bool>,
    /// Decides nothing.
    meter: Meter<K>,
    first: VecDeque<K>,
    waiting: VecDeque<K>,
    states: HashMap<K, KeyState>,
    // INVARIANT: holds exactly the `sleeps_until` of all states.
    sleeping: BTreeMap<(Instant, u64), K>,
    sleeps: u64,
    /// Keys on a break by its end.
    breaks: BTreeMap<(Instant, u64), K>,
    /// How many of them were woken.
    held: usize,
    at_work: usize,
    /// How many sleep because something was refused.
    failing: usize,
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    /// An empty queue, and who in it comes first.
    pub(crate) fn new(comes_first: impl Fn(&K) -> bool + 'static) -> WorkQueue<K> {
        WorkQueue {
            comes_first: Box::new(comes_first),
            meter: Box::new(|_, _| {}),
            first: VecDeque::new(),
            waiting: VecDeque::new(),
            states: HashMap::new(),
            sleeping: BTreeMap::new(),
            sleeps: 0,
            breaks: BTreeMap::new(),
            held: 0,
            at_work: 0,
            failing: 0,
        }
    }

    /// The same, and whoever measures it.
    pub(crate) fn metered(self, meter: impl Fn(&K, QueueStep) + 'static) -> WorkQueue<K> {
        WorkQueue { meter: Box::new(meter), ..self }
    }

    /// Something concerns a key.
    pub(crate) fn wake(&mut self, key: K) {
        let state = self.states.entry(key.clone()).or_default();
        if state.added.is_none() {
            state.added = Some(clock::instant());
            (self.meter)(&key, QueueStep::Added);
        }
        if state.at_work {
            state.woken = true;
        } else if state.on_break {
            self.held += usize::from(!state.woken);
            state.woken = true;
        } else if !state.waiting {
            state.waiting = true;
            let line = if (self.comes_first)(&key) { &mut self.first } else { &mut self.waiting };
            line.push_back(key);
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
        self.end_breaks(now);
        let key = self.first.pop_front().or_else(|| self.waiting.pop_front())?;
        let state = self.states.entry(key.clone()).or_default();
        state.waiting = false;
        state.at_work = true;
        state.taken = Some(now);
        let waited =
            state.added.take().map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        (self.meter)(&key, QueueStep::Taken { waited });
        self.at_work += 1;
        if let Some(slot) = state.sleeps_until.take() {
            self.sleeping.remove(&slot);
        }
        Some(key)
    }

    /// Those whose break is over wait again if something concerned them meanwhile.
    fn end_breaks(&mut self, now: Instant) {
        while let Some(entry) = self.breaks.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            let Some(state) = self.states.get_mut(&key) else { continue };
            state.on_break = false;
            if std::mem::take(&mut state.woken) {
                self.held -= 1;
                self.wake(key);
            } else if state.sleeps_until.is_none() {
                self.states.remove(&key);
            }
        }
    }

    /// A turn has ended, whose decision took so long.
    pub(crate) fn finish(&mut self, key: K, finished: Finished, took: Duration, now: Instant) {
        let busy = self.is_busy();
        let Some(state) = self.states.get_mut(&key) else { return };
        state.at_work = false;
        self.at_work -= 1;
        let worked = state.taken.take().map_or(took, |at| now.saturating_duration_since(at));
        let failed = matches!(finished, Finished::Failed { .. });
        (self.meter)(&key, QueueStep::Finished { worked, failed });
        let was_failing = state.failures > 0;
        let wait = match finished {
            Finished::Done(wait) => {
                state.failures = 0;
                wait
            }
            Finished::Failed { within } => {
                state.failures = state.failures.saturating_add(1);
                Some(wait_after(state.failures).min(within))
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
        let rest = took.saturating_mul(SHARE).max(BREAK);
        if busy && let Some(end) = now.checked_add(rest) {
            state.on_break = true;
            self.held += usize::from(state.woken);
            self.sleeps += 1;
            self.breaks.insert((end, self.sleeps), key);
        } else if std::mem::take(&mut state.woken) {
            self.wake(key);
        } else if state.sleeps_until.is_none() {
            self.states.remove(&key);
        }
    }

    /// When the first sleeper or the first break is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let sleeper = self.sleeping.keys().next().map(|(at, _)| *at);
        let on_break = self.breaks.keys().next().map(|(end, _)| *end);
        sleeper.into_iter().chain(on_break).min()
    }

    /// How many wait for their turn or are at it.
    pub(crate) fn depth(&self) -> usize {
        self.first.len() + self.waiting.len() + self.held + self.at_work
    }

    /// Whether so much is to be done that everyone has a break after a turn.
    pub(crate) fn is_busy(&self) -> bool {
        self.depth() > BUSY
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

    const FAILED: Finished = Finished::Failed { within: Duration::from_secs(60) };

    fn queue() -> (WorkQueue<&'static str>, Instant) {
        (WorkQueue::new(|_| false), Instant::now())
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
        queue.finish("a", Finished::Done(None), Duration::ZERO, now);
        assert_eq!(queue.take(now), Some("a"));
        queue.finish("a", Finished::Done(None), Duration::ZERO, now);
        assert!(queue.is_idle() && queue.states.is_empty());
    }

    #[test]
    fn whoever_measures_is_told_of_each_turn_once() {
        let reported = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let steps = std::rc::Rc::clone(&reported);
        let (queue, now) = queue();
        let mut queue = queue.metered(move |key, step| steps.borrow_mut().push((*key, step)));
        queue.wake("a");
        queue.wake("a");
        let later = now + Duration::from_secs(3600);
        queue.take(later);
        // Woken twice while it is at work: one more turn.
        queue.wake("a");
        queue.wake("a");
        let end = later + Duration::from_secs(2);
        queue.finish("a", FAILED, Duration::ZERO, end);
        queue.take(end);
        queue.finish("a", Finished::Done(None), Duration::ZERO, end);
        let reported = reported.borrow();
        let adds = reported.iter().filter(|(_, step)| *step == QueueStep::Added).count();
        assert_eq!((reported.len(), adds), (6, 2), "{reported:?}");
        let worked = Duration::from_secs(2);
        assert!(
            reported.contains(&("a", QueueStep::Finished { worked, failed: true })),
            "{reported:?}"
        );
        let waited = reported.iter().find_map(|(_, step)| match step {
            QueueStep::Taken { waited } => Some(waited.as_secs()),
            _ => None,
        });
        assert!(waited.is_some_and(|seconds| (3590..=3600).contains(&seconds)), "{reported:?}");
    }

    #[test]
    fn pu6_failures_wait_longer_each_time_and_success_forgets_them() {
        let (mut queue, now) = queue();
        queue.wake("a");
        let mut at = now;
        for millis in [5, 10, 20] {
            assert_eq!(queue.take(at), Some("a"));
            queue.finish("a", FAILED, Duration::ZERO, at);
            assert!(!queue.is_idle());
            assert_eq!(queue.due(), at.checked_add(Duration::from_millis(millis)));
            assert_eq!(queue.take(at), None);
            at = queue.due().unwrap();
        }
        assert_eq!(queue.take(at), Some("a"));
        queue.finish("a", Finished::Done(None), Duration::ZERO, at);
        assert!(queue.is_idle());
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn pu6_while_many_are_busy_what_wakes_a_key_is_done_in_one_turn() {
        let mut queue = WorkQueue::new(|_| false);
        let now = Instant::now();
        for key in 0..=BUSY {
            queue.wake(key);
        }
        assert_eq!(queue.take(now), Some(0));
        queue.finish(0, Finished::Done(None), Duration::ZERO, now);
        queue.wake(0);
        queue.wake(0);
        assert_eq!(queue.depth(), BUSY + 1, "who is woken on a break is not done");
        while let Some(key) = queue.take(now) {
            assert_ne!(key, 0, "it has a break");
            queue.finish(key, Finished::Done(None), Duration::ZERO, now);
        }
        assert!(!queue.is_idle());
        let end = queue.due().unwrap();
        assert_eq!(end, now + BREAK);
        assert_eq!(queue.take(end), Some(0));
        queue.finish(0, Finished::Done(None), Duration::ZERO, end);
        assert_eq!(queue.take(end), None);
        assert!(queue.is_idle() && queue.states.is_empty() && queue.due().is_none());
    }

    #[test]
    fn pu6_who_brings_to_an_end_comes_first_and_nobody_takes_most_of_the_time() {
        let mut queue = WorkQueue::new(|key: &usize| *key == 7);
        let now = Instant::now();
        for key in 100..=100 + BUSY {
            queue.wake(key);
        }
        queue.wake(7);
        assert_eq!(queue.take(now), Some(7));
        queue.finish(7, Finished::Done(None), BREAK, now);
        queue.wake(7);
        assert_eq!(queue.take(now + BREAK), Some(100), "others have their turns between");
        assert_eq!(queue.take(now + BREAK * SHARE), Some(7));
    }

    #[test]
    fn pu6_a_key_that_failed_is_not_forgotten_during_its_break() {
        let mut queue = WorkQueue::new(|_| false);
        let now = Instant::now();
        for key in 0..=BUSY {
            queue.wake(key);
        }
        queue.take(now);
        queue.finish(0, FAILED, Duration::ZERO, now);
        let after = now + BREAK;
        let taken: Vec<usize> = std::iter::from_fn(|| queue.take(after)).collect();
        assert_eq!(taken.last(), Some(&0), "it tries again");
    }

    #[test]
    fn pu6_a_wish_for_later_is_replaced_by_the_next_one() {
        let (mut queue, now) = queue();
        queue.wake("a");
        queue.take(now);
        queue.finish("a", Finished::Done(Some(Duration::from_secs(60))), Duration::ZERO, now);
        assert!(queue.is_idle(), "sleeping until a time is rest");
        queue.wake("a");
        assert_eq!(queue.take(now), Some("a"));
        assert_eq!(queue.due(), None);
        queue.finish("a", Finished::Done(Some(Duration::from_secs(5))), Duration::ZERO, now);
        assert_eq!(queue.due(), now.checked_add(Duration::from_secs(5)));
        assert_eq!(queue.take(now + Duration::from_secs(5)), Some("a"));
    }
}
