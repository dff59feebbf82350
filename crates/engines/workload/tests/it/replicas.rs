//! Rules of spec/workload-controllers.md: ReplicaSet and ReplicationController.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, IntentPropagation, owner};

use crate::world::World;

/// A ReplicaSet `web` of so many pods.
pub(crate) fn set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("1"),
        },
    })
}

/// A template whose pods carry `app: web` and a version.
pub(crate) fn template(version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web", "v": version}},
        "spec": {"containers": [{"name": "c", "image": format!("example.test/img:{version}")}]},
    })
}

fn status(world: &World) -> Value {
    world.json(BuiltinResource::ReplicaSets, "web")["status"].clone()
}

fn scale(world: &mut World, replicas: i64) {
    world
        .edit(BuiltinResource::ReplicaSets, "web", |set| set["spec"]["replicas"] = replicas.into());
    world.settle();
}

fn world(replicas: i64) -> World {
    let mut world = World::new();
    world.create(set(replicas));
    world.settle();
    world
}

#[test]
fn rs1_creates_what_is_missing() {
    let world = world(3);
    let uid = owner::uid(&world.get(BuiltinResource::ReplicaSets, "web")).to_owned();
    assert_eq!(world.owned(&uid, BuiltinResource::Pods).len(), 3);
    assert_eq!(
        status(&world),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0,
               "observedGeneration": 1})
    );
}

#[test]
fn rs1_not_while_terminating() {
    let mut world = World::new();
    let mut held = set(2);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.delete(BuiltinResource::ReplicaSets, "web", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods), Vec::<String>::new());
    assert_eq!(status(&world)["observedGeneration"], 1, "status is kept");
}

#[test]
fn pt1_pods_are_made_from_the_template() {
    let mut world = World::new();
    let mut wanted = set(1);
    wanted["spec"]["template"]["metadata"]["annotations"] = json!({"note": "x"});
    wanted["spec"]["template"]["metadata"]["finalizers"] = json!(["example.test/f"]);
    let uid = owner::uid(&world.create(wanted)).to_owned();
    world.settle();
    let pod = Value::Object((*world.list(BuiltinResource::Pods)[0].object).clone());
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "v": "1"}));
    assert_eq!(pod["metadata"]["annotations"], json!({"note": "x"}));
    assert_eq!(pod["metadata"]["finalizers"], json!(["example.test/f"]));
    assert_eq!(pod["spec"], template("1")["spec"]);
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
    );
}

#[test]
fn pt1_a_template_without_labels_makes_no_pods() {
    let mut world = World::new();
    let mut wanted = set(1);
    wanted["spec"]["template"]["metadata"] = json!({});
    wanted["spec"]["selector"] =
        json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
    world.create(wanted);
    world.settle();
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn pt2_events_name_the_pods() {
    let mut world = world(1);
    let name = world.names(BuiltinResource::Pods)[0].clone();
    assert_eq!(world.events, [format!("Normal SuccessfulCreate Created pod: {name}")]);
    scale(&mut world, 0);
    assert_eq!(world.events[1], format!("Normal SuccessfulDelete Deleted pod: {name}"));
}

#[test]
fn pt4_first_refusal_ends_the_batches() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(set(100));
    world.settle();
    let told = world.events.iter().filter(|e| *e == "Warning FailedCreate Error creating: quota");
    assert!(told.count() < 6, "one refusal per pass");
}

#[test]
fn rs5_failure_is_a_condition_while_it_lasts() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(set(2));
    world.settle();
    world.advance(5);
    let condition = &status(&world)["conditions"][0];
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(condition["status"], "True");
    assert_eq!(condition["reason"], "FailedCreate");
    assert_eq!(condition["message"], "quota");
    let writes = world.writes.len();
    world.advance(60);
    assert_eq!(world.writes.len(), writes, "the same failure is not written again");
    world.allow();
    world.advance(5);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
    assert!(status(&world)["conditions"].is_null());
}

