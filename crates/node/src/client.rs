//! The agent's way to the server: HTTP/2 over TLS with the node's own certificate. Paths and JSON go
//! in, JSON comes out; what they mean is the business of others.
//!
//! ```text
//!   send ──┐                    ┌─► connection, up to 100 streams
//!   watch ─┴─► the least busy ──┴─► connection …
//! ```

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How many requests share a connection; the server allows more than that.
const STREAMS: usize = 100;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that does not answer for this long is dead.
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// The longest line of a watch: an object and a few words around it.
const LINE_MAX: usize = 32 * 1024 * 1024;
const AGENT: &str = concat!("tenure-node/", env!("CARGO_PKG_VERSION"));

/// Where the server is and how the node shows who it is.
#[derive(Clone, Default)]
pub struct Server {
    /// `https://host:port`.
    pub url: String,
    /// The authority that signed the server's certificate, in PEM form.
    pub authority_pem: String,
    /// The node's certificate, in PEM form; empty with a token.
    pub certificate_pem: String,
    /// The key of the certificate, in PEM form.
    pub key_pem: String,
    /// A token, if there is no certificate.
    pub token: Option<String>,
    /// The node to act as, if the certificate or token is somebody else's who may act as others.
    pub act_as: Option<String>,
    /// The certificate and key, in PEM form, of who reads what is needed to serve Services, as kube-proxy does: a node
    /// itself may not read the endpoints of others. Not needed by who may act as others.
    pub services: Option<(String, String)>,
}

/// The user who reads what is needed to serve Services.
pub const SERVICE_PROXY: &str = "system:kube-proxy";

impl Server {
    /// The same server for whoever serves Services.
    pub(crate) fn for_services(&self) -> Server {
        let mut server = self.clone();
        if let Some((certificate_pem, key_pem)) = server.services.take() {
            let shown = Server { certificate_pem, key_pem, token: None, ..server };
            return shown;
        }
        if server.act_as.is_some() {
            server.act_as = Some(SERVICE_PROXY.to_owned());
        }
        server
    }
}

impl std::fmt::Debug for Server {
    /// Never shows the key or the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why a request did not do what it should.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The server cannot be reached; it may come back.
    #[error("the server is not there: {0}")]
    Away(String),
    /// The server answered, and says no.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// One word.
        reason: String,
        /// What people read.
        message: String,
    },
}

impl ClientError {
    /// The HTTP status, 0 if there was no answer.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            ClientError::Away(_) => 0,
            ClientError::Refused { code, .. } => *code,
        }
    }

    fn away(error: impl std::fmt::Display) -> ClientError {
        ClientError::Away(error.to_string())
    }
}

/// How the answer of a request reads.
pub type Answered<T> = Result<T, ClientError>;

/// A client; clones share connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientState>,
}

struct ClientState {
    authority: String,
    host: String,
    port: u16,
    token: Option<String>,
    act_as: Option<String>,
    tls: TlsConnector,
    connections: Mutex<Vec<HttpConnection>>,
    // Held while one is made, so that a burst of requests makes one and not a hundred.
    making: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    streams: Arc<AtomicUsize>,
}

/// A place on a connection, given back when dropped.
struct StreamPermit {
    streams: Arc<AtomicUsize>,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Client {
    /// A client for this server; nothing is asked yet.
    ///
    /// # Errors
    /// The address or a certificate cannot be read.
    pub fn new(server: &Server) -> Answered<Client> {
        let url: Uri = server.url.parse().map_err(ClientError::away)?;
        let host = url.host().unwrap_or_default().to_owned();
        let tls = TlsConnector::from(Arc::new(tls(server).map_err(ClientError::Away)?));
        let inner = ClientState {
            authority: url.authority().map(ToString::to_string).unwrap_or_default(),
            port: url.port_u16().unwrap_or(443),
            host: host.trim_matches(['[', ']']).to_owned(),
            token: server.token.clone(),
            act_as: server.act_as.clone(),
            tls,
            connections: Mutex::default(),
            making: tokio::sync::Mutex::default(),
        };
        Ok(Client { inner: Arc::new(inner) })
    }

    /// Reads an object.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn get(&self, path: &str) -> Answered<Object> {
        self.send(Method::GET, path, "", None).await
    }

    /// Makes an object.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn post(&self, path: &str, body: &Object) -> Answered<Object> {
        self.send(Method::POST, path, "application/json", Some(body)).await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn put(&self, path: &str, body: &Object) -> Answered<Object> {
        self.send(Method::PUT, path, "application/json", Some(body)).await
    }

    /// Changes an object by a strategic merge patch.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn patch(&self, path: &str, body: &Object) -> Answered<Object> {
        self.send(Method::PATCH, path, "application/strategic-merge-patch+json", Some(body)).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn delete(&self, path: &str, options: &Object) -> Answered<Object> {
        self.send(Method::DELETE, path, "application/json", Some(options)).await
    }

