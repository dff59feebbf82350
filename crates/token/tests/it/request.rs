//! Rules of spec/api-server.md: what a `TokenRequest` asks, gets and is refused.

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object};
use tenure_token::{
    BoundKind, BoundObject, IssueError, Issuing, NodeClaim, TokenGrant, TokenSubject, grant, issue,
    requested_bound_object, verify,
};

use crate::forge::*;

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

fn request(spec: Value) -> Object {
    object(json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {}, "spec": spec,
    }))
}

fn account() -> TokenSubject {
    TokenSubject { namespace: "default".to_owned(), name: "s".to_owned(), uid: "a-1".to_owned() }
}

const ISSUING: Issuing<'_> =
    Issuing { issuer: ISSUER, audiences: &[ISSUER, "second"], now: NOW, id: "t-9" };

fn ask(spec: Value, bound: Option<Value>) -> Result<TokenGrant, Failure> {
    let bound = bound.map(object);
    grant(&request(spec), &account(), bound.as_ref(), None, ISSUING)
}

fn pod() -> Value {
    json!({ "metadata": { "name": "web", "uid": "p-1" }, "spec": { "serviceAccountName": "s" } })
}

#[test]
fn r143_a_plain_request_gets_an_hour_and_the_servers_audiences() {
    let granted = ask(json!({}), None).unwrap();
    assert_eq!(granted.claims.expires_at, NOW + 3600);
    assert_eq!(granted.claims.audiences, [ISSUER, "second"]);
    assert_eq!(granted.claims.bound, None);
    assert_eq!(granted.claims.warn_after, None);
    assert_eq!(
        Value::Object(granted.response),
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "metadata": {
                "name": "s", "namespace": "default", "uid": "a-1",
                "creationTimestamp": "2033-05-18T03:33:20Z",
            },
            "spec": {
                "audiences": [ISSUER, "second"], "boundObjectRef": null, "expirationSeconds": 3600,
            },
            "status": { "expirationTimestamp": "2033-05-18T04:33:20Z" },
        })
    );
}

#[test]
fn r143_the_sealed_answer_bears_a_token_that_verifies() {
    let answer = ask(json!({ "expirationSeconds": 1200 }), None).unwrap().sealed(&keys()).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let verified = verify(&keys(), token, NOW, ISSUER, &[ISSUER]).unwrap();
    assert_eq!(verified.username(), "system:serviceaccount:default:s");
    assert_eq!(verified.groups(), ["system:serviceaccounts", "system:serviceaccounts:default"]);
    assert_eq!(verified.id, "t-9");
    assert_eq!(answer["spec"]["expirationSeconds"], 1200);
}

#[test]
fn r143_claims_are_laid_out_as_clients_know_them() {
    let mut claims = claims();
    let pod = BoundObject { kind: BoundKind::Pod, name: "web".to_owned(), uid: "p-1".to_owned() };
    claims.bound = Some(pod);
    claims.node = Some(NodeClaim { name: "n".to_owned(), uid: "n-1".to_owned() });
    claims.warn_after = Some(NOW + 3607);
    let token = issue(&keys(), &claims).unwrap();
    assert_eq!(
        part(&token, 1),
        json!({
            "iss": ISSUER, "sub": "system:serviceaccount:default:builder", "aud": [ISSUER],
            "exp": NOW + 3600, "iat": NOW, "nbf": NOW, "jti": "t-1",
            "kubernetes.io": {
                "namespace": "default", "serviceaccount": { "name": "builder", "uid": "a-1" },
                "pod": { "name": "web", "uid": "p-1" }, "node": { "name": "n", "uid": "n-1" },
                "warnafter": NOW + 3607,
            },
        })
    );
    let verified = check(&token).unwrap();
    assert_eq!(verified.warn_after, Some(NOW + 3607));
    let extra = verified.extra();
    let told = extra.iter().map(|(name, values)| (name.rsplit('/').next().unwrap(), &*values[0]));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("credential-id", "JTI=t-1"),
            ("node-name", "n"),
            ("node-uid", "n-1"),
            ("pod-name", "web"),
            ("pod-uid", "p-1"),
        ]
    );
}

#[test]
fn r143_too_short_or_too_long_a_time_is_invalid() {
    for (seconds, why) in [
        (60, "may not specify a duration less than 10 minutes"),
        (599, "may not specify a duration less than 10 minutes"),
        (0, "may not specify a duration less than 10 minutes"),
        (-1, "may not specify a duration less than 10 minutes"),
        ((1_i64 << 32) + 1, "may not specify a duration larger than 2^32 seconds"),
        (i64::MAX, "may not specify a duration larger than 2^32 seconds"),
    ] {
        let failure = ask(json!({ "expirationSeconds": seconds }), None).unwrap_err();
        let status: Value = serde_json::from_str(&failure.to_text()).unwrap();
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
        assert_eq!(
            status["details"],
            json!({
                "group": "authentication.k8s.io", "kind": "TokenRequest",
                "causes": [{
                    "reason": "FieldValueInvalid", "field": "spec.expirationSeconds",
                    "message": format!("Invalid value: {seconds}: {why}"),
                }],
            })
        );
    }
    for seconds in [600, 1 << 32] {
        let granted = ask(json!({ "expirationSeconds": seconds }), None).unwrap();
        assert_eq!(granted.claims.expires_at, NOW + seconds);
    }
}

