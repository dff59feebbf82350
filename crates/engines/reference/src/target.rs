//! What is known of one target: who points at it, who is granted to, and what is live because of that.
//!
//! ```text
//!   edge, same namespace ─────────────────────► live
//!   edge, other namespace ──┬─ granted ───────► live
//!                           └─ not granted       waits
//! ```
//!
//! Everything is counted, so overlap of origins, strategies or grants keeps what one of them gives (R60).

use alloc::boxed::Box;

use smallvec::SmallVec;

use crate::counts::Counts;
use crate::event::{Outputs, TargetId, Transition};
use crate::index::Index;
use crate::origin::Edge;
use crate::view::{Capability, NO_CAPABILITIES, Step};

/// Something counted at a target.
///
/// The order matters: everything of a triple from a namespace stands together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// Edges of this origin.
    Origin(u32),
    /// Edges that make this capability live.
    Live(Capability),
    /// Edges from another namespace, whether granted or not.
    Cross { triple: u32, from: u32, class: u32 },
    /// A grant for a triple from a namespace.
    Grant { triple: u32, from: u32, grant: u32 },
}

/// What is known of a target.
///
/// Nearly all targets have one origin and no grant: the edges of that origin say it all.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Nobody,
    One(u32),
    Many(Box<Counts<Fact>>),
}

/// Capabilities that became live (true) or dead (false).
pub(crate) type Flips = SmallVec<[(Capability, bool); 4]>;

impl Side {
    /// Whether a triple from a namespace is granted.
    pub(crate) fn is_granted(&self, triple: u32, from: u32) -> bool {
        match self {
            Side::Many(facts) => granted(facts, triple, from),
            _ => false,
        }
    }

    /// The grants of a triple from a namespace.
    pub(crate) fn grants(&self, triple: u32, from: u32) -> impl Iterator<Item = u32> {
        let facts = if let Side::Many(facts) = self { Some(facts) } else { None };
        facts.into_iter().flat_map(move |facts| grants_between(facts, triple, from))
    }

    /// Every origin that points here.
    pub(crate) fn origins(&self) -> impl Iterator<Item = u32> {
        let one = if let Side::One(origin) = self { Some(*origin) } else { None };
        let many = if let Side::Many(facts) = self { Some(facts) } else { None };
        let many = many.into_iter().flat_map(|facts| {
            facts.between(Fact::Origin(0)..=Fact::Origin(u32::MAX)).filter_map(|(fact, _)| {
                match fact {
                    Fact::Origin(origin) => Some(origin),
                    _ => None,
                }
            })
        });
        one.into_iter().chain(many)
    }
}

fn grants_between(facts: &Counts<Fact>, triple: u32, from: u32) -> impl Iterator<Item = u32> {
    let first = Fact::Grant { triple, from, grant: 0 };
    let last = Fact::Grant { triple, from, grant: u32::MAX };
    facts.between(first..=last).filter_map(|(fact, _)| match fact {
        Fact::Grant { grant, .. } => Some(grant),
        _ => None,
    })
}

fn granted(facts: &Counts<Fact>, triple: u32, from: u32) -> bool {
    grants_between(facts, triple, from).next().is_some()
}

/// Counts an edge from a namespace; `local` ones need no grant.
fn count_up(
    facts: &mut Counts<Fact>,
    origin: u32,
    from: u32,
    local: bool,
    capability: Capability,
    flips: &mut Flips,
) {
    let (triple, class) = capability;
    facts.add(Fact::Origin(origin), 1);
    if !local {
        facts.add(Fact::Cross { triple, from, class }, 1);
    }
    if (local || granted(facts, triple, from)) && facts.add(Fact::Live(capability), 1) == 0 {
        flips.push((capability, true));
    }
}

