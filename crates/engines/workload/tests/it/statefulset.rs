//! Rules of spec/workload-controllers.md: StatefulSet, its pods and its status.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, owner};

use crate::replicas::template;
use crate::world::World;

pub(crate) const SETS: BuiltinResource = BuiltinResource::StatefulSets;

/// A StatefulSet `web` of so many pods, with the defaults that a server gives it.
pub(crate) fn set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "svc",
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("1"),
        },
    })
}

/// The same, whose pods need not wait for each other.
pub(crate) fn parallel(replicas: i64) -> Value {
    let mut set = set(replicas);
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    set
}

/// A world with this set, settled.
pub(crate) fn world(set: Value) -> World {
    let mut world = World::new();
    world.create(set);
    world.settle();
    world
}

/// A world with this set, all of whose pods are ready.
pub(crate) fn all_ready(set: Value) -> World {
    let mut world = world(set);
    make_ready(&mut world);
    world
}

/// Readies pods, one after another, until there is none left that is not.
pub(crate) fn make_ready(world: &mut World) {
    loop {
        let pending = world.list(BuiltinResource::Pods).into_iter().find(|pod| {
            !owner::deleting(pod) && pod.str_at(&["status", "phase"]) == Some("Pending")
        });
        let Some(pending) = pending else { return };
        world.ready(pending.name());
        world.settle();
    }
}

/// Ends the deletion of all pods that are being deleted.
pub(crate) fn let_go(world: &mut World) {
    for pod in world.list(BuiltinResource::Pods) {
        if owner::deleting(&pod) {
            world.let_go(pod.name());
        }
    }
    world.settle();
}

pub(crate) fn change(world: &mut World, edit: impl FnOnce(&mut Value)) {
    world.edit(SETS, "web", edit);
    world.settle();
}

pub(crate) fn pods(world: &World) -> Vec<String> {
    world.names(BuiltinResource::Pods)
}

/// The names of the pods that are being deleted.
pub(crate) fn going(world: &World) -> Vec<String> {
    let going = world.list(BuiltinResource::Pods).into_iter().filter(|pod| owner::deleting(pod));
    going.map(|pod| pod.name().to_owned()).collect()
}

pub(crate) fn status(world: &World) -> Value {
    world.json(SETS, "web")["status"].clone()
}

pub(crate) fn versions(world: &World) -> String {
    let all: Vec<String> = world
        .list(BuiltinResource::Pods)
        .iter()
        .map(|pod| owner::label(pod, "v").unwrap_or("-").to_owned())
        .collect();
    all.join(" ")
}

fn revision(world: &World) -> String {
    let revisions = world.names(BuiltinResource::ControllerRevisions);
    assert_eq!(revisions.len(), 1);
    revisions[0].clone()
}

#[test]
fn ss1_ordinals_begin_at_the_start() {
    let mut wanted = parallel(2);
    wanted["spec"]["ordinals"] = json!({"start": 5});
    let mut world = world(wanted);
    assert_eq!(pods(&world), ["web-5", "web-6"]);
    make_ready(&mut world);
    change(&mut world, |set| set["spec"]["ordinals"]["start"] = 6.into());
    let_go(&mut world);
    assert_eq!(pods(&world), ["web-6", "web-7"]);
}

#[test]
fn ss1_pods_with_other_names_are_left_alone() {
    let mut world = World::new();
    let pod =
        |name: &str| json!({"kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}});
    for name in ["webby-0", "web-x", "web"] {
        world.create(pod(name));
    }
    world.create(pod("web-99999999999"));
    world.create(set(1));
    world.settle();
    for name in ["webby-0", "web-x", "web"] {
        assert!(owner::controller_of(&world.get(BuiltinResource::Pods, name)).is_none(), "{name}");
    }
    // The prefix is ours, the number is none: claimed, and otherwise ignored.
    assert!(owner::controller_of(&world.get(BuiltinResource::Pods, "web-99999999999")).is_some());
    assert_eq!(status(&world)["replicas"], 1);
    assert!(pods(&world).contains(&"web-0".to_owned()));
}

#[test]
fn ss1_a_deleted_pod_comes_back_under_its_name() {
    let mut world = world(set(1));
    let before = owner::uid(&world.get(BuiltinResource::Pods, "web-0")).to_owned();
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    assert_ne!(owner::uid(&world.get(BuiltinResource::Pods, "web-0")), before);
}

#[test]
fn ss1_a_name_that_somebody_else_holds_is_waited_for() {
    let mut world = world(set(1));
    world.edit(BuiltinResource::Pods, "web-0", |pod| {
        pod["metadata"]["labels"]["app"] = "other".into()
    });
    world.settle();
    assert!(owner::controller_of(&world.get(BuiltinResource::Pods, "web-0")).is_none(), "released");
    let told = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: \
                pods \"web-0\" already exists";
    assert_eq!(world.events.iter().filter(|event| *event == told).count(), 1);
    world.advance(3_600);
    assert_eq!(world.events.iter().filter(|event| *event == told).count(), 1, "told once");
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    assert_eq!(owner::label(&world.get(BuiltinResource::Pods, "web-0"), "app"), Some("web"));
}

#[test]
fn ss2_pods_say_who_they_are() {
    let world = world(set(1));
    let pod = world.json(BuiltinResource::Pods, "web-0");
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "v": "1", "apps.kubernetes.io/pod-index": "0",
            "statefulset.kubernetes.io/pod-name": "web-0",
            "controller-revision-hash": revision(&world)})
    );
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-0"), &json!("svc"))
    );
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
            "uid": owner::uid(&world.get(SETS, "web")),
            "controller": true, "blockOwnerDeletion": true}])
    );
}