#[test]
fn r143_members_of_another_type_are_bad_requests() {
    for spec in [
        json!({ "expirationSeconds": "3600" }),
        json!({ "expirationSeconds": 1e30 }),
        json!({ "expirationSeconds": 3600.5 }),
        json!({ "audiences": "a" }),
        json!({ "audiences": ["a", 1] }),
        json!({ "boundObjectRef": "web" }),
    ] {
        assert_eq!(ask(spec.clone(), None).unwrap_err().code, 400, "{spec}");
    }
    let spec = json!({ "expirationSeconds": null, "audiences": null, "boundObjectRef": null });
    assert_eq!(ask(spec, None).unwrap().claims.expires_at, NOW + 3600);
}

#[test]
fn r143_asked_audiences_replace_the_servers() {
    let granted = ask(json!({ "audiences": ["vault"] }), None).unwrap();
    assert_eq!(granted.claims.audiences, ["vault"]);
    assert_eq!(granted.response["spec"]["audiences"], json!(["vault"]));
    assert_eq!(ask(json!({ "audiences": [] }), None).unwrap().claims.audiences.len(), 2);
}

#[test]
fn r143_another_uid_than_the_accounts_is_a_conflict() {
    let mut body = request(json!({}));
    body["metadata"]["uid"] = "a-0".into();
    let failure = grant(&body, &account(), None, None, ISSUING).unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (409, "Conflict"));
    assert_eq!(
        failure.message,
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"s\": the UID in the \
         token request (a-0) does not match the UID of the service account (a-1)"
    );
    body["metadata"]["uid"] = "a-1".into();
    assert!(grant(&body, &account(), None, None, ISSUING).is_ok());
}

#[test]
fn r143_another_name_or_namespace_than_the_accounts_is_invalid() {
    for member in ["name", "namespace"] {
        let mut body = request(json!({}));
        body["metadata"][member] = "other".into();
        let failure = grant(&body, &account(), None, None, ISSUING).unwrap_err();
        let status: Value = serde_json::from_str(&failure.to_text()).unwrap();
        assert_eq!(status["code"], 422);
        assert_eq!(status["details"]["causes"][0]["field"], format!("metadata.{member}"));
        assert_eq!(status["details"]["name"], "s");
    }
}

#[test]
fn r143_a_token_is_bound_to_a_pod_that_uses_the_account() {
    let spec = json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "web" } });
    assert_eq!(requested_bound_object(&request(spec.clone())), Some((BoundKind::Pod, "web")));
    let granted = ask(spec.clone(), Some(pod())).unwrap();
    let bound = granted.claims.bound.unwrap();
    assert_eq!((bound.kind, &*bound.name, &*bound.uid), (BoundKind::Pod, "web", "p-1"));
    assert_eq!(granted.claims.node, None);
    assert_eq!(granted.response["spec"]["boundObjectRef"], spec["boundObjectRef"]);

    let mut other = pod();
    other["spec"]["serviceAccountName"] = "else".into();
    let failure = ask(spec.clone(), Some(other)).unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (400, "BadRequest"));

    let failure = ask(spec, None).unwrap_err();
    assert_eq!((failure.code, &*failure.message), (404, "pods \"web\" not found"));
}

