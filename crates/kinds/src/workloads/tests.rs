//! Section 7.1 of spec/api-server.md as data, and R138, R139 where kinds add to pods.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Rules};

use super::*;

mod recorded;
mod warnings;

fn rules(kind: &str) -> Box<dyn Rules> {
    match kind {
        "CronJob" => Box::new(CronJobRules),
        "DaemonSet" => Box::new(DaemonSetRules),
        "Deployment" => Box::new(DeploymentRules),
        "Job" => Box::new(JobRules),
        "Pod" => Box::new(PodRules),
        "PodTemplate" => Box::new(PodTemplateRules),
        "ReplicaSet" => Box::new(ReplicaSetRules),
        "ReplicationController" => Box::new(ReplicationControllerRules),
        "StatefulSet" => Box::new(StatefulSetRules),
        other => panic!("no rules for {other}"),
    }
}

fn cx() -> Cx {
    Cx { now: "2024-01-02T03:04:05Z".into(), uid: "u".into(), subresource: None, unlabelled: false }
}

fn object(value: Value) -> Object {
    value.as_object().cloned().expect("an object")
}

fn read(text: &str) -> Object {
    object(serde_json::from_str(text).expect("JSON"))
}

/// The object as a create stores it.
fn create(rules: &dyn Rules, body: Object) -> Object {
    let mut object = body;
    let unlabelled = object.map_at(&["metadata", "labels"]).is_none();
    rules.default(&mut object);
    object.map_mut("metadata").insert("uid".to_owned(), json!("u"));
    rules.prepare_create(&mut object, &Cx { unlabelled, ..cx() });
    object
}

fn causes(errors: &Errors) -> Vec<(String, String)> {
    let short = |reason: &str| reason.trim_start_matches("FieldValue").to_owned();
    errors.causes().iter().map(|c| (c.field.clone(), short(c.reason.as_str()))).collect()
}

fn owned(causes: recorded::Causes) -> Vec<(String, String)> {
    causes.iter().map(|(field, reason)| ((*field).to_owned(), (*reason).to_owned())).collect()
}

fn merge(target: &mut Value, patch: &Value) {
    match (target.as_object_mut(), patch.as_object()) {
        (Some(target), Some(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    target.remove(name);
                } else {
                    merge(target.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (None, Some(_)) => {
            *target = json!({});
            merge(target, patch);
        }
        _ => *target = patch.clone(),
    }
}

/// The causes of a change of a stored object by a merge patch.
fn change(rules: &dyn Rules, mut old: Object, patch: &Value) -> (Object, Vec<(String, String)>) {
    old.map_mut("metadata").insert("resourceVersion".to_owned(), json!("1"));
    let mut new = Value::Object(old.clone());
    merge(&mut new, patch);
    let mut new = object(new);
    rules.default(&mut new);
    rules.prepare_update(&mut new, &old, &cx());
    let mut errors = Errors::new();
    rules.validate(&new, &mut errors);
    rules.validate_update(&new, &old, &mut errors);
    (new, causes(&errors))
}

#[test]
fn r138_created_objects_have_the_seen_form() {
    for (kind, body, want) in recorded::CREATED {
        let rules = rules(kind);
        let stored = create(rules.as_ref(), read(body));
        let mut errors = Errors::new();
        rules.validate(&stored, &mut errors);
        assert_eq!(causes(&errors), [], "{kind} {body}");
        let mut seen = Object::new();
        for member in ["labels", "annotations"] {
            if let Some(value) = stored.at(&["metadata", member]) {
                seen.insert(member.to_owned(), value.clone());
            }
        }
        for member in ["spec", "status"] {
            seen.insert(member.to_owned(), stored[member].clone());
        }
        assert_eq!(Value::Object(seen), Value::Object(read(want)), "{kind} {body}");
    }
}

#[test]
fn r139_refused_objects_give_the_seen_causes() {
    for (kind, body, want) in recorded::REFUSED {
        let rules = rules(kind);
        let stored = create(rules.as_ref(), read(body));
        let mut errors = Errors::new();
        rules.validate(&stored, &mut errors);
        rules.validate_last(&stored, &mut errors);
        assert_eq!(causes(&errors), owned(want), "{kind} {body}");
    }
}

#[test]
fn r139_changes_give_the_seen_causes() {
    for (kind, body, patch, want) in recorded::CHANGED {
        let rules = rules(kind);
        let stored = create(rules.as_ref(), read(body));
        let patch = Value::Object(read(patch));
        let (_, causes) = change(rules.as_ref(), stored, &patch);
        assert_eq!(causes, owned(want), "{kind} {patch}");
    }
}

fn pod() -> Object {
    let spec = json!({
        "containers": [{"name": "c", "image": "example.com/app:v1"}],
        "serviceAccountName": "default",
    });
    create(
        &PodRules,
        object(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "X"}})),
    )
}

