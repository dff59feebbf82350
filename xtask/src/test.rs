//! `cargo xtask test`: the gate, then every real client. This is what CI runs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::gate::{self, passed};
use crate::steps::Steps;
use crate::{setup, sim, workspace};

/// Each suite of tests/clients: its modules, what it is called, its limit in minutes.
const SUITES: [(&[&str], &str, u64); 14] = [
    (&["kubectl"], "client kubectl", 5),
    (&["kube_rs"], "client kube-rs", 5),
    (&["python"], "client python", 3),
    (&["javascript"], "client javascript", 3),
    (&["parity", "recorded"], "parity recordings", 8),
    (&["node"], "pods on nodes", 15),
    (&["lifecycle", "log_lines", "metrics"], "the life of a server", 8),
    (&["envtest"], "in the place of kube-apiserver", 5),
    (&["inspect", "unused"], "questions about owners", 5),
    (&["access", "reference_hammer", "references"], "access by reference", 8),
    (&["pages"], "README and guides", 10),
    (&["bad_input"], "bad input", 5),
    (&["attacks"], "attacks", 10),
    (&["crash"], "crash", 15),
];
/// How often a server is killed; `--crash-rounds` sets another number.
const CRASH_ROUNDS: &str = "200";

/// A small part of what `cargo xtask sim` tries.
const SIMS: [(&str, &[&str]); 4] = [
    ("simulation", &["--histories", "10000", "--runs", "2000"]),
    ("simulation of retention", &["retention", "--histories", "100000", "--events", "4"]),
    ("simulation of references", &["reference", "--steps", "200000"]),
    ("simulation of access", &["access", "--decisions", "1000000"]),
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let rounds = match arguments {
        [] => CRASH_ROUNDS,
        [flag, number] if flag == "--crash-rounds" => number,
        _ => bail!("usage: cargo xtask test [--crash-rounds N]"),
    };
    let mut steps = Steps::new(1 + gate::STEPS + SIMS.len() + SUITES.len())?;
    steps.own("setup", || setup::run(&[]))?;
    gate::checks(&mut steps)?;
    let (mut clients, mut scripts, mut failed) = (0, 0, Vec::new());
    // After a failed test the other suites still say what they know.
    let count = gate::tests(&mut steps, gate::Parts::Required).unwrap_or_else(|error| {
        failed.push(format!("{error:#}"));
        gate::Count::default()
    });
    if let Err(error) = gate::examples(&mut steps) {
        failed.push(format!("{error:#}"));
    }
    let built = Built::find()?;
    for (name, few) in SIMS {
        let few: Vec<String> = few.iter().map(|&word| word.to_owned()).collect();
        if let Err(error) = steps.command(name, &mut sim::command(&few)?, 8) {
            failed.push(format!("{error:#}"));
        }
    }
    let forgotten = built.forgotten();
    if !forgotten.is_empty() {
        failed.push(format!("client tests in no suite: {}", forgotten.join(", ")));
    }
    for (modules, name, limit_minutes) in SUITES {
        let mut command = built.suite(modules, rounds)?;
        match steps.command(name, &mut command, limit_minutes) {
            Ok(log) => {
                let ran = log.lines().filter_map(passed).count();
                ensure!(ran > 0, "{name}: no test ran");
                let inside = inside(&log);
                println!("      {ran} tests{}", told(&log));
                clients += ran;
                scripts += inside;
            }
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    let seconds = steps.elapsed().as_secs();
    println!("{count}");
    println!("{clients} client tests passed, {scripts} more inside scripts and recordings");
    println!("{} min {} s in all", seconds / 60, seconds % 60);
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(())
}

/// What a suite in another language counted: `N passed, M failed`.
fn inside(log: &str) -> usize {
    let number =
        |line: &str| line.split_once(" passed, ")?.0.rsplit(' ').next()?.parse::<usize>().ok();
    log.lines().filter(|line| !line.starts_with("test result")).filter_map(number).sum()
}

/// The lines in which a suite sums itself up.
fn told(log: &str) -> String {
    let told = |line: &&str| {
        [" passed, ", " acknowledged writes", " cascades of ", " rolling updates of "]
            .iter()
            .any(|part| line.contains(part))
            && !line.starts_with("test result")
    };
    log.lines().filter(told).fold(String::new(), |all, line| format!("{all}; {line}"))
}

/// What the build left: the server, and the test program of the clients with the names of its tests.
struct Built {
    server: PathBuf,
    tests: PathBuf,
    names: Vec<String>,
}

impl Built {
    /// Asks cargo, which answers at once when everything is fresh.
    fn find() -> Result<Built> {
        let arguments =
            ["test", "--workspace", "--locked", "--no-run", "--quiet", "--message-format", "json"];
        let output = workspace::cargo(&arguments)?.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (mut server, mut tests) = (None, None);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let text = |pointer| message.pointer(pointer).and_then(Value::as_str);
            let Some(executable) = text("/executable").map(PathBuf::from) else { continue };
            let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
            match (text("/target/name"), text("/target/kind/0"), is_test) {
                (Some("tenure"), Some("bin"), false) => server = Some(executable),
                (Some("it"), _, true)
                    if text("/manifest_path")
                        .is_some_and(|p| p.ends_with("tests/clients/Cargo.toml")) =>
                {
                    tests = Some(executable);
                }
                _ => {}
            }
        }
        let tests = tests.context("cargo built no client tests")?;
        let list = Command::new(&tests).args(["--list", "--format", "terse"]).output()?;
        ensure!(list.status.success(), "{}", String::from_utf8_lossy(&list.stderr));
        let list = String::from_utf8_lossy(&list.stdout);
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        let names = names.map(str::to_owned).collect();
        Ok(Built { server: server.context("cargo built no `tenure`")?, tests, names })
    }

    /// The tests of which no suite is told.
    fn forgotten(&self) -> Vec<&str> {
        let names = self.names.iter().map(String::as_str);
        names.filter(|name| !SUITES.iter().any(|(modules, ..)| is_in(modules, name))).collect()
    }

    fn suite(&self, modules: &[&str], rounds: &str) -> Result<Command> {
        let names: Vec<&String> = self.names.iter().filter(|name| is_in(modules, name)).collect();
        // Without a name, all tests would run.
        ensure!(!names.is_empty(), "there are no client tests in {}", modules.join(", "));
        let mut command = Command::new(&self.tests);
        // Two at a time: each test has a server of its own, and machines have few cores.
        command.args(["--test-threads", "2", "--show-output", "--exact"]);
        command.args(names);
        command.current_dir(workspace::root()?.join("tests/clients"));
        command.env("TENURE_BIN", &self.server).env("TENURE_CRASH_ROUNDS", rounds);
        command.env(gate::CONTAINERD_REQUIRED, "1");
        if let Some((program, _)) = setup::kubectl() {
            command.env("KUBECTL", program);
        }
        Ok(command)
    }
}

/// Whether a test is in one of these modules, which are outermost: others may have a part of that name.
fn is_in(modules: &[&str], test: &str) -> bool {
    test.split_once("::").is_some_and(|(module, _)| modules.contains(&module))
}
