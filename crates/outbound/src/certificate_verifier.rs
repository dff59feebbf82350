//! A verifier of servers' certificates around one question: is this certificate good enough?
//!
//! Signatures of the handshake are always checked, by the same provider. Which certificates are good enough is
//! said by whoever makes the verifier.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// What a server shows in a handshake, and when.
#[derive(Clone, Copy, Debug)]
pub struct ServerCertificate<'a> {
    /// Its own certificate.
    pub certificate: &'a CertificateDer<'a>,
    /// Those between it and an authority.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The name that it must prove.
    pub name: &'a ServerName<'a>,
    /// The answer of an OCSP responder; may be empty.
    pub ocsp: &'a [u8],
    /// The time of the handshake.
    pub now: UnixTime,
}

impl ServerCertificate<'_> {
    /// What another verifier says.
    pub fn verify_by(&self, other: &dyn ServerCertVerifier) -> Result<(), rustls::Error> {
        let ServerCertificate { certificate, intermediates, name, ocsp, now } = *self;
        other.verify_server_cert(certificate, intermediates, name, ocsp, now).map(|_| ())
    }
}

/// A verifier that takes the certificates that `accept` takes.
pub fn certificate_verifier<F>(
    provider: Arc<CryptoProvider>,
    accept: F,
) -> Arc<dyn ServerCertVerifier>
where
    F: Fn(&ServerCertificate<'_>) -> Result<(), rustls::Error> + Send + Sync + 'static,
{
    Arc::new(CertificateVerifier { provider, accept })
}

struct CertificateVerifier<F> {
    provider: Arc<CryptoProvider>,
    accept: F,
}

impl<F> fmt::Debug for CertificateVerifier<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateVerifier")
    }
}

impl<F> ServerCertVerifier for CertificateVerifier<F>
where
    F: Fn(&ServerCertificate<'_>) -> Result<(), rustls::Error> + Send + Sync,
{
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        (self.accept)(&ServerCertificate { certificate, intermediates, name, ocsp, now })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
