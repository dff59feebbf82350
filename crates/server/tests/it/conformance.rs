//! What upstream's conformance suite asks of one kind after the other, as it asks it. Rules of
//! spec/api-server.md.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use crate::custom::{DEFINITIONS, definition};
use crate::custom_rules::WIDGETS;
use crate::house::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// `Certificates API should support CSR API operations`.
#[tokio::test]
async fn r136a_requests_for_certificates_are_written_through_every_endpoint() {
    let house = House::new().await;
    let mut params = CertificateParams::new(vec!["e2e.example.com".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, "e2e.example.com");
    let key = KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let certificate = STANDARD.encode(params.self_signed(&key).unwrap().pem());
    let signer = "example.com/e2e";
    let template = json!({
        "metadata": {"generateName": "e2e-example-csr-"},
        "spec": {
            "request": STANDARD.encode(request), "signerName": signer, "expirationSeconds": 3600,
            "usages": ["digital signature", "key encipherment", "server auth"],
        },
    });
    house.made(REQUESTS, template.clone()).await;
    house.made(REQUESTS, template.clone()).await;
    let made = house.made(REQUESTS, template).await;
    assert_eq!(made["spec"]["expirationSeconds"], 3600);
    let path = format!("{REQUESTS}/{}", made["metadata"]["name"].as_str().unwrap());
    let own = format!("{REQUESTS}?fieldSelector=spec.signerName%3D{}", signer.replace('/', "%2F"));
    let count = async || house.get(&own).await.with(200)["items"].as_array().unwrap().len();
    assert_eq!(count().await, 3);
    let annotate = |name: &str| json!({"metadata": {"annotations": {name: "true"}}});
    let mut object = house.merge(&path, annotate("patched")).await.with(200);
    object["metadata"]["annotations"]["updated"] = "true".into();
    let object = house.put(&path, object).await.with(200);
    assert_eq!(object["metadata"]["annotations"]["updated"], "true");
    for part in ["approval", "status"] {
        let read = house.get(&format!("{path}/{part}")).await.with(200);
        assert_eq!(read["kind"], "CertificateSigningRequest");
        assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    }
    let approval = format!("{path}/approval");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "e2e"});
    let mut patch = annotate("patchedapproval");
    patch["status"] = json!({"conditions": [condition("ApprovalPatch")]});
    let mut object = house.merge(&approval, patch).await.with(200);
    assert_eq!(object["metadata"]["annotations"]["patchedapproval"], "true");
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    assert_eq!((conditions.len(), &conditions[0]["type"]), (1, &json!("ApprovalPatch")));
    conditions.push(condition("Approved"));
    let object = house.put(&approval, object).await.with(200);
    let kinds = |object: &Value| -> Vec<String> {
        let all = object["status"]["conditions"].as_array().unwrap().iter();
        all.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&object), ["ApprovalPatch", "Approved"]);
    let status = format!("{path}/status");
    let mut patch = annotate("patchedstatus");
    patch["status"] = json!({"certificate": certificate});
    let mut object = house.merge(&status, patch).await.with(200);
    assert_eq!(object["status"]["certificate"], certificate);
    assert_eq!(object["metadata"]["annotations"]["patchedstatus"], "true");
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition("StatusUpdate"));
    let object = house.put(&status, object).await.with(200);
    assert_eq!(kinds(&object), ["ApprovalPatch", "Approved", "StatusUpdate"]);
    house.delete(&path).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
    assert_eq!(count().await, 2);
    house.delete(&own).await.with(200);
    assert_eq!(count().await, 0);
}

/// `Events API should ensure that an event can be fetched, patched, deleted, and listed`.
#[tokio::test]
async fn r136_an_event_of_the_newer_group_is_read_through_both() {
    let house = House::new().await;
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let label = "testevent-constant=true".replace('=', "%3D");
    let event = json!({
        "metadata": {"name": "event-test", "labels": {"testevent-constant": "true"}},
        "regarding": {"namespace": "default"}, "eventTime": "2017-09-19T13:49:16.000000Z",
        "note": "This is event-test", "action": "Do", "reason": "Test", "type": "Normal",
        "reportingController": "test-controller", "reportingInstance": "test-node",
    });
    house.made(events, event).await;
    for list in [
        format!("/apis/events.k8s.io/v1/events?labelSelector={label}"),
        format!("{events}?labelSelector={label}"),
        format!("{events}?fieldSelector=reportingController%3Dtest-controller"),
        "/api/v1/namespaces/default/events?fieldSelector=source%3Dtest-controller".to_owned(),
    ] {
        assert_eq!(names(&house.get(&list).await.with(200)), ["event-test"], "{list}");
    }
    let path = format!("{events}/event-test");
    let plain = async || {
        let mut object = house.get(&path).await.with(200);
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|member, _| member != "resourceVersion" && member != "managedFields");
        object
    };
    let mut wanted = plain().await;
    let series =
        |count: i64| json!({"count": count, "lastObservedTime": "2017-09-19T13:49:11.000000Z"});
    house.patch(&path, STRATEGIC, json!({"series": series(2)})).await.with(200);
    wanted["series"] = series(2);
    assert_eq!(plain().await, wanted);
    wanted["series"] = series(100);
    house.put(&path, wanted.clone()).await.with(200);
    assert_eq!(plain().await, wanted);
    house.delete(&path).await.with(200);
    assert_eq!(names(&house.get(events).await.with(200)), Vec::<String>::new());
}

/// `FieldValidation`, of custom resources.
#[tokio::test]
async fn r32_strict_applies_of_custom_objects_name_what_no_schema_has() {
    let house = House::new().await;
    let text = || json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"foo": text(), "template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {
                "metadata": {"type": "object", "properties": {"name": text()}},
                "spec": {"type": "object"},
            },
        }},
    }}});
    house.made(DEFINITIONS, definition(schema)).await;
    let path = format!("{WIDGETS}/w?fieldManager=m&fieldValidation=Strict");
    let head = "\napiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\n";
    let embedded = "spec:\n  template:\n    apiVersion: foo/v1\n    kind: Sub\n    metadata:\n      \
                    unknownSubMeta: unknown\n      name: subobject\n";
    for (rest, words) in [
        (
            "  unknownMeta: unknown\nspec: {}\n",
            ".metadata.unknownMeta: field not declared in schema",
        ),
        (embedded, ".spec.template.metadata.unknownSubMeta: field not declared in schema"),
        ("unknownField: unknown\n", ".unknownField: field not declared in schema"),
        (
            "spec:\n  unknown: uk1\n  foo: foo1\n  foo: foo2\n",
            "line 9: key \"foo\" already set in map",
        ),
    ] {
        let headers = [("content-type", "application/apply-patch+yaml")];
        let answer = house.ask("PATCH", &path, &headers, format!("{head}{rest}")).await;
        let message = answer.json["message"].as_str().unwrap_or_default().to_owned();
        assert!(answer.code >= 400 && message.contains(words), "{words}: {message}");
    }
    let good = format!("{head}spec:\n  unknown: uk1\n  foo: foo1\n");
    let headers = [("content-type", "application/apply-patch+yaml")];
    house.ask("PATCH", &path, &headers, good).await.with(201);
}
