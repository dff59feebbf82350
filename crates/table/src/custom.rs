//! Columns that a custom resource definition declares, and the paths that find their cells.
//!
//! Paths are the plain part of JSONPath: members, quoted members, indices, `*`, and filters such as
//! `[?(@.type=="Ready")]`. Only the first value found is shown. No recursive descent.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{Column, NAME};
use crate::{age, column};

/// The columns of one version of a custom kind.
#[derive(Clone, Debug)]
pub struct CustomColumns {
    columns: Vec<Column>,
    paths: Vec<Option<Vec<JsonPathSegment>>>,
}

#[derive(Clone, Debug, PartialEq)]
enum JsonPathSegment {
    Member(String),
    Index(i64),
    All,
    /// Items where a path leads to something, compared with a value if there is one.
    Filter(Vec<JsonPathSegment>, Option<(bool, Value)>),
}

impl CustomColumns {
    /// Reads `additionalPrinterColumns`; without any, the age is shown.
    #[must_use]
    pub fn new(definitions: &[Value]) -> Self {
        let mut this = Self { columns: vec![NAME], paths: Vec::new() };
        if definitions.is_empty() {
            this.columns.push(column::date("Age", "Time since the object was created"));
            this.paths.push(parse(".metadata.creationTimestamp"));
        }
        for definition in definitions.iter().filter_map(Value::as_object) {
            let text = |member| definition.str_at(&[member]).unwrap_or_default().to_owned();
            let path = text("jsonPath");
            let description = match text("description") {
                empty if empty.is_empty() => format!("Value at {path}"),
                description => description,
            };
            this.columns.push(Column {
                name: Cow::Owned(text("name")),
                kind: Cow::Owned(text("type")),
                format: Cow::Owned(text("format")),
                description: Cow::Owned(description),
                priority: definition
                    .int_at(&["priority"])
                    .and_then(|priority| i32::try_from(priority).ok())
                    .unwrap_or_default(),
            });
            this.paths.push(parse(&path));
        }
        this
    }

    /// The columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of one object; null where a path finds nothing.
    #[must_use]
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let values = self.columns.iter().skip(1).zip(&self.paths).map(|(column, path)| {
            path.as_deref()
                .and_then(|path| find_in(object, path))
                .map_or(Value::Null, |value| cell(&column.kind, value, now))
        });
        std::iter::once(json!(object.name())).chain(values).collect()
    }
}

/// A value in the form its column wants; null when it has another type.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) => value.clone(),
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => json!(integer),
            #[expect(clippy::cast_possible_truncation, reason = "fractions are cut off on purpose")]
            (None, Some(float)) => json!(float as i64),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) if text.is_empty() => json!(age::since(None, now)),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => json!(age::since(Some(text), now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}

fn find_in<'a>(object: &'a Object, path: &[JsonPathSegment]) -> Option<&'a Value> {
    match path.split_first()? {
        (JsonPathSegment::Member(name), rest) => find(object.get(name)?, rest),
        (JsonPathSegment::All, rest) => object.values().find_map(|value| find(value, rest)),
        _ => None,
    }
}

fn find<'a>(value: &'a Value, path: &[JsonPathSegment]) -> Option<&'a Value> {
    let Some((step, rest)) = path.split_first() else { return Some(value) };
    match (step, value) {
        (_, Value::Object(object)) => find_in(object, path),
        (JsonPathSegment::Index(index), Value::Array(items)) => {
            let from_end = usize::try_from(index.unsigned_abs()).ok()?;
            let at = if *index < 0 { items.len().checked_sub(from_end)? } else { from_end };
            find(items.get(at)?, rest)
        }
        (JsonPathSegment::All, Value::Array(items)) => {
            items.iter().find_map(|item| find(item, rest))
        }
        (JsonPathSegment::Filter(inner, wanted), Value::Array(items)) => items
            .iter()
            .filter(|item| match (find(item, inner), wanted) {
                (found, None) => found.is_some(),
                (found, Some((equal, wanted))) => found.is_some_and(|f| (f == wanted) == *equal),
            })
            .find_map(|item| find(item, rest)),
        _ => None,
    }
}

/// Reads a path; `None` when it is not of the plain kind.
fn parse(path: &str) -> Option<Vec<JsonPathSegment>> {
    let mut rest = path.trim().trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside)?,
            None => member(rest.strip_prefix('.')?)?,
        };
        steps.push(step);
        rest = after;
    }
    (!steps.is_empty()).then_some(steps)
}

