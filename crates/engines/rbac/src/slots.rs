//! The roles, each under a number that stays as long as somebody speaks of the role.
//!
//! Copies share chunks of slots until one of them changes a chunk.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::role::Role;
use crate::rule::RequestAttributes;
use crate::sorted::RuleIndex;

/// How many slots are copied when one of them changes.
const CHUNK: usize = 64;

/// All roles that exist or are at least mentioned.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoleTable {
    // INVARIANT: every chunk has `CHUNK` slots.
    chunks: Vec<Arc<[RoleSlot]>>,
    // INVARIANT: a slot is in the list that begins at `free` exactly when it has no role and no binding mentions it.
    free: Option<usize>,
    taken: usize,
}

#[derive(Clone, Debug, Default)]
struct RoleSlot {
    role: Option<Arc<RoleEntry>>,
    /// What the role speaks of: most roles that somebody holds are not about what is asked, and are not looked into.
    mentions: u64,
    bindings: usize,
    /// The next free slot; of a free one only.
    next: Option<usize>,
}

#[derive(Debug)]
struct RoleEntry {
    role: Role,
    // INVARIANT: made of the rules of `role`.
    sorted: RuleIndex,
}

impl RoleSlot {
    fn is_unused(&self) -> bool {
        self.role.is_none() && self.bindings == 0
    }
}

impl RoleTable {
    /// Whether every slot is free.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// The number of a free slot, which is the caller's from now on.
    pub(crate) fn take(&mut self) -> usize {
        self.taken += 1;
        if let Some(number) = self.free {
            self.free = self.slot_mut(number).and_then(|slot| slot.next.take());
            return number;
        }
        let first = self.chunks.len() * CHUNK;
        let last = first + CHUNK - 1;
        let slot = |number| RoleSlot {
            next: (number < last).then_some(number + 1),
            ..RoleSlot::default()
        };
        let mut chunk: Vec<RoleSlot> = (first..=last).map(slot).collect();
        self.free = chunk.first_mut().and_then(|slot| slot.next.take());
        self.chunks.push(chunk.into());
        first
    }

    /// The role under a number.
    pub(crate) fn role(&self, number: usize) -> Option<&Role> {
        self.slot(number)?.role.as_deref().map(|entry| &entry.role)
    }

    /// The same, if it allows what is asked; `bit` is that of the question.
    pub(crate) fn allowing(
        &self,
        number: usize,
        bit: u64,
        requested: &RequestAttributes<'_>,
    ) -> Option<&Role> {
        let slot = self.slot(number).filter(|slot| slot.mentions & bit != 0)?;
        let RoleEntry { role, sorted } = slot.role.as_deref()?;
        sorted.allows(&role.rules, requested).then_some(role)
    }

    pub(crate) fn put_role(&mut self, number: usize, role: Role) {
        let sorted = RuleIndex::new(&role.rules);
        if let Some(slot) = self.slot_mut(number) {
            slot.mentions = sorted.mentions();
            slot.role = Some(Arc::new(RoleEntry { role, sorted }));
        }
    }

    /// Forgets the role; whether the slot is free now.
    pub(crate) fn remove_role(&mut self, number: usize) -> bool {
        if let Some(slot) = self.slot_mut(number) {
            slot.role = None;
            slot.mentions = 0;
        }
        self.release_unused(number)
    }

    /// Counts a binding that mentions the role.
    pub(crate) fn bind(&mut self, number: usize) {
        if let Some(slot) = self.slot_mut(number) {
            slot.bindings += 1;
        }
    }

    /// Counts a binding less; whether the slot is free now.
    pub(crate) fn unbind(&mut self, number: usize) -> bool {
        if let Some(slot) = self.slot_mut(number) {
            slot.bindings = slot.bindings.saturating_sub(1);
        }
        self.release_unused(number)
    }

    fn release_unused(&mut self, number: usize) -> bool {
        let free = self.free;
        let Some(slot) = self.slot_mut(number).filter(|slot| slot.is_unused()) else {
            return false;
        };
        slot.next = free;
        self.free = Some(number);
        self.taken = self.taken.saturating_sub(1);
        true
    }

    fn slot(&self, number: usize) -> Option<&RoleSlot> {
        self.chunks.get(number / CHUNK)?.get(number % CHUNK)
    }

    fn slot_mut(&mut self, number: usize) -> Option<&mut RoleSlot> {
        Arc::make_mut(self.chunks.get_mut(number / CHUNK)?).get_mut(number % CHUNK)
    }
}