    /// Who the server takes this client for.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn who(&self) -> Answered<String> {
        let review = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
        });
        let review = review.as_object().cloned().unwrap_or_default();
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = self.post(path, &review).await?;
        Ok(answer.str_at(&["status", "userInfo", "username"]).unwrap_or_default().to_owned())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Option<&Object>,
    ) -> Answered<Object> {
        let work = async {
            let (response, _place) = self.begin(method, path, kind, body).await?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(ClientError::away)?.to_bytes();
            answer(code, &bytes)
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, Box::pin(work)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Away("no answer in time".to_owned())),
        }
    }

    /// Begins a watch: one JSON object for each change.
    ///
    /// # Errors
    /// The server is away or says no.
    pub async fn watch(&self, path: &str) -> Answered<WatchLines> {
        let begin = Box::pin(self.begin(Method::GET, path, "", None));
        let (response, place) = match tokio::time::timeout(REQUEST_TIMEOUT, begin).await {
            Ok(begun) => begun?,
            Err(_) => return Err(ClientError::Away("no answer in time".to_owned())),
        };
        let code = response.status().as_u16();
        if !response.status().is_success() {
            let bytes = response.into_body().collect().await.map_err(ClientError::away)?.to_bytes();
            answer(code, &bytes)?;
            return Err(ClientError::Away("the watch was answered oddly".to_owned()));
        }
        Ok(WatchLines { body: response.into_body(), read: BytesMut::new(), seen: 0, _place: place })
    }

    /// Sends a request; a connection that turns out to be closed is replaced once.
    async fn begin(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Option<&Object>,
    ) -> Answered<(Response<Incoming>, StreamPermit)> {
        let bytes = match body {
            Some(body) => Bytes::from(serde_json::to_vec(body).map_err(ClientError::away)?),
            None => Bytes::new(),
        };
        let mut tries = 0;
        loop {
            let request = self.request(method.clone(), path, kind, bytes.clone())?;
            let (mut sender, place) = self.connection().await?;
            match sender.send_request(request).await {
                Ok(response) => return Ok((response, place)),
                Err(error) => {
                    // Whether the server has seen the request is known only if it was never sent.
                    let unsent = error.is_canceled() || error.is_closed();
                    tries += 1;
                    if tries > 1 || !(unsent || method == Method::GET) {
                        return Err(ClientError::away(error));
                    }
                }
            }
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Answered<Request<Full<Bytes>>> {
        let uri = format!("https://{}{path}", self.inner.authority);
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, AGENT);
        if !kind.is_empty() {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(token) = &self.inner.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        match self.inner.act_as.as_deref() {
            None => {}
            Some(SERVICE_PROXY) => {
                request = request
                    .header("impersonate-user", SERVICE_PROXY)
                    .header("impersonate-group", "system:authenticated");
            }
            Some(node) => {
                request = request
                    .header("impersonate-user", format!("system:node:{node}"))
                    .header("impersonate-group", "system:nodes")
                    .header("impersonate-group", "system:authenticated");
            }
        }
        request.body(Full::new(body)).map_err(ClientError::away)
    }

    /// A place on the least busy connection; a new one if all are busy.
    async fn connection(&self) -> Answered<(SendRequest<Full<Bytes>>, StreamPermit)> {
        if let Some(found) = self.inner.found() {
            return Ok(found);
        }
        let _making = self.inner.making.lock().await;
        if let Some(found) = self.inner.found() {
            return Ok(found);
        }
        let made = tokio::time::timeout(CONNECT_TIMEOUT, Box::pin(self.inner.connect())).await;
        let sender = made.map_err(|_| ClientError::Away("no connection in time".to_owned()))??;
        let streams = Arc::new(AtomicUsize::new(1));
        let connection = HttpConnection { sender: sender.clone(), streams: Arc::clone(&streams) };
        self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok((sender, StreamPermit { streams }))
    }
}

impl ClientState {
    fn found(&self) -> Option<(SendRequest<Full<Bytes>>, StreamPermit)> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.sender.is_closed());
        let free = connections.iter().min_by_key(|one| one.streams.load(Ordering::Relaxed))?;
        if free.streams.load(Ordering::Relaxed) >= STREAMS {
            return None;
        }
        free.streams.fetch_add(1, Ordering::Relaxed);
        Some((free.sender.clone(), StreamPermit { streams: Arc::clone(&free.streams) }))
    }

    async fn connect(&self) -> Answered<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(ClientError::away)?;
        stream.set_nodelay(true).map_err(ClientError::away)?;
        let name = ServerName::try_from(self.host.clone()).map_err(ClientError::away)?;
        let stream = self.tls.connect(name, stream).await.map_err(ClientError::away)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_EVERY)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ClientError::away)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the server ended");
            }
        });
        Ok(sender)
    }
}

/// The settings of the TLS side; the provider is the one the house uses.
fn tls(server: &Server) -> Result<rustls::ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(server.authority_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = if server.certificate_pem.is_empty() {
        builder.with_no_client_auth()
    } else {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(server.certificate_pem.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(server.key_pem.as_bytes())
            .map_err(|error| error.to_string())?;
        builder
            .with_client_auth_cert(chain.map_err(|error| error.to_string())?, key)
            .map_err(|error| error.to_string())?
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// An answer: the object, or what the server said instead.
fn answer(code: u16, bytes: &[u8]) -> Answered<Object> {
    let object: Object = serde_json::from_slice(bytes).unwrap_or_default();
    if (200..300).contains(&code) {
        return Ok(object);
    }
    let text = |name| object.str_at(&[name]).unwrap_or_default().to_owned();
    let message = match text("message") {
        empty if empty.is_empty() => String::from_utf8_lossy(bytes).trim().to_owned(),
        message => message,
    };
    Err(ClientError::Refused { code, reason: text("reason"), message })
}

/// The lines of a watch.
pub struct WatchLines {
    body: Incoming,
    read: BytesMut,
    seen: usize,
    _place: StreamPermit,
}

impl WatchLines {
    /// The next change; `None` at the end, whatever the reason.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let fresh = self.read.get(self.seen..).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(self.seen + end + 1);
                self.seen = 0;
                match serde_json::from_slice(&line) {
                    Ok(value) => return Some(value),
                    Err(_) if line.trim_ascii().is_empty() => continue,
                    Err(_) => return None,
                }
            }
            self.seen = self.read.len();
            if self.read.len() > LINE_MAX {
                return None;
            }
            let frame =
                std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            match frame.await?.ok()?.into_data() {
                Ok(data) => self.read.extend_from_slice(&data),
                Err(_) => continue,
            }
        }
    }
}
