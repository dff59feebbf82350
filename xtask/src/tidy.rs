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
