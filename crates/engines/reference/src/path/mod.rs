//! The path dialect (spec section 3): where in an origin the names of targets are.
//!
//! ```text
//!   text ──► parse ──► Path ──► evaluate(object) ──► nodes, each with its parent
//!                       └ text as it is read, warnings, whether it is singular
//! ```
//!
//! RFC 9535 without descendants and functions, with the spellings kubectl users are used to. Evaluating
//! never fails on an object: what does not fit gives nothing, and what would take too long says so.

mod evaluate;
mod parse;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::{Number, Value};
use smallvec::SmallVec;

pub use evaluate::{Overflow, PathMatch};
pub(crate) use evaluate::{VisitBudget, member};

/// The longest path, in bytes (R72).
pub const BYTES_MAX: usize = 1024;
/// The most segments of a path, filters included (R72).
pub const SEGMENTS_MAX: usize = 32;
/// The most comparisons and tests in the filters of a path (R72).
pub const TERMS_MAX: usize = 16;
/// How deep filters may stand in one another.
pub const FILTER_DEPTH_MAX: usize = 2;
/// The most results of a path in one object (R72).
pub const RESULTS_MAX: usize = 8_192;
/// The most nodes of one object a path may look at (R72).
pub const VISITED_MAX: usize = 100_000;

/// A path that parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    start: Start,
    segments: Vec<PathStep>,
    warnings: Vec<Warning>,
}

impl JsonPath {
    /// Reads the path of a reference or of a class; it starts at the object.
    ///
    /// # Errors
    /// Where the text stops being a path, and what was expected there (R23).
    pub fn parse(text: &str) -> Result<JsonPath, JsonPathError> {
        parse::parse(text, false)
    }

    /// Reads a `namespacePath`: `@…` starts beside the name, `$…` at the object (R78).
    ///
    /// # Errors
    /// As [`JsonPath::parse`]; one that may yield several values is refused as well.
    pub fn parse_relative(text: &str) -> Result<JsonPath, JsonPathError> {
        let path = parse::parse(text, true)?;
        if !path.is_singular() {
            return Err(JsonPathError { offset: 0, expected: "a path that yields one value" });
        }
        Ok(path)
    }

    /// The path as it is read: without wrapping braces and extra brackets (R71).
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it yields one value at most: no wildcard, filter, slice or union (R24).
    #[must_use]
    pub fn is_singular(&self) -> bool {
        self.segments.iter().all(PathStep::is_singular)
    }

    /// What its author should know (R33, R41).
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Every node of the object the path leads to, in the order of the object.
    ///
    /// # Errors
    /// When the object would take more than [`VISITED_MAX`] nodes or yield more than [`RESULTS_MAX`].
    pub fn evaluate<'v>(&self, object: &'v Value) -> Result<Vec<PathMatch<'v>>, Overflow> {
        self.found(object).map(SmallVec::into_vec)
    }

    /// As [`JsonPath::evaluate`], without an allocation where there are few.
    pub(crate) fn found<'v>(
        &self,
        object: &'v Value,
    ) -> Result<SmallVec<[PathMatch<'v>; 8]>, Overflow> {
        let mut found = SmallVec::new();
        self.visit(object, object, &mut VisitBudget::new(), &mut |node| {
            if found.len() >= RESULTS_MAX {
                return Err(Overflow::Results);
            }
            found.push(node);
            Ok(())
        })?;
        Ok(found)
    }
}

/// Where a path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// `$`: the object.
    Root,
    /// `@`: the element of a filter, or the parent of a name.
    Current,
}

/// One step down: all selectors of one bracket, or one member.
#[derive(Clone, Debug, PartialEq)]
struct PathStep {
    selectors: Vec<Selector>,
}

impl PathStep {
    fn is_singular(&self) -> bool {
        matches!(self.selectors.as_slice(), [Selector::Member(_) | Selector::Index(_)])
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Selector {
    Member(Box<str>),
    Wildcard,
    Index(i64),
    Slice { from: Option<i64>, to: Option<i64>, step: i64 },
    Filter(Box<Test>),
}

/// A condition in a filter.
#[derive(Clone, Debug, PartialEq)]
enum Test {
    Any(Vec<Test>),
    All(Vec<Test>),
    Not(Box<Test>),
    /// Whether the query yields anything.
    Exists(FilterQuery),
    Compare(Comparable, Operator, Comparable),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Comparable {
    Text(Box<str>),
    Number(Number),
    Bool(bool),
    Null,
    /// A singular query: its value, or nothing.
    Query(FilterQuery),
}

/// A path inside a filter.
#[derive(Clone, Debug, PartialEq)]
struct FilterQuery {
    start: Start,
    segments: Vec<PathStep>,
}

impl FilterQuery {
    /// The member of the current value that this asks for, if it asks for no more.
    fn own_member(&self) -> Option<&str> {
        match (self.start, self.segments.as_slice()) {
            (Start::Current, [segment]) => match segment.selectors.as_slice() {
                [Selector::Member(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_singular(&self) -> bool {
        self.segments.iter().all(PathStep::is_singular)
    }
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPathError {
    /// The byte at which it stops being one.
    pub offset: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl fmt::Display for JsonPathError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at byte {}: expected {}", self.offset, self.expected)
    }
}

impl core::error::Error for JsonPathError {}

/// What the author of a path should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The text has `[[?(`; it is read as this (R33).
    ExtraBracket {
        /// The path as it is read.
        read_as: String,
    },
    /// A filter has `!=` on a member whose existence it does not test (R41).
    MissingMatches {
        /// The member, as it was written.
        member: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::ExtraBracket { read_as } => {
                write!(out, "the path has an extra `[`; it is read as `{read_as}`")
            }
            Warning::MissingMatches { member } => {
                write!(out, "`{member} != …` also matches elements that lack it (RFC 9535)")
            }
        }
    }
}
