//! From an open store to a server that answers, with its followers and nodes.
//!
//! ```text
//!   ServerParts ──► kubeconfig ──► API server, made ready ──► followers ──► listener ──► nodes
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use tenure_driver::{Controllers, Driver};
use tenure_server::admit::DynamicAdmission;
use tenure_server::bootstrap::FirstContents;
use tenure_server::internal_writer::InternalWriter;
use tenure_server::{
    ApiConfig, ApiServer, AuditSink, AuthorizerChain, ServedKinds, bootstrap, listen, reference,
};
use tenure_supervise::keep_running;
use tenure_token::KeySet;
use tenure_world::WorldHandle;
use tenure_world::WriteAvailability::Running;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::data_location::DataLocation;
use super::settings::{downward_on_nodes, owners, readable, retention, show_features};
use crate::authorization::AuthorizationFollower;
use crate::chores;
use crate::config::Config;
use crate::error::HostStartError;
use crate::given::ServingParts;
use crate::kubeconfig;
use crate::nodes::{HostDialer, NodeRuntime, Nodes, NodesWanted};
use crate::pki::{CertificateKeyPair, NodeSigner, Pki};
use crate::supervise::TaskFailures;

/// What a kubeconfig calls whoever may do everything.
const ADMIN: &str = "tenure-admin";

/// What a server is made of once its store is open.
pub(super) struct ServerParts {
    pub(super) kinds: Arc<ServedKinds>,
    pub(super) rights: Arc<AuthorizerChain>,
    pub(super) authorization: Option<AuthorizationFollower>,
    pub(super) admission: Arc<DynamicAdmission>,
    pub(super) audit: Option<Arc<AuditSink>>,
    pub(super) listener: TcpListener,
    pub(super) controllers: Controllers,
}

/// A server, its followers and its nodes.
pub(super) struct RunningControlPlane {
    pub(super) url: String,
    pub(super) pki: Pki,
    pub(super) authority_pem: String,
    pub(super) stop: watch::Sender<bool>,
    pub(super) serving: JoinHandle<usize>,
    pub(super) followers: JoinSet<()>,
    pub(super) failures: TaskFailures,
    pub(super) nodes: Option<Nodes>,
}

impl ServerParts {
    /// Serves; what was begun has ended again when this fails.
    pub(super) async fn serve(
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
    let (watched, failed, mut stopped) = (world.clone(), failures.clone(), stop.clone());
    followers.spawn(async move {
        tokio::select! {
            why = watched.broken() => failed.report(why.to_string()),
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

/// The entries of a kubeconfig for somebody.
pub(super) fn access<'a>(
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
