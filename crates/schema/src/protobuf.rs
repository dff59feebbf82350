//! Kubernetes protobuf → JSON, by the table: the same object that the client would have sent as JSON.
//!
//! ```text
//!   6b 38 73 00 │ Unknown { 1: TypeMeta { 1: apiVersion, 2: kind }, 2: raw, 3: encoding, 4: type }
//!                                                                      │
//!                       envelope ◄─────────────────────────────────────┤
//!                       decode   ◄── the kind's own message ───────────┘
//! ```
//!
//! Go writes every member that is not a pointer, so zero values arrive said out loud (`""`, `0`, `{}`). They
//! are kept: the decoding of JSON that follows knows which of them the API leaves out. Members with
//! unknown tags are stepped over. Nothing is validated here and nothing is written as protobuf.

mod well_known;
mod wire;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::Object;

use self::wire::{WireError, WireReader, WireValue};
use crate::facts::{ApiType, Field, TypeId, ValueType, facts};
use crate::trail::ValuePath;

/// What every body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";

/// How deep an object may be. JSON text is read to 127 levels; what is kept must remain readable
/// inside a list or a watch event.
const LEVELS: usize = 120;

/// What a body says about itself, and the kind's own message.
#[derive(Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Such as `apps/v1`; empty when the client left it out.
    pub api_version: String,
    /// Such as `Deployment`; empty when the client left it out.
    pub kind: String,
    /// The kind's own message, for [`decode`].
    pub raw: &'a [u8],
    /// How `raw` is encoded; empty for plain protobuf. Upstream does not look at it.
    pub content_encoding: String,
    /// What `raw` is; empty for protobuf. Upstream does not look at it.
    pub content_type: String,
}

/// A body that is not the protobuf it should be: the request is answered 400.
#[derive(Debug, PartialEq, Eq)]
pub struct BadProtobuf {
    /// The sentence, naming the member where there is one.
    pub message: String,
}

impl fmt::Display for BadProtobuf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for BadProtobuf {}

/// Opens a body: what it says it is, and the message inside.
pub fn envelope(body: &[u8]) -> Result<Envelope<'_>, BadProtobuf> {
    let Some(unknown) = body.strip_prefix(&MAGIC) else {
        let message = "the body does not begin as Kubernetes protobuf does".to_owned();
        return Err(BadProtobuf { message });
    };
    open(unknown).map_err(|fault| bad(&ValuePath::START, fault))
}

