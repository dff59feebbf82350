//! Rules of spec/workload-controllers.md: objects are written anew.

use serde_json::{Value, json};
use tenure_workload::{Act, BuiltinResource};

use crate::world::World;

fn migration(group: &str, resource: &str) -> Value {
    json!({"apiVersion": "storagemigration.k8s.io/v1", "kind": "StorageVersionMigration",
        "metadata": {"name": "m"}, "spec": {"resource": {"group": group, "resource": resource}}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn world(maps: usize) -> World {
    let mut world = World::of(&["storage-version-migrator"]);
    for number in 0..maps {
        world.create(map(&format!("m-{number:03}")));
    }
    world
}

fn said(world: &World) -> Vec<(String, String)> {
    let migration = world.json(BuiltinResource::StorageVersionMigrations, "m");
    let conditions = migration["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    conditions.iter().map(|one| (text(&one["type"]), text(&one["status"]))).collect()
}

fn pair(kind: &str, status: &str) -> (String, String) {
    (kind.to_owned(), status.to_owned())
}

#[test]
fn sm1_every_object_is_written_once() {
    let mut world = world(600);
    world.create(migration("", "configmaps"));
    world.settle();
    world.advance(1);
    let touched: Vec<&String> =
        world.writes.iter().filter(|write| write.starts_with("touch ")).collect();
    assert_eq!(touched.len(), 600);
    assert_eq!(touched[0], "touch /api/v1/namespaces/default/configmaps/m-000");
    let mut sorted = touched.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 600, "each once");
    assert_eq!(said(&world), [pair("Running", "False"), pair("Succeeded", "True")]);
    let ended = world.json(BuiltinResource::StorageVersionMigrations, "m");
    assert!(ended["status"]["resourceVersion"].is_string());
    // What has ended stays so.
    let writes = world.writes.len();
    world.restart();
    world.settle();
    assert_eq!(world.writes.len(), writes);
}

#[test]
fn sm1_after_a_restart_it_begins_again() {
    let mut world = world(2);
    world.create(migration("", "configmaps"));
    world.edit(BuiltinResource::StorageVersionMigrations, "m", |migration| {
        migration["status"] = json!({"resourceVersion": "1", "conditions": [{"type": "Running",
            "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    });
    world.restart();
    world.settle();
    world.advance(1);
    assert_eq!(world.writes.iter().filter(|write| write.starts_with("touch ")).count(), 2);
    assert_eq!(said(&world), [pair("Running", "False"), pair("Succeeded", "True")]);
}

#[test]
fn sm1_what_cannot_be_written_or_found_fails_the_migration() {
    let mut refusing = world(1);
    refusing.refuse(|intent| {
        matches!(intent.act, Act::Touch { .. }).then_some((422, "Invalid", "no longer valid"))
    });
    refusing.create(migration("", "configmaps"));
    refusing.settle();
    refusing.advance(60);
    let failed = refusing.json(BuiltinResource::StorageVersionMigrations, "m");
    let failed = failed["status"]["conditions"][1].clone();
    assert_eq!((&failed["type"], &failed["status"]), (&json!("Failed"), &json!("True")));
    assert_eq!(failed["message"], "m-000: no longer valid");
    let mut unknown = world(0);
    unknown.create(migration("example.com", "things"));
    unknown.settle();
    assert_eq!(said(&unknown), [pair("Failed", "True")]);
}

#[test]
fn sm2_a_definition_says_that_its_objects_are_stored_in_one_version() {
    let mut world = world(1);
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
    world.create(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "configmaps."},
        "spec": {"versions": [version("v1", false), version("v2", true)]},
        "status": {"storedVersions": ["v1", "v2"]}}),
    );
    world.create(migration("", "configmaps"));
    world.settle();
    world.advance(1);
    let definition = world.json(BuiltinResource::CustomResourceDefinitions, "configmaps.");
    assert_eq!(definition["status"]["storedVersions"], json!(["v2"]));
}
