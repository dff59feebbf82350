//! Asks for the certificates that projected volumes show: a key, and a PodCertificateRequest that
//! proves its possession (R89b). When one is asked for and what an answer means is the engine's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, SignatureAlgorithm};
use serde_json::json;
use tenure_downward::write_block;
use tenure_machinery::{Object, ObjectExt as _};

use crate::client::Client;

/// Every request of this group.
const GROUP: &str = "/apis/certificates.k8s.io/v1";

/// How an Ed25519 key begins, as PKCS#8 of the first version: what every reader of keys understands.
const ED25519_BEGIN: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// Where the 32 bytes of such a key stand, in every version.
const ED25519_SEED: std::ops::Range<usize> = 16..48;

/// The requests of a node's pods: all that a node may list.
pub(crate) fn collection(node: &str) -> String {
    format!("{GROUP}/podcertificaterequests?fieldSelector=spec.nodeName%3D{node}")
}

/// A key in PEM form, and a request of PKCS#10 signed with it, which says nothing else.
pub(crate) struct KeyAndProof {
    pub(crate) key: Vec<u8>,
    pub(crate) request: Vec<u8>,
}

/// Makes a key of this type.
///
/// # Errors
/// This node makes no keys of the type.
pub(crate) fn make_key(kind: &str) -> Result<KeyAndProof, String> {
    let algorithm: &'static SignatureAlgorithm = match kind {
        "ECDSAP256" => &rcgen::PKCS_ECDSA_P256_SHA256,
        "ECDSAP384" => &rcgen::PKCS_ECDSA_P384_SHA384,
        "ED25519" => &rcgen::PKCS_ED25519,
        other => {
            return Err(format!(
                "this node makes no keys of the type {other}; ECDSAP256, ECDSAP384 and ED25519 \
                 are those it makes"
            ));
        }
    };
    let failed = |error: rcgen::Error| format!("while making a key: {error}");
    let pair = KeyPair::generate_for(algorithm).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&pair).map_err(failed)?.der().to_vec();
    let mut der = pair.serialize_der();
    if kind == "ED25519"
        && let Some(seed) = der.get(ED25519_SEED)
    {
        der = [&ED25519_BEGIN[..], seed].concat();
    }
    Ok(KeyAndProof { key: write_block("PRIVATE KEY", &der).into_bytes(), request })
}

/// Makes a request for a pod; says its name.
///
/// # Errors
/// The server is away or says no.
pub(crate) async fn ask(
    client: &Client,
    pod: &Object,
    node: &Object,
    source: &Object,
    proof: &[u8],
) -> Result<String, String> {
    let (namespace, name) = (pod.namespace(), pod.name());
    let account = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}");
    let account_object = client.get(&path).await;
    let account_object =
        account_object.map_err(|error| format!("while fetching service account: {error}"))?;
    let uid = |object: &Object| object.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
    let mut spec = json!({
        "signerName": source.str_at(&["signerName"]).unwrap_or_default(),
        "podName": name, "podUID": uid(pod),
        "serviceAccountName": account, "serviceAccountUID": uid(&account_object),
        "nodeName": node.name(), "nodeUID": uid(node),
        "stubPKCS10Request": STANDARD.encode(proof),
    });
    for (theirs, ours) in [
        ("maxExpirationSeconds", "maxExpirationSeconds"),
        ("userAnnotations", "unverifiedUserAnnotations"),
    ] {
        if let Some(value) = source.get(theirs).filter(|value| !value.is_null())
            && let Some(spec) = spec.as_object_mut()
        {
            spec.insert(ours.to_owned(), value.clone());
        }
    }
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
        "metadata": {
            "namespace": namespace, "generateName": "req-",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid(pod)},
            ],
        },
        "spec": spec,
    });
    let request = request.as_object().cloned().unwrap_or_default();
    let path = format!("{GROUP}/namespaces/{namespace}/podcertificaterequests");
    let made = client.post(&path, &request).await;
    let made = made.map_err(|error| format!("while creating PodCertificateRequest: {error}"))?;
    Ok(made.name().to_owned())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use rcgen::PublicKeyData as _;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer as _;

    use super::*;

    #[test]
    fn r89b_a_request_is_signed_with_the_key_it_is_for_and_says_nothing_else() {
        for kind in ["ECDSAP256", "ECDSAP384", "ED25519"] {
            let made = make_key(kind).unwrap();
            let (rest, request) = X509CertificationRequest::from_der(&made.request).unwrap();
            assert!(rest.is_empty());
            request.verify_signature().unwrap();
            let info = &request.certification_request_info;
            assert_eq!(info.subject.iter().count(), 0, "{kind}");
            let text = std::str::from_utf8(&made.key).unwrap();
            assert!(text.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{kind}");
            let key = PrivateKeyDer::from_pem_slice(&made.key).unwrap();
            let pair = KeyPair::try_from(&key).unwrap();
            assert_eq!(pair.subject_public_key_info(), info.subject_pki.raw, "{kind}");
        }
        for kind in ["RSA3072", "RSA4096", "ECDSAP521", ""] {
            let why = make_key(kind).map(|_| ()).unwrap_err();
            assert!(why.starts_with("this node makes no keys of the type"), "{why}");
        }
    }
}
