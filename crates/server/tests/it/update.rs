//! Rules of spec/api-server.md: PUT, versions, generation and writes that change nothing.

use serde_json::{Value, json};

use crate::house::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

#[tokio::test]
async fn r32_strict_updates_refuse_unknown_fields() {
    let house = House::new().await;
    house.config_map("a").await;
    let body = json!({ "metadata": { "name": "a" }, "extra": 1 });
    let path = format!("{}?fieldValidation=Strict", a());
    house.put(&path, body.clone()).await.fails(400, "BadRequest");
    assert_eq!(house.put(&a(), body).await.warnings().len(), 1);
    // A patch that fails in the same way is unprocessable (R32).
    let status = house.merge(&path, json!({ "extra": 1 })).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["patch"]);
}

#[tokio::test]
async fn r54_the_name_of_the_body_agrees_with_the_path() {
    let house = House::new().await;
    house.config_map("a").await;
    for body in
        [named("b"), json!({}), json!({ "metadata": { "name": "a", "namespace": "other" } })]
    {
        house.put(&a(), body).await.fails(400, "BadRequest");
    }
    let status = house.put(&a(), named("b")).await.json;
    let said = "the name of the object (b) does not match the name on the URL (a)";
    assert_eq!(status["message"], said);
    for body in ["null", "[]", "1", "", r#"{"metadata":"a"}"#] {
        let answer = house.ask("PUT", &a(), &[("content-type", JSON)], body).await;
        answer.fails(400, "BadRequest");
    }
}

#[tokio::test]
async fn r55_an_update_keeps_its_kind() {
    let house = House::new().await;
    house.config_map("a").await;
    let with = |kind: &str, version: &str| json!({ "kind": kind, "apiVersion": version, "metadata": { "name": "a" } });
    house.put(&a(), with("Secret", "v1")).await.fails(400, "BadRequest");
    house.put(&a(), with("ConfigMap", "v2")).await.fails(400, "BadRequest");
    house.put(&a(), with("", "")).await.with(200);
}

#[tokio::test]
async fn r56_an_update_with_another_uid_is_a_conflict() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    let body = |uid: &str| json!({ "metadata": { "name": "a", "uid": uid }, "data": { "k": uid } });
    let status = house.put(&a(), body("another")).await.fails(409, "Conflict");
    assert_eq!(status["details"]["kind"], "configmaps");
    house.put(&a(), body("")).await.with(200);
    house.put(&a(), body(made["metadata"]["uid"].as_str().unwrap())).await.with(200);
    for (media, patch) in [
        (MERGE, json!({ "metadata": { "uid": "another" } })),
        (STRATEGIC, json!({ "metadata": { "uid": "another" } })),
        (JSON_PATCH, json!([{ "op": "replace", "path": "/metadata/uid", "value": "another" }])),
    ] {
        let status = house.patch(&a(), media, patch).await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["metadata.uid"], "{media}");
    }
}

#[tokio::test]
async fn r61_generation_moves_with_the_spec_only() {
    let house = House::new().await;
    let path = format!("{DEPLOYMENTS}/d");
    house.made(DEPLOYMENTS, deployment("d")).await;
    let status = format!("{path}/status");
    for (path, patch, generation) in [
        (&path, json!({ "spec": { "replicas": 2 } }), 2),
        (&path, json!({ "spec": { "replicas": 2 } }), 2),
        (&path, json!({ "metadata": { "labels": { "a": "b" } } }), 2),
        (&path, json!({ "metadata": { "generation": 50 } }), 2),
        (&path, json!({ "status": { "replicas": 5 } }), 2),
        (&status, json!({ "status": { "replicas": 5 } }), 2),
        (&status, json!({ "spec": { "replicas": 9 } }), 2),
        (
            &path,
            json!({ "spec": { "template": { "metadata": { "annotations": { "x": "y" } } } } }),
            3,
        ),
    ] {
        let answer = house.merge(path, patch.clone()).await.with(200);
        assert_eq!(answer["metadata"]["generation"], generation, "{patch}");
    }
    let live = house.get(&path).await.with(200);
    assert_eq!((&live["spec"]["replicas"], &live["status"]["replicas"]), (&json!(2), &json!(5)));
    house.config_map("a").await;
    let live = house.merge(&a(), json!({ "data": { "k": "v" } })).await.with(200);
    assert_eq!(live["metadata"].get("generation"), None);
}

