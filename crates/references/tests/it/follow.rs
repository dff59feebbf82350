//! Grants that are kept in step with those they were made from. Rules of spec/referential-authorization.md.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_references::migrate::{Following, MADE_FROM, MigrationStep, NAMES_MAX, Origins};
use tenure_references::{NoExpressions, Resource, ServedType};

const GATEWAY: &str = "gateway.networking.k8s.io";

/// A cluster by hand, in which every plan is carried out.
struct House {
    following: Following,
}

fn origins() -> Origins {
    (Resource::new(GATEWAY, "gateways"), "v1".to_owned())
}

impl House {
    fn new() -> House {
        let served = [(GATEWAY, "gateways", "Gateway"), ("", "secrets", "Secret")];
        let served = served.map(|(group, resource, kind)| ServedType {
            resource: Resource::new(group, resource),
            kind: kind.to_owned(),
            namespaced: true,
            versions: vec!["v1".to_owned()],
        });
        let mut following = Following::new(Vec::new(), Arc::new(NoExpressions));
        following.serve(served.into());
        let mut house = House { following };
        house.strategy("tls-serving");
        house.old("old", &[json!({ "group": "", "kind": "Secret" })]);
        house
    }

    fn strategy(&mut self, purpose: &str) {
        self.following.put_strategy(&json!({
            "metadata": { "name": "gateways" },
            "origin": { "group": GATEWAY, "resource": "gateways" },
            "versions": [{ "version": "v1", "references": [{
                "path": ".spec.refs[*].name", "target": { "group": "", "resource": "secrets" },
                "purpose": purpose,
            }]}],
        }));
        self.following.origins();
    }

    fn old(&mut self, name: &str, to: &[Value]) {
        self.following.put_source(json!({
            "apiVersion": format!("{GATEWAY}/v1beta1"), "kind": "ReferenceGrant",
            "metadata": { "namespace": "prod-tls", "name": name },
            "spec": {
                "from": [{ "group": GATEWAY, "kind": "Gateway", "namespace": "prod" }], "to": to,
            },
        }));
        self.following.origins();
    }

    fn gateway(&mut self, name: &str, names: &[&str]) {
        let refs: Vec<Value> =
            names.iter().map(|name| json!({ "name": name, "namespace": "prod-tls" })).collect();
        let object = json!({
            "metadata": { "namespace": "prod", "name": name }, "spec": { "refs": refs },
        });
        self.following.put_origin(&origins(), &object);
    }

    /// Carries out what has to be done, and tells it.
    fn settle(&mut self) -> Vec<String> {
        let plan = self.following.plan().0;
        for step in &plan.steps {
            let grant = step.grant().clone();
            let name = grant["metadata"]["name"].as_str().unwrap().to_owned();
            match step {
                MigrationStep::Create(_) | MigrationStep::Change { .. } => {
                    self.following.put_grant(grant)
                }
                MigrationStep::Delete(_) => self.following.remove_grant("prod-tls", &name),
            }
        }
        assert!(self.following.plan().0.steps.is_empty(), "one time is enough");
        plan.steps.iter().map(ToString::to_string).collect()
    }
}

#[test]
fn m4_names_come_and_go_with_living_origins() {
    let mut house = House::new();
    assert_eq!(house.settle(), [""; 0], "nothing is referenced");
    house.gateway("web", &["acme"]);
    let made = "prod-tls/old-gateways-secrets";
    assert_eq!(house.settle(), [format!("{made}: created, with acme")]);
    house.gateway("web", &["acme", "beta"]);
    assert_eq!(house.settle(), [format!("{made}: now with beta")]);
    // Two origins use one name: it goes with the last of them.
    house.gateway("other", &["beta"]);
    house.gateway("web", &["late"]);
    assert_eq!(house.settle(), [format!("{made}: now with late, without acme")]);
    house.following.remove_origin(&origins(), "prod", "other");
    assert_eq!(house.settle(), [format!("{made}: without beta")]);
    house.following.remove_origin(&origins(), "prod", "web");
    assert_eq!(house.settle(), [format!("{made}: deleted")]);
    // A type that is no longer read has no origins.
    house.gateway("web", &["acme"]);
    house.settle();
    house.following.forget(&origins());
    assert_eq!(house.settle(), [format!("{made}: deleted")]);
}

#[test]
fn m4_a_grant_goes_with_the_old_one_and_follows_its_words() {
    let mut house = House::new();
    house.old("named", &[json!({ "group": "", "kind": "Secret", "name": "one" })]);
    house.gateway("web", &["acme"]);
    assert_eq!(house.settle().len(), 2);
    house.old("named", &[json!({ "group": "", "kind": "Secret", "name": "two" })]);
    assert_eq!(
        house.settle(),
        ["prod-tls/named-gateways-secrets: now with two, without one".to_owned()]
    );
    house.following.remove_source("prod-tls", "old");
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets: deleted".to_owned()]);
    // Another purpose is another grant, and the first goes after the second is there.
    house.strategy("parameters");
    let told = house.settle();
    assert!(told[0].contains(": created, with two") && told[1].ends_with(": deleted"), "{told:?}");
    // A source that cannot be converted any more takes nothing away.
    house.old("named", &[json!({ "group": "", "kind": "Nothing" })]);
    assert_eq!(house.settle(), [""; 0]);
    house.following.remove_source("prod-tls", "named");
    assert_eq!(house.settle().len(), 1);
}

#[test]
fn m4_grants_of_others_are_left_alone() {
    let mut house = House::new();
    let foreign = json!({
        "metadata": { "namespace": "prod-tls", "name": "old-gateways-secrets" },
        "origin": { "group": GATEWAY, "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["theirs"] },
        "purpose": "tls-serving",
    });
    house.following.put_grant(foreign.clone());
    house.gateway("web", &["acme"]);
    assert_eq!(house.settle(), [""; 0]);
    assert_eq!(house.following.plan().0.taken, ["prod-tls/old-gateways-secrets"]);
    // Gone, its name is free.
    house.following.remove_grant("prod-tls", "old-gateways-secrets");
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets: created, with acme".to_owned()]);
    // Whoever takes the mark away keeps the grant.
    house.following.put_grant(foreign);
    house.following.remove_source("prod-tls", "old");
    assert_eq!(house.settle(), [""; 0]);
}

#[test]
fn m2_m4_a_name_stays_in_the_grant_that_it_is_in() {
    let mut house = House::new();
    let many: Vec<String> = (0..NAMES_MAX).map(|n| format!("n{n:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    house.gateway("web", &many);
    assert_eq!(house.settle().len(), 1);
    // One more, first in the order: only it is put elsewhere.
    house.gateway("first", &["a"]);
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets-1: created, with a".to_owned()]);
    // There is room in the first, and a new name takes it; what is where it is stays.
    house.gateway("web", &many[1..]);
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets: without n00".to_owned()]);
    house.gateway("second", &["b"]);
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets: now with b".to_owned()]);
    house.following.remove_origin(&origins(), "prod", "first");
    assert_eq!(house.settle(), ["prod-tls/old-gateways-secrets-1: deleted".to_owned()]);
    let plan = House::new();
    assert!(plan.following.plan().1[0].1.is_whole());
}

#[test]
fn m4_what_is_made_says_from_what() {
    let mut house = House::new();
    house.gateway("web", &["acme"]);
    let (plan, sources) = house.following.plan();
    let [MigrationStep::Create(grant)] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(grant["metadata"]["annotations"][MADE_FROM], "old");
    // Printed, it is nobody's but the reader's.
    assert_eq!(sources[0].1.grants()[0]["metadata"].get("annotations"), None);
}
