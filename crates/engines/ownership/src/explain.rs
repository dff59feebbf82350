//! What the engine knows, for people: verdicts, who blocks whom, rings, problems, the whole graph.
//!
//! Everything here reads; nothing decides.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;

use tenure_core::Revision;

use crate::OwnershipEngine;
use crate::classify::{Dangling, OwnerState, Unresolvable};
use crate::graph::{Edge, NodeId, flag, mark};
use crate::intent::WriteId;
use crate::journal::CauseId;
use crate::object::{InternedResource, ObjectId, OwnerIdentity};

/// How an object stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectState {
    /// It was observed and is there.
    pub seen: bool,
    /// Its deletion has begun.
    pub terminating: bool,
    /// It has the finalizer `foregroundDeletion`.
    pub foreground: bool,
    /// It has the finalizer `orphan`.
    pub orphan: bool,
    /// It has finalizers of others.
    pub other_finalizers: bool,
    /// It is being deleted in the foreground.
    pub waiting: bool,
    /// It is being deleted and leaves its dependents behind.
    pub orphaning: bool,
}

/// One reference of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referenced {
    /// What it says.
    pub reference: OwnerIdentity,
    /// Whether it says that the owner waits.
    pub block: bool,
    /// Whether it says that the owner is the managing controller.
    pub controller: bool,
    /// What it is worth.
    pub verdict: OwnerState,
    /// The object that has that uid, whether or not the reference is valid for it.
    pub owner: Option<Arc<ObjectId>>,
}

/// One object that names another as its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// The dependent.
    pub key: Arc<ObjectId>,
    /// Whether its reference says that the owner waits.
    pub block: bool,
    /// Whether its reference says that the owner is the managing controller.
    pub controller: bool,
    /// What its reference is worth.
    pub verdict: OwnerState,
    /// Whether it really holds the owner's foreground deletion, should there be one.
    pub blocks: bool,
    /// How it stands.
    pub state: ObjectState,
}

/// Everything about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectExplanation {
    /// The object; for one that was never observed only its uid is known.
    pub key: Arc<ObjectId>,
    /// How it stands.
    pub state: ObjectState,
    /// The revision it was last seen at.
    pub revision: Revision,
    /// Its references, in their order.
    pub references: Vec<Referenced>,
    /// The objects that name it, oldest reference first.
    pub dependents: Vec<Dependent>,
    /// The ring of waiting objects it lies on, if there is one.
    pub ring: Vec<Arc<ObjectId>>,
    /// The write about it that is under way.
    pub pending: Option<WriteId>,
    /// Why it is being deleted; zero when it is not.
    pub cause: CauseId,
}

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnershipProblem {
    /// A reference names an owner that is not there.
    Dangling {
        /// The object with the reference.
        dependent: Arc<ObjectId>,
        /// The reference.
        reference: OwnerIdentity,
        /// Why it dangles.
        why: Dangling,
    },
    /// A reference from which nothing may be concluded.
    Unresolvable {
        /// The object with the reference.
        dependent: Arc<ObjectId>,
        /// The reference.
        reference: OwnerIdentity,
        /// Why.
        why: Unresolvable,
    },
    /// Objects that own one another.
    Ring {
        /// The members, smallest uid first.
        members: Vec<Arc<ObjectId>>,
        /// Whether they wait for one another.
        waiting: bool,
    },
    /// An object waits for dependents that block it.
    Blocked {
        /// The waiting object.
        owner: Arc<ObjectId>,
        /// The dependents that block it.
        by: Vec<Arc<ObjectId>>,
    },
    /// A deletion waits for finalizers of others.
    Held {
        /// The Terminating object.
        object: Arc<ObjectId>,
    },
}

impl OwnershipEngine {
    /// The uid of the object under a name.
    #[must_use]
    pub fn find(
        &self,
        resource: InternedResource,
        namespace: &str,
        name: &str,
    ) -> Option<Box<str>> {
        self.graph.at_key(resource.0, namespace, name).map(|id| self.uid_text(id))
    }

