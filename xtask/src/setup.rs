//! `cargo xtask setup`: the real parts that `test` needs. What can be installed is installed and
//! named; what cannot is named and fails. Nothing is skipped silently.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

/// The official Python client.
const PYTHON_CLIENT: &str = "kubernetes==37.0.2";
/// The official JavaScript client; the next major version needs Node 22, Debian has 20 and older.
const JAVASCRIPT_CLIENT: &str = "@kubernetes/client-node@1.4.0";
/// The oldest kubectl whose output the tests assert.
const KUBECTL_MINOR_MIN: u32 = 32;

/// A program, the Debian package that has it, and how it is asked for its version.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("python3", "python3", "--version"),
    ("node", "nodejs", "--version"),
    ("npm", "npm", "--version"),
    ("diff", "diffutils", "--version"),
    ("git", "git", "--version"),
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask setup");
    let mut packages: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _, flag)| answer(program, &[flag]).is_none())
        .map(|(_, package, _)| *package)
        .collect();
    if answer("python3", &["-m", "pip", "--version"]).is_none() {
        packages.push("python3-pip");
    }
    if kubectl_version().is_none() {
        packages.push("kubernetes-client");
    }
    debian(&packages)?;
    kubectl()?;
    python()?;
    javascript()
}

/// What a program says, if it is there.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

fn debian(packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let names = packages.join(" ");
    ensure!(
        answer("apt-get", &["--version"]).is_some()
            && answer("id", &["-u"]).as_deref() == Some("0\n"),
        "missing: {names}; install them, or run as root on Debian to have them installed"
    );
    println!("      installing Debian packages: {names}");
    let apt = |arguments: &[&str]| -> Result<()> {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        ensure!(command.status()?.success(), "apt-get {} failed", arguments.join(" "));
        Ok(())
    };
    apt(&["update", "--quiet"])?;
    apt(&[&["install", "--yes", "--quiet", "--no-install-recommends"], packages].concat())
}

fn kubectl_version() -> Option<u32> {
    let text = answer("kubectl", &["version", "--client", "--output", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&text).ok()?;
    let minor = version.pointer("/clientVersion/minor")?.as_str()?;
    minor.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

fn kubectl() -> Result<()> {
    let minor = kubectl_version().context("kubectl does not tell its version")?;
    if minor < KUBECTL_MINOR_MIN {
        bail!(
            "kubectl is 1.{minor}; the tests assert what 1.{KUBECTL_MINOR_MIN} and newer print. \
             Put a newer one on the PATH"
        );
    }
    println!("      kubectl 1.{minor}");
    Ok(())
}

fn python() -> Result<()> {
    let folder = workspace::target()?.join("tools/python");
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-input", "--no-warn-conflicts", "--target"]).arg(&folder).arg(PYTHON_CLIENT);
    install.env("PIP_ROOT_USER_ACTION", "ignore");
    package(&folder, PYTHON_CLIENT, &mut install)
}

fn javascript() -> Result<()> {
    let folder = workspace::target()?.join("tools/node");
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
    ]);
    install.arg(&folder).arg(JAVASCRIPT_CLIENT);
    package(&folder, JAVASCRIPT_CLIENT, &mut install)
}

/// Installs a client library into its folder, unless this very version is there.
fn package(folder: &Path, name: &str, install: &mut Command) -> Result<()> {
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|version| version == name) {
        println!("      {name}");
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    println!("      installing {name}");
    let done = install.stdin(Stdio::null()).status().with_context(|| format!("{install:?}"))?;
    ensure!(done.success(), "{name} could not be installed");
    Ok(std::fs::write(mark, name)?)
}
