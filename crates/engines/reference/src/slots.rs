//! Targets by name, laid out so that a question touches as little memory as it can.
//!
//! ```text
//!   hash ──► shard ──► marks, a byte for each slot ──► slot: place, name and set, half a line of a cache
//! ```
//!
//! At a million targets memory is what a decision costs. A name that nobody points at ends at the marks,
//! which are few enough to stay near; one that somebody points at takes one line more, unless its name is too
//! long to stand in the slot. A shard grows alone and by a tenth, so that no change waits for all targets
//! to be moved, and little is left free.

use alloc::string::String;
use alloc::vec::Vec;

use crate::intern::NONE;

/// The first bits of a hash choose a shard.
const SHARD_BITS: u32 = 7;
/// The longest name that stands in its slot.
const INLINE: usize = 19;
/// The mark of a slot that was never used: what is looked for is not behind it.
const FREE: u8 = 0;
/// The mark of a slot that is no longer used.
const GONE: u8 = 1;
/// How many marks are looked at together.
const WORD: usize = 16;
/// The fewest homes of a shard that has any.
const HOMES_MIN: u32 = 8;
/// Below this many unused bytes of long names nothing is squeezed out.
const UNUSED_MIN: usize = 1 << 16;

/// A target: its place, its name and the set of capabilities that are live there.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Slot {
    pub(crate) target: u32,
    pub(crate) place: u32,
    pub(crate) set: u32,
    length: u8,
    /// The name; of one that does not fit, where it lies in the long names.
    text: [u8; INLINE],
}

const _: () = assert!(size_of::<Slot>() == 32, "two slots are a line of a cache");

const EMPTY: Slot = Slot { target: NONE, place: NONE, set: NONE, length: 0, text: [0; INLINE] };

impl Slot {
    /// The name, where `long` are the long ones.
    fn name<'a>(&'a self, long: &'a str) -> &'a [u8] {
        let length = usize::from(self.length);
        match self.text.get(..length) {
            Some(name) => name,
            None => {
                let at = self.long_at();
                long.as_bytes().get(at..at + length).unwrap_or_default()
            }
        }
    }

    fn is_long(&self) -> bool {
        usize::from(self.length) > INLINE
    }

    fn long_at(&self) -> usize {
        self.text.first_chunk().map_or(0, |at| u32::from_le_bytes(*at) as usize)
    }

    fn set_long_at(&mut self, at: usize) {
        if let Some(place) = self.text.first_chunk_mut() {
            *place = u32::try_from(at).unwrap_or(NONE).to_le_bytes();
        }
    }
}

/// Some of the slots, each as near behind its home as was free when it came.
///
/// One line of a cache long: there are many, and every question reads one.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Shard {
    /// The mark of each slot, and one word more that is free for ever: no search leaves the list.
    marks: Vec<u8>,
    slots: Vec<Slot>,
    homes: u32,
    /// Slots that are not free, and those of them that are gone.
    filled: u32,
    gone: u32,
}

impl Shard {
    fn home(&self, hash: u32) -> usize {
        let at = (u64::from(hash << SHARD_BITS) * u64::from(self.homes)) >> 32;
        usize::try_from(at).unwrap_or_default()
    }

    fn find(&self, hash: u32, is: impl Fn(&Slot) -> bool) -> Option<usize> {
        let sought = u128::from(mark(hash)) * ONES;
        let mut at = self.home(hash);
        loop {
            let word = self.word(at)?;
            let mut hits = zeros(word ^ sought);
            while hits != 0 {
                let here = at + (hits.trailing_zeros() / 8) as usize;
                if self.slots.get(here).is_some_and(&is) {
                    return Some(here);
                }
                hits &= hits - 1;
            }
            if zeros(word) != 0 {
                return None;
            }
            at += WORD;
        }
    }

    /// The first place after its home that is not in use.
    fn place(&self, hash: u32) -> usize {
        let mut at = self.home(hash);
        while let Some(word) = self.word(at) {
            let unused = zeros(word) | zeros(word ^ (u128::from(GONE) * ONES));
            if unused != 0 {
                return at + (unused.trailing_zeros() / 8) as usize;
            }
            at += WORD;
        }
        at
    }

    fn word(&self, at: usize) -> Option<u128> {
        self.marks.get(at..)?.first_chunk().map(|word| u128::from_le_bytes(*word))
    }

