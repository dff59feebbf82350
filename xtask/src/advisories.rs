//! `cargo xtask advisories`: known faults of the crates that are locked (spec/dependencies.md R49).
//!
//! ```text
//!   a folder with RustSec's database ──► advisories.json: facts about packages that are locked
//!   advisories.json + lock files ──► the gate: no locked version is affected; no network needed
//! ```
//!
//! Advisories that no longer concern a locked version stay in the file, so that a step back is noticed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use semver::{Version, VersionReq};
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item};

use crate::lock::{self, Package};
use crate::workspace;

const FILE: &str = "xtask/advisories.json";
const USAGE: &str = "usage: cargo xtask advisories [--database DIR]";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => check(),
        [flag, folder] if flag == "--database" => {
            write(Path::new(folder))?;
            check()
        }
        _ => bail!(USAGE),
    }
}

/// A fault of some versions of a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Advisory {
    package: String,
    id: String,
    date: String,
    /// Why it is no vulnerability, such as `unmaintained` or `unsound`; empty if it is one.
    informational: String,
    patched: Vec<String>,
    unaffected: Vec<String>,
}

impl Advisory {
    /// Whether no range clears this version. A range that cannot be read clears nothing.
    fn affects(&self, version: &Version) -> bool {
        let clears = |range: &String| VersionReq::parse(range).is_ok_and(|r| r.matches(version));
        !self.patched.iter().chain(&self.unaffected).any(clears)
    }

    fn from_json(value: &Value) -> Option<Advisory> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let list = |key: &str| -> Option<Vec<String>> {
            let values = value.get(key)?.as_array()?.iter();
            values.map(|range| range.as_str().map(str::to_owned)).collect()
        };
        Some(Advisory {
            package: text("package")?,
            id: text("id")?,
            date: text("date")?,
            informational: text("informational").unwrap_or_default(),
            patched: list("patched")?,
            unaffected: list("unaffected")?,
        })
    }

    fn to_json(&self) -> Value {
        let mut value = json!({
            "package": self.package, "id": self.id, "date": self.date,
            "patched": self.patched, "unaffected": self.unaffected,
        });
        if let (false, Some(map)) = (self.informational.is_empty(), value.as_object_mut()) {
            map.insert("informational".to_owned(), self.informational.as_str().into());
        }
        value
    }

    /// Reads one file of the database: facts in TOML between fences, then prose that is not read.
    fn from_database(text: &str) -> Result<Option<Advisory>> {
        let fenced = text.split_once("```toml\n").context("no facts in TOML")?.1;
        let facts: DocumentMut =
            fenced.split_once("\n```").context("no end of facts")?.0.parse()?;
        let field = |key: &str| facts.get("advisory").and_then(|table| table.get(key));
        let text = |key: &str| field(key).and_then(Item::as_str).map(str::to_owned);
        if field("withdrawn").is_some() {
            return Ok(None);
        }
        let ranges = |key: &str| -> Vec<String> {
            let list = facts.get("versions").and_then(|table| table.get(key));
            let list = list.and_then(Item::as_array).into_iter().flatten();
            list.filter_map(|range| range.as_str().map(str::to_owned)).collect()
        };
        Ok(Some(Advisory {
            package: text("package").context("no package")?,
            id: text("id").context("no id")?,
            date: text("date").unwrap_or_default(),
            informational: text("informational").unwrap_or_default(),
            patched: ranges("patched"),
            unaffected: ranges("unaffected"),
        }))
    }
}

/// What is known, and since when.
struct Known {
    /// The day of the database; none if none was read yet.
    database: Option<String>,
    advisories: Vec<Advisory>,
}

fn known() -> Result<Known> {
    let path = workspace::root()?.join(FILE);
    let text = std::fs::read(&path).with_context(|| FILE.to_owned())?;
    let value: Value = serde_json::from_slice(&text).with_context(|| FILE.to_owned())?;
    let list =
        value.get("advisories").and_then(Value::as_array).context("`advisories` is absent")?;
    let read = |value| Advisory::from_json(value).with_context(|| format!("{FILE}: {value}"));
    Ok(Known {
        database: value.get("database").and_then(Value::as_str).map(str::to_owned),
        advisories: list.iter().map(read).collect::<Result<_>>()?,
    })
}

/// Passes if no locked version has a known fault that was not looked at.
pub(crate) fn check() -> Result<()> {
    let Known { database, advisories } = known()?;
    let accepted = accepted(&std::fs::read_to_string(workspace::root()?.join("deny.toml"))?)?;
    let packages = lock::all()?;
    let found = affected(&advisories, &packages, &accepted)?;
    let day = database.as_deref().unwrap_or("no day");
    ensure!(
        found.is_empty(),
        "{} known faults (database of {day})\n  {}",
        found.len(),
        found.join("\n  ")
    );
    if database.is_none() {
        println!("      NOT CHECKED: no database was read yet; `{USAGE}`");
        return Ok(());
    }
    let (all, locked) = (advisories.len(), packages.len());
    println!("      {all} advisories as of {day}; none affects the {locked} locked packages");
    Ok(())
}

/// One sentence for each locked package that an advisory affects.
fn affected(
    advisories: &[Advisory],
    packages: &[Package],
    accepted: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.checksum.is_some()) {
        let version = Version::parse(&package.version)
            .with_context(|| format!("{} {}", package.name, package.version))?;
        for advisory in advisories.iter().filter(|advisory| advisory.package == package.name) {
            if advisory.affects(&version) && !accepted.contains(&advisory.id) {
                let cure = match advisory.patched.as_slice() {
                    [] => "no version is patched".to_owned(),
                    ranges => format!("patched in {}", ranges.join(" or ")),
                };
                found.push(format!("{}: {} {version}; {cure}", advisory.id, package.name));
            }
        }
    }
    Ok(found)
}

