//! Rules of spec/api-server.md.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, PKCS_ED25519,
};
use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Kind, Object};

use crate::certificate_request::parse;
use crate::check::{faults, row, updated};

const GROUP: &str = "certificates.k8s.io";

fn request_pem(name: &str, group: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, name);
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn certificate_pem(authority: bool) -> String {
    let mut params = CertificateParams::default();
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

fn signing_request() -> Value {
    json!({
        "metadata": {"name": "r"},
        "spec": {
            "request": STANDARD.encode(request_pem("alice", "dev")),
            "signerName": "example.com/s", "usages": ["client auth"],
        },
        "status": {},
    })
}

fn with(mut object: Value, pointer: &str, member: &str, value: Value) -> Value {
    object.pointer_mut(pointer).unwrap()[member] = value;
    object
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

/// What is wrong with an object as it would be stored.
fn stored_faults(kind: &Kind, stored: &Value) -> Vec<String> {
    let mut errors = Errors::new();
    kind.rules.validate(&object(stored), &mut errors);
    let causes = errors.into_causes().into_iter();
    causes.map(|cause| format!("{} {}", cause.field, cause.reason.as_str())).collect()
}

/// What is wrong with a new status.
fn status_faults(kind: &Kind, old: &Value, new: &Value) -> Vec<String> {
    let (old, mut new) = (object(old), object(new));
    let cx = Cx {
        now: "2026-01-01T00:00:00Z".to_owned(),
        uid: "u".to_owned(),
        subresource: Some("status"),
        unlabelled: false,
    };
    kind.rules.prepare_status(&mut new, &old, &cx);
    let mut errors = Errors::new();
    kind.rules.validate_status(&new, &old, &mut errors);
    errors.into_causes().into_iter().map(|cause| cause.field).collect()
}

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
    assert!(faults(&kind, signing_request()).is_empty());
    let old = json!({"spec": {"request": "AA==", "signerName": "example.com/s"}});
    let new = json!({"spec": {"request": "AQ=="}, "status": {"certificate": "AA=="}});
    let after = updated(&kind, old.clone(), new);
    assert_eq!((after["spec"].clone(), after["status"].clone()), (old["spec"].clone(), json!({})));
}

#[test]
fn r136a_what_is_no_request_is_refused() {
    let kind = row(GROUP, "CertificateSigningRequest");
    let good = request_pem("alice", "dev");
    let parsed = parse(good.as_bytes()).unwrap();
    assert_eq!((parsed.common_name.as_str(), parsed.organizations), ("alice", vec!["dev".into()]));
    let other = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let other = CertificateParams::default().serialize_request(&other).unwrap().pem().unwrap();
    assert_eq!(parse(other.as_bytes()).unwrap().common_name, "rcgen self signed cert");

    // One bit of the signature.
    let lines: Vec<&str> = good.lines().filter(|line| !line.starts_with('-')).collect();
    let mut der = STANDARD.decode(lines.concat()).unwrap();
    *der.last_mut().unwrap() ^= 1;
    let wrap = |der: &[u8], label: &str| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let forged = wrap(&der, "CERTIFICATE REQUEST");
    *der.last_mut().unwrap() ^= 1;
    let longer = wrap(&[der.as_slice(), &[0]].concat(), "CERTIFICATE REQUEST");
    let renamed = wrap(&der, "CERTIFICATE");
    let headed = good.replacen('\n', "\nA: b\n\n", 1);
    for text in ["", "no pem", &forged, &longer, &renamed, &headed, &certificate_pem(false)] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
        let request = with(signing_request(), "/spec", "request", STANDARD.encode(text).into());
        assert_eq!(faults(&kind, request), ["spec.request FieldValueInvalid"], "{text}");
    }
}

