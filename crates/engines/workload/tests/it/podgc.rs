//! Rules of spec/workload-controllers.md: the collector of pods.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}})
}

fn pod(name: &str, node: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                         "spec": {"containers": []}});
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

fn world() -> World {
    let mut world = World::of(&["podgc"]);
    world.create(node("n1"));
    world.create(pod("p", "n1"));
    world.settle();
    world
}

#[test]
fn pg1_pods_of_a_node_that_stays_away_are_given_up() {
    let mut world = world();
    world.delete(BuiltinResource::Nodes, "n1", None);
    world.settle();
    world.advance(39);
    assert_eq!(world.names(BuiltinResource::Pods), ["p"]);
    world.advance(2);
    assert!(world.names(BuiltinResource::Pods).is_empty());
    assert!(world.writes.iter().any(|write| write == "update pods/p status"), "marked as failed");
}

#[test]
fn pg1_a_node_that_comes_back_keeps_its_pods() {
    let mut world = world();
    world.delete(BuiltinResource::Nodes, "n1", None);
    world.settle();
    world.advance(20);
    world.create(node("n1"));
    world.settle();
    world.advance(100);
    assert_eq!(world.names(BuiltinResource::Pods), ["p"]);
}

#[test]
fn pg1_what_waits_on_a_node_out_of_service_goes() {
    let mut world = world();
    world.delete(BuiltinResource::Pods, "p", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods), ["p"], "its node would still have to let go");
    world.edit(BuiltinResource::Nodes, "n1", |node| {
        node["spec"]["taints"] =
            json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
    });
    world.settle();
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn pg2_ended_pods_below_the_limit_stay() {
    let mut world = world();
    world.end("p", "Succeeded");
    world.settle();
    world.advance(60);
    assert_eq!(world.names(BuiltinResource::Pods), ["p"]);
}
