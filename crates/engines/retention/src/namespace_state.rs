//! One namespace: who mentions which name, and the subjects under those names.
//!
//! ```text
//!   User ──mentions──► Slot (kind, name) ◄── Subject, while one of that name is opted in
//!     ▲ controller                                 └─ entries ──uid──► User
//!     └── pod
//! ```
//!
//! Nothing here decides.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::facts::{
    RetentionSubject, RetentionUser, SubjectHolder, SubjectKind, SubjectState, UserKind,
};

/// The place of a user.
pub(crate) type UserId = u32;
/// The place of a name.
pub(crate) type SlotId = u32;

/// Things by number; numbers of those gone are used again.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.items.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.items.get_mut(id as usize)?.as_mut()
    }

    /// One more than the greatest number in use.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.items.len()).unwrap_or(u32::MAX)
    }

    fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            if let Some(place) = self.items.get_mut(id as usize) {
                *place = Some(item);
            }
            return id;
        }
        let id = self.end();
        self.items.push(Some(item));
        id
    }

    fn remove(&mut self, id: u32) -> Option<T> {
        let item = self.items.get_mut(id as usize)?.take();
        if item.is_some() {
            self.free.push(id);
        }
        item
    }
}

/// Somebody who mentions names.
#[derive(Clone, Debug)]
pub(crate) struct TrackedUser {
    pub(crate) kind: UserKind,
    pub(crate) terminating: bool,
    pub(crate) name: Box<str>,
    pub(crate) uid: Arc<str>,
    pub(crate) controller: Option<Arc<str>>,
    pub(crate) mentions: Box<[SlotId]>,
    /// Those of them that make no owner.
    pub(crate) pulls: Box<[SlotId]>,
}

impl TrackedUser {
    pub(crate) fn named(&self) -> SubjectHolder {
        SubjectHolder { kind: self.kind, name: self.name.clone(), uid: (*self.uid).into() }
    }
}

/// A name that somebody mentions or a subject has.
#[derive(Clone, Debug)]
pub(crate) struct NameSlot {
    pub(crate) kind: SubjectKind,
    pub(crate) name: Arc<str>,
    pub(crate) users: BTreeSet<UserId>,
    pub(crate) subject: Option<Box<OptedInSubject>>,
}

/// Whether something was asked for and is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IntentState {
    #[default]
    No,
    /// Nothing was heard of it yet.
    UnderWay,
    /// It is in the log from this revision on.
    Until(Revision),
}

/// An opted-in subject.
#[derive(Clone, Debug)]
pub(crate) struct OptedInSubject {
    pub(crate) uid: Box<str>,
    pub(crate) revision: Revision,
    pub(crate) terminating: bool,
    pub(crate) entries: Box<[OwnerListEntry]>,
    pub(crate) busy: IntentState,
    pub(crate) failures: u32,
    /// Not before this time is anything tried.
    pub(crate) not_before: u64,
    /// When the owner list may be edited again.
    pub(crate) edit_from: u64,
    /// Since when a denied collection waits.
    pub(crate) denied_since: Option<u64>,
    /// When it was last told that a collection was denied.
    pub(crate) reported: Option<u64>,
    /// Its managed entries vanished, and not by this engine.
    pub(crate) stripped: bool,
    /// It was told that there is no room.
    pub(crate) full: bool,
    pub(crate) state: Option<SubjectState>,
}

/// One entry of an owner list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerListEntry {
    pub(crate) uid: Arc<str>,
    pub(crate) managed: bool,
}

/// A namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamespaceState {
    pub(crate) slots: Slab<NameSlot>,
    by_name: [BTreeMap<Arc<str>, SlotId>; 2],
    pub(crate) users: Slab<TrackedUser>,
    by_uid: BTreeMap<Arc<str>, UserId>,
    // INVARIANT: holds exactly the pods that have a controller, by its uid.
    pods: BTreeMap<Arc<str>, BTreeSet<UserId>>,
    /// Names that have to be looked at.
    pub(crate) dirty: BTreeSet<SlotId>,
    /// Names whose entries cannot go yet: looked at with every plan.
    pub(crate) waiting: BTreeSet<SlotId>,
    /// Names that have to be looked at at some time.
    pub(crate) later: BTreeSet<(u64, SlotId)>,
    /// Names whose denied collection is told of at some time.
    pub(crate) tell: BTreeSet<(u64, SlotId)>,
    pub(crate) subjects: usize,
}

