//! Checks of names: one meaning for each type in the workspace, in words that people who know Kubernetes, HTTP
//! and Rust have already.
//!
//! ```text
//!   a type that two crates define, or one crate twice ───────────────────────┐
//!   a banned word in a type, variant, field, function, module or file name ──┴──► a complaint
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::{Complaints, shipped};

/// Words of our own that a reader would have to look up.
const BANNED: [&str; 12] = [
    "aside",
    "beside",
    "asked",
    "standing",
    "sight",
    "nurse",
    "household",
    "told",
    "strangers",
    "glass",
    "shelves",
    "door",
];

/// Where fields are still called so.
const FIELDS_TO_COME: [&str; 1] = ["node"];

pub(super) fn check(root: &Path, files: &[String], complaints: &mut Complaints) -> Result<()> {
    let mut found = Found::default();
    for file in files.iter().filter(|file| is_shipped(file)) {
        found.take(file, &std::fs::read_to_string(root.join(file))?);
    }
    let advice = |line: &String| format!("{line}: give it a name of its own, in plain words");
    complaints.extend(found.lines().iter().map(advice));
    Ok(())
}

/// Whether it is code that users run.
fn is_shipped(file: &str) -> bool {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    file.starts_with("crates/") && file.ends_with(".rs") && file.contains("/src/") && !is_test
}

/// The names that are there.
#[derive(Default)]
struct Found {
    /// The files that define each type.
    types: BTreeMap<String, Vec<String>>,
    /// Names with a banned word, with the crate.
    banned: BTreeSet<(String, String)>,
}

impl Found {
    fn take(&mut self, file: &str, text: &str) {
        let name = room(file);
        let stem = file.rsplit('/').next().and_then(|last| last.strip_suffix(".rs"));
        self.look(&name, stem.unwrap_or_default());
        // How far the struct or enum is indented that the line stands in.
        let mut inside: Option<&str> = None;
        for line in shipped(text).lines() {
            let Some((kind, defined)) = definition(line) else {
                let Some(indent) = inside else { continue };
                if line.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}')) {
                    inside = None;
                } else if let Some(member) = member(line)
                    && !FIELDS_TO_COME.contains(&name.as_str())
                {
                    self.look(&name, member);
                }
                continue;
            };
            let opens = matches!(kind, "struct" | "enum") && line.ends_with('{');
            let indent = line.get(..line.len() - line.trim_start().len());
            inside = indent.filter(|_| opens);
            self.look(&name, defined);
            if !matches!(kind, "mod" | "fn") {
                self.types.entry(defined.to_owned()).or_default().push(file.to_owned());
            }
        }
    }

    fn look(&mut self, room: &str, name: &str) {
        if words(name).iter().any(|word| BANNED.contains(&word.as_str())) {
            self.banned.insert((room.to_owned(), name.to_owned()));
        }
    }

    /// What is wrong, a line each.
    fn lines(&self) -> BTreeSet<String> {
        let twice = self.types.iter().filter(|(_, files)| files.len() > 1);
        let twice = twice.map(|(name, files)| format!("type {name} in {}", files.join(" and ")));
        let banned = self.banned.iter().map(|(room, name)| format!("name {name} in {room}"));
        twice.chain(banned).collect()
    }
}

/// The folder of the crate that a file belongs to.
fn room(file: &str) -> String {
    let path = file.strip_prefix("crates/").unwrap_or(file);
    path.split("/src/").next().unwrap_or_default().to_owned()
}

/// What a line defines: a type, a function or a module.
fn definition(line: &str) -> Option<(&str, &str)> {
    let mut line = line.trim_start();
    if let Some(rest) = line.strip_prefix("pub") {
        line =
            if rest.starts_with('(') { rest.split_once(") ")?.1 } else { rest.strip_prefix(' ')? };
    }
    for word in ["const ", "async ", "unsafe "] {
        line = line.strip_prefix(word).unwrap_or(line);
    }
    let (kind, rest) = line.split_once(' ')?;
    if !matches!(kind, "struct" | "enum" | "trait" | "mod" | "fn") {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    rest.get(..end.unwrap_or(rest.len())).filter(|name| !name.is_empty()).map(|name| (kind, name))
}

/// The field or variant that a line of a struct or an enum names.
fn member(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let end = line.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let is_field = rest.starts_with(": ");
    let is_variant = name.starts_with(char::is_uppercase)
        && [",", "(", " {", " ="].iter().any(|after| rest.starts_with(after));
    (is_field || is_variant).then_some(name)
}

/// The words of a name, whether it is written like_this or LikeThis.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter != '_', words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_of_two_crates_and_a_banned_word_are_found() {
        let mut found = Found::default();
        found.take("crates/a/src/lib.rs", "//! A.\npub struct Place;\npub(crate) enum Fine {}\n");
        found.take("crates/b/src/x/aside.rs", "//! B.\n  struct Place {\npub trait WasTold {}\n");
        found.take("crates/b/src/y.rs", "//! B.\nmod shelves;\npub async fn put_aside() {}\n");
        let lines: Vec<String> = found.lines().into_iter().collect();
        assert_eq!(
            lines,
            [
                "name WasTold in b",
                "name aside in b",
                "name put_aside in b",
                "name shelves in b",
                "type Place in crates/a/src/lib.rs and crates/b/src/x/aside.rs",
            ]
        );
    }

    #[test]
    fn a_banned_word_in_a_field_or_a_variant_is_found() {
        let mut found = Found::default();
        let text = "//! A.\npub struct One {\n    /// A door.\n    pub(crate) door: u8,\n    fine: u8,\n}\n\
                    enum Two {\n    Told(u8),\n    Asked {\n        sight: u8,\n    },\n    Fine,\n}\n\
                    fn f() {\n    let told: u8 = 1;\n}\n";
        found.take("crates/a/src/lib.rs", text);
        let lines: Vec<String> = found.lines().into_iter().collect();
        let wanted = ["Asked", "Told", "door", "sight"].map(|name| format!("name {name} in a"));
        assert_eq!(lines, wanted);
        let mut later = Found::default();
        later.take("crates/node/src/lib.rs", "//! A.\nstruct One {\n    told: u8,\n}\n");
        assert!(later.lines().is_empty());
    }

    #[test]
    fn a_type_that_one_crate_defines_twice_is_found() {
        let mut found = Found::default();
        found.take("crates/a/src/b.rs", "//! B.\nstruct Place;\n");
        found.take("crates/a/src/c.rs", "//! C.\nstruct Place;\n");
        assert_eq!(found.lines().len(), 1);
    }

    #[test]
    fn tests_may_call_things_what_they_like() {
        let mut found = Found::default();
        let text = "//! A.\nstruct One;\n\n#[cfg(test)]\nmod tests {\n    struct Told;\n}\n";
        found.take("crates/a/src/lib.rs", text);
        assert!(found.lines().is_empty());
        assert!(!is_shipped("crates/a/tests/it/main.rs"));
        assert!(is_shipped("crates/engines/a/src/lib.rs"));
    }

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("WasTold"), ["was", "told"]);
        assert_eq!(words("was_told"), ["was", "told"]);
        assert_eq!(words("Standings"), ["standings"], "another word");
    }
}