#[test]
fn rs5_what_is_replaced_at_once_is_never_told_as_missing() {
    let mut world = world(1);
    let writes = world.writes.len();
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.edit(BuiltinResource::Pods, &pod, |pod| pod["spec"]["nodeName"] = "n".into());
    world.delete(BuiltinResource::Pods, &pod, None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
    assert_eq!(status(&world)["replicas"], 1);
    assert_eq!(status(&world)["terminatingReplicas"], 1);
    let told = world.writes[writes..].iter().filter(|write| write.contains("replicasets"));
    assert_eq!(told.count(), 1, "{:?}", &world.writes[writes..]);
}

#[test]
fn rs5_failed_deletion_is_told() {
    let mut world = world(2);
    world.refuse(|intent| match &intent.act {
        Act::Delete { .. } => Some((500, "InternalError", "no")),
        _ => None,
    });
    scale(&mut world, 1);
    world.advance(5);
    assert_eq!(status(&world)["conditions"][0]["reason"], "FailedDelete");
    assert_eq!(status(&world)["conditions"][0]["message"], "unable to delete pods: no");
    assert!(world.events.contains(&"Warning FailedDelete Error deleting: no".to_owned()));
}

#[test]
fn pu7_a_terminating_namespace_is_no_failure() {
    let mut world = World::new();
    world.create(json!({"kind": "Namespace",
                        "metadata": {"name": "default", "finalizers": ["example.test/hold"]}}));
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.create(set(2));
    world.settle();
    world.advance(60);
    assert!(world.events.is_empty() && world.names(BuiltinResource::Pods).is_empty());
    assert!(status(&world)["conditions"].is_null());
}

#[test]
fn rs1_a_template_that_the_selector_misses_makes_no_pods() {
    let mut world = World::new();
    let mut barren = set(1);
    barren["spec"]["selector"]["matchLabels"]["app"] = "other".into();
    world.create(barren);
    world.settle();
    assert!(world.names(BuiltinResource::Pods).is_empty());
    assert_eq!(status(&world)["conditions"][0]["reason"], "FailedCreate");
}

#[test]
fn rs5_counts_ready_available_and_labelled_pods() {
    let mut world = World::new();
    let mut wanted = set(3);
    wanted["spec"]["minReadySeconds"] = 10.into();
    world.create(wanted);
    world.settle();
    let pods = world.names(BuiltinResource::Pods);
    world.ready(&pods[0]);
    world.advance(4);
    world.ready(&pods[1]);
    world.edit(BuiltinResource::Pods, &pods[2], |pod| pod["metadata"]["labels"]["v"] = "2".into());
    world.settle();
    assert_eq!(
        status(&world),
        json!({"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2,
               "terminatingReplicas": 0, "observedGeneration": 1})
    );
    world.advance(6);
    assert_eq!(status(&world)["availableReplicas"], 1);
    world.advance(4);
    assert_eq!(status(&world)["availableReplicas"], 2);
}

#[test]
fn pt3_availability_begins_on_the_second() {
    let mut world = World::new();
    let mut wanted = set(1);
    wanted["spec"]["minReadySeconds"] = 10.into();
    world.create(wanted);
    world.settle();
    world.ready(&world.names(BuiltinResource::Pods)[0].clone());
    world.settle();
    world.advance(9);
    assert!(status(&world)["availableReplicas"].is_null());
    world.advance(1);
    assert_eq!(status(&world)["availableReplicas"], 1);
}

#[test]
fn rs5_terminating_pods_are_counted_apart() {
    let mut world = world(2);
    let pods = world.names(BuiltinResource::Pods);
    world.ready(&pods[0]);
    world.delete(BuiltinResource::Pods, &pods[0], None);
    world.settle();
    assert_eq!(status(&world)["terminatingReplicas"], 1);
    assert_eq!(status(&world)["replicas"], 2, "a replacement was made");
    world.let_go(&pods[0]);
    world.settle();
    assert_eq!(status(&world)["terminatingReplicas"], 0);
}

#[test]
fn rs3_a_failed_pod_is_replaced_and_left() {
    let mut world = world(1);
    let failed = world.names(BuiltinResource::Pods)[0].clone();
    world.end(&failed, "Failed");
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
    assert_eq!(status(&world)["replicas"], 1);
    assert!(world.names(BuiltinResource::Pods).contains(&failed));
}

#[test]
fn rs4_a_new_template_is_for_new_pods_only() {
    let mut world = world(1);
    world.edit(BuiltinResource::ReplicaSets, "web", |set| set["spec"]["template"] = template("2"));
    scale(&mut world, 2);
    let labels: Vec<String> = world
        .list(BuiltinResource::Pods)
        .iter()
        .map(|pod| owner::label(pod, "v").unwrap().to_owned())
        .collect();
    assert_eq!(labels, ["1", "2"]);
    assert_eq!(status(&world)["fullyLabeledReplicas"], 1);
}

/// Sets up pods by name, scales to one fewer and gives back who went.
fn victim(world: &mut World, pods: &[Value]) -> String {
    for (index, facts) in pods.iter().enumerate() {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": {"name": format!("p{index}"), "labels": {"app": "web"}},
            "spec": facts["spec"],
        });
        pod["metadata"]["annotations"] = facts["annotations"].clone();
        world.create(pod);
        let status = facts["status"].clone();
        world.edit_status(BuiltinResource::Pods, &format!("p{index}"), |old| *old = status);
        world.advance(facts["then"].as_i64().unwrap_or_default());
    }
    let names = world.names(BuiltinResource::Pods);
    world.create(set(i64::try_from(pods.len()).unwrap() - 1));
    world.settle();
    let left: Vec<String> = world
        .list(BuiltinResource::Pods)
        .iter()
        .filter(|pod| !owner::deleting(pod))
        .map(|pod| pod.name().to_owned())
        .collect();
    names.into_iter().find(|name| !left.contains(name)).unwrap()
}

