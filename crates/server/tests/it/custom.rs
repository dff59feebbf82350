//! Rules of spec/api-server.md.

use serde_json::{Value, json};

use crate::house::{
    Answer, House, JSON_PATCH, MERGE, STRATEGIC, TABLE, fields, named, names, version,
};

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// Widgets of one version with this schema.
pub fn definition(schema: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [of_version("v1", true, schema)],
        },
    })
}

fn of_version(name: &str, storage: bool, schema: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": { "openAPIV3Schema": schema },
    })
}

/// A schema with these fields in its spec, and a free status.
fn with_spec(properties: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": { "type": "object", "properties": properties },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    })
}

fn plain() -> Value {
    with_spec(json!({ "a": { "type": "string" }, "n": { "type": "integer" } }))
}

/// A definition whose one version also says this.
fn also(schema: Value, more: &Value) -> Value {
    let mut definition = definition(schema);
    for (key, value) in more.as_object().unwrap() {
        definition["spec"]["versions"][0][key] = value.clone();
    }
    definition
}

fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": { "name": name }, "spec": spec,
    })
}

async fn create(house: &House, name: &str, spec: Value) -> Answer {
    house.post(WIDGETS, widget(name, spec)).await
}

/// A server that knows widgets.
async fn house(definition: Value) -> House {
    let house = House::new().await;
    house.made(DEFINITIONS, definition).await;
    house
}

#[tokio::test]
async fn r118_a_definition_gets_its_defaults() {
    let house = House::new().await;
    let made = house.made(DEFINITIONS, definition(plain())).await;
    let names = json!({
        "plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList",
    });
    assert_eq!(made["spec"]["names"], names);
    assert_eq!(made["spec"]["conversion"], json!({ "strategy": "None" }));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn r118_a_definition_that_makes_no_sense_is_refused() {
    let house = House::new().await;
    let storage = |flags: &[bool]| {
        let versions = flags.iter().enumerate();
        versions.map(|(at, flag)| of_version(&format!("v{}", at + 1), *flag, plain())).collect()
    };
    let twice = json!([of_version("v1", true, plain()), of_version("v1", false, plain())]);
    let bare = json!([{ "name": "v1", "served": true, "storage": true }]);
    for (pointer, value, field) in [
        ("/metadata/name", json!("gadgets.example.com"), "metadata.name"),
        ("/spec/group", json!("nodots"), "spec.group"),
        ("/spec/scope", json!("Somewhere"), "spec.scope"),
        ("/spec/versions", storage(&[true, true]), "spec.versions"),
        ("/spec/versions", storage(&[false]), "spec.versions"),
        ("/spec/versions", twice, "spec.versions"),
        ("/spec/versions", json!([of_version("V_1", true, plain())]), "spec.versions[0].name"),
        ("/spec/versions", bare, "spec.versions[0].schema.openAPIV3Schema"),
        ("/spec/names/kind", json!("no-kind-"), "spec.names.kind"),
    ] {
        let mut wrong = definition(plain());
        *wrong.pointer_mut(pointer).unwrap() = value;
        let answer = house.post(DEFINITIONS, wrong).await;
        assert_eq!(answer.code, 422, "{pointer} {}", answer.text());
        let status = answer.fails(422, "Invalid");
        assert!(fields(&status).contains(&field), "{pointer} {status}");
    }
    assert_eq!(house.get("/apis/example.com").await.code, 404);
}

#[tokio::test]
async fn r118_what_is_established_stays() {
    let house = house(definition(plain())).await;
    for change in [
        json!({ "spec": { "scope": "Cluster" } }),
        json!({ "spec": { "names": { "kind": "Gadget" } } }),
        json!({ "spec": { "group": "example.org" } }),
        json!({ "spec": { "versions": [of_version("v2", true, plain())] } }),
    ] {
        let answer = house.merge(DEFINITION, change.clone()).await;
        assert_eq!(answer.code, 422, "{change} {}", answer.text());
    }
    let names = json!({ "spec": { "names": { "shortNames": ["wd"] } } });
    let changed = house.merge(DEFINITION, names).await.with(200);
    assert_eq!(changed["status"]["acceptedNames"]["shortNames"], json!(["wd"]));
}

#[tokio::test]
async fn r118_a_protected_group_needs_approval() {
    let house = House::new().await;
    let mut protected = definition(plain());
    protected["metadata"]["name"] = "widgets.example.k8s.io".into();
    protected["spec"]["group"] = "example.k8s.io".into();
    house.post(DEFINITIONS, protected.clone()).await.fails(422, "Invalid");
    protected["metadata"]["annotations"] =
        json!({ "api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1" });
    house.made(DEFINITIONS, protected).await;
}

#[tokio::test]
async fn r119_schemas_are_structural() {
    let house = House::new().await;
    let a = |schema: Value| with_spec(json!({ "a": schema }));
    for schema in [
        json!({ "type": "string" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "object", "nullable": true }),
        json!({ "type": "object", "properties": { "metadata": {
            "type": "object", "properties": { "labels": { "type": "object" } },
        } } }),
        a(json!({})),
        a(json!({ "type": "array", "items": {} })),
        a(json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })),
        a(json!({ "type": "string", "$ref": "#/x" })),
        a(json!({ "type": "object", "patternProperties": { "x": { "type": "string" } } })),
        a(json!({
            "type": "object", "properties": { "b": { "type": "string" } },
            "additionalProperties": { "type": "string" },
        })),
        a(json!({ "type": "object", "anyOf": [{ "properties": { "b": { "type": "string" } } }] })),
        a(json!({ "type": "string", "pattern": "(" })),
        a(json!({ "type": "integer", "default": "x" })),
    ] {
        let answer = house.post(DEFINITIONS, definition(schema.clone())).await;
        assert_eq!(answer.code, 422, "{schema} {}", answer.text());
    }
    let fine = a(json!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
    }));
    house.made(DEFINITIONS, definition(fine)).await;
}

