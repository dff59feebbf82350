//! CertificateSigningRequest and ClusterTrustBundle as stored (R136a). Who may approve and sign is
//! asked elsewhere; signing is a signer's work.

pub(crate) mod pod_request;

use serde_json::{Value, json};
use tenure_machinery::signer::validate_signer;
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::certificate_request::{self, bytes, check_certificates};
use crate::stored::{keep, set_status, spec, texts};

/// Rules of CertificateSigningRequest.
pub(crate) struct CertificateSigningRequestRules;
/// Rules of ClusterTrustBundle.
pub(crate) struct ClusterTrustBundleRules;

const SECONDS_MIN: i64 = 600;
/// Who signs what no signer was named for, in versions before this one.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Decisions: they are true, and stand once made.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
/// What a certificate may be for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

impl Rules for CertificateSigningRequestRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, cx: &Cx) {
        keep(object, old, "spec");
        if cx.subresource != Some("approval") {
            keep(object, old, "status");
            return;
        }
        // Approval writes conditions and nothing else of the status.
        let conditions = object.at(&["status", "conditions"]).cloned();
        keep(object, old, "status");
        let status = object.map_mut("status");
        match conditions {
            Some(conditions) => status.insert("conditions".to_owned(), conditions),
            None => status.remove("conditions"),
        };
        stamp(object, old, cx);
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, cx: &Cx) {
        keep_decisions(object, old);
        stamp(object, old, cx);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if let Err(why) = certificate_request::of(object) {
            errors.invalid(&path.field("request"), "\"\"", &why);
        }
        validate_usages(spec, &path, errors);
        let signer = text(spec, "signerName");
        if signer == LEGACY_SIGNER {
            let why = "the legacy signerName is not allowed via this API version";
            errors.invalid(&path.field("signerName"), format_args!("{signer:?}"), why);
        } else {
            validate_signer(signer, &path.field("signerName"), errors);
        }
        if let Some(seconds) = spec.int_at(&["expirationSeconds"])
            && seconds < SECONDS_MIN
        {
            let why = format!("may not specify a duration less than {SECONDS_MIN} seconds");
            errors.invalid(&path.field("expirationSeconds"), seconds, &why);
        }
        validate_conditions(object, errors);
        validate_certificate(object, errors);
    }

    /// The plain path keeps the status, so what changed came by `approval`.
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_conditions_kept(object, old, errors);
        let certificate = Path::Root.field("status");
        if object.at(&["status", "certificate"]) != old.at(&["status", "certificate"]) {
            let why = "updates may not set certificate content";
            errors.forbidden(&certificate.field("certificate"), why);
        }
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_conditions(object, errors);
        validate_conditions_kept(object, old, errors);
        let status = Path::Root.field("status");
        for kind in ["Approved", "Denied"] {
            let (now, before) = (conditions(object, kind), conditions(old, kind));
            if now.len() > before.len() {
                let why = format!("updates may not add a condition of type {kind:?}");
                errors.forbidden(&status.field("conditions"), &why);
            } else if now.len() == before.len() && now != before {
                let why = format!("updates may not modify a condition of type {kind:?}");
                errors.forbidden(&status.field("conditions"), &why);
            }
        }
        validate_certificate(object, errors);
        let before = old.str_at(&["status", "certificate"]).unwrap_or_default();
        let now = object.str_at(&["status", "certificate"]).unwrap_or_default();
        if !before.is_empty() && now != before {
            let why = "updates may not modify existing certificate content";
            errors.forbidden(&status.field("certificate"), why);
        }
    }
}

impl Rules for ClusterTrustBundleRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let bundle = text(spec(object), "trustBundle");
        if let Err(why) = check_certificates(bundle.as_bytes(), true) {
            errors.invalid(&path.field("trustBundle"), "<value omitted>", &why);
        }
        let signer = text(spec(object), "signerName");
        if !signer.is_empty() {
            validate_signer(signer, &path.field("signerName"), errors);
        }
        let signer = signer.replace('/', ":");
        let named = object.name().starts_with(&format!("{signer}:"));
        let fits = if signer.is_empty() { !object.name().contains(':') } else { named };
        if !fits {
            let meta = Path::Root.field("metadata");
            let why = "must start with the signer's name, and have no colon without one";
            errors.invalid(&meta.field("name"), format_args!("{:?}", object.name()), why);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        validate_frozen(spec(object), spec(old), "signerName", &path, errors);
    }
}

