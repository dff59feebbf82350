//! Rules of spec/api-server.md: owners and dependents of which one is stored elsewhere (R131h).

use serde_json::{Value, json};
use tenure_workload::BuiltinResource;

use crate::world::World;

const V1: &str = "/apis/wardle.example/v1";
const FLUNDERS: &str = "/apis/wardle.example/v1/namespaces/default/flunders";
const ALL: &str = "/apis/wardle.example/v1/flunders?limit=500";

fn world() -> World {
    let mut world = World::of(&["aggregatedgarbagecollector"]);
    // The collector of the double knows nothing of owners elsewhere.
    world.living.extend(["1", "2", "3", "4"].map(str::to_owned));
    world.create(json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.wardle.example"},
        "spec": {"group": "wardle.example", "version": "v1", "versionPriority": 10,
                 "service": {"namespace": "wardle", "name": "api"}}}));
    for (path, answer) in [
        (
            V1,
            json!({"resources": [{"name": "flunders", "kind": "Flunder", "namespaced": true,
            "verbs": ["get", "list", "delete"]}]}),
        ),
        (
            "/api/v1",
            json!({"resources": [{"name": "configmaps", "kind": "ConfigMap",
            "namespaced": true, "verbs": ["get", "list", "delete"]}]}),
        ),
        (ALL, json!({"items": []})),
    ] {
        world.api.insert(path.to_owned(), answer);
    }
    world
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid})
}

fn map(name: &str, owners: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners}})
}

#[test]
fn r131h_objects_here_go_with_their_last_owner_elsewhere() {
    let mut world = world();
    let flunder = |name: &str, uid: &str| owner("wardle.example/v1", "Flunder", name, uid);
    world.api.insert(format!("{FLUNDERS}/there"), json!({"metadata": {"uid": "1"}}));
    world.create(map("kept", &[flunder("there", "1")]));
    world.create(map("half", &[flunder("gone", "2"), flunder("there", "1")]));
    world.create(map("lost", &[flunder("gone", "2")]));
    world.create(map("other", &[flunder("there", "3")]));
    world.create(map("unknown", &[owner("wardle.example/v1", "Fischer", "x", "4")]));
    world.settle();
    world.advance(60);
    let left = world.names(BuiltinResource::ConfigMaps);
    assert_eq!(left, ["half", "kept", "unknown"], "an owner of another uid is another owner");
}

#[test]
fn r131h_objects_elsewhere_go_with_their_last_owner_here() {
    let mut world = world();
    let map_of = |name: &str, uid: &str| owner("v1", "ConfigMap", name, uid);
    let flunder = |name: &str, owners: Value| {
        json!({"metadata": {"name": name, "namespace": "default", "uid": name,
            "ownerReferences": owners}})
    };
    world.api.insert(
        "/api/v1/namespaces/default/configmaps/there".to_owned(),
        json!({"metadata": {"uid": "1"}}),
    );
    let first = json!({"metadata": {"continue": "t/1"}, "items": [
        flunder("free", json!([])),
        flunder("kept", json!([map_of("there", "1")])),
    ]});
    let second = json!({"items": [flunder("lost", json!([map_of("gone", "2")]))]});
    world.api.insert(ALL.to_owned(), first);
    world.api.insert(format!("{ALL}&continue=t%2F1"), second);
    world.settle();
    world.advance(31);
    let deleted: Vec<&String> =
        world.writes.iter().filter(|write| write.starts_with("delete /apis")).collect();
    assert_eq!(deleted, [&format!("delete {FLUNDERS}/lost lost")]);
}

#[test]
fn r131h_who_does_not_answer_keeps_what_it_may_own() {
    let mut world = world();
    world.create(map("a", &[owner("wardle.example/v1", "Flunder", "gone", "2")]));
    world.api.remove(V1);
    world.settle();
    world.advance(60);
    assert_eq!(world.names(BuiltinResource::ConfigMaps), ["a"]);
}
