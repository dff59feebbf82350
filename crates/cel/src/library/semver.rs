//! Semantic versions.

use core::cmp::Ordering;
use std::sync::Arc;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

type Made<'a> = Result<Value<'a>, EvalError>;

/// A version; what follows a plus sign is read and forgotten, since it orders nothing.
#[derive(Debug)]
pub struct SemanticVersion {
    numbers: [u64; 3],
    before_release: Vec<PrereleaseIdentifier>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleaseIdentifier {
    // Numbers come before words, so they stand first.
    Number(u64),
    Word(String),
}

/// No version needs more characters.
const LENGTH_MAX: usize = 1024;

impl SemanticVersion {
    fn read(text: &str) -> Option<SemanticVersion> {
        if text.len() > LENGTH_MAX {
            return None;
        }
        let (rest, build) = match text.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (text, None),
        };
        let (numbers, before) = match rest.split_once('-') {
            Some((numbers, before)) => (numbers, Some(before)),
            None => (rest, None),
        };
        let mut parts = numbers.split('.').map(plain_number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        if parts.next().is_some() {
            return None;
        }
        let words_fit = |text: &str| text.split('.').all(is_word);
        if build.is_some_and(|build| !words_fit(build)) {
            return None;
        }
        let before_release = match before {
            Some(before) => before.split('.').map(part).collect::<Option<Vec<_>>>()?,
            None => vec![],
        };
        Some(SemanticVersion { numbers, before_release })
    }

    /// Reads `v1`, `1.2` and `01.2.3` too.
    fn read_loosely(text: &str) -> Option<SemanticVersion> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        SemanticVersion::read(&parts.join("."))
    }

    /// The order of versions; a version before release comes before the release.
    pub(crate) fn compare(&self, other: &SemanticVersion) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.before_release.is_empty(), other.before_release.is_empty()) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.before_release.cmp(&other.before_release),
            }
        })
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        trimmed.to_owned()
    } else {
        format!("0{trimmed}")
    }
}

fn plain_number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (plain && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok())?
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn part(text: &str) -> Option<PrereleaseIdentifier> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return plain_number(text).map(PrereleaseIdentifier::Number);
    }
    is_word(text).then(|| PrereleaseIdentifier::Word(text.to_owned()))
}

fn read(args: &[Value<'_>]) -> Result<Option<SemanticVersion>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(SemanticVersion::read(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(SemanticVersion::read_loosely(text)),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn to_semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    read(args)?
        .map(|version| Value::Semver(Arc::new(version)))
        .ok_or_else(|| EvalError::failed("no semantic version"))
}

pub(crate) fn is_semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    Ok(Value::Bool(read(args)?.is_some()))
}

fn number<'a>(args: &[Value<'a>], which: usize) -> Made<'a> {
    match args {
        [Value::Semver(version)] => {
            let number = version.numbers.get(which).copied().unwrap_or_default();
            Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(crate) fn major<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    number(args, 0)
}

pub(crate) fn minor<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    number(args, 1)
}

pub(crate) fn patch<'a>(_: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    number(args, 2)
}
