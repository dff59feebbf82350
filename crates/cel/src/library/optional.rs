//! Values that may be absent.

use std::sync::Arc;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::time;
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

pub(crate) fn of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    args.first().cloned().map(Value::some).ok_or_else(EvalError::no_such_overload)
}

pub(crate) fn none<'a>(_: &mut Meter, _: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Optional(None))
}

pub(crate) fn of_non_zero<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let value = args.first().ok_or_else(EvalError::no_such_overload)?;
    let zero = match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => {
            true
        }
        Value::Double(value) => *value == 0.0,
        Value::Timestamp(stamp) => stamp.order() == (time::FIRST_SECOND, 0),
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) | Value::Object(..) => {
            value.size() == 0
        }
        Value::Struct(made) => made.fields.is_empty(),
        Value::Optional(inner) => inner.is_none(),
        _ => false,
    };
    Ok(if zero { Value::Optional(None) } else { Value::some(value.clone()) })
}

pub(crate) fn unwrap<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    meter.charge(1)?;
    meter.elements(list.len() as u64)?;
    let mut out = vec![];
    for item in list.iter() {
        match item? {
            Value::Optional(Some(inner)) => out.push((*inner).clone()),
            Value::Optional(None) => {}
            _ => return Err(EvalError::no_such_overload()),
        }
    }
    Ok(Value::list(out))
}

pub(crate) fn value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn has_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn or<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(Some(inner)), _] => Ok(Value::Optional(Some(Arc::clone(inner)))),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn or_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Optional(Some(inner)), _] => Ok((**inner).clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => Err(EvalError::no_such_overload()),
    }
}
