//! `cargo xtask docs`: writes the pages that are made from the program: flags, gates, the table of kinds. Tests
//! of those who know them render them, compare them in the gate, and write them when they are told to.

use anyhow::{Result, ensure};

use crate::workspace;

/// Read by the tests: write the pages instead of comparing them.
const WRITE: &str = "TENURE_WRITE_DOCS";
/// Who renders pages, and how its tests are called.
const PAGES: [(&str, &str); 2] = [("tenure-kinds", "tests::page::"), ("tenure", "tests::pages::")];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask docs");
    for (package, tests) in PAGES {
        let words = ["test", "--quiet", "--locked", "--package", package, tests];
        let status = workspace::cargo(&words)?.env(WRITE, "1").status()?;
        ensure!(status.success(), "the pages of {package} cannot be written");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Every page: its path from the root, and its text.
    fn pages() -> Vec<(String, String)> {
        let root = workspace::root().unwrap();
        let files = workspace::files().unwrap();
        let is_page = |file: &String| {
            file.ends_with(".md") && (file.starts_with("docs/") || !file.contains('/'))
        };
        let read = |file: String| {
            let text = std::fs::read_to_string(root.join(&file)).unwrap();
            (file, text)
        };
        files.into_iter().filter(is_page).map(read).collect()
    }

    /// Where links lead, as they are written; those to other machines aside.
    fn links(text: &str) -> Vec<String> {
        let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let links = ends.map(|(link, _)| link.to_owned());
        links.filter(|link| !link.contains("://") && !link.contains(' ')).collect()
    }

    /// The part of a link that leads to a heading, as it is shown on the web.
    fn anchors(text: &str) -> BTreeSet<String> {
        let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
        let slug = |heading: &str| -> String {
            let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            heading.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
        };
        headings.map(slug).collect()
    }

    #[test]
    fn every_link_leads_somewhere() {
        let root = workspace::root().unwrap();
        let mut broken = Vec::new();
        for (page, text) in pages() {
            let folder = root.join(&page).parent().unwrap().to_owned();
            for link in links(&text) {
                let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
                let target = if file.is_empty() { root.join(&page) } else { folder.join(file) };
                let known = || anchors(&std::fs::read_to_string(&target).unwrap());
                if !target.exists() || (!anchor.is_empty() && !known().contains(anchor)) {
                    broken.push(format!("{page}: {link}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    #[test]
    fn the_first_page_lists_all_others() {
        let root = workspace::root().unwrap();
        let index = root.join("docs/README.md");
        let listed: BTreeSet<_> = links(&std::fs::read_to_string(index).unwrap())
            .iter()
            .filter_map(|link| root.join("docs").join(link).canonicalize().ok())
            .collect();
        let is_listed = |page: &str| {
            page == "docs/README.md"
                || Path::new(page).starts_with("docs/decisions")
                || !page.starts_with("docs/")
                || listed.contains(&root.join(page).canonicalize().unwrap())
        };
        let missing: Vec<_> =
            pages().into_iter().map(|(page, _)| page).filter(|page| !is_listed(page)).collect();
        assert!(missing.is_empty(), "docs/README.md does not list {missing:?}");
    }
}
