//! Rules of spec/workload-controllers.md: networks of Services and the addresses in them.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

fn world() -> World {
    World::of(&["servicecidr"])
}

fn network(name: &str, cidrs: &[&str]) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name}, "spec": {"cidrs": cidrs}})
}

fn address(name: &str, namespace: &str, service: &str) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": name, "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}}})
}

fn service(name: &str, address: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address]}})
}

fn ready(world: &World, name: &str) -> (Value, Value) {
    let object = world.json(BuiltinResource::ServiceCidrs, name);
    let condition = object["status"]["conditions"][0].clone();
    assert_eq!(condition["type"], "Ready");
    (condition["status"].clone(), condition["reason"].clone())
}

#[test]
fn sv1_a_network_is_protected_and_then_ready() {
    let mut world = world();
    world.create(network("a", &["10.0.0.0/24"]));
    world.settle();
    let object = world.json(BuiltinResource::ServiceCidrs, "a");
    assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(ready(&world, "a"), (json!("True"), json!("")));
    assert_eq!(
        world.writes,
        ["create servicecidrs/a", "update servicecidrs/a ", "update servicecidrs/a status"]
    );
}

#[test]
fn sv2_a_network_waits_for_the_addresses_that_are_in_it_alone() {
    for (name, own, other, waits) in [
        ("none of its own", "10.1.0.5", None, false),
        ("one of its own", "10.0.0.5", None, true),
        ("a larger network", "10.0.0.5", Some("10.0.0.0/8"), false),
        ("the same network", "10.0.0.5", Some("10.0.0.0/24"), false),
        ("the half with the address", "10.0.0.5", Some("10.0.0.0/25"), false),
        ("the half without", "10.0.0.5", Some("10.0.0.128/25"), true),
        ("its end does not count", "10.0.0.127", Some("10.0.0.0/25"), true),
    ] {
        let mut world = world();
        world.create(network("a", &["10.0.0.0/24", "fd00::/64"]));
        world.create(address(own, "default", "s"));
        if let Some(other) = other {
            // A network that goes too keeps nothing.
            world.create(network("gone", &["10.0.0.0/8"]));
            world.create(network("other", &[other, "fd00::/48"]));
            world.settle();
            world.delete(BuiltinResource::ServiceCidrs, "gone", None);
        }
        world.settle();
        world.delete(BuiltinResource::ServiceCidrs, "a", None);
        world.settle();
        let there = world.names(BuiltinResource::ServiceCidrs).contains(&"a".to_owned());
        assert_eq!(there, waits, "{name}");
        if waits {
            assert_eq!(ready(&world, "a"), (json!("False"), json!("Terminating")), "{name}");
            world.delete(BuiltinResource::IpAddresses, own, None);
            world.settle();
            assert!(
                !world.names(BuiltinResource::ServiceCidrs).contains(&"a".to_owned()),
                "{name}"
            );
        }
    }
}

#[test]
fn sv2_addresses_of_others_hold_no_network_and_a_new_one_frees_an_old() {
    let mut world = world();
    world.create(network("a", &["10.0.0.0/24"]));
    let mut foreign = address("10.0.0.5", "default", "s");
    foreign["metadata"]["labels"] = json!({});
    world.create(foreign);
    world.settle();
    world.delete(BuiltinResource::ServiceCidrs, "a", None);
    world.settle();
    assert!(world.names(BuiltinResource::ServiceCidrs).is_empty());
    world.create(network("b", &["10.0.0.0/24"]));
    world.create(address("10.0.0.6", "default", "s"));
    world.settle();
    world.delete(BuiltinResource::ServiceCidrs, "b", None);
    world.settle();
    world.create(network("c", &["10.0.0.0/16"]));
    world.settle();
    assert_eq!(world.names(BuiltinResource::ServiceCidrs), ["c"]);
}

fn repaired() -> World {
    let mut world = World::of(&["ipallocator-repair"]);
    world.create(service("s", "10.0.0.5"));
    world.settle();
    world
}

#[test]
fn sv3_a_service_gets_its_address_back() {
    let mut world = repaired();
    let made = world.json(BuiltinResource::IpAddresses, "10.0.0.5");
    let wanted = address("10.0.0.5", "default", "s");
    assert_eq!(made["spec"], wanted["spec"]);
    assert_eq!(made["metadata"]["labels"], wanted["metadata"]["labels"]);
    world.delete(BuiltinResource::IpAddresses, "10.0.0.5", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::IpAddresses), ["10.0.0.5"]);
    assert!(world.events.iter().any(|told| told.contains("Warning ClusterIPNotAllocated")));
    world.edit(BuiltinResource::IpAddresses, "10.0.0.5", |object| {
        object["spec"]["parentRef"]["name"] = "absent".into();
    });
    world.edit(BuiltinResource::Services, "s", |object| {
        object["metadata"]["labels"] = json!({"a": "b"})
    });
    world.settle();
    assert_eq!(world.json(BuiltinResource::IpAddresses, "10.0.0.5")["spec"], wanted["spec"]);
    world.edit(BuiltinResource::IpAddresses, "10.0.0.5", |object| {
        object["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"] = "IPv6".into();
    });
    world.settle();
    let labels = &world.json(BuiltinResource::IpAddresses, "10.0.0.5")["metadata"]["labels"];
    assert_eq!(labels, &wanted["metadata"]["labels"]);
}

#[test]
fn sv3_two_services_with_one_address_are_told_of() {
    let mut world = repaired();
    world.create(service("t", "10.0.0.5"));
    world.settle();
    let told = "ClusterIPAlreadyAllocated";
    assert!(world.events.iter().any(|event| event.contains(told)), "{:?}", world.events);
    let parent = &world.json(BuiltinResource::IpAddresses, "10.0.0.5")["spec"]["parentRef"];
    assert_eq!(parent["name"], "s");
}

#[test]
fn sv3_an_address_that_no_service_has_goes() {
    let mut world = repaired();
    world.create(address("10.0.0.6", "default", "absent"));
    world.settle();
    assert_eq!(world.names(BuiltinResource::IpAddresses).len(), 2, "a Service may come yet");
    world.advance(61);
    world.settle();
    assert_eq!(world.names(BuiltinResource::IpAddresses), ["10.0.0.5"]);
    world.create(address("10.0.0.7", "default", "s"));
    let mut foreign = address("10.0.0.8", "default", "s");
    foreign["spec"]["parentRef"] =
        json!({"group": "example.com", "resource": "gateways", "name": "g"});
    world.create(foreign.clone());
    world.settle();
    assert_eq!(world.names(BuiltinResource::IpAddresses), ["10.0.0.5"]);
    for reason in ["IPAddressNotAllocated", "IPAddressWrongReference"] {
        assert!(world.events.iter().any(|event| event.contains(reason)), "{:?}", world.events);
    }
    // What somebody else manages stays.
    foreign["metadata"]["labels"] = json!({});
    world.create(foreign);
    world.advance(600);
    world.settle();
    assert_eq!(world.names(BuiltinResource::IpAddresses), ["10.0.0.5", "10.0.0.8"]);
}

#[test]
fn pc1_a_request_for_a_certificate_goes_after_a_quarter_of_an_hour() {
    let mut world = World::of(&["podcertificaterequestcleaner"]);
    world.create(json!({"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
        "metadata": {"name": "req-1"}, "spec": {}}));
    world.settle();
    world.advance(899);
    world.settle();
    assert_eq!(world.names(BuiltinResource::PodCertificateRequests), ["req-1"]);
    world.advance(1);
    world.settle();
    assert!(world.names(BuiltinResource::PodCertificateRequests).is_empty());
}
