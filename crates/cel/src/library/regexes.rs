//! Regular expressions, in the dialect rules are written in: classes such as `\d` mean ASCII.
//!
//! Matching takes time linear in the text. Compiling is bounded by a size limit, which is smaller for
//! patterns made while running, since those are compiled again for every request.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Text, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern(Regex);

/// The size of a pattern that stands in the rule itself.
const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// The size of a pattern made while running.
const MADE_BYTES_MAX: usize = 1 << 17;
/// How many patterns made while running are kept.
const KEPT_MAX: usize = 32;

impl Pattern {
    /// Compiles a pattern that stands in a rule.
    pub(crate) fn written(text: &str) -> Option<Pattern> {
        Pattern::compile(text, WRITTEN_BYTES_MAX)
    }

    fn compile(text: &str, bytes: usize) -> Option<Pattern> {
        let built = RegexBuilder::new(&translate(text)?)
            .size_limit(bytes)
            .dfa_size_limit(bytes)
            .nest_limit(100)
            .build();
        built.ok().map(Pattern)
    }
}

/// The pattern of a call: kept from an earlier one, or compiled and paid for.
fn pattern(meter: &mut Meter, text: &Text<'_>) -> Result<Arc<Pattern>, EvalError> {
    if let Some((_, kept)) = meter.patterns.iter().find(|(known, _)| **known == **text) {
        return Ok(kept.clone());
    }
    // Compiling is the costly part: about a microsecond for each character, more for repeats.
    meter.charge((text.len() as u64).saturating_mul(20).saturating_add(500))?;
    let made = Pattern::compile(text, MADE_BYTES_MAX).map(Arc::new);
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
            run_matches(&pattern, text)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_matches<'a>(pattern: &Pattern, text: &str) -> Made<'a> {
    Ok(Value::Bool(pattern.0.is_match(text)))
}

pub(crate) fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(text), Value::String(wanted)] => {
            let pattern = pattern(meter, wanted)?;
            run_find(&pattern, text)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_find<'a>(pattern: &Pattern, text: &str) -> Made<'a> {
    Ok(Value::text(pattern.0.find(text).map_or("", |found| found.as_str())))
}

pub(crate) fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    match args {
        [Value::String(_), Value::String(wanted), ..] => {
            let pattern = pattern(meter, wanted)?;
            run_find_all(meter, &pattern, args)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn run_find_all<'a>(meter: &mut Meter, pattern: &Pattern, args: &[Value<'a>]) -> Made<'a> {
    let (text, most) = match args {
        [Value::String(text), _] => (text, -1),
        [Value::String(text), _, Value::Int(most)] => (text, *most),
        _ => return Err(EvalError::no_such_overload()),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut out = vec![];
    for found in pattern.0.find_iter(text).take(most) {
        meter.charge(1)?;
        out.push(Value::text(found.as_str()));
    }
    Ok(Value::list(out))
}

/// A call whose pattern was compiled with the rule.
pub(crate) fn run_written<'a>(
    meter: &mut Meter,
    name: &str,
    pattern: &Pattern,
    args: &[Value<'a>],
) -> Made<'a> {
    match (name, args) {
        ("matches", [Value::String(text), ..]) => run_matches(pattern, text),
        ("find", [Value::String(text), ..]) => run_find(pattern, text),
        ("findAll", _) => run_find_all(meter, pattern, args),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// The same pattern in the words of the `regex` crate; `None` when it has no such words.
fn translate(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escaped(&mut out, &mut chars, in_class)?,
            '[' if in_class => {
                // Only `[:alpha:]` opens anything inside a class.
                out.push_str(if chars.peek() == Some(&':') { "[" } else { "\\[" });
                if chars.peek() == Some(&':') {
                    for c in chars.by_ref() {
                        out.push(c);
                        if c == ']' {
                            break;
                        }
                    }
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', c]),
            '{' if !in_class && !repeats(chars.clone()) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    Some(out)
}

/// Whether what follows a brace makes it a repetition.
fn repeats(rest: impl Iterator<Item = char>) -> bool {
    let body: String = rest.take_while(|c| *c != '}').take(12).collect();
    let (low, high) = body.split_once(',').unwrap_or((&body, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

fn escaped(
    out: &mut String,
    chars: &mut core::iter::Peekable<core::str::Chars<'_>>,
    in_class: bool,
) -> Option<()> {
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
fn literal(out: &mut String, chars: &mut core::iter::Peekable<core::str::Chars<'_>>) {
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
    use super::Pattern;

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
        ] {
            let found = Pattern::written(pattern).expect(pattern);
            assert_eq!(found.0.is_match(text), wanted, "{pattern} on {text}");
        }
        for bad in [")", "(", "a**", "[", r"\", r"\C", "(?=a)", "a{1001}{1001}{1001}"] {
            assert!(Pattern::written(bad).is_none(), "{bad}");
        }
    }
}
