//! Questions about owners that were never observed, for hosts whose changes have no total order.
//!
//! A question is about coordinates: a uid alone is not enough, because a wrong kind, name or
//! namespace must not speak for the right one (R85).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::OwnershipEngine;
use crate::classify::{Dangling, OwnerState, Unresolvable};
use crate::graph::{Edge, NodeId};
use crate::intent::{AskId, OwnerQuery, OwnershipIntent};
use crate::journal::CauseId;
use crate::name::NameId;
use crate::object::OwnerQueryResult;

/// What a reference says, and where it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Coordinates {
    pub(crate) owner: NodeId,
    pub(crate) kind: u32,
    pub(crate) name: NameId,
    /// None for kinds that live in no namespace.
    pub(crate) namespace: Option<NameId>,
}

#[derive(Clone, Copy, Debug)]
struct QuestionState {
    id: AskId,
    attempt: u32,
    verdict: OwnerState,
}

/// The questions whose owners somebody still names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    states: BTreeMap<Coordinates, QuestionState>,
    by_id: BTreeMap<AskId, Coordinates>,
    last: u64,
}

impl Asks {
    /// What is known about coordinates.
    pub(crate) fn verdict(&self, at: Coordinates) -> OwnerState {
        self.states.get(&at).map_or(OwnerState::Unknown, |state| state.verdict)
    }

    fn ask(&mut self, at: Coordinates, attempt: u32, verdict: OwnerState) -> AskId {
        self.last += 1;
        let id = AskId(self.last);
        if let Some(old) = self.states.insert(at, QuestionState { id, attempt, verdict }) {
            self.by_id.remove(&old.id);
        }
        self.by_id.insert(id, at);
        id
    }

    /// Takes away everything about an owner, which is now observed or named by nobody.
    fn take_owner(&mut self, owner: NodeId) -> Vec<Coordinates> {
        if self.states.is_empty() {
            return Vec::new();
        }
        let least = Coordinates { owner, kind: 0, name: 0, namespace: None };
        let of_owner = self.states.range(least..).take_while(|(at, _)| at.owner == owner);
        let found = of_owner.map(|(at, _)| *at).collect();
        self.take(found)
    }

    /// Takes away what was said about a kind whose service has changed.
    fn take_kind(&mut self, kind: u32) -> Vec<Coordinates> {
        let found = self.states.keys().filter(|at| at.kind == kind).copied().collect();
        self.take(found)
    }

    fn take(&mut self, found: Vec<Coordinates>) -> Vec<Coordinates> {
        for at in &found {
            if let Some(state) = self.states.remove(at) {
                self.by_id.remove(&state.id);
            }
        }
        found
    }
}

impl OwnershipEngine {
    /// Asks about a reference, unless that was done.
    pub(crate) fn ensure_ask(&mut self, edge: &Edge, out: &mut Vec<OwnershipIntent>) {
        let at = self.coordinates(edge);
        if !self.asks.states.contains_key(&at) {
            self.ask(edge, at, 0, OwnerState::Unknown, out);
        }
    }

    fn ask(
        &mut self,
        edge: &Edge,
        at: Coordinates,
        attempt: u32,
        verdict: OwnerState,
        out: &mut Vec<OwnershipIntent>,
    ) {
        // What is remembered keeps its texts in use, so that no other text gets their numbers.
        if !self.asks.states.contains_key(&at) {
            self.kinds.keep(at.kind);
            self.graph.names.keep(at.name);
            at.namespace.into_iter().for_each(|name| self.graph.names.keep(name));
        }
        let id = self.asks.ask(at, attempt, verdict);
        let namespace = at.namespace.map_or("", |name| self.graph.names.text(name)).into();
        out.push(OwnershipIntent::Ask(OwnerQuery {
            id,
            reference: self.reference(edge),
            namespace,
            attempt,
        }));
    }

    /// Forgets all questions about an owner, which is now observed or named by nobody.
    pub(crate) fn forget_asks(&mut self, owner: NodeId) {
        let taken = self.asks.take_owner(owner);
        self.release_asks(&taken);
    }

    /// Forgets all questions about a kind whose service has changed.
    pub(crate) fn forget_asks_of_kind(&mut self, kind: u32) {
        let taken = self.asks.take_kind(kind);
        self.release_asks(&taken);
    }

    fn release_asks(&mut self, taken: &[Coordinates]) {
        for at in taken {
            self.kinds.release(&mut self.graph.names, at.kind);
            self.graph.names.release(at.name);
            at.namespace.into_iter().for_each(|name| self.graph.names.release(name));
        }
    }

    /// Takes in the reply to a question; one that nobody waits for any more is dropped (R127).
    ///
    /// Until the owner is observed or absent the engine asks again, each time with a higher
    /// `attempt`, so that the host waits longer (R123, R131).
    pub fn answer(
        &mut self,
        ask: AskId,
        answer: &OwnerQueryResult<'_>,
        out: &mut Vec<OwnershipIntent>,
    ) {
        let Some(at) = self.asks.by_id.remove(&ask) else { return };
        let Some(state) = self.asks.states.get_mut(&at) else { return };
        let attempt = state.attempt.saturating_add(1);
        let verdict = match *answer {
            OwnerQueryResult::Present { uid, waiting } => match self.graph.find(uid) {
                Some(found) if found == at.owner && waiting => OwnerState::Waiting,
                Some(found) if found == at.owner => OwnerState::Solid,
                _ => OwnerState::Dangling(Dangling::Absent),
            },
            OwnerQueryResult::Absent => OwnerState::Dangling(Dangling::Absent),
            OwnerQueryResult::Unresolvable => OwnerState::Unresolvable(Unresolvable::UnknownKind),
            OwnerQueryResult::Failed => OwnerState::Unknown,
        };
        state.verdict = verdict;
        let dependents: Vec<Edge> = self
            .graph
            .dependents(at.owner)
            .map(|(_, edge)| *edge)
            .filter(|edge| self.coordinates(edge) == at)
            .collect();
        if !matches!(verdict, OwnerState::Dangling(_))
            && let Some(edge) = dependents.first()
        {
            self.ask(edge, at, attempt, verdict, out);
        }
        for edge in dependents {
            self.dirty(edge.dependent, CauseId::default());
        }
        self.settle(out);
    }
}
