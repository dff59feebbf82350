//! The agent of one node: follows the pods bound to it, gives each a worker, and keeps the node
//! itself known to the server. What happens to a pod is the worker's business.
//!
//! ```text
//!   server ──pods of this node──► agent ──► worker for each pod ──► runtime, volumes, status
//!   runtime ──changes───────────►   │
//!                                   └──► Node, lease, conditions
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tenure_downward::DownwardApiOptions;
use tenure_lifecycle::{Leaving, NodeCapacity, PodRejection, RestartBackoff, fits, pod_requests};
use tenure_machinery::{Object, ObjectExt as _};
use tenure_supervise::{keep_running, panicked};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinSet;

use crate::admission::{final_phase, judge, reason};
use crate::allocation::Allocations;
use crate::client::{Client, ClientError, Server};
use crate::clock;
use crate::container::NameServers;
use crate::events::Events;
use crate::evict;
use crate::follow::{CollectionEvent, follow};
use crate::foreign_sandboxes::ForeignSandboxes;
use crate::objects::ObjectCache;
use crate::offline_cache::{OfflineCache, OfflineObjectKey};
use crate::pods::Pods;
use crate::register::{NodeAddresses, NodeDescription, Pressure, Registrar};
use crate::runtime::{ContainerRuntime, RuntimeInfo, Sandbox};
use crate::service_proxy::{self, ServiceProxy};
use crate::volume::{VolumeOptions, Volumes};
use crate::worker::{Worker, WorkerMessage};

/// How often everything the runtime holds is compared with what is known.
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// How often a runtime that is away is tried.
const AWAY_EVERY: Duration = Duration::from_secs(1);
/// How long the server may take to say how the node is now, before a pod is judged by what was known.
const READ_NODE_MAX: Duration = Duration::from_secs(2);
/// How long a loop that panicked before has to run until the node's lease is renewed again.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// The pause before a pod gets another worker because the last one panicked.
const WORKER_PAUSE: Duration = Duration::from_millis(100);
/// What a node that ends waits beyond the grace of its pods: for hooks that left no time for the signal, and
/// for the last words to be told.
const LEAVE_MORE: Duration = Duration::from_secs(4);

/// What an agent needs to know before it starts.
pub struct AgentConfig {
    /// Who the node is and what it has.
    pub identity: NodeDescription,
    /// Where the server is.
    pub server: Server,
    /// What runs containers.
    pub runtime: Arc<dyn ContainerRuntime>,
    /// The folder of volumes and what else the agent keeps.
    pub root: PathBuf,
    /// The folder of logs.
    pub logs: PathBuf,
    /// How restarts wait.
    pub backoff: RestartBackoff,
    /// What an operator chose about the downward API.
    pub settings: DownwardApiOptions,
    /// Whether `hostPath` volumes are allowed.
    pub host_path: bool,
    /// What of this machine no pod may be given.
    pub private: Vec<PathBuf>,
    /// Whether pods with a network of their own reach what is outside of it.
    pub egress: bool,
    /// Whether pods are put out when the node runs short (R112).
    pub eviction: bool,
    /// How long a sandbox of no pod stays (R154).
    pub foreign_sandboxes_stay: Duration,
}

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The server's address or a certificate cannot be used.
    #[error("the server cannot be reached with these settings")]
    Server(#[from] ClientError),
    /// The agent's folder cannot be used.
    #[error("the folder `{}` cannot be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What all workers share.
pub(crate) struct AgentContext {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
    pub(crate) pods: Pods,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) objects: Arc<ObjectCache>,
    pub(crate) events: Events,
    /// The Node object as the server last had it.
    pub(crate) node: watch::Sender<Option<Arc<Object>>>,
    pub(crate) about: watch::Receiver<Result<RuntimeInfo, String>>,
    pub(crate) logs: PathBuf,
    pub(crate) backoff: RestartBackoff,
    pub(crate) settings: DownwardApiOptions,
    pub(crate) room: NodeCapacity,
    /// What of the room each pod was given.
    pub(crate) allocations: Allocations,
    addresses: NodeAddresses,
    /// The pod of each sandbox.
    sandboxes: Mutex<HashMap<String, String>>,
    outs: Mutex<HashMap<String, mpsc::UnboundedSender<WorkerMessage>>>,
    /// Set once the node ends; changed only by whoever holds `outs`.
    leaving: OnceLock<Leaving>,
    ended: mpsc::UnboundedSender<String>,
    seed: AtomicU64,
    /// What a test wants to see panic: `agent`, or the uid of a pod.
    faults: Mutex<BTreeSet<String>>,
}

