//! What the agent asks of whatever runs containers. One trait, three rooms below it: `process`,
//! `cri` and `none`. Pods, restart rules and statuses never come here.

pub mod cri;
#[cfg(target_os = "linux")]
pub mod process;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{broadcast, mpsc, watch};

/// What a runtime answers, in its own time.
pub type RuntimeFuture<'a, T> = BoxFuture<'a, Result<T, RuntimeError>>;

/// Bytes that come from a container.
pub type OutputReader = Box<dyn AsyncRead + Send + Unpin>;

/// Bytes that go to a container.
pub type StdinWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Both ways at once: a forwarded connection.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Runs containers in sandboxes, one sandbox for each pod.
pub trait ContainerRuntime: Send + Sync + 'static {
    /// Name, version and what it isolates.
    fn about(&self) -> RuntimeFuture<'_, RuntimeInfo>;

    /// Whether paths of mounts are opened by somebody else, who follows links: what a container may
    /// change must not be given by such a path.
    fn opens_paths(&self) -> bool {
        false
    }

    /// The image as it is on this node, pulled if the policy says so.
    fn image<'a>(&'a self, wanted: &'a ImageWanted) -> RuntimeFuture<'a, Image>;

    /// Makes the sandbox of a pod and starts it.
    fn run_sandbox<'a>(&'a self, config: &'a SandboxConfig) -> RuntimeFuture<'a, Sandbox>;

    /// Stops everything in a sandbox; a sandbox that is gone is stopped.
    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()>;

    /// Removes a sandbox and what is left of its containers.
    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()>;

    /// Makes a container and says its id; it does not run yet.
    fn create<'a>(
        &'a self,
        sandbox: &'a str,
        config: &'a ContainerConfig,
    ) -> RuntimeFuture<'a, String>;

    /// Runs a container that was made.
    fn start<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()>;

    /// Changes what a container that runs may use; nothing where nothing is limited.
    fn update<'a>(
        &'a self,
        container: &'a str,
        limits: &'a ContainerLimits,
    ) -> RuntimeFuture<'a, ()>;

    /// Sends the stop signal, and kills after the grace.
    fn stop<'a>(
        &'a self,
        container: &'a str,
        signal: Option<&'a str>,
        grace: Duration,
    ) -> RuntimeFuture<'a, ()>;

    /// Removes a container that has ended; its log stays.
    fn remove<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()>;

    /// Everything this runtime holds for this node: how an agent finds its pods again.
    fn list(&self) -> RuntimeFuture<'_, Vec<Sandbox>>;

    /// The state of one container.
    fn status<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, Container>;

    /// Ids of sandboxes whose containers changed. A receiver that fell behind looks at all.
    fn changes(&self) -> broadcast::Receiver<String>;

    /// The node's id of a pod's user 0, where pods have users of their own and volumes must belong to
    /// them; none where users of pods are users of the node.
    fn first_id(&self, _pod_uid: &str) -> Option<u32> {
        None
    }

    /// Runs a command to its end, for probes and hooks.
    fn run<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, Ran>;

    /// Runs a command with open streams.
    fn exec<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        streams: Streams,
    ) -> RuntimeFuture<'a, Session>;

    /// The streams of the container's own process.
    fn attach<'a>(&'a self, container: &'a str, streams: Streams) -> RuntimeFuture<'a, Session>;

    /// A connection to a port of the pod.
    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> RuntimeFuture<'a, Box<dyn Duplex>>;

    /// Gives pods addresses of these networks from now on, `spec.podCIDRs` of the node; the node's own address
    /// among them. None where the runtime has addresses of its own.
    fn use_pod_range<'a>(&'a self, _ranges: &'a [String]) -> RuntimeFuture<'a, Option<IpAddr>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A connection as the node itself makes it, for probes and hooks.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect((host, port)))
    }

    /// The network of the node and its pods, where the runtime has one of its own.
    fn node_network(&self) -> Option<Arc<dyn NodeNetwork>> {
        None
    }

    /// Ends what is kept for all pods together, once none is left.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The network that a runtime has for its node and its pods: Services are served in it.
