//! Rules of spec/workload-controllers.md: claims, volumes, and claims of ephemeral volumes.

use serde_json::{Value, json};
use tenure_workload::{BuiltinResource, owner};

use crate::world::World;

fn volume(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
                 "storageClassName": "c", "persistentVolumeReclaimPolicy": "Retain"}})
}

fn claim(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                 "resources": {"requests": {"storage": size}}}})
}

fn class(mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c"},
        "provisioner": "tenure.dev/local", "reclaimPolicy": "Delete", "volumeBindingMode": mode})
}

fn world() -> World {
    World::of(&["persistentvolume-binder", "ephemeral-volume"])
}

fn phase(world: &World, resource: BuiltinResource, name: &str) -> Value {
    world.json(resource, name)["status"]["phase"].clone()
}

#[test]
fn pv2_a_claim_takes_the_smallest_volume_that_fits() {
    let mut world = world();
    for (name, size) in [("big", "5Gi"), ("small", "1Gi"), ("right", "2Gi")] {
        world.create(volume(name, size));
    }
    world.create(claim("a", "2Gi"));
    world.settle();
    let bound = world.json(BuiltinResource::PersistentVolumeClaims, "a");
    assert_eq!(bound["spec"]["volumeName"], "right");
    assert_eq!(bound["status"]["phase"], "Bound");
    assert_eq!(bound["status"]["capacity"], json!({"storage": "2Gi"}));
    assert_eq!(bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    let taken = world.json(BuiltinResource::PersistentVolumes, "right");
    assert_eq!(taken["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    assert_eq!(taken["status"]["phase"], "Bound");
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumes, "big"), "Available");
}

#[test]
fn pv2_a_claim_that_names_a_volume_waits_for_it() {
    let mut world = world();
    world.create(volume("other", "1Gi"));
    let mut named = claim("a", "1Gi");
    named["spec"]["volumeName"] = "mine".into();
    world.create(named);
    world.settle();
    assert_eq!(world.json(BuiltinResource::PersistentVolumeClaims, "a")["status"], Value::Null);
    world.create(volume("mine", "1Gi"));
    world.settle();
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumeClaims, "a"), "Bound");
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumes, "other"), "Available");
}

#[test]
fn pv2_a_volume_is_released_and_kept_or_deleted() {
    let mut world = world();
    world.create(volume("kept", "1Gi"));
    world.create(claim("a", "1Gi"));
    world.settle();
    world.create(class("Immediate"));
    world.create(claim("b", "1Gi"));
    world.settle();
    let made =
        world.json(BuiltinResource::PersistentVolumeClaims, "b")["spec"]["volumeName"].clone();
    let made = made.as_str().unwrap().to_owned();
    assert!(made.starts_with("pvc-"));
    world.delete(BuiltinResource::PersistentVolumeClaims, "a", None);
    world.delete(BuiltinResource::PersistentVolumeClaims, "b", None);
    world.settle();
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumes, "kept"), "Released");
    assert_eq!(world.names(BuiltinResource::PersistentVolumes), ["kept"]);
}

#[test]
fn pv2_a_claim_without_volume_is_told_once_and_a_lost_one_says_so() {
    let mut world = world();
    world.create(claim("a", "1Gi"));
    world.settle();
    world.edit(BuiltinResource::PersistentVolumeClaims, "a", |claim| {
        claim["metadata"]["labels"] = json!({"x": "y"});
    });
    world.settle();
    assert_eq!(
        world.events,
        ["Warning ProvisioningFailed storageclass.storage.k8s.io \"c\" not found"]
    );
    world.create(volume("v", "1Gi"));
    world.settle();
    world.delete(BuiltinResource::PersistentVolumes, "v", None);
    world.settle();
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumeClaims, "a"), "Lost");
}

#[test]
fn pv2_binding_may_wait_for_a_pod() {
    let mut world = world();
    world.create(class("WaitForFirstConsumer"));
    world.create(claim("a", "1Gi"));
    world.settle();
    assert!(world.names(BuiltinResource::PersistentVolumes).is_empty());
    world.edit(BuiltinResource::PersistentVolumeClaims, "a", |claim| {
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n1"});
    });
    world.settle();
    assert_eq!(phase(&world, BuiltinResource::PersistentVolumeClaims, "a"), "Bound");
}

fn user() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [], "volumes": [{"name": "data", "ephemeral": {
            "volumeClaimTemplate": {"metadata": {"labels": {"x": "y"}},
                                    "spec": {"accessModes": ["ReadWriteOnce"]}}}}]}})
}

#[test]
fn ev1_the_pod_owns_the_claim_of_its_ephemeral_volume() {
    let mut world = world();
    let uid = owner::uid(&world.create(user())).to_owned();
    world.settle();
    let claim = world.json(BuiltinResource::PersistentVolumeClaims, "p-data");
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(claim["metadata"]["labels"], json!({"x": "y"}));
    world.delete(BuiltinResource::Pods, "p", None);
    world.settle();
    assert!(world.names(BuiltinResource::PersistentVolumeClaims).is_empty());
}

#[test]
fn ev1_a_claim_of_somebody_else_is_never_taken() {
    let mut world = world();
    world.create(claim("p-data", "1Gi"));
    world.create(user());
    world.settle();
    let claim = world.json(BuiltinResource::PersistentVolumeClaims, "p-data");
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    assert!(world.events.iter().any(|event| event.contains("pod is not owner")));
}
