//! Time and randomness, read here and handed in everywhere else.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that reads the clock and draws randomness"
)]

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

/// Now, for waiting and for how long things take.
#[inline]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Now, as tokio's timers count it, which tests may hold.
#[inline]
pub(crate) fn timer_instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Now, to the nanosecond.
#[inline]
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Stops this thread, which must be nobody else's, for a while.
#[inline]
pub(crate) fn block_for(duration: Duration) {
    std::thread::sleep(duration);
}

/// Now as `metav1.Time` writes it: whole seconds, UTC.
#[must_use]
pub fn now() -> String {
    thread_local! {
        // Every write asks several times, and a second is long.
        static WRITTEN: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    let second = timestamp().as_second();
    WRITTEN.with_borrow_mut(|(of, text)| {
        if *of != second {
            (*of, *text) = (second, written(second));
        }
        text.clone()
    })
}

/// As [`now`], some seconds later.
#[must_use]
pub fn seconds_after(seconds: i64) -> String {
    written(time_after(seconds).as_second())
}

fn written(second: i64) -> String {
    let at = jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Some seconds from now as HTTP headers write it.
#[must_use]
pub(crate) fn http_date_after(seconds: i64) -> String {
    time_after(seconds).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn time_after(seconds: i64) -> jiff::Timestamp {
    let at = timestamp().as_second().saturating_add(seconds);
    jiff::Timestamp::from_second(at).unwrap_or(jiff::Timestamp::MAX)
}

/// How many random bytes are fetched at a time: a call of the system for each uid costs more than the uid.
const FETCHED_BYTES: usize = 1024;

/// A source of uids, name suffixes and addresses.
#[derive(Debug)]
pub struct Chance {
    source: SystemRandom,
    /// What was fetched and not handed out yet.
    fetched: Mutex<Vec<u8>>,
}

impl Default for Chance {
    fn default() -> Chance {
        Chance { source: SystemRandom::new(), fetched: Mutex::default() }
    }
}

impl Chance {
    /// Random bytes, each handed out once; zeroes only if the operating system has none to give.
    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if fetched.len() < N {
            fetched.resize(FETCHED_BYTES.max(N), 0);
            if self.source.fill(&mut fetched).is_err() {
                tracing::error!("the operating system gives no random bytes");
            }
        }
        let mut bytes = [0; N];
        let from = fetched.len() - N;
        for (byte, given) in bytes.iter_mut().zip(fetched.drain(from..)) {
            *byte = given;
        }
        bytes
    }

    /// A version-4 UUID.
    #[must_use]
    pub fn uid(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut number = u128::from_be_bytes(self.bytes());
        number = (number & !(0xf << 76)) | (0x4 << 76);
        number = (number & !(0x3 << 62)) | (0x2 << 62);
        let mut text = String::with_capacity(36);
        for (at, byte) in number.to_be_bytes().into_iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for digit in [byte >> 4, byte & 0xf] {
                text.extend(DIGITS.get(usize::from(digit)).map(|digit| char::from(*digit)));
            }
        }
        text
    }

    /// A number nobody can guess.
    #[must_use]
    pub fn seed(&self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }

    /// Five characters that form no words.
    #[must_use]
    pub fn suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.bytes::<5>()
            .iter()
            .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
            .map(|byte| char::from(*byte))
            .collect()
    }

    /// A number below `bound`.
    #[must_use]
    pub fn below(&self, bound: u32) -> u32 {
        u32::from_be_bytes(self.bytes()).checked_rem(bound).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r56_what_was_handed_out_is_not_handed_out_again() {
        let chance = Chance::default();
        let uids: std::collections::BTreeSet<String> = (0..1000).map(|_| chance.uid()).collect();
        assert_eq!(uids.len(), 1000);
        assert!(chance.fetched.lock().unwrap().len() < FETCHED_BYTES);
    }

    #[test]
    fn r56_uids_are_version_four() {
        let uid = Chance::default().uid();
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_ne!(uid, Chance::default().uid());
    }

    #[test]
    fn r58_times_are_whole_seconds() {
        let now = now();
        assert_eq!(now.len(), 20, "{now}");
        assert!(now.ends_with('Z'));
    }
}
