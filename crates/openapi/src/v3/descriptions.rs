//! Sentences about types and their members, as `kubectl explain` shows them, by the names of descriptions.txt.
//!
//! ```text
//!   *                           members that mean the same in most types
//!    uid: …
//!   core.Volume < core.VolumeSource: …      a type, one that has its members too, and its sentence
//!    name: …                                a member and its sentence
//! ```
//!
//! A type is named by its group and kind, whatever its version. Which types there are never lives here.

use std::collections::HashMap;
use std::sync::LazyLock;

use tenure_schema::{ApiType, Field};

const TEXT: &str = include_str!("descriptions.txt");
/// What stands for any type.
const ANY: &str = "*";

static SENTENCES: LazyLock<Sentences> = LazyLock::new(|| Sentences::read(TEXT));

/// All sentences, by what they are about.
#[derive(Default)]
struct Sentences {
    types: HashMap<&'static str, DescribedType>,
    members: HashMap<(&'static str, &'static str), &'static str>,
}

struct DescribedType {
    sentence: &'static str,
    /// A type whose members it has as well.
    includes: Option<&'static str>,
}

impl Sentences {
    fn read(text: &'static str) -> Sentences {
        let mut all = Sentences::default();
        let mut current = ANY;
        for line in text.lines() {
            let Some((name, sentence)) = line.split_once(": ") else { continue };
            if let Some(member) = name.strip_prefix(' ') {
                all.members.insert((current, member), sentence);
                continue;
            }
            let (name, includes) = match name.split_once(" < ") {
                Some((name, other)) => (name, Some(other)),
                None => (name, None),
            };
            current = name;
            all.types.insert(name, DescribedType { sentence, includes });
        }
        all
    }

    /// What the type says itself, then what it includes, then what holds for most types.
    fn of_member(&self, parent: &str, member: &str) -> Option<&'static str> {
        // The key's lifetime is that of the lookup alone.
        let get = |name: &str| self.members.get(&(name, member) as &(&str, &str)).copied();
        let includes = self.types.get(parent).and_then(|described| described.includes);
        get(parent).or_else(|| includes.and_then(get)).or_else(|| get(ANY))
    }
}

/// `api.core.v1.Pod` is `core.Pod`.
fn name_of(entry: &ApiType) -> Option<String> {
    let mut parts = entry.name.rsplit('.');
    let (name, _version, group) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{group}.{name}"))
}

/// What a type is for.
pub(super) fn of_type(entry: &ApiType) -> Option<&'static str> {
    SENTENCES.types.get(name_of(entry)?.as_str()).map(|described| described.sentence)
}

/// What the members are for that every object has. Clients look for the first words.
pub(super) fn of_every_object(member: &str) -> Option<&'static str> {
    SENTENCES.of_member(ANY, member)
}

/// What a member is for.
pub(super) fn of_member(parent: &ApiType, field: &Field) -> Option<&'static str> {
    SENTENCES.of_member(&name_of(parent)?, field.json)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md and spec/referential-authorization.md.

    use std::collections::HashSet;

    use super::*;

    /// Types of versions that are served by default.
    fn stable() -> impl Iterator<Item = &'static ApiType> {
        let is_stable = |entry: &&ApiType| {
            let version = entry.name.rsplit('.').nth(1).unwrap_or_default();
            entry.name.starts_with("dev.tenure.")
                || !(version.contains("alpha") || version.contains("beta"))
        };
        tenure_schema::facts().types().iter().filter(is_stable)
    }

    #[test]
    fn r48_every_type_and_member_is_explained() {
        let mut missing = Vec::new();
        let mut seen = 0;
        for entry in stable() {
            seen += 1;
            if of_type(entry).is_none() {
                missing.push(entry.name.to_owned());
            }
            for field in entry.fields.iter().filter(|field| of_member(entry, field).is_none()) {
                missing.push(format!("{} {}", entry.name, field.json));
            }
        }
        assert!(seen >= 500, "only {seen} types were found");
        assert!(missing.is_empty(), "not explained: {missing:#?}");
    }

    #[test]
    fn r48_no_sentence_is_about_something_that_is_not_there() {
        let types = tenure_schema::facts().types();
        let names: HashSet<String> = types.iter().filter_map(name_of).collect();
        let members: HashSet<(String, &str)> = types
            .iter()
            .filter_map(|entry| Some((name_of(entry)?, &entry.fields)))
            .flat_map(|(name, fields)| fields.iter().map(move |field| (name.clone(), field.json)))
            .collect();
        for (name, described) in &SENTENCES.types {
            assert!(names.contains(*name), "{name}");
            assert!(described.includes.is_none_or(|other| names.contains(other)), "{name}");
        }
        for (name, member) in SENTENCES.members.keys().filter(|(name, _)| *name != ANY) {
            assert!(members.contains(&((*name).to_owned(), *member)), "{name} {member}");
        }
    }

    #[test]
    fn r48_a_sentence_reads_as_one() {
        for line in TEXT.lines().filter(|line| !line.is_empty() && *line != ANY) {
            let (name, sentence) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert!(!name.trim().is_empty() && !sentence.is_empty(), "{line}");
            assert!(sentence.ends_with('.') && !sentence.contains("  "), "{line}");
        }
    }
}
