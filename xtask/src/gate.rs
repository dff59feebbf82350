//! `cargo xtask gate`: what every change must pass, in minutes, with nothing but a toolchain.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::steps::Steps;
use crate::{advisories, fuzz, rules, schema, tidy, tools, workspace};

/// How many steps [`checks`], [`tests`] and [`examples`] take.
pub(crate) const STEPS: usize = 14 + EXAMPLES.len();
/// What users are shown, each a program that must end well: the examples of crates/cluster and
/// crates/references.
const EXAMPLES: [&str; 6] = ["start", "users", "custom_kind", "controller", "by_hand", "gateway"];
const CLIENTS: &str = "tenure-client-tests";
/// Crates that others depend on: their packages, and their folders below `crates`.
const PUBLIC: [(&str, &str); 2] =
    [("tenure-cluster", "cluster"), ("tenure-references", "references")];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "usage: cargo xtask gate");
    let mut steps = Steps::new(STEPS)?;
    checks(&mut steps)?;
    let count = tests(&mut steps, Parts::Optional)?;
    examples(&mut steps)?;
    let shown = EXAMPLES.len();
    println!("gate: {count}; {shown} examples; {} s", steps.elapsed().as_secs());
    Ok(())
}

/// Everything that needs no test to run.
pub(crate) fn checks(steps: &mut Steps) -> Result<()> {
    let check = ["--check".to_owned()];
    steps.command(
        "format",
        &mut workspace::cargo(&["fmt", "--all", "--check", "--", "--color", "never"])?,
        2,
    )?;
    steps.own("tidy", || tidy::run(&[]))?;
    steps.own("rules", || rules::run(&check))?;
    steps.own("schema", || schema::run(&check))?;
    dependencies(steps)?;
    let clippy = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "--deny",
        "warnings",
    ];
    steps.command("clippy", &mut workspace::cargo(&clippy)?, 15)?;
    let doc = ["doc", "--quiet", "--workspace", "--no-deps", "--locked"];
    let mut doc = workspace::cargo(&doc)?;
    steps.command("documentation", doc.env("RUSTDOCFLAGS", "--deny warnings"), 15)?;
    packages(steps)?;
    steps.command("fuzz targets", &mut fuzz::check()?, 10)?;
    Ok(())
}

/// What the packages of the public crates would hold; fails where a manifest could not be packed.
fn packages(steps: &mut Steps) -> Result<()> {
    // Whoever runs the gate has not committed yet.
    let mut command =
        workspace::cargo(&["package", "--list", "--allow-dirty", "--locked", "--offline"])?;
    for (package, _) in PUBLIC {
        command.args(["--package", package]);
    }
    let listed = steps.command("packages", &mut command, 2)?;
    let wrong: Vec<&str> = listed.lines().filter(|line| line.starts_with("warning")).collect();
    ensure!(wrong.is_empty(), "cargo package: {}", wrong.join("; "));
    let readmes = listed.lines().filter(|line| *line == "README.md").count();
    ensure!(readmes == PUBLIC.len(), "{readmes} of {} packages have a README.md", PUBLIC.len());
    Ok(())
}

/// What may come in, and whether something is known against it (spec/dependencies.md R44, R49). Needs no network
/// once cargo-deny is installed.
fn dependencies(steps: &mut Steps) -> Result<()> {
    steps.command("cargo-deny", &mut tools::DENY.installed()?, 15)?;
    let mut deny = Command::new(tools::DENY.path()?);
    deny.args(["--offline", "--color", "never", "check", "bans", "licenses", "sources"]);
    steps.command("licences, bans and sources", deny.current_dir(workspace::root()?), 2)?;
    steps.own("advisories", advisories::check)
}

/// What a test does that wants a real part which is not there, such as containerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// It says so and passes.
    Optional,
    /// It fails.
    Required,
}

/// Set for tests whose parts are required; read by crates/testing/containerd.
pub(crate) const CONTAINERD_REQUIRED: &str = "TENURE_CONTAINERD_REQUIRED";

/// Builds and runs every test but those of real clients.
pub(crate) fn tests(steps: &mut Steps, parts: Parts) -> Result<Count> {
    // The whole workspace at once, so that every later step finds the same artifacts.
    let build = ["test", "--workspace", "--locked", "--no-run"];
    steps.command("build tests", &mut workspace::cargo(&build)?, 20)?;
    let nextest = Command::new("cargo-nextest").args(["nextest", "--version"]).output();
    let mut command = if nextest.is_ok_and(|output| output.status.success()) {
        let filter = format!("not package({CLIENTS})");
        let arguments =
            ["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--color", "never"];
        let mut command = workspace::cargo(&arguments)?;
        command.args(["--status-level", "pass", "--filterset", &filter]);
        command
    } else {
        workspace::cargo(&[
            "test",
            "--workspace",
            "--tests",
            "--locked",
            "--no-fail-fast",
            "--exclude",
            CLIENTS,
        ])?
    };
    if parts == Parts::Required {
        command.env(CONTAINERD_REQUIRED, "1");
    }
    let log = steps.command("rule, contract and unit tests", &mut command, 15);
    let shown = doc_tests(steps);
    let mut count = Count::of(&log?);
    count.doc = shown?;
    Ok(count)
}

