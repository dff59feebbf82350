//! Texts and uids as small numbers: every distinct text is kept once and dropped after its last use.

use alloc::string::String;
use core::fmt::Write as _;
use core::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::slab::{DefaultingSlab, NONE};

/// The number of a text.
pub(crate) type NameId = u32;

/// Where a text lies, and how often it is used.
#[derive(Clone, Copy, Debug, Default)]
struct InternedText {
    at: u32,
    length: u32,
    uses: u32,
}

/// The texts in use: names, namespaces, kinds and uids that are no UUIDs.
///
/// They lie one behind the other; what is no longer used is squeezed out now and then.
#[derive(Clone, Debug)]
pub(crate) struct NameInterner {
    texts: String,
    /// How many bytes of the texts are no longer used.
    unused: usize,
    entries: DefaultingSlab<InternedText>,
    index: HashTable<NameId>,
    hasher: FixedState,
}

/// Below this many unused bytes nothing is squeezed out.
const UNUSED_MIN: usize = 1 << 16;

impl NameInterner {
    pub(crate) fn new(hasher: FixedState) -> NameInterner {
        let (entries, index) = (DefaultingSlab::new(), HashTable::new());
        NameInterner { texts: String::new(), unused: 0, entries, index, hasher }
    }

    /// Makes room for so many more texts.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
        self.texts.reserve(count * 12);
        let (texts, entries, hasher) = (&self.texts, &self.entries, &self.hasher);
        self.index.reserve(count, |id| hash_of(hasher, text_of(texts, entries.get(*id))));
    }

    /// The number of a text, if it is in use.
    pub(crate) fn find(&self, text: &str) -> Option<NameId> {
        let hash = hash_of(&self.hasher, text);
        self.index.find(hash, |id| self.text(*id) == text).copied()
    }

    /// The number of a text, which is used once more from now on.
    pub(crate) fn hold(&mut self, text: &str) -> NameId {
        if let Some(id) = self.find(text) {
            self.keep(id);
            return id;
        }
        let at = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push_str(text);
        let length = u32::try_from(text.len()).unwrap_or_default();
        let id = self.entries.insert(InternedText { at, length, uses: 1 });
        let (texts, entries, hasher) = (&self.texts, &self.entries, &self.hasher);
        let rehash = |id: &NameId| hash_of(hasher, text_of(texts, entries.get(*id)));
        self.index.insert_unique(hash_of(hasher, text), id, rehash);
        id
    }

    /// Uses a text that is in use once more.
    pub(crate) fn keep(&mut self, id: NameId) {
        self.entries.get_mut(id).uses += 1;
    }

    /// Uses a text once less.
    pub(crate) fn release(&mut self, id: NameId) {
        let entry = self.entries.get_mut(id);
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses > 0 {
            return;
        }
        let length = entry.length as usize;
        let hash = hash_of(&self.hasher, self.text(id));
        if let Ok(found) = self.index.find_entry(hash, |other| *other == id) {
            found.remove();
            self.entries.remove(id);
            self.unused += length;
            if self.unused > UNUSED_MIN && self.unused * 2 > self.texts.len() {
                self.squeeze();
            }
        }
    }

    /// Writes the texts that are in use anew, without gaps.
    fn squeeze(&mut self) {
        let mut texts = String::with_capacity(self.texts.len() - self.unused);
        for id in 0..self.entries.end() {
            let entry = self.entries.get_mut(id);
            if entry.uses > 0 {
                let at = u32::try_from(texts.len()).unwrap_or(u32::MAX);
                texts.push_str(text_of(&self.texts, entry));
                entry.at = at;
            }
        }
        self.texts = texts;
        self.unused = 0;
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        text_of(&self.texts, self.entries.get(id))
    }
}

fn text_of<'a>(texts: &'a str, entry: &InternedText) -> &'a str {
    let at = entry.at as usize;
    texts.get(at..at + entry.length as usize).unwrap_or_default()
}

fn hash_of(hasher: &FixedState, text: &str) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(text.as_bytes());
    state.finish()
}

/// The value of each lower-case digit; more than any digit has for everything else.
#[expect(clippy::indexing_slicing, reason = "worked out by the compiler, which checks it")]
const DIGITS: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        let digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        table[digit as usize] = value;
        value += 1;
    }
    table
};

/// Sixteen digits and two hyphens of a UUID; `wrong` exceeds a digit's value if they are not.
#[inline]
fn half(bytes: &[u8], hyphens: [usize; 2], wrong: &mut u8) -> u64 {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate() {
        if hyphens.contains(&at) {
            *wrong |= if *byte == b'-' { 0 } else { 0xff };
            continue;
        }
        let digit = DIGITS.get(usize::from(*byte)).copied().unwrap_or(0xff);
        *wrong |= digit;
        value = value << 4 | u64::from(digit & 0xf);
    }
    value
}

