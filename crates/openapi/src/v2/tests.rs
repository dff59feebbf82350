//! Rules of `spec/api-server.md`: what older clients read in the one document.

use std::collections::BTreeSet;

use prost::Message as _;

use super::*;
use crate::sample;

fn widget(_: &Kind) -> Option<Value> {
    Some(json!({"type": "object", "required": ["spec", "note"], "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 1, "maxLength": 5, "default": 3},
            "either": {"x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"known": {"type": "string"}}},
            "choice": {"type": "string", "enum": ["a", "b"]},
            "closed": {"type": "object", "additionalProperties": false},
        }},
        "note": {"type": "string", "nullable": true}}}))
}

fn sample_document() -> Value {
    let all = sample::kinds();
    let kinds: Vec<_> = all.iter().collect();
    document(&kinds, &widget)
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

/// Calls `see` with every schema of the definitions.
fn each_schema(schema: &Value, see: &mut impl FnMut(&Value)) {
    see(schema);
    for property in schema["properties"].as_object().into_iter().flatten() {
        each_schema(property.1, see);
    }
    for word in ["items", "additionalProperties"] {
        if schema[word].is_object() {
            each_schema(&schema[word], see);
        }
    }
}

#[test]
fn r50_every_reference_resolves_and_no_definition_is_left_over() {
    let document = sample_document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let definitions = document["definitions"].as_object().expect("definitions");
    let defined: BTreeSet<_> =
        definitions.keys().map(|name| format!("#/definitions/{name}")).collect();
    assert_eq!(found, defined);
    assert!(definitions.len() > 300, "{}", definitions.len());
}

#[test]
fn r50_both_forms_have_sane_sizes() {
    let document = sample_document();
    let (text, binary) = (document.to_string().len(), protobuf(&document).len());
    assert!((500_000..3_000_000).contains(&text), "{text}");
    assert!((300_000..text).contains(&binary), "{binary}");
}

#[test]
fn r50_schemas_are_of_the_forms_that_kubectl_can_parse() {
    let document = sample_document();
    for (name, schema) in document["definitions"].as_object().expect("definitions") {
        each_schema(schema, &mut |schema| {
            if schema.get("$ref").is_some() {
                assert!(schema.get("type").is_none(), "{name}: {schema}");
                assert!(schema.get("properties").is_none(), "{name}: {schema}");
            }
            for word in ["default", "nullable", "oneOf", "anyOf", "allOf", "not"] {
                assert!(schema.get(word).is_none(), "{name}: {schema}");
            }
            match schema.get("type").map(|kind| kind.as_str().expect("one type")) {
                Some("array") => assert!(schema["items"].is_object(), "{name}: {schema}"),
                None | Some("object" | "string" | "integer" | "number" | "boolean") => {}
                Some(other) => panic!("{name}: {other}"),
            }
        });
    }
}

#[test]
fn r50_definitions_say_how_lists_merge() {
    let document = sample_document();
    let definitions = &document["definitions"];
    let pod = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert_eq!(
        pod["containers"],
        json!({"description": "The containers, at least one. None can be added or removed later.",
            "type": "array", "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"})
    );
    assert_eq!(
        definitions["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"],
        json!({"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentStrategy",
            "description": "How pods are replaced when the template changes.",
            "x-kubernetes-patch-strategy": "retainKeys"})
    );
    assert_eq!(
        definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"],
        json!({"type": "string", "format": "int-or-string"})
    );
    assert_eq!(
        definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"],
        json!({"type": "string"})
    );
}

#[test]
fn r50_every_kind_has_a_definition_and_operations() {
    let document = sample_document();
    let paths = &document["paths"];
    for kind in sample::kinds() {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let definitions = document["definitions"].as_object().expect("definitions");
        let bearers = definitions.values().filter(|schema| {
            let names = schema["x-kubernetes-group-version-kind"].as_array();
            names.is_some_and(|names| names.contains(&gvk))
        });
        assert_eq!(bearers.count(), 1, "{gvk}");
        let root =
            if kind.group.is_empty() { "api".into() } else { format!("apis/{}", kind.group) };
        let scope = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("/{root}/{}/{scope}{}", kind.version, kind.plural);
        let post = &paths[&collection]["post"];
        assert_eq!(post["x-kubernetes-group-version-kind"], gvk);
        assert_eq!(post["parameters"][0]["in"], "body");
        assert_eq!(post["consumes"], json!(["*/*"]));
        assert!(post["responses"]["201"]["schema"]["$ref"].is_string());
        assert!(post["requestBody"].is_null() && post["responses"]["201"]["content"].is_null());
        if kind.verbs == tenure_machinery::kind::Verbs::CreateOnly {
            continue;
        }
        let patch = &paths[format!("{collection}/{{name}}")]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
        let consumes = patch["consumes"].as_array().expect("media types");
        let strategic = consumes.contains(&json!("application/strategic-merge-patch+json"));
        assert_eq!(strategic, !kind.type_name.is_empty());
        let dry_run =
            json!({"name": "dryRun", "in": "query", "type": "string", "uniqueItems": true});
        assert!(patch["parameters"].as_array().expect("parameters").contains(&dry_run));
    }
}

#[test]
fn r50_delete_options_belong_to_every_group_and_version() {
    let document = sample_document();
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let names =
        document["definitions"][name]["x-kubernetes-group-version-kind"].as_array().expect("names");
    for (group, version) in [("", "v1"), ("apps", "v1"), ("example.com", "v1")] {
        let wanted = json!({"group": group, "version": version, "kind": "DeleteOptions"});
        assert_eq!(names.iter().filter(|name| **name == wanted).count(), 1, "{wanted}");
    }
}

#[test]
fn r50_custom_schemas_are_loosened_to_what_older_clients_understand() {
    let document = sample_document();
    let widget = &document["definitions"]["com.example.v1.Widget"];
    assert_eq!(widget["required"], json!(["spec"]));
    assert_eq!(widget["properties"]["note"], json!({}));
    assert_eq!(
        widget["properties"]["metadata"]["$ref"],
        json!("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    );
    let spec = &widget["properties"]["spec"]["properties"];
    assert_eq!(spec["size"], json!({"type": "integer", "minimum": 1, "maxLength": 5}));
    assert_eq!(spec["either"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(spec["free"], json!({"x-kubernetes-preserve-unknown-fields": true}));
}

#[test]
fn r50a_a_kind_that_takes_any_member_is_an_object_and_no_more() {
    let kind = json!([{"group": "example.com", "version": "v1", "kind": "Any"}]);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"kind": {"type": "string"}}, "x-kubernetes-group-version-kind": kind});
    assert_eq!(
        definition::definition(schema),
        json!({"type": "object", "x-kubernetes-group-version-kind": kind})
    );
}

/// The messages as kubectl reads them, declared apart from the writer's tables.
mod read {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Document {
        #[prost(string, tag = "1")]
        pub(super) swagger: String,
        #[prost(message, optional, tag = "2")]
        pub(super) info: Option<Info>,
        #[prost(message, optional, tag = "8")]
        pub(super) paths: Option<Paths>,
        #[prost(message, optional, tag = "9")]
        pub(super) definitions: Option<Schemas>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Info {
        #[prost(string, tag = "1")]
        pub(super) title: String,
        #[prost(string, tag = "2")]
        pub(super) version: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Paths {
        #[prost(message, repeated, tag = "2")]
        pub(super) path: Vec<NamedPath>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedPath {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<PathItem>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct PathItem {
        #[prost(message, optional, tag = "2")]
        pub(super) get: Option<Operation>,
        #[prost(message, optional, tag = "4")]
        pub(super) post: Option<Operation>,
        #[prost(message, optional, tag = "8")]
        pub(super) patch: Option<Operation>,
        #[prost(message, repeated, tag = "9")]
        pub(super) parameters: Vec<ParametersItem>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Operation {
        #[prost(string, tag = "5")]
        pub(super) operation_id: String,
        #[prost(string, repeated, tag = "7")]
        pub(super) consumes: Vec<String>,
        #[prost(message, repeated, tag = "8")]
        pub(super) parameters: Vec<ParametersItem>,
        #[prost(message, repeated, tag = "13")]
        pub(super) extensions: Vec<NamedAny>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ParametersItem {
        #[prost(message, optional, tag = "1")]
        pub(super) parameter: Option<Parameter>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Parameter {
        #[prost(message, optional, tag = "1")]
        pub(super) body: Option<BodyParameter>,
        #[prost(message, optional, tag = "2")]
        pub(super) other: Option<NonBodyParameter>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct BodyParameter {
        #[prost(string, tag = "2")]
        pub(super) name: String,
        #[prost(bool, tag = "4")]
        pub(super) required: bool,
        #[prost(message, optional, tag = "5")]
        pub(super) schema: Option<Schema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NonBodyParameter {
        #[prost(message, optional, tag = "3")]
        pub(super) query: Option<QueryParameter>,
        #[prost(message, optional, tag = "4")]
        pub(super) path: Option<PathParameter>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct QueryParameter {
        #[prost(string, tag = "4")]
        pub(super) name: String,
        #[prost(string, tag = "6")]
        pub(super) kind: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct PathParameter {
        #[prost(bool, tag = "1")]
        pub(super) required: bool,
        #[prost(string, tag = "4")]
        pub(super) name: String,
        #[prost(string, tag = "5")]
        pub(super) kind: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Schemas {
        #[prost(message, repeated, tag = "1")]
        pub(super) all: Vec<NamedSchema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedSchema {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<Schema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Schema {
        #[prost(string, tag = "1")]
        pub(super) reference: String,
        #[prost(string, tag = "2")]
        pub(super) format: String,
        #[prost(string, tag = "4")]
        pub(super) description: String,
        #[prost(double, tag = "9")]
        pub(super) minimum: f64,
        #[prost(int64, tag = "11")]
        pub(super) max_length: i64,
        #[prost(string, repeated, tag = "19")]
        pub(super) required: Vec<String>,
        #[prost(message, repeated, tag = "20")]
        pub(super) choices: Vec<Any>,
        #[prost(message, optional, boxed, tag = "21")]
        pub(super) additional: Option<Box<Additional>>,
        #[prost(message, optional, tag = "22")]
        pub(super) kind: Option<Texts>,
        #[prost(message, optional, tag = "23")]
        pub(super) items: Option<Items>,
        #[prost(message, optional, tag = "25")]
        pub(super) properties: Option<Schemas>,
        #[prost(message, repeated, tag = "31")]
        pub(super) extensions: Vec<NamedAny>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Additional {
        #[prost(message, optional, boxed, tag = "1")]
        pub(super) schema: Option<Box<Schema>>,
        #[prost(bool, optional, tag = "2")]
        pub(super) allowed: Option<bool>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Items {
        #[prost(message, repeated, tag = "1")]
        pub(super) schema: Vec<Schema>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Texts {
        #[prost(string, repeated, tag = "1")]
        pub(super) value: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct NamedAny {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<Any>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Any {
        #[prost(string, tag = "2")]
        pub(super) yaml: String,
    }
}

fn read_back() -> (Value, read::Document) {
    let document = sample_document();
    let read = read::Document::decode(protobuf(&document).as_slice()).expect("a document");
    (document, read)
}

fn extensions(extensions: &[read::NamedAny]) -> Map<String, Value> {
    let value = |any: &read::NamedAny| {
        let text = &any.value.as_ref().expect("a value").yaml;
        (any.name.clone(), serde_json::from_str(text).expect("JSON"))
    };
    extensions.iter().map(value).collect()
}

/// A schema that was read, as JSON again.
fn json_of(schema: &read::Schema) -> Value {
    let mut all = extensions(&schema.extensions);
    let mut set = |name: &str, value: Value| all.insert(name.to_owned(), value);
    let map = |schemas: &read::Schemas| {
        let entries = schemas.all.iter();
        let pair = |named: &read::NamedSchema| {
            (named.name.clone(), json_of(named.value.as_ref().expect("a schema")))
        };
        Value::Object(entries.map(pair).collect())
    };
    if !schema.reference.is_empty() {
        set("$ref", json!(schema.reference));
    }
    if !schema.format.is_empty() {
        set("format", json!(schema.format));
    }
    if !schema.description.is_empty() {
        set("description", json!(schema.description));
    }
    if schema.minimum != 0.0 {
        // The sample's bound is a whole number.
        set("minimum", json!(schema.minimum as i64));
    }
    if schema.max_length != 0 {
        set("maxLength", json!(schema.max_length));
    }
    if !schema.required.is_empty() {
        set("required", json!(schema.required));
    }
    if !schema.choices.is_empty() {
        let read = |any: &read::Any| -> Value { serde_json::from_str(&any.yaml).expect("JSON") };
        set("enum", schema.choices.iter().map(read).collect());
    }
    if let Some(additional) = &schema.additional {
        let inner = additional.schema.as_ref().map(|schema| json_of(schema));
        set("additionalProperties", inner.unwrap_or_else(|| json!(additional.allowed)));
    }
    if let Some(kind) = &schema.kind {
        assert_eq!(kind.value.len(), 1);
        set("type", json!(kind.value[0]));
    }
    if let Some(items) = &schema.items {
        assert_eq!(items.schema.len(), 1);
        set("items", json_of(&items.schema[0]));
    }
    if let Some(properties) = &schema.properties {
        set("properties", map(properties));
    }
    Value::Object(all)
}

#[test]
fn r50_protobuf_carries_the_same_definitions_as_json() {
    let (document, read) = read_back();
    assert_eq!(read.swagger, "2.0");
    assert_eq!(read.info.expect("info").title, "Kubernetes");
    let read = read.definitions.expect("definitions").all;
    let definitions = document["definitions"].as_object().expect("definitions");
    assert_eq!(read.len(), definitions.len());
    for named in read {
        let schema = json_of(named.value.as_ref().expect("a schema"));
        assert_eq!(schema, definitions[&named.name], "{}", named.name);
    }
}

#[test]
fn r50_protobuf_carries_the_operations_that_kubectl_looks_up() {
    let (document, read) = read_back();
    let read = read.paths.expect("paths").path;
    assert_eq!(read.len(), document["paths"].as_object().expect("paths").len());
    let find = |name: &str| {
        let found = read.iter().find(|path| path.name == name).expect("a path");
        found.value.clone().expect("an item")
    };
    let item = find("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    assert_eq!(item.get.expect("get").operation_id, "readAppsV1NamespacedDeployment");
    let patch = item.patch.expect("patch");
    assert!(patch.consumes.iter().any(|media| media == "application/strategic-merge-patch+json"));
    let said = extensions(&patch.extensions);
    assert_eq!(
        said["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let parameters: Vec<_> = patch.parameters.into_iter().filter_map(|p| p.parameter).collect();
    let queries = parameters.iter().filter_map(|p| p.other.as_ref()?.query.as_ref());
    let names: Vec<_> = queries.map(|query| (query.name.as_str(), query.kind.as_str())).collect();
    assert!(names.contains(&("dryRun", "string")) && names.contains(&("force", "boolean")));
    let body = parameters.iter().find_map(|p| p.body.as_ref()).expect("a body");
    assert_eq!(
        body.schema.as_ref().expect("a schema").reference,
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
    );
    assert!(body.required && body.name == "body");
    let shared: Vec<_> = item.parameters.into_iter().filter_map(|p| p.parameter?.other).collect();
    let paths: Vec<_> = shared.into_iter().filter_map(|other| other.path).collect();
    assert_eq!(paths.len(), 2);
    assert!(paths.iter().all(|path| path.required && path.kind == "string"));
    let post = find("/api/v1/namespaces/{namespace}/configmaps").post.expect("post");
    assert_eq!(post.operation_id, "createCoreV1NamespacedConfigMap");
}
