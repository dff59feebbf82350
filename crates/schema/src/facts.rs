//! The table itself: types, their fields, and how lists and maps merge. It is read in `parse`.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::parse;

/// A type's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u16);

/// All built-in types.
#[derive(Debug)]
pub struct TypeFacts {
    pub(crate) types: Vec<ApiType>,
    pub(crate) by_name: HashMap<&'static str, TypeId>,
}

/// One struct of the API.
#[derive(Debug)]
pub struct ApiType {
    /// Such as `api.core.v1.PodSpec` or `apimachinery.meta.v1.ObjectMeta`: the module path of the published
    /// source without the segments `pkg` and `apis`, and the name in the API's own spelling.
    pub name: &'static str,
    /// Sorted by JSON name. Structs inlined in JSON are flattened into their parent.
    pub fields: Vec<Field>,
    /// Whether the whole value has one owner under apply (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// What the API calls it, when it is a kind of its own.
    pub kind: Option<ApiKind>,
    /// Protobuf only: the message under this tag is of that type, and its members lie open in this
    /// type's JSON. Such members appear in `fields` too, with tag 0.
    pub inlines: Vec<(u32, TypeId)>,
}

/// What the API calls a kind and where it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiKind {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The kind, such as `Pod`.
    pub kind: &'static str,
    /// The path segment, such as `pods`, or the subresource, such as `eviction`.
    pub segment: &'static str,
    /// Where its objects live.
    pub scope: Scope,
}

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In a namespace.
    Namespace,
    /// Below another object.
    Subresource,
}

/// One member of a type.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub json: &'static str,
    /// The protobuf tag; 0 when the member exists in JSON only, or lies in a message of [`ApiType::inlines`].
    pub tag: u32,
    /// What its value is.
    pub shape: ValueType,
    /// Said of `Any` in the schema of a custom resource only: an object here (or in a list or map here)
    /// is of this type; other values stay as they are.
    pub object: Option<TypeId>,
    /// How a list merges under apply; `Atomic` for everything that is not a list of another type.
    pub list: ListMerge,
    /// Whether a map or struct has one owner as a whole under apply.
    pub atomic: bool,
    /// Strategic merge: `Some("")` merges a list of primitives, `Some(key)` a list of objects.
    pub merge_key: Option<&'static str>,
    /// Strategic merge: the struct (or each item) honours `$retainKeys`.
    pub retain_keys: bool,
    /// Whether clients must send it (the schema says required).
    pub required: bool,
    /// Whether the zero value is left out when written (`""`, `0`, `false`, empty list or map).
    pub omit_zero: bool,
    /// Whether the member is written even when unset: its shape's zero (`{}`, `""`, `0`, and `null` for a
    /// list, a map, bytes, a time or anything).
    pub always: bool,
    /// Said of `always` members only: what is written when unset is `null`, whatever the shape.
    pub null: bool,
    /// The scalar default the schema declares, as JSON text.
    pub default: Option<&'static str>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Text.
    String,
    /// Base64 text.
    Bytes,
    /// true or false.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A number.
    Double,
    /// A resource quantity, text or number.
    Quantity,
    /// A number or text.
    IntOrString,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// Anything (RawExtension, JSON, FieldsV1).
    Any,
    /// Another type of the table.
    Struct(TypeId),
    /// A list.
    List(Box<ValueType>),
    /// A map with string keys. In protobuf a map of lists is a map of messages that hold the list under tag 1.
    Map(Box<ValueType>),
}

/// How a list merges under server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// One owner for the whole list.
    Atomic,
    /// One owner per value.
    Set,
    /// One owner per item, told apart by these members.
    Map(Vec<&'static str>),
}

impl TypeFacts {
    /// The type of that name.
    #[must_use]
    pub fn type_id(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }
    /// The type at that place.
    #[must_use]
    pub fn get(&self, id: TypeId) -> Option<&ApiType> {
        self.types.get(usize::from(id.0))
    }
    /// All types, in table order.
    #[must_use]
    pub fn types(&self) -> &[ApiType] {
        &self.types
    }
}

impl ApiType {
    /// The member with that JSON name.
    #[must_use]
    pub fn field(&self, json: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|f| f.json.cmp(json)).ok()?;
        self.fields.get(at)
    }
}

/// The embedded table, read once.
#[must_use]
#[expect(
    clippy::expect_used,
    reason = "the table is part of the binary, and a test reads all of it"
)]
pub fn facts() -> &'static TypeFacts {
    static FACTS: OnceLock<TypeFacts> = OnceLock::new();
    FACTS.get_or_init(|| parse::table(parse::TEXT).expect("a readable facts table"))
}
