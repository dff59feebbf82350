//! Times and durations: reading them, and their parts.

use jiff::civil::DateTime;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::time::{Stamp, civil, go_duration, in_range, rfc3339, zone_offset};
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

pub(crate) fn to_duration<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Duration(nanos)] | [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
        [Value::String(text)] => go_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| EvalError::failed("type conversion error: no duration")),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn to_timestamp<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Timestamp(stamp)] => Ok(Value::Timestamp(*stamp)),
        [Value::Int(seconds)] if in_range(*seconds) => {
            Ok(Value::Timestamp(Stamp::utc(*seconds, 0)))
        }
        [Value::Int(_)] => Err(EvalError::failed("timestamp overflow")),
        [Value::String(text)] => rfc3339(text)
            .map(Value::Timestamp)
            .ok_or_else(|| EvalError::failed("type conversion error: no timestamp")),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// A part of a point in time, in UTC or the zone given.
fn part<'a>(args: &[Value<'a>], read: fn(DateTime) -> i64) -> Made<'a> {
    let (stamp, zone) = match args {
        [Value::Timestamp(stamp)] => (stamp, "UTC"),
        [Value::Timestamp(stamp), Value::String(zone)] => (stamp, &**zone),
        _ => return Err(EvalError::no_such_overload()),
    };
    let offset = zone_offset(zone).ok_or_else(|| {
        let shown: String = zone.chars().take(100).collect();
        EvalError::failed(format!("unknown time zone `{shown}`; write UTC or an offset"))
    })?;
    civil(stamp.seconds, offset)
        .map(|date| Value::Int(read(date)))
        .ok_or_else(|| EvalError::failed("timestamp overflow"))
}

pub(crate) fn full_year<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.year()))
}

pub(crate) fn month<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.month()) - 1)
}

pub(crate) fn day_of_year<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.date().day_of_year()) - 1)
}

pub(crate) fn date<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.day()))
}

pub(crate) fn day_of_month<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.day()) - 1)
}

pub(crate) fn day_of_week<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    part(args, |d| i64::from(d.date().weekday().to_sunday_zero_offset()))
}

pub(crate) fn hours<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(super::convert::seconds(*nanos) / 3600)),
        _ => part(args, |d| i64::from(d.hour())),
    }
}

pub(crate) fn minutes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(super::convert::seconds(*nanos) / 60)),
        _ => part(args, |d| i64::from(d.minute())),
    }
}

pub(crate) fn seconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(super::convert::seconds(*nanos))),
        _ => part(args, |d| i64::from(d.second())),
    }
}

pub(crate) fn milliseconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        [Value::Timestamp(stamp), ..] => Ok(Value::Int(i64::from(stamp.nanos) / 1_000_000)),
        _ => Err(EvalError::no_such_overload()),
    }
}
