//! Where things lie: the root, the members, the files that belong to the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("xtask has a parent folder")?.to_owned())
}

/// Where cargo builds; also where tools and logs go, so that `cargo clean` removes them.
pub(crate) fn target() -> Result<PathBuf> {
    let root = root()?;
    Ok(match std::env::var_os("CARGO_TARGET_DIR") {
        Some(path) => root.join(path),
        None => root.join("target"),
    })
}

/// The cargo that runs us, at the root.
///
/// What it told us about our own package is kept from it: build scripts watch some of these variables,
/// and would run again, with all that depends on them, whenever a build from here follows one by hand.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?).env("CARGO_TERM_COLOR", "never");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Whether cargo sets this variable to tell a program about the package it was built from.
fn is_of_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST_")
        || matches!(
            name,
            "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE" | "OUT_DIR"
        )
}

/// One member of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    /// The name of its folder.
    pub(crate) folder: String,
    /// Where its manifest is.
    pub(crate) manifest: PathBuf,
    /// Members of ours that it uses, dev-dependencies aside; package names.
    pub(crate) uses: Vec<String>,
    /// The name of the package.
    pub(crate) package: String,
    /// The root file of each target.
    pub(crate) targets: Vec<PathBuf>,
}

/// All members, as cargo sees them.
pub(crate) fn members() -> Result<Vec<Member>> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"])?.output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = list(&metadata, "packages");
    let ours: Vec<&str> = packages.iter().filter_map(|p| text(p, "name")).collect();
    packages.iter().map(|package| member(package, &ours)).collect()
}

fn member(package: &Value, ours: &[&str]) -> Result<Member> {
    let manifest = PathBuf::from(text(package, "manifest_path").context("a manifest path")?);
    let folder = manifest.parent().and_then(Path::file_name).context("a folder")?;
    let uses = list(package, "dependencies")
        .iter()
        .filter(|dependency| text(dependency, "kind") != Some("dev"))
        .filter_map(|dependency| text(dependency, "name"))
        .filter(|name| ours.contains(name))
        .map(str::to_owned)
        .collect();
    let targets = list(package, "targets").iter().filter_map(|t| text(t, "src_path"));
    Ok(Member {
        folder: folder.to_string_lossy().into_owned(),
        uses,
        package: text(package, "name").context("a name")?.to_owned(),
        targets: targets.map(PathBuf::from).collect(),
        manifest,
    })
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// Every file that is, or would be, committed; relative to the root.
pub(crate) fn files() -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root()?)
        .output()
        .context("git lists the files of the repository")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout)?;
    let mut files: Vec<String> =
        names.split('\0').filter(|n| !n.is_empty()).map(Into::into).collect();
    files.sort();
    files.dedup();
    let root = root()?;
    files.retain(|file| root.join(file).is_file());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_from_here_is_the_build_by_hand() {
        // A test is told about its package just as a program is.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo(&["build"]).unwrap();
        let removed = |wanted: &str| command.get_envs().any(|(n, v)| n == wanted && v.is_none());
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
        assert!(!is_of_package("CARGO") && !is_of_package("CARGO_TARGET_DIR"));
        assert!(!is_of_package("CARGO_HOME"));
    }
}
