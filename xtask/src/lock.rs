//! What the lock files pin: names, versions, sources and checksums. What may be in them is checked elsewhere.

use std::path::Path;

use anyhow::{Context as _, Result};
use toml_edit::{DocumentMut, Table};

use crate::workspace;

/// The lock files of the repository: of everything that is built, and of the fuzz targets.
const FILES: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// A package at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SHA-256 of its archive; none for a package of this repository.
    pub(crate) checksum: Option<String>,
}

/// Every package of every lock file, sorted, each once.
pub(crate) fn all() -> Result<Vec<Package>> {
    let root = workspace::root()?;
    let mut all = Vec::new();
    for file in FILES {
        all.extend(read(&root.join(file))?);
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The packages that the shipped binaries are built from, and those that only tests need.
pub(crate) fn workspace() -> Result<Vec<Package>> {
    read(&workspace::root()?.join("Cargo.lock"))
}

fn read(path: &Path) -> Result<Vec<Package>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

pub(crate) fn parse(text: &str) -> Result<Vec<Package>> {
    let document: DocumentMut = text.parse()?;
    let tables = document.get("package").and_then(|item| item.as_array_of_tables());
    tables.context("a lock file lists packages")?.iter().map(package).collect()
}

fn package(table: &Table) -> Result<Package> {
    let text = |key: &str| table.get(key).and_then(|item| item.as_str()).map(str::to_owned);
    Ok(Package {
        name: text("name").context("a package has a name")?,
        version: text("version").context("a package has a version")?,
        checksum: text("checksum"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_packages_have_no_checksum_and_all_others_have_one() {
        let (ours, others): (Vec<Package>, Vec<Package>) =
            all().unwrap().into_iter().partition(|package| package.checksum.is_none());
        assert!(
            ours.iter()
                .all(|package| { package.name.starts_with("tenure") || package.name == "xtask" })
        );
        assert!(others.iter().any(|package| package.name == "libfuzzer-sys"));
        assert!(others.len() > 100);
    }
}
