//! Rules of spec/api-server.md: server-side apply and who owns which field.

use serde_json::{Value, json};

use crate::house::*;

const APPLY: &str = "application/apply-patch+yaml";

impl House {
    /// Applies as a manager; `query` may add `&force=true`.
    async fn apply(&self, path: &str, manager: &str, body: Value) -> Answer {
        self.patch(&format!("{path}?fieldManager={manager}"), APPLY, body).await
    }
}

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

/// A ConfigMap `a` with this data, as a configuration.
fn config(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

fn applied_deployment(spec: Value) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "spec": spec })
}

/// The entries as `manager operation[ subresource]`.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let line = |entry| {
        [text(entry, "manager"), text(entry, "operation"), text(entry, "subresource")].join(" ")
    };
    entries.into_iter().flatten().map(|entry| line(entry).trim_end().to_owned()).collect()
}

fn owned(object: &Value, manager: &str, operation: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut found =
        entries.iter().filter(|e| e["manager"] == manager && e["operation"] == operation);
    found.next().map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn r91_an_apply_names_its_manager_and_its_object() {
    let house = House::new().await;
    let status = house.patch(&a(), APPLY, config(json!({}))).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["fieldManager"]);
    assert_eq!(status["details"]["kind"], "PatchOptions");
    let with = |pointer: &str, value: Value| {
        let mut body = config(json!({ "k": "v" }));
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[member] = value;
        body
    };
    for body in [
        with("/apiVersion", Value::Null),
        with("/kind", Value::Null),
        with("/kind", json!("Secret")),
        with("/kind", json!(5)),
        with("/apiVersion", json!("v2")),
        with("/metadata/name", json!("b")),
        with("/metadata/name", json!("")),
        with("/metadata/namespace", json!("kube-system")),
        with("/metadata/managedFields", json!([])),
        with("/metadata/managedFields", json!([{ "manager": "m" }])),
        with("/metadata/managedFields", json!("x")),
        with("/metadata", json!("x")),
        with("/data", json!({ "k": 5 })),
        with("/data", json!([1])),
        with("/bogus", json!(1)),
        with("/bogus", Value::Null),
        json!({}),
        json!(null),
        json!([]),
        json!("x"),
        json!(5),
    ] {
        house.apply(&a(), "m", body).await.fails(400, "BadRequest");
    }
    let long = "m".repeat(129);
    for manager in [long.as_str(), "a%00b"] {
        house.apply(&a(), manager, config(json!({}))).await.fails(422, "Invalid");
    }
    house.get(&a()).await.fails(404, "NotFound");
    house.config_map("a").await;
    // The same configurations are refused over an object, whoever owns its fields.
    for (member, value) in
        [("data", json!({ "k": 5 })), ("bogus", Value::Null), ("data", json!([1]))]
    {
        let body = with(&format!("/{member}"), value);
        house.apply(&a(), "m", body).await.fails(400, "BadRequest");
    }
    // `force` belongs to apply alone.
    house.merge(&format!("{}?force=true", a()), json!({})).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r32_keys_that_a_configuration_has_twice_follow_field_validation() {
    let house = House::new().await;
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: one\n  k: '2'\n";
    let apply = async |body: &str, query: &str| {
        let path = format!("{}?fieldManager=m&{query}", a());
        house.ask("PATCH", &path, &[("content-type", APPLY)], body.to_owned()).await
    };
    let twice = "duplicate field \"data.k\"";
    for (body, told) in [(json, twice), (yaml, "line 6: key \"k\" already set in map")] {
        let status = apply(body, "fieldValidation=Strict").await.fails(400, "BadRequest");
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
        for (query, warnings) in
            [("", 1), ("fieldValidation=Warn", 1), ("fieldValidation=Ignore", 0)]
        {
            let answer = apply(body, query).await;
            assert_eq!(answer.warnings().len(), warnings, "{:?}", answer.warnings());
            assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
            assert_eq!(answer.json["data"], json!({ "k": "2" }), "the last one counts");
        }
        apply(body, "fieldValidation=Strict").await.fails(400, "BadRequest");
        house.merge(&a(), json!({ "data": { "k": "3" } })).await.with(200);
        // Whose field it is comes first.
        apply(body, "fieldValidation=Strict").await.fails(409, "Conflict");
        house.delete(&a()).await.with(200);
    }
}

#[tokio::test]
async fn r91_versions_and_uids_in_a_configuration_are_conditions() {
    let house = House::new().await;
    let with = |member: &str, value: &str, data: &str| {
        let mut body = config(json!({ "k": data }));
        body["metadata"][member] = json!(value);
        body
    };
    house.apply(&a(), "m", with("uid", "another", "1")).await.fails(409, "Conflict");
    let made = house.apply(&a(), "m", with("resourceVersion", "1", "1")).await.with(201);
    house.apply(&a(), "m", with("resourceVersion", version(&made), "2")).await.with(200);
    house
        .apply(&a(), "m", with("resourceVersion", version(&made), "3"))
        .await
        .fails(409, "Conflict");
    house
        .apply(&a(), "m", with("uid", made["metadata"]["uid"].as_str().unwrap(), "4"))
        .await
        .with(200);
    let status = house.apply(&a(), "m", with("uid", "another", "5")).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["metadata.uid"]);
}

