//! Rules of spec/workload-controllers.md: the course of a rollout, step by step.

use serde_json::{Value, json};
use tenure_workload::{BuiltinResource, owner};

use crate::deployment::{condition, deployment, edit, set_of, size, status, update, world};
use crate::world::World;

fn rolling(replicas: i64, surge: Value, unavailable: Value) -> Value {
    let mut web = deployment(replicas);
    web["spec"]["strategy"]["rollingUpdate"] =
        json!({"maxSurge": surge, "maxUnavailable": unavailable});
    web
}

/// Readies all pods of a version, or so many of them.
fn ready(world: &mut World, version: &str, count: usize) {
    let uid = set_of(world, version)["metadata"]["uid"].as_str().unwrap().to_owned();
    let pods = world.owned(&uid, BuiltinResource::Pods);
    for pod in pods.iter().take(count) {
        world.ready(pod);
    }
    world.settle();
}

/// Ends all deletions that nodes wait for.
fn let_go(world: &mut World) {
    for pod in world.list(BuiltinResource::Pods) {
        if owner::deleting(&pod) {
            world.let_go(pod["metadata"]["name"].as_str().unwrap());
        }
    }
    world.settle();
}

fn sizes(world: &World) -> (i64, i64) {
    (size(world, "1"), size(world, "2"))
}

fn started(web: Value) -> World {
    let mut world = world(web);
    ready(&mut world, "1", usize::MAX);
    update(&mut world, "2");
    world
}

#[test]
fn dp8_surge_1_unavailable_1() {
    let mut world = started(rolling(3, json!(1), json!(1)));
    assert_eq!(sizes(&world), (2, 2));
    ready(&mut world, "2", 1);
    assert_eq!(sizes(&world), (1, 3));
    ready(&mut world, "2", 3);
    let_go(&mut world);
    assert_eq!(sizes(&world), (0, 3));
    assert_eq!(condition(&world, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[test]
fn dp8_surge_0_goes_down_first() {
    let mut world = started(rolling(3, json!(0), json!(1)));
    assert_eq!(sizes(&world), (2, 1));
    ready(&mut world, "2", 1);
    assert_eq!(sizes(&world), (1, 2));
}

#[test]
fn dp8_unavailable_0_goes_up_first() {
    let mut world = started(rolling(3, json!(1), json!(0)));
    assert_eq!(sizes(&world), (3, 1));
    ready(&mut world, "2", 1);
    assert_eq!(sizes(&world), (2, 2));
}

#[test]
fn dp8_percentages_that_vanish_still_move() {
    let world = started(rolling(1, json!("0%"), json!("0%")));
    assert_eq!(sizes(&world), (0, 1));
}

#[test]
fn dp9_unready_old_pods_go_first() {
    let mut world = world(rolling(4, json!(1), json!(1)));
    ready(&mut world, "1", 3);
    let uid = set_of(&world, "1")["metadata"]["uid"].as_str().unwrap().to_owned();
    let before = world.owned(&uid, BuiltinResource::Pods);
    update(&mut world, "2");
    assert_eq!(sizes(&world), (3, 2));
    let after = world.owned(&uid, BuiltinResource::Pods);
    let gone: Vec<&String> = before.iter().filter(|pod| !after.contains(pod)).collect();
    assert_eq!(gone, [&before[3]], "the one that never became ready");
}

#[test]
fn dp9_a_broken_rollout_stops_at_the_limit() {
    let mut world = started(rolling(10, json!(3), json!(2)));
    assert_eq!(sizes(&world), (8, 5));
    world.advance(100);
    assert_eq!(sizes(&world), (8, 5), "new pods never become ready");
    assert_eq!(status(&world)["availableReplicas"], 8);
}

#[test]
fn dp9_rollover_leaves_the_middle_version() {
    let mut world = started(rolling(10, json!(3), json!(2)));
    update(&mut world, "3");
    // Pods of the second version were never available, so all of them may go.
    assert_eq!((size(&world, "1"), size(&world, "2"), size(&world, "3")), (8, 0, 5));
    world.pods_run = true;
    world.settle();
    assert_eq!((size(&world, "1"), size(&world, "2"), size(&world, "3")), (0, 0, 10));
    assert_eq!(set_of(&world, "3")["metadata"]["annotations"][crate::deployment::REVISION], "3");
}

#[test]
fn dp10_recreate_waits_for_the_last_old_pod() {
    let mut web = deployment(2);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut world = world(web);
    ready(&mut world, "1", 2);
    update(&mut world, "2");
    assert_eq!(
        world.names(BuiltinResource::ReplicaSets).len(),
        1,
        "old pods are still terminating"
    );
    assert_eq!(size(&world, "1"), 0);
    let_go(&mut world);
    assert_eq!(sizes(&world), (0, 2));
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
}

#[test]
fn dp10_recreate_ignores_old_pods_that_have_ended() {
    let mut web = deployment(1);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    let mut world = world(web);
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.end(&pod, "Failed");
    world.settle();
    update(&mut world, "2");
    let_go(&mut world);
    assert_eq!(sizes(&world), (0, 1));
}

#[test]
fn dp11_growth_is_shared_in_proportion() {
    let mut world = started(rolling(10, json!(3), json!(2)));
    assert_eq!(sizes(&world), (8, 5));
    edit(&mut world, |web| web["spec"]["replicas"] = 30.into());
    assert_eq!(sizes(&world), (20, 13), "33 in the proportion of 8 to 5");
    let note = set_of(&world, "1")["metadata"]["annotations"].clone();
    assert_eq!(note["deployment.kubernetes.io/desired-replicas"], "30");
    assert_eq!(note["deployment.kubernetes.io/max-replicas"], "33");
}

#[test]
fn dp11_shrinking_is_shared_in_proportion() {
    let mut world = started(rolling(10, json!(3), json!(2)));
    world.events.clear();
    edit(&mut world, |web| web["spec"]["replicas"] = 5.into());
    let told = |from: i64, to: i64| {
        world.events.iter().any(|event| event.ends_with(&format!("from {from} to {to}")))
    };
    assert!(told(8, 5) && told(5, 3), "eight in the proportion of eight to five");
    assert_eq!(sizes(&world), (3, 5), "then the rollout goes on");
    edit(&mut world, |web| web["spec"]["replicas"] = 0.into());
    assert_eq!(sizes(&world), (0, 0));
}

#[test]
fn dp11_a_single_set_takes_the_whole_size() {
    let mut world = world(deployment(2));
    edit(&mut world, |web| web["spec"]["replicas"] = 7.into());
    assert_eq!(size(&world, "1"), 7);
    edit(&mut world, |web| web["spec"]["replicas"] = 0.into());
    assert_eq!(size(&world, "1"), 0);
    edit(&mut world, |web| web["spec"]["replicas"] = 3.into());
    assert_eq!(size(&world, "1"), 3);
}

#[test]
fn dp2_scaling_does_not_move_the_rollout() {
    let mut web = rolling(4, json!(1), json!(0));
    web["spec"]["paused"] = false.into();
    let mut world = started(web);
    assert_eq!(sizes(&world), (4, 1));
    edit(&mut world, |web| {
        web["spec"]["paused"] = true.into();
        web["spec"]["replicas"] = 8.into();
    });
    assert_eq!(sizes(&world), (7, 2), "nine in the proportion of four to one");
}
