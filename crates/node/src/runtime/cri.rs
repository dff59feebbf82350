//! Runs pods on a real container runtime, containerd or CRI-O, over CRI v1. The runtime does the work
//! and keeps the state; here is how it is asked and how its words are read. Images are never built and
//! sandboxes of others never touched.
//!
//! ```text
//!   agent ──► Cri ──► convert ──► messages ──► client ──► socket of the runtime
//!                └──► stream: exec, attach and port-forward, over SPDY to where the runtime serves them
//!   changes ◄── watch: the runtime's events, or a look at all once a second
//!   logs ◄── rotate: full ones are put aside
//! ```

mod client;
mod convert;
mod messages;
mod name;
mod rotate;
mod stream;
mod watch;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::broadcast;
use tonic::Code;

use self::client::{CriClient, USUAL, failed};
use self::messages as cri;
pub use self::rotate::LogLimits;
use super::{
    Container, ContainerConfig, ContainerLimits, ContainerRuntime, ContainerState, Duplex, Image,
    ImageWanted, Ran, RuntimeError, RuntimeFuture, RuntimeInfo, Sandbox, SandboxConfig, Session,
    Streams,
};

/// How long a pull may take.
const PULL: Duration = Duration::from_secs(15 * 60);
/// How long a sandbox may take, whose own image may have to be pulled.
const SANDBOX: Duration = Duration::from_secs(4 * 60);
/// How long a runtime may take to kill, once the grace is over.
const KILL: Duration = Duration::from_secs(60);
/// How many questions about single containers are open at once.
const QUESTIONS: usize = 16;
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// How a runtime is reached and used.
#[derive(Debug, Clone, Default)]
pub struct CriSettings {
    /// Its socket.
    pub socket: PathBuf,
    /// The node of this agent: sandboxes of other agents on the same runtime are left alone.
    pub node: String,
    /// Puts every pod into the network of the node, for a runtime without a network of its own.
    pub node_network: bool,
    /// The address of pods in the network of the node.
    pub node_address: Option<IpAddr>,
    /// The cgroup that pods are put below; empty: the runtime's choice.
    pub cgroup_parent: String,
    /// The handler that runs sandboxes; empty: the runtime's choice.
    pub handler: String,
    /// When logs are put aside.
    pub logs: LogLimits,
}

/// A container runtime over CRI v1.
pub struct Cri {
    client: CriClient,
    settings: CriSettings,
    changes: broadcast::Sender<String>,
    known: Mutex<CriCache>,
    /// What goes on until this is dropped.
    tasks: [tokio::task::JoinHandle<()>; 2],
}

/// What need not be asked twice.
#[derive(Default)]
struct CriCache {
    /// How each sandbox was made.
    configs: HashMap<String, SandboxConfig>,
    /// Addresses of sandboxes that run.
    addresses: HashMap<String, Vec<IpAddr>>,
    /// Containers that ended: they do not change any more.
    ended: HashMap<String, Container>,
    /// The sandbox of each container, which a runtime does not tell with its status.
    sandboxes: HashMap<String, String>,
}

impl Cri {
    /// A runtime behind a socket. It need not be there yet: until it is, every answer is
    /// [`RuntimeError::Away`]. Must be called where tokio runs.
    pub fn new(settings: CriSettings) -> Result<Cri, RuntimeError> {
        let client = CriClient::new(&settings.socket)?;
        let (changes, _) = broadcast::channel(1024);
        let watching = watch::watch(client.clone(), mine(&settings), changes.clone());
        let rotating = rotate::rotate(client.clone(), mine(&settings), settings.logs);
        let tasks = [tokio::spawn(watching), tokio::spawn(rotating)];
        Ok(Cri { client, settings, changes, known: Mutex::default(), tasks })
    }

    fn known<T>(&self, look: impl FnOnce(&mut CriCache) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A, RuntimeError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.client.call(path, question, USUAL).await.map_err(failed)
    }

    async fn image_status(&self, name: &str) -> Result<Option<cri::CriImage>, RuntimeError> {
        let question = cri::ImageRequest { image: Some(spec(name)) };
        let answer: cri::ImageStatusResponse =
            self.ask("/runtime.v1.ImageService/ImageStatus", question).await?;
        Ok(answer.image)
    }

