//! Rules of spec/ownership.md: owner references and deletes, as far as the server goes. No collector
//! runs here.

use serde_json::{Value, json};

use crate::house::*;

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

fn owner(kind: &str, uid: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": kind, "name": "o", "uid": uid })
}

fn owned_by(name: &str, owners: Value) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners } })
}

#[tokio::test]
async fn r1_each_reference_is_complete() {
    let house = House::new().await;
    let mut cases = vec![
        (json!({}), vec!["apiVersion", "kind", "name", "uid"]),
        (Value::Null, vec!["apiVersion", "kind", "name", "uid"]),
    ];
    for member in ["apiVersion", "kind", "name", "uid"] {
        for value in [json!(""), Value::Null] {
            let mut reference = owner("X", "u");
            reference[member] = value;
            cases.push((reference, vec![member]));
        }
    }
    for (reference, missing) in cases {
        let owners = json!([owner("X", "good"), reference]);
        let status = house.post(CONFIG_MAPS, owned_by("a", owners)).await.fails(422, "Invalid");
        let wanted: Vec<String> =
            missing.iter().map(|m| format!("metadata.ownerReferences[1].{m}")).collect();
        let required = status["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|c| c["reason"] == "FieldValueRequired");
        let got: Vec<&str> = required.map(|cause| cause["field"].as_str().unwrap()).collect();
        assert_eq!(got, wanted, "{reference}");
    }
}

#[tokio::test]
async fn r2_the_version_of_an_owner_parses() {
    let house = House::new().await;
    for (version, code) in
        [("v1", 201), ("a/v1", 201), ("a/b/c", 422), ("a/", 422), ("x y/v1", 201)]
    {
        let mut reference = owner("X", "u");
        reference["apiVersion"] = json!(version);
        let body = json!({ "metadata": { "generateName": "a-", "ownerReferences": [reference] } });
        let answer = house.post(CONFIG_MAPS, body).await;
        assert_eq!(answer.code, code, "{version}: {}", answer.text());
        if code == 422 {
            assert_eq!(fields(&answer.json), ["metadata.ownerReferences[0].apiVersion"]);
        }
    }
}

#[tokio::test]
async fn r3_one_owner_controls() {
    let house = House::new().await;
    let controller = |kind: &str, uid: &str| {
        let mut reference = owner(kind, uid);
        reference["controller"] = json!(true);
        reference
    };
    let two = json!([controller("First", "1"), owner("Middle", "2"), controller("Last", "3")]);
    let status = house.post(CONFIG_MAPS, owned_by("a", two.clone())).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["metadata.ownerReferences"]);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("First/o") && message.contains("Last/o"), "{message}");
    // R6: on update just the same.
    house.made(CONFIG_MAPS, owned_by("a", json!([controller("First", "1")]))).await;
    house.put(&a(), owned_by("a", two.clone())).await.fails(422, "Invalid");
    house.merge(&a(), owned_by("a", two)).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r4_a_core_event_owns_nothing() {
    let house = House::new().await;
    for (version, code) in [("v1", 422), ("events.k8s.io/v1", 201)] {
        let mut reference = owner("Event", "u");
        reference["apiVersion"] = json!(version);
        assert_eq!(house.post(CONFIG_MAPS, owned_by("a", json!([reference]))).await.code, code);
    }
}

