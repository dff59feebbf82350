//! Decisions about one subject: who should own it, who may let go of it, whether it may be collected.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::facts::{
    CollectionVerdict, RetentionEngineSettings, SubjectHolder, SubjectState, UserKind,
};
use crate::namespace_state::{NameSlot, NamespaceState, OptedInSubject, SlotId, TrackedUser};

/// How many users are named to people.
const NAMED_MAX: usize = 3;

/// What an owner list lacks and has too much of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) add: Vec<SubjectHolder>,
    /// Holders that found no room.
    pub(crate) refused: usize,
    pub(crate) remove: Vec<Box<str>>,
    /// Entries that should go and cannot yet.
    pub(crate) withheld: bool,
}

impl NamespaceState {
    /// The living holders that should own a subject, in the order of their names (section 5), each
    /// with whether it should be added or only stay.
    pub(crate) fn desired(&self, id: SlotId, slot: &NameSlot) -> BTreeMap<SubjectHolder, bool> {
        let mut desired = BTreeMap::new();
        for user in slot.users.iter().filter_map(|id| self.users.get(*id)) {
            if let Some(holder) = self.holder_of(user) {
                let adds = user.kind != UserKind::Pod || !user.pulls.contains(&id);
                *desired.entry(holder.named()).or_default() |= adds;
            }
        }
        desired
    }

    /// The living holder through which a user keeps what it mentions.
    fn holder_of<'a>(&'a self, user: &'a TrackedUser) -> Option<&'a TrackedUser> {
        let holder = match user.kind {
            UserKind::Pod => {
                self.user(user.controller.as_deref()?).filter(|h| h.kind.outlived_by_pods())?
            }
            kind if kind.is_holder() => user,
            _ => return None,
        };
        (!holder.terminating).then_some(holder)
    }

    /// What to change of an owner list; dead entries are the collector's business.
    pub(crate) fn difference(
        &self,
        id: SlotId,
        slot: &NameSlot,
        settings: &RetentionEngineSettings,
    ) -> Difference {
        let Some(kept) = slot.subject.as_deref() else { return Difference::default() };
        if settings.draining {
            let managed = kept.entries.iter().filter(|entry| entry.managed);
            let remove = managed.map(|entry| (*entry.uid).into()).collect();
            return Difference { remove, ..Difference::default() };
        }
        let desired = self.desired(id, slot);
        let has: BTreeSet<&str> = kept.entries.iter().map(|entry| &*entry.uid).collect();
        let missing = desired.iter().filter(|(named, adds)| **adds && !has.contains(&*named.uid));
        let missing: Vec<SubjectHolder> = missing.map(|(named, _)| named.clone()).collect();
        let room = settings.entries_max.saturating_sub(self.living(kept));
        let mut difference = Difference {
            refused: missing.len().saturating_sub(room),
            add: missing.into_iter().take(room).collect(),
            ..Difference::default()
        };
        let wanted: BTreeSet<&str> = desired.keys().map(|named| &*named.uid).collect();
        for entry in kept.entries.iter().filter(|entry| entry.managed) {
            let Some(holder) = self.user(&entry.uid).filter(|holder| !holder.terminating) else {
                continue;
            };
            if wanted.contains(&*entry.uid) {
                continue;
            }
            if self.lacks_elsewhere(holder, settings) {
                difference.withheld = true;
            } else {
                difference.remove.push((*entry.uid).into());
            }
        }
        difference
    }

    /// How many managed entries name somebody who is there.
    fn living(&self, kept: &OptedInSubject) -> usize {
        let managed = kept.entries.iter().filter(|entry| entry.managed);
        managed.filter(|entry| self.user(&entry.uid).is_some()).count()
    }

    /// Whether a holder is still to be added somewhere: adds come before removals.
    fn lacks_elsewhere(&self, holder: &TrackedUser, settings: &RetentionEngineSettings) -> bool {
        holder.mentions.iter().any(|id| {
            let kept = self.slots.get(*id).and_then(|slot| slot.subject.as_deref());
            kept.is_some_and(|kept| {
                !kept.terminating
                    && self.living(kept) < settings.entries_max
                    && !kept.entries.iter().any(|entry| entry.uid == holder.uid)
            })
        })
    }

    /// Whether anything but entries known to be dead is left once some are removed.
    pub(crate) fn outlasts(&self, kept: &OptedInSubject, removed: &[Box<str>]) -> bool {
        kept.entries.iter().any(|entry| {
            let stays = !entry.managed || self.user(&entry.uid).is_some();
            stays && !removed.iter().any(|uid| **uid == *entry.uid)
        })
    }

    /// The guard's answer (R50): living holders, living roots and pods hold.
    pub(crate) fn verdict(
        &self,
        slot: &NameSlot,
        settings: &RetentionEngineSettings,
    ) -> CollectionVerdict {
        if !settings.guarded {
            return CollectionVerdict::Clear;
        }
        let holds = |user: &&TrackedUser| user.kind == UserKind::Pod || !user.terminating;
        let users = slot.users.iter().filter_map(|id| self.users.get(*id)).filter(holds);
        let mut users: Vec<SubjectHolder> = users.map(TrackedUser::named).collect();
        let count = users.len();
        if count == 0 {
            return CollectionVerdict::Clear;
        }
        users.sort();
        users.truncate(NAMED_MAX);
        CollectionVerdict::Hold { users, count }
    }

    /// Whether the collector may have a subject; `None` when there is none.
    ///
    /// While entries are taken off, only a list that has none of them is the collector's.
    pub(crate) fn may_go(
        &self,
        id: SlotId,
        settings: &RetentionEngineSettings,
    ) -> Option<CollectionVerdict> {
        let slot = self.slots.get(id)?;
        let managed = slot.subject.as_ref()?.entries.iter().any(|entry| entry.managed);
        Some(match settings.draining {
            true if managed => CollectionVerdict::Hold { users: Vec::new(), count: 0 },
            true => CollectionVerdict::Clear,
            false => self.verdict(slot, settings),
        })
    }

    /// The state of a subject (section 6).
    pub(crate) fn state(
        &self,
        id: SlotId,
        settings: &RetentionEngineSettings,
    ) -> Option<SubjectState> {
        let slot = self.slots.get(id)?;
        let kept = slot.subject.as_deref()?;
        if kept.terminating {
            return Some(SubjectState::S6);
        }
        if kept.entries.is_empty() {
            return Some(SubjectState::S1);
        }
        let dead = |uid: &str| self.user(uid).is_none();
        let dead = kept.entries.iter().filter(|entry| entry.managed && dead(&entry.uid)).count();
        Some(match dead {
            0 => SubjectState::S2,
            _ if dead < kept.entries.len() => SubjectState::S3,
            _ if self.verdict(slot, settings) == CollectionVerdict::Clear => SubjectState::S4,
            _ => SubjectState::S5,
        })
    }
}
