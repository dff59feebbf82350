//! Targets by name, laid out so that a question touches as little memory as it can.
//!
//! ```text
//!   hash ──► shard ──► marks, a byte for each slot ──► slot: place, name and two sets, half a line of a cache
//! ```
//!
//! At a million targets memory is what a decision costs. A name that nobody points at ends at the marks,
//! which are few enough to stay near; one that somebody points at takes one line more, unless its name is too
//! long to stand in the slot.
//!
//! Both views read the same slots, each a column of sets of its own. The writer (`table.rs`) changes slots
//! while they are read, and this is what keeps answers right:
//!
//! - the column of a view is not written while somebody has the view, so a reader finds the same set in
//!   a slot for as long as it reads;
//! - a slot is made, or made into another one, only while it has no set in either column;
//! - whoever reads a view passes over slots without a set in its column. What it looks at is therefore
//!   at rest: place and name were written before the set, and stay until both columns are empty.
//!
//! Everything is read and written with `Relaxed`: the host hands views to readers, and takes them back, in
//! ways that order what was written before (`index.rs`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::intern::NONE;

/// The first bits of a hash choose a shard.
pub(crate) const SHARD_BITS: u32 = 7;
/// The longest name that stands in its slot.
const INLINE: usize = 15;
/// The mark of a slot that was never used.
pub(crate) const FREE: u8 = 0;
/// The mark of a slot that is no longer used.
pub(crate) const GONE: u8 = 1;
/// How many slots have their marks together. What does not fit into its group is in the next one: a group
/// with a free slot is where a search ends.
pub(crate) const GROUP: usize = 16;
/// In the place of the length of a name: the name stands elsewhere.
const LONG: u64 = 0xFF << 56;
/// How many words of long names lie together.
pub(crate) const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;

/// The column of sets that a view reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    shift: u32,
}

impl Column {
    pub(crate) const FIRST: Column = Column { shift: 0 };

    pub(crate) fn other(self) -> Column {
        Column { shift: 32 - self.shift }
    }
}

/// A target: its number and place, the sets of capabilities that are live there in both views, its name.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct Slot {
    target_and_place: AtomicU64,
    sets: AtomicU64,
    name: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Slot>() == 32, "two slots are a line of a cache");

/// No set in either column.
const NO_SETS: u64 = u64::MAX;

impl Slot {
    pub(crate) fn empty() -> Slot {
        Slot {
            target_and_place: AtomicU64::new(u64::MAX),
            sets: AtomicU64::new(NO_SETS),
            name: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Makes this the slot of another target. INVARIANT: it has no set.
    pub(crate) fn put(&self, target: u32, place: u32, name: [u64; 2]) {
        self.target_and_place.store(u64::from(target) | u64::from(place) << 32, Relaxed);
        for (word, name) in self.name.iter().zip(name) {
            word.store(name, Relaxed);
        }
    }

    /// Makes this a copy of a slot, whose set in one column it has in both if `both` names one.
    pub(crate) fn put_copy(&self, of: &Slot, both: Option<Column>) {
        self.target_and_place.store(of.target_and_place.load(Relaxed), Relaxed);
        for (word, name) in self.name.iter().zip(of.words()) {
            word.store(name, Relaxed);
        }
        self.sets.store(of.sets.load(Relaxed), Relaxed);
        if let Some(column) = both {
            self.copy_set(column);
        }
    }

    pub(crate) fn target(&self) -> u32 {
        low(self.target_and_place.load(Relaxed))
    }

    pub(crate) fn place(&self) -> u32 {
        low(self.target_and_place.load(Relaxed) >> 32)
    }

    pub(crate) fn words(&self) -> [u64; 2] {
        let [first, second] = &self.name;
        [first.load(Relaxed), second.load(Relaxed)]
    }

    #[inline]
    pub(crate) fn set(&self, column: Column) -> u32 {
        low(self.sets.load(Relaxed) >> column.shift)
    }

    pub(crate) fn has_no_sets(&self) -> bool {
        self.sets.load(Relaxed) == NO_SETS
    }

    /// INVARIANT: nobody reads the view of this column.
    pub(crate) fn put_set(&self, column: Column, set: u32) {
        let kept = self.sets.load(Relaxed) & !(u64::from(u32::MAX) << column.shift);
        self.sets.store(kept | u64::from(set) << column.shift, Relaxed);
    }

    /// The other column gets what this one has. INVARIANT: nobody reads the view of the other one.
    pub(crate) fn copy_set(&self, column: Column) {
        self.put_set(column.other(), self.set(column));
    }
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(NONE)
}

/// Where the words of a long name lie, and how many bytes it has.
pub(crate) fn long_at(words: [u64; 2]) -> Option<(u32, usize)> {
    let [_, second] = words;
    let length = usize::from(u16::try_from((second >> 32) & 0xFFFF).unwrap_or_default());
    (second & LONG == LONG).then_some((low(second), length))
}

/// A name as slots have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a [u8],
    /// Of a long name all but where it lies.
    words: [u64; 2],
}

impl<'a> Key<'a> {
    #[inline]
    pub(crate) fn new(name: &'a str) -> Key<'a> {
        let name = name.as_bytes();
        let length = name.len();
        let words = match name.first_chunk().copied().map(u64::from_le_bytes) {
            Some(first) if length > INLINE => {
                let length = u16::try_from(length).unwrap_or(u16::MAX);
                [first, LONG | u64::from(length) << 32]
            }
            Some(first) => {
                let rest = name.get(8..).map(short_word).unwrap_or_default();
                [first, rest | (length as u64) << 56]
            }
            None => [short_word(name), (length as u64) << 56],
        };
        Key { name, words }
    }

    pub(crate) fn is_long(&self) -> bool {
        self.name.len() > INLINE
    }

    /// The words in the slot, of a long name that lies there.
    pub(crate) fn words_at(&self, at: u32) -> [u64; 2] {
        let [first, second] = self.words;
        [first, if self.is_long() { second | u64::from(at) } else { second }]
    }

    /// Whether this is the name in a slot.
    #[inline]
    fn is(&self, slot: &Slot, long: &Long) -> bool {
        let ([first, second], [other, rest]) = (self.words, slot.words());
        if !self.is_long() {
            return (first, second) == (other, rest);
        }
        (first, second >> 32) == (other, rest >> 32) && long.is(low(rest), self.name)
    }
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

/// The words of a name, the last one filled up.
pub(crate) fn words_of(name: &[u8]) -> impl Iterator<Item = u64> {
    let (words, rest) = name.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| short_word(rest));
    words.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}

/// The names that are too long for a slot, a few thousand words together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Long {
    chunks: Vec<Arc<[AtomicU64]>>,
}

impl Long {
    /// The words of a name of so many bytes.
    pub(crate) fn words(&self, at: u32, bytes: usize) -> &[AtomicU64] {
        let at = at as usize;
        let start = at % CHUNK;
        let words = self.chunks.get(at / CHUNK);
        words.and_then(|words| words.get(start..start + bytes.div_ceil(8))).unwrap_or_default()
    }

