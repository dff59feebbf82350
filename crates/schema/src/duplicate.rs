//! Members that a JSON text gives twice. The parsed object no longer shows them.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::trail::ValuePath;

/// How many are told, as upstream does.
const TOLD: usize = 100;

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
    fn broken_and_hostile_texts_end_quietly() {
        assert_eq!(duplicate_fields(br#"{"a":1,"a":2,"#), ["a"]);
        assert!(duplicate_fields(b"").is_empty());
        let deep = "[".repeat(100_000);
        assert!(duplicate_fields(deep.as_bytes()).is_empty());
        let many: Vec<String> = (0..300).map(|n| format!(r#""m{n}":1,"m{n}":1"#)).collect();
        assert_eq!(duplicate_fields(format!("{{{}}}", many.join(",")).as_bytes()).len(), TOLD);
    }
}
