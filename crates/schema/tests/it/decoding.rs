//! Rows of decoding: bodies as clients send them, bodies as the API writes them.

use serde_json::{Value, json};
use tenure_schema::decode;

use crate::{id, object};

fn decoded(of: &str, body: Value) -> Value {
    let mut body = object(body);
    decode(id(of), &mut body).unwrap_or_else(|wrong| panic!("{}", wrong.message));
    Value::Object(body)
}

fn refused(of: &str, body: Value) -> String {
    decode(id(of), &mut object(body)).unwrap_err().message
}

#[test]
fn r13_wrong_types_are_refused_with_the_path() {
    let rows = [
        ("api.core.v1.ConfigMap", json!({"data": "text"}), "data: expected an object, found text"),
        (
            "api.core.v1.ConfigMap",
            json!({"data": {"k": 1}}),
            "data.k: expected text, found a number",
        ),
        (
            "api.core.v1.ConfigMap",
            json!({"binaryData": {"k": "%%%"}}),
            "binaryData.k: expected base64 text, found text",
        ),
        (
            "api.core.v1.ConfigMap",
            json!({"immutable": "true"}),
            "immutable: expected true or false, found text",
        ),
        (
            "api.apps.v1.Deployment",
            json!({"spec": {"replicas": 1.0}}),
            "spec.replicas: expected a 32-bit integer, found a number",
        ),
        (
            "api.apps.v1.Deployment",
            json!({"spec": {"replicas": 2_147_483_648_i64}}),
            "spec.replicas: expected a 32-bit integer, found a number",
        ),
        (
            "api.core.v1.Pod",
            json!({"spec": {"containers": [{"name": "a"}, {"resources": {"limits": {"cpu": "1x"}}}]}}),
            "spec.containers[1].resources.limits.cpu: expected a quantity, found text",
        ),
        (
            "api.core.v1.Pod",
            json!({"metadata": {"deletionTimestamp": "yesterday"}}),
            "metadata.deletionTimestamp: expected a time as in RFC 3339, found text",
        ),
        (
            "api.coordination.v1.Lease",
            json!({"spec": {"renewTime": "2020-01-02T03:04:05Z"}}),
            "spec.renewTime: expected a time as in RFC 3339 with microseconds, found text",
        ),
        (
            "api.core.v1.Service",
            json!({"spec": {"ports": [{"targetPort": 1.5}]}}),
            "spec.ports[0].targetPort: expected a 32-bit integer or text, found a number",
        ),
        ("api.core.v1.Pod", json!({"spec": []}), "spec: expected an object, found a list"),
        (
            "api.core.v1.Pod",
            json!({"spec": {"containers": {}}}),
            "spec.containers: expected a list, found an object",
        ),
        (
            "api.core.v1.Pod",
            json!({"metadata": {"labels": {"a": true}}}),
            "metadata.labels.a: expected text, found true or false",
        ),
    ];
    for (of, body, sentence) in rows {
        assert_eq!(refused(of, body), sentence);
    }
}

#[test]
fn r13_unknown_members_are_dropped_and_named() {
    let mut pod = object(json!({
        "apiVersion": "v1", "kind": "Pod", "odd": 1,
        "metadata": {"name": "p", "Labels": {}},
        "spec": {"nope": null, "containers": [{"name": "c", "bar": {"x": 1}}]},
    }));
    let noticed = decode(id("api.core.v1.Pod"), &mut pod).unwrap();
    assert_eq!(noticed.unknown, ["odd", "metadata.Labels", "spec.nope", "spec.containers[0].bar"]);
    assert_eq!(
        Value::Object(pod),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "resources": {}}]}, "status": {},
        })
    );
}

#[test]
fn at_most_a_hundred_unknown_members_are_named() {
    let mut body = object((0..300).map(|n| (format!("m{n}"), Value::from(n))).collect());
    let noticed = decode(id("api.core.v1.ConfigMap"), &mut body).unwrap();
    assert_eq!(noticed.unknown.len(), 100);
}

#[test]
fn r13_zero_values_are_written_as_the_api_writes_them() {
    let rows = [
        ("api.core.v1.ConfigMap", json!({}), json!({"metadata": {}})),
        (
            "api.core.v1.PodSpec",
            json!({"hostNetwork": false, "nodeName": "", "priority": 0, "shareProcessNamespace": false,
                   "volumes": [], "nodeSelector": {}, "securityContext": {}, "containers": [{"name": "c"}]}),
            json!({"priority": 0, "shareProcessNamespace": false, "securityContext": {},
                   "containers": [{"name": "c", "resources": {}}]}),
        ),
        (
            "api.apps.v1.DeploymentSpec",
            json!({"minReadySeconds": 0, "paused": false, "replicas": 0, "selector": {},
                   "template": {"spec": {"containers": [{"name": "c"}]}}}),
            json!({"replicas": 0, "selector": {}, "strategy": {},
                   "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}}}),
        ),
        (
            "api.apps.v1.StatefulSetStatus",
            json!({}),
            json!({"replicas": 0, "availableReplicas": 0}),
        ),
        (
            "api.apps.v1.DaemonSetStatus",
            json!({}),
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ),
        ("api.core.v1.ServiceStatus", json!({}), json!({"loadBalancer": {}})),
        ("api.rbac.v1.ClusterRole", json!({"rules": []}), json!({"metadata": {}, "rules": null})),
        (
            "api.authentication.v1.TokenRequestSpec",
            json!({"audiences": ["a"], "expirationSeconds": 600}),
            json!({"audiences": ["a"], "boundObjectRef": null, "expirationSeconds": 600}),
        ),
        (
            "api.core.v1.PodCondition",
            json!({"type": "Ready", "status": "True"}),
            json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}),
        ),
        (
            "apimachinery.meta.v1.ObjectMeta",
            json!({"creationTimestamp": null, "generation": 0, "labels": {}}),
            json!({}),
        ),
        (
            "api.core.v1.Secret",
            json!({"data": {"c": ""}}),
            json!({"metadata": {}, "data": {"c": ""}}),
        ),
        (
            "api.core.v1.HostPathVolumeSource",
            json!({"path": "/", "type": ""}),
            json!({"path": "/", "type": ""}),
        ),
    ];
    for (of, body, written) in rows {
        assert_eq!(decoded(of, body), written, "{of}");
    }
}

