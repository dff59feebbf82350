//! What the walkers need to know about a type: which maps and lists have parts, and their keys.
//!
//! ```text
//!   TypeSchema   a built-in type, from the facts table
//!   Structural   a custom resource, from its OpenAPI schema
//!   Deduced      anything: maps have parts, lists are one unit
//! ```
//!
//! The walkers look at the value first and ask the schema second, so a value that does not fit its
//! schema is never an error here; that is for decoding to say.

use serde_json::Value;
use tenure_schema::{Field, ListMerge, TypeFacts, TypeId, ValueType};

/// The seam between the walkers and whatever describes a type.
pub trait MergeSchema {
    /// A place in the schema.
    type Node: Copy;

    /// The place of the whole object.
    fn root(&self) -> Self::Node;
    /// The place of a member of a map or struct.
    fn member(&self, of: Self::Node, name: &str) -> Member<Self::Node>;
    /// The place of the items of a list.
    fn item(&self, of: Self::Node) -> Self::Node;
    /// Whether a map or struct here has one owner as a whole.
    fn atomic_map(&self, node: Self::Node) -> bool;
    /// How a list here divides into parts.
    fn list(&self, node: Self::Node) -> ListRule<'_>;
    /// The value that a missing key member of a list item stands for.
    fn key_default(&self, item: Self::Node, key: &str) -> Option<Value>;
    /// Strategic merge: the merge key of a list here; `Some("")` for a list of plain values.
    fn merge_key(&self, node: Self::Node) -> Option<&str>;
    /// Strategic merge: whether a struct here is replaced as a whole.
    fn replaced_whole(&self, node: Self::Node) -> bool;
}

/// A member of a map or struct.
#[derive(Clone, Copy, Debug)]
pub struct Member<N> {
    /// Its place in the schema.
    pub node: N,
    /// Whether the schema names it, as opposed to a key of a map.
    pub named: bool,
    /// Whether it is written even when unset, so that an empty object already has it.
    pub always: bool,
}

/// How a list divides into parts.
#[derive(Clone, Copy, Debug)]
pub enum ListRule<'a> {
    /// Not at all.
    Atomic,
    /// Each value is a part.
    Set,
    /// Each item is a part, told apart by these members.
    Keys(ListMapKeys<'a>),
}

/// The members that tell the items of a list apart.
#[derive(Clone, Copy, Debug)]
pub enum ListMapKeys<'a> {
    /// As the facts table keeps them.
    Names(&'a [&'static str]),
    /// As a structural schema keeps them: a list of JSON strings.
    Json(&'a [Value]),
}

impl<'a> ListMapKeys<'a> {
    /// The names, in the order of the schema.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (names, json): (&[&str], &[Value]) = match self {
            Self::Names(names) => (names, &[]),
            Self::Json(json) => (&[], json),
        };
        names.iter().copied().chain(json.iter().filter_map(Value::as_str))
    }
}

/// A built-in type of the facts table.
#[derive(Clone, Copy, Debug)]
pub struct TypeSchema<'f> {
    facts: &'f TypeFacts,
    root: FactsNode<'f>,
}

/// A place in the facts table.
#[derive(Clone, Copy, Debug)]
pub struct FactsNode<'f> {
    shape: FactsShape<'f>,
    field: Option<&'f Field>,
    replaced: bool,
}

#[derive(Clone, Copy, Debug)]
enum FactsShape<'f> {
    Root(TypeId),
    Of(&'f ValueType),
    Unknown,
}

impl<'f> TypeSchema<'f> {
    /// The schema of one type of the table.
    #[must_use]
    pub fn new(facts: &'f TypeFacts, root: TypeId) -> Self {
        let root = FactsNode { shape: FactsShape::Root(root), field: None, replaced: false };
        Self { facts, root }
    }