/// The ids under `ignore` of deny.toml, so that one list serves this check and cargo-deny.
fn accepted(deny: &str) -> Result<BTreeSet<String>> {
    let document: DocumentMut = deny.parse().context("deny.toml")?;
    let list = document.get("advisories").and_then(|table| table.get("ignore"));
    let entries = list.and_then(Item::as_array).into_iter().flatten();
    let id = |entry: &toml_edit::Value| {
        let table = entry.as_inline_table().and_then(|table| table.get("id"));
        entry.as_str().or_else(|| table?.as_str()).map(str::to_owned)
    };
    Ok(entries.filter_map(id).collect())
}

/// Writes the facts about locked packages out of a database.
fn write(database: &Path) -> Result<()> {
    let crates = database.join("crates");
    ensure!(crates.is_dir(), "{} holds no folder `crates`", database.display());
    let mut advisories = Vec::new();
    let names: BTreeSet<String> = lock::all()?
        .into_iter()
        .filter(|package| package.checksum.is_some())
        .map(|package| package.name)
        .collect();
    for name in &names {
        for file in files(&crates.join(name))? {
            let text = std::fs::read_to_string(&file)?;
            let read = Advisory::from_database(&text);
            advisories.extend(read.with_context(|| file.display().to_string())?);
        }
    }
    advisories.sort();
    let list = advisories.iter().map(|one| format!("    {}", one.to_json()));
    let list = list.collect::<Vec<_>>().join(",\n");
    let day = Value::from(day(database, &advisories));
    let text = format!("{{\n  \"database\": {day},\n  \"advisories\": [\n{list}\n  ]\n}}\n");
    Ok(std::fs::write(workspace::root()?.join(FILE), text)?)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "md"));
    files.sort();
    Ok(files)
}

/// The day of the database's last change; of its newest advisory where the folder has no history.
fn day(database: &Path, advisories: &[Advisory]) -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%cs"]).current_dir(database);
    let top = database.join(".git").exists();
    match git.output().ok().filter(|output| top && output.status.success()) {
        Some(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        None => advisories.iter().map(|one| one.date.clone()).max().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.
    use super::*;

    const FILE_OF_DATABASE: &str = r#"```toml
[advisory]
id = "RUSTSEC-2000-0001"
package = "thing"
date = "2000-01-02"
informational = "unsound"

[versions]
patched = [
    ">= 1.2.3",
    "^0.9.8", # the old line
]
unaffected = ["< 0.4"]
```

# Prose with `[advisory]` in it
"#;

    fn package(name: &str, version: &str) -> Package {
        let checksum = Some("00".to_owned());
        Package { name: name.to_owned(), version: version.to_owned(), checksum }
    }

    #[test]
    fn r49_a_file_of_the_database_is_read_for_its_facts() {
        let read = Advisory::from_database(FILE_OF_DATABASE).unwrap().unwrap();
        assert_eq!(read.patched, [">= 1.2.3", "^0.9.8"]);
        assert_eq!((read.id.as_str(), read.package.as_str()), ("RUSTSEC-2000-0001", "thing"));
        assert_eq!(Advisory::from_json(&read.to_json()), Some(read));
        let withdrawn =
            FILE_OF_DATABASE.replace("\n[versions]", "withdrawn = \"2000-02-02\"\n[versions]");
        assert_eq!(Advisory::from_database(&withdrawn).unwrap(), None);
        assert!(Advisory::from_database("# no facts").is_err());
    }

    #[test]
    fn r49_only_versions_that_no_range_clears_are_affected() {
        let advisory = Advisory::from_database(FILE_OF_DATABASE).unwrap().unwrap();
        for (version, affects) in [
            ("1.2.3", false),
            ("2.0.0", false),
            ("0.9.8", false),
            ("0.3.9", false),
            ("1.2.2", true),
            ("0.9.7", true),
            ("0.4.0", true),
        ] {
            assert_eq!(advisory.affects(&version.parse().unwrap()), affects, "{version}");
        }
        let never = Advisory { patched: vec!["nonsense".to_owned()], ..advisory };
        assert!(never.affects(&"2.0.0".parse().unwrap()), "a range that cannot be read");
    }

    #[test]
    fn r49_what_was_looked_at_is_let_through_and_nothing_else() {
        let advisory = Advisory::from_database(FILE_OF_DATABASE).unwrap().unwrap();
        let packages =
            [package("thing", "1.0.0"), package("thing", "1.3.0"), package("other", "1.0.0")];
        let found = affected(std::slice::from_ref(&advisory), &packages, &BTreeSet::new()).unwrap();
        assert_eq!(found, ["RUSTSEC-2000-0001: thing 1.0.0; patched in >= 1.2.3 or ^0.9.8"]);
        for list in [
            "ignore = [\"RUSTSEC-2000-0001\"]",
            "ignore = [{ id = \"RUSTSEC-2000-0001\", reason = \"not called\" }]",
        ] {
            let accepted = accepted(&format!("[advisories]\n{list}\n")).unwrap();
            assert!(
                affected(std::slice::from_ref(&advisory), &packages, &accepted).unwrap().is_empty()
            );
        }
    }

    #[test]
    fn r49_what_is_known_can_be_read_and_every_range_understood() {
        for advisory in known().unwrap().advisories {
            for range in advisory.patched.iter().chain(&advisory.unaffected) {
                assert!(VersionReq::parse(range).is_ok(), "{}: {range}", advisory.id);
            }
        }
    }
}