    async fn find_image(&self, wanted: &ImageWanted) -> Result<Image, RuntimeError> {
        let name = &wanted.name;
        if let Err(why) = name::check(name) {
            let message = format!("couldn't parse image name `{name}`: {why}");
            return Err(RuntimeError::Image { reason: "InvalidImageName", message });
        }
        let there = match wanted.policy.as_str() {
            "Always" => None,
            _ => self.image_status(name).await?,
        };
        if let Some(image) = there {
            return Ok(convert::image(image, false));
        }
        if wanted.policy == "Never" {
            return Err(RuntimeError::Image {
                reason: "ErrImageNeverPull",
                message: format!(
                    "Container image \"{name}\" is not present with pull policy of Never"
                ),
            });
        }
        wanted.pulling.begin();
        let question = cri::ImageRequest { image: Some(spec(name)) };
        let pulled: Result<cri::Id, _> =
            self.client.call("/runtime.v1.ImageService/PullImage", question, PULL).await;
        let pulled = pulled.map_err(|status| match failed(status) {
            RuntimeError::Away(why) => RuntimeError::Away(why),
            other => RuntimeError::Image { reason: "ErrImagePull", message: other.to_string() },
        })?;
        match self.image_status(&pulled.id).await? {
            Some(image) => Ok(convert::image(image, true)),
            None => Err(RuntimeError::Image {
                reason: "ErrImagePull",
                message: format!("image `{name}` was pulled and is gone again"),
            }),
        }
    }

    async fn make_sandbox(&self, config: &SandboxConfig) -> Result<Sandbox, RuntimeError> {
        if !config.host_users {
            return Err(RuntimeError::Refused(
                "`hostUsers: false` is not supported with the runtime `cri`: no range of users is set \
                 aside for pods"
                    .into(),
            ));
        }
        // The runtime expects the folder to be there.
        let folder = tokio::fs::create_dir_all(&config.logs).await;
        folder.map_err(|error| unwritable(&config.logs, &error))?;
        let settings = &self.settings;
        let made = convert::sandbox(
            config,
            &settings.node,
            &settings.cgroup_parent,
            settings.node_network,
        )?;
        let question = cri::RunSandboxRequest {
            config: Some(made),
            runtime_handler: match config.handler.as_str() {
                "" => settings.handler.clone(),
                of_class => of_class.to_owned(),
            },
        };
        let path = "/runtime.v1.RuntimeService/RunPodSandbox";
        let answer: cri::Id = self.client.call(path, question, SANDBOX).await.map_err(failed)?;
        let id = answer.id;
        self.known(|known| known.configs.insert(id.clone(), config.clone()));
        Ok(Sandbox {
            pod: config.pod.clone(),
            attempt: config.attempt,
            ready: true,
            addresses: self.addresses(&id).await?,
            containers: Vec::new(),
            id,
        })
    }

    async fn sandbox_status(&self, sandbox: &str) -> Result<cri::SandboxStatus, RuntimeError> {
        let question = cri::Id { id: sandbox.to_owned() };
        let answer: cri::SandboxStatusResponse =
            self.ask("/runtime.v1.RuntimeService/PodSandboxStatus", question).await?;
        answer.status.ok_or_else(|| RuntimeError::NotFound(format!("sandbox {sandbox}")))
    }

    /// Addresses of a sandbox that runs; they stay as long as it does.
    async fn addresses(&self, sandbox: &str) -> Result<Vec<IpAddr>, RuntimeError> {
        if let Some(addresses) = self.known(|known| known.addresses.get(sandbox).cloned()) {
            return Ok(addresses);
        }
        let status = self.sandbox_status(sandbox).await?;
        let mut addresses = convert::addresses(&status.network.unwrap_or_default());
        if addresses.is_empty() {
            addresses.extend(self.settings.node_address);
        }
        self.known(|known| known.addresses.insert(sandbox.to_owned(), addresses.clone()));
        Ok(addresses)
    }

    /// How a sandbox was made, also by an agent before this one.
    async fn config(&self, sandbox: &str) -> Result<SandboxConfig, RuntimeError> {
        if let Some(config) = self.known(|known| known.configs.get(sandbox).cloned()) {
            return Ok(config);
        }
        let status = self.sandbox_status(sandbox).await?;
        let text = status.annotations.get(convert::SANDBOX).map(String::as_str).unwrap_or_default();
        let config: SandboxConfig = serde_json::from_str(text).map_err(|error| {
            RuntimeError::Failed(format!("sandbox {sandbox} is not one of this agent: {error}"))
        })?;
        self.known(|known| known.configs.insert(sandbox.to_owned(), config.clone()));
        Ok(config)
    }

