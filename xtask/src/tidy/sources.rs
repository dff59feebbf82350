//! Checks of single files: how they open, how long they are, what they must not say.

use std::path::Path;

use anyhow::Result;

use super::Complaints;

const LINES_MAX: usize = 1_000;
/// Files that may be longer, each with the reason.
const LONG: [(&str, &str); 0] = [];
/// Promises to the reader that nobody keeps. Joined here so that this file does not say them.
const PROMISES: [&str; 4] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("#[ig", "nore"),
];
/// Folders of some machine, which mean nothing on another.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// What upstream recorded or the specification says is not ours to change.
const AS_GIVEN: [&str; 2] = ["spec/", "tests/parity/cases/"];

pub(super) fn check(root: &Path, files: &[String], complaints: &mut Complaints) -> Result<()> {
    for file in files {
        // What is not text cannot be read here and holds no words.
        let Ok(text) = String::from_utf8(std::fs::read(root.join(file))?) else { continue };
        if !AS_GIVEN.iter().any(|folder| file.starts_with(folder)) && !file.ends_with(".lock") {
            complaints.extend(machine(file, &text));
        }
        if file.ends_with(".rs") {
            complaints.extend(rust(file, &text));
        }
    }
    Ok(())
}

fn machine(file: &str, text: &str) -> Option<String> {
    let found = text.lines().position(|line| MACHINE.iter().any(|path| line.contains(path)))?;
    Some(format!(
        "{file}:{}: a path of one machine; say where it lies relative to the root",
        found + 1
    ))
}

fn rust(file: &str, text: &str) -> Complaints {
    let mut complaints = Complaints::new();
    if !text.starts_with("//!") {
        complaints.push(format!(
            "{file}: does not open with `//!`; say what lives here and what never will"
        ));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX && !LONG.iter().any(|(long, _)| *long == file) {
        complaints.push(format!("{file}: {lines} lines; look for a seam"));
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(promise) = PROMISES.iter().find(|promise| line.contains(**promise)) {
            complaints.push(format!("{file}:{}: `{promise}`; do it or leave it out", number + 1));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_habit_has_its_complaint() {
        assert!(rust("a.rs", "//! Fine.\nfn main() {}\n").is_empty());
        assert_eq!(rust("a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(rust("a.rs", &format!("//! Long.\n{}", "\n".repeat(1_000))).len(), 1);
        assert_eq!(rust("a.rs", &format!("//! Later.\n{}()\n", PROMISES[0])).len(), 1);
        assert!(machine("a.md", &format!("cd {}x", MACHINE[0])).is_some());
        assert!(machine("a.md", "cd x").is_none());
    }
}
