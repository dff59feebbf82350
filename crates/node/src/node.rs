//! A whole node: its runtime, its agent and its endpoints, started and ended together. Every part is
//! made elsewhere; here they meet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tenure_downward::DownwardApiOptions;
use tenure_lifecycle::{NodeCapacity, RestartBackoff};
use tenure_supervise::keep_running;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::agent::{Agent, AgentConfig, AgentError};
use crate::certificate::{self, CertificateRenewer, ServingCertificate};
use crate::client::{Client, Server};
use crate::gate::ServerGate;
use crate::register::{NodeAddresses, NodeDescription, room_of_machine};
use crate::runtime::cri::{Cri, CriSettings};
#[cfg(target_os = "linux")]
use crate::runtime::process::{Images, PodNetworkChoice, ProcessRuntime, ProcessSettings};
use crate::runtime::{ContainerRuntime, RuntimeError};
use crate::serve::{Listener, Service};

/// What runs the containers of a node.
#[derive(Debug, Clone)]
pub enum RuntimeChoice {
    /// Processes of the node itself.
    #[cfg(target_os = "linux")]
    Process {
        /// What image names mean.
        images: Images,
        /// Whether pods may ask for privileges and for files of the node.
        allow_privileged: bool,
        /// Whether pods are plain processes that nothing isolates.
        plain: bool,
        /// Whose network pods have.
        pod_network: PodNetworkChoice,
    },
    /// A container runtime behind a socket.
    Cri {
        /// Its socket.
        socket: PathBuf,
        /// Puts every pod into the network of the node.
        node_network: bool,
    },
    /// One that is there already.
    Given(GivenRuntime),
}

/// A runtime that somebody else made.
#[derive(Clone)]
pub struct GivenRuntime(pub Arc<dyn ContainerRuntime>);

impl std::fmt::Debug for GivenRuntime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("GivenRuntime")
    }
}

/// What a node needs to know before it starts.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Its name.
    pub name: String,
    /// Where the server is and how the node shows who it is.
    pub server: Server,
    /// What runs its containers.
    pub runtime: RuntimeChoice,
    /// Its folder.
    pub folder: PathBuf,
    /// Certificate and key of its port, in PEM form; none: the server is asked to sign one.
    pub serving: Option<(String, String)>,
    /// Its address; none: what the machine uses to reach others.
    pub address: Option<IpAddr>,
    /// Where its endpoints are served; port 0 takes any free port.
    pub listen: SocketAddr,
    /// What it has for pods; what is zero is what the machine has.
    pub room: NodeCapacity,
    /// More labels of its Node object.
    pub labels: Vec<(String, String)>,
    /// How restarts wait.
    pub backoff: RestartBackoff,
    /// What an operator chose about the downward API.
    pub downward: DownwardApiOptions,
    /// Whether pods with a network of their own reach what is outside of it.
    pub egress: bool,
    /// Whether pods are put out when the node runs short.
    pub eviction: bool,
    /// How long a sandbox stays that belongs to no pod.
    pub foreign_sandboxes_stay: Duration,
    /// What of this machine no pod may ever be given, besides `folder`: keys, kubeconfigs, data.
    pub private: Vec<PathBuf>,
    /// Whether nobody will look for its containers when this process is gone, so that they must end with it
    /// (R146c).
    pub ends_with_agent: bool,
    /// Whether the server reaches it without any address, so that the one that its pods know it by may come first.
    pub dialled_in_memory: bool,
}

impl NodeSettings {
    /// The usual settings.
    #[must_use]
    pub fn new(
        name: &str,
        server: Server,
        runtime: RuntimeChoice,
        folder: PathBuf,
    ) -> NodeSettings {
        NodeSettings {
            name: name.to_owned(),
            server,
            runtime,
            folder,
            serving: None,
            address: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            room: NodeCapacity { pods: PODS, ..NodeCapacity::default() },
            labels: Vec::new(),
            backoff: RestartBackoff::default(),
            downward: DownwardApiOptions::default(),
            egress: true,
            eviction: false,
            foreign_sandboxes_stay: STRANGERS_STAY,
            private: Vec::new(),
            ends_with_agent: false,
            dialled_in_memory: false,
        }
    }
}

/// How many pods a node takes unless told otherwise.
pub const PODS: u64 = 110;
/// How long a sandbox of no pod stays unless told otherwise (R154).
pub const STRANGERS_STAY: Duration = Duration::from_secs(60);