fn count_down(
    facts: &mut Counts<Fact>,
    origin: u32,
    from: u32,
    local: bool,
    capability: Capability,
    flips: &mut Flips,
) {
    let (triple, class) = capability;
    facts.sub(Fact::Origin(origin), 1);
    if !local {
        facts.sub(Fact::Cross { triple, from, class }, 1);
    }
    if (local || granted(facts, triple, from)) && facts.sub(Fact::Live(capability), 1) == 0 {
        flips.push((capability, false));
    }
}

impl Index {
    /// The number of a target, which is made if nobody spoke of it before.
    pub(crate) fn target_in(&mut self, resource: u32, namespace: u32, name: &str) -> u32 {
        let known = self.words.place(resource, namespace);
        if let Some(target) = known.and_then(|place| self.view().find(place, name)) {
            return target;
        }
        let (place, new) = self.words.hold_place(resource, namespace);
        // A place that only origins have is not known to views yet.
        if new || !self.view().has_place(place) {
            let (group, resource) = self.words.resource_of(resource);
            let namespace = self.words.namespace_of(namespace);
            let made = self.view().make_place(group, resource, namespace);
            self.step(Step::Place(place, Some(made)));
        }
        let target = self.step_insert(place, name);
        match self.sides.get_mut(target as usize) {
            Some(side) => *side = Side::Nobody,
            None => self.sides.push(Side::Nobody),
        }
        target
    }

    pub(crate) fn side(&self, target: u32) -> &Side {
        self.sides.get(target as usize).unwrap_or(&Side::Nobody)
    }

    /// The namespace of a target, by number.
    pub(crate) fn namespace_of_target(&self, target: u32) -> Option<u32> {
        let (place, _) = self.view().target(target)?;
        self.words.place_of(place).map(|(_, namespace)| namespace)
    }

    /// Whether edges from a namespace to a target need no grant: both are in one namespace, or the target
    /// is in none (R50, R52).
    pub(crate) fn is_local(&self, from: u32, target: u32) -> bool {
        self.namespace_of_target(target).is_some_and(|namespace| {
            namespace == from || self.words.namespace_of(namespace).is_empty()
        })
    }

    /// The edges of an origin to one target are replaced.
    pub(crate) fn change_target(
        &mut self,
        origin: u32,
        from: u32,
        target: u32,
        (old, new): (&[Edge], &[Edge]),
        out: &mut Outputs,
    ) {
        let local = self.is_local(from, target);
        let mut flips = Flips::new();
        let alone = match self.side(target) {
            Side::Nobody => true,
            Side::One(only) => *only == origin,
            Side::Many(_) => false,
        };
        if alone {
            if local {
                self.compare(old, new, &mut flips);
            }
            let side = if new.is_empty() { Side::Nobody } else { Side::One(origin) };
            self.put_side(target, side);
        } else {
            let mut facts = self.take_facts(target);
            // What is added comes first, so that nothing is interrupted that is there before and after.
            for edge in new.iter().filter(|edge| old.binary_search(edge).is_err()) {
                count_up(&mut facts, origin, from, local, self.capability(edge), &mut flips);
            }
            for edge in old.iter().filter(|edge| new.binary_search(edge).is_err()) {
                count_down(&mut facts, origin, from, local, self.capability(edge), &mut flips);
            }
            self.put_facts(target, facts);
        }
        self.flip(target, &flips, out);
    }

    /// What changes at a target that only has edges of one origin.
    fn compare(&self, old: &[Edge], new: &[Edge], flips: &mut Flips) {
        let has = |edges: &[Edge], wanted: Capability| {
            edges.iter().any(|edge| self.capability(edge) == wanted)
        };
        for (these, others, live) in [(new, old, true), (old, new, false)] {
            for edge in these {
                let capability = self.capability(edge);
                if !has(others, capability) && !flips.contains(&(capability, live)) {
                    flips.push((capability, live));
                }
            }
        }
    }

