//! Lists and sets.

use core::cmp::Ordering;

use crate::compare::{contains, equal, order};
use crate::error::EvalError;
use crate::library::operators;
use crate::meter::{Meter, scaled};
use crate::value::{ListValue, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

fn only<'a, 'v>(args: &'v [Value<'a>]) -> Result<&'v ListValue<'a>, EvalError> {
    match args {
        [Value::List(list)] => Ok(list),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Pays for a call that makes a list: one for the call, ten for the list, and its elements.
fn pay_list(meter: &mut Meter, elements: u64) -> Result<(), EvalError> {
    meter.charge(elements.saturating_add(11))
}

/// Pays for comparing every element of a list with every other.
fn pay_pairs(meter: &mut Meter, keys: &ListValue<'_>) -> Result<(), EvalError> {
    let text = matches!(keys.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    let pairs = (keys.len() as u64).saturating_mul(keys.len() as u64);
    pay_list(meter, scaled(pairs, if text { 2.1 } else { 2.0 }))
}

pub(crate) fn is_sorted<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let mut last: Option<Value<'a>> = None;
    for item in only(args)?.iter() {
        let item = item?;
        if let Some(last) = &last
            && order(meter, last, &item)? == Some(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        last = Some(item);
    }
    Ok(Value::Bool(true))
}

pub(crate) fn sum<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let mut total: Option<Value<'a>> = None;
    for item in only(args)?.iter() {
        let item = item?;
        total = Some(match total {
            Some(total) => operators::add(meter, &[total, item])?,
            None => item,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], wanted: Ordering, name: &str) -> Made<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in only(args)?.iter() {
        let item = item?;
        let better = match &best {
            Some(best) => order(meter, &item, best)? == Some(wanted),
            None => true,
        };
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

pub(crate) fn max<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    extreme(meter, args, Ordering::Greater, "max")
}

pub(crate) fn min<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    extreme(meter, args, Ordering::Less, "min")
}

pub(crate) fn includes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::List(list), item] => contains(meter, list, item).map(Value::Bool),
        [value, item] => equal(meter, value, item).map(Value::Bool),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(EvalError::no_such_overload());
    };
    let cannot = |why: String| EvalError::failed(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(cannot("negative indexes not supported".to_owned()));
    };
    if from > to {
        return Err(cannot("start index must be less than or equal to end index".to_owned()));
    }
    if to > list.len() {
        return Err(cannot(format!("list is length {}", list.len())));
    }
    pay_list(meter, (to - from) as u64)?;
    let items: Result<Vec<_>, _> = (from..to).filter_map(|at| list.get(at)).collect();
    items.map(Value::list)
}

pub(crate) fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(EvalError::no_such_overload()),
    };
    let depth =
        u64::try_from(depth).map_err(|_| EvalError::failed("level must be non-negative"))?;
    pay_list(meter, (list.len() as u64).saturating_mul(depth))?;
    let mut out = vec![];
    flatten_into(meter, list, depth, &mut out)?;
    Ok(Value::list(out))
}

fn flatten_into<'a>(
    meter: &mut Meter,
    list: &ListValue<'a>,
    depth: u64,
    out: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    meter.elements(list.len() as u64)?;
    for item in list.iter() {
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(meter, &inner, depth - 1, out)?,
            item => out.push(item),
        }
    }
    Ok(())
}

pub(crate) fn sort<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let list = only(args)?;
    sorted(meter, list, list)
}

pub(crate) fn sort_by_keys<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::List(list), Value::List(keys)] => sorted(meter, list, keys),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn sorted<'a>(meter: &mut Meter, list: &ListValue<'a>, keys: &ListValue<'a>) -> Made<'a> {
    pay_pairs(meter, keys)?;
    let keys = keys.to_vec()?;
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(list.to_vec()?).collect();
    if let Some((first, _)) = pairs.first() {
        let name = first.type_name();
        if pairs.iter().any(|(key, _)| key.type_name() != name) {
            return Err(EvalError::failed("list elements must have the same type"));
        }
    }
    let mut failure = None;
    pairs.sort_by(|(a, _), (b, _)| match order(meter, a, b) {
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(error) => {
            failure.get_or_insert(error);
            Ordering::Equal
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect())),
    }
}

pub(crate) fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::Int(count)] = args else { return Err(EvalError::no_such_overload()) };
    let size = u64::try_from(*count).map_err(|_| {
        EvalError::failed(format!("lists.range: size must be non-negative, got {count}"))
    })?;
    pay_list(meter, size)?;
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

pub(crate) fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let list = only(args)?;
    pay_list(meter, list.len() as u64)?;
    let mut items = list.to_vec()?;
    items.reverse();
    Ok(Value::list(items))
}

pub(crate) fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let list = only(args)?;
    pay_pairs(meter, list)?;
    let mut out: Vec<Value<'a>> = vec![];
    'items: for item in list.iter() {
        let item = item?;
        for seen in &out {
            if equal(meter, seen, &item)? {
                continue 'items;
            }
        }
        out.push(item);
    }
    Ok(Value::list(out))
}

pub(crate) fn first<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let found = only(args)?.get(0).transpose()?;
    Ok(found.map_or(Value::Optional(None), Value::some))
}

pub(crate) fn last<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let list = only(args)?;
    let found = list.len().checked_sub(1).and_then(|at| list.get(at)).transpose()?;
    Ok(found.map_or(Value::Optional(None), Value::some))
}

fn two<'a, 'v>(args: &'v [Value<'a>]) -> Result<(&'v ListValue<'a>, &'v ListValue<'a>), EvalError> {
    match args {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn covers<'a>(meter: &mut Meter, a: &ListValue<'a>, b: &ListValue<'a>) -> Result<bool, EvalError> {
    for item in b.iter() {
        if !contains(meter, a, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn sets_contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (a, b) = two(args)?;
    covers(meter, a, b).map(Value::Bool)
}

pub(crate) fn sets_equivalent<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (a, b) = two(args)?;
    Ok(Value::Bool(covers(meter, a, b)? && covers(meter, b, a)?))
}

pub(crate) fn sets_intersects<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (a, b) = two(args)?;
    for item in a.iter() {
        if contains(meter, b, &item?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
