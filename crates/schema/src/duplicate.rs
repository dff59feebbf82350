//! Members that a JSON text gives twice. The parsed object no longer shows them.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::trail::ValuePath;

/// How many are told, as upstream does.
const TOLD: usize = 100;

/// Reads a JSON text, and names the members that it gives twice; the last of each counts.
///
/// # Errors
/// The text is not JSON.
pub fn parse(json: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    let mut repeats = false;
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = ValueVisitor { repeats: &mut repeats }.deserialize(&mut reader)?;
    reader.end()?;
    // Most texts repeat nothing, so nobody has to remember where each member stands.
    let paths = if repeats { duplicate_fields(json) } else { Vec::new() };
    Ok((value, paths))
}

/// The paths of members that appear more than once in their object, in order and each once:
/// `data.k`, `spec.containers[0].name`. A text that is not JSON yields what was seen before the error.
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    members(json, &mut |at, again| {
        if !again || found.len() >= TOLD {
            return;
        }
        let path = at.to_string();
        if !found.contains(&path) {
            found.push(path);
        }
    });
    found
}

/// Shows every member in the order of the text: where it is, and whether its object had it before.
pub fn members(json: &[u8], see: &mut dyn FnMut(&dyn fmt::Display, bool)) {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let scan = DuplicateVisitor { at: &ValuePath::START, see };
    // The error itself is told by whoever parses the text for its content.
    let _ = scan.deserialize(&mut reader);
}

/// Makes the value of a text, as [`Value`] itself does, and notes whether an object has a member twice.
struct ValueVisitor<'a> {
    repeats: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(ValueVisitor { repeats: &mut *self.repeats })?;
            *self.repeats |= object.insert(name, value).is_some();
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) =
            items.next_element_seed(ValueVisitor { repeats: &mut *self.repeats })?
        {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

struct DuplicateVisitor<'a, 's> {
    at: &'a ValuePath<'a>,
    see: &'s mut dyn FnMut(&dyn fmt::Display, bool),
}

impl<'de> DeserializeSeed<'de> for DuplicateVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = MemberNames::Few(Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            let here = self.at.member(&name);
            (self.see)(&here, seen.has(&name));
            map.next_value_seed(DuplicateVisitor { at: &here, see: &mut *self.see })?;
            seen.add(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let here = self.at.item(index);
            let scan = DuplicateVisitor { at: &here, see: &mut *self.see };
            if items.next_element_seed(scan)?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The names of one object: most objects have few, and comparing is then quicker than hashing.
enum MemberNames {
    Few(Vec<String>),
    Many(HashSet<String>),
}

impl MemberNames {
    fn has(&self, name: &str) -> bool {
        match self {
            MemberNames::Few(names) => names.iter().any(|seen| seen == name),
            MemberNames::Many(names) => names.contains(name),
        }
    }

    fn add(&mut self, name: String) {
        match self {
            MemberNames::Few(names) if names.len() < 16 => names.push(name),
            MemberNames::Few(names) => {
                let mut many: HashSet<String> = names.drain(..).collect();
                many.insert(name);
                *self = MemberNames::Many(many);
            }
            MemberNames::Many(names) => {
                names.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_repeated_member_once() {
        let rows: [(&str, &[&str]); 7] = [
            ("{}", &[]),
            (r#"{"data":{"k":"1","k":"2"}}"#, &["data.k"]),
            (r#"{"data":{"k":"1"},"data":{"k":"2"}}"#, &["data"]),
            (r#"{"a":1,"a":2,"a":3}"#, &["a"]),
            (
                r#"{"spec":{"containers":[{"name":"a"},{"name":"b","name":"c"}]}}"#,
                &["spec.containers[1].name"],
            ),
            (r#"{"a":[[{"b":1,"b":2}]]}"#, &["a[0][0].b"]),
            (r#"{"a":1,"\u0061":null}"#, &["a"]),
        ];
        for (text, expected) in rows {
            assert_eq!(duplicate_fields(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_read_as_serde_json_reads_it() {
        for text in [
            "null",
            " [1, -2, 2.5, 18446744073709551615, 1e400] ",
            "1e400",
            r#"{"a":{"b":[true,"x\u0041",{}]},"c":""}"#,
            r#"{"a":1} x"#,
            r#"{"a":1,}"#,
            "",
            "{",
            "\"\\ud800\"",
        ] {
            let expected: Result<Value, String> =
                serde_json::from_str(text).map_err(|error| error.to_string());
            let found = parse(text.as_bytes()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(|value| (value, Vec::new())), "{text}");
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        let (value, repeated) = parse(br#"{"a":{"k":1,"k":2},"b":3}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": {"k": 2}, "b": 3}));
        assert_eq!(repeated, ["a.k"]);
    }

    #[test]
    fn broken_and_hostile_texts_end_quietly() {
        assert_eq!(duplicate_fields(br#"{"a":1,"a":2,"#), ["a"]);
        assert!(duplicate_fields(b"").is_empty());
        let deep = "[".repeat(100_000);
        assert!(duplicate_fields(deep.as_bytes()).is_empty());
        let many: Vec<String> = (0..300).map(|n| format!(r#""m{n}":1,"m{n}":1"#)).collect();
        assert_eq!(duplicate_fields(format!("{{{}}}", many.join(",")).as_bytes()).len(), TOLD);
    }
}
