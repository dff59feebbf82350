//! The index is fed inside the commit: strategies, consumers and grants, what is served, and the origins that
//! strategies ask for (R121, R122).
//!
//! ```text
//!   changes of a commit ──► events ──► Index ──► needs: all origins of a type ──► events …
//! ```
//!
//! Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tenure_machinery::Object;
use tenure_reference::{
    Consumer, Event, Grant, Index, Kind, Need, Origin, OriginName, Outputs, Resource, ServedType,
    Strategy, Subject, Synced,
};
use tenure_world::{Change, LockStep, Record, World};

use super::fill::{self, Ongoing, WITHIN_COMMIT};
use crate::access::Access;
use crate::custom::DEFINITIONS;
use crate::registry::{Kinds, Registry, Served, prefixes};

const KINDS: [(Kind, &str); 3] = [
    (Kind::Strategy, "/registry/referencestrategies/"),
    (Kind::Consumer, "/registry/clusterreferenceconsumers/"),
    (Kind::Grant, "/registry/referencegrants/"),
];

fn kind_of(key: &str) -> Option<Kind> {
    KINDS.iter().find(|(_, prefix)| key.starts_with(prefix)).map(|(kind, _)| *kind)
}

/// The index that must be handed to the world, after that of the kinds.
pub(crate) struct Feed {
    access: Arc<Access>,
    kinds: Arc<Kinds>,
    /// The types whose objects are told, by where they are kept.
    fed: HashMap<String, Vec<Fed>>,
    consumers: BTreeMap<String, (Subject, BTreeSet<Resource>)>,
    /// What each strategy points at.
    strategies: BTreeMap<String, BTreeSet<Resource>>,
    /// Whether clients are served already.
    started: bool,
    /// Whether what happens now is a new strategy, which takes nothing away.
    adds: bool,
    /// The types that are being told beside the commits.
    ongoing: Vec<Arc<Ongoing>>,
}

/// A type whose objects are told at one version.
#[derive(Clone)]
pub(super) struct Fed {
    pub(super) resource: Resource,
    pub(super) version: String,
    pub(super) served: Arc<Served>,
}

impl Feed {
    pub(crate) fn new(access: Arc<Access>, kinds: Arc<Kinds>) -> Feed {
        let (consumers, strategies) = (BTreeMap::new(), BTreeMap::new());
        let (fed, ongoing) = (HashMap::new(), Vec::new());
        Feed { access, kinds, fed, consumers, strategies, started: false, adds: false, ongoing }
    }

    /// Whether a change says anything to the index.
    fn concerns(&self, key: &str) -> bool {
        kind_of(key).is_some()
            || key.starts_with(DEFINITIONS)
            || (!self.fed.is_empty() && prefixes(key).any(|prefix| self.fed.contains_key(prefix)))
    }

    fn put(&mut self, index: &mut Index, kind: Kind, record: &Record, out: &mut Outputs) {
        let object = serde_json::from_slice::<Object>(record.bytes()).unwrap_or_default();
        let event = match kind {
            Kind::Strategy => Strategy::from_object(&object).map(|strategy| {
                let paths = strategy.versions.iter().flat_map(|version| &version.references);
                let targets = paths.map(|path| path.target.clone()).collect();
                self.strategies.insert(strategy.name.clone(), targets);
                Event::PutStrategy(strategy)
            }),
            Kind::Grant => Grant::from_object(&object).map(Event::PutGrant),
            Kind::Consumer => Consumer::from_object(&object).map(|consumer| {
                let targets = consumer.references.iter().map(|triple| triple.target.clone());
                let kept = (consumer.subject.clone(), targets.collect());
                self.consumers.insert(consumer.name.clone(), kept);
                Event::PutConsumer(consumer)
            }),
        };
        if event.is_err() {
            self.forget(kind, record.name());
        }
        let unusable = Event::Unusable(kind, record.namespace(), record.name());
        index.apply(event.unwrap_or(unusable), out);
    }

    fn drop(&mut self, index: &mut Index, kind: Kind, record: &Record, out: &mut Outputs) {
        self.forget(kind, record.name());
        let event = match kind {
            Kind::Strategy => Event::DropStrategy(record.name()),
            Kind::Grant => Event::DropGrant(record.namespace(), record.name()),
            Kind::Consumer => Event::DropConsumer(record.name()),
        };
        index.apply(event, out);
    }

