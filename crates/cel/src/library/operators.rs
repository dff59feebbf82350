//! Arithmetic, comparison, indexing and sizes.

use core::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use crate::compare::{contains, equal, key_text, list_kind, order, same_keys};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::shape::ListKind;
use crate::time::{NANOS, Stamp, in_range};
use crate::value::{ListValue, MapKey, MapValue, Value, exact};

type Made<'a> = Result<Value<'a>, EvalError>;

fn overflow(what: &str) -> EvalError {
    EvalError::failed(format!("{what} overflow"))
}

fn whole(value: Option<i64>) -> Made<'static> {
    value.map(Value::Int).ok_or_else(|| overflow("integer"))
}

fn unsigned(value: Option<u64>) -> Made<'static> {
    value.map(Value::Uint).ok_or_else(|| overflow("unsigned integer"))
}

fn stamp(seconds: i64, nanos: i64, like: Stamp) -> Made<'static> {
    let seconds = seconds.checked_add(nanos.div_euclid(NANOS)).filter(|s| in_range(*s));
    let nanos = u32::try_from(nanos.rem_euclid(NANOS)).unwrap_or_default();
    let offset_minutes = like.offset_minutes;
    seconds
        .map(|seconds| Value::Timestamp(Stamp { seconds, nanos, offset_minutes }))
        .ok_or_else(|| overflow("timestamp"))
}

/// A timestamp moved by nanoseconds.
fn shift(like: Stamp, by: i64) -> Made<'static> {
    let seconds =
        like.seconds.checked_add(by.div_euclid(NANOS)).ok_or_else(|| overflow("timestamp"))?;
    stamp(seconds, by.rem_euclid(NANOS) + i64::from(like.nanos), like)
}

pub(crate) fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(value)] => whole(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => whole(a.checked_add(*b)),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_add(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::text(text))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect()))
        }
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        [Value::Timestamp(at), Value::Duration(by)]
        | [Value::Duration(by), Value::Timestamp(at)] => shift(*at, *by),
        [Value::List(a), Value::List(b)] => join_lists(meter, a, b),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Two lists in one; sets keep one of each, keyed lists let the second overwrite the first.
fn join_lists<'a>(meter: &mut Meter, a: &ListValue<'a>, b: &ListValue<'a>) -> Made<'a> {
    let size = (a.len() as u64).saturating_add(b.len() as u64);
    meter.elements(size)?;
    let mut out = a.to_vec()?;
    let kind = list_kind(a);
    for item in b.iter() {
        let item = item?;
        match &kind {
            ListKind::Atomic => out.push(item),
            ListKind::Set => {
                if !contains(meter, a, &item)? {
                    out.push(item);
                }
            }
            ListKind::Map(keys) => {
                let mut place = None;
                for (at, old) in out.iter().enumerate() {
                    if same_keys(meter, keys, old, &item)? {
                        place = Some(at);
                        break;
                    }
                }
                match place.and_then(|at| out.get_mut(at)) {
                    Some(old) => *old = item,
                    None => out.push(item),
                }
            }
        }
    }
    Ok(Value::list(out))
}

pub(crate) fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => whole(a.checked_sub(*b)),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_sub(*b).map(Value::Duration).ok_or_else(|| overflow("duration"))
        }
        [Value::Timestamp(at), Value::Duration(by)] => {
            shift(*at, by.checked_neg().ok_or_else(|| overflow("duration"))?)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            let seconds = i128::from(a.seconds) - i128::from(b.seconds);
            let nanos = seconds * i128::from(NANOS) + i128::from(a.nanos) - i128::from(b.nanos);
            i64::try_from(nanos).map(Value::Duration).map_err(|_| overflow("duration"))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(a), Value::Int(b)] => whole(a.checked_mul(*b)),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(EvalError::failed("division by zero"))
        }
        [Value::Int(a), Value::Int(b)] => whole(a.checked_div(*b)),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(EvalError::failed("modulus by zero"))
        }
        [Value::Int(a), Value::Int(b)] => whole(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_rem(*b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [a, b] => equal(meter, a, b).map(Value::Bool),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn not_equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [a, b] => equal(meter, a, b).map(|same| Value::Bool(!same)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordered<'a>(meter: &mut Meter, args: &[Value<'a>], wanted: &[Ordering]) -> Made<'a> {
    match args {
        [a, b] => {
            let order = order(meter, a, b)?;
            Ok(Value::Bool(order.is_some_and(|order| wanted.contains(&order))))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn less<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ordered(meter, args, &[Ordering::Less])
}

pub(crate) fn less_equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ordered(meter, args, &[Ordering::Less, Ordering::Equal])
}

pub(crate) fn greater<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ordered(meter, args, &[Ordering::Greater])
}

