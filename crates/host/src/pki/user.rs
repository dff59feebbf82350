//! Certificates of users in several groups. The library that makes certificates gives a name one
//! organization at most, and groups are organizations; so the subject is written here and the
//! certificate signed again. No other part of a certificate is made or read here.
//!
//! ```text
//!   Certificate ─► TBS        ─► … subject …    replaced: CN user, O group, O group
//!               ─► algorithm                    kept
//!               ─► signature                    made again
//! ```

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey as _};

use super::{CertificateKeyPair, PkiError};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTF8_STRING: u8 = 0x0c;
const BIT_STRING: u8 = 0x03;
/// The object identifiers 2.5.4.3 and 2.5.4.10, with their tag and length.
const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x06, 3, 0x55, 4, 10];
/// The place of the subject: version, serial, algorithm, issuer and validity come before it.
const SUBJECT_AT: usize = 5;
const PEM_COLUMNS: usize = 64;

/// The same pair with a subject of this name and these groups, signed by `authority`.
pub(super) fn with_groups(
    pair: CertificateKeyPair,
    name: &str,
    groups: &[&str],
    authority: &KeyPair,
) -> Result<CertificateKeyPair, PkiError> {
    let der = pair.certificate().ok_or(PkiError::Groups)?;
    let whole = inside(&der).ok_or(PkiError::Groups)?;
    let parts = parts(whole).ok_or(PkiError::Groups)?;
    let [tbs, algorithm, _] = parts.as_slice() else { return Err(PkiError::Groups) };
    let mut fields =
        inside(tbs).and_then(self::parts).ok_or(PkiError::Groups)?.into_iter().map(<[u8]>::to_vec);
    let before: Vec<Vec<u8>> = fields.by_ref().take(SUBJECT_AT).collect();
    fields.next().ok_or(PkiError::Groups)?;
    let mut content = before.concat();
    content.extend(subject(name, groups));
    content.extend(fields.flatten());
    let tbs = element(SEQUENCE, &content);
    let mut signature = vec![0];
    signature.extend(authority.sign(&tbs)?);
    let whole = [tbs.as_slice(), algorithm, &element(BIT_STRING, &signature)].concat();
    Ok(CertificateKeyPair {
        certificate_pem: pem(&element(SEQUENCE, &whole)),
        key_pem: pair.key_pem,
    })
}

fn subject(name: &str, groups: &[&str]) -> Vec<u8> {
    let attribute = |kind: &[u8], value: &str| {
        let value = element(UTF8_STRING, value.as_bytes());
        element(SET, &element(SEQUENCE, &[kind, &value].concat()))
    };
    let mut content = attribute(COMMON_NAME, name);
    content.extend(groups.iter().flat_map(|group| attribute(ORGANIZATION, group)));
    element(SEQUENCE, &content)
}

/// An element of DER: tag, length, content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => bytes.push(length),
        _ => {
            let length = content.len().to_be_bytes();
            let digits: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
            bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or_default());
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}

/// The content of the first element and what comes after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *first < 0x80 {
        return rest.split_at_checked(usize::from(*first));
    }
    let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    let length = digits.iter().try_fold(0_usize, |length, digit| {
        length.checked_mul(256)?.checked_add(usize::from(*digit))
    })?;
    rest.split_at_checked(length)
}

fn inside(bytes: &[u8]) -> Option<&[u8]> {
    split(bytes).map(|(content, _)| content)
}

/// The elements one after another, each whole.
fn parts(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (_, rest) = split(bytes)?;
        parts.push(bytes.get(..bytes.len() - rest.len())?);
        bytes = rest;
    }
    Some(parts)
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(PEM_COLUMNS) {
        let _ = writeln!(pem, "{}", String::from_utf8_lossy(line));
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::super::tests::{names, now};
    use super::super::{Pki, authority_key_id, key_id};

    #[test]
    fn a_user_has_a_name_and_any_number_of_groups() {
        let pki = Pki::in_memory(&names(), now()).unwrap();
        let long = "g".repeat(300);
        for groups in [vec![], vec!["dev"], vec!["dev", "ops", "Käse", &long]] {
            let pair = pki.user("alice", &groups, now()).unwrap();
            let der = pair.certificate().unwrap();
            let (rest, certificate) = X509Certificate::from_der(&der).unwrap();
            assert!(rest.is_empty());
            let subject = certificate.subject();
            let found: Vec<&str> =
                subject.iter_organization().map(|group| group.as_str().unwrap()).collect();
            assert_eq!(found, groups);
            assert_eq!(super::super::common_name(subject), Some("alice"));
            assert!(super::super::is_pair(&pair));
            assert_eq!(key_id(&certificate, true), authority_key_id(&pki.authority));
        }
    }
}
