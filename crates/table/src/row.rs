//! One object on its way into a row: short reads that never fail.

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{self, NAME};
use crate::{Column, Printer, age};

/// An object and the time it is shown at.
pub(crate) struct RowInput<'a> {
    /// The object.
    pub(crate) object: &'a Object,
    /// The time.
    pub(crate) now: Timestamp,
    /// Whether members have the names that `events.k8s.io` gives them.
    pub(crate) events_group: bool,
}

impl<'a> RowInput<'a> {
    /// The object's name.
    pub(crate) fn name(&self) -> &'a str {
        self.object.name()
    }

    /// The time since creation.
    pub(crate) fn age(&self) -> String {
        self.since(&["metadata", "creationTimestamp"])
    }

    /// The time since the time at a path.
    pub(crate) fn since(&self, path: &[&str]) -> String {
        age::since(self.object.str_at(path), self.now)
    }

    /// The text at a path, or empty.
    pub(crate) fn text(&self, path: &[&str]) -> &'a str {
        self.object.str_at(path).unwrap_or_default()
    }

    /// The text at a path, or what stands for an absent one; an empty text stays empty.
    pub(crate) fn text_or(&self, path: &[&str], absent: &'a str) -> &'a str {
        self.object.str_at(path).unwrap_or(absent)
    }

    /// The text at a path, or what stands for an absent or empty one.
    pub(crate) fn filled(&self, path: &[&str], empty: &'a str) -> &'a str {
        self.object.str_at(path).filter(|text| !text.is_empty()).unwrap_or(empty)
    }

    /// The number at a path, or 0.
    pub(crate) fn int(&self, path: &[&str]) -> i64 {
        self.object.int_at(path).unwrap_or_default()
    }

    /// The truth at a path, or what stands for an absent one.
    pub(crate) fn truth(&self, path: &[&str], absent: bool) -> bool {
        self.object.bool_at(path).unwrap_or(absent)
    }

    /// How many members or items the map or list at a path has.
    pub(crate) fn count(&self, path: &[&str]) -> usize {
        match self.object.at(path) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// The objects in the list at a path.
    pub(crate) fn items(&self, path: &[&str]) -> impl DoubleEndedIterator<Item = &'a Object> {
        self.object.list_at(path).iter().filter_map(Value::as_object)
    }

    /// The texts in the list at a path.
    pub(crate) fn texts(&self, path: &[&str]) -> Vec<&'a str> {
        self.object.list_at(path).iter().filter_map(Value::as_str).collect()
    }

    /// Whether the object is being deleted.
    pub(crate) fn deleted(&self) -> bool {
        self.object.str_at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// An annotation's value.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.object.str_at(&["metadata", "annotations", key])
    }

    /// The first status condition of a type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&'a Object> {
        self.items(&["status", "conditions"]).find(|c| c.str_at(&["type"]) == Some(kind))
    }

    /// Whether the first status condition of a type is true.
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|c| c.str_at(&["status"]) == Some("True"))
    }

    /// Names and images of the containers at a path, each on one line.
    pub(crate) fn containers(&self, path: &[&str]) -> [Value; 2] {
        ["name", "image"].map(|member| {
            let texts: Vec<_> =
                self.items(path).map(|c| c.str_at(&[member]).unwrap_or_default()).collect();
            texts.join(",").into()
        })
    }
}

/// A quantity or number as text; 0 for an absent one, as an unset quantity is zero.
pub(crate) fn quantity(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "0".to_owned(),
    }
}

/// Up to three items, and how many more there are.
pub(crate) fn first_three(items: &[String], empty: &str) -> String {
    let shown = items.get(..3).unwrap_or(items);
    let text = shown.join(",");
    match items.len() - shown.len() {
        0 if text.is_empty() => empty.to_owned(),
        0 => text,
        more => format!("{text} + {more} more..."),
    }
}

/// What kinds without a printer show.
pub(crate) static DEFAULT: Printer = Printer { columns: DEFAULT_COLUMNS, cells: default_cells };

static DEFAULT_COLUMNS: &[Column] = &[NAME, column::date("Created At", "When it was created")];

fn default_cells(row: &RowInput<'_>) -> Vec<Value> {
    // Upstream prints the zero time for an object without one.
    let created = row.text_or(&["metadata", "creationTimestamp"], "0001-01-01T00:00:00Z");
    vec![json!(row.name()), json!(created)]
}
