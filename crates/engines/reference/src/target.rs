//! What is known of one target: who points at it, who is granted to, and what is live because of that.
//!
//! ```text
//!   edge, same namespace ─────────────────────► live
//!   edge, other namespace ──┬─ granted ───────► live
//!                           └─ not granted       waits
//! ```
//!
//! Everything is counted, so overlap of origins, strategies or grants keeps what one of them gives (R60).

use alloc::string::String;

use smallvec::SmallVec;

use crate::counts::Multiset;
use crate::event::{Outputs, TargetId, Transition};
use crate::index::Index;
use crate::intern::NONE;
use crate::model::{Obj, TargetName};
use crate::origin::OriginEdge;
use crate::slots::TargetSlot;
use crate::table::SlotIndex;
use crate::view::{Capability, NO_CAPABILITIES, ViewChange};

/// Something counted at a target.
///
/// The order matters: everything of a triple from a namespace stands together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// Edges of this origin.
    Origin(u32),
    /// Edges that make this capability live.
    Live(Capability),
    /// Edges of a source from another namespace, whether granted or not.
    Cross { triple: u32, from: u32, source: u32, class: u32 },
    /// A grant for a triple from a namespace.
    Grant { triple: u32, from: u32, grant: u32 },
}

/// What is known of a target.
///
/// Nearly all targets have one origin and no grant: the edges of that origin say it all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetFacts<'i> {
    Nobody,
    One(u32),
    Many(&'i Multiset<Fact>),
}

/// A target as the index keeps it; its place, name and capabilities are in the view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetEntry {
    /// By which the view finds it.
    hash: u32,
    /// A [`TargetSide`], in four bytes: there is one for each target.
    side: u32,
}

/// As [`TargetFacts`], with the number of the facts.
#[derive(Clone, Copy, Debug)]
enum TargetSide {
    Nobody,
    /// As nobody, and readers have been told; the spare view still has it.
    Lingering,
    One(u32),
    Many(u32),
}

/// Numbers from here on are those of facts.
const FACTS: u32 = 1 << 31;
const LINGERING: u32 = NONE - 1;

impl TargetSide {
    fn pack(self) -> u32 {
        match self {
            TargetSide::Nobody => NONE,
            TargetSide::Lingering => LINGERING,
            TargetSide::One(origin) => origin,
            TargetSide::Many(facts) => facts | FACTS,
        }
    }

    fn unpack(side: u32) -> TargetSide {
        match side {
            NONE => TargetSide::Nobody,
            LINGERING => TargetSide::Lingering,
            facts if facts >= FACTS => TargetSide::Many(facts & !FACTS),
            origin => TargetSide::One(origin),
        }
    }
}

/// Capabilities that became live (true) or dead (false).
pub(crate) type Flips = SmallVec<[(Capability, bool); 4]>;

impl<'i> TargetFacts<'i> {
    /// Whether a triple from a namespace is granted.
    pub(crate) fn is_granted(self, triple: u32, from: u32) -> bool {
        match self {
            TargetFacts::Many(facts) => granted(facts, triple, from),
            _ => false,
        }
    }

    /// The grants of a triple from a namespace.
    pub(crate) fn grants(self, triple: u32, from: u32) -> impl Iterator<Item = u32> + use<'i> {
        let facts = if let TargetFacts::Many(facts) = self { Some(facts) } else { None };
        facts.into_iter().flat_map(move |facts| grants_between(facts, triple, from))
    }

    /// The sources of references of a triple from another namespace.
    pub(crate) fn crossing(self, triple: u32, from: u32) -> impl Iterator<Item = u32> + use<'i> {
        let facts = if let TargetFacts::Many(facts) = self { Some(facts) } else { None };
        let first = Fact::Cross { triple, from, source: 0, class: 0 };
        let last = Fact::Cross { triple, from, source: u32::MAX, class: u32::MAX };
        let between = facts.into_iter().flat_map(move |facts| facts.between(first..=last));
        between.filter_map(|(fact, _)| match fact {
            Fact::Cross { source, .. } => Some(source),
            _ => None,
        })
    }

    /// Every origin that points here.
    pub(crate) fn origins(self) -> impl Iterator<Item = u32> + use<'i> {
        let one = if let TargetFacts::One(origin) = self { Some(origin) } else { None };
        let many = if let TargetFacts::Many(facts) = self { Some(facts) } else { None };
        one.into_iter().chain(many.into_iter().flat_map(origins_in))
    }
}