    async fn make_container(
        &self,
        sandbox: &str,
        config: &ContainerConfig,
    ) -> Result<String, RuntimeError> {
        let of_sandbox = self.config(sandbox).await?;
        if let Some(folder) = of_sandbox.logs.join(&config.log).parent() {
            let made = tokio::fs::create_dir_all(folder).await;
            made.map_err(|error| unwritable(folder, &error))?;
        }
        let settings = &self.settings;
        let node_network = settings.node_network;
        let mut made = convert::container(config, &of_sandbox, &settings.node, node_network);
        if config.security.gid.is_some() && config.security.uid.is_none() {
            // Runtimes refuse a group without a user, so the image's user is named.
            let image = self.image_status(&config.image).await?.unwrap_or_default();
            convert::set_user(&mut made, convert::image(image, false).uid);
        }
        let question = cri::CreateContainerRequest {
            sandbox: sandbox.to_owned(),
            config: Some(made),
            sandbox_config: Some(convert::sandbox(
                &of_sandbox,
                &settings.node,
                &settings.cgroup_parent,
                node_network,
            )?),
        };
        let answer: cri::Id =
            self.ask("/runtime.v1.RuntimeService/CreateContainer", question).await?;
        self.known(|known| known.sandboxes.insert(answer.id.clone(), sandbox.to_owned()));
        Ok(answer.id)
    }

    async fn stop_container(&self, container: &str, grace: Duration) -> Result<(), RuntimeError> {
        let question = cri::StopContainerRequest {
            container: container.to_owned(),
            timeout_seconds: seconds(grace),
        };
        let path = "/runtime.v1.RuntimeService/StopContainer";
        let limit = grace.saturating_add(KILL);
        match self.client.call::<_, cri::Nothing>(path, question, limit).await {
            Ok(_) => Ok(()),
            Err(status) => match failed(status) {
                RuntimeError::NotFound(_) => Ok(()),
                other => Err(other),
            },
        }
    }

    async fn update_container(
        &self,
        container: &str,
        limits: &ContainerLimits,
    ) -> Result<(), RuntimeError> {
        let linux = Some(convert::resources(limits));
        let question = cri::UpdateContainerRequest { container: container.to_owned(), linux };
        let path = "/runtime.v1.RuntimeService/UpdateContainerResources";
        self.ask::<_, cri::Nothing>(path, question).await.map(|_| ())
    }

    /// A call about one id, to which an id that is gone is done.
    async fn end(&self, path: &'static str, id: &str) -> Result<(), RuntimeError> {
        match self.ask::<_, cri::Nothing>(path, cri::Id { id: id.to_owned() }).await {
            Ok(_) | Err(RuntimeError::NotFound(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn container(&self, id: &str, sandbox: &str) -> Result<Container, RuntimeError> {
        if let Some(ended) = self.known(|known| known.ended.get(id).cloned()) {
            return Ok(ended);
        }
        let question = cri::Id { id: id.to_owned() };
        let answer: cri::ContainerStatusResponse =
            self.ask("/runtime.v1.RuntimeService/ContainerStatus", question).await?;
        let status =
            answer.status.ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))?;
        let container = convert::shown(&status, sandbox);
        if matches!(container.state, ContainerState::Exited { .. }) {
            self.known(|known| known.ended.insert(id.to_owned(), container.clone()));
        }
        Ok(container)
    }

    async fn list_all(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let (sandboxes, containers) = watch::list(&self.client, &mine(&self.settings)).await?;
        self.known(|known| known.keep(&sandboxes, &containers));
        let containers = futures::stream::iter(containers)
            .map(|listed| async move { self.container(&listed.id, &listed.sandbox).await })
            .buffered(QUESTIONS)
            .collect::<Vec<_>>()
            .await;
        let mut all = Vec::with_capacity(sandboxes.len());
        for listed in sandboxes {
            let Some(pod) = convert::pod(&listed.labels) else { continue };
            let ready = listed.state == cri::SANDBOX_READY;
            let addresses = match ready {
                true => self.addresses(&listed.id).await,
                false => Ok(Vec::new()),
            };
            // It may go while the list is read.
            let addresses = match addresses {
                Err(RuntimeError::NotFound(_)) => continue,
                other => other?,
            };
            let attempt = listed.metadata.map_or(0, |metadata| metadata.attempt);
            let containers = Vec::new();
            all.push(Sandbox { id: listed.id, pod, attempt, ready, addresses, containers });
        }
        for container in containers {
            let container = match container {
                Err(RuntimeError::NotFound(_)) => continue,
                other => other?,
            };
            if let Some(sandbox) = all.iter_mut().find(|sandbox| sandbox.id == container.sandbox) {
                sandbox.containers.push(container);
            }
        }
        Ok(all)
    }

    async fn container_status(&self, id: &str) -> Result<Container, RuntimeError> {
        let known = self.known(|known| known.sandboxes.get(id).cloned());
        let sandbox = match known {
            Some(sandbox) => sandbox,
            None => {
                let (sandboxes, containers) =
                    watch::list(&self.client, &mine(&self.settings)).await?;
                self.known(|known| known.keep(&sandboxes, &containers));
                self.known(|known| known.sandboxes.get(id).cloned())
                    .ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))?
            }
        };
        self.container(id, &sandbox).await
    }

