//! Checks of manifests: arrows between crates, versions in one place, crates that must not come in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Complaints;
use crate::workspace::Member;

/// One provider of TLS and nothing that needs cmake (spec/dependencies.md R2).
const BANNED: [&str; 4] = ["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls"];

pub(super) fn check(root: &Path, members: &[Member], complaints: &mut Complaints) -> Result<()> {
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let arrows = arrows(&page);
    let folders: BTreeMap<&str, &str> =
        members.iter().map(|member| (member.package.as_str(), member.folder.as_str())).collect();
    for member in members.iter().filter(|member| member.manifest.starts_with(root.join("crates"))) {
        let uses = member.uses.iter().filter_map(|package| folders.get(package.as_str()).copied());
        complaints.extend(leans(&arrows, &member.folder, uses));
    }
    complaints.extend(rows_of_nothing(&arrows, &folders.values().copied().collect()));
    for member in members {
        let name =
            member.manifest.strip_prefix(root).unwrap_or(&member.manifest).display().to_string();
        complaints.extend(versions(&name, &std::fs::read_to_string(&member.manifest)?));
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock"))?;
    complaints.extend(banned(&lock));
    let core = std::fs::read_to_string(root.join("crates/core/src/lib.rs"))?;
    if !core.lines().any(|line| line.trim() == "#![no_std]") {
        complaints.push(
            "crates/core/src/lib.rs: is not `#![no_std]`; core says nouns and does nothing".into(),
        );
    }
    Ok(())
}

/// The table under `## The arrows`: each crate with those it may use.
fn arrows(page: &str) -> BTreeMap<String, Vec<String>> {
    let section = page.split("\n## The arrows").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|');
        let name = quoted(cells.next()?).into_iter().next()?;
        Some((name, quoted(cells.next()?)))
    };
    section.lines().filter_map(row).collect()
}

/// The words in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn leans<'a>(
    arrows: &BTreeMap<String, Vec<String>>,
    folder: &str,
    uses: impl Iterator<Item = &'a str>,
) -> Complaints {
    let Some(allowed) = arrows.get(folder) else {
        return vec![format!("ARCHITECTURE.md: the table of arrows has no row for `{folder}`")];
    };
    let used: BTreeSet<&str> = uses.collect();
    let allowed: BTreeSet<&str> = allowed.iter().map(String::as_str).collect();
    let missing = used.difference(&allowed).map(|used| {
        format!("crates/{folder} leans on `{used}`, where ARCHITECTURE.md has no arrow")
    });
    let stale = allowed.difference(&used).map(|allowed| {
        format!(
            "ARCHITECTURE.md: the arrow from `{folder}` to `{allowed}` is stale, the manifest does \
             not use it; remove it"
        )
    });
    missing.chain(stale).collect()
}

/// Rows about crates that are not there.
fn rows_of_nothing(arrows: &BTreeMap<String, Vec<String>>, folders: &BTreeSet<&str>) -> Complaints {
    arrows
        .keys()
        .filter(|row| !folders.contains(row.as_str()))
        .map(|row| {
            format!("ARCHITECTURE.md: the table of arrows has a row for `{row}`, which is no crate")
        })
        .collect()
}

/// Every dependency takes its version from the root (spec/dependencies.md R5).
fn versions(name: &str, manifest: &str) -> Complaints {
    let mut complaints = Complaints::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']).ends_with("dependencies");
        } else if inside && line.contains('=') && !line.starts_with('#') {
            let shared = line.contains(".workspace = true") || line.contains("workspace = true");
            if !shared {
                complaints
                    .push(format!("{name}: `{line}` does not take its version from the root"));
            }
        }
    }
    complaints
}

fn banned(lock: &str) -> Complaints {
    let has = |name: &&&str| lock.contains(&format!("name = \"{name}\"\n"));
    BANNED
        .iter()
        .filter(has)
        .map(|name| {
            format!("Cargo.lock: `{name}` came in; find who brings it with `cargo tree -i {name}`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.
    use super::*;

    #[test]
    fn r2_a_banned_crate_is_told() {
        assert!(banned("name = \"ring\"\n").is_empty());
        assert_eq!(banned("name = \"aws-lc-sys\"\n").len(), 1);
    }

    #[test]
    fn r5_a_version_outside_the_root_is_told() {
        let manifest = "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\nb = { workspace = true }\n";
        assert!(versions("m", manifest).is_empty());
        assert_eq!(versions("m", &format!("{manifest}c = \"1\"\n")).len(), 1);
        assert_eq!(versions("m", "[target.'cfg(x)'.dev-dependencies]\nc = \"1\"\n").len(), 1);
    }

    #[test]
    fn a_crate_leans_only_along_an_arrow() {
        let page = "# A\n## The arrows\n\n| crate | may use |\n|---|---|\n| `core` | nothing of ours |\n| `world` | `core`, `store` |\n\n## Next\n| `x` | `y` |\n";
        let arrows = arrows(page);
        assert_eq!(arrows.len(), 2);
        assert!(leans(&arrows, "world", ["core", "store"].into_iter()).is_empty());
        assert_eq!(leans(&arrows, "core", ["world"].into_iter()).len(), 1);
        assert_eq!(leans(&arrows, "x", [].into_iter()).len(), 1);
    }

    #[test]
    fn an_arrow_that_no_manifest_uses_is_found() {
        let page =
            "# A\n## The arrows\n\n| crate | may use |\n|---|---|\n| `world` | `core`, `store` |\n";
        let arrows = arrows(page);
        let found = leans(&arrows, "world", ["core"].into_iter());
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("from `world` to `store` is stale"), "{found:?}");
        assert_eq!(leans(&arrows, "world", ["core", "kinds"].into_iter()).len(), 2);
        assert!(rows_of_nothing(&arrows, &["world", "core"].into()).is_empty());
        assert_eq!(rows_of_nothing(&arrows, &["core"].into()).len(), 1);
    }
}
