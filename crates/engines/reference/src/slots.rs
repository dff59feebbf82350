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
use crate::key::{LONG, ONES, TextKey, words_of, zeros};

/// The first bits of a hash choose a shard.
pub(crate) const SHARD_BITS: u32 = 7;
/// The mark of a slot that was never used.
pub(crate) const FREE: u8 = 0;
/// The mark of a slot that is no longer used.
pub(crate) const GONE: u8 = 1;
/// How many slots have their marks together. What does not fit into its group is in the next one: a group
/// with a free slot is where a search ends.
pub(crate) const GROUP: usize = 8;
/// How many words of long names lie together.
pub(crate) const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;

/// The column of sets that a view reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewColumn {
    shift: u32,
}

impl ViewColumn {
    pub(crate) const FIRST: ViewColumn = ViewColumn { shift: 0 };

    pub(crate) fn other(self) -> ViewColumn {
        ViewColumn { shift: 32 - self.shift }
    }
}

/// A target: its number and place, the sets of capabilities that are live there in both views, its name.
#[derive(Debug)]
#[repr(align(32))]
pub(crate) struct TargetSlot {
    target_and_place: AtomicU64,
    sets: AtomicU64,
    name: [AtomicU64; 2],
}

const _: () = assert!(size_of::<TargetSlot>() == 32, "two slots are a line of a cache");

/// No set in either column.
const NO_SETS: u64 = u64::MAX;

impl TargetSlot {
    pub(crate) fn empty() -> TargetSlot {
        TargetSlot {
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
    pub(crate) fn put_copy(&self, of: &TargetSlot, both: Option<ViewColumn>) {
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
    pub(crate) fn set(&self, column: ViewColumn) -> u32 {
        low(self.sets.load(Relaxed) >> column.shift)
    }

    pub(crate) fn has_no_sets(&self) -> bool {
        self.sets.load(Relaxed) == NO_SETS
    }

    /// INVARIANT: nobody reads the view of this column.
    pub(crate) fn put_set(&self, column: ViewColumn, set: u32) {
        let kept = self.sets.load(Relaxed) & !(u64::from(u32::MAX) << column.shift);
        self.sets.store(kept | u64::from(set) << column.shift, Relaxed);
    }

    /// The other column gets what this one has. INVARIANT: nobody reads the view of the other one.
    pub(crate) fn copy_set(&self, column: ViewColumn) {
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

impl TextKey<'_> {
    /// The words in the slot, of a long name that lies there.
    pub(crate) fn words_at(&self, at: u32) -> [u64; 2] {
        let [first, second] = self.words;
        [first, if self.is_long() { second | u64::from(at) } else { second }]
    }

    /// Whether this is the name in a slot.
    #[inline]
    pub(crate) fn is(&self, slot: &TargetSlot, long: &LongNames) -> bool {
        let ([first, second], [other, rest]) = (self.words, slot.words());
        if !self.is_long() {
            return (first, second) == (other, rest);
        }
        (first, second >> 32) == (other, rest >> 32) && long.is(low(rest), self.text)
    }
}

/// The names that are too long for a slot, a few thousand words together.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongNames {
    chunks: Vec<Arc<[AtomicU64]>>,
}

impl LongNames {
    /// The words of a name of so many bytes.
    pub(crate) fn words(&self, at: u32, bytes: usize) -> &[AtomicU64] {
        let at = at as usize;
        let start = at % CHUNK;
        let words = self.chunks.get(at / CHUNK);
        words.and_then(|words| words.get(start..start + bytes.div_ceil(8))).unwrap_or_default()
    }

    #[inline(never)]
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
    pub(crate) fn renewed(&self) -> LongNames {
        let renew = |chunk: &Arc<[AtomicU64]>| {
            chunk.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect()
        };
        LongNames { chunks: self.chunks.iter().map(renew).collect() }
    }
}

/// Some of the slots, each in the first group from its home on that had place when it came.
///
/// There are many shards, and every question reads one: it is a line of a cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Shard {
    /// A word for each group.
    pub(crate) marks: Arc<[AtomicU64]>,
    pub(crate) slots: Arc<[TargetSlot]>,
}

impl Shard {
    pub(crate) fn new(groups: usize) -> Shard {
        Shard {
            marks: (0..groups).map(|_| AtomicU64::new(0)).collect(),
            slots: (0..groups * GROUP).map(|_| TargetSlot::empty()).collect(),
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
    pub(crate) fn find(
        &self,
        hash: u32,
        is: impl Fn(&TargetSlot) -> bool,
    ) -> Option<(usize, &TargetSlot)> {
        let mut group = self.home(hash);
        loop {
            let (mut hits, is_end) = self.look(group, hash)?;
            while hits != 0 {
                let at = group * GROUP + in_group(hits);
                if let Some(slot) = self.slots.get(at).filter(|slot| is(slot)) {
                    return Some((at, slot));
                }
                hits &= hits - 1;
            }
            if is_end {
                return None;
            }
            group = self.after(group);
        }
    }

    /// The first slot that [`Shard::find`] looks at, which nearly always is the one or there is none.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> First<'_> {
        let group = self.home(hash);
        match self.look(group, hash) {
            None | Some((0, true)) => First::Nothing,
            Some((0, false)) => First::Elsewhere,
            Some((hits, _)) => {
                let slot = self.slots.get(group * GROUP + in_group(hits));
                slot.map_or(First::Elsewhere, First::Slot)
            }
        }
    }

    /// Which slots of a group have the mark of a hash, and whether a search ends there.
    #[inline]
    fn look(&self, group: usize, hash: u32) -> Option<(u64, bool)> {
        let sought = u64::from(mark(hash)) * ONES;
        let marks = self.marks.get(group)?.load(Relaxed);
        Some((zeros(marks ^ sought), zeros(marks) != 0))
    }

    /// Every slot that is in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = &TargetSlot> {
        let marks = self.marks.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
        marks.zip(&*self.slots).filter(|(mark, _)| *mark > GONE).map(|(_, slot)| slot)
    }
}

/// See [`Shard::first`].
pub(crate) enum First<'s> {
    Slot(&'s TargetSlot),
    /// There is no slot of the hash.
    Nothing,
    /// It is not where a search starts.
    Elsewhere,
}

/// Every target; see the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct TargetTable {
    pub(crate) shards: Vec<Shard>,
    pub(crate) long: LongNames,
}

impl TargetTable {
    pub(crate) fn new() -> TargetTable {
        let shards = (0..1 << SHARD_BITS).map(|_| Shard::new(0)).collect();
        TargetTable { shards, long: LongNames::default() }
    }

