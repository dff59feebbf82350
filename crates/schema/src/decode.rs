//! JSON → checked, pruned, normal form.
//!
//! ```text
//!   unknown members   dropped and reported
//!   null              as if absent; a null item or map value becomes the zero of its shape
//!   wrong types       refused, with a sentence that names the member
//!   zero values       left out or filled in, as the table says
//! ```
//!
//! Nothing here knows a kind; validation comes later and elsewhere.

use serde_json::Value;
use tenure_machinery::Object;

use crate::facts::{ApiType, Field, TypeId, ValueType, facts};
use crate::scalar;
use crate::trail::ValuePath;

/// What decoding noticed besides the object.
#[derive(Debug, Default)]
pub struct Noticed {
    /// Paths of members the type does not have (`spec.foo`, `spec.containers[0].bar`), in order; they are dropped.
    /// At most a hundred are told.
    pub unknown: Vec<String>,
}

/// A member of the wrong type: the request is answered 400.
#[derive(Debug)]
pub struct WrongType {
    /// The sentence, naming the field and what was expected.
    pub message: String,
}

/// How many unknown members are told, as upstream does.
const TOLD: usize = 100;

/// Deeper values are refused. JSON text cannot be this deep (its reader stops at 128 levels); what other
/// readers let through must not exhaust the stack.
const DEPTH: usize = 512;

/// Checks `object` against the type, drops unknown members and nulls, and brings the rest into the
/// form that the API writes (zero values left out or filled in as the table says).
pub fn decode(of: TypeId, object: &mut Object) -> Result<Noticed, WrongType> {
    let mut walk = JsonDecoder { noticed: Noticed::default(), silent: 0 };
    if let Some(of) = facts().get(of) {
        walk.members(of, object, &ValuePath::START)?;
    }
    Ok(walk.noticed)
}

/// Whether the type has every member of `object`, at every depth; looks and changes nothing. Values that
/// have a reader of their own are not looked into, as [`decode`] tells nothing of them.
#[must_use]
pub fn knows(of: TypeId, object: &Object) -> bool {
    knows_members(of, object, DEPTH)
}

fn knows_members(of: TypeId, object: &Object, depth: usize) -> bool {
    facts().get(of).is_none_or(|of| {
        object.iter().all(|(name, value)| {
            of.field(name).is_some_and(|field| knows_value(&field.shape, value, depth))
        })
    })
}

/// What is nested too deeply is not known: [`decode`] says why.
fn knows_value(shape: &ValueType, value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (shape, value) {
        (ValueType::Struct(id), Value::Object(inner)) => knows_members(*id, inner, depth),
        (ValueType::List(item), Value::Array(items)) => {
            items.iter().all(|inner| knows_value(item, inner, depth))
        }
        (ValueType::Map(each), Value::Object(entries)) => {
            entries.values().all(|inner| knows_value(each, inner, depth))
        }
        _ => true,
    }
}

struct JsonDecoder {
    noticed: Noticed,
    // Above zero inside values that upstream reads with a reader of their own: unknown members there are
    // dropped without a word.
    silent: usize,
}

impl JsonDecoder {
    fn members(
        &mut self,
        of: &ApiType,
        object: &mut Object,
        at: &ValuePath<'_>,
    ) -> Result<(), WrongType> {
        if at.depth() > DEPTH {
            return Err(WrongType { message: format!("{at}: nested too deeply") });
        }
        let begin = self.noticed.unknown.len();
        let (mut stray, mut refused) = (Vec::new(), Ok(()));
        object.retain(|name, value| {
            let Some(field) = of.field(name) else {
                stray.push(at.member(name).to_string());
                return false;
            };
            if value.is_null() || refused.is_err() {
                return false;
            }
            refused = self.value(field, &field.shape, value, &at.member(name));
            is_written(field, value)
        });
        refused?;
        self.tell(begin, stray);
        fill(of, object, at.depth());
        Ok(())
    }

    /// Members that stray stand before those that stray deeper below.
    fn tell(&mut self, begin: usize, stray: Vec<String>) {
        if self.silent == 0 && !stray.is_empty() {
            self.noticed.unknown.splice(begin..begin, stray);
            self.noticed.unknown.truncate(TOLD);
        }
    }

