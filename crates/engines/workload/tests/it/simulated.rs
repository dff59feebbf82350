//! Simulated nodes: pods that start, become ready and end without containers. Rules of
//! spec/downward-api.md, section 18.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, owner, simulated};

use crate::world::World;

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulerName": "default-scheduler", "restartPolicy": "Always",
                 "containers": [{"name": "c", "image": "example.test/img:1"}]},
    })
}

fn world(nodes: u16) -> World {
    let mut world = World::of(&["kube-scheduler", "simulated-node", "nodelifecycle"]);
    for number in 1..=nodes {
        world.create(Value::Object(simulated::node(number, world.now)));
    }
    world.settle();
    world
}

fn status(world: &World, name: &str) -> Value {
    world.json(BuiltinResource::Pods, name)["status"].clone()
}

fn condition(world: &World, name: &str, kind: &str) -> Value {
    let status = status(world, name);
    let all = status["conditions"].as_array().unwrap();
    all.iter().find(|condition| condition["type"] == kind).unwrap().clone()
}

#[test]
fn a_node_has_a_lease_that_it_renews() {
    let mut world = world(1);
    let lease = world.list(BuiltinResource::Leases).remove(0);
    assert_eq!((lease.namespace(), lease.name()), ("kube-node-lease", "node-1"));
    let uid = owner::uid(&world.get(BuiltinResource::Nodes, "node-1")).to_owned();
    assert_eq!(
        lease.list_at(&["metadata", "ownerReferences"]),
        [json!({"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid})]
    );
    world.advance(300);
    assert!(world.get(BuiltinResource::Nodes, "node-1").at(&["spec", "taints"]).is_none());
    let renewed = world.list(BuiltinResource::Leases).remove(0);
    assert_ne!(renewed.at(&["spec", "renewTime"]), lease.at(&["spec", "renewTime"]));
}

#[test]
fn r160_a_bound_pod_runs_and_is_ready_under_its_own_address() {
    let mut world = world(2);
    for name in ["a", "b", "c"] {
        world.create(pod(name));
    }
    world.settle();
    let mut addresses: Vec<String> = Vec::new();
    for name in ["a", "b", "c"] {
        let status = status(&world, name);
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        assert_eq!(condition(&world, name, "Ready")["status"], "True");
        assert_eq!(condition(&world, name, "PodReadyToStartContainers")["status"], "True");
        addresses.push(status["podIP"].as_str().unwrap().to_owned());
    }
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 3);
}

#[test]
fn a_deleted_pod_goes_at_once() {
    let mut world = world(1);
    world.create(pod("a"));
    world.settle();
    world.delete(BuiltinResource::Pods, "a", None);
    world.settle();
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn a_deleted_pod_that_is_held_has_ended() {
    let mut world = world(1);
    let mut held = pod("a");
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.settle();
    world.delete(BuiltinResource::Pods, "a", None);
    world.settle();
    assert_eq!(status(&world, "a")["phase"], "Failed");
}

#[test]
fn what_runs_to_its_end_succeeds_after_a_moment() {
    let mut world = world(1);
    let mut once = pod("a");
    once["spec"]["restartPolicy"] = "Never".into();
    once["spec"]["containers"][0]["command"] = json!(["true"]);
    world.create(once);
    world.settle();
    assert_eq!(status(&world, "a")["phase"], "Running");
    world.advance(2);
    assert_eq!(status(&world, "a")["phase"], "Succeeded");
    let ended = &status(&world, "a")["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Completed")));
}

#[test]
fn r161_an_annotation_decides_how_a_pod_ends() {
    let mut world = world(1);
    for (name, outcome, policy) in [
        ("f", "fail", "Never"),
        ("r", "run", "Never"),
        ("s", "succeed", "Always"),
        ("l", "fail", "Always"),
    ] {
        let mut pod = pod(name);
        pod["spec"]["restartPolicy"] = policy.into();
        pod["metadata"]["annotations"] = json!({"tenure.dev/outcome": outcome});
        world.create(pod);
    }
    world.settle();
    world.advance(40);
    let phase = |name: &str| status(&world, name)["phase"].clone();
    assert_eq!([phase("f"), phase("r"), phase("s")], ["Failed", "Running", "Succeeded"]);
    let loops = &status(&world, "l")["containerStatuses"][0];
    assert_eq!(loops["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(loops["restartCount"], 2, "after 10 and 20 seconds");
}

#[test]
fn readiness_gates_keep_a_pod_unready() {
    let mut world = world(1);
    let mut gated = pod("a");
    gated["spec"]["readinessGates"] = json!([{"conditionType": "example.test/open"}]);
    world.create(gated);
    world.settle();
    assert_eq!(condition(&world, "a", "Ready")["reason"], "ReadinessGatesNotReady");
    assert_eq!(condition(&world, "a", "ContainersReady")["status"], "True");
    world.edit_status(BuiltinResource::Pods, "a", |status| {
        let open = json!({"type": "example.test/open", "status": "True"});
        status["conditions"].as_array_mut().unwrap().push(open);
    });
    world.settle();
    assert_eq!(condition(&world, "a", "Ready")["status"], "True");
}

#[test]
fn r161_annotations_decide_the_code_the_time_and_the_readiness() {
    let mut world = world(1);
    for (name, annotations) in [
        ("code", json!({"tenure.dev/exit-code": "3", "tenure.dev/duration-seconds": "10"})),
        ("well", json!({"tenure.dev/exit-code": "0", "tenure.dev/duration-seconds": "10"})),
        ("late", json!({"tenure.dev/ready-after-seconds": "10"})),
        ("odd", json!({"tenure.dev/exit-code": "many", "tenure.dev/duration-seconds": "-1"})),
    ] {
        let mut pod = pod(name);
        pod["spec"]["restartPolicy"] = "Never".into();
        pod["metadata"]["annotations"] = annotations;
        world.create(pod);
    }
    world.settle();
    world.advance(5);
    for name in ["code", "well", "late", "odd"] {
        assert_eq!(status(&world, name)["phase"], "Running", "{name}");
    }
    assert_eq!(condition(&world, "late", "Ready")["status"], "False");
    world.advance(10);
    assert_eq!(status(&world, "code")["phase"], "Failed");
    let ended = &status(&world, "code")["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 3);
    assert_eq!(status(&world, "well")["phase"], "Succeeded");
    assert_eq!(condition(&world, "late", "Ready")["status"], "True");
    assert_eq!(status(&world, "odd")["phase"], "Running");
}

#[test]
fn r161_some_of_many_fail() {
    let mut world = world(1);
    for number in 0..200 {
        let mut pod = pod(&format!("p{number}"));
        pod["spec"]["restartPolicy"] = "Never".into();
        pod["metadata"]["annotations"] = json!({
            "tenure.dev/outcome": "succeed", "tenure.dev/failure-percent": "30",
        });
        // Uids of this world count up; those of servers are drawn.
        pod["metadata"]["uid"] = format!("{number:x}6be1683f-da9c-4f68-9440-82376231cfa6").into();
        world.create(pod);
    }
    world.settle();
    world.advance(5);
    let failed = (0..200).filter(|n| status(&world, &format!("p{n}"))["phase"] == "Failed").count();
    assert!((30..=90).contains(&failed), "{failed} of 200");
}

#[test]
fn r163_many_pods_of_many_nodes_are_one_loop() {
    let mut world = world(50);
    for number in 0..250 {
        world.create(pod(&format!("p{number}")));
    }
    world.settle();
    let running = (0..250).filter(|n| status(&world, &format!("p{n}"))["phase"] == "Running");
    assert_eq!(running.count(), 250);
    assert_eq!(world.list(BuiltinResource::Leases).len(), 50);
}

#[test]
fn r164_a_node_may_play_dead() {
    let mut world = world(2);
    world.create(pod("a"));
    world.settle();
    world.edit(BuiltinResource::Nodes, "node-1", |node| {
        node["metadata"]["annotations"] = json!({"tenure.dev/lease": "stopped"});
    });
    world.settle();
    let tainted = |world: &World, name: &str| {
        let node = world.json(BuiltinResource::Nodes, name);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == "node.kubernetes.io/unreachable")
    };
    assert!(!tainted(&world, "node-1"));
    world.advance(120);
    assert!(tainted(&world, "node-1") && !tainted(&world, "node-2"));
    world.edit(BuiltinResource::Nodes, "node-1", |node| {
        node["metadata"]["annotations"] = json!({});
    });
    world.advance(120);
    assert!(!tainted(&world, "node-1"));
}
