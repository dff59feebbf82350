//! Strategies and what is served: which paths are in force, and which origins they must see.
//!
//! ```text
//!   strategy + served types ──► active version (R58) ──► sources, one per path
//!                                                           └──► needs: feed me this type at this version
//! ```
//!
//! A source that is no longer wanted loses its edges at once, with one exception: when the active version
//! changes, the edges of the old one stay until each origin was seen at the new one (R59).

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::event::{Kind, Need, Outputs};
use crate::index::Index;
use crate::intern::NONE;
use crate::model::{ReferencePath, Resource, ServedType, Strategy, Triple, VersionPaths};
use crate::origin::Edges;
use crate::path::Path;

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
    pub(crate) class_path: Option<Path>,
    pub(crate) reference: ReferencePath,
    /// Whether targets have a namespace.
    pub(crate) namespaced: bool,
    /// The kind of targets.
    pub(crate) kind: String,
}

/// A path in force.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) spec: Arc<SourceSpec>,
    pub(crate) origin: u32,
    pub(crate) target: u32,
    pub(crate) triple: u32,
    /// Whether another version has taken its place, and it waits for that one to be seen.
    pub(crate) retired: bool,
}

/// A type of origins that is being watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginType {
    pub(crate) sources: Vec<u32>,
    /// Whether all of them were seen once (R125).
    pub(crate) seen: bool,
}

impl OriginType {
    pub(crate) fn is_seen(&self) -> bool {
        self.seen
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
        self.forget_unusable(Kind::Strategy, "", &strategy.name);
        let name = strategy.name.clone();
        if self.strategies.get(&name).is_some_and(|kept| kept.strategy == strategy) {
            return;
        }
        let active = self.strategies.get(&name).and_then(|kept| kept.active.clone());
        self.strategies.insert(name.clone(), KeptStrategy { strategy, active });
        self.settle(&BTreeSet::from([name]), out);
    }

    pub(crate) fn drop_strategy(&mut self, name: &str, out: &mut Outputs) {
        self.forget_unusable(Kind::Strategy, "", name);
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
        let retired = left.into_iter().filter(|id| self.source(*id).is_some_and(|s| s.retired));
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

    pub(crate) fn source(&self, id: u32) -> Option<&Source> {
        self.sources.get(id as usize)?.as_ref()
    }

    /// The sources that read a type at a version.
    pub(crate) fn sources_at(&self, resource: u32, version: &str) -> SmallVec<[u32; 8]> {
        let Some(of_type) = self.types.get(&resource) else { return SmallVec::new() };
        let reads = |id: &u32| {
            self.source(*id).is_some_and(|source| !source.retired && source.spec.version == version)
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
        old.retired && strategies.into_iter().any(|new| new.spec.strategy == old.spec.strategy)
    }

    /// Brings the sources of strategies in line with what is stored and served.
    fn settle(&mut self, names: &BTreeSet<String>, out: &mut Outputs) {
        let before = self.feeds();
        let mut added = BTreeSet::new();
        let mut gone = Vec::new();
        for name in names {
            let wanted = self.wanted(name);
            let had: Vec<u32> = self.sources_of(name).collect();
            let switched = self.switch_active(name, &wanted);
            let origin = wanted.first().map(|spec| spec.origin.clone());
            for id in &had {
                let Some(Some(source)) = self.sources.get_mut(*id as usize) else { continue };
                let still = wanted.iter().any(|spec| *spec == *source.spec);
                let replaced = switched && origin.as_ref() == Some(&source.spec.origin);
                match (still, replaced) {
                    (true, _) => source.retired = false,
                    (false, true) => source.retired = true,
                    (false, false) => gone.push(*id),
                }
            }
            for spec in wanted {
                let known = had.iter().filter_map(|id| self.source(*id));
                if !known.into_iter().any(|source| *source.spec == spec) {
                    added.insert((spec.origin.clone(), spec.version.clone()));
                    self.add_source(spec);
                }
            }
        }
        self.drop_sources(&gone, out);
        let after = self.feeds();
        added.extend(after.difference(&before).cloned());
        let stopped = before.difference(&after).cloned();
        out.needs.extend(stopped.map(|(resource, version)| Need::Stop(resource, version)));
        out.needs
            .extend(added.into_iter().map(|(resource, version)| Need::Feed(resource, version)));
        self.forget_idle_types(out);
    }

    /// The sources a strategy should have now.
    fn wanted(&self, name: &str) -> Vec<SourceSpec> {
        let Some(kept) = self.strategies.get(name) else { return Vec::new() };
        let strategy = &kept.strategy;
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
            source.as_ref().filter(|source| source.spec.strategy == strategy).map(|_| id)
        })
    }

    /// The types and versions that must be fed.
    fn feeds(&self) -> BTreeSet<(Resource, String)> {
        let sources = self.sources.iter().flatten().filter(|source| !source.retired);
        sources.map(|source| (source.spec.origin.clone(), source.spec.version.clone())).collect()
    }

    fn add_source(&mut self, spec: SourceSpec) {
        let origin = self.words.hold_resource(&spec.origin);
        let target = self.words.hold_resource(&spec.reference.target);
        let triple = self.words.hold_triple(&Triple {
            origin: spec.origin.clone(),
            target: spec.reference.target.clone(),
            purpose: spec.reference.purpose.clone(),
        });
        let source = Source { spec: Arc::new(spec), origin, target, triple, retired: false };
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
    }

    /// Takes sources out of force, with all their edges.
    fn drop_sources(&mut self, gone: &[u32], out: &mut Outputs) {
        if gone.is_empty() {
            return;
        }
        let sources = gone.iter().filter_map(|id| self.source(*id));
        let types: BTreeSet<u32> = sources.map(|source| source.origin).collect();
        for resource in types {
            for origin in self.origins_of(resource) {
                let kept = self.origins.get(origin as usize).and_then(Option::as_ref);
                let Some(kept) = kept else { continue };
                if kept.edges.iter().any(|edge| gone.contains(&edge.source)) {
                    let stays = kept.edges.iter().filter(|edge| !gone.contains(&edge.source));
                    let stays: Edges = stays.copied().collect();
                    self.replace_edges(origin, &stays, out);
                }
            }
            if let Some(of_type) = self.types.get_mut(&resource) {
                of_type.sources.retain(|id| !gone.contains(id));
            }
        }
        for id in gone {
            let Some(source) = self.sources.get_mut(*id as usize).and_then(Option::take) else {
                continue;
            };
            self.words.release_triple(source.triple);
            self.words.release_resource(source.origin);
            self.words.release_resource(source.target);
        }
    }

    /// Forgets the origins of types nobody reads any more.
    fn forget_idle_types(&mut self, out: &mut Outputs) {
        let idle = self.types.iter().filter(|(_, of_type)| of_type.sources.is_empty());
        let mut idle: Vec<u32> = idle.map(|(id, _)| *id).collect();
        idle.sort_unstable();
        for id in idle {
            self.types.remove(&id);
            for origin in self.origins_of(id) {
                self.forget_origin(origin, out);
            }
            self.refresh_rights_of_type(id, out);
        }
    }
}