    fn value(
        &mut self,
        field: &Field,
        shape: &ValueType,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> Result<(), WrongType> {
        match (shape, value) {
            (ValueType::Struct(id), Value::Object(inner)) => match facts().get(*id) {
                Some(of) => self.members(of, inner, at),
                None => Ok(()),
            },
            (ValueType::List(item), Value::Array(items)) => {
                for (index, inner) in items.iter_mut().enumerate() {
                    self.inner(field, item, inner, &at.item(index))?;
                }
                Ok(())
            }
            (ValueType::Map(each), Value::Object(entries)) => {
                for (name, inner) in entries.iter_mut() {
                    self.inner(field, each, inner, &at.member(name))?;
                }
                Ok(())
            }
            (ValueType::Struct(_) | ValueType::Map(_), other) => Err(wrong(at, "an object", other)),
            (ValueType::List(_), other) => Err(wrong(at, "a list", other)),
            (ValueType::Any, inner) => match field.object.and_then(|id| facts().get(id)) {
                Some(of) => self.either(of, inner, at),
                None => Ok(()),
            },
            (_, inner) => {
                scalar::normal(shape, inner).map_err(|expected| wrong(at, expected, inner))
            }
        }
    }

    /// An item of a list or a value of a map: null stands for the zero of its shape.
    fn inner(
        &mut self,
        field: &Field,
        shape: &ValueType,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> Result<(), WrongType> {
        if value.is_null() {
            *value = zero_inside(shape, at.depth());
            return Ok(());
        }
        self.value(field, shape, value, at)
    }

    /// A value that is an object of the type, or a list of such objects, or something plain.
    fn either(
        &mut self,
        of: &ApiType,
        value: &mut Value,
        at: &ValuePath<'_>,
    ) -> Result<(), WrongType> {
        self.silent += 1;
        let done = match value {
            Value::Object(object) => self.members(of, object, at),
            Value::Array(items) => {
                items.iter_mut().enumerate().try_for_each(|(index, item)| match item {
                    Value::Object(object) => self.members(of, object, &at.item(index)),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        };
        self.silent -= 1;
        done
    }
}

fn wrong(at: &ValuePath<'_>, expected: &str, found: &Value) -> WrongType {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let message = if expected == found {
        format!("{at}: not {expected}")
    } else {
        format!("{at}: expected {expected}, found {found}")
    };
    WrongType { message }
}

/// Whether the value stays, now that it is in normal form.
fn is_written(field: &Field, value: &Value) -> bool {
    match value {
        // A time that upstream takes for unset; `fill` puts it back where it is written.
        Value::Null => false,
        // Storage upstream does not tell an empty list from none.
        Value::Array(items) if field.always && items.is_empty() => false,
        Value::Object(entries) if field.always && entries.is_empty() => {
            !matches!(field.shape, ValueType::Map(_))
        }
        _ => !(field.omit_zero && is_zero(value)),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(said) => !said,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// Writes the members that are written even when unset.
fn fill(of: &ApiType, object: &mut Object, depth: usize) {
    for field in of.fields.iter().filter(|field| field.always) {
        if !object.contains_key(field.json) {
            let value = if field.null { Value::Null } else { zero(&field.shape, depth + 1) };
            object.insert(field.json.to_owned(), value);
        }
    }
}

/// What the API writes for an unset value of the shape.
fn zero(shape: &ValueType, depth: usize) -> Value {
    match shape {
        ValueType::String => Value::String(String::new()),
        ValueType::Bool => Value::Bool(false),
        ValueType::Int32 | ValueType::Int64 | ValueType::Double | ValueType::IntOrString => {
            Value::from(0)
        }
        ValueType::Quantity => Value::String("0".to_owned()),
        ValueType::Struct(id) => {
            let mut object = Object::new();
            if let Some(of) = facts().get(*id)
                && depth <= DEPTH
            {
                fill(of, &mut object, depth);
            }
            Value::Object(object)
        }
        ValueType::Bytes
        | ValueType::Time
        | ValueType::MicroTime
        | ValueType::Any
        | ValueType::List(_)
        | ValueType::Map(_) => Value::Null,
    }
}

/// As [`zero`], but bytes inside a map are empty rather than null: storage cannot tell them apart.
fn zero_inside(shape: &ValueType, depth: usize) -> Value {
    match shape {
        ValueType::Bytes => Value::String(String::new()),
        _ => zero(shape, depth),
    }
}
