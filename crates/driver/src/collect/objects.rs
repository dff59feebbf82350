//! Objects as the engine sees them, and where their kinds are stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};
use tenure_ownership as ownership;
use tenure_ownership::OwnershipEngine;
use tenure_server::internal_writer;
use tenure_server::registry::Registry;
use tenure_world::Record;

/// Hands a record to the engine's eyes.
pub(super) fn with_object<T>(
    record: &Record,
    resource: ownership::InternedResource,
    look: impl FnOnce(&ownership::Object<'_>) -> T,
) -> T {
    let owners: Owners<'_> = record.owners().map(seen).collect();
    look(&ownership::Object {
        resource,
        namespace: record.namespace(),
        name: record.name(),
        uid: record.uid(),
        revision: record.revision(),
        terminating: record.deleting(),
        finalizers: ownership::Finalizers::of(record.finalizers()),
        owners: &owners,
    })
}

/// Hands an object that is not stored yet to the engine's eyes.
pub(super) fn with_written<T>(
    object: &Object,
    resource: ownership::InternedResource,
    revision: Revision,
    look: impl FnOnce(&ownership::Object<'_>) -> T,
) -> T {
    let entries = object.list_at(&["metadata", "ownerReferences"]);
    let owners: Owners<'_> =
        entries.iter().map(|entry| seen(internal_writer::owner(entry))).collect();
    let finalizers = object.list_at(&["metadata", "finalizers"]);
    look(&ownership::Object {
        resource,
        namespace: object.namespace(),
        name: object.name(),
        uid: object.str_at(&["metadata", "uid"]).unwrap_or_default(),
        revision,
        terminating: object.str_at(&["metadata", "deletionTimestamp"]).is_some(),
        finalizers: ownership::Finalizers::of(finalizers.iter().filter_map(Value::as_str)),
        owners: &owners,
    })
}

fn seen(owner: tenure_world::Owner<'_>) -> ownership::OwnerView<'_> {
    ownership::OwnerView {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
        block: owner.block,
    }
}

type Owners<'a> = smallvec::SmallVec<[ownership::OwnerView<'a>; 4]>;

/// What the engine knows of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KindProperties {
    pub(super) resource: ownership::InternedResource,
    pub(super) namespaced: bool,
    pub(super) collected: bool,
    pub(super) graceful: bool,
}

/// Where resources are stored, and what is served.
#[derive(Default)]
pub(super) struct TypeTable {
    by_prefix: HashMap<String, ownership::InternedResource>,
    prefixes: HashMap<ownership::InternedResource, String>,
    pub(super) types: BTreeMap<(String, String), KindProperties>,
    kinds: Option<Arc<Registry>>,
}

impl TypeTable {
    /// Learns where everything that is served is stored; what was learned before is kept, because
    /// objects may outlive the service of their kind.
    pub(super) fn learn(&mut self, kinds: &Arc<Registry>, engine: &mut OwnershipEngine) {
        for served in kinds.kinds() {
            let kind = &served.kind;
            // Kinds that share a storage (events) are one resource.
            let resource = *self
                .by_prefix
                .entry(served.prefix.clone())
                .or_insert_with(|| engine.resource(&kind.group, &kind.plural));
            self.prefixes.entry(resource).or_insert_with(|| served.prefix.clone());
            let stored = kind.verbs != tenure_machinery::kind::Verbs::CreateOnly;
            if !stored {
                continue;
            }
            let facts = KindProperties {
                resource,
                namespaced: kind.namespaced,
                // The ignore list of R133.
                collected: kind.plural != "events",
                graceful: kind.group.is_empty() && kind.plural == "pods",
            };
            self.types.insert((served.api_version.clone(), kind.kind.to_string()), facts);
        }
        self.kinds = Some(Arc::clone(kinds));
    }

    pub(super) fn resource(&self, key: &str) -> Option<ownership::InternedResource> {
        let served = self.kinds.as_ref()?.stored_at(key)?;
        self.by_prefix.get(&served.prefix).copied()
    }

    pub(super) fn key(&self, key: &ownership::ObjectId) -> Option<String> {
        let prefix = self.prefixes.get(&key.resource)?;
        if key.namespace.is_empty() {
            return Some(format!("{prefix}{}", key.name));
        }
        Some(format!("{prefix}{}/{}", key.namespace, key.name))
    }
}