#[tokio::test]
async fn r121_what_the_schema_does_not_know_is_dropped() {
    let schema = with_spec(json!({
        "a": { "type": "string" },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    }));
    let house = house(definition(schema)).await;
    let spec = json!({ "a": "x", "b": 1, "free": { "any": { "thing": 1 } } });
    let kept = json!({ "a": "x", "free": { "any": { "thing": 1 } } });
    let mut body = widget("w", spec.clone());
    body["extra"] = 1.into();
    let made = house.made(WIDGETS, body).await;
    assert_eq!(made["spec"], kept);
    assert_eq!(made["extra"], Value::Null);
    let path = format!("{WIDGETS}/w");
    let changed = house.merge(&path, json!({ "spec": { "c": 1 } })).await.with(200);
    assert_eq!(changed["spec"], kept);
    assert_eq!(version(&changed), version(&made), "nothing was changed");
    let replaced = house.put(&path, {
        let mut whole = made.clone();
        whole["spec"]["d"] = 1.into();
        whole
    });
    assert_eq!(replaced.await.with(200)["spec"], kept);
    // What would be dropped is reported to those who ask.
    let strict = house.post(&format!("{WIDGETS}?fieldValidation=Strict"), widget("v", spec)).await;
    let status = strict.fails(400, "BadRequest");
    assert!(status["message"].as_str().unwrap().contains("unknown field \"spec.b\""), "{status}");
    let warn = format!("{WIDGETS}?fieldValidation=Warn");
    let warned = house.post(&warn, widget("v", json!({ "z": 1 }))).await;
    assert_eq!(warned.code, 201);
    assert!(
        warned.warnings().iter().any(|text| text.contains("spec.z")),
        "{:?}",
        warned.warnings()
    );
    // A field that the schema forgets is not shown.
    let less = with_spec(json!({ "a": { "type": "string" } }));
    house
        .merge(DEFINITION, json!({ "spec": { "versions": [of_version("v1", true, less)] } }))
        .await
        .with(200);
    assert_eq!(house.get(&path).await.with(200)["spec"], json!({ "a": "x" }));
    assert_eq!(house.get(WIDGETS).await.with(200)["items"][1]["spec"], json!({ "a": "x" }));
}