/// A uid: the 128 bits of a UUID, or the number of any other text.
///
/// INVARIANT: `high` is all ones exactly for texts that are kept among the names, so two uids are
/// equal exactly when their texts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Uid {
    pub(crate) high: u64,
    pub(crate) low: u64,
}

impl Default for Uid {
    fn default() -> Uid {
        Uid { high: u64::MAX, low: u64::from(NONE) }
    }
}

impl Uid {
    /// Reads the usual form of a UUID: lower case, with hyphens.
    #[inline]
    pub(crate) fn parse(text: &str) -> Option<Uid> {
        let bytes: &[u8; 36] = text.as_bytes().try_into().ok()?;
        let (high, low) = bytes.split_at_checked(18)?;
        let mut wrong = 0;
        let high = half(high, [8, 13], &mut wrong);
        let low = half(low, [0, 5], &mut wrong);
        // All ones is how other texts are marked, so such a UUID is kept as text.
        (wrong <= 0xf && high != u64::MAX).then_some(Uid { high, low })
    }

    fn other(id: NameId) -> Uid {
        Uid { high: u64::MAX, low: u64::from(id) }
    }

    fn name(self) -> Option<NameId> {
        (self.high == u64::MAX).then_some(u32::try_from(self.low).unwrap_or(NONE))
    }

    pub(crate) fn find(text: &str, names: &NameInterner) -> Option<Uid> {
        Uid::parse(text).or_else(|| names.find(text).map(Uid::other))
    }

    pub(crate) fn hold(text: &str, names: &mut NameInterner) -> Uid {
        Uid::parse(text).unwrap_or_else(|| Uid::other(names.hold(text)))
    }

    pub(crate) fn release(self, names: &mut NameInterner) {
        if let Some(id) = self.name() {
            names.release(id);
        }
    }

    pub(crate) fn hash(self, hasher: &FixedState) -> u64 {
        let mut state = hasher.build_hasher();
        state.write_u64(self.high);
        state.write_u64(self.low);
        state.finish()
    }

    /// The uid as it is written.
    pub(crate) fn text(self, names: &NameInterner) -> String {
        if let Some(id) = self.name() {
            return names.text(id).into();
        }
        let (a, b, c) = (self.high >> 32, (self.high >> 16) & 0xffff, self.high & 0xffff);
        let (d, e) = (self.low >> 48, self.low & 0xffff_ffff_ffff);
        let mut text = String::with_capacity(36);
        // Writing into a string cannot fail.
        let _ = write!(text, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}");
        text
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_text_lives_as_long_as_it_is_used() {
        let mut names = NameInterner::new(FixedState::with_seed(1));
        let (a, again) = (names.hold("a"), names.hold("a"));
        assert_eq!(a, again);
        names.release(a);
        assert_eq!(names.find("a"), Some(a));
        names.release(a);
        assert_eq!(names.find("a"), None);
    }

    #[test]
    fn texts_survive_the_squeezing_out_of_others() {
        let mut names = NameInterner::new(FixedState::with_seed(1));
        let kept: Vec<NameId> = (0..100).map(|n| names.hold(&format!("kept-{n}"))).collect();
        for number in 0..20_000 {
            let id = names.hold(&format!("a-longer-text-that-goes-again-{number}"));
            names.release(id);
        }
        assert!(names.texts.len() < 2 * UNUSED_MIN + 4096, "{}", names.texts.len());
        for (number, id) in kept.iter().enumerate() {
            assert_eq!(names.text(*id), format!("kept-{number}"));
        }
    }

    #[test]
    fn uids_are_equal_exactly_when_their_texts_are() {
        let mut names = NameInterner::new(FixedState::with_seed(1));
        let texts = [
            "97a3c9d2-0000-4000-8000-00000000000a",
            "97A3C9D2-0000-4000-8000-00000000000a",
            "ffffffff-ffff-ffff-0000-000000000001",
            "97a3c9d2_0000-4000-8000-00000000000a",
            "97a3c9d200004000800000000000000a",
            "short",
            "",
        ];
        let uids = texts.map(|text| Uid::hold(text, &mut names));
        for (n, uid) in uids.iter().enumerate() {
            assert_eq!(uid.text(&names), texts[n]);
            assert_eq!(uids.iter().filter(|other| *other == uid).count(), 1);
        }
        assert!(Uid::parse(texts[0]).is_some() && Uid::parse(texts[2]).is_none());
    }
}
