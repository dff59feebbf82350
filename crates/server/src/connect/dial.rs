//! How a node is reached: in memory where its agent lives in this process, over TLS elsewhere. Whoever
//! puts the process together chooses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use tenure_machinery::{Object, ObjectExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long a node may take to answer the call.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// The port of a node that names none.
const PORT: i64 = 10250;

/// A connection to a node.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection in the making.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Wire>>> + Send + 'a>>;

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
    /// Shows a certificate. The node's own is checked against `authority`; without one any will do, as
    /// with upstream's default, for nodes may make their own.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        authority: Option<CertificateDer<'static>>,
    ) -> Result<NodeDialer, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let config = match authority {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority)?;
                config.with_root_certificates(roots)
            }
            None => config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
        };
        let mut config = config.with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(NodeDialer { tls: TlsConnector::from(Arc::new(config)) })
    }

    async fn reach(&self, name: &str, node: &Object) -> io::Result<Box<dyn Wire>> {
        let (host, port) = address(node)
            .ok_or_else(|| io::Error::other(format!("node {name} has no address in its status")))?;
        let server = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{host}:{port}: {error}"));
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

/// Takes any certificate whose key the node owns.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
