//! Schemas as types: what a rule may say about data, and how large that data can become.
//!
//! A shape is made once for each schema. It is checked against, bound to values and asked for sizes;
//! whether data fits its schema is decided elsewhere, before any rule runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::escape::escape;
use crate::parse::RESERVED;
use crate::types::Type;

/// The largest request a server reads, from which missing limits are guessed.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The longest name of an object.
const NAME_LENGTH_MAX: u64 = 253;

/// A schema, seen by rules.
#[derive(Debug)]
pub struct DeclaredType {
    pub(crate) kind: ShapeKind,
    pub(crate) nullable: bool,
    /// The most elements, characters or members a value can have.
    elements_max: u64,
    /// The fewest bytes a value takes in JSON.
    bytes_min: u64,
}

#[derive(Debug)]
pub(crate) enum ShapeKind {
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    IntOrString,
    List {
        element: Arc<DeclaredType>,
        list: ListKind,
    },
    Map {
        value: Arc<DeclaredType>,
    },
    Object(ObjectFields),
    /// Data without a schema, typed by its JSON alone.
    Any,
}

/// What makes two lists equal, and what their sum is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// The members that identify an element.
    Map(Vec<String>),
}

/// The members of an object, by identifier and by JSON name.
#[derive(Debug, Default)]
pub(crate) struct ObjectFields {
    by_ident: BTreeMap<Arc<str>, Arc<str>>,
    by_name: BTreeMap<Arc<str>, Arc<DeclaredType>>,
}

impl ObjectFields {
    /// The JSON name and shape behind an identifier; words of the language need no escape.
    pub(crate) fn find(&self, ident: &str) -> Option<(&Arc<str>, &Arc<DeclaredType>)> {
        let name = match self.by_ident.get(ident) {
            Some(name) => name,
            None if RESERVED.contains(&ident) => self.by_ident.get(escape(ident)?.as_str())?,
            None => return None,
        };
        Some((name, self.by_name.get(name)?))
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<DeclaredType>> {
        self.by_name.get(name)
    }
}

impl DeclaredType {
    fn new(kind: ShapeKind, elements_max: u64, bytes_min: u64) -> DeclaredType {
        DeclaredType { kind, nullable: false, elements_max, bytes_min }
    }

    /// The shape of a structural schema; `None` when rules cannot see such data.
    ///
    /// The root of a resource, and an embedded one, also shows `apiVersion`, `kind` and two members
    /// of `metadata`, whatever the schema says.
    #[must_use]
    pub fn from_schema(schema: &Json, resource_root: bool) -> Option<Arc<DeclaredType>> {
        read(schema, resource_root, 0).map(Arc::new)
    }

    /// Data without a schema: every access is checked when the rule runs.
    #[must_use]
    pub fn any() -> Arc<DeclaredType> {
        Arc::new(DeclaredType::new(ShapeKind::Any, REQUEST_BYTES_MAX, 1))
    }

    /// An object with members of these shapes.
    #[must_use]
    pub fn object(members: &[(&str, &Arc<DeclaredType>)]) -> Arc<DeclaredType> {
        let mut fields = ObjectFields::default();
        for (name, shape) in members {
            insert(&mut fields, name, Arc::clone(shape));
        }
        Arc::new(DeclaredType::new(ShapeKind::Object(fields), 0, 2))
    }

    /// The type that expressions see.
    #[must_use]
    pub fn ty(self: &Arc<DeclaredType>) -> Type {
        match &self.kind {
            ShapeKind::Bool => Type::Bool,
            ShapeKind::Int => Type::Int,
            ShapeKind::Double => Type::Double,
            ShapeKind::String => Type::String,
            ShapeKind::Bytes => Type::Bytes,
            ShapeKind::Duration => Type::Duration,
            ShapeKind::Date | ShapeKind::DateTime => Type::Timestamp,
            ShapeKind::IntOrString | ShapeKind::Any => Type::Dyn,
            ShapeKind::List { element, .. } => Type::list(element.ty()),
            ShapeKind::Map { value } => Type::map(Type::String, value.ty()),
            ShapeKind::Object(_) => Type::Object(self.clone()),
        }
    }