pub trait NodeNetwork: Send + Sync + 'static {
    /// Changes whenever the network was made anew: sockets of before lead nowhere.
    fn lives(&self) -> watch::Receiver<u64>;

    /// The node's own address, once it has one.
    fn address(&self) -> Option<IpAddr>;

    /// Whether an address is the node's or may be one of its pods'.
    fn has(&self, address: IpAddr) -> bool;

    /// Whether whoever has an address can be reached from this node: not the pods of other nodes.
    fn reaches(&self, address: IpAddr) -> bool;

    /// Takes packets to all addresses of a network.
    fn take(&self, network: Ipv4Addr, bits: u8) -> BoxFuture<'_, io::Result<()>>;

    /// Listens in the network.
    fn listen(&self, at: SocketAddr) -> BoxFuture<'_, io::Result<TcpListener>>;

    /// Takes datagrams in the network.
    fn bind(&self, at: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>>;

    /// Takes in connections to whatever is outside of the network; each has the address that was meant as its own.
    fn way_out(&self) -> BoxFuture<'_, io::Result<TcpListener>>;

    /// Dials in the network.
    fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;

    /// A socket for datagrams to an address of the network; not connected.
    fn datagrams(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<UdpSocket>>;
}

/// Why a runtime did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime cannot be reached; it may come back.
    #[error("the runtime is not there: {0}")]
    Away(String),
    /// The sandbox or container is not known.
    #[error("{0} not found")]
    NotFound(String),
    /// The image is not here and may not be, or could not be, pulled. `reason` is a waiting reason of
    /// a container: `ErrImagePull`, `ErrImageNeverPull`, `InvalidImageName`.
    #[error("{message}")]
    Image {
        /// The waiting reason.
        reason: &'static str,
        /// What people read.
        message: String,
    },
    /// The command cannot be run: `StartError`, exit code 128.
    #[error("{0}")]
    CannotRun(String),
    /// The pod asks for something this runtime does not allow or cannot do.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Name, version and what a runtime isolates.
#[derive(Debug, Clone, Default)]
pub struct RuntimeInfo {
    /// `process`, `containerd`, `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The part of a container id before `://`.
    pub scheme: String,
    /// Aspect and whether it holds, with the reason where it does not; for `tenure node info`.
    pub isolation: Vec<(String, Result<(), String>)>,
    /// What whoever lets pods run here must know first; said at the start and by `tenure node info`.
    pub danger: Option<String>,
    /// Why no pod can be run at present.
    pub unable: Option<String>,
    /// Whether the server has to give the node addresses for its pods.
    pub pod_network: bool,
}

/// An image somebody wants.
#[derive(Debug, Clone)]
pub struct ImageWanted {
    /// As the pod names it.
    pub name: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub policy: String,
    /// Who is told that it is fetched, or unpacked for the first time.
    pub pulling: Pulling,
}

impl ImageWanted {
    /// An image by its name and policy.
    #[must_use]
    pub fn new(name: &str, policy: &str) -> ImageWanted {
        let (name, policy) = (name.to_owned(), policy.to_owned());
        ImageWanted { name, policy, pulling: Pulling::default() }
    }
}

/// Who is told when an image is not there yet and begins to be fetched.
#[derive(Clone, Default)]
pub struct Pulling(Option<Arc<dyn Fn() + Send + Sync>>);

impl Pulling {
    /// Calls this whenever it begins.
    pub fn telling(tell: impl Fn() + Send + Sync + 'static) -> Pulling {
        Pulling(Some(Arc::new(tell)))
    }

    /// Tells that it begins.
    pub fn begin(&self) {
        if let Some(tell) = &self.0 {
            tell();
        }
    }
}

impl std::fmt::Debug for Pulling {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Pulling")
    }
}

