//! Starting and ending a whole control plane. Every part is made elsewhere; here they meet.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_driver::{Controllers, Driver};
use tenure_server::admit::{
    AdmissionPlugin, Downward, DynamicAdmission, OwnerChecks, RetentionOptions,
};
use tenure_server::audit::AuditPolicy;
use tenure_server::bootstrap::FirstContents;
use tenure_server::internal_writer::InternalWriter;
use tenure_server::reference::{self, AuthorizerMode, ReferenceOptions, Selectors};
use tenure_server::rules::SchemaRuleEngine;
use tenure_server::{
    ApiConfig, ApiServer, AuditSink, AuthorizerChain, ServedKinds, bootstrap, listen,
};
use tenure_supervise::keep_running;
use tenure_token::KeySet;
use tenure_world::WriteAvailability::Running;
use tenure_world::{LockStep, WorldHandle, WorldOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::authorization::{self, AuthorizationFollower, AuthorizationSource};
use crate::chores;
use crate::clock;
use crate::config::{AuditLog, Config, Durability, LoadProgress, StorageMedium};
use crate::error::HostStartError;
use crate::features::Features;
use crate::folder::{LockedDataFolder, TemporaryFolder};
use crate::given::{self, ServingParts};
use crate::keys::{self, KeysError};
use crate::kubeconfig;
use crate::nodes::{HostDialer, NodeFolder, NodeRuntime, Nodes, NodesWanted, node_name};
use crate::pki::{self, CertificateKeyPair, NodeSigner, Pki, PkiError};
use crate::storage::{self, StorageError};
use crate::supervise::TaskFailures;

/// How long followers may take to notice the end.
const FOLLOWERS_GRACE: Duration = Duration::from_secs(2);

/// How long the audit log may take to be written out at the end.
const AUDIT_GRACE: Duration = Duration::from_secs(2);

/// How long containers may take to end when the server does, whatever their pods say.
pub const POD_GRACE_MAX: Duration = Duration::from_secs(30);
/// What a kubeconfig calls whoever may do everything.
const ADMIN: &str = "tenure-admin";

/// A control plane that is serving.
///
/// Dropping it asks for the end without waiting for it; [`ControlPlane::stop`] and
/// [`ControlPlane::cut`] wait.
pub struct ControlPlane {
    address: SocketAddr,
    url: String,
    kubeconfig: PathBuf,
    pki: Pki,
    /// What others verify the server by, as PEM.
    authority_pem: String,
    ready_after: Duration,
    stop: watch::Sender<bool>,
    hurry: watch::Sender<bool>,
    serving: JoinHandle<usize>,
    followers: JoinSet<()>,
    failures: TaskFailures,
    nodes: Option<Nodes>,
    world: WorldHandle,
    audit: Option<Arc<AuditSink>>,
    /// None once nothing is written any more.
    place: Option<DataLocation>,
}

/// Where files go, and what must outlive the server.
#[derive(Debug)]
enum DataLocation {
    Kept(LockedDataFolder),
    Temporary(TemporaryFolder),
    /// No file is written.
    Nowhere,
}

impl ControlPlane {
    /// Starts; when this returns, `/readyz` answers 200.
    pub async fn start(config: Config) -> Result<ControlPlane, HostStartError> {
        let begin = clock::instant();
        let (simulated, real) = match &config.runtime {
            NodeRuntime::None => (config.nodes, 0),
            NodeRuntime::Real(_) => (0, config.nodes),
        };
        let mut words = config.controllers.clone();
        if real > 0 {
            words.push("scheduler".to_owned());
        }
        let controllers = Controllers::with_nodes(&words, simulated)?
            .retaining(config.features.controllers_as_owners)
            .expiring_events(config.event_life);
        let place = DataLocation::prepare(&config)?;
        place.tell();
        let kubeconfig = place.kubeconfig(&config)?;
        let rights = Arc::new(AuthorizerChain::new(references(&config)));
        let authorization = authorization::configure(&config.authorization, &rights)?;
        let audit = config.audit.as_ref().map(audit_log).transpose()?;
        let listener = bind(config.listen).await?;
        let failed = |source| HostStartError::Listen { address: config.listen, source };
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(%address, "listening; requests are answered once all is ready");

        // Opening the store may read much, so it runs beside the making of certificates.
        let left_out: &[&str] = if config.reference_kinds { &[] } else { &reference::GROUPS };
        let kinds = Arc::new(ServedKinds::without(Some(Arc::new(SchemaRuleEngine)), left_out));
        let store = place.store(&config);
        let (durability, quota) = (config.durability, config.store_quota);
        let admission = Arc::new(DynamicAdmission::default());
        let mut feeds = vec![kinds.feed(), rights.feed(), rights.reference_feed(&kinds)];
        feeds.extend(admission.feeds());
        let layout = Arc::clone(&kinds);
        let reading = config.reading.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let begin = clock::instant();
            let world = world(store.as_deref(), durability, quota, layout, feeds, reading)?;
            let (state, ms) = (world.current(), begin.elapsed().as_millis());
            let (objects, bytes, revision) = (state.len(), state.bytes(), state.revision());
            tracing::info!(objects, bytes, %revision, ms, "the stored objects are read");
            Ok::<_, StorageError>(world)
        });
        let made = place.pki(&config).and_then(|pki| {
            let keys = place.token_keys(&config, &pki)?;
            let serving = ServingParts::read(&config.certificates, &pki)?;
            Ok((pki, keys, serving))
        });
        // Waited for even if there is no certificate: the folder must not be unlocked before.
        let world = joined(opening.await)??;
        let nodes = config.nodes;
        let parts = ServerParts {
            kinds,
            rights,
            authorization,
            admission,
            audit: audit.clone(),
            listener,
            controllers,
        };
        let served = match made {
            Ok(made) => Box::pin(parts.serve(&world, &place, config, &kubeconfig, made)).await,
            Err(error) => Err(error),
        };
        let served = match served {
            Ok(served) => served,
            Err(error) => {
                // Waited for, so that the next start finds the store closed.
                let _ = world.stop().await;
                return Err(error);
            }
        };
        let ready_after = begin.elapsed();
        tracing::info!(url = %served.url, nodes, ms = ready_after.as_millis(), "ready");
        let RunningControlPlane {
            url,
            pki,
            authority_pem,
            stop,
            serving,
            followers,
            failures,
            nodes,
        } = served;
        let hurry = watch::Sender::new(false);
        Ok(ControlPlane {
            address,
            url,
            kubeconfig,
            pki,
            authority_pem,
            ready_after,
            stop,
            hurry,
            serving,
            followers,
            failures,
            nodes,
            world,
            audit,
            place: Some(place),
        })
    }

    /// The address that is served, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL that clients on this machine can use.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The kubeconfig of the administrator; an empty path where [`Config::has_kubeconfig`] wants none.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The data folder, or the temporary one of a server that keeps nothing.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.place.as_ref().and_then(DataLocation::path)
    }

    /// Whether the folder stays when the server ends.
    #[must_use]
    pub fn keeps(&self) -> bool {
        matches!(self.place, Some(DataLocation::Kept(_)))
    }

    /// The certificate that signed the server's, in PEM form; the server's own, where another was given.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// The certificate and key of the administrator.
    #[must_use]
    pub fn admin(&self) -> &CertificateKeyPair {
        &self.pki.admin
    }

    /// A new certificate and key by which the server knows somebody as this user in these groups.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<CertificateKeyPair, PkiError> {
        self.pki.user(name, groups, clock::system_time())
    }

    /// The text of a kubeconfig for whoever bears this certificate.
    #[must_use]
    pub fn kubeconfig_for(&self, user: &CertificateKeyPair) -> String {
        kubeconfig::render(access("tenure-user", &self.url, &self.authority_pem, user))
    }

    /// How long the start took.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// Waits until something has ended without which the control plane cannot work, and says what: then it
    /// should be stopped, and started again by whoever looks after it.
    pub async fn failed(&self) -> String {
        self.failures.first().await
    }

    /// Has the thread `sequencer` or `dispatcher` panic at its next turn, so that a test sees what becomes of it.
    #[doc(hidden)]
    pub fn plant_panic(&self, thread: &'static str) {
        self.world.plant_panic(thread);
    }

    /// How many pods of its own nodes have a container that runs.
    #[must_use]
    pub fn running_pods(&self) -> usize {
        self.nodes.as_ref().map_or(0, Nodes::running_pods)
    }

    /// What shortens a [`ControlPlane::stop`] that is under way.
    #[must_use]
    pub fn hurry(&self) -> Hurry {
        Hurry(self.hurry.clone())
    }

    /// Ends: containers get their stop signal and the time of their pods, at most [`POD_GRACE_MAX`]; no new
    /// connections, short requests finish, watches end whole, the store is closed.
    pub async fn stop(mut self) {
        tracing::info!("the end is asked for");
        let mut hurry = self.hurry.subscribe();
        // First, while the server still answers: the last words of pods are not lost.
        if let Some(nodes) = self.nodes.take() {
            nodes.end(POD_GRACE_MAX, hurry.clone()).await;
            tracing::info!("the nodes have ended");
        }
        // The receivers are gone only if serving has ended already.
        let _ = self.stop.send(true);
        let hurried = async { hurry.wait_for(|hurry| *hurry).await.is_ok() };
        tokio::select! {
            ended = &mut self.serving => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the listener ended badly");
                }
            }
            _ = hurried => {
                self.serving.abort();
                // Told that it was aborted, which is what was asked for.
                let _ = (&mut self.serving).await;
            }
        }
        tracing::info!("nobody is served any more");
        self.close().await;
    }

    /// Ends at once: containers are killed, connections are cut, whatever they carry; the store is closed.
    ///
    /// Afterwards only what was true of the start can still be asked for.
    pub async fn cut(&mut self) {
        if let Some(nodes) = self.nodes.take() {
            nodes.end(Duration::ZERO, self.hurry.subscribe()).await;
        }
        let _ = self.stop.send(true);
        self.serving.abort();
        // Told that it was aborted, which is what was asked for.
        let _ = (&mut self.serving).await;
        self.close().await;
    }

    /// What remains to be done once nobody is served any more.
    async fn close(&mut self) {
        let followers = async { while self.followers.join_next().await.is_some() {} };
        if tokio::time::timeout(FOLLOWERS_GRACE, followers).await.is_err() {
            // What they did not get to is done at the next start.
            self.followers.shutdown().await;
        }
        if let Err(error) = self.world.stop().await {
            tracing::error!(%error, "the store was not closed cleanly");
        } else {
            tracing::info!("the store is closed");
        }
        if let Some(audit) = &self.audit
            && tokio::time::timeout(AUDIT_GRACE, audit.flush()).await.is_err()
        {
            tracing::error!("the end of the audit log was not written");
        }
        // INVARIANT: the folder stays locked until nothing writes to it any more.
        self.place = None;
    }
}