    pub(crate) fn capability(&self, edge: &Edge) -> Capability {
        let triple = self.source(edge.source).map_or(u32::MAX, |source| source.triple);
        (triple, edge.class)
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
            let first = Fact::Cross { triple, from, class: 0 };
            let last = Fact::Cross { triple, from, class: u32::MAX };
            let waiting: SmallVec<[(Fact, u32); 4]> = facts.between(first..=last).collect();
            for (fact, count) in waiting {
                let Fact::Cross { class, .. } = fact else { continue };
                let capability = (triple, class);
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
        self.flip(target, &flips, out);
    }

    /// What is known of a target, counted; it must be put back.
    fn take_facts(&mut self, target: u32) -> Box<Counts<Fact>> {
        let side = self.sides.get_mut(target as usize);
        let side = side.map(|side| core::mem::replace(side, Side::Nobody));
        match side {
            Some(Side::Many(facts)) => facts,
            Some(Side::One(origin)) => {
                let mut facts = Counts::new();
                let (from, edges) = self.edges_at(origin, target);
                let local = self.is_local(from, target);
                for edge in edges {
                    let capability = self.capability(edge);
                    // These flips were made when the edges came.
                    count_up(&mut facts, origin, from, local, capability, &mut Flips::new());
                }
                Box::new(facts)
            }
            _ => Box::new(Counts::new()),
        }
    }

    /// Puts facts back, in the short form where it says as much.
    fn put_facts(&mut self, target: u32, facts: Box<Counts<Fact>>) {
        let all_grants = Fact::Grant { triple: 0, from: 0, grant: 0 }..=Fact::Grant {
            triple: u32::MAX,
            from: u32::MAX,
            grant: u32::MAX,
        };
        let has_grants = facts.between(all_grants).next().is_some();
        let side = Side::Many(facts);
        let (first, second) = {
            let mut origins = side.origins();
            (origins.next(), origins.next())
        };
        let side = match (has_grants, first, second) {
            (false, None, _) => Side::Nobody,
            (false, Some(only), None) => Side::One(only),
            _ => side,
        };
        self.put_side(target, side);
    }

    fn put_side(&mut self, target: u32, side: Side) {
        if matches!(side, Side::Nobody) {
            self.leaving.push(target);
        }
        if let Some(place) = self.sides.get_mut(target as usize) {
            *place = side;
        }
    }

    /// Writes into the view what became live or dead, and tells it.
    fn flip(&mut self, target: u32, flips: &Flips, out: &mut Outputs) {
        if flips.is_empty() {
            return;
        }
        let mut live: SmallVec<[Capability; 8]> = self.view().capabilities_at(target).into();
        for (capability, is_live) in flips {
            match (live.binary_search(capability), is_live) {
                (Err(at), true) => live.insert(at, *capability),
                (Ok(at), false) => {
                    live.remove(at);
                }
                _ => continue,
            }
            if self.is_open(capability.0) {
                let (capability, live) = (*capability, *is_live);
                out.transitions.push(Transition { target: TargetId(target), capability, live });
            }
        }
        let before = self.view().set_of(target);
        let capabilities = self.hold_set(&live);
        self.step(Step::Set { target, capabilities });
        self.release_set(before);
    }

    fn hold_set(&mut self, set: &[Capability]) -> u32 {
        if set.is_empty() {
            return NO_CAPABILITIES;
        }
        let (id, new) = self.sets.hold(&set, |known| **known == *set, || set.into());
        if new {
            self.step(Step::Capabilities(id, Some(set.into())));
        }
        id
    }

    fn release_set(&mut self, id: u32) {
        if id != NO_CAPABILITIES && self.sets.release(id).is_some() {
            self.step(Step::Capabilities(id, None));
        }
    }

    /// Forgets the targets nothing speaks of any more.
    pub(crate) fn sweep(&mut self) {
        let mut leaving = core::mem::take(&mut self.leaving);
        leaving.sort_unstable();
        leaving.dedup();
        for target in leaving {
            if !matches!(self.side(target), Side::Nobody) {
                continue;
            }
            let Some((place, _)) = self.view().target(target) else { continue };
            self.step(Step::Remove(target));
            if self.words.release_place(place) {
                self.step(Step::Place(place, None));
            }
        }
    }
}
