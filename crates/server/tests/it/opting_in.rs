//! Rules of spec/retention.md: the opt-in (section 2) and what is told about it (section 8).

use k8s_pb::api::core::v1 as core;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_pb::apimachinery::pkg::runtime::{TypeMeta, Unknown};
use prost::Message;
use serde_json::{Value, json};
use tenure_server::admit::RetentionOptions;

use crate::house::*;

const FIELD: &str = "controllersAsOwners";
const ANNOTATION: &str = "tenure.dev/controllers-as-owners";
const APPLY: &str = "application/apply-patch+yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: [&str; 2] = [CONFIG_MAPS, SECRETS];
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// An object that opts in, or says that it does not.
fn opted(name: &str, value: bool) -> Value {
    json!({ "metadata": { "name": name }, FIELD: value })
}

/// The one field that a refusal names, and its reason.
#[track_caller]
fn cause(answer: Answer) -> (String, String) {
    let status = answer.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap().clone();
    assert_eq!(causes.len(), 1, "{status}");
    let text = |member: &str| causes[0][member].as_str().unwrap().to_owned();
    (text("field"), text("message"))
}

#[tokio::test]
async fn r1_the_member_is_stored_as_it_was_given() {
    let house = House::new().await;
    for collection in BOTH {
        assert_eq!(house.made(collection, named("none")).await.get(FIELD), None);
        assert_eq!(house.made(collection, opted("yes", true)).await[FIELD], true);
        assert_eq!(house.made(collection, opted("no", false)).await[FIELD], false);
        let read = house.get(&format!("{collection}/yes")).await.with(200);
        assert_eq!(read[FIELD], true);
        assert_eq!(
            read["metadata"]["managedFields"][0]["fieldsV1"]["f:controllersAsOwners"],
            json!({})
        );
    }
    let wrong = json!({ "metadata": { "name": "wrong" }, FIELD: "true" });
    house.post(CONFIG_MAPS, wrong).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn r2_it_may_be_set_only_at_creation() {
    let house = House::new().await;
    for collection in BOTH {
        house.made(collection, opted("yes", true)).await;
        house.made(collection, opted("no", false)).await;
        house.made(collection, named("none")).await;
        for (name, value) in [("yes", false), ("no", true), ("none", true)] {
            let path = format!("{collection}/{name}");
            let stored = house.get(&path).await.with(200);
            let mut whole = stored.clone();
            whole[FIELD] = json!(value);
            let operation = if stored.get(FIELD).is_some() { "replace" } else { "add" };
            let operations =
                json!([{ "op": operation, "path": "/controllersAsOwners", "value": value }]);
            let kind = stored["kind"].as_str().unwrap();
            let config = json!({ "apiVersion": "v1", "kind": kind, FIELD: value });
            let forced = format!("{path}?fieldManager=m&force=true");
            let answers = [
                house.put(&path, whole).await,
                house.merge(&path, json!({ FIELD: value })).await,
                house.patch(&path, STRATEGIC, json!({ FIELD: value })).await,
                house.patch(&path, JSON_PATCH, operations).await,
                house.patch(&forced, APPLY, config).await,
            ];
            for answer in answers {
                let (field, message) = cause(answer);
                assert_eq!(field, FIELD);
                assert!(message.contains("field is immutable"), "{message}");
            }
            assert_eq!(house.get(&path).await.with(200), stored);
        }
    }
}

#[tokio::test]
async fn r3_absent_and_false_are_one_value() {
    let house = House::new().await;
    for collection in BOTH {
        house.made(collection, named("a")).await;
        let path = format!("{collection}/a");
        house.merge(&path, json!({ FIELD: false })).await.with(200);
        house.merge(&path, json!({ FIELD: null })).await.with(200);
        cause(house.merge(&path, json!({ FIELD: true })).await);
    }
}

#[tokio::test]
async fn r4_absent_means_unchanged() {
    let house = House::new().await;
    for collection in BOTH {
        let mut whole = house.made(collection, opted("a", true)).await;
        let path = format!("{collection}/a");
        // A client that does not know the member sends the rest of what it read.
        whole.as_object_mut().unwrap().remove(FIELD);
        whole["data"] = json!({ "k": "dg==" });
        let answer = house.put(&path, whole).await;
        assert_eq!(answer.warnings(), [""; 0]);
        let kept = answer.with(200);
        assert_eq!((&kept[FIELD], &kept["data"]["k"]), (&json!(true), &json!("dg==")));
        for (kind, patch) in [
            (MERGE, json!({ FIELD: null })),
            (STRATEGIC, json!({ FIELD: null })),
            (JSON_PATCH, json!([{ "op": "remove", "path": "/controllersAsOwners" }])),
        ] {
            let answer = house.patch(&path, kind, patch).await;
            let warnings = answer.warnings();
            assert_eq!(answer.with(200)[FIELD], true, "{kind}");
            let [warning] = warnings.as_slice() else { panic!("{kind}: {warnings:?}") };
            assert!(warning.contains("immutable") && warning.contains("stays true"), "{warning}");
        }
        assert_eq!(house.merge(&path, json!({ "data": null })).await.warnings(), [""; 0]);
    }
}

#[tokio::test]
async fn r4_a_configuration_that_gives_it_up_keeps_it() {
    let house = House::new().await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    let named = json!({ "name": "a" });
    let whole = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": named, FIELD: true });
    let made = house.patch(&path, APPLY, whole).await.with(201);
    assert_eq!(made[FIELD], true);
    let less =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": { "k": "v" } });
    let answer = house.patch(&path, APPLY, less.clone()).await;
    assert_eq!(answer.warnings().len(), 1);
    assert_eq!(answer.with(200)[FIELD], true);
    // Nobody owns it any more, so there is nothing to tell again.
    let again = house.patch(&path, APPLY, less).await;
    assert_eq!(again.warnings(), [""; 0]);
    assert_eq!(again.with(200)[FIELD], true);
}

#[tokio::test]
async fn r5_documents_and_strict_validation_know_it() {
    let house = House::new().await;
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    house.post(&strict, opted("a", true)).await.with(201);
    let almost = json!({ "metadata": { "name": "b" }, "controllerAsOwners": true });
    house.post(&strict, almost).await.fails(400, "BadRequest");
    let third = house.get("/openapi/v3/api/v1").await.with(200);
    let second = house.get("/openapi/v2").await.with(200);
    for kind in ["ConfigMap", "Secret"] {
        let name = format!("io.k8s.api.core.v1.{kind}");
        for schemas in [&third["components"]["schemas"], &second["definitions"]] {
            let member = &schemas[&name]["properties"][FIELD];
            assert_eq!(member["type"], "boolean", "{kind}");
            assert!(member["description"].as_str().unwrap().contains("only at creation"), "{kind}");
        }
    }
    let paths = &third["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(paths["properties"].get(FIELD), None);
}

/// An object as a Go client sends it, with more members than the client's own.
fn enveloped(kind: &str, mut raw: Vec<u8>, more: &[u8]) -> Vec<u8> {
    raw.extend_from_slice(more);
    let type_meta = TypeMeta { api_version: Some("v1".to_owned()), kind: Some(kind.to_owned()) };
    let unknown = Unknown { type_meta: Some(type_meta), raw: Some(raw), ..Unknown::default() };
    let mut bytes = b"k8s\0".to_vec();
    unknown.encode(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn r5_protobuf_has_a_number_of_its_own_for_it() {
    let house = House::new().await;
    // Member 70001, a varint, and the value 1.
    let member = [0x88, 0x97, 0x22, 0x01];
    let metadata = Some(meta::ObjectMeta { name: Some("a".to_owned()), ..Default::default() });
    let map = core::ConfigMap {
        metadata: metadata.clone(),
        immutable: Some(true),
        ..core::ConfigMap::default()
    };
    let secret = core::Secret { metadata, immutable: Some(false), ..core::Secret::default() };
    for (collection, kind, raw, immutable) in [
        (CONFIG_MAPS, "ConfigMap", map.encode_to_vec(), true),
        (SECRETS, "Secret", secret.encode_to_vec(), false),
    ] {
        let headers = [("content-type", PROTOBUF)];
        let body = enveloped(kind, raw.clone(), &member);
        let made = house.ask("POST", collection, &headers, body).await.with(201);
        assert_eq!((&made[FIELD], &made["immutable"]), (&json!(true), &json!(immutable)));
        // A client of upstream knows no such member and sends none.
        let path = format!("{collection}/a");
        let kept = house.ask("PUT", &path, &headers, enveloped(kind, raw, &[])).await.with(200);
        assert_eq!((&kept[FIELD], &kept["immutable"]), (&json!(true), &json!(immutable)));
    }
}

#[tokio::test]
async fn r6_the_annotation_says_true_or_false() {
    let house = House::new().await;
    for collection in BOTH {
        for text in ["True", "1", "", "yes"] {
            let body = json!({ "metadata": { "name": "a", "annotations": { ANNOTATION: text } } });
            let (field, message) = cause(house.post(collection, body).await);
            assert_eq!(field, format!("metadata.annotations[{ANNOTATION}]"));
            assert!(message.contains(r#"supported values: "true", "false""#), "{message}");
        }
    }
}

#[tokio::test]
async fn r7_the_annotation_cannot_change_the_setting_later() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, opted("yes", true)).await;
    house.made(CONFIG_MAPS, named("no")).await;
    for (name, text) in [("yes", "false"), ("no", "true")] {
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: text } } });
        let (field, message) = cause(house.merge(&format!("{CONFIG_MAPS}/{name}"), patch).await);
        assert_eq!(field, format!("metadata.annotations[{ANNOTATION}]"));
        assert!(message.contains("field is immutable"), "{message}");
    }
}

