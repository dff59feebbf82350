//! Origins and their edges: an object comes in, its references are found, the difference is made.
//!
//! The object itself is not kept. Its edges are, packed and sorted, so that an update is a difference of
//! two short lists and a deletion is one of them (R174).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use smallvec::SmallVec;

use crate::counts::Multiset;
use crate::event::{Origin, OriginName, Outputs, PathFailure, ReferenceChange};
use crate::extract::{self, Dropped, Evaluation, Failed, TargetType};
use crate::index::Index;
use crate::intern::NONE;
use crate::key::TextKey;
use crate::model::{Obj, Resource};
use crate::target::Fact;
use crate::view::Capability;

/// One reference found by one source in one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OriginEdge {
    pub(crate) target: u32,
    pub(crate) source: u32,
    pub(crate) class: u32,
}

impl OriginEdge {
    /// What makes it good for something.
    pub(crate) fn capability(self) -> Capability {
        (self.source, self.class)
    }
}

/// A reference that was just found: the numbers of everything but its name.
pub(crate) struct ExtractedReference {
    source: u32,
    class: u32,
    resource: u32,
    namespace: u32,
    /// Where the name lies in the names that were found.
    name: (usize, usize),
    /// Its place and its hash, if other targets are there already.
    at: Option<(u32, u32)>,
}

/// What was just found in an object, which is little most of the time.
pub(crate) type Edges = SmallVec<[OriginEdge; 8]>;

/// An origin, and where it points.
#[derive(Clone, Debug)]
pub(crate) struct KeptOrigin {
    pub(crate) place: u32,
    pub(crate) name: Box<str>,
    /// INVARIANT: sorted, without duplicates.
    pub(crate) edges: Box<[OriginEdge]>,
}

impl Index {
    /// An origin as it is at a version. Versions nobody asked for are ignored.
    pub(crate) fn put_origin(&mut self, origin: &Origin<'_>, out: &mut Outputs) {
        let name = &origin.name;
        let Some(resource) = self.words.resource(name.group, name.resource) else { return };
        let sources = self.sources_at(resource, origin.version);
        if sources.is_empty() || !extract::is_name(name.name) {
            return;
        }
        let from = self.words.hold_namespace(name.namespace);
        let mut found = core::mem::take(&mut self.found);
        let classes = self.extracted(&sources, origin, from, &mut found, out);
        let place = self.words.hold_place(resource, from);
        let hash = self.hasher.hash_one((place, name.name));
        let hashes = found.iter().filter_map(|reference| reference.at).map(|(_, hash)| hash);
        self.bring_near(hash, hashes);
        let id = self.origin_in(place, hash, name.name);
        let mut edges = self.edges_to(&found, from);
        found.clear();
        self.found = found;
        let kept = self.origins.get(id as usize).and_then(Option::as_ref);
        let kept = kept.map(|kept| &*kept.edges).unwrap_or_default();
        // Edges of other strategies, which read another version, stay.
        edges.extend(kept.iter().filter(|edge| !self.is_replaced(edge.source, &sources)).copied());
        edges.sort_unstable();
        edges.dedup();
        self.replace_edges(id, &edges, out);
        classes.into_iter().for_each(|class| self.words.release_class(class));
        self.words.release_namespace(from);
    }

    /// An origin is gone.
    pub(crate) fn drop_origin(&mut self, name: &OriginName<'_>, out: &mut Outputs) {
        let object = Obj {
            group: name.group,
            resource: name.resource,
            namespace: name.namespace,
            name: name.name,
        };
        if let Some(id) = self.find_origin(&object) {
            self.forget_origin(id, out);
        }
    }

    pub(crate) fn forget_origin(&mut self, id: u32, out: &mut Outputs) {
        self.replace_edges(id, &[], out);
        let Some(kept) = self.origins.get_mut(id as usize).and_then(Option::take) else { return };
        let hash = self.hasher.hash_one((kept.place, &*kept.name));
        if let Ok(found) = self.origins_by_name.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.origins_free.push(id);
        self.release_place(kept.place);
    }

