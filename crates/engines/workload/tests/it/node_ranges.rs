//! Rules of spec/laptop.md: which addresses the pods of a node have.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const NODES: BuiltinResource = BuiltinResource::Nodes;

fn node(name: &str, runtime: &str, pods: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"tenure.dev/runtime": runtime}},
        "spec": {},
        "status": {"capacity": {"pods": pods}},
    })
}

fn ranges(world: &World, name: &str) -> Value {
    world.json(NODES, name)["spec"]["podCIDRs"].clone()
}

#[test]
fn n3_nodes_that_give_pods_a_network_get_ranges_that_do_not_overlap() {
    let mut world = World::of(&["nodeipam"]);
    for name in ["a", "b"] {
        world.create(node(name, "process", "110"));
    }
    world.create(node("other", "containerd", "110"));
    world.settle();
    assert_eq!(ranges(&world, "a"), json!(["10.244.0.0/24"]));
    assert_eq!(world.json(NODES, "a")["spec"]["podCIDR"], "10.244.0.0/24");
    assert_eq!(ranges(&world, "b"), json!(["10.244.1.0/24"]));
    assert_eq!(ranges(&world, "other"), Value::Null, "its network is somebody else's");
    // What a node has stays; what one had that is gone is given again.
    world.delete(NODES, "a", None);
    world.create(node("c", "process", "110"));
    world.settle();
    assert_eq!(ranges(&world, "b"), json!(["10.244.1.0/24"]));
    assert_eq!(ranges(&world, "c"), json!(["10.244.0.0/24"]));
}

#[test]
fn n3_a_node_with_more_pods_gets_a_wider_range() {
    let mut world = World::of(&["nodeipam"]);
    for (name, pods) in [("usual", "250"), ("more", "251"), ("many", "1000"), ("most", "9999")] {
        world.create(node(name, "process", pods));
    }
    world.settle();
    let bits = |name: &str| -> String {
        let range = ranges(&world, name)[0].as_str().unwrap().to_owned();
        range.split_once('/').unwrap().1.to_owned()
    };
    assert_eq!(["usual", "more", "many", "most"].map(bits), ["24", "23", "22", "18"]);
}

#[test]
fn n42_a_node_for_which_no_range_is_left_is_told() {
    let mut world = World::of(&["nodeipam"]);
    let mut first = node("first", "process", "110");
    first["spec"] = json!({"podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"]});
    world.create(first);
    world.create(node("second", "process", "110"));
    world.settle();
    assert_eq!(ranges(&world, "second"), Value::Null);
    let told = world.events.iter().filter(|event| event.contains("CIDRNotAvailable"));
    assert_eq!(told.count(), 1, "{:?}", world.events);
}
