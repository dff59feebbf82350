//! Strategies and what is served: which paths are in force, and which origins they must see.
//!
//! ```text
//!   strategy + served types ──► active version (R58) ──► sources, one per path
//!                                                           └──► needs: feed me this type at this version
//! ```
//!
//! A source that is no longer wanted is out of force at once, with one exception: when the active version
//! changes, the edges of the old one stay until each origin was seen at the new one (R59). What was prepared
//! takes its place at once (`force.rs`).

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::event::{Need, Outputs, ReferenceApiKind};
use crate::force::Force;
use crate::index::Index;
use crate::intern::NONE;
use crate::model::{ReferencePath, Resource, ServedType, Strategy, Triple, VersionPaths};
use crate::origin::Edges;
use crate::path::JsonPath;

/// A strategy, and the version whose paths are in force.
#[derive(Clone, Debug)]
pub(crate) struct KeptStrategy {
    pub(crate) strategy: Strategy,
    pub(crate) active: Option<String>,
}

/// What a source is; two that are equal find the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceSpec {
    pub(crate) strategy: String,
    pub(crate) origin: Resource,
    pub(crate) version: String,
    pub(crate) class_path: Option<JsonPath>,
    pub(crate) reference: ReferencePath,
    /// Whether targets have a namespace.
    pub(crate) namespaced: bool,
    /// The kind of targets.
    pub(crate) kind: String,
}

/// A path in force.
#[derive(Clone, Debug)]
pub(crate) struct PathSource {
    pub(crate) spec: Arc<SourceSpec>,
    pub(crate) origin: u32,
    pub(crate) target: u32,
    pub(crate) triple: u32,
    /// Whether what it finds counts.
    pub(crate) force: Force,
}

/// A type of origins that is being watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginType {
    pub(crate) sources: Vec<u32>,
    /// Whether all of them were seen once (R125).
    pub(crate) seen: bool,
}

/// What became of sources while strategies were settled.
#[derive(Debug, Default)]
struct SourceChanges {
    /// They came into force.
    came: Vec<u32>,
    /// Of those, the ones that every origin was told to before.
    announced: Vec<u32>,
    gone: Vec<u32>,
    /// The types whose origins must be told.
    feeds: BTreeSet<(Resource, String)>,
}

impl SourceChanges {
    fn feed(&mut self, spec: &SourceSpec) {
        self.feeds.insert((spec.origin.clone(), spec.version.clone()));
    }
}

/// The paths that apply: of the first served version that the strategy lists (R58).
pub(crate) fn active_version<'s>(
    strategy: &'s Strategy,
    served: Option<&ServedType>,
) -> Option<&'s VersionPaths> {
    let versions = served.map(|served| served.versions.as_slice()).unwrap_or_default();
    versions
        .iter()
        .find_map(|version| strategy.versions.iter().find(|listed| listed.version == *version))
}

