//! The index is fed inside the commit: strategies, consumers and grants, what is served, and the origins that
//! strategies ask for (R121, R122).
//!
//! ```text
//!   changes of a commit ──► events ──► Index ──► needs: all origins of a type ──► events …
//! ```
//!
//! Where there are many origins, they are told beside the commits (`fill.rs`). Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_machinery::Object;
use tenure_reference::{
    Consumer, Grant, Index, IndexEvent, Need, Outputs, ReferenceApiKind, Resource, ServedType,
    Strategy, Subject, Synced,
};
use tenure_world::{Change, LockStep, Record, World};

use super::clear;
use super::feeds::{Fed, Feeds};
use super::fill::Ongoing;
use crate::access::AuthorizerChain;
use crate::clock;
use crate::custom::DEFINITIONS;
use crate::registry::{Registry, ServedKinds};

/// So many origins are cleared of what is out of force within the commit.
const CLEARED_AT_ONCE: usize = 32;

const KINDS: [(ReferenceApiKind, &str); 3] = [
    (ReferenceApiKind::Strategy, "/registry/referencestrategies/"),
    (ReferenceApiKind::Consumer, "/registry/clusterreferenceconsumers/"),
    (ReferenceApiKind::Grant, "/registry/referencegrants/"),
];

fn kind_of(key: &str) -> Option<ReferenceApiKind> {
    KINDS.iter().find(|(_, prefix)| key.starts_with(prefix)).map(|(kind, _)| *kind)
}

/// The index that must be handed to the world, after that of the kinds.
pub(crate) struct ReferenceUpdater {
    access: Arc<AuthorizerChain>,
    kinds: Arc<ServedKinds>,
    consumers: BTreeMap<String, (Subject, BTreeSet<Resource>)>,
    /// What each strategy points at.
    strategies: BTreeMap<String, BTreeSet<Resource>>,
    /// Whether clients are served already.
    started: bool,
}

impl ReferenceUpdater {
    pub(crate) fn new(access: Arc<AuthorizerChain>, kinds: Arc<ServedKinds>) -> ReferenceUpdater {
        let (consumers, strategies) = (BTreeMap::new(), BTreeMap::new());
        ReferenceUpdater { access, kinds, consumers, strategies, started: false }
    }

    fn put(
        &mut self,
        index: &mut Index,
        kind: ReferenceApiKind,
        record: &Record,
        out: &mut Outputs,
    ) {
        let object = serde_json::from_slice::<Object>(record.bytes()).unwrap_or_default();
        let event = match kind {
            ReferenceApiKind::Strategy => Strategy::from_object(&object).map(|strategy| {
                let paths = strategy.versions.iter().flat_map(|version| &version.references);
                let targets = paths.map(|path| path.target.clone()).collect();
                self.strategies.insert(strategy.name.clone(), targets);
                IndexEvent::PutStrategy(strategy)
            }),
            ReferenceApiKind::Grant => Grant::from_object(&object).map(IndexEvent::PutGrant),
            ReferenceApiKind::Consumer => Consumer::from_object(&object).map(|consumer| {
                let targets = consumer.references.iter().map(|triple| triple.target.clone());
                let kept = (consumer.subject.clone(), targets.collect());
                self.consumers.insert(consumer.name.clone(), kept);
                IndexEvent::PutConsumer(consumer)
            }),
        };
        if event.is_err() {
            self.forget(kind, record.name());
        }
        let unusable = IndexEvent::Unusable(kind, record.namespace(), record.name());
        index.apply(event.unwrap_or(unusable), out);
    }

    fn drop(
        &mut self,
        index: &mut Index,
        kind: ReferenceApiKind,
        record: &Record,
        out: &mut Outputs,
    ) {
        self.forget(kind, record.name());
        let event = match kind {
            ReferenceApiKind::Strategy => IndexEvent::DropStrategy(record.name()),
            ReferenceApiKind::Grant => IndexEvent::DropGrant(record.namespace(), record.name()),
            ReferenceApiKind::Consumer => IndexEvent::DropConsumer(record.name()),
        };
        index.apply(event, out);
    }

    fn forget(&mut self, kind: ReferenceApiKind, name: &str) {
        match kind {
            ReferenceApiKind::Consumer => drop(self.consumers.remove(name)),
            ReferenceApiKind::Strategy => drop(self.strategies.remove(name)),
            ReferenceApiKind::Grant => {}
        }
    }

    /// Tells what is served; types whose form has changed are told again.
    fn serve(&mut self, index: &mut Index, world: &World, out: &mut Outputs) {
        let registry = self.kinds.current();
        index.apply(IndexEvent::Served(served_types(&registry)), out);
        self.settle(index, world, out);
        let reformed = self.access.reference_authorizer().feeds().reformed(&registry);
        for fed in reformed {
            // What is told beside this is of the old form.
            self.access
                .reference_authorizer()
                .feeds()
                .cut(&self.access, |other| other.is_same(&fed));
            self.tell_type(index, world, &fed, out);
        }
    }

    /// Gives the index what it asks for, until it asks for nothing more.
    fn settle(&mut self, index: &mut Index, world: &World, out: &mut Outputs) {
        let registry = self.kinds.current();
        while !out.needs.is_empty() {
            let needs = std::mem::take(&mut out.needs);
            self.access.reference_authorizer().feeds().stop(&self.access, &needs);
            for need in needs {
                let Need::Feed(resource, version) = need else { continue };
                let Some(fed) = Fed::find(&registry, resource, version) else { continue };
                self.access.reference_authorizer().feeds().add(fed.clone());
                self.tell_type(index, world, &fed, out);
            }
        }
    }