fn open(unknown: &[u8]) -> Result<Envelope<'_>, WireError> {
    if unknown.is_empty() {
        return Err("the body is empty");
    }
    let (mut api_version, mut kind, mut raw) = ("", "", [].as_slice());
    let (mut content_encoding, mut content_type) = ("", "");
    well_known::each(unknown, |tag, wire| {
        match tag {
            1 => well_known::each(wire.bytes()?, |tag, wire| {
                match tag {
                    1 => api_version = wire.text()?,
                    2 => kind = wire.text()?,
                    _ => {}
                }
                Ok(())
            })?,
            2 => raw = wire.bytes()?,
            3 => content_encoding = wire.text()?,
            4 => content_type = wire.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Envelope {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        raw,
        content_encoding: content_encoding.to_owned(),
        content_type: content_type.to_owned(),
    })
}

/// Reads a message of that type as the JSON object that says the same. `apiVersion` and `kind` lie in
/// the envelope and are not part of it.
pub fn decode(of: TypeId, raw: &[u8]) -> Result<Object, BadProtobuf> {
    let mut object = Object::new();
    if let Some(of) = facts().get(of) {
        members(of, raw, &mut object, &ValuePath::START)?;
    }
    Ok(object)
}

fn bad(at: &ValuePath<'_>, fault: WireError) -> BadProtobuf {
    let message = match at.depth() {
        0 => fault.to_owned(),
        _ => format!("{at}: {fault}"),
    };
    BadProtobuf { message }
}

/// Reads the members of a message into an object. A member that stands twice is merged into the first if it
/// is a message, appended if it is a list, and replaced otherwise.
fn members(
    of: &ApiType,
    raw: &[u8],
    into: &mut Object,
    at: &ValuePath<'_>,
) -> Result<(), BadProtobuf> {
    if at.depth() >= LEVELS {
        return Err(bad(at, "nested too deeply"));
    }
    let mut reader = WireReader::new(raw);
    while let Some((tag, wire)) = reader.next().map_err(|fault| bad(at, fault))? {
        if let Some(field) = of.fields.iter().find(|field| field.tag == tag) {
            member(field, wire, into, &at.member(field.json))?;
        } else if let Some((_, inner)) = of.inlines.iter().find(|(inlined, _)| *inlined == tag)
            && let Some(inner) = facts().get(*inner)
        {
            // No type lies open in itself, so this ends although the trail grows no longer.
            members(inner, wire.bytes().map_err(|fault| bad(at, fault))?, into, at)?;
        }
    }
    Ok(())
}

fn member(
    field: &Field,
    wire: WireValue<'_>,
    into: &mut Object,
    at: &ValuePath<'_>,
) -> Result<(), BadProtobuf> {
    let slot = into.entry(field.json).or_insert(Value::Null);
    match &field.shape {
        ValueType::List(shape) => {
            if let Some(items) = as_list(slot) {
                item(field, shape, wire, items, at)?;
            }
        }
        ValueType::Map(shape) => {
            if let Some(entries) = as_object(slot) {
                entry(field, shape, wire, entries, at)?;
            }
        }
        ValueType::Struct(id) => {
            let raw = wire.bytes().map_err(|fault| bad(at, fault))?;
            if let (Some(object), Some(of)) = (as_object(slot), facts().get(*id)) {
                members(of, raw, object, at)?;
            }
        }
        shape => *slot = value(field, shape, wire, at)?,
    }
    Ok(())
}

fn as_list(slot: &mut Value) -> Option<&mut Vec<Value>> {
    if slot.is_null() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut()
}

fn as_object(slot: &mut Value) -> Option<&mut Object> {
    if slot.is_null() {
        *slot = Value::Object(Object::new());
    }
    slot.as_object_mut()
}

/// One item of a list, or several numbers packed into one value.
fn item(
    field: &Field,
    shape: &ValueType,
    wire: WireValue<'_>,
    items: &mut Vec<Value>,
    at: &ValuePath<'_>,
) -> Result<(), BadProtobuf> {
    let number =
        matches!(shape, ValueType::Bool | ValueType::Int32 | ValueType::Int64 | ValueType::Double);
    if let WireValue::Bytes(packed) = wire
        && number
    {
        let mut reader = WireReader::new(packed);
        let eight_bytes = *shape == ValueType::Double;
        while let Some(wire) = reader.next_packed(eight_bytes).map_err(|fault| bad(at, fault))? {
            items.push(value(field, shape, wire, at)?);
        }
        return Ok(());
    }
    let item = value(field, shape, wire, &at.item(items.len()))?;
    items.push(item);
    Ok(())
}

/// One entry of a map: a message with the key under tag 1 and the value under tag 2.
fn entry(
    field: &Field,
    shape: &ValueType,
    wire: WireValue<'_>,
    entries: &mut Object,
    at: &ValuePath<'_>,
) -> Result<(), BadProtobuf> {
    let mut key = "";
    let mut held = match shape {
        ValueType::Bool | ValueType::Int32 | ValueType::Int64 => WireValue::Varint(0),
        ValueType::Double => WireValue::Fixed64(0),
        _ => WireValue::Bytes(&[]),
    };
    let read = wire.bytes().and_then(|message| {
        well_known::each(message, |tag, wire| {
            match tag {
                1 => key = wire.text()?,
                2 => held = wire,
                _ => {}
            }
            Ok(())
        })
    });
    read.map_err(|fault| bad(at, fault))?;
    let value = value(field, shape, held, &at.member(key))?;
    entries.insert(key.to_owned(), value);
    Ok(())
}

/// One value on its own.
fn value(
    field: &Field,
    shape: &ValueType,
    wire: WireValue<'_>,
    at: &ValuePath<'_>,
) -> Result<Value, BadProtobuf> {
    let scalar = match shape {
        ValueType::String => wire.text().map(Value::from),
        ValueType::Bytes => wire.bytes().map(|bytes| Value::String(STANDARD.encode(bytes))),
        ValueType::Bool => wire.varint().map(|number| Value::Bool(number != 0)),
        ValueType::Int32 => wire.int32().map(Value::from),
        ValueType::Int64 => wire.int64().map(Value::from),
        ValueType::Double => wire.double().and_then(well_known::double),
        ValueType::Quantity => wire.bytes().and_then(well_known::quantity),
        ValueType::IntOrString => wire.bytes().and_then(well_known::int_or_string),
        ValueType::Time => wire.bytes().and_then(well_known::time),
        ValueType::MicroTime => wire.bytes().and_then(well_known::micro_time),
        ValueType::Any | ValueType::Struct(_) | ValueType::List(_) | ValueType::Map(_) => {
            let raw = wire.bytes().map_err(|fault| bad(at, fault))?;
            return message(field, shape, raw, at);
        }
    };
    scalar.map_err(|fault| bad(at, fault))
}

/// One message on its own.
fn message(
    field: &Field,
    shape: &ValueType,
    raw: &[u8],
    at: &ValuePath<'_>,
) -> Result<Value, BadProtobuf> {
    match shape {
        ValueType::Struct(id) => {
            let mut object = Object::new();
            if let Some(of) = facts().get(*id) {
                members(of, raw, &mut object, at)?;
            }
            Ok(Value::Object(object))
        }
        // Protobuf has no lists of lists and no maps of lists: a message around the inner list, under tag 1.
        ValueType::List(shape) => {
            let mut items = Vec::new();
            let mut reader = WireReader::new(raw);
            while let Some((tag, wire)) = reader.next().map_err(|fault| bad(at, fault))? {
                if tag == 1 {
                    item(field, shape, wire, &mut items, at)?;
                }
            }
            Ok(Value::Array(items))
        }
        ValueType::Any => match field.object.and_then(|id| facts().get(id)) {
            Some(of) => either(field, of, raw, at),
            None => {
                let value = well_known::json(raw).map_err(|fault| bad(at, fault))?;
                if at.depth() + well_known::levels(&value) > LEVELS {
                    return Err(bad(at, "nested too deeply"));
                }
                Ok(value)
            }
        },
        _ => Err(bad(at, "a message that the table does not describe")),
    }
}

/// What lies beside the schema in a member that is a schema or something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaAlternative {
    /// `{1: true or false, 2: schema}`.
    Bool,
    /// `{1: schema, 2: schemas}`.
    Schemas,
    /// `{1: schema, 2: texts}`.
    Texts,
}

