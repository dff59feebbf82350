//! R139: what an update of a pod may change, and what the two narrow doors let through.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Object};

use super::{causes, container, object, pod};
use crate::podspec::*;

type Check = fn(&Object, &Object, &mut Errors);

/// The causes of a change, made by merging `patch` into the specification.
fn change(old: &Object, patch: Value, check: Check) -> Vec<(String, String)> {
    let mut new = old.clone();
    let spec = new.get_mut("spec").and_then(Value::as_object_mut).unwrap();
    spec.extend(object(patch));
    default_pod_spec(spec);
    let mut errors = Errors::new();
    validate_pod(&new, &mut errors);
    check(&new, old, &mut errors);
    causes(&errors)
}

fn old_pod() -> Object {
    let resources = json!({"resources": {"limits": {"cpu": "1"}}});
    pod(json!({
        "containers": [container(resources)],
        "activeDeadlineSeconds": 100,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    }))
}

fn spec_forbidden() -> Vec<(String, String)> {
    vec![("spec".to_owned(), "Forbidden".to_owned())]
}

#[test]
fn r139_allowed_changes_pass() {
    let old = old_pod();
    let limits = json!({"image": "example.com/app:v2", "resources": {"limits": {"cpu": "1"}}});
    for patch in [
        json!({}),
        json!({"containers": [container(limits)]}),
        json!({"activeDeadlineSeconds": 50}),
        json!({"tolerations": [
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
            {"key": "x", "operator": "Exists"},
        ]}),
    ] {
        assert_eq!(change(&old, patch.clone(), validate_pod_update), [], "{patch}");
    }
}

#[test]
fn r139_other_changes_give_one_cause() {
    let old = old_pod();
    let env = json!({"env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1"}}});
    for patch in [
        json!({"nodeName": "n"}),
        json!({"restartPolicy": "Never"}),
        json!({"hostNetwork": true}),
        json!({"terminationGracePeriodSeconds": 5}),
        json!({"containers": [container(env)]}),
        json!({"containers": [container(json!({"resources": {"limits": {"cpu": "2"}}}))]}),
    ] {
        assert_eq!(change(&old, patch.clone(), validate_pod_update), spec_forbidden(), "{patch}");
    }
}

#[test]
fn r139_named_changes_have_their_own_cause() {
    let old = old_pod();
    let kept = json!({"image": "", "resources": {"limits": {"cpu": "1"}}});
    let same = json!({"resources": {"limits": {"cpu": "1"}}});
    for (patch, field, reason) in [
        (json!({"activeDeadlineSeconds": 200}), "spec.activeDeadlineSeconds", "Invalid"),
        (json!({"tolerations": []}), "spec.tolerations", "Forbidden"),
        (json!({"containers": [container(kept)]}), "spec.containers[0].image", "Required"),
        (
            json!({"containers": [container(same), {"name": "d", "image": "x"}]}),
            "spec.containers",
            "Forbidden",
        ),
        (json!({"schedulingGates": [{"name": "g"}]}), "spec.schedulingGates[0].name", "Forbidden"),
    ] {
        let want = [(field.to_owned(), reason.to_owned())];
        assert_eq!(change(&old, patch.clone(), validate_pod_update), want, "{patch}");
    }
}

#[test]
fn r139_gated_pods_may_be_narrowed() {
    let old = pod(json!({
        "containers": [container(json!({}))],
        "schedulingGates": [{"name": "g"}],
        "nodeSelector": {"a": "b"},
    }));
    let term = json!({"matchExpressions": [{"key": "k", "operator": "Exists"}]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = json!({"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}});
    for patch in [
        json!({"nodeSelector": {"a": "b", "c": "d"}}),
        json!({"schedulingGates": []}),
        json!({"affinity": affinity}),
    ] {
        assert_eq!(change(&old, patch.clone(), validate_pod_update), [], "{patch}");
    }
    let want = [("spec.nodeSelector".to_owned(), "Invalid".to_owned())];
    assert_eq!(change(&old, json!({"nodeSelector": {}}), validate_pod_update), want);
}

#[test]
fn r139_whoever_may_change_a_part_of_a_pod_changes_nothing_of_its_metadata() {
    let mut old = old_pod();
    let metadata = json!({"name": "p", "labels": {"app": "web"}, "finalizers": ["example.com/f"]});
    old.insert("metadata".to_owned(), metadata);
    for prepare in [crate::podspec::prepare_ephemeral_update, crate::podspec::prepare_resize] {
        let mut new = old.clone();
        let other = json!({
            "name": "p", "resourceVersion": "7", "labels": {"app": "bank"}, "generateName": "g",
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
        });
        new.insert("metadata".to_owned(), other);
        prepare(&mut new, &old);
        let kept = json!({
            "name": "p", "resourceVersion": "7",
            "labels": {"app": "web"}, "finalizers": ["example.com/f"],
        });
        assert_eq!(new.get("metadata"), Some(&kept));
    }
}

#[test]
fn r139_ephemeral_containers_are_only_added() {
    let debug = json!({"name": "d", "image": "example.com/debug:1"});
    let mut old = old_pod();
    assert_eq!(
        change(&old, json!({"ephemeralContainers": [debug]}), validate_ephemeral_update),
        []
    );
    let spec = old.get_mut("spec").and_then(Value::as_object_mut).unwrap();
    spec.insert("ephemeralContainers".to_owned(), json!([debug]));
    default_pod_spec(spec);
    let want = [("spec.ephemeralContainers".to_owned(), "Forbidden".to_owned())];
    let none = json!({"ephemeralContainers": []});
    assert_eq!(change(&old, none, validate_ephemeral_update), want);
    let other = json!({"ephemeralContainers": [{"name": "d", "image": "example.com/debug:2"}]});
    assert_eq!(change(&old, other, validate_ephemeral_update), want);
    let probe = json!({"ephemeralContainers": [
        debug,
        {"name": "e", "image": "x", "ports": [{"containerPort": 1}], "targetContainerName": "none"},
    ]});
    assert_eq!(
        change(&old, probe, validate_ephemeral_update),
        [
            ("spec.ephemeralContainers[1].targetContainerName".to_owned(), "NotFound".to_owned()),
            ("spec.ephemeralContainers[1].ports".to_owned(), "Forbidden".to_owned()),
        ]
    );
}

#[test]
fn r139_resize_changes_cpu_and_memory_only() {
    let resources = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
    let old = old_pod();
    let more = json!({"containers": [container(resources("2"))]});
    assert_eq!(change(&old, more, validate_resize), []);
    let disk = json!({"resources": {"limits": {"cpu": "1", "ephemeral-storage": "1Gi"}}});
    let disk = json!({"containers": [container(disk)]});
    assert_eq!(change(&old, disk, validate_resize), spec_forbidden());
    let gone = json!({"containers": [container(json!({}))]});
    assert_eq!(
        change(&old, gone, validate_resize),
        [
            ("spec".to_owned(), "Invalid".to_owned()),
            ("spec.containers[0].resources.requests".to_owned(), "Forbidden".to_owned()),
            ("spec.containers[0].resources.limits".to_owned(), "Forbidden".to_owned()),
        ]
    );
}