#[test]
fn ss4_ordered_pods_wait_for_the_one_before() {
    let mut world = world(set(3));
    assert_eq!(pods(&world), ["web-0"]);
    let name = revision(&world);
    assert_eq!(
        status(&world),
        json!({"availableReplicas": 0, "collisionCount": 0, "currentReplicas": 1,
            "currentRevision": name, "observedGeneration": 1, "replicas": 1,
            "updateRevision": name, "updatedReplicas": 1})
    );
    world.set_ready("web-0", false);
    world.settle();
    assert_eq!(pods(&world), ["web-0"], "running is not enough");
    world.ready("web-0");
    world.settle();
    assert_eq!(pods(&world), ["web-0", "web-1"]);
    world.ready("web-1");
    world.settle();
    assert_eq!(pods(&world), ["web-0", "web-1", "web-2"]);
}

#[test]
fn ss4_ordered_pods_wait_for_availability_and_for_terminating_ones() {
    let mut wanted = set(2);
    wanted["spec"]["minReadySeconds"] = 10.into();
    let mut world = world(wanted);
    world.ready("web-0");
    world.settle();
    assert_eq!(pods(&world), ["web-0"]);
    assert_eq!(status(&world)["readyReplicas"], 1);
    assert_eq!(status(&world)["availableReplicas"], 0);
    world.advance(10);
    assert_eq!(pods(&world), ["web-0", "web-1"]);
    world.ready("web-1");
    world.settle();
    world.advance(10);
    change(&mut world, |set| set["spec"]["replicas"] = 3.into());
    make_ready(&mut world);
    world.advance(10);
    world.delete(BuiltinResource::Pods, "web-0", None);
    change(&mut world, |set| set["spec"]["replicas"] = 4.into());
    assert_eq!(pods(&world).len(), 3, "web-0 is terminating, so web-3 has to wait");
}

#[test]
fn ss4_parallel_pods_come_all_at_once() {
    let world = world(parallel(3));
    assert_eq!(pods(&world), ["web-0", "web-1", "web-2"]);
    assert_eq!(status(&world)["replicas"], 3);
}

#[test]
fn ss4_a_huge_number_is_made_in_bounded_passes() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(parallel(i64::from(i32::MAX)));
    world.settle();
    assert!(world.events.len() < 10, "the first refusal ends the batches");
    world.allow();
    world.edit(SETS, "web", |set| set["spec"]["replicas"] = 1_200.into());
    world.advance(2);
    assert_eq!(pods(&world).len(), 1_200);
}

#[test]
fn ss5_an_ended_pod_is_made_again() {
    for phase in ["Failed", "Succeeded"] {
        for wanted in [set(2), parallel(2)] {
            let mut world = all_ready(wanted);
            let before = owner::uid(&world.get(BuiltinResource::Pods, "web-0")).to_owned();
            world.end("web-0", phase);
            world.settle();
            assert_ne!(owner::uid(&world.get(BuiltinResource::Pods, "web-0")), before, "{phase}");
            assert_eq!(pods(&world), ["web-0", "web-1"]);
        }
    }
}

#[test]
fn ss6_scaling_down_takes_the_highest_one_at_a_time() {
    let mut world = all_ready(set(3));
    change(&mut world, |set| set["spec"]["replicas"] = 1.into());
    assert_eq!(going(&world), ["web-2"]);
    let_go(&mut world);
    assert_eq!(going(&world), ["web-1"]);
    let_go(&mut world);
    assert_eq!(pods(&world), ["web-0"]);
    assert_eq!(status(&world)["replicas"], 1);
    assert_eq!(status(&world)["observedGeneration"], 2);
}

