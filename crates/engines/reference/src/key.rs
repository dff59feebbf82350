//! Texts as words. Names, namespaces and resources are short: nearly all fit into two words, which are
//! compared and hashed at once. What a decision takes, where memory is near, is mostly this.

use core::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;

/// The longest text that stands in two words, whose last byte is its length.
pub(crate) const INLINE: usize = 15;
/// In the place of the length of a text: it stands elsewhere.
pub(crate) const LONG: u64 = 0xFF << 56;

/// A text that something is sought by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextKey<'a> {
    pub(crate) text: &'a [u8],
    /// Of a long text its first bytes and its length.
    pub(crate) words: [u64; 2],
}

impl<'a> TextKey<'a> {
    #[inline]
    pub(crate) fn new(text: &'a str) -> TextKey<'a> {
        let text = text.as_bytes();
        let length = text.len();
        let words = match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => {
                let second = if length > INLINE {
                    LONG | u64::from(u16::try_from(length).unwrap_or(u16::MAX)) << 32
                } else {
                    // The last word overlaps the first, whose bytes are shifted out.
                    let rest = u64::from_le_bytes(*last) >> 8 >> ((INLINE - length) * 8);
                    rest | (length as u64) << 56
                };
                [u64::from_le_bytes(*first), second]
            }
            _ => [short_word(text), (length as u64) << 56],
        };
        TextKey { text, words }
    }

    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.text.len() > INLINE
    }

    #[inline]
    pub(crate) fn hash(&self, hasher: &FixedState) -> u64 {
        if self.is_long() { long_hash(self.text, hasher) } else { self.short_hash(hasher) }
    }

    /// As [`TextKey::hash`]. INVARIANT: this is not long.
    #[inline]
    pub(crate) fn short_hash(&self, hasher: &FixedState) -> u64 {
        let [first, second] = self.words;
        let mut hash = hasher.build_hasher();
        hash.write_u128(u128::from(first) | u128::from(second) << 64);
        hash.finish()
    }

    #[inline]
    pub(crate) fn has(&self, words: [u64; 2]) -> bool {
        let ([first, second], [one, two]) = (self.words, words);
        (first ^ one) | (second ^ two) == 0
    }
}

/// What long texts need stays out of the way of the others: it would take the registers they are in.
#[inline(never)]
fn long_hash(text: &[u8], hasher: &FixedState) -> u64 {
    let mut hash = hasher.build_hasher();
    hash.write(text);
    hash.finish()
}

/// Fewer than eight bytes as a word, the first one lowest.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let four = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
    if let (Some(start), Some(end)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // They may overlap, where they are the same.
        return four(start) | four(end) << ((length - 4) * 8);
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| u64::from(*byte) << (at * 8));
    byte(0) | byte(1) | byte(2)
}

/// The words of a text, the last one filled up.
pub(crate) fn words_of(text: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = text.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| short_word(rest));
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}

/// A one in every byte.
pub(crate) const ONES: u64 = u64::MAX / 0xFF;

/// The high bit of every byte that is zero, and perhaps of bytes after the first that is.
#[inline]
pub(crate) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// Whether two texts are the same, word by word: for texts as short as names that takes less time than the
/// call of a function that is good at long ones. And empty ones, such as the group of Secrets, are the same without
/// a look: `memcmp` may look at where they are, which is nowhere, and that takes some processors 100 ns.
#[inline]
pub(crate) fn same(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    // The last word overlaps the one before, so that no bytes are left over.
    if let (Some(one_end), Some(two_end)) = (one.last_chunk::<8>(), two.last_chunk::<8>()) {
        let words = one.as_chunks::<8>().0.iter().zip(two.as_chunks::<8>().0);
        return one_end == two_end && words.into_iter().all(|(one, two)| one == two);
    }
    if let (Some(one_end), Some(two_end)) = (one.last_chunk::<4>(), two.last_chunk::<4>()) {
        return one_end == two_end && one.first_chunk::<4>() == two.first_chunk::<4>();
    }
    one.iter().zip(two).all(|(one, two)| one == two)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    const TEXTS: [&str; 20] = [
        "",
        "a",
        "b",
        "abc",
        "abd",
        "1234",
        "1235",
        "2234",
        "1234567",
        "2234567",
        "12345678",
        "12345679",
        "x2345678",
        "123456789",
        "12345678x",
        "x23456789",
        "1234567812345678",
        "1234567812345679",
        "x234567812345678",
        "12345678x2345678",
    ];

    #[test]
    fn texts_are_the_same_exactly_when_they_are_equal() {
        for one in TEXTS {
            for two in TEXTS {
                assert_eq!(same(one.as_bytes(), two.as_bytes()), one == two, "{one} {two}");
            }
        }
    }

    #[test]
    fn a_short_text_is_its_words() {
        for length in 0..=INLINE {
            let text: String = "abcdefghijklmno".chars().take(length).collect();
            let [first, second] = TextKey::new(&text).words;
            let bytes = [first.to_le_bytes(), second.to_le_bytes()].concat();
            assert_eq!(bytes.get(..length), Some(text.as_bytes()));
            assert!(bytes.get(length..INLINE).is_some_and(|rest| rest.iter().all(|b| *b == 0)));
            assert_eq!(bytes.last().copied().map(usize::from), Some(length));
        }
    }

    #[test]
    fn hashes_tell_texts_of_every_length_apart() {
        let hasher = FixedState::with_seed(7);
        let texts = (0..64).flat_map(|length| {
            let text = "a".repeat(length);
            [format!("{text}b"), format!("{text}c"), text]
        });
        let hashes: alloc::collections::BTreeSet<u64> =
            texts.map(|text| TextKey::new(&text).hash(&hasher)).collect();
        assert_eq!(hashes.len(), 3 * 64);
    }
}
