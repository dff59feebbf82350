//! The plan of one namespace: what to write about each subject that has to be looked at, and when.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::decide::Difference;
use crate::facts::{
    CollectionVerdict, RetentionEngineSettings, RetentionFinding, RetentionIntent, RetentionIssue,
    SubjectKey, SubjectState,
};
use crate::namespace_state::{IntentState, NamespaceState, OptedInSubject, SlotId};

/// A denial is told when it lasted this long: most are over at once.
const TELL_AFTER_MS: u64 = 1000;
/// A denial is told again after this time at the earliest (R50).
const TELL_EVERY_MS: u64 = 600_000;

/// The order inside one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanPhase {
    Tell,
    Add,
    Remove,
    Delete,
}

/// An intent, when its turn is and whom it is about.
#[derive(Debug)]
pub(crate) struct StagedIntent {
    pub(crate) stage: PlanPhase,
    pub(crate) key: SubjectKey,
    pub(crate) intent: RetentionIntent,
}

/// Plans for every subject of a namespace that has to be looked at now.
pub(crate) fn plan(
    namespace: &str,
    place: &mut NamespaceState,
    now: u64,
    settings: &RetentionEngineSettings,
    wanted: &mut Vec<StagedIntent>,
    states: &mut [usize; 6],
) {
    let mut due: BTreeSet<SlotId> = core::mem::take(&mut place.dirty);
    due.append(&mut place.waiting);
    take_due(&mut place.later, now, &mut due);
    take_due(&mut place.tell, now, &mut due);
    for id in due {
        let state = place.state(id, settings);
        let mut look = SubjectPlanner { namespace, id, now, settings, place, wanted };
        look.collection();
        look.owners();
        if let Some(kept) = place.subject_mut(id) {
            count(states, core::mem::replace(&mut kept.state, state), state);
        }
    }
}

fn take_due(times: &mut BTreeSet<(u64, SlotId)>, now: u64, due: &mut BTreeSet<SlotId>) {
    while let Some(first) = times.first().copied().filter(|(at, _)| *at <= now) {
        times.remove(&first);
        due.insert(first.1);
    }
}

/// Moves a subject from one state to another.
pub(crate) fn count(
    states: &mut [usize; 6],
    before: Option<SubjectState>,
    after: Option<SubjectState>,
) {
    if let Some(count) = before.and_then(|state| states.get_mut(state as usize)) {
        *count -= 1;
    }
    if let Some(count) = after.and_then(|state| states.get_mut(state as usize)) {
        *count += 1;
    }
}

/// One look at one subject.
struct SubjectPlanner<'a> {
    namespace: &'a str,
    id: SlotId,
    now: u64,
    settings: &'a RetentionEngineSettings,
    place: &'a mut NamespaceState,
    wanted: &'a mut Vec<StagedIntent>,
}

impl SubjectPlanner<'_> {
    /// A collection that was denied: may it go on, and should people know?
    fn collection(&mut self) {
        let verdict = self.place.may_go(self.id, self.settings);
        let Some(kept) = self.place.subject_mut(self.id) else { return };
        let Some(since) = kept.denied_since else { return };
        match verdict {
            Some(CollectionVerdict::Clear) => {
                kept.denied_since = None;
                let uid = kept.uid.clone();
                self.want(PlanPhase::Delete, RetentionIntent::Release { uid });
            }
            Some(CollectionVerdict::Hold { users, count }) if count > 0 => {
                if kept.reported.is_some_and(|reported| self.now < reported + TELL_EVERY_MS) {
                    return;
                }
                if self.now < since + TELL_AFTER_MS {
                    self.place.tell.insert((since + TELL_AFTER_MS, self.id));
                    return;
                }
                kept.reported = Some(self.now);
                self.report(RetentionIssue::Held { users, count });
            }
            _ => {}
        }
    }

    /// The owner list: what it lacks, what it has too much of.
    fn owners(&mut self) {
        let Some(slot) = self.place.slots.get(self.id) else { return };
        let Some(kept) = slot.subject.as_deref() else { return };
        if kept.terminating || kept.busy != IntentState::No {
            return;
        }
        if kept.not_before > self.now {
            self.place.later.insert((kept.not_before, self.id));
            return;
        }
        let difference = self.place.difference(self.id, slot, self.settings);
        let stranded = kept.stripped && difference.add.is_empty() && kept.entries.is_empty();
        if difference.withheld {
            self.place.waiting.insert(self.id);
        }
        self.tell(stranded, &difference);
        if difference.add.is_empty() && difference.remove.is_empty() {
            return;
        }
        let Some(slot) = self.place.slots.get(self.id) else { return };
        let Some(kept) = slot.subject.as_deref() else { return };
        // The list is never emptied: who lets go last takes the subject along (R31).
        let last = !self.settings.draining
            && difference.add.is_empty()
            && !self.place.outlasts(kept, &difference.remove);
        if !last {
            self.edit(difference);
        } else if self.place.verdict(slot, self.settings) == CollectionVerdict::Clear {
            self.delete();
        }
    }

    fn tell(&mut self, stranded: bool, difference: &Difference) {
        let Some(kept) = self.place.subject_mut(self.id) else { return };
        kept.stripped = false;
        let full = difference.refused > 0;
        let newly_full = full && !core::mem::replace(&mut kept.full, full);
        kept.full = full;
        if stranded && !self.settings.draining {
            self.report(RetentionIssue::Orphaned);
        }
        if newly_full {
            self.report(RetentionIssue::OwnerListFull(difference.refused));
        }
    }

    fn edit(&mut self, difference: Difference) {
        let (now, every) = (self.now, self.settings.edit_every_ms);
        let Some(kept) = self.place.subject_mut(self.id) else { return };
        if kept.edit_from > now {
            let at = kept.edit_from;
            self.place.later.insert((at, self.id));
            return;
        }
        kept.edit_from = now + every;
        kept.busy = IntentState::UnderWay;
        let (uid, revision) = (kept.uid.clone(), kept.revision);
        let Difference { add, remove, .. } = difference;
        let stage = if add.is_empty() { PlanPhase::Remove } else { PlanPhase::Add };
        let Some(key) = self.key() else { return };
        self.want(stage, RetentionIntent::Edit { key, uid, revision, add, remove });
    }

    fn delete(&mut self) {
        let Some(kept) = self.place.subject_mut(self.id) else { return };
        kept.busy = IntentState::UnderWay;
        let (uid, revision) = (kept.uid.clone(), kept.revision);
        let Some(key) = self.key() else { return };
        self.want(PlanPhase::Delete, RetentionIntent::Delete { key, uid, revision });
    }

    fn report(&mut self, about: RetentionIssue) {
        let (Some(key), Some(uid)) = (self.key(), self.uid()) else { return };
        self.want(PlanPhase::Tell, RetentionIntent::Report(RetentionFinding { key, uid, about }));
    }

    fn uid(&self) -> Option<Box<str>> {
        let kept: &OptedInSubject = self.place.slots.get(self.id)?.subject.as_deref()?;
        Some(kept.uid.clone())
    }

    fn key(&self) -> Option<SubjectKey> {
        let slot = self.place.slots.get(self.id)?;
        Some(SubjectKey {
            namespace: self.namespace.into(),
            kind: slot.kind,
            name: (*slot.name).into(),
        })
    }

    fn want(&mut self, stage: PlanPhase, intent: RetentionIntent) {
        if let Some(key) = self.key() {
            self.wanted.push(StagedIntent { stage, key, intent });
        }
    }
}
