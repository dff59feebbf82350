//! Attacks on a running `tenure up`, one class of fault per module: each test does what an attacker
//! would and expects to be refused.

mod accepted_and_ignored;
mod caller;
mod certificate_requests;
mod confused_deputy;
mod create_by_update;
mod exhaustion;
mod host_files;
mod impersonation;
mod isolation;
mod labels_escalate;
mod node_identity;
mod node_port;
mod pod_security;
mod private_files;
mod running_pods;
mod selector_as_name;
mod stale_permits;
mod watch_ends;

/// A request for a certificate, in PEM form.
fn signing_request(user: &str, group: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    params.distinguished_name.push(rcgen::DnType::CommonName, user);
    let key = rcgen::KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}
