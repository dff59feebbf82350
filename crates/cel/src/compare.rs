//! Equality and order. Both pay for every value they visit.

use core::cmp::Ordering;

use serde_json::Value as Json;

use crate::error::EvalError;
use crate::meter::{Meter, VISIT};
use crate::shape::{DeclaredType, ListKind, ShapeKind};
use crate::value::{ListValue, MapKey, MapValue, StructValue, Value};

type Truth = Result<bool, EvalError>;

/// What taking two values out of their containers and comparing them is worth in bytes.
const PAIR: u64 = 192;
/// The same, when both have to be found by name.
const NAMED_PAIR: u64 = 768;

/// Whether two values are equal; values of different types are not.
pub(crate) fn equal<'a>(meter: &mut Meter, a: &Value<'a>, b: &Value<'a>) -> Truth {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            meter.work_len(a.len().min(b.len()))?;
            **a == **b
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            // Octets inside lists and objects were decoded for this comparison.
            meter.work_len(a.len().saturating_add(b.len()).saturating_mul(16))?;
            a == b
        }
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.order() == b.order(),
        (Value::List(a), Value::List(b)) => return lists(meter, a, b),
        (Value::Map(a), Value::Map(b)) => return maps(meter, a, b),
        (Value::Object(a, shape), Value::Object(b, other)) => {
            return objects(meter, (a, shape), (b, other));
        }
        (Value::Struct(a), Value::Struct(b)) => return structs(meter, a, b),
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => return equal(meter, a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Url(a), Value::Url(b)) => {
            meter.work_len(a.text.len().min(b.text.len()))?;
            a.text == b.text
        }
        (Value::Quantity(a), Value::Quantity(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a, m), Value::Cidr(b, n)) => a == b && m == n,
        (Value::Semver(a), Value::Semver(b)) => a.compare(b) == Ordering::Equal,
        (Value::Format(a), Value::Format(b)) => a == b,
        (Value::Raw(a), Value::Raw(b)) => return raw(meter, a, b),
        _ => matches!(numbers(a, b), Some(Some(Ordering::Equal))),
    })
}

