//! The truth: objects, served kinds, and the server's rules of deletion (R39 to R57, R75, R76),
//! written again as plainly as possible. Never lags, never guesses.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Revision;
use tenure_ownership::{
    DeletionPropagation, Finalizer, Finalizers, InternedResource, KindVersion, Object,
    OwnerIdentity, OwnerView, OwnershipEngine, OwnershipIntent, WriteAction,
};

/// One row of the table of kinds.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedKind {
    /// The group and version.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The group of the resource.
    pub group: &'static str,
    /// The plural of the resource.
    pub plural: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its objects are collected.
    pub collected: bool,
    /// Whether its objects have a grace period.
    pub graceful: bool,
    /// Whether it can be taken out of service.
    pub custom: bool,
}

const fn row(
    (api_version, kind): (&'static str, &'static str),
    (group, plural): (&'static str, &'static str),
    namespaced: bool,
    graceful: bool,
    custom: bool,
) -> SimulatedKind {
    SimulatedKind {
        api_version,
        kind,
        group,
        plural,
        namespaced,
        collected: true,
        graceful,
        custom,
    }
}

/// Every kind of this world.
pub const ROWS: [SimulatedKind; 10] = [
    row(("v1", "ConfigMap"), ("", "configmaps"), true, false, false),
    row(("v1", "Pod"), ("", "pods"), true, true, false),
    row(("v1", "Node"), ("", "nodes"), false, false, false),
    row(("apps/v1", "ReplicaSet"), ("apps", "replicasets"), true, false, false),
    row(("apps/v1", "Deployment"), ("apps", "deployments"), true, false, false),
    row(("apps/v1beta1", "Deployment"), ("apps", "deployments"), true, false, true),
    row(("example.com/v1", "Foo"), ("example.com", "foos"), true, false, true),
    row(("example.com/v2", "Foo"), ("example.com", "foos"), true, false, true),
    row(("example.com/v1", "Bar"), ("example.com", "bars"), false, false, true),
    SimulatedKind {
        collected: false,
        ..row(("metrics/v1", "Gauge"), ("metrics", "gauges"), true, false, false)
    },
];

/// The row of a kind in its first version.
#[must_use]
pub fn row_of(kind: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.kind == kind)
}

/// An owner reference of the truth.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    /// The group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// `blockOwnerDeletion`.
    pub block: bool,
}

impl Ref {
    /// Whether an intent tells of this reference.
    #[must_use]
    pub fn is(&self, told: &OwnerIdentity) -> bool {
        self.api_version == *told.api_version
            && self.kind == *told.kind
            && self.name == *told.name
            && self.uid == *told.uid
    }
}

/// An object of the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedObject {
    /// The row it is stored by.
    pub row: usize,
    /// Empty for what lives in no namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The revision of the last write.
    pub revision: u64,
    /// Whether deletion has begun.
    pub terminating: bool,
    /// Whether its grace period runs.
    pub in_grace: bool,
    /// The finalizers, in order.
    pub finalizers: Vec<String>,
    /// The owner references, in order.
    pub owners: Vec<Ref>,
}

impl SimulatedObject {
    /// Whether a finalizer is there.
    #[must_use]
    pub fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    /// Whether both have one name, and so never live at the same time.
    #[must_use]
    pub fn is_in_place_of(&self, other: &SimulatedObject) -> bool {
        self.uid != other.uid
            && same_resource(self.row, other.row)
            && (&self.namespace, &self.name) == (&other.namespace, &other.name)
    }

    /// Being deleted in the foreground; `orphan` goes first.
    #[must_use]
    pub fn waiting(&self) -> bool {
        self.terminating && self.has("foregroundDeletion") && !self.has("orphan")
    }

    /// Being deleted and leaving dependents behind.
    #[must_use]
    pub fn orphaning(&self) -> bool {
        self.terminating && self.has("orphan")
    }
}

/// What happened at a revision.
#[derive(Clone, Debug)]
pub enum StoreEvent {
    /// An object as it then was.
    Put(SimulatedObject),
    /// An object that went.
    Gone(SimulatedObject),
    /// A kind was served, or no longer.
    Types(usize, bool),
}

/// The truth and its log.
#[derive(Clone, Debug)]
pub struct SimulatedStore {
    /// The objects by uid.
    pub things: BTreeMap<String, SimulatedObject>,
    /// The rows that are served.
    pub served: BTreeSet<usize>,
    /// Everything that happened, with its revision.
    pub log: Vec<(u64, StoreEvent)>,
    /// The newest revision.
    pub revision: u64,
    /// The revision of the last change of types.
    pub types_revision: u64,
    /// Everybody who ever was; a uid is never given again.
    pub last_uid: u64,
}

impl Default for SimulatedStore {
    fn default() -> SimulatedStore {
        SimulatedStore::new()
    }
}

impl SimulatedStore {
    /// A store in which every kind is served.
    #[must_use]
    pub fn new() -> SimulatedStore {
        SimulatedStore {
            things: BTreeMap::new(),
            served: (0..ROWS.len()).collect(),
            log: Vec::new(),
            revision: 1,
            types_revision: 0,
            last_uid: 0,
        }
    }

    /// The truth as it was at a revision.
    #[must_use]
    pub fn at(&self, revision: u64) -> SimulatedStore {
        let mut past = SimulatedStore::new();
        for (at, event) in self.log.iter().take_while(|(at, _)| *at <= revision) {
            past.revision = *at;
            match event {
                StoreEvent::Put(thing) => {
                    past.things.insert(thing.uid.clone(), thing.clone());
                }
                StoreEvent::Gone(thing) => {
                    past.things.remove(&thing.uid);
                }
                StoreEvent::Types(row, true) => {
                    past.served.insert(*row);
                }
                StoreEvent::Types(row, false) => {
                    past.served.remove(row);
                }
            }
        }
        past
    }

