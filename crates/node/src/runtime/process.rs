//! The runtime that needs nothing: a container is a process of the node in namespaces of its own.
//! A shim holds each container, so containers outlive the agent and are found again.
//!
//! ```text
//!   agent ── link ──► shim (a fork of this program) ── namespaces ──► first process ──► command
//! ```
//!
//! Pods, restart rules and the content of volumes never come here.

mod cgroup;
mod image;
mod init;
mod keep;
mod launch;
mod link;
mod log;
mod oci;
mod order;
mod raw;
mod root;
mod session;
mod shim;
mod signal;
mod state;
mod tap;
mod tar;
mod wire;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::sync::broadcast;

pub use self::image::Images;
pub use self::shim::{ARGUMENT, take_over};

use self::cgroup::Groups;
use self::keep::{Held, Keep};
use self::link::Link;
use self::state::{ContainerRecord, SandboxRecord};
use self::wire::{Ask, Exited, Tell, Wanted};
use super::{
    About, Answer, Container, ContainerConfig, ContainerState, Duplex, Image, ImageWanted, Ran,
    Runtime, RuntimeError, Sandbox, SandboxConfig, Session, Streams,
};

/// How this runtime is set up.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Where it keeps what it must find again; its own folder.
    pub state: PathBuf,
    /// The program that holds containers; none: this one.
    pub program: Option<PathBuf>,
    /// What image names mean.
    pub images: Images,
    /// `--allow-privileged-process`: `privileged`, `hostPID` and further capabilities.
    pub allow_privileged: bool,
    /// Further folders of the node that no container may see; `state` never is.
    pub masked: Vec<PathBuf>,
    /// The address of pods on the node's network.
    pub node_address: IpAddr,
    /// Bytes of a log file before it is put aside.
    pub log_size: u64,
    /// How many log files a container has, the current one among them.
    pub log_files: usize,
    /// Give every container no walls at all, as where the kernel allows none.
    pub plain: bool,
}

impl ProcessSettings {
    /// The usual settings, with this folder.
    #[must_use]
    pub fn new(state: PathBuf) -> ProcessSettings {
        ProcessSettings {
            state,
            program: None,
            images: Images::default(),
            allow_privileged: false,
            masked: Vec::new(),
            node_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            log_size: 10 << 20,
            log_files: 5,
            plain: false,
        }
    }
}

/// Which walls this node can give, and why not the others.
#[derive(Debug, Clone)]
struct Abilities {
    /// No mounts, processes or names of its own: volumes are links (R142).
    plain: Option<String>,
    /// Not root: every container is in a user namespace with one user.
    single: bool,
    groups: Result<Groups, String>,
}

/// Runs containers as processes of the node.
pub struct ProcessRuntime {
    settings: Arc<ProcessSettings>,
    abilities: Abilities,
    keep: Arc<Keep>,
    /// The process that makes shims, once there is one.
    nurse: tokio::sync::Mutex<Option<UnixStream>>,
}