/// Shortens the end of a control plane: nothing is waited for any more, and nothing is left running.
#[derive(Debug, Clone)]
pub struct Hurry(watch::Sender<bool>);

impl Hurry {
    /// From now on containers are killed and connections are cut.
    pub fn now(&self) {
        self.0.send_replace(true);
    }
}

/// What a server is made of once its store is open.
struct ServerParts {
    kinds: Arc<ServedKinds>,
    rights: Arc<AuthorizerChain>,
    authorization: Option<AuthorizationFollower>,
    admission: Arc<DynamicAdmission>,
    audit: Option<Arc<AuditSink>>,
    listener: TcpListener,
    controllers: Controllers,
}

/// A server, its followers and its nodes.
struct RunningControlPlane {
    url: String,
    pki: Pki,
    authority_pem: String,
    stop: watch::Sender<bool>,
    serving: JoinHandle<usize>,
    followers: JoinSet<()>,
    failures: TaskFailures,
    nodes: Option<Nodes>,
}

impl ServerParts {
    /// Serves; what was begun has ended again when this fails.
    async fn serve(
        self,
        world: &WorldHandle,
        place: &DataLocation,
        config: Config,
        kubeconfig: &Path,
        (pki, token_keys, shown): (Pki, KeySet, ServingParts),
    ) -> Result<RunningControlPlane, HostStartError> {
        let ServerParts { kinds, rights, authorization, admission, audit, listener, controllers } =
            self;
        tracing::info!("the certificates are at hand");
        let address = listener
            .local_addr()
            .map_err(|source| HostStartError::Listen { address: config.listen, source })?;
        let tls = shown.tls()?;
        let ServingParts { authority_pem, client_authority_pem, .. } = shown;
        let url = url(address);
        // The folder has one of its own, for commands that are told of the folder only.
        let own = place.own_kubeconfig().filter(|own| own != kubeconfig);
        let wanted = Some(kubeconfig).filter(|path| !path.as_os_str().is_empty());
        for path in own.as_deref().into_iter().chain(wanted) {
            kubeconfig::write(path, access(ADMIN, &url, &authority_pem, &pki.admin))?;
            tracing::info!(path = %path.display(), "the kubeconfig is up to date");
        }
        let (stop, stopping) = watch::channel(false);
        let contents = FirstContents {
            account: controllers.runs("serviceaccount-controller"),
            authority: controllers.runs("root-ca-certificate-publisher-controller"),
        };
        let starting = ApiConfig {
            world: world.clone(),
            kinds,
            access: rights,
            token_keys,
            audit,
            front_proxy: Some(pki.front_proxy()),
            authentication: config.authentication.clone(),
            authority_pem: authority_pem.clone(),
            client_authority_pem,
            address,
            stop: stopping.clone(),
            owners: owners(&config),
            plugins: config.admission_plugins,
            service_range: config.service_range,
            collects_garbage: controllers.collects(),
            retention: retention(&config),
            downward: readable(&config),
            admission,
            limits: config.limits,
        };
        let api = api(starting, contents).await?;
        show_features(&api, &config.features);
        let dialer = Arc::new(HostDialer::new(&pki)?);
        let wanted = nodes_wanted(&config, place, &url, address.ip(), kubeconfig);
        // Before anybody follows, so that requests that were left unanswered are answered.
        api.put_signer(Arc::new(NodeSigner::new(&pki)));
        api.put_dialer(Arc::clone(&dialer) as Arc<dyn tenure_server::connect::Dialer>);
        let failures = TaskFailures::new();
        let mut followers = followers(&api, world, &stopping, controllers, &failures);
        if let Some(follower) = authorization {
            followers.spawn(follower.run(stopping.clone()));
        }
        let serving = tokio::spawn(serve(
            listen::serve(listener, tls, api, stopping.clone()),
            stopping,
            failures.clone(),
        ));
        let nodes = match wanted.map(|wanted| Nodes::start(wanted, &pki, dialer)).transpose() {
            Ok(nodes) => nodes,
            Err(error) => {
                let _ = stop.send(true);
                serving.abort();
                while followers.join_next().await.is_some() {}
                return Err(error.into());
            }
        };
        Ok(RunningControlPlane {
            url,
            pki,
            authority_pem,
            stop,
            serving,
            followers,
            failures,
            nodes,
        })
    }
}

