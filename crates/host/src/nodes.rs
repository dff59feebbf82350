//! The nodes that live in this process: each speaks to the server over HTTP with its own certificate,
//! as any other node would; only what the server asks of them stays in memory.
//!
//! ```text
//!   agent ──HTTPS, system:node:<name>──► server ──Dialer──► in memory ──► the node's service
//!                                                └────────► TLS ───────► nodes elsewhere
//! ```

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tenure_machinery::Object;
use tenure_node::client::SERVICE_PROXY;
use tenure_node::pods::Pods;
use tenure_node::serve::Service;
use tenure_node::{Node, NodeSettings, RuntimeChoice, Server, ShutdownOptions};
use tenure_server::connect::{Connecting, Dialer, NODE_CLIENT, NodeDialer};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::clock;
use crate::pki::{CertificateKeyPair, Pki, PkiError};

/// Bytes that may be under way between server and node.
const IN_MEMORY: usize = 64 * 1024;

/// What runs pods.
#[derive(Clone, Debug, Default)]
pub enum NodeRuntime {
    /// Nothing: pods are only imagined.
    #[default]
    None,
    /// Something real; every node has the same.
    Real(Box<RuntimeChoice>),
}

/// What is said of nodes that run pods for real.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// What a node has; what is zero is what the machine has.
    pub room: tenure_lifecycle::NodeCapacity,
    /// How restarts wait.
    pub backoff: tenure_lifecycle::RestartBackoff,
    /// Whether pods with a network of their own reach what is outside of it.
    pub egress: bool,
    /// Whether pods are put out when the node runs short.
    pub eviction: bool,
    /// How long a sandbox stays that belongs to no pod.
    pub foreign_sandboxes_stay: Duration,
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        NodeOptions {
            room: tenure_lifecycle::NodeCapacity {
                pods: tenure_node::node::PODS,
                ..tenure_lifecycle::NodeCapacity::default()
            },
            backoff: tenure_lifecycle::RestartBackoff::default(),
            egress: true,
            eviction: false,
            foreign_sandboxes_stay: tenure_node::node::STRANGERS_STAY,
        }
    }
}

/// Reaches nodes of this process in memory and all others over TLS, if they show a certificate that the
/// authority of the cluster signed for them (R133).
pub(crate) struct HostDialer {
    here: RwLock<HashMap<String, Arc<Service>>>,
    elsewhere: Option<NodeDialer>,
}

impl HostDialer {
    /// A dialer that shows itself to nodes elsewhere by a certificate of its own, which is good for nodes
    /// and for nothing else (R133b).
    pub(crate) fn new(pki: &Pki) -> Result<HostDialer, PkiError> {
        let pair = pki.user(NODE_CLIENT, &[], clock::system_time())?;
        let shown = pair.certificate().zip(pair.key()).zip(pki.authority.certificate());
        let elsewhere = shown.and_then(|((chain, key), authority)| {
            NodeDialer::new(vec![chain], key, authority).ok()
        });
        Ok(HostDialer { here: RwLock::default(), elsewhere })
    }

    fn put(&self, name: &str, service: Arc<Service>) {
        let mut here = self.here.write().unwrap_or_else(PoisonError::into_inner);
        here.insert(name.to_owned(), service);
    }
}

impl Dialer for HostDialer {
    fn dial<'a>(&'a self, name: &'a str, node: &'a Object) -> Connecting<'a> {
        let here = self.here.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(service) = here {
            let (near, far) = tokio::io::duplex(IN_MEMORY);
            tokio::spawn(service.serve(far));
            return Box::pin(async move { Ok(Box::new(near) as Box<_>) });
        }
        match &self.elsewhere {
            Some(elsewhere) => elsewhere.dial(name, node),
            None => Box::pin(async { Err(io::Error::other("nodes elsewhere cannot be reached")) }),
        }
    }
}

/// Where nodes keep their files.
pub(crate) struct NodeFolder {
    /// The folder.
    pub(crate) path: PathBuf,
    /// Whether the next start finds it again.
    pub(crate) kept: bool,
}

/// What the nodes of this process are called.
pub(crate) fn node_name(number: u16) -> String {
    format!("node-{number}")
}

/// What nodes of this process are started with.
pub(crate) struct NodesWanted {
    pub(crate) count: u16,
    pub(crate) runtime: RuntimeChoice,
    pub(crate) options: NodeOptions,
    pub(crate) downward: tenure_downward::DownwardApiOptions,
    pub(crate) url: String,
    pub(crate) address: IpAddr,
    pub(crate) folder: NodeFolder,
    /// What no pod may ever be given: the data folder, the kubeconfig.
    pub(crate) private: Vec<PathBuf>,
}

/// The nodes of this process.
pub(crate) struct Nodes {
    stop: oneshot::Sender<ShutdownOptions>,
    task: JoinHandle<()>,
    kept: bool,
    pods: PodsOfNodes,
}

/// The pods of every node that has started so far.
type PodsOfNodes = Arc<Mutex<Vec<Pods>>>;

impl Nodes {
    /// Starts them beside the server, which need not wait for them.
    pub(crate) fn start(
        wanted: NodesWanted,
        pki: &Pki,
        dialer: Arc<HostDialer>,
    ) -> Result<Nodes, PkiError> {
        let mut settings = Vec::new();
        for number in 1..=wanted.count {
            let name = node_name(number);
            let user = format!("system:node:{name}");
            let pair = pki.user(&user, &["system:nodes"], clock::system_time())?;
            let serving = pki.node_serving(&name, clock::system_time())?;
            let services = pki.user(SERVICE_PROXY, &[], clock::system_time())?;
            let pairs = NodePairs { node: pair, services };
            settings.push(NodeSettings {
                serving: Some((serving.certificate_pem, serving.key_pem)),
                ..node(&wanted, &name, &pki.authority, pairs)
            });
        }
        let (stop, stopping) = oneshot::channel();
        let (kept, pods) = (wanted.folder.kept, PodsOfNodes::default());
        let task = tokio::spawn(run(settings, wanted.folder, dialer, Arc::clone(&pods), stopping));
        Ok(Nodes { stop, task, kept, pods })
    }

