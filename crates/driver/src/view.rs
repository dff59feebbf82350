//! The world as controllers see it: parsed objects at one revision.
//!
//! Parsing is remembered for objects that were looked at lately; a record that has not moved is not
//! parsed again. Nothing here decides or writes.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_core::selector::LabelSelector;
use tenure_machinery::Object;
use tenure_machinery::kind::Verbs;
use tenure_server::internal_writer::{self, InternalWriter};
use tenure_server::registry::{Registry, ServedKind};
use tenure_workload::scheduler::{PendingPod, PodAllocation};
use tenure_workload::simulated::{NodeLoad, Resident};
use tenure_workload::system_objects::SystemObject;
use tenure_workload::{
    AnyObject, BuiltinResource, ClusterView, CustomKind, ObjectHeader, ObjectOwner, ResourcePlace,
    VersionedObject,
};
use tenure_world::{Owner, Record, World};

use crate::progress::Observer;

/// How many parsed objects are remembered, in each of two halves.
const REMEMBERED: usize = 32_768;
/// How many bytes they may have as JSON, in each half: whoever writes large objects fills no memory
/// (api-server R246).
const REMEMBERED_BYTES: usize = 64 << 20;

/// Parsed objects by key; what was not asked for during a whole half is forgotten.
#[derive(Default)]
pub(crate) struct Parsed {
    young: HashMap<Arc<str>, Versions>,
    /// What `young` has as JSON.
    // INVARIANT: the sum of `bytes` of everything in `young`.
    young_bytes: usize,
    old: HashMap<Arc<str>, Versions>,
}

/// An object as it is and perhaps as it was before.
///
/// Changes come by a little later than the state is read: both versions are asked for in turns.
struct Versions {
    newest: (Revision, Arc<Object>),
    before: Option<(Revision, Arc<Object>)>,
    /// What all versions have as JSON, about.
    bytes: usize,
}

impl Versions {
    fn at(&self, revision: Revision) -> Option<Arc<Object>> {
        let versions = std::iter::once(&self.newest).chain(&self.before);
        versions.into_iter().find(|(at, _)| *at == revision).map(|(_, object)| Arc::clone(object))
    }

    fn add(&mut self, revision: Revision, object: Arc<Object>) {
        let added = (revision, object);
        if revision > self.newest.0 {
            self.before = Some(std::mem::replace(&mut self.newest, added));
        } else if self.before.as_ref().is_none_or(|(at, _)| *at < revision) {
            self.before = Some(added);
        }
    }
}

impl Parsed {
    /// The object that a record holds, without `managedFields`: who wrote what is for the server to
    /// know, and half of the object.
    pub(crate) fn read(&mut self, kinds: &Registry, record: &Record) -> Option<VersionedObject> {
        let revision = record.revision();
        if let Some(object) = self.young.get(record.key()).and_then(|known| known.at(revision)) {
            return Some(VersionedObject { object, revision });
        }
        let known = self.take_young(record.key()).or_else(|| self.old.remove(record.key()));
        let object = match known.as_ref().and_then(|known| known.at(revision)) {
            Some(object) => object,
            None => {
                let mut object = kinds.stored_as(record)?.read(record).ok()?;
                let version = revision.to_string();
                if let Some(metadata) = object.get_mut("metadata").and_then(|m| m.as_object_mut()) {
                    metadata.insert("resourceVersion".into(), version.into());
                    metadata.remove("managedFields");
                }
                Arc::new(object)
            }
        };
        let newest = (revision, Arc::clone(&object));
        let mut known = known.unwrap_or(Versions { newest, before: None, bytes: 0 });
        if known.at(revision).is_none() {
            known.add(revision, Arc::clone(&object));
        }
        known.bytes = record.bytes().len() * if known.before.is_some() { 2 } else { 1 };
        if self.young.len() >= REMEMBERED || self.young_bytes >= REMEMBERED_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += known.bytes;
        self.young.insert(Arc::clone(record.key()), known);
        Some(VersionedObject { object, revision })
    }

    fn take_young(&mut self, key: &str) -> Option<Versions> {
        let known = self.young.remove(key)?;
        self.young_bytes = self.young_bytes.saturating_sub(known.bytes);
        Some(known)
    }

