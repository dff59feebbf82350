//! Whom a client trusts, and as whom it shows itself.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::SettingsError;

/// Whom a client trusts, and as whom it shows itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// Certificates of authorities in PEM form; empty for those that the machine trusts.
    pub authorities: Vec<u8>,
    /// The name that the server must prove, where it is not the host that is called.
    pub server_name: Option<String>,
    /// Whether any certificate will do.
    pub unverified: bool,
    /// The client's own certificate.
    pub identity: Option<CertifiedKey>,
}

/// A certificate with its key, both in PEM form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CertifiedKey {
    /// The certificate, and those between it and its authority.
    pub chain: Vec<u8>,
    /// Its key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for CertifiedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertifiedKey")
    }
}

/// A configuration that speaks HTTP/2, or HTTP/1.1 where only that is offered.
pub(crate) fn config(
    settings: &TlsSettings,
    only_http1: bool,
) -> Result<ClientConfig, SettingsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = if settings.unverified {
        Arc::new(Unverified(Arc::clone(&provider)))
    } else {
        let roots = Arc::new(roots(&settings.authorities)?);
        let built =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        built.map_err(|error| SettingsError::Authorities(error.to_string()))?
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError::Identity(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let wrong = |error: &dyn std::fmt::Display| SettingsError::Identity(error.to_string());
            let chain: Result<Vec<CertificateDer<'static>>, _> =
                CertificateDer::pem_slice_iter(&identity.chain).collect();
            let chain = chain.map_err(|error| wrong(&error))?;
            let key =
                PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| wrong(&error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?
        }
    };
    config.alpn_protocols = match only_http1 {
        true => vec![b"http/1.1".to_vec()],
        false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

/// The authorities that are given, or those of the machine.
fn roots(pem: &[u8]) -> Result<RootCertStore, SettingsError> {
    let mut roots = RootCertStore::empty();
    if pem.is_empty() {
        // Machines collect certificates of all times; those that cannot be read trust nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() { Err(SettingsError::NoAuthorities) } else { Ok(roots) };
    }
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let added = certificate.map_err(|error| error.to_string());
        let added = added.and_then(|one| roots.add(one).map_err(|error| error.to_string()));
        added.map_err(SettingsError::Authorities)?;
    }
    if roots.is_empty() {
        return Err(SettingsError::Authorities("there is none in them".to_owned()));
    }
    Ok(roots)
}

/// The name that a server must prove.
pub(crate) fn server_name(
    settings: &TlsSettings,
    host: &str,
) -> Result<ServerName<'static>, SettingsError> {
    let name = settings.server_name.as_deref().unwrap_or(host);
    // A URL writes addresses of version 6 in brackets, certificates do not.
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.to_owned()).map_err(|_| SettingsError::ServerName(bare.to_owned()))
}

/// Takes any certificate, whoever shows it; signatures are checked all the same.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