/// A schema or something else, in the schema of a custom resource. Which message it is follows from the
/// member's name; the table says `any` of all three.
fn either(
    field: &Field,
    of: &ApiType,
    raw: &[u8],
    at: &ValuePath<'_>,
) -> Result<Value, BadProtobuf> {
    let beside = match field.json {
        "items" => SchemaAlternative::Schemas,
        "dependencies" => SchemaAlternative::Texts,
        _ => SchemaAlternative::Bool,
    };
    let schema_tag = if beside == SchemaAlternative::Bool { 2 } else { 1 };
    let here = |fault| bad(at, fault);
    let (mut schema, mut items, mut allows) = (None, Vec::new(), false);
    let mut reader = WireReader::new(raw);
    while let Some((tag, wire)) = reader.next().map_err(here)? {
        if tag == schema_tag {
            let object = schema.get_or_insert_with(Object::new);
            members(of, wire.bytes().map_err(here)?, object, at)?;
        } else if tag > 2 {
            continue;
        } else {
            match beside {
                SchemaAlternative::Bool => allows = wire.varint().map_err(here)? != 0,
                SchemaAlternative::Texts => items.push(Value::from(wire.text().map_err(here)?)),
                SchemaAlternative::Schemas => {
                    let mut object = Object::new();
                    let raw = wire.bytes().map_err(here)?;
                    members(of, raw, &mut object, &at.item(items.len()))?;
                    items.push(Value::Object(object));
                }
            }
        }
    }
    Ok(match (items.is_empty(), schema) {
        (false, _) => Value::Array(items),
        (true, Some(schema)) => Value::Object(schema),
        (true, None) if beside == SchemaAlternative::Bool => Value::Bool(allows),
        (true, None) => Value::Null,
    })
}
