//! Rules of spec/workload-controllers.md: slices of Endpoints that somebody writes by hand.

use serde_json::{Value, json};
use tenure_workload::{BuiltinResource, owner};

use crate::world::World;

fn endpoints(subsets: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "svc", "labels": {"team": "a"}, "annotations": {
            "kept": "yes", "endpoints.kubernetes.io/last-change-trigger-time": "now",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "subsets": subsets,
    })
}

fn subset(addresses: &[&str], port: i64) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"addresses": addresses, "ports": [{"port": port, "protocol": "TCP"}]})
}

/// A world with a Service without a selector and these Endpoints.
fn world(subsets: Value) -> World {
    let mut world = World::of(&["endpoint", "endpointslice", "endpointslicemirroring"]);
    world.create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}]}}));
    world.create(endpoints(subsets));
    world.settle();
    world
}

fn slices(world: &World) -> Vec<Value> {
    let all = world.list(BuiltinResource::EndpointSlices);
    all.iter().map(|slice| Value::Object((*slice.object).clone())).collect()
}

#[test]
fn es5_endpoints_of_a_service_without_a_selector_are_mirrored() {
    let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let world = world(json!([{
        "addresses": [{"ip": "10.1.0.7", "nodeName": "n1", "hostname": "h", "targetRef": target}],
        "notReadyAddresses": [{"ip": "10.1.0.8"}],
        "ports": [{"port": 80, "protocol": "TCP"}],
    }]));
    let [slice] = slices(&world).try_into().unwrap();
    assert_eq!(slice["metadata"]["generateName"], "svc-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"team": "a", "kubernetes.io/service-name": "svc",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(slice["metadata"]["annotations"], json!({"kept": "yes"}));
    let uid = owner::uid(&world.get(BuiltinResource::Endpoints, "svc")).to_owned();
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Endpoints", "name": "svc", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
    assert_eq!(
        slice["endpoints"],
        json!([
            {"addresses": ["10.1.0.7"], "conditions": {"ready": true}, "targetRef": target,
             "nodeName": "n1", "hostname": "h"},
            {"addresses": ["10.1.0.8"], "conditions": {"ready": false}},
        ])
    );
}

#[test]
fn es5_one_slice_per_family_and_set_of_ports() {
    let both = ["10.1.0.7", "fd00::7"];
    let world = world(json!([subset(&both, 80), subset(&both, 90), subset(&["10.1.0.9"], 70)]));
    let found: Vec<(Value, usize, usize)> = slices(&world)
        .iter()
        .map(|slice| {
            let count = |list: &str| slice[list].as_array().unwrap().len();
            (slice["addressType"].clone(), count("ports"), count("endpoints"))
        })
        .collect();
    let expected = [("IPv4", 2, 1), ("IPv6", 2, 1), ("IPv4", 1, 1)];
    assert_eq!(found, expected.map(|(family, ports, ends)| (family.into(), ports, ends)));
}

#[test]
fn es5_a_slice_follows_and_is_left_alone_when_nothing_changed() {
    let mut world = world(json!([subset(&["10.1.0.7"], 80)]));
    let name = world.names(BuiltinResource::EndpointSlices).remove(0);
    world.edit(BuiltinResource::EndpointSlices, &name, |slice| {
        slice["metadata"]["finalizers"] = json!(["example.com/kept"])
    });
    world.settle();
    assert_eq!(slices(&world)[0]["metadata"]["generateName"], "svc-");
    let writes = world.writes.len();
    world.edit(BuiltinResource::Services, "svc", |service| service["spec"]["x"] = 1.into());
    world.settle();
    assert_eq!(world.writes.len(), writes + 1, "only the edit itself");
    world.edit(BuiltinResource::Endpoints, "svc", |own| {
        own["subsets"] = json!([subset(&["10.1.0.8"], 81)])
    });
    world.settle();
    assert_eq!(world.names(BuiltinResource::EndpointSlices).first(), Some(&name), "written over");
    let written = slices(&world).remove(0);
    assert_eq!(written["endpoints"][0]["addresses"], json!(["10.1.0.8"]));
    // It is a fresh slice under the old name.
    for member in ["generateName", "finalizers"] {
        assert_eq!(written["metadata"].get(member), None, "{member}");
    }
    world.delete(BuiltinResource::EndpointSlices, &name, None);
    world.settle();
    assert_eq!(slices(&world).len(), 1, "it comes back");
}

#[test]
fn es5_slices_go_with_what_they_mirror() {
    let one = || json!([subset(&["10.1.0.7"], 80)]);
    let left = |change: &dyn Fn(&mut World)| {
        let mut world = world(one());
        change(&mut world);
        world.settle();
        let kept = |slice: &&Value| {
            slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
                == "endpointslicemirroring-controller.k8s.io"
        };
        slices(&world).iter().filter(kept).count()
    };
    assert_eq!(left(&|_| {}), 1);
    assert_eq!(left(&|world| world.delete(BuiltinResource::Services, "svc", None)), 0);
    assert_eq!(left(&|world| world.delete(BuiltinResource::Endpoints, "svc", None)), 0);
    let picks = json!({"app": "web"});
    let selector = |world: &mut World| {
        world.edit(BuiltinResource::Services, "svc", |own| own["spec"]["selector"] = picks.clone());
    };
    assert_eq!(left(&selector), 0);
    let metadata = |list: &'static str, key: &'static str, value: &'static str| {
        move |world: &mut World| {
            world.edit(BuiltinResource::Endpoints, "svc", |own| {
                own["metadata"][list][key] = value.into()
            });
        }
    };
    let skip = "endpointslice.kubernetes.io/skip-mirror";
    assert_eq!(left(&metadata("labels", skip, "true")), 0);
    assert_eq!(left(&metadata("labels", skip, "yes")), 1);
    assert_eq!(left(&metadata("annotations", "control-plane.alpha.kubernetes.io/leader", "{}")), 0);
    let emptied = |world: &mut World| {
        world.edit(BuiltinResource::Endpoints, "svc", |own| own["subsets"] = json!([]));
    };
    assert_eq!(left(&emptied), 0);
}

#[test]
fn es5_a_thousand_addresses_of_a_subset() {
    let addresses: Vec<String> =
        (0..1003).map(|n| format!("10.1.{}.{}", n / 250, n % 250)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let world = world(json!([subset(&addresses, 80)]));
    assert_eq!(slices(&world)[0]["endpoints"].as_array().unwrap().len(), 1000);
    let told: Vec<&String> =
        world.events.iter().filter(|told| told.contains("TooManyAddressesToMirror")).collect();
    assert_eq!(told.len(), 1, "{:?}", world.events);
}
