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

    /// The page with upstream's conformance tests.
    const CONFORMANCE: &str = "docs/reference/conformance.md";
    /// How many of them Kubernetes 1.38 has, and SHA-256 of their names, sorted, one a line.
    const CONFORMANCE_TESTS: usize = 465;
    const CONFORMANCE_NAMES: &str =
        "c861e8557ff09dfbf331c62c73e17774acdde1e8ac06d76942a7dd12f1e57b19";
    const STATES: [&str; 3] = ["passes", "missing", "not applicable"];

    /// Each conformance test on the page: its name, its state, and what proves or explains it.
    fn conformance_rows(page: &str) -> Vec<[&str; 3]> {
        let mut rows = Vec::new();
        for line in page.lines().filter(|line| line.starts_with("| [sig-")) {
            let cells = line.strip_prefix("| ").and_then(|rest| rest.strip_suffix(" |"));
            let mut cells = cells.unwrap_or_default().split(" | ");
            let row = [(); 3].map(|()| cells.next().unwrap_or_default());
            assert!(cells.next().is_none() && !row[2].is_empty(), "not three cells: {line}");
            rows.push(row);
        }
        rows
    }

    /// `node` of `[sig-node] Pods should be updated`.
    fn group_of(name: &str) -> &str {
        name.trim_start_matches("[sig-").split(']').next().unwrap_or_default()
    }

    #[test]
    fn every_conformance_test_is_listed_once_and_counted() {
        let page = std::fs::read_to_string(workspace::root().unwrap().join(CONFORMANCE)).unwrap();
        let rows = conformance_rows(&page);
        let names: BTreeSet<&str> = rows.iter().map(|[name, ..]| *name).collect();
        assert_eq!((rows.len(), names.len()), (CONFORMANCE_TESTS, CONFORMANCE_TESTS));
        let sorted: Vec<&str> = names.into_iter().collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, sorted.join("\n").as_bytes());
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, CONFORMANCE_NAMES, "a name differs from upstream's");

        let mut groups: BTreeSet<&str> = sorted.iter().map(|name| group_of(name)).collect();
        groups.insert("all");
        for group in groups {
            let of_group = |row: &&[&str; 3]| group == "all" || group_of(row[0]) == group;
            let of_group: Vec<_> = rows.iter().filter(of_group).collect();
            let counts = STATES
                .map(|state| of_group.iter().filter(|row| row[1] == state).count().to_string());
            let line = format!("| {group} | {} |\n", counts.join(" | "));
            assert!(page.contains(&line), "the table of counts lacks `{}`", line.trim_end());
        }
    }

    #[test]
    fn every_conformance_test_has_a_test_of_ours_or_a_reason() {
        let root = workspace::root().unwrap();
        let page = std::fs::read_to_string(root.join(CONFORMANCE)).unwrap();
        let mut faults = Vec::new();
        for [name, state, by] in conformance_rows(&page) {
            match state {
                "passes" => {
                    let proofs = by.split(", ").filter(|proof| !is_there(&root, proof));
                    faults.extend(proofs.map(|proof| format!("{name}: there is no {proof}")));
                }
                "missing" | "not applicable" if by.len() > 10 => {}
                _ => faults.push(format!("{name}: `{state}` because `{by}`")),
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }

    /// Whether there is a test such as `` `crates/server/tests/it/watch.rs::r104_events` ``, or a recorded case
    /// that must pass such as `` `parity:workloads.json/rs/scale/up` ``.
    fn is_there(root: &Path, proof: &str) -> bool {
        let Some(proof) = proof.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
            return false;
        };
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some((file, case)) = proof.strip_prefix("parity:").and_then(|it| it.split_once('/'))
        {
            let fails = read("tests/parity/expected-failures.txt");
            let cases = read(&format!("tests/parity/cases/{file}"));
            return cases.contains(&format!("\"{case}\"")) && fails.lines().all(|one| one != case);
        }
        let Some((file, function)) = proof.split_once("::") else { return false };
        file.ends_with(".rs") && read(file).contains(&format!("fn {function}("))
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
