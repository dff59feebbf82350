//! Checks of names: one meaning for each in the workspace, in words that people who know Kubernetes, HTTP
//! and Rust have already.
//!
//! ```text
//!   type defined in two crates ──┐
//!   banned word in a type, ──────┴──► to_mend.txt has it? ── yes: it waits to be mended
//!   file or module name                                 └── no:  a complaint
//! ```
//!
//! `to_mend.txt` only shrinks: what is mended must leave it, and nothing new is let in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Complaints;

/// Words of our own that a reader would have to look up.
const BANNED: [&str; 11] = [
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
];
/// Where the names are that wait to be mended.
const TO_MEND: &str = "xtask/src/tidy/to_mend.txt";

pub(super) fn check(root: &Path, files: &[String], complaints: &mut Complaints) -> Result<()> {
    let mut found = Found::default();
    for file in files.iter().filter(|file| is_shipped(file)) {
        let text = std::fs::read_to_string(root.join(file))?;
        found.take(file, &text);
    }
    let path = root.join(TO_MEND);
    let known = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let known: BTreeSet<&str> = known.lines().filter(|line| !line.starts_with('#')).collect();
    let lines = found.lines();
    for line in &lines {
        if !known.contains(line.as_str()) {
            complaints.push(format!("{line}: give it a name of its own, in plain words"));
        }
    }
    for line in known.iter().filter(|line| !line.is_empty() && !lines.contains(**line)) {
        complaints.push(format!("{line}: is mended; remove it from {TO_MEND}"));
    }
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
    /// The crates that define each type.
    types: BTreeMap<String, BTreeSet<String>>,
    /// Names with a banned word, with the crate.
    banned: BTreeSet<(String, String)>,
}

impl Found {
    fn take(&mut self, file: &str, text: &str) {
        let name = room(file);
        let stem = file.rsplit('/').next().and_then(|last| last.strip_suffix(".rs"));
        self.look(&name, stem.unwrap_or_default());
        let shipped = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for line in shipped.lines() {
            let Some((kind, defined)) = definition(line) else { continue };
            self.look(&name, defined);
            if kind != "mod" {
                self.types.entry(defined.to_owned()).or_default().insert(name.clone());
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
        let twice =
            self.types.iter().filter(|(_, rooms)| rooms.len() > 1).flat_map(|(name, rooms)| {
                rooms.iter().map(move |room| format!("type {name} in {room}, and elsewhere"))
            });
        let banned = self.banned.iter().map(|(room, name)| format!("name {name} in {room}"));
        twice.chain(banned).collect()
    }
}

/// The folder of the crate that a file belongs to.
fn room(file: &str) -> String {
    let path = file.strip_prefix("crates/").unwrap_or(file);
    path.split("/src/").next().unwrap_or_default().to_owned()
}

/// What a line defines: a type or a module.
fn definition(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    if !matches!(kind, "struct" | "enum" | "trait" | "mod") {
        return None;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    rest.get(..end.unwrap_or(rest.len())).filter(|name| !name.is_empty()).map(|name| (kind, name))
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
        found.take("crates/b/src/y.rs", "//! B.\nstruct Place;\nmod shelves;\nmod aside_dish;\n");
        let lines: Vec<String> = found.lines().into_iter().collect();
        assert_eq!(
            lines,
            [
                "name WasTold in b",
                "name aside in b",
                "name aside_dish in b",
                "name shelves in b",
                "type Place in a, and elsewhere",
                "type Place in b, and elsewhere",
            ]
        );
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
