//! Conversions between types.

use crate::error::EvalError;
use crate::meter::{Meter, scaled};
use crate::time::{NANOS, duration_text, timestamp_text};
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

fn range(what: &str) -> EvalError {
    EvalError::failed(format!("{what} overflow"))
}

fn unreadable(text: &str, what: &str) -> EvalError {
    let shown: String = text.chars().take(100).collect();
    EvalError::failed(format!("type conversion error: `{shown}` is no {what}"))
}

pub(crate) fn dynamic<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    args.first().cloned().ok_or_else(EvalError::no_such_overload)
}

pub(crate) fn type_of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    args.first().map(|v| Value::Type(v.type_name())).ok_or_else(EvalError::no_such_overload)
}

pub(crate) fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            text => Err(unreadable(text, "bool")),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn to_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let value = match args {
        [Value::Int(value)] => *value,
        [Value::Uint(value)] => i64::try_from(*value).map_err(|_| range("integer"))?,
        [Value::Double(value)] => {
            let fits = *value > i64::MIN as f64 && *value < i64::MAX as f64;
            if !fits {
                return Err(range("integer"));
            }
            *value as i64
        }
        [Value::Duration(nanos)] => *nanos,
        [Value::Timestamp(stamp)] => stamp.seconds,
        [Value::String(text)] => text.parse().map_err(|_| unreadable(text, "int"))?,
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Int(value))
}

pub(crate) fn to_uint<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let value = match args {
        [Value::Uint(value)] => *value,
        [Value::Int(value)] => u64::try_from(*value).map_err(|_| range("unsigned integer"))?,
        [Value::Double(value)] => {
            let fits = *value >= 0.0 && *value < u64::MAX as f64;
            if !fits {
                return Err(range("unsigned integer"));
            }
            *value as u64
        }
        [Value::String(text)] => text.parse().map_err(|_| unreadable(text, "uint"))?,
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Uint(value))
}

pub(crate) fn to_double<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let value = match args {
        [Value::Double(value)] => *value,
        [Value::Int(value)] => *value as f64,
        [Value::Uint(value)] => *value as f64,
        [Value::String(text)] => text.parse().map_err(|_| unreadable(text, "double"))?,
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::Double(value))
}

pub(crate) fn to_bytes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Bytes(octets)] => Ok(Value::Bytes(octets.clone())),
        [Value::String(text)] => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn to_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Bytes(octets)] => {
            meter.charge(scaled(octets.len() as u64, 0.1))?;
            let text = core::str::from_utf8(octets);
            text.map(Value::text).map_err(|_| EvalError::failed("invalid UTF-8 in bytes"))
        }
        [value] => {
            meter.charge(1)?;
            match value {
                Value::String(_) => Ok(value.clone()),
                _ => text(value).map(Value::text).ok_or_else(EvalError::no_such_overload),
            }
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

/// A scalar as text.
pub(crate) fn text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        Value::Duration(nanos) => duration_text(*nanos),
        Value::Timestamp(stamp) => timestamp_text(*stamp),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(address, bits) => format!("{address}/{bits}"),
        _ => return None,
    })
}

/// The shortest text that reads back the same; far from one it is written with an exponent.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    value.to_string()
}

/// Seconds of a duration in nanoseconds.
pub(crate) fn seconds(nanos: i64) -> i64 {
    nanos / NANOS
}