    /// The number of an origin that is known.
    pub(crate) fn find_origin(&self, object: &Obj<'_>) -> Option<u32> {
        let resource = self.words.resource(object.group, object.resource)?;
        let namespace = self.words.namespace(object.namespace)?;
        let place = self.words.place(resource, namespace)?;
        self.find_origin_in(place, self.hasher.hash_one((place, object.name)), object.name)
    }

    fn find_origin_in(&self, place: u32, hash: u64, name: &str) -> Option<u32> {
        let is = |id: &u32| {
            let kept = self.origins.get(*id as usize).and_then(Option::as_ref);
            kept.is_some_and(|kept| kept.place == place && *kept.name == *name)
        };
        self.origins_by_name.find(hash, is).copied()
    }

    /// The number of an origin in a place, which is held for it.
    fn origin_in(&mut self, place: u32, hash: u64, name: &str) -> u32 {
        if let Some(id) = self.find_origin_in(place, hash, name) {
            self.words.release_place(place);
            return id;
        }
        let kept = KeptOrigin { place, name: name.into(), edges: Box::default() };
        let id = match self.origins_free.pop() {
            Some(id) => {
                if let Some(free) = self.origins.get_mut(id as usize) {
                    *free = Some(kept);
                }
                id
            }
            None => {
                self.origins.push(Some(kept));
                u32::try_from(self.origins.len() - 1).unwrap_or(NONE)
            }
        };
        let (origins, hasher) = (&self.origins, &self.hasher);
        let rehash = |id: &u32| match origins.get(*id as usize) {
            Some(Some(kept)) => hasher.hash_one((kept.place, &*kept.name)),
            _ => 0,
        };
        self.origins_by_name.insert_unique(hash, id, rehash);
        id
    }

    fn release_place(&mut self, place: u32) {
        if self.words.release_place(place) && self.view().has_place(place) {
            self.step(crate::view::ViewChange::Place(place, None));
        }
    }

    /// Every reference the sources find in an object; the classes held for them. A path that finds too much
    /// finds nothing (R72). Namespaces are held, except the one of the origin.
    fn extracted(
        &mut self,
        sources: &[u32],
        origin: &Origin<'_>,
        from: u32,
        found: &mut Vec<ExtractedReference>,
        out: &mut Outputs,
    ) -> SmallVec<[u32; 8]> {
        let mut classes = SmallVec::new();
        let mut evaluation = Evaluation::new(&*self.expressions);
        for id in sources {
            let Some(Some(source)) = self.sources.get(*id as usize) else { continue };
            let (spec, resource) = (&source.spec, source.target);
            let class = extract::class(spec.class_path.as_ref(), origin.object);
            let class = self.words.hold_class(class);
            classes.push(class);
            let (words, view, names) = (&mut self.words, &self.current, &mut self.found_names);
            // Most references of an object lead to one place.
            let mut last = (NONE, None);
            let mut dropped = [0; 6];
            let result = extract::references(
                &spec.reference,
                TargetType { namespaced: spec.namespaced, kind: &spec.kind },
                origin.name.namespace,
                origin.object,
                &mut evaluation,
                &mut |name, namespace| {
                    let is_own = namespace == origin.name.namespace;
                    let namespace = if is_own { from } else { words.hold_namespace(namespace) };
                    if last.0 != namespace {
                        let place = words.place(resource, namespace);
                        last = (
                            namespace,
                            place.and_then(|place| Some((place, view.seed_of(place)?))),
                        );
                    }
                    let at =
                        last.1.map(|(place, seed)| (place, view.hash(seed, &TextKey::new(name))));
                    let start = names.len();
                    names.push_str(name);
                    let name = (start, names.len());
                    found.push(ExtractedReference {
                        source: *id,
                        class,
                        resource,
                        namespace,
                        name,
                        at,
                    });
                },
                &mut |reason| count_dropped(&mut dropped, reason),
            );
            for (total, more) in self.dropped.iter_mut().zip(dropped) {
                *total += more;
            }
            if let Err(failed) = result {
                self.overflows += u64::from(matches!(failed, Failed::TooMuch(_)));
                out.reports.push(PathFailure {
                    strategy: spec.strategy.clone(),
                    path: alloc::format!("{}", spec.reference.finder),
                    origin: Resource::new(origin.name.group, origin.name.resource),
                    namespace: origin.name.namespace.into(),
                    name: origin.name.name.into(),
                    failed,
                });
            }
        }
        classes
    }

