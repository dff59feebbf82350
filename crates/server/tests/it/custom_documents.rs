//! Rules of spec/api-server.md: what the OpenAPI documents tell of custom kinds, R47 and R131.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::custom::DEFINITIONS;
use crate::house::*;

fn version(name: &str, served: bool, storage: bool, field: &str) -> Value {
    json!({
        "name": name, "served": served, "storage": storage,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": { field: { "type": "string" } } },
        }}},
    })
}

/// A kind with these versions.
fn definition(group: &str, kind: &str, versions: Value) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": { "plural": plural, "kind": kind },
        },
    })
}

/// What the document of everything says of kinds of `example`, by group, version and kind.
async fn told(house: &House) -> BTreeMap<String, Value> {
    let document = house.get("/openapi/v2").await.with(200);
    let mut all = BTreeMap::new();
    for definition in document["definitions"].as_object().unwrap().values() {
        // Options of deletions are those of every group.
        let kinds = definition["x-kubernetes-group-version-kind"].as_array();
        for kind in kinds.filter(|kinds| kinds.len() == 1).into_iter().flatten() {
            let text = |member: &str| kind[member].as_str().unwrap().to_owned();
            if text("group").ends_with("example") && !text("kind").ends_with("List") {
                let key = format!("{}/{} {}", text("group"), text("version"), text("kind"));
                all.insert(key, definition.clone());
            }
        }
    }
    all
}

/// The document of one version, if there is one.
async fn alone(house: &House, version: &str) -> Option<Value> {
    let answer = house.get(&format!("/openapi/v3/apis/{version}")).await;
    (answer.code == 200).then_some(answer.json)
}

#[tokio::test]
async fn r47_kinds_of_all_groups_and_versions_are_in_the_documents() {
    let house = House::new().await;
    let one = |field: &str| json!([version("v1", true, true, field)]);
    let two = json!([version("v2", true, true, "a"), version("v3", true, false, "b")]);
    for made in [
        definition("one.example", "Boat", one("mast")),
        definition("two.example", "Car", one("wheel")),
        definition("same.example", "Fish", one("fin")),
        definition("same.example", "Bird", one("wing")),
        definition("many.example", "Stone", two),
    ] {
        house.made(DEFINITIONS, made).await;
    }
    let told = told(&house).await;
    for (kind, field) in [
        ("one.example/v1 Boat", "mast"),
        ("two.example/v1 Car", "wheel"),
        ("same.example/v1 Fish", "fin"),
        ("same.example/v1 Bird", "wing"),
        ("many.example/v2 Stone", "a"),
        ("many.example/v3 Stone", "b"),
    ] {
        let spec = &told[kind]["properties"]["spec"]["properties"];
        assert_eq!(spec[field]["type"], "string", "{kind}");
        let (version, _) = kind.split_once(' ').unwrap();
        let document = alone(&house, version).await.unwrap().to_string();
        assert!(document.contains(&format!("\"{field}\"")), "{kind}");
    }
    assert_eq!(told.len(), 6);
}

#[tokio::test]
async fn r47_a_version_that_is_renamed_or_not_served_goes_and_the_other_stays() {
    let house = House::new().await;
    let first = version("v2", true, true, "a");
    let versions = json!([first, version("v3", true, false, "b")]);
    house.made(DEFINITIONS, definition("many.example", "Stone", versions)).await;
    let path = format!("{DEFINITIONS}/stones.many.example");
    let before = told(&house).await;
    assert_eq!(before.len(), 2);
    let kept = "many.example/v2 Stone";

    let renamed = json!({ "spec": { "versions": [first, version("v4", true, false, "b")] } });
    house.merge(&path, renamed).await.with(200);
    let after = told(&house).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), [kept, "many.example/v4 Stone"]);
    assert_eq!(after[kept], before[kept]);
    assert!(alone(&house, "many.example/v3").await.is_none());
    assert!(alone(&house, "many.example/v4").await.is_some());

    let unserved = json!({ "spec": { "versions": [first, version("v4", false, false, "b")] } });
    house.merge(&path, unserved).await.with(200);
    let after = told(&house).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), [kept]);
    assert_eq!(after[kept], before[kept]);
    assert!(alone(&house, "many.example/v4").await.is_none());
}