#[tokio::test]
async fn r8_member_and_annotation_are_one_setting() {
    let house = House::new().await;
    for collection in BOTH {
        let with = |name: &str, text: &str| json!({ "metadata": { "name": name, "annotations": { ANNOTATION: text } } });
        let made = house.made(collection, with("yes", "true")).await;
        assert_eq!(made[FIELD], true);
        assert_eq!(made["metadata"]["annotations"][ANNOTATION], "true");
        assert_eq!(house.made(collection, with("no", "false")).await.get(FIELD), None);
        for (text, value) in [("true", false), ("false", true)] {
            let mut body = with("both", text);
            body[FIELD] = json!(value);
            let (field, message) = cause(house.post(collection, body).await);
            assert_eq!(field, format!("metadata.annotations[{ANNOTATION}]"));
            assert!(message.contains("differs from controllersAsOwners"), "{message}");
        }
        // The member is what counts: without the annotation nothing changes.
        let path = format!("{collection}/yes");
        let bare = json!({ "metadata": { "annotations": null } });
        assert_eq!(house.merge(&path, bare).await.with(200)[FIELD], true);
    }
}

#[tokio::test]
async fn r9_a_wide_table_shows_the_intent_where_somebody_opted_in() {
    let house = House::new().await;
    for (collection, usual) in BOTH.into_iter().zip([3, 4]) {
        house.made(collection, opted("plain", false)).await;
        for path in [collection.to_owned(), format!("{collection}/plain")] {
            let table = house.get_as(&path, TABLE).await.with(200);
            assert_eq!(table["columnDefinitions"].as_array().unwrap().len(), usual, "{path}");
            let rows = table["rows"].as_array().unwrap();
            assert!(rows.iter().all(|row| row["cells"].as_array().unwrap().len() == usual));
        }
    }
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u" }]);
    for collection in BOTH {
        let mut body = opted("a", true);
        body["metadata"]["ownerReferences"] = owner.clone();
        house.made(collection, body).await;
        let table = house.get_as(&format!("{collection}/a"), TABLE).await.with(200);
        let columns = table["columnDefinitions"].as_array().unwrap();
        let wide: Vec<&Value> = columns.iter().filter(|column| column["priority"] == 1).collect();
        let names: Vec<&str> = wide.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Retained-By", "GC"]);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert!(cells.ends_with(&[json!(1), json!("auto")]), "{cells:?}");
        let list = house.get_as(collection, TABLE).await.with(200);
        assert_eq!(list["columnDefinitions"], table["columnDefinitions"]);
    }
}