    /// The slot of a hash for which `is` holds; where it is in its shard.
    pub(crate) fn find(
        &self,
        hash: u32,
        is: impl Fn(&TargetSlot) -> bool,
    ) -> Option<(usize, &TargetSlot)> {
        self.shards.get(shard_of(hash))?.find(hash, is)
    }

    /// The first slot that a search for a hash looks at.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> First<'_> {
        self.shards.get(shard_of(hash)).map_or(First::Nothing, |shard| shard.first(hash))
    }

    /// Every slot that is in use, with a set or without.
    pub(crate) fn used(&self) -> impl Iterator<Item = &TargetSlot> {
        self.shards.iter().flat_map(Shard::used)
    }

    /// The name in a slot, written into `text`.
    pub(crate) fn name<'t>(&self, slot: &TargetSlot, text: &'t mut [u8; 256]) -> &'t str {
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

/// The slot, in its group, of the lowest of the bits that [`zeros`] gives.
#[inline]
pub(crate) fn in_group(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

#[inline]
pub(crate) fn mark(hash: u32) -> u8 {
    hash.to_le_bytes().first().map_or(GONE + 1, |mark| (*mark).max(GONE + 1))
}

#[inline]
pub(crate) fn shard_of(hash: u32) -> usize {
    (hash >> (u32::BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::key::INLINE;

    #[test]
    fn names_of_every_length_are_told_apart_and_come_back() {
        let slots = TargetTable::new();
        let text: String = "abcdefghijklmnop".into();
        for length in 0..=INLINE {
            let key = TextKey::new(&text[..length]);
            let slot = TargetSlot::empty();
            slot.put(1, 2, key.words_at(0));
            assert_eq!(slots.name(&slot, &mut [0; 256]), &text[..length]);
            for other in 0..=text.len() {
                let other = &text[..other];
                assert_eq!(TextKey::new(other).is(&slot, &slots.long), other.len() == length);
                // A name that ends with a zero is not the one without.
                let mut zero: String = other.into();
                zero.push('\0');
                assert!(!TextKey::new(&zero).is(&slot, &slots.long));
            }
        }
    }

    #[test]
    fn a_column_is_written_without_the_other() {
        let slot = TargetSlot::empty();
        let (first, second) = (ViewColumn::FIRST, ViewColumn::FIRST.other());
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
