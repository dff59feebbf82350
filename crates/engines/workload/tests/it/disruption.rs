//! Rules of spec/workload-controllers.md: PodDisruptionBudgets.

use serde_json::{Value, json};
use tenure_workload::{BuiltinResource, owner};

use crate::replicas::set;
use crate::world::World;

fn budget(spec: Value) -> Value {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
           "metadata": {"name": "b"}, "spec": spec})
}

/// A ReplicaSet with so many pods, so many of them ready, and a budget over them.
fn world(pods: i64, ready: usize, spec: Value) -> World {
    let mut world = World::of(&["replicaset", "disruption"]);
    world.create(set(pods));
    world.settle();
    for name in world.names(BuiltinResource::Pods).into_iter().take(ready) {
        world.ready(&name);
    }
    world.create(budget(spec));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.json(BuiltinResource::PodDisruptionBudgets, "b")["status"].clone()
}

fn numbers(world: &World) -> [i64; 4] {
    let status = status(world);
    ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .map(|name| status[name].as_i64().unwrap())
}

#[test]
fn pd1_what_may_be_disturbed() {
    let cases = [
        (2, 2, json!({"minAvailable": 1}), [2, 2, 1, 1]),
        (2, 0, json!({"minAvailable": 1}), [2, 0, 1, 0]),
        (3, 3, json!({"maxUnavailable": "50%"}), [3, 3, 1, 2]),
        (3, 2, json!({"maxUnavailable": 1}), [3, 2, 2, 0]),
        (4, 4, json!({"minAvailable": "50%"}), [4, 4, 2, 2]),
        (1, 1, json!({"minAvailable": 5}), [1, 1, 5, 0]),
        (2, 2, json!({"maxUnavailable": 9}), [2, 2, 0, 2]),
    ];
    for (pods, ready, spec, expected) in cases {
        let world = world(pods, ready, spec.clone());
        assert_eq!(numbers(&world), expected, "{spec}");
        let allowed = if expected[3] > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(status(&world)["conditions"][0]["reason"], allowed);
        assert_eq!(status(&world)["conditions"][0]["observedGeneration"], 1);
    }
}

#[test]
fn pd1_pods_without_a_controller_have_no_scale() {
    let mut world = World::of(&["disruption"]);
    world.create(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": []}}));
    world.ready("p");
    world.create(budget(json!({"maxUnavailable": 1})));
    world.settle();
    assert_eq!(numbers(&world), [0, 1, 0, 0]);
    assert_eq!(status(&world)["conditions"][0]["reason"], "InsufficientPods");
}

#[test]
fn pd1_a_pod_of_an_unknown_controller_stops_everything() {
    let mut world = World::of(&["disruption"]);
    let odd = world.create(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "odd"}}));
    world.create(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "odd", "uid": owner::uid(&odd),
             "controller": true}]},
        "spec": {"containers": []}}));
    world.create(budget(json!({"maxUnavailable": 1})));
    world.settle();
    assert_eq!(status(&world)["disruptionsAllowed"], 0);
    assert_eq!(status(&world)["conditions"][0]["reason"], "SyncFailed");
}

#[test]
fn pd1_an_eviction_counts_until_the_pod_goes_or_two_minutes_pass() {
    let mut world = world(2, 2, json!({"minAvailable": 1}));
    let name = world.names(BuiltinResource::Pods).remove(0);
    let now = world.now.to_string();
    world.edit_status(BuiltinResource::PodDisruptionBudgets, "b", |status| {
        status["disruptionsAllowed"] = 0.into();
        status["disruptedPods"] = json!({name.clone(): now});
    });
    world.settle();
    assert_eq!(numbers(&world), [2, 1, 1, 0]);
    world.advance(130);
    assert_eq!(numbers(&world), [2, 2, 1, 1]);
    assert_eq!(status(&world)["disruptedPods"], Value::Null);
    assert!(world.events.iter().any(|event| event.starts_with("Warning NotDeleted")));
}