/// How long a node that joins waits for its certificate before it says that it is there.
const SIGNED_PATIENCE: Duration = Duration::from_secs(10);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The runtime cannot be used.
    #[error("the runtime cannot be used")]
    Runtime(#[from] RuntimeError),
    /// The agent did not start.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The endpoints cannot be served.
    #[error("the node cannot serve on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A node that runs; dropping it leaves the containers alone, as a restarted agent finds them again.
pub struct Node {
    name: String,
    agent: Agent,
    service: Arc<Service>,
    runtime: Arc<dyn ContainerRuntime>,
    volumes: PathBuf,
    /// Whether its port shows a certificate that others can check.
    signed: watch::Receiver<bool>,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Node {
    /// Starts a node; the server need not be there yet.
    ///
    /// # Errors
    /// Its runtime, folder or port cannot be used.
    pub async fn start(mut settings: NodeSettings) -> Result<Node, NodeError> {
        settings.folder = absolute(&settings.folder);
        let address = settings.address.unwrap_or_else(address_of_machine);
        let runtime = runtime(&settings, address).await?;
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| NodeError::Listen {
            address: settings.listen,
            source,
        };
        let listener =
            TcpListener::bind(settings.listen).await.map_err(|error| failed(error.into()))?;
        let port = listener.local_addr().map_err(|error| failed(error.into()))?.port();
        let found = room_of_machine(&existing(&settings.folder), PODS);
        let or = |asked: u64, found: u64| if asked == 0 { found } else { asked };
        let room = NodeCapacity {
            cpu_millis: or(settings.room.cpu_millis, found.cpu_millis),
            memory_bytes: or(settings.room.memory_bytes, found.memory_bytes),
            storage_bytes: or(settings.room.storage_bytes, found.storage_bytes),
            pods: or(settings.room.pods, found.pods),
        };
        let mut features = Vec::new();
        if settings.downward.extra.owner_references {
            features.push("DownwardAPIOwnerReferences".to_owned());
        }
        let logs = settings.folder.join("logs");
        let volumes = settings.folder.join("volumes");
        let agent = Agent::start(AgentConfig {
            identity: NodeDescription {
                name: settings.name.clone(),
                hostname: settings.name.clone(),
                addresses: NodeAddresses::new(vec![address], settings.dialled_in_memory),
                port,
                room,
                labels: settings.labels.clone(),
                features,
            },
            server: settings.server.clone(),
            runtime: Arc::clone(&runtime),
            root: volumes.clone(),
            logs: logs.clone(),
            backoff: settings.backoff,
            settings: settings.downward,
            host_path: allows_host_path(&settings.runtime),
            private: private(&settings),
            egress: settings.egress,
            eviction: settings.eviction,
            foreign_sandboxes_stay: settings.foreign_sandboxes_stay,
        })?;
        let service =
            Service::new(&settings.name, Arc::clone(&runtime), agent.pods().clone(), logs);
        let shown = match &settings.serving {
            Some(pair) => certificate::given(pair),
            None => certificate::own(&settings.name),
        };
        let shown = shown.map_err(failed)?;
        let serving =
            serving(&settings, Arc::clone(&shown), Arc::clone(&service)).map_err(failed)?;
        let (stop, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let serving = Arc::new((serving, listener, stopping));
        tasks.spawn(keep_running("port of the node", move || {
            let serving = Arc::clone(&serving);
            async move { serving.0.run(&serving.1, serving.2.clone()).await }
        }));
        let (sign, signed) = watch::channel(settings.serving.is_some());
        if settings.serving.is_none() {
            let keeper = Arc::new(CertificateRenewer {
                client: Client::new(&settings.server).map_err(|error| failed(error.into()))?,
                name: settings.name.clone(),
                authority_pem: settings.server.authority_pem.clone(),
                folder: settings.folder.clone(),
            });
            tasks.spawn(keep_running("certificate of the node", move || {
                Arc::clone(&keeper).keep(Arc::clone(&shown), sign.clone())
            }));
        }
        let name = settings.name;
        Ok(Node { name, agent, service, runtime, volumes, signed, _stop: stop, _tasks: tasks })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its endpoints, for a server in the same process.
    #[must_use]
    pub fn service(&self) -> Arc<Service> {
        Arc::clone(&self.service)
    }

    /// Its pods.
    #[must_use]
    pub fn pods(&self) -> crate::pods::Pods {
        self.agent.pods().clone()
    }

    /// Its runtime.
    #[must_use]
    pub fn runtime(&self) -> Arc<dyn ContainerRuntime> {
        Arc::clone(&self.runtime)
    }

    /// Waits until the server knows the node and can reach it. A server that signs no certificates is
    /// not waited for: pods run there all the same.
    pub async fn registered(&self) {
        self.agent.registered().await;
        let mut signed = self.signed.clone();
        let _ = tokio::time::timeout(SIGNED_PATIENCE, signed.wait_for(|signed| *signed)).await;
    }

    /// Ends the node and everything that runs on it: containers get their hooks, their stop signal and the
    /// time for it (R146b). What is left of pods is found again by the next start, unless that is not
    /// wanted.
    pub async fn end(self, mut how: ShutdownOptions) {
        let Node { agent, runtime, volumes, .. } = self;
        if !how.grace.is_zero() {
            tokio::select! {
                () = agent.leave(how.grace) => {}
                () = how.hurried() => {}
            }
        }
        // First, so that nobody starts again what is stopped here.
        drop(agent);
        let remove = how.remove;
        let found = match runtime.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(
                    %error, "what runs on the node cannot be told, so it runs on"
                );
                return;
            }
        };
        let mut ends: JoinSet<bool> = JoinSet::new();
        for sandbox in found {
            let runtime = Arc::clone(&runtime);
            ends.spawn(async move {
                let mut done = runtime.stop_sandbox(&sandbox.id).await;
                if remove && done.is_ok() {
                    done = runtime.remove_sandbox(&sandbox.id).await;
                }
                if let Err(error) = &done {
                    tracing::warn!(
                        %error, sandbox = sandbox.id,
                        "a sandbox could not be ended"
                    );
                }
                done.is_ok()
            });
        }
        let ended = ends.join_all().await.into_iter().all(|ended| ended);
        if !ended && !remove {
            // Whatever lives on there may still read its volumes.
            return;
        }
        runtime.close().await;
        let options = crate::volume::VolumeOptions { root: volumes, ..Default::default() };
        let cleared = tokio::task::spawn_blocking(move || {
            let volumes = crate::volume::Volumes::open(options)?;
            let mut done = Ok(());
            if remove {
                done = volumes.pods().iter().try_for_each(|uid| volumes.tear_down(uid));
            }
            // Memory goes as it does when a machine is switched off; nothing stays mounted.
            volumes.close();
            done
        });
        if let Ok(Err(error)) = cleared.await {
            tracing::warn!(%error, "volumes could not be removed");
        }
    }
}

/// How a node ends.
#[derive(Debug, Clone)]
pub struct ShutdownOptions {
    /// How long containers may take at most; those of a pod that wants less get less. Zero: they are
    /// killed.
    pub grace: Duration,
    /// Whether nothing is left to be found.
    pub remove: bool,
    /// Becomes true when nobody wants to wait any longer.
    pub hurry: watch::Receiver<bool>,
}

impl ShutdownOptions {
    async fn hurried(&mut self) {
        if self.hurry.wait_for(|hurry| *hurry).await.is_err() {
            // Whoever could have hurried is gone, so nobody will.
            std::future::pending::<()>().await;
        }
    }
}

/// Makes the runtime a node was told to use.
///
/// # Errors
/// It cannot be used.
pub async fn runtime(
    settings: &NodeSettings,
    address: IpAddr,
) -> Result<Arc<dyn ContainerRuntime>, RuntimeError> {
    Ok(match &settings.runtime {
        #[cfg(target_os = "linux")]
        RuntimeChoice::Process { images, allow_privileged, plain, pod_network } => {
            let process = ProcessSettings {
                images: images.clone(),
                allow_privileged: *allow_privileged,
                plain: *plain,
                pod_network: *pod_network,
                node_address: address,
                private: private(settings),
                ends_with_agent: settings.ends_with_agent,
                ..ProcessSettings::new(settings.folder.join("process"))
            };
            let runtime = ProcessRuntime::open(process).await?;
            if let Some(danger) = runtime.danger() {
                tracing::warn!(node = settings.name, "{danger}");
            }
            if let Some(why) = runtime.missing_wall() {
                tracing::error!(
                    node = settings.name,
                    "no pod is run: pods cannot be isolated: {why}; `--isolation none` runs them \
                     without isolation"
                );
            }
            Arc::new(runtime)
        }
        RuntimeChoice::Cri { socket, node_network } => {
            let cri = CriSettings {
                socket: socket.clone(),
                node: settings.name.clone(),
                node_network: *node_network,
                node_address: Some(address),
                ..CriSettings::default()
            };
            Arc::new(Cri::new(cri)?)
        }
        RuntimeChoice::Given(given) => Arc::clone(&given.0),
    })
}

/// What no pod may be given. On a node of a real runtime its own folder is for its administrator to
/// give, as `/var/lib/kubelet` is.
fn private(settings: &NodeSettings) -> Vec<PathBuf> {
    let mut all = settings.private.clone();
    #[cfg(target_os = "linux")]
    if matches!(settings.runtime, RuntimeChoice::Process { .. }) {
        all.push(settings.folder.clone());
    }
    all
}

/// Files of the node are privileges on a developer's machine, and the usual thing on a real node.
fn allows_host_path(runtime: &RuntimeChoice) -> bool {
    match runtime {
        #[cfg(target_os = "linux")]
        RuntimeChoice::Process { allow_privileged, .. } => *allow_privileged,
        RuntimeChoice::Cri { .. } | RuntimeChoice::Given(_) => true,
    }
}

/// The folder by a name that holds wherever this process goes.
fn absolute(folder: &std::path::Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The folder, or the nearest above it that is there.
fn existing(folder: &std::path::Path) -> PathBuf {
    let found = folder.ancestors().find(|folder| folder.exists());
    found.map_or_else(|| PathBuf::from("/"), std::path::Path::to_owned)
}

/// The address this machine uses to reach others; nothing is sent to find out.
#[must_use]
pub fn address_of_machine() -> IpAddr {
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

/// The endpoints, open to those whom the server lets in.
fn serving(
    settings: &NodeSettings,
    shown: Arc<ServingCertificate>,
    service: Arc<Service>,
) -> Result<Listener, Box<dyn std::error::Error + Send + Sync>> {
    let authority = CertificateDer::from_pem_slice(settings.server.authority_pem.as_bytes())?;
    let client = Client::new(&settings.server)?;
    let gate = ServerGate::new(client, settings.name.clone());
    Listener::new(service, Arc::new(gate), shown, authority)
}
