//! CertificateSigningRequest and ClusterTrustBundle as stored; signing is a signer's work.

use serde_json::json;
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::{keep, set_status, spec, texts};

/// Rules of CertificateSigningRequest.
pub(crate) struct CertificateSigningRequestRules;
/// Rules of ClusterTrustBundle.
pub(crate) struct ClusterTrustBundleRules;

const SECONDS_MIN: i64 = 600;

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
        if let Some(conditions) = conditions {
            object.map_mut("status").insert("conditions".to_owned(), conditions);
        }
        stamp(object, cx);
    }

    fn prepare_status(&self, object: &mut Object, _old: &Object, cx: &Cx) {
        stamp(object, cx);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if text(spec, "request").is_empty() {
            errors.invalid(&path.field("request"), "\"\"", "must be a PEM certificate request");
        }
        if texts(spec, "usages").is_empty() {
            errors.required(&path.field("usages"), "");
        }
        let signer = text(spec, "signerName");
        let domain = signer.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
        if signer.is_empty() {
            errors.required(&path.field("signerName"), "");
        } else if name::dns_subdomain(domain).is_some() || !domain.contains('.') {
            let why = "must be a domain and a name, such as example.com/signer";
            errors.invalid(&path.field("signerName"), format_args!("{signer:?}"), why);
        }
        if let Some(seconds) = spec.int_at(&["expirationSeconds"])
            && seconds < SECONDS_MIN
        {
            let why = format!("must be at least {SECONDS_MIN}");
            errors.invalid(&path.field("expirationSeconds"), seconds, &why);
        }
        validate_conditions(object, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_conditions_kept(object, old, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_conditions(object, errors);
        validate_conditions_kept(object, old, errors);
    }
}

impl Rules for ClusterTrustBundleRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        if text(spec(object), "trustBundle").is_empty() {
            errors.required(&path.field("trustBundle"), "");
        }
        let signer = text(spec(object), "signerName").replace('/', ":");
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

/// Conditions get the time of the write where they have none.
fn stamp(object: &mut Object, cx: &Cx) {
    let Some(status) = crate::stored::member(object, "status") else { return };
    for condition in tenure_machinery::validate::objects_mut(status, "conditions") {
        condition.set_default("status", "True");
        condition.set_default("lastUpdateTime", cx.now.as_str());
        condition.set_default("lastTransitionTime", cx.now.as_str());
    }
}

fn decisions(object: &Object) -> Vec<&str> {
    let Some(status) = object.map_at(&["status"]) else { return Vec::new() };
    objects(status, "conditions").map(|(_, condition)| text(condition, "type")).collect()
}

fn validate_conditions(object: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let list = status.field("conditions");
    let types = decisions(object);
    for (index, kind) in types.iter().enumerate() {
        let place = list.index(index);
        if kind.is_empty() {
            errors.required(&place.field("type"), "");
        }
        if types.iter().take(index).any(|other| other == kind) {
            errors.duplicate(&place.field("type"), format_args!("{kind:?}"));
        }
    }
    if types.contains(&"Approved") && types.contains(&"Denied") {
        errors.invalid(&list, format_args!("{types:?}"), "Approved and Denied exclude each other");
    }
}

/// A decision stands.
fn validate_conditions_kept(object: &Object, old: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let now = decisions(object);
    for kind in ["Approved", "Denied", "Failed"] {
        if decisions(old).contains(&kind) && !now.contains(&kind) {
            let why = format!("{kind} cannot be taken back");
            errors.forbidden(&status.field("conditions"), &why);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, updated};

    const GROUP: &str = "certificates.k8s.io";

    #[test]
    fn r136_signing_requests() {
        let kind = row(GROUP, "CertificateSigningRequest");
        assert_eq!(
            faults(&kind, json!({"spec": {}})),
            [
                "spec.request FieldValueInvalid",
                "spec.usages FieldValueRequired",
                "spec.signerName FieldValueRequired",
            ]
        );
        let old = json!({"spec": {"request": "AA==", "signerName": "example.com/s"}});
        let new = json!({"spec": {"request": "AQ=="}, "status": {"certificate": "AA=="}});
        let after = updated(&kind, old.clone(), new);
        assert_eq!(
            (after["spec"].clone(), after["status"].clone()),
            (old["spec"].clone(), json!({}))
        );
    }

    #[test]
    fn r136_trust_bundles_are_named_after_their_signer() {
        let kind = row(GROUP, "ClusterTrustBundle");
        let bundle = |name: &str| {
            json!({"metadata": {"name": name},
            "spec": {"signerName": "example.com/s", "trustBundle": "x"}})
        };
        assert!(faults(&kind, bundle("example.com:s:a")).is_empty());
        assert_eq!(faults(&kind, bundle("other")), ["metadata.name FieldValueInvalid"]);
    }
}
