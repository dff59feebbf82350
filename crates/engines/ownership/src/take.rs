//! Taking in what happened: objects, removals, types, outcomes. What follows is decided elsewhere.

use alloc::vec::Vec;

use tenure_core::Revision;

use crate::OwnershipEngine;
use crate::cascade::{CascadeAction, Pending, WriteProgress};
use crate::graph::{EdgeId, NodeId, ResourceId, flag, mark};
use crate::intent::{OwnershipIntent, WriteId};
use crate::journal::{Cause, CauseId};
use crate::object::{ChangeOrder, KindVersion, Object, OwnerView, WriteOutcome};
use crate::rule::OwnershipRule;
use crate::slab::NONE;

pub(crate) fn state_flags(object: &Object<'_>) -> u16 {
    let when = |is: bool, flag: u16| if is { flag } else { 0 };
    when(object.terminating, flag::TERMINATING)
        | when(object.finalizers.foreground, flag::FOREGROUND)
        | when(object.finalizers.orphan, flag::ORPHAN)
        | when(object.finalizers.other, flag::OTHER)
}

pub(crate) fn edge_marks(owner: &OwnerView<'_>) -> u32 {
    let block = if owner.block { mark::BLOCK } else { 0 };
    block | if owner.controller { mark::CONTROLLER } else { 0 }
}

impl OwnershipEngine {
    /// An object as it now is: created, updated, or first heard of.
    ///
    /// A change that does not touch ownership costs one lookup and wants nothing.
    pub fn put(&mut self, object: &Object<'_>, out: &mut Vec<OwnershipIntent>) {
        self.revision = self.revision.max(object.revision);
        let fingerprint = self.fingerprint(object);
        let found = self.graph.find(object.uid);
        if let Some(id) = found {
            let node = self.graph.node_mut(id);
            // What comes late, or twice after a watch began anew, is old news.
            if object.revision.0 < node.revision {
                return;
            }
            if node.seen() && node.fingerprint == fingerprint {
                node.revision = object.revision.0;
                if node.is(flag::PENDING) {
                    self.effect_came(id);
                    self.settle(out);
                }
                return;
            }
            if node.is(flag::GONE) && object.revision.0 == node.revision {
                return;
            }
        }
        let seen = found.is_some_and(|id| self.graph.node(id).seen());
        if !seen {
            let holder = self.graph.at_key(object.resource.0, object.namespace, object.name);
            match holder {
                // An echo of somebody who had the name before.
                Some(id) if self.graph.node(id).revision > object.revision.0 => return,
                // A new uid under a known name: the old object went unnoticed (R87).
                Some(id) => self.remove(id, object.revision, true),
                None => {}
            }
        }
        self.take_in(object, fingerprint);
        self.settle(out);
    }

    /// An object is no longer there.
    pub fn gone(&mut self, uid: &str, revision: Revision, out: &mut Vec<OwnershipIntent>) {
        self.revision = self.revision.max(revision);
        let Some(id) = self.graph.find(uid) else { return };
        let node = self.graph.node(id);
        if node.seen() && revision.0 >= node.revision {
            self.remove(id, revision, true);
            self.settle(out);
        }
    }

    /// An object will be gone once a write under way is committed.
    ///
    /// If that fails the host puts the object again, at the revision it has.
    pub fn foresee_gone(&mut self, uid: &str, out: &mut Vec<OwnershipIntent>) {
        let Some(id) = self.graph.find(uid) else { return };
        if self.graph.node(id).seen() {
            let revision = Revision(self.graph.node(id).revision);
            self.remove(id, revision, false);
            self.settle(out);
        }
    }