    fn type_of(&self, node: FactsNode<'f>) -> Option<&'f tenure_schema::ApiType> {
        match node.shape {
            FactsShape::Root(id) | FactsShape::Of(&ValueType::Struct(id)) => self.facts.get(id),
            FactsShape::Of(_) | FactsShape::Unknown => None,
        }
    }
}

/// A place the table says nothing about.
const UNKNOWN: FactsNode<'static> =
    FactsNode { shape: FactsShape::Unknown, field: None, replaced: false };

/// The one struct that a strategic patch replaces as a whole.
const REPLACED_WHOLE: (&str, &str) = ("policy.v1.PodDisruptionBudgetSpec", "selector");

impl<'f> MergeSchema for TypeSchema<'f> {
    type Node = FactsNode<'f>;

    fn root(&self) -> Self::Node {
        self.root
    }

    fn member(&self, of: Self::Node, name: &str) -> Member<Self::Node> {
        if let Some(kind) = self.type_of(of) {
            return match kind.field(name) {
                Some(field) => Member {
                    node: FactsNode {
                        shape: FactsShape::Of(&field.shape),
                        field: Some(field),
                        replaced: name == REPLACED_WHOLE.1 && kind.name.ends_with(REPLACED_WHOLE.0),
                    },
                    named: true,
                    always: field.always,
                },
                None => Member { node: UNKNOWN, named: false, always: false },
            };
        }
        let node = match of.shape {
            FactsShape::Of(ValueType::Map(inner)) => {
                FactsNode { shape: FactsShape::Of(inner), field: None, replaced: false }
            }
            _ => UNKNOWN,
        };
        Member { node, named: false, always: false }
    }

    fn item(&self, of: Self::Node) -> Self::Node {
        match of.shape {
            FactsShape::Of(ValueType::List(inner)) => {
                FactsNode { shape: FactsShape::Of(inner), field: None, replaced: false }
            }
            _ => UNKNOWN,
        }
    }

    fn atomic_map(&self, node: Self::Node) -> bool {
        // What may hold anything has no parts of its own, such as the data of a ControllerRevision.
        matches!(node.shape, FactsShape::Of(ValueType::Any))
            || node.field.is_some_and(|field| field.atomic)
            || self.type_of(node).is_some_and(|kind| kind.atomic)
    }

    fn list(&self, node: Self::Node) -> ListRule<'_> {
        match node.field.map(|field| &field.list) {
            Some(ListMerge::Set) => ListRule::Set,
            Some(ListMerge::Map(keys)) => ListRule::Keys(ListMapKeys::Names(keys)),
            Some(ListMerge::Atomic) | None => ListRule::Atomic,
        }
    }

    fn key_default(&self, item: Self::Node, key: &str) -> Option<Value> {
        let text = self.type_of(item)?.field(key)?.default?;
        serde_json::from_str(text).ok()
    }

    fn merge_key(&self, node: Self::Node) -> Option<&str> {
        node.field?.merge_key
    }

    fn replaced_whole(&self, node: Self::Node) -> bool {
        node.replaced
    }
}

/// The OpenAPI schema of a custom resource, with `metadata` taken from the built-in type.
#[derive(Clone, Copy, Debug)]
pub struct Structural<'s> {
    root: &'s Value,
    metadata: Option<TypeSchema<'s>>,
}

/// A place in a structural schema.
#[derive(Clone, Copy, Debug)]
pub enum StructuralNode<'s> {
    /// The whole object.
    Root(&'s Value),
    /// A part of the schema.
    Of(&'s Value),
    /// Inside `metadata`.
    Metadata(FactsNode<'s>),
    /// Below anything the schema leaves open.
    Open,
}

impl<'s> Structural<'s> {
    /// The schema under `openAPIV3Schema`, and the type that describes `metadata`.
    #[must_use]
    pub fn new(root: &'s Value, metadata: Option<TypeSchema<'s>>) -> Self {
        Self { root, metadata }
    }
}

impl<'s> StructuralNode<'s> {
    fn get(self, name: &str) -> Option<&'s Value> {
        match self {
            Self::Root(of) | Self::Of(of) => of.get(name),
            Self::Metadata(_) | Self::Open => None,
        }
    }

    fn text(self, name: &str) -> Option<&'s str> {
        self.get(name).and_then(Value::as_str)
    }
}

