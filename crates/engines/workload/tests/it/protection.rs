//! Rules of spec/ownership.md: volumes, claims and classes in use.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const CLAIM: &str = "kubernetes.io/pvc-protection";

fn world() -> World {
    World::of(&["pvc-protection", "pv-protection", "vac-protection"])
}

fn claim(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "finalizers": finalizers}, "spec": {}})
}

fn pod(name: &str, node: &str, volume: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [], "volumes": [volume]}})
}

fn by_name(claim: &str) -> Value {
    json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}})
}

#[test]
fn r163_what_lacks_its_protection_gets_it_unless_it_goes() {
    let mut world = world();
    world.create(claim("c", &[]));
    world.settle();
    assert_eq!(
        world.json(BuiltinResource::PersistentVolumeClaims, "c")["metadata"]["finalizers"],
        json!([CLAIM])
    );
    world.edit(BuiltinResource::PersistentVolumeClaims, "c", |claim| {
        claim["metadata"]["finalizers"] = json!(["a/b"]);
    });
    world.settle();
    let protected = json!(["a/b", CLAIM]);
    let claim = world.json(BuiltinResource::PersistentVolumeClaims, "c");
    assert_eq!(claim["metadata"]["finalizers"], protected);
    world.delete(BuiltinResource::PersistentVolumeClaims, "c", None);
    world.settle();
    let claim = world.json(BuiltinResource::PersistentVolumeClaims, "c");
    assert_eq!(claim["metadata"]["finalizers"], json!(["a/b"]));
}

#[test]
fn r164_a_volume_stays_while_it_is_bound() {
    let mut world = world();
    world
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}}));
    world.settle();
    world.edit_status(BuiltinResource::PersistentVolumes, "v", |status| {
        *status = json!({"phase": "Bound"});
    });
    world.delete(BuiltinResource::PersistentVolumes, "v", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::PersistentVolumes), ["v"]);
    world.edit_status(BuiltinResource::PersistentVolumes, "v", |status| {
        *status = json!({"phase": "Released"});
    });
    world.settle();
    assert!(world.names(BuiltinResource::PersistentVolumes).is_empty());
}

#[test]
fn r165_r166_a_claim_waits_for_pods_with_a_node_finished_or_not() {
    let mut world = world();
    world.create(claim("c", &[CLAIM]));
    world.create(pod("never", "", by_name("c")));
    world.create(pod("done", "n", by_name("c")));
    world.end("done", "Succeeded");
    world.delete(BuiltinResource::PersistentVolumeClaims, "c", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::PersistentVolumeClaims), ["c"]);
    world.delete(BuiltinResource::Pods, "done", None);
    world.settle();
    assert!(world.names(BuiltinResource::PersistentVolumeClaims).is_empty());
    assert_eq!(world.names(BuiltinResource::Pods), ["never"]);
}

#[test]
fn r165_an_ephemeral_volume_holds_only_the_claim_of_its_own_pod() {
    let mut world = world();
    let pod = world.create(pod("p", "n", json!({"name": "v", "ephemeral": {}})));
    let mut own = claim("p-v", &[CLAIM]);
    let uid = pod.object["metadata"]["uid"].clone();
    for (controller, held) in [(false, false), (true, true)] {
        own["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller}]);
        world.create(own.clone());
        world.delete(BuiltinResource::PersistentVolumeClaims, "p-v", None);
        world.settle();
        assert_eq!(world.names(BuiltinResource::PersistentVolumeClaims).len(), usize::from(held));
    }
}

#[test]
fn r163_a_class_waits_for_whoever_names_it() {
    let mut world = world();
    world.create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": "fast"}}));
    let mut user = claim("c", &[]);
    user["spec"]["volumeAttributesClassName"] = "fast".into();
    world.create(user);
    world.settle();
    world.delete(BuiltinResource::VolumeAttributesClasses, "fast", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::VolumeAttributesClasses), ["fast"]);
    world.delete(BuiltinResource::PersistentVolumeClaims, "c", None);
    world.settle();
    assert!(world.names(BuiltinResource::VolumeAttributesClasses).is_empty());
}
