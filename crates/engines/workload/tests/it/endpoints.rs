//! Rules of spec/workload-controllers.md: EndpointSlices and Endpoints of Services.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, owner};

use crate::world::World;

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "svc", "labels": {"team": "a"}},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.0.0.1",
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    })
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": name, "labels": {"topology.kubernetes.io/zone": "z1"}}})
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
    })
}

fn world() -> World {
    let mut world = World::of(&["endpoint", "endpointslice"]);
    world.create(node("n1"));
    world.create(service());
    world.settle();
    world
}

/// Gives a pod an address, ready or not.
fn reach(world: &mut World, name: &str, ip: &str, ready: bool) {
    world.set_ready(name, ready);
    world.edit_status(BuiltinResource::Pods, name, |status| {
        status["podIP"] = ip.into();
        status["podIPs"] = json!([{"ip": ip}]);
    });
    world.settle();
}

fn slices(world: &World) -> Vec<Value> {
    let all = world.list(BuiltinResource::EndpointSlices);
    all.iter().map(|slice| Value::Object((*slice.object).clone())).collect()
}

#[test]
fn es1_a_service_without_pods_has_one_empty_slice() {
    let world = world();
    let slice = slices(&world).remove(0);
    assert_eq!(slice["metadata"]["generateName"], "svc-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"team": "a", "kubernetes.io/service-name": "svc",
               "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    let service = world.get(BuiltinResource::Services, "svc");
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "svc",
                "uid": owner::uid(&service), "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(slice["endpoints"], Value::Null);
}

#[test]
fn es1_labels_follow_and_a_deleted_slice_comes_back() {
    let mut world = world();
    world.edit(BuiltinResource::Services, "svc", |s| s["metadata"]["labels"]["team"] = "b".into());
    world.settle();
    assert_eq!(slices(&world)[0]["metadata"]["labels"]["team"], "b");
    let name = world.names(BuiltinResource::EndpointSlices).remove(0);
    world.delete(BuiltinResource::EndpointSlices, &name, None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::EndpointSlices).len(), 1);
    assert_ne!(world.names(BuiltinResource::EndpointSlices)[0], name);
}

#[test]
fn es1_a_headless_service_marks_its_slices() {
    let mut world = World::of(&["endpointslice"]);
    let mut headless = service();
    headless["spec"]["clusterIP"] = "None".into();
    world.create(headless);
    world.settle();
    let labels = &slices(&world)[0]["metadata"]["labels"];
    assert_eq!(labels["service.kubernetes.io/headless"], "");
}

#[test]
fn es1_a_slice_holds_a_hundred_endpoints() {
    let mut world = world();
    for number in 0..150 {
        let name = format!("p{number:03}");
        world.create(pod(&name));
        reach(&mut world, &name, &format!("10.1.0.{number}"), true);
    }
    let sizes: Vec<usize> =
        slices(&world).iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [100, 50]);
    let services = world.get(BuiltinResource::Endpoints, "svc");
    let ready = services.list_at(&["subsets"])[0]["addresses"].as_array().unwrap().len();
    assert_eq!(ready, 150);
}

#[test]
fn es2_a_ready_pod_is_a_ready_endpoint() {
    let mut world = world();
    world.create(pod("p1"));
    world.settle();
    assert_eq!(slices(&world)[0]["endpoints"], Value::Null, "no address, no endpoint");
    reach(&mut world, "p1", "10.1.0.7", true);
    let uid = owner::uid(&world.get(BuiltinResource::Pods, "p1")).to_owned();
    let slice = slices(&world).remove(0);
    assert_eq!(
        slice["endpoints"],
        json!([{"addresses": ["10.1.0.7"], "nodeName": "n1", "zone": "z1",
                "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "p1", "uid": uid}}])
    );
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
}

#[test]
fn es2_terminating_serves_but_is_not_ready_and_an_ended_pod_is_out() {
    let mut world = world();
    world.create(pod("p1"));
    world.create(pod("p2"));
    reach(&mut world, "p1", "10.1.0.7", true);
    reach(&mut world, "p2", "10.1.0.8", true);
    world.delete(BuiltinResource::Pods, "p1", None);
    world.end("p2", "Succeeded");
    world.settle();
    let endpoints = &slices(&world)[0]["endpoints"];
    assert_eq!(endpoints.as_array().unwrap().len(), 1);
    assert_eq!(
        endpoints[0]["conditions"],
        json!({"ready": false, "serving": true, "terminating": true})
    );
    world.let_go("p1");
    world.settle();
    assert_eq!(slices(&world).len(), 1, "the slice stays, empty");
    assert_eq!(slices(&world)[0]["endpoints"], Value::Null);
}

#[test]
fn es2_unready_pods_can_be_published_even_without_a_node() {
    let mut world = world();
    let mut stray = pod("p1");
    stray["spec"]["nodeName"] = "gone".into();
    world.create(stray);
    reach(&mut world, "p1", "10.1.0.7", false);
    assert_eq!(slices(&world)[0]["endpoints"], Value::Null, "its node is not there");
    world.edit(BuiltinResource::Services, "svc", |s| {
        s["spec"]["publishNotReadyAddresses"] = true.into();
    });
    world.settle();
    assert_eq!(
        slices(&world)[0]["endpoints"][0]["conditions"],
        json!({"ready": true, "serving": false, "terminating": false})
    );
}

#[test]
fn es3_endpoints_stay_in_their_slice() {
    let mut world = world();
    for number in 0..101 {
        let name = format!("p{number:03}");
        world.create(pod(&name));
        reach(&mut world, &name, &format!("10.1.0.{number}"), true);
    }
    world.writes.clear();
    world.delete(BuiltinResource::Pods, "p050", None);
    world.let_go("p050");
    world.settle();
    let written = world.writes.iter().filter(|write| write.contains("endpointslices/")).count();
    // Once when the pod begins to end, once when it is gone; nothing is moved between slices.
    assert!(written <= 2, "{:?}", world.writes);
}

#[test]
fn es4_a_service_without_selector_is_left_alone() {
    let mut world = World::of(&["endpoint", "endpointslice"]);
    let mut bare = service();
    bare["spec"]["selector"] = Value::Null;
    world.create(bare);
    world.create(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "svc"},
        "subsets": [{"addresses": [{"ip": "10.9.9.9"}]}]}));
    world.settle();
    assert!(slices(&world).is_empty());
    assert_eq!(
        world.json(BuiltinResource::Endpoints, "svc")["subsets"][0]["addresses"][0]["ip"],
        "10.9.9.9"
    );
}