impl<'s> MergeSchema for Structural<'s> {
    type Node = StructuralNode<'s>;

    fn root(&self) -> Self::Node {
        StructuralNode::Root(self.root)
    }

    fn member(&self, of: Self::Node, name: &str) -> Member<Self::Node> {
        if let (StructuralNode::Metadata(node), Some(metadata)) = (of, &self.metadata) {
            let member = metadata.member(node, name);
            return Member {
                node: StructuralNode::Metadata(member.node),
                named: member.named,
                // A custom resource starts from nothing, so nothing is there unasked.
                always: false,
            };
        }
        if let (StructuralNode::Root(_), "metadata", Some(metadata)) = (of, name, &self.metadata) {
            let node = StructuralNode::Metadata(metadata.root());
            return Member { node, named: true, always: false };
        }
        if let Some(named) = of.get("properties").and_then(|all| all.get(name)) {
            return Member { node: StructuralNode::Of(named), named: true, always: false };
        }
        let node = match of.get("additionalProperties") {
            Some(open @ Value::Object(_)) => StructuralNode::Of(open),
            _ => StructuralNode::Open,
        };
        Member { node, named: false, always: false }
    }

    fn item(&self, of: Self::Node) -> Self::Node {
        match (of, &self.metadata) {
            (StructuralNode::Metadata(node), Some(metadata)) => {
                StructuralNode::Metadata(metadata.item(node))
            }
            _ => of.get("items").map_or(StructuralNode::Open, StructuralNode::Of),
        }
    }

    fn atomic_map(&self, node: Self::Node) -> bool {
        match (node, &self.metadata) {
            (StructuralNode::Metadata(node), Some(metadata)) => metadata.atomic_map(node),
            _ => node.text("x-kubernetes-map-type") == Some("atomic"),
        }
    }

    fn list(&self, node: Self::Node) -> ListRule<'_> {
        if let (StructuralNode::Metadata(node), Some(metadata)) = (node, &self.metadata) {
            return metadata.list(node);
        }
        match node.text("x-kubernetes-list-type") {
            Some("set") => ListRule::Set,
            Some("map") => match node.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
                Some(keys) => ListRule::Keys(ListMapKeys::Json(keys)),
                None => ListRule::Atomic,
            },
            _ => ListRule::Atomic,
        }
    }

    fn key_default(&self, item: Self::Node, key: &str) -> Option<Value> {
        if let (StructuralNode::Metadata(node), Some(metadata)) = (item, &self.metadata) {
            return metadata.key_default(node, key);
        }
        item.get("properties")?.get(key)?.get("default").cloned()
    }

    fn merge_key(&self, node: Self::Node) -> Option<&str> {
        match node.text("x-kubernetes-patch-strategy") {
            Some("merge" | "merge,retainKeys") => {
                Some(node.text("x-kubernetes-patch-merge-key").unwrap_or_default())
            }
            _ => None,
        }
    }

    fn replaced_whole(&self, node: Self::Node) -> bool {
        node.text("x-kubernetes-patch-strategy") == Some("replace")
    }
}

/// No schema at all: maps have parts, lists are one unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deduced;

impl MergeSchema for Deduced {
    type Node = ();

    fn root(&self) -> Self::Node {}

    fn member(&self, _of: Self::Node, _name: &str) -> Member<Self::Node> {
        Member { node: (), named: false, always: false }
    }

    fn item(&self, _of: Self::Node) -> Self::Node {}

    fn atomic_map(&self, _node: Self::Node) -> bool {
        false
    }

    fn list(&self, _node: Self::Node) -> ListRule<'_> {
        ListRule::Atomic
    }

    fn key_default(&self, _item: Self::Node, _key: &str) -> Option<Value> {
        None
    }

    fn merge_key(&self, _node: Self::Node) -> Option<&str> {
        None
    }

    fn replaced_whole(&self, _node: Self::Node) -> bool {
        false
    }
}
