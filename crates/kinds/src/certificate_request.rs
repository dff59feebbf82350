//! Certificate requests and certificates as people send them: PEM around DER. What they say is read here;
//! whether they may have it is decided elsewhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tenure_machinery::{Object, ObjectExt};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

const REQUEST: &str = "CERTIFICATE REQUEST";
const CERTIFICATE: &str = "CERTIFICATE";

/// What a certificate request asks for, its signature checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The last common name, as who reads certificates takes it.
    pub common_name: String,
    /// Every organization.
    pub organizations: Vec<String>,
}

/// The request in `spec.request` of a CertificateSigningRequest; or what is wrong with it.
pub fn of(object: &Object) -> Result<CertificateRequest, String> {
    parse(&bytes(object.str_at(&["spec", "request"]).unwrap_or_default())?)
}

/// A request in PEM form: its first block, whose signature must be that of the key it names.
pub fn parse(pem: &[u8]) -> Result<CertificateRequest, String> {
    let wrong = || format!("PEM block type must be {REQUEST}");
    let block = Pem::iter_from_buffer(pem).next().ok_or_else(wrong)?.map_err(|_| wrong())?;
    if block.label != REQUEST {
        return Err(wrong());
    }
    let (rest, parsed) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("the request cannot be read: {error}"))?;
    if !rest.is_empty() {
        return Err("the request is followed by something else".to_owned());
    }
    parsed.verify_signature().map_err(|error| format!("the signature is not good: {error}"))?;
    let subject = &parsed.certification_request_info.subject;
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute
            .as_str()
            .map(str::to_owned)
            .map_err(|_| "the subject has a value that is no text".to_owned())
    };
    let mut names = subject.iter_common_name().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(CertificateRequest {
        common_name: names.pop().unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect::<Result<_, _>>()?,
    })
}

/// What is wrong with certificates in PEM form, of which there must be one at least; `authorities` must be
/// allowed to sign others, and each is there once.
pub(crate) fn check_certificates(pem: &[u8], authorities: bool) -> Result<(), String> {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|_| "must be PEM blocks without headers".to_owned())?;
        if block.label != CERTIFICATE {
            return Err(format!(
                "only {CERTIFICATE} PEM blocks are allowed, found {:?}",
                block.label
            ));
        }
        let (rest, parsed) = X509Certificate::from_der(&block.contents)
            .map_err(|error| format!("a certificate cannot be read: {error}"))?;
        if !rest.is_empty() {
            return Err("a certificate is followed by something else".to_owned());
        }
        if authorities && !parsed.is_ca() {
            return Err("every certificate must be that of an authority".to_owned());
        }
        if authorities && seen.contains(&block.contents) {
            return Err("a certificate is given twice".to_owned());
        }
        seen.push(block.contents);
    }
    if seen.is_empty() {
        return Err(format!("must contain at least one {CERTIFICATE} PEM block"));
    }
    Ok(())
}

/// Bytes as objects hold them.
pub(crate) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|_| "must be base64".to_owned())
}