impl Index {
    pub(crate) fn put_strategy(&mut self, strategy: Strategy, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Strategy, "", &strategy.name);
        let name = strategy.name.clone();
        if self.strategies.get(&name).is_some_and(|kept| kept.strategy == strategy) {
            return;
        }
        let active = self.strategies.get(&name).and_then(|kept| kept.active.clone());
        self.strategies.insert(name.clone(), KeptStrategy { strategy, active });
        self.settle(&BTreeSet::from([name]), out);
    }

    pub(crate) fn drop_strategy(&mut self, name: &str, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Strategy, "", name);
        if self.strategies.remove(name).is_some() {
            self.settle(&BTreeSet::from([name.into()]), out);
        }
    }

    pub(crate) fn put_served(&mut self, types: Vec<ServedType>, out: &mut Outputs) {
        let served = types.into_iter().map(|served| (served.resource.clone(), served)).collect();
        if self.served == served {
            return;
        }
        self.served = served;
        let all = self.strategies.keys().cloned().collect();
        self.settle(&all, out);
        self.look_out(out);
    }

    /// Every origin of a type has been seen at a version.
    pub(crate) fn origins_synced(
        &mut self,
        group: &str,
        resource: &str,
        version: &str,
        out: &mut Outputs,
    ) {
        let Some(id) = self.words.resource(group, resource) else { return };
        let Some(of_type) = self.types.get(&id) else { return };
        let read_now = |source: &u32| {
            let strategy = self.source(*source).map(|source| source.spec.strategy.as_str());
            let kept = strategy.and_then(|strategy| self.strategies.get(strategy));
            kept.is_some_and(|kept| kept.active.as_deref() == Some(version))
        };
        let left: Vec<u32> = of_type.sources.iter().copied().filter(read_now).collect();
        if left.is_empty() {
            return;
        }
        let is_retired = |source: &PathSource| source.force == Force::Retired;
        let retired = left.into_iter().filter(|id| self.source(*id).is_some_and(is_retired));
        let retired: Vec<u32> = retired.collect();
        self.drop_sources(&retired, out);
        let first = match self.types.get_mut(&id) {
            Some(of_type) => !core::mem::replace(&mut of_type.seen, true),
            None => false,
        };
        if first {
            self.refresh_rights_of_type(id, out);
        }
    }

    /// Whether edges of a triple may be live: everything they depend on was seen once (R125).
    pub(crate) fn is_open(&self, triple: u32) -> bool {
        let origin = self.words.origin_of(triple);
        let of_type = origin.and_then(|origin| self.types.get(&origin));
        self.has_kinds() && of_type.is_some_and(|of_type| of_type.seen)
    }

    pub(crate) fn source(&self, id: u32) -> Option<&PathSource> {
        self.sources.get(id as usize)?.as_ref()
    }

    /// The sources that read a type at a version.
    pub(crate) fn sources_at(&self, resource: u32, version: &str) -> SmallVec<[u32; 8]> {
        let Some(of_type) = self.types.get(&resource) else { return SmallVec::new() };
        let reads = |id: &u32| {
            self.source(*id).is_some_and(|source| source.reads() && source.spec.version == version)
        };
        of_type.sources.iter().copied().filter(reads).collect()
    }

    /// Whether an edge of this source is replaced by what these sources find: they are of one strategy.
    pub(crate) fn is_replaced(&self, edge: u32, sources: &[u32]) -> bool {
        if sources.contains(&edge) {
            return true;
        }
        let Some(old) = self.source(edge) else { return true };
        let strategies = sources.iter().filter_map(|id| self.source(*id));
        let mut strategies = strategies.filter(|new| new.is_in_force());
        match old.force {
            Force::Gone => true,
            Force::Retired => strategies.any(|new| new.spec.strategy == old.spec.strategy),
            _ => false,
        }
    }

    /// Brings the sources of strategies in line with what is stored and served.
    fn settle(&mut self, names: &BTreeSet<String>, out: &mut Outputs) {
        let before = self.feeds();
        let mut turned = SourceChanges::default();
        for name in names {
            self.settle_strategy(name, &mut turned);
        }
        self.see_types_of(&turned.announced);
        let triples = turned.came.iter().filter_map(|id| self.source(*id));
        let triples = triples.map(|source| source.triple).collect();
        self.drop_sources(&turned.gone, out);
        self.refresh_rights_of_triples(&triples, out);
        let after = self.feeds();
        turned.feeds.extend(after.difference(&before).cloned());
        self.stop_feeds(&before, out);
        let feeds = turned.feeds.into_iter();
        out.needs.extend(feeds.map(|(resource, version)| Need::Feed(resource, version)));
        self.forget_idle_types(out);
    }

    fn settle_strategy(&mut self, name: &str, turned: &mut SourceChanges) {
        let wanted = self.wanted(name);
        let had: Vec<u32> = self.sources_of(name).collect();
        let switched = self.switch_active(name, &wanted) && !self.all_ready(&had, &wanted);
        let origin = wanted.first().map(|spec| spec.origin.clone());
        for id in &had {
            let Some(Some(source)) = self.sources.get_mut(*id as usize) else { continue };
            let still = wanted.iter().any(|spec| *spec == *source.spec);
            let replaced = switched && origin.as_ref() == Some(&source.spec.origin);
            let was = source.force;
            match (was, still) {
                // Whoever prepares it stores it, or gives it up.
                (Force::Prepared | Force::Announced, false) => continue,
                (_, true) => source.force = Force::Effective,
                (_, false) if replaced => source.force = Force::Retired,
                (_, false) => turned.gone.push(*id),
            }
            match was {
                Force::Announced => turned.announced.push(*id),
                Force::Prepared => turned.feed(&source.spec),
                _ => continue,
            }
            turned.came.push(*id);
        }
        for spec in wanted {
            let known = had.iter().filter_map(|id| self.source(*id));
            if !known.into_iter().any(|source| *source.spec == spec) {
                turned.feed(&spec);
                turned.came.push(self.add_source(spec, Force::Effective));
            }
        }
    }

    /// Whether all of these are in force already, or were prepared: none needs to be waited for.
    fn all_ready(&self, had: &[u32], wanted: &[SourceSpec]) -> bool {
        wanted.iter().all(|spec| {
            let known = had.iter().filter_map(|id| self.source(*id));
            let mut same = known.filter(|source| *source.spec == *spec);
            same.any(|source| matches!(source.force, Force::Effective | Force::Announced))
        })
    }

    /// Tells what need not be fed any more.
    pub(crate) fn stop_feeds(&mut self, before: &BTreeSet<(Resource, String)>, out: &mut Outputs) {
        let after = self.feeds();
        for (resource, version) in before.difference(&after).cloned() {
            let id = self.words.resource(&resource.group, &resource.resource);
            let of_type = id.and_then(|id| self.types.get(&id));
            let idle = of_type.is_none_or(|of_type| of_type.sources.is_empty());
            if idle && self.has_to_clear() {
                self.stop_later(resource, version);
            } else {
                out.needs.push(Need::Stop(resource, version));
            }
        }
    }

    /// The sources a strategy should have now.
    fn wanted(&self, name: &str) -> Vec<SourceSpec> {
        let kept = self.strategies.get(name);
        kept.map(|kept| self.wanted_of(&kept.strategy)).unwrap_or_default()
    }

    /// The sources of a strategy, if it is stored or not.
    pub(crate) fn wanted_of(&self, strategy: &Strategy) -> Vec<SourceSpec> {
        let Some(paths) = active_version(strategy, self.served.get(&strategy.origin)) else {
            return Vec::new();
        };
        let mut wanted: Vec<SourceSpec> = Vec::new();
        for reference in &paths.references {
            // A target that is not served has no scope yet: no effect until it is (R34).
            let Some(target) = self.served.get(&reference.target) else { continue };
            let spec = SourceSpec {
                strategy: strategy.name.clone(),
                origin: strategy.origin.clone(),
                version: paths.version.clone(),
                class_path: paths.class_path.clone(),
                reference: reference.clone(),
                namespaced: target.namespaced,
                kind: target.kind.clone(),
            };
            if !wanted.contains(&spec) {
                wanted.push(spec);
            }
        }
        wanted
    }

    /// Notes the active version; whether another one was active before.
    fn switch_active(&mut self, name: &str, wanted: &[SourceSpec]) -> bool {
        let Some(kept) = self.strategies.get_mut(name) else { return false };
        let now = active_version(&kept.strategy, self.served.get(&kept.strategy.origin));
        let now = now.map(|paths| paths.version.clone());
        let before = core::mem::replace(&mut kept.active, now);
        before.is_some() && kept.active.is_some() && before != kept.active && !wanted.is_empty()
    }

    fn sources_of<'s>(&'s self, strategy: &'s str) -> impl Iterator<Item = u32> + 's {
        let numbered = (0_u32..).zip(&self.sources);
        numbered.filter_map(move |(id, source)| {
            let source = source.as_ref().filter(|source| source.force != Force::Gone);
            source.filter(|source| source.spec.strategy == strategy).map(|_| id)
        })
    }

    /// The types and versions that must be fed; those that selectors look at are asked for by them.
    pub(crate) fn feeds(&self) -> BTreeSet<(Resource, String)> {
        let sources = self.sources.iter().flatten().filter(|source| source.reads());
        let read = sources.map(|source| (source.spec.origin.clone(), source.spec.version.clone()));
        let looked_at = self.selection.looked_at.iter();
        read.chain(looked_at.map(|(of, version)| (of.clone(), version.clone()))).collect()
    }

    pub(crate) fn add_source(&mut self, spec: SourceSpec, force: Force) -> u32 {
        let origin = self.words.hold_resource(&spec.origin);
        let target = self.words.hold_resource(&spec.reference.target);
        let triple = self.words.hold_triple(&Triple {
            origin: spec.origin.clone(),
            target: spec.reference.target.clone(),
            purpose: spec.reference.purpose.clone(),
        });
        let source = PathSource { spec: Arc::new(spec), origin, target, triple, force };
        let id = match self.sources.iter().position(Option::is_none) {
            Some(at) => {
                if let Some(free) = self.sources.get_mut(at) {
                    *free = Some(source);
                }
                at
            }
            None => {
                self.sources.push(Some(source));
                self.sources.len() - 1
            }
        };
        let id = u32::try_from(id).unwrap_or(NONE);
        self.types.entry(origin).or_default().sources.push(id);
        self.by_triple.entry(triple).or_default().push(id);
        id
    }

    /// Takes sources out of force; their edges go now, or beside events.
    pub(crate) fn drop_sources(&mut self, gone: &[u32], out: &mut Outputs) {
        let sources = gone.iter().filter_map(|id| self.source(*id));
        let (types, triples): (BTreeSet<u32>, BTreeSet<u32>) =
            sources.map(|source| (source.origin, source.triple)).unzip();
        if self.clearing.in_background {
            self.clear_later(gone);
        }
        for resource in types {
            if !self.clearing.in_background {
                self.drop_edges(resource, gone, out);
            }
            if let Some(of_type) = self.types.get_mut(&resource) {
                of_type.sources.retain(|id| !gone.contains(id));
            }
        }
        if !self.clearing.in_background {
            gone.iter().for_each(|id| self.free_source(*id));
        }
        self.refresh_rights_of_triples(&triples, out);
    }

    fn drop_edges(&mut self, resource: u32, gone: &[u32], out: &mut Outputs) {
        for origin in self.origins_of(resource) {
            let kept = self.origins.get(origin as usize).and_then(Option::as_ref);
            let Some(kept) = kept else { continue };
            if kept.edges.iter().any(|edge| gone.contains(&edge.source)) {
                let stays = kept.edges.iter().filter(|edge| !gone.contains(&edge.source));
                let stays: Edges = stays.copied().collect();
                self.replace_edges(origin, &stays, out);
            }
        }
    }

    /// Nothing speaks of a source any more; its number may be used again.
    pub(crate) fn free_source(&mut self, id: u32) {
        let source = self.sources.get_mut(id as usize).and_then(Option::take);
        let Some(source) = source else { return };
        if let Some(of_triple) = self.by_triple.get_mut(&source.triple) {
            of_triple.retain(|other| *other != id);
            if of_triple.is_empty() {
                self.by_triple.remove(&source.triple);
            }
        }
        self.words.release_triple(source.triple);
        self.words.release_resource(source.origin);
        self.words.release_resource(source.target);
    }

    /// Forgets the types nobody reads any more, and their origins now or beside events.
    pub(crate) fn forget_idle_types(&mut self, out: &mut Outputs) {
        let idle = self.types.iter().filter(|(_, of_type)| of_type.sources.is_empty());
        let mut idle: Vec<u32> = idle.map(|(id, _)| *id).collect();
        idle.sort_unstable();
        for id in idle {
            self.types.remove(&id);
            if !self.clearing.in_background {
                for origin in self.origins_of(id) {
                    self.forget_origin(origin, out);
                }
            }
            self.refresh_rights_of_type(id, out);
        }
    }
}
