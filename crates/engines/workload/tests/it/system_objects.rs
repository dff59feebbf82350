//! Rules of spec/api-server.md: what every cluster has.

use serde_json::json;
use tenure_workload::BuiltinResource;

use crate::world::World;

#[test]
fn r79_what_every_cluster_has_comes_back() {
    let mut world = World::of(&["system-objects"]);
    for (resource, name) in [
        (BuiltinResource::Namespaces, "default"),
        (BuiltinResource::Services, "kubernetes"),
        (BuiltinResource::Endpoints, "kubernetes"),
    ] {
        if world.names(resource).is_empty() {
            world.create(
                json!({"apiVersion": "v1", "kind": resource.kind(), "metadata": {"name": name}}),
            );
        }
        world.delete(resource, name, None);
        world.settle();
        assert_eq!(world.names(resource), [name]);
    }
}

#[test]
fn r79_endpoints_are_put_right_and_the_service_may_be_edited() {
    let mut world = World::of(&["system-objects"]);
    world.create(json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "labels": {"a": "b"}}, "subsets": []}));
    world.settle();
    let endpoints = world.json(BuiltinResource::Endpoints, "kubernetes");
    assert_eq!(endpoints["subsets"], json!([{"addresses": []}]));
    assert_eq!(endpoints["metadata"]["labels"]["a"], "b", "the rest is left alone");
    world.edit(BuiltinResource::Services, "kubernetes", |service| {
        service["spec"]["type"] = json!("NodePort");
    });
    world.settle();
    let service = world.json(BuiltinResource::Services, "kubernetes");
    assert_eq!(service["spec"]["type"], "NodePort");
}
