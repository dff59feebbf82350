//! An HTTPS server for one test, with an authority of its own: webhooks, authorizers, aggregated servers.
//!
//! ```text
//!   HttpsServer::start(settings, answer) ──► address, authority (PEM), how often it was called
//!   ReviewServer::start(answer) ──► the same, and all reviews that it was sent
//! ```
//!
//! It ends when it is dropped. What it answers is the test's; nothing here is shipped.
#![allow(clippy::expect_used, reason = "a test that cannot start its server has failed")]

mod review;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub use review::{ReviewServer, SeenReview};

/// For whom a server has its certificate, and what it speaks.
#[derive(Clone, Debug)]
pub struct HttpsSettings {
    /// The names and addresses of its certificate.
    pub names: Vec<String>,
    /// What it offers to speak, such as `h2`; nothing means HTTP/1.1.
    pub protocols: Vec<String>,
    /// Who must have signed the certificates of clients, as PEM; none are asked for without.
    pub clients: Option<String>,
    /// Whether it shows the certificate of its authority itself, instead of one that it has signed.
    pub self_signed: bool,
}

impl Default for HttpsSettings {
    fn default() -> HttpsSettings {
        HttpsSettings {
            names: vec!["127.0.0.1".to_owned()],
            protocols: vec!["h2".to_owned(), "http/1.1".to_owned()],
            clients: None,
            self_signed: false,
        }
    }
}

/// What a server sends, part by part.
pub type StreamedBody = BoxBody<Bytes, io::Error>;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct HttpsServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who signed its certificate, as PEM.
    pub authority: String,
    /// Its certificate, as PEM.
    pub certificate: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl HttpsServer {
    /// Starts a server that answers every request in this way.
    pub async fn start<F, A>(settings: HttpsSettings, answer: F) -> HttpsServer
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        HttpsServer::streaming(settings, move |request| {
            let answer = Arc::clone(&answer);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let answered = answer(Request::from_parts(parts, body)).await;
                answered.map(|body| Full::new(body).map_err(|never| match never {}).boxed())
            }
        })
        .await
    }

    /// Starts a server that answers requests while they come, with bodies that come when they like; it may
    /// switch to another protocol.
    pub async fn streaming<F, A>(settings: HttpsSettings, answer: F) -> HttpsServer
    where
        F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<StreamedBody>> + Send + 'static,
    {
        let (acceptor, authority, certificate) = tls(&settings);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(AtomicUsize::new(0));
        let counts = (Arc::clone(&connections), Arc::clone(&requests));
        let serving = tokio::spawn(serve(listener, acceptor, counts, Arc::new(answer)));
        HttpsServer { address, authority, certificate, connections, requests, serving }
    }

    /// The URL of a path on this server.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// How many connections were made to it.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many requests it has seen.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

type Counts = (Arc<AtomicUsize>, Arc<AtomicUsize>);

async fn serve<F, A>(listener: TcpListener, acceptor: TlsAcceptor, counts: Counts, answer: Arc<F>)
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Response<StreamedBody>> + Send + 'static,
{
    // Whatever goes on for a connection ends with the server.
    let mut open = tokio::task::JoinSet::new();
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        counts.0.fetch_add(1, Ordering::SeqCst);
        let (acceptor, requests, answer) =
            (acceptor.clone(), Arc::clone(&counts.1), Arc::clone(&answer));
        open.spawn(async move {
            let Ok(stream) = acceptor.accept(socket).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                requests.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                async move { Ok::<_, Infallible>(answer(request).await) }
            });
            let http = Builder::new(TokioExecutor::new());
            let _ = http.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
    }
}

/// A certificate of a new authority, that authority, and the certificate once more as PEM.
fn tls(settings: &HttpsSettings) -> (TlsAcceptor, String, String) {
    let key = KeyPair::generate().expect("a key");
    let names = if settings.self_signed { settings.names.clone() } else { Vec::new() };
    let mut params = CertificateParams::new(names).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let itself = params.self_signed(&key).expect("an authority");
    let authority = itself.pem();
    let (shown, own) = if settings.self_signed {
        (itself, key)
    } else {
        let issuer = Issuer::new(params, key);
        let own = KeyPair::generate().expect("a key");
        let signed = CertificateParams::new(settings.names.clone()).expect("names");
        (signed.signed_by(&own, &issuer).expect("a certificate"), own)
    };
    let certificate = shown.pem();
    let chain: Vec<CertificateDer<'static>> = vec![shown.der().clone()];
    let key = PrivateKeyDer::try_from(own.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("protocols");
    let builder = match &settings.clients {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            use rustls::pki_types::pem::PemObject as _;
            let mut roots = rustls::RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                roots.add(certificate.expect("a certificate")).expect("an authority");
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("authorities"))
        }
    };
    let mut config = builder.with_single_cert(chain, key).expect("a certificate with its key");
    config.alpn_protocols =
        settings.protocols.iter().map(|name| name.clone().into_bytes()).collect();
    (TlsAcceptor::from(Arc::new(config)), authority, certificate)
}