fn running(node: &str) -> Value {
    json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

#[test]
fn rs2_the_less_useful_pod_goes_first() {
    let with = |facts: Value, path: &str, value: Value| {
        let mut facts = facts;
        *facts.pointer_mut(path).unwrap() = value;
        facts
    };
    let pending = |node: &str| json!({"spec": {"nodeName": node}, "status": {"phase": "Pending"}});
    let unready = with(running("a"), "/status/conditions/0/status", "False".into());
    let mut costly = running("b");
    costly["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "5"});
    let mut restarted = running("b");
    restarted["status"]["containerStatuses"] = json!([{"restartCount": 3}]);
    let unassigned = json!({"spec": {}, "status": {"phase": "Running", "conditions": []}});
    let unknown = json!({"spec": {"nodeName": "a"}, "status": {"phase": "Unknown"}});
    let cases: [(&str, Vec<Value>, &str); 7] = [
        ("unassigned before assigned", vec![pending("a"), unassigned], "p1"),
        ("pending before unknown", vec![unknown.clone(), pending("a")], "p1"),
        ("unknown before running", vec![unready.clone(), unknown], "p1"),
        ("not ready before ready", vec![running("b"), unready], "p1"),
        ("cheap before costly", vec![costly, running("b")], "p1"),
        ("crowded before alone", vec![running("a"), running("b"), running("b")], "p1"),
        ("restarted before steady", vec![running("b"), restarted], "p1"),
    ];
    for (what, pods, expected) in cases {
        assert_eq!(victim(&mut World::new().only(&["replicaset"]), &pods), expected, "{what}");
    }
}

#[test]
fn rs2_ages_count_in_powers_of_two() {
    let ready = |at: &str| {
        let mut facts = running("a");
        facts["status"]["conditions"][0]["lastTransitionTime"] = at.into();
        facts
    };
    // After an hour, ready for 60 and for 59 minutes is the same; the smaller uid goes.
    let mut long = [ready("2026-01-01T00:00:00Z"), ready("2026-01-01T00:01:00Z")];
    long[1]["then"] = 3600.into();
    assert_eq!(victim(&mut World::new().only(&["replicaset"]), &long), "p0");
    // Ready for a minute is younger than for an hour.
    let mut short = [ready("2026-01-01T00:00:00Z"), ready("2026-01-01T00:59:00Z")];
    short[1]["then"] = 3600.into();
    assert_eq!(victim(&mut World::new().only(&["replicaset"]), &short), "p1");
}

#[test]
fn rs7_dependents_follow_the_propagation() {
    let mut gone = world(2);
    gone.delete(BuiltinResource::ReplicaSets, "web", None);
    gone.settle();
    assert!(gone.names(BuiltinResource::Pods).is_empty());
    let mut kept = world(2);
    kept.delete(BuiltinResource::ReplicaSets, "web", Some(IntentPropagation::Orphan));
    kept.settle();
    assert_eq!(kept.names(BuiltinResource::Pods).len(), 2);
}

#[test]
fn rs5_a_replication_controller_has_no_terminating_count() {
    let mut world = World::new();
    let mut wanted = set(2);
    wanted["apiVersion"] = "v1".into();
    wanted["kind"] = "ReplicationController".into();
    wanted["spec"]["selector"] = json!({"app": "web"});
    let uid = owner::uid(&world.create(wanted)).to_owned();
    world.settle();
    let found = world.json(BuiltinResource::ReplicationControllers, "web");
    assert_eq!(
        found["status"],
        json!({"replicas": 2, "fullyLabeledReplicas": 2, "observedGeneration": 1})
    );
    let pod = &world.list(BuiltinResource::Pods)[0];
    let entry = owner::controller_of(pod).unwrap();
    assert_eq!(entry.str_at(&["kind"]), Some("ReplicationController"));
    assert_eq!(entry.str_at(&["apiVersion"]), Some("v1"));
    assert_eq!(entry.str_at(&["uid"]), Some(uid.as_str()));
}

#[test]
fn rs1_huge_and_negative_sizes_do_no_harm() {
    let mut world = world(-5);
    assert!(world.names(BuiltinResource::Pods).is_empty());
    scale(&mut world, 1_200);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 1_200);
    assert_eq!(status(&world)["replicas"], 1_200);
}
