//! How fast long answers leave, so that sending them never takes all processors (R242).
//!
//! ```text
//!   a piece is given ──► when may the next one be? ──► now, or a moment later
//!                         every user has an equal part; a little may always go at once
//! ```
//!
//! Encrypting and copying 64 KiB takes as long as several small answers, and many who list at once are served by
//! the same threads as everybody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fair_queue::Flow;

use crate::clock;

/// About a third of what a processor could send.
const BYTES_PER_SECOND_AND_PROCESSOR: u32 = 128 << 20;
/// So much goes at once after a pause.
const BURST_BYTES: u32 = 1 << 20;

/// All answers that are counted, and when their users may send on.
pub(crate) struct Rate {
    bytes_per_second: f64,
    // INVARIANT: holds those who sent something within a burst or wait to send.
    next: Mutex<HashMap<Box<str>, Instant>>,
}

/// The part of one user.
#[derive(Clone)]
pub(crate) struct Share {
    rate: Arc<Rate>,
    owner: Box<str>,
}

impl Rate {
    pub(crate) fn new() -> Arc<Rate> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        let bytes = f64::from(BYTES_PER_SECOND_AND_PROCESSOR) * f64::from(processors);
        Arc::new(Rate { bytes_per_second: bytes, next: Mutex::default() })
    }

    pub(crate) fn share(self: &Arc<Rate>, flow: Flow<'_>) -> Share {
        Share { rate: Arc::clone(self), owner: flow.owner().into() }
    }

    fn burst(&self) -> Duration {
        Duration::from_secs_f64(f64::from(BURST_BYTES) / self.bytes_per_second)
    }
}

impl Share {
    /// So many bytes were given; when the next may be, unless that is at once.
    pub(crate) fn given(&self, bytes: usize) -> Option<Instant> {
        self.given_at(bytes, clock::instant())
    }

    fn given_at(&self, bytes: usize, now: Instant) -> Option<Instant> {
        let rate = &self.rate;
        let earliest = now.checked_sub(rate.burst()).unwrap_or(now);
        // Nothing panics while it is held.
        let mut next = rate.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.retain(|_, next| *next >= earliest);
        let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        if !next.contains_key(&self.owner) {
            next.insert(self.owner.clone(), earliest);
        }
        let users = f64::from(u32::try_from(next.len()).unwrap_or(u32::MAX));
        let own = next.get_mut(&self.owner)?;
        *own += Duration::from_secs_f64(bytes * users / rate.bytes_per_second);
        Some(*own).filter(|own| *own > now)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    /// How much of 64 KiB pieces two users get within a second, each as fast as they may.
    fn sent_in_a_second(users: &[&str]) -> Vec<usize> {
        let rate = Rate::new();
        let begin = Instant::now();
        let send = |share: &Share, at: &mut Instant| {
            *at = share.given_at(64 << 10, *at).unwrap_or(*at);
            *at < begin + Duration::from_secs(1)
        };
        let mut all: Vec<(Share, Instant, usize)> =
            users.iter().map(|user| (rate.share(Flow::named(user)), begin, 0)).collect();
        while let Some((share, at, sent)) = all.iter_mut().min_by_key(|(_, at, _)| *at)
            && send(share, at)
        {
            *sent += 64 << 10;
        }
        all.into_iter().map(|(.., sent)| sent).collect()
    }

    #[test]
    fn r242_long_answers_leave_room_for_others_and_users_have_equal_parts() {
        let whole = Rate::new().bytes_per_second;
        #[expect(clippy::cast_precision_loss, reason = "the parts need few digits")]
        let part = |sent: usize| sent as f64 / whole;
        let alone = part(sent_in_a_second(&["alice"])[0]);
        assert!((0.95..1.1).contains(&alone), "{alone}");
        // Accounts of a namespace are one user here.
        let names =
            ["mallory", "system:serviceaccount:shop:a", "system:serviceaccount:shop:b", "alice"];
        let parts: Vec<f64> = sent_in_a_second(&names).into_iter().map(part).collect();
        assert!((0.28..0.40).contains(&parts[3]), "{parts:?}");
        assert!((0.28..0.40).contains(&(parts[1] + parts[2])), "{parts:?}");
        assert!(parts.iter().sum::<f64>() < 1.1, "{parts:?}");
    }

    #[test]
    fn r242_a_little_goes_at_once() {
        let share = Rate::new().share(Flow::named("alice"));
        let now = Instant::now();
        let at_once = (0..100).take_while(|_| share.given_at(64 << 10, now).is_none()).count();
        assert!((15..=16).contains(&at_once), "1 MiB and not {at_once} pieces");
    }
}
