//! `cargo xtask setup`: the real parts that `test` needs. What can be installed is installed and
//! named; what cannot is named and fails. Nothing is skipped silently.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::{tools, workspace};

mod containerd;
mod oci;

/// The official Python client.
const PYTHON_CLIENT: &str = "kubernetes==37.0.2";
/// The official JavaScript client; the next major version needs Node 22, Debian has 20 and older.
const JAVASCRIPT_CLIENT: &str = "@kubernetes/client-node@1.4.0";
/// From this version on, the tests use the kubectl that is there.
const KUBECTL_MINOR_MIN: u32 = 32;
/// The kubectl of Debian 12, the only older one whose output the tests assert.
const KUBECTL_MINOR_DEBIAN: u32 = 20;
/// Where the Debian package puts it; another one may come earlier on the PATH.
const KUBECTL_DEBIAN: &str = "/usr/bin/kubectl";

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
    if kubectl().is_none() {
        // No package changes what the variable names.
        ensure!(std::env::var_os("KUBECTL").is_none(), kubectl_missing());
        packages.push("kubernetes-client");
    }
    debian(&packages)?;
    let (program, minor) = kubectl().with_context(kubectl_missing)?;
    println!("      kubectl 1.{minor} ({})", program.display());
    python()?;
    javascript()?;
    tool(tools::DENY)?;
    containerd::run()
}

fn tool(tool: tools::Tool) -> Result<()> {
    let tools::Tool { name, version } = tool;
    if tool.is_there()? {
        println!("      {name} {version}");
        return Ok(());
    }
    println!("      installing {name} {version}");
    let done = tool.installed()?.arg("--quiet").stdin(Stdio::null()).status()?;
    ensure!(done.success(), "{name} could not be installed");
    Ok(())
}

/// What a program says, if it is there.
fn answer(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
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
        "missing: {names}{}; install them, or run as root on Debian to have them installed",
        if packages.contains(&"kubernetes-client") {
            format!(" (kubectl 1.{KUBECTL_MINOR_MIN} or newer will do)")
        } else {
            String::new()
        }
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

/// The kubectl that the tests use and its minor version: the one that `KUBECTL` names, or else
/// the one on the PATH, or else that of Debian; the first whose output the tests know.
pub(crate) fn kubectl() -> Option<(OsString, u32)> {
    let candidates = match std::env::var_os("KUBECTL") {
        Some(program) => vec![program],
        None => vec!["kubectl".into(), KUBECTL_DEBIAN.into()],
    };
    candidates.into_iter().find_map(|program| {
        let minor = kubectl_minor(&program)?;
        let known = minor >= KUBECTL_MINOR_MIN || minor == KUBECTL_MINOR_DEBIAN;
        known.then_some((program, minor))
    })
}

/// The minor version of a kubectl, if the program is there and tells.
fn kubectl_minor(program: &OsString) -> Option<u32> {
    let text = answer(program, &["version", "--client", "--output", "json"])?;
    let version: serde_json::Value = serde_json::from_str(&text).ok()?;
    let minor = version.pointer("/clientVersion/minor")?.as_str()?;
    minor.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

fn kubectl_missing() -> String {
    let program = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
    let there = match kubectl_minor(&program) {
        Some(minor) => format!("is 1.{minor}"),
        None => "is not there".to_owned(),
    };
    format!(
        "missing: kubectl 1.{KUBECTL_MINOR_MIN} or newer, or the 1.{KUBECTL_MINOR_DEBIAN} of \
         Debian 12; `{}` {there}",
        program.display()
    )
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
