//! Rules of spec/api-server.md: JSON, merge and strategic patches.

use serde_json::{Value, json};

use crate::house::*;

const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

async fn with_data() -> (House, Value) {
    let house = House::new().await;
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "1", "l": "2" } });
    let made = house.made(CONFIG_MAPS, body).await;
    (house, made)
}

/// A PodTemplate `t`, whose pod may be patched freely.
async fn with_template(spec: Value) -> (House, String) {
    let house = House::new().await;
    let body = json!({
        "metadata": { "name": "t" },
        "template": { "metadata": { "labels": { "app": "a" } }, "spec": spec },
    });
    house.made(TEMPLATES, body).await;
    (house, format!("{TEMPLATES}/t"))
}

fn container(name: &str, image: &str) -> Value {
    json!({ "name": name, "image": image })
}

fn list<'a>(object: &'a Value, pointer: &str, member: &str) -> Vec<&'a str> {
    let items = object.pointer(pointer).and_then(Value::as_array);
    items.into_iter().flatten().map(|item| item[member].as_str().unwrap()).collect()
}

#[tokio::test]
async fn r68_a_patch_with_a_version_is_conditional() {
    let (house, old) = with_data().await;
    let new = house.merge(&a(), json!({ "data": { "k": "x" } })).await.with(200);
    let stale = json!({ "metadata": { "resourceVersion": version(&old) }, "data": { "k": "y" } });
    let operations = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": version(&old) },
        { "op": "replace", "path": "/data/k", "value": "y" },
    ]);
    for (media, patch) in [(MERGE, stale.clone()), (STRATEGIC, stale), (JSON_PATCH, operations)] {
        let status = house.patch(&a(), media, patch).await.fails(409, "Conflict");
        assert_eq!(status["details"], json!({ "name": "a", "kind": "configmaps" }));
    }
    for asks_nothing in [Value::Null, json!(""), json!("0")] {
        let patch = json!({ "metadata": { "resourceVersion": asks_nothing } });
        assert_eq!(version(&house.merge(&a(), patch).await.with(200)), version(&new));
    }
    let current = json!({ "metadata": { "resourceVersion": version(&new) }, "data": { "k": "z" } });
    assert_eq!(house.merge(&a(), current).await.with(200)["data"]["k"], "z");
}

#[tokio::test]
async fn r83_json_patches_follow_rfc_6902() {
    let (house, _) = with_data().await;
    let patch = json!([
        { "op": "test", "path": "/data/k", "value": "1" },
        { "op": "add", "path": "/data/new", "value": "3" },
        { "op": "replace", "path": "/data/k", "value": "4" },
        { "op": "remove", "path": "/data/l" },
        { "op": "add", "path": "/metadata/labels", "value": {} },
        { "op": "add", "path": "/metadata/labels/example.com~1x", "value": "y" },
        { "op": "copy", "from": "/data/k", "path": "/data/copy" },
        { "op": "move", "from": "/data/new", "path": "/data/moved" },
        { "op": "add", "path": "/metadata/finalizers", "value": ["example.com/b"] },
        { "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c" },
        { "op": "add", "path": "/metadata/finalizers/0", "value": "example.com/a" },
    ]);
    let new = house.patch(&a(), JSON_PATCH, patch).await.with(200);
    assert_eq!(new["data"], json!({ "k": "4", "copy": "4", "moved": "3" }));
    assert_eq!(new["metadata"]["labels"], json!({ "example.com/x": "y" }));
    let finalizers = json!(["example.com/a", "example.com/b", "example.com/c"]);
    assert_eq!(new["metadata"]["finalizers"], finalizers);
}

