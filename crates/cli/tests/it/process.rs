//! Running `tenure` and reading what it says.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// What a finished process left.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The command with an environment that holds nothing of the developer's.
pub(crate) fn tenure(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(arguments).env_remove("TENURE_LOG").env_remove("XDG_DATA_HOME");
    command.env("HOME", "/nonexistent").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Ended {
    ended(tenure(arguments).output().unwrap())
}

pub(crate) fn ended(output: std::process::Output) -> Ended {
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A server that said it is ready; killed when the test ends early.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The line that it said.
    pub(crate) ready: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Server {
        // Nodes have tests of their own; here they would only cost time.
        let mut child = tenure(&[&["up", "--nodes", "0"], arguments].concat()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        if ready.is_empty() {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("not ready: {stderr}");
        }
        Server { child, stdout, ready }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `127.0.0.1:PORT`, taken from the ready line.
    pub(crate) fn address(&self) -> &str {
        let url = self.ready.split(' ').nth(1).unwrap();
        url.strip_prefix("https://").unwrap()
    }

    /// Sends a signal, waits, and says how long the end took.
    pub(crate) fn end(mut self, signal: Signal) -> (Ended, Duration) {
        let begin = Instant::now();
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let status = self.child.wait().unwrap();
        let took = begin.elapsed();
        let (mut rest, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut rest).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let stdout = format!("{}{rest}", self.ready);
        (Ended { code: status.code(), stdout, stderr }, took)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