#[tokio::test]
async fn r10_an_immutable_subject_may_opt_in_and_get_owners() {
    let house = House::new().await;
    for collection in BOTH {
        let mut body = opted("a", true);
        body["immutable"] = json!(true);
        body["data"] = json!({ "k": "dg==" });
        house.made(collection, body).await;
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u" });
        let patch = json!({ "metadata": { "ownerReferences": [owner] } });
        let path = format!("{collection}/a");
        let after = house.patch(&path, STRATEGIC, patch).await.with(200);
        assert_eq!(after["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(after["data"], json!({ "k": "dg==" }));
        house.merge(&path, json!({ "data": { "k": "eA==" } })).await.fails(422, "Invalid");
    }
}

#[tokio::test]
async fn r11_what_belongs_to_the_cluster_cannot_opt_in() {
    let house = House::new().await;
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let token = json!({
        "metadata": { "name": "t", "annotations": { "kubernetes.io/service-account.name": "default" } },
        "type": "kubernetes.io/service-account-token", FIELD: true,
    });
    let refused = [
        (maps("kube-system"), opted("a", true)),
        (maps("kube-public"), opted("a", true)),
        (maps("kube-node-lease"), opted("a", true)),
        (SECRETS.to_owned(), token),
    ];
    for (collection, body) in refused {
        let (field, message) = cause(house.post(&collection, body).await);
        assert_eq!(field, FIELD, "{collection}");
        assert!(message.contains("retention R11"), "{message}");
    }
    house.made(NAMESPACES, named("shop")).await;
    let root = format!("{}/kube-root-ca.crt", maps("shop"));
    house.until(&root, 200).await;
    cause(house.merge(&root, json!({ FIELD: true })).await);

    let open = RetentionOptions {
        namespaces: vec!["kube-system".to_owned()],
        ..RetentionOptions::default()
    };
    let house = House::retaining(open).await;
    house.made(&maps("kube-system"), opted("a", true)).await;
    cause(house.post(&maps("kube-public"), opted("a", true)).await);
}

/// The specification of a pod that mentions a ConfigMap and a Secret.
fn mentioning(map: &str, secret: &str) -> Value {
    json!({
        "restartPolicy": "Never",
        "containers": [{ "name": "c", "image": "i", "envFrom": [{ "secretRef": { "name": secret } }] }],
        "volumes": [{ "name": "v", "configMap": { "name": map } }],
    })
}

#[tokio::test]
async fn r60_kinds_that_do_not_retain_are_told_of() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, opted("in", true)).await;
    house.made(SECRETS, opted("in", true)).await;
    house.made(CONFIG_MAPS, named("out")).await;
    let job = json!({ "template": { "spec": mentioning("in", "in") } });
    let cron = json!({ "schedule": "@daily", "jobTemplate": { "spec": job } });
    let batch = "/apis/batch/v1/namespaces/default";
    let core = "/api/v1/namespaces/default";
    let spec = |spec: &Value| json!({ "metadata": { "name": "a" }, "spec": spec });
    let bodies = [
        (format!("{batch}/jobs"), "Job", spec(&job)),
        (format!("{batch}/cronjobs"), "CronJob", spec(&cron)),
        (format!("{core}/pods"), "Pod", spec(&mentioning("in", "in"))),
        (
            format!("{core}/podtemplates"),
            "PodTemplate",
            json!({ "metadata": { "name": "a" }, "template": job["template"] }),
        ),
    ];
    for (collection, kind, body) in bodies {
        let answer = house.post(&collection, body).await;
        let warnings = answer.warnings();
        answer.with(201);
        let [map, secret] = warnings.as_slice() else { panic!("{kind}: {warnings:?}") };
        for (warning, subject) in [(map, "ConfigMap"), (secret, "Secret")] {
            assert!(warning.contains(&format!(r#"{subject} \"in\""#)), "{kind}: {warning}");
            assert!(warning.contains(&format!("a {kind} does not retain it")), "{warning}");
        }
        let again =
            house.merge(&format!("{collection}/a"), labelled("a", json!({ "x": "y" }))).await;
        assert_eq!(again.warnings().len(), 2, "{kind}");
    }
    // Nothing is told of objects that did not opt in or do not exist, nor of kinds that retain.
    let other = spec(&json!({ "template": { "spec": mentioning("out", "absent") } }));
    let mut other = other;
    other["metadata"]["name"] = json!("b");
    let answer = house.post(JOBS, other).await;
    assert_eq!(answer.warnings(), [""; 0]);
    answer.with(201);
    let mut template =
        json!({ "metadata": { "labels": { "a": "b" } }, "spec": mentioning("in", "in") });
    template["spec"].as_object_mut().unwrap().remove("restartPolicy");
    let deployment = json!({
        "metadata": { "name": "d" },
        "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": template },
    });
    let answer = house.post(DEPLOYMENTS, deployment).await;
    assert_eq!(answer.warnings(), [""; 0]);
    answer.with(201);
}

#[tokio::test]
async fn r61_subjects_that_change_in_place_are_told_of_when_asked_for() {
    let house = House::new().await;
    let silent = house.post(CONFIG_MAPS, opted("settings", true)).await;
    assert_eq!(silent.warnings(), [""; 0]);
    let house =
        House::retaining(RetentionOptions { hints: true, ..RetentionOptions::default() }).await;
    let told = house.post(CONFIG_MAPS, opted("settings", true)).await;
    assert_eq!(told.warnings().len(), 1);
    assert!(told.warnings()[0].contains("immutable: true"), "{:?}", told.warnings());
    let path = format!("{CONFIG_MAPS}/settings");
    let later = house.merge(&path, json!({ "data": { "k": "v" } })).await;
    assert_eq!(later.warnings(), [""; 0]);
    for body in [
        json!({ "metadata": { "name": "fixed" }, FIELD: true, "immutable": true }),
        opted("settings-5d9c8b7f6", true),
        opted("out", false),
    ] {
        assert_eq!(house.post(CONFIG_MAPS, body).await.warnings(), [""; 0]);
    }
}

#[tokio::test]
async fn r70_with_the_feature_off_only_what_is_stored_stays() {
    let off = RetentionOptions { enabled: false, ..RetentionOptions::default() };
    let house = House::retaining(off).await;
    assert_eq!(house.made(CONFIG_MAPS, opted("a", true)).await.get(FIELD), None);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(house.merge(&path, json!({ FIELD: true })).await.with(200).get(FIELD), None);
    let body = json!({ "metadata": { "name": "b", "annotations": { ANNOTATION: "any" } } });
    assert_eq!(house.made(CONFIG_MAPS, body).await.get(FIELD), None);
}