#[tokio::test]
async fn r62_a_write_that_changes_nothing_keeps_the_version() {
    let house = House::new().await;
    for (collection, body) in
        [(CONFIG_MAPS, labelled("a", json!({ "x": "y" }))), (DEPLOYMENTS, deployment("a"))]
    {
        let made = house.made(collection, body.clone()).await;
        let path = format!("{collection}/a");
        let before = house.revision();
        let mut unversioned = made.clone();
        unversioned["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        for answer in [
            house.put(&path, made.clone()).await,
            house.put(&path, unversioned).await,
            house.put(&path, body.clone()).await,
            house.merge(&path, json!({})).await,
            house
                .merge(&path, json!({ "metadata": { "labels": made["metadata"]["labels"] } }))
                .await,
            house.merge(&path, json!({ "data": { "missing": null } })).await,
            house.patch(&path, STRATEGIC, body.clone()).await,
            house.patch(&path, JSON_PATCH, json!([])).await,
            house
                .patch(
                    &path,
                    JSON_PATCH,
                    json!([{ "op": "test", "path": "/metadata/name", "value": "a" }]),
                )
                .await,
        ] {
            assert_eq!(version(&answer.with(200)), version(&made), "{collection}");
        }
        assert_eq!(house.revision(), before);
    }
}

#[tokio::test]
async fn r65_system_metadata_is_kept_when_left_out_and_may_not_change() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    let live = house
        .put(&a(), json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }))
        .await
        .with(200);
    for member in ["uid", "creationTimestamp", "namespace"] {
        assert_eq!(live["metadata"][member], made["metadata"][member]);
    }
    for (member, value) in [
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
    ] {
        let mut body = live.clone();
        body["metadata"][member] = value.clone();
        let pointer = format!("/metadata/{member}");
        for answer in [
            house.put(&a(), body).await,
            house.merge(&a(), json!({ "metadata": { member: value } })).await,
            house.patch(&a(), STRATEGIC, json!({ "metadata": { member: value } })).await,
            house
                .patch(&a(), JSON_PATCH, json!([{ "op": "add", "path": pointer, "value": value }]))
                .await,
        ] {
            let status = answer.fails(422, "Invalid");
            assert_eq!(fields(&status), [format!("metadata.{member}")]);
        }
    }
    assert_eq!(version(&house.get(&a()).await.with(200)), version(&live));
}

#[tokio::test]
async fn r65_immutable_members_stay_through_every_way_to_write() {
    let house = House::new().await;
    let secret = json!({ "metadata": { "name": "s" }, "type": "Opaque" });
    let frozen = json!({ "metadata": { "name": "f" }, "immutable": true, "data": { "k": "v" } });
    for (collection, body, pointer, value, field) in [
        (SECRETS, secret, "/type", json!("example.com/other"), "type"),
        (CONFIG_MAPS, frozen, "/data/k", json!("w"), "data"),
        (
            DEPLOYMENTS,
            deployment("d"),
            "/spec/selector/matchLabels/app",
            json!("b"),
            "spec.selector",
        ),
        (PODS, pod("p"), "/spec/containers/0/name", json!("z"), "spec"),
    ] {
        let made = house.made(collection, body).await;
        let path = format!("{collection}/{}", name(&made));
        let mut changed = made.clone();
        *changed.pointer_mut(pointer).unwrap() = value.clone();
        if collection == DEPLOYMENTS {
            changed["spec"]["template"]["metadata"]["labels"] = json!({ "app": "b" });
        }
        let mut patch = changed.clone();
        patch["metadata"] = json!({});
        let replace = json!([{ "op": "replace", "path": "", "value": changed.clone() }]);
        let mut applied = changed.clone();
        applied["metadata"] = named(name(&made))["metadata"].clone();
        let apply = format!("{path}?fieldManager=m&force=true");
        let mut answers = vec![
            house.put(&path, changed).await,
            house.merge(&path, patch.clone()).await,
            house.patch(&path, JSON_PATCH, replace).await,
        ];
        if collection != PODS {
            answers.push(house.patch(&path, STRATEGIC, patch).await);
            answers.push(house.patch(&apply, "application/apply-patch+yaml", applied).await);
        }
        for answer in answers {
            let status = answer.fails(422, "Invalid");
            assert!(fields(&status)[0].starts_with(field), "{path}: {:?}", fields(&status));
        }
        assert_eq!(version(&house.get(&path).await.with(200)), version(&made));
    }
}