#[tokio::test]
async fn r122_defaults_fill_what_is_missing() {
    let schema = with_spec(json!({
        "a": { "type": "string", "default": "x" },
        "nil": { "type": "string", "nullable": true, "default": "y" },
        "o": {
            "type": "object", "properties": { "in": { "type": "integer", "default": 7 } },
        },
    }));
    let house = house(definition(schema)).await;
    for (name, spec, wanted) in [
        ("a", json!({}), json!({ "a": "x", "nil": "y" })),
        ("b", json!({ "a": "own" }), json!({ "a": "own", "nil": "y" })),
        ("c", json!({ "a": null, "nil": null }), json!({ "a": "x", "nil": null })),
        ("d", json!({ "o": {} }), json!({ "a": "x", "nil": "y", "o": { "in": 7 } })),
    ] {
        assert_eq!(create(&house, name, spec).await.with(201)["spec"], wanted, "{name}");
    }
    // A default that came later is shown, not written.
    let later = with_spec(json!({
        "a": { "type": "string", "default": "x" },
        "nil": { "type": "string", "nullable": true },
        "new": { "type": "boolean", "default": true },
    }));
    let before = house.get(&format!("{WIDGETS}/a")).await.json;
    house
        .merge(DEFINITION, json!({ "spec": { "versions": [of_version("v1", true, later)] } }))
        .await
        .with(200);
    let after = house.get(&format!("{WIDGETS}/a")).await.with(200);
    assert_eq!(after["spec"]["new"], true);
    assert_eq!(version(&after), version(&before));
}

