//! Rules of spec/ownership.md: how a definition goes, and who gets its names.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};
use tenure_workload::{Act, BuiltinResource};

use crate::world::{LEASES, World};

const CRDS: BuiltinResource = BuiltinResource::CustomResourceDefinitions;
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status})
}

/// A world with a definition whose conditions are these.
fn world(name: &str, conditions: &[Value]) -> World {
    let mut world = World::of(&["crd-finalizer"]);
    world.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "finalizers": [FINALIZER]},
    }));
    world.edit_status(CRDS, name, |status| {
        *status = json!({"conditions": conditions, "acceptedNames": {"plural": name}});
    });
    world
}

fn established(name: &str) -> World {
    let mut world =
        world(name, &[condition("NamesAccepted", "True"), condition("Established", "True")]);
    world.settle();
    world
}

fn lease(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "finalizers": finalizers}})
}

fn terminating(world: &World, name: &str) -> Value {
    let definition = world.json(CRDS, name);
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap();
    conditions.into_iter().find(|condition| condition["type"] == "Terminating").unwrap_or_default()
}

#[test]
fn r160_instances_go_first_and_then_the_definition() {
    let mut world = established(LEASES);
    world.create(lease("plain", &[]));
    world.create(lease("held", &["a/b"]));
    world.delete(CRDS, LEASES, None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Leases), ["held"]);
    assert_eq!(terminating(&world, LEASES)["reason"], "InstanceDeletionInProgress");
    world
        .edit(BuiltinResource::Leases, "held", |lease| lease["metadata"]["finalizers"] = json!([]));
    world.settle();
    assert!(world.names(CRDS).is_empty());
}

#[test]
fn r160_an_instance_that_cannot_be_deleted_is_told_and_tried_again() {
    let mut world = established(LEASES);
    world.create(lease("large", &[]));
    world.refuse(|intent| {
        matches!(intent.act, Act::Remove { .. }).then_some((413, "TooLarge", "too large"))
    });
    world.delete(CRDS, LEASES, None);
    world.settle();
    world.advance(2);
    let told = terminating(&world, LEASES);
    assert_eq!(told["reason"], "InstanceDeletionFailed");
    assert_eq!(told["message"], "an instance could not be deleted: too large");
    world.allow();
    world.advance(2);
    assert!(world.names(CRDS).is_empty());
}

#[test]
fn r161_what_was_never_established_has_no_instances() {
    let mut world = world("never.example.com", &[condition("NamesAccepted", "False")]);
    world.edit(CRDS, "never.example.com", |definition| {
        definition["metadata"]["finalizers"] = json!([FINALIZER, "a/b"]);
    });
    world.delete(CRDS, "never.example.com", None);
    world.settle();
    assert_eq!(terminating(&world, "never.example.com")["reason"], "NeverEstablished");
    let left = world.json(CRDS, "never.example.com");
    assert_eq!(left["metadata"]["finalizers"], json!(["a/b"]));
}

#[test]
fn r141_a_definition_waits_until_what_its_instances_owned_is_collected() {
    let mut world = established(LEASES);
    // This is how far the collector is.
    world.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "revision": 1,
        "metadata": {"name": "collected"}}));
    world.create(lease("plain", &[]));
    world.delete(CRDS, LEASES, None);
    world.settle();
    world.advance(1);
    assert!(world.names(BuiltinResource::Leases).is_empty());
    assert_eq!(world.names(CRDS), [LEASES], "the collector has not seen the end of the lease");
    world.edit(BuiltinResource::ConfigMaps, "collected", |map| map["revision"] = json!(1_000));
    world.advance(1);
    assert!(world.names(CRDS).is_empty());
}

#[test]
fn who_waits_for_names_is_looked_at_when_others_give_theirs_back() {
    let mut world = established(LEASES);
    let waits = "waits.example.com";
    world.create(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": waits},
    }));
    // The server would settle its names with this write.
    let asked = Rc::new(Cell::new(0));
    let counted = Rc::clone(&asked);
    world.refuse(move |intent| {
        if let Act::Update { object, .. } = &intent.act {
            counted.set(counted.get() + usize::from(object["metadata"]["name"] == waits));
        }
        None
    });
    world.settle();
    let before = asked.get();
    world.edit(CRDS, LEASES, |definition| definition["spec"] = json!({"more": true}));
    world.settle();
    assert_eq!(asked.get(), before, "no name was given back");
    world.edit_status(CRDS, LEASES, |status| status["acceptedNames"] = json!({}));
    world.settle();
    assert_eq!(asked.get(), before + 1);
}