#[tokio::test]
async fn r83_json_patches_that_cannot_be_done_change_nothing() {
    let (house, made) = with_data().await;
    let first = json!({ "op": "add", "path": "/data/x", "value": "y" });
    for (operation, code) in [
        (json!({ "op": "test", "path": "/data/k", "value": "2" }), 422),
        (json!({ "op": "test", "path": "/data/k", "value": 1 }), 422),
        (json!({ "op": "remove", "path": "/data/none" }), 422),
        (json!({ "op": "remove", "path": "" }), 422),
        (json!({ "op": "replace", "path": "/metadata/labels/x", "value": "" }), 422),
        (json!({ "op": "replace", "path": "", "value": [1] }), 422),
        (json!({ "op": "add", "path": "/metadata/labels/x", "value": "y" }), 422),
        (json!({ "op": "add", "path": "/metadata/finalizers/9", "value": "a/b" }), 422),
        (json!({ "op": "add", "path": "/data/x/y", "value": "y" }), 422),
        (json!({ "op": "move", "from": "/none", "path": "/data/z" }), 422),
        (json!({ "op": "copy", "from": "/none/x", "path": "/data/z" }), 422),
        (json!({ "op": "add", "path": "/data", "value": "text" }), 422),
        (json!({ "op": "frobnicate", "path": "/data" }), 422),
        (json!({ "op": 5 }), 400),
        (json!(1), 400),
        (Value::Null, 400),
    ] {
        let answer = house.patch(&a(), JSON_PATCH, json!([first, operation])).await;
        let reason = if code == 422 { "Invalid" } else { "BadRequest" };
        assert_eq!(answer.code, code, "{operation}: {}", answer.text());
        answer.fails(code, reason);
    }
    for body in ["{}", "null", "\"x\"", "1", "", "[{"] {
        let answer = house.ask("PATCH", &a(), &[("content-type", JSON_PATCH)], body).await;
        answer.fails(400, "BadRequest");
    }
    assert_eq!(version(&house.get(&a()).await.with(200)), version(&made));
}

#[tokio::test]
async fn r83_a_json_patch_of_too_many_operations_is_too_large() {
    let (house, _) = with_data().await;
    let test = json!({ "op": "test", "path": "/data/k", "value": "1" });
    let patch = Value::Array(vec![test; 10_001]);
    house.patch(&a(), JSON_PATCH, patch).await.fails(413, "RequestEntityTooLarge");
    // Each copy doubles: 30 of them would be a gigabyte.
    let mut patch = vec![json!({ "op": "add", "path": "/data/x", "value": "x".repeat(1024) })];
    for at in 0..30 {
        patch.push(json!({ "op": "copy", "from": "/data", "path": format!("/data/d{at}") }));
    }
    let answer = house.patch(&a(), JSON_PATCH, Value::Array(patch)).await;
    assert!(matches!(answer.code, 413 | 422), "{}", answer.code);
}

#[tokio::test]
async fn r84_merge_patches_follow_rfc_7386() {
    let (house, _) = with_data().await;
    let patch = json!({
        "data": { "k": null, "none": null, "n": "3" },
        "metadata": { "labels": { "x": "y" }, "finalizers": ["example.com/a", "example.com/b"] },
    });
    let new = house.merge(&a(), patch).await.with(200);
    assert_eq!(new["data"], json!({ "l": "2", "n": "3" }));
    let patch =
        json!({ "data": null, "metadata": { "labels": null, "finalizers": ["example.com/c"] } });
    let new = house.merge(&a(), patch).await.with(200);
    assert_eq!(new.get("data"), None);
    assert_eq!(new["metadata"].get("labels"), None);
    assert_eq!(new["metadata"]["finalizers"], json!(["example.com/c"]));
}

#[tokio::test]
async fn r84_the_result_of_a_merge_must_fit_the_type() {
    let (house, made) = with_data().await;
    for (patch, field) in [
        (json!({ "data": "text" }), "patch"),
        (json!({ "data": { "k": 1 } }), "patch"),
        (json!({ "data": { "k": { "m": [] } } }), "patch"),
        (json!({ "data": [] }), "patch"),
        (json!({ "immutable": "yes" }), "patch"),
        (json!({ "binaryData": { "k": "%%%" } }), "patch"),
        (json!({ "metadata": { "labels": [1] } }), "patch"),
        (json!({ "metadata": { "resourceVersion": 7 } }), "patch"),
        (json!({ "metadata": { "namespace": 7 } }), "patch"),
        (json!({ "metadata": { "managedFields": "x" } }), "patch"),
        (json!({ "metadata": { "managedFields": [{ "manager": 1 }] } }), "patch"),
        (json!({ "data": { "k/": "v" } }), "data[k/]"),
        (json!({ "metadata": { "labels": { "a b": "c" } } }), "metadata.labels"),
    ] {
        let answer = house.merge(&a(), patch.clone()).await;
        assert_eq!(answer.code, 422, "{patch}: {}", answer.text());
        assert_eq!(fields(&answer.fails(422, "Invalid")), [field], "{patch}");
    }
    for media in [MERGE, STRATEGIC] {
        let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
        for body in ["[1]", "null", "\"x\"", "1", "", "{\"data\":", deep.as_str()] {
            let headers = [("content-type", media)];
            house.ask("PATCH", &a(), &headers, body.to_owned()).await.fails(400, "BadRequest");
        }
    }
    assert_eq!(version(&house.get(&a()).await.with(200)), version(&made));
}

