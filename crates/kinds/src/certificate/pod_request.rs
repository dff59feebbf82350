//! PodCertificateRequest as stored: made whole, answered once (R136e). When the answer is given, and by whom, is
//! looked at elsewhere.

use jiff::Timestamp;
use serde_json::json;
use tenure_machinery::signer::{lifetime_seconds, validate_signer, validate_user_annotations};
use tenure_machinery::validate::{objects, same, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::der_parser::asn1_rs::BitString;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521,
    OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::verify::verify_signature;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use crate::certificate_request::bytes;
use crate::stored::{is_new, member, set_status, spec};

/// Rules of PodCertificateRequest.
pub(crate) struct PodCertificateRequestRules;

const UID_BYTES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 10 * 1024;
const CHAIN_BYTES_MAX: usize = 100 * 1024;
const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const HOUR_SECONDS: i64 = 60 * 60;
/// How long a certificate lives that was asked for without a word about it.
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;
/// A certificate is renewed this long after it began and before it ends.
const REFRESH_SECONDS_MIN: i64 = 10 * 60;
/// How requests are answered.
const ANSWERS: [&str; 3] = ["Denied", "Failed", "Issued"];

/// What proofs of possession are signed with, as certificates write it.
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
const ECDSA_SHA256: &[u8] =
    &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const RSA_PSS_SHA256: &[u8] = &[
    0x30, 0x1e, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, 0x30, 0x11, 0xa0,
    0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
];

impl Rules for PodCertificateRequestRules {
    fn default(&self, object: &mut Object) {
        if let Some(spec) = member(object, "spec") {
            spec.set_default("maxExpirationSeconds", DAY_SECONDS);
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }

    /// What is stored does not change, so that it is looked at once.
    fn validate(&self, object: &Object, errors: &mut Errors) {
        if is_new(object) {
            validate_spec(spec(object), errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "spec", &Path::Root, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_conditions(object, errors);
        if !errors.is_empty() {
            return;
        }
        let path = Path::Root.field("status");
        let unchanged = same(object.get("status"), old.get("status"));
        match (answer(old), answer(object)) {
            (Some(_), _) if !unchanged => {
                let why = "immutable after PodCertificateRequest is issued, denied, or failed";
                errors.invalid(&path, "<value omitted>", why);
            }
            (Some(_), _) => {}
            (None, Some("Issued")) => validate_issued(object, errors),
            (None, Some(_)) => {
                let status = object.map_at(&["status"]);
                let only = |(member, value): (&String, _)| {
                    member == "conditions" || same(Some(value), None)
                };
                if status.is_some_and(|status| !status.iter().all(only)) {
                    let why = "non-condition status fields must be empty when denying or failing \
                               the PodCertificateRequest";
                    errors.invalid(&path, "<value omitted>", why);
                }
            }
            (None, None) if !unchanged => {
                let why = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \
                           \"Failed\"";
                errors.invalid(&path, "<value omitted>", why);
            }
            (None, None) => {}
        }
    }
}

/// How the request was answered.
fn answer(object: &Object) -> Option<&str> {
    let status = object.map_at(&["status"])?;
    let mut conditions = objects(status, "conditions").map(|(_, condition)| condition);
    conditions
        .find(|it| ANSWERS.contains(&text(it, "type")) && text(it, "status") == "True")
        .map(|it| text(it, "type"))
}

fn validate_spec(spec: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let signer = text(spec, "signerName");
    validate_signer(signer, &path.field("signerName"), errors);
    if let Some(annotations) = spec.map_at(&["unverifiedUserAnnotations"]) {
        validate_user_annotations(annotations, &path.field("unverifiedUserAnnotations"), errors);
    }
    for (named, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        let value = text(spec, named);
        if let Some(why) = name::dns_subdomain(value) {
            errors.invalid(&path.field(named), format_args!("{value:?}"), why);
        }
        let value = text(spec, uid);
        if value.is_empty() {
            errors.invalid(&path.field(uid), "\"\"", "must not be empty");
        } else if value.len() > UID_BYTES_MAX {
            errors.too_long(&path.field(uid), UID_BYTES_MAX);
        }
    }
    let place = path.field("maxExpirationSeconds");
    let Some(seconds) = spec.int_at(&["maxExpirationSeconds"]) else {
        return errors.required(&place, "must be set");
    };
    let bounds = lifetime_seconds(signer);
    if !bounds.contains(&seconds) {
        let why = format!("must be in the range [{}, {}]", bounds.start(), bounds.end());
        errors.invalid(&place, seconds, &why);
    }
    let given = |member| !text(spec, member).is_empty();
    match (given("stubPKCS10Request"), given("pkixPublicKey"), given("proofOfPossession")) {
        (true, false, false) => validate_stub(spec, &path.field("stubPKCS10Request"), errors),
        (false, true, true) => validate_proof(spec, &path, errors),
        _ => {
            let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) \
                       must be set";
            errors.invalid(&path, "<value omitted>", why);
        }
    }
}

/// A request of a certificate, of which only the key counts: it signed the request.
fn validate_stub(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(der) = decoded(spec, "stubPKCS10Request", path, errors) else { return };
    let Some(request) = read_request(&der) else {
        return errors.invalid(path, "<value omitted>", "must be a valid PKCS#10 CSR");
    };
    if let Err(why) = check_key(&request.certification_request_info.subject_pki) {
        errors.invalid(path, "<value omitted>", why);
    } else if request.verify_signature().is_err() {
        errors.invalid(path, "<value omitted>", "invalid signature");
    }
}

/// A key, and the pod's uid signed with it.
fn validate_proof(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (place, proof_place) = (path.field("pkixPublicKey"), path.field("proofOfPossession"));
    let Some(der) = decoded(spec, "pkixPublicKey", &place, errors) else { return };
    let Some(proof) = decoded(spec, "proofOfPossession", &proof_place, errors) else { return };
    let Some(key) = read_key(&der) else {
        let why = "must be a valid PKIX-serialized public key";
        return errors.invalid(&place, "<value omitted>", why);
    };
    if let Err(why) = check_key(&key) {
        return errors.invalid(&place, "<value omitted>", why);
    }
    let algorithm = if key.algorithm.algorithm == OID_SIG_ED25519 {
        ED25519
    } else if key.algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
        ECDSA_SHA256
    } else {
        RSA_PSS_SHA256
    };
    let said = text(spec, "podUID").as_bytes();
    let signed = AlgorithmIdentifier::from_der(algorithm).is_ok_and(|(_, algorithm)| {
        verify_signature(&key, &algorithm, &BitString::new(0, &proof), said).is_ok()
    });
    if !signed {
        let why = "could not verify proof-of-possession signature";
        errors.invalid(&proof_place, "<value omitted>", why);
    }
}

fn decoded(spec: &Object, member: &str, path: &Path<'_>, errors: &mut Errors) -> Option<Vec<u8>> {
    match bytes(text(spec, member)) {
        Ok(bytes) if bytes.len() > KEY_BYTES_MAX => errors.too_long(path, KEY_BYTES_MAX),
        Ok(bytes) => return Some(bytes),
        Err(why) => errors.invalid(path, "<value omitted>", &why),
    }
    None
}

fn read_request(der: &[u8]) -> Option<X509CertificationRequest<'_>> {
    let read = X509CertificationRequest::from_der(der).ok();
    read.filter(|(rest, _)| rest.is_empty()).map(|(_, request)| request)
}

fn read_key(der: &[u8]) -> Option<SubjectPublicKeyInfo<'_>> {
    let read = SubjectPublicKeyInfo::from_der(der).ok();
    read.filter(|(rest, _)| rest.is_empty()).map(|(_, key)| key)
}