#[test]
fn ss6_scaling_down_waits_for_health() {
    let mut world = all_ready(set(3));
    world.set_ready("web-0", false);
    change(&mut world, |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(going(&world), Vec::<String>::new(), "web-0 is not healthy");
    world.ready("web-0");
    world.settle();
    assert_eq!(going(&world), ["web-2"]);
}

#[test]
fn ss6_the_first_sick_pod_may_go_itself() {
    let mut world = all_ready(set(4));
    world.set_ready("web-2", false);
    change(&mut world, |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(going(&world), ["web-3"]);
    let_go(&mut world);
    assert_eq!(going(&world), ["web-2"], "sick, but nothing below it is");
    let mut world = all_ready(set(4));
    world.set_ready("web-2", false);
    world.set_ready("web-3", false);
    change(&mut world, |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(going(&world), Vec::<String>::new(), "web-3 is not the first sick one");
}

#[test]
fn ss5_ss6_ended_pods_do_not_hold_up_scaling_down() {
    let mut world = all_ready(set(3));
    world.set_ready("web-2", false);
    world.end("web-1", "Failed");
    world.end("web-0", "Failed");
    change(&mut world, |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(going(&world), ["web-2"], "the lowest that could still become healthy");
    let_go(&mut world);
    assert_eq!(pods(&world), Vec::<String>::new());
}

#[test]
fn ss6_parallel_scales_down_at_once_and_before_updating() {
    let mut world = all_ready(parallel(4));
    change(&mut world, |set| set["spec"]["replicas"] = 1.into());
    assert_eq!(going(&world), ["web-1", "web-2", "web-3"]);
    let mut world = all_ready(set(2));
    change(&mut world, |set| {
        set["spec"]["replicas"] = 1.into();
        set["spec"]["template"] = template("2");
    });
    assert_eq!(going(&world), ["web-1"], "scaling precedes updating");
}

#[test]
fn ss9_a_terminating_set_only_counts() {
    let mut held = set(2);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let mut world = all_ready(held);
    world.delete(SETS, "web", None);
    world.delete(BuiltinResource::Pods, "web-1", None);
    world.let_go("web-1");
    world.settle();
    assert_eq!(pods(&world), ["web-0"], "nothing is made again");
    assert_eq!(status(&world)["replicas"], 1);
    world.edit(SETS, "web", |set| set["spec"]["template"] = template("2"));
    world.settle();
    assert_eq!(
        world.names(BuiltinResource::ControllerRevisions).len(),
        1,
        "no more history either"
    );
}

#[test]
fn ss10_status_when_everything_is_ready() {
    let world = all_ready(set(2));
    let name = revision(&world);
    assert_eq!(
        status(&world),
        json!({"availableReplicas": 2, "collisionCount": 0, "currentReplicas": 2,
            "currentRevision": name, "observedGeneration": 1, "readyReplicas": 2, "replicas": 2,
            "updateRevision": name, "updatedReplicas": 2})
    );
}

#[test]
fn ss10_terminating_pods_count_as_replicas_only() {
    let mut world = all_ready(set(1));
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    let found = status(&world);
    assert_eq!((&found["replicas"], &found["readyReplicas"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&found["currentReplicas"], &found["updatedReplicas"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn ss11_events_name_pod_and_set() {
    let mut world = all_ready(set(1));
    assert_eq!(
        world.events,
        ["Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful"]
    );
    change(&mut world, |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(
        world.events[1],
        "Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful"
    );
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    let_go(&mut world);
    change(&mut world, |set| set["spec"]["replicas"] = 1.into());
    assert_eq!(
        world.events[2],
        "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: quota"
    );
}

#[test]
fn cr5_a_named_orphan_is_adopted_as_it_is_and_replaced_once_ready() {
    let mut world = World::new();
    world.create(json!({"kind": "Pod", "metadata":
        {"name": "web-0", "labels": {"app": "web", "v": "1"}}}));
    world.create(set(1));
    world.settle();
    let orphan = world.get(BuiltinResource::Pods, "web-0");
    assert!(owner::controller_of(&orphan).is_some());
    assert_eq!(
        world.json(BuiltinResource::Pods, "web-0")["metadata"]["labels"],
        json!({"app": "web", "v": "1"}),
        "it keeps its labels while it is pending"
    );
    assert_eq!(status(&world)["replicas"], 1);
    world.ready("web-0");
    world.settle();
    let updated = "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful";
    assert!(world.events.iter().any(|event| event == updated));
    assert_eq!(going(&world), ["web-0"], "it carries no revision");
    let_go(&mut world);
    let pod = world.json(BuiltinResource::Pods, "web-0");
    assert_ne!(pod["metadata"]["uid"], owner::uid(&orphan));
    assert_eq!(pod["spec"]["hostname"], "web-0");
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], revision(&world));
}

#[test]
fn pu7_a_closed_namespace_gets_no_pods() {
    let mut world = World::new();
    world.create(json!({"kind": "Namespace",
        "metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    world.create(parallel(i64::from(i32::MAX)));
    world.settle();
    assert!(pods(&world).is_empty());
}
