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

/// An APIService for a group that another server serves, and what that server says.
fn elsewhere(world: &mut World, items: Value) {
    world.create(json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.wardle.example"},
        "spec": {"group": "wardle.example", "version": "v1", "versionPriority": 10,
                 "service": {"namespace": "wardle", "name": "api"}}}));
    world.api.insert(
        "/apis/wardle.example/v1".to_owned(),
        json!({"resources": [
            {"name": "flunders", "namespaced": true, "verbs": ["get", "list", "delete"]},
            {"name": "flunders/status", "namespaced": true, "verbs": ["list", "delete"]},
            {"name": "fischers", "namespaced": false, "verbs": ["list", "delete"]},
            {"name": "reports", "namespaced": true, "verbs": ["get", "list"]},
        ]}),
    );
    world.api.insert(
        "/apis/wardle.example/v1/namespaces/default/flunders?limit=500".to_owned(),
        json!({"items": items}),
    );
}

#[test]
fn api_server_r131h_what_other_servers_store_in_a_namespace_goes_with_it() {
    let mut world = world(&[]);
    world.create(map("a", &[]));
    let held = json!({"name": "held", "uid": "2", "finalizers": ["a/b"]});
    elsewhere(&mut world, json!([{"metadata": {"name": "free", "uid": "1"}}, {"metadata": held}]));
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    let at = "delete /apis/wardle.example/v1/namespaces/default/flunders";
    let deleted: Vec<&String> = world.writes.iter().filter(|one| one.starts_with(at)).collect();
    assert_eq!(deleted, [&format!("{at}/free 1"), &format!("{at}/held 2")]);
    world.advance(5);
    let remains = condition(&world, "NamespaceContentRemaining");
    assert_eq!(
        remains["message"],
        "Some resources are remaining: flunders.wardle.example has 1 resource instances"
    );
    let held = condition(&world, "NamespaceFinalizersRemaining");
    assert!(held["message"].as_str().unwrap().contains("a/b in 1 resource instances"), "{held}");
    assert_eq!(world.names(BuiltinResource::Namespaces), ["default"], "it waits");
    elsewhere_is_empty(&mut world);
    world.advance(5);
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}

fn elsewhere_is_empty(world: &mut World) {
    let list = "/apis/wardle.example/v1/namespaces/default/flunders?limit=500";
    world.api.insert(list.to_owned(), json!({"items": []}));
}

#[test]
fn api_server_r131h_a_server_that_cannot_be_asked_keeps_the_namespace() {
    let mut world = world(&[]);
    elsewhere(&mut world, json!([]));
    let answer = world.api.remove("/apis/wardle.example/v1").unwrap();
    world.delete(BuiltinResource::Namespaces, "default", None);
    world.settle();
    let unknown = condition(&world, "NamespaceDeletionDiscoveryFailure");
    assert_eq!(
        (&unknown["status"], &unknown["reason"]),
        (&json!("True"), &json!("DiscoveryFailed"))
    );
    let words = "Discovery failed for some groups, 1 failing: wardle.example/v1: ";
    assert!(unknown["message"].as_str().unwrap().starts_with(words), "{unknown}");
    world.api.insert("/apis/wardle.example/v1".to_owned(), answer);
    world.advance(5);
    assert!(world.names(BuiltinResource::Namespaces).is_empty());
}
