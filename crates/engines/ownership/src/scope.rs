//! Namespaces: where an owner is looked up, and references that name one from outside.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::OwnershipEngine;
use crate::graph::{Edge, NodeId};
use crate::intent::{OwnershipFinding, OwnershipIntent};
use crate::owner_query::Coordinates;

impl OwnershipEngine {
    /// Where a reference is looked up: the dependent's namespace, or none for kinds without one.
    pub(crate) fn coordinates(&self, edge: &Edge) -> Coordinates {
        let namespaced = self.kinds.resolve(edge.kind).is_some_and(|(_, stored)| stored.namespaced);
        let namespace = self.graph.node(edge.dependent).namespace;
        Coordinates {
            owner: edge.owner,
            kind: edge.kind,
            name: edge.name,
            namespace: namespaced.then_some(namespace),
        }
    }

    /// Whether a reference names a namespaced owner from outside its namespace (R18, G1).
    pub(crate) fn crosses(&self, edge: &Edge) -> bool {
        let owner = self.graph.node(edge.owner);
        let namespace = self.graph.node(edge.dependent).namespace;
        if owner.seen() && self.namespaced(edge.owner) && owner.namespace != namespace {
            return true;
        }
        let namespaced = self.kinds.resolve(edge.kind).is_some_and(|(_, stored)| stored.namespaced);
        namespaced && !self.namespaced(edge.dependent)
    }

    /// Tells of every reference of an object that crosses namespaces, once for each owner (B2).
    pub(crate) fn report_crossings(&mut self, id: NodeId, out: &mut Vec<OwnershipIntent>) {
        let mut found: Vec<Edge> = Vec::new();
        for (_, edge) in self.graph.references(id) {
            if self.crosses(edge) {
                found.push(*edge);
            }
        }
        for edge in found {
            let dependent = self.uid_text(id);
            if !self.reported.insert((dependent, self.uid_text(edge.owner))) {
                continue;
            }
            let (api_version, kind) = self.kind_text(id);
            out.push(OwnershipIntent::Report(OwnershipFinding::InvalidNamespace {
                dependent: self.key(id),
                api_version,
                kind,
                reference: self.reference(&edge),
            }));
        }
    }

    /// Forgets what was told about an object that is gone.
    pub(crate) fn forget_reports(&mut self, id: NodeId) {
        if self.reported.is_empty() {
            return;
        }
        let uid = self.uid_text(id);
        let from = (uid.clone(), Box::default());
        let of_object = self.reported.range(from..).take_while(|(dependent, _)| *dependent == uid);
        let gone: Vec<(Box<str>, Box<str>)> = of_object.cloned().collect();
        for pair in gone {
            self.reported.remove(&pair);
        }
    }

    /// The group and version, and the kind, that an object's resource is known by.
    pub(crate) fn kind_text(&self, id: NodeId) -> (Box<str>, Box<str>) {
        match self.kinds.stored(self.graph.node(id).resource) {
            Some(stored) => (stored.api_version.clone(), stored.kind.clone()),
            None => (Box::default(), Box::default()),
        }
    }
}
