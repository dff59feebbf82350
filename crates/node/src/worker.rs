//! One pod, from its first sight to its last: what the engine decides is done here, what is done is
//! told to the engine. Only the order of things lives here; each thing has its own room below.
//!
//! ```text
//!   messages ──► what is seen ──► engine: next actions ──► work beside ──► messages …
//!                           └──► engine: status ──► server
//! ```

mod adopt;
mod container_state;
mod outcome;
mod pod_volumes;
mod probing;
mod report;
mod resize;
mod sandbox;
mod start;
mod stop;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tenure_downward::ValueInput;
use tenure_lifecycle::{
    ContainerType, Leaving, LifecycleSpec, Observed, PodAction, PodRejection, PodResources,
    RestartBackoff, is_ending, next_actions, pod_requests,
};
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tracing::Instrument as _;

use crate::agent::AgentContext;
use crate::client::Answered;
use crate::clock;
use crate::container;
use crate::events::{EventSubject, Grade};
use crate::objects::InputCallback;
use crate::pods::{self, KnownContainer, KnownPod};
use crate::probe::Purpose;
use crate::runtime::{ContainerState, PodKey, RuntimeError, Sandbox};

use pod_volumes::PodVolumes;
use report::StatusReporter;
use start::{NotBegun, StartedContainer};

/// How long a pull that failed is shown as such before it is shown as waiting.
const PULL_SHOWN: Duration = Duration::from_secs(2);
/// When a container whose settings are wrong is tried again although nothing changed.
const CONFIG_RETRY: Duration = Duration::from_secs(10);
/// When something is tried again while the runtime is away.
const AWAY_RETRY: Duration = Duration::from_secs(1);
/// The longest sleep, so that a clock that jumps does no harm.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What a worker is told.
pub(crate) enum WorkerMessage {
    /// The pod as the server now has it.
    Pod(Arc<Object>),
    /// The pod is gone from the server.
    Gone,
    /// Something outside the pod that it reads changed.
    Input(ValueInput),
    /// Its sandbox changed, or may have.
    Look,
    /// What the runtime holds of the pod, complete.
    Held(Vec<Sandbox>),
    /// The node puts the pod out.
    Evict(PodRejection),
    /// The node ends; `living` is held until nothing of the pod lives and that was told.
    Leave {
        leaving: Leaving,
        living: mpsc::Sender<()>,
    },
    SandboxMade(Result<Sandbox, RuntimeError>),
    Started(String, Result<StartedContainer, NotBegun>),
    Stopped(String),
    Finished {
        remove: bool,
    },
    Filled {
        volume: String,
        done: Result<(), String>,
        refresh: Option<Timestamp>,
    },
    Written(Answered<Object>),
    Deleted(Answered<Object>),
    /// A container has these resources now, or could not be given them.
    Resized {
        container: String,
        id: String,
        resources: Object,
        done: Result<(), RuntimeError>,
    },
    Probed {
        container: String,
        id: String,
        purpose: Purpose,
        well: bool,
    },
}

/// The sandbox of a pod, as the runtime knows it.
struct HeldSandbox {
    id: String,
    addresses: Vec<IpAddr>,
}

/// An instance of a container, as the runtime knows it.
#[derive(Clone)]
struct ContainerAttempt {
    id: String,
    attempt: u32,
    log: PathBuf,
    state: ContainerState,
}

/// What is kept of a container beside what the engine sees.
#[derive(Default)]
struct ContainerHistory {
    current: Option<ContainerAttempt>,
    previous: Option<ContainerAttempt>,
    /// How long the next try to make it waits.
    retry: Option<RestartBackoff>,
    /// When a pull failed.
    pull_failed: Option<(Timestamp, String)>,
    /// Whether its back-off was told.
    told_backoff: bool,
    /// Whether it was there before this agent.
    adopted: bool,
}

/// Work beside a worker, which is logged as the pod's like the worker's own.
#[derive(Default)]
struct PodTasks(JoinSet<()>);

impl PodTasks {
    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task.in_current_span());
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    async fn join_next(&mut self) -> Option<Result<(), JoinError>> {
        self.0.join_next().await
    }
}

