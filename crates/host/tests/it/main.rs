//! A whole control plane inside a test, reached the way a client reaches it: by its kubeconfig.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may end loudly")]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod agent;
mod attacks;
mod away;
mod client;
mod conformance;
mod faults;
mod gate;
mod refresh;
mod resize;
mod rotation;
mod scripted;
mod selectors;
mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tenure_host::{Config, ControlPlane, HostStartError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

struct Kubeconfig(String);

impl Kubeconfig {
    fn read(path: &Path) -> Kubeconfig {
        Kubeconfig(std::fs::read_to_string(path).unwrap())
    }

    fn field(&self, name: &str) -> &str {
        let line = self.0.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_once(": ").unwrap().1
    }

    fn pem(&self, name: &str) -> Vec<u8> {
        base64::engine::general_purpose::STANDARD.decode(self.field(name)).unwrap()
    }

    /// Sends one GET over HTTP/1.1 and reads the whole answer.
    async fn get(&self, path: &str) -> String {
        let mut roots = rustls::RootCertStore::empty();
        let authority = self.pem("certificate-authority-data");
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let certificate =
            CertificateDer::from_pem_slice(&self.pem("client-certificate-data")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&self.pem("client-key-data")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let address = self.field("server").strip_prefix("https://").unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_ready_when_it_returns_and_leaves_nothing() {
    let plane = ControlPlane::start(Config::ephemeral()).await.unwrap();
    let kubeconfig = plane.kubeconfig().to_owned();
    let answer = Kubeconfig::read(&kubeconfig).get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(plane.ready_after() < Duration::from_secs(2), "{:?}", plane.ready_after());
    let begin = Instant::now();
    plane.stop().await;
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(!kubeconfig.exists());
    assert!(!kubeconfig.parent().unwrap().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_serves_one_at_a_time_and_again_after_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        || Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::new(dir.path().join("data")) };
    let plane = ControlPlane::start(config()).await.unwrap();
    let second = ControlPlane::start(config()).await.unwrap_err();
    assert!(matches!(second, HostStartError::FolderLocked { .. }), "{second:?}");
    let kubeconfig = Kubeconfig::read(plane.kubeconfig());
    plane.stop().await;
    let plane = ControlPlane::start(config()).await.unwrap();
    let again = Kubeconfig::read(plane.kubeconfig());
    assert_eq!(kubeconfig.field("client-key-data"), again.field("client-key-data"));
    assert!(again.get("/readyz").await.starts_with("HTTP/1.1 200 OK\r\n"));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_start_lets_go_of_everything() {
    let dir = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = listener.local_addr().unwrap();
    let config = || Config { listen, ..Config::new(dir.path().join("data")) };
    let failed = ControlPlane::start(config()).await.unwrap_err();
    assert!(matches!(failed, HostStartError::PortTaken { .. }), "{failed:?}");
    drop(listener);
    ControlPlane::start(config()).await.unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_once_the_store_is_open_closes_it_before_the_folder_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    let config = || Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::new(folder.clone()) };
    for _ in 0..3 {
        // Not even the objects that every cluster has find room.
        let full = Config { store_quota: Some(1), ..config() };
        let failed = ControlPlane::start(full).await.unwrap_err();
        assert!(matches!(failed, HostStartError::Bootstrap(_)), "{failed:?}");
    }
    ControlPlane::start(config()).await.unwrap().stop().await;
}
