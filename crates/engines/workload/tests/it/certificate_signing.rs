//! Rules of spec/downward-api.md: certificates for what nodes serve.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const SIGNER: &str = "kubernetes.io/kubelet-serving";
const USAGES: [&str; 2] = ["digital signature", "server auth"];

fn world() -> World {
    let mut world = World::of(&["csrsigning"]);
    world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}));
    world
}

fn request(user: &str, group: &str, usages: &[&str], text: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr"},
        "spec": {"signerName": SIGNER, "request": text, "usages": usages,
            "username": user, "groups": [group]},
    })
}

fn status(world: &World) -> Value {
    world.json(BuiltinResource::CertificateSigningRequests, "csr")["status"].clone()
}

#[test]
fn r133_a_node_gets_a_certificate_for_itself() {
    let mut world = world();
    world.create(request("system:node:a", "system:nodes", &USAGES, "text"));
    world.settle();
    let answered = status(&world);
    assert_eq!(answered["certificate"], "text for a");
    assert_eq!(answered["conditions"][0]["type"], "Approved");
    // An answer stands, and nobody writes it again.
    let writes = world.writes.len();
    world.restart();
    world.settle();
    assert_eq!(world.writes.len(), writes);
}

#[test]
fn r133_nobody_is_approved_by_asking() {
    for (user, group) in [
        ("system:node:a", "system:masters"),
        ("kubernetes-admin", "system:nodes"),
        ("system:node:", "system:nodes"),
        ("system:node:b", "system:nodes"),
    ] {
        let mut world = world();
        world.create(request(user, group, &USAGES, "text"));
        world.settle();
        assert_eq!(status(&world), Value::Null, "{user} {group}");
    }
    let mut world = world();
    let mut other = request("system:node:a", "system:nodes", &USAGES, "text");
    other["spec"]["signerName"] = "example.com/own".into();
    world.create(other);
    world.settle();
    assert_eq!(status(&world), Value::Null);
}

#[test]
fn r133_who_asked_before_the_node_was_there_is_answered_when_it_is() {
    let mut world = world();
    world.create(request("system:node:b", "system:nodes", &USAGES, "text"));
    world.settle();
    assert_eq!(status(&world), Value::Null);
    world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}));
    world.settle();
    assert_eq!(status(&world)["certificate"], "text for b");
}

#[test]
fn r133_what_is_not_as_it_should_be_is_denied_with_a_sentence() {
    for (usages, text) in [
        (&["server auth", "client auth"][..], "text"),
        (&["digital signature"], "text"),
        (&USAGES, "bad"),
    ] {
        let mut world = world();
        world.create(request("system:node:a", "system:nodes", usages, text));
        world.settle();
        world.advance(1);
        let denied = status(&world);
        assert_eq!(denied["conditions"][0]["type"], "Denied", "{denied}");
        assert_ne!(denied["conditions"][0]["message"], "");
        assert_eq!(denied["certificate"], Value::Null);
    }
}

#[test]
fn r133_what_was_approved_here_is_signed_after_a_restart_and_what_others_decided_is_theirs() {
    let approved = |reason: &str| json!({"conditions": [{"type": "Approved", "status": "True", "reason": reason}]});
    for (reason, text, signed) in
        [("NodeServes", "text", true), ("NodeServes", "bad", false), ("Mine", "text", false)]
    {
        let mut world = World::of(&["csrsigning"]);
        world.create(request("system:node:a", "system:nodes", &USAGES, text));
        world.edit_status(BuiltinResource::CertificateSigningRequests, "csr", |status| {
            *status = approved(reason);
        });
        world.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}));
        world.settle();
        world.advance(1);
        let now = status(&world);
        assert_eq!(now["certificate"].is_string(), signed, "{reason} {text}");
        let failed = now["conditions"][1]["type"] == "Failed";
        assert_eq!(failed, text == "bad", "{now}");
    }
}
