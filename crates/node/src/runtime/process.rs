//! The runtime that needs nothing: a container is a process of the node in namespaces of its own.
//! A shim holds each container, so containers outlive the agent and are found again.
//!
//! ```text
//!   agent ── link ──► shim (a fork of this program) ── namespaces ──► first process ──► command
//! ```
//!
//! Pods, restart rules and the content of volumes never come here.

mod accounts;
mod cgroup;
mod contain;
mod digest;
mod entries;
mod fork_server;
mod image;
mod init;
mod inventory;
mod landlock;
mod launch;
mod launch_spec;
mod link;
mod listening;
mod log;
mod network;
mod oci;
mod raw;
mod registry;
mod root;
mod runtime_info;
mod seccomp;
mod session;
mod shim;
mod signal;
mod stale_containers;
mod state;
mod tap;
mod tar;
mod unpack_progress;
mod users;
mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::sync::broadcast;

pub use self::image::Images;
pub use self::network::PodNetworkChoice;
pub use self::shim::{ARGUMENT, take_over};
pub use self::stale_containers::clear_left;

use self::cgroup::CgroupHierarchy;
use self::network::{HeldNetwork, NetworkState, PodNetwork};
use self::registry::Keep;
use self::wire::{ShimRequest, StreamOptions};
use super::{
    Container, ContainerConfig, ContainerLimits, ContainerRuntime, Duplex, Image, ImageUser,
    ImageWanted, NodeNetwork, Pulling, Ran, RuntimeError, RuntimeFuture, RuntimeInfo, Sandbox,
    SandboxConfig, Session, Streams,
};
use crate::private::PrivatePaths;
use crate::sysctl::dotted;

/// Where images are unpacked, below the runtime's folder.
const IMAGES: &str = ".images";

/// How this runtime is set up.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Where it keeps what it must find again; its own folder.
    pub state: PathBuf,
    /// The program that holds containers; none: this one.
    pub program: Option<PathBuf>,
    /// What image names mean.
    pub images: Images,
    /// `--allow-privileged-process`: `privileged`, `hostPID`, `hostIPC` and further capabilities.
    pub allow_privileged: bool,
    /// What no container may ever see; `state` never is.
    pub private: Vec<PathBuf>,
    /// The address of pods on the node's network, where that is the machine's.
    pub node_address: IpAddr,
    /// Whose network pods have.
    pub pod_network: PodNetworkChoice,
    /// Bytes of a log file before it is put aside.
    pub log_size: u64,
    /// How many log files a container has, the current one among them.
    pub log_files: usize,
    /// How many processes and threads a container may have.
    pub processes_max: u64,
    /// `--isolation none`: containers are plain processes without any walls (R142).
    pub plain: bool,
    /// Containers end when this process does, however that comes: nobody looks for them again (R146c).
    pub ends_with_agent: bool,
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
            private: Vec::new(),
            node_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            pod_network: PodNetworkChoice::default(),
            log_size: 10 << 20,
            log_files: 5,
            processes_max: 4096,
            plain: false,
            ends_with_agent: false,
        }
    }
}

/// Which walls this node can give, and why not the others.
#[derive(Debug, Clone)]
struct Abilities {
    /// Not root: every container is in a user namespace with one user. Else each pod has a range.
    single: bool,
    groups: Result<CgroupHierarchy, String>,
    landlock: Result<(), String>,
}

/// Runs containers as processes of the node.
pub struct ProcessRuntime {
    settings: Arc<ProcessSettings>,
    private: PrivatePaths,
    abilities: Abilities,
    /// The wall that could not be built when it was last tried: no pod runs without it (R142).
    missing: Mutex<Option<String>>,
    keep: Arc<Keep>,
    network: Arc<NetworkState>,
    /// The process that makes shims, once there is one.
    nurse: tokio::sync::Mutex<Option<UnixStream>>,
}