/// Which keys are strong enough.
fn check_key(key: &SubjectPublicKeyInfo<'_>) -> Result<(), &'static str> {
    let kind = &key.algorithm.algorithm;
    if *kind == OID_SIG_ED25519 {
        return Ok(());
    }
    if *kind == OID_KEY_TYPE_EC_PUBLIC_KEY {
        let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
        let known = [OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521];
        let good = curve.is_some_and(|curve| known.contains(&curve));
        return good.then_some(()).ok_or("elliptic public keys must use curve P256, P384, or P521");
    }
    if *kind == OID_PKCS1_RSAENCRYPTION {
        let bits = key.parsed().map_or(0, |key| key.key_size());
        let good = matches!(bits, 3072 | 4096);
        return good.then_some(()).ok_or("RSA keys must have modulus size 3072 or 4096");
    }
    Err("unknown public key type; supported types are Ed25519, ECDSA, and RSA")
}

fn validate_conditions(object: &Object, errors: &mut Errors) {
    let status_path = Path::Root.field("status");
    let path = status_path.field("conditions");
    let Some(status) = object.map_at(&["status"]) else { return };
    let mut answered = false;
    for (index, condition) in objects(status, "conditions") {
        // Upstream writes the index of these two as if it were a member.
        let shown = format!("[{index}]");
        let place = path.field(&shown);
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if !ANSWERS.contains(&kind) {
            errors.not_supported(&place.field("type"), kind, &ANSWERS);
            continue;
        }
        if answered {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&place.field("type"), format_args!("{kind:?}"), why);
        }
        answered = true;
        if status != "True" {
            errors.not_supported(&place.field("status"), status, &["True"]);
        }
        validate_condition(condition, &path.index(index), errors);
    }
}

fn validate_condition(condition: &Object, path: &Path<'_>, errors: &mut Errors) {
    if text(condition, "lastTransitionTime").is_empty() {
        errors.required(&path.field("lastTransitionTime"), "");
    }
    let reason = text(condition, "reason");
    let place = path.field("reason");
    if reason.is_empty() {
        errors.required(&place, "");
    } else if !is_reason(reason) {
        let why = "a condition reason must start with alphabetic character, optionally followed by a \
                   string of alphanumeric characters or '_,:', and must end with an alphanumeric \
                   character or '_'";
        errors.invalid(&place, format_args!("{reason:?}"), why);
    }
    if reason.len() > REASON_BYTES_MAX {
        errors.too_long(&place, REASON_BYTES_MAX);
    }
    if text(condition, "message").len() > MESSAGE_BYTES_MAX {
        errors.too_long(&path.field("message"), MESSAGE_BYTES_MAX);
    }
    if let Some(generation) = condition.int_at(&["observedGeneration"]).filter(|it| *it < 0) {
        let why = "must be greater than or equal to zero";
        errors.invalid(&path.field("observedGeneration"), generation, why);
    }
}