    fn is(&self, at: u32, name: &[u8]) -> bool {
        let mut words = self.words(at, name.len()).iter();
        // A name without words is none.
        words.len() > 0
            && words_of(name).all(|word| words.next().map(|w| w.load(Relaxed)) == Some(word))
    }

    pub(crate) fn push(&mut self, chunk: Arc<[AtomicU64]>) {
        self.chunks.push(chunk);
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// The same, for nobody who has had the old ones.
    pub(crate) fn renewed(&self) -> Long {
        let renew = |chunk: &Arc<[AtomicU64]>| {
            chunk.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect()
        };
        Long { chunks: self.chunks.iter().map(renew).collect() }
    }
}

/// The marks of a group.
pub(crate) type Marks = [AtomicU64; 2];

/// Some of the slots, each in the first group from its home on that had place when it came.
///
/// There are many shards, and every question reads one: it is a line of a cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Shard {
    pub(crate) marks: Arc<[Marks]>,
    pub(crate) slots: Arc<[Slot]>,
}

impl Shard {
    pub(crate) fn new(groups: usize) -> Shard {
        Shard {
            marks: (0..groups).map(|_| Marks::default()).collect(),
            slots: (0..groups * GROUP).map(|_| Slot::empty()).collect(),
        }
    }

    #[inline]
    pub(crate) fn home(&self, hash: u32) -> usize {
        let groups = self.marks.len() as u64;
        usize::try_from((u64::from(hash << SHARD_BITS) * groups) >> 32).unwrap_or_default()
    }

    /// The group after one.
    #[inline]
    pub(crate) fn after(&self, group: usize) -> usize {
        if group + 1 < self.marks.len() { group + 1 } else { 0 }
    }

    /// The slot of a hash for which `is` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is: impl Fn(&Slot) -> bool) -> Option<(usize, &Slot)> {
        let sought = u64::from(mark(hash)) * ONES;
        let mut group = self.home(hash);
        loop {
            let mut ends = 0;
            for (half, word) in self.marks.get(group)?.iter().enumerate() {
                let word = word.load(Relaxed);
                let mut hits = zeros(word ^ sought);
                while hits != 0 {
                    let at = group * GROUP + half * 8 + (hits.trailing_zeros() / 8) as usize;
                    if let Some(slot) = self.slots.get(at).filter(|slot| is(slot)) {
                        return Some((at, slot));
                    }
                    hits &= hits - 1;
                }
                ends |= zeros(word);
            }
            if ends != 0 {
                return None;
            }
            group = self.after(group);
        }
    }