#[tokio::test]
async fn r32_members_that_a_patch_gives_twice_follow_field_validation() {
    let (house, _) = with_data().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let twice = r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#;
    let label = "duplicate field \"metadata.labels.a\"";
    let operations = r#"[
        {"op":"add","op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"},"x":{"y":1,"y":2}},
        {"op":"test","path":"/metadata/name","value":"a","Path":"p"}
    ]"#;
    let of_operations = [
        "json patch duplicate field \"[0].op\"",
        "json patch duplicate field \"[0].value.a\"",
        "json patch unknown field \"[0].x\"",
        "json patch unknown field \"[1].Path\"",
    ];
    let scale = format!("{DEPLOYMENTS}/d/scale");
    let count = r#"{"spec":{"replicas":1,"replicas":2}}"#;
    for (path, kind, body, findings) in [
        (a(), MERGE, twice, &[label][..]),
        (a(), STRATEGIC, twice, &[label]),
        (a(), JSON_PATCH, operations, &of_operations),
        (scale, MERGE, count, &["duplicate field \"spec.replicas\""]),
    ] {
        let ask = async |query: &str| {
            let path = format!("{path}?dryRun=All&{query}");
            house.ask("PATCH", &path, &[("content-type", kind)], body.to_owned()).await
        };
        let status = ask("fieldValidation=Strict").await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["patch"]);
        let message = status["message"].as_str().unwrap();
        assert!(findings.iter().all(|finding| message.contains(finding)), "{message}");
        for query in ["", "fieldValidation=Warn"] {
            let answer = ask(query).await;
            assert_eq!(answer.code, 200, "{kind}: {}", answer.text());
            let warnings: Vec<String> =
                answer.warnings().iter().map(|text| text.replace('\\', "")).collect();
            assert_eq!(warnings.len(), findings.len(), "{warnings:?}");
            for (warning, finding) in warnings.iter().zip(findings) {
                assert!(warning.contains(finding), "{warning} {finding}");
            }
            if kind != JSON_PATCH && path == a() {
                assert_eq!(answer.json["metadata"]["labels"]["a"], "2", "the last one counts");
            }
        }
        let answer = ask("fieldValidation=Ignore").await;
        assert_eq!((answer.code, answer.warnings().len()), (200, 0));
    }
}

#[tokio::test]
async fn r85_a_patch_may_not_change_what_the_object_is() {
    let (house, made) = with_data().await;
    for (pointer, value, code) in [
        ("/kind", json!("Secret"), 422),
        ("/kind", Value::Null, 200),
        ("/apiVersion", json!("v2"), 422),
        ("/apiVersion", Value::Null, 400),
        ("/metadata/name", json!("b"), 400),
        ("/metadata/name", Value::Null, 400),
        ("/metadata/name", json!(5), 422),
        ("/metadata/namespace", json!("kube-system"), 400),
        ("/metadata", Value::Null, 400),
        ("/metadata", json!("x"), 422),
    ] {
        let mut patch = value.clone();
        for member in pointer.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
            patch = json!({ member: patch });
        }
        let operation = json!([{ "op": "replace", "path": pointer, "value": value }]);
        for (media, patch) in [(MERGE, patch.clone()), (STRATEGIC, patch), (JSON_PATCH, operation)]
        {
            let answer = house.patch(&a(), media, patch).await;
            let code = match (media, pointer) {
                // It is read by the type of its object, whatever it calls itself.
                (STRATEGIC, "/kind" | "/apiVersion") => 200,
                _ => code,
            };
            assert_eq!(answer.code, code, "{media} {pointer} {value}: {}", answer.text());
        }
    }
    for media in [MERGE, STRATEGIC] {
        house.patch(&format!("{CONFIG_MAPS}/none"), media, json!({})).await.fails(404, "NotFound");
    }
    assert_eq!(version(&house.get(&a()).await.with(200)), version(&made));
}

