//! The writer's side of the slots: makes room, moves, fills in and clears away, while others read.
//!
//! Nothing here is ever waited for by a reader, and nothing a reader can see is changed: see the head
//! of `slots.rs`. A shard grows alone, by copying it, so that no change waits for all targets to be moved;
//! readers of the old one keep it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::intern::NONE;
use crate::key::{ONES, TextKey, words_of, zeros};
use crate::slots::{
    CHUNK, FREE, GONE, GROUP, Shard, TargetSlot, TargetTable, ViewColumn, in_group, long_at, mark,
    shard_of,
};

/// The most that is filled of a shard: three of four slots. More makes searches long.
const FULL: (usize, usize) = (3, 4);
/// What a shard that grows has room for, of what it has: five quarters.
const ROOM: (usize, usize) = (5, 4);

/// Where a target stands; good until its shard grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex {
    shard: usize,
    slot: usize,
}

/// Slots that are not free, and those of them that are gone.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    filled: usize,
    gone: usize,
}

/// What views must be told after a target was made.
#[derive(Debug)]
pub(crate) enum Grown {
    /// This shard was replaced.
    Shard(usize, Shard),
    /// There is more room for long names.
    Long(Arc<[AtomicU64]>),
}

/// Every target, to be changed; see the head of this file.
#[derive(Debug)]
pub(crate) struct TargetTableWriter {
    slots: TargetTable,
    fills: Vec<Fill>,
    /// The first word behind the long names, and unused ones before, by how many words they have.
    long_end: usize,
    long_free: Vec<Vec<u32>>,
    len: usize,
    /// Where some targets are that were spoken of lately: they are spoken of again, within the same event.
    recent: [(u32, SlotIndex); RECENT],
}

const RECENT: usize = 16;
const NOT_RECENT: (u32, SlotIndex) = (NONE, SlotIndex { shard: 0, slot: 0 });

impl TargetTableWriter {
    pub(crate) fn new() -> TargetTableWriter {
        let slots = TargetTable::new();
        let fills = slots.shards.iter().map(|_| Fill::default()).collect();
        TargetTableWriter {
            slots,
            fills,
            long_end: 0,
            long_free: Vec::new(),
            len: 0,
            recent: [NOT_RECENT; RECENT],
        }
    }