    /// Every slot that is in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Slot> {
        let marks = self.marks.iter().flatten().flat_map(|word| word.load(Relaxed).to_le_bytes());
        marks.zip(&*self.slots).filter(|(mark, _)| *mark > GONE).map(|(_, slot)| slot)
    }
}

/// Every target; see the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub(crate) shards: Vec<Shard>,
    pub(crate) long: Long,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        let shards = (0..1 << SHARD_BITS).map(|_| Shard::new(0)).collect();
        Slots { shards, long: Long::default() }
    }

    /// The slot of a hash with this name for which `is` holds; where it is in its shard.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u32,
        key: &Key<'_>,
        is: impl Fn(&Slot) -> bool,
    ) -> Option<(usize, &Slot)> {
        let shard = self.shards.get(shard_of(hash))?;
        shard.find(hash, |slot| is(slot) && key.is(slot, &self.long))
    }

    /// What is live at a name, read by whoever has the view of a column: its number and its set.
    #[inline]
    pub(crate) fn live(
        &self,
        hash: u32,
        key: &Key<'_>,
        column: Column,
        is: impl Fn(u32) -> bool,
    ) -> Option<(u32, u32)> {
        // The order matters: nothing but the set of a slot without one may be looked at.
        let (_, slot) =
            self.find(hash, key, |slot| slot.set(column) != NONE && is(slot.place()))?;
        Some((slot.target(), slot.set(column)))
    }

    /// Every slot that is in use, with a set or without.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Slot> {
        self.shards.iter().flat_map(Shard::used)
    }

    /// The name in a slot, written into `text`.
    pub(crate) fn name<'t>(&self, slot: &Slot, text: &'t mut [u8; 256]) -> &'t str {
        let words = slot.words();
        let [_, second] = words;
        let (length, name) = match long_at(words) {
            Some((at, length)) => (length, Some(self.long.words(at, length))),
            None => (usize::try_from(second >> 56).unwrap_or_default(), None),
        };
        let name = name.unwrap_or(&slot.name);
        for (bytes, word) in text.as_chunks_mut::<8>().0.iter_mut().zip(name) {
            *bytes = word.load(Relaxed).to_le_bytes();
        }
        text.get(..length).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// A one in every byte.
pub(crate) const ONES: u64 = u64::MAX / 0xFF;

/// The high bit of every byte that is zero, and perhaps of bytes after the first that is.
#[inline]
pub(crate) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

#[inline]
pub(crate) fn mark(hash: u32) -> u8 {
    hash.to_le_bytes().first().map_or(GONE + 1, |mark| (*mark).max(GONE + 1))
}

#[inline]
pub(crate) fn shard_of(hash: u32) -> usize {
    (hash >> (u32::BITS - SHARD_BITS)) as usize
}

/// Whether two texts are the same, word by word: for texts as short as names that takes less time than the
/// call of a function that is good at long ones.
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
    use alloc::string::String;

    use super::*;

    #[test]
    fn texts_are_the_same_exactly_when_they_are_equal() {
        let texts = [
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
        for one in texts {
            for two in texts {
                assert_eq!(same(one.as_bytes(), two.as_bytes()), one == two, "{one} {two}");
            }
        }
    }

    #[test]
    fn names_of_every_length_are_told_apart_and_come_back() {
        let slots = Slots::new();
        let text: String = "abcdefghijklmnop".into();
        for length in 0..=INLINE {
            let key = Key::new(&text[..length]);
            let slot = Slot::empty();
            slot.put(1, 2, key.words_at(0));
            assert_eq!(slots.name(&slot, &mut [0; 256]), &text[..length]);
            for other in 0..=text.len() {
                let other = &text[..other];
                assert_eq!(Key::new(other).is(&slot, &slots.long), other.len() == length);
                // A name that ends with a zero is not the one without.
                let mut zero: String = other.into();
                zero.push('\0');
                assert!(!Key::new(&zero).is(&slot, &slots.long));
            }
        }
    }

    #[test]
    fn a_column_is_written_without_the_other() {
        let slot = Slot::empty();
        let (first, second) = (Column::FIRST, Column::FIRST.other());
        assert_eq!(second.other(), first);
        slot.put_set(second, 7);
        assert_eq!((slot.set(first), slot.set(second)), (NONE, 7));
        slot.put_set(first, 0);
        slot.copy_set(second);
        assert_eq!((slot.set(first), slot.has_no_sets()), (7, false));
        slot.put_set(second, NONE);
        slot.copy_set(second);
        assert!(slot.has_no_sets());
    }
}