#[test]
fn es4_endpoints_tell_ready_and_unready_apart_and_go_with_the_service() {
    let mut world = world();
    world.create(pod("p1"));
    world.create(pod("p2"));
    reach(&mut world, "p1", "10.1.0.7", true);
    reach(&mut world, "p2", "10.1.0.8", false);
    let endpoints = world.json(BuiltinResource::Endpoints, "svc");
    let ip = |list: &str| endpoints["subsets"][0][list][0]["ip"].clone();
    assert_eq!((ip("addresses"), ip("notReadyAddresses")), ("10.1.0.7".into(), "10.1.0.8".into()));
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    assert_eq!(endpoints["metadata"]["ownerReferences"], Value::Null);
    world.delete(BuiltinResource::Services, "svc", None);
    world.settle();
    assert!(world.names(BuiltinResource::Endpoints).is_empty());
    assert!(slices(&world).is_empty());
}

#[test]
fn es4a_pods_in_the_network_of_their_machine_are_shown_and_what_is_not_served_is_told_once() {
    let mut world = world();
    for (name, ip) in [("a", "127.64.0.7"), ("b", "127.100.0.8"), ("host", "127.0.0.1")] {
        world.create(pod(name));
        reach(&mut world, name, ip, true);
    }
    let slice = slices(&world).remove(0);
    let shown: Vec<&Value> =
        slice["endpoints"].as_array().unwrap().iter().map(|one| &one["addresses"][0]).collect();
    // An address of the node itself cannot be shown, and does not keep the others from it.
    assert_eq!(shown, ["127.64.0.7", "127.100.0.8"]);
    let endpoints = world.get(BuiltinResource::Endpoints, "svc");
    assert_eq!(endpoints.list_at(&["subsets"])[0]["addresses"].as_array().unwrap().len(), 2);
    let told: Vec<&String> =
        world.events.iter().filter(|event| event.contains("NotServed")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Warning NotServed the address 10.0.0.1 is not served"),
        "{told:?}"
    );
}

#[test]
fn es4a_a_pod_on_the_loopback_of_its_node_is_not_published_and_that_is_told_once() {
    let mut world = world();
    world.create(pod("host"));
    reach(&mut world, "host", "127.0.0.1", true);
    reach(&mut world, "host", "127.0.0.1", false);
    reach(&mut world, "host", "127.0.0.1", true);
    let told: Vec<&String> =
        world.events.iter().filter(|event| event.contains("NotPublished")).collect();
    assert_eq!(told.len(), 1, "{:?}", world.events);
    assert!(told[0].contains("pod host is not behind the Service"), "{told:?}");
}

#[test]
fn es4a_nothing_is_told_of_pods_with_a_network() {
    let mut world = world();
    world.create(pod("a"));
    reach(&mut world, "a", "10.1.0.7", true);
    assert!(world.events.is_empty(), "{:?}", world.events);
}

#[test]
fn es4_a_selector_that_matches_no_pod_makes_endpoints_without_subsets() {
    let mut world = world();
    let endpoints = world.json(BuiltinResource::Endpoints, "svc");
    assert_eq!(endpoints["subsets"], Value::Null, "{endpoints}");
    world.delete(BuiltinResource::Services, "svc", None);
    world.settle();
    assert!(world.names(BuiltinResource::Endpoints).is_empty());
}