#[test]
fn r136a_signers_usages_and_lifetimes() {
    let kind = row(GROUP, "CertificateSigningRequest");
    let of =
        |member: &str, value: Value| faults(&kind, with(signing_request(), "/spec", member, value));
    for signer in ["example.com/s", "kubernetes.io/kubelet-serving", "a.b/c.d"] {
        assert!(of("signerName", signer.into()).is_empty(), "{signer}");
    }
    for signer in [
        "example.com",
        "example/s",
        "example.com/",
        "/s",
        "example.com/a/b",
        "Example.com/s",
        "example..com/s",
        "example.com/S",
        "kubernetes.io/legacy-unknown",
    ] {
        assert_eq!(
            of("signerName", signer.into()),
            ["spec.signerName FieldValueInvalid"],
            "{signer}"
        );
    }
    assert_eq!(of("usages", json!(["ruling"])), ["spec.usages[0] FieldValueNotSupported"]);
    assert_eq!(of("usages", json!(["any", "any"])), ["spec.usages[1] FieldValueDuplicate"]);
    assert_eq!(of("expirationSeconds", 599.into()), ["spec.expirationSeconds FieldValueInvalid"]);
    assert!(of("expirationSeconds", 600.into()).is_empty());
}

#[test]
fn r136a_decisions_are_made_once_and_by_approval() {
    let kind = row(GROUP, "CertificateSigningRequest");
    let decided = |types: &[&str]| -> Value {
        let all = types.iter().map(|kind| json!({"type": kind, "status": "True"}));
        json!({"conditions": all.collect::<Vec<_>>()})
    };
    let under = |status: Value| with(signing_request(), "", "status", status);
    for (status, wrong) in [
        (decided(&["Approved"]), ""),
        (decided(&["Approved", "Denied"]), "status.conditions FieldValueInvalid"),
        (decided(&["Denied", "Denied"]), "status.conditions[1].type FieldValueDuplicate"),
        (decided(&[""]), "status.conditions[0].type FieldValueRequired"),
        (
            json!({"conditions": [{"type": "Approved"}]}),
            "status.conditions[0].status FieldValueRequired",
        ),
        (
            json!({"conditions": [{"type": "Approved", "status": "False"}]}),
            "status.conditions[0].status FieldValueNotSupported",
        ),
        (json!({"conditions": [{"type": "Other", "status": "False"}]}), ""),
        (json!({"certificate": STANDARD.encode("no")}), "status.certificate FieldValueInvalid"),
        (json!({"certificate": STANDARD.encode(certificate_pem(false))}), ""),
    ] {
        assert_eq!(stored_faults(&kind, &under(status.clone())).join(" "), wrong, "{status}");
    }
    // The status neither decides nor takes a decision back, and a certificate stays.
    let certificate =
        |authority| json!({"certificate": STANDARD.encode(certificate_pem(authority))});
    let given = under(certificate(false));
    let approved = under(decided(&["Approved"]));
    let denied =
        under(json!({"conditions": [{"type": "Approved", "status": "True", "reason": "x"}]}));
    for (old, new, wrong) in [
        (under(json!({})), approved.clone(), "status.conditions"),
        (approved.clone(), under(json!({})), "status.conditions"),
        (approved.clone(), denied, "status.conditions"),
        (under(json!({})), under(decided(&["Failed"])), ""),
        (under(json!({})), given.clone(), ""),
        (given, under(certificate(true)), "status.certificate"),
    ] {
        assert_eq!(status_faults(&kind, &old, &new).join(" "), wrong, "{old} {new}");
    }
}

#[test]
fn r136_trust_bundles_are_named_after_their_signer() {
    let kind = row(GROUP, "ClusterTrustBundle");
    let authority = certificate_pem(true);
    let bundle = |name: &str, text: &str| {
        json!({"metadata": {"name": name},
        "spec": {"signerName": "example.com/s", "trustBundle": text}})
    };
    assert!(faults(&kind, bundle("example.com:s:a", &authority)).is_empty());
    assert_eq!(faults(&kind, bundle("other", &authority)), ["metadata.name FieldValueInvalid"]);
    let twice = format!("{authority}{authority}");
    for text in ["", "x", &twice, &certificate_pem(false), &request_pem("a", "b")] {
        let wrong = faults(&kind, bundle("example.com:s:a", text));
        assert_eq!(wrong, ["spec.trustBundle FieldValueInvalid"], "{text}");
    }
}
