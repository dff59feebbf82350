//! Rules of spec/api-server.md: what a create takes, fills in and refuses.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::house::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PRIORITY_CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// A protobuf field with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    bytes.extend_from_slice(content);
    bytes
}

/// A message in the envelope of R22.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let body = [field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat();
    [b"k8s\0".as_slice(), &body].concat()
}

fn is_uid(text: &str) -> bool {
    let shape = text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    shape && text.as_bytes()[14] == b'4' && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

#[tokio::test]
async fn r21_bodies_are_json_yaml_or_protobuf() {
    let house = House::new().await;
    let json = r#"{"metadata":{"generateName":"a-"}}"#;
    for (media, body, code) in [
        ("application/json", json, 201),
        ("application/json; charset=utf-8", json, 201),
        ("", json, 201),
        ("application/yaml", "metadata:\n  generateName: a-\n", 201),
        ("application/xml", json, 415),
        ("text/plain", json, 415),
        ("application/merge-patch+json", json, 415),
        ("application/apply-patch+yaml", json, 415),
        ("application/yaml", "a: [", 400),
        (PROTOBUF, json, 400),
        ("Application/JSON ; CharSet=\"utf-8\" ;", json, 201),
        ("application/json; a=b; a=b; c=\"\\\"\"", json, 201),
        ("application/json; a=b; a=c", json, 415),
        ("application/json; charset", json, 415),
        ("application/json; charset=", json, 415),
        ("application/json; charset=\"utf-8", json, 415),
        ("application/json;;", json, 415),
        ("application/json x", json, 415),
        ("application/json/x", json, 415),
        ("application/", json, 415),
        ("application", json, 415),
        (";charset=utf-8", json, 415),
    ] {
        let answer = house.ask("POST", CONFIG_MAPS, &[("content-type", media)], body).await;
        assert_eq!(answer.code, code, "{media}: {}", answer.text());
        if code == 415 {
            answer.fails(415, "UnsupportedMediaType");
        }
    }
    let answer = house.ask("POST", CONFIG_MAPS, &[], json).await;
    assert_eq!(answer.code, 201, "a body without a type is JSON");
}

#[tokio::test]
async fn r21_patches_have_their_own_media_types() {
    let house = House::new().await;
    house.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    for (media, body, code) in [
        (JSON_PATCH, "[]", 200),
        ("application/merge-patch+json; charset=utf-8", "{}", 200),
        (STRATEGIC, "{}", 200),
        // Nothing is read but what stands before the semicolon, and that as it is.
        ("application/merge-patch+json;;a", "{}", 200),
        ("application/merge-patch+json ;a=b", "{}", 415),
        ("Application/merge-patch+json", "{}", 415),
        (";application/merge-patch+json", "{}", 415),
        (JSON, "{}", 415),
        ("application/yaml", "{}", 415),
        ("", "{}", 415),
    ] {
        let answer = house.ask("PATCH", &path, &[("content-type", media)], body).await;
        assert_eq!(answer.code, code, "{media}: {}", answer.text());
    }
}

#[tokio::test]
async fn r22_protobuf_request_bodies_are_accepted() {
    let house = House::new().await;
    let label = [field(1, b"app"), field(2, b"a")].concat();
    let metadata = [field(1, b"from-go"), field(11, &label), field(14, b"example.com/hold")];
    let entry = [field(1, b"k"), field(2, "wört".as_bytes())].concat();
    // A boolean is a plain number: field 4, true.
    let message = [field(1, &metadata.concat()), field(2, &entry), vec![4 << 3, 1]].concat();
    let headers = [
        ("content-type", PROTOBUF),
        ("accept", "application/vnd.kubernetes.protobuf,application/json"),
    ];
    let body = envelope("v1", "ConfigMap", &message);
    let made = house.ask("POST", CONFIG_MAPS, &headers, body.clone()).await.with(201);
    assert_eq!(made["metadata"]["labels"], json!({ "app": "a" }));
    assert_eq!(made["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!((&made["data"], &made["immutable"]), (&json!({ "k": "wört" }), &json!(true)));
    house.ask("POST", CONFIG_MAPS, &headers, body).await.fails(409, "AlreadyExists");

    // DeleteOptions come the same way: preconditions with a uid, then a dry run.
    let path = format!("{CONFIG_MAPS}/from-go");
    let wrong = envelope("v1", "DeleteOptions", &field(2, &field(1, b"another")));
    house.ask("DELETE", &path, &headers, wrong).await.fails(409, "Conflict");
    let dry = envelope("v1", "DeleteOptions", &field(5, b"All"));
    house.ask("DELETE", &path, &headers, dry).await.with(200);
    let live = house.get(&path).await.with(200);
    assert_eq!(live["metadata"]["deletionTimestamp"], Value::Null);
}

#[tokio::test]
async fn r22_broken_protobuf_is_a_bad_request() {
    let house = House::new().await;
    let good = envelope("v1", "ConfigMap", &field(1, &field(1, b"a")));
    // The last four bytes are two empty fields, which may be missing.
    let mut bodies: Vec<Vec<u8>> =
        (0..good.len() - 4).map(|length| good[..length].to_vec()).collect();
    bodies.push(envelope("v1", "Secret", &field(1, &field(1, b"a"))));
    bodies.push(envelope("v2", "ConfigMap", &field(1, &field(1, b"a"))));
    bodies.push(envelope("v1", "ConfigMap", &field(1, &field(1, b"\xff"))));
    bodies.push(envelope("v1", "ConfigMap", &[0xff; 20]));
    bodies.push(envelope("v1", "ConfigMap", &[1 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x7f]));
    for body in bodies {
        let headers = [("content-type", PROTOBUF)];
        let answer = house.ask("POST", CONFIG_MAPS, &headers, body.clone()).await;
        // A prefix may by chance be a whole message, but then it has no name.
        assert!(matches!(answer.code, 400 | 422), "{body:?}: {}", answer.text());
    }
    house.get(&format!("{CONFIG_MAPS}/a")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r32_unknown_and_repeated_fields_follow_field_validation() {
    let house = House::new().await;
    let body = r#"{"metadata":{"name":"a","nope":1},"data":{"k":"1","k":"2"},"extra":{}}"#;
    let ask = |query: &'static str| {
        let path = format!("{CONFIG_MAPS}?dryRun=All&{query}");
        let house = &house;
        async move { house.ask("POST", &path, &[("content-type", JSON)], body).await }
    };
    let findings = [
        "duplicate field \"data.k\"",
        "unknown field \"extra\"",
        "unknown field \"metadata.nope\"",
    ];
    let strict = ask("fieldValidation=Strict").await.fails(400, "BadRequest");
    let message = strict["message"].as_str().unwrap();
    assert!(message.contains("strict decoding error: "), "{message}");
    assert!(findings.iter().all(|finding| message.contains(finding)), "{message}");
    for query in ["", "fieldValidation=Warn"] {
        let answer = ask(query).await;
        assert_eq!((answer.code, answer.warnings().len()), (201, 3), "{:?}", answer.warnings());
        assert_eq!(answer.json["data"], json!({ "k": "2" }), "the last one counts");
        assert_eq!(answer.json.get("extra"), None);
    }
    let answer = ask("fieldValidation=Ignore").await;
    assert_eq!((answer.code, answer.warnings().len()), (201, 0));
    ask("fieldValidation=Sometimes").await.fails(422, "Invalid");
    let yaml = "metadata: {name: y}\ndata:\n  k: a\n  k: b\n";
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let answer = house.ask("POST", &path, &[("content-type", "application/yaml")], yaml).await;
    answer.fails(400, "BadRequest");
}

#[tokio::test]
async fn r53_bodies_of_the_wrong_shape_are_bad_requests() {
    let house = House::new().await;
    let before = house.revision();
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    for body in [
        "",
        "true",
        "1",
        "\"x\"",
        "[]",
        "[{}]",
        "{not json",
        r#"{"metadata":[]}"#,
        r#"{"metadata":{"name":5}}"#,
        r#"{"metadata":{"generateName":5}}"#,
        r#"{"metadata":{"name":"q","namespace":5}}"#,
        r#"{"metadata":{"name":"q","labels":[]}}"#,
        r#"{"metadata":{"name":"q","labels":{"a":1}}}"#,
        r#"{"metadata":{"name":"q","finalizers":{}}}"#,
        r#"{"metadata":{"name":"q","creationTimestamp":"yesterday"}}"#,
        r#"{"metadata":{"name":"q","generation":1e400}}"#,
        r#"{"metadata":{"name":"q","generation":99999999999999999999999}}"#,
        r#"{"metadata":{"name":"q","generation":1.5}}"#,
        r#"{"metadata":{"name":"q"},"data":"text"}"#,
        r#"{"metadata":{"name":"q"},"data":{"k":1}}"#,
        r#"{"metadata":{"name":"q"},"binaryData":{"k":"%%%"}}"#,
        r#"{"metadata":{"name":"q"},"immutable":"yes"}"#,
        r#"{"metadata":{"name":"q"},"kind":5}"#,
        r#"{"metadata":{"name":"q"},"apiVersion":[]}"#,
        r#"{"metadata":{"name":"q"}}garbage"#,
        deep.as_str(),
    ] {
        let answer =
            house.ask("POST", CONFIG_MAPS, &[("content-type", JSON)], body.to_owned()).await;
        assert_eq!(answer.code, 400, "{body:.80}: {}", answer.text());
        answer.fails(400, "BadRequest");
    }
    let latin = b"{\"metadata\":{\"name\":\"a\xff\"}}".as_slice();
    house.ask("POST", CONFIG_MAPS, &[("content-type", JSON)], latin).await.fails(400, "BadRequest");
    assert_eq!(house.revision(), before, "nothing was stored");
}

#[tokio::test]
async fn r53_null_is_an_object_that_says_nothing() {
    let house = House::new().await;
    let send = async |method: &str, path: &str| {
        house.ask(method, path, &[("content-type", JSON)], "null").await
    };
    let status = send("POST", CONFIG_MAPS).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["metadata.name"]);
    house.config_map("a").await;
    send("PUT", &format!("{CONFIG_MAPS}/a")).await.fails(400, "BadRequest");
    send("POST", "/api/v1/namespaces/default/serviceaccounts/default/token").await.with(201);
    // What an Eviction must say is missing.
    send("POST", &format!("{PODS}/p/eviction")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn r53_pods_with_members_of_the_wrong_type_are_bad_requests() {
    let house = House::new().await;
    let junk = [json!(5), json!("x"), json!([5]), json!({ "a": 5 }), json!(true), json!(1e30)];
    for pointer in [
        "/spec",
        "/spec/containers",
        "/spec/containers/0",
        "/spec/containers/0/image",
        "/spec/containers/0/ports",
        "/spec/containers/0/resources",
        "/spec/volumes",
        "/spec/tolerations",
        "/spec/nodeSelector",
        "/spec/terminationGracePeriodSeconds",
        "/spec/securityContext",
        "/spec/affinity",
        "/status",
        "/metadata/ownerReferences",
        "/metadata/managedFields",
        "/metadata/annotations",
    ] {
        for value in &junk {
            let mut body = pod("p");
            if pointer.starts_with("/status") {
                body["status"] = json!({});
            }
            match body.pointer_mut(pointer) {
                Some(at) => *at = value.clone(),
                None => {
                    let (parent, member) = pointer.rsplit_once('/').unwrap();
                    body.pointer_mut(parent).unwrap()[member] = value.clone();
                }
            }
            let answer = house.post(&format!("{PODS}?dryRun=All"), body).await;
            assert!((200..500).contains(&answer.code), "{pointer} {value}: {}", answer.text());
            assert_eq!(answer.json["kind"] == "Status", answer.code >= 400);
        }
    }
    house.get(&format!("{PODS}/p")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r54_the_namespace_of_the_body_agrees_with_the_path() {
    let house = House::new().await;
    let with = |namespace: &str| json!({ "metadata": { "name": "a", "namespace": namespace } });
    house.post(CONFIG_MAPS, with("other")).await.fails(400, "BadRequest");
    let made = house.made(CONFIG_MAPS, with("")).await;
    assert_eq!(made["metadata"]["namespace"], "default");
    let class = json!({ "metadata": { "name": "c", "namespace": "default" }, "value": 5 });
    let made = house.made(PRIORITY_CLASSES, class).await;
    assert_eq!(made["metadata"].get("namespace"), None);
}

#[tokio::test]
async fn r55_kind_and_version_may_be_absent_but_not_different() {
    let house = House::new().await;
    for (more, code) in [
        (json!({}), 201),
        (json!({ "kind": "ConfigMap" }), 201),
        (json!({ "kind": "ConfigMap", "apiVersion": "v1" }), 201),
        (json!({ "kind": null, "apiVersion": "" }), 201),
        (json!({ "kind": "Secret" }), 400),
        (json!({ "kind": "configmap" }), 400),
        (json!({ "kind": "ConfigMap", "apiVersion": "v2" }), 400),
        (json!({ "apiVersion": "apps/v1" }), 400),
    ] {
        let mut body = more.clone();
        body["metadata"] = json!({ "generateName": "a-" });
        let answer = house.post(CONFIG_MAPS, body).await;
        assert_eq!(answer.code, code, "{more}: {}", answer.text());
        if code == 201 {
            assert_eq!(
                (&answer.json["kind"], &answer.json["apiVersion"]),
                (&json!("ConfigMap"), &json!("v1"))
            );
        }
    }
}

#[tokio::test]
async fn r56_the_server_chooses_the_uid() {
    let house = House::new().await;
    let mut seen = BTreeSet::new();
    for name in ["a", "b", "c"] {
        let body = json!({ "metadata": { "name": name, "uid": "chosen-by-the-client" } });
        let made = house.made(CONFIG_MAPS, body).await;
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        assert!(is_uid(&uid), "{uid}");
        assert!(seen.insert(uid));
    }
    // A PUT with a uid is about an object that was there.
    let role = json!({ "metadata": { "name": "r", "uid": "x" }, "rules": [] });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/r";
    house.put(path, role).await.fails(409, "Conflict");
    let role = json!({ "metadata": { "name": "r", "resourceVersion": "7" }, "rules": [] });
    assert!(is_uid(house.put(path, role).await.with(201)["metadata"]["uid"].as_str().unwrap()));
}

#[tokio::test]
async fn r57_versions_increase_across_all_objects() {
    let house = House::new().await;
    let number = |object: &Value| version(object).parse::<u64>().unwrap();
    let a = house.config_map("a").await;
    let b = house.made(SECRETS, named("b")).await;
    let a2 =
        house.merge(&format!("{CONFIG_MAPS}/a"), json!({ "data": { "k": "v" } })).await.with(200);
    assert!(number(&a) < number(&b) && number(&b) < number(&a2));
    let body = json!({ "metadata": { "name": "c", "resourceVersion": "1" } });
    let status = house.post(CONFIG_MAPS, body).await.fails(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("resourceVersion should not be set on objects to be created"));
    for unset in ["", "0", "00", "x", "-1", "99999999999999999999"] {
        let body = json!({ "metadata": { "generateName": "c", "resourceVersion": unset } });
        house.made(CONFIG_MAPS, body).await;
    }
    // Where nothing is stored, nobody looks.
    let body = json!({ "metadata": { "name": "d", "resourceVersion": "1" } });
    house.made(&format!("{CONFIG_MAPS}?dryRun=All"), body).await;
}

#[tokio::test]
async fn r58_creation_timestamps_are_whole_seconds_of_the_server() {
    let house = House::new().await;
    let body = json!({ "metadata": { "name": "a", "creationTimestamp": "2001-02-03T04:05:06Z" } });
    let made = house.made(CONFIG_MAPS, body).await;
    let time = made["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z') && !time.starts_with("2001"), "{time}");
    let change = json!({ "metadata": { "creationTimestamp": "2001-02-03T04:05:06Z" }, "data": { "k": "v" } });
    let status = house.merge(&format!("{CONFIG_MAPS}/a"), change).await;
    let live = house.get(&format!("{CONFIG_MAPS}/a")).await.with(200);
    assert_eq!(live["metadata"]["creationTimestamp"], time, "{status:?}");
}

#[tokio::test]
async fn r59_generated_names_end_in_five_drawn_characters() {
    let house = House::new().await;
    let long = "x".repeat(70);
    for (base, kept) in [("a-", "a-"), ("a", "a"), (&long, &long[..58])] {
        let body = json!({ "metadata": { "generateName": base } });
        let made = house.made(CONFIG_MAPS, body).await;
        let drawn = name(&made).strip_prefix(kept).unwrap();
        assert_eq!(drawn.len(), 5);
        assert!(drawn.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{drawn}");
        assert_eq!(made["metadata"]["generateName"], base);
    }
    let body = json!({ "metadata": { "name": "given", "generateName": "a-" } });
    assert_eq!(name(&house.made(CONFIG_MAPS, body).await), "given");
    for body in [json!({}), json!({ "metadata": null }), named("")] {
        let status = house.post(CONFIG_MAPS, body).await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["metadata.name"]);
        let message = status["details"]["causes"][0]["message"].as_str().unwrap();
        assert_eq!(message, "Required value: name or generateName is required");
    }
}

#[tokio::test]
async fn r60_names_follow_the_kind() {
    let house = House::new().await;
    let (label, subdomain) = ("a".repeat(64), "a".repeat(254));
    let class = json!({ "value": 5 });
    let service = json!({ "spec": { "ports": [{ "port": 80 }] } });
    let none = json!({});
    for (path, rest, good, bad) in [
        (
            CONFIG_MAPS,
            &none,
            vec!["a.b-c", "0", label.as_str()],
            vec![
                "A",
                "a_b",
                "-a",
                "a/b",
                "a%b",
                "..",
                "ü",
                "\u{0}",
                "a ",
                "日本",
                subdomain.as_str(),
            ],
        ),
        (PRIORITY_CLASSES, &class, vec!["a.b"], vec!["A", "a/b"]),
        (NAMESPACES, &none, vec!["0a"], vec!["a.b", label.as_str(), "A"]),
        (SERVICES, &service, vec!["0a"], vec!["a.b", "A", label.as_str()]),
        (CLUSTER_ROLES, &none, vec!["a:b", "A_b", "ü"], vec!["a/b", "a%b", ".", ".."]),
    ] {
        for (names, code) in [(good, 201), (bad, 422)] {
            for name in names {
                let mut body = rest.clone();
                body["metadata"] = json!({ "name": name });
                let answer = house.post(&format!("{path}?dryRun=All"), body).await;
                assert_eq!(answer.code, code, "{path} {name}: {}", answer.text());
                if code == 422 {
                    assert_eq!(fields(&answer.json)[0], "metadata.name");
                }
            }
        }
    }
}

#[tokio::test]
async fn r60_labels_annotations_and_finalizers_are_checked() {
    let house = House::new().await;
    let huge = "x".repeat(256 * 1024);
    for (metadata, field) in [
        (json!({ "labels": { "a b": "c" } }), "metadata.labels"),
        (json!({ "labels": { "": "c" } }), "metadata.labels"),
        (json!({ "labels": { "a/b/c": "c" } }), "metadata.labels"),
        (json!({ "labels": { "a": "ü" } }), "metadata.labels"),
        (json!({ "labels": { "a": "x".repeat(64) } }), "metadata.labels"),
        (json!({ "annotations": { "a b": "c" } }), "metadata.annotations"),
        (json!({ "annotations": { "a": huge } }), "metadata.annotations"),
        (json!({ "finalizers": ["plain"] }), "metadata.finalizers"),
        (json!({ "finalizers": ["a/b/c"] }), "metadata.finalizers"),
        (json!({ "finalizers": [null] }), "metadata.finalizers"),
    ] {
        let mut body = named("a");
        body["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        let status = house.post(CONFIG_MAPS, body).await.fails(422, "Invalid");
        let first = fields(&status)[0];
        assert!(first.starts_with(field), "{first}");
    }
    for finalizer in ["orphan", "foregroundDeletion", "kubernetes", "example.com/a"] {
        let body = json!({ "metadata": { "generateName": "a-", "finalizers": [finalizer] } });
        house.made(CONFIG_MAPS, body).await;
    }
}

#[tokio::test]
async fn r61_generation_starts_at_one_or_where_the_client_says() {
    let house = House::new().await;
    let with = |mut body: Value| {
        body["metadata"]["generation"] = json!(77);
        body
    };
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    let class = json!({ "metadata": { "name": "c" }, "value": 5 });
    for (path, body, generation) in [
        (DEPLOYMENTS, deployment("d"), json!(1)),
        (PODS, pod("p"), json!(1)),
        (PRIORITY_CLASSES, class, json!(1)),
        // Nobody counts the changes of these.
        (CONFIG_MAPS, named("a"), json!(77)),
        (SECRETS, named("a"), json!(77)),
        (SERVICES, service, json!(77)),
        (NAMESPACES, named("n"), json!(77)),
        (CLUSTER_ROLES, named("r"), json!(77)),
    ] {
        let made = house.made(path, with(body)).await;
        assert_eq!(made["metadata"]["generation"], generation, "{path}");
    }
    let numbered = |number: i64| json!({ "metadata": { "name": "b", "generation": number } });
    let status = house.post(CONFIG_MAPS, numbered(-1)).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["metadata.generation"]);
    let made = house.made(CONFIG_MAPS, numbered(0)).await;
    assert_eq!(made["metadata"].get("generation"), None);
    let mut body = deployment("negative");
    body["metadata"]["generation"] = json!(-1);
    house.made(DEPLOYMENTS, body).await;
}

#[tokio::test]
async fn r70_a_dry_run_create_looks_real_and_stores_nothing() {
    let house = House::new().await;
    let mut watch =
        house.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", house.revision())).await;
    let before = house.revision();
    let service = json!({ "metadata": { "name": "s" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
    for (path, body) in
        [(CONFIG_MAPS, named("a")), (DEPLOYMENTS, deployment("d")), (SERVICES, service)]
    {
        let made = house.post(&format!("{path}?dryRun=All"), body).await.with(201);
        assert!(is_uid(made["metadata"]["uid"].as_str().unwrap()));
        assert!(made["metadata"]["creationTimestamp"].is_string());
    }
    assert_eq!(house.revision(), before);
    assert!(watch.is_silent().await);
    house.config_map("b").await;
    house.post(&format!("{CONFIG_MAPS}?dryRun=All"), named("b")).await.fails(409, "AlreadyExists");
    house.post(&format!("{CONFIG_MAPS}?dryRun=All"), named("B")).await.fails(422, "Invalid");
    let status =
        house.post(&format!("{CONFIG_MAPS}?dryRun=Some"), named("c")).await.fails(422, "Invalid");
    assert_eq!(status["details"]["kind"], "CreateOptions");
    // An address asked for in a dry run is free afterwards.
    let fixed = |name: &str| {
        json!({
            "metadata": { "name": name }, "spec": { "clusterIP": "10.96.0.77", "ports": [{ "port": 80 }] },
        })
    };
    house.post(&format!("{SERVICES}?dryRun=All"), fixed("x")).await.with(201);
    house.post(SERVICES, fixed("y")).await.with(201);
    house.post(&format!("{SERVICES}?dryRun=All"), fixed("x")).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r136_settings_of_the_kernel_have_names() {
    let house = House::new().await;
    let mut body = pod("tuned");
    let names = ["foo-", "kernel.shmmax", "safe-and-unsafe", "bar.."];
    let settings = names.map(|name| json!({ "name": name, "value": "1" }));
    body["spec"]["securityContext"] = json!({ "sysctls": settings });
    let status = house.post(PODS, body).await.fails(422, "Invalid");
    let place = |at: usize| format!("spec.securityContext.sysctls[{at}].name");
    assert_eq!(fields(&status), [&place(0), &place(3)]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("Invalid value: \"foo-\"") && message.contains("Invalid value: \"bar..\"")
    );
    assert!(
        !message.contains("safe-and-unsafe") && !message.contains("kernel.shmmax"),
        "{message}"
    );
}