/// Accepts connections until the end is asked for, and says how many were cut; without that nothing works.
async fn serve(
    accepting: impl Future<Output = usize> + Send + 'static,
    stopping: watch::Receiver<bool>,
    failures: TaskFailures,
) -> usize {
    let ended = tokio::spawn(accepting).await;
    if !*stopping.borrow() {
        failures.report(match &ended {
            Ok(_) => "the server accepts no connections any more".to_owned(),
            Err(error) => format!("what accepts connections panicked: {error}"),
        });
    }
    ended.unwrap_or_default()
}

/// The nodes of this process, if there are to be any.
fn nodes_wanted(
    config: &Config,
    place: &DataLocation,
    url: &str,
    ip: IpAddr,
    kubeconfig: &Path,
) -> Option<NodesWanted> {
    let NodeRuntime::Real(runtime) = &config.runtime else { return None };
    if config.nodes == 0 {
        return None;
    }
    Some(NodesWanted {
        count: config.nodes,
        runtime: (**runtime).clone(),
        options: config.node.clone(),
        downward: downward_on_nodes(&config.features),
        url: url.to_owned(),
        address: loopback_or(ip),
        private: place.private(config, kubeconfig),
        folder: place.nodes(),
    })
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ControlPlane")
            .field("url", &self.url)
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
}

