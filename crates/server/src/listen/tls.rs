//! The TLS side of the socket: what the server shows, and how client certificates are judged.
//!
//! ```text
//!   handshake: the client owns the key of what it shows ──no──► alert
//!   Tls::judge: our authority signed it, and it is valid now ──no──► 401 (see authenticate.rs)
//! ```

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

/// Why a TLS configuration could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate authority for clients is unusable.
    #[error("the certificate authority for clients is unusable")]
    ClientAuthority(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The serving certificate or its key is unusable.
    #[error("the serving certificate is unusable")]
    Serving(#[source] rustls::Error),
}

/// What a server shows to clients and expects of them.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<rustls::ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Tls {
    /// Shows `chain`; asks for a client certificate that `client_authority` signed, requires none.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        client_authority: CertificateDer<'static>,
    ) -> Result<Tls, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(client_authority).map_err(|error| TlsError::ClientAuthority(error.into()))?;
        let roots = Arc::new(roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| TlsError::ClientAuthority(error.into()))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Serving)?
            .with_client_cert_verifier(Arc::new(DeferredVerifier(Arc::clone(&verifier))))
            .with_single_cert(chain, key)
            .map_err(TlsError::Serving)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), verifier })
    }

    pub(super) fn config(&self) -> Arc<rustls::ServerConfig> {
        Arc::clone(&self.config)
    }

    /// What is to be thought of the certificates that a client showed.
    ///
    /// Asked after every handshake, so a resumed session is judged as strictly as a new one.
    pub(super) fn judge(&self, shown: Option<&[CertificateDer<'_>]>) -> ClientCertificate {
        let Some((certificate, others)) = shown.and_then(<[_]>::split_first) else {
            return ClientCertificate::None;
        };
        match self.verifier.verify_client_cert(certificate, others, UnixTime::now()) {
            Ok(_) => ClientCertificate::Trusted(certificate.as_ref().to_vec()),
            Err(error) => {
                tracing::debug!(%error, "a client certificate was not accepted");
                ClientCertificate::Untrusted
            }
        }
    }
}

/// What a client showed of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientCertificate {
    /// No certificate.
    None,
    /// A certificate that our authority signed and that is valid now, in DER form.
    Trusted(Vec<u8>),
    /// A certificate that proves nothing to us.
    Untrusted,
}

/// Asks for a certificate and checks that the client owns its key, but puts off the judgement.
///
/// A handshake that fails tells the client little; api-server R148 wants a certificate that cannot
/// be verified answered with 401. INVARIANT: no certificate counts before [`Tls::judge`] passed it.
#[derive(Debug)]
struct DeferredVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DeferredVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