    /// The edges of references from a namespace. Other namespaces, which were held for them, are released.
    fn edges_to(&mut self, found: &[ExtractedReference], from: u32) -> Edges {
        let mut names = core::mem::take(&mut self.found_names);
        let mut edges = Edges::new();
        for reference in found {
            let ExtractedReference { source, class, resource, namespace, name: (start, end), at } =
                *reference;
            let name = names.get(start..end).unwrap_or_default();
            let target = match at {
                Some((place, hash)) => self.target_at(place, hash, name),
                None => self.target_in(resource, namespace, name),
            };
            edges.push(OriginEdge { target, source, class });
            if namespace != from {
                self.words.release_namespace(namespace);
            }
        }
        names.clear();
        self.found_names = names;
        edges
    }

    /// The edges of an origin are these from now on. Each edge holds its class.
    pub(crate) fn replace_edges(&mut self, id: u32, new: &[OriginEdge], out: &mut Outputs) {
        let Some(kept) = self.origins.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if *kept.edges == *new {
            return;
        }
        // Until the end nobody asks for the edges of this origin: targets that have another one ask for
        // those, and targets that have this one only are changed from the two lists.
        let old = core::mem::take(&mut kept.edges);
        let Some((_, from)) = self.words.place_of(kept.place) else { return };
        new.iter().for_each(|edge| self.words.keep_class(edge.class));
        let before = self.follows_references.then(|| self.allowed_pairs(from, &old));
        let (mut olds, mut news) = (&*old, new);
        // Both are sorted by target: one walk over both.
        while let Some(target) = first_target(olds, news) {
            let (these_old, rest_old) = split_target(olds, target);
            let (these_new, rest_new) = split_target(news, target);
            if these_old != these_new {
                self.change_target(id, from, target, (these_old, these_new), out);
            }
            (olds, news) = (rest_old, rest_new);
        }
        self.edges = self.edges + new.len() - old.len();
        if let Some(before) = before {
            let after = self.allowed_pairs(from, new);
            self.tell_moved(id, &before, &after, out);
        }
        if let Some(kept) = self.origins.get_mut(id as usize).and_then(Option::as_mut) {
            kept.edges = new.into();
        }
        old.iter().for_each(|edge| self.words.release_class(edge.class));
    }

    /// The namespace of an origin and its edges to one target.
    pub(crate) fn edges_at(&self, origin: u32, target: u32) -> (u32, &[OriginEdge]) {
        let Some(kept) = self.origins.get(origin as usize).and_then(Option::as_ref) else {
            return (NONE, &[]);
        };
        let start = kept.edges.partition_point(|edge| edge.target < target);
        let end = kept.edges.partition_point(|edge| edge.target <= target);
        let from = self.words.place_of(kept.place).map_or(NONE, |(_, namespace)| namespace);
        (from, kept.edges.get(start..end).unwrap_or_default())
    }