/// Lets whoever measures see which features are on.
fn show_features(api: &ApiServer, features: &Features) {
    for (feature, on) in features.each() {
        api.show_feature(feature.name, feature.usual, on);
    }
}

/// What pods may read of themselves.
fn readable(config: &Config) -> Downward {
    Downward {
        owner_references: config.features.downward_owner_references,
        file_users: config.features.volume_file_users,
        volume_parity: config.features.downward_volume_parity,
    }
}

/// How references are treated; features switch filtered lists and selectors.
fn references(config: &Config) -> ReferenceOptions {
    let features = &config.features;
    let selectors = Selectors {
        namespaces: features.grant_namespace_selector,
        classes: features.consumer_class_selector,
    };
    let filtered_lists = features.reference_filtered_lists;
    let authorizer = match config.reference_kinds {
        true => config.references.authorizer,
        false => AuthorizerMode::Off,
    };
    ReferenceOptions { filtered_lists, selectors, authorizer, ..config.references }
}

/// How owner references are treated; upstream's plugin of the kind switches the refusals off as well.
fn owners(config: &Config) -> OwnerChecks {
    let on = config.admission_plugins.on(AdmissionPlugin::OwnerReferencesPermissionEnforcement);
    OwnerChecks { enforced: config.owners.enforced && on, ..config.owners }
}

