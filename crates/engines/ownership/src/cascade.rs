//! The decision about one object: the table of R89 to R93, foreground, orphan.
//!
//! ```text
//!   change ──► dirty ──► decide ──► want ──► write, unless that very write is under way
//! ```
//!
//! What an object wants is a function of the graph. At most one write about an object is under
//! way; when the graph changes, a newer one supersedes it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::OwnershipEngine;
use crate::classify::OwnerState;
use crate::graph::{Edge, EdgeId, NodeId, flag, mark};
use crate::intent::{OwnershipIntent, OwnershipPrecondition, OwnershipWrite, WriteAction, WriteId};
use crate::journal::{Cause, CauseId};
use crate::name::NameId;
use crate::object::{ChangeOrder, DeletionPropagation, Finalizer, OwnerIdentity};
use crate::rule::OwnershipRule;

/// How many members of a ring a write names as guards.
const MEMBERS_GUARDED: usize = 1024;

/// One reference, as long as its dependent is not written.
pub(crate) type NamedOwner = (NodeId, u32, NameId);

/// What should happen to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CascadeAction {
    Delete(DeletionPropagation),
    Drop(Vec<NamedOwner>),
    Unblock(Vec<NamedOwner>),
    Finish(Finalizer),
}

/// A write under way.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: WriteId,
    pub(crate) want: CascadeAction,
    pub(crate) state: WriteProgress,
    pub(crate) fingerprint: u64,
    pub(crate) cause: CauseId,
}

/// How far a write has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteProgress {
    /// The host has it.
    Sent,
    /// It was written at this revision, which has not been fed yet.
    Applied(Revision),
    /// It did not succeed; the host says when to try again.
    Failed,
}

/// The references of an object by verdict.
#[derive(Default)]
struct ClassifiedEdges {
    solid: Vec<(EdgeId, Edge)>,
    waiting: Vec<(EdgeId, Edge)>,
    dangling: Vec<(EdgeId, Edge)>,
    orphaned: Vec<(EdgeId, Edge)>,
    unknown: Vec<(EdgeId, Edge)>,
    unresolvable: usize,
}

/// A want with the rule behind it and the edges it relied on.
struct CascadeDecision {
    want: CascadeAction,
    rule: OwnershipRule,
    /// References whose owners must stay as they are.
    relied: Vec<(EdgeId, Edge)>,
    /// Whether it relied on nobody else referring to the object.
    alone: bool,
}

impl CascadeDecision {
    fn new(want: CascadeAction, rule: OwnershipRule) -> CascadeDecision {
        CascadeDecision { want, rule, relied: Vec::new(), alone: false }
    }
}

impl OwnershipEngine {
    /// Puts an object in the queue.
    pub(crate) fn dirty(&mut self, id: NodeId, cause: CauseId) {
        if !self.synced {
            return;
        }
        let node = self.graph.node_mut(id);
        if node.seen() && !node.is(flag::DIRTY) {
            node.flags |= flag::DIRTY;
            self.queue.push_back((id, cause));
        }
    }

    /// Finds rings and decides about everything in the queue, until nothing is left.
    pub(crate) fn settle(&mut self, out: &mut Vec<OwnershipIntent>) {
        loop {
            if !self.suspects.is_empty() {
                self.break_rings();
            }
            let Some((id, cause)) = self.queue.pop_front() else { return };
            self.graph.node_mut(id).flags &= !flag::DIRTY;
            self.decide(id, cause, out);
        }
    }

    fn decide(&mut self, id: NodeId, cause: CauseId, out: &mut Vec<OwnershipIntent>) {
        let node = *self.graph.node(id);
        if !node.seen() || !self.kinds.collected(node.resource) {
            self.drop_pending(id);
            return;
        }
        if node.first_reference != crate::slab::NONE {
            self.report_crossings(id, out);
        }
        if let Some(Pending { state: WriteProgress::Applied(_), .. }) = self.pending.get(&id) {
            // Its effect is on the way and is decided about when it comes.
            return;
        }
        let Some(decision) = self.decision(id, out) else {
            self.drop_pending(id);
            return;
        };
        if self.pending.get(&id).is_some_and(|pending| pending.want == decision.want) {
            return;
        }
        let write = self.write(id, decision, cause, false);
        out.push(OwnershipIntent::Write(write));
    }

    /// Forgets the write under way; its outcome will be ignored.
    pub(crate) fn drop_pending(&mut self, id: NodeId) {
        let node = self.graph.node_mut(id);
        if node.is(flag::PENDING) {
            node.flags &= !flag::PENDING;
            if let Some(pending) = self.pending.remove(&id) {
                self.by_write.remove(&pending.id);
            }
        }
    }

