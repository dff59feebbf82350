//! From an object to the references in it (spec 3.1): what a path finds, made into names and namespaces.
//!
//! ```text
//!   value ──► string: the name; the namespace is beside it, if the member is called `name`
//!         ──► object: its name and namespace, if group and kind fit the declared target
//!         ──► anything else: dropped
//! ```
//!
//! Nothing here fails a write: what does not fit is dropped and counted, what is too much is reported.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::key::{ONES, zeros};
use crate::model::{Class, Finder, ReferencePath};
use crate::path::{JsonPath, Overflow, PathMatch, RESULTS_MAX, member};

/// What all expressions together may cost in one object, in the units of CEL: commits wait for them (R79).
pub const OBJECT_COST_MAX: u64 = 100_000;

/// Evaluates expressions for the engine (R79).
pub trait Expressions {
    /// The value of an expression over `self`, as JSON. What it costs is taken from `units`.
    ///
    /// # Errors
    /// What went wrong, in words for the object's author.
    fn evaluate(&self, expression: &str, object: &Value, units: &mut u64) -> Result<Value, String>;
}

/// The evaluation of the expressions of one object.
pub(crate) struct Evaluation<'e> {
    expressions: &'e dyn Expressions,
    /// What is left for it.
    units: u64,
}

impl<'e> Evaluation<'e> {
    pub(crate) fn new(expressions: &'e dyn Expressions) -> Evaluation<'e> {
        Evaluation { expressions, units: OBJECT_COST_MAX }
    }

    fn evaluate(&mut self, expression: &str, object: &Value) -> Result<Value, String> {
        if self.units == 0 {
            return Err("the expressions before it have cost what one object may cost".into());
        }
        self.expressions.evaluate(expression, object, &mut self.units)
    }
}

/// No expression can be evaluated: references found by one do not exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExpressions;

impl Expressions for NoExpressions {
    fn evaluate(&self, _: &str, _: &Value, _: &mut u64) -> Result<Value, String> {
        Err("expressions are not evaluated here".into())
    }
}

/// Why a result of a path is no reference (R74 to R76, R52, R53).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Neither a text nor an object with a name.
    NotAName,
    /// The name cannot be a part of a path in a URL, or is too long.
    InvalidName,
    /// The namespace is no DNS label.
    InvalidNamespace,
    /// The object names another group or kind than the strategy declares.
    OtherKind,
    /// The origin has no namespace, and the reference names none.
    NoNamespace,
    /// The target has no namespace, and the strategy does not allow that.
    ClusterScopedTarget,
}

impl Dropped {
    /// Every reason, with its label in metrics.
    pub const ALL: [(Dropped, &str); 6] = [
        (Dropped::NotAName, "not_a_name"),
        (Dropped::InvalidName, "invalid_name"),
        (Dropped::InvalidNamespace, "invalid_namespace"),
        (Dropped::OtherKind, "other_kind"),
        (Dropped::NoNamespace, "no_namespace"),
        (Dropped::ClusterScopedTarget, "cluster_scoped_target"),
    ];
}

/// Why a path gave nothing for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The object is too large for the path: Event `ReferenceLimitExceeded` (R72).
    TooMuch(Overflow),
    /// The expression failed (R79).
    Expression(String),
}

/// What is known of the declared target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetType<'a> {
    pub(crate) namespaced: bool,
    pub(crate) kind: &'a str,
}

/// A reference: the name and the namespace of a target; the namespace of one without is empty.
pub(crate) type Sink<'s> = dyn FnMut(&str, &str) + 's;

/// Hands every reference that a path finds in an object to `keep`, and every other result to `drop`.
pub(crate) fn references(
    path: &ReferencePath,
    target: TargetType<'_>,
    origin_namespace: &str,
    object: &Value,
    evaluation: &mut Evaluation<'_>,
    keep: &mut Sink<'_>,
    drop: &mut dyn FnMut(Dropped),
) -> Result<(), Failed> {
    let origin_namespace = (origin_namespace, is_label(origin_namespace));
    let mut raw = |result: Result<(&str, &str), Dropped>| {
        let placed = result.and_then(|(name, namespace)| {
            place(name, namespace, origin_namespace, target, path.allow_cluster_scoped)
        });
        match placed {
            Ok((name, namespace)) => keep(name, namespace),
            Err(reason) => drop(reason),
        }
    };
    match &path.finder {
        Finder::Path(finder) => {
            // All of them before the first: on overflow there must be none (R72).
            for found in finder.found(object).map_err(Failed::TooMuch)? {
                raw(from_found(found, path, target, object));
            }
        }
        Finder::Expression(expression) => {
            let value = evaluation.evaluate(expression, object).map_err(Failed::Expression)?;
            for result in flattened(&value)? {
                raw(from_result(result));
            }
        }
    }
    Ok(())
}