fn lists<'a>(meter: &mut Meter, a: &ListValue<'a>, b: &ListValue<'a>) -> Truth {
    if a.len() != b.len() {
        return Ok(false);
    }
    match (list_kind(a), list_kind(b)) {
        (ListKind::Set, _) | (_, ListKind::Set) => each_within(meter, a, b),
        (ListKind::Map(keys), _) | (_, ListKind::Map(keys)) => keyed_equal(meter, &keys, a, b),
        _ => {
            for (x, y) in a.iter().zip(b.iter()) {
                meter.work(PAIR)?;
                if !equal(meter, &x?, &y?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// What the schema says of a list; lists made by an expression are plain.
pub(crate) fn list_kind(list: &ListValue<'_>) -> ListKind {
    match list {
        ListValue::Json(_, DeclaredType { kind: ShapeKind::List { list, .. }, .. }) => list.clone(),
        _ => ListKind::Atomic,
    }
}

fn each_within<'a>(meter: &mut Meter, a: &ListValue<'a>, b: &ListValue<'a>) -> Truth {
    for item in a.iter() {
        if !contains(meter, b, &item?)? {
            return Ok(false);
        }
    }
    for item in b.iter() {
        if !contains(meter, a, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a list has an element equal to `item`.
pub(crate) fn contains<'a>(meter: &mut Meter, list: &ListValue<'a>, item: &Value<'a>) -> Truth {
    for other in list.iter() {
        meter.work(VISIT)?;
        if equal(meter, &other?, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn keyed_equal<'a>(
    meter: &mut Meter,
    keys: &[String],
    a: &ListValue<'a>,
    b: &ListValue<'a>,
) -> Truth {
    for item in a.iter() {
        let item = item?;
        let mut found = false;
        for other in b.iter() {
            let other = other?;
            if same_keys(meter, keys, &item, &other)? {
                found = equal(meter, &item, &other)?;
                break;
            }
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A member that identifies an element; some of these no rule can name.
fn identity<'a>(value: &Value<'a>, key: &str) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Object(map, shape) => part((map, shape), key),
        other => other.member(key),
    }
}

/// Whether two elements of a keyed list stand for the same thing.
pub(crate) fn same_keys<'a>(
    meter: &mut Meter,
    keys: &[String],
    a: &Value<'a>,
    b: &Value<'a>,
) -> Truth {
    meter.work(PAIR)?;
    for key in keys {
        let same = match (identity(a, key)?, identity(b, key)?) {
            (Some(a), Some(b)) => equal(meter, &a, &b)?,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps<'a>(meter: &mut Meter, a: &MapValue<'a>, b: &MapValue<'a>) -> Truth {
    if a.len() != b.len() {
        return Ok(false);
    }
    meter.work((a.len() as u64).saturating_mul(16))?;
    for key in a.keys() {
        meter.work(NAMED_PAIR)?;
        let (Some(x), Some(y)) = (a.get(&key)?, b.get(&key)?) else {
            return Ok(false);
        };
        if !equal(meter, &x, &y)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Two are equal when they are of one type and all their fields are.
fn structs<'a>(meter: &mut Meter, a: &StructValue<'a>, b: &StructValue<'a>) -> Truth {
    if a.name != b.name || a.fields.len() != b.fields.len() {
        return Ok(false);
    }
    for ((name, x), (other, y)) in a.fields.iter().zip(&b.fields) {
        meter.work(NAMED_PAIR)?;
        if name != other || !equal(meter, x, y)? {
            return Ok(false);
        }
    }
    Ok(true)
}

type Members<'a> = (&'a serde_json::Map<String, Json>, &'a DeclaredType);

fn objects<'a>(meter: &mut Meter, a: Members<'a>, b: Members<'a>) -> Truth {
    if a.0.len() != b.0.len() {
        return Ok(false);
    }
    for name in a.0.keys() {
        meter.work(NAMED_PAIR)?;
        let (Some(x), Some(y)) = (part(a, name)?, part(b, name)?) else {
            return Ok(false);
        };
        if !equal(meter, &x, &y)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A member by its JSON name; what the shape does not know is compared as it is.
fn part<'a>((map, shape): Members<'a>, name: &str) -> Result<Option<Value<'a>>, EvalError> {
    let Some(json) = map.get(name) else { return Ok(None) };
    let known = match &shape.kind {
        ShapeKind::Object(fields) => fields.named(name),
        _ => None,
    };
    match known {
        Some(_) if json.is_null() => Ok(Some(Value::Null)),
        Some(shape) => Value::from_json(json, shape).map(Some),
        None => Ok(Some(Value::Raw(json))),
    }
}

fn raw(meter: &mut Meter, a: &Json, b: &Json) -> Truth {
    meter.work(PAIR)?;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (x, y) in a.iter().zip(b) {
                if !raw(meter, x, y)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Json::Object(a), Json::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, x) in a {
                let Some(y) = b.get(name) else { return Ok(false) };
                if !raw(meter, x, y)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (a, b) => Ok(a == b),
    }
}

/// The order of two numbers of any types; the inner `None` is for what has no order.
fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Option<Ordering>> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return Some(Some(a.cmp(&b)));
    }
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => Some(a.partial_cmp(b)),
        (Value::Double(a), b) => Some(against(*a, whole(b)?)),
        (a, Value::Double(b)) => Some(against(*b, whole(a)?).map(Ordering::reverse)),
        _ => None,
    }
}

/// A floating number against a whole one, exactly.
fn against(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return double.partial_cmp(&0.0);
    }
    let floor = double.floor();
    let order = (floor as i128).cmp(&whole);
    Some(if order == Ordering::Equal && double > floor { Ordering::Greater } else { order })
}

/// The order of two values; the inner `None` is for what has no order, such as NaN.
pub(crate) fn order(
    meter: &mut Meter,
    a: &Value<'_>,
    b: &Value<'_>,
) -> Result<Option<Ordering>, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => {
            meter.work_len(a.len().min(b.len()))?;
            Some((**a).cmp(&**b))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.work_len(a.len().min(b.len()))?;
            Some(a.cmp(b))
        }
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.order().cmp(&b.order())),
        _ => return numbers(a, b).ok_or_else(EvalError::no_such_overload),
    })
}

/// A key as messages show it.
pub(crate) fn key_text(key: &MapKey<'_>) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::Int(value) => value.to_string(),
        MapKey::Uint(value) => value.to_string(),
        MapKey::String(text) => text.to_string(),
    }
}