    /// How often such data can occur in one request, at most.
    #[must_use]
    pub fn cardinality_max(&self) -> u64 {
        REQUEST_BYTES_MAX / self.bytes_min.saturating_add(1)
    }

    /// The most elements, characters or members of a value.
    #[must_use]
    pub fn elements_max(&self) -> u64 {
        self.elements_max
    }

    /// The shape one step down a path of member names, `@items`, `@values` and `@keys`.
    pub(crate) fn step(&self, name: &str) -> Option<ShapeStep<'_>> {
        match (name, &self.kind) {
            ("@items" | "@values", ShapeKind::List { element, .. }) => {
                Some(ShapeStep::Shape(element))
            }
            ("@items" | "@values", ShapeKind::Map { value }) => Some(ShapeStep::Shape(value)),
            ("@keys", ShapeKind::Map { .. }) => Some(ShapeStep::Key),
            (_, ShapeKind::Object(fields)) => fields.find(name).map(|(_, s)| ShapeStep::Shape(s)),
            _ => None,
        }
    }
}

/// Where a step of a path leads.
pub(crate) enum ShapeStep<'a> {
    Shape(&'a DeclaredType),
    /// The keys of a map, of which no length is known.
    Key,
}

/// How deep schemas are followed; the server refuses deeper ones long before.
const SCHEMA_DEPTH_MAX: u16 = 128;

fn read(schema: &Json, root: bool, depth: u16) -> Option<DeclaredType> {
    if depth > SCHEMA_DEPTH_MAX {
        return None;
    }
    let mut shape = read_kind(schema, root, depth)?;
    shape.nullable = flag(schema, "nullable");
    Some(shape)
}

fn read_kind(schema: &Json, root: bool, depth: u16) -> Option<DeclaredType> {
    if flag(schema, "x-kubernetes-int-or-string") {
        let most = text_max(schema).unwrap_or(REQUEST_BYTES_MAX - 2);
        return Some(DeclaredType::new(ShapeKind::IntOrString, most, 1));
    }
    match schema.get("type").and_then(Json::as_str)? {
        "array" => read_list(schema, depth),
        "object" => read_object(schema, root, depth),
        "string" => Some(read_string(schema)),
        "boolean" => Some(DeclaredType::new(ShapeKind::Bool, 0, 4)),
        "number" => Some(DeclaredType::new(ShapeKind::Double, 0, 1)),
        "integer" => Some(DeclaredType::new(ShapeKind::Int, 0, 1)),
        _ => None,
    }
}

fn read_list(schema: &Json, depth: u16) -> Option<DeclaredType> {
    let items = schema.get("items")?;
    let element = Arc::new(read(items, flag(items, "x-kubernetes-embedded-resource"), depth + 1)?);
    let guessed = (REQUEST_BYTES_MAX - 2) / element.bytes_min.saturating_add(1);
    let most = limit(schema, "maxItems").unwrap_or(guessed);
    let list = match schema.get("x-kubernetes-list-type").and_then(Json::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
            let keys = keys.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned);
            ListKind::Map(keys.collect())
        }
        _ => ListKind::Atomic,
    };
    Some(DeclaredType::new(ShapeKind::List { element, list }, most, 2))
}

fn read_object(schema: &Json, root: bool, depth: u16) -> Option<DeclaredType> {
    let additional = schema.get("additionalProperties").filter(|a| a.is_object());
    if let Some(values) = additional {
        let embedded = flag(values, "x-kubernetes-embedded-resource");
        let value = Arc::new(read(values, embedded, depth + 1)?);
        let guessed = (REQUEST_BYTES_MAX - 2) / value.bytes_min.saturating_add(6);
        let most = limit(schema, "maxProperties").unwrap_or(guessed);
        return Some(DeclaredType::new(ShapeKind::Map { value }, most, 2));
    }
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let mut fields = ObjectFields::default();
    let mut bytes_min = 2u64;
    for (name, property) in properties {
        let embedded = flag(property, "x-kubernetes-embedded-resource");
        let Some(shape) = read(property, embedded, depth + 1) else { continue };
        if required.contains(&name.as_str()) && property.get("default").is_none() {
            let bytes = length(name).saturating_add(shape.bytes_min).saturating_add(4);
            bytes_min = bytes_min.saturating_add(bytes);
        }
        insert(&mut fields, name, Arc::new(shape));
    }
    if root {
        add_metadata(&mut fields, properties);
    }
    Some(DeclaredType::new(ShapeKind::Object(fields), 0, bytes_min))
}