    /// The change that made an object what it is has come by: nobody asks how it was before.
    pub(crate) fn caught_up(&mut self, record: &Record) {
        if let Some(known) = self.young.get_mut(record.key())
            && known.newest.0 == record.revision()
        {
            known.before = None;
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&mut self, key: &str) {
        self.take_young(key);
        self.old.remove(key);
    }
}

/// The keys of pods by the node they are bound to; under the empty name those that are not.
///
/// It follows the log, so a pod that was bound this very moment may be missing; its change comes.
#[derive(Default)]
pub(crate) struct OnNodes {
    pods: HashMap<String, BTreeSet<Arc<str>>>,
}

impl OnNodes {
    /// Notes where a pod was and is.
    pub(crate) fn see(&mut self, before: Option<&Arc<Record>>, after: Option<&Arc<Record>>) {
        if let (Some(before), Some(after)) = (before, after)
            && node_of(before) == node_of(after)
        {
            return;
        }
        if let Some(before) = before
            && let Some(keys) = self.pods.get_mut(node_of(before))
        {
            keys.remove(before.key());
            if keys.is_empty() {
                self.pods.remove(node_of(before));
            }
        }
        if let Some(after) = after {
            let keys = self.pods.entry(node_of(after).to_owned()).or_default();
            keys.insert(Arc::clone(after.key()));
        }
    }
}

fn node_of(record: &Record) -> &str {
    record.field("spec.nodeName").unwrap_or_default()
}

/// What the scheduler and the agents of nodes need to know of a pod.
#[derive(Clone)]
pub(crate) struct PodPlacement {
    /// What it takes, once it has a node.
    taken: Option<Arc<PodAllocation>>,
    /// As what it waits, while it has none.
    waiting: Option<Arc<PendingPod>>,
    resident: Resident,
}

/// Where pods stand, so that nobody need read them all in every pass.
#[derive(Default)]
pub(crate) struct Standings {
    known: HashMap<Arc<str>, (Revision, PodPlacement)>,
    /// Those that wait. It follows the log: one that was bound this very moment may still be here.
    waiting: BTreeSet<Arc<PendingPod>>,
}

impl Standings {
    /// Where a pod stands, if it was seen as it is now.
    fn at(&self, record: &Record) -> Option<PodPlacement> {
        let (revision, stored) = self.known.get(record.key())?;
        (*revision == record.revision()).then(|| stored.clone())
    }

    /// Takes in a pod as it is now.
    pub(crate) fn see(&mut self, record: &Record, pod: &Object) -> PodPlacement {
        self.forget(record.key());
        let taken = PodAllocation::of(pod).map(Arc::new);
        let waiting = PendingPod::of(pod).map(Arc::new);
        self.waiting.extend(waiting.clone());
        let fresh = PodPlacement { taken, waiting, resident: Resident::of(pod) };
        self.known.insert(Arc::clone(record.key()), (record.revision(), fresh.clone()));
        fresh
    }

    /// A pod is gone.
    pub(crate) fn forget(&mut self, key: &str) {
        if let Some((_, PodPlacement { waiting: Some(waiting), .. })) = self.known.remove(key) {
            self.waiting.remove(&waiting);
        }
    }
}

/// What is remembered of the objects of all states, so that looking at one is cheap.
pub(crate) struct Lookups {
    pub(crate) writer: InternalWriter,
    pub(crate) kinds: Arc<Registry>,
    pub(crate) places: Arc<Places>,
    pub(crate) parsed: RefCell<Parsed>,
    pub(crate) on_nodes: OnNodes,
    pub(crate) standings: RefCell<Standings>,
    pub(crate) orphans: Orphans,
    /// How far the collector is, if one runs.
    pub(crate) collector: Option<Observer>,
    /// What every cluster has.
    system_objects: Vec<SystemObject>,
}

impl Lookups {
    /// Nothing was looked at yet.
    pub(crate) fn new(writer: InternalWriter, collector: Option<Observer>) -> Lookups {
        let kinds = writer.kinds();
        let system_objects =
            writer.system_objects().into_iter().filter_map(system_object).collect();
        Lookups {
            writer,
            system_objects,
            places: Arc::new(Places::new(&kinds)),
            kinds,
            parsed: RefCell::default(),
            on_nodes: OnNodes::default(),
            standings: RefCell::default(),
            orphans: Orphans::default(),
            collector,
        }
    }

    /// One state, as controllers see it.
    pub(crate) fn view<'a>(&'a self, world: &'a World) -> Eyes<'a> {
        Eyes {
            world,
            writer: &self.writer,
            kinds: &self.kinds,
            places: &self.places,
            parsed: &self.parsed,
            on_nodes: &self.on_nodes,
            standings: &self.standings,
            orphans: &self.orphans,
            collector: self.collector.as_ref(),
            system_objects: &self.system_objects,
        }
    }