#[tokio::test]
async fn r94_managers_have_128_bytes_that_can_be_seen() {
    let house = House::new().await;
    let long = |character: &str, count: usize| character.repeat(count);
    for (manager, valid) in [
        (long("a", 128), true),
        (long("a", 129), false),
        // 64 characters of two bytes, and one more.
        (long("%C3%A9", 64), true),
        (long("%C3%A9", 65), false),
        ("a%20b".to_owned(), true),
        ("e%CC%81%22%27%5C".to_owned(), true),
        ("%E2%82%AC%F0%9F%98%80".to_owned(), true),
        ("a%09b".to_owned(), false),
        ("a%C2%A0b".to_owned(), false),
        ("a%E2%80%8Bb".to_owned(), false),
        ("a%C2%ADb".to_owned(), false),
        ("a%EE%80%80b".to_owned(), false),
        ("a%CD%B8b".to_owned(), false),
    ] {
        let path = format!("{CONFIG_MAPS}?dryRun=All&fieldManager={manager}");
        let answer = house.post(&path, named("a")).await;
        assert_eq!(answer.code, if valid { 201 } else { 422 }, "{manager}: {}", answer.text());
    }
}

#[tokio::test]
async fn r92_entries_say_who_owns_which_fields() {
    let house = House::new().await;
    let body = applied_deployment(json!({
        "selector": { "matchLabels": { "app": "a" } },
        "template": {
            "metadata": { "labels": { "app": "a" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }] }] },
        },
    }));
    let path = format!("{DEPLOYMENTS}/d");
    let made = house.apply(&path, "m", body).await.with(201);
    let entry = &made["metadata"]["managedFields"][0];
    for (member, value) in
        [("apiVersion", "apps/v1"), ("fieldsType", "FieldsV1"), ("operation", "Apply")]
    {
        assert_eq!(entry[member], value);
    }
    assert!(entry["time"].is_string());
    assert_eq!(
        owned(&made, "m", "Apply"),
        json!({ "f:spec": {
        "f:selector": {},
        "f:template": {
            "f:metadata": { "f:labels": { "f:app": {} } },
            "f:spec": { "f:containers": { "k:{\"name\":\"c\"}": {
                ".": {}, "f:name": {}, "f:image": {},
                "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
            } } },
        },
    } })
    );
    house
        .merge(&format!("{path}?fieldManager=b"), json!({ "spec": { "replicas": 2 } }))
        .await
        .with(200);
    let new =
        house.apply(&path, "c", applied_deployment(json!({ "paused": true }))).await.with(200);
    // Applies stand before updates; then the older entry, and within a second the lesser name.
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap().to_owned();
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    let place = |entry| (text(entry, "operation"), text(entry, "time"), text(entry, "manager"));
    assert!(entries.iter().map(place).is_sorted(), "{entries:?}");
    let mut managers = managers(&new);
    managers.sort();
    assert_eq!(managers, ["b Update", "c Apply", "m Apply"]);
}

#[tokio::test]
async fn r93_fields_of_others_are_conflicts_unless_equal_or_forced() {
    let house = House::new().await;
    house.apply(&a(), "one", config(json!({ "k": "1", "l": "1", "same": "1" }))).await.with(201);
    let other = config(json!({ "k": "2", "l": "2", "same": "1", "new": "1" }));
    let status = house.apply(&a(), "two", other.clone()).await.fails(409, "Conflict");
    assert_eq!(fields(&status), [".data.k", ".data.l"]);
    let told = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l";
    assert_eq!(status["message"], told);
    let new =
        house.patch(&format!("{}?fieldManager=two&force=true", a()), APPLY, other).await.with(200);
    assert_eq!(new["data"], json!({ "k": "2", "l": "2", "same": "1", "new": "1" }));
    assert_eq!(owned(&new, "one", "Apply"), json!({ "f:data": { "f:same": {} } }));
    // What nobody else owns goes when it is left out; what is shared stays.
    let new = house.apply(&a(), "two", config(json!({ "k": "2" }))).await.with(200);
    assert_eq!(new["data"], json!({ "k": "2", "same": "1" }));
    assert_eq!(owned(&new, "two", "Apply"), json!({ "f:data": { "f:k": {} } }));
}

