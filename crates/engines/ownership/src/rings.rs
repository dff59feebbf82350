//! Rings: waiting objects that block one another, found and opened without recursion (T5, S8).
//!
//! ```text
//!        ┌──blocks──┐
//!        ▼          │          each of them waits for the next;
//!        a ──► b ──► c         one reference of the ring must stop blocking
//! ```
//!
//! A search starts only where an object has both a waiting owner and a waiting dependent, and runs
//! from both ends at once, so that long chains cost little.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::OwnershipEngine;
use crate::graph::{Edge, EdgeId, NodeId, mark};
use crate::journal::CauseId;

/// How many members of rings are remembered for each object of a component, so that entangled rings
/// cost no more than plain ones.
const MEMBERS_EACH: usize = 8;
/// With more suspects than this one pass over all of them is cheaper than a search for each.
const SEARCHES_MAX: usize = 4;

/// How far the search for strongly connected components has come with one object.
#[derive(Clone, Copy)]
struct Visit {
    number: u32,
    low: u32,
    on_stack: bool,
}

impl OwnershipEngine {
    /// An object may have closed a ring.
    pub(crate) fn suspect(&mut self, id: NodeId) {
        if self.synced && self.graph.node(id).waiting() {
            self.suspects.push(id);
        }
    }

    /// Whether a reference ties two waiting objects together and was not chosen to be opened.
    fn ties(&self, edge: &Edge) -> bool {
        edge.is(mark::COUNTED | mark::BLOCK)
            && !edge.is(mark::BREAK)
            && self.graph.node(edge.owner).waiting()
            && self.graph.node(edge.dependent).waiting()
    }

    /// Marks the references that open every ring through the suspects.
    pub(crate) fn break_rings(&mut self) {
        let mut suspects = core::mem::take(&mut self.suspects);
        suspects.sort_unstable();
        suspects.dedup();
        if suspects.len() <= SEARCHES_MAX {
            suspects.retain(|id| self.on_ring(*id));
        }
        if suspects.is_empty() {
            return;
        }
        for component in self.components(&suspects) {
            for (edge, members) in self.openings(&component) {
                self.graph.edge_mut(edge).marks |= mark::BREAK;
                self.ring_members.extend(members.iter().map(|member| (*member, edge)));
                self.rings.insert(edge, members);
                let dependent = self.graph.edge(edge).dependent;
                self.dirty(dependent, CauseId::default());
            }
        }
    }

    /// Whether an object lies on a ring: the searches along its owners and along its dependents meet.
    pub(crate) fn on_ring(&self, start: NodeId) -> bool {
        if !self.graph.node(start).waiting() {
            return false;
        }
        let mut reached: [BTreeSet<NodeId>; 2] = Default::default();
        let mut up = self.ties_of(start);
        let mut down = self.ties_to(start);
        loop {
            let Some(owner) = self.step(&mut up, true, &mut reached) else { return false };
            let Some(dependent) = self.step(&mut down, false, &mut reached) else { return false };
            let [above, below] = &reached;
            let met = |id: NodeId| id == start || (above.contains(&id) && below.contains(&id));
            if owner.is_some_and(met) || dependent.is_some_and(met) {
                return true;
            }
        }
    }

    /// Goes one object further; none when there is nothing left in this direction.
    fn step(
        &self,
        frontier: &mut Vec<NodeId>,
        upward: bool,
        reached: &mut [BTreeSet<NodeId>; 2],
    ) -> Option<Option<NodeId>> {
        let [above, below] = reached;
        let reached = if upward { above } else { below };
        let id = frontier.pop()?;
        if !reached.insert(id) {
            return Some(None);
        }
        frontier.extend(if upward { self.ties_of(id) } else { self.ties_to(id) });
        Some(Some(id))
    }

    fn ties_of(&self, id: NodeId) -> Vec<NodeId> {
        let ties = self.graph.references(id).filter(|(_, edge)| self.ties(edge));
        ties.map(|(_, edge)| edge.owner).collect()
    }

    fn ties_to(&self, id: NodeId) -> Vec<NodeId> {
        let ties = self.graph.dependents(id).filter(|(_, edge)| self.ties(edge));
        ties.map(|(_, edge)| edge.dependent).collect()
    }

    /// The strongly connected components of more than one object above the given ones.
    pub(crate) fn components(&self, from: &[NodeId]) -> Vec<Vec<NodeId>> {
        self.components_of(from, |edge| self.ties(edge))
    }