#[tokio::test]
async fn r85_a_patched_object_is_defaulted() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let patch =
        json!({ "spec": { "replicas": null, "strategy": null, "revisionHistoryLimit": null } });
    let new = house.merge(&path, patch).await.with(200);
    assert_eq!(new["spec"]["replicas"], 1);
    assert_eq!(new["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(new["spec"]["revisionHistoryLimit"], 10);
}

#[tokio::test]
async fn r86_strategic_patches_merge_maps_and_replace_plain_lists() {
    let spec = json!({
        "containers": [{ "name": "a", "image": "i", "args": ["1", "2"] }],
        "nodeSelector": { "x": "1", "y": "2" },
        "tolerations": [{ "key": "a", "operator": "Exists" }],
    });
    let (house, path) = with_template(spec).await;
    let patch = json!({ "template": { "spec": {
        "containers": [{ "name": "a", "args": ["3"] }],
        "nodeSelector": { "x": null, "z": "3" },
        "tolerations": [{ "key": "b", "operator": "Exists" }],
    } } });
    let new = house.patch(&path, STRATEGIC, patch).await.with(200);
    let spec = &new["template"]["spec"];
    assert_eq!(spec["containers"][0]["args"], json!(["3"]));
    assert_eq!(spec["nodeSelector"], json!({ "y": "2", "z": "3" }));
    assert_eq!(list(&new, "/template/spec/tolerations", "key"), ["b"]);
}

#[tokio::test]
async fn r87_lists_of_objects_merge_by_their_key() {
    let mut one = container("a", "i:1");
    one["env"] = json!([{ "name": "E", "value": "1" }]);
    one["ports"] = json!([{ "containerPort": 53, "protocol": "UDP", "name": "u" }]);
    let (house, path) = with_template(json!({ "containers": [one, container("b", "i:2")] })).await;
    let patch = json!({ "template": { "spec": { "containers": [
        {
            "name": "a",
            "env": [{ "name": "E", "value": "2" }, { "name": "F", "value": "3" }],
            "ports": [{ "containerPort": 53, "protocol": "TCP" }, { "containerPort": 80 }],
        },
        { "name": "c", "image": "i:3" },
    ] } } });
    let new = house.patch(&path, STRATEGIC, patch).await.with(200);
    let containers = new["template"]["spec"]["containers"].as_array().unwrap();
    let names: Vec<&Value> = containers.iter().map(|c| &c["name"]).collect();
    assert_eq!(names.len(), 3);
    let one = containers.iter().find(|c| c["name"] == "a").unwrap();
    assert_eq!(one["image"], "i:1");
    let mut values: Vec<String> =
        one["env"].as_array().unwrap().iter().map(|e| e["value"].to_string()).collect();
    values.sort();
    assert_eq!(values, ["\"2\"", "\"3\""]);
    // Two protocols of one port are one element here.
    let port = one["ports"].as_array().unwrap().iter().find(|p| p["containerPort"] == 53).unwrap();
    assert_eq!(
        (one["ports"].as_array().unwrap().len(), &port["protocol"], &port["name"]),
        (2, &json!("TCP"), &json!("u"))
    );
}

#[tokio::test]
async fn r88_directives_replace_delete_order_and_retain() {
    let (house, path) = with_template(json!({
        "containers": [container("a", "i:1"), container("b", "i:2"), container("c", "i:3")],
        "volumes": [{ "name": "v", "emptyDir": {} }],
    }))
    .await;
    let spec = |patch: Value| json!({ "template": { "spec": patch } });
    let containers = |object: &Value| -> Vec<String> {
        list(object, "/template/spec/containers", "name").into_iter().map(str::to_owned).collect()
    };
    let order = spec(json!({
        "$setElementOrder/containers": [{ "name": "d" }, { "name": "c" }, { "name": "a" }],
        "containers": [{ "name": "d", "image": "i:4" }],
    }));
    let new = house.patch(&path, STRATEGIC, order).await.with(200);
    let got = containers(&new);
    let ordered: Vec<&String> = got.iter().filter(|name| *name != "b").collect();
    assert_eq!(ordered, ["d", "c", "a"], "{got:?}");
    let delete = spec(
        json!({ "containers": [{ "name": "d", "$patch": "delete" }, { "name": "none", "$patch": "delete" }] }),
    );
    assert_eq!(containers(&house.patch(&path, STRATEGIC, delete).await.with(200)).len(), 3);
    let retain = spec(
        json!({ "volumes": [{ "name": "v", "$retainKeys": ["name", "configMap"], "configMap": { "name": "x" } }] }),
    );
    let new = house.patch(&path, STRATEGIC, retain).await.with(200);
    assert_eq!(new["template"]["spec"]["volumes"][0].get("emptyDir"), None);
    let replace = spec(json!({ "containers": [container("z", "i:z"), { "$patch": "replace" }] }));
    assert_eq!(containers(&house.patch(&path, STRATEGIC, replace).await.with(200)), ["z"]);
    let map =
        json!({ "metadata": { "labels": { "x": "1", "y": "2" }, "annotations": { "x": "1" } } });
    house.merge(&path, map).await.with(200);
    let map = json!({ "metadata": { "labels": { "$patch": "replace", "z": "3" }, "annotations": { "$patch": "delete" } } });
    let new = house.patch(&path, STRATEGIC, map).await.with(200);
    assert_eq!(new["metadata"]["labels"], json!({ "z": "3" }));
    assert_eq!(new["metadata"].get("annotations"), None);
    let finalizers = json!({ "metadata": { "finalizers": ["example.com/a", "example.com/b"] } });
    house.merge(&path, finalizers).await.with(200);
    let change = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": ["example.com/a"], "finalizers": ["example.com/c"],
    } });
    let new = house.patch(&path, STRATEGIC, change).await.with(200);
    assert_eq!(new["metadata"]["finalizers"], json!(["example.com/c", "example.com/b"]));
}

