//! What a controller may look at: every object as it was at one revision.
//!
//! The host answers from its snapshot and its cache of parsed objects; nothing here parses, waits or
//! changes. A lookup costs what it returns, never a walk over everything.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use tenure_core::Revision;
use tenure_core::selector::LabelSelector;
use tenure_machinery::Object;

use crate::resource::Resource;
use crate::scheduler::{Taken, Waiting};
use crate::simulated::{Household, Resident};
use crate::{owner, selector};

/// An object as the view holds it, and the revision that wrote it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The whole object, as clients see it.
    pub object: Arc<Object>,
    /// The revision that wrote it.
    pub revision: Revision,
}

impl Deref for Seen {
    type Target = Object;
    fn deref(&self) -> &Object {
        &self.object
    }
}

/// A consistent read at one revision (PU2). Lists are in the order of namespace, then name.
pub trait View {
    /// One object; the namespace is empty for resources without one.
    fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Seen>;

    /// All objects of a resource, in one namespace or everywhere.
    fn list(&self, resource: Resource, namespace: Option<&str>) -> Vec<Seen>;

    /// The objects of a resource that name a uid among their owners, whatever the entry says.
    fn owned_by(&self, uid: &str, resource: Resource) -> Vec<Seen>;

    /// The objects in a namespace that match a selector and have no controller entry.
    ///
    /// A host with an index of such objects answers without a walk over the namespace.
    fn orphans(&self, resource: Resource, namespace: &str, selector: &LabelSelector) -> Vec<Seen> {
        let mut found = self.select(resource, namespace, selector);
        found.retain(|object| owner::controller_of(object).is_none());
        found
    }

    /// The objects in a namespace that match a selector.
    ///
    /// A host may look at labels alone before it parses.
    fn select(&self, resource: Resource, namespace: &str, selector: &LabelSelector) -> Vec<Seen> {
        let mut found = self.list(resource, Some(namespace));
        found.retain(|object| selector::matches(selector, object));
        found
    }

    /// The pods that are bound to no node.
    fn unbound_pods(&self) -> Vec<Seen> {
        let mut found = self.list(Resource::Pods, None);
        found.retain(|pod| crate::pod::node(pod).is_empty());
        found
    }

    /// The pods that wait for the scheduler, in any order.
    ///
    /// A host that remembers them answers without reading every pod; some may wait no more.
    fn waiting(&self) -> Vec<Arc<Waiting>> {
        let pods = self.unbound_pods();
        pods.iter().filter_map(|pod| Waiting::of(pod)).map(Arc::new).collect()
    }

    /// What every pod that has a node takes there.
    ///
    /// A host that remembers it answers without reading every pod.
    fn taken(&self) -> Vec<Arc<Taken>> {
        let pods = self.list(Resource::Pods, None);
        pods.iter().filter_map(|pod| Taken::of(pod)).map(Arc::new).collect()
    }

    /// The pods bound to a node.
    fn pods_on(&self, node: &str) -> Vec<Seen> {
        use tenure_machinery::ObjectExt as _;
        let mut found = self.list(Resource::Pods, None);
        found.retain(|pod| pod.str_at(&["spec", "nodeName"]) == Some(node));
        found
    }

    /// The pods bound to a node, as its agent needs them.
    ///
    /// A host that remembers how they are reads only those that move on.
    fn household(&self, node: &str) -> Household {
        let mut household = Household::default();
        for pod in self.pods_on(node) {
            household.add(Resident::of(&pod), || Some(pod));
        }
        household
    }
}