#[tokio::test]
async fn r93_a_conflict_tells_how_the_other_manager_owns_the_field() {
    let house = House::new().await;
    house.apply(&a(), "one", config(json!({ "k": "1" }))).await.with(201);
    let one = house.apply(&a(), "two", config(json!({ "k": "2" }))).await.fails(409, "Conflict");
    assert_eq!(one["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    // Of an updater the version is told too, and the subresource of whoever came through one.
    let path = format!("{}?fieldManager=up", a());
    house.patch(&path, MERGE, json!({ "data": { "k": "3" } })).await.with(200);
    let two = house.apply(&a(), "two", config(json!({ "k": "2" }))).await.fails(409, "Conflict");
    assert_eq!(
        two["message"],
        "Apply failed with 1 conflict: conflict with \"up\" using v1: .data.k"
    );
    assert_eq!(two["details"]["causes"][0]["message"], "conflict with \"up\" using v1");
    let web = applied_deployment(json!({
        "replicas": 1,
        "selector": { "matchLabels": { "app": "a" } },
        "template": {
            "metadata": { "labels": { "app": "a" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }] },
        },
    }));
    let path = format!("{DEPLOYMENTS}/d");
    house.apply(&path, "one", web.clone()).await.with(201);
    let scale = format!("{path}/scale?fieldManager=up");
    house.patch(&scale, MERGE, json!({ "spec": { "replicas": 2 } })).await.with(200);
    let three = house.apply(&path, "one", web).await.fails(409, "Conflict");
    let told = "Apply failed with 1 conflict: conflict with \"up\" with subresource \"scale\" \
                using apps/v1: .spec.replicas";
    assert_eq!(three["message"], told);
}

#[tokio::test]
async fn r93_applying_the_same_again_changes_nothing() {
    let house = House::new().await;
    let made = house.apply(&a(), "m", config(json!({ "k": "1" }))).await.with(201);
    let again = house.apply(&a(), "m", config(json!({ "k": "1" }))).await.with(200);
    assert_eq!(version(&made), version(&again));
    // An object with defaults, too.
    let body = deployment("d");
    let config = applied_deployment(body["spec"].clone());
    let path = format!("{DEPLOYMENTS}/d");
    let made = house.apply(&path, "m", config.clone()).await.with(201);
    assert_eq!(version(&made), version(&house.apply(&path, "m", config).await.with(200)));
}

#[tokio::test]
async fn r94_other_writes_take_what_they_change() {
    let house = House::new().await;
    house.apply(&a(), "one", config(json!({ "k": "1", "l": "1" }))).await.with(201);
    let new = house
        .merge(&format!("{}?fieldManager=two", a()), json!({ "data": { "k": "2", "l": "1" } }))
        .await
        .with(200);
    assert_eq!(owned(&new, "one", "Apply"), json!({ "f:data": { "f:l": {} } }));
    assert_eq!(owned(&new, "two", "Update"), json!({ "f:data": { "f:k": {} } }));
    let new = house.merge(&a(), json!({ "data": { "k": null } })).await.with(200);
    assert_eq!(managers(&new), ["one Apply"], "removed fields belong to nobody");
    // The manager is the first word of the User-Agent.
    for (agent, manager) in
        [("kubectl/v1.38 (linux)", "kubectl"), ("", "unknown"), ("tool", "tool")]
    {
        let body = json!({ "metadata": { "generateName": "b-" }, "data": { "k": "v" } });
        let headers = [("content-type", JSON), ("user-agent", agent)];
        let made = house.ask("POST", CONFIG_MAPS, &headers, body.to_string()).await.with(201);
        assert_eq!(managers(&made), [format!("{manager} Update")]);
    }
}

#[tokio::test]
async fn r94_ownership_that_cannot_be_read_fails_no_write() {
    let house = House::new().await;
    for fields in
        [json!({ "f:x": { "k:{bad": {} } }), json!({ "nonsense": 5 }), json!(5), json!([])]
    {
        let made = house
            .made(
                CONFIG_MAPS,
                json!({ "metadata": { "generateName": "a-" }, "data": { "k": "v" } }),
            )
            .await;
        let path = format!("{CONFIG_MAPS}/{}", name(&made));
        let entry = json!({
            "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        let answer = house.merge(&path, json!({ "metadata": { "managedFields": [entry] } })).await;
        assert!(matches!(answer.code, 200 | 422), "{fields}: {}", answer.text());
        house.merge(&path, json!({ "data": { "k": "w" } })).await.with(200);
        let mut config = config(json!({ "n": "1" }));
        config["metadata"]["name"] = made["metadata"]["name"].clone();
        house.apply(&path, "m", config).await.with(200);
    }
}

#[tokio::test]
async fn r95_lists_are_atomic_sets_or_maps() {
    let house = House::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    let with = |containers: Value| {
        applied_deployment(json!({
            "selector": { "matchLabels": { "app": "a" } },
            "template": { "metadata": { "labels": { "app": "a" } }, "spec": { "containers": containers } },
        }))
    };
    let one =
        json!([{ "name": "c", "image": "i", "args": ["1"], "ports": [{ "containerPort": 80 }] }]);
    house.apply(&path, "one", with(one)).await.with(201);
    // A map: another key is another item, and the default protocol is part of the key.
    let two = json!([
        { "name": "c", "ports": [{ "containerPort": 80, "protocol": "TCP", "hostPort": 81 }, { "containerPort": 80, "protocol": "UDP" }] },
        { "name": "e", "image": "i" },
    ]);
    let new = house.apply(&path, "two", with(two)).await.with(200);
    let containers = &new["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (containers.as_array().unwrap().len(), containers[0]["ports"].as_array().unwrap().len()),
        (2, 2)
    );
    // Atomic: any difference is a conflict on the whole list.
    let three = json!([{ "name": "c", "args": ["1", "2"] }]);
    let status = house.apply(&path, "two", with(three)).await.fails(409, "Conflict");
    assert_eq!(fields(&status), [".spec.template.spec.containers[name=\"c\"].args"]);
    // A set: each value on its own.
    let finalizer = |value: &str| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d", "finalizers": [value] } });
    house.apply(&path, "x", finalizer("example.com/x")).await.with(200);
    let new = house.apply(&path, "y", finalizer("example.com/y")).await.with(200);
    assert_eq!(new["metadata"]["finalizers"].as_array().unwrap().len(), 2);
    // The same key twice cannot be merged.
    let twice = json!([{ "name": "z", "image": "i" }, { "name": "z", "image": "j" }]);
    house.apply(&path, "z", with(twice)).await.fails(422, "Invalid");
    for odd in [
        json!([{ "image": "i" }]),
        json!([null]),
        json!(["x"]),
        json!([{ "name": null }]),
        json!({}),
    ] {
        let answer = house.apply(&path, "z", with(odd.clone())).await;
        assert!(matches!(answer.code, 400 | 422), "{odd}: {}", answer.text());
    }
}

#[tokio::test]
async fn r96_fields_from_before_the_first_apply_have_a_name() {
    let house = House::new().await;
    house
        .made(CONFIG_MAPS, json!({ "metadata": { "name": "a" }, "data": { "k": "1", "l": "2" } }))
        .await;
    let cleared =
        house.merge(&a(), json!({ "metadata": { "managedFields": [{}] } })).await.with(200);
    assert_eq!(cleared["metadata"].get("managedFields"), None);
    let new = house.apply(&a(), "m", config(json!({ "k": "1", "n": "3" }))).await.with(200);
    assert_eq!(managers(&new), ["m Apply", "before-first-apply Update"]);
    assert_eq!(new["data"], json!({ "k": "1", "l": "2", "n": "3" }));
    let status = house.apply(&a(), "m", config(json!({ "l": "9" }))).await.fails(409, "Conflict");
    assert_eq!(fields(&status), [".data.l"]);
}

#[tokio::test]
async fn r96_kubectl_takes_over_its_own_client_side_applies() {
    let house = House::new().await;
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let annotation = config(json!({ "k": "1", "l": "2" })).to_string();
    let body = json!({ "metadata": { "name": "a", "annotations": { last: annotation } }, "data": { "k": "1", "l": "2" } });
    house.made(&format!("{CONFIG_MAPS}?fieldManager=kubectl-client-side-apply"), body).await;
    let status =
        house.apply(&a(), "other", config(json!({ "k": "5" }))).await.fails(409, "Conflict");
    assert_eq!(fields(&status), [".data.k"]);
    let new = house.apply(&a(), "kubectl", config(json!({ "k": "5" }))).await.with(200);
    assert_eq!(new["data"], json!({ "k": "5", "l": "2" }));
    let kept: Value =
        serde_json::from_str(new["metadata"]["annotations"][last].as_str().unwrap()).unwrap();
    assert_eq!(kept["data"], json!({ "k": "5" }));
}

#[tokio::test]
async fn r97_many_updaters_share_an_entry() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, config(json!({ "first": "v" }))).await;
    for at in 0..14 {
        let patch = json!({ "data": { format!("k{at}"): "v" } });
        house.merge(&format!("{}?fieldManager=m{at}", a()), patch).await.with(200);
    }
    let live = house.get(&a()).await.with(200);
    let managers = managers(&live);
    assert!(
        managers.len() <= 11 && managers.contains(&"ancient-changes Update".to_owned()),
        "{managers:?}"
    );
    assert!(owned(&live, "ancient-changes", "Update")["f:data"]["f:k0"].is_object());
}

#[tokio::test]
async fn r98_each_endpoint_owns_its_part() {
    let house = House::new().await;
    house.made(&format!("{PODS}?fieldManager=main"), pod("p")).await;
    let path = format!("{PODS}/p");
    let config = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "activeDeadlineSeconds": 5 },
        "status": { "conditions": [{ "type": "X", "status": "True" }] },
    });
    let new = house.apply(&format!("{path}/status"), "s", config.clone()).await.with(200);
    assert_eq!(new["spec"].get("activeDeadlineSeconds"), None);
    assert_eq!(managers(&new)[0], "s Apply status");
    let owned_by_s = owned(&new, "s", "Apply");
    assert!(owned_by_s["f:status"].is_object() && owned_by_s.get("f:spec").is_none());
    let new = house.apply(&path, "m", config).await.with(200);
    assert_eq!(new["spec"]["activeDeadlineSeconds"], 5);
    assert_eq!(owned(&new, "m", "Apply"), json!({ "f:spec": { "f:activeDeadlineSeconds": {} } }));
    house
        .apply(
            &format!("{PODS}/none/status"),
            "s",
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "none" }, "status": {},
            }),
        )
        .await
        .fails(404, "NotFound");
}

