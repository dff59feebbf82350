//! The life of a server on somebody's machine: where its files are, how clients find it, how it is started in the
//! background and ended. Rules of spec/api-server.md.

mod kubeconfig;
mod paths;
mod server;
mod settings;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_client_tests::Operator;

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Somebody's home folder, which is also where they are, and all commands that they type there. Servers that are
/// left are ended with it.
struct Home {
    folder: TempDir,
    program: PathBuf,
    operator: Operator,
}

/// What a command printed and how it ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Home {
    fn of(operator: Operator) -> Home {
        let folder = TempDir::with_prefix("tenure-home-").unwrap();
        let program = PathBuf::from(operator.command(folder.path()).unwrap().get_program());
        Home { folder, program, operator }
    }

    fn new() -> Home {
        Home::of(Operator::Caller)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env("TMPDIR", self.folder.path()).env("NO_COLOR", "1");
        for variable in [
            "KUBECONFIG",
            "TENURE_LOG",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "KUBERNETES_SERVICE_HOST",
        ] {
            command.env_remove(variable);
        }
        if self.operator == Operator::Ordinary {
            command.uid(65534).gid(65534);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn tenure(&self, words: &[&str]) -> Ended {
        ended(&mut self.command(&self.program, words))
    }

    /// A command that must succeed.
    fn ok(&self, words: &[&str]) -> String {
        let ended = self.tenure(words);
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.stdout
    }

    fn kubectl(&self, words: &[&str]) -> String {
        let kubectl = std::env::var("KUBECTL").unwrap_or("kubectl".to_owned());
        let ended = ended(&mut self.command(Path::new(&kubectl), words));
        assert_eq!(ended.code, Some(0), "kubectl {words:?}: {ended:?}");
        ended.stdout
    }

    /// Starts a server in the background, on any port and without nodes, and gives its URL.
    fn up(&self, words: &[&str]) -> String {
        let usual = ["up", "--detach", "--listen", "127.0.0.1:0"];
        let nodes: &[&str] = if words.contains(&"--nodes") { &[] } else { &["--nodes", "0"] };
        let said = self.ok(&[&usual, nodes, words].concat());
        said.strip_prefix("ready ").unwrap().split(' ').next().unwrap().to_owned()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for folder in [".local/share/tenure", "data", "da ta", "x/data"] {
            if self.path(folder).join("lock").exists() {
                let folder = self.path(folder).display().to_string();
                let _ = self.tenure(&["down", "--data-dir", &folder]);
            }
        }
    }
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