    /// What views read.
    pub(crate) fn slots(&self) -> &TargetTable {
        &self.slots
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The target of a name in a place.
    pub(crate) fn find(&self, hash: u32, place: u32, name: &str) -> Option<u32> {
        let key = TextKey::new(name);
        let is = |slot: &TargetSlot| slot.place() == place && key.is(slot, &self.slots.long);
        let found = self.slots.find(hash, is);
        found.map(|(_, slot)| slot.target())
    }

    /// Where a target is.
    pub(crate) fn locate(&self, hash: u32, target: u32) -> Option<SlotIndex> {
        if let Some((recent, at)) = self.recent.get(target as usize % RECENT)
            && *recent == target
            && target != NONE
        {
            return Some(*at);
        }
        let shard = shard_of(hash);
        let found = self.slots.shards.get(shard)?.find(hash, |slot| slot.target() == target);
        found.map(|(slot, _)| SlotIndex { shard, slot })
    }

    pub(crate) fn slot(&self, at: SlotIndex) -> Option<&TargetSlot> {
        self.slots.shards.get(at.shard)?.slots.get(at.slot)
    }

    /// The slot of a target.
    pub(crate) fn get(&self, hash: u32, target: u32) -> Option<&TargetSlot> {
        self.locate(hash, target).and_then(|at| self.slot(at))
    }

    /// Something of the marks that a search for a hash starts with: to have asked for it brings them near.
    pub(crate) fn near_marks(&self, hash: u32) -> u64 {
        let shard = self.slots.shards.get(shard_of(hash));
        let marks = shard.and_then(|shard| shard.marks.get(shard.home(hash)));
        marks.map_or(0, |marks| marks.load(Relaxed))
    }

    /// The same of the slot that a new target of a hash would take.
    pub(crate) fn near_slot(&self, hash: u32) -> u32 {
        let shard = self.slots.shards.get(shard_of(hash));
        let slot = shard.and_then(|shard| shard.slots.get(unused(shard, hash)?.0));
        slot.map_or(0, TargetSlot::target)
    }

    /// A new target without a set. `hash_of` gives the hash of a name in a place; `tell` hears what has grown.
    pub(crate) fn insert(
        &mut self,
        hash: u32,
        (target, place, name): (u32, u32, &str),
        hash_of: impl Fn(u32, &str) -> u32,
        mut tell: impl FnMut(Grown),
    ) {
        let key = TextKey::new(name);
        let at = if key.is_long() { self.keep_long(key.text, &mut tell) } else { 0 };
        let index = shard_of(hash);
        let Some(fill) = self.fills.get_mut(index) else { return };
        let slots = self.slots.shards.get(index).map_or(0, |shard| shard.slots.len());
        if (fill.filled + 1) * FULL.1 > slots * FULL.0 {
            self.recent = [NOT_RECENT; RECENT];
            let new = grown(&self.slots, index, fill, hash_of);
            tell(Grown::Shard(index, new.clone()));
            if let Some(shard) = self.slots.shards.get_mut(index) {
                *shard = new;
            }
        }
        let shard = self.slots.shards.get(index);
        if let Some((slot_at, slot)) = shard.and_then(|shard| take(shard, fill, hash)) {
            slot.put(target, place, key.words_at(at));
            self.len += 1;
            if let Some(recent) = self.recent.get_mut(target as usize % RECENT) {
                *recent = (target, SlotIndex { shard: index, slot: slot_at });
            }
        }
    }

    /// A place for a long name, which is written there.
    fn keep_long(&mut self, name: &[u8], tell: &mut impl FnMut(Grown)) -> u32 {
        let words = name.len().div_ceil(8);
        let free = self.long_free.get_mut(words).and_then(Vec::pop);
        let at = free.unwrap_or_else(|| {
            // A name lies in one chunk.
            if self.long_end % CHUNK + words > CHUNK
                || self.long_end == self.slots.long.len() * CHUNK
            {
                self.long_end = self.slots.long.len() * CHUNK;
                let chunk: Arc<[AtomicU64]> = (0..CHUNK).map(|_| AtomicU64::new(0)).collect();
                self.slots.long.push(Arc::clone(&chunk));
                tell(Grown::Long(chunk));
            }
            let at = self.long_end;
            self.long_end += words;
            u32::try_from(at).unwrap_or(NONE)
        });
        for (place, word) in self.slots.long.words(at, name.len()).iter().zip(words_of(name)) {
            place.store(word, Relaxed);
        }
        at
    }

    /// Clears a slot away. INVARIANT: it has no set.
    pub(crate) fn remove(&mut self, at: SlotIndex) {
        let (Some(shard), Some(fill)) =
            (self.slots.shards.get(at.shard), self.fills.get_mut(at.shard))
        else {
            return;
        };
        let Some(slot) = shard.slots.get(at.slot) else { return };
        if let Some(recent) = self.recent.get_mut(slot.target() as usize % RECENT) {
            *recent = NOT_RECENT;
        }
        if let Some((at, length)) = long_at(slot.words()) {
            let words = length.div_ceil(8);
            if self.long_free.len() <= words {
                self.long_free.resize_with(words + 1, Vec::new);
            }
            if let Some(free) = self.long_free.get_mut(words) {
                free.push(at);
            }
        }
        let Some(marks) = shard.marks.get(at.slot / GROUP) else { return };
        // A search that has come past this group met no free slot in it, and must not meet one now.
        let is_end = zeros(marks.load(Relaxed)) != 0;
        put_mark(shard, at.slot, if is_end { FREE } else { GONE });
        if is_end {
            fill.filled -= 1;
        } else {
            fill.gone += 1;
        }
        self.len -= 1;
    }

    /// Every slot of a shard gets the set of one column in the other.
    pub(crate) fn copy_sets(&self, shard: usize, column: ViewColumn) {
        let slots = self.slots.shards.get(shard).map(|shard| &*shard.slots);
        slots.unwrap_or_default().iter().for_each(|slot| slot.copy_set(column));
    }

    /// The same slots for nobody who has had the old ones, with the sets of one column in both.
    pub(crate) fn renew(&mut self, column: ViewColumn) {
        for shard in &mut self.slots.shards {
            let new = Shard::new(shard.marks.len());
            for (to, from) in new.marks.iter().zip(&*shard.marks) {
                to.store(from.load(Relaxed), Relaxed);
            }
            for (to, from) in new.slots.iter().zip(&*shard.slots) {
                to.put_copy(from, Some(column));
            }
            *shard = new;
        }
        self.slots.long = self.slots.long.renewed();
    }
}

/// A larger shard with the same targets, and how much of it is filled.
fn grown(
    slots: &TargetTable,
    index: usize,
    fill: &mut Fill,
    hash_of: impl Fn(u32, &str) -> u32,
) -> Shard {
    let live = fill.filled - fill.gone + 1;
    let room = live * ROOM.0 * FULL.1 / (ROOM.1 * FULL.0);
    let new = Shard::new(room.div_ceil(GROUP));
    *fill = Fill::default();
    let mut text = [0; 256];
    for slot in slots.shards.get(index).into_iter().flat_map(Shard::used) {
        // Not the hash that is kept with the target: that one is far away.
        let hash = hash_of(slot.place(), slots.name(slot, &mut text));
        if let Some((_, to)) = take(&new, fill, hash) {
            to.put_copy(slot, None);
        }
    }
    new
}

/// The first slot for a hash that is not in use, and its mark.
fn unused(shard: &Shard, hash: u32) -> Option<(usize, u8)> {
    let mut group = shard.home(hash);
    loop {
        let marks = shard.marks.get(group)?.load(Relaxed);
        // The two lowest marks differ in their last bit only.
        let unused = zeros(marks & !ONES);
        if unused != 0 {
            let at = in_group(unused);
            let mark = marks.to_le_bytes().get(at).copied().unwrap_or(FREE);
            return Some((group * GROUP + at, mark));
        }
        group = shard.after(group);
    }
}

/// Takes a slot for a hash.
fn take<'s>(shard: &'s Shard, fill: &mut Fill, hash: u32) -> Option<(usize, &'s TargetSlot)> {
    let (at, before) = unused(shard, hash)?;
    match before {
        GONE => fill.gone -= 1,
        _ => fill.filled += 1,
    }
    put_mark(shard, at, mark(hash));
    shard.slots.get(at).map(|slot| (at, slot))
}

