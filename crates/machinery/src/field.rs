//! Errors about fields: where, what kind, in which words.

use core::fmt;
use std::collections::BTreeSet;

/// Where in an object: `spec.containers[0].image`, `metadata.labels[a/b]`.
///
/// Paths borrow their parents, so building one on the way down costs nothing.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The object itself.
    Root,
    /// A member by name.
    Field(&'a Path<'a>, &'a str),
    /// A list item by position.
    Index(&'a Path<'a>, usize),
    /// A map entry by key, written in brackets.
    Key(&'a Path<'a>, &'a str),
}

impl Path<'_> {
    /// The member `name` of this place.
    #[must_use]
    pub fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path::Field(self, name)
    }
    /// The item at `index`.
    #[must_use]
    pub fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }
    /// The entry under `key`.
    #[must_use]
    pub fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(parent, name) => {
                parent.fmt(f)?;
                if !matches!(parent, Path::Root) {
                    f.write_str(".")?;
                }
                f.write_str(name)
            }
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// The `reason` of a cause, spelled as clients know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is the upstream reason without its prefix")]
pub enum Reason {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl Reason {
    /// As it stands in `details.causes[].reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::NotFound => "FieldValueNotFound",
            Reason::Required => "FieldValueRequired",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::Invalid => "FieldValueInvalid",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Its kind.
    pub reason: Reason,
    /// The sentence, without the field.
    pub message: String,
    /// The dotted path.
    pub field: String,
}

/// Everything wrong with one object, in the order found.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    causes: Vec<FieldError>,
    pace: CheckBudget,
}

/// How long a check may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CheckBudget {
    /// As long as it takes.
    #[default]
    Unhurried,
    /// Not long: a check that would take longer gives up.
    Hasty,
    /// It gave up, so nothing is known.
    GaveUp,
}

impl Errors {
    /// No errors yet.
    #[must_use]
    pub fn new() -> Errors {
        Errors::default()
    }
    /// No errors yet, for a check that may not take long.
    #[must_use]
    pub fn in_haste() -> Errors {
        Errors { pace: CheckBudget::Hasty, ..Errors::default() }
    }
    /// Whether a check that would take long should give up.
    #[must_use]
    pub fn is_hasty(&self) -> bool {
        self.pace != CheckBudget::Unhurried
    }
    /// Ends a check in haste without an answer; it must be made again with time.
    pub fn give_up(&mut self) {
        if self.pace == CheckBudget::Hasty {
            self.pace = CheckBudget::GaveUp;
        }
    }
    /// Whether the check gave up: then the causes say nothing.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.pace == CheckBudget::GaveUp
    }
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }
    /// All of it.
    #[must_use]
    pub fn into_causes(self) -> Vec<FieldError> {
        self.causes
    }
    /// All of it, borrowed.
    #[must_use]
    pub fn causes(&self) -> &[FieldError] {
        &self.causes
    }
    /// Drops what was found before in the same words.
    pub fn dedupe(&mut self) {
        let mut seen = BTreeSet::new();
        self.causes.retain(|cause| {
            seen.insert((cause.reason.as_str(), cause.field.clone(), cause.message.clone()))
        });
    }
    /// Adds what another check found.
    pub fn append(&mut self, mut other: Errors) {
        self.causes.append(&mut other.causes);
    }
    /// Adds causes between those that are there: each before the first one whose turn is later.
    pub fn merge<T: Ord>(&mut self, others: Vec<(T, FieldError)>, turn: impl Fn(&FieldError) -> T) {
        if others.is_empty() {
            return;
        }
        let mut others = others.into_iter().peekable();
        let mut merged = Vec::with_capacity(self.causes.len() + others.len());
        for cause in std::mem::take(&mut self.causes) {
            let turn = turn(&cause);
            while let Some((_, other)) = others.next_if(|(earlier, _)| *earlier < turn) {
                merged.push(other);
            }
            merged.push(cause);
        }
        merged.extend(others.map(|(_, other)| other));
        self.causes = merged;
    }
    /// Adds a cause in full.
    pub fn push(&mut self, reason: Reason, path: &Path<'_>, message: impl Into<String>) {
        self.causes.push(FieldError { reason, message: message.into(), field: path.to_string() });
    }
    /// The field must be set.
    pub fn required(&mut self, path: &Path<'_>, why: &str) {
        self.push(Reason::Required, path, join("Required value", why));
    }
    /// The value is wrong.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl fmt::Display, why: &str) {
        self.push(Reason::Invalid, path, format!("Invalid value: {value}: {why}"));
    }
    /// The value may not be set or changed.
    pub fn forbidden(&mut self, path: &Path<'_>, why: &str) {
        self.push(Reason::Forbidden, path, join("Forbidden", why));
    }
    /// The value is none of a closed set.
    pub fn not_supported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        self.push(
            Reason::NotSupported,
            path,
            format!("Unsupported value: {value:?}: supported values: {list}"),
        );
    }
    /// The value stands twice.
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl fmt::Display) {
        self.push(Reason::Duplicate, path, format!("Duplicate value: {value}"));
    }
    /// What the value names is not there.
    pub fn not_found(&mut self, path: &Path<'_>, value: impl fmt::Display) {
        self.push(Reason::NotFound, path, format!("Not found: {value}"));
    }
    /// The value has too many bytes.
    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.push(Reason::TooLong, path, format!("Too long: may not be more than {max} bytes"));
    }
    /// The list has too many items.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        self.push(
            Reason::TooMany,
            path,
            format!("Too many: {actual}: must have at most {max} items"),
        );
    }
}

fn join(head: &str, why: &str) -> String {
    if why.is_empty() { head.to_owned() } else { format!("{head}: {why}") }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r136g_causes_are_merged_by_turn() {
        let cause = |field: &str| FieldError {
            reason: Reason::Invalid,
            message: String::new(),
            field: field.to_owned(),
        };
        let mut errors = Errors::new();
        for field in ["a", "c", "b", "e"] {
            errors.required(&Path::Root.field(field), "");
        }
        let others = ["b", "c", "d", "f"].map(|field| (field.to_owned(), cause(field)));
        errors.merge(others.into(), |cause| cause.field.clone());
        let shown = |c: &FieldError| format!("{}{}", c.field, c.reason == Reason::Invalid);
        let found: Vec<String> = errors.causes().iter().map(shown).collect();
        assert_eq!(
            found,
            ["afalse", "btrue", "cfalse", "bfalse", "ctrue", "dtrue", "efalse", "ftrue"]
        );
    }
}
