//! Rules of spec/workload-controllers.md: what service accounts need in every namespace, and their tokens.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

fn world() -> World {
    let aliases = ["serviceaccount", "serviceaccount-token", "root-ca-cert-publisher"];
    let mut world = World::of(&aliases);
    world.create(namespace());
    world.settle();
    world
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

fn secret(uid: Option<&str>) -> Value {
    let mut annotations = json!({"kubernetes.io/service-account.name": "bob"});
    if let Some(uid) = uid {
        annotations["kubernetes.io/service-account.uid"] = uid.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "t", "annotations": annotations},
    })
}

#[test]
fn sa1_an_active_namespace_has_an_account_and_the_authority() {
    let mut world = world();
    for _ in 0..2 {
        assert_eq!(world.names(BuiltinResource::ServiceAccounts), ["default"]);
        let map = world.json(BuiltinResource::ConfigMaps, "kube-root-ca.crt");
        assert_eq!(map["data"], json!({"ca.crt": "the authority"}));
        // Both come back.
        world.delete(BuiltinResource::ServiceAccounts, "default", None);
        world.delete(BuiltinResource::ConfigMaps, "kube-root-ca.crt", None);
        world.settle();
    }
    world.edit(BuiltinResource::ConfigMaps, "kube-root-ca.crt", |map| {
        map["data"] = json!({"ca.crt": "x", "more": "y"});
        map["binaryData"] = json!({"z": ""});
    });
    world.settle();
    let map = world.json(BuiltinResource::ConfigMaps, "kube-root-ca.crt");
    assert_eq!(map["data"], json!({"ca.crt": "the authority"}));
    assert_eq!(map["binaryData"], Value::Null);
}

#[test]
fn sa1_a_namespace_that_goes_is_left_alone() {
    let mut world = world();
    world.edit(BuiltinResource::Namespaces, "default", |namespace| {
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        namespace["metadata"]["finalizers"] = json!(["a/b"]);
    });
    world.delete(BuiltinResource::ServiceAccounts, "default", None);
    world.delete(BuiltinResource::ConfigMaps, "kube-root-ca.crt", None);
    world.settle();
    assert!(world.names(BuiltinResource::ServiceAccounts).is_empty());
    assert!(world.names(BuiltinResource::ConfigMaps).is_empty());
}

#[test]
fn sa2_a_token_secret_is_filled_and_goes_with_its_account() {
    let mut world = world();
    let bob = world.create(account("bob"));
    world.create(secret(None));
    world.settle();
    let filled = world.json(BuiltinResource::Secrets, "t");
    assert_eq!(
        filled["data"],
        json!({"ca.crt": "dGhlIGF1dGhvcml0eQ==", "namespace": "ZGVmYXVsdA==", "token": "for bob"})
    );
    let uid = &filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(uid, &bob.object["metadata"]["uid"]);
    // What it is told to hold stays, what it lacks comes back.
    world.edit(BuiltinResource::Secrets, "t", |secret| secret["data"] = json!({"token": "other"}));
    world.settle();
    let filled = world.json(BuiltinResource::Secrets, "t");
    assert_eq!(
        (&filled["data"]["token"], filled["data"].as_object().unwrap().len()),
        (&json!("other"), 3)
    );
    world.delete(BuiltinResource::ServiceAccounts, "bob", None);
    world.settle();
    assert!(world.names(BuiltinResource::Secrets).is_empty());
}

#[test]
fn sa2_a_token_secret_of_nobody_or_of_somebody_else_goes() {
    let mut world = world();
    world.create(secret(None));
    world.settle();
    assert!(world.names(BuiltinResource::Secrets).is_empty(), "of nobody");
    world.create(account("bob"));
    world.create(secret(Some("another")));
    world.settle();
    assert!(world.names(BuiltinResource::Secrets).is_empty(), "of somebody else");
}