    async fn run_to_end(
        &self,
        container: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<Ran, RuntimeError> {
        let question = cri::ExecSyncRequest {
            container: container.to_owned(),
            command: command.to_vec(),
            timeout_seconds: seconds(timeout).max(1),
        };
        // The runtime counts whole seconds; we wait a little longer than it, for its own words.
        let limit = timeout.saturating_add(Duration::from_secs(3));
        let path = "/runtime.v1.RuntimeService/ExecSync";
        let answer: Result<cri::ExecSyncResponse, _> =
            self.client.call(path, question, limit).await;
        match answer {
            Ok(ran) => {
                let mut output = ran.stdout;
                output.extend(ran.stderr);
                output.truncate(OUTPUT_BYTES_MAX);
                Ok(Ran { code: ran.exit_code, output, timed_out: false })
            }
            Err(status)
                if status.code() == Code::DeadlineExceeded
                    || status.message().contains("context deadline exceeded") =>
            {
                Ok(Ran { code: -1, output: Vec::new(), timed_out: true })
            }
            Err(status) => Err(cannot_run(failed(status))),
        }
    }

    async fn open_exec(
        &self,
        container: &str,
        command: &[String],
        streams: Streams,
    ) -> Result<Session, RuntimeError> {
        let question = cri::ExecRequest {
            container: container.to_owned(),
            command: command.to_vec(),
            tty: streams.tty,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        let served: cri::Id = self.ask("/runtime.v1.RuntimeService/Exec", question).await?;
        stream::session(&served.id, streams).await
    }

    async fn open_attach(
        &self,
        container: &str,
        streams: Streams,
    ) -> Result<Session, RuntimeError> {
        let question = cri::AttachRequest {
            container: container.to_owned(),
            stdin: streams.stdin,
            tty: streams.tty,
            stdout: streams.stdout,
            stderr: streams.stderr && !streams.tty,
        };
        let served: cri::Id = self.ask("/runtime.v1.RuntimeService/Attach", question).await?;
        stream::session(&served.id, streams).await
    }

    async fn open_port(&self, sandbox: &str, port: u16) -> Result<Box<dyn Duplex>, RuntimeError> {
        let question =
            cri::PortForwardRequest { sandbox: sandbox.to_owned(), ports: vec![i32::from(port)] };
        let served: cri::Id = self.ask("/runtime.v1.RuntimeService/PortForward", question).await?;
        stream::forward(&served.id, port).await
    }

    async fn describe(&self) -> Result<RuntimeInfo, RuntimeError> {
        let question = cri::VersionRequest { version: "v1".into() };
        let version: cri::VersionResponse =
            self.ask("/runtime.v1.RuntimeService/Version", question).await?;
        let status: cri::StatusResponse =
            self.ask("/runtime.v1.RuntimeService/Status", cri::Nothing {}).await?;
        let conditions = status.status.unwrap_or_default().conditions;
        let isolation = conditions.into_iter().map(|condition| {
            let holds = match condition.status {
                true => Ok(()),
                false => Err(format!("{}: {}", condition.reason, condition.message)),
            };
            (condition.kind, holds)
        });
        Ok(RuntimeInfo {
            scheme: version.runtime_name.clone(),
            name: version.runtime_name,
            version: version.runtime_version,
            isolation: isolation.collect(),
            danger: None,
            unable: None,
            pod_network: false,
        })
    }
}

impl Drop for Cri {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl CriCache {
    /// Forgets what the runtime does not hold any more.
    fn keep(&mut self, sandboxes: &[cri::ListedSandbox], containers: &[cri::ListedContainer]) {
        let listed = |id: &String| sandboxes.iter().any(|sandbox| &sandbox.id == id);
        self.configs.retain(|id, _| listed(id));
        self.addresses.retain(|id, _| listed(id));
        self.sandboxes =
            containers.iter().map(|listed| (listed.id.clone(), listed.sandbox.clone())).collect();
        self.ended.retain(|id, _| self.sandboxes.contains_key(id));
    }
}

impl ContainerRuntime for Cri {
    fn about(&self) -> RuntimeFuture<'_, RuntimeInfo> {
        self.describe().boxed()
    }

    fn opens_paths(&self) -> bool {
        true
    }

    fn image<'a>(&'a self, wanted: &'a ImageWanted) -> RuntimeFuture<'a, Image> {
        self.find_image(wanted).boxed()
    }

    fn run_sandbox<'a>(&'a self, config: &'a SandboxConfig) -> RuntimeFuture<'a, Sandbox> {
        self.make_sandbox(config).boxed()
    }

    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        self.end("/runtime.v1.RuntimeService/StopPodSandbox", sandbox).boxed()
    }

    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        self.end("/runtime.v1.RuntimeService/RemovePodSandbox", sandbox).boxed()
    }