impl AgentContext {
    /// Panics if a test asked for it.
    #[expect(clippy::panic, reason = "what a test asks for, to see what becomes of it")]
    pub(crate) fn fault(&self, name: &str) {
        let planted = self.faults.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        if planted {
            panic!("planted by a test");
        }
    }

    /// Asks the server how the node is now; whether it answered.
    async fn read_node(&self, name: &str) -> bool {
        let path = format!("/api/v1/nodes/{name}");
        let reading = tokio::time::timeout(READ_NODE_MAX, self.client.get(&path));
        let Ok(Ok(node)) = reading.await else { return false };
        self.node.send_replace(Some(Arc::new(node)));
        true
    }

    /// The addresses of the node as texts, the main one of each family.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let all = self.addresses.all();
        let first = |v4: bool| all.iter().position(move |address| address.is_ipv4() == v4);
        let mut mains: Vec<usize> = [first(true), first(false)].into_iter().flatten().collect();
        mains.sort_unstable();
        mains.into_iter().filter_map(|index| all.get(index)).map(IpAddr::to_string).collect()
    }

    /// Who pods ask for names, where they have a network of their own.
    pub(crate) fn name_servers(&self) -> Option<NameServers> {
        let machine = self.runtime.node_network()?.address()?;
        let cluster = service_proxy::NAMES.into();
        Some(NameServers { cluster, machine, domain: service_proxy::DOMAIN })
    }

    /// A container's id as a status shows it.
    pub(crate) fn full_id(&self, id: &str) -> String {
        let about = self.about.borrow();
        let scheme = about.as_ref().map_or("unknown", |about| about.scheme.as_str());
        format!("{scheme}://{id}")
    }

    pub(crate) fn remember(&self, sandbox: &str, uid: &str) {
        let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.insert(sandbox.to_owned(), uid.to_owned());
    }

    fn pod_of(&self, sandbox: &str) -> Option<String> {
        let sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
        sandboxes.get(sandbox).cloned()
    }

    /// Forgets a pod whose worker is done.
    pub(crate) fn forget(&self, uid: &str, sandbox: Option<&str>) {
        if let Some(sandbox) = sandbox {
            let mut sandboxes = self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
            sandboxes.remove(sandbox);
        }
        self.outs.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.pods.forget(uid);
        self.allocations.remove(uid);
        // An agent that ends needs no news.
        let _ = self.ended.send(uid.to_owned());
    }

    /// Puts a pod out.
    pub(crate) fn evict(&self, uid: &str, why: PodRejection) {
        let outs = self.outs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(out) = outs.get(uid) {
            // A worker that just ended has no pod any more.
            let _ = out.send(WorkerMessage::Evict(why));
        }
    }

    /// Has every pod's containers end; what is answered closes when none of them lives (R146b).
    fn leave(&self, grace: Duration) -> mpsc::Receiver<()> {
        let (living, left) = mpsc::channel(1);
        let grace_seconds_max = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let leaving = Leaving { since: clock::timestamp(), grace_seconds_max };
        let outs = self.outs.lock().unwrap_or_else(PoisonError::into_inner);
        let leaving = *self.leaving.get_or_init(|| leaving);
        for out in outs.values() {
            // A worker that just ended has no pod any more.
            let _ = out.send(WorkerMessage::Leave { leaving, living: living.clone() });
        }
        left
    }

    /// A number between 0 and 1 that spreads what would happen at once; not a secret.
    pub(crate) fn spread(&self) -> f64 {
        let step = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (step ^ (step >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// An agent that runs; dropping it ends the agent and leaves the containers alone.
pub struct Agent {
    shared: Arc<AgentContext>,
    pods: Pods,
    node: watch::Receiver<Option<Arc<Object>>>,
    _tasks: JoinSet<()>,
}

impl Agent {
    /// Starts; returns at once, whether the server is there or not.
    ///
    /// # Errors
    /// The server's settings or the folder cannot be used.
    pub fn start(config: AgentConfig) -> Result<Agent, AgentError> {
        let client = Client::new(&config.server)?;
        let services = Client::new(&config.server.for_services())?;
        let unusable = |source: Box<dyn std::error::Error + Send + Sync>| AgentError::Folder {
            path: config.root.clone(),
            source,
        };
        tenure_files::make_folder(&config.root).map_err(|error| unusable(error.into()))?;
        std::fs::create_dir_all(&config.logs).map_err(|error| unusable(error.into()))?;
        let options = VolumeOptions {
            root: config.root.clone(),
            host_path: config.host_path,
            private: config.private.clone(),
        };
        let volumes = Volumes::open(options).map_err(|error| unusable(error.into()))?;
        let name = config.identity.name.clone();
        let (events, carrying) = Events::new(client.clone(), name.clone());
        let (node, known_node) = watch::channel(None);
        let (about, known_about) = watch::channel(Err("the runtime was not asked yet".to_owned()));
        let (pressure, known_pressure) = watch::channel(Pressure::default());
        let (ended, ends) = mpsc::unbounded_channel();
        let keeper = OfflineCache::open(&config.root, volumes.clone());
        let keeper = keeper.map_err(|error| unusable(error.into()))?;
        let objects = ObjectCache::new(client.clone(), keeper.clone(), &name);
        let pods = Pods::default();
        let shared = Arc::new(AgentContext {
            client: client.clone(),
            runtime: Arc::clone(&config.runtime),
            pods: pods.clone(),
            volumes: Arc::new(volumes),
            objects: Arc::clone(&objects),
            events: events.clone(),
            node: node.clone(),
            about: known_about.clone(),
            logs: config.logs,
            backoff: config.backoff,
            settings: config.settings,
            room: config.identity.room.clone(),
            allocations: Allocations::default(),
            addresses: config.identity.addresses.clone(),
            sandboxes: Mutex::default(),
            outs: Mutex::default(),
            leaving: OnceLock::new(),
            ended,
            seed: AtomicU64::new(clock::timestamp().as_nanosecond() as u64),
            faults: Mutex::default(),
        });
        let events_of_services = events.clone();
        let registrar = Arc::new(Registrar {
            client: client.clone(),
            identity: config.identity,
            events,
            about: known_about,
            node,
            pressure: known_pressure,
            keeper: keeper.clone(),
            runtime: Arc::clone(&config.runtime),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(carrying);
        tasks.spawn(keep_running("services", move || Arc::clone(&objects).follow_services()));
        if let Some(network) = config.runtime.node_network() {
            let server = service_proxy::host_and_port(&config.server.url).unwrap_or_default();
            let (client, events) = (services, events_of_services);
            let node = name.clone();
            let egress = config.egress;
            let proxy = ServiceProxy { client, events, node, network, server, egress };
            let proxy = Arc::new(proxy);
            let registered = known_node.clone();
            tasks.spawn(keep_running("services of pods", move || {
                let (proxy, mut registered) = (Arc::clone(&proxy), registered.clone());
                async move {
                    // Its addresses are known then.
                    let _ = registered.wait_for(Option::is_some).await.map(|_| ());
                    proxy.run().await;
                }
            }));
        }
        let (runtime, about) = (Arc::clone(&config.runtime), Arc::new(about));
        let asking = move || ask_about(Arc::clone(&runtime), Arc::clone(&about));
        tasks.spawn(keep_running("runtime", asking));
        let (evicting, pressure) = (Arc::clone(&shared), Arc::new(pressure));
        tasks.spawn(keep_running("eviction", move || {
            let (shared, pressure) = (Arc::clone(&evicting), Arc::clone(&pressure));
            evict::watch(shared, config.root.clone(), config.eviction, pressure)
        }));
        let (stay, ends) = (config.foreign_sandboxes_stay, Arc::new(tokio::sync::Mutex::new(ends)));
        let looping = Arc::clone(&shared);
        let mut begun = false;
        tasks.spawn(keep_running("agent", move || {
            let again = std::mem::replace(&mut begun, true);
            let ends = Arc::clone(&ends);
            let (shared, name, keeper) = (Arc::clone(&looping), name.clone(), keeper.clone());
            let pods = Loop::new(shared, name, stay, keeper);
            let node = keep_node(Arc::clone(&registrar), again);
            // Both end together: a node whose pods nobody looks after must not say that it is well.
            async move {
                let mut ends = ends.lock().await;
                tokio::select! {
                    () = Box::pin(pods.run(&mut ends)) => {}
                    () = node => {}
                }
            }
        }));
        Ok(Agent { shared, pods, node: known_node, _tasks: tasks })
    }

    /// The pods of the node, for those who serve logs and commands.
    #[must_use]
    pub fn pods(&self) -> &Pods {
        &self.pods
    }

    /// Ends every container as a deletion would, hooks and stop signals first, and starts none any more;
    /// returns once nothing lives, and at the latest soon after `grace` (R146b).
    pub async fn leave(&self, grace: Duration) {
        let mut left = self.shared.leave(grace);
        let most = grace.saturating_add(LEAVE_MORE);
        if tokio::time::timeout(most, left.recv()).await.is_err() {
            tracing::warn!("containers do not end, so they are killed");
        }
    }

    /// Has the agent's loop (`agent`) or the worker of a pod (its uid) panic at its next turn.
    #[doc(hidden)]
    pub fn plant_panic(&self, name: &str) {
        let mut faults = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.insert(name.to_owned());
    }

    /// Waits until the node is registered.
    pub async fn registered(&self) {
        let mut node = self.node.clone();
        // An agent that ended will not be registered any more.
        let _ = node.wait_for(Option::is_some).await;
    }
}

/// Registers the node and keeps it and its lease up to date. A loop that panicked and is there `again` has
/// to run for a while before the lease is renewed: one that panics at every turn must not look well (R217a).
async fn keep_node(registrar: Arc<Registrar>, again: bool) {
    let mut about = registrar.about.clone();
    // A node that can run nothing is not worth a registration yet; it is told after a while.
    let asked = about.wait_for(Result::is_ok);
    let _ = tokio::time::timeout(AWAY_EVERY, asked).await.map(|asked| asked.is_ok());
    registrar.register().await;
    let renewing = async {
        if again {
            tokio::time::sleep(WELL_AFTER).await;
        }
        registrar.renew().await;
    };
    tokio::join!(registrar.keep(), renewing);
}

/// Asks the runtime about itself for ever: that is how its absence is noticed.
async fn ask_about(
    runtime: Arc<dyn ContainerRuntime>,
    about: Arc<watch::Sender<Result<RuntimeInfo, String>>>,
) {
    loop {
        let found = runtime.about().await.map_err(|error| error.to_string());
        let able = found.as_ref().is_ok_and(|about| about.unable.is_none());
        let wait = if able { COMPARE_EVERY } else { AWAY_EVERY };
        about.send_if_modified(|known| {
            let same = match (&*known, &found) {
                (Ok(known), Ok(found)) => {
                    known.version == found.version
                        && known.isolation == found.isolation
                        && known.unable == found.unable
                }
                (Err(known), Err(found)) => known == found,
                _ => false,
            };
            if !same {
                *known = found;
            }
            !same
        });
        tokio::time::sleep(wait).await;
    }
}

/// What the loop keeps of a worker.
struct Care {
    out: mpsc::UnboundedSender<WorkerMessage>,
    pod: Arc<Object>,
    gone: bool,
}

struct Loop {
    shared: Arc<AgentContext>,
    name: String,
    cares: BTreeMap<String, Care>,
    workers: JoinSet<()>,
    /// Whose worker a task is; other tasks have no name here.
    names: HashMap<tokio::task::Id, String>,
    /// Pods whose worker panicked and which have no other yet.
    left: Vec<Care>,
    /// What the runtime held when the agent began, by pod; who comes late finds it too.
    found: HashMap<String, Vec<Sandbox>>,
    strangers: ForeignSandboxes,
    compare_every: Duration,
    begun: bool,
    keeper: OfflineCache,
}

impl Loop {
    fn new(
        shared: Arc<AgentContext>,
        name: String,
        foreign_sandboxes_stay: Duration,
        keeper: OfflineCache,
    ) -> Loop {
        Loop {
            strangers: ForeignSandboxes::new(foreign_sandboxes_stay),
            compare_every: COMPARE_EVERY.min(foreign_sandboxes_stay.max(Duration::from_millis(1))),
            shared,
            name,
            cares: BTreeMap::new(),
            workers: JoinSet::new(),
            names: HashMap::new(),
            left: Vec::new(),
            found: HashMap::new(),
            begun: false,
            keeper,
        }
    }

    async fn run(mut self, ends: &mut mpsc::UnboundedReceiver<String>) {
        let mut changes = self.shared.runtime.changes();
        self.find().await;
        let (out, mut pods) = mpsc::unbounded_channel();
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", self.name);
        let client = self.shared.client.clone();
        let following = keep_running("pods of the node", move || {
            let out = out.clone();
            follow(client.clone(), path.clone(), move |event| out.send(event).is_ok())
        });
        let _following = Aborted(tokio::spawn(following));
        // A node must be known before it can judge what fits.
        let mut node = self.shared.node.subscribe();
        let _ = node.wait_for(Option::is_some).await.map(|_| ());
        let mut compare = tokio::time::interval(self.compare_every);
        compare.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        compare.tick().await;
        loop {
            tokio::select! {
                event = pods.recv() => match event {
                    Some(event) => self.take(event).await,
                    None => return,
                },
                change = changes.recv() => match change {
                    Ok(sandbox) => self.look(&sandbox),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.compare().await,
                    Err(broadcast::error::RecvError::Closed) => {
                        changes = self.shared.runtime.changes();
                        tokio::time::sleep(AWAY_EVERY).await;
                    }
                },
                Some(uid) = ends.recv() => {
                    self.cares.remove(&uid);
                }
                Some(ended) = self.workers.join_next_with_id(), if !self.workers.is_empty() => {
                    self.ended(ended).await;
                }
                _ = compare.tick() => self.compare().await,
            }
            self.shared.fault("agent");
        }
    }

    /// A worker that panicked leaves its pod to a new one, which finds what runs of it.
    async fn ended(&mut self, ended: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
        let worker = self.names.remove(&id);
        let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) else { return };
        panicked("pod worker", worker.as_deref().unwrap_or("a chore"), &*panic);
        let Some(uid) = worker else { return };
        let Some(care) = self.cares.remove(&uid) else { return };
        let subject = crate::events::EventSubject::pod(&care.pod);
        let message =
            "The node's work on this pod was interrupted by a fault and begins anew".to_owned();
        self.shared.events.tell(&subject, crate::events::Grade::Warning, "WorkerFailed", message);
        // A fault that comes again must not take all of the node's time.
        tokio::time::sleep(WORKER_PAUSE).await;
        match self.shared.runtime.list().await {
            Ok(found) => self.care_again(&mut by_pod(found), care).await,
            // Once the runtime is there again.
            Err(_) => self.left.push(care),
        }
    }

    /// Gives a pod another worker, which takes over what runs of it.
    async fn care_again(&mut self, found: &mut HashMap<String, Vec<Sandbox>>, care: Care) {
        let uid = uid(&care.pod);
        self.found.extend(found.remove_entry(&uid));
        self.put(care.pod).await;
        if let Some(new) = self.cares.get_mut(&uid)
            && care.gone
        {
            new.gone = true;
            let _ = new.out.send(WorkerMessage::Gone);
        }
    }

    /// Finds what the runtime holds; waits until it is there, for a pod must not be started twice.
    async fn find(&mut self) {
        loop {
            match self.shared.runtime.list().await {
                Ok(found) => {
                    self.found = by_pod(found);
                    return;
                }
                Err(error) => {
                    tracing::warn!(
                        %error, "what runs on this node cannot be told"
                    )
                }
            }
            tokio::time::sleep(AWAY_EVERY).await;
        }
    }

    async fn take(&mut self, event: CollectionEvent) {
        match event {
            CollectionEvent::All(pods) => {
                let there: BTreeSet<String> = pods.iter().map(|pod| uid(pod)).collect();
                for (known, care) in &mut self.cares {
                    if !there.contains(known) && !care.gone {
                        care.gone = true;
                        self.keeper.forget(OfflineObjectKey::Pod(known.clone()));
                        // A worker that just ended is removed by its own message.
                        let _ = care.out.send(WorkerMessage::Gone);
                    }
                }
                for pod in pods {
                    self.put(pod).await;
                }
                if !self.begun {
                    self.begun = true;
                    self.forget_others(&there);
                    self.clear(there);
                }
            }
            CollectionEvent::Put(pod) => self.put(pod).await,
            CollectionEvent::Gone(pod) => {
                self.keeper.forget(OfflineObjectKey::Pod(uid(&pod)));
                if let Some(care) = self.cares.get_mut(&uid(&pod)) {
                    care.gone = true;
                    let _ = care.out.send(WorkerMessage::Gone);
                }
            }
            CollectionEvent::Unread(why) => {
                tracing::debug!(why, "the pods of this node cannot be read");
                self.recall().await;
            }
        }
    }

    /// Cares for the pods of last time while nobody tells which there are (R84).
    async fn recall(&mut self) {
        if self.begun || !self.cares.is_empty() {
            return;
        }
        for pod in self.keeper.pods() {
            self.put(pod).await;
        }
    }

    /// Lets go of kept pods that went while the agent was away.
    fn forget_others(&self, there: &BTreeSet<String>) {
        let kept = self.keeper.pods();
        let gone = kept.iter().map(|pod| uid(pod)).filter(|uid| !there.contains(uid));
        gone.for_each(|uid| self.keeper.forget(OfflineObjectKey::Pod(uid)));
    }

    async fn put(&mut self, pod: Arc<Object>) {
        let uid = uid(&pod);
        self.keeper.put(OfflineObjectKey::Pod(uid.clone()), &pod);
        if let Some(care) = self.cares.get_mut(&uid) {
            care.pod = Arc::clone(&pod);
            let _ = care.out.send(WorkerMessage::Pod(pod));
            return;
        }
        if self.shared.leaving.get().is_some() {
            return;
        }
        let found = self.found.remove(&uid).unwrap_or_default();
        let mut refused = if found.is_empty() { self.refused(&pod) } else { None };
        // The node may have got a label or a resource just before the pod was bound to it.
        if refused.is_some() && self.shared.read_node(&self.name).await {
            refused = self.refused(&pod);
        }
        if let Some(refusal) = &refused {
            let subject = crate::events::EventSubject::pod(&pod);
            let grade = crate::events::Grade::Warning;
            let message = refusal.message.clone();
            self.shared.events.tell(&subject, grade, reason(&refusal.reason), message);
        }
        let (out, inbox) = mpsc::unbounded_channel();
        let shared = Arc::clone(&self.shared);
        let mut outs = self.shared.outs.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.leaving.get().is_some() {
            return;
        }
        outs.insert(uid.clone(), out.clone());
        drop(outs);
        let care = Care { out: out.clone(), pod: Arc::clone(&pod), gone: false };
        let worker = Worker::new(shared, pod, &found, refused, (out, inbox));
        let task = self.workers.spawn(worker.run());
        self.names.insert(task.id(), uid.clone());
        self.cares.insert(uid, care);
    }

    /// Why the node does not take a pod, if it does not (R111).
    fn refused(&self, pod: &Object) -> Option<PodRejection> {
        judge(pod, || {
            let node = self.shared.node.borrow().clone()?;
            let others: Vec<_> = self
                .cares
                .values()
                .filter(|care| !care.gone && !self.is_over(&care.pod))
                .map(|care| {
                    let given = self.shared.allocations.of(&uid(&care.pod));
                    given.unwrap_or_else(|| pod_requests(&care.pod))
                })
                .collect();
            fits(pod, &pod_requests(pod), &node, &self.shared.room, &others).err()
        })
    }

    /// Whether a pod needs nothing any more, as the agent last told.
    fn is_over(&self, pod: &Object) -> bool {
        let known = self.shared.pods.by_uid(pod.str_at(&["metadata", "uid"]).unwrap_or_default());
        final_phase(pod) || known.is_some_and(|known| final_phase(&known.object))
    }

    /// Removes files of pods that are no more. Where something still runs, they go with it.
    fn clear(&mut self, there: BTreeSet<String>) {
        let held: BTreeSet<String> = self.found.keys().cloned().collect();
        let volumes = Arc::clone(&self.shared.volumes);
        self.workers.spawn_blocking(move || {
            let left = volumes.pods().into_iter();
            for uid in left.filter(|uid| !there.contains(uid) && !held.contains(uid)) {
                tear_down(&volumes, &uid);
            }
        });
    }

    /// Removes sandboxes that nobody asked for within their time (R154).
    fn remove_foreign_sandboxes(&mut self, strangers: &HashMap<String, Vec<Sandbox>>) {
        let all = strangers.values().flatten();
        let due = self.strangers.due(all.map(|one| one.id.as_str()), clock::instant());
        for sandbox in strangers.values().flatten().filter(|one| due.contains(&one.id)) {
            let (shared, id) = (Arc::clone(&self.shared), sandbox.id.clone());
            let uid = sandbox.pod.uid.clone();
            self.found.remove(&uid);
            self.workers.spawn(async move {
                tracing::info!(sandbox = id, pod = uid, "a sandbox of no pod is removed");
                let stopped = shared.runtime.stop_sandbox(&id).await;
                let removed = shared.runtime.remove_sandbox(&id).await;
                if let Err(error) = stopped.and(removed) {
                    tracing::warn!(%error, sandbox = id, "a left sandbox stays");
                    return;
                }
                let volumes = Arc::clone(&shared.volumes);
                // Whatever went wrong there was told there.
                let _ = tokio::task::spawn_blocking(move || tear_down(&volumes, &uid)).await;
            });
        }
    }

    fn look(&self, sandbox: &str) {
        let uid = self.shared.pod_of(sandbox);
        if let Some(care) = uid.and_then(|uid| self.cares.get(&uid)) {
            let _ = care.out.send(WorkerMessage::Look);
        }
    }

    /// Tells every worker what the runtime holds, and looks at what is nobody's.
    async fn compare(&mut self) {
        let mut found = match self.shared.runtime.list().await {
            Ok(found) => by_pod(found),
            Err(error) => {
                tracing::debug!(%error, "what runs on this node cannot be told");
                return;
            }
        };
        for care in std::mem::take(&mut self.left) {
            self.care_again(&mut found, care).await;
        }
        for (uid, care) in &self.cares {
            let _ = care.out.send(WorkerMessage::Held(found.remove(uid).unwrap_or_default()));
        }
        // Before the first list of pods, everything would be nobody's.
        if self.begun {
            self.remove_foreign_sandboxes(&found);
        }
    }
}

fn tear_down(volumes: &Volumes, uid: &str) {
    if let Err(error) = volumes.tear_down(uid) {
        tracing::warn!(%error, uid, "volumes of a pod that is gone stay");
    }
}

fn by_pod(found: Vec<Sandbox>) -> HashMap<String, Vec<Sandbox>> {
    let mut by_pod: HashMap<String, Vec<Sandbox>> = HashMap::new();
    for sandbox in found {
        by_pod.entry(sandbox.pod.uid.clone()).or_default().push(sandbox);
    }
    by_pod
}

fn uid(pod: &Object) -> String {
    pod.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned()
}

/// A task that ends with this value.
struct Aborted(tokio::task::JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}