#[test]
fn r138_pods_start_pending_with_a_class() {
    assert_eq!(pod()["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[test]
fn r138_gated_pods_say_so() {
    let mut body = pod();
    body["spec"]["schedulingGates"] = json!([{"name": "example.com/g"}]);
    let condition = &create(&PodRules, body)["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SchedulingGated");
    assert_eq!(condition["lastTransitionTime"], "2024-01-02T03:04:05Z");
}

#[test]
fn r139_pod_updates_keep_status() {
    let patch = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}});
    let (new, causes) = change(&PodRules, pod(), &patch);
    assert_eq!(causes, []);
    assert_eq!(new["status"]["phase"], "Pending");
}

#[test]
fn r139_debug_containers_only_through_their_door() {
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "x"}]}});
    let (_, causes) = change(&PodRules, pod(), &debug);
    assert_eq!(causes, [("spec".to_owned(), "Forbidden".to_owned())]);
    let cx = Cx { subresource: Some("ephemeralcontainers"), ..cx() };
    let mut new = Value::Object(pod());
    merge(&mut new, &debug);
    merge(&mut new, &json!({"spec": {"nodeName": "n"}}));
    let mut new = object(new);
    PodRules.default(&mut new);
    PodRules.prepare_update(&mut new, &pod(), &cx);
    assert_eq!(new["spec"].get("nodeName"), None);
    assert_eq!(new["spec"]["ephemeralContainers"][0]["name"], "d");
}

#[test]
fn r138_status_writes_keep_the_class() {
    let mut new = pod();
    new.insert("status".to_owned(), json!({"phase": "Running", "podIP": "10.0.0.1"}));
    PodRules.default(&mut new);
    PodRules.prepare_status(&mut new, &pod(), &cx());
    assert_eq!(new["status"]["qosClass"], "BestEffort");
    assert_eq!(new["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    let mut errors = Errors::new();
    PodRules.validate_status(&new, &pod(), &mut errors);
    assert_eq!(causes(&errors), []);
}

fn job(spec: Value) -> Object {
    let pod = json!({"containers": [{"name": "c", "image": "example.com/app:v1"}], "restartPolicy": "Never"});
    let mut all = json!({"template": {"spec": pod}});
    merge(&mut all, &spec);
    create(&JobRules, object(json!({"metadata": {"name": "j"}, "spec": all})))
}

#[test]
fn job_templates_open_while_suspended() {
    let suspended = job(json!({"suspend": true}));
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}});
    assert_eq!(change(&JobRules, suspended.clone(), &patch).1, []);
    let template = || vec![("spec.template".to_owned(), "Invalid".to_owned())];
    assert_eq!(change(&JobRules, job(json!({})), &patch).1, template());
    let host = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    let want = [("spec.template.spec".to_owned(), "Invalid".to_owned())];
    assert_eq!(change(&JobRules, suspended, &host).1, want);
}