    fn note(&mut self, event: StoreEvent) {
        self.log.push((self.revision, event));
    }

    /// Writes an object, or removes it if its deletion is complete.
    pub fn write(&mut self, mut thing: SimulatedObject) {
        self.revision += 1;
        thing.revision = self.revision;
        if thing.terminating && !thing.in_grace && thing.finalizers.is_empty() {
            self.things.remove(&thing.uid);
            self.note(StoreEvent::Gone(thing));
        } else {
            self.things.insert(thing.uid.clone(), thing.clone());
            self.note(StoreEvent::Put(thing));
        }
    }

    /// The object under a name.
    #[must_use]
    pub fn named(&self, row: usize, namespace: &str, name: &str) -> Option<&SimulatedObject> {
        let same = |thing: &&SimulatedObject| {
            same_resource(thing.row, row) && thing.namespace == namespace && thing.name == name
        };
        self.things.values().find(same)
    }

    /// A client's or the collector's DELETE.
    pub fn delete(&mut self, uid: &str, policy: DeletionPropagation) {
        let Some(mut thing) = self.things.get(uid).cloned() else { return };
        let graceful = ROWS.get(thing.row).is_some_and(|row| row.graceful);
        if thing.terminating && thing.in_grace {
            return; // R55
        }
        thing.finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
        match policy {
            DeletionPropagation::Background => {}
            DeletionPropagation::Foreground => thing.finalizers.push("foregroundDeletion".into()),
            DeletionPropagation::Orphan => thing.finalizers.push("orphan".into()),
        }
        thing.in_grace = graceful && !thing.terminating;
        thing.terminating = true;
        self.write(thing);
    }

    /// Serves a kind, or no longer.
    pub fn serve(&mut self, row: usize, serve: bool) {
        let changed = if serve { self.served.insert(row) } else { self.served.remove(&row) };
        if changed {
            self.revision += 1;
            self.types_revision = self.revision;
            self.note(StoreEvent::Types(row, serve));
        }
    }

    /// Does what a write says, without looking at its guards.
    pub fn apply(&mut self, uid: &str, action: &WriteAction) {
        let Some(mut thing) = self.things.get(uid).cloned() else { return };
        match action {
            WriteAction::Delete(policy) => return self.delete(uid, *policy),
            WriteAction::DropReferences(drops) => {
                thing.owners.retain(|owner| !drops.iter().any(|told| owner.is(told)));
            }
            WriteAction::Unblock(open) => {
                for owner in &mut thing.owners {
                    owner.block &= !open.iter().any(|told| owner.is(told));
                }
            }
            WriteAction::DropFinalizer(Finalizer::Orphan) => {
                thing.finalizers.retain(|f| f != "orphan")
            }
            WriteAction::DropFinalizer(Finalizer::Foreground) => {
                thing.finalizers.retain(|f| f != "foregroundDeletion");
            }
        }
        let same = self.things.get(uid).is_some_and(|old| *old == thing);
        if !same {
            self.write(thing);
        }
    }
}

/// Whether two rows are stored in one place.
#[must_use]
pub fn same_resource(a: usize, b: usize) -> bool {
    match (ROWS.get(a), ROWS.get(b)) {
        (Some(a), Some(b)) => (a.group, a.plural) == (b.group, b.plural),
        _ => false,
    }
}

/// The engine's number for the resource of a row.
pub fn resource(engine: &mut OwnershipEngine, number: usize) -> InternedResource {
    let row = ROWS.get(number).copied().unwrap_or(ROWS[0]);
    engine.resource(row.group, row.plural)
}

/// Tells an engine that a kind is served, or no longer.
pub fn feed_type(
    engine: &mut OwnershipEngine,
    number: usize,
    serve: bool,
    revision: u64,
    out: &mut Vec<OwnershipIntent>,
) {
    let Some(row) = ROWS.get(number) else { return };
    let resource = resource(engine, number);
    let added = KindVersion {
        api_version: row.api_version,
        kind: row.kind,
        resource,
        namespaced: row.namespaced,
        collected: row.collected,
        graceful: row.graceful,
    };
    if serve {
        engine.types(&[added], &[], Revision(revision), out);
    } else {
        engine.types(&[], &[(row.api_version, row.kind)], Revision(revision), out);
    }
}

/// Shows an object as an engine sees it.
pub fn with_object<T>(
    thing: &SimulatedObject,
    resource: InternedResource,
    revision: u64,
    then: impl FnOnce(&Object<'_>) -> T,
) -> T {
    let owners: Vec<OwnerView<'_>> = thing
        .owners
        .iter()
        .map(|owner| OwnerView {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: false,
            block: owner.block,
        })
        .collect();
    then(&Object {
        resource,
        namespace: &thing.namespace,
        name: &thing.name,
        uid: &thing.uid,
        revision: Revision(revision),
        terminating: thing.terminating,
        finalizers: Finalizers::of(thing.finalizers.iter().map(String::as_str)),
        owners: &owners,
    })
}

/// Tells an engine what happened.
pub fn feed(
    engine: &mut OwnershipEngine,
    revision: u64,
    event: &StoreEvent,
    out: &mut Vec<OwnershipIntent>,
) {
    match event {
        StoreEvent::Put(thing) => {
            let resource = resource(engine, thing.row);
            with_object(thing, resource, revision, |object| engine.put(object, out));
        }
        StoreEvent::Gone(thing) => engine.gone(&thing.uid, Revision(revision), out),
        StoreEvent::Types(row, serve) => feed_type(engine, *row, *serve, revision, out),
    }
}
