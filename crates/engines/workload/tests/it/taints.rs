//! Rules of spec/workload-controllers.md: taints of nodes and what they do to pods.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

fn world(tolerations: Value) -> World {
    let mut world = World::of(&["nodelifecycle", "taint-eviction"]);
    world
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n1", "containers": [], "tolerations": tolerations}}));
    world.settle();
    world
}

fn set_ready(world: &mut World, status: &str) {
    world.edit_status(BuiltinResource::Nodes, "n1", |s| {
        s["conditions"][0]["status"] = status.into()
    });
    world.settle();
}

fn taints(world: &World) -> Vec<String> {
    let node = world.json(BuiltinResource::Nodes, "n1");
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |taint: &Value, name: &str| taint[name].as_str().unwrap().to_owned();
    taints.iter().map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect"))).collect()
}

fn leaves(world: &World) -> bool {
    world.json(BuiltinResource::Pods, "p")["metadata"].get("deletionTimestamp").is_some()
}

#[test]
fn tn1_conditions_become_taints_and_go_again() {
    let mut world = world(json!([{"operator": "Exists"}]));
    set_ready(&mut world, "False");
    let key = "node.kubernetes.io/not-ready";
    assert_eq!(taints(&world), [format!("{key}:NoSchedule"), format!("{key}:NoExecute")]);
    set_ready(&mut world, "True");
    assert_eq!(taints(&world), Vec::<String>::new());
    world.edit(BuiltinResource::Nodes, "n1", |node| node["spec"]["unschedulable"] = true.into());
    world.settle();
    assert_eq!(taints(&world), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    assert!(!leaves(&world));
}

#[test]
fn tn1_a_pod_without_toleration_leaves_at_once() {
    let mut world = world(json!([]));
    set_ready(&mut world, "False");
    assert!(leaves(&world));
    assert_eq!(world.events, ["Normal TaintManagerEviction Marking for deletion Pod default/p"]);
    let conditions = &world.json(BuiltinResource::Pods, "p")["status"]["conditions"];
    assert_eq!(conditions[0]["reason"], "DeletionByTaintManager");
}

/// A toleration of nodes that are not ready which ends after so many seconds.
fn for_seconds(seconds: i64) -> Value {
    json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}])
}

#[test]
fn tn1_a_toleration_may_end() {
    let mut world = world(for_seconds(300));
    set_ready(&mut world, "False");
    world.advance(299);
    assert!(!leaves(&world));
    world.advance(2);
    assert!(leaves(&world));
}

/// NoExecuteTaintManager Single Pod removing taint cancels eviction.
#[test]
fn tn1_a_taint_that_goes_in_time_evicts_nobody() {
    let mut world = world(for_seconds(300));
    set_ready(&mut world, "False");
    world.advance(299);
    set_ready(&mut world, "True");
    world.advance(600);
    assert!(!leaves(&world));
}

/// NoExecuteTaintManager Multiple Pods evicts pods with minTolerationSeconds.
#[test]
fn tn1_each_pod_leaves_after_its_own_time() {
    let mut world = world(for_seconds(300));
    world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"},
        "spec": {"nodeName": "n1", "containers": [], "tolerations": for_seconds(60)}}));
    world.settle();
    let other_leaves = |world: &World| {
        world.json(BuiltinResource::Pods, "q")["metadata"].get("deletionTimestamp").is_some()
    };
    set_ready(&mut world, "False");
    world.advance(59);
    assert!(!leaves(&world) && !other_leaves(&world));
    world.advance(2);
    assert!(!leaves(&world) && other_leaves(&world));
    world.advance(240);
    assert!(leaves(&world));
}

#[test]
fn tn1_a_node_whose_agent_falls_silent_is_unreachable() {
    let mut world = world(json!([{"operator": "Exists"}]));
    let now = world.now.to_string();
    world.create(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"renewTime": now}}));
    world.settle();
    world.advance(49);
    assert_eq!(taints(&world), Vec::<String>::new());
    world.advance(2);
    assert!(taints(&world).contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned()));
}