    /// Everything about the object with a uid, or about a uid that somebody names.
    #[must_use]
    pub fn explain(&self, uid: &str) -> Option<ObjectExplanation> {
        let id = self.graph.find(uid)?;
        let ring = if self.on_ring(id) {
            let of_object = |component: &Vec<NodeId>| component.contains(&id);
            let found = self.components(&[id]).into_iter().find(of_object);
            self.sorted_keys(found.unwrap_or_default())
        } else {
            Vec::new()
        };
        Some(ObjectExplanation {
            key: self.key(id),
            state: self.state(id),
            revision: Revision(self.graph.node(id).revision),
            references: self.graph.references(id).map(|(_, edge)| self.referenced(edge)).collect(),
            dependents: self.graph.dependents(id).map(|(_, edge)| self.dependent(edge)).collect(),
            ring,
            pending: self.pending.get(&id).map(|pending| pending.id),
            cause: self.causes.get(&id).copied().unwrap_or_default(),
        })
    }

    /// All observed objects, by resource, namespace and name.
    #[must_use]
    pub fn keys(&self) -> Vec<Arc<ObjectId>> {
        let seen = self.graph.node_ids().filter(|id| self.graph.node(*id).seen());
        let mut keys: Vec<Arc<ObjectId>> = seen.map(|id| self.key(id)).collect();
        keys.sort_unstable();
        keys
    }

    /// Everything that somebody should look at, in a stable order.
    #[must_use]
    pub fn problems(&self) -> Vec<OwnershipProblem> {
        let mut problems = Vec::new();
        for id in self.graph.node_ids().filter(|id| self.graph.node(*id).seen()) {
            self.problems_of(id, &mut problems);
        }
        problems.extend(self.ownership_rings());
        problems.sort_unstable();
        problems
    }

    fn problems_of(&self, id: NodeId, problems: &mut Vec<OwnershipProblem>) {
        for (_, edge) in self.graph.references(id) {
            let (dependent, reference) = (self.key(id), self.reference(edge));
            match self.verdict(edge) {
                OwnerState::Dangling(why) => {
                    problems.push(OwnershipProblem::Dangling { dependent, reference, why });
                }
                OwnerState::Unresolvable(why) => {
                    problems.push(OwnershipProblem::Unresolvable { dependent, reference, why });
                }
                OwnerState::Solid | OwnerState::Waiting | OwnerState::Unknown => {}
            }
        }
        let node = self.graph.node(id);
        if node.waiting() && node.blocking > 0 {
            let blocking = |(_, edge): &(_, &Edge)| edge.is(mark::COUNTED | mark::BLOCK);
            let by = self.graph.dependents(id).filter(blocking).map(|(_, edge)| edge.dependent);
            let by = self.sorted_keys(by.collect());
            problems.push(OwnershipProblem::Blocked { owner: self.key(id), by });
        }
        if node.is(flag::TERMINATING | flag::OTHER) {
            problems.push(OwnershipProblem::Held { object: self.key(id) });
        }
    }

    /// Rings of valid references, whatever state their members are in; self-references are none.
    fn ownership_rings(&self) -> Vec<OwnershipProblem> {
        let mut found = Vec::new();
        for component in self.components_of(&self.graph.node_ids().collect::<Vec<_>>(), |edge| {
            edge.is(mark::COUNTED)
        }) {
            let waiting = component.iter().all(|id| self.graph.node(*id).waiting());
            found.push(OwnershipProblem::Ring { members: self.sorted_keys(component), waiting });
        }
        found
    }

    fn sorted_keys(&self, mut ids: Vec<NodeId>) -> Vec<Arc<ObjectId>> {
        ids.sort_by_cached_key(|id| self.uid_text(*id));
        ids.dedup();
        ids.into_iter().map(|id| self.key(id)).collect()
    }

    fn state(&self, id: NodeId) -> ObjectState {
        let node = self.graph.node(id);
        ObjectState {
            seen: node.seen(),
            terminating: node.is(flag::TERMINATING),
            foreground: node.is(flag::FOREGROUND),
            orphan: node.is(flag::ORPHAN),
            other_finalizers: node.is(flag::OTHER),
            waiting: node.waiting(),
            orphaning: node.orphaning(),
        }
    }

