//! `cargo xtask schema`: makes the facts table of the built-in types (spec/dependencies.md R13).
//!
//! ```text
//!   k8s-openapi source ──► names, shapes, kinds ──┐
//!   k8s-pb source ───────► tags, markers ─────────┼──► crates/schema/src/facts.txt
//!   overlay.txt ─────────► how values are written ┘
//! ```
//!
//! Both crates are only read, never built. No sentence of theirs reaches the table.

mod join;
mod json;
mod overlay;
mod pb;
mod source;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The newest API version whose JSON names `k8s-openapi` has.
const VERSION: &str = "v1_37";

/// Writes the table, or with `--check` fails when the committed one is stale.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has a parent folder")?;
    let table = root.join("crates/schema/src/facts.txt");
    let text = make(root)?;
    match arguments {
        [] => std::fs::write(&table, text).context("facts.txt"),
        [flag] if flag == "--check" => {
            let committed = std::fs::read_to_string(&table).context("facts.txt")?;
            ensure!(
                committed == text,
                "crates/schema/src/facts.txt is stale: run `cargo xtask schema`"
            );
            Ok(())
        }
        _ => bail!("usage: cargo xtask schema [--check]"),
    }
}

/// The text of the table.
fn make(root: &Path) -> Result<String> {
    let metadata = metadata(root)?;
    let messages = pb::read(&source_of(&metadata, "k8s-pb")?)?;
    let structs = json::read(&source_of(&metadata, "k8s-openapi")?.join(VERSION))?;
    let mut table = join::join(&messages, &structs)?;
    overlay::apply(include_str!("schema/overlay.txt"), &mut table)?;
    Ok(join::write(&table))
}

fn metadata(root: &Path) -> Result<serde_json::Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The folder `src` of a package.
fn source_of(metadata: &serde_json::Value, package: &str) -> Result<PathBuf> {
    let manifest = metadata
        .pointer("/packages")
        .and_then(|p| p.as_array())
        .and_then(|all| {
            all.iter().find(|p| p.pointer("/name").and_then(|n| n.as_str()) == Some(package))
        })
        .and_then(|p| p.pointer("/manifest_path")?.as_str())
        .with_context(|| format!("{package} is not in the dependency graph"))?;
    Ok(Path::new(manifest).with_file_name("src"))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.

    #[test]
    fn r13_the_committed_table_is_current() {
        super::run(&["--check".to_owned()]).unwrap();
    }
}
