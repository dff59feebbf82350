//! Rules of spec/api-server.md.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    PublicKeyData as _, SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};
use tenure_machinery::{Errors, Object};

use crate::check::{created, faults, row, update_faults};

const GROUP: &str = "certificates.k8s.io";
const KIND: &str = "PodCertificateRequest";

fn stub(key: &KeyPair) -> String {
    let request = CertificateParams::default().serialize_request(key).unwrap();
    STANDARD.encode(request.der())
}

fn request(spec: Value) -> Value {
    let mut whole = json!({
        "signerName": "example.com/s", "podName": "p", "podUID": "pu",
        "serviceAccountName": "s", "serviceAccountUID": "su", "nodeName": "n", "nodeUID": "nu",
        "maxExpirationSeconds": 3600,
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "r"}, "spec": whole})
}

fn proved(key: &KeyPair, said: &str) -> Value {
    let proof = key.sign(said.as_bytes()).unwrap();
    request(json!({
        "pkixPublicKey": STANDARD.encode(key.subject_public_key_info()),
        "proofOfPossession": STANDARD.encode(proof),
    }))
}

#[test]
fn r136e_a_pod_asks_with_names_times_and_a_key_it_has() {
    let kind = row(GROUP, KIND);
    let key = KeyPair::generate().unwrap();
    let stub = stub(&key);
    let with = |spec: Value| {
        let mut spec = spec;
        spec["stubPKCS10Request"] = stub.as_str().into();
        request(spec)
    };
    for (asked, expected) in [
        (with(json!({})), &[][..]),
        (with(json!({"maxExpirationSeconds": 91 * 86400})), &[]),
        (with(json!({"signerName": "s"})), &["spec.signerName FieldValueInvalid"]),
        (with(json!({"podName": "P"})), &["spec.podName FieldValueInvalid"]),
        (with(json!({"podUID": ""})), &["spec.podUID FieldValueInvalid"]),
        (with(json!({"nodeUID": "u".repeat(129)})), &["spec.nodeUID FieldValueTooLong"]),
        (with(json!({"serviceAccountName": ""})), &["spec.serviceAccountName FieldValueInvalid"]),
        (with(json!({"maxExpirationSeconds": null})), &[]),
        (
            with(json!({"maxExpirationSeconds": 3599})),
            &["spec.maxExpirationSeconds FieldValueInvalid"],
        ),
        (
            with(json!({"maxExpirationSeconds": 91 * 86400 + 1})),
            &["spec.maxExpirationSeconds FieldValueInvalid"],
        ),
        (
            with(json!({"maxExpirationSeconds": 86401, "signerName": "kubernetes.io/s"})),
            &["spec.maxExpirationSeconds FieldValueInvalid"],
        ),
        (
            with(json!({"unverifiedUserAnnotations": {"plain": "x"}})),
            &["spec.unverifiedUserAnnotations FieldValueInvalid"],
        ),
        (request(json!({})), &["spec FieldValueInvalid"]),
        (with(json!({"pkixPublicKey": "QQ=="})), &["spec FieldValueInvalid"]),
        (request(json!({"pkixPublicKey": "QQ=="})), &["spec FieldValueInvalid"]),
        (
            request(json!({"stubPKCS10Request": "QQ=="})),
            &["spec.stubPKCS10Request FieldValueInvalid"],
        ),
        (
            request(json!({"pkixPublicKey": "QQ==", "proofOfPossession": "QQ=="})),
            &["spec.pkixPublicKey FieldValueInvalid"],
        ),
    ] {
        assert_eq!(faults(&kind, asked.clone()), expected, "{asked}");
    }
    let mut forged = STANDARD.decode(&stub).unwrap();
    *forged.last_mut().unwrap() ^= 1;
    let forged = request(json!({"stubPKCS10Request": STANDARD.encode(forged)}));
    assert_eq!(faults(&kind, forged), ["spec.stubPKCS10Request FieldValueInvalid"]);
}

#[test]
fn r136e_who_shows_a_key_signs_the_uid_of_the_pod_with_it() {
    let kind = row(GROUP, KIND);
    for algorithm in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        assert!(faults(&kind, proved(&key, "pu")).is_empty(), "{algorithm:?}");
        let refused = ["spec.proofOfPossession FieldValueInvalid"];
        assert_eq!(faults(&kind, proved(&key, "other")), refused, "{algorithm:?}");
    }
    // The proof is over SHA-256, whatever the curve.
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    assert_eq!(faults(&kind, proved(&key, "pu")), ["spec.proofOfPossession FieldValueInvalid"]);
}

