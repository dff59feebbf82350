//! Strings. Places and lengths are counted in characters.

use crate::compare::equal;
use crate::error::EvalError;
use crate::meter::{Meter, VISIT, scaled};
use crate::value::{ListValue, Text, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// The longest text a function makes; the meter stops most long before.
const TEXT_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Pays for text about to be made.
pub(crate) fn pay_text(meter: &mut Meter, bytes: u64) -> Result<(), EvalError> {
    if bytes > TEXT_BYTES_MAX {
        meter.charge(u64::MAX)?;
    }
    meter.work(bytes.saturating_mul(8))
}

/// Pays for one more part of a list of texts; a few cost little, of many each has its price.
pub(crate) fn pay_part(meter: &mut Meter, count: usize, price: u64) -> Result<(), EvalError> {
    if count > PARTS_CHEAP { meter.charge(price) } else { meter.work(VISIT) }
}

/// How many parts of a split text cost little.
const PARTS_CHEAP: usize = 1000;

pub(crate) fn contains<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn starts_with<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.starts_with(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn ends_with<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.ends_with(&**part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn out_of_range(place: i64) -> EvalError {
    EvalError::failed(format!("index out of range: {place}"))
}

/// The byte offset of a character; one past the last is allowed.
fn offset(meter: &mut Meter, text: &str, place: i64) -> Result<usize, EvalError> {
    // Characters are counted one by one.
    meter.work_len(text.len().saturating_mul(4))?;
    let wanted = usize::try_from(place).map_err(|_| out_of_range(place))?;
    let mut offsets = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    offsets.nth(wanted).ok_or_else(|| out_of_range(place))
}

pub(crate) fn char_at<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::Int(place)] => {
            let at = offset(meter, text, *place)?;
            let found = text.get(at..).and_then(|rest| rest.chars().next());
            Ok(Value::text(found.map(String::from).unwrap_or_default()))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

/// The place of a byte offset.
fn place(text: &str, at: Option<usize>) -> Value<'static> {
    let count = at.and_then(|at| text.get(..at)).map(|before| before.chars().count());
    Value::Int(count.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1))
}

/// Pays for a search, which may look at the whole text.
fn pay_search(meter: &mut Meter, text: &str, part: &str) -> Result<(), EvalError> {
    meter.work_len(text.len().saturating_add(part.len()))
}

pub(crate) fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(part)] => {
            pay_search(meter, text, part)?;
            Ok(place(text, text.find(&**part)))
        }
        [Value::String(text), Value::String(part), Value::Int(from)] => {
            pay_search(meter, text, part)?;
            let from = offset(meter, text, *from)?;
            let found = text.get(from..).and_then(|rest| rest.find(&**part));
            Ok(place(text, found.map(|at| at + from)))
        }
        [Value::List(list), item] => position(meter, list, item, false),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(part)] => {
            pay_search(meter, text, part)?;
            Ok(place(text, text.rfind(&**part)))
        }
        [Value::String(text), Value::String(part), Value::Int(from)] => {
            pay_search(meter, text, part)?;
            let from = offset(meter, text, *from)?;
            let end = from.saturating_add(part.len());
            let head = text.get(..end).unwrap_or(text);
            Ok(place(text, head.rfind(&**part)))
        }
        [Value::List(list), item] => position(meter, list, item, true),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn position<'a>(meter: &mut Meter, list: &ListValue<'a>, item: &Value<'a>, last: bool) -> Made<'a> {
    let mut found = -1;
    for (at, other) in (0i64..).zip(list.iter()) {
        if equal(meter, &other?, item)? {
            found = at;
            if !last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

pub(crate) fn lower_ascii<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_lowercase())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn upper_ascii<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.to_ascii_uppercase())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (text, old, new, most) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(most)] => {
            (text, old, new, *most)
        }
        _ => return Err(EvalError::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // The length is known before the text is made: a short pattern can make a long text longer by far.
    let count = text.matches(&**old).take(most).count() as u64;
    let longest = count.saturating_mul(new.len() as u64).saturating_add(text.len() as u64);
    pay_text(meter, longest)?;
    Ok(Value::text(text.replacen(&**old, new, most)))
}

pub(crate) fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (text, separator, most) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(most)] => {
            (text, separator, *most)
        }
        _ => return Err(EvalError::no_such_overload()),
    };
    let most = match most {
        0 => return Ok(Value::list(vec![])),
        1 => return Ok(Value::list(vec![Value::String(text.clone())])),
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };
    match text {
        Text::Borrowed(text) => parts(meter, text, separator, most, Value::borrowed),
        Text::Shared(text) => parts(meter, text, separator, most, Value::text),
    }
}

/// The parts between separators; what was borrowed stays borrowed.
fn parts<'t, 'a>(
    meter: &mut Meter,
    text: &'t str,
    separator: &str,
    most: usize,
    make: impl Fn(&'t str) -> Value<'a>,
) -> Made<'a> {
    let mut out = vec![];
    if separator.is_empty() {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            pay_part(meter, out.len(), 2)?;
            let last = out.len().saturating_add(1) >= most;
            let end = if last { rest.len() } else { c.len_utf8() };
            let (part, after) = rest.split_at(end);
            out.push(make(part));
            rest = after;
        }
    } else {
        for part in text.splitn(most, separator) {
            pay_part(meter, out.len(), 2)?;
            out.push(make(part));
        }
    }
    Ok(Value::list(out))
}

pub(crate) fn substring<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (text, from, to) = match args {
        [Value::String(text), Value::Int(from)] => (text, *from, None),
        [Value::String(text), Value::Int(from), Value::Int(to)] => (text, *from, Some(*to)),
        _ => return Err(EvalError::no_such_overload()),
    };
    if to.is_some_and(|to| from > to) {
        return Err(EvalError::failed(format!(
            "invalid substring range. start: {from}, end: {}",
            to.unwrap_or_default()
        )));
    }
    let start = offset(meter, text, from)?;
    let end = match to {
        Some(to) => offset(meter, text, to)?,
        None => text.len(),
    };
    Ok(Value::text(text.get(start..end).unwrap_or_default()))
}

pub(crate) fn trim<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.trim())),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::no_such_overload()),
    };
    let mut bytes = 0u64;
    for item in list.iter() {
        match item? {
            Value::String(text) => {
                bytes =
                    bytes.saturating_add(text.len() as u64).saturating_add(separator.len() as u64);
            }
            _ => return Err(EvalError::no_such_overload()),
        }
    }
    let last = if list.len() == 0 { 0 } else { separator.len() as u64 };
    meter.charge(scaled(bytes.saturating_sub(last), 0.2))?;
    pay_text(meter, bytes)?;
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        if let Value::String(text) = item? {
            out.push_str(&text);
        }
    }
    Ok(Value::text(out))
}

pub(crate) fn quote<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text)] => {
            pay_text(meter, (text.len() as u64).saturating_mul(2))?;
            Ok(Value::text(quoted(text)))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Text in quotation marks, control characters written as escapes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        let escape = match c {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            c => {
                out.push(c);
                continue;
            }
        };
        out.push_str(escape);
    }
    out.push('"');
    out
}
