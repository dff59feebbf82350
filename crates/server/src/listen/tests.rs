//! The socket, driven by real TLS clients. Rule numbers are those of spec/api-server.md.

use std::net::SocketAddr;
use std::task::Context;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Frame;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::*;

type Client = tokio_rustls::client::TlsStream<TcpStream>;

struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if name == "expired" {
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        (certificate, PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }
}

/// A client that shows its certificate whoever asks.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesClientCert for Always {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

struct Running {
    authority: Authority,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    done: tokio::task::JoinHandle<usize>,
}

/// A server whose paths say what the handler does.
async fn start(grace: Duration) -> Running {
    start_with(ConnectionLimits { grace, ..ConnectionLimits::default() }).await
}

/// The same, with room for so many connections.
async fn start_for(connections: usize) -> Running {
    start_with(ConnectionLimits { connections, ..ConnectionLimits::default() }).await
}

async fn start_with(bounds: ConnectionLimits) -> Running {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("server");
    let tls = Tls::new(vec![certificate], key, vec![authority.certificate.clone()]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(false);
    let handler_stop = stopping.clone();
    let answer = move |request: Request<Incoming>, peer: Arc<Peer>| {
        let stop = handler_stop.clone();
        async move { handle(request, &peer, stop).await }
    };
    let done = tokio::spawn(serve_with(listener, tls, stopping, bounds, answer));
    Running { authority, address, stop, done }
}

async fn handle(
    request: Request<Incoming>,
    peer: &Peer,
    mut stop: watch::Receiver<bool>,
) -> Response<Body> {
    match request.uri().path() {
        "/panic" => panic!("on purpose"),
        "/slow" => {
            tokio::time::sleep(Duration::from_millis(300)).await;
            Response::new(full("slow"))
        }
        "/long" => Response::new(full(vec![b'x'; 1 << 20])),
        "/never" => std::future::pending().await,
        "/watch" => {
            let (sender, mut receiver) = tokio::sync::mpsc::channel::<Bytes>(4);
            tokio::spawn(async move {
                sender.send(Bytes::from_static(b"{\"event\":1}\n")).await.unwrap();
                stopped(&mut stop).await;
            });
            let body = PollBody(move |context: &mut Context<'_>| receiver.poll_recv(context));
            Response::new(body.boxed_unsync())
        }
        _ => Response::new(full(match (&peer.user, peer.untrusted) {
            (Some(_), _) => "known",
            (None, true) => "untrusted",
            (None, false) => "anonymous",
        })),
    }
}

/// The smallest body: a poll function.
struct PollBody<P>(P);

impl<P> hyper::body::Body for PollBody<P>
where
    P: FnMut(&mut Context<'_>) -> Poll<Option<Bytes>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        (self.0)(context).map(|item| item.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Running {
    async fn connect(&self, protocol: &str, by: Option<&Authority>) -> io::Result<Client> {
        self.connect_as(protocol, by.map(|authority| authority.sign("admin"))).await
    }

    async fn connect_as(
        &self,
        protocol: &str,
        shown: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> io::Result<Client> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            // Not the usual way, which sends nothing that the server's hints do not cover.
            Some((certificate, key)) => {
                let provider = rustls::crypto::ring::default_provider();
                let key = provider.key_provider.load_private_key(key).unwrap();
                let shown = CertifiedKey::new(vec![certificate], key);
                builder.with_client_cert_resolver(Arc::new(Always(Arc::new(shown))))
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let socket = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    async fn http2(&self) -> hyper::client::conn::http2::SendRequest<Empty<Bytes>> {
        let stream = self.connect("h2", Some(&self.authority)).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://localhost{path}")).body(Empty::new()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Reads one HTTP/1.1 answer over a connection that the server closes afterwards.
async fn http1(mut stream: Client, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn r148_a_certificate_is_asked_for_but_not_required() {
    let server = start(GRACE).await;
    let known = server.connect("http/1.1", Some(&server.authority)).await.unwrap();
    assert!(http1(known, "/").await.ends_with("known"));
    let anonymous = server.connect("http/1.1", None).await.unwrap();
    assert!(http1(anonymous, "/").await.ends_with("anonymous"));
    let mut sender = server.http2().await;
    assert_eq!(text(sender.send_request(get("/")).await.unwrap()).await, "known");
}

#[tokio::test]
async fn r148_a_certificate_that_cannot_be_verified_names_nobody() {
    let server = start(GRACE).await;
    let foreign = Authority::new();
    for shown in [foreign.sign("admin"), server.authority.sign("expired")] {
        let stream = server.connect_as("http/1.1", Some(shown)).await.unwrap();
        let answer = http1(stream, "/").await;
        // What comes of it is tested with a whole server, in the tests of the host.
        assert!(answer.ends_with("untrusted"), "{answer}");
    }
}

#[tokio::test]
async fn r148_a_certificate_without_its_key_ends_the_handshake() {
    let server = start(GRACE).await;
    let (certificate, _) = server.authority.sign("admin");
    let (_, other_key) = server.authority.sign("other");
    // With TLS 1.3 the client may learn of the refusal only when it reads.
    if let Ok(mut stream) = server.connect_as("http/1.1", Some((certificate, other_key))).await {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
    }
}

#[tokio::test]
async fn a_panic_is_500_and_other_requests_go_on() {
    let server = start(GRACE).await;
    let mut sender = server.http2().await;
    let slow = sender.send_request(get("/slow"));
    let panicked = sender.send_request(get("/panic")).await.unwrap();
    assert_eq!(panicked.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text(panicked).await.contains("\"reason\":\"InternalError\""));
    assert_eq!(text(slow.await.unwrap()).await, "slow");
}

#[tokio::test]
async fn r243_without_room_idle_connections_give_way_and_watches_stay() {
    let server = start_for(2).await;
    let mut watching = server.http2().await;
    let watch = watching.send_request(get("/watch")).await.unwrap();
    let mut idle = server.connect("http/1.1", None).await.unwrap();
    let mut newcomer = server.http2().await;
    text(newcomer.send_request(get("/")).await.unwrap()).await;
    // Who had not asked for anything is gone, or never was given its place.
    let mut byte = [0];
    let left = tokio::time::timeout(Duration::from_secs(5), idle.read(&mut byte)).await;
    assert!(matches!(left.unwrap(), Ok(0) | Err(_)), "the idle connection is still open");
    server.stop.send(true).unwrap();
    assert_eq!(text(watch).await, "{\"event\":1}\n");
}

#[tokio::test]
async fn r243_without_room_and_without_idle_connections_nobody_else_comes_in() {
    let server = start_for(1).await;
    let mut watching = server.http2().await;
    let watch = watching.send_request(get("/watch")).await.unwrap();
    assert!(server.connect("http/1.1", None).await.is_err());
    server.stop.send(true).unwrap();
    assert_eq!(text(watch).await, "{\"event\":1}\n");
}

/// Without a window an HTTP/2 body is not even asked for its bytes, so nothing else ends such a stream.
#[tokio::test]
async fn r243_a_client_that_leaves_no_window_is_cut_and_one_that_reads_is_not() {
    let look_every = Duration::from_millis(50);
    let server = start_with(ConnectionLimits { look_every, ..ConnectionLimits::default() }).await;
    for window in [0, 1_000] {
        for path in ["/watch", "/long"] {
            let stream = server.connect("h2", None).await.unwrap();
            let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(window);
            let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            let answer = sender.send_request(get(path)).await.unwrap();
            if (window, path) == (1_000, "/watch") {
                // Its one event fits, and what never comes is not unread.
                tokio::time::sleep(look_every * 10).await;
                assert!(!connection.is_finished());
                continue;
            }
            let cut = tokio::time::timeout(Duration::from_secs(10), connection).await;
            assert!(cut.is_ok(), "window {window}, {path}");
            drop(answer);
        }
    }
    let mut reader = server.http2().await;
    assert_eq!(text(reader.send_request(get("/long")).await.unwrap()).await.len(), 1 << 20);
}

#[tokio::test]
async fn r9_idle_connections_end_at_once() {
    let server = start(GRACE).await;
    let _quiet = server.connect("http/1.1", None).await.unwrap();
    let _raw = TcpStream::connect(server.address).await.unwrap();
    let mut sender = server.http2().await;
    text(sender.send_request(get("/")).await.unwrap()).await;
    let begin = Instant::now();
    server.stop.send(true).unwrap();
    assert_eq!(server.done.await.unwrap(), 0);
    assert!(begin.elapsed() < Duration::from_millis(200), "took {:?}", begin.elapsed());
    assert!(sender.send_request(get("/")).await.is_err());
}

#[tokio::test]
async fn r9_a_short_request_finishes_and_a_watch_ends_whole() {
    let server = start(GRACE).await;
    let mut sender = server.http2().await;
    let slow = tokio::spawn(sender.send_request(get("/slow")));
    let watch = sender.send_request(get("/watch")).await.unwrap();
    server.stop.send(true).unwrap();
    assert_eq!(text(watch).await, "{\"event\":1}\n");
    assert_eq!(text(slow.await.unwrap().unwrap()).await, "slow");
    assert_eq!(server.done.await.unwrap(), 0);
}

#[tokio::test]
async fn r9_a_request_that_never_ends_is_cut_after_the_grace() {
    let server = start(Duration::from_millis(100)).await;
    let mut sender = server.http2().await;
    let never = tokio::spawn(sender.send_request(get("/never")));
    text(sender.send_request(get("/")).await.unwrap()).await;
    server.stop.send(true).unwrap();
    assert_eq!(server.done.await.unwrap(), 1);
    assert!(never.await.unwrap().is_err());
}

/// The outcome that spec/dependencies.md R22 asks for, with room for a busy machine.
#[tokio::test]
async fn a_get_does_not_wait_behind_two_hundred_watches() {
    let server = start(GRACE).await;
    let mut sender = server.http2().await;
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(sender.send_request(get("/watch")).await.unwrap());
    }
    let begin = Instant::now();
    assert_eq!(text(sender.send_request(get("/")).await.unwrap()).await, "known");
    assert!(begin.elapsed() < Duration::from_millis(100), "took {:?}", begin.elapsed());
    server.stop.send(true).unwrap();
    for watch in watches {
        assert_eq!(text(watch).await, "{\"event\":1}\n");
    }
    assert_eq!(server.done.await.unwrap(), 0);
}