    /// How many pods have a container that runs.
    pub(crate) fn running_pods(&self) -> usize {
        let nodes = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = nodes.iter().flat_map(Pods::all);
        let runs = |container: &tenure_node::pods::KnownContainer| {
            container.current.as_ref().is_some_and(tenure_node::pods::InstanceView::runs)
        };
        pods.filter(|pod| pod.containers.iter().any(runs)).count()
    }

    /// Ends them and everything that runs on them; containers get at most `grace`, and nothing once
    /// `hurry` is true.
    pub(crate) async fn end(self, grace: Duration, hurry: watch::Receiver<bool>) {
        // A task that has ended already is what is wanted.
        let _ = self.stop.send(ShutdownOptions { grace, hurry, remove: !self.kept });
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the nodes ended badly");
        }
    }
}

/// Who a node is to the server, and who reads for it what it needs to serve Services.
struct NodePairs {
    node: CertificateKeyPair,
    services: CertificateKeyPair,
}

fn node(
    wanted: &NodesWanted,
    name: &str,
    authority: &CertificateKeyPair,
    pairs: NodePairs,
) -> NodeSettings {
    let server = Server {
        url: wanted.url.clone(),
        authority_pem: authority.certificate_pem.clone(),
        certificate_pem: pairs.node.certificate_pem,
        key_pem: pairs.node.key_pem,
        services: Some((pairs.services.certificate_pem, pairs.services.key_pem)),
        ..Server::default()
    };
    let folder = wanted.folder.path.join(name);
    NodeSettings {
        address: Some(wanted.address),
        room: wanted.options.room.clone(),
        backoff: wanted.options.backoff,
        egress: wanted.options.egress,
        eviction: wanted.options.eviction,
        foreign_sandboxes_stay: wanted.options.foreign_sandboxes_stay,
        ends_with_agent: !wanted.folder.kept,
        dialled_in_memory: true,
        downward: wanted.downward,
        // Of every node of this process, not only of this one.
        private: wanted.private.iter().cloned().chain([wanted.folder.path.clone()]).collect(),
        ..NodeSettings::new(name, server, wanted.runtime.clone(), folder)
    }
}

async fn run(
    settings: Vec<NodeSettings>,
    folder: NodeFolder,
    dialer: Arc<HostDialer>,
    pods: PodsOfNodes,
    stopping: oneshot::Receiver<ShutdownOptions>,
) {
    let mut nodes = Vec::new();
    for settings in settings {
        let name = settings.name.clone();
        match Node::start(settings).await {
            Ok(node) => {
                dialer.put(&name, node.service());
                pods.lock().unwrap_or_else(PoisonError::into_inner).push(node.pods());
                nodes.push(node);
            }
            Err(error) => tell(&name, &error),
        }
    }
    // Whoever holds the other end may be gone without a word; then nobody waits for anything.
    let nobody = || ShutdownOptions {
        grace: Duration::ZERO,
        remove: !folder.kept,
        hurry: watch::Sender::new(true).subscribe(),
    };
    let how = stopping.await.unwrap_or_else(|_| nobody());
    let mut ends: tokio::task::JoinSet<()> = tokio::task::JoinSet::new();
    for node in nodes {
        ends.spawn(node.end(how.clone()));
    }
    while ends.join_next().await.is_some() {}
}

fn tell(name: &str, error: &dyn std::error::Error) {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(": ");
        words.push_str(&cause.to_string());
        next = cause.source();
    }
    tracing::error!(node = name, "the node could not be started: {words}");
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use std::collections::BTreeSet;
    use std::net::SocketAddr;
    use std::time::SystemTime;

    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Somebody who shows a certificate on a port.
    async fn listener(shown: &CertificateKeyPair) -> SocketAddr {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![shown.certificate().unwrap()], shown.key().unwrap())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Whoever does not like the certificate hangs up.
                let _ = acceptor.accept(socket).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn r133_only_the_node_that_is_meant_is_talked_to() {
        let now = SystemTime::now();
        let pki = Pki::in_memory(&BTreeSet::new(), now).unwrap();
        let stranger = Pki::in_memory(&BTreeSet::new(), now).unwrap();
        let dialer = HostDialer::new(&pki).unwrap();
        let self_signed = rcgen::generate_simple_self_signed(vec!["second".to_owned()]).unwrap();
        let self_signed = CertificateKeyPair {
            certificate_pem: self_signed.cert.pem(),
            key_pem: self_signed.signing_key.serialize_pem(),
        };
        for (shown, good) in [
            (pki.node_serving("second", now).unwrap(), true),
            (pki.node_serving("third", now).unwrap(), false),
            (stranger.node_serving("second", now).unwrap(), false),
            (self_signed, false),
            (pki.user("system:node:second", &["system:nodes"], now).unwrap(), false),
        ] {
            let address = listener(&shown).await;
            let node = json!({
                "metadata": {"name": "second"},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
                },
            });
            let dialled = dialer.dial("second", node.as_object().unwrap()).await;
            match dialled {
                Ok(_) => assert!(good, "{}", shown.certificate_pem),
                Err(error) => {
                    let words = format!(
                        "{address} does not prove that it is node second: its certificate is not \
                         one that this cluster signed for it"
                    );
                    assert!(!good && error.to_string().starts_with(&words), "{error}");
                }
            }
        }
    }
}