/// A member name up to the next unescaped `.` or `[`; a backslash takes the next character as it is.
fn member(text: &str) -> Option<(JsonPathSegment, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    let mut end = text.len();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => {
                end = at;
                break;
            }
            '\\' => name.push(characters.next()?.1),
            _ => name.push(character),
        }
    }
    let step = if name == "*" { JsonPathSegment::All } else { JsonPathSegment::Member(name) };
    (step != JsonPathSegment::Member(String::new())).then_some((step, text.get(end..)?))
}

/// What stands in brackets, after the opening one.
fn bracket(text: &str) -> Option<(JsonPathSegment, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let (condition, rest) = filter.split_once(")]")?;
        return Some((self::filter(condition)?, rest));
    }
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = text.get(1..)?.split_once(quote)?;
        return Some((JsonPathSegment::Member(name.to_owned()), rest.strip_prefix(']')?));
    }
    let (inside, rest) = text.split_once(']')?;
    let step = if inside == "*" {
        JsonPathSegment::All
    } else {
        JsonPathSegment::Index(inside.trim().parse().ok()?)
    };
    Some((step, rest))
}

fn filter(condition: &str) -> Option<JsonPathSegment> {
    let equal = condition.split_once("==").map(|(left, right)| (left, right, true));
    let unequal = condition.split_once("!=").map(|(left, right)| (left, right, false));
    match equal.or(unequal) {
        None => Some(JsonPathSegment::Filter(parse(condition.trim().strip_prefix('@')?)?, None)),
        Some((left, right, equal)) => {
            let path = parse(left.trim().strip_prefix('@')?)?;
            let right = right.trim();
            let quoted = |quote| right.strip_prefix(quote)?.strip_suffix(quote);
            let value = match quoted('"').or_else(|| quoted('\'')) {
                Some(text) => json!(text),
                None => serde_json::from_str(right).ok()?,
            };
            Some(JsonPathSegment::Filter(path, Some((equal, value))))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    fn show(kind: &str, path: &str, object: &Value) -> Value {
        let now = "2024-01-01T00:02:03Z".parse().expect("a time");
        let definition = json!({"name": "X", "type": kind, "jsonPath": path});
        let columns = CustomColumns::new(&[definition]);
        columns.cells(object.as_object().expect("an object"), now).remove(1)
    }

    #[test]
    fn r127_without_columns_the_age_is_shown() {
        let now = "2024-01-01T00:02:03Z".parse().expect("a time");
        let columns = CustomColumns::new(&[]);
        let object =
            json!({"metadata": {"name": "w", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        assert_eq!(columns.columns()[1].kind, "date");
        let cells = columns.cells(object.as_object().expect("an object"), now);
        assert_eq!(cells, [json!("w"), json!("2m3s")]);
    }

    #[test]
    fn r127_cells_have_their_columns_types() {
        let object = json!({"spec": {"a": "1", "i": 7, "b": true, "l": ["p", "q"], "f": 2.5,
            "t": "2024-01-01T00:02:01Z", "c": [{"type": "A", "s": "x"}, {"type": "B", "s": "y"}],
            "x.y": "z"}});
        let table = [
            ("string", ".spec.a", json!("1")),
            ("string", ".spec.i", json!("7")),
            ("integer", ".spec.i", json!(7)),
            ("integer", ".spec.f", json!(2)),
            ("integer", ".spec.a", json!(null)),
            ("boolean", ".spec.b", json!(true)),
            ("string", ".spec.l", json!("[\"p\",\"q\"]")),
            ("string", ".spec.l[1]", json!("q")),
            ("string", ".spec.l[-1]", json!("q")),
            ("string", ".spec.o.x", json!(null)),
            ("date", ".spec.t", json!("2s")),
            ("date", ".spec.a", json!("<invalid>")),
            ("string", ".spec.c[?(@.type==\"B\")].s", json!("y")),
            ("string", ".spec.c[?(@.type!='B')].s", json!("x")),
            ("string", ".spec.c[*].s", json!("x")),
            ("string", ".spec['x.y']", json!("z")),
            ("string", ".spec.x\\.y", json!("z")),
            ("string", "not a path", json!(null)),
        ];
        for (kind, path, want) in table {
            assert_eq!(show(kind, path, &object), want, "{kind} {path}");
        }
    }
}
