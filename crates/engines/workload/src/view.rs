//! What a controller may look at: every object as it was at one revision.
//!
//! The host answers from its snapshot and its cache of parsed objects; nothing here parses, waits or
//! changes. A lookup costs what it returns, never a walk over everything.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use serde_json::Value;
use tenure_core::Revision;
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt as _};

use crate::intent::AnyObject;
use crate::resource::BuiltinResource;
use crate::scheduler::{PendingPod, PodAllocation};
use crate::simulated::{NodeLoad, Resident};
use crate::system_objects::SystemObject;
use crate::{owner, selector};

/// An object as the view holds it, and the revision that wrote it.
#[derive(Clone, Debug)]
pub struct VersionedObject {
    /// The whole object, as clients see it.
    pub object: Arc<Object>,
    /// The revision that wrote it.
    pub revision: Revision,
}

impl Deref for VersionedObject {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

/// An object of any kind, as far as the host knows it without reading it.
#[derive(Clone, Copy, Debug)]
pub struct ObjectHeader<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The resource, such as `pods`.
    pub resource: &'a str,
    /// Empty where the resource has no namespaces.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What holds it.
    pub finalizers: &'a [&'a str],
}

impl<'a> ObjectHeader<'a> {
    /// An object that was read, with its finalizers.
    #[must_use]
    pub fn of(
        resource: BuiltinResource,
        object: &'a Object,
        finalizers: &'a [&'a str],
    ) -> ObjectHeader<'a> {
        ObjectHeader {
            group: resource.group(),
            resource: resource.plural(),
            namespace: object.namespace(),
            name: object.name(),
            uid: owner::uid(object),
            deleting: owner::deleting(object),
            finalizers,
        }
    }
}

/// One owner reference, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOwner {
    /// The API version of the owner.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl ObjectOwner {
    /// The owner that an entry of `ownerReferences` names.
    #[must_use]
    pub fn of(entry: &Object) -> ObjectOwner {
        let text = |member: &str| entry.str_at(&[member]).unwrap_or_default().to_string();
        ObjectOwner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
        }
    }
}

/// Where the API serves a resource that is stored here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePlace {
    /// The path of a version that has it, such as `/apis/apps/v1`.
    pub version: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

/// What is served of a CustomResourceDefinition.
#[derive(Clone, Copy, Debug)]
pub struct CustomKind {
    /// Whether its objects would be those of a built-in kind.
    pub overlaps_builtin: bool,
}

/// A consistent read at one revision (PU2). Lists are in the order of namespace, then name.
pub trait ClusterView {
    /// One object; the namespace is empty for resources without one.
    fn get(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        name: &str,
    ) -> Option<VersionedObject>;

    /// All objects of a resource, in one namespace or everywhere.
    fn list(&self, resource: BuiltinResource, namespace: Option<&str>) -> Vec<VersionedObject>;

    /// The certificate of the cluster's authority, in PEM form.
    fn authority(&self) -> &str {
        ""
    }

    /// The names of the ClusterRoles that do not hold the rules they gather, with those rules.
    fn gathered_rules(&self) -> Vec<(String, Vec<Value>)> {
        Vec::new()
    }

    /// What every cluster has.
    fn system_objects(&self) -> &[SystemObject] {
        &[]
    }

    /// The revision of the state that is looked at.
    fn revision(&self) -> Revision {
        Revision(0)
    }

    /// The revision up to which the garbage collector has dealt with what it saw; the last there is where no
    /// collector runs.
    fn collected(&self) -> Revision {
        Revision(u64::MAX)
    }

    /// What the server makes of a CustomResourceDefinition; `None` while it serves nothing of it.
    fn custom_kind(&self, _definition: &str) -> Option<CustomKind> {
        None
    }

