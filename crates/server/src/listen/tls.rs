//! The TLS side of the socket: what the server shows, and how client certificates are judged.
//!
//! ```text
//!   handshake: the client owns the key of what it shows ──no──► alert
//!   Tls::judge: our authority signed it, and it is valid now ──no──► 401 (see authenticate.rs)
//! ```

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

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
    /// None where nobody's certificates are believed.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Whose certificates are believed; one that stands here itself is believed as it is, as by Go's clients and
    /// servers, which test tools count on.
    authorities: Arc<[CertificateDer<'static>]>,
}

impl Tls {
    /// Shows `chain`; asks for a client certificate that one of `client_authorities` signed, requires none. Without
    /// authorities none is asked for.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        client_authorities: Vec<CertificateDer<'static>>,
    ) -> Result<Tls, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Serving)?;
        let verifier = verifier(&client_authorities, provider)?;
        let builder = match &verifier {
            Some(verifier) => {
                builder.with_client_cert_verifier(Arc::new(DeferredVerifier(Arc::clone(verifier))))
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Serving)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), verifier, authorities: client_authorities.into() })
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
        let Some(verifier) = &self.verifier else { return ClientCertificate::Untrusted };
        let now = UnixTime::now();
        if self.authorities.iter().any(|one| **one == **certificate) && may_show(certificate, now) {
            return ClientCertificate::Trusted(certificate.as_ref().to_vec());
        }
        match verifier.verify_client_cert(certificate, others, now) {
            Ok(_) => ClientCertificate::Trusted(certificate.as_ref().to_vec()),
            Err(error) => {
                tracing::debug!(%error, "a client certificate was not accepted");
                ClientCertificate::Untrusted
            }
        }
    }
}

/// Who judges certificates of clients, if anybody's are believed.
fn verifier(
    authorities: &[CertificateDer<'static>],
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let mut roots = rustls::RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| TlsError::ClientAuthority(error.into()))?;
    }
    let built = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let built = built.map_err(|error| TlsError::ClientAuthority(error.into()))?;
    Ok(Some(built))
}

/// Whether a certificate counts now, and for clients; one of an authority counts for those that it signed.
fn may_show(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    let in_time = (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now);
    let usages = certificate.extended_key_usage();
    let for_clients = match usages {
        Ok(None) => true,
        Ok(Some(usages)) => usages.value.client_auth || usages.value.any,
        Err(_) => false,
    };
    // Who only signs others is no user.
    in_time && for_clients && !certificate.is_ca()
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
