//! Quantities, and the comparisons that versions share with them.

use core::cmp::Ordering;
use std::sync::Arc;

use tenure_machinery::quantity::Quantity;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

/// No quantity needs more characters; longer text is refused before it is read.
const LENGTH_MAX: usize = 256;

fn read(text: &str) -> Option<Quantity> {
    (text.len() <= LENGTH_MAX).then(|| Quantity::parse(text)).flatten()
}

fn quantity<'a>(quantity: Quantity) -> Value<'a> {
    Value::Quantity(Arc::new(quantity))
}

pub(crate) fn to_quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => read(text).map(quantity).ok_or_else(|| {
            EvalError::failed("quantities must match the regular expression of quantities")
        }),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_quantity<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::Bool(read(text).is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn sign<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Int(match () {
            () if amount.is_zero() => 0,
            () if amount.is_negative() => -1,
            () => 1,
        })),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordering(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(a.cmp(b)),
        [Value::Semver(a), Value::Semver(b)] => Ok(a.compare(b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_greater_than<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Bool(ordering(args)? == Ordering::Greater))
}

pub(crate) fn is_less_than<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Bool(ordering(args)? == Ordering::Less))
}

pub(crate) fn compare_to<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Int(match ordering(args)? {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// The amount, when it is whole and fits.
fn whole(amount: Quantity) -> Option<i64> {
    let value = amount.value();
    (amount.is_whole() && Quantity::from_units(value) == amount).then_some(value)
}

pub(crate) fn as_float<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Double(match whole(**amount) {
            Some(units) => units as f64,
            None => float(**amount),
        })),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// About the amount: thousandths where they are exact, and the written digits elsewhere.
fn float(amount: Quantity) -> f64 {
    let milli = amount.milli();
    if milli != i64::MAX && milli != i64::MIN && amount.rounded_to_milli() == amount {
        return milli as f64 / 1000.0;
    }
    let text = amount.canonical();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let number: f64 = digits.parse().unwrap_or(f64::NAN);
    let power = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        other => other.strip_prefix('e').and_then(|e| e.parse().ok()).unwrap_or(0),
    };
    number * 10f64.powi(power)
}

pub(crate) fn as_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(amount)] => whole(**amount)
            .map(Value::Int)
            .ok_or_else(|| EvalError::failed("cannot convert value to integer")),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn is_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(amount)] => Ok(Value::Bool(whole(**amount).is_some())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn operand(value: &Value<'_>) -> Option<Quantity> {
    match value {
        Value::Quantity(amount) => Some(**amount),
        Value::Int(units) => Some(Quantity::from_units(*units)),
        _ => None,
    }
}

pub(crate) fn add<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(a), b] => {
            operand(b).map(|b| quantity(a.plus(b))).ok_or_else(EvalError::no_such_overload)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn sub<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Quantity(a), b] => operand(b)
            .map(|b| quantity(a.plus(b.times(-1))))
            .ok_or_else(EvalError::no_such_overload),
        _ => Err(EvalError::no_such_overload()),
    }
}