#[tokio::test]
async fn r99_empty_managed_fields_forget_all_owners() {
    let house = House::new().await;
    for clears in [json!([{}]), json!([])] {
        let made = house
            .made(
                CONFIG_MAPS,
                json!({ "metadata": { "generateName": "a-" }, "data": { "k": "v" } }),
            )
            .await;
        let path = format!("{CONFIG_MAPS}/{}", name(&made));
        let body = |fields: Option<Value>| {
            let mut body = json!({ "metadata": { "name": name(&made) }, "data": { "k": "v" } });
            fields.into_iter().for_each(|fields| body["metadata"]["managedFields"] = fields);
            body
        };
        assert_eq!(managers(&house.put(&path, body(None)).await.with(200)).len(), 1);
        assert!(managers(&house.put(&path, body(Some(clears))).await.with(200)).is_empty());
    }
    let made = house.made(PODS, pod("p")).await;
    let clear = json!({ "metadata": { "managedFields": [{}] }, "status": { "phase": "Running" } });
    let new = house.merge(&format!("{PODS}/p/status"), clear).await.with(200);
    assert!(
        managers(&new).contains(&managers(&made)[0]),
        "a subresource cannot forget: {:?}",
        managers(&new)
    );
}

#[tokio::test]
async fn r100_an_apply_creates_what_is_missing() {
    let house = House::new().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n";
    let path = format!("{}?fieldManager=m", a());
    let made = house.ask("PATCH", &path, &[("content-type", APPLY)], yaml).await.with(201);
    assert_eq!(made["data"], json!({ "k": "v" }));
    assert_eq!(managers(&made), ["m Apply"]);
    house
        .apply("/api/v1/namespaces/none/configmaps/a", "m", config(json!({})))
        .await
        .fails(404, "NotFound");
}

#[tokio::test]
async fn r102_a_dry_run_apply_shows_the_merged_object() {
    let house = House::new().await;
    let dry = format!("{}?fieldManager=m&dryRun=All", a());
    let made = house.patch(&dry, APPLY, config(json!({ "k": "1" }))).await.with(201);
    assert_eq!(managers(&made), ["m Apply"]);
    house.get(&a()).await.fails(404, "NotFound");
    house.apply(&a(), "m", config(json!({ "k": "1" }))).await.with(201);
    let new = house.patch(&dry, APPLY, config(json!({ "l": "2" }))).await.with(200);
    assert_eq!(
        (&new["data"], owned(&new, "m", "Apply")),
        (&json!({ "l": "2" }), json!({ "f:data": { "f:l": {} } }))
    );
    assert_eq!(house.get(&a()).await.with(200)["data"], json!({ "k": "1" }));
}