    fn referenced(&self, edge: &Edge) -> Referenced {
        let seen = self.graph.node(edge.owner).seen();
        Referenced {
            reference: self.reference(edge),
            block: edge.is(mark::BLOCK),
            controller: edge.is(mark::CONTROLLER),
            verdict: self.verdict(edge),
            owner: seen.then(|| self.key(edge.owner)),
        }
    }

    fn dependent(&self, edge: &Edge) -> Dependent {
        Dependent {
            key: self.key(edge.dependent),
            block: edge.is(mark::BLOCK),
            controller: edge.is(mark::CONTROLLER),
            verdict: self.verdict(edge),
            blocks: edge.is(mark::COUNTED | mark::BLOCK),
            state: self.state(edge.dependent),
        }
    }

    /// The graph in the language of Graphviz (R171): all of it, or what is connected to some uids.
    #[must_use]
    pub fn dot(&self, uids: &[&str]) -> String {
        let mut nodes: BTreeMap<Box<str>, NodeId> = BTreeMap::new();
        if uids.is_empty() {
            for id in self.graph.node_ids() {
                let node = self.graph.node(id);
                if node.seen() || node.first_dependent != crate::slab::NONE {
                    nodes.insert(self.uid_text(id), id);
                }
            }
        } else {
            for id in self.connected(uids) {
                nodes.insert(self.uid_text(id), id);
            }
        }
        let mut text = String::from("strict digraph full {\n  // Node definitions.\n");
        for (number, (uid, id)) in nodes.iter().enumerate() {
            self.dot_node(&mut text, number, uid, *id);
        }
        text.push_str("\n  // Edge definitions.\n");
        let numbers: BTreeMap<NodeId, usize> =
            nodes.values().enumerate().map(|(number, id)| (*id, number)).collect();
        for id in nodes.values() {
            for (_, edge) in self.graph.references(*id) {
                if let (Some(from), Some(to)) = (numbers.get(id), numbers.get(&edge.owner)) {
                    let _ = writeln!(text, "  {from} -> {to};");
                }
            }
        }
        text.push_str("}\n");
        text
    }

    fn dot_node(&self, text: &mut String, number: usize, uid: &str, id: NodeId) {
        let node = self.graph.node(id);
        let names = &self.graph.names;
        let (_, kind) = self.kind_text(id);
        let kind = match &*kind {
            // An owner that was never observed has the kind that its dependents call it by.
            "" => self
                .graph
                .dependents(id)
                .next()
                .map_or("", |(_, edge)| names.text(self.kinds.get(edge.kind).kind)),
            kind => kind,
        };
        let (namespace, name) = (names.text(node.namespace), names.text(node.name));
        let _ = write!(
            text,
            "  {number} [\n    label=\"\\\"uid={}\\nnamespace={}\\nname={}\\n{}\\\"\"",
            EscapedText(uid),
            EscapedText(namespace),
            EscapedText(name),
            EscapedText(kind)
        );
        for (member, value) in
            [("uid", uid), ("namespace", namespace), ("name", name), ("kind", kind)]
        {
            let _ = write!(text, "\n    {member}=\"{}\"", EscapedText(value));
        }
        let flags = [
            ("missing", node.is(flag::GONE)),
            ("deleting", node.is(flag::TERMINATING)),
            ("deletingDependents", node.waiting()),
            ("virtual", !node.seen()),
        ];
        for (member, is) in flags {
            let _ = write!(text, "\n    {member}=\"{is}\"");
        }
        text.push_str("\n  ];\n");
    }

    /// What is connected to some uids through owners and dependents.
    fn connected(&self, uids: &[&str]) -> BTreeSet<NodeId> {
        let mut left: Vec<NodeId> = uids.iter().filter_map(|uid| self.graph.find(uid)).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = left.pop() {
            if found.insert(id) {
                left.extend(self.graph.references(id).map(|(_, edge)| edge.owner));
                left.extend(self.graph.dependents(id).map(|(_, edge)| edge.dependent));
            }
        }
        found
    }
}

/// A text inside quotes.
struct EscapedText<'a>(&'a str);

impl core::fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for letter in self.0.chars() {
            if matches!(letter, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(letter)?;
        }
        Ok(())
    }
}
