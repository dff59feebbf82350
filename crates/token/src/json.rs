//! JSON as tokens are read: no member twice, at any depth.
//!
//! Readers disagree on which of two equal members counts, and a token must mean one thing.

use core::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use tenure_machinery::Object;

/// The object in these bytes, or nothing if they hold anything else.
pub(crate) fn object(bytes: &[u8]) -> Option<Object> {
    match serde_json::from_slice(bytes) {
        Ok(Strict(Value::Object(object))) => Some(object),
        _ => None,
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated members")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member stands twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::object;

    #[test]
    fn a_member_that_stands_twice_is_refused_at_any_depth() {
        assert!(object(br#"{"a":1,"b":{"c":[{"d":1}]}}"#).is_some());
        assert!(object(br#"{"a":1,"a":1}"#).is_none());
        assert!(object(br#"{"b":{"c":[{"d":1,"d":2}]}}"#).is_none());
        assert!(object(br#"{"a":1,"\u0061":1}"#).is_none(), "an escaped name is the same name");
    }

    #[test]
    fn only_objects_are_read() {
        for text in ["", "null", "[]", "\"a\"", "1", "{} {}", "{", "\u{feff}{}"] {
            assert!(object(text.as_bytes()).is_none(), "{text:?}");
        }
        let deep = format!("{}{}", "{\"a\":".repeat(10_000), "1".to_owned() + &"}".repeat(10_000));
        assert!(object(deep.as_bytes()).is_none(), "depth is bounded");
    }
}
