//! The three kinds as definitions: what the built-in ones refuse, these refuse at the same field (A43).

use serde_json::{Value, json};

use super::{GROUP, consumer, established, printed, strategy};
use crate::town::{MERGE, Town};

const GRANTS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/namespaces/default/referencegrants";

fn grant() -> Value {
    json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ReferenceGrant",
        "metadata": { "name": "g" },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses", "namespace": "shop" },
        "target": { "group": "", "resource": "secrets", "names": ["a"] },
        "purpose": "tls-serving",
    })
}

fn with(mut object: Value, at: &str, value: Value) -> Value {
    let (parent, member) = at.rsplit_once('/').unwrap();
    let fields = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value == json!("absent") {
        fields.remove(member);
    } else {
        fields.insert(member.to_owned(), value);
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a43_what_the_built_in_kinds_refuse_is_refused_at_the_same_field() {
    let town = Town::start().await;
    town.apply_all(&printed()).await;
    established(&town).await;
    let strategies = format!("{GROUP}/referencestrategies?dryRun=All");
    let consumers = format!("{GROUP}/clusterreferenceconsumers?dryRun=All");
    let grants = format!("{GRANTS}?dryRun=All");
    let s = |at: &str, value: Value| (strategies.clone(), with(strategy(), at, value));
    let c = |at: &str, value: Value| (consumers.clone(), with(consumer("edge", "mine"), at, value));
    let g = |at: &str, value: Value| (grants.clone(), with(grant(), at, value));
    let path = "/versions/0/references/0";
    let triple = consumer("edge", "mine")["references"][0].clone();
    for (rule, (path, object), field) in [
        ("R10", c("/subject", json!("absent")), "subject"),
        ("R11", c("/subject/kind", json!("Robot")), "subject.kind"),
        ("R12", c("/subject/name", json!("")), "subject.name"),
        ("R12", c("/subject/name", json!("A/b")), "subject.name"),
        ("R13", c("/subject/namespace", json!("absent")), "subject.namespace"),
        ("R13", c("/subject/namespace", json!("")), "subject.namespace"),
        ("R14", c("/subject/kind", json!("User")), "subject.namespace"),
        ("R16", c("/references", json!("absent")), "references"),
        ("R16", c("/references", json!([])), "references"),
        ("R17", c("/references/0/purpose", json!("TLS_Serving")), "references[0].purpose"),
        ("R17", g("/purpose", json!("9tls")), "purpose"),
        ("R17", g("/purpose", json!("a".repeat(64))), "purpose"),
        ("R17", s(&format!("{path}/purpose"), json!("")), "versions[0].references[0].purpose"),
        ("R18", g("/target/resource", json!("")), "target.resource"),
        ("R19", g("/target/resource", json!("Secret")), "target.resource"),
        ("R19", g("/target/resource", json!("secrets/status")), "target.resource"),
        ("R19", c("/references/0/target/resource", json!("*")), "references[0].target.resource"),
        ("R20", g("/origin/group", json!("core")), "origin.group"),
        ("R20", g("/origin/group", json!("Apps")), "origin.group"),
        ("R20", g("/target/group", json!("absent")), "target.group"),
        (
            "R21",
            s("/versions", json!([strategy()["versions"][0], strategy()["versions"][0]])),
            "versions[1]",
        ),
        ("R22", s("/versions", json!([])), "versions"),
        (
            "R25",
            s(&format!("{path}/expression"), json!("self.a")),
            "versions[0].references[0].path",
        ),
        ("R25", s(&format!("{path}/path"), json!("absent")), "versions[0].references[0].path"),
        ("R26", g("/target/names", (0..17).map(|n| format!("n{n}")).collect()), "target.names"),
        ("R27", g("/target/names", json!(["a", "a"])), "target.names[1]"),
        ("R28", g("/target/names", json!([""])), "target.names[0]"),
        ("R28", g("/target/names", json!(["*"])), "target.names[0]"),
        ("R28", g("/target/names", json!([".."])), "target.names[0]"),
        ("R28", g("/target/names", json!(["a/b"])), "target.names[0]"),
        ("R28", g("/target/names", json!(["a".repeat(254)])), "target.names[0]"),
        ("R30", g("/origin/namespace", json!("*")), "origin.namespace"),
        (
            "R84",
            c("/subject", json!({ "kind": "Group", "name": "system:authenticated" })),
            "subject.name",
        ),
        ("1.2", c("/references", json!([triple, triple])), "references"),
        ("1.2", c("/classNames", json!(["A"])), "classNames[0]"),
    ] {
        let (code, said) = town.create(&path, &object).await;
        let said = said.to_string();
        assert_eq!(code, 422, "{rule} {field}: {said}");
        assert!(said.contains(&format!("{field}:")), "{rule} {field}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a43_what_the_built_in_kinds_take_is_taken() {
    let town = Town::start().await;
    town.apply_all(&printed()).await;
    established(&town).await;
    let user = json!({ "kind": "User", "name": "alice" });
    for (plural, object) in [
        ("referencestrategies", strategy()),
        ("clusterreferenceconsumers", consumer("one", "*")),
        ("clusterreferenceconsumers", with(consumer("two", ""), "/subject", user)),
        ("clusterreferenceconsumers", with(consumer("three", ""), "/classNames", json!("absent"))),
        // Paths are looked at by whoever reads them.
        (
            "referencestrategies",
            with(
                with(strategy(), "/metadata/name", json!("odd")),
                "/versions/0/classPath",
                json!("[["),
            ),
        ),
    ] {
        town.made(&format!("{GROUP}/{plural}?fieldValidation=Strict"), &object).await;
    }
    for (name, at, value) in [
        ("whole", "/metadata/labels", json!({})),
        ("none", "/target/names", json!([])),
        ("left-out", "/target/names", json!("absent")),
        ("cluster", "/origin/namespace", json!("absent")),
    ] {
        let object = with(with(grant(), at, value), "/metadata/name", json!(name));
        town.made(&format!("{GRANTS}?fieldValidation=Strict"), &object).await;
    }
    let moved = json!({ "origin": { "resource": "gateways" } });
    let path = format!("{GROUP}/referencestrategies/ingresses");
    let (code, said) = town.send("PATCH", &path, MERGE, &moved).await;
    assert_eq!(code, 422, "{said}");
    assert!(said.to_string().contains("field is immutable"), "R32: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a43_the_documents_of_the_seed_are_taken_as_they_are() {
    let town = Town::start().await;
    town.apply_all(&printed()).await;
    established(&town).await;
    town.made("/api/v1/namespaces", &json!({ "metadata": { "name": "prod-tls" } })).await;
    let seed = include_str!("../../../../server/tests/it/reference/seed.yaml");
    for object in crate::town::documents(seed) {
        let kind = object["kind"].as_str().unwrap();
        let plural = match kind {
            "ReferenceStrategy" => "referencestrategies",
            "ClusterReferenceConsumer" => "clusterreferenceconsumers",
            _ => "namespaces/prod-tls/referencegrants",
        };
        let path = format!("{GROUP}/{plural}/{}", object["metadata"]["name"].as_str().unwrap());
        let (code, said) = town.apply(&path, &object).await;
        assert!(code < 300, "{kind}: {said}");
    }
}