#[test]
fn nulls_are_absent_and_null_items_are_zero() {
    assert_eq!(
        decoded(
            "api.core.v1.ConfigMap",
            json!({"data": {"k": null}, "immutable": null, "binaryData": {"b": null}})
        ),
        json!({"metadata": {}, "data": {"k": ""}, "binaryData": {"b": ""}})
    );
    assert_eq!(
        decoded("api.core.v1.Container", json!({"name": "c", "args": ["a", null], "env": [null]})),
        json!({"name": "c", "args": ["a", ""], "env": [{"name": ""}], "resources": {}})
    );
}

#[test]
fn scalars_take_the_form_that_the_api_writes() {
    let rows = [
        (
            "apimachinery.meta.v1.ObjectMeta",
            "deletionTimestamp",
            json!("2020-01-02T03:04:05.678+02:00"),
            json!("2020-01-02T01:04:05Z"),
        ),
        (
            "api.coordination.v1.LeaseSpec",
            "renewTime",
            json!("2020-01-02T03:04:05.000000Z"),
            json!("2020-01-02T03:04:05.000000Z"),
        ),
        (
            "api.coordination.v1.LeaseSpec",
            "renewTime",
            json!("2020-01-02T03:04:05.123456+01:00"),
            json!("2020-01-02T02:04:05.123456Z"),
        ),
        ("api.core.v1.EmptyDirVolumeSource", "sizeLimit", json!("1024Mi"), json!("1Gi")),
        ("api.core.v1.EmptyDirVolumeSource", "sizeLimit", json!("0.5"), json!("500m")),
        ("api.core.v1.EmptyDirVolumeSource", "sizeLimit", json!(5), json!("5")),
        ("api.core.v1.HTTPGetAction", "port", json!("http"), json!("http")),
        ("api.core.v1.HTTPGetAction", "port", json!(80), json!(80)),
    ];
    for (of, member, sent, written) in rows {
        let body = Value::Object([(member.to_owned(), sent)].into_iter().collect());
        assert_eq!(decoded(of, body)[member], written, "{of}.{member}");
    }
    assert_eq!(
        decoded("api.core.v1.Secret", json!({"data": {"k": "YWJj\nZA=="}}))["data"]["k"],
        "YWJjZA=="
    );
    for odd in [
        "2020-01-02 03:04:05Z",
        "2020-01-02T03:04Z",
        "2020-01-02T03:04:05",
        "2020-01-02T03:04:05+0100",
        "2020-01-02T03:04:05.Z",
        "",
        "é",
    ] {
        refused("apimachinery.meta.v1.ObjectMeta", json!({"deletionTimestamp": odd}));
    }
    for odd in ["YQ", "YQ=", "Y Q==", "é"] {
        refused("api.core.v1.Secret", json!({"data": {"k": odd}}));
    }
}

#[test]
fn r13_a_claim_inside_a_stateful_set_keeps_its_type() {
    let template =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}});
    let spec = decoded("api.apps.v1.StatefulSetSpec", json!({"volumeClaimTemplates": [template]}));
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!(claim["kind"], "PersistentVolumeClaim");
    assert_eq!(claim["spec"], json!({"resources": {}}));
    assert_eq!(claim["status"], json!({}));
}

#[test]
fn schemas_inside_schemas_are_pruned_without_a_word() {
    let mut schema = object(json!({
        "type": "object", "odd": 1,
        "additionalProperties": {"type": "string", "odd": 2},
        "properties": {
            "a": {"items": {"type": "string", "odd": 3}},
            "b": {"additionalProperties": true},
            "c": {"default": {"odd": 4}},
        },
    }));
    let of = id("apiextensions_apiserver.apiextensions.v1.JSONSchemaProps");
    let noticed = decode(of, &mut schema).unwrap();
    assert_eq!(noticed.unknown, ["odd"]);
    let schema = Value::Object(schema);
    assert_eq!(schema["additionalProperties"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["a"]["items"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["b"]["additionalProperties"], true);
    assert_eq!(schema["properties"]["c"]["default"], json!({"odd": 4}));
}

#[test]
fn values_that_are_too_deep_are_refused() {
    let mut schema = json!({});
    for _ in 0..600 {
        schema = json!({"not": schema});
    }
    let of = "apiextensions_apiserver.apiextensions.v1.JSONSchemaProps";
    assert!(refused(of, schema).ends_with("nested too deeply"));
}
