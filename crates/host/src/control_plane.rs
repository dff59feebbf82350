//! Starting and ending a whole control plane. Every part is made elsewhere; here they meet.

mod audit;
mod data_location;
mod running;
mod settings;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure_driver::Controllers;
use tenure_server::admit::DynamicAdmission;
use tenure_server::rules::SchemaRuleEngine;
use tenure_server::{AuditSink, AuthorizerChain, ServedKinds, reference};
use tenure_world::{LockStep, WorldHandle, WorldOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use audit::audit_log;
use data_location::DataLocation;
use running::{RunningControlPlane, ServerParts, access};
use settings::references;

use crate::authorization;
use crate::clock;
use crate::config::{Config, Durability, LoadProgress};
use crate::error::HostStartError;
use crate::given::ServingParts;
use crate::kubeconfig;
use crate::nodes::{NodeRuntime, Nodes};
use crate::pki::{CertificateKeyPair, Pki, PkiError};
use crate::storage::{self, StorageError};
use crate::supervise::TaskFailures;

/// How long followers may take to notice the end.
const FOLLOWERS_GRACE: Duration = Duration::from_secs(2);

/// How long the audit log may take to be written out at the end.
const AUDIT_GRACE: Duration = Duration::from_secs(2);

/// How long containers may take to end when the server does, whatever their pods say.
pub const POD_GRACE_MAX: Duration = Duration::from_secs(30);

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

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ControlPlane")
            .field("url", &self.url)
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
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

async fn bind(address: SocketAddr) -> Result<TcpListener, HostStartError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => HostStartError::PortTaken { address },
        _ => HostStartError::Listen { address, source },
    })
}

/// A panic of a helper thread becomes an error of the start.
fn joined<T>(result: Result<T, tokio::task::JoinError>) -> Result<T, HostStartError> {
    result.map_err(|error| HostStartError::Bootstrap(Box::new(error)))
}
