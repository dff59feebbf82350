//! `cargo xtask sbom`: what the shipped program `tenure` is built from, as CycloneDX 1.5 (spec/dependencies.md R50).
//!
//! ```text
//!   cargo tree: packages, licences, who uses whom ─┐
//!   Cargo.lock: checksums ─────────────────────────┴──► target/tenure.cdx.json
//! ```
//!
//! The same sources give the same bytes: no time and no random number is written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::lock;
use crate::workspace;

/// The program that is shipped.
const PACKAGE: &str = "tenure";
/// Where it runs.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let path = match arguments {
        [] => workspace::target()?.join("tenure.cdx.json"),
        [path] if !path.starts_with('-') => PathBuf::from(path),
        _ => bail!("usage: cargo xtask sbom [FILE]"),
    };
    let graph = Graph::read()?;
    std::fs::write(&path, format!("{:#}\n", graph.document()?))?;
    println!("{}: {} components", path.display(), graph.packages.len().saturating_sub(1));
    Ok(())
}

/// A package by name and version.
type Id = (String, String);

/// What the program is built from.
#[derive(Debug, Default, PartialEq, Eq)]
struct Graph {
    root: Id,
    /// Each package with its licence; empty where it names none.
    packages: BTreeMap<Id, String>,
    uses: BTreeMap<Id, BTreeSet<Id>>,
}

impl Graph {
    /// Asks cargo, which answers for the features that the program is built with.
    fn read() -> Result<Graph> {
        let output = workspace::cargo(&[
            "tree",
            "--package",
            PACKAGE,
            "--edges",
            "normal",
            "--target",
            TARGET,
            "--locked",
            "--prefix",
            "depth",
            "--format",
            " {p}|{l}",
        ])?
        .output()?;
        ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
        Graph::parse(&String::from_utf8(output.stdout)?)
    }

    /// Reads lines of `DEPTH NAME vVERSION …|LICENCE`; what is below a package that was shown before is left out.
    fn parse(text: &str) -> Result<Graph> {
        let mut graph = Graph::default();
        let mut above: Vec<Id> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let odd = || format!("cargo tree says `{line}`");
            let (depth, rest) = line.split_once(' ').with_context(odd)?;
            let depth: usize = depth.parse().with_context(odd)?;
            let (package, licence) = rest.split_once('|').with_context(odd)?;
            let mut words = package.split(' ');
            let name = words.next().filter(|name| !name.is_empty()).with_context(odd)?;
            let version = words.next().and_then(|word| word.strip_prefix('v')).with_context(odd)?;
            let id = (name.to_owned(), version.to_owned());
            above.truncate(depth);
            ensure!(above.len() == depth, odd());
            match above.last() {
                Some(user) => {
                    graph.uses.entry(user.clone()).or_default().insert(id.clone());
                }
                None => graph.root = id.clone(),
            }
            let licence = licence.trim_end_matches("(*)").trim();
            graph.packages.insert(id.clone(), licence.to_owned());
            above.push(id);
        }
        ensure!(graph.root.0 == PACKAGE, "cargo tree shows no `{PACKAGE}`");
        Ok(graph)
    }

    fn document(&self) -> Result<Value> {
        let checksums: BTreeMap<Id, Option<String>> = lock::workspace()?
            .into_iter()
            .map(|package| ((package.name, package.version), package.checksum))
            .collect();
        let mut components = Vec::new();
        let mut root = Value::Null;
        for (id, licence) in &self.packages {
            let checksum =
                checksums.get(id).with_context(|| format!("{} {} is not locked", id.0, id.1))?;
            let described = component(id, licence, checksum.as_deref(), *id == self.root);
            if *id == self.root {
                root = described;
            } else {
                components.push(described);
            }
        }
        let none = BTreeSet::new();
        let dependencies: Vec<Value> = self
            .packages
            .keys()
            .map(|id| {
                let uses = self.uses.get(id).unwrap_or(&none).iter();
                json!({ "ref": purl(id), "dependsOn": uses.map(purl).collect::<Vec<_>>() })
            })
            .collect();
        Ok(json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "component": root,
                "properties": [{ "name": "cargo:target", "value": TARGET }],
            },
            "components": components,
            "dependencies": dependencies,
        }))
    }
}