    /// Puts a slot where there is place for it.
    fn insert(&mut self, hash: u32, slot: Slot) {
        let at = self.place(hash);
        if at >= self.slots.len() {
            self.lengthen(at + 1 + WORD);
        }
        if let (Some(there), Some(place)) = (self.marks.get_mut(at), self.slots.get_mut(at)) {
            match *there {
                GONE => self.gone -= 1,
                _ => self.filled += 1,
            }
            *there = mark(hash);
            *place = slot;
        }
    }

    /// More slots behind the last home.
    fn lengthen(&mut self, length: usize) {
        self.slots.reserve_exact(length - self.slots.len());
        self.slots.resize(length, EMPTY);
        self.marks.reserve_exact(length + WORD - self.marks.len());
        self.marks.resize(length + WORD, FREE);
    }

    fn remove(&mut self, at: usize) -> Option<Slot> {
        let slot = core::mem::replace(self.slots.get_mut(at)?, EMPTY);
        // Nothing behind a free slot is looked for, so one before a free slot may be free itself.
        let is_last = self.marks.get(at + 1).is_none_or(|next| *next == FREE);
        *self.marks.get_mut(at)? = if is_last { FREE } else { GONE };
        if is_last {
            self.filled -= 1;
        } else {
            self.gone += 1;
        }
        Some(slot)
    }

    /// Whether one more makes searches long.
    fn is_full(&self) -> bool {
        (self.filled + 1) * 7 > self.homes * 6
    }

    /// Lays the slots out anew, with room for a tenth more. The order stays, because hashes and homes
    /// are in the same order: both lists are walked once from end to end.
    fn grow(&mut self, hash_of: impl Fn(&Slot) -> u32) {
        let live = self.filled - self.gone + 1;
        let homes = (live * 9 / 7).max(HOMES_MIN);
        let old = core::mem::replace(self, Shard { homes, ..Shard::default() });
        self.lengthen((homes + (homes / 4).min(64)) as usize);
        for slot in old.live() {
            self.insert(hash_of(slot), *slot);
        }
    }

    fn live(&self) -> impl Iterator<Item = &Slot> {
        let marked = self.marks.iter().zip(&self.slots);
        marked.filter(|(mark, _)| **mark > GONE).map(|(_, slot)| slot)
    }
}

/// Every target; see the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    shards: Vec<Shard>,
    long: String,
    unused: usize,
    len: usize,
}

