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
    pub(crate) places: FieldPlaces,
}

/// Where each field of a type stands, by a number that is quickly made of its name. Every member of every object that
/// is read is looked up here, some of them several times, so that comparing names along a binary search would show.
#[derive(Debug)]
pub(crate) struct FieldPlaces {
    /// A power of two of places, at most half of them taken; zero is free, others are one more than the place.
    places: Box<[u16]>,
    mask: usize,
}

impl FieldPlaces {
    /// The places of these fields.
    pub(crate) fn of(fields: &[Field]) -> FieldPlaces {
        let mut places = vec![0; (2 * fields.len()).next_power_of_two()];
        let mask = places.len() - 1;
        for (field, place) in fields.iter().zip(1..) {
            let mut at = FieldPlaces::start(field.json);
            while places.get(at & mask).is_some_and(|taken| *taken != 0) {
                at += 1;
            }
            if let Some(free) = places.get_mut(at & mask) {
                *free = place;
            }
        }
        FieldPlaces { places: places.into(), mask }
    }

    fn find<'a>(&self, fields: &'a [Field], json: &str) -> Option<&'a Field> {
        let mut at = FieldPlaces::start(json);
        loop {
            let place = *self.places.get(at & self.mask)?;
            let field = fields.get(usize::from(place).checked_sub(1)?)?;
            if field.json == json {
                return Some(field);
            }
            at += 1;
        }
    }

    /// Where the search for a name begins: names of one type differ in their length, ends or middle.
    fn start(json: &str) -> usize {
        let bytes = json.as_bytes();
        let byte = |at: usize| bytes.get(at).map_or(0, |byte| usize::from(*byte));
        let len = bytes.len();
        len ^ byte(0).wrapping_mul(5)
            ^ byte(len / 2).wrapping_mul(11)
            ^ byte(len.wrapping_sub(1)).wrapping_mul(29)
    }
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
        self.places.find(&self.fields, json)
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