fn component(id: &Id, licence: &str, checksum: Option<&str>, root: bool) -> Value {
    let (name, version) = id;
    let purl = purl(id);
    let mut component = json!({
        "type": if root { "application" } else { "library" },
        "bom-ref": purl, "name": name, "version": version, "purl": purl,
    });
    if let Some(map) = component.as_object_mut() {
        if !licence.is_empty() {
            // The old way to write a choice.
            let expression = licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
            map.insert("licenses".to_owned(), json!([{ "expression": expression }]));
        }
        if let Some(checksum) = checksum {
            map.insert("hashes".to_owned(), json!([{ "alg": "SHA-256", "content": checksum }]));
        }
    }
    component
}

/// The name of a package everywhere; what is ours is on no registry but is named alike.
fn purl((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.
    use super::*;

    fn texts<'a>(document: &'a Value, list: &str, key: &str) -> Vec<&'a str> {
        let entries = document.get(list).and_then(Value::as_array).unwrap().iter();
        entries.map(|entry| entry[key].as_str().unwrap()).collect()
    }

    #[test]
    fn r50_the_bill_names_everything_the_program_is_built_from() {
        let graph = Graph::read().unwrap();
        let document = graph.document().unwrap();
        assert_eq!(document, Graph::read().unwrap().document().unwrap(), "the same each time");
        let refs = texts(&document, "components", "bom-ref");
        let shown = workspace::cargo(&["tree", "-p", PACKAGE, "-e", "normal", "--prefix", "none"])
            .unwrap()
            .args(["--target", TARGET, "--locked", "--no-dedupe"])
            .output()
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        let mut names = BTreeSet::new();
        for line in shown.lines().skip(1).filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let version = words.next().unwrap().trim_start_matches('v').replace('+', "%2B");
            names.insert(format!("pkg:cargo/{name}@{version}"));
        }
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), {
            let mut refs = refs.clone();
            refs.sort_unstable();
            refs
        });
        for built_in in ["ring", "rustls", "tokio", "libmimalloc-sys", "tenure-server"] {
            let start = format!("pkg:cargo/{built_in}@");
            assert!(refs.iter().any(|name| name.starts_with(&start)), "{built_in}");
        }
        for other in ["proptest", "jsonschema", "libfuzzer-sys", "xtask"] {
            let start = format!("pkg:cargo/{other}@");
            assert!(!refs.iter().any(|name| name.starts_with(&start)), "{other} is not shipped");
        }
    }

    #[test]
    fn r50_every_component_has_licence_hash_and_edges() {
        let document = Graph::read().unwrap().document().unwrap();
        let root = &document["metadata"]["component"];
        assert_eq!(
            (root["name"].as_str(), root["type"].as_str()),
            (Some(PACKAGE), Some("application"))
        );
        assert_eq!(document["bomFormat"], "CycloneDX");
        assert_eq!(document["specVersion"], "1.5");
        let refs: BTreeSet<&str> = texts(&document, "components", "bom-ref")
            .into_iter()
            .chain(root["bom-ref"].as_str())
            .collect();
        for component in document["components"].as_array().unwrap() {
            let licence = component["licenses"][0]["expression"].as_str().unwrap();
            assert!(!licence.is_empty() && !licence.contains('/'), "{component}");
            assert!(!licence.contains("  "), "{component}");
            let ours = component["name"].as_str().unwrap().starts_with("tenure");
            let hash = component["hashes"][0]["content"].as_str().unwrap_or_default();
            assert_eq!(hash.len(), if ours { 0 } else { 64 }, "{component}");
        }
        let of = texts(&document, "dependencies", "ref");
        assert_eq!(of.iter().copied().collect::<BTreeSet<_>>(), refs, "edges of each, once");
        assert_eq!(of.len(), refs.len());
        for entry in document["dependencies"].as_array().unwrap() {
            for used in entry["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(used.as_str().unwrap()), "{used}");
            }
        }
    }

    #[test]
    fn lines_become_packages_and_edges() {
        let text = "0 tenure v0.1.0 (/x)|Apache-2.0\n1 a v1.0.0|MIT/Apache-2.0\n2 b v2.0.0+x (proc-macro)|MIT\n1 b v2.0.0+x (proc-macro)|MIT (*)\n";
        let graph = Graph::parse(text).unwrap();
        let id = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        assert_eq!(graph.packages.len(), 3);
        assert_eq!(graph.uses[&id("tenure", "0.1.0")].len(), 2);
        assert!(graph.uses[&id("a", "1.0.0")].contains(&id("b", "2.0.0+x")));
        assert!(Graph::parse("0 other v1.0.0|MIT").is_err());
        assert!(Graph::parse("0 tenure v0.1.0|\n2 a v1.0.0|MIT").is_err());
    }
}