/// An image that is there.
#[derive(Debug, Clone)]
pub struct Image {
    /// What containers are made from.
    pub reference: String,
    /// What the status shows as `imageID`.
    pub id: String,
    /// The user the image asks for; none: root.
    pub uid: Option<ImageUser>,
    /// Whether it was pulled just now.
    pub pulled: bool,
}

/// The user an image asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageUser {
    /// By number.
    Number(u32),
    /// By name: whose number it is, only the image's own files say.
    Name(String),
}

impl ImageUser {
    /// Reads `USER` of an image; a group behind a colon is not looked at.
    #[must_use]
    pub fn read(text: &str) -> Option<ImageUser> {
        match text.split(':').next().unwrap_or_default() {
            "" => None,
            user => Some(match user.parse() {
                Ok(number) => ImageUser::Number(number),
                Err(_) => ImageUser::Name(user.to_owned()),
            }),
        }
    }
}

/// Whose sandbox or container it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PodKey {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod.
    pub uid: String,
}

/// How a sandbox is made.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct SandboxConfig {
    /// The pod.
    pub pod: PodKey,
    /// How often a sandbox was made for this pod before.
    pub attempt: u32,
    /// The name the pod sees as its own.
    pub hostname: String,
    /// The handler that its RuntimeClass names; empty without one. Absent from what older agents wrote.
    #[serde(default)]
    pub handler: String,
    /// The folder of its logs, absolute.
    pub logs: PathBuf,
    /// Use the network of the node.
    pub host_network: bool,
    /// Use the processes of the node.
    pub host_pid: bool,
    /// Use the memory segments of the node.
    pub host_ipc: bool,
    /// Whether users of the node are used; `false` asks for a user namespace. `process` gives every
    /// pod one.
    pub host_users: bool,
    /// One process namespace for all containers.
    pub share_processes: bool,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Kernel settings of the pod.
    pub sysctls: BTreeMap<String, String>,
    /// Name servers, searches and options of its resolver.
    pub dns: Dns,
    /// Port, host port and protocol.
    pub ports: Vec<(u16, u16, String)>,
    /// User, groups and privileges of the pod.
    pub security: Security,
}

/// A resolver's settings.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Dns {
    /// Name servers.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options.
    pub options: Vec<String>,
}

/// User, groups and privileges.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Security {
    /// `runAsUser`.
    pub uid: Option<u32>,
    /// `runAsGroup`.
    pub gid: Option<u32>,
    /// Supplemental groups, `fsGroup` among them.
    pub groups: Vec<u32>,
    /// `privileged`.
    pub privileged: bool,
    /// `readOnlyRootFilesystem`.
    pub read_only_root: bool,
    /// `allowPrivilegeEscalation` is false.
    pub no_new_privileges: bool,
    /// `allowPrivilegeEscalation` is true. Where nothing is said, `process` gives none and `cri` does as
    /// upstream.
    pub allow_escalation: bool,
    /// Capabilities to add.
    pub add: Vec<String>,
    /// Capabilities to drop.
    pub drop: Vec<String>,
    /// Type of `seccompProfile` and, for `Localhost`, its file; none: `process` filters, and `cri` does
    /// as upstream.
    pub seccomp: Option<(String, String)>,
}