    /// What an object says.
    pub(crate) fn read(&self, record: &Record) -> Option<VersionedObject> {
        self.parsed.borrow_mut().read(&self.kinds, record)
    }

    /// Takes in a change that has come by for all.
    pub(crate) fn caught_up(&self, record: &Record, gone: bool) {
        if gone {
            self.parsed.borrow_mut().forget(record.key());
            self.standings.borrow_mut().forget(record.key());
        } else {
            self.parsed.borrow_mut().caught_up(record);
        }
    }
}

/// One of the server's own objects, if controllers know its resource.
fn system_object(own: internal_writer::BootstrapObject) -> Option<SystemObject> {
    let internal_writer::BootstrapObject { group, resource, namespace, object, kept } = own;
    let resource = BuiltinResource::find(group, resource)?;
    Some(SystemObject { resource, namespace, object, kept })
}

/// One state, read through the memory of parsed objects.
pub(crate) struct Eyes<'a> {
    world: &'a World,
    writer: &'a InternalWriter,
    kinds: &'a Registry,
    places: &'a Places,
    parsed: &'a RefCell<Parsed>,
    on_nodes: &'a OnNodes,
    standings: &'a RefCell<Standings>,
    orphans: &'a Orphans,
    collector: Option<&'a Observer>,
    system_objects: &'a [SystemObject],
}

/// Objects without a controller, by resource and namespace.
///
/// It follows the log a little later than the state that is read, so what it names is looked at again;
/// an object it does not name yet wakes its controller when it comes by.
#[derive(Default)]
pub(crate) struct Orphans {
    keys: HashMap<BuiltinResource, HashMap<Box<str>, BTreeSet<Arc<str>>>>,
}

impl Orphans {
    /// Takes in an object as it is now.
    pub(crate) fn see(&mut self, resource: BuiltinResource, record: &Record, stands: bool) {
        let namespaces = self.keys.entry(resource).or_default();
        if stands && !is_controlled(record) {
            let keys = namespaces.entry(record.namespace().into()).or_default();
            keys.insert(Arc::clone(record.key()));
        } else if let Some(keys) = namespaces.get_mut(record.namespace()) {
            keys.remove(record.key());
            if keys.is_empty() {
                namespaces.remove(record.namespace());
            }
        }
    }

    fn keys(&self, resource: BuiltinResource, namespace: &str) -> impl Iterator<Item = &Arc<str>> {
        let keys = self.keys.get(&resource).and_then(|places| places.get(namespace));
        keys.into_iter().flatten()
    }
}

fn is_controlled(record: &Record) -> bool {
    record.owners().any(|owner| owner.controller)
}

/// Where each resource is stored.
pub(crate) struct Places {
    prefixes: HashMap<BuiltinResource, String>,
}

impl Places {
    /// The places of all resources that controllers know.
    pub(crate) fn new(kinds: &Registry) -> Places {
        let prefixes = BuiltinResource::ALL.iter().filter_map(|resource| {
            let served = kinds.kinds().iter().find(|served| {
                served.kind.group == resource.group() && served.kind.plural == resource.plural()
            })?;
            Some((*resource, served.prefix.clone()))
        });
        Places { prefixes: prefixes.collect() }
    }

    /// The resource whose object is stored at a key.
    pub(crate) fn resource(&self, key: &str) -> Option<BuiltinResource> {
        self.prefixes
            .iter()
            .find(|(_, prefix)| key.starts_with(prefix.as_str()))
            .map(|(resource, _)| *resource)
    }

    fn prefix(&self, resource: BuiltinResource) -> &str {
        self.prefixes.get(&resource).map_or("", String::as_str)
    }

    /// The key of an object.
    pub(crate) fn key(&self, resource: BuiltinResource, namespace: &str, name: &str) -> String {
        let prefix = self.prefix(resource);
        if namespace.is_empty() {
            return format!("{prefix}{name}");
        }
        format!("{prefix}{namespace}/{name}")
    }
}

