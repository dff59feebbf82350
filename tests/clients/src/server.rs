//! A `tenure up` of its own for one test: started on a free port, waited for, killed in the end.
//! What is asked of it never lives here.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wire::Access;

/// Far more than a start needs on a busy machine; a server that is not ready by then never will be.
const READY_SECONDS_MAX: u64 = 60;

/// A running server; dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
    ready: Duration,
    errors: PathBuf,
    /// Holds the kubeconfig and what the server said; gone with the server.
    folder: TempDir,
}

impl Server {
    /// Starts a server that keeps nothing.
    pub fn ephemeral() -> Result<Server> {
        Server::start(&["--ephemeral"])
    }

    /// Starts a server that keeps its objects in `data_dir` and acknowledges what is on disk.
    pub fn durable(data_dir: &Path) -> Result<Server> {
        let data_dir = data_dir.to_str().context("the data folder is not UTF-8")?;
        Server::start(&["--data-dir", data_dir, "--durability", "strict"])
    }

    /// Starts a server with these flags of `tenure up` and waits until it is ready. Without a word
    /// about nodes it has none, as real clients' recordings had none, and without one about its
    /// address it takes any free port.
    pub fn start(flags: &[&str]) -> Result<Server> {
        Server::start_as(Operator::Caller, flags)
    }

    /// As [`Server::start`], run by this operator, in a folder of the operator's own.
    pub fn start_as(operator: Operator, flags: &[&str]) -> Result<Server> {
        Server::start_within(operator, &std::env::temp_dir(), &[], flags)
    }

    /// As [`Server::start_as`], with the operator's folder in another one than that of temporary files,
    /// and with a command in front of the program.
    pub fn start_within(
        operator: Operator,
        parent: &Path,
        before: &[&str],
        flags: &[&str],
    ) -> Result<Server> {
        let without_nodes: &[&str] =
            if flags.contains(&"--nodes") { &[] } else { &["--nodes", "0"] };
        let anywhere: &[&str] =
            if flags.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let folder = TempDir::with_prefix_in("tenure-client-", parent)?;
        let kubeconfig = folder.path().join("kubeconfig");
        let errors = folder.path().join("stderr");
        let mut command = operator.command_after(folder.path(), before)?;
        let begin = Instant::now();
        let mut child = command
            .arg("up")
            .args(flags)
            .args(without_nodes)
            .args(anywhere)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors)?)
            .spawn()
            .context("tenure does not start")?;
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut server =
            Server { child, url: String::new(), kubeconfig, ready: Duration::ZERO, errors, folder };
        let (said, heard) = mpsc::channel();
        // A thread, because a pipe cannot be read with a deadline; it ends with the server.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    break;
                }
            }
        });
        let line = heard
            .recv_timeout(Duration::from_secs(READY_SECONDS_MAX))
            .map_err(|_| anyhow::anyhow!("the server never said `ready`: {}", server.said()))?;
        server.ready = begin.elapsed();
        let Some(url) = line.strip_prefix("ready ").and_then(|rest| rest.split(' ').next()) else {
            bail!("the first line is `{line}`");
        };
        server.url = url.to_owned();
        Ok(server)
    }

    /// Where it listens, as a URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file that clients read.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder for files of the test, gone with the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How long it took from the start of the process to its ready line.
    #[must_use]
    pub fn ready(&self) -> Duration {
        self.ready
    }

    /// What the server wrote to stderr so far.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// How the small client reaches it, with the rights of the administrator.
    pub fn access(&self) -> Result<Access> {
        Access::read(&self.kubeconfig)
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The memory it holds now, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        Server::resident_bytes_of(self.id())
    }

    /// The memory that a server's process holds now, for whoever looks from another thread.
    pub fn resident_bytes_of(process: u32) -> Result<u64> {
        status_bytes(process, "VmRSS:")
    }

    /// The most memory it ever held, in bytes.
    pub fn peak_bytes(&self) -> Result<u64> {
        status_bytes(self.id(), "VmHWM:")
    }

    /// The processor time it has used so far.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
        // User and system time, the 14th and 15th field, in hundredths of a second.
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks = ticks.sum::<Result<u64, _>>()?;
        Ok(Duration::from_millis(ticks * 10))
    }

    /// The bytes it has had written to the disk so far.
    pub fn written_bytes(&self) -> Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
        Ok(line.context("no bytes written")?.trim().parse()?)
    }

    /// Fails if the process has ended.
    pub fn alive(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the server ended with {ended:?}: {}", self.said());
        Ok(())
    }

    /// Ends it as a power cut would: no signal handler runs.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it with SIGTERM and waits.
    pub fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}: {}", self.said());
        Ok(())
    }
}

fn status_bytes(process: u32, key: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    Ok(kilobytes.with_context(|| format!("no {key} in status"))?.trim().parse::<u64>()? * 1024)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who runs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Whoever runs the test.
    Caller,
    /// Somebody who is not root, whoever runs the test.
    Ordinary,
}

/// The user that is nobody in particular on every machine.
const NOBODY: u32 = 65534;

/// Copies a program that is run afterwards.
///
/// Another process does it: what is open for writing here would be so in whatever another test starts in the
/// same moment, and a program that somebody has open for writing cannot be run.
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").args([from, to]).status()?;
    ensure!(status.success(), "cp {} {}", from.display(), to.display());
    Ok(())
}

impl Operator {
    /// Both kinds of operator where the test can be both, else the one that it is.
    #[must_use]
    pub fn all() -> &'static [Operator] {
        if rustix::process::geteuid().is_root() {
            &[Operator::Caller, Operator::Ordinary]
        } else {
            &[Operator::Caller]
        }
    }

    /// The program under test, to be run by this operator with `folder` as its own.
    pub fn command(self, folder: &Path) -> Result<Command> {
        self.command_after(folder, &[])
    }

    fn command_after(self, folder: &Path, before: &[&str]) -> Result<Command> {
        let binary = binary()?;
        let after = |binary: PathBuf| match before.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        if !self.is_another() {
            return Ok(after(binary));
        }
        // The build may lie where only root reads.
        let copy = folder.join("tenure");
        copy_program(&binary, &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
        let mut command = after(copy);
        self.runs(&mut command, folder)?;
        Ok(command)
    }

    /// Has a command run by this operator, with `folder` as its own.
    pub fn runs(self, command: &mut Command, folder: &Path) -> Result<()> {
        self.owns(folder)?;
        if self.is_another() {
            command.uid(NOBODY).gid(NOBODY).env("TMPDIR", folder);
        }
        Ok(())
    }

    /// Gives a file or folder to this operator.
    pub fn owns(self, path: &Path) -> Result<()> {
        if self.is_another() {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    fn is_another(self) -> bool {
        self == Operator::Ordinary && rustix::process::geteuid().is_root()
    }
}

/// The program under test: `TENURE_BIN`, or a fresh build.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TENURE_BIN") {
        return Ok(PathBuf::from(path));
    }
    static BUILT: std::sync::OnceLock<Result<PathBuf, String>> = std::sync::OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

/// Builds the program, so that a test never runs yesterday's.
fn build() -> Result<PathBuf> {
    let root = root()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--package", "tenure"])
        .current_dir(&root)
        .status()?;
    ensure!(status.success(), "tenure does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    Ok(target.unwrap_or_else(|| root.join("target")).join("debug/tenure"))
}

/// The root of the repository.
pub fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    Ok(root.context("tests/clients lies two folders deep")?.to_owned())
}