/// How a container is made.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct ContainerConfig {
    /// Name in the pod.
    pub name: String,
    /// How often it was made before: its restart count.
    pub attempt: u32,
    /// From [`Image::reference`].
    pub image: String,
    /// The image as the pod names it.
    pub image_name: String,
    /// `command`, expanded; empty: the image's.
    pub command: Vec<String>,
    /// `args`, expanded.
    pub args: Vec<String>,
    /// `workingDir`; empty: the image's.
    pub directory: String,
    /// The environment, in order.
    pub env: Vec<(String, RedactedValue)>,
    /// Folders and files of the node that the container sees.
    pub mounts: Vec<Mount>,
    /// Log file below [`SandboxConfig::logs`].
    pub log: PathBuf,
    /// Keep standard input open.
    pub stdin: bool,
    /// Close standard input after the first attach.
    pub stdin_once: bool,
    /// Give it a terminal.
    pub tty: bool,
    /// `terminationMessagePath` and the file of the node behind it.
    pub termination: Option<(String, PathBuf)>,
    /// The signal that asks it to end; none: the image's, else `SIGTERM`.
    pub stop_signal: Option<String>,
    /// User, groups and privileges, pod and container joined.
    pub security: Security,
    /// Limits.
    pub limits: ContainerLimits,
}

/// Bytes that never show in a log: the value of an environment variable may be a Secret.
#[derive(Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RedactedValue(pub Vec<u8>);

impl std::fmt::Debug for RedactedValue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "({} bytes)", self.0.len())
    }
}

/// Something of the node that a container sees.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Mount {
    /// Where, in the container.
    pub at: String,
    /// What, on the node; already resolved, a folder or a file.
    pub from: PathBuf,
    /// Not to be written.
    pub read_only: bool,
    /// `None`, `HostToContainer` or `Bidirectional`.
    pub propagation: Option<String>,
}

/// Limits of a container.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct ContainerLimits {
    /// CPU shares by the request.
    pub cpu_shares: Option<u64>,
    /// Microseconds of CPU in 100,000.
    pub cpu_quota: Option<i64>,
    /// Bytes of memory.
    pub memory: Option<i64>,
    /// How likely the kernel ends it first.
    pub oom_score: Option<i64>,
}

/// A sandbox as it is.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    /// Its id.
    pub id: String,
    /// The pod.
    pub pod: PodKey,
    /// How often a sandbox was made before.
    pub attempt: u32,
    /// Whether it runs.
    pub ready: bool,
    /// Addresses of the pod, the main one first.
    pub addresses: Vec<IpAddr>,
    /// Its containers, ended ones too.
    pub containers: Vec<Container>,
}

/// A container as it is.
#[derive(Debug, Clone, Default)]
pub struct Container {
    /// Its id, without a scheme.
    pub id: String,
    /// Its sandbox.
    pub sandbox: String,
    /// Name in the pod.
    pub name: String,
    /// Its restart count.
    pub attempt: u32,
    /// The image as the pod names it.
    pub image: String,
    /// What the status shows as `imageID`.
    pub image_id: String,
    /// What it does.
    pub state: ContainerState,
}

/// What a container does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ContainerState {
    /// Made, not started.
    #[default]
    Created,
    /// Runs.
    Running {
        /// Since when.
        started: jiff::Timestamp,
    },
    /// Ended.
    Exited {
        /// When it began.
        started: jiff::Timestamp,
        /// When it ended.
        finished: jiff::Timestamp,
        /// Its exit code; 128 plus the signal if one ended it.
        code: i32,
        /// `Completed`, `Error`, `OOMKilled`, `StartError`.
        reason: String,
        /// What people read.
        message: String,
    },
    /// Nobody knows any more.
    Unknown,
}

/// What a command did.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it wrote, both streams, at most 16 KiB.
    pub output: Vec<u8>,
    /// It did not end in time.
    pub timed_out: bool,
}

/// Which streams are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error; never with a terminal.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

/// Open streams of a process.
pub struct Session {
    /// To its standard input; dropping it is the end of input.
    pub stdin: Option<StdinWriter>,
    /// From its standard output, or its terminal.
    pub stdout: Option<OutputReader>,
    /// From its standard error.
    pub stderr: Option<OutputReader>,
    /// Columns and rows of the terminal.
    pub resize: mpsc::Sender<(u16, u16)>,
    /// Its exit code, once it ends. Dropping the session ends a command, never a container.
    pub exit: BoxFuture<'static, Result<i32, RuntimeError>>,
}