fn origins_in(facts: &Multiset<Fact>) -> impl Iterator<Item = u32> {
    let all = Fact::Origin(0)..=Fact::Origin(u32::MAX);
    facts.between(all).filter_map(|(fact, _)| match fact {
        Fact::Origin(origin) => Some(origin),
        _ => None,
    })
}

fn grants_between(facts: &Multiset<Fact>, triple: u32, from: u32) -> impl Iterator<Item = u32> {
    let first = Fact::Grant { triple, from, grant: 0 };
    let last = Fact::Grant { triple, from, grant: u32::MAX };
    facts.between(first..=last).filter_map(|(fact, _)| match fact {
        Fact::Grant { grant, .. } => Some(grant),
        _ => None,
    })
}

fn granted(facts: &Multiset<Fact>, triple: u32, from: u32) -> bool {
    grants_between(facts, triple, from).next().is_some()
}

/// Counts an edge of a triple from a namespace; `local` ones need no grant.
fn count_up(
    facts: &mut Multiset<Fact>,
    origin: u32,
    (triple, from): (u32, u32),
    local: bool,
    capability: Capability,
    flips: &mut Flips,
) {
    let (source, class) = capability;
    facts.add(Fact::Origin(origin), 1);
    if !local {
        facts.add(Fact::Cross { triple, from, source, class }, 1);
    }
    if (local || granted(facts, triple, from)) && facts.add(Fact::Live(capability), 1) == 0 {
        flips.push((capability, true));
    }
}

fn count_down(
    facts: &mut Multiset<Fact>,
    origin: u32,
    (triple, from): (u32, u32),
    local: bool,
    capability: Capability,
    flips: &mut Flips,
) {
    let (source, class) = capability;
    facts.sub(Fact::Origin(origin), 1);
    if !local {
        facts.sub(Fact::Cross { triple, from, source, class }, 1);
    }
    if (local || granted(facts, triple, from)) && facts.sub(Fact::Live(capability), 1) == 0 {
        flips.push((capability, false));
    }
}

/// What changes at a target that only has edges of one origin.
fn compare(old: &[OriginEdge], new: &[OriginEdge], flips: &mut Flips) {
    let has = |edges: &[OriginEdge], wanted: Capability| {
        edges.iter().any(|edge| edge.capability() == wanted)
    };
    for (these, others, live) in [(new, old, true), (old, new, false)] {
        for edge in these {
            let capability = edge.capability();
            if !has(others, capability) && !flips.contains(&(capability, live)) {
                flips.push((capability, live));
            }
        }
    }
}

impl Index {
    /// The number of a target, which is made if nobody spoke of it before.
    pub(crate) fn target_in(&mut self, resource: u32, namespace: u32, name: &str) -> u32 {
        if let Some((place, hash)) = self.likely_place(resource, namespace, name) {
            return self.target_at(place, hash, name);
        }
        // A place that only origins have is not known to views yet.
        let place = self.words.hold_place(resource, namespace);
        let (group, resource) = self.words.resource_of(resource);
        let namespace = self.words.namespace_of(namespace);
        let made = self.view().make_place(group, resource, namespace);
        self.step(ViewChange::Place(place, Some(made)));
        let hash = self.view().hash_at(place, name).unwrap_or_default();
        self.add_target(place, hash, name)
    }

    /// The place and the hash of a target, unless it is the first there.
    pub(crate) fn likely_place(
        &self,
        resource: u32,
        namespace: u32,
        name: &str,
    ) -> Option<(u32, u32)> {
        let place = self.words.place(resource, namespace)?;
        Some((place, self.view().hash_at(place, name)?))
    }