/// The one who cares for a pod.
pub(crate) struct Worker {
    shared: Arc<AgentContext>,
    key: PodKey,
    subject: EventSubject,
    pod: Arc<Object>,
    /// What the node gives its containers, which may be less than they ask for now.
    given: PodResources,
    /// The pod with that: what its containers are made from.
    granted: Arc<Object>,
    spec: LifecycleSpec,
    seen: Observed,
    /// Containers whose resources are being changed.
    updating: BTreeSet<String>,
    /// When that may be tried again.
    resize_after: Option<Timestamp>,
    sandbox: Option<HeldSandbox>,
    attempts: u32,
    kept: BTreeMap<String, ContainerHistory>,
    files: PodVolumes,
    report: StatusReporter,
    probes: BTreeMap<(String, Purpose), (String, AbortHandle)>,
    /// Set once the pod ends, for work that should not go on then.
    ending: watch::Sender<bool>,
    finishing: bool,
    gone: bool,
    /// Held while the node waits for this pod to end.
    living: Option<mpsc::Sender<()>>,
    work: PodTasks,
    out: mpsc::UnboundedSender<WorkerMessage>,
    inbox: mpsc::UnboundedReceiver<WorkerMessage>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<AgentContext>,
        pod: Arc<Object>,
        found: &[Sandbox],
        refused: Option<PodRejection>,
        (out, inbox): (
            mpsc::UnboundedSender<WorkerMessage>,
            mpsc::UnboundedReceiver<WorkerMessage>,
        ),
    ) -> Worker {
        let given = resize::given_before(&pod);
        let granted = resize::granted(&pod, &given);
        let spec = LifecycleSpec::read(&granted);
        let phase = pod.str_at(&["status", "phase"]).and_then(tenure_lifecycle::Phase::read);
        let started = pod.str_at(&["status", "startTime"]).and_then(|time| time.parse().ok());
        let over = phase.is_some_and(tenure_lifecycle::Phase::is_final);
        let seen = Observed {
            refused,
            over,
            started: Some(started.unwrap_or_else(clock::timestamp)),
            host_addresses: shared.addresses(),
            ..Observed::default()
        };
        let uid = pod.str_at(&["metadata", "uid"]).unwrap_or_default();
        if seen.refused.is_none() && !over {
            shared.allocations.put(uid, pod_requests(&granted));
        }
        let mut worker = Worker {
            key: container::key(&pod),
            subject: EventSubject::pod(&pod),
            files: PodVolumes::default(),
            report: StatusReporter::default(),
            spec,
            seen,
            sandbox: None,
            attempts: 0,
            kept: BTreeMap::new(),
            probes: BTreeMap::new(),
            given,
            granted,
            updating: BTreeSet::new(),
            resize_after: None,
            ending: watch::Sender::new(false),
            finishing: false,
            gone: false,
            living: None,
            work: PodTasks::default(),
            shared,
            pod,
            out,
            inbox,
        };
        worker.adopt(found);
        worker.hold();
        worker
    }

    /// Cares for the pod until nothing of it is left; each line of the log meanwhile names the pod.
    pub(crate) fn run(self) -> impl Future<Output = ()> + Send + 'static {
        let PodKey { namespace, name, uid } = &self.key;
        // At the level of errors, so that they name it even where nothing else is logged.
        let span = tracing::error_span!("pod", namespace, pod = name, uid);
        self.care().instrument(span)
    }

    async fn care(mut self) {
        loop {
            let wake = self.step();
            self.shared.fault(&self.key.uid);
            if self.gone {
                break;
            }
            let sleep = tokio::time::sleep(wake);
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => break,
                },
                Some(ended) = self.work.join_next(), if !self.work.is_empty() => {
                    // What the task would have said never comes: the pod needs a new worker.
                    if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
                () = sleep => {}
            }
            // What happened together is answered together.
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message).await;
            }
        }
        for (_, (_, probe)) in std::mem::take(&mut self.probes) {
            probe.abort();
        }
        self.shared.objects.release(&self.key.uid);
        self.shared.forget(&self.key.uid, self.sandbox.as_ref().map(|sandbox| sandbox.id.as_str()));
    }

    /// One round: decide, do, tell. Says how long nothing is due.
    fn step(&mut self) -> Duration {
        let now = clock::timestamp();
        let mut wake = now + SLEEP_MAX;
        self.age_pulls(now, &mut wake);
        if self.seen.ending.is_none() && is_ending(&self.spec, &self.seen, now) {
            self.seen.ending = Some(now);
            self.ending.send_replace(true);
        }
        if self.seen.ending.is_none() && self.seen.leaving.is_none() {
            self.fill(now, &mut wake);
        }
        self.resize(now, &mut wake);
        let plan = next_actions(&self.spec, &self.seen, now);
        for action in plan.actions {
            match action {
                PodAction::MakeSandbox => self.make_sandbox(),
                PodAction::Start { container, .. } => self.start(&container),
                PodAction::Stop(kill) => self.stop(kill),
                PodAction::Finish { remove } => self.finish(remove),
            }
        }
        if let Some(due) = plan.wake {
            wake = wake.min(due);
        }
        self.probe();
        self.tell_backoff(now);
        self.write_status(now, &mut wake);
        self.publish();
        self.end_for_good();
        if !self.seen.lives() && (self.report.settled() || self.report.failures > 0) {
            self.living = None;
        }
        Duration::try_from(wake.duration_since(now))
            .unwrap_or_default()
            .max(Duration::from_millis(1))
    }

    async fn take(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Pod(pod) => {
                if self.take_pod(pod) {
                    self.report.heard();
                }
            }
            WorkerMessage::Gone => {
                if self.seen.removed {
                    self.gone = true;
                }
                self.seen.forgotten = true;
            }
            WorkerMessage::Input(input) => {
                self.files.touched(&input);
                self.retry_settings();
            }
            WorkerMessage::Look => self.look().await,
            WorkerMessage::Held(found) => self.compare(found).await,
            WorkerMessage::Evict(why) => {
                if self.seen.evicted.is_none() {
                    let message = why.message.clone();
                    self.shared.events.tell(&self.subject, Grade::Warning, "Evicted", message);
                    self.seen.evicted = Some(why);
                }
            }
            WorkerMessage::Leave { leaving, living } => {
                self.seen.leaving = Some(leaving);
                self.living = Some(living);
                self.ending.send_replace(true);
            }
            WorkerMessage::SandboxMade(made) => self.sandbox_made(made),
            WorkerMessage::Started(name, begun) => self.started(&name, begun).await,
            WorkerMessage::Stopped(name) => {
                if let Some(seen) = self.seen.containers.get_mut(&name) {
                    seen.busy = None;
                }
                self.look().await;
            }
            WorkerMessage::Finished { remove } => {
                self.finishing = false;
                self.seen.cleaned = true;
                self.seen.removed |= remove;
                self.seen.sandbox = false;
            }
            WorkerMessage::Filled { volume, done, refresh } => self.filled(&volume, done, refresh),
            WorkerMessage::Written(answer) => self.written(answer),
            WorkerMessage::Deleted(answer) => self.deleted(answer),
            WorkerMessage::Resized { container, id, resources, done } => {
                self.resized(&container, &id, resources, done);
            }
            WorkerMessage::Probed { container, id, purpose, well } => {
                self.probed(&container, &id, purpose, well);
            }
        }
    }

    /// Takes the pod as the server has it, if that is news.
    fn take_pod(&mut self, pod: Arc<Object>) -> bool {
        match revision(&pod).cmp(&revision(&self.pod)) {
            Ordering::Less => return false,
            Ordering::Equal => {
                // One copy of the same is enough: whoever told of it has this one too.
                self.pod = pod;
                return false;
            }
            Ordering::Greater => {}
        }
        let before = std::mem::replace(&mut self.pod, pod);
        let pod = Arc::clone(&self.pod);
        self.files.changed(&before, &pod);
        if before.get("spec") != pod.get("spec") || before.get("metadata") != pod.get("metadata") {
            self.granted = resize::granted(&pod, &self.given);
            self.spec = LifecycleSpec::read(&self.granted);
            self.retry_settings();
            if before.get("spec") != pod.get("spec") {
                self.hold();
            }
        }
        true
    }

    /// Follows what the pod mentions.
    fn hold(&mut self) {
        if self.seen.refused.is_some() || self.seen.over {
            return;
        }
        let out = self.out.clone();
        let tell: InputCallback = Arc::new(move |input| {
            // A worker that is gone needs no news.
            let _ = out.send(WorkerMessage::Input(input));
        });
        let inputs = tenure_downward::pod_inputs(&self.pod);
        self.shared.objects.hold(&self.key.uid, &self.key.namespace, &inputs, &tell);
        self.files.read(&self.pod);
    }

    /// Lets containers whose settings were wrong be tried at once.
    fn retry_settings(&mut self) {
        for seen in self.seen.containers.values_mut() {
            let waits = seen.waiting.as_ref().map(|waiting| waiting.reason.as_str());
            if waits == Some("CreateContainerConfigError") {
                seen.after = None;
            }
        }
    }

    fn log(&self, name: &str, attempt: u32) -> PathBuf {
        container::log_folder(&self.shared.logs, &self.key).join(container::log_file(name, attempt))
    }

    /// Shows the pod to those who serve logs and commands.
    fn publish(&self) {
        let containers = self.spec.containers.iter().map(|spec| {
            let kept = self.kept.get(&spec.name);
            let seen = self.seen.containers.get(&spec.name);
            let instance = |held: &ContainerAttempt| pods::InstanceView {
                id: held.id.clone(),
                attempt: held.attempt,
                state: held.state.clone(),
                log: held.log.clone(),
            };
            let waits = seen.is_none_or(|seen| !seen.runs());
            let waiting = seen
                .and_then(|seen| seen.waiting.as_ref())
                .map_or_else(|| "ContainerCreating".to_owned(), |waiting| waiting.reason.clone());
            KnownContainer {
                name: spec.name.clone(),
                current: kept.and_then(|kept| kept.current.as_ref()).map(instance),
                previous: kept.and_then(|kept| kept.previous.as_ref()).map(instance),
                waiting: if waits { waiting } else { String::new() },
                stdin: spec.object.bool_at(&["stdin"]).unwrap_or_default(),
                tty: spec.object.bool_at(&["tty"]).unwrap_or_default(),
            }
        });
        self.shared.pods.put(KnownPod {
            key: self.key.clone(),
            object: self.report.shown(&self.pod),
            sandbox: self.sandbox.as_ref().map(|sandbox| sandbox.id.clone()),
            containers: containers.collect(),
        });
    }
}

/// The list of the pod a role stands in.
pub(crate) fn list(role: ContainerType) -> &'static str {
    match role {
        ContainerType::Init | ContainerType::Sidecar => "initContainers",
        ContainerType::Regular => "containers",
        ContainerType::Ephemeral => "ephemeralContainers",
    }
}

/// The order of versions of an object.
fn revision(object: &Object) -> u64 {
    let text = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    text.parse().unwrap_or_default()
}
