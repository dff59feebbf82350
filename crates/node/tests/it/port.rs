//! Rules of spec/downward-api.md: the node's own port, who is let in and how many.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use crate::fake::Node;

/// Lets everybody with a certificate in, and the bearer of one token.
struct Porter;

impl tenure_node::serve::NodeAuthorizer for Porter {
    fn judge<'a>(
        &'a self,
        caller: &'a tenure_node::serve::ClientIdentity,
        asked: &'a tenure_node::serve::RequiredAccess,
    ) -> futures::future::BoxFuture<'a, Result<(), tenure_node::serve::AccessRejection>> {
        use tenure_node::serve::AccessRejection;
        let who = if caller.token.as_deref() == Some("secret") { "bearer" } else { &caller.user };
        let answer = match (who, asked.verb, asked.subresources) {
            ("", ..) => Err(AccessRejection::Unknown),
            ("bearer", "get", ["healthz", ..]) | ("api", ..) => Ok(()),
            _ => Err(AccessRejection::Forbidden(format!(
                "{who} may not {} {}",
                asked.verb,
                asked.subresources.join(" or ")
            ))),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A certificate for a name, signed by the authority if there is one.
fn certificate(
    name: &str,
    issuer: Option<&rcgen::Issuer<'_, rcgen::KeyPair>>,
) -> (rcgen::Certificate, rcgen::KeyPair, rcgen::CertificateParams) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    if issuer.is_none() {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let made = match issuer {
        Some(issuer) => params.signed_by(&key, issuer).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    (made, key, params)
}

type Signed = (rcgen::Certificate, rcgen::KeyPair, rcgen::CertificateParams);

/// The node's own port, and an authority for those who come to it.
struct Port {
    authority: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    address: std::net::SocketAddr,
    stop: tokio::sync::watch::Sender<bool>,
    running: tokio::task::JoinHandle<()>,
}

fn private_key(key: &rcgen::KeyPair) -> rustls::pki_types::PrivateKeyDer<'static> {
    rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap()
}

impl Port {
    async fn open(node: &Node, most: usize) -> Port {
        let (authority, authority_key, params) = certificate("authority", None);
        let issuer = rcgen::Issuer::new(params, authority_key);
        let (serving, serving_key, _) = certificate("node", Some(&issuer));
        let shown = rustls::sign::CertifiedKey::from_der(
            vec![serving.der().clone()],
            private_key(&serving_key),
            &rustls::crypto::ring::default_provider(),
        );
        let listener = tenure_node::serve::Listener::new(
            Arc::clone(&node.service),
            Arc::new(Porter),
            Arc::new(rustls::sign::SingleCertAndKey::from(shown.unwrap())),
            authority.der().clone(),
        );
        let listener = listener.unwrap().with_connections_max(most);
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let running = tokio::spawn(async move { listener.run(&socket, stopping).await });
        Port { authority, issuer, address, stop, running }
    }

    async fn wire(&self) -> tokio::net::TcpStream {
        tokio::net::TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect(
        &self,
        shown: Option<&Signed>,
    ) -> Result<hyper::client::conn::http1::SendRequest<Empty<Bytes>>, std::io::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            Some((own, own_key, _)) => {
                config.with_client_auth_cert(vec![own.der().clone()], private_key(own_key)).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        let wire = tls.connect(name, self.wire().await).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(wire)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}

#[tokio::test]
async fn r133_the_nodes_own_port_asks_who_is_there() {
    let node = Node::new();
    let port = Port::open(&node, 64).await;
    let api = certificate("api", Some(&port.issuer));
    let eve = certificate("eve", Some(&port.issuer));
    for (shown, token, path, code, said) in [
        (None, "", "/healthz", 401, "Unauthorized"),
        (None, "Bearer wrong", "/healthz", 401, "Unauthorized"),
        (None, "Bearer secret", "/healthz", 200, "ok"),
        (None, "Bearer secret", "/pods", 403, "bearer may not get pods or proxy"),
        (Some(&eve), "", "/exec/shop/web/main?output=1", 403, "eve may not create proxy"),
        (Some(&eve), "", "/stats/summary", 403, "eve may not get stats"),
        (Some(&api), "", "/healthz", 200, "ok"),
        (Some(&api), "", "/exec/shop/web/main?output=1", 400, "Upgrade request required"),
    ] {
        let mut sender = port.connect(shown).await.unwrap();
        let request =
            http::Request::get(path).header("host", "here").header("authorization", token);
        let answer =
            sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), code, "{path}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), said);
    }
    port.stop.send(true).unwrap();
    tokio::time::timeout(Duration::from_secs(5), port.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn r133f_strangers_cannot_take_the_nodes_port_from_others() {
    let node = Node::new();
    let port = Port::open(&node, 4).await;
    let api = certificate("api", Some(&port.issuer));
    let healthz = || {
        let request = http::Request::get("/healthz").header("host", "here");
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    // Some say nothing, some finish the handshake and are refused what they ask for.
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(port.wire().await);
    }
    let mut strangers = Vec::new();
    for _ in 0..8 {
        let mut stranger = port.connect(None).await.unwrap();
        assert_eq!(stranger.send_request(healthz()).await.unwrap().status(), 401);
        strangers.push(stranger);
    }
    let mut known = Vec::new();
    for _ in 0..4 {
        let mut one = port.connect(Some(&api)).await.unwrap();
        assert_eq!(one.send_request(healthz()).await.unwrap().status(), 200);
        known.push(one);
    }
    // The silent ones gave way, and were closed.
    for wire in &mut silent {
        let mut buffer = [0; 1];
        let read = tokio::io::AsyncReadExt::read(wire, &mut buffer);
        let read = tokio::time::timeout(Duration::from_secs(5), read).await.expect("it is closed");
        assert!(matches!(read, Ok(0) | Err(_)));
    }
    assert!(port.connect(None).await.is_err(), "all places are taken by those who were let in");
    for one in &mut known {
        one.ready().await.unwrap();
        assert_eq!(one.send_request(healthz()).await.unwrap().status(), 200, "nobody took it");
    }
    drop(known);
    for _ in 0..100 {
        if port.connect(None).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no place is free again");
}

#[tokio::test(start_paused = true)]
async fn r133f_who_says_nothing_is_not_waited_for() {
    let node = Node::new();
    let port = Port::open(&node, 4).await;
    let mut wire = port.wire().await;
    let begin = tokio::time::Instant::now();
    let read = tokio::io::AsyncReadExt::read(&mut wire, &mut [0; 1]).await;
    assert!(matches!(read, Ok(0) | Err(_)));
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(12), "{took:?}");
}