    /// Tells all objects of a type: now, or beside the commits if there are many.
    ///
    /// Nobody keeps meanwhile what was taken away, and what another version takes over stays until then (R59).
    fn tell_type(&self, index: &mut Index, world: &World, fed: &Fed, out: &mut Outputs) {
        if self.started && fed.has_many(world) && self.fill_in_background(world, fed) {
            return;
        }
        world.range(&fed.served.prefix, None).for_each(|record| fed.put(index, record, out));
        fed.synced(index, out);
    }

    fn fill_in_background(&self, world: &World, fed: &Fed) -> bool {
        let ongoing = Ongoing::stored(&self.access, fed.clone());
        self.access.reference_authorizer().feeds().begin(Arc::clone(&ongoing));
        ongoing.start(&self.access, world.clone())
    }

    fn change(&mut self, index: &mut Index, change: &Change, out: &mut Outputs) {
        if let Some(kind) = kind_of(&change.key) {
            match (&change.after, &change.before) {
                (Some(record), _) => self.put(index, kind, record, out),
                (None, Some(gone)) => self.drop(index, kind, gone, out),
                (None, None) => {}
            }
            return;
        }
        for fed in self.access.reference_authorizer().feeds().changed(&change.key) {
            match (&change.after, &change.before) {
                (Some(record), _) => fed.put(index, record, out),
                (None, Some(gone)) => fed.drop(index, gone, out),
                (None, None) => {}
            }
        }
    }

    fn publish(
        &self,
        index: &mut Index,
        world: &World,
        out: &mut Outputs,
        kinds: &[ReferenceApiKind],
    ) {
        let authorizer = self.access.reference_authorizer();
        if kinds.contains(&ReferenceApiKind::Strategy) {
            let targets = self.strategies.values().flatten();
            authorizer.set_pointed_at(targets.cloned().collect());
        }
        if kinds.contains(&ReferenceApiKind::Consumer) {
            let all = self.consumers.values();
            let all = all.map(|(subject, to)| (subject.clone(), to.iter().cloned().collect()));
            authorizer.set_consumed(all.collect());
        }
        authorizer.publish(index, world.revision(), out);
        authorizer.teller().tell(world.revision(), &mut out.reports);
    }
}

/// Whether a change says anything to the index.
fn concerns(feeds: &Feeds, key: &str) -> bool {
    kind_of(key).is_some() || key.starts_with(DEFINITIONS) || feeds.concerns(key)
}

impl LockStep for ReferenceUpdater {
    fn start(&mut self, world: &World) {
        let access = Arc::clone(&self.access);
        let mut index = access.reference_authorizer().index_to_change();
        let out = &mut Outputs::default();
        self.serve(&mut index, world, out);
        for (kind, prefix) in KINDS {
            for record in world.range(prefix, None) {
                self.put(&mut index, kind, record, out);
            }
            index.apply(IndexEvent::Synced(Synced::Kind(kind)), out);
        }
        self.settle(&mut index, world, out);
        // Nobody has seen anything yet that could have become more or less.
        (out.transitions, out.subjects) = Default::default();
        access.reference_authorizer().start(world.revision());
        access.reference_authorizer().reach(world.revision());
        access.reference_authorizer().apply(world.revision());
        self.publish(&mut index, world, out, &KINDS.map(|(kind, _)| kind));
        self.started = true;
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        let (access, revision) = (Arc::clone(&self.access), world.revision());
        let authorizer = access.reference_authorizer();
        authorizer.reach(revision);
        let feeds = authorizer.feeds();
        let mut keys = changes.iter().map(|change| &*change.key);
        if !keys.any(|key| concerns(&feeds, key)) && !authorizer.follows_commits(&feeds) {
            return;
        }
        drop(feeds);
        let begin = clock::instant();
        let mut index = authorizer.index_to_change();
        let out = &mut Outputs::default();
        if changes.iter().any(|change| change.key.starts_with(DEFINITIONS)) {
            self.serve(&mut index, world, out);
        }
        for change in changes {
            self.change(&mut index, change, out);
            self.settle(&mut index, world, out);
        }
        if index.has_to_clear() {
            index.clear_away(CLEARED_AT_ONCE, out);
            authorizer.feeds().stop(&access, &std::mem::take(&mut out.needs));
        }
        let kinds: Vec<ReferenceApiKind> =
            changes.iter().filter_map(|change| kind_of(&change.key)).collect();
        self.publish(&mut index, world, out, &kinds);
        authorizer.apply(revision);
        clear::start(&access, &index);
        authorizer.tally().applied(begin.elapsed());
    }
}

/// Every resource that is served, once.
fn served_types(registry: &Registry) -> Vec<ServedType> {
    let mut seen = BTreeSet::new();
    let kinds = registry.kinds().iter().map(|served| &served.kind);
    kinds
        .filter(|kind| seen.insert((kind.group.as_ref(), kind.plural.as_ref())))
        .filter_map(|kind| {
            let served = registry.resource(&kind.group, &kind.plural)?;
            Some(ServedType {
                resource: Resource::new(&kind.group, &kind.plural),
                kind: kind.kind.to_string(),
                namespaced: served.namespaced,
                versions: served.versions,
            })
        })
        .collect()
}
