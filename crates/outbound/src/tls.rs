//! Whom a client trusts, and as whom it shows itself.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use x509_parser::time::ASN1Time;

use crate::certificate_verifier::{ServerCertificate, certificate_verifier};
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
    let verifier = if settings.unverified {
        certificate_verifier(Arc::clone(&provider), |_| Ok(()))
    } else {
        let given = certificates(&settings.authorities)?;
        let roots = Arc::new(roots(&given)?);
        let built =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let signed = built.map_err(|error| SettingsError::Authorities(error.to_string()))?;
        certificate_verifier(Arc::clone(&provider), move |shown| {
            signed_or_given(shown, &signed, &given)
        })
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

/// The certificates of some PEM.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(none) if none.is_empty() && !pem.is_empty() => {
            Err(SettingsError::Authorities("there is none in them".to_owned()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(SettingsError::Authorities(error.to_string())),
    }
}

/// The authorities that are given, or those of the machine.
fn roots(given: &[CertificateDer<'static>]) -> Result<RootCertStore, SettingsError> {
    let mut roots = RootCertStore::empty();
    if given.is_empty() {
        // Machines collect certificates of all times; those that cannot be read trust nobody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if roots.is_empty() { Err(SettingsError::NoAuthorities) } else { Ok(roots) };
    }
    for certificate in given {
        let added = roots.add(certificate.clone());
        added.map_err(|error| SettingsError::Authorities(error.to_string()))?;
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

/// Takes what a trusted authority has signed, and as upstream does, the very certificate that is given as an
/// authority: small servers sign for themselves and show what they hand out to be trusted.
fn signed_or_given(
    shown: &ServerCertificate<'_>,
    signed: &WebPkiServerVerifier,
    given: &[CertificateDer<'static>],
) -> Result<(), rustls::Error> {
    let verdict = shown.verify_by(signed);
    if verdict.is_ok() || !given.iter().any(|given| **given == **shown.certificate) {
        return verdict;
    }
    let parsed = ParsedCertificate::try_from(shown.certificate)?;
    rustls::client::verify_server_name(&parsed, shown.name)?;
    Ok(serves_now(shown.certificate, shown.now)?)
}

/// Whether a certificate is for servers, and its time has come and is not over.
fn serves_now(certificate: &[u8], now: UnixTime) -> Result<(), CertificateError> {
    let wrong = CertificateError::BadEncoding;
    let (_, read) = x509_parser::parse_x509_certificate(certificate).map_err(|_| wrong.clone())?;
    let seconds = i64::try_from(now.as_secs()).map_err(|_| wrong.clone())?;
    let now = ASN1Time::from_timestamp(seconds).map_err(|_| wrong.clone())?;
    if now < read.validity().not_before {
        return Err(CertificateError::NotValidYet);
    }
    if now > read.validity().not_after {
        return Err(CertificateError::Expired);
    }
    let usage = read.extended_key_usage().map_err(|_| wrong)?;
    if usage.is_some_and(|usage| !usage.value.any && !usage.value.server_auth) {
        return Err(CertificateError::InvalidPurpose);
    }
    Ok(())
}
