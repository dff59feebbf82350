//! The objects of a world at one moment, as controllers see them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};
use tenure_workload::system_objects::SystemObject;
use tenure_workload::{BuiltinResource, ClusterView, CustomKind, ObjectHeader, VersionedObject};

use super::{LEASES, Place};

/// Objects at one moment.
#[derive(Clone, Default)]
pub(crate) struct Objects(pub(super) BTreeMap<Place, VersionedObject>);

impl ClusterView for Objects {
    fn get(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        name: &str,
    ) -> Option<VersionedObject> {
        self.0.get(&(resource, namespace.to_owned(), name.to_owned())).cloned()
    }
    fn list(&self, resource: BuiltinResource, namespace: Option<&str>) -> Vec<VersionedObject> {
        let from = (resource, namespace.unwrap_or_default().to_owned(), String::new());
        self.0
            .range(from..)
            .take_while(|((r, ns, _), _)| *r == resource && namespace.is_none_or(|n| n == ns))
            .map(|(_, seen)| seen.clone())
            .collect()
    }
    /// Leases stand for a custom kind.
    fn custom_kind(&self, definition: &str) -> Option<CustomKind> {
        (definition == LEASES).then_some(CustomKind { overlaps_builtin: false })
    }
    fn each_instance(&self, definition: &str, visit: &mut dyn FnMut(ObjectHeader<'_>)) {
        for lease in
            self.list(BuiltinResource::Leases, None).iter().filter(|_| definition == LEASES)
        {
            visit(ObjectHeader::of(BuiltinResource::Leases, lease, &[]));
        }
    }
    fn revision(&self) -> Revision {
        self.0.values().map(|seen| seen.revision).max().unwrap_or_default()
    }
    fn collected(&self) -> Revision {
        match self.get(BuiltinResource::ConfigMaps, "default", "collected") {
            Some(map) => Revision(map.int_at(&["revision"]).unwrap().try_into().unwrap()),
            None => Revision(u64::MAX),
        }
    }
    fn system_objects(&self) -> &[SystemObject] {
        static OBJECTS: OnceLock<Vec<SystemObject>> = OnceLock::new();
        OBJECTS.get_or_init(|| {
            let system = |resource: BuiltinResource, kept: bool, object: Value| SystemObject {
                resource,
                namespace: if resource.namespaced() { "default".into() } else { String::new() },
                object: object.as_object().unwrap().clone(),
                kept,
            };
            let metadata = json!({"name": "kubernetes"});
            let service = json!({"metadata": metadata, "spec": {"type": "ClusterIP"}});
            let endpoints = json!({"metadata": metadata, "subsets": [{"addresses": []}]});
            vec![
                system(
                    BuiltinResource::Namespaces,
                    false,
                    json!({"metadata": {"name": "default"}}),
                ),
                system(BuiltinResource::Services, false, service),
                system(BuiltinResource::Endpoints, true, endpoints),
            ]
        })
    }
    fn authority(&self) -> &str {
        "the authority"
    }
    fn owned_by(&self, uid: &str, resource: BuiltinResource) -> Vec<VersionedObject> {
        let mut all = self.list(resource, None);
        all.retain(|object| owners(object).any(|owner| owner == uid));
        all
    }
}

pub(super) fn owners(object: &Object) -> impl Iterator<Item = &str> {
    object
        .list_at(&["metadata", "ownerReferences"])
        .iter()
        .filter_map(|entry| entry.get("uid").and_then(Value::as_str))
}