/// What is said of retention; nobody may opt in while the feature is off.
fn retention(config: &Config) -> RetentionOptions {
    let enabled = config.retention.enabled && config.features.controllers_as_owners;
    RetentionOptions { enabled, ..config.retention.clone() }
}

/// What nodes are told about the downward API.
fn downward_on_nodes(features: &Features) -> tenure_downward::DownwardApiOptions {
    let mut settings = tenure_downward::DownwardApiOptions::default();
    settings.extra.owner_references = features.downward_owner_references;
    settings.extra.volume_parity = features.downward_volume_parity;
    settings
}

/// The address of nodes of this process: where the server is, unless that is everywhere.
fn loopback_or(address: IpAddr) -> IpAddr {
    if address.is_unspecified() {
        return tenure_node::node::address_of_machine();
    }
    address
}

/// The one place where the API server is made from its parts and brought to readiness.
async fn api(config: ApiConfig, contents: FirstContents) -> Result<Arc<ApiServer>, HostStartError> {
    let api = ApiServer::new(config);
    Box::pin(bootstrap::bootstrap(&api, contents))
        .await
        .map_err(|failure| HostStartError::Bootstrap(failure.message.into()))?;
    Ok(api)
}

/// Everything that runs beside the requests until the end is asked for.
fn followers(
    api: &Arc<ApiServer>,
    world: &WorldHandle,
    stop: &watch::Receiver<bool>,
    controllers: Controllers,
    failures: &TaskFailures,
) -> JoinSet<()> {
    let mut followers = JoinSet::new();
    let (watched, told, mut stopped) = (world.clone(), failures.clone(), stop.clone());
    followers.spawn(async move {
        tokio::select! {
            why = watched.broken() => told.report(why.to_string()),
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    });
    let referring = Arc::clone(api);
    let telling = move || reference::run(Arc::clone(&referring));
    followers.spawn(keep_running("events about references", telling));
    let (driver, engines) =
        Driver::new(InternalWriter::new(Arc::clone(api)), api.draw_seed(), controllers);
    api.put_engines(engines);
    let (stopping, stopped, failures) = (stop.clone(), stop.clone(), failures.clone());
    let source = world.clone();
    let driving = tokio::task::spawn_blocking(move || driver.run(stopping));
    followers.spawn(async move {
        let ended = driving.await;
        // Nothing is left to follow where no writes are taken any more; the world says why itself.
        let idle = matches!(ended, Ok(Ok(()))) && !matches!(source.status(), Running);
        if idle || *stopped.borrow() {
            return;
        }
        failures.report(match ended {
            Ok(Ok(())) => "the engines have ended".to_owned(),
            Ok(Err(error)) => format!("the engines could not be started: {error}"),
            Err(error) => format!("the engines panicked: {error}"),
        });
    });
    let compacting = (world.clone(), stop.clone());
    followers.spawn(keep_running("compaction", move || {
        chores::compact_regularly(compacting.0.clone(), compacting.1.clone())
    }));
    followers
}

/// The one place where the world gets its log, its layout and its lock-step indexes.
fn world(
    store: Option<&Path>,
    durability: Durability,
    quota: Option<u64>,
    layout: Arc<ServedKinds>,
    indexes: Vec<Box<dyn LockStep>>,
    reading: Option<LoadProgress>,
) -> Result<WorldHandle, StorageError> {
    let log = storage::open(store, durability)?;
    let relaxed = store.is_some() && durability == Durability::Relaxed;
    let options = WorldOptions {
        layout,
        indexes,
        sync_every: relaxed.then_some(storage::RELAXED_SYNC),
        quota,
        progress: reading.map(|LoadProgress(tell)| -> Box<dyn FnMut(u64, u64) + Send> {
            Box::new(move |read, all| tell(read, all))
        }),
        ..WorldOptions::default()
    };
    tenure_world::open(log, options).map_err(|error| StorageError::Damaged {
        path: store.unwrap_or(Path::new("memory")).to_owned(),
        source: Box::new(error),
    })
}

impl DataLocation {
    fn prepare(config: &Config) -> Result<DataLocation, HostStartError> {
        let real = matches!(config.runtime, NodeRuntime::Real(_)) && config.nodes > 0;
        let Some(path) = &config.data_dir else {
            if !config.has_kubeconfig && !real {
                return Ok(DataLocation::Nowhere);
            }
            return TemporaryFolder::new()
                .map(DataLocation::Temporary)
                .map_err(HostStartError::Temporary);
        };
        let folder = LockedDataFolder::open(path)?;
        storage::settle(&folder)?;
        crate::folder::sweep_left();
        let nodes = match config.runtime {
            NodeRuntime::Real(_) => config.nodes,
            NodeRuntime::None => 0,
        };
        // Of an earlier start that had more, and was killed: nobody else looks for them.
        #[cfg(target_os = "linux")]
        tenure_node::runtime::process::clear_left(&folder.path().join("nodes"), |name| {
            (1..=nodes).any(|number| name == node_name(number).as_str())
        });
        Ok(DataLocation::Kept(folder))
    }

    fn path(&self) -> Option<&Path> {
        match self {
            DataLocation::Kept(folder) => Some(folder.path()),
            DataLocation::Temporary(folder) => Some(folder.path()),
            DataLocation::Nowhere => None,
        }
    }

    /// Says where files go.
    fn tell(&self) {
        match self {
            DataLocation::Kept(folder) => {
                tracing::info!(path = %folder.path().display(), "the data folder is ours");
            }
            DataLocation::Temporary(folder) => {
                let path = folder.path().display();
                tracing::info!(%path, "nothing is kept; the folder goes at the end");
            }
            DataLocation::Nowhere => tracing::info!("nothing is kept, and no file is written"),
        }
    }

    /// Where the kubeconfig will be written; fails early if it may not be.
    fn kubeconfig(&self, config: &Config) -> Result<PathBuf, HostStartError> {
        let wanted = config.kubeconfig.clone().filter(|_| config.has_kubeconfig);
        let Some(path) = wanted.or_else(|| self.own_kubeconfig()) else {
            return Ok(PathBuf::new());
        };
        kubeconfig::check(&path)?;
        Ok(std::path::absolute(&path).unwrap_or(path))
    }

    /// The kubeconfig of the folder.
    fn own_kubeconfig(&self) -> Option<PathBuf> {
        match self {
            DataLocation::Kept(folder) => Some(folder.kubeconfig()),
            DataLocation::Temporary(folder) => Some(folder.path().join("kubeconfig")),
            DataLocation::Nowhere => None,
        }
    }

    /// The folder of the store; `None` is memory.
    fn store(&self, config: &Config) -> Option<PathBuf> {
        match self {
            DataLocation::Kept(folder) if config.store == StorageMedium::File => {
                Some(folder.store())
            }
            _ => None,
        }
    }

    /// What no pod may ever be given, wherever it lies.
    fn private(&self, config: &Config, kubeconfig: &Path) -> Vec<PathBuf> {
        let folder = self.path().map(Path::to_owned);
        let audit = config.audit.as_ref().and_then(|audit| audit.file.clone());
        let keys = config.service_account_keys.iter().cloned();
        let authorization = match &config.authorization {
            AuthorizationSource::File(path) => Some(path.clone()),
            AuthorizationSource::Modes(modes) => modes.webhook.clone(),
            AuthorizationSource::Usual => None,
        };
        let files = audit.into_iter().chain(keys).chain(authorization);
        folder.into_iter().chain([kubeconfig.to_owned()]).chain(files).collect()
    }

    /// Where nodes of this process keep their files.
    fn nodes(&self) -> NodeFolder {
        let path = self.path().unwrap_or(Path::new("")).join("nodes");
        NodeFolder { path, kept: matches!(self, DataLocation::Kept(_)) }
    }

    /// The key that signs tokens, those that signed before, and those that were asked for.
    fn token_keys(&self, config: &Config, pki: &Pki) -> Result<KeySet, HostStartError> {
        let mut others = match self {
            DataLocation::Kept(folder) => {
                let pki = folder.pki();
                let path = |id: &str| pki.join("service-account").join(id);
                keys::older(&pki)?.into_iter().map(|(id, text)| (path(&id), text)).collect()
            }
            DataLocation::Temporary(_) | DataLocation::Nowhere => Vec::new(),
        };
        for path in &config.service_account_keys {
            let text = fs::read_to_string(path)
                .map_err(|source| KeysError::Io { path: path.clone(), source })?;
            others.push((path.clone(), text));
        }
        let signing = match &config.certificates.token_key {
            Some(path) => {
                let text = given::text(path)?;
                KeySet::from_pem(&text, &[])
                    .map_err(|source| KeysError::Unusable { path: path.clone(), source })?;
                text
            }
            None => pki.service_account.0.clone(),
        };
        for (path, text) in &others {
            // One by one, so that the message names the file.
            KeySet::from_pem(&signing, &[text])
                .map_err(|source| KeysError::Unusable { path: path.clone(), source })?;
        }
        let texts: Vec<&str> = others.iter().map(|(_, text)| text.as_str()).collect();
        KeySet::from_pem(&signing, &texts).map_err(|error| HostStartError::Tls(Box::new(error)))
    }

    fn pki(&self, config: &Config) -> Result<Pki, HostStartError> {
        let hostname = pki::hostname();
        let service = IpAddr::V4(config.service_range.first());
        let names = pki::serving_names(config.listen.ip(), service, hostname.as_deref());
        let now = clock::system_time();
        Ok(match self {
            DataLocation::Kept(folder) => Pki::in_folder(&folder.pki(), &names, now)?,
            DataLocation::Temporary(_) | DataLocation::Nowhere => Pki::in_memory(&names, now)?,
        })
    }
}

/// Opens the audit log; what a file holds already stays.
fn audit_log(log: &AuditLog) -> Result<Arc<AuditSink>, HostStartError> {
    let path = log.file.clone().unwrap_or_else(|| PathBuf::from("-"));
    let out: io::Result<Box<dyn io::Write + Send>> = match &log.file {
        None => Ok(Box::new(io::stdout())),
        Some(path) => {
            tenure_files::append(path).map(|file| Box::new(file) as Box<dyn io::Write + Send>)
        }
    };
    let policy = match &log.policy {
        Some(path) => audit_policy(path)?,
        None => AuditPolicy::of_level(log.level),
    };
    out.and_then(|out| AuditSink::by_policy(policy, out))
        .map_err(|source| HostStartError::Audit { path, source })
}

/// What a file says of the audit log.
fn audit_policy(path: &Path) -> Result<AuditPolicy, HostStartError> {
    let wrong = |why: String| HostStartError::AuditPolicy { path: path.to_owned(), why };
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let document = tenure_yaml::to_json(&text, tenure_yaml::YamlLimits::default())
        .map_err(|error| wrong(error.to_string()))?;
    AuditPolicy::read(&document).map_err(|errors| {
        let causes = errors.into_causes().into_iter();
        let faults: Vec<String> =
            causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        wrong(faults.join("; "))
    })
}

async fn bind(address: SocketAddr) -> Result<TcpListener, HostStartError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => HostStartError::PortTaken { address },
        _ => HostStartError::Listen { address, source },
    })
}

fn access<'a>(
    user: &'a str,
    url: &'a str,
    authority_pem: &'a str,
    pair: &'a CertificateKeyPair,
) -> kubeconfig::KubeconfigEntries<'a> {
    kubeconfig::KubeconfigEntries {
        user,
        server: url,
        authority_pem,
        certificate_pem: &pair.certificate_pem,
        key_pem: &pair.key_pem,
    }
}

/// A server on every address is reached over the loopback one.
fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

/// A panic of a helper thread becomes an error of the start.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, HostStartError> {
    result.map_err(|error| HostStartError::Bootstrap(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_can_be_dialled() {
        assert_eq!(url(([0, 0, 0, 0], 80).into()), "https://127.0.0.1:80");
        assert_eq!(url(([127, 0, 0, 1], 6443).into()), "https://127.0.0.1:6443");
        assert_eq!(url("[::]:1".parse().unwrap()), "https://[::1]:1");
    }
}