    /// What should happen to an object, and why.
    fn decision(&mut self, id: NodeId, out: &mut Vec<OwnershipIntent>) -> Option<CascadeDecision> {
        let node = *self.graph.node(id);
        let tally = self.tally(id);
        if node.is(flag::TERMINATING) {
            return self.decide_terminating(id, tally);
        }
        if self.order == ChangeOrder::PerResource {
            for (_, edge) in &tally.unknown {
                self.ensure_ask(edge, out);
            }
        }
        let ClassifiedEdges { solid, waiting, dangling, orphaned, unknown, unresolvable } = tally;
        if !orphaned.is_empty() && !unknown.is_empty() {
            // Left with a reference that turns out to dangle, the orphan would be deleted.
            return None;
        }
        if !solid.is_empty() || !orphaned.is_empty() {
            // R90. An orphaning owner is solid (R117) and is left in the same write.
            let rule = if orphaned.is_empty() { OwnershipRule::R90 } else { OwnershipRule::R114 };
            let mut drops = orphaned;
            let mut relied: Vec<_> = drops.iter().chain(&waiting).copied().collect();
            relied.extend(solid.first());
            drops.extend(waiting);
            drops.extend(dangling);
            if drops.is_empty() {
                return None;
            }
            return Some(CascadeDecision {
                relied,
                ..CascadeDecision::new(CascadeAction::Drop(named_owners(&drops)), rule)
            });
        }
        if unresolvable > 0 || !unknown.is_empty() {
            return None; // R86
        }
        if !waiting.is_empty() && node.counted > 0 {
            let want = CascadeAction::Delete(DeletionPropagation::Foreground);
            return Some(CascadeDecision {
                relied: waiting,
                ..CascadeDecision::new(want, OwnershipRule::R91)
            });
        }
        if waiting.is_empty() && dangling.is_empty() {
            return None; // R93
        }
        let policy = match (node.is(flag::ORPHAN), node.is(flag::FOREGROUND)) {
            (true, _) => DeletionPropagation::Orphan,
            (false, true) => DeletionPropagation::Foreground,
            (false, false) => DeletionPropagation::Background,
        };
        let alone = !waiting.is_empty();
        Some(CascadeDecision {
            relied: waiting,
            alone,
            ..CascadeDecision::new(CascadeAction::Delete(policy), OwnershipRule::R92)
        })
    }

    /// A Terminating object is left alone, but for what its deletion waits for (R82).
    fn decide_terminating(&self, id: NodeId, tally: ClassifiedEdges) -> Option<CascadeDecision> {
        let node = self.graph.node(id);
        if !tally.orphaned.is_empty() {
            let want = CascadeAction::Drop(named_owners(&tally.orphaned));
            return Some(CascadeDecision {
                relied: tally.orphaned,
                ..CascadeDecision::new(want, OwnershipRule::R114)
            });
        }
        if node.orphaning() {
            let want = CascadeAction::Finish(Finalizer::Orphan);
            let done =
                CascadeDecision { alone: true, ..CascadeDecision::new(want, OwnershipRule::R115) };
            return (node.counted == 0).then_some(done);
        }
        if !node.waiting() {
            return None;
        }
        if node.blocking == 0 {
            let want = CascadeAction::Finish(Finalizer::Foreground);
            return Some(CascadeDecision {
                alone: true,
                ..CascadeDecision::new(want, OwnershipRule::R104)
            });
        }
        let open = |(_, edge): &&(EdgeId, Edge)| edge.is(mark::BREAK | mark::BLOCK);
        let opened: Vec<_> = tally.waiting.iter().filter(open).copied().collect();
        if opened.is_empty() {
            return None;
        }
        let want = CascadeAction::Unblock(named_owners(&opened));
        Some(CascadeDecision { relied: opened, ..CascadeDecision::new(want, OwnershipRule::R105) })
    }

    fn tally(&self, id: NodeId) -> ClassifiedEdges {
        let mut tally = ClassifiedEdges::default();
        for (number, edge) in self.graph.references(id) {
            let list = match self.verdict(edge) {
                // A self-reference is solid, and no owner leaves itself behind.
                OwnerState::Solid if self.leaves_behind(edge) => &mut tally.orphaned,
                OwnerState::Solid => &mut tally.solid,
                OwnerState::Waiting => &mut tally.waiting,
                OwnerState::Dangling(_) => &mut tally.dangling,
                OwnerState::Unknown => &mut tally.unknown,
                OwnerState::Unresolvable(_) => {
                    tally.unresolvable += 1;
                    continue;
                }
            };
            list.push((number, *edge));
        }
        tally
    }

    /// Whether the owner of a solid reference is on its way and leaves its dependents behind.
    fn leaves_behind(&self, edge: &Edge) -> bool {
        let owner = self.graph.node(edge.owner);
        owner.orphaning() && edge.owner != edge.dependent && self.kinds.collected(owner.resource)
    }