impl ProcessRuntime {
    /// Opens the folder, finds the containers that live, and tries which walls there are.
    pub async fn open(mut settings: ProcessSettings) -> Result<ProcessRuntime, RuntimeError> {
        let failed =
            |error: std::io::Error| RuntimeError::Failed(format!("the runtime's folder: {error}"));
        std::fs::create_dir_all(&settings.state).map_err(failed)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&settings.state, mode).map_err(failed)?;
        settings.state = std::fs::canonicalize(&settings.state).map_err(failed)?;
        let keep = Keep::open(&settings.state).map_err(failed)?;
        let single = !rustix::process::geteuid().is_root();
        let groups = Groups::find();
        let mut runtime = ProcessRuntime {
            settings: Arc::new(settings),
            abilities: Abilities { plain: None, single, groups },
            keep,
            nurse: tokio::sync::Mutex::default(),
        };
        runtime.abilities.plain = runtime.try_walls().await?;
        Ok(runtime)
    }

    /// Makes a container that does nothing; says why there are no walls.
    async fn try_walls(&self) -> Result<Option<String>, RuntimeError> {
        if self.settings.plain {
            return Ok(Some("walls are switched off".to_owned()));
        }
        let folder = self.settings.state.join(".trial");
        let order = self.trial_order(folder.clone());
        let tried = self.make(&folder, order, "trial").await;
        let _ = std::fs::remove_dir_all(&folder);
        match tried {
            Ok(_) => Ok(None),
            Err(RuntimeError::Failed(why)) => Ok(Some(why)),
            Err(other) => Err(other),
        }
    }

    /// Starts a shim and has it make a container.
    async fn make(
        &self,
        folder: &std::path::Path,
        order: wire::Order,
        title: &str,
    ) -> Result<(Link, i32), RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::Failed(format!("start a container's shim: {error}"))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let order = Ask::Make(Box::new(order));
        // A nurse that was killed since the last time is found out by asking it.
        for _ in 0..2 {
            let link = Link::new(self.begin(title).await.map_err(failed)?).map_err(failed)?;
            if link.ask(&order).await.is_ok() {
                match link.hear().await {
                    Ok(Some(Tell::Made(init))) => return Ok((link, init)),
                    Ok(Some(Tell::Failed { message, .. })) => {
                        return Err(RuntimeError::Failed(message));
                    }
                    _ => {}
                }
            }
            *self.nurse.lock().await = None;
        }
        let program = self.program().map_err(failed)?;
        Err(RuntimeError::Failed(format!("{} does not hold containers", program.display())))
    }

    /// A socket with a new shim at its other end.
    async fn begin(&self, title: &str) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let ask = Ask::Begin { title: title.to_owned() };
        let mut nurse = self.nurse.lock().await;
        if let Some(socket) = &*nurse
            && wire::send(socket, &ask, &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours);
        }
        let socket = self.start_nurse()?;
        wire::send(&socket, &ask, &[theirs.as_fd()])?;
        *nurse = Some(socket);
        Ok(ours)
    }

    fn program(&self) -> std::io::Result<PathBuf> {
        match &self.settings.program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe(),
        }
    }

    fn start_nurse(&self) -> std::io::Result<UnixStream> {
        let program = self.program()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = tokio::process::Command::new(&program)
            .arg(ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(|error| std::io::Error::other(format!("{}: {error}", program.display())))?;
        // Its end is seen on the socket; here it is only reaped.
        tokio::spawn(async move {
            let _ = child.wait().await;
        });
        Ok(ours)
    }

    async fn make_container(
        &self,
        record: ContainerRecord,
        order: wire::Order,
    ) -> Result<String, RuntimeError> {
        let folder = order.folder.clone();
        let id = record.id.clone();
        let title = format!("shim {}", record.name);
        std::fs::create_dir_all(&folder)
            .and_then(|()| state::save(&folder.join("container.json"), &record))
            .map_err(|error| RuntimeError::Failed(format!("{}: {error}", folder.display())))?;
        match self.make(&folder, order, &title).await {
            Ok((link, init)) => {
                self.keep.add(Held::made(record, folder, link, init));
                Ok(id)
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let link = self.keep.link(id)?;
        let failed = |error: std::io::Error| RuntimeError::Failed(format!("start: {error}"));
        link.ask(&Ask::Go).await.map_err(failed)?;
        match link.hear().await.map_err(failed)? {
            Some(Tell::Running(running)) => {
                self.keep.runs(id, &running);
                self.keep.follow(id, link);
                Ok(())
            }
            Some(Tell::Failed { command, message }) => {
                let now = jiff::Timestamp::now();
                let exited = Exited {
                    started: now,
                    finished: now,
                    code: 128,
                    reason: "StartError".to_owned(),
                    message: message.clone(),
                };
                self.keep.ended(id, exited, true);
                Err(if command {
                    RuntimeError::CannotRun(message)
                } else {
                    RuntimeError::Failed(message)
                })
            }
            _ => {
                self.keep.lost(id);
                Err(RuntimeError::Failed("the container's shim is gone".to_owned()))
            }
        }
    }

    async fn stop_container(
        &self,
        id: &str,
        name: Option<&str>,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        let Some(mut states) = self.keep.states(id) else { return Ok(()) };
        let ended = |state: &ContainerState| matches!(state, ContainerState::Exited { .. });
        if ended(&states.borrow()) {
            return Ok(());
        }
        if *states.borrow() == ContainerState::Created {
            // Its shim ends with the link.
            self.keep.never_ran(id);
            return Ok(());
        }
        let wanted = name.map(str::to_owned).or_else(|| self.keep.stop_signal(id));
        let wanted = wanted.as_deref().and_then(signal::number).unwrap_or(15);
        if !grace.is_zero() {
            self.keep.signal(id, wanted).await;
            let waited = tokio::time::timeout(grace, states.wait_for(ended)).await;
            if waited.is_ok() {
                return Ok(());
            }
        }
        self.keep.signal(id, 9).await;
        for patience in [Duration::from_secs(3), Duration::from_secs(7)] {
            if tokio::time::timeout(patience, states.wait_for(ended)).await.is_ok() {
                return Ok(());
            }
            // A shim that does not answer goes with what it holds.
            self.keep.kill(id);
        }
        Err(RuntimeError::Failed(format!("container {id:.12} does not end")))
    }

    fn session_link(&self, container: &str) -> Result<Link, RuntimeError> {
        let (record, state) = self.keep.look(container)?;
        if !matches!(state, ContainerState::Running { .. }) {
            return Err(RuntimeError::Failed(format!("container {} is not running", record.name)));
        }
        let folder = self.keep.folder(container)?;
        Link::connect(&folder).map_err(|error| RuntimeError::Away(error.to_string()))
    }

    async fn run_command(
        &self,
        container: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<Ran, RuntimeError> {
        let link = self.session_link(container)?;
        let wanted = Wanted { stdout: true, joined: true, ..Wanted::default() };
        let ask = Ask::Exec { command: command.to_vec(), wanted };
        let mut session = session::open(link, &ask, false).await?;
        let mut output = Vec::new();
        let mut rest = Vec::new();
        let work = async {
            if let Some(stdout) = &mut session.stdout {
                let mut first = stdout.take(OUTPUT_MAX);
                let _ = first.read_to_end(&mut output).await;
                // What is too much is read all the same, so that the command can end.
                let mut bytes = [0; 4096];
                while let Ok(1..) = stdout.read(&mut bytes).await {
                    rest.clear();
                    rest.push(0_u8);
                }
            }
            (&mut session.exit).await
        };
        match tokio::time::timeout(timeout, work).await {
            Ok(code) => Ok(Ran { code: code?, output, timed_out: false }),
            Err(_) => Ok(Ran { code: 0, output, timed_out: true }),
        }
    }
}

/// What a probe or a hook may say.
const OUTPUT_MAX: u64 = 16 << 10;

impl Runtime for ProcessRuntime {
    fn about(&self) -> Answer<'_, About> {
        Box::pin(async {
            Ok(About {
                name: "process".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                scheme: "process".to_owned(),
                isolation: self.isolation(),
            })
        })
    }

    fn image<'a>(&'a self, wanted: &'a ImageWanted) -> Answer<'a, Image> {
        Box::pin(async {
            let cache = self.settings.state.join(".images");
            let found = match self.settings.images.find(&wanted.name, &cache) {
                Err(RuntimeError::Image { reason: "ErrImagePull", .. })
                    if wanted.policy == "Never" =>
                {
                    let message = format!(
                        "Container image \"{}\" is not present with pull policy of Never",
                        wanted.name
                    );
                    return Err(RuntimeError::Image { reason: "ErrImageNeverPull", message });
                }
                other => other?,
            };
            let id = match &found.root {
                wire::Root::Host => "host".to_owned(),
                wire::Root::Folder { path, .. } => path.display().to_string(),
            };
            let uid = found.user.split(':').next().and_then(|user| user.parse().ok());
            Ok(Image { reference: wanted.name.clone(), id, uid, pulled: false })
        })
    }

    fn run_sandbox<'a>(&'a self, config: &'a SandboxConfig) -> Answer<'a, Sandbox> {
        Box::pin(async {
            if config.host_pid && !self.settings.allow_privileged {
                return Err(refused("hostPID"));
            }
            if (config.security.privileged) && !self.settings.allow_privileged {
                return Err(refused("privileged"));
            }
            let failed = |error: std::io::Error| RuntimeError::Failed(error.to_string());
            let id = state::fresh_id().map_err(failed)?;
            let address = if config.host_network {
                self.settings.node_address
            } else {
                self.keep.free_address(&config.pod.uid)
            };
            let record = self.sandbox_record(id.clone(), config, address);
            self.keep.add_sandbox(record.clone()).map_err(failed)?;
            if config.share_processes && self.abilities.plain.is_none() && !self.abilities.single {
                let started = self.start_pause(&record).await;
                if let Err(error) = started {
                    self.keep.remove_sandbox(&id);
                    return Err(error);
                }
            }
            self.keep.sandbox(&id).ok_or(RuntimeError::NotFound(id))
        })
    }

    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> Answer<'a, ()> {
        Box::pin(async {
            self.keep.stop_sandbox(sandbox);
            let stops = self.keep.containers_of(sandbox);
            let stops = stops.iter().map(|id| self.stop_container(id, None, Duration::ZERO));
            futures::future::join_all(stops).await.into_iter().collect()
        })
    }

    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> Answer<'a, ()> {
        Box::pin(async {
            self.stop_sandbox(sandbox).await?;
            self.keep.remove_sandbox(sandbox);
            Ok(())
        })
    }

    fn create<'a>(&'a self, sandbox: &'a str, config: &'a ContainerConfig) -> Answer<'a, String> {
        Box::pin(async {
            let record = self.keep.sandbox_record(sandbox)?;
            let turn = self.keep.turn(sandbox);
            let _turn = turn.lock().await;
            let id = state::fresh_id().map_err(|error| RuntimeError::Failed(error.to_string()))?;
            let (container, order) = self.order(&record, &id, config)?;
            self.make_container(container, order).await
        })
    }

    fn start<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(self.start_container(container))
    }

    fn stop<'a>(
        &'a self,
        container: &'a str,
        signal: Option<&'a str>,
        grace: Duration,
    ) -> Answer<'a, ()> {
        Box::pin(self.stop_container(container, signal, grace))
    }

    fn remove<'a>(&'a self, container: &'a str) -> Answer<'a, ()> {
        Box::pin(async {
            self.stop_container(container, None, Duration::ZERO).await?;
            self.keep.remove(container);
            Ok(())
        })
    }

    fn list(&self) -> Answer<'_, Vec<Sandbox>> {
        Box::pin(async { Ok(self.keep.all()) })
    }

    fn status<'a>(&'a self, container: &'a str) -> Answer<'a, Container> {
        Box::pin(async { self.keep.container(container) })
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.keep.changes()
    }

    fn run<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        timeout: Duration,
    ) -> Answer<'a, Ran> {
        Box::pin(self.run_command(container, command, timeout))
    }

    fn exec<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        streams: Streams,
    ) -> Answer<'a, Session> {
        Box::pin(async move {
            let link = self.session_link(container)?;
            let ask = Ask::Exec { command: command.to_vec(), wanted: wanted(streams) };
            session::open(link, &ask, streams.stdin).await
        })
    }

    fn attach<'a>(&'a self, container: &'a str, streams: Streams) -> Answer<'a, Session> {
        Box::pin(async move {
            let link = self.session_link(container)?;
            session::open(link, &Ask::Attach { wanted: wanted(streams) }, streams.stdin).await
        })
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> Answer<'a, Box<dyn Duplex>> {
        Box::pin(async move {
            let address = self.keep.sandbox_record(sandbox)?.address;
            let mut problem = None;
            // Who listens for all listens on the pod's address too; the others chose one of these.
            for host in [address, IpAddr::V4(Ipv4Addr::LOCALHOST), "::1".parse().unwrap_or(address)]
            {
                match tokio::net::TcpStream::connect((host, port)).await {
                    Ok(stream) => return Ok(Box::new(stream) as Box<dyn Duplex>),
                    Err(error) => problem = problem.or(Some(error)),
                }
            }
            let problem = problem.map_or_else(String::new, |error| error.to_string());
            Err(RuntimeError::Failed(format!("connect to port {port} of the pod: {problem}")))
        })
    }
}