    fn forget(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Consumer => drop(self.consumers.remove(name)),
            Kind::Strategy => drop(self.strategies.remove(name)),
            Kind::Grant => {}
        }
    }

    /// Tells what is served; types whose form has changed are told again.
    fn serve(&mut self, index: &mut Index, world: &World, out: &mut Outputs) {
        let registry = self.kinds.current();
        index.apply(Event::Served(served_types(&registry)), out);
        self.settle(index, world, out);
        for fed in self.fed.values_mut().flatten() {
            let (group, resource) = (&fed.resource.group, &fed.resource.resource);
            let Some(now) = registry.find(group, &fed.version, resource) else { continue };
            if !now.same_as(&fed.served) {
                fed.served = Arc::clone(now);
                // What is told beside this is of the old form.
                let told = self.ongoing.iter().filter(|other| other.fed.is_same(fed));
                let ended = told.filter(|ongoing| ongoing.end(&self.access)).count() > 0;
                let records = world.range(&now.prefix, None);
                records.for_each(|record| fed.put(index, record, out));
                if ended {
                    fed.synced(index, out);
                }
            }
        }
    }

    /// Gives the index what it asks for, until it asks for nothing more.
    fn settle(&mut self, index: &mut Index, world: &World, out: &mut Outputs) {
        let registry = self.kinds.current();
        while !out.needs.is_empty() {
            for need in std::mem::take(&mut out.needs) {
                match need {
                    Need::Feed(resource, version) => {
                        self.tell_all(index, &registry, world, (resource, version), out);
                    }
                    Need::Stop(resource, version) => {
                        let is = |fed: &Fed| fed.resource == resource && fed.version == version;
                        let stopped = self.ongoing.iter().filter(|other| is(&other.fed));
                        for ongoing in stopped {
                            ongoing.end(&self.access);
                        }
                        self.fed.values_mut().for_each(|types| {
                            types.retain(|fed| !is(fed));
                        });
                        self.fed.retain(|_, types| !types.is_empty());
                    }
                }
            }
        }
    }

    fn tell_all(
        &mut self,
        index: &mut Index,
        registry: &Registry,
        world: &World,
        (resource, version): (Resource, String),
        out: &mut Outputs,
    ) {
        let Some(served) = registry.find(&resource.group, &version, &resource.resource) else {
            return;
        };
        let fed = Fed { resource, version, served: Arc::clone(served) };
        let ongoing = if self.may_wait(world, &fed) {
            fill::start(&self.access, world, fed.clone())
        } else {
            None
        };
        match ongoing {
            Some(ongoing) => self.ongoing.push(ongoing),
            None => {
                world.range(&served.prefix, None).for_each(|record| fed.put(index, record, out));
                fed.synced(index, out);
            }
        }
        let types = self.fed.entry(served.prefix.clone()).or_default();
        if !types.iter().any(|other| other.is_same(&fed)) {
            types.push(fed);
        }
    }

    /// Whether the origins of a type are told beside the commits: many, and nobody loses anything meanwhile, because
    /// none of them was told before or nothing is taken away. Where collections are filtered, what is seen changes
    /// with revisions only.
    fn may_wait(&self, world: &World, fed: &Fed) -> bool {
        let known = self.fed.values().flatten().any(|other| other.resource == fed.resource);
        let many = || world.range(&fed.served.prefix, None).nth(WITHIN_COMMIT).is_some();
        self.started && (self.adds || !known) && !self.access.references().filtered_lists && many()
    }

    fn change(&mut self, index: &mut Index, change: &Change, out: &mut Outputs) {
        self.adds = false;
        if let Some(kind) = kind_of(&change.key) {
            let is_new = change.before.is_none();
            self.adds = kind == Kind::Strategy && change.after.is_some() && is_new;
            match (&change.after, &change.before) {
                (Some(record), _) => self.put(index, kind, record, out),
                (None, Some(gone)) => self.drop(index, kind, gone, out),
                (None, None) => {}
            }
            return;
        }
        let types = prefixes(&change.key).find_map(|prefix| self.fed.get(prefix));
        for fed in types.into_iter().flatten() {
            let ongoing = self.ongoing.iter().filter(|other| other.fed.is_same(fed));
            ongoing.for_each(|other| other.mark(&change.key));
            match (&change.after, &change.before) {
                (Some(record), _) => fed.put(index, record, out),
                (None, Some(gone)) => fed.drop(index, gone, out),
                (None, None) => {}
            }
        }
    }

    fn publish(&self, index: &mut Index, world: &World, out: &mut Outputs, kinds: &[Kind]) {
        let standing = self.access.standing();
        if kinds.contains(&Kind::Strategy) {
            let targets = self.strategies.values().flatten();
            standing.set_pointed_at(targets.cloned().collect());
        }
        if kinds.contains(&Kind::Consumer) {
            let all = self.consumers.values();
            let all = all.map(|(subject, to)| (subject.clone(), to.iter().cloned().collect()));
            standing.set_consumed(all.collect());
        }
        standing.publish(index, world.revision(), out);
        standing.teller().tell(world.revision(), &mut out.reports);
    }
}

