//! Which kinds are served, and where their objects are stored.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::graph::{NOWHERE, ResourceId};
use crate::name::{NameId, NameInterner};
use crate::object::{InternedResource, KindVersion};
use crate::slab::{DefaultingSlab, NONE};

/// A group, version and kind that is served or that a reference names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindEntry {
    pub(crate) api_version: NameId,
    pub(crate) kind: NameId,
    /// How many references name it.
    pub(crate) edges: u32,
    /// Where its objects are stored; none while it is not served.
    pub(crate) resource: ResourceId,
    pub(crate) collected: bool,
}

impl Default for KindEntry {
    fn default() -> KindEntry {
        KindEntry { api_version: NONE, kind: NONE, edges: 0, resource: NOWHERE, collected: false }
    }
}

/// A place where objects are stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredResource {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
    /// The group and version it was first served in, for people.
    pub(crate) api_version: Box<str>,
    /// The kind it was first served as, for people.
    pub(crate) kind: Box<str>,
    pub(crate) namespaced: bool,
    pub(crate) graceful: bool,
    /// In how many versions it is served.
    pub(crate) served: u32,
    /// In how many of them its objects are collected.
    pub(crate) collected: u32,
}

/// The table of types.
#[derive(Clone, Debug)]
pub(crate) struct KindTable {
    kinds: DefaultingSlab<KindEntry>,
    index: HashTable<u32>,
    resources: Vec<StoredResource>,
}

impl KindTable {
    pub(crate) fn new() -> KindTable {
        KindTable { kinds: DefaultingSlab::new(), index: HashTable::new(), resources: Vec::new() }
    }

    pub(crate) fn get(&self, id: u32) -> &KindEntry {
        self.kinds.get(id)
    }

    pub(crate) fn stored(&self, resource: ResourceId) -> Option<&StoredResource> {
        self.resources.get(usize::from(resource))
    }

    pub(crate) fn collected(&self, resource: ResourceId) -> bool {
        self.stored(resource).is_some_and(|stored| stored.collected > 0)
    }

    /// Whether a reference's kind is served, and by which resource.
    pub(crate) fn resolve(&self, kind: u32) -> Option<(ResourceId, &StoredResource)> {
        let resource = self.kinds.get(kind).resource;
        Some((resource, self.stored(resource)?))
    }

    /// The resource of a group and plural, made if it is new.
    pub(crate) fn resource(&mut self, group: &str, plural: &str) -> InternedResource {
        if let Some(resource) = self.find_resource(group, plural) {
            return resource;
        }
        self.resources.push(StoredResource {
            group: group.into(),
            plural: plural.into(),
            api_version: Box::default(),
            kind: Box::default(),
            namespaced: false,
            graceful: false,
            served: 0,
            collected: 0,
        });
        InternedResource(ResourceId::try_from(self.resources.len() - 1).unwrap_or(NOWHERE))
    }

    pub(crate) fn find_resource(&self, group: &str, plural: &str) -> Option<InternedResource> {
        let same = |stored: &StoredResource| &*stored.group == group && &*stored.plural == plural;
        let at = self.resources.iter().position(same)?;
        ResourceId::try_from(at).ok().map(InternedResource)
    }

    pub(crate) fn find(&self, names: &NameInterner, api_version: &str, kind: &str) -> Option<u32> {
        let (api_version, kind) = (names.find(api_version)?, names.find(kind)?);
        let same = |id: &u32| {
            let entry = self.kinds.get(*id);
            (entry.api_version, entry.kind) == (api_version, kind)
        };
        self.index.find(pair(api_version, kind), same).copied()
    }

    fn ensure(&mut self, names: &mut NameInterner, api_version: &str, kind: &str) -> u32 {
        if let Some(id) = self.find(names, api_version, kind) {
            return id;
        }
        let (api_version, kind) = (names.hold(api_version), names.hold(kind));
        let id = self.kinds.insert(KindEntry { api_version, kind, ..KindEntry::default() });
        let kinds = &self.kinds;
        self.index.insert_unique(pair(api_version, kind), id, |id| {
            let entry = kinds.get(*id);
            pair(entry.api_version, entry.kind)
        });
        id
    }

    /// The kind of a reference, which names it from now on.
    pub(crate) fn hold(&mut self, names: &mut NameInterner, api_version: &str, kind: &str) -> u32 {
        let id = self.ensure(names, api_version, kind);
        self.kinds.get_mut(id).edges += 1;
        id
    }

    /// Names a known kind once more.
    pub(crate) fn keep(&mut self, id: u32) {
        self.kinds.get_mut(id).edges += 1;
    }

    /// One reference less names a kind.
    pub(crate) fn release(&mut self, names: &mut NameInterner, id: u32) {
        let kind = self.kinds.get_mut(id);
        kind.edges = kind.edges.saturating_sub(1);
        self.free_if_idle(names, id);
    }

    fn free_if_idle(&mut self, names: &mut NameInterner, id: u32) {
        let kind = *self.kinds.get(id);
        if kind.edges > 0 || kind.resource != NOWHERE {
            return;
        }
        let hash = pair(kind.api_version, kind.kind);
        if let Ok(found) = self.index.find_entry(hash, |other| *other == id) {
            found.remove();
            self.kinds.remove(id);
            names.release(kind.api_version);
            names.release(kind.kind);
        }
    }

    /// Serves a kind; tells its number.
    pub(crate) fn serve(&mut self, names: &mut NameInterner, row: &KindVersion<'_>) -> u32 {
        let id = self.ensure(names, row.api_version, row.kind);
        self.stop(id);
        let Some(stored) = self.resources.get_mut(usize::from(row.resource.0)) else { return id };
        if stored.served == 0 {
            stored.api_version = row.api_version.into();
            stored.kind = row.kind.into();
        }
        stored.namespaced = row.namespaced;
        stored.graceful = row.graceful;
        stored.served += 1;
        stored.collected += u32::from(row.collected);
        let kind = self.kinds.get_mut(id);
        kind.resource = row.resource.0;
        kind.collected = row.collected;
        id
    }

    /// No longer serves a kind; tells its number.
    pub(crate) fn unserve(
        &mut self,
        names: &mut NameInterner,
        api_version: &str,
        kind: &str,
    ) -> Option<u32> {
        let id = self.find(names, api_version, kind)?;
        let resource = self.kinds.get(id).resource;
        self.stop(id);
        self.free_if_idle(names, id);
        (resource != NOWHERE).then_some(id)
    }

    fn stop(&mut self, id: u32) {
        let kind = self.kinds.get_mut(id);
        let (resource, collected) = (kind.resource, kind.collected);
        kind.resource = NOWHERE;
        if let Some(stored) = self.resources.get_mut(usize::from(resource)) {
            stored.served = stored.served.saturating_sub(1);
            stored.collected = stored.collected.saturating_sub(u32::from(collected));
        }
    }
}

/// A hash of two small numbers that are not chosen from outside.
fn pair(a: u32, b: u32) -> u64 {
    (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}