/// Runs the examples inside of documentation, which nextest leaves out, and counts them.
fn doc_tests(steps: &mut Steps) -> Result<usize> {
    let arguments = ["test", "--doc", "--workspace", "--locked", "--no-fail-fast"];
    let log = steps.command("doc tests", &mut workspace::cargo(&arguments)?, 10)?;
    let silent = without_doc_tests(&log);
    ensure!(silent.is_empty(), "no example in the documentation of {} ran", silent.join(", "));
    Ok(log.lines().filter_map(passed).count())
}

/// The public crates of which no doc test has run.
fn without_doc_tests(log: &str) -> Vec<&'static str> {
    let ran = |folder: &str| {
        let start = format!("crates/{folder}/");
        let mut names = log.lines().filter_map(passed);
        // What is only compiled says so at the end.
        names.any(|name| name.starts_with(&start) && name.ends_with(')'))
    };
    PUBLIC.iter().filter(|(_, folder)| !ran(folder)).map(|(package, _)| *package).collect()
}

/// Runs every example, which the build of the tests has left behind.
pub(crate) fn examples(steps: &mut Steps) -> Result<()> {
    let folder = workspace::target()?.join("debug/examples");
    for name in EXAMPLES {
        steps.command(&format!("example {name}"), &mut Command::new(folder.join(name)), 1)?;
    }
    Ok(())
}

/// How many tests ran, by what they guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Tests that bear the number of a rule.
    pub(crate) rule: usize,
    /// Tests that every implementation of an interface must pass.
    pub(crate) contract: usize,
    /// All the others.
    pub(crate) other: usize,
    /// Examples in documentation.
    pub(crate) doc: usize,
}

impl Count {
    /// Reads the log of a test runner; a test may be both rule and contract, and counts as both.
    pub(crate) fn of(log: &str) -> Count {
        let mut count = Count::default();
        for name in log.lines().filter_map(passed) {
            let last = name.rsplit("::").next().unwrap_or_default();
            let rule = rules::rules_of(last).is_some();
            let contract = name.contains("contract");
            count.rule += usize::from(rule);
            count.contract += usize::from(contract);
            count.other += usize::from(!rule && !contract);
        }
        count
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Count { rule, contract, other, doc } = self;
        write!(
            out,
            "{rule} rule tests, {contract} contract tests, {other} other tests and {doc} doc tests passed"
        )
    }
}

/// The name of a test that passed, as either runner prints it.
pub(crate) fn passed(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("PASS [") {
        return rest.rsplit(' ').next();
    }
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_example_is_left_out() {
        let root = workspace::root().unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()
        };
        let rooms = ["crates/cluster/examples", "crates/references/examples"];
        let entries = rooms.iter().flat_map(|room| std::fs::read_dir(root.join(room)).unwrap());
        let mut found: Vec<String> = entries.map(name).collect();
        found.sort();
        let mut run = EXAMPLES;
        run.sort_unstable();
        assert_eq!(found, run);
    }

    #[test]
    fn tests_are_counted_by_what_they_guard() {
        let log = "
            PASS [   0.005s] (1/5) tenure-world it contract::r182_r183_memory_keeps_it
            PASS [   0.005s] tenure-world it contract::saved
            PASS [   1.005s] tenure-kinds r60_a_long_name
            FAIL [   0.005s] tenure-kinds r61_no
test plain::reading ... ok
test plain::r7_writing ... FAILED";
        assert_eq!(Count::of(log), Count { rule: 2, contract: 2, other: 1, doc: 0 });
    }

    #[test]
    fn a_public_crate_without_doc_tests_is_found() {
        let one = "test crates/cluster/src/../README.md - (line 9) ... ok\n";
        assert_eq!(without_doc_tests(one), ["tenure-references"]);
        // Compiling is not running.
        let compiled = "test crates/references/src/lib.rs - (line 15) - compile ... ok\n";
        assert_eq!(without_doc_tests(&format!("{one}{compiled}")), ["tenure-references"]);
        let both = format!("{one}test crates/references/src/lib.rs - (line 15) ... ok\n");
        assert!(without_doc_tests(&both).is_empty());
    }
}