fn put_mark(shard: &Shard, at: usize, mark: u8) {
    if let Some(marks) = shard.marks.get(at / GROUP) {
        let shift = at % GROUP * 8;
        let others = marks.load(Relaxed) & !(0xFF << shift);
        marks.store(others | u64::from(mark) << shift, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// Hashes that fill few shards and often meet.
    fn hash_of(place: u32, name: &str) -> u32 {
        let bytes = name.bytes();
        let sum = bytes.fold(place, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        sum.wrapping_mul(0x9E37_79B1) & 0xF0F0_FFFF
    }

    #[test]
    fn a_table_equals_a_plain_map_through_growth_and_removal() {
        let mut table = TargetTableWriter::new();
        let mut view = table.slots().clone();
        let mut model: BTreeMap<(u32, String), (u32, u32)> = BTreeMap::new();
        let mut mixed = 7_u64;
        for step in 0..60_000_u32 {
            mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (mixed >> 40) % 3_000;
            let place = u32::try_from(number % 7).unwrap();
            // Every third name is too long for a slot, and they need not be equally long.
            let tail = "-and-a-long-rest-of-the-name".get(..(number % 3 * 14) as usize).unwrap();
            let key = (place, format!("name-{number}{tail}"));
            let hash = hash_of(place, &key.1);
            let known = table.find(hash, place, &key.1);
            assert_eq!(known, model.get(&key).map(|(target, _)| *target));
            match model.get_mut(&key) {
                None => {
                    table.insert(hash, (step, place, &key.1), hash_of, |grown| match grown {
                        Grown::Shard(at, shard) => view.shards[at] = shard,
                        Grown::Long(chunk) => view.long.push(chunk),
                    });
                    model.insert(key, (step, NONE));
                }
                Some((target, set)) if step.is_multiple_of(3) => {
                    let at = table.locate(hash, *target).unwrap();
                    table.slot(at).unwrap().put_set(ViewColumn::FIRST, step);
                    *set = step;
                }
                Some((target, _)) => {
                    let at = table.locate(hash, *target).unwrap();
                    table.slot(at).unwrap().put_set(ViewColumn::FIRST, NONE);
                    table.remove(at);
                    assert!(table.locate(hash, *target).is_none());
                    model.remove(&key);
                }
            }
            assert_eq!(table.len(), model.len());
        }
        let mut text = [0; 256];
        let listed: BTreeMap<(u32, String), (u32, u32)> = view
            .used()
            .map(|slot| {
                let key = (slot.place(), view.name(slot, &mut text).into());
                (key, (slot.target(), slot.set(ViewColumn::FIRST)))
            })
            .collect();
        assert_eq!(listed, model);
    }

    #[test]
    fn room_of_long_names_is_used_again() {
        let mut table = TargetTableWriter::new();
        let name = |number: u32| format!("{number:0>5000}").split_off(4_800);
        for number in 0..1_000_u32 {
            let hash = hash_of(0, &name(number));
            table.insert(hash, (number, 0, &name(number)), hash_of, |_| {});
            let at = table.locate(hash, number).unwrap();
            assert_eq!(table.find(hash, 0, &name(number)), Some(number));
            table.remove(at);
        }
        assert_eq!((table.slots().long.len(), table.len()), (1, 0));
    }

    #[test]
    fn what_was_renewed_is_not_what_others_have() {
        let mut table = TargetTableWriter::new();
        let long = "a-name-that-is-too-long-for-a-slot";
        for (target, name) in [(0, "short"), (1, long)] {
            table.insert(hash_of(0, name), (target, 0, name), hash_of, |_| {});
            let at = table.locate(hash_of(0, name), target).unwrap();
            table.slot(at).unwrap().put_set(ViewColumn::FIRST, 5);
        }
        let old = table.slots().clone();
        table.renew(ViewColumn::FIRST);
        for name in ["short", long] {
            let target = table.find(hash_of(0, name), 0, name).unwrap();
            let at = table.locate(hash_of(0, name), target).unwrap();
            let slot = table.slot(at).unwrap();
            assert_eq!(slot.set(ViewColumn::FIRST.other()), 5, "both columns");
            slot.put_set(ViewColumn::FIRST, NONE);
            slot.put_set(ViewColumn::FIRST.other(), NONE);
            table.remove(at);
        }
        table.insert(1, (0, 0, "another-name-that-is-as-long-as-it"), hash_of, |_| {});
        for name in ["short", long] {
            let key = TextKey::new(name);
            let found = old.find(hash_of(0, name), |slot| key.is(slot, &old.long));
            assert_eq!(found.map(|(_, slot)| slot.set(ViewColumn::FIRST)), Some(5));
        }
    }
}
