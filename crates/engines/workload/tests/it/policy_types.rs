//! Rules of spec/api-server.md: types of admission policies.

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const POLICIES: BuiltinResource = BuiltinResource::ValidatingAdmissionPolicies;

fn policy(generation: i64, expression: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p", "generation": generation},
        "spec": {"validations": [{"expression": expression}]},
    })
}

#[test]
fn r164d_each_generation_of_a_policy_is_looked_at_once() {
    let mut world = World::of(&["validatingadmissionpolicy-status"]);
    world.create(policy(1, "object.a"));
    world.settle();
    let status = world.json(POLICIES, "p")["status"].clone();
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["typeChecking"]["expressionWarnings"][0]["warning"], "object.a");
    let writes = world.writes.len();
    world.restart();
    world.settle();
    assert_eq!(world.writes.len(), writes, "nobody looks again");
}