#[test]
fn r136e_what_was_asked_stays_as_it_was_asked() {
    let kind = row(GROUP, KIND);
    let key = KeyPair::generate().unwrap();
    let asked = |pod: &str| request(json!({"stubPKCS10Request": stub(&key), "podName": pod}));
    let mut answered = asked("p");
    answered["status"] = json!({"certificateChain": "x"});
    assert_eq!(created(&kind, answered)["status"], json!({}));
    let old = asked("p");
    let mut new = old.clone();
    new["spec"]["podName"] = "q".into();
    assert_eq!(update_faults(&kind, old, new), ["spec FieldValueInvalid"]);
}

fn object(spec: &Value, status: Value) -> Object {
    let mut object = spec.as_object().cloned().unwrap();
    object.insert("status".into(), status);
    object
}

fn status_faults(asked: &Value, old: Value, new: Value) -> Vec<String> {
    let mut errors = Errors::new();
    let (old, new) = (object(asked, old), object(asked, new));
    row(GROUP, KIND).rules.validate_status(&new, &old, &mut errors);
    let causes = errors.into_causes().into_iter();
    causes.map(|cause| format!("{} {}", cause.field, cause.reason.as_str())).collect()
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Why", "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z"})
}

#[test]
fn r136e_a_request_is_answered_once_and_in_full() {
    let key = KeyPair::generate().unwrap();
    let mut asked = request(json!({"stubPKCS10Request": stub(&key)}));
    asked["spec"]["maxExpirationSeconds"] = (2 * 86400).into();
    let chain = |key: &KeyPair| {
        let mut params = CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(2024, 1, 2);
        params.self_signed(key).unwrap().pem()
    };
    let issued = json!({
        "conditions": [condition("Issued")], "certificateChain": chain(&key),
        "notBefore": "2024-01-01T00:00:00Z", "notAfter": "2024-01-02T00:00:00Z",
        "beginRefreshAt": "2024-01-01T12:00:00Z",
    });
    let with = |member: &str, value: Value| {
        let mut status = issued.clone();
        status[member] = value;
        status
    };
    let denied = json!({"conditions": [condition("Denied")]});
    let failed = json!({"conditions": [condition("Failed")]});
    let both = json!({"conditions": [condition("Denied"), condition("Failed")]});
    let mut untrue = denied.clone();
    untrue["conditions"][0]["status"] = "False".into();
    let mut bare = denied.clone();
    bare["conditions"][0]["reason"] = "".into();
    let chain_wrong = ["status.certificateChain FieldValueInvalid"];
    for (old, new, expected) in [
        (json!({}), issued.clone(), &[][..]),
        (json!({}), denied.clone(), &[]),
        (json!({}), failed, &[]),
        (json!({}), json!({}), &[]),
        (issued.clone(), issued.clone(), &[]),
        (issued.clone(), denied.clone(), &["status FieldValueInvalid"]),
        (denied.clone(), json!({}), &["status FieldValueInvalid"]),
        (json!({}), json!({"certificateChain": "x"}), &["status FieldValueInvalid"]),
        (
            json!({}),
            json!({"conditions": [condition("Denied")], "certificateChain": "x"}),
            &["status FieldValueInvalid"],
        ),
        (json!({}), both, &["status.conditions.[1].type FieldValueInvalid"]),
        (json!({}), untrue, &["status.conditions.[0].status FieldValueNotSupported"]),
        (json!({}), bare, &["status.conditions[0].reason FieldValueRequired"]),
        (
            json!({}),
            json!({"conditions": [condition("Other")]}),
            &["status.conditions.[0].type FieldValueNotSupported"],
        ),
        (json!({}), with("certificateChain", json!("")), &chain_wrong),
        (json!({}), with("certificateChain", json!(key.serialize_pem())), &chain_wrong),
        (
            json!({}),
            with("certificateChain", json!(chain(&KeyPair::generate().unwrap()))),
            &chain_wrong,
        ),
        (json!({}), with("notBefore", Value::Null), &["status.notBefore FieldValueRequired"]),
        (
            json!({}),
            with("notBefore", json!("2024-01-01T00:00:01Z")),
            &["status.notBefore FieldValueInvalid"],
        ),
        (
            json!({}),
            with("notAfter", json!("2024-01-03T00:00:00Z")),
            &["status.notAfter FieldValueInvalid"],
        ),
        (
            json!({}),
            with("beginRefreshAt", json!("2024-01-01T00:09:59Z")),
            &["status.beginRefreshAt FieldValueInvalid"],
        ),
        (
            json!({}),
            with("beginRefreshAt", json!("2024-01-01T23:50:01Z")),
            &["status.beginRefreshAt FieldValueInvalid"],
        ),
    ] {
        assert_eq!(status_faults(&asked, old.clone(), new.clone()), expected, "{old} {new}");
    }
    asked["spec"]["maxExpirationSeconds"] = 3600.into();
    assert_eq!(status_faults(&asked, json!({}), issued), chain_wrong);
}