#[tokio::test]
async fn r5_owners_need_not_exist() {
    let house = House::new().await;
    let owners = json!([owner("Nothing", "no uuid at all, ü"), { "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "self" }]);
    house.made(CONFIG_MAPS, owned_by("a", owners)).await;
    let status =
        house.merge(&a(), owned_by("a", json!([{ "kind": "X" }]))).await.fails(422, "Invalid");
    assert_eq!(fields(&status).len(), 3, "R6");
}

#[tokio::test]
async fn r7_references_change_while_the_object_goes() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("a")).await;
    house.delete(&a()).await.with(200);
    let live = house.merge(&a(), owned_by("a", json!([owner("X", "u")]))).await.with(200);
    assert_eq!(live["metadata"]["ownerReferences"], json!([owner("X", "u")]));
}

#[tokio::test]
async fn r8_equal_references_collapse_with_a_warning() {
    let house = House::new().await;
    let mut blocking = owner("X", "1");
    blocking["blockOwnerDeletion"] = json!(true);
    let owners =
        json!([owner("X", "1"), owner("X", "1"), blocking, owner("X", "2"), owner("X", "1")]);
    let answer = house.post(CONFIG_MAPS, owned_by("a", owners.clone())).await;
    assert!(
        answer.warnings().iter().any(|warning| warning.contains('1')),
        "{:?}",
        answer.warnings()
    );
    let stored = answer.with(201)["metadata"]["ownerReferences"].clone();
    assert_eq!(stored, json!([owner("X", "1"), blocking, owner("X", "2")]));
    house.config_map("b").await;
    let path = format!("{CONFIG_MAPS}/b");
    for answer in [
        house.put(&path, owned_by("b", owners.clone())).await,
        house.merge(&path, owned_by("b", owners)).await,
    ] {
        assert_eq!(answer.warnings().len(), 1);
        assert_eq!(answer.with(200)["metadata"]["ownerReferences"], stored);
    }
}

#[tokio::test]
async fn r9_references_merge_by_uid() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, owned_by("a", json!([owner("X", "1"), owner("X", "2")]))).await;
    let uids = |object: &Value| -> Vec<String> {
        let list = object["metadata"]["ownerReferences"].as_array();
        let mut uids: Vec<String> =
            list.into_iter().flatten().map(|o| o["uid"].as_str().unwrap().to_owned()).collect();
        uids.sort();
        uids
    };
    let strategic = |owners: Value| json!({ "metadata": { "ownerReferences": owners } });
    let live = house.patch(&a(), STRATEGIC, strategic(json!([owner("X", "3")]))).await.with(200);
    assert_eq!(uids(&live), ["1", "2", "3"]);
    let live = house
        .patch(&a(), STRATEGIC, strategic(json!([{ "uid": "2", "$patch": "delete" }])))
        .await
        .with(200);
    assert_eq!(uids(&live), ["1", "3"]);
    let live = house.merge(&a(), strategic(json!([owner("X", "4")]))).await.with(200);
    assert_eq!(uids(&live), ["4"]);
}

#[tokio::test]
async fn r10_a_pods_status_cannot_change_its_owners() {
    let house = House::new().await;
    let mut body = pod("p");
    body["metadata"]["ownerReferences"] = json!([owner("X", "1")]);
    house.made(PODS, body).await;
    for owners in [json!([owner("X", "2")]), Value::Null] {
        let patch =
            json!({ "metadata": { "ownerReferences": owners }, "status": { "reason": "x" } });
        let live = house.merge(&format!("{PODS}/p/status"), patch).await.with(200);
        assert_eq!(live["metadata"]["ownerReferences"], json!([owner("X", "1")]));
    }
}

#[tokio::test]
async fn r31_options_that_cannot_be_read_are_bad_requests() {
    let house = House::new().await;
    house.config_map("a").await;
    for body in ["{", "[]", r#"{"orphanDependents":5}"#, r#"{"kind":"ConfigMap"}"#] {
        let answer = house.ask("DELETE", &a(), &[("content-type", JSON)], body).await;
        answer.fails(400, "BadRequest");
    }
    for version in ["v1", "apps/v1", "meta.k8s.io/v1"] {
        let options = json!({ "apiVersion": version, "kind": "DeleteOptions", "dryRun": ["All"] });
        house.delete_with(&a(), options).await.with(200);
    }
    house
        .delete(&format!("{}?propagationPolicy=Background&gracePeriodSeconds=5", a()))
        .await
        .with(200);
}

