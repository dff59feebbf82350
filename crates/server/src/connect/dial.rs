//! How a node is reached: in memory where its agent lives in this process, over TLS elsewhere. Whoever
//! puts the process together chooses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, RootCertStore};
use tenure_machinery::{Object, ObjectExt};
use tenure_outbound::certificate_verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::authenticate::user_of_certificate;
use crate::node::node_of;

/// How long a node may take to answer the call.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// The port of a node that names none.
const PORT: i64 = 10250;

/// Who the server is to nodes, and to nobody else: it never takes this certificate itself (R133b).
pub const NODE_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A connection to a node.
pub trait NodeConnection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> NodeConnection for T {}

/// A connection in the making.
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn NodeConnection>>> + Send + 'a>>;

/// Reaches the agents of nodes; on the connection they speak HTTP/1.1 and let the caller do everything.
pub trait Dialer: Send + Sync + 'static {
    /// Reaches the agent of a node, which is given as it is stored.
    fn dial<'a>(&'a self, name: &'a str, node: &'a Object) -> Connecting<'a>;
}

/// Reaches nodes over TLS, at the address and port in their status.
pub struct NodeDialer {
    tls: TlsConnector,
}

impl NodeDialer {
    /// Shows a certificate, and talks only to who shows one that `authority` signed for that node.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authority: CertificateDer<'static>,
    ) -> Result<NodeDialer, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        // No session is resumed past this: the handshakes of one configuration are all full ones to the verifier,
        // or continue one that it passed for the same name.
        let only_nodes = certificate_verifier(Arc::clone(&provider), move |shown| {
            shown.verify_by(&*verifier)?;
            match is_of_node(shown.certificate, shown.name) {
                true => Ok(()),
                false => Err(CertificateError::ApplicationVerificationFailure.into()),
            }
        });
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(only_nodes);
        let mut config = config.with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(NodeDialer { tls: TlsConnector::from(Arc::new(config)) })
    }

    async fn reach(&self, name: &str, node: &Object) -> io::Result<Box<dyn NodeConnection>> {
        let (host, port) = address(node)
            .ok_or_else(|| io::Error::other(format!("node {name} has no address in its status")))?;
        // Addresses are what a node says of itself; its name is what the authority vouches for.
        let server = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let named = |error: io::Error| {
            if is_stranger(&error) {
                return io::Error::new(
                    error.kind(),
                    format!(
                        "{host}:{port} does not prove that it is node {name}: its certificate is \
                         not one that this cluster signed for it ({error})"
                    ),
                );
            }
            io::Error::new(error.kind(), format!("{host}:{port}: {error}"))
        };
        let late =
            || io::Error::new(io::ErrorKind::TimedOut, format!("{host}:{port} does not answer"));
        let reached = async {
            let socket = TcpStream::connect((host.as_str(), port)).await?;
            socket.set_nodelay(true)?;
            self.tls.connect(server, socket).await
        };
        let stream =
            tokio::time::timeout(DIAL_LIMIT, reached).await.map_err(|_| late())?.map_err(named)?;
        Ok(Box::new(stream))
    }
}

impl Dialer for NodeDialer {
    fn dial<'a>(&'a self, name: &'a str, node: &'a Object) -> Connecting<'a> {
        Box::pin(self.reach(name, node))
    }
}

/// Whether a certificate was signed for a node, and for the one of this name: the server's own, and whatever
/// else the authority signs, is none of a node (R133b).
fn is_of_node(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let user = user_of_certificate(certificate).map(|(user, _)| user);
    let node = user.as_ref().and_then(node_of).filter(|node| !node.is_empty());
    node.is_some_and(|node| node == name.to_str())
}

/// Where a node says it is.
fn address(node: &Object) -> Option<(String, u16)> {
    let addresses = node.list_at(&["status", "addresses"]);
    let of = |wanted: &str| {
        addresses.iter().filter_map(|entry| entry.as_object()).find_map(|entry| {
            let address = entry.str_at(&["address"]).filter(|text| !text.is_empty())?;
            (entry.str_at(&["type"]) == Some(wanted)).then(|| address.to_owned())
        })
    };
    let host = of("InternalIP").or_else(|| of("InternalDNS")).or_else(|| of("Hostname"))?;
    let port = node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
    let port = port.filter(|port| *port != 0).unwrap_or(PORT);
    Some((host, u16::try_from(port).ok()?))
}

/// Whether a handshake failed because of who is at the other end.
fn is_stranger(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_)))
}