#[tokio::test]
async fn r88_unknown_and_misused_directives_are_refused() {
    let (house, path) =
        with_template(json!({ "containers": [container("a", "i:1"), container("b", "i:2")] }))
            .await;
    house.merge(&path, json!({ "metadata": { "labels": { "x": "1" } } })).await.with(200);
    let before = house.revision();
    for patch in [
        json!({ "$patch": "frobnicate" }),
        json!({ "$patch": "delete" }),
        json!({ "$patch": "replace" }),
        json!({ "metadata": { "labels": { "$patch": null } } }),
        json!({ "metadata": { "labels": { "$patch": 5 } } }),
        json!({ "metadata": { "$setElementOrder/finalizers": { "a": 1 }, "finalizers": ["a/b"] } }),
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": 5 } }),
        json!({ "template": { "spec": { "containers": [{ "name": "a", "$patch": "frobnicate" }] } } }),
        json!({ "template": { "spec": { "containers": [null] } } }),
        json!({ "template": { "spec": { "containers": "x" } } }),
        json!({ "template": { "spec": {
            "$setElementOrder/containers": [{ "name": "a" }], "containers": [{ "name": "b", "image": "i" }],
        } } }),
        json!({ "template": { "spec": { "$retainKeys": ["volumes"], "hostname": "x" } } }),
    ] {
        let answer = house.patch(&path, STRATEGIC, patch.clone()).await;
        assert!(matches!(answer.code, 400 | 422), "{patch}: {}", answer.text());
    }
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r89_elements_without_their_merge_key_are_refused() {
    let (house, path) = with_template(json!({ "containers": [container("a", "i:1")] })).await;
    let patch = json!({ "template": { "spec": { "containers": [{ "image": "i:2" }] } } });
    let answer = house.patch(&path, STRATEGIC, patch).await;
    assert!(matches!(answer.code, 400 | 422));
    let message = answer.json["message"].as_str().unwrap().to_owned();
    assert!(message.contains("does not contain declared merge key: name"), "{message}");
}

#[tokio::test]
async fn r90_missing_maps_are_created_and_empty_lists_keep_the_order_of_the_patch() {
    let (house, path) = with_template(json!({ "containers": [container("a", "i:1")] })).await;
    let patch = json!({ "metadata": { "annotations": { "x": "y" } }, "template": { "spec": {
        "volumes": [{ "name": "z", "emptyDir": {} }, { "name": "b", "emptyDir": {} }],
        "nodeSelector": { "n": "m" },
    } } });
    let new = house.patch(&path, STRATEGIC, patch).await.with(200);
    assert_eq!(new["metadata"]["annotations"], json!({ "x": "y" }));
    assert_eq!(new["template"]["spec"]["nodeSelector"], json!({ "n": "m" }));
    assert_eq!(list(&new, "/template/spec/volumes", "name"), ["z", "b"]);
}
