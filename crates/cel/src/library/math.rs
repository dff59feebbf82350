//! Numbers.

use core::cmp::Ordering;

use crate::compare::order;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

fn pick<'a>(meter: &mut Meter, args: &[Value<'a>], wanted: Ordering) -> Made<'a> {
    let items = match args {
        [Value::List(list)] => list.to_vec()?,
        args => args.to_vec(),
    };
    meter.charge((items.len() as u64).max(1))?;
    let mut best: Option<Value<'a>> = None;
    for item in items {
        let better = match &best {
            Some(best) => order(meter, &item, best)? == Some(wanted),
            None => true,
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::failed("the list must not be empty"))
}

pub(crate) fn greatest<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    pick(meter, args, Ordering::Greater)
}

pub(crate) fn least<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    pick(meter, args, Ordering::Less)
}

pub(crate) fn abs<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(value)] => {
            value.checked_abs().map(Value::Int).ok_or_else(|| EvalError::failed("integer overflow"))
        }
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Double(value)] => Ok(Value::Double(value.abs())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn sign<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(value.signum())),
        [Value::Uint(value)] => Ok(Value::Uint((*value).min(1))),
        [Value::Double(value)] if *value == 0.0 || value.is_nan() => Ok(Value::Double(*value)),
        [Value::Double(value)] => Ok(Value::Double(value.signum())),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn double<'a>(args: &[Value<'a>], run: fn(f64) -> f64) -> Made<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(run(*value))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ask<'a>(args: &[Value<'a>], run: fn(f64) -> bool) -> Made<'a> {
    match args {
        [Value::Double(value)] => Ok(Value::Bool(run(*value))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn ceil<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    double(args, f64::ceil)
}

pub(crate) fn floor<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    double(args, f64::floor)
}

pub(crate) fn round<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    double(args, f64::round)
}

pub(crate) fn trunc<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    double(args, f64::trunc)
}

pub(crate) fn is_nan<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, f64::is_nan)
}

pub(crate) fn is_inf<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, f64::is_infinite)
}

pub(crate) fn is_finite<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    ask(args, f64::is_finite)
}