#[tokio::test]
async fn r66_a_stale_version_is_a_conflict() {
    let house = House::new().await;
    let old = house.config_map("a").await;
    let new = house.merge(&a(), json!({ "data": { "k": "1" } })).await.with(200);
    let status = house.put(&a(), old.clone()).await.fails(409, "Conflict");
    assert_eq!(status["details"], json!({ "name": "a", "kind": "configmaps" }));
    let with = |version: &str| json!({ "metadata": { "name": "a", "resourceVersion": version }, "data": { "k": "2" } });
    house.put(&a(), with("999999999")).await.fails(409, "Conflict");
    for odd in ["abc", "-1", "1.5", "99999999999999999999999", " 7"] {
        let answer = house.put(&a(), with(odd)).await;
        assert!(matches!(answer.code, 400 | 409), "{odd}: {}", answer.text());
    }
    house.put(&a(), with(version(&new))).await.with(200);
    house.put(&a(), named("a")).await.with(200);
}

#[tokio::test]
async fn r66_some_kinds_want_a_version() {
    let house = House::new().await;
    let made = house.made(LEASES, named("l")).await;
    let path = format!("{LEASES}/l");
    for version in ["", "0"] {
        let body = json!({ "metadata": { "name": "l", "resourceVersion": version } });
        let status = house.put(&path, body).await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["metadata.resourceVersion"]);
        let message = status["details"]["causes"][0]["message"].as_str().unwrap();
        assert!(message.ends_with("must be specified for an update"), "{message}");
    }
    house.put(&path, made).await.with(200);
}

#[tokio::test]
async fn r67_only_some_kinds_are_created_by_an_update() {
    let house = House::new().await;
    house.put(&a(), named("a")).await.fails(404, "NotFound");
    house.put(&format!("{DEPLOYMENTS}/d"), deployment("d")).await.fails(404, "NotFound");
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    for (path, body) in [
        (format!("{LEASES}/l"), named("l")),
        (format!("{ROLES}/r"), named("r")),
        (format!("{SERVICES}/s"), service),
    ] {
        assert_eq!(house.put(&format!("{path}?dryRun=All"), body.clone()).await.code, 201);
        house.get(&path).await.fails(404, "NotFound");
        house.put(&path, body).await.with(201);
        house.get(&path).await.with(200);
    }
    for (media, patch) in [(MERGE, json!({})), (STRATEGIC, json!({})), (JSON_PATCH, json!([]))] {
        house.patch(&format!("{LEASES}/none"), media, patch).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn r70_a_dry_run_update_stores_nothing() {
    let house = House::new().await;
    let made = house.config_map("a").await;
    let (before, path) = (house.revision(), format!("{}?dryRun=All", a()));
    let data = json!({ "data": { "k": "v" } });
    let mut body = made.clone();
    body["data"] = data["data"].clone();
    for answer in [house.put(&path, body).await, house.merge(&path, data).await] {
        assert_eq!(answer.with(200)["data"]["k"], "v");
    }
    assert_eq!(house.revision(), before);
    let mut stale = made;
    stale["metadata"]["resourceVersion"] = json!("1");
    house.put(&path, stale).await.fails(409, "Conflict");
    house.merge(&path, json!({ "data": { "k/": "v" } })).await.fails(422, "Invalid");
    assert_eq!(house.get(&a()).await.with(200).get("data"), None::<&Value>);
}
