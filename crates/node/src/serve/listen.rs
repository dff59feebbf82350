//! The node's own port: TLS, and every request put before the API server's rules (R133).

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use tenure_machinery::NodePath;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connections::{ConnectionPermit, NodeConnections, Placed};
use super::{NodeErrorResponse, Service};

/// How long a client may take for the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How many connections there may be: one for each stream that is open and each request that is answered.
const CONNECTIONS_MAX: usize = 1024;
/// How long accepting rests when the system has no file descriptor left.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The user that a checked certificate names, if there is one.
    pub user: String,
    /// The groups that it names.
    pub groups: Vec<String>,
    /// The token that the request bears, if it does.
    pub token: Option<String>,
}

/// What is asked, in the words of access rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredAccess {
    /// `get`, `create` and so on.
    pub verb: &'static str,
    /// The subresources of `nodes` of which one must be allowed.
    pub subresources: &'static [&'static str],
    token: Option<String>,
}

/// Why a caller is turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRejection {
    /// Nobody knows who it is.
    Unknown,
    /// It may not; the sentence says what.
    Forbidden(String),
}

/// Decides who may ask what of a node. The agent asks the API server.
pub trait NodeAuthorizer: Send + Sync + 'static {
    /// Passes, or says why not.
    fn judge<'a>(
        &'a self,
        caller: &'a ClientIdentity,
        asked: &'a RequiredAccess,
    ) -> BoxFuture<'a, Result<(), AccessRejection>>;
}

impl RequiredAccess {
    /// What a request asks, by the path that it is routed by.
    pub(super) fn of<B>(request: &Request<B>, path: &NodePath) -> RequiredAccess {
        let verb = path.verb(request.method().as_str());
        let subresources = path.subresources();
        let bearer = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        RequiredAccess { verb, subresources, token }
    }
}

/// A node's port.
pub struct Listener {
    service: Arc<Service>,
    tls: Arc<rustls::ServerConfig>,
    gate: Arc<dyn NodeAuthorizer>,
    most: usize,
}

impl Listener {
    /// Shows `certificate`; takes certificates that `client_authority` signed, and requests without any.
    pub fn new(
        service: Arc<Service>,
        gate: Arc<dyn NodeAuthorizer>,
        certificate: Arc<dyn ResolvesServerCert>,
        client_authority: CertificateDer<'static>,
    ) -> Result<Listener, Box<dyn std::error::Error + Send + Sync>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(client_authority)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Listener { service, tls: Arc::new(config), gate, most: CONNECTIONS_MAX })
    }

    /// Holds so many connections and no more.
    #[must_use]
    pub fn with_connections_max(mut self, most: usize) -> Listener {
        self.most = most;
        self
    }

    /// Serves until `stop` turns true or its sender is gone.
    pub async fn run(&self, listener: &TcpListener, mut stop: watch::Receiver<bool>) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
        let places = NodeConnections::new(self.most);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        let Some(place) = places.add() else {
                            tracing::debug!("a connection to the node was refused: there are too many");
                            continue;
                        };
                        let (service, gate) = (Arc::clone(&self.service), Arc::clone(&self.gate));
                        let acceptor = acceptor.clone();
                        connections.spawn(async move {
                            tokio::select! {
                                () = talk(service, gate, socket, &place, acceptor) => {}
                                () = place.gives_way() => {}
                            }
                        });
                    }
                    Err(error) => {
                        tracing::debug!(
                            %error,
                            "a connection to the node could not be accepted"
                        );
                        tokio::time::sleep(ACCEPT_REST).await;
                    }
                },
                // Ended connections leave the set as they end, or it would grow for ever.
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }
}

/// Resolves when the end has been asked for, or nobody is left to ask.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|asked| *asked).await;
}

async fn talk(
    service: Arc<Service>,
    gate: Arc<dyn NodeAuthorizer>,
    socket: TcpStream,
    place: &Arc<ConnectionPermit>,
    acceptor: TlsAcceptor,
) {
    let _ = socket.set_nodelay(true);
    let socket = Placed::new(socket, Arc::clone(place));
    let stream = match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "TLS handshake with the node failed");
        }
        Err(_) => return tracing::debug!("TLS handshake with the node took too long"),
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let caller = shown.map(|certificate| caller_of(certificate)).unwrap_or_default();
    let place = Arc::clone(place);
    let judge = move |asked: RequiredAccess| {
        let (gate, place) = (Arc::clone(&gate), Arc::clone(&place));
        let caller = ClientIdentity { token: asked.token.clone(), ..caller.clone() };
        async move {
            match gate.judge(&caller, &asked).await {
                Ok(()) => {
                    place.allow();
                    Ok(())
                }
                Err(AccessRejection::Unknown) => {
                    Err(NodeErrorResponse(StatusCode::UNAUTHORIZED, "Unauthorized".into()))
                }
                Err(AccessRejection::Forbidden(why)) => {
                    Err(NodeErrorResponse(StatusCode::FORBIDDEN, why))
                }
            }
        }
    };
    service.serve_with(stream, judge).await;
}

/// The user and the groups of a certificate that was checked.
fn caller_of(certificate: &[u8]) -> ClientIdentity {
    use x509_parser::prelude::{FromDer as _, X509Certificate};
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return ClientIdentity::default();
    };
    let subject = parsed.subject();
    let name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).next();
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    ClientIdentity {
        user: name.unwrap_or_default().to_owned(),
        groups: groups.map(str::to_owned).collect(),
        token: None,
    }
}