#[tokio::test]
async fn r32_r33_r34_options_that_contradict_are_invalid() {
    let house = House::new().await;
    house.config_map("a").await;
    for (options, field, reason) in [
        (
            json!({ "orphanDependents": false, "propagationPolicy": "Background" }),
            "propagationPolicy",
            "FieldValueInvalid",
        ),
        (
            json!({ "propagationPolicy": "foreground" }),
            "propagationPolicy",
            "FieldValueNotSupported",
        ),
        (json!({ "dryRun": ["all"] }), "dryRun", "FieldValueNotSupported"),
        (json!({ "dryRun": [""] }), "dryRun", "FieldValueNotSupported"),
    ] {
        let answer = house.delete_with(&a(), options.clone()).await;
        let status = answer.fails(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(
            (&cause["field"], &cause["reason"]),
            (&json!(field), &json!(reason)),
            "{options}"
        );
    }
    // An empty value is no wish to delete either.
    house.delete(&format!("{}?dryRun=", a())).await.fails(422, "Invalid");
    house.get(&a()).await.with(200);
}

#[tokio::test]
async fn r35_preconditions_show_both_values() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    for (member, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let options = json!({ "preconditions": { member: "77" } });
        let message = house.delete_with(&a(), options).await.fails(409, "Conflict")["message"]
            .as_str()
            .unwrap()
            .to_owned();
        let stored = made["metadata"][member].as_str().unwrap();
        assert!(
            message
                .contains(&format!("{word} in precondition: 77, {word} in object meta: {stored}")),
            "{message}"
        );
    }
    house.made(NAMESPACES, named("n")).await;
    let path = format!("{NAMESPACES}/n");
    let status = house
        .delete_with(&path, json!({ "preconditions": { "uid": "77" } }))
        .await
        .fails(409, "Conflict");
    assert_eq!(status["details"], json!({ "name": "n", "kind": "namespaces" }));
    assert_eq!(house.get(&path).await.with(200)["status"]["phase"], "Active");
}

#[tokio::test]
async fn r36_a_negative_grace_is_one() {
    let house = House::new().await;
    let path = house.bound(pod("p")).await;
    let marked = house.delete_with(&path, json!({ "gracePeriodSeconds": -9 })).await.with(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 1);
}

#[tokio::test]
async fn r37_r38_absent_objects_are_not_found_and_refused_ones_untouched() {
    let house = House::new().await;
    let status = house.delete(&a()).await.fails(404, "NotFound");
    assert_eq!(status["details"], json!({ "name": "a", "kind": "configmaps" }));
    let before = house.get("/api/v1/namespaces/default").await.with(200);
    house.delete("/api/v1/namespaces/default").await.fails(403, "Forbidden");
    assert_eq!(version(&house.get("/api/v1/namespaces/default").await.with(200)), version(&before));
}

#[tokio::test]
async fn r48_without_a_collector_policies_touch_no_finalizer() {
    let house = House::new().await;
    for options in [
        json!({}),
        json!({ "propagationPolicy": "Orphan" }),
        json!({ "propagationPolicy": "Foreground" }),
        json!({ "propagationPolicy": "Background" }),
        json!({ "orphanDependents": true }),
        json!({ "orphanDependents": false }),
    ] {
        house.config_map("a").await;
        house.delete_with(&a(), options.clone()).await.with(200);
        house.get(&a()).await.fails(404, "NotFound");
        let finalizers = json!(["example.com/x", "orphan"]);
        let made = house
            .made(
                CONFIG_MAPS,
                json!({ "metadata": { "generateName": "a-", "finalizers": finalizers } }),
            )
            .await;
        let path = format!("{CONFIG_MAPS}/{}", name(&made));
        house.delete_with(&path, options.clone()).await;
        let live = house.get(&path).await.with(200);
        assert_eq!(live["metadata"]["finalizers"], finalizers, "{options}");
    }
}

#[tokio::test]
async fn r50_r51_finalizers_keep_the_object() {
    let house = House::new().await;
    house.config_map("a").await;
    house.delete_with(&a(), json!({ "gracePeriodSeconds": 60 })).await.with(200);
    house.get(&a()).await.fails(404, "NotFound");
    house.made(CONFIG_MAPS, held("h")).await;
    let options = json!({ "gracePeriodSeconds": 60 });
    let marked = house.delete_with(&format!("{CONFIG_MAPS}/h"), options).await.with(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0, "only pods have grace");
    assert_eq!(marked["metadata"].get("generation"), None);
}