    pub(crate) fn origin(&self, id: u32) -> Option<Obj<'_>> {
        let kept = self.origins.get(id as usize)?.as_ref()?;
        Some(self.words.object(kept.place, &kept.name))
    }

    /// Whether an edge may be followed: it is in force, and needs no grant or has one.
    pub(crate) fn is_live(&self, from: u32, edge: &OriginEdge) -> bool {
        let granted = || self.side(edge.target).is_granted(self.triple(edge), from);
        self.is_in_force(edge.source) && (self.is_local(from, edge.target) || granted())
    }

    /// The targets and triples that are allowed by these edges, sorted.
    fn allowed_pairs(&self, from: u32, edges: &[OriginEdge]) -> Vec<(u32, u32)> {
        let live = edges.iter().filter(|edge| self.is_live(from, edge));
        let mut pairs: Vec<(u32, u32)> =
            live.map(|edge| (edge.target, self.triple(edge))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    fn tell_moved(
        &self,
        origin: u32,
        before: &[(u32, u32)],
        after: &[(u32, u32)],
        out: &mut Outputs,
    ) {
        for (these, others, allowed) in [(after, before, true), (before, after, false)] {
            for pair in these.iter().filter(|pair| others.binary_search(pair).is_err()) {
                self.tell(origin, *pair, allowed, out);
            }
        }
    }

    fn tell(&self, origin: u32, (target, triple): (u32, u32), allowed: bool, out: &mut Outputs) {
        if !self.is_open(triple) {
            return;
        }
        let Some(origin) = self.origin(origin) else { return };
        let Some(target) = self.target_name(target) else { return };
        let purpose = self.words.triple_of(triple).map(|(_, _, purpose)| String::from(&**purpose));
        out.moved.push(ReferenceChange {
            origin: Resource::new(origin.group, origin.resource),
            origin_namespace: origin.namespace.into(),
            origin_name: origin.name.into(),
            target: Resource::new(target.group, target.resource),
            target_namespace: target.namespace.into(),
            target_name: target.name,
            purpose: purpose.unwrap_or_default(),
            allowed,
        });
    }

    /// A grant made the references from a namespace allowed, or its end made them denied.
    pub(crate) fn tell_granted(
        &self,
        target: u32,
        facts: &Multiset<Fact>,
        (triple, from): (u32, u32),
        allowed: bool,
        out: &mut Outputs,
    ) {
        let origins = facts.between(Fact::Origin(0)..=Fact::Origin(u32::MAX));
        for (fact, _) in origins {
            let Fact::Origin(origin) = fact else { continue };
            let (namespace, edges) = self.edges_at(origin, target);
            let points = edges
                .iter()
                .any(|edge| self.is_in_force(edge.source) && self.triple(edge) == triple);
            if namespace == from && points && !self.is_local(from, target) {
                self.tell(origin, (target, triple), allowed, out);
            }
        }
    }

    /// Every reference that is allowed now, as if each had just become so (R112): for whoever starts to
    /// follow them, or has just been told that a type was seen to the end.
    #[must_use]
    pub fn allowed_references(&self) -> Vec<crate::ReferenceChange> {
        let mut out = Outputs::default();
        for (id, kept) in (0_u32..).zip(&self.origins) {
            let Some(kept) = kept else { continue };
            let Some((_, from)) = self.words.place_of(kept.place) else { continue };
            for pair in self.allowed_pairs(from, &kept.edges) {
                self.tell(id, pair, true, &mut out);
            }
        }
        out.moved
    }

    /// The origins of a type.
    pub(crate) fn origins_of(&self, resource: u32) -> Vec<u32> {
        let numbered = (0_u32..).zip(&self.origins);
        let of_type = numbered.filter(|(_, kept)| {
            let place = kept.as_ref().and_then(|kept| self.words.place_of(kept.place));
            place.is_some_and(|(of, _)| of == resource)
        });
        of_type.map(|(id, _)| id).collect()
    }
}

fn count_dropped(dropped: &mut [u64; 6], reason: Dropped) {
    let at = Dropped::ALL.iter().position(|(known, _)| *known == reason);
    if let Some(count) = at.and_then(|at| dropped.get_mut(at)) {
        *count += 1;
    }
}

fn first_target(olds: &[OriginEdge], news: &[OriginEdge]) -> Option<u32> {
    let first = |edges: &[OriginEdge]| edges.first().map(|edge| edge.target);
    match (first(olds), first(news)) {
        (Some(old), Some(new)) => Some(old.min(new)),
        (old, new) => old.or(new),
    }
}

fn split_target(edges: &[OriginEdge], target: u32) -> (&[OriginEdge], &[OriginEdge]) {
    let end = edges.iter().take_while(|edge| edge.target == target).count();
    edges.split_at_checked(end).unwrap_or_default()
}