impl Eyes<'_> {
    fn read(&self, record: &Record) -> Option<VersionedObject> {
        self.parsed.borrow_mut().read(self.kinds, record)
    }

    fn placement(&self, record: &Record) -> Option<PodPlacement> {
        let known = self.standings.borrow().at(record);
        match known {
            Some(known) => Some(known),
            None => Some(self.standings.borrow_mut().see(record, &self.read(record)?.object)),
        }
    }

    fn records(&self, resource: BuiltinResource, namespace: Option<&str>) -> Vec<Arc<Record>> {
        let prefix = self.places.prefix(resource);
        if prefix.is_empty() {
            return Vec::new();
        }
        let prefix = match namespace {
            Some(namespace) if !namespace.is_empty() => format!("{prefix}{namespace}/"),
            _ => prefix.to_owned(),
        };
        self.world.range(&prefix, None).cloned().collect()
    }
}

fn selects(selector: &LabelSelector, record: &Record) -> bool {
    selector.matches(|name| record.label(name))
}

/// Shows every object that is stored under a prefix of a kind.
fn each_of(
    served: &ServedKind,
    world: &World,
    prefix: &str,
    visit: &mut dyn FnMut(ObjectHeader<'_>),
) {
    for record in world.range(prefix, None) {
        let finalizers: Vec<&str> = record.finalizers().collect();
        visit(ObjectHeader {
            group: &served.kind.group,
            resource: &served.kind.plural,
            namespace: record.namespace(),
            name: record.name(),
            uid: record.uid(),
            deleting: record.deleting(),
            finalizers: &finalizers,
        });
    }
}

/// A resource whose objects are stored.
fn stored_resource<'a>(
    kinds: &'a Registry,
    group: &str,
    plural: &str,
) -> Option<&'a Arc<ServedKind>> {
    kinds.kinds().iter().find(|served| {
        served.kind.group == group
            && served.kind.plural == plural
            && served.kind.verbs != Verbs::CreateOnly
    })
}