pub(crate) fn greater_equals<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ordered(meter, args, &[Ordering::Greater, Ordering::Equal])
}

pub(crate) fn within<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [item, Value::List(list)] => contains(meter, list, item).map(Value::Bool),
        [key, Value::Map(map)] => Ok(Value::Bool(key.key().is_some_and(|key| map.has(&key)))),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// The element or entry; `None` when there is none.
fn lookup<'a>(container: &Value<'a>, index: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    match container {
        Value::List(list) => {
            let place = match index {
                Value::Int(place) => Some(*place),
                Value::Uint(place) => i64::try_from(*place).ok(),
                Value::Double(place) => exact(*place),
                _ => return Err(EvalError::no_such_overload()),
            };
            place.and_then(|p| usize::try_from(p).ok()).and_then(|p| list.get(p)).transpose()
        }
        Value::Map(map) => match index.key() {
            Some(key) => map.get(&key),
            None => Err(EvalError::failed("unsupported key type")),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn missing(container: &Value<'_>, index: &Value<'_>) -> EvalError {
    let shown = index.key().map(|key| key_text(&key)).unwrap_or_default();
    match container {
        Value::List(_) => EvalError::failed(format!("index out of bounds: {shown}")),
        _ => EvalError::no_such_key(&shown),
    }
}

pub(crate) fn index<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), index] => {
            let found = lookup(inner, index)?.ok_or_else(|| missing(inner, index))?;
            Ok(Value::some(found))
        }
        [container, index] => lookup(container, index)?.ok_or_else(|| missing(container, index)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn optional_index<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), index] => {
            Ok(Value::Optional(lookup(inner, index)?.map(Arc::new)))
        }
        [container, index] => Ok(Value::Optional(lookup(container, index)?.map(Arc::new))),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Puts entries into the map an accumulator holds; a key that is there already is an error.
pub(crate) fn map_insert<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let Some((Value::Map(map), rest)) = args.split_first() else {
        return Err(EvalError::no_such_overload());
    };
    let mut made = match map {
        MapValue::Made(made) => made.clone(),
        MapValue::Json(..) => return Err(EvalError::no_such_overload()),
    };
    meter.elements(made.len() as u64)?;
    insert_into(meter, Arc::make_mut(&mut made), rest)?;
    Ok(Value::Map(MapValue::Made(made)))
}

/// The entries of one step: a key and a value, or a whole map.
pub(crate) fn insert_into<'a>(
    meter: &mut Meter,
    made: &mut BTreeMap<MapKey<'a>, Value<'a>>,
    rest: &[Value<'a>],
) -> Result<(), EvalError> {
    // One for the call, the rest for the place in the tree, as a new list costs ten.
    meter.charge(8)?;
    let mut put = |key: MapKey<'a>, value: Value<'a>| match made.entry(key) {
        Entry::Vacant(place) => {
            place.insert(value);
            Ok(())
        }
        Entry::Occupied(place) => {
            let shown = key_text(place.key());
            Err(EvalError::failed(format!("insert failed: key {shown} already exists")))
        }
    };
    match rest {
        [key, value] => {
            let key = key.key().ok_or_else(|| EvalError::failed("unsupported key type"))?;
            put(key, value.clone())
        }
        [Value::Map(other)] => {
            meter.elements(other.len() as u64)?;
            for key in other.keys() {
                if let Some(value) = other.get(&key)? {
                    put(key, value)?;
                }
            }
            Ok(())
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn size<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let size = match args {
        [Value::String(text)] => {
            meter.work_len(text.len())?;
            text.chars().count()
        }
        [Value::Bytes(octets)] => octets.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(EvalError::no_such_overload()),
    };
    whole(i64::try_from(size).ok())
}