/// R74, R78: a node of the object as a name and a namespace.
fn from_found<'v>(
    found: PathMatch<'v>,
    path: &ReferencePath,
    target: TargetType<'_>,
    root: &'v Value,
) -> Result<(&'v str, &'v str), Dropped> {
    let (name, beside, has_sibling) = match found.value {
        Value::String(name) => (name.as_str(), found.parent, found.is_name),
        Value::Object(_) if fits(found.value, path, target) => {
            let name = found.value.get("name").and_then(Value::as_str);
            (name.ok_or(Dropped::NotAName)?, Some(found.value), true)
        }
        Value::Object(_) => return Err(Dropped::OtherKind),
        _ => return Err(Dropped::NotAName),
    };
    let namespace = match &path.namespace_path {
        Some(path) => beside.and_then(|beside| path.single(root, beside)),
        None => beside
            .filter(|_| has_sibling)
            .and_then(|beside| member(beside.as_object()?, "namespace")),
    };
    Ok((name, namespace.and_then(Value::as_str).unwrap_or_default()))
}

/// Whether what an object says of its group and kind fits the declared target (R74).
fn fits(reference: &Value, path: &ReferencePath, target: TargetType<'_>) -> bool {
    let says = |member: &str, wanted: &str| match reference.get(member) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text == wanted,
        Some(_) => false,
    };
    let group = &path.target.group;
    says("group", group) && says("apiGroup", group) && says("kind", target.kind)
}

/// The results of an expression; a list in the list is opened once (R79).
fn flattened(value: &Value) -> Result<Vec<&Value>, Failed> {
    let Some(results) = value.as_array() else {
        return Err(Failed::Expression("the expression gives no list".into()));
    };
    let mut flat = Vec::new();
    for result in results {
        match result {
            Value::Array(inner) => flat.extend(inner),
            other => flat.push(other),
        }
        if flat.len() > RESULTS_MAX {
            return Err(Failed::TooMuch(Overflow::Results));
        }
    }
    Ok(flat)
}

fn from_result(result: &Value) -> Result<(&str, &str), Dropped> {
    let member = |name: &str| result.get(name).and_then(Value::as_str);
    match result {
        Value::String(name) => Ok((name, "")),
        Value::Object(_) => {
            Ok((member("name").ok_or(Dropped::NotAName)?, member("namespace").unwrap_or_default()))
        }
        _ => Err(Dropped::NotAName),
    }
}

/// Where a reference leads: the rules of namespaces (R52, R53, R75) and of names (R76).
///
/// Most references name no namespace: whether that of the origin is a label is known before.
fn place<'v>(
    name: &'v str,
    namespace: &'v str,
    origin_namespace: (&'v str, bool),
    target: TargetType<'_>,
    allow_cluster_scoped: bool,
) -> Result<(&'v str, &'v str), Dropped> {
    if !is_name(name) {
        return Err(Dropped::InvalidName);
    }
    if !target.namespaced {
        let allowed = allow_cluster_scoped.then_some((name, ""));
        return allowed.ok_or(Dropped::ClusterScopedTarget);
    }
    match (namespace, origin_namespace) {
        ("", (origin_namespace, true)) => Ok((name, origin_namespace)),
        ("", ("", _)) => Err(Dropped::NoNamespace),
        (_, _) if !is_label(namespace) => Err(Dropped::InvalidNamespace),
        (_, _) => Ok((name, namespace)),
    }
}

/// Whether a name can be a part of a path in a URL (R76).
#[must_use]
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    !matches!(name, "" | "." | "..") && bytes.len() <= NAME_MAX && !parts_paths(bytes)
}

/// Whether a slash or a percent sign is among bytes, of which eight are looked at together.
fn parts_paths(bytes: &[u8]) -> bool {
    let is_in = |word: u64, byte: u8| zeros(word ^ (u64::from(byte) * ONES)) != 0;
    let in_word = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        is_in(word, b'/') | is_in(word, b'%')
    };
    match bytes.last_chunk() {
        // The last word overlaps the one before.
        Some(last) => in_word(last) || bytes.as_chunks().0.iter().any(in_word),
        None => bytes.iter().any(|byte| matches!(byte, b'/' | b'%')),
    }
}

/// The longest name, and the longest class a consumer can name.
pub(crate) const NAME_MAX: usize = 253;

/// Whether a namespace is a DNS-1123 label.
pub(crate) fn is_label(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

/// The class of an object (R55).
///
/// One that is longer than a consumer can name is cut: only `*` accepts it, whatever it says.
pub(crate) fn class<'v>(path: Option<&JsonPath>, object: &'v Value) -> Class<'v> {
    let Some(path) = path else { return Class::Unpartitioned };
    match path.single(object, object).and_then(Value::as_str) {
        None | Some("") => Class::Unset,
        Some(class) if class.len() > NAME_MAX => {
            let end = (NAME_MAX + 1..class.len()).find(|end| class.is_char_boundary(*end));
            Class::Named(end.and_then(|end| class.get(..end)).unwrap_or(class))
        }
        Some(class) => Class::Named(class),
    }
}
