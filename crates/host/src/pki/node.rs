//! Certificates for what nodes serve: made here for nodes of this process, signed here for others.
//! Who may ask is decided by the server.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, KeyUsagePurpose, SanType,
};
use tenure_server::admit::ServiceRange;
use tenure_server::certificate_signing::CertificateSigner;

use super::{CertificateKeyPair, LEAF_LIFE, Pki, PkiError, issuer, params, serving_names, sign};

use crate::clock;

const GROUP: &str = "system:nodes";

impl Pki {
    /// A new pair for what a node of this process serves.
    pub fn node_serving(
        &self,
        node: &str,
        now: SystemTime,
    ) -> Result<CertificateKeyPair, PkiError> {
        sign(serving(node, now)?, &issuer(&self.authority, now)?)
    }
}

/// Signs what nodes elsewhere serve with.
#[derive(Debug)]
pub struct NodeSigner {
    authority: CertificateKeyPair,
    /// Whoever trusts the authority would take a node of such a name for the server.
    reserved: BTreeSet<String>,
}

impl NodeSigner {
    /// Signs with the authority of these certificates.
    #[must_use]
    pub fn new(pki: &Pki) -> NodeSigner {
        let mut reserved = servers_names();
        reserved.extend(pki.names.iter().cloned());
        NodeSigner { authority: pki.authority.clone(), reserved }
    }
}

impl CertificateSigner for NodeSigner {
    fn sign(&self, request: &str, node: &str) -> Result<String, String> {
        let asked = CertificateSigningRequestParams::from_pem(request)
            .map_err(|error| format!("the request cannot be read: {error}"))?;
        let subject = &asked.params.distinguished_name;
        let user = format!("system:node:{node}");
        let is = |kind: &DnType, wanted: &str| subject.get(kind).is_some_and(|v| text(v) == wanted);
        if !is(&DnType::CommonName, &user) || !is(&DnType::OrganizationName, GROUP) {
            return Err(format!("the subject must be `O={GROUP}, CN={user}`"));
        }
        let own = name(node).map_err(|error| error.to_string())?;
        if asked.params.subject_alt_names.iter().any(|name| *name != own) {
            return Err(format!("the certificate may name nothing but `{node}`"));
        }
        if self.reserved.contains(&node.to_ascii_lowercase()) {
            return Err(format!(
                "`{node}` is a name of the server; give the node another with `--node-name`"
            ));
        }
        let now = clock::system_time();
        let failed = |error: &dyn std::fmt::Display| format!("no certificate: {error}");
        let issuer = issuer(&self.authority, now).map_err(|error| failed(&error))?;
        let params = serving(node, now).map_err(|error| failed(&error))?;
        let signed =
            params.signed_by(&asked.public_key, &issuer).map_err(|error| failed(&error))?;
        Ok(signed.pem())
    }
}

/// The names that every server has, wherever it listens.
fn servers_names() -> BTreeSet<String> {
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    serving_names(nowhere, IpAddr::V4(ServiceRange::default().first()), None)
}

fn serving(node: &str, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = params("", now, LEAF_LIFE);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, GROUP);
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    params.subject_alt_names = vec![name(node)?];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A node may be named like an address.
fn name(node: &str) -> Result<SanType, rcgen::Error> {
    Ok(match node.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(node.try_into()?),
    })
}

fn text(value: &DnValue) -> &str {
    match value {
        DnValue::Utf8String(text) => text,
        DnValue::PrintableString(text) => text.as_str(),
        DnValue::Ia5String(text) => text.as_str(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use rcgen::KeyPair;

    use super::*;

    fn request(user: &str, group: &str, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn r133_a_certificate_names_the_node_that_asks_and_nothing_else() {
        let names = serving_names([192, 0, 2, 7].into(), [10, 0, 0, 1].into(), Some("Box"));
        let pki = Pki::in_memory(&names, SystemTime::now()).unwrap();
        let signer = NodeSigner::new(&pki);
        let (user, group) = ("system:node:a", "system:nodes");
        for names in [&["a"][..], &[]] {
            let pem = signer.sign(&request(user, group, names), "a").unwrap();
            assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
        }
        for (user, group, names, node) in [
            (user, group, &["a", "b"][..], "a"),
            (user, group, &["a", "10.0.0.1"], "a"),
            (user, group, &["a"], "b"),
            (user, "system:masters", &["a"], "a"),
            ("system:node:kubernetes", group, &["kubernetes"], "kubernetes"),
            ("system:node:127.0.0.1", group, &["127.0.0.1"], "127.0.0.1"),
            ("system:node:box", group, &["box"], "box"),
            ("system:node:192.0.2.7", group, &["192.0.2.7"], "192.0.2.7"),
        ] {
            let why = signer.sign(&request(user, group, names), node).unwrap_err();
            assert!(!why.is_empty());
        }
        assert!(signer.sign("no request", "a").is_err());
    }
}