impl NamespaceState {
    /// When it has to be looked at.
    pub(crate) fn due(&self) -> Option<u64> {
        if !self.dirty.is_empty() {
            return Some(0);
        }
        [&self.later, &self.tell].into_iter().filter_map(|set| Some(set.first()?.0)).min()
    }

    /// Whether it has to be looked at now.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.due().is_some_and(|at| at <= now)
    }

    pub(crate) fn user(&self, uid: &str) -> Option<&TrackedUser> {
        self.users.get(*self.by_uid.get(uid)?)
    }

    pub(crate) fn slot_of(&self, kind: SubjectKind, name: &str) -> Option<SlotId> {
        self.by_name.get(kind as usize)?.get(name).copied()
    }

    pub(crate) fn subject_mut(&mut self, id: SlotId) -> Option<&mut OptedInSubject> {
        self.slots.get_mut(id)?.subject.as_deref_mut()
    }

    /// The user as it is now; what is as it was costs nothing more.
    pub(crate) fn put_user(&mut self, user: &RetentionUser<'_>) {
        let mentions: BTreeSet<SlotId> =
            user.references.iter().map(|(kind, name)| self.slot(*kind, name)).collect();
        let mentions: Box<[SlotId]> = mentions.into_iter().collect();
        let id = match self.by_uid.get(user.uid) {
            Some(id) => *id,
            None => self.new_user(user),
        };
        let pulls: Box<[SlotId]> =
            user.pulls.iter().filter_map(|(kind, name)| self.slot_of(*kind, name)).collect();
        let Some(known) = self.users.get_mut(id) else { return };
        let old = core::mem::replace(&mut known.mentions, mentions.clone());
        let pulled = core::mem::replace(&mut known.pulls, pulls.clone());
        if old != mentions || pulled != pulls {
            for slot in old.iter().filter(|slot| !mentions.contains(slot)) {
                self.forget_mention(*slot, id);
            }
            for slot in mentions.iter().filter(|slot| !old.contains(slot)) {
                if let Some(slot) = self.slots.get_mut(*slot) {
                    slot.users.insert(id);
                }
            }
            self.dirty.extend(mentions.iter().chain(&*old));
        }
        self.touch_user(user.uid, user.terminating, user.controller);
    }

    fn new_user(&mut self, user: &RetentionUser<'_>) -> UserId {
        let uid: Arc<str> = user.uid.into();
        let id = self.users.insert(TrackedUser {
            kind: user.kind,
            terminating: false,
            name: user.name.into(),
            uid: Arc::clone(&uid),
            controller: None,
            mentions: Box::default(),
            pulls: Box::default(),
        });
        self.by_uid.insert(Arc::clone(&uid), id);
        self.dirty_pods_of(&uid);
        id
    }

    /// What may change of a user besides its mentions; false when it is not known.
    pub(crate) fn touch_user(
        &mut self,
        uid: &str,
        terminating: bool,
        controller: Option<&str>,
    ) -> bool {
        let Some(id) = self.by_uid.get(uid).copied() else { return false };
        let Some(known) = self.users.get_mut(id) else { return false };
        let moved = known.controller.as_deref() != controller;
        if !moved && known.terminating == terminating {
            return true;
        }
        known.terminating = terminating;
        let kind = known.kind;
        self.dirty.extend(&*known.mentions);
        if moved {
            let new: Option<Arc<str>> = controller.map(Into::into);
            let old = core::mem::replace(&mut known.controller, new.clone());
            self.leave_controller(old, id);
            if let Some(new) = new {
                self.pods.entry(new).or_default().insert(id);
            }
        }
        if kind.outlived_by_pods() {
            self.dirty_pods_of(uid);
        }
        true
    }

    fn leave_controller(&mut self, controller: Option<Arc<str>>, pod: UserId) {
        let Some(controller) = controller else { return };
        if let Some(pods) = self.pods.get_mut(&controller) {
            pods.remove(&pod);
            if pods.is_empty() {
                self.pods.remove(&controller);
            }
        }
    }

    fn dirty_pods_of(&mut self, controller: &str) {
        for pod in self.pods.get(controller).into_iter().flatten() {
            if let Some(pod) = self.users.get(*pod) {
                self.dirty.extend(&*pod.mentions);
            }
        }
    }

    pub(crate) fn gone_user(&mut self, uid: &str) {
        let Some(id) = self.by_uid.remove(uid) else { return };
        let Some(known) = self.users.remove(id) else { return };
        self.leave_controller(known.controller, id);
        self.dirty_pods_of(uid);
        self.dirty.extend(&*known.mentions);
        for slot in &known.mentions {
            self.forget_mention(*slot, id);
        }
    }

    /// The slot of a name, made when there is none.
    fn slot(&mut self, kind: SubjectKind, name: &str) -> SlotId {
        if let Some(id) = self.slot_of(kind, name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let slot =
            NameSlot { kind, name: Arc::clone(&name), users: BTreeSet::new(), subject: None };
        let id = self.slots.insert(slot);
        if let Some(names) = self.by_name.get_mut(kind as usize) {
            names.insert(name, id);
        }
        id
    }

    fn forget_mention(&mut self, id: SlotId, user: UserId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.users.remove(&user);
        }
        self.forget_empty(id);
    }

    fn forget_empty(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get(id) else { return };
        if slot.users.is_empty() && slot.subject.is_none() {
            let (kind, name) = (slot.kind, Arc::clone(&slot.name));
            if let Some(names) = self.by_name.get_mut(kind as usize) {
                names.remove(&name);
            }
            self.slots.remove(id);
            self.dirty.remove(&id);
            self.waiting.remove(&id);
            self.later.retain(|(_, later)| *later != id);
            self.tell.retain(|(_, later)| *later != id);
        }
    }

    /// The subject as it is now; the uid and entries it had before, if it was known.
    pub(crate) fn put_subject(&mut self, subject: &RetentionSubject<'_>) -> SlotId {
        let id = self.slot(subject.kind, subject.name);
        let entry = |uid: &str| match self.by_uid.get_key_value(uid) {
            Some((uid, _)) => Arc::clone(uid),
            None => Arc::from(uid),
        };
        let entries = subject
            .owners
            .iter()
            .map(|owner| OwnerListEntry { uid: entry(owner.uid), managed: owner.managed })
            .collect();
        let Some(slot) = self.slots.get_mut(id) else { return id };
        match &mut slot.subject {
            Some(kept) if *kept.uid == *subject.uid => {
                kept.revision = subject.revision;
                kept.terminating = subject.terminating;
                kept.entries = entries;
                if matches!(kept.busy, IntentState::Until(revision) if revision <= subject.revision)
                {
                    kept.busy = IntentState::No;
                }
            }
            other => {
                self.subjects += usize::from(other.is_none());
                *other = Some(Box::new(OptedInSubject {
                    uid: subject.uid.into(),
                    revision: subject.revision,
                    terminating: subject.terminating,
                    entries,
                    busy: IntentState::No,
                    failures: 0,
                    not_before: 0,
                    edit_from: 0,
                    denied_since: None,
                    reported: None,
                    stripped: false,
                    full: false,
                    state: None,
                }));
            }
        }
        self.dirty.insert(id);
        id
    }

    /// Forgets a subject and gives it back.
    pub(crate) fn gone_subject(&mut self, id: SlotId) -> Option<OptedInSubject> {
        let kept = self.slots.get_mut(id)?.subject.take()?;
        self.subjects -= 1;
        self.waiting.remove(&id);
        // What waited for an entry on this one waits no longer.
        self.dirty.append(&mut self.waiting);
        self.forget_empty(id);
        Some(*kept)
    }
}