fn insert(fields: &mut ObjectFields, name: &str, shape: Arc<DeclaredType>) {
    let name: Arc<str> = name.into();
    if let Some(ident) = escape(&name) {
        fields.by_ident.insert(ident.into(), name.clone());
    }
    fields.by_name.insert(name, shape);
}

/// The members that every resource has, unless the schema already spells all of them.
fn add_metadata(fields: &mut ObjectFields, properties: &Map<String, Json>) {
    let is = |schema: Option<&Json>, wanted: &str| {
        schema.and_then(|s| s.get("type")).and_then(Json::as_str) == Some(wanted)
    };
    let metadata = properties.get("metadata");
    let inner = metadata.and_then(|m| m.get("properties"));
    let spelled = is(properties.get("kind"), "string")
        && is(properties.get("apiVersion"), "string")
        && is(metadata, "object")
        && is(inner.and_then(|p| p.get("name")), "string")
        && is(inner.and_then(|p| p.get("generateName")), "string");
    if spelled {
        return;
    }
    let text = |most: u64| Arc::new(DeclaredType::new(ShapeKind::String, most, 2));
    // The generated end of a name takes one byte at least.
    let capped = |name: &str, most: u64| {
        let written = inner.and_then(|p| p.get(name)).and_then(|s| limit(s, "maxLength"));
        text(written.map_or(most, |written| written.min(most)).saturating_mul(4))
    };
    insert(fields, "kind", text(REQUEST_BYTES_MAX - 2));
    insert(fields, "apiVersion", text(REQUEST_BYTES_MAX - 2));
    let mut known = ObjectFields::default();
    insert(&mut known, "name", capped("name", NAME_LENGTH_MAX));
    insert(&mut known, "generateName", capped("generateName", NAME_LENGTH_MAX - 1));
    insert(fields, "metadata", Arc::new(DeclaredType::new(ShapeKind::Object(known), 0, 2)));
}

fn read_string(schema: &Json) -> DeclaredType {
    match schema.get("format").and_then(Json::as_str) {
        Some("byte") => {
            let most = limit(schema, "maxLength").unwrap_or(REQUEST_BYTES_MAX - 2);
            DeclaredType::new(ShapeKind::Bytes, most, 2)
        }
        Some("duration") => DeclaredType::new(ShapeKind::Duration, 32, 3),
        Some("date") => DeclaredType::new(ShapeKind::Date, 12, 12),
        Some("date-time") => DeclaredType::new(ShapeKind::DateTime, 32, 21),
        _ => {
            let most = text_max(schema).or_else(|| enum_max(schema));
            DeclaredType::new(ShapeKind::String, most.unwrap_or(REQUEST_BYTES_MAX - 2), 2)
        }
    }
}

/// A limit on characters, each of which may take four bytes.
fn text_max(schema: &Json) -> Option<u64> {
    limit(schema, "maxLength").map(|most| most.saturating_mul(4))
}

fn enum_max(schema: &Json) -> Option<u64> {
    let values = schema.get("enum").and_then(Json::as_array).filter(|v| !v.is_empty())?;
    Some(values.iter().filter_map(Json::as_str).map(length).max().unwrap_or(0))
}

fn limit(schema: &Json, name: &str) -> Option<u64> {
    let value = schema.get(name)?;
    value.as_u64().or_else(|| value.as_i64().map(|_| 0))
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool).unwrap_or(false)
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
