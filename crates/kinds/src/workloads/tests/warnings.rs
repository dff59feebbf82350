//! R31: when each kind tells its clients about pods and templates.

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::{create, merge, object, rules};

/// A specification that earns one warning.
fn pod_spec() -> Value {
    json!({
        "containers": [{"name": "c", "image": "example.com/app:v1"}],
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
    })
}

/// An object of the kind around [`pod_spec`], and the members that lead to it.
fn around(kind: &str) -> (Object, &'static str) {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod_spec()});
    let (body, place) = match kind {
        "Pod" => (json!({"spec": pod_spec()}), ""),
        "PodTemplate" => (json!({"template": template}), "template."),
        "CronJob" => (
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}}),
            "spec.jobTemplate.spec.template.",
        ),
        _ => (json!({"spec": {"template": template}}), "spec.template."),
    };
    let mut body = object(body);
    body.insert("metadata".to_owned(), json!({"name": "x", "generation": 1}));
    (create(rules(kind).as_ref(), body), place)
}

fn changed(old: &Object, patch: Value) -> Object {
    let mut new = Value::Object(old.clone());
    merge(&mut new, &patch);
    object(new)
}

#[test]
fn r31_every_kind_tells_about_its_template() {
    for kind in [
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    ] {
        let rules = rules(kind);
        let (new, place) = around(kind);
        let told =
            |old: &Object, patch: Value| rules.warnings(&changed(old, patch), Some(old)).len();
        let line = format!(
            "{place}spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead"
        );
        assert_eq!(rules.warnings(&new, None), [line], "{kind}");
        let moved = json!({"metadata": {"generation": 2}});
        let want = usize::from(!matches!(kind, "Pod" | "DaemonSet"));
        assert_eq!(told(&new, moved), want, "{kind}: when its generation moves");
        assert_eq!(told(&new, json!({"metadata": {"labels": {"x": "y"}}})), 0, "{kind}: else not");
        assert_eq!(told(&new, json!({"status": {"x": 1}})), 0, "{kind}: nor by its status");
    }
}

#[test]
fn r31_a_daemon_set_tells_when_its_template_changes() {
    let (old, _) = around("DaemonSet");
    let key = "deprecated.daemonset.template.generation";
    let new = changed(&old, json!({"metadata": {"annotations": {key: "2"}}}));
    assert_eq!(rules("DaemonSet").warnings(&new, Some(&old)).len(), 1);
}

#[test]
fn r31_a_replication_controller_tells_about_the_template_that_was() {
    let (old, _) = around("ReplicationController");
    let patch = json!({"metadata": {"generation": 2}, "spec": {"template": {"spec": {"nodeSelector": null}}}});
    let new = changed(&old, patch);
    let rules = rules("ReplicationController");
    assert_eq!(rules.warnings(&new, Some(&old)).len(), 1);
    let back = changed(&old, json!({"metadata": {"generation": 3}}));
    assert_eq!(rules.warnings(&back, Some(&new)), [""; 0]);
}

#[test]
fn r31_a_stateful_set_tells_about_claims_and_history() {
    let (old, _) = around("StatefulSet");
    let patch = json!({"spec": {
        "template": {"spec": {"nodeSelector": null}},
        "revisionHistoryLimit": -1,
        "volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "500m"}}}}],
    }});
    let new = changed(&old, patch);
    let rules = rules("StatefulSet");
    assert_eq!(rules.warnings(&new, None).len(), 2);
    assert_eq!(rules.warnings(&new, Some(&new)).len(), 2);
    let status = changed(&new, json!({"status": {"replicas": 5}}));
    assert_eq!(rules.warnings(&status, Some(&new)), [""; 0]);
}

#[test]
fn r31_a_job_tells_that_indexes_may_be_lost() {
    let (mut job, _) = around("Job");
    job["spec"]["template"]["spec"].as_object_mut().unwrap().remove("nodeSelector");
    for (mode, completions, parallelism, want) in [
        ("Indexed", 100_001, 10_001, 1),
        ("Indexed", 100_000, 10_001, 0),
        ("Indexed", 100_001, 10_000, 0),
        ("NonIndexed", 100_001, 10_001, 0),
    ] {
        let patch = json!({"spec": {
            "completionMode": mode, "completions": completions, "parallelism": parallelism,
        }});
        let told = rules("Job").warnings(&changed(&job, patch), None).len();
        assert_eq!(told, want, "{mode} {completions} {parallelism}");
    }
}

#[test]
fn r31_a_status_of_a_pod_tells_about_its_addresses() {
    let (old, _) = around("Pod");
    let ips = |address: &str| json!({"status": {"podIPs": [{"ip": address}]}});
    let told =
        |address: &str| rules("Pod").warnings(&changed(&old, ips(address)), Some(&old)).len();
    assert_eq!((told("10.0.0.1"), told("::ffff:10.0.0.1"), told("FD00::1")), (0, 1, 1));
}

#[test]
fn r138_an_app_armor_annotation_of_a_pod_becomes_its_field() {
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    let body = object(json!({
        "metadata": {"name": "p", "annotations": {key: "runtime/default"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/app:v1"}]},
    }));
    let rules = rules("Pod");
    let pod = create(rules.as_ref(), body);
    let profile = ["securityContext", "appArmorProfile"];
    let container = pod["spec"]["containers"][0].as_object().unwrap();
    assert_eq!(container.at(&profile), Some(&json!({"type": "RuntimeDefault"})));
    let told = rules.warnings(&pod, None);
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with(&format!("metadata.annotations[{key}]: deprecated")), "{told:?}");
}
