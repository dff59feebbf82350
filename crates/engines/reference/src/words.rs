//! Every text and pair the index speaks of, as numbers. Looking one up never allocates.

use alloc::boxed::Box;

use foldhash::fast::FixedState;

use crate::intern::Interner;
use crate::key::same;
use crate::model::{Class, Obj, Resource, Triple};
use crate::view::{NAMED, UNPARTITIONED, UNSET};

/// What is kept of a triple: its origin, its target and its purpose.
pub(crate) type TripleKey = (u32, u32, Box<str>);

fn is(known: &str, sought: &str) -> bool {
    same(known.as_bytes(), sought.as_bytes())
}

/// The numbers of resources, namespaces, classes, triples and places.
///
/// INVARIANT: a triple holds its resources, a place its resource and its namespace.
#[derive(Clone, Debug)]
pub(crate) struct InternerSet {
    resources: Interner<Resource>,
    namespaces: Interner<Box<str>>,
    classes: Interner<Box<str>>,
    triples: Interner<TripleKey>,
    places: Interner<(u32, u32)>,
}

impl InternerSet {
    pub(crate) fn new(hasher: &FixedState) -> InternerSet {
        InternerSet {
            resources: Interner::new(hasher),
            namespaces: Interner::new(hasher),
            classes: Interner::new(hasher),
            triples: Interner::new(hasher),
            places: Interner::new(hasher),
        }
    }

    pub(crate) fn resource(&self, group: &str, resource: &str) -> Option<u32> {
        let is = |known: &Resource| is(&known.group, group) && is(&known.resource, resource);
        self.resources.find(&(group, resource), is)
    }

    pub(crate) fn resource_of(&self, id: u32) -> (&str, &str) {
        let resource = self.resources.get(id);
        resource.map_or(("", ""), |known| (known.group.as_str(), known.resource.as_str()))
    }

    pub(crate) fn hold_resource(&mut self, resource: &Resource) -> u32 {
        let key = (resource.group.as_str(), resource.resource.as_str());
        self.resources.hold(&key, |known| known == resource, || resource.clone()).0
    }

    pub(crate) fn release_resource(&mut self, id: u32) {
        self.resources.release(id);
    }

    pub(crate) fn namespace(&self, namespace: &str) -> Option<u32> {
        self.namespaces.find(&namespace, |known| is(known, namespace))
    }

    pub(crate) fn namespace_of(&self, id: u32) -> &str {
        self.namespaces.get(id).map(|text| &**text).unwrap_or_default()
    }

    pub(crate) fn hold_namespace(&mut self, namespace: &str) -> u32 {
        self.namespaces.hold(&namespace, |known| is(known, namespace), || namespace.into()).0
    }

    pub(crate) fn release_namespace(&mut self, id: u32) {
        self.namespaces.release(id);
    }

    pub(crate) fn class_of(&self, id: u32) -> Class<'_> {
        match id {
            UNPARTITIONED => Class::Unpartitioned,
            UNSET => Class::Unset,
            named => Class::Named(self.classes.get(named - NAMED).map_or("", |text| text)),
        }
    }

    pub(crate) fn hold_class(&mut self, class: Class<'_>) -> u32 {
        match class {
            Class::Unpartitioned => UNPARTITIONED,
            Class::Unset => UNSET,
            Class::Named(text) => {
                self.classes.hold(&text, |known| **known == *text, || text.into()).0 + NAMED
            }
        }
    }

    pub(crate) fn keep_class(&mut self, id: u32) {
        if id >= NAMED {
            self.classes.keep(id - NAMED);
        }
    }

    pub(crate) fn release_class(&mut self, id: u32) {
        if id >= NAMED {
            self.classes.release(id - NAMED);
        }
    }

    pub(crate) fn hold_triple(&mut self, triple: &Triple) -> u32 {
        let (origin, target) =
            (self.hold_resource(&triple.origin), self.hold_resource(&triple.target));
        let purpose = triple.purpose.as_str();
        let is = |known: &TripleKey| (known.0, known.1, &*known.2) == (origin, target, purpose);
        let make = || (origin, target, purpose.into());
        let (id, new) = self.triples.hold(&(origin, target, purpose), is, make);
        if !new {
            self.release_resource(origin);
            self.release_resource(target);
        }
        id
    }

    pub(crate) fn release_triple(&mut self, id: u32) {
        if let Some((origin, target, _)) = self.triples.release(id) {
            self.release_resource(origin);
            self.release_resource(target);
        }
    }

    pub(crate) fn triple_of(&self, id: u32) -> Option<&TripleKey> {
        self.triples.get(id)
    }

    /// The type of origins of a triple.
    pub(crate) fn origin_of(&self, triple: u32) -> Option<u32> {
        self.triples.get(triple).map(|(origin, ..)| *origin)
    }

    pub(crate) fn place(&self, resource: u32, namespace: u32) -> Option<u32> {
        self.places.find(&(resource, namespace), |known| *known == (resource, namespace))
    }

    /// The resource and the namespace of a place.
    pub(crate) fn place_of(&self, id: u32) -> Option<(u32, u32)> {
        self.places.get(id).copied()
    }

    /// Uses a place that is in use once more.
    pub(crate) fn keep_place(&mut self, id: u32) {
        self.places.keep(id);
    }

    /// The number of a place, which is used once more from now on.
    pub(crate) fn hold_place(&mut self, resource: u32, namespace: u32) -> u32 {
        let key = (resource, namespace);
        let (id, new) = self.places.hold(&key, |known| *known == key, || key);
        if new {
            self.resources.keep(resource);
            self.namespaces.keep(namespace);
        }
        id
    }

    /// Uses a place once less; whether it is gone.
    pub(crate) fn release_place(&mut self, id: u32) -> bool {
        let Some((resource, namespace)) = self.places.release(id) else { return false };
        self.release_resource(resource);
        self.release_namespace(namespace);
        true
    }

    /// An object in a place, in words.
    pub(crate) fn object<'a>(&'a self, place: u32, name: &'a str) -> Obj<'a> {
        let (resource, namespace) = self.place_of(place).unwrap_or_default();
        let (group, resource) = self.resource_of(resource);
        Obj { group, resource, namespace: self.namespace_of(namespace), name }
    }
}
