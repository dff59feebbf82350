//! Rules of `spec/api-server.md`, on the table of built-in kinds.

use serde_json::Value;
use tenure_kinds::{GROUP_ORDER, builtin};
use tenure_openapi::{discovery, v2, v3};

#[test]
fn r41_groups_are_listed_in_priority_order() {
    let rows = builtin();
    let kinds: Vec<_> = rows.iter().collect();
    let list = discovery::group_list(&kinds, &[]);
    let names: Vec<_> = list["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["name"].as_str().expect("a name"))
        .collect();
    let order: Vec<_> = GROUP_ORDER.iter().copied().filter(|name| names.contains(name)).collect();
    assert_eq!(names, order);
    assert!(names.len() > 15);
}

#[test]
fn r38_core_lists_what_drain_and_scale_look_for() {
    let rows = builtin();
    let kinds: Vec<_> = rows.iter().collect();
    let list = discovery::resource_list(&kinds, "", "v1").expect("v1");
    let resources = list["resources"].as_array().expect("resources");
    let entry = |name: &str| {
        resources.iter().find(|entry| entry["name"] == name).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(entry("pods/eviction")["kind"], "Eviction");
    assert_eq!(entry("pods/eviction")["group"], "policy");
    assert_eq!(entry("replicationcontrollers/scale")["kind"], "Scale");
    assert_eq!(entry("serviceaccounts/token")["kind"], "TokenRequest");
    let names: Vec<_> = resources.iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn r48_every_builtin_kind_is_in_a_document() {
    let rows = builtin();
    let kinds: Vec<_> = rows.iter().collect();
    for kind in &rows {
        let document = v3::document(&kinds, &kind.group, &kind.version, &|_| None).expect("one");
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let bears = |schema: &&Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|names| {
                names.iter().any(|name| {
                    name["kind"] == *kind.kind
                        && name["group"] == *kind.group
                        && name["version"] == *kind.version
                })
            })
        };
        let found: Vec<_> = schemas.values().filter(bears).collect();
        assert_eq!(found.len(), 1, "{}", kind.kind);
        assert!(found[0]["properties"]["metadata"].is_object(), "{}", kind.kind);
    }
}

#[test]
fn r50_every_builtin_path_and_schema_is_in_the_one_document() {
    let rows = builtin();
    let kinds: Vec<_> = rows.iter().collect();
    let whole = v2::document(&kinds, &|_| None);
    for kind in &rows {
        let part = v3::document(&kinds, &kind.group, &kind.version, &|_| None).expect("one");
        for path in part["paths"].as_object().expect("paths").keys() {
            assert!(whole["paths"].get(path).is_some(), "{path}");
        }
        for name in part["components"]["schemas"].as_object().expect("schemas").keys() {
            assert!(whole["definitions"].get(name).is_some(), "{name}");
        }
    }
    assert!(!whole.to_string().contains("#/components/"));
}