#[tokio::test]
async fn r52_r53_pods_wait_for_their_grace() {
    let house = House::new().await;
    let mut body = pod("p");
    body["spec"]["terminationGracePeriodSeconds"] = json!(77);
    let path = house.bound(body).await;
    let marked = house.delete(&path).await.with(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 77);
    assert_eq!(marked["metadata"]["generation"], 2);
    house.delete(&format!("{path}?gracePeriodSeconds=0")).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
    let mut waiting = pod("w");
    waiting["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(PODS, waiting).await;
    let marked = house.delete(&format!("{PODS}/w?gracePeriodSeconds=60")).await.with(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0, "it runs nowhere");
}

#[tokio::test]
async fn r55_r56_r57_a_second_delete_only_shortens() {
    let house = House::new().await;
    let mut body = pod("p");
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let path = house.bound(body).await;
    let with = |seconds: i64| format!("{path}?gracePeriodSeconds={seconds}");
    let first = house.delete(&with(300)).await.with(200);
    for query in
        ["", "?gracePeriodSeconds=300", "?gracePeriodSeconds=301", "?propagationPolicy=Orphan"]
    {
        let again = house.delete(&format!("{path}{query}")).await.with(200);
        assert_eq!(version(&again), version(&first), "{query}");
    }
    let shorter = house.delete(&with(200)).await.with(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 200);
    assert!(
        shorter["metadata"]["deletionTimestamp"].as_str()
            < first["metadata"]["deletionTimestamp"].as_str()
    );
    assert_eq!(shorter["metadata"]["generation"], 2);
    let over = house.delete(&with(0)).await.with(200);
    assert_eq!(over["metadata"]["deletionGracePeriodSeconds"], 0);
    // From here on it is like any object with a finalizer.
    let again = house.delete(&with(60)).await.with(200);
    assert_eq!(version(&again), version(&over));
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    house.get(&path).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r58_a_dry_run_answers_the_same_and_stores_nothing() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("a")).await;
    let path = house.bound(pod("p")).await;
    let before = house.revision();
    for path in [a(), path] {
        let marked = house.delete(&format!("{path}?dryRun=All")).await.with(200);
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
    }
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r59_r60_r61_r62_answers_to_a_delete() {
    let house = House::new().await;
    let made = house.made(DEPLOYMENTS, deployment("d")).await;
    let status = house.delete(&format!("{DEPLOYMENTS}/d")).await.with(200);
    let details = json!({ "name": "d", "group": "apps", "kind": "deployments", "uid": made["metadata"]["uid"] });
    assert_eq!((&status["status"], &status["details"]), (&json!("Success"), &details));
    house.made(PODS, pod("p")).await;
    assert_eq!(house.delete(&format!("{PODS}/p")).await.with(200)["kind"], "Pod");
    for (options, code) in [
        (json!({}), 200),
        (json!({ "orphanDependents": true }), 200),
        (json!({ "orphanDependents": false }), 202),
    ] {
        let made = house
            .made(
                CONFIG_MAPS,
                json!({ "metadata": { "generateName": "h-", "finalizers": ["a/b"] } }),
            )
            .await;
        let marked =
            house.delete_with(&format!("{CONFIG_MAPS}/{}", name(&made)), options).await.with(code);
        assert_eq!(marked["kind"], "ConfigMap");
    }
    house.config_map("a").await;
    house.delete(&format!("{}?orphanDependents=false", a())).await.with(200);
}

#[tokio::test]
async fn r63_a_name_is_taken_until_the_object_is_gone() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, held("a")).await;
    let message = |status: Value| status["message"].as_str().unwrap().to_owned();
    let plain = message(house.post(CONFIG_MAPS, named("a")).await.fails(409, "AlreadyExists"));
    house.delete(&a()).await.with(200);
    let going = message(house.post(CONFIG_MAPS, named("a")).await.fails(409, "AlreadyExists"));
    assert_eq!(going, format!("object is being deleted: {plain}"));
}

#[tokio::test]
async fn r66_r67_collections_answer_with_what_they_read() {
    let house = House::new().await;
    for name in ["a", "b", "c"] {
        house.made(SECRETS, held(name)).await;
    }
    let list = house.delete(&format!("{SECRETS}?limit=2")).await.with(200);
    assert_eq!(names(&list), ["a", "b"]);
    let live = house.get(SECRETS).await.with(200);
    let marks: Vec<bool> = live["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["metadata"]["deletionTimestamp"].is_string())
        .collect();
    assert_eq!(marks, [true, true, false]);
    house.delete(NAMESPACES).await.fails(405, "MethodNotAllowed");
}