fn wanted(streams: Streams) -> Wanted {
    let Streams { stdin, stdout, stderr, tty } = streams;
    Wanted { stdin, stdout, stderr, tty, joined: false }
}

fn refused(what: &str) -> RuntimeError {
    RuntimeError::Refused(format!(
        "{what} is not allowed on this node: its containers are processes of the machine; start \
         the agent with --allow-privileged-process to allow it"
    ))
}

/// The socket in a folder that is held: a path of a socket may be 107 bytes long, and this one is
/// short.
fn socket_name(folder: &std::fs::File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/shim", folder.as_raw_fd()))
}

/// Settings of a resolver as its file says them; the node's own where none are given.
fn resolver_text(dns: &super::Dns) -> String {
    use std::fmt::Write as _;
    if dns.servers.is_empty() && dns.searches.is_empty() {
        return std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}

impl ProcessRuntime {
    fn sandbox_record(&self, id: String, config: &SandboxConfig, address: IpAddr) -> SandboxRecord {
        SandboxRecord {
            id,
            pod: config.pod.clone(),
            attempt: config.attempt,
            hostname: config.hostname.clone(),
            logs: config.logs.clone(),
            address,
            host_network: config.host_network,
            host_pid: config.host_pid,
            host_ipc: config.host_ipc,
            host_users: config.host_users,
            share_processes: config.share_processes,
            resolver: resolver_text(&config.dns),
            stopped: false,
        }
    }

    /// The process that holds the process namespace of a whole pod.
    async fn start_pause(&self, sandbox: &SandboxRecord) -> Result<(), RuntimeError> {
        let id = state::fresh_id().map_err(|error| RuntimeError::Failed(error.to_string()))?;
        let record = ContainerRecord {
            id: id.clone(),
            sandbox: sandbox.id.clone(),
            name: "pause".to_owned(),
            attempt: 0,
            image: "host".to_owned(),
            image_id: "host".to_owned(),
            stop_signal: None,
            tty: false,
            stdin: false,
            pause: true,
        };
        let order = self.pause_order(sandbox, self.keep.place(&sandbox.id, &id));
        self.make_container(record, order).await?;
        self.start_container(&id).await
    }

    fn isolation(&self) -> Vec<(String, Result<(), String>)> {
        let walls = || match &self.abilities.plain {
            None => Ok(()),
            Some(why) => Err(why.clone()),
        };
        let single = self.abilities.single;
        let shared =
            "pods use the node's network, each with an address of its own below 127.0.0.0/8";
        let mut all: BTreeMap<&str, Result<(), String>> = BTreeMap::new();
        for aspect in ["mount", "pid", "uts", "ipc"] {
            all.insert(aspect, walls());
        }
        all.insert("network", Err(shared.to_owned()));
        all.insert(
            "user",
            walls().and(if single {
                Ok(())
            } else {
                Err("only for pods with hostUsers: false".to_owned())
            }),
        );
        all.insert("cgroup", self.abilities.groups.as_ref().map(|_| ()).map_err(Clone::clone));
        let unprivileged = "the agent has no privileges to give up";
        all.insert("capabilities", if single { Err(unprivileged.to_owned()) } else { Ok(()) });
        all.insert("seccomp", Err("no filter of system calls is set".to_owned()));
        all.into_iter().map(|(aspect, holds)| (aspect.to_owned(), holds)).collect()
    }

    /// Whether containers have no walls and find their volumes as links (R142); the reason.
    #[must_use]
    pub fn without_walls(&self) -> Option<&str> {
        self.abilities.plain.as_deref()
    }
}