impl Slots {
    pub(crate) fn new() -> Slots {
        let shards = alloc::vec![Shard::default(); 1 << SHARD_BITS];
        Slots { shards, long: String::new(), unused: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot of a hash with this name for which `is` holds.
    pub(crate) fn find(&self, hash: u32, name: &str, is: impl Fn(&Slot) -> bool) -> Option<&Slot> {
        let shard = self.shards.get(shard_of(hash))?;
        let named = |slot: &Slot| same(slot.name(&self.long), name.as_bytes()) && is(slot);
        shard.slots.get(shard.find(hash, named)?)
    }

    /// The slot of a target.
    pub(crate) fn get(&self, hash: u32, target: u32) -> Option<&Slot> {
        let shard = self.shards.get(shard_of(hash))?;
        shard.slots.get(shard.find(hash, |slot| slot.target == target)?)
    }

    /// Something of the marks that a search for a hash starts with: to have asked for it brings them near.
    pub(crate) fn near_marks(&self, hash: u32) -> u8 {
        let shard = self.shards.get(shard_of(hash));
        let mark = shard.and_then(|shard| shard.marks.get(shard.home(hash)));
        mark.copied().unwrap_or_default()
    }

    /// The same of the slot that a new target of a hash would take.
    pub(crate) fn near_slot(&self, hash: u32) -> u8 {
        let shard = self.shards.get(shard_of(hash));
        let slot = shard.and_then(|shard| shard.slots.get(shard.place(hash)));
        slot.map_or(0, |slot| slot.length)
    }

    /// The name that stands in a slot.
    pub(crate) fn name<'a>(&'a self, slot: &'a Slot) -> &'a str {
        core::str::from_utf8(slot.name(&self.long)).unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.shards.iter().flat_map(Shard::live)
    }

    pub(crate) fn set(&mut self, hash: u32, target: u32, set: u32) {
        let Some(shard) = self.shards.get_mut(shard_of(hash)) else { return };
        let at = shard.find(hash, |slot| slot.target == target);
        if let Some(slot) = at.and_then(|at| shard.slots.get_mut(at)) {
            slot.set = set;
        }
    }

    /// A new target: its number, place, set and name. `hash_of` gives the hash of a name in a place.
    pub(crate) fn insert(
        &mut self,
        hash: u32,
        (target, place, set, name): (u32, u32, u32, &str),
        hash_of: impl Fn(u32, &[u8]) -> u32,
    ) {
        let length = u8::try_from(name.len()).unwrap_or_default();
        let mut slot = Slot { target, place, set, length, ..EMPTY };
        match slot.text.get_mut(..name.len()) {
            Some(text) => text.copy_from_slice(name.as_bytes()),
            None => {
                slot.set_long_at(self.long.len());
                self.long.push_str(name);
            }
        }
        let Some(shard) = self.shards.get_mut(shard_of(hash)) else { return };
        let long = &self.long;
        if shard.is_full() {
            shard.grow(|slot| hash_of(slot.place, slot.name(long)));
        }
        shard.insert(hash, slot);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, hash: u32, target: u32) {
        let Some(shard) = self.shards.get_mut(shard_of(hash)) else { return };
        let at = shard.find(hash, |slot| slot.target == target);
        let Some(slot) = at.and_then(|at| shard.remove(at)) else { return };
        self.len -= 1;
        if slot.is_long() {
            self.unused += usize::from(slot.length);
            if self.unused > UNUSED_MIN && self.unused * 2 > self.long.len() {
                self.squeeze();
            }
        }
    }

    /// Writes the long names that are in use anew, without gaps.
    fn squeeze(&mut self) {
        let mut long = String::with_capacity(self.long.len() - self.unused);
        let slots = self.shards.iter_mut().flat_map(|shard| &mut shard.slots);
        for slot in slots.filter(|slot| slot.is_long()) {
            let name = slot.name(&self.long);
            let at = long.len();
            long.push_str(core::str::from_utf8(name).unwrap_or_default());
            slot.set_long_at(at);
        }
        self.long = long;
        self.unused = 0;
    }
}

const ONES: u128 = u128::MAX / 0xFF;

/// The high bit of every byte that is zero, and perhaps of bytes after the first that is.
fn zeros(word: u128) -> u128 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

fn mark(hash: u32) -> u8 {
    hash.to_le_bytes().first().map_or(GONE + 1, |mark| (*mark).max(GONE + 1))
}

fn shard_of(hash: u32) -> usize {
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
    use alloc::collections::BTreeMap;
    use alloc::format;

    use super::*;

    /// Hashes that fill few shards and often meet.
    fn hash_of(place: u32, name: &[u8]) -> u32 {
        let sum = name.iter().fold(place, |sum, byte| sum.wrapping_mul(31) + u32::from(*byte));
        sum.wrapping_mul(0x9E37_79B1) & 0xF0F0_FFFF
    }

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
    fn slots_equal_a_plain_map_through_growth_removal_and_squeezing() {
        let mut slots = Slots::new();
        let mut model: BTreeMap<(u32, String), (u32, u32)> = BTreeMap::new();
        let mut mixed = 7_u64;
        for step in 0..60_000_u32 {
            mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (mixed >> 40) % 3_000;
            let place = u32::try_from(number % 7).unwrap();
            // Every third name is too long for a slot.
            let tail = if number.is_multiple_of(3) { "-and-a-long-rest-of-the-name" } else { "" };
            let key = (place, format!("name-{number}{tail}"));
            let hash = hash_of(place, key.1.as_bytes());
            let known = slots.find(hash, &key.1, |slot| slot.place == place);
            assert_eq!(known.map(|slot| (slot.target, slot.set)), model.get(&key).copied());
            match model.get_mut(&key) {
                None => {
                    slots.insert(hash, (step, place, NONE, &key.1), hash_of);
                    model.insert(key, (step, NONE));
                }
                Some((target, set)) if step.is_multiple_of(3) => {
                    slots.set(hash, *target, step);
                    *set = step;
                }
                Some((target, _)) => {
                    slots.remove(hash, *target);
                    assert!(slots.get(hash, *target).is_none());
                    model.remove(&key);
                }
            }
            assert_eq!(slots.len(), model.len());
        }
        let listed: BTreeMap<(u32, String), (u32, u32)> = slots
            .iter()
            .map(|slot| ((slot.place, slots.name(slot).into()), (slot.target, slot.set)))
            .collect();
        assert_eq!(listed, model);
    }
}
