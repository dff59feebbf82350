//! `cargo xtask tidy`: what a compiler does not see. Every complaint says what to do.
//!
//! ```text
//!   sources    each file: its opening, its size, words that promise work
//!   files      who makes files outside of the one writer of private ones
//!   manifests  who leans on whom, versions, banned crates
//!   names      one meaning for each name, in words that need no dictionary
//!   reach      files that no `mod` reaches
//!   rooms      what belongs where: writes, clocks, std
//! ```

mod files;
mod manifests;
mod names;
mod reach;
mod rooms;
mod sources;

use anyhow::{Result, ensure};

use crate::workspace;

/// What is wrong, one sentence each.
type Complaints = Vec<String>;

/// What users run of a file: all that stands before tests inside of it. Tests in a file of their own, which are only
/// named here, end nothing.
fn shipped(text: &str) -> &str {
    const MARK: &str = "\n#[cfg(test)]\nmod ";
    let inside = text.match_indices(MARK).map(|(at, _)| at).find(|at| {
        let rest = text.get(at + MARK.len()..).unwrap_or_default();
        rest.lines().next().is_some_and(|line| line.ends_with('{'))
    });
    inside.and_then(|at| text.get(..at)).unwrap_or(text)
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask tidy");
    let root = workspace::root()?;
    let files = workspace::files()?;
    let members = workspace::members()?;
    let mut complaints = Complaints::new();
    sources::check(&root, &files, &mut complaints)?;
    files::check(&root, &files, &mut complaints)?;
    manifests::check(&root, &members, &mut complaints)?;
    names::check(&root, &files, &mut complaints)?;
    rooms::check(&root, &files, &mut complaints)?;
    reach::check(&root, &files, &members, &mut complaints)?;
    complaints.sort();
    ensure!(
        complaints.is_empty(),
        "{} complaints\n  {}",
        complaints.len(),
        complaints.join("\n  ")
    );
    println!("      {} files, {} crates", files.len(), members.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_after_the_name_of_a_file_of_tests_is_shipped() {
        let inside = "//! A.\nstruct A;\n\n#[cfg(test)]\nmod tests {\n    struct B;\n}\n";
        assert_eq!(shipped(inside), "//! A.\nstruct A;\n");
        let elsewhere = "//! A.\n#[cfg(test)]\nmod tests;\n\nstruct A;\n";
        assert_eq!(shipped(elsewhere), elsewhere);
        let both = format!("{elsewhere}\n#[cfg(test)]\nmod more {{\n}}\n");
        assert_eq!(shipped(&both), elsewhere);
    }
}