impl ClusterView for Eyes<'_> {
    fn get(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        name: &str,
    ) -> Option<VersionedObject> {
        let record = self.world.get(&self.places.key(resource, namespace, name))?;
        self.read(record)
    }

    fn list(&self, resource: BuiltinResource, namespace: Option<&str>) -> Vec<VersionedObject> {
        self.records(resource, namespace).iter().filter_map(|record| self.read(record)).collect()
    }

    fn authority(&self) -> &str {
        self.writer.authority()
    }

    fn gathered_rules(&self) -> Vec<(String, Vec<Value>)> {
        self.writer.gathered_rules()
    }

    fn system_objects(&self) -> &[SystemObject] {
        self.system_objects
    }

    fn revision(&self) -> Revision {
        self.world.revision()
    }

    fn collected(&self) -> Revision {
        let Some(collector) = self.collector else { return Revision(u64::MAX) };
        let position = collector.now().position;
        // What waits was asked for by something seen, so the end of it is not known.
        if position.load.depth == 0 { position.seen } else { Revision(0) }
    }

    fn custom_kind(&self, definition: &str) -> Option<CustomKind> {
        let kinds = self.writer.kinds();
        let served = kinds.defined_by(definition)?;
        let builtin =
            |other: &Arc<ServedKind>| other.custom.is_none() && other.prefix == served.prefix;
        Some(CustomKind { overlaps_builtin: kinds.kinds().iter().any(builtin) })
    }

    fn each_instance(&self, definition: &str, visit: &mut dyn FnMut(ObjectHeader<'_>)) {
        if let Some(served) = self.writer.kinds().defined_by(definition) {
            each_of(served, self.world, &served.prefix, visit);
        }
    }

    fn each_in_namespace(&self, namespace: &str, visit: &mut dyn FnMut(ObjectHeader<'_>)) {
        for served in self.writer.kinds().in_namespaces() {
            each_of(served, self.world, &served.collection(namespace), visit);
        }
    }

    fn resource_place(&self, group: &str, plural: &str) -> Option<ResourcePlace> {
        let kinds = self.writer.kinds();
        let served = stored_resource(&kinds, group, plural)?;
        let root = if group.is_empty() { "/api" } else { "/apis" };
        let version = format!("{root}/{}", served.api_version);
        Some(ResourcePlace { version, namespaced: served.kind.namespaced })
    }

    fn stored_objects(
        &self,
        group: &str,
        plural: &str,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Vec<(String, String)> {
        let kinds = self.writer.kinds();
        let Some(served) = stored_resource(&kinds, group, plural) else { return Vec::new() };
        let after = after.map(|(namespace, name)| served.key(namespace, name));
        let records = self.world.range(&served.prefix, after.as_deref()).take(most);
        records.map(|record| (record.namespace().to_owned(), record.name().to_owned())).collect()
    }

    fn owned_objects(
        &self,
        such: &dyn Fn(&[ObjectOwner]) -> bool,
    ) -> Vec<(AnyObject, Vec<ObjectOwner>)> {
        let kinds = self.writer.kinds();
        let owned = self
            .world
            .range("/registry/", None)
            .filter(|record| record.owners().len() > 0 && !record.deleting());
        let read = |record: &Arc<Record>| {
            let of = |owner: Owner<'_>| ObjectOwner {
                api_version: owner.api_version.to_owned(),
                kind: owner.kind.to_owned(),
                name: owner.name.to_owned(),
                uid: owner.uid.to_owned(),
            };
            let owners: Vec<ObjectOwner> = record.owners().map(of).collect();
            let served = kinds.stored_at(record.key()).filter(|_| such(&owners))?;
            let object = AnyObject {
                group: served.kind.group.to_string(),
                resource: served.kind.plural.to_string(),
                namespace: record.namespace().to_owned(),
                name: record.name().to_owned(),
                uid: record.uid().to_owned(),
            };
            Some((object, owners))
        };
        owned.filter_map(read).collect()
    }

    fn owned_by(&self, uid: &str, resource: BuiltinResource) -> Vec<VersionedObject> {
        let prefix = self.places.prefix(resource);
        self.world
            .owned_by(uid)
            .filter(|record| record.key().starts_with(prefix))
            .filter_map(|record| self.read(record))
            .collect()
    }

    fn orphans(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Vec<VersionedObject> {
        self.orphans
            .keys(resource, namespace)
            .filter_map(|key| self.world.get(key))
            .filter(|record| !is_controlled(record) && selects(selector, record))
            .filter_map(|record| self.read(record))
            .collect()
    }

    fn select(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Vec<VersionedObject> {
        self.records(resource, Some(namespace))
            .iter()
            .filter(|record| selects(selector, record))
            .filter_map(|record| self.read(record))
            .collect()
    }

    fn unbound_pods(&self) -> Vec<VersionedObject> {
        self.pods_on("")
    }

    fn waiting(&self) -> Vec<Arc<PendingPod>> {
        self.standings.borrow().waiting.iter().cloned().collect()
    }

    fn taken(&self) -> Vec<Arc<PodAllocation>> {
        let pods = self.world.range(self.places.prefix(BuiltinResource::Pods), None);
        pods.filter(|record| !node_of(record).is_empty())
            .filter_map(|record| self.placement(record)?.taken)
            .collect()
    }

    fn node_load(&self, node: &str) -> NodeLoad {
        let keys = self.on_nodes.pods.get(node).into_iter().flatten();
        let pods = keys.filter_map(|key| self.world.get(key));
        let mut household = NodeLoad::default();
        for record in pods.filter(|record| node_of(record) == node) {
            let Some(stored) = self.placement(record) else { continue };
            household.add(stored.resident, || self.read(record));
        }
        household
    }

    fn pods_on(&self, node: &str) -> Vec<VersionedObject> {
        let keys = self.on_nodes.pods.get(node).into_iter().flatten();
        keys.filter_map(|key| self.world.get(key))
            .filter(|record| node_of(record) == node)
            .filter_map(|record| self.read(record))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure_server::registry::ServedKinds;

    use super::*;

    fn record(kinds: &Registry, name: &str, bytes: usize) -> Record {
        let text = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","resourceVersion":"5"}},"data":{{"k":"{}"}}}}"#,
            "x".repeat(bytes)
        );
        let key = format!("/registry/configmaps/default/{name}");
        Record::read(key.into(), Revision(5), Bytes::from(text), kinds).unwrap()
    }

    #[test]
    fn r246_large_objects_are_not_remembered_beyond_a_bound() {
        let kinds = ServedKinds::new(None).current();
        let mut parsed = Parsed::default();
        let large = 8 << 20;
        for number in 0..40 {
            parsed.read(&kinds, &record(&kinds, &format!("m-{number}"), large)).unwrap();
            assert!(parsed.young_bytes <= REMEMBERED_BYTES + large + 1_000);
        }
        let held = parsed.young.len() + parsed.old.len();
        assert!(held <= 2 * (REMEMBERED_BYTES / large + 1), "{held} are remembered");
        // What is forgotten is not counted any more.
        for number in 0..40 {
            parsed.forget(&format!("/registry/configmaps/default/m-{number}"));
        }
        assert_eq!((parsed.young_bytes, parsed.old.len()), (0, 0));
    }
}
