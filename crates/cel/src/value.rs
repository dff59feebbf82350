//! Values: what expressions compute with. JSON is borrowed and read one member at a time, so an
//! expression pays for what it touches and not for the object it stands on.

use core::cmp::Ordering;
use core::ops::Deref;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};
use tenure_machinery::quantity::Quantity;

use crate::error::EvalError;
use crate::library::authorizer::{AccessCheckBuilder, AccessDecision};
use crate::library::named::NamedFormat;
use crate::library::semver::SemanticVersion;
use crate::library::url::Url;
use crate::shape::{DeclaredType, ShapeKind};
use crate::time::{self, Stamp};

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed whole number.
    Int(i64),
    /// An unsigned whole number.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Octets.
    Bytes(Arc<[u8]>),
    /// A length of time in nanoseconds.
    Duration(i64),
    /// A point in time.
    Timestamp(Stamp),
    /// A list.
    List(ListValue<'a>),
    /// A map.
    Map(MapValue<'a>),
    /// An object with the members its shape names.
    Object(&'a JsonMap<String, Json>, &'a DeclaredType),
    /// What `Name{…}` made.
    Struct(Arc<StructValue<'a>>),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// A type, by name.
    Type(&'static str),
    /// `url(…)`.
    Url(Arc<Url>),
    /// `quantity(…)`.
    Quantity(Arc<Quantity>),
    /// `ip(…)`.
    Ip(IpAddr),
    /// `cidr(…)`.
    Cidr(IpAddr, u8),
    /// `semver(…)`.
    Semver(Arc<SemanticVersion>),
    /// `format.dns1123Label()` and its like.
    Format(NamedFormat),
    /// A question about rights, as far as it is said.
    Access(AccessCheckBuilder<'a>),
    /// The answer to one.
    Decision(Arc<AccessDecision>),
    /// JSON that no schema describes inside an object that one does; it can only be compared.
    Raw(&'a Json),
}

/// Text, borrowed from JSON or made while running.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// From the data.
    Borrowed(&'a str),
    /// Made by the expression.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

/// A list, borrowed from JSON or made while running.
#[derive(Clone, Debug)]
pub enum ListValue<'a> {
    /// From the data, with the shape of the list; elements take its element shape.
    Json(&'a [Json], &'a DeclaredType),
    /// Made by the expression.
    Made(Arc<Vec<Value<'a>>>),
}

/// A map, borrowed from JSON or made while running.
#[derive(Clone, Debug)]
pub enum MapValue<'a> {
    /// From the data, with the shape of its values.
    Json(&'a JsonMap<String, Json>, &'a DeclaredType),
    /// Made by the expression.
    Made(Arc<BTreeMap<MapKey<'a>, Value<'a>>>),
}

/// An object or a patch that an expression spelled out.
#[derive(Clone, Debug)]
pub struct StructValue<'a> {
    /// Such as `Object.spec`.
    pub(crate) name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Value<'a>>,
}

/// What a map is looked up by.
#[derive(Clone, Debug)]
pub enum MapKey<'a> {
    /// True or false.
    Bool(bool),
    /// A signed whole number.
    Int(i64),
    /// An unsigned whole number; equal to the signed one of the same amount.
    Uint(u64),
    /// Text.
    String(Text<'a>),
}

impl MapKey<'_> {
    fn rank(&self) -> (u8, i128, &str) {
        match self {
            MapKey::Bool(value) => (0, i128::from(*value), ""),
            MapKey::Int(value) => (1, i128::from(*value), ""),
            MapKey::Uint(value) => (1, i128::from(*value), ""),
            MapKey::String(text) => (2, 0, text),
        }
    }
}

impl PartialEq for MapKey<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for MapKey<'_> {}
impl PartialOrd for MapKey<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for MapKey<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (MapKey::Int(a), MapKey::Int(b)) => a.cmp(b),
            (MapKey::String(a), MapKey::String(b)) => (**a).cmp(&**b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

type Made<'a> = Result<Value<'a>, EvalError>;

impl<'a> Value<'a> {
    /// JSON as its shape says: whole numbers are `int`, formats become times and octets.
    ///
    /// # Errors
    ///
    /// When the data does not fit its shape.
    pub fn from_json(json: &'a Json, shape: &'a DeclaredType) -> Made<'a> {
        if json.is_null() {
            return match shape.kind {
                _ if shape.nullable => Ok(Value::Null),
                ShapeKind::Any => Ok(Value::Null),
                _ => {
                    Err(EvalError::failed("invalid data, got null for schema with nullable=false"))
                }
            };
        }
        let made = match (&shape.kind, json) {
            (ShapeKind::Any, json) => Some(Value::untyped(json, shape)),
            (ShapeKind::Bool, Json::Bool(value)) => Some(Value::Bool(*value)),
            (ShapeKind::Int, Json::Number(number)) => whole(number).map(Value::Int),
            (ShapeKind::Double, Json::Number(number)) => number.as_f64().map(Value::Double),
            (ShapeKind::IntOrString, Json::Number(number)) => whole(number).map(Value::Int),
            (ShapeKind::IntOrString | ShapeKind::String, Json::String(text)) => {
                Some(Value::borrowed(text))
            }
            (ShapeKind::List { .. }, Json::Array(items)) => {
                Some(Value::List(ListValue::Json(items, shape)))
            }
            (ShapeKind::Map { value }, Json::Object(map)) => {
                Some(Value::Map(MapValue::Json(map, value)))
            }
            (ShapeKind::Object(_), Json::Object(map)) => Some(Value::Object(map, shape)),
            (_, Json::String(text)) => return Value::formatted(text, &shape.kind),
            _ => None,
        };
        made.ok_or_else(|| EvalError::failed("invalid data, it does not fit its schema"))
    }

    fn formatted(text: &str, kind: &ShapeKind) -> Made<'a> {
        let made = match kind {
            ShapeKind::Duration => time::go_duration(text).map(Value::Duration),
            ShapeKind::Date => {
                time::date(text).map(|seconds| Value::Timestamp(Stamp::utc(seconds, 0)))
            }
            ShapeKind::DateTime => time::rfc3339(text).map(Value::Timestamp),
            ShapeKind::Bytes => decode_base64(text).map(|octets| Value::Bytes(octets.into())),
            _ => None,
        };
        made.ok_or_else(|| EvalError::failed("invalid data, it does not fit its format"))
    }

    fn untyped(json: &'a Json, shape: &'a DeclaredType) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match whole(number) {
                Some(value) if !number.is_f64() => Value::Int(value),
                _ => number.as_u64().map_or_else(
                    || Value::Double(number.as_f64().unwrap_or(f64::NAN)),
                    Value::Uint,
                ),
            },
            Json::String(text) => Value::borrowed(text),
            Json::Array(items) => Value::List(ListValue::Json(items, shape)),
            Json::Object(map) => Value::Map(MapValue::Json(map, shape)),
        }
    }

    pub(crate) fn borrowed(text: &'a str) -> Value<'a> {
        Value::String(Text::Borrowed(text))
    }

    /// Text as a value.
    #[must_use]
    pub fn text(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    /// A list as a value.
    #[must_use]
    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(ListValue::Made(Arc::new(items)))
    }

    pub(crate) fn map(map: BTreeMap<MapKey<'a>, Value<'a>>) -> Value<'a> {
        Value::Map(MapValue::Made(Arc::new(map)))
    }

    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The truth, when this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, when this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The key that this is in a map; a whole floating number counts as the integer.
    pub(crate) fn key(&self) -> Option<MapKey<'a>> {
        Some(match self {
            Value::Bool(value) => MapKey::Bool(*value),
            Value::Int(value) => MapKey::Int(*value),
            Value::Uint(value) => MapKey::Uint(*value),
            Value::String(text) => MapKey::String(text.clone()),
            Value::Double(value) => MapKey::Int(exact(*value)?),
            _ => return None,
        })
    }

    pub(crate) fn from_key(key: &MapKey<'a>) -> Value<'a> {
        match key {
            MapKey::Bool(value) => Value::Bool(*value),
            MapKey::Int(value) => Value::Int(*value),
            MapKey::Uint(value) => Value::Uint(*value),
            MapKey::String(text) => Value::String(text.clone()),
        }
    }

    /// The size that costs are counted by; text counts bytes, which is never less than characters.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Value::String(text) => text.len(),
            Value::Bytes(octets) => octets.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Object(map, _) => map.len(),
            Value::Optional(Some(inner)) => return inner.size(),
            Value::Ip(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Value::Cidr(_, bits) => usize::from(*bits).div_ceil(8),
            _ => 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// The name of the type, as `type(x)` shows it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Object(..) | Value::Struct(_) => "object",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Url(_) => "kubernetes.URL",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(..) => "net.CIDR",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Access(access) => access.type_name(),
            Value::Decision(_) => "kubernetes.authorization.Decision",
            Value::Raw(_) => "unknown",
        }
    }

    /// Member `field` of an object or map; `None` when it is absent.
    pub(crate) fn member(&self, field: &str) -> Result<Option<Value<'a>>, EvalError> {
        match self {
            Value::Object(map, shape) => {
                let ShapeKind::Object(fields) = &shape.kind else { return Ok(None) };
                let Some((name, shape)) = fields.find(field) else { return Ok(None) };
                match map.get(&**name) {
                    // A null member of an object is an absent member.
                    None | Some(Json::Null) => Ok(None),
                    Some(json) => Value::from_json(json, shape).map(Some),
                }
            }
            Value::Map(map) => map.get(&MapKey::String(Text::Shared(field.into()))),
            Value::Struct(made) => Ok(made.fields.get(field).cloned()),
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

impl<'a> ListValue<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            ListValue::Json(items, _) => items.len(),
            ListValue::Made(items) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Made<'a>> {
        match self {
            ListValue::Json(items, shape) => {
                let json = items.get(index)?;
                Some(match &shape.kind {
                    ShapeKind::List { element, .. } => Value::from_json(json, element),
                    _ => Ok(Value::untyped(json, shape)),
                })
            }
            ListValue::Made(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Made<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }
}

impl<'a> MapValue<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            MapValue::Json(map, _) => map.len(),
            MapValue::Made(map) => map.len(),
        }
    }

    pub(crate) fn get(&self, key: &MapKey<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match (self, key) {
            (MapValue::Json(map, shape), MapKey::String(name)) => {
                map.get(&**name).map(|json| Value::from_json(json, shape)).transpose()
            }
            (MapValue::Json(..), _) => Ok(None),
            (MapValue::Made(map), key) => Ok(map.get(key).cloned()),
        }
    }

    pub(crate) fn has(&self, key: &MapKey<'a>) -> bool {
        match (self, key) {
            (MapValue::Json(map, _), MapKey::String(name)) => map.contains_key(&**name),
            (MapValue::Json(..), _) => false,
            (MapValue::Made(map), key) => map.contains_key(key),
        }
    }

    pub(crate) fn keys(&self) -> Vec<MapKey<'a>> {
        match self {
            MapValue::Json(map, _) => {
                map.keys().map(|k| MapKey::String(Text::Borrowed(k))).collect()
            }
            MapValue::Made(map) => map.keys().cloned().collect(),
        }
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_i64().or_else(|| number.as_f64().filter(|_| number.is_f64()).and_then(exact))
}

/// The integer that a floating number is exactly.
pub(crate) fn exact(value: f64) -> Option<i64> {
    let fits = value.fract() == 0.0 && value >= i64::MIN as f64 && value < i64::MAX as f64;
    fits.then_some(value as i64)
}

pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    if text.contains(['\r', '\n']) {
        return STANDARD.decode(text.replace(['\r', '\n'], "")).ok();
    }
    STANDARD.decode(text).ok()
}