    fn create<'a>(
        &'a self,
        sandbox: &'a str,
        config: &'a ContainerConfig,
    ) -> RuntimeFuture<'a, String> {
        self.make_container(sandbox, config).boxed()
    }

    fn start<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        let question = cri::Id { id: container.to_owned() };
        let started =
            self.ask::<_, cri::Nothing>("/runtime.v1.RuntimeService/StartContainer", question);
        async { started.await.map(drop).map_err(cannot_run) }.boxed()
    }

    fn update<'a>(
        &'a self,
        container: &'a str,
        limits: &'a ContainerLimits,
    ) -> RuntimeFuture<'a, ()> {
        self.update_container(container, limits).boxed()
    }

    /// The signal is set when a container is made; CRI has no place for another one.
    fn stop<'a>(
        &'a self,
        container: &'a str,
        _signal: Option<&'a str>,
        grace: Duration,
    ) -> RuntimeFuture<'a, ()> {
        self.stop_container(container, grace).boxed()
    }

    fn remove<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        self.end("/runtime.v1.RuntimeService/RemoveContainer", container).boxed()
    }

    fn list(&self) -> RuntimeFuture<'_, Vec<Sandbox>> {
        self.list_all().boxed()
    }

    fn status<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, Container> {
        self.container_status(container).boxed()
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }

    fn run<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, Ran> {
        self.run_to_end(container, command, timeout).boxed()
    }

    fn exec<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        streams: Streams,
    ) -> RuntimeFuture<'a, Session> {
        self.open_exec(container, command, streams).boxed()
    }

    fn attach<'a>(&'a self, container: &'a str, streams: Streams) -> RuntimeFuture<'a, Session> {
        self.open_attach(container, streams).boxed()
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> RuntimeFuture<'a, Box<dyn Duplex>> {
        self.open_port(sandbox, port).boxed()
    }
}

/// The label that only sandboxes and containers of this agent have.
fn mine(settings: &CriSettings) -> cri::StringMap {
    [(convert::NODE.to_owned(), settings.node.clone())].into()
}

fn spec(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), user_specified: String::new() }
}

/// What went wrong when something should have begun to run is the command's fault, unless nobody heard.
fn cannot_run(error: RuntimeError) -> RuntimeError {
    match error {
        RuntimeError::Failed(message) => RuntimeError::CannotRun(message),
        other => other,
    }
}

fn unwritable(folder: &std::path::Path, error: &std::io::Error) -> RuntimeError {
    RuntimeError::Failed(format!("`{}`: {error}", folder.display()))
}

/// Whole seconds, never fewer than asked.
fn seconds(duration: Duration) -> i64 {
    let more = u64::from(duration.subsec_nanos() > 0);
    i64::try_from(duration.as_secs().saturating_add(more)).unwrap_or(i64::MAX)
}