impl ProcessRuntime {
    /// Opens the folder, finds the containers that live, and tries which walls there are.
    pub async fn open(mut settings: ProcessSettings) -> Result<ProcessRuntime, RuntimeError> {
        let failed =
            |error: std::io::Error| RuntimeError::Failed(format!("the runtime's folder: {error}"));
        tenure_files::make_folder(&settings.state).map_err(failed)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&settings.state, mode).map_err(failed)?;
        settings.state = std::fs::canonicalize(&settings.state).map_err(failed)?;
        let private = private(&settings).map_err(failed)?;
        let keep = Keep::open(&settings.state).map_err(failed)?;
        entries::clear_unfinished(&settings.state.join(IMAGES));
        let single = !users::are_ours();
        let groups = CgroupHierarchy::find();
        let landlock = landlock::supported();
        let runtime = ProcessRuntime {
            settings: Arc::new(settings),
            private,
            abilities: Abilities { single, groups, landlock },
            missing: Mutex::default(),
            keep,
            network: Arc::new(NetworkState::new()),
            nurse: tokio::sync::Mutex::default(),
        };
        runtime.open_network().await;
        runtime.look_for_walls().await?;
        runtime.adopt_network().await;
        Ok(runtime)
    }

    async fn look_for_walls(&self) -> Result<(), RuntimeError> {
        let missing = self.try_walls().await?;
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
        Ok(())
    }

    fn missing(&self) -> Option<String> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nothing is run where a wall is missing.
    fn check_walls(&self) -> Result<(), RuntimeError> {
        match self.missing() {
            None => Ok(()),
            Some(why) => Err(RuntimeError::Failed(format!("this node cannot isolate pods: {why}"))),
        }
    }

    fn clear_groups(&self, container: &str) {
        if let Ok(groups) = &self.abilities.groups {
            groups.clear(container);
        }
    }
}

