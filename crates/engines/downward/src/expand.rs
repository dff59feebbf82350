//! `$(NAME)` in values, commands and paths replaced by what the name stands for (R61c, R61e, R61f).

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Replaces each `$(NAME)` that `lookup` knows; `$$` is a dollar, everything else stays. What was
/// put in is not looked at again.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a [u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    walk(text, |piece| match piece {
        ExpansionPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
        ExpansionPiece::Name(name) => match lookup(name) {
            Some(value) => out.extend_from_slice(value),
            None => {
                out.extend_from_slice(b"$(");
                out.extend_from_slice(name.as_bytes());
                out.push(b')');
            }
        },
    });
    out
}

/// Names that stand for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingValues(pub Vec<String>);

impl fmt::Display for MissingValues {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "missing value for {}", self.0.join(", "))
    }
}

impl core::error::Error for MissingValues {}

/// As [`expand`], but every name must stand for something that is not empty.
///
/// # Errors
/// Names that do not, in order.
pub fn expand_strict<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<Vec<u8>, MissingValues> {
    let mut missing = BTreeSet::new();
    walk(text, |piece| {
        if let ExpansionPiece::Name(name) = piece
            && lookup(name).is_none_or(<[u8]>::is_empty)
        {
            missing.insert(String::from(name));
        }
    });
    if missing.is_empty() {
        Ok(expand(text, lookup))
    } else {
        Err(MissingValues(missing.into_iter().collect()))
    }
}

enum ExpansionPiece<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn walk<'a>(text: &'a str, mut each: impl FnMut(ExpansionPiece<'a>)) {
    let mut rest = text;
    // Once no bracket closes, none after it does: looking again would cost the square of the text.
    let mut closes = true;
    while let Some((before, after)) = rest.split_once('$') {
        each(ExpansionPiece::Text(before));
        if let Some(after) = after.strip_prefix('$') {
            each(ExpansionPiece::Text("$"));
            rest = after;
            continue;
        }
        let inside = after.strip_prefix('(').filter(|_| closes);
        match inside.map(|inside| inside.split_once(')')) {
            Some(Some((name, after))) => {
                each(ExpansionPiece::Name(name));
                rest = after;
            }
            nothing => {
                closes &= nothing.is_none();
                each(ExpansionPiece::Text("$"));
                rest = after;
            }
        }
    }
    each(ExpansionPiece::Text(rest));
}
