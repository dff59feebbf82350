//! Rules of spec/ownership.md: how a namespace goes.

use serde_json::{Value, json};
use tenure_workload::{Act, BuiltinResource};

use crate::world::World;

fn world(own: &[&str]) -> World {
    let mut world = World::of(&["namespace"]);
    world.create(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "default", "finalizers": own}, "spec": {"finalizers": ["kubernetes"]},
    }));
    world
}

fn map(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "finalizers": finalizers}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "n", "containers": []}})
}

fn condition(world: &World, kind: &str) -> Value {
    let namespace = world.json(BuiltinResource::Namespaces, "default");
    let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

#[test]
fn r153_r157_everything_goes_and_then_the_namespace() {
    let mut world = world(&[]);
    world.create(map("a", &[]));
    world.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}));
    world.settle();
    assert_eq!(world.names(BuiltinResource::ConfigMaps), ["a"]);
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    for resource in
        [BuiltinResource::ConfigMaps, BuiltinResource::Secrets, BuiltinResource::Namespaces]
    {
        assert!(world.names(resource).is_empty(), "{resource:?}");
    }
}

#[test]
fn r154_pods_go_first() {
    let mut world = world(&[]);
    world.create(map("a", &[]));
    world.create(pod("p"));
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::ConfigMaps), ["a"], "nothing else while a pod remains");
    assert_eq!(condition(&world, "NamespaceContentRemaining")["status"], "True");
    world.let_go("p");
    world.settle();
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}

#[test]
fn r155_what_is_held_is_told_and_waited_for() {
    let mut world = world(&[]);
    world.create(map("h", &["a/b"]));
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    world.advance(1);
    let held = condition(&world, "NamespaceFinalizersRemaining");
    let wanted =
        "Some content in the namespace has finalizers remaining: a/b in 1 resource instances";
    assert_eq!(held["message"], wanted);
    world.edit(BuiltinResource::ConfigMaps, "h", |map| map["metadata"]["finalizers"] = json!([]));
    world.settle();
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}

#[test]
fn r155_what_cannot_be_deleted_is_told_and_tried_again() {
    let mut world = world(&[]);
    world.create(map("large", &[]));
    world.refuse(|intent| {
        matches!(intent.act, Act::Remove { .. }).then_some((413, "TooLarge", "too large"))
    });
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    world.advance(2);
    let failing = condition(&world, "NamespaceDeletionContentFailure");
    assert_eq!(
        (&failing["status"], &failing["reason"]),
        (&json!("True"), &json!("ContentDeletionFailed"))
    );
    assert!(failing["message"].as_str().unwrap().ends_with("1 failing: too large"), "{failing}");
    world.allow();
    world.advance(2);
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}

#[test]
fn r157_a_namespace_that_others_hold_says_that_it_is_empty() {
    let mut world = world(&["own/one"]);
    world.create(map("a", &[]));
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    let left = world.json(BuiltinResource::Namespaces, "default");
    assert_eq!(left["spec"], json!({}));
    assert_eq!(condition(&world, "NamespaceContentRemaining")["reason"], "ContentRemoved");
    world.edit(BuiltinResource::Namespaces, "default", |namespace| {
        namespace["metadata"]["finalizers"] = json!([]);
    });
    world.settle();
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}