    /// The strongly connected components of more than one object, along the references that count.
    pub(crate) fn components_of(
        &self,
        from: &[NodeId],
        ties: impl Fn(&Edge) -> bool,
    ) -> Vec<Vec<NodeId>> {
        let ties_of = |id: NodeId| -> Vec<NodeId> {
            let owners = self.graph.references(id).filter(|(_, edge)| ties(edge));
            owners.map(|(_, edge)| edge.owner).collect()
        };
        let mut visits: BTreeMap<NodeId, Visit> = BTreeMap::new();
        let (mut stack, mut found) = (Vec::new(), Vec::new());
        let mut next = 0_u32;
        for start in from {
            if visits.contains_key(start) {
                continue;
            }
            // Each frame: an object and the owners that are still to be looked at.
            let mut frames: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
            let mut enter = Some(*start);
            loop {
                if let Some(id) = enter.take() {
                    visits.insert(id, Visit { number: next, low: next, on_stack: true });
                    next += 1;
                    stack.push(id);
                    frames.push((id, ties_of(id)));
                }
                let Some((id, owners)) = frames.last_mut() else { break };
                let id = *id;
                if let Some(owner) = owners.pop() {
                    match visits.get(&owner).copied() {
                        None => enter = Some(owner),
                        Some(seen) if seen.on_stack => lower(&mut visits, id, seen.number),
                        Some(_) => {}
                    }
                    continue;
                }
                frames.pop();
                let Some(visit) = visits.get(&id).copied() else { continue };
                if let Some((below, _)) = frames.last() {
                    lower(&mut visits, *below, visit.low);
                }
                if visit.low == visit.number {
                    let mut component = Vec::new();
                    while let Some(member) = stack.pop() {
                        if let Some(visit) = visits.get_mut(&member) {
                            visit.on_stack = false;
                        }
                        component.push(member);
                        if member == id {
                            break;
                        }
                    }
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// The references whose opening leaves a component without rings, each with its ring.
    ///
    /// A walk from the smallest uid, from owners to dependents: a step that leads back to an object
    /// still being walked closes a ring. Only such steps are opened, and every ring shown for one
    /// uses no other, so each stays justified whatever the order of writing.
    fn openings(&self, component: &[NodeId]) -> Vec<(EdgeId, Box<[NodeId]>)> {
        let inside: BTreeSet<NodeId> = component.iter().copied().collect();
        let Some(start) = component.iter().copied().min_by_key(|id| self.uid_text(*id)) else {
            return Vec::new();
        };
        let (mut entered, mut found) = (BTreeSet::from([start]), Vec::new());
        let mut depth: BTreeMap<NodeId, usize> = BTreeMap::from([(start, 0)]);
        let mut path = Vec::from([(start, self.ties_inside(start, &inside))]);
        let mut budget = MEMBERS_EACH * component.len();
        while let Some((id, edges)) = path.last_mut() {
            let id = *id;
            let Some(edge) = edges.pop() else {
                depth.remove(&id);
                path.pop();
                continue;
            };
            let dependent = self.graph.edge(edge).dependent;
            if let Some(at) = depth.get(&dependent) {
                let ring = path.iter().skip(*at).take(budget).map(|(member, _)| *member);
                let ring: Box<[NodeId]> = ring.collect();
                budget -= ring.len();
                found.push((edge, ring));
            } else if entered.insert(dependent) {
                depth.insert(dependent, path.len());
                path.push((dependent, self.ties_inside(dependent, &inside)));
            }
        }
        found
    }

    fn ties_inside(&self, id: NodeId, inside: &BTreeSet<NodeId>) -> Vec<EdgeId> {
        let ties = self
            .graph
            .dependents(id)
            .filter(|(_, edge)| self.ties(edge) && inside.contains(&edge.dependent));
        ties.map(|(number, _)| number).collect()
    }

    /// Takes back the choice of an object's references to open, and looks for rings anew.
    pub(crate) fn unbreak(&mut self, dependent: NodeId) {
        let chosen: Vec<EdgeId> = self
            .graph
            .references(dependent)
            .filter(|(_, edge)| edge.is(mark::BREAK))
            .map(|(number, _)| number)
            .collect();
        for edge in chosen {
            self.forget_ring(edge);
            self.suspect(dependent);
        }
    }

    /// Forgets that an edge was chosen to open a ring.
    pub(crate) fn forget_ring(&mut self, edge: EdgeId) {
        self.graph.edge_mut(edge).marks &= !mark::BREAK;
        for member in self.rings.remove(&edge).into_iter().flatten() {
            self.ring_members.remove(&(member, edge));
        }
    }

    /// Something about an object changed: the rings it lies on may have opened by themselves.
    pub(crate) fn ring_touched(&mut self, member: NodeId) {
        if self.ring_members.is_empty() {
            return;
        }
        let of_member = self.ring_members.range((member, 0)..=(member, EdgeId::MAX));
        let edges: Vec<EdgeId> = of_member.map(|(_, edge)| *edge).collect();
        for edge in edges {
            let dependent = self.graph.edge(edge).dependent;
            self.unbreak(dependent);
            self.dirty(dependent, CauseId::default());
        }
    }
}

fn lower(visits: &mut BTreeMap<NodeId, Visit>, id: NodeId, to: u32) {
    if let Some(visit) = visits.get_mut(&id) {
        visit.low = visit.low.min(to);
    }
}
