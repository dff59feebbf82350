//! Rules R138 to R140 of spec/api-server.md as data: a specification in, causes or members out.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::*;

mod annotations;
mod downward;
mod hostile;
mod recorded;
mod references;
mod updates;
mod warnings;
mod windows;

/// A specification and the causes it gives, in order.
struct Row {
    spec: &'static str,
    causes: &'static [(&'static str, &'static str)],
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

/// A pod named `p` with defaults, and with the account that admission would add.
fn pod(spec: Value) -> Object {
    let mut spec = object(spec);
    spec.entry("serviceAccountName").or_insert(json!("default"));
    default_pod_spec(&mut spec);
    object(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
}

fn causes(errors: &Errors) -> Vec<(String, String)> {
    let short = |reason: &str| reason.trim_start_matches("FieldValue").to_owned();
    errors.causes().iter().map(|c| (c.field.clone(), short(c.reason.as_str()))).collect()
}

fn check(rows: &[Row]) {
    for row in rows {
        let pod = pod(serde_json::from_str(row.spec).unwrap());
        let mut errors = Errors::new();
        validate_pod(&pod, &mut errors);
        validate_pod_create(&pod, &mut errors);
        let plain = Withheld { volume_parity: true, ..Withheld::default() };
        plain.refuse(pod["spec"].as_object().unwrap(), &Path::Root.field("spec"), &mut errors);
        let want: Vec<(String, String)> =
            row.causes.iter().map(|(f, r)| ((*f).to_owned(), (*r).to_owned())).collect();
        assert_eq!(causes(&errors), want, "{}", row.spec);
    }
}

fn container(extra: Value) -> Value {
    let mut container = object(json!({"name": "c", "image": "example.com/app:v1"}));
    container.extend(object(extra));
    Value::Object(container)
}

#[test]
fn r138_the_smallest_pod_is_filled() {
    let pod = pod(json!({"containers": [{"name": "c", "image": "example.com/app:v1"}]}));
    let want = json!({
        "containers": [{
            "image": "example.com/app:v1",
            "imagePullPolicy": "IfNotPresent",
            "name": "c",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(pod["spec"], want);
}

#[test]
fn r138_templates_get_neither_service_links_nor_requests() {
    let limits = json!({"resources": {"limits": {"cpu": "1"}}});
    let mut template = object(json!({"spec": {"containers": [container(limits)]}}));
    default_pod_template(&mut template);
    assert_eq!(template["spec"].get("enableServiceLinks"), None);
    assert_eq!(template["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(template["metadata"], json!({}));
}

#[test]
fn r138_pull_policy_follows_the_tag() {
    for (image, want) in [
        ("example.com/app", "Always"),
        ("example.com/app:latest", "Always"),
        ("example.com:5000/app", "Always"),
        ("example.com:5000/app:1", "IfNotPresent"),
        ("example.com/app@sha256:00", "IfNotPresent"),
        ("example.com/app:v1", "IfNotPresent"),
    ] {
        let pod = pod(json!({"containers": [{"name": "c", "image": image}]}));
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], want, "{image}");
    }
}

#[test]
fn r138_ports_probes_and_hooks_are_filled() {
    let pod = pod(json!({"containers": [container(json!({
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "startupProbe": {"exec": {"command": ["true"]}},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
    }))]}));
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    let get = json!({"path": "/", "port": 80, "scheme": "HTTP"});
    assert_eq!(
        container["livenessProbe"],
        json!({
            "failureThreshold": 3, "httpGet": get, "periodSeconds": 10, "successThreshold": 1,
            "timeoutSeconds": 1,
        })
    );
    assert_eq!(container["startupProbe"]["periodSeconds"], 10);
    assert_eq!(container["lifecycle"]["preStop"]["httpGet"], get);
}

#[test]
fn r138_volumes_are_filled() {
    let pod = pod(json!({"containers": [container(json!({}))], "volumes": [
        {"name": "a"},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "d", "downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "f", "hostPath": {"path": "/x"}},
        {"name": "g", "emptyDir": {"medium": "Memory"}},
    ]}));
    assert_eq!(
        pod["spec"]["volumes"],
        json!([
            {"emptyDir": {}, "name": "a"},
            {"name": "b", "secret": {"defaultMode": 420, "secretName": "s"}},
            {"configMap": {"defaultMode": 420, "name": "c"}, "name": "c"},
            {"downwardAPI": {"defaultMode": 420, "items": [
                {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}, "path": "x"}
            ]}, "name": "d"},
            {"name": "e", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}
            ]}},
            {"hostPath": {"path": "/x", "type": ""}, "name": "f"},
            {"emptyDir": {"medium": "Memory"}, "name": "g"},
        ])
    );
}

#[test]
fn r138_requests_follow_limits_and_are_rounded() {
    let pod = pod(json!({"containers": [container(json!({"resources": {
        "limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.0001"},
    }}))]}));
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "1m", "memory": "1Gi"},
        })
    );
}

#[test]
fn r138_old_account_name_gives_the_new_one() {
    let mut spec = object(json!({"serviceAccount": "a", "terminationGracePeriodSeconds": -5}));
    default_pod_spec(&mut spec);
    assert_eq!(spec["serviceAccountName"], "a");
    assert_eq!(spec["terminationGracePeriodSeconds"], 1);
}

#[test]
fn r138_host_network_ports_are_the_hosts() {
    let ports = json!({"ports": [{"containerPort": 80}]});
    let pod = pod(json!({"hostNetwork": true, "containers": [container(ports)]}));
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
}

#[test]
fn r138_class_follows_from_resources() {
    let with = |resources: Value| json!({"resources": resources});
    let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (containers, want) in [
        (vec![json!({})], "BestEffort"),
        (vec![with(both.clone())], "Guaranteed"),
        (vec![with(json!({"limits": {"cpu": "1"}}))], "Burstable"),
        (vec![with(json!({"requests": {"memory": "1"}}))], "Burstable"),
        (vec![with(both), json!({})], "Burstable"),
        (vec![with(json!({"limits": {"example.com/card": "1"}}))], "BestEffort"),
    ] {
        let containers: Vec<Value> = containers.into_iter().map(container).collect();
        let pod = pod(json!({"containers": containers}));
        assert_eq!(qos_class(pod["spec"].as_object().unwrap()), want, "{containers:?}");
    }
}
