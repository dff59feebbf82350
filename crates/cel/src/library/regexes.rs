//! Regular expressions, in the dialect rules are written in: classes such as `\d` mean ASCII.
//!
//! Matching takes time linear in the text. Compiling is bounded by a size limit, which is smaller for
//! patterns made while running, since those are compiled again for every request.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::error::EvalError;
use crate::library::strings::pay_part;
use crate::meter::Meter;
use crate::value::{Text, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct CompiledRegex(Regex);

/// The size of a pattern that stands in the rule itself.
const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// The size of a pattern made while running.
const MADE_BYTES_MAX: usize = 1 << 17;
/// How many patterns made while running are kept.
const KEPT_MAX: usize = 32;

impl CompiledRegex {
    /// Compiles a pattern that stands in a rule.
    pub(crate) fn written(text: &str) -> Option<CompiledRegex> {
        CompiledRegex::compile(text, WRITTEN_BYTES_MAX)
    }

    fn compile(text: &str, bytes: usize) -> Option<CompiledRegex> {
        let built = RegexBuilder::new(&translate(text)?)
            .size_limit(bytes)
            .dfa_size_limit(bytes)
            .nest_limit(100)
            .build();
        built.ok().map(CompiledRegex)
    }
}

/// The pattern of a call: kept from an earlier one, or compiled and paid for.
fn pattern(meter: &mut Meter, text: &Text<'_>) -> Result<Arc<CompiledRegex>, EvalError> {
    let kept = meter.patterns.iter().find(|(known, _)| **known == **text);
    if let Some(kept) = kept.map(|(_, kept)| kept.clone()) {
        meter.charge(2)?;
        return Ok(kept);
    }
    // Compiling is the costly part, and it grows with what repetitions stand for.
    meter.charge(weight(text).saturating_mul(10).saturating_add(500))?;
    let made = CompiledRegex::compile(text, MADE_BYTES_MAX).map(Arc::new);
    let made = made.ok_or_else(|| EvalError::failed("the pattern is malformed or too large"))?;
    if meter.patterns.len() >= KEPT_MAX {
        meter.patterns.remove(0);
    }
    meter.patterns.push((Arc::from(&**text), made.clone()));
    Ok(made)
}

pub(crate) fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(wanted)] => {
            let pattern = pattern(meter, wanted)?;
            meter.work(SEARCH)?;
            run_matches(&pattern, text)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_matches<'a>(pattern: &CompiledRegex, text: &str) -> Made<'a> {
    Ok(Value::Bool(pattern.0.is_match(text)))
}

pub(crate) fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(wanted)] => {
            let pattern = pattern(meter, wanted)?;
            meter.work(SEARCH)?;
            run_find(&pattern, text)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_find<'a>(pattern: &CompiledRegex, text: &str) -> Made<'a> {
    Ok(Value::text(pattern.0.find(text).map_or("", |found| found.as_str())))
}

pub(crate) fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(_), Value::String(wanted), ..] => {
            let pattern = pattern(meter, wanted)?;
            meter.work(SEARCH)?;
            run_find_all(meter, &pattern, args)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_find_all<'a>(meter: &mut Meter, pattern: &CompiledRegex, args: &[Value<'a>]) -> Made<'a> {
    let (text, most) = match args {
        [Value::String(text), _] => (text, -1),
        [Value::String(text), _, Value::Int(most)] => (text, *most),
        _ => return Err(EvalError::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut out = vec![];
    for found in pattern.0.find_iter(text).take(most) {
        pay_part(meter, out.len(), 5)?;
        out.push(Value::text(found.as_str()));
    }
    Ok(Value::list(out))
}

/// What starting a search is worth in bytes.
const SEARCH: u64 = 512;

/// A call whose pattern was compiled with the rule.
pub(crate) fn run_written<'a>(
    meter: &mut Meter,
    name: &str,
    pattern: &CompiledRegex,
    args: &[Value<'a>],
) -> Made<'a> {
    meter.work(SEARCH)?;
    match (name, args) {
        ("matches", [Value::String(text), ..]) => run_matches(pattern, text),
        ("find", [Value::String(text), ..]) => run_find(pattern, text),
        ("findAll", _) => run_find_all(meter, pattern, args),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// About how many states a pattern has: characters, more for large classes, times their repetitions.
fn weight(text: &str) -> u64 {
    let mut open: Vec<u64> = vec![];
    let (mut total, mut last) = (0u64, 0u64);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '{'
            && let Ok(true) | Err(()) = repetition(chars.clone()).ok_or(())
        {
            let body: String = chars.by_ref().take_while(|c| *c != '}').collect();
            let most = body.split(',').filter_map(|n| n.parse().ok()).max().unwrap_or(1);
            total = total.saturating_add(last.saturating_mul(most));
            continue;
        }
        last = match c {
            '(' => {
                open.push(std::mem::take(&mut total));
                continue;
            }
            ')' => {
                let inner = total;
                total = open.pop().unwrap_or(0);
                inner
            }
            '\\' => match chars.next() {
                Some('p' | 'P') => {
                    if chars.next() == Some('{') {
                        chars.by_ref().find(|c| *c == '}');
                    }
                    200
                }
                _ => 2,
            },
            '.' | '^' => 20,
            _ => 2,
        };
        total = total.saturating_add(last);
    }
    open.into_iter().fold(total, u64::saturating_add)
}

/// The same pattern in the words of the `regex` crate; `None` when it has no such words.
fn translate(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    let mut repeat = Repeat::None;
    while let Some(c) = chars.next() {
        repeat = match c {
            '*' | '+' | '?' => repeat.next(c)?,
            '{' if repetition(chars.clone())? => {
                out.push('{');
                out.extend(chars.by_ref().take_while(|c| *c != '}'));
                out.push('}');
                repeat = repeat.next('{')?;
                continue;
            }
            _ => Repeat::None,
        };
        match c {
            '\\' => escaped(&mut out, &mut chars, false)?,
            '[' => class(&mut out, &mut chars)?,
            '{' => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    Some(out)
}

/// Whether a repetition stands just before; a second one is an error, a question mark is not.
#[derive(Clone, Copy)]
enum Repeat {
    None,
    Once,
    Lazy,
}

impl Repeat {
    fn next(self, c: char) -> Option<Repeat> {
        match self {
            Repeat::None => Some(Repeat::Once),
            Repeat::Once if c == '?' => Some(Repeat::Lazy),
            Repeat::Once | Repeat::Lazy => None,
        }
    }
}

/// The most times something may be repeated.
const REPEAT_MAX: u32 = 1000;

/// Whether what follows a brace makes it a repetition; `None` when it repeats too often.
fn repetition(rest: impl Iterator<Item = char>) -> Option<bool> {
    let mut closed = false;
    let body: String = rest
        .take(24)
        .take_while(|c| {
            closed = *c == '}';
            !closed
        })
        .collect();
    let (low, high) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    if !closed || low.is_empty() || !digits(low) || !digits(high) {
        return Some(false);
    }
    let fits = |text: &str| text.is_empty() || text.parse::<u32>().is_ok_and(|n| n <= REPEAT_MAX);
    (fits(low) && fits(high)).then_some(true)
}

type Chars<'t> = core::iter::Peekable<core::str::Chars<'t>>;

/// A class such as `[a-z]`, its opening bracket already read.
fn class(out: &mut String, chars: &mut Chars<'_>) -> Option<()> {
    out.push('[');
    if chars.peek() == Some(&'^') {
        out.extend(chars.next());
    }
    if chars.peek() == Some(&']') {
        chars.next();
        out.push_str("\\]");
    }
    while let Some(c) = chars.next() {
        match c {
            ']' => {
                out.push(']');
                return Some(());
            }
            '\\' => escaped(out, chars, true)?,
            // Only `[:alpha:]` opens anything inside a class.
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' | '&' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    None
}

fn escaped(out: &mut String, chars: &mut Chars<'_>, in_class: bool) -> Option<()> {
    let c = chars.next()?;
    let inner = match c {
        'd' => "0-9",
        'w' => "0-9A-Za-z_",
        's' => "\\t\\n\\f\\r ",
        'D' => "^0-9",
        'W' => "^0-9A-Za-z_",
        'S' => "^\\t\\n\\f\\r ",
        'b' | 'B' if !in_class => {
            out.push_str(if c == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
            return Some(());
        }
        'Q' => {
            literal(out, chars);
            return Some(());
        }
        'C' => return None,
        c => {
            out.extend(['\\', c]);
            return Some(());
        }
    };
    if in_class && !inner.starts_with('^') {
        out.push_str(inner);
    } else {
        out.push('[');
        out.push_str(inner);
        out.push(']');
    }
    Some(())
}

/// Everything up to `\E`, taken as it is.
fn literal(out: &mut String, chars: &mut Chars<'_>) {
    let mut held = String::new();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'E') {
            chars.next();
            break;
        }
        held.push(c);
    }
    out.push_str(&regex::escape(&held));
}

#[cfg(test)]
mod tests {
    use super::CompiledRegex;

    #[test]
    fn the_dialect_is_the_one_rules_are_written_in() {
        for (pattern, text, wanted) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^[\w.-]+$", "a-b.c", true),
            (r"^[^\W]+$", "ab", true),
            (r"a{,3}", "a{,3}", true),
            (r"^a{2}$", "aa", true),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"[[a]", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"\bword\b", "a word", true),
            (r"(?i)ABC", "abc", true),
            (r"[&&a]", "&", true),
            (r"^a*?$", "aa", true),
            (r"^a{1,2}?b+$", "aabb", true),
            (r"^(?:ab)?$", "ab", true),
            (r"^(?P<n>a)+$", "aa", true),
        ] {
            let found = CompiledRegex::written(pattern).expect(pattern);
            assert_eq!(found.0.is_match(text), wanted, "{pattern} on {text}");
        }
        for bad in [")", "(", "a**", "[", r"\", r"\C", "(?=a)", "a{1001}", "x++", "(a{1000}){1000}"]
        {
            assert!(CompiledRegex::written(bad).is_none(), "{bad}");
        }
    }
}