fn is_reason(text: &str) -> bool {
    let within = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b':');
    text.bytes().all(within)
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && text.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The certificates, and the times said of the first, which is for the key that was asked with.
fn validate_issued(object: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let path = status.field("certificateChain");
    let chain = object.str_at(&["status", "certificateChain"]).unwrap_or_default();
    if chain.len() > CHAIN_BYTES_MAX {
        return errors.too_long(&path, CHAIN_BYTES_MAX);
    }
    let shown = "<value omitted>";
    let read: Result<Vec<Pem>, _> = Pem::iter_from_buffer(chain.as_bytes()).collect();
    let Ok(blocks) = read else {
        let why = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(&path, shown, why);
    };
    let Some(first) = blocks.first() else {
        let why = "issued certificate chain must contain at least one certificate";
        return errors.invalid(&path, shown, why);
    };
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let why = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
            return errors.invalid(&path, shown, why);
        }
        if read_certificate(&block.contents).is_none() {
            let why = "a certificate of the chain does not parse as valid X.509";
            return errors.invalid(&path, shown, why);
        }
    }
    let Some(leaf) = read_certificate(&first.contents) else { return };
    validate_names(&leaf, &path, errors);
    if !is_for_key(&leaf, spec(object)) {
        let why = "leaf certificate was not issued to the requested public key";
        return errors.invalid(&path, shown, why);
    }
    validate_times(object, &leaf, errors);
}

fn read_certificate(der: &[u8]) -> Option<X509Certificate<'_>> {
    let read = X509Certificate::from_der(der).ok();
    read.filter(|(rest, _)| rest.is_empty()).map(|(_, certificate)| certificate)
}

fn validate_names(leaf: &X509Certificate<'_>, path: &Path<'_>, errors: &mut Errors) {
    let Ok(Some(names)) = leaf.subject_alternative_name() else { return };
    for named in &names.value.general_names {
        let GeneralName::DNSName(dns) = named else { continue };
        if dns.split('.').any(str::is_empty) {
            let why = "leaf certificate's DNSName should not be empty, contain '..', or start or end with '.'";
            errors.invalid(path, format_args!("{dns:?}"), why);
        }
    }
}

fn is_for_key(leaf: &X509Certificate<'_>, spec: &Object) -> bool {
    let own = leaf.public_key().raw;
    let given = |member| bytes(text(spec, member)).unwrap_or_default();
    let (stub, key) = (given("stubPKCS10Request"), given("pkixPublicKey"));
    match read_request(&stub) {
        Some(request) => request.certification_request_info.subject_pki.raw == own,
        None => read_key(&key).is_some_and(|key| key.raw == own),
    }
}

fn validate_times(object: &Object, leaf: &X509Certificate<'_>, errors: &mut Errors) {
    let path = Path::Root.field("status");
    let time = |member: &str| {
        let text = object.str_at(&["status", member]);
        text.and_then(|text| text.parse::<Timestamp>().ok()).map(Timestamp::as_second)
    };
    for (member, why) in [
        ("notBefore", "must be present and consistent with the issued certificate"),
        ("notAfter", "must be present and consistent with the issued certificate"),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ] {
        if time(member).is_none() {
            errors.required(&path.field(member), why);
        }
    }
    let (Some(begins), Some(ends), Some(refresh)) =
        (time("notBefore"), time("notAfter"), time("beginRefreshAt"))
    else {
        return;
    };
    let validity = leaf.validity();
    let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let most = spec(object).int_at(&["maxExpirationSeconds"]).unwrap_or_default();
    let life = not_after.saturating_sub(not_before);
    let mut wrong = |member: &str, value: i64, why: &str| {
        errors.invalid(&path.field(member), value, why);
    };
    if begins != not_before {
        let why = "must be set to the NotBefore time encoded in the leaf certificate";
        wrong("notBefore", begins, why);
    } else if ends != not_after {
        let why = "must be set to the NotAfter time encoded in the leaf certificate";
        wrong("notAfter", ends, why);
    } else if life < HOUR_SECONDS {
        wrong("certificateChain", life, "leaf certificate lifetime must be >= 1 hour");
    } else if life > most {
        let why =
            format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})");
        wrong("certificateChain", life, &why);
    } else if refresh < begins.saturating_add(REFRESH_SECONDS_MIN) {
        wrong("beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore");
    } else if refresh > ends.saturating_sub(REFRESH_SECONDS_MIN) {
        wrong("beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter");
    }
}

#[cfg(test)]
mod tests;