#[tokio::test]
async fn r123_values_are_checked() {
    let schema = with_spec(json!({
        "s": { "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^é*[a-z]*$" },
        "n": { "type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 3 },
        "e": { "type": "string", "enum": ["b", "c"] },
        "l": { "type": "array", "maxItems": 2, "items": { "type": "string" },
               "x-kubernetes-list-type": "set" },
        "f": { "type": "string", "format": "ipv4" },
        "one": { "type": "object", "required": ["y"], "properties": { "y": { "type": "string" } } },
    }));
    let house = house(definition(schema)).await;
    for (name, spec, field) in [
        ("a", json!({ "s": "ab", "n": 3, "e": "b", "l": ["p"], "f": "1.2.3.4" }), ""),
        ("b", json!({ "s": "ééé" }), ""),
        ("c", json!({ "s": "a" }), "spec.s"),
        ("c", json!({ "s": "abcd" }), "spec.s"),
        ("c", json!({ "s": "AB" }), "spec.s"),
        ("c", json!({ "s": 1 }), "spec.s"),
        ("c", json!({ "n": 0 }), "spec.n"),
        ("c", json!({ "n": 12 }), "spec.n"),
        ("c", json!({ "n": 4 }), "spec.n"),
        ("c", json!({ "n": 3.5 }), "spec.n"),
        ("c", json!({ "e": "a" }), "spec.e"),
        ("c", json!({ "l": ["p", "q", "r"] }), "spec.l"),
        ("c", json!({ "l": ["p", "p"] }), "spec.l[1]"),
        ("c", json!({ "f": "1.2.3" }), "spec.f"),
        ("c", json!({ "one": {} }), "spec.one.y"),
    ] {
        let answer = create(&house, name, spec.clone()).await;
        if field.is_empty() {
            answer.with(201);
            continue;
        }
        assert_eq!(answer.code, 422, "{spec} {}", answer.text());
        assert!(fields(&answer.fails(422, "Invalid")).contains(&field), "{spec}");
    }
    let status = create(&house, "c", json!({ "e": "a" })).await.fails(422, "Invalid");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("spec.e: Unsupported value: \"a\": supported values: \"b\", \"c\""),
        "{message}"
    );
    house.merge(&format!("{WIDGETS}/a"), json!({ "spec": { "n": 4 } })).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r126_status_and_scale_are_subresources_when_the_version_says_so() {
    let schema = with_spec(json!({ "replicas": { "type": "integer" } }));
    let without = house(definition(schema.clone())).await;
    create(&without, "w", json!({})).await.with(201);
    for rest in ["status", "scale"] {
        without.get(&format!("{WIDGETS}/w/{rest}")).await.fails(404, "NotFound");
    }
    let more = json!({ "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    } });
    let house = house(also(schema, &more)).await;
    let path = format!("{WIDGETS}/w");
    let mut body = widget("w", json!({ "replicas": 2 }));
    body["status"] = json!({ "replicas": 9 });
    let made = house.made(WIDGETS, body).await;
    assert_eq!(made["status"], Value::Null);
    assert_eq!(made["metadata"]["generation"], 1);
    let status =
        json!({ "status": { "replicas": 1, "selector": "app=x" }, "spec": { "replicas": 8 } });
    let changed = house.merge(&format!("{path}/status"), status).await.with(200);
    assert_eq!(changed["status"]["replicas"], 1);
    assert_eq!(changed["spec"]["replicas"], 2);
    assert_eq!(changed["metadata"]["generation"], 1);
    let same = house.merge(&path, json!({ "status": { "replicas": 7 } })).await.with(200);
    assert_eq!(same["status"]["replicas"], 1);
    let scale = house.get(&format!("{path}/scale")).await.with(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"], json!({ "replicas": 2 }));
    assert_eq!(scale["status"], json!({ "replicas": 1, "selector": "app=x" }));
    let five = json!({ "spec": { "replicas": 5 } });
    let scaled = house.patch(&format!("{path}/scale"), MERGE, five).await.with(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    let after = house.get(&path).await.json;
    assert_eq!(after["spec"]["replicas"], 5);
    assert_eq!(after["metadata"]["generation"], 2);
}

#[tokio::test]
async fn r127_columns_are_those_of_the_version() {
    let schema = with_spec(json!({
        "a": { "type": "string" }, "i": { "type": "integer" }, "b": { "type": "boolean" },
        "l": { "type": "array", "items": { "type": "string" } },
    }));
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let more = json!({ "additionalPrinterColumns": [
        column("A", "string", ".spec.a"), column("I", "integer", ".spec.i"),
        column("B", "boolean", ".spec.b"), column("L", "string", ".spec.l"),
        column("O", "string", ".spec.o"),
    ] });
    for (definition, columns, cells) in [
        (definition(schema.clone()), json!(["Name", "Age"]), json!(["w", "0s"])),
        (
            also(schema, &more),
            json!(["Name", "A", "I", "B", "L", "O"]),
            json!(["w", "1", 7, true, "[\"p\",\"q\"]", null]),
        ),
    ] {
        let house = house(definition).await;
        let spec = json!({ "a": "1", "i": 7, "b": true, "l": ["p", "q"] });
        create(&house, "w", spec).await.with(201);
        for path in [WIDGETS.to_owned(), format!("{WIDGETS}/w")] {
            let table = house.get_as(&path, TABLE).await.with(200);
            let all = table["columnDefinitions"].as_array().unwrap();
            let shown: Vec<&Value> = all.iter().map(|column| &column["name"]).collect();
            assert_eq!(json!(shown), columns);
            let row = &table["rows"][0]["cells"];
            assert_eq!(row.as_array().unwrap().len(), cells.as_array().unwrap().len());
            if columns[1] == "A" {
                assert_eq!(*row, cells);
            }
        }
    }
}

#[tokio::test]
async fn r128_fields_that_may_be_selected() {
    let schema = with_spec(json!({
        "color": { "type": "string" }, "n": { "type": "integer" }, "x": { "type": "string" },
    }));
    let more = json!({
        "selectableFields": [{ "jsonPath": ".spec.color" }, { "jsonPath": ".spec.n" }],
    });
    let house = house(also(schema, &more)).await;
    for (name, color, n) in [("w-red", "red", 0), ("w-blue", "blue", 1), ("w-green", "green", 2)] {
        create(&house, name, json!({ "color": color, "n": n, "x": "1" })).await.with(201);
    }
    for (selector, wanted) in [
        ("spec.color%3Dblue", &["w-blue"][..]),
        ("spec.color%21%3Dblue,spec.n%3D2", &["w-green"]),
        ("metadata.name%3Dw-red", &["w-red"]),
    ] {
        let list = house.get(&format!("{WIDGETS}?fieldSelector={selector}")).await.with(200);
        assert_eq!(names(&list), wanted, "{selector}");
    }
    house.get(&format!("{WIDGETS}?fieldSelector=spec.x%3D1")).await.fails(400, "BadRequest");
    let mut watch =
        house.watch(&format!("{WIDGETS}?watch=1&fieldSelector=spec.color%3Dblue")).await;
    watch.expect(&["ADDED w-blue"]).await;
    let red = json!({ "spec": { "color": "blue" } });
    house.merge(&format!("{WIDGETS}/w-red"), red).await.with(200);
    watch.expect(&["ADDED w-red"]).await;
    house.delete(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).await.with(200);
    assert_eq!(names(&house.get(WIDGETS).await.json), ["w-green"]);
}

/// Two served versions, the first stored.
fn two() -> Value {
    let mut both = definition(plain());
    both["spec"]["versions"] =
        json!([of_version("v1", true, plain()), of_version("v2", false, plain())]);
    both
}

#[tokio::test]
async fn r129_between_versions_only_the_version_changes() {
    let house = house(two()).await;
    let second = WIDGETS.replace("/v1/", "/v2/");
    let mut body = widget("w", json!({ "a": "x" }));
    body["apiVersion"] = "example.com/v2".into();
    house.post(WIDGETS, body.clone()).await.fails(400, "BadRequest");
    let mut made = house.made(&second, body).await;
    assert_eq!(made["apiVersion"], "example.com/v2");
    let mut first = house.get(&format!("{WIDGETS}/w")).await.with(200);
    assert_eq!(first["apiVersion"], "example.com/v1");
    for object in [&mut made, &mut first] {
        object.as_object_mut().unwrap().remove("apiVersion");
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    assert_eq!(made, first);
    let list = house.get(&second).await.with(200);
    assert_eq!(list["apiVersion"], "example.com/v2");
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v2");
    let mut watch = house.watch(&format!("{second}?watch=1")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "example.com/v2");
    house.merge(&format!("{WIDGETS}/w"), json!({ "spec": { "a": "y" } })).await.with(200);
    let event = watch.next().await.unwrap();
    assert_eq!(event["object"]["apiVersion"], "example.com/v2");
    assert_eq!(event["object"]["spec"]["a"], "y");
    // Another version to store in: what is stored is told, what is there stays readable.
    let change = json!({ "spec": { "versions": [
        of_version("v1", false, plain()), of_version("v2", true, plain()),
    ] } });
    let changed = house.merge(DEFINITION, change).await.with(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(house.get(&format!("{second}/w")).await.with(200)["spec"]["a"], "y");
}

#[tokio::test]
async fn r130_conditions_are_set_with_the_definition() {
    let house = House::new().await;
    let made = house.made(DEFINITIONS, definition(plain())).await;
    let condition = |definition: &Value, kind: &str| {
        let all = definition["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|condition| condition["type"] == kind).unwrap();
        (found["status"].as_str().unwrap().to_owned(), found["reason"].as_str().unwrap().to_owned())
    };
    let told = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
    assert_eq!(condition(&made, "NamesAccepted"), told("True", "NoConflicts"));
    assert_eq!(condition(&made, "Established"), told("True", "InitialNamesAccepted"));
    assert_eq!(made["status"]["acceptedNames"], made["spec"]["names"]);
    // A name that another has is not accepted until the other is gone.
    let mut second = definition(plain());
    second["metadata"]["name"] = "gadgets.example.com".into();
    second["spec"]["names"]["plural"] = "gadgets".into();
    let refused = house.made(DEFINITIONS, second).await;
    assert_eq!(condition(&refused, "NamesAccepted").0, "False");
    assert_eq!(condition(&refused, "Established"), told("False", "NotAccepted"));
    let gadgets = WIDGETS.replace("widgets", "gadgets");
    assert_eq!(house.get(&gadgets).await.code, 404);
    house.delete(DEFINITION).await.with(200);
    house.until(&gadgets, 200).await;
    // Kinds are served from just before the state is published that defines them.
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    house.until_looks(&path, |seen| condition(seen, "Established").0 == "True").await;
}

#[tokio::test]
async fn r131_a_kind_is_usable_in_the_very_next_request() {
    for step in ["group", "groups", "resources", "openapi", "create", "list"] {
        let house = house(definition(plain())).await;
        match step {
            "group" => {
                let group = house.get("/apis/example.com").await.with(200);
                assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v1");
            }
            "groups" => {
                let groups = house.get("/apis").await.with(200);
                assert!(groups["groups"].to_string().contains("\"example.com\""));
            }
            "resources" => {
                let list = house.get("/apis/example.com/v1").await.with(200);
                let widgets = &list["resources"][0];
                assert_eq!(widgets["name"], "widgets");
                assert_eq!(widgets["namespaced"], true);
                assert_eq!(widgets["kind"], "Widget");
            }
            "openapi" => {
                let index = house.get("/openapi/v3").await.with(200);
                let link = &index["paths"]["apis/example.com/v1"]["serverRelativeURL"];
                let document = house.get(link.as_str().unwrap()).await.with(200);
                let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
                assert_eq!(schema["properties"]["spec"]["properties"]["n"]["type"], "integer");
            }
            "create" => {
                let made = create(&house, "w", json!({ "a": "x" })).await.with(201);
                assert_eq!(made["metadata"]["generation"], 1);
            }
            _ => assert_eq!(house.get(WIDGETS).await.with(200)["kind"], "WidgetList"),
        }
        house.delete(DEFINITION).await.with(200);
        house.until(DEFINITION, 404).await;
        assert_eq!(house.get(WIDGETS).await.code, 404);
        assert_eq!(house.get("/apis/example.com/v1").await.code, 404);
    }
}

#[tokio::test]
async fn r132_a_definition_takes_its_instances_along() {
    let house = house(definition(plain())).await;
    for name in ["a", "b"] {
        create(&house, name, json!({})).await.with(201);
    }
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(WIDGETS, held).await;
    house.delete(DEFINITION).await.with(200);
    // The instances go, as far as nobody holds them.
    let path = format!("{WIDGETS}/held");
    house.until_looks(&path, |widget| widget["metadata"]["deletionTimestamp"].is_string()).await;
    house.until_looks(WIDGETS, |list| names(list) == ["held"]).await;
    let going = house.get(DEFINITION).await.with(200);
    assert_eq!(
        going["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    let all = going["status"]["conditions"].as_array().unwrap();
    assert!(all.iter().any(|c| c["type"] == "Terminating" && c["status"] == "True"), "{all:?}");
    let status = create(&house, "new", json!({})).await.fails(403, "Forbidden");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("create not allowed while custom resource definition is terminating"));
    let again = house.post(DEFINITIONS, definition(plain())).await.fails(409, "AlreadyExists");
    assert!(again["message"].as_str().unwrap().contains("object is being deleted"), "{again}");
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    house.until(DEFINITION, 404).await;
    assert_eq!(house.get(WIDGETS).await.code, 404);
    // The next of that name begins with nothing.
    house.made(DEFINITIONS, definition(plain())).await;
    assert!(names(&house.get(WIDGETS).await.with(200)).is_empty());
}

#[tokio::test]
async fn r133_paths_fit_the_scope_and_what_is_served() {
    let namespaced = house(definition(plain())).await;
    let everywhere = "/apis/example.com/v1/widgets";
    namespaced.get(everywhere).await.with(200);
    namespaced.post(everywhere, widget("w", json!({}))).await.fails(404, "NotFound");
    namespaced.get(&format!("{everywhere}/w")).await.fails(404, "NotFound");
    let mut cluster = definition(plain());
    cluster["spec"]["scope"] = "Cluster".into();
    let cluster = house(cluster).await;
    cluster.made(everywhere, widget("w", json!({}))).await;
    cluster.get(&format!("{everywhere}/w")).await.with(200);
    cluster.get(WIDGETS).await.fails(404, "NotFound");
    create(&cluster, "w", json!({})).await.fails(404, "NotFound");

    let mut both = two();
    both["spec"]["versions"][1]["served"] = false.into();
    let second = WIDGETS.replace("/v1/", "/v2/");
    assert_eq!(house(both).await.get(&second).await.code, 404);
    for (warning, wanted) in [
        (Value::Null, "example.com/v2 Widget is deprecated"),
        (json!("use v1 instead"), "use v1 instead"),
    ] {
        let mut both = two();
        both["spec"]["versions"][1]["deprecated"] = true.into();
        if !warning.is_null() {
            both["spec"]["versions"][1]["deprecationWarning"] = warning;
        }
        let house = house(both).await;
        let warnings = house.get(&second).await.warnings();
        assert!(warnings.iter().any(|text| text.contains(wanted)), "{warnings:?}");
        assert!(house.get(WIDGETS).await.warnings().is_empty());
    }
}

#[tokio::test]
async fn r115_a_watch_ends_with_its_definition() {
    let house = house(two()).await;
    create(&house, "w", json!({})).await.with(201);
    let mut first = house.watch(&format!("{WIDGETS}?watch=1")).await;
    first.expect(&["ADDED w"]).await;
    let second = WIDGETS.replace("/v1/", "/v2/");
    let mut other = house.watch(&format!("{second}?watch=1")).await;
    other.expect(&["ADDED w"]).await;
    // A version that is no longer served ends its watches.
    let mut versions = two()["spec"]["versions"].clone();
    versions[1]["served"] = false.into();
    house.merge(DEFINITION, json!({ "spec": { "versions": versions } })).await.with(200);
    assert_eq!(other.next().await, None);
    // The other watch may have ended as well, for its client to list again.
    drop(first);
    let mut first = house.watch(&format!("{WIDGETS}?watch=1")).await;
    first.expect(&["ADDED w"]).await;
    house.delete(DEFINITION).await.with(200);
    first.expect(&["DELETED w"]).await;
    assert_eq!(first.next().await, None);
}

#[tokio::test]
async fn r115_a_watch_ends_when_the_schema_changes() {
    let house = house(definition(plain())).await;
    let mut watch = house.watch(&format!("{WIDGETS}?watch=1")).await;
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    house.merge(DEFINITION, labels).await.with(200);
    create(&house, "w", json!({})).await.with(201);
    watch.expect(&["ADDED w"]).await;
    let other = with_spec(json!({ "a": { "type": "string", "default": "x" } }));
    let change = json!({ "spec": { "versions": [of_version("v1", true, other)] } });
    house.merge(DEFINITION, change).await.with(200);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn r101_apply_owns_by_the_schema() {
    let schema = with_spec(json!({
        "a": { "type": "string" },
        "set": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
        "atomic": { "type": "array", "items": { "type": "string" } },
    }));
    let house = house(definition(schema)).await;
    let path = format!("{WIDGETS}/w");
    let apply = async |manager: &str, spec: Value| {
        let path = format!("{path}?fieldManager={manager}");
        house.patch(&path, "application/apply-patch+yaml", widget("w", spec)).await
    };
    apply("one", json!({ "a": "x", "set": ["p"], "atomic": ["p"] })).await.with(201);
    let both = apply("two", json!({ "set": ["q"] })).await.with(200);
    assert_eq!(both["spec"]["set"], json!(["p", "q"]));
    for spec in [json!({ "a": "y" }), json!({ "atomic": ["p", "q"] })] {
        apply("two", spec).await.fails(409, "Conflict");
    }
    let fields = &both["metadata"]["managedFields"];
    let owner = fields.as_array().unwrap().iter().find(|entry| entry["manager"] == "two").unwrap();
    assert_eq!(owner["operation"], "Apply");
    assert_eq!(owner["fieldsV1"], json!({ "f:spec": { "f:set": { "v:\"q\"": {} } } }));
    // What an owner no longer says goes, and nothing else.
    let less = apply("one", json!({ "atomic": ["p"] })).await.with(200);
    assert_eq!(less["spec"], json!({ "set": ["q"], "atomic": ["p"] }));
}

#[tokio::test]
async fn r21_a_custom_kind_is_not_merged_strategically() {
    let house = house(definition(plain())).await;
    create(&house, "w", json!({ "a": "x" })).await.with(201);
    let path = format!("{WIDGETS}/w");
    let change = json!({ "spec": { "a": "y" } });
    house.patch(&path, STRATEGIC, change.clone()).await.fails(415, "UnsupportedMediaType");
    assert_eq!(house.get(&path).await.json["spec"]["a"], "x");
    assert_eq!(house.merge(&path, change).await.with(200)["spec"]["a"], "y");
    let steps = json!([{ "op": "replace", "path": "/spec/a", "value": "z" }]);
    assert_eq!(house.patch(&path, JSON_PATCH, steps).await.with(200)["spec"]["a"], "z");
    house.post(WIDGETS, named("w")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn r130_a_definition_does_not_get_the_name_of_a_built_in_kind() {
    let house = House::new().await;
    let like = |plural: &str, kind: &str| {
        let mut like = definition(with_spec(json!({})));
        like["metadata"]["name"] = format!("{plural}.networking.k8s.io").into();
        like["metadata"]["annotations"] =
            json!({ "api-approved.kubernetes.io": "unapproved, a test" });
        like["spec"]["group"] = "networking.k8s.io".into();
        like["spec"]["names"] = json!({ "plural": plural, "kind": kind });
        like["spec"]["versions"][0]["name"] = "v9".into();
        like
    };
    for (plural, kind, reason) in [
        ("ingresses", "Gangway", "PluralConflict"),
        ("gangways", "Ingress", "ListKindConflict"),
        ("ing", "Gangway", "PluralConflict"),
    ] {
        let made = house.made(DEFINITIONS, like(plural, kind)).await;
        let conditions = made["status"]["conditions"].as_array().unwrap();
        let of = |kind: &str| conditions.iter().find(|one| one["type"] == kind).unwrap();
        assert_eq!(of("NamesAccepted")["status"], "False", "{plural} {kind}");
        assert_eq!(of("NamesAccepted")["reason"], reason, "{plural} {kind}");
        assert_eq!(of("Established")["status"], "False", "{plural} {kind}");
        house.get("/apis/networking.k8s.io/v9").await.fails(404, "NotFound");
        let name = format!("{plural}.networking.k8s.io");
        house.delete(&format!("{DEFINITIONS}/{name}")).await.with(200);
        house.until(&format!("{DEFINITIONS}/{name}"), 404).await;
    }
    // Built-in kinds of the group do not stand in the way of others.
    house.made(DEFINITIONS, like("gangways", "Gangway")).await;
    house.get("/apis/networking.k8s.io/v9").await.with(200);
    let groups = house.get("/apis/networking.k8s.io/v1").await.with(200);
    let ingresses = groups["resources"].as_array().unwrap().iter();
    assert_eq!(ingresses.filter(|one| one["name"] == "ingresses").count(), 1);
}