    /// Makes a decision a write and remembers it as under way.
    fn write(
        &mut self,
        id: NodeId,
        decision: CascadeDecision,
        cause: CauseId,
        bare: bool,
    ) -> OwnershipWrite {
        let CascadeDecision { want, rule, relied, alone } = decision;
        let node = *self.graph.node(id);
        let key = self.key(id);
        let revision = Revision(node.revision);
        let guards = self.guards(id, &relied, &want, alone);
        let parent = self.trigger(id, cause);
        let decided = Cause { rule, key: Arc::clone(&key), revision: self.revision, parent };
        let cause = self.journal.note(decided);
        let action = match &want {
            CascadeAction::Delete(policy) => WriteAction::Delete(*policy),
            CascadeAction::Drop(list) => WriteAction::DropReferences(self.owner_references(list)),
            CascadeAction::Unblock(list) => WriteAction::Unblock(self.owner_references(list)),
            CascadeAction::Finish(finalizer) => WriteAction::DropFinalizer(*finalizer),
        };
        self.last_write += 1;
        let write_id = WriteId(self.last_write);
        let fingerprint = node.fingerprint;
        let pending =
            Pending { id: write_id, want, state: WriteProgress::Sent, fingerprint, cause };
        if let Some(old) = self.pending.insert(id, pending) {
            self.by_write.remove(&old.id);
        }
        self.by_write.insert(write_id, id);
        self.graph.node_mut(id).flags |= flag::PENDING;
        OwnershipWrite {
            id: write_id,
            key,
            revision: (!bare).then_some(revision),
            fingerprint,
            action,
            guards,
            types: self.types_generation,
            rule,
            cause,
        }
    }

    /// Decides again after a conflict; an object that changes fast but keeps its references is
    /// required by uid only (R146).
    pub(crate) fn decide_again(
        &mut self,
        id: NodeId,
        before: &Pending,
        out: &mut Vec<OwnershipIntent>,
    ) {
        self.graph.node_mut(id).flags &= !flag::DIRTY;
        let bare = before.fingerprint == self.graph.node(id).fingerprint
            && matches!(before.want, CascadeAction::Delete(_))
            && self.order == ChangeOrder::PerResource;
        let node = self.graph.node(id);
        if !node.seen() || !self.kinds.collected(node.resource) {
            return;
        }
        if let Some(decision) = self.decision(id, out) {
            let bare = bare && decision.want == before.want;
            let cause = self.journal.get(before.cause).map_or(CauseId::default(), |c| c.parent);
            let write = self.write(id, decision, cause, bare);
            out.push(OwnershipIntent::Write(write));
        }
    }

    /// What led to a write: what made the object dirty, or the deletion it is in, or its owner's.
    fn trigger(&self, id: NodeId, cause: CauseId) -> CauseId {
        if let Some(own) = self.causes.get(&id) {
            return *own;
        }
        if cause != CauseId::default() {
            return cause;
        }
        let of_owner = |(_, edge): (EdgeId, &Edge)| self.causes.get(&edge.owner).copied();
        self.graph.references(id).find_map(of_owner).unwrap_or_default()
    }

    fn guards(
        &self,
        id: NodeId,
        relied: &[(EdgeId, Edge)],
        want: &CascadeAction,
        alone: bool,
    ) -> Vec<OwnershipPrecondition> {
        let mut guards = Vec::new();
        let mut owners: Vec<NodeId> = relied.iter().map(|(_, edge)| edge.owner).collect();
        if matches!(want, CascadeAction::Unblock(_)) {
            for (number, _) in relied {
                owners.extend(self.rings.get(number).into_iter().flatten().take(MEMBERS_GUARDED));
            }
        }
        owners.sort_unstable();
        owners.dedup();
        for owner in owners {
            let node = self.graph.node(owner);
            if owner != id && node.seen() {
                guards.push(OwnershipPrecondition::Same {
                    key: self.key(owner),
                    revision: Revision(node.revision),
                    fingerprint: node.fingerprint,
                });
            }
        }
        if alone {
            guards.push(OwnershipPrecondition::NoNewDependents {
                uid: self.uid_text(id),
                since: self.revision,
            });
        }
        guards
    }

    fn owner_references(&self, list: &[NamedOwner]) -> Vec<OwnerIdentity> {
        list.iter().map(|reported| self.owner_reference(reported)).collect()
    }
}

fn named_owners(edges: &[(EdgeId, Edge)]) -> Vec<NamedOwner> {
    let mut ordered: Vec<_> = edges.iter().map(|(_, e)| (e.owner, e.kind, e.name)).collect();
    ordered.sort_unstable();
    ordered.dedup();
    ordered
}
