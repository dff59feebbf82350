//! One step of a field path, as FieldsV1 writes it.
//!
//! ```text
//!   f:name              a member of a map or struct
//!   k:{"name":"x"}      an item of a list, by its keys
//!   v:"x"               a value of a set
//!   i:0                 a place in a list
//! ```
//!
//! A step is kept in this one canonical text, so comparing steps is comparing text.

use serde_json::Value;
use tenure_machinery::Object;

use crate::schema::{ListRule, MergeSchema};

/// The step to a member of a map or struct.
#[must_use]
pub fn field(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text
}

/// The step to an item of a list, if the list divides into parts and the item has what tells it apart.
pub(crate) fn item<S: MergeSchema>(schema: &S, list: S::Node, item: &Value) -> Option<String> {
    match (schema.list(list), item) {
        (ListRule::Set, Value::Object(_) | Value::Array(_) | Value::Null)
        | (ListRule::Atomic, _) => None,
        (ListRule::Set, value) => {
            let mut text = String::from("v:");
            write(value, &mut text);
            Some(text)
        }
        (ListRule::Keys(keys), Value::Object(map)) => {
            let defaults = schema.item(list);
            let mut found = Vec::with_capacity(2);
            for key in keys.iter() {
                let value = map.get(key).map(std::borrow::Cow::Borrowed);
                let value = value
                    .or_else(|| schema.key_default(defaults, key).map(std::borrow::Cow::Owned));
                if let Some(value) = value {
                    found.push((key, value));
                }
            }
            if found.is_empty() {
                return None;
            }
            found.sort_unstable_by_key(|(key, _)| *key);
            let mut text = String::with_capacity(32);
            text.push_str("k:{");
            for (at, (key, value)) in found.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_text(key, &mut text);
                text.push(':');
                write(value, &mut text);
            }
            text.push('}');
            Some(text)
        }
        (ListRule::Keys(_), _) => None,
    }
}

/// What reading a step can come to besides the step.
pub(crate) enum PathElementError {
    /// A kind of step of some later version: to be ignored.
    Unknown,
    /// Not a step at all.
    Malformed,
}

/// Reads a step and gives its canonical text.
pub(crate) fn read(text: &str) -> Result<String, PathElementError> {
    let (kind, rest) = text.split_at_checked(2).ok_or(PathElementError::Malformed)?;
    match kind {
        "f:" => Ok(text.to_owned()),
        "k:" => {
            let keys: Object =
                serde_json::from_str(rest).map_err(|_| PathElementError::Malformed)?;
            Ok(canonical(kind, &Value::Object(keys)))
        }
        "v:" => {
            let value: Value =
                serde_json::from_str(rest).map_err(|_| PathElementError::Malformed)?;
            Ok(canonical(kind, &value))
        }
        "i:" => {
            let at: i64 = rest.parse().map_err(|_| PathElementError::Malformed)?;
            Ok(format!("i:{at}"))
        }
        kind if kind.ends_with(':') => Err(PathElementError::Unknown),
        _ => Err(PathElementError::Malformed),
    }
}

fn canonical(kind: &str, value: &Value) -> String {
    let mut text = kind.to_owned();
    write(value, &mut text);
    text
}

/// Writes compact JSON with the characters escaped that upstream escapes.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_text(text, out),
        other => escape(&other.to_string(), out),
    }
}

fn write_text(text: &str, out: &mut String) {
    let plain = |byte: u8| byte.is_ascii_graphic() && !br#""\<>&"#.contains(&byte);
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        escape(&Value::from(text).to_string(), out);
    }
}

fn escape(json: &str, out: &mut String) {
    for letter in json.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            letter => out.push(letter),
        }
    }
}

/// The step as people read it: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
#[must_use]
pub fn shown(text: &str) -> String {
    let Some((kind, rest)) = text.split_at_checked(2) else { return String::new() };
    match kind {
        "f:" => format!(".{rest}"),
        "k:" => {
            let keys = serde_json::from_str::<Object>(rest).unwrap_or_default();
            let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        "v:" => format!("[={rest}]"),
        _ => format!("[{rest}]"),
    }
}
