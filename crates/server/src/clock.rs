//! Time and chance, drawn here and handed in everywhere else.

use ring::rand::{SecureRandom, SystemRandom};

/// Now as `metav1.Time` writes it: whole seconds, UTC.
#[must_use]
pub fn now() -> String {
    seconds_after(0)
}

/// As [`now`], some seconds later.
#[must_use]
pub fn seconds_after(seconds: i64) -> String {
    time_after(seconds).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Some seconds from now as HTTP headers write it.
#[must_use]
pub(crate) fn http_date_after(seconds: i64) -> String {
    time_after(seconds).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn time_after(seconds: i64) -> jiff::Timestamp {
    let at = jiff::Timestamp::now().as_second().saturating_add(seconds);
    jiff::Timestamp::from_second(at).unwrap_or(jiff::Timestamp::MAX)
}

/// A source of uids, name suffixes and addresses.
#[derive(Debug)]
pub struct Chance {
    source: SystemRandom,
}

impl Default for Chance {
    fn default() -> Chance {
        Chance { source: SystemRandom::new() }
    }
}

impl Chance {
    /// Random bytes; zeroes only if the operating system has none to give.
    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        if self.source.fill(&mut bytes).is_err() {
            tracing::error!("the operating system gives no random bytes");
        }
        bytes
    }

    /// A version-4 UUID.
    #[must_use]
    pub fn uid(&self) -> String {
        let mut number = u128::from_be_bytes(self.bytes());
        number = (number & !(0xf << 76)) | (0x4 << 76);
        number = (number & !(0x3 << 62)) | (0x2 << 62);
        let hex = format!("{number:032x}");
        let mut text = String::with_capacity(36);
        for (at, digit) in hex.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit);
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
    fn r56_uids_are_version_four() {
        let uid = Chance::default().uid();
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