impl Fed {
    /// Whether both are one type at one version.
    pub(super) fn is_same(&self, other: &Fed) -> bool {
        self.resource == other.resource && self.version == other.version
    }

    fn name<'a>(&'a self, record: &'a Record) -> OriginName<'a> {
        OriginName {
            group: &self.resource.group,
            resource: &self.resource.resource,
            namespace: record.namespace(),
            name: record.name(),
        }
    }

    /// Tells an origin as the API shows it at the version that was asked for (R77).
    fn put(&self, index: &mut Index, record: &Record, out: &mut Outputs) {
        let Ok(object) = self.served.read(record) else {
            return self.drop(index, record, out);
        };
        self.put_read(index, record, &Value::Object(object), out);
    }

    /// The same, read already.
    pub(super) fn put_read(
        &self,
        index: &mut Index,
        record: &Record,
        object: &Value,
        out: &mut Outputs,
    ) {
        let origin = Origin { name: self.name(record), version: &self.version, object };
        index.apply(Event::PutOrigin(origin), out);
    }

    /// All of them are told.
    pub(super) fn synced(&self, index: &mut Index, out: &mut Outputs) {
        let (group, resource) = (self.resource.group.as_str(), self.resource.resource.as_str());
        let synced = Synced::Origins { group, resource, version: &self.version };
        index.apply(Event::Synced(synced), out);
    }

    fn drop(&self, index: &mut Index, record: &Record, out: &mut Outputs) {
        index.apply(Event::DropOrigin(self.name(record)), out);
    }
}

impl LockStep for Feed {
    fn start(&mut self, world: &World) {
        let access = Arc::clone(&self.access);
        let mut index = access.standing().index_to_change();
        let out = &mut Outputs::default();
        self.serve(&mut index, world, out);
        for (kind, prefix) in KINDS {
            for record in world.range(prefix, None) {
                self.put(&mut index, kind, record, out);
            }
            index.apply(Event::Synced(Synced::Kind(kind)), out);
        }
        self.settle(&mut index, world, out);
        // Nobody has seen anything yet that could have become more or less.
        (out.transitions, out.subjects) = Default::default();
        access.standing().start(world.revision());
        self.publish(&mut index, world, out, &KINDS.map(|(kind, _)| kind));
        self.started = true;
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        if !changes.iter().any(|change| self.concerns(&change.key)) {
            return;
        }
        let begin = Instant::now();
        let access = Arc::clone(&self.access);
        let mut index = access.standing().index_to_change();
        self.ongoing.retain(|ongoing| !ongoing.is_ended());
        let out = &mut Outputs::default();
        if changes.iter().any(|change| change.key.starts_with(DEFINITIONS)) {
            self.serve(&mut index, world, out);
        }
        for change in changes {
            self.change(&mut index, change, out);
            self.settle(&mut index, world, out);
        }
        let kinds: Vec<Kind> = changes.iter().filter_map(|change| kind_of(&change.key)).collect();
        self.publish(&mut index, world, out, &kinds);
        access.standing().tally().applied(begin.elapsed());
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