impl ContainerRuntime for ProcessRuntime {
    fn about(&self) -> RuntimeFuture<'_, RuntimeInfo> {
        Box::pin(async {
            if self.missing().is_some() {
                // Whoever is told what is missing may mend it.
                self.look_for_walls().await?;
            }
            Ok(RuntimeInfo {
                name: "process".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                scheme: "process".to_owned(),
                isolation: self.isolation(),
                danger: self.danger(),
                unable: self.missing(),
                pod_network: self.network.is_own(),
            })
        })
    }

    fn image<'a>(&'a self, wanted: &'a ImageWanted) -> RuntimeFuture<'a, Image> {
        Box::pin(async {
            let unpacked = Arc::new(AtomicBool::new(false));
            let (tell, told) = (wanted.pulling.clone(), Arc::clone(&unpacked));
            let pulling = Pulling::telling(move || {
                told.store(true, Ordering::Relaxed);
                tell.begin();
            });
            let found = match self.find_image(&wanted.name, pulling).await {
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
            let uid = ImageUser::read(&found.user);
            let pulled = unpacked.load(Ordering::Relaxed);
            Ok(Image { reference: wanted.name.clone(), id, uid, pulled })
        })
    }

    fn run_sandbox<'a>(&'a self, config: &'a SandboxConfig) -> RuntimeFuture<'a, Sandbox> {
        Box::pin(async {
            self.check_walls()?;
            let privileges = [
                (config.host_pid, "hostPID"),
                (config.host_ipc, "hostIPC"),
                (config.security.privileged, "privileged"),
            ];
            if let Some((_, field)) = privileges.into_iter().find(|(asked, _)| *asked)
                && !self.settings.allow_privileged
            {
                return Err(refused(field));
            }
            if !config.handler.is_empty() {
                return Err(RuntimeError::Refused(format!(
                    "no runtime for {:?} is configured: the runtime `process` has no handlers of \
                     RuntimeClasses; run containers with --runtime cri=SOCKET",
                    config.handler
                )));
            }
            // To take it and do nothing about it would be a lie.
            let own = |name: &&String| {
                !self.settings.plain && dotted(name) == runtime_info::SHM_RMID_FORCED
            };
            if let Some(name) = config.sysctls.keys().find(|name| !own(name)) {
                return Err(RuntimeError::Refused(format!(
                    "sysctl {name:?} cannot be set on this node: its pods have this setting of the \
                     machine; run containers with --runtime cri=SOCKET"
                )));
            }
            let failed = |error: std::io::Error| RuntimeError::Failed(error.to_string());
            let id = state::fresh_id().map_err(failed)?;
            let place = self.place_sandbox(&id, config).await?;
            let held = place.holder.is_some();
            let record = self.sandbox_record(id.clone(), config, place);
            self.keep.add_sandbox(record.clone()).map_err(failed)?;
            // Without a network of its own, a container of one user is alone in its namespaces.
            if config.share_processes && !self.settings.plain && (!self.abilities.single || held) {
                let started = self.start_pause(&record).await;
                if let Err(error) = started {
                    self.leave_network(&id).await;
                    self.keep.remove_sandbox(&id);
                    return Err(error);
                }
            }
            self.keep.sandbox(&id).ok_or(RuntimeError::NotFound(id))
        })
    }

    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        Box::pin(async {
            self.keep.stop_sandbox(sandbox);
            let stops = self.keep.containers_of(sandbox);
            let stops = stops.iter().map(|id| self.stop_container(id, None, Duration::ZERO));
            let stopped = futures::future::join_all(stops).await.into_iter().collect();
            self.leave_network(sandbox).await;
            stopped
        })
    }

    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        Box::pin(async {
            self.stop_sandbox(sandbox).await?;
            let containers = self.keep.containers_of(sandbox);
            self.keep.remove_sandbox(sandbox);
            containers.iter().for_each(|id| self.clear_groups(id));
            Ok(())
        })
    }

    fn create<'a>(
        &'a self,
        sandbox: &'a str,
        config: &'a ContainerConfig,
    ) -> RuntimeFuture<'a, String> {
        Box::pin(async {
            self.check_walls()?;
            let record = self.keep.sandbox_record(sandbox)?;
            let turn = self.keep.turn(sandbox);
            let _turn = turn.lock().await;
            let id = state::fresh_id().map_err(|error| RuntimeError::Failed(error.to_string()))?;
            let found = self.find_image(&config.image, Pulling::default()).await?;
            let (container, order) = self.order(&record, &id, config, found)?;
            self.make_container(container, order).await
        })
    }

    fn start<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        Box::pin(self.start_container(container))
    }

    fn update<'a>(
        &'a self,
        container: &'a str,
        limits: &'a ContainerLimits,
    ) -> RuntimeFuture<'a, ()> {
        Box::pin(async {
            self.keep.container(container)?;
            match &self.abilities.groups {
                Ok(groups) => groups
                    .update(container, limits, self.settings.processes_max)
                    .map_err(RuntimeError::Failed),
                // Nothing is limited on this machine, as the node says of itself (R141).
                Err(_) => Ok(()),
            }
        })
    }

    fn stop<'a>(
        &'a self,
        container: &'a str,
        signal: Option<&'a str>,
        grace: Duration,
    ) -> RuntimeFuture<'a, ()> {
        Box::pin(self.stop_container(container, signal, grace))
    }

    fn remove<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        Box::pin(async {
            self.stop_container(container, None, Duration::ZERO).await?;
            self.keep.remove(container);
            self.clear_groups(container);
            Ok(())
        })
    }

    fn list(&self) -> RuntimeFuture<'_, Vec<Sandbox>> {
        Box::pin(async { Ok(self.keep.all()) })
    }

    fn status<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, Container> {
        Box::pin(async { self.keep.container(container) })
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.keep.changes()
    }

    fn first_id(&self, pod_uid: &str) -> Option<u32> {
        let has_range = !self.abilities.single && !self.settings.plain;
        has_range.then(|| self.keep.first_id(pod_uid))
    }

    fn run<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, Ran> {
        Box::pin(self.run_command(container, command, timeout))
    }

    fn exec<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        streams: Streams,
    ) -> RuntimeFuture<'a, Session> {
        Box::pin(async move {
            let link = self.session_link(container)?;
            let ask = ShimRequest::Exec { command: command.to_vec(), wanted: wanted(streams) };
            session::open(link, &ask, streams.stdin).await
        })
    }

    fn attach<'a>(&'a self, container: &'a str, streams: Streams) -> RuntimeFuture<'a, Session> {
        Box::pin(async move {
            let link = self.session_link(container)?;
            session::open(link, &ShimRequest::Attach { wanted: wanted(streams) }, streams.stdin)
                .await
        })
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> RuntimeFuture<'a, Box<dyn Duplex>> {
        Box::pin(self.connect_port(sandbox, port))
    }

    fn use_pod_range<'a>(&'a self, ranges: &'a [String]) -> RuntimeFuture<'a, Option<IpAddr>> {
        Box::pin(self.use_range(ranges))
    }

    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, std::io::Result<TcpStream>> {
        Box::pin(async move {
            match self.network.get() {
                PodNetwork::Machine(_) => TcpStream::connect((host, port)).await,
                PodNetwork::Own(holder) => self.dial_from_node(holder, host, port).await,
                PodNetwork::Lost => Err(std::io::ErrorKind::NetworkDown.into()),
            }
        })
    }

    fn node_network(&self) -> Option<Arc<dyn NodeNetwork>> {
        let told = self.settings.node_address;
        let state = Arc::clone(&self.network);
        self.network.is_own().then(|| Arc::new(HeldNetwork { state, told }) as Arc<dyn NodeNetwork>)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end_network())
    }
}

/// What no container may see. The node's programs are shown to all, so nothing of it may lie there.
fn private(settings: &ProcessSettings) -> Result<PrivatePaths, std::io::Error> {
    let mut paths = settings.private.clone();
    paths.push(settings.state.clone());
    let private = PrivatePaths::resolve(&paths)?;
    for shown in root::shown_folders() {
        if let Some(path) = private.shown_by(&shown) {
            return Err(std::io::Error::other(format!(
                "{} holds keys or data of this cluster, and pods see {}: keep it elsewhere",
                path.display(),
                shown.display()
            )));
        }
    }
    Ok(private)
}

fn wanted(streams: Streams) -> StreamOptions {
    let Streams { stdin, stdout, stderr, tty } = streams;
    StreamOptions { stdin, stdout, stderr, tty, joined: false }
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