#[test]
fn r143_the_node_of_a_bound_pod_is_told() {
    let spec = json!({ "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "web" } });
    let mut placed = pod();
    placed["spec"]["nodeName"] = "n".into();
    let (body, placed) = (request(spec), object(placed));
    let node = object(json!({ "metadata": { "name": "n", "uid": "n-1" } }));
    for (found, uid) in [(Some(&node), "n-1"), (None, "")] {
        let granted = grant(&body, &account(), Some(&placed), found, ISSUING).unwrap();
        assert_eq!(
            granted.claims.node,
            Some(NodeClaim { name: "n".to_owned(), uid: uid.to_owned() })
        );
        let token = issue(&keys(), &granted.claims).unwrap();
        assert_eq!(check(&token).unwrap().node, granted.claims.node);
    }
}

#[test]
fn r143_a_token_is_bound_to_a_secret_or_a_node() {
    for (kind, bound) in [("Secret", BoundKind::Secret), ("Node", BoundKind::Node)] {
        let spec = json!({
            "boundObjectRef": { "apiVersion": "v1", "kind": kind, "name": "x", "uid": "u-1" }
        });
        let found = json!({ "metadata": { "name": "x", "uid": "u-1" } });
        let granted = ask(spec.clone(), Some(found)).unwrap();
        assert_eq!(granted.claims.bound.as_ref().unwrap().kind, bound);
        assert_eq!(
            check(&issue(&keys(), &granted.claims).unwrap()).unwrap().bound,
            granted.claims.bound
        );
        assert_eq!(ask(spec, None).unwrap_err().code, 404);
    }
}

#[test]
fn r143_another_uid_than_the_bound_objects_is_a_conflict() {
    let spec = json!({
        "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "p-0" }
    });
    let failure = ask(spec, Some(pod())).unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (409, "Conflict"));
    assert!(failure.message.starts_with("Operation cannot be fulfilled on Pod \"web\": the UID"));
    assert!(failure.message.contains("(p-0)"));
}

#[test]
fn r143_other_kinds_are_not_bound_to() {
    for (version, kind, said) in [
        ("v1", "ConfigMap", "/v1, Kind=ConfigMap"),
        ("", "ConfigMap", "/, Kind=ConfigMap"),
        ("apps/v1", "Pod", "apps/v1, Kind=Pod"),
        ("v1", "pod", "/v1, Kind=pod"),
    ] {
        let spec =
            json!({ "boundObjectRef": { "apiVersion": version, "kind": kind, "name": "x" } });
        assert_eq!(requested_bound_object(&request(spec.clone())), None);
        let failure = ask(spec, None).unwrap_err();
        assert_eq!(failure.code, 400);
        assert_eq!(failure.message, format!("cannot bind token to object of type {said}"));
    }
}

#[test]
fn r143_attestations_without_a_webhook_are_invalid() {
    let failure = ask(json!({ "attestations": { "a": ["b"] }, "expirationSeconds": 1 }), None);
    let status: Value = serde_json::from_str(&failure.unwrap_err().to_text()).unwrap();
    assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 1);
    assert_eq!(status["details"]["causes"][0]["field"], "spec.attestations");
    assert!(ask(json!({ "attestations": {} }), None).is_ok());
}

#[test]
fn r143_a_fault_of_the_spec_is_told_before_a_missing_object() {
    let spec = json!({
        "expirationSeconds": 1,
        "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": "web" },
    });
    assert_eq!(ask(spec, None).unwrap_err().code, 422);
}

#[test]
fn r143_a_pods_own_token_lasts_a_year_and_warns_after_an_hour() {
    let reference = json!({ "apiVersion": "v1", "kind": "Pod", "name": "web" });
    let spec = json!({ "expirationSeconds": 3607, "boundObjectRef": reference });
    let granted = ask(spec, Some(pod())).unwrap();
    assert_eq!(granted.claims.expires_at, NOW + 365 * 24 * 3600);
    assert_eq!(granted.claims.warn_after, Some(NOW + 3607));
    assert_eq!(granted.response["status"]["expirationTimestamp"], "2033-05-18T04:33:27Z");

    for (spec, bound) in [
        (json!({ "expirationSeconds": 3607 }), None),
        (json!({ "expirationSeconds": 3608, "boundObjectRef": reference }), Some(pod())),
        (
            json!({
                "expirationSeconds": 3607, "boundObjectRef": reference, "audiences": ["vault"],
            }),
            Some(pod()),
        ),
    ] {
        let granted = ask(spec, bound).unwrap();
        assert_eq!(granted.claims.warn_after, None);
        assert!(granted.claims.expires_at < NOW + 3700);
    }
}

#[test]
fn r143_claims_that_would_be_refused_are_not_signed() {
    let broken = |change: fn(&mut tenure_token::Claims)| {
        let mut claims = claims();
        change(&mut claims);
        issue(&keys(), &claims).unwrap_err()
    };
    assert_eq!(broken(|claims| claims.subject.name.clear()), IssueError::Claims);
    assert_eq!(broken(|claims| claims.subject.namespace = "a:b".to_owned()), IssueError::Claims);
    assert_eq!(broken(|claims| claims.subject.uid.clear()), IssueError::Claims);
    assert_eq!(broken(|claims| claims.audiences.clear()), IssueError::Claims);
    assert_eq!(broken(|claims| claims.issuer.clear()), IssueError::Claims);
    assert_eq!(broken(|claims| claims.expires_at = NOW - 1), IssueError::Claims);
    let node = |claims: &mut tenure_token::Claims| {
        claims.node = Some(NodeClaim { name: "n".to_owned(), uid: String::new() });
    };
    assert_eq!(broken(node), IssueError::Claims, "a node is told of pods only");
    assert_eq!(broken(|claims| claims.audiences = vec!["a".repeat(70_000)]), IssueError::TooLong);
}