/// Conditions get the time of the write where they have none, or that of the same condition before.
/// Decisions are repeated by whoever writes a status, and stay as they were made. One more or one less is left
/// to be refused.
fn keep_decisions(object: &mut Object, old: &Object) {
    for kind in ["Approved", "Denied"] {
        let before = conditions(old, kind);
        if conditions(object, kind).len() != before.len() {
            continue;
        }
        let Some(status) = crate::stored::member(object, "status") else { return };
        let now = tenure_machinery::validate::objects_mut(status, "conditions");
        let now = now.filter(|condition| text(condition, "type") == kind);
        for (now, before) in now.zip(before) {
            now.clone_from(before);
        }
    }
}

/// When a condition was written, and since when it holds.
fn stamp(object: &mut Object, old: &Object, cx: &Cx) {
    let before = |kind: &str, status: &str| {
        conditions(old, kind)
            .into_iter()
            .find(|condition| text(condition, "status") == status)
            .and_then(|condition| condition.get("lastTransitionTime").cloned())
    };
    let Some(status) = crate::stored::member(object, "status") else { return };
    for condition in tenure_machinery::validate::objects_mut(status, "conditions") {
        condition.set_default("lastUpdateTime", cx.now.as_str());
        let since = before(text(condition, "type"), text(condition, "status"));
        let now = || Value::from(cx.now.as_str());
        condition.set_default("lastTransitionTime", since.unwrap_or_else(now));
    }
}

fn conditions<'a>(object: &'a Object, kind: &str) -> Vec<&'a Object> {
    let Some(status) = object.map_at(&["status"]) else { return Vec::new() };
    let all = objects(status, "conditions").map(|(_, condition)| condition);
    all.filter(|condition| text(condition, "type") == kind).collect()
}

fn validate_usages(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let usages = texts(spec, "usages");
    let path = path.field("usages");
    if usages.is_empty() {
        errors.required(&path, "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.not_supported(&path.index(index), usage, &USAGES);
        }
        if usages.iter().take(index).any(|other| other == usage) {
            errors.duplicate(&path.index(index), format_args!("{usage:?}"));
        }
    }
}

fn validate_certificate(object: &Object, errors: &mut Errors) {
    let certificate = object.str_at(&["status", "certificate"]).unwrap_or_default();
    if certificate.is_empty() {
        return;
    }
    if let Err(why) = bytes(certificate).and_then(|pem| check_certificates(&pem, false)) {
        let status = Path::Root.field("status");
        errors.invalid(&status.field("certificate"), "<certificate data>", &why);
    }
}

fn validate_conditions(object: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let list = status.field("conditions");
    let Some(status) = object.map_at(&["status"]) else { return };
    let mut types: Vec<&str> = Vec::new();
    for (index, condition) in objects(status, "conditions") {
        let place = list.index(index);
        let kind = text(condition, "type");
        if kind.is_empty() {
            errors.required(&place.field("type"), "");
        }
        let allowed: &[&str] =
            if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match text(condition, "status") {
            "" => errors.required(&place.field("status"), ""),
            own if !allowed.contains(&own) => {
                errors.not_supported(&place.field("status"), own, allowed);
            }
            _ => {}
        }
        if types.contains(&kind) {
            errors.duplicate(&place.field("type"), format_args!("{kind:?}"));
        }
        types.push(kind);
    }
    if types.contains(&"Approved") && types.contains(&"Denied") {
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.invalid(&list, format_args!("{types:?}"), why);
    }
}

/// A decision stands.
fn validate_conditions_kept(object: &Object, old: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    for kind in DECISIONS {
        if conditions(object, kind).len() < conditions(old, kind).len() {
            let why = format!("updates may not remove a condition of type {kind:?}");
            errors.forbidden(&status.field("conditions"), &why);
        }
    }
}

#[cfg(test)]
mod tests;
