//! A reader's shell: one session for a page, in a folder that looks like a clone of the repository.
//!
//! `cargo run --release -- …` runs the program under test, which is built already.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_client_tests::Operator;
use tenure_client_tests::server;

/// No line of a page takes longer, on a busy machine either.
const LINE_SECONDS_MAX: u64 = 90;

/// What a reader's clone holds of the repository: what pages name.
const CLONED: [&str; 2] = ["docs/examples", "crates/references/strategies"];

/// Stands in for cargo, because what it would build is built already.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
"run --release -- "*) shift 3; exec tenure "$@" ;;
"xtask test") echo "this is that test" ;;
*) echo "cargo $*: no page says this" >&2; exit 1 ;;
esac
"#;

pub(super) struct Shell {
    child: Child,
    input: ChildStdin,
    steps: usize,
    folder: TempDir,
}

/// How a line ended.
pub(super) struct Said {
    pub(super) succeeded: bool,
    /// Of both streams, as a terminal shows it.
    pub(super) text: String,
}

impl Shell {
    pub(super) fn open(operator: Operator) -> Shell {
        let folder = TempDir::with_prefix("tenure page ").unwrap();
        let root = server::root().unwrap();
        for part in CLONED {
            copy(&root.join(part), &folder.path().join(part));
        }
        // Where people put programs of their own.
        let programs = folder.path().join(".local/bin");
        fs::create_dir_all(&programs).unwrap();
        server::copy_program(&server::binary().unwrap(), &programs.join("tenure")).unwrap();
        fs::write(programs.join("cargo"), CARGO).unwrap();
        for name in ["tenure", "cargo"] {
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(programs.join(name), executable).unwrap();
        }
        // The tests may have a kubectl of their own.
        if let Some(kubectl) = std::env::var("KUBECTL").ok().filter(|path| path.contains('/')) {
            symlink(kubectl, programs.join("kubectl")).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .arg("--norc")
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", folder.path())
            .env("NO_COLOR", "1")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        operator.runs(&mut command, folder.path()).unwrap();
        for own in [".local", ".local/bin"] {
            operator.owns(&folder.path().join(own)).unwrap();
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        Shell { child, input, steps: 0, folder }
    }

    /// Types a line and waits for its end.
    pub(super) fn run(&mut self, command: &str) -> Said {
        let step = self.begin(command, "");
        let ended = self.file(step, "ended");
        let begin = Instant::now();
        while !ended.exists() {
            let waited = begin.elapsed();
            let text = self.said(step);
            assert!(waited.as_secs() < LINE_SECONDS_MAX, "{command}\ndoes not end\n{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let succeeded = fs::read_to_string(ended).unwrap().trim() == "0";
        Said { succeeded, text: self.said(step) }
    }

    /// Types a line into a terminal of its own, where it goes on until it is stopped; waits until it says this.
    pub(super) fn leave_running(&mut self, command: &str, until: Option<&str>) {
        let step = self.begin(&format!("exec {command}"), "& left=$!");
        let begin = Instant::now();
        while until.is_some_and(|words| !self.said(step).contains(words)) {
            let text = self.said(step);
            assert!(begin.elapsed().as_secs() < LINE_SECONDS_MAX, "{command}\n{text}");
            assert!(!text.contains("error"), "{command}\n{text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends what was left running, as Ctrl-C would, and waits for it.
    pub(super) fn stop_what_runs(&mut self) {
        let said =
            self.run("if [ -n \"$left\" ]; then kill -INT \"$left\"; wait \"$left\"; left=; fi");
        assert!(said.succeeded, "what was left running ended badly: {}", said.text);
    }

    fn begin(&mut self, command: &str, then: &str) -> usize {
        self.steps += 1;
        let step = self.steps;
        fs::write(self.file(step, "typed"), format!("{command}\n")).unwrap();
        // What runs in the background ignores Ctrl-C, unless jobs are controlled as in a terminal.
        let jobs = if then.is_empty() { "" } else { "set -m; " };
        let line = format!(
            "{jobs}. ./.step-{step}-typed > .step-{step}-said 2>&1 < /dev/null {then}\n\
             echo $? > .step-{step}-ends; mv .step-{step}-ends .step-{step}-ended\n"
        );
        self.input.write_all(line.as_bytes()).unwrap();
        step
    }

    fn said(&self, step: usize) -> String {
        fs::read(self.file(step, "said"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn file(&self, step: usize, what: &str) -> PathBuf {
        self.folder.path().join(format!(".step-{step}-{what}"))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.input.write_all(b"tenure down; kill $(jobs -p); wait; exit\n");
        let begin = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begin.elapsed().as_secs() > 20 {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