    /// As [`Index::target_in`], in a place that has targets.
    pub(crate) fn target_at(&mut self, place: u32, hash: u32, name: &str) -> u32 {
        if let Some(target) = self.table.find(hash, place, name) {
            return target;
        }
        self.words.keep_place(place);
        self.add_target(place, hash, name)
    }

    fn add_target(&mut self, place: u32, hash: u32, name: &str) -> u32 {
        let known = TargetEntry { hash, side: NONE };
        let target = match self.targets_free.pop() {
            Some(target) => {
                if let Some(free) = self.known.get_mut(target as usize) {
                    *free = known;
                }
                target
            }
            None => {
                self.known.push(known);
                u32::try_from(self.known.len() - 1).unwrap_or(NONE)
            }
        };
        self.step_insert(target, place, hash, name);
        target
    }

    pub(crate) fn side(&self, target: u32) -> TargetFacts<'_> {
        match self.kept(target) {
            TargetSide::Nobody | TargetSide::Lingering => TargetFacts::Nobody,
            TargetSide::One(origin) => TargetFacts::One(origin),
            TargetSide::Many(id) => {
                self.facts.get(id as usize).map_or(TargetFacts::Nobody, TargetFacts::Many)
            }
        }
    }

    fn kept(&self, target: u32) -> TargetSide {
        TargetSide::unpack(self.known.get(target as usize).map_or(NONE, |known| known.side))
    }

    fn hash_of(&self, target: u32) -> u32 {
        self.known.get(target as usize).map_or(0, |known| known.hash)
    }

    /// The name of a target.
    pub(crate) fn target_name(&self, target: u32) -> Option<TargetName<'_>> {
        let slot = self.table.get(self.hash_of(target), target)?;
        Some(self.named(slot))
    }

    fn named(&self, slot: &TargetSlot) -> TargetName<'_> {
        let mut text = [0; 256];
        let name = self.table.slots().name(slot, &mut text);
        let Obj { group, resource, namespace, .. } = self.words.object(slot.place(), "");
        TargetName { group, resource, namespace, name: name.into() }
    }

    /// The names of all targets in a place.
    pub(crate) fn names_in(&self, place: u32) -> impl Iterator<Item = String> {
        let slots = self.table.slots().used().filter(move |slot| slot.place() == place);
        slots.map(|slot| self.named(slot).name)
    }

    /// The target of a name in a place.
    pub(crate) fn find_in(&self, place: u32, name: &str) -> Option<u32> {
        self.table.find(self.view().hash_at(place, name)?, place, name)
    }

    /// How many targets somebody speaks of.
    pub(crate) fn targets_len(&self) -> usize {
        let lingering = self.lingering.iter().filter(|target| self.is_lingering(**target));
        self.table.len() - lingering.count()
    }

    /// Whether nobody speaks of a target any more, and that was published.
    pub(crate) fn is_lingering(&self, target: u32) -> bool {
        matches!(self.kept(target), TargetSide::Lingering)
    }

    /// Where a target is in the table.
    fn locate(&self, target: u32) -> Option<SlotIndex> {
        self.table.locate(self.hash_of(target), target)
    }

    /// The namespace of a target, by number.
    fn namespace_at(&self, at: SlotIndex) -> Option<u32> {
        let place = self.table.slot(at)?.place();
        self.words.place_of(place).map(|(_, namespace)| namespace)
    }

    /// Whether edges from a namespace to a target need no grant: both are in one namespace, or the target
    /// is in none (R50, R52).
    pub(crate) fn is_local(&self, from: u32, target: u32) -> bool {
        self.locate(target).is_some_and(|at| self.is_local_at(from, at))
    }

    fn is_local_at(&self, from: u32, at: SlotIndex) -> bool {
        self.namespace_at(at).is_some_and(|namespace| {
            namespace == from || self.words.namespace_of(namespace).is_empty()
        })
    }

    /// The edges of an origin to one target are replaced.
    pub(crate) fn change_target(
        &mut self,
        origin: u32,
        from: u32,
        target: u32,
        (old, new): (&[OriginEdge], &[OriginEdge]),
        out: &mut Outputs,
    ) {
        let Some(at) = self.locate(target) else { return };
        let local = self.is_local_at(from, at);
        let mut flips = Flips::new();
        let alone = match self.side(target) {
            TargetFacts::Nobody => true,
            TargetFacts::One(only) => only == origin,
            TargetFacts::Many(_) => false,
        };
        if alone {
            if local {
                compare(old, new, &mut flips);
            }
            let side = if new.is_empty() { TargetSide::Nobody } else { TargetSide::One(origin) };
            self.put_side(target, side);
        } else {
            let mut facts = self.take_facts(target);
            // What is added comes first, so that nothing is interrupted that is there before and after.
            for edge in new.iter().filter(|edge| old.binary_search(edge).is_err()) {
                let of = (self.triple(edge), from);
                count_up(&mut facts, origin, of, local, edge.capability(), &mut flips);
            }
            for edge in old.iter().filter(|edge| new.binary_search(edge).is_err()) {
                let of = (self.triple(edge), from);
                count_down(&mut facts, origin, of, local, edge.capability(), &mut flips);
            }
            self.put_facts(target, facts);
        }
        self.flip(target, at, &flips, out);
    }

    /// The triple of an edge.
    pub(crate) fn triple(&self, edge: &OriginEdge) -> u32 {
        self.source(edge.source).map_or(NONE, |source| source.triple)
    }

    /// A grant comes (true) or goes at a target; capabilities that were waiting follow it.
    pub(crate) fn grant_at(
        &mut self,
        target: u32,
        (triple, from, grant): (u32, u32, u32),
        comes: bool,
        out: &mut Outputs,
    ) {
        let mut facts = self.take_facts(target);
        let before = granted(&facts, triple, from);
        let fact = Fact::Grant { triple, from, grant };
        if comes {
            facts.add(fact, 1);
        } else {
            facts.sub(fact, 1);
        }
        let mut flips = Flips::new();
        let after = granted(&facts, triple, from);
        if before != after {
            let first = Fact::Cross { triple, from, source: 0, class: 0 };
            let last = Fact::Cross { triple, from, source: u32::MAX, class: u32::MAX };
            let waiting: SmallVec<[(Fact, u32); 4]> = facts.between(first..=last).collect();
            for (fact, count) in waiting {
                let Fact::Cross { source, class, .. } = fact else { continue };
                let capability = (source, class);
                let changed = if comes {
                    facts.add(Fact::Live(capability), count) == 0
                } else {
                    facts.sub(Fact::Live(capability), count) == 0
                };
                if changed {
                    flips.push((capability, comes));
                }
            }
            if self.follows_references {
                self.tell_granted(target, &facts, (triple, from), comes, out);
            }
        }
        self.put_facts(target, facts);
        if let Some(at) = self.locate(target) {
            self.flip(target, at, &flips, out);
        }
    }

    /// What is known of a target, counted; it must be put back.
    fn take_facts(&mut self, target: u32) -> Multiset<Fact> {
        let mut facts = Multiset::new();
        match self.kept(target) {
            TargetSide::Nobody | TargetSide::Lingering => {}
            TargetSide::One(origin) => {
                let (from, edges) = self.edges_at(origin, target);
                let local = self.is_local(from, target);
                for edge in edges {
                    let (of, capability) = ((self.triple(edge), from), edge.capability());
                    // These flips were made when the edges came.
                    count_up(&mut facts, origin, of, local, capability, &mut Flips::new());
                }
            }
            TargetSide::Many(id) => {
                if let Some(kept) = self.facts.get_mut(id as usize) {
                    facts = core::mem::replace(kept, facts);
                    self.facts_free.push(id);
                }
            }
        }
        facts
    }

    /// Puts facts back, in the short form where it says as much.
    fn put_facts(&mut self, target: u32, facts: Multiset<Fact>) {
        // Grants come last.
        let has_grants = matches!(facts.last(), Some(Fact::Grant { .. }));
        let (first, second) = {
            let mut origins = origins_in(&facts);
            (origins.next(), origins.next())
        };
        let side = match (has_grants, first, second) {
            (false, None, _) => TargetSide::Nobody,
            (false, Some(only), None) => TargetSide::One(only),
            _ => TargetSide::Many(self.keep_facts(facts)),
        };
        self.put_side(target, side);
    }

    fn keep_facts(&mut self, facts: Multiset<Fact>) -> u32 {
        let free = self.facts_free.pop();
        if let Some(id) = free
            && let Some(place) = self.facts.get_mut(id as usize)
        {
            *place = facts;
            return id;
        }
        self.facts.push(facts);
        u32::try_from(self.facts.len() - 1).unwrap_or(NONE)
    }

    fn put_side(&mut self, target: u32, side: TargetSide) {
        if matches!(side, TargetSide::Nobody) {
            self.leaving.push(target);
        }
        if let Some(known) = self.known.get_mut(target as usize) {
            known.side = side.pack();
        }
    }

    /// Writes into the view what became live or dead, and tells it.
    fn flip(&mut self, target: u32, at: SlotIndex, flips: &Flips, out: &mut Outputs) {
        if flips.is_empty() {
            return;
        }
        let (live, before) = self.live_at(at);
        if let ([], [(capability, true)]) = (live, flips.as_slice()) {
            return self.flip_first(target, at, *capability, out);
        }
        let mut live: SmallVec<[Capability; 8]> = live.into();
        for (capability, is_live) in flips {
            match (live.binary_search(capability), is_live) {
                (Err(at), true) => live.insert(at, *capability),
                (Ok(at), false) => {
                    live.remove(at);
                }
                _ => continue,
            }
            if self.is_source_open(capability.0) {
                let (capability, live) = (*capability, *is_live);
                out.transitions.push(Transition { target: TargetId(target), capability, live });
            }
        }
        let capabilities = self.hold_set(&live);
        self.step_set(at, capabilities);
        self.release_set(before);
    }

    /// As [`Index::flip`], for the first capability of a target: nearly all have no other one.
    fn flip_first(
        &mut self,
        target: u32,
        at: SlotIndex,
        capability: Capability,
        out: &mut Outputs,
    ) {
        if self.is_source_open(capability.0) {
            out.transitions.push(Transition { target: TargetId(target), capability, live: true });
        }
        // The targets of an object mostly have the same.
        let last = self.sets.get(self.last_set).map(|set| &**set);
        if matches!(last, Some([only]) if *only == capability) {
            self.sets.keep(self.last_set);
        } else {
            self.last_set = self.hold_set(&[capability]);
        }
        self.step_set(at, self.last_set);
    }

    fn hold_set(&mut self, set: &[Capability]) -> u32 {
        if set.is_empty() {
            return NO_CAPABILITIES;
        }
        let (id, new) = self.sets.hold(&set, |known| **known == *set, || set.into());
        if new {
            self.step(ViewChange::Capabilities(id, Some(set.into())));
        }
        id
    }

    fn release_set(&mut self, id: u32) {
        if id != NO_CAPABILITIES && self.sets.release(id).is_some() {
            self.step(ViewChange::Capabilities(id, None));
        }
    }

    /// Forgets the targets nothing speaks of any more, and at which nothing is live in either view.
    pub(crate) fn sweep(&mut self) {
        if self.leaving.is_empty() && self.lingering.is_empty() {
            return;
        }
        let mut leaving = core::mem::take(&mut self.leaving);
        leaving.append(&mut self.lingering);
        leaving.sort_unstable();
        leaving.dedup();
        leaving.retain(|target| self.lingers(*target));
        self.lingering = leaving;
    }

    /// Forgets a target, unless somebody speaks of it; whether that has to wait.
    fn lingers(&mut self, target: u32) -> bool {
        if !matches!(self.side(target), TargetFacts::Nobody) {
            return false;
        }
        let Some(at) = self.locate(target) else { return false };
        let Some(slot) = self.table.slot(at) else { return false };
        if !slot.has_no_sets() {
            if let Some(known) = self.known.get_mut(target as usize) {
                known.side = TargetSide::Lingering.pack();
            }
            return true;
        }
        let place = slot.place();
        self.table.remove(at);
        self.targets_free.push(target);
        if self.words.release_place(place) {
            self.step(ViewChange::Place(place, None));
        }
        false
    }
}
