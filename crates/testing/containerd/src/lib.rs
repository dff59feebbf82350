//! A real containerd for one test: its own folders, its own socket, the two images of the house, and
//! nothing left behind. `cargo xtask setup` brings the programs; what pods do on it is for tests to say.

mod cleanup;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A small system to run commands in.
pub const BUSYBOX: &str = "localhost/busybox:1";
/// Set by `cargo xtask test`: a test that cannot have its containerd fails.
const REQUIRED: &str = "TENURE_CONTAINERD_REQUIRED";
/// How long the daemon may take to answer.
const START: Duration = Duration::from_secs(30);

/// A containerd that runs until this is dropped.
pub struct Containerd {
    tools: PathBuf,
    folder: TempDir,
    daemon: Option<Child>,
}

impl Containerd {
    /// Starts a daemon and imports the images. None, with a sentence that says why, when this machine
    /// cannot; an error when it should be able to.
    pub fn start() -> Result<Option<Containerd>, String> {
        let Some(tools) = or_skip(root().and_then(|()| memory()).and_then(|()| tools()))? else {
            return Ok(None);
        };
        // Short, for the path of a socket has at most 107 letters.
        let folder = tempfile::Builder::new().prefix("tenure-cri-").tempdir_in("/tmp");
        let folder = folder.map_err(|error| format!("no folder: {error}"))?;
        let mut containerd = Containerd { tools, folder, daemon: None };
        containerd.resume()?;
        for image in ["pause", "busybox"] {
            let archive = containerd.tools.join(format!("images/{image}.tar"));
            let archive = archive.to_string_lossy();
            containerd.ctr(&["images", "import", "--snapshotter", "native", &archive])?;
        }
        Ok(Some(containerd))
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A folder that lives as long as the daemon.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the daemon; containers go on, for each has a process of its own that watches it.
    pub fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Starts the daemon, for the first time or after it was killed.
    pub fn resume(&mut self) -> Result<(), String> {
        let folder = self.folder.path().display().to_string();
        let config = self.folder.path().join("config.toml");
        let written = std::fs::write(&config, CONFIG.replace("@", &folder));
        written.map_err(|error| format!("{}: {error}", config.display()))?;
        let log = std::fs::File::options().create(true).append(true).open(self.log());
        let log = log.map_err(|error| format!("{folder}: {error}"))?;
        let mut command = self.command("containerd");
        command.arg("--config").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.daemon = Some(command.spawn().map_err(|error| format!("containerd: {error}"))?);
        let begin = Instant::now();
        // The socket is there before the part that speaks CRI is.
        while self.ctr(&["version"]).is_err() || !self.has_logged("containerd successfully booted")
        {
            if begin.elapsed() > START {
                let log = std::fs::read_to_string(self.log()).unwrap_or_default();
                return Err(format!("containerd does not answer:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Runs `ctr` in the namespace of pods and gives what it prints.
    pub fn ctr(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.command("ctr");
        command.arg("--address").arg(self.socket()).args(["--namespace", "k8s.io"]);
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("ctr: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("ctr {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    /// Processes of all containers, and of those who watch them.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        cleanup::processes(&self.socket())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("containerd.log")
    }

    /// Whether this daemon, not one before it, has said something.
    fn has_logged(&self, words: &str) -> bool {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        log.rsplit("starting containerd").next().is_some_and(|log| log.contains(words))
    }

    /// A program of the set-up, which finds the others and their library.
    fn command(&self, program: &str) -> Command {
        let root = self.tools.join("root");
        let mut command = Command::new(root.join("usr/bin").join(program));
        let path = std::env::var("PATH").unwrap_or_default();
        let (bin, sbin) = (root.join("usr/bin"), root.join("usr/sbin"));
        command.env("PATH", format!("{}:{}:{path}", bin.display(), sbin.display()));
        let lib = std::fs::read_dir(root.join("usr/lib")).into_iter().flatten().flatten();
        let library = lib.map(|entry| entry.path()).find(|p| p.join("libseccomp.so.2").exists());
        if let Some(library) = library {
            command.env("LD_LIBRARY_PATH", library);
        }
        command
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.kill();
        cleanup::remove(self.folder.path(), &self.socket());
    }
}

/// The folder with the archives of the images, `busybox.tar` and `pause.tar`; none as above.
pub fn images() -> Result<Option<PathBuf>, String> {
    Ok(or_skip(tools())?.map(|tools| tools.join("images")))
}

/// Something that a test needs, or a sentence about why it is skipped, or an error if it must not be.
fn or_skip<T>(needed: Result<T, String>) -> Result<Option<T>, String> {
    match needed {
        Ok(there) => Ok(Some(there)),
        Err(why) if std::env::var_os(REQUIRED).is_some() => Err(why),
        Err(why) => {
            eprintln!("skipped: {why}");
            Ok(None)
        }
    }
}

fn root() -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_root = status.lines().any(|line| {
        line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
    });
    if is_root { Ok(()) } else { Err("containerd needs root".into()) }
}

/// Limits of memory need control groups; without them every container that has a limit fails, which
/// would look like a fault of the node.
fn memory() -> Result<(), String> {
    let unified = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_memory = |line: &str| {
        let after = line.split_once(" - ").map(|(_, after)| after).unwrap_or_default();
        let options = after.split(' ').nth(2).unwrap_or_default();
        after.starts_with("cgroup ") && options.split(',').any(|one| one == "memory")
    };
    if unified.split_whitespace().any(|one| one == "memory") || mounts.lines().any(is_memory) {
        return Ok(());
    }
    Err("the control groups for memory are mounted nowhere; \
         `mount -t cgroup -o memory cgroup FOLDER` mounts them"
        .into())
}

/// The folder of the set-up.
fn tools() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let tools = root.join(target).join("tools/containerd");
    match tools.join("installed").is_file() {
        true => Ok(tools),
        false => Err("no containerd is set up; `cargo xtask setup` brings it".into()),
    }
}

/// `@` is the folder of the test. The snapshotter copies, so that it works on any file system. No
/// process is made dearer to the kernel than the daemon is: that needs a right which root of a small
/// virtual machine may lack.
const CONFIG: &str = r#"version = 2
root = "@/root"
state = "@/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.overlayfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "@/socket"
[ttrpc]
  address = "@/socket.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "@/cni"
    conf_dir = "@/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "@/runc"
"#;
