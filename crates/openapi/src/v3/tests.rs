//! Rules of `spec/api-server.md`: what clients read in documents.

use std::collections::BTreeSet;

use super::*;
use crate::sample;

fn no_schema(_: &Kind) -> Option<Value> {
    None
}

fn widget(_: &Kind) -> Option<Value> {
    Some(json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer"}}}}}))
}

fn doc(group: &str, version: &str) -> Value {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    document(&kinds, group, version, &widget).expect("a document")
}

fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["components"]["schemas"].get(name).unwrap_or_else(|| panic!("no schema {name}"))
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(target) if name == "$ref" => {
                        found.insert(target.clone());
                    }
                    other => references(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn r47_index_names_every_group_and_version_with_a_hash() {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    let index = index(&kinds, &no_schema);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a URL");
    let hash = hash(&kinds, "apps", "v1", &no_schema).expect("a hash");
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={hash}"));
    assert!(index["paths"].get("api/v1").is_some());
    assert!(index["paths"].get("apis/example.com/v1").is_some());
    assert!(super::hash(&kinds, "apps", "v7", &no_schema).is_none());
}

#[test]
fn r47_hash_moves_with_a_custom_schema_only_where_it_is_used() {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    let both = |group: &str| {
        let with = |custom: CustomSchema<'_>| hash(&kinds, group, "v1", custom);
        (with(&no_schema), with(&widget))
    };
    let (before, after) = both("example.com");
    assert_ne!(before, after);
    let (before, after) = both("apps");
    assert_eq!(before, after);
}

#[test]
fn r47_every_reference_resolves_and_no_schema_is_left_over() {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    for group in order::groups(&kinds) {
        for version in &group.versions {
            let document = document(&kinds, group.name, version.version, &widget).expect("one");
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            let schemas = document["components"]["schemas"].as_object().expect("schemas");
            let defined: BTreeSet<_> =
                schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
            assert_eq!(found, defined, "{} {}", group.name, version.version);
            assert!(schemas.values().all(Value::is_object));
        }
    }
}

#[test]
fn r47_documents_have_sane_sizes() {
    let size = |group: &str| doc(group, "v1").to_string().len();
    assert!((50_000..1_500_000).contains(&size("")), "{}", size(""));
    assert!((20_000..800_000).contains(&size("apps")), "{}", size("apps"));
}

#[test]
fn r48_every_kind_has_what_kubectl_reads() {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    for kind in &all {
        let document = document(&kinds, &kind.group, &kind.version, &widget).expect("one");
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let base = root(&kind.group, &kind.version);
        let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("/{base}/{scope}{}", kind.plural);
        let paths = &document["paths"];
        assert_eq!(paths[&collection]["post"]["x-kubernetes-group-version-kind"], gvk);
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let bearers = schemas.values().filter(|schema| {
            let names = schema["x-kubernetes-group-version-kind"].as_array();
            names.is_some_and(|names| names.contains(&gvk))
        });
        assert_eq!(bearers.count(), 1, "{gvk}");
        if kind.verbs == tenure_machinery::kind::Verbs::CreateOnly {
            continue;
        }
        let patch = &paths[format!("{collection}/{{name}}")]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
        assert_eq!(patch["x-kubernetes-action"], "patch");
        let parameters = patch["parameters"].as_array().expect("parameters");
        assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
        let content = patch["requestBody"]["content"].as_object().expect("content");
        assert_eq!(
            content.contains_key("application/strategic-merge-patch+json"),
            !kind.type_name.is_empty()
        );
        assert!(content.contains_key("application/apply-patch+yaml"));
    }
}

#[test]
fn r48_lists_say_how_they_merge() {
    let core = doc("", "v1");
    let pod = &schema(&core, "io.k8s.api.core.v1.PodSpec")["properties"];
    assert_eq!(
        pod["containers"],
        json!({"description": "The containers, at least one. None can be added or removed later.",
            "type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"})
    );
    assert_eq!(pod["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(pod["nodeSelector"]["x-kubernetes-map-type"], "atomic");
    let container = &schema(&core, "io.k8s.api.core.v1.Container")["properties"];
    assert_eq!(
        container["ports"]["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    let meta = schema(&core, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(
        meta["properties"]["finalizers"],
        json!({"description": "What must be done before it goes. Whoever has done it removes the entry.",
            "type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge"})
    );
    let selector = schema(&core, "io.k8s.api.core.v1.ObjectReference");
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
}

#[test]
fn r48_explain_finds_a_field_below_a_deployment() {
    let apps = doc("apps", "v1");
    let get = &apps["paths"]["/apis/apps/v1/deployments"]["get"];
    assert_eq!(get["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let follow = |schema: &Value, member: &str| -> Value {
        let member = &schema["properties"][member];
        let target = member["allOf"][0]["$ref"].as_str().expect("a reference");
        apps.pointer(target.trim_start_matches('#')).expect("a schema").clone()
    };
    let deployment = schema(&apps, "io.k8s.api.apps.v1.Deployment");
    let spec = follow(deployment, "spec");
    assert_eq!(spec["required"], json!(["selector", "template"]));
    let strategy = follow(&spec, "strategy");
    let rolling = follow(&strategy, "rollingUpdate");
    assert_eq!(
        follow(&rolling, "maxSurge"),
        json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
    );
    assert_eq!(spec["properties"]["strategy"]["x-kubernetes-patch-strategy"], "retainKeys");
    assert_eq!(
        spec["properties"]["replicas"],
        json!({"description": "How many pods there should be. 1 by default.",
            "type": "integer", "format": "int32"})
    );
}

#[test]
fn r48_subresources_name_the_kinds_of_their_bodies() {
    let apps = doc("apps", "v1");
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale";
    let put = &apps["paths"][path]["put"];
    assert_eq!(
        put["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(put["operationId"], "replaceAppsV1NamespacedDeploymentScale");
    let core = doc("", "v1");
    let pod = |name: &str| {
        &core["paths"][format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{name}")]
    };
    assert_eq!(pod("eviction")["post"]["x-kubernetes-group-version-kind"]["group"], "policy");
    assert_eq!(pod("exec")["get"]["x-kubernetes-action"], "connect");
    assert_eq!(
        pod("log")["get"]["responses"]["200"]["content"]["text/plain"]["schema"]["type"],
        "string"
    );
}

#[test]
fn r48_custom_kinds_carry_their_schema_and_the_members_of_every_object() {
    let document = doc("example.com", "v1");
    let widget = schema(&document, "com.example.v1.Widget");
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["type"], "integer");
    assert_eq!(
        widget["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert!(document["components"]["schemas"].get("com.example.v1.WidgetList").is_some());
}

#[test]
fn r48_operation_names_are_unique() {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    for group in order::groups(&kinds) {
        for version in &group.versions {
            let document = document(&kinds, group.name, version.version, &widget).expect("one");
            let mut seen = BTreeSet::new();
            for path in document["paths"].as_object().expect("paths").values() {
                for operation in path.as_object().expect("operations").values() {
                    if let Some(name) = operation["operationId"].as_str() {
                        assert!(seen.insert(name.to_owned()), "{name} twice");
                    }
                }
            }
        }
    }
}