    /// A change was seen that does not touch ownership, so the host did not feed it.
    pub fn pass(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Everything that exists has been fed; decisions begin.
    ///
    /// A host without a total order calls this when all resources are listed, or after its patience
    /// ends (R139).
    pub fn synced(&mut self, revision: Revision, out: &mut Vec<OwnershipIntent>) {
        self.revision = self.revision.max(revision);
        if self.synced {
            return;
        }
        self.synced = true;
        for id in self.graph.node_ids() {
            let node = self.graph.node(id);
            if node.first_reference != NONE || node.is(flag::TERMINATING) {
                self.dirty(id, CauseId::default());
                self.suspect(id);
            }
        }
        self.settle(out);
    }

    /// What came of a write. An outcome of a write that was superseded is ignored.
    pub fn outcome(
        &mut self,
        write: WriteId,
        outcome: &WriteOutcome<'_>,
        out: &mut Vec<OwnershipIntent>,
    ) {
        let Some(id) = self.by_write.get(&write).copied() else { return };
        match outcome {
            WriteOutcome::Applied(revision) => {
                self.set_progress(id, WriteProgress::Applied(*revision));
                self.effect_came(id);
            }
            WriteOutcome::NotFound | WriteOutcome::UidMismatch => match self.order {
                // The removal is in the log and will be fed.
                ChangeOrder::Total => {
                    self.set_progress(id, WriteProgress::Applied(Revision(u64::MAX)))
                }
                ChangeOrder::PerResource => {
                    let revision = Revision(self.graph.node(id).revision);
                    self.remove(id, revision, true);
                }
            },
            WriteOutcome::Conflict(now) => {
                let pending = self.pending.get(&id).cloned();
                self.drop_pending(id);
                if let Some(object) = now {
                    self.put(object, out);
                }
                if let Some(before) = pending {
                    self.after_conflict(id, &before, out);
                }
            }
            WriteOutcome::Denied | WriteOutcome::Failed => {
                self.set_progress(id, WriteProgress::Failed)
            }
        }
        self.settle(out);
    }

    /// Tries again what failed for an object; what is still under way is not repeated.
    pub fn retry(&mut self, uid: &str, out: &mut Vec<OwnershipIntent>) {
        let Some(id) = self.graph.find(uid) else { return };
        if matches!(self.pending.get(&id), Some(pending) if pending.state == WriteProgress::Failed)
        {
            self.drop_pending(id);
        }
        self.dirty(id, CauseId::default());
        self.settle(out);
    }

    fn after_conflict(&mut self, id: NodeId, before: &Pending, out: &mut Vec<OwnershipIntent>) {
        if !self.graph.node(id).seen() || self.pending.contains_key(&id) {
            return;
        }
        if matches!(before.want, CascadeAction::Unblock(_)) {
            self.unbreak(id);
            self.dirty(id, CauseId::default());
            return;
        }
        self.decide_again(id, before, out);
    }

    fn set_progress(&mut self, id: NodeId, progress: WriteProgress) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.state = progress;
        }
    }

    /// If the effect of an applied write has been fed, the object is decided about anew.
    fn effect_came(&mut self, id: NodeId) {
        let revision = Revision(self.graph.node(id).revision);
        let state = self.pending.get(&id).map(|pending| pending.state);
        if matches!(state, Some(WriteProgress::Applied(at)) if at <= revision) {
            self.drop_pending(id);
            self.dirty(id, CauseId::default());
        }
    }

    /// Takes in an object that is new or whose ownership changed.
    fn take_in(&mut self, object: &Object<'_>, fingerprint: u64) {
        let id = self.graph.ensure(object.uid);
        let fresh = !self.graph.node(id).seen();
        if fresh {
            self.graph.seat(id, object.resource.0, object.namespace, object.name);
        }
        let before = *self.graph.node(id);
        let node = self.graph.node_mut(id);
        node.revision = object.revision.0;
        node.fingerprint = fingerprint;
        node.flags = (node.flags & !flag::STATE) | state_flags(object);
        let after = *node;
        let cause = self.deletion_cause(id, before.is(flag::TERMINATING));
        if before.first_reference != NONE || !object.owners.is_empty() {
            self.replace_references(id, object.owners);
        }
        if fresh {
            self.forget_asks(id);
        }
        let turned = before.waiting() != after.waiting() || before.orphaning() != after.orphaning();
        if (fresh || turned) && after.first_dependent != NONE {
            self.recount_dependents(id, fresh, cause);
        }
        if before.waiting() && !after.waiting() {
            self.unbreak(id);
        }
        self.ring_touched(id);
        self.suspect(id);
        self.effect_came(id);
        self.dirty(id, cause);
    }

    /// Why an object is being deleted, noted when its deletion is first seen.
    fn deletion_cause(&mut self, id: NodeId, was_terminating: bool) -> CauseId {
        let node = self.graph.node(id);
        if !node.is(flag::TERMINATING) {
            return CauseId::default();
        }
        if let Some(cause) = self.causes.get(&id) {
            return *cause;
        }
        let ours = self
            .pending
            .get(&id)
            .filter(|pending| matches!(pending.want, CascadeAction::Delete(_)));
        let cause = match ours {
            Some(pending) if !was_terminating => pending.cause,
            _ => self.note_client(id, Revision(node.revision)),
        };
        self.causes.insert(id, cause);
        cause
    }

    fn note_client(&mut self, id: NodeId, revision: Revision) -> CauseId {
        let key = self.key(id);
        let parent = CauseId::default();
        self.journal.note(Cause { rule: OwnershipRule::Client, key, revision, parent })
    }

    fn replace_references(&mut self, id: NodeId, owners: &[OwnerView<'_>]) {
        let mut touched = self.unlink_references(id);
        let mut last = NONE;
        for owner in owners {
            let node = self.graph.ensure(owner.uid);
            let kind = self.kinds.hold(&mut self.graph.names, owner.api_version, owner.kind);
            let name = self.graph.names.hold(owner.name);
            last = self.graph.link((id, last), node, (kind, name), edge_marks(owner));
            self.recount(last);
            touched.push(node);
        }
        for owner in touched {
            self.owner_touched(owner);
        }
    }

    /// Takes all references of an object away; tells which owners it had.
    fn unlink_references(&mut self, id: NodeId) -> Vec<NodeId> {
        let mut owners = Vec::new();
        while let Some((number, edge)) = self.graph.unlink_first(id) {
            self.kinds.release(&mut self.graph.names, edge.kind);
            self.graph.names.release(edge.name);
            if edge.is(mark::BREAK) {
                self.forget_ring(number);
            }
            owners.push(edge.owner);
        }
        owners
    }

    /// An owner lost or gained a dependent.
    fn owner_touched(&mut self, owner: NodeId) {
        let node = self.graph.node(owner);
        if !node.seen() {
            if self.graph.node(owner).first_dependent == NONE {
                self.forget_asks(owner);
                self.graph.free_if_idle(owner);
            }
            return;
        }
        let released = (node.waiting() && node.blocking == 0)
            || (node.orphaning() && node.counted == 0)
            || node.is(flag::PENDING);
        if released {
            self.dirty(owner, CauseId::default());
        }
    }

    /// Counts a reference at its owner, or no longer.
    fn recount(&mut self, number: EdgeId) -> bool {
        let edge = *self.graph.edge(number);
        let resource = self.graph.node(edge.dependent).resource;
        let counts =
            edge.dependent != edge.owner && self.kinds.collected(resource) && self.valid(&edge);
        if counts == edge.is(mark::COUNTED) {
            return false;
        }
        let block = edge.marks & mark::BLOCK;
        self.graph.edge_mut(number).marks ^= mark::COUNTED;
        let owner = self.graph.node_mut(edge.owner);
        if counts {
            owner.counted += 1;
            owner.blocking += block;
        } else {
            owner.counted = owner.counted.saturating_sub(1);
            owner.blocking = owner.blocking.saturating_sub(block);
        }
        true
    }

    /// After an owner appeared, went or turned: its dependents are counted and decided about anew.
    fn recount_dependents(&mut self, owner: NodeId, all: bool, cause: CauseId) {
        let mut number = self.graph.node(owner).first_dependent;
        while number != NONE {
            let edge = *self.graph.edge(number);
            // Whether the owner waits matters only to those who refer to it validly.
            if all || edge.is(mark::COUNTED) {
                self.recount(number);
                if edge.is(mark::BREAK) {
                    self.forget_ring(number);
                }
                self.dirty(edge.dependent, cause);
            }
            number = edge.next_dependent;
        }
    }

    /// Takes an object out. Its uid stays known while somebody names it.
    fn remove(&mut self, id: NodeId, revision: Revision, for_good: bool) {
        let ours = self
            .pending
            .get(&id)
            .filter(|pending| matches!(pending.want, CascadeAction::Delete(_)));
        let known = self.causes.remove(&id).or(ours.map(|pending| pending.cause));
        self.drop_pending(id);
        let node = *self.graph.node(id);
        let cause = match known {
            Some(cause) => cause,
            None if node.first_dependent != NONE && for_good => self.note_client(id, revision),
            None => CauseId::default(),
        };
        self.forget_reports(id);
        self.forget_asks(id);
        let owners = self.unlink_references(id);
        self.graph.unseat(id);
        let node = self.graph.node_mut(id);
        if for_good {
            node.flags |= flag::GONE;
            node.revision = revision.0;
        } else {
            node.revision = 0;
        }
        self.recount_dependents(id, true, cause);
        self.ring_touched(id);
        for owner in owners {
            if owner != id {
                self.owner_touched(owner);
            }
        }
        self.graph.free_if_idle(id);
    }

    /// Kinds that are served from this revision on, and kinds that no longer are, by group and
    /// version and kind.
    ///
    /// A row that is added again replaces the one before it.
    pub fn types(
        &mut self,
        added: &[KindVersion<'_>],
        removed: &[(&str, &str)],
        revision: Revision,
        out: &mut Vec<OwnershipIntent>,
    ) {
        self.revision = self.revision.max(revision);
        self.types_generation = self.types_generation.wrapping_add(1);
        let before: Vec<(ResourceId, bool)> = added
            .iter()
            .map(|row| row.resource.0)
            .chain(removed.iter().filter_map(|(api_version, kind)| {
                self.resolve(api_version, kind).map(|(resource, _)| resource.0)
            }))
            .map(|resource| (resource, self.kinds.collected(resource)))
            .collect();
        let mut kinds = Vec::new();
        for (api_version, kind) in removed {
            kinds.extend(self.kinds.unserve(&mut self.graph.names, api_version, kind));
        }
        for row in added {
            kinds.push(self.kinds.serve(&mut self.graph.names, row));
        }
        kinds.sort_unstable();
        kinds.dedup();
        let turned = |(resource, was): &(ResourceId, bool)| *was != self.kinds.collected(*resource);
        let mut resources: Vec<ResourceId> =
            before.iter().filter(|b| turned(b)).map(|b| b.0).collect();
        resources.sort_unstable();
        resources.dedup();
        self.types_changed(&kinds, &resources);
        self.settle(out);
    }

    fn types_changed(&mut self, kinds: &[u32], resources: &[ResourceId]) {
        if self.order == ChangeOrder::PerResource {
            self.purge(resources);
            for kind in kinds {
                self.forget_asks_of_kind(*kind);
            }
        }
        let named = kinds.iter().any(|kind| self.kinds.get(*kind).edges > 0);
        if self.graph.len() == 0 || (!named && resources.is_empty()) {
            return;
        }
        // Types change rarely: one pass over the references finds those that are affected.
        for number in self.graph.edge_ids() {
            let edge = *self.graph.edge(number);
            if edge.owner == NONE {
                continue;
            }
            let resource = self.graph.node(edge.dependent).resource;
            let affected = kinds.binary_search(&edge.kind).is_ok();
            if affected || resources.binary_search(&resource).is_ok() {
                if self.recount(number) {
                    self.owner_touched(edge.owner);
                    self.ring_touched(edge.dependent);
                    self.suspect(edge.dependent);
                }
                self.dirty(edge.dependent, CauseId::default());
            }
        }
        for id in self.graph.node_ids() {
            let node = self.graph.node(id);
            if node.is(flag::TERMINATING) && resources.binary_search(&node.resource).is_ok() {
                self.dirty(id, CauseId::default());
            }
        }
    }

    /// Forgets the objects of resources that are no longer served, where nobody tells of their
    /// removal any more (G12). Their uids become unseen, not absent.
    fn purge(&mut self, resources: &[ResourceId]) {
        let unserved = |resource: &ResourceId| {
            resources.binary_search(resource).is_ok()
                && self.kinds.stored(*resource).is_some_and(|stored| stored.served == 0)
        };
        let ids: Vec<NodeId> = self
            .graph
            .node_ids()
            .filter(|id| self.graph.node(*id).seen() && unserved(&self.graph.node(*id).resource))
            .collect();
        for id in ids {
            self.remove(id, Revision::ZERO, false);
        }
    }
}