    /// Shows every object of the kind that a definition defines.
    fn each_instance(&self, _definition: &str, _visit: &mut dyn FnMut(ObjectHeader<'_>)) {}

    /// Shows every object of a namespace, whatever its kind, custom ones too.
    fn each_in_namespace(&self, namespace: &str, visit: &mut dyn FnMut(ObjectHeader<'_>)) {
        for resource in BuiltinResource::ALL.iter().filter(|resource| resource.namespaced()) {
            for object in self.list(*resource, Some(namespace)) {
                let finalizers = object.list_at(&["metadata", "finalizers"]).iter();
                let finalizers: Vec<&str> = finalizers.filter_map(|f| f.as_str()).collect();
                visit(ObjectHeader::of(*resource, &object, &finalizers));
            }
        }
    }

    /// Where a resource is served that is stored here, custom ones too.
    fn resource_place(&self, group: &str, plural: &str) -> Option<ResourcePlace> {
        let resource = BuiltinResource::find(group, plural)?;
        let root = if group.is_empty() { "/api" } else { "/apis" };
        let version = alloc::format!("{root}/{}", resource.api_version());
        Some(ResourcePlace { version, namespaced: resource.namespaced() })
    }

    /// Namespace and name of so many objects of a resource, in order, those after this one.
    fn stored_objects(
        &self,
        group: &str,
        plural: &str,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Vec<(String, String)> {
        let Some(resource) = BuiltinResource::find(group, plural) else { return Vec::new() };
        let all = self.list(resource, None).into_iter();
        all.map(|object| (object.namespace().to_string(), object.name().to_string()))
            .filter(|(namespace, name)| after.is_none_or(|after| (&**namespace, &**name) > after))
            .take(most)
            .collect()
    }

    /// The objects of any kind that are not going and have such owners, with these.
    fn owned_objects(
        &self,
        such: &dyn Fn(&[ObjectOwner]) -> bool,
    ) -> Vec<(AnyObject, Vec<ObjectOwner>)> {
        let mut found = Vec::new();
        for resource in BuiltinResource::ALL {
            for object in self.list(*resource, None) {
                let entries = object.list_at(&["metadata", "ownerReferences"]).iter();
                let entries = entries.filter_map(serde_json::Value::as_object);
                let owners: Vec<ObjectOwner> = entries.map(ObjectOwner::of).collect();
                if !owner::deleting(&object) && such(&owners) {
                    found.push((AnyObject::of(&ObjectHeader::of(*resource, &object, &[])), owners));
                }
            }
        }
        found
    }

    /// The objects of a resource that name a uid among their owners, whatever the entry says.
    fn owned_by(&self, uid: &str, resource: BuiltinResource) -> Vec<VersionedObject>;

    /// The objects in a namespace that match a selector and have no controller entry.
    ///
    /// A host with an index of such objects answers without a walk over the namespace.
    fn orphans(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Vec<VersionedObject> {
        let mut found = self.select(resource, namespace, selector);
        found.retain(|object| owner::controller_of(object).is_none());
        found
    }

    /// The objects in a namespace that match a selector.
    ///
    /// A host may look at labels alone before it parses.
    fn select(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Vec<VersionedObject> {
        let mut found = self.list(resource, Some(namespace));
        found.retain(|object| selector::matches(selector, object));
        found
    }

    /// The pods that are bound to no node.
    fn unbound_pods(&self) -> Vec<VersionedObject> {
        let mut found = self.list(BuiltinResource::Pods, None);
        found.retain(|pod| crate::pod::node(pod).is_empty());
        found
    }

    /// The pods that wait for the scheduler, in any order.
    ///
    /// A host that remembers them answers without reading every pod; some may wait no more.
    fn waiting(&self) -> Vec<Arc<PendingPod>> {
        let pods = self.unbound_pods();
        pods.iter().filter_map(|pod| PendingPod::of(pod)).map(Arc::new).collect()
    }

    /// What every pod that has a node takes there.
    ///
    /// A host that remembers it answers without reading every pod.
    fn taken(&self) -> Vec<Arc<PodAllocation>> {
        let pods = self.list(BuiltinResource::Pods, None);
        pods.iter().filter_map(|pod| PodAllocation::of(pod)).map(Arc::new).collect()
    }

    /// The pods bound to a node.
    fn pods_on(&self, node: &str) -> Vec<VersionedObject> {
        let mut found = self.list(BuiltinResource::Pods, None);
        found.retain(|pod| pod.str_at(&["spec", "nodeName"]) == Some(node));
        found
    }

    /// The pods bound to a node, as its agent needs them.
    ///
    /// A host that remembers how they are reads only those that move on.
    fn node_load(&self, node: &str) -> NodeLoad {
        let mut household = NodeLoad::default();
        for pod in self.pods_on(node) {
            household.add(Resident::of(&pod), || Some(pod));
        }
        household
    }
}