#[test]
fn job_completions_move_only_for_elastic_indexed_jobs() {
    let patch = json!({"spec": {"completions": 3}});
    let want = [("spec.completions".to_owned(), "Invalid".to_owned())];
    assert_eq!(change(&JobRules, job(json!({})), &patch).1, want);
    let indexed = job(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}));
    assert_eq!(change(&JobRules, indexed.clone(), &patch).1, want);
    let both = json!({"spec": {"completions": 3, "parallelism": 3}});
    assert_eq!(change(&JobRules, indexed, &both).1, []);
}

#[test]
fn jb1_a_job_that_nobody_labelled_shares_the_labels_of_its_template() {
    let body = |labels: Value| {
        json!({"metadata": {"name": "j", "labels": labels}, "spec": {
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {}},
        }})
    };
    let mut bare = object(body(json!({})));
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let mut defaulted = bare.clone();
    JobRules.default(&mut defaulted);
    assert_eq!(
        defaulted["metadata"]["labels"],
        json!({"a": "b"}),
        "before the server adds its own"
    );
    let stored = create(&JobRules, bare);
    let all = json!({
        "a": "b", "job-name": "j", "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u",
    });
    assert_eq!(stored["spec"]["template"]["metadata"]["labels"], all);
    assert_eq!(stored["metadata"]["labels"], all);
    assert_eq!(
        stored["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
    let stored = create(&JobRules, object(body(json!({"a": "b"}))));
    assert_eq!(
        stored["metadata"]["labels"],
        json!({"a": "b"}),
        "labels of its own stay as they are"
    );
    assert_eq!(stored["spec"]["template"]["metadata"]["labels"], all);
}

#[test]
fn job_labels_of_others_are_refused() {
    let job = job(json!({"template": {"metadata": {"labels": {"controller-uid": "other"}}}}));
    let mut errors = Errors::new();
    JobRules.validate(&job, &mut errors);
    let field = "spec.template.metadata.labels[controller-uid]";
    assert_eq!(causes(&errors), [(field.to_owned(), "Invalid".to_owned())]);
}

#[test]
fn daemon_sets_count_template_changes() {
    let body = json!({"metadata": {"name": "s"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "image": "example.com/app:v1"},
        ]}},
    }});
    let old = create(&DaemonSetRules, object(body));
    let key = "deprecated.daemonset.template.generation";
    let (new, _) = change(&DaemonSetRules, old.clone(), &json!({"spec": {"minReadySeconds": 3}}));
    assert_eq!(new["metadata"]["annotations"][key], "1");
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}});
    let (new, causes) = change(&DaemonSetRules, old, &patch);
    assert_eq!(causes, []);
    assert_eq!(new["metadata"]["annotations"][key], "2");
}

#[test]
fn revisions_keep_their_data() {
    let old = object(json!({"metadata": {"name": "r"}, "data": {"a": 1}, "revision": 1}));
    let want = [("data".to_owned(), "Invalid".to_owned())];
    assert_eq!(change(&ControllerRevisionRules, old.clone(), &json!({"data": {"a": 2}})).1, want);
    assert_eq!(change(&ControllerRevisionRules, old, &json!({"revision": 2})).1, []);
}

#[test]
fn r60_the_name_of_a_cron_job_leaves_room_for_its_jobs() {
    use crate::check::{faults, row, update_faults};
    let kind = row("batch", "CronJob");
    let of = |name: &str, schedule: &str| {
        json!({"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": {"spec": {
            "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}}}})
    };
    let long = "x".repeat(53);
    assert!(faults(&kind, of(&long[1..], "@hourly")).is_empty());
    // Told after the specification, and besides the length that any name has.
    assert_eq!(
        faults(&kind, of(&long, "never")),
        ["spec.schedule FieldValueInvalid", "metadata.name FieldValueInvalid"]
    );
    let longest = "x".repeat(254);
    assert_eq!(faults(&kind, of(&longest, "@hourly")), ["metadata.name FieldValueInvalid"; 2]);
    let mut stored = of(&long, "@hourly");
    stored["metadata"]["resourceVersion"] = json!("1");
    assert!(update_faults(&kind, stored.clone(), stored).is_empty());
}
