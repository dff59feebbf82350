//! A client that shows any certificate, or none. No test lives here.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Certificates, the first one the client's own, and its key.
pub(crate) type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) json: Value,
}

/// Where a server is, and whom it is signed by.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) authority_pem: String,
}

impl Client {
    /// Sends one request over a connection of its own.
    pub(crate) async fn send(
        &self,
        shown: Option<Shown>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            // Not the usual way, which sends nothing that the server's hints do not cover.
            Some((chain, key)) => {
                let key = provider.key_provider.load_private_key(key).unwrap();
                builder.with_client_cert_resolver(Arc::new(Always(Arc::new(CertifiedKey::new(
                    chain, key,
                )))))
            }
        };
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::from(self.address.ip());
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: tenure\r\nConnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8(answer).unwrap();
        let code = text.split(' ').nth(1).unwrap().parse().unwrap();
        let body = text.split_once("\r\n\r\n").unwrap().1;
        Answer { code, json: serde_json::from_str(body).unwrap_or_default() }
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

/// The description of a certificate for a client in a group.
pub(crate) fn client(name: &str, group: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    if !name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// A certificate of that description.
pub(crate) fn signed(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Shown {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    (vec![certificate], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

/// A certificate and its key from PEM.
pub(crate) fn pair(certificate: &str, key: &str) -> Shown {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    (vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
}
