//! Requests for serving certificates: refused, or signed for the node that asks and for nothing else.
#![no_main]

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use tenure_host::pki::{NodeSigner, Pki};
use tenure_server::certificate_signing::CertificateSigner;

static SIGNER: OnceLock<NodeSigner> = OnceLock::new();

fuzz_target!(|text: &str| {
    let signer = SIGNER.get_or_init(|| {
        let pki = Pki::in_memory(&BTreeSet::new(), SystemTime::now()).expect("an authority");
        NodeSigner::new(&pki)
    });
    for node in ["a", "b"] {
        let Ok(signed) = signer.sign(text, node) else { continue };
        assert_eq!(node, "a", "no seed asks for another node");
        assert!(signed.starts_with("-----BEGIN CERTIFICATE-----"));
    }
});
