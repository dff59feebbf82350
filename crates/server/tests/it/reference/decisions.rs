//! Rules of spec/referential-authorization.md, sections 14 and 15: what was decided and what the proof of concept
//! got wrong, where a server shows it; and R124, that a consumer is never too early.

use serde_json::json;

use super::access::{LOCAL, TLS, gateway, gateways_path, town, watched};
use super::*;

/// Creates with unknown fields refused, and gives what is said about it.
async fn strictly(house: &House, path: &str, body: Value) -> String {
    let answer = house.post(&format!("{path}?fieldValidation=Strict"), body).await;
    answer.fails(400, "BadRequest")["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn r124_who_saw_the_origin_may_read_its_target_at_once() {
    let (house, contour) = town().await;
    let mut origins = house.watch(&format!("{}?watch=1", gateways_path())).await;
    origins.expect(&["ADDED web"]).await;
    for round in 0..50 {
        let (origin, secret) = (format!("gateway-{round}"), format!("secret-{round}"));
        let mut body = with(gateway("contour"), "/metadata/name", json!(origin));
        body["spec"]["listeners"][0]["tls"]["certificateRefs"] =
            json!([{ "kind": "Secret", "name": secret }]);
        house.made(LOCAL, named(&secret)).await;
        house.made(&gateways_path(), body).await;
        origins.expect(&[&format!("ADDED {origin}")]).await;
        assert_eq!(house.reads(&contour, &format!("{LOCAL}/{secret}")).await, 200, "{round}");
    }
}

#[tokio::test]
async fn d3_d4_controllers_share_a_grant_and_none_writes_to_it() {
    let (house, contour) = town().await;
    let second = json!({ "kind": "User", "name": "second" });
    house.made(CONSUMERS, with(consumer("second"), "/subject", second)).await;
    let path = format!("{GRANTS}/prod-gateways");
    let before = house.get(&path).await.with(200);
    for who in [&contour, &peer("second", &[])] {
        assert_eq!(house.reads(who, &format!("{TLS}/acme-tls")).await, 200);
        watched(&house, who, &format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls"))
            .await
            .expect(&["ADDED acme-tls"])
            .await;
    }
    assert_eq!(house.get(&path).await.with(200), before);
    assert!(before.get("status").is_none());
    // Objects that say who uses a grant are not served.
    let served = house.get(GROUP).await.with(200);
    let names = served["resources"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|resource| resource["name"].as_str().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("use") || name.contains("status")), "{names:?}");
}

#[tokio::test]
async fn d19_a_selector_of_targets_is_no_field() {
    let house = house().await;
    let labels = json!({ "matchLabels": { "a": "b" } });
    let said =
        strictly(&house, GRANTS, with(grant("g", &["s"]), "/target/selector", labels.clone()));
    assert!(said.await.contains("unknown field \"target.selector\""));
    // Without being strict it is left out, and nothing is selected by it.
    let stored = house.made(GRANTS, with(grant("g", &["s"]), "/target/selector", labels)).await;
    assert_eq!(stored["target"], json!({ "group": "", "resource": "secrets", "names": ["s"] }));
}

#[tokio::test]
async fn d19_labels_of_targets_open_nothing() {
    let (house, contour) = town().await;
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    for name in ["acme-tls", "other"] {
        house.merge(&format!("{TLS}/{name}"), label.clone()).await.with(200);
    }
    assert_eq!(house.reads(&contour, &format!("{TLS}?labelSelector=a=b")).await, 403);
    assert_eq!(house.reads(&contour, &format!("{TLS}/other")).await, 403);
}

#[tokio::test]
async fn d16_a_consumer_needs_its_own_origins_and_nothing_broad() {
    let (house, _) = town().await;
    let reads = ["get", "list", "watch"];
    let rules = [
        json!({ "verbs": reads, "apiGroups": ["reference.authorization.k8s.io"], "resources": ["*"] }),
        rule(&reads, "gateway.networking.k8s.io", "gateways", &[]),
    ];
    let contour = user(&house, "contour", "", &rules).await;
    for (path, code) in [
        (STRATEGIES, 200),
        (CONSUMERS, 200),
        (GRANTS, 200),
        (gateways_path().as_str(), 200),
        (TLS, 403),
        ("/api/v1/secrets", 403),
    ] {
        assert_eq!(house.reads(&contour, path).await, code, "{path}");
    }
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 200);
    assert_eq!(house.reads(&contour, &format!("{TLS}/other")).await, 403);
}

#[tokio::test]
async fn d24_a_target_that_is_made_anew_is_the_one_that_is_named() {
    let (house, contour) = town().await;
    let path = format!("{TLS}/acme-tls");
    house.delete(&path).await.with(200);
    assert_eq!(house.reads(&contour, &path).await, 404, "allowed, and not there");
    house.made(TLS, named("acme-tls")).await;
    assert_eq!(house.reads(&contour, &path).await, 200);
}

#[tokio::test]
async fn d26_there_is_no_subresource_for_the_metadata_of_origins() {
    let (house, _) = town().await;
    house.get(&format!("{}/web/metadata", gateways_path())).await.fails(404, "NotFound");
}

#[tokio::test]
async fn poc_older_names_are_not_known() {
    let house = house().await;
    let older = json!({
        "metadata": { "name": "g" },
        "from": { "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "prod" },
        "to": { "group": "", "resource": "secrets", "names": ["s"] }, "for": "tls-serving",
    });
    let said = strictly(&house, GRANTS, older.clone()).await;
    for field in ["from", "to", "for"] {
        assert!(said.contains(&format!("unknown field \"{field}\"")), "{said}");
    }
    house.post(GRANTS, older).await.fails(422, "Invalid");
    for plural in ["clusterreferencegrants", "referenceconsumers", "clusterreferencepatterns"] {
        house.get(&format!("{GROUP}/{plural}")).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn poc_a_referenced_secret_is_neither_deleted_nor_written() {
    let (house, contour) = town().await;
    let path = format!("{LOCAL}/local");
    assert_eq!(house.reads(&contour, &path).await, 200);
    for method in ["DELETE", "PUT", "PATCH"] {
        let answer = house.ask_as(&contour, method, &path, &[("content-type", MERGE)], "{}").await;
        assert_eq!(answer.code, 403, "{method}");
    }
    house.get(&path).await.with(200);
}

#[tokio::test]
async fn poc_authors_are_checked() {
    let house = house().await;
    let author = user(&house, "author", "", &[writes()]).await;
    for (path, body) in [
        (GRANTS, grant("g", &["acme-tls"])),
        (CONSUMERS, consumer("c")),
        (STRATEGIES, strategy("s")),
    ] {
        house.post_as(&author, path, &body).await.fails(403, "Forbidden");
    }
}

#[tokio::test]
async fn poc_a_review_that_is_broken_is_answered_with_a_status() {
    let house = house().await;
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let broken = house.ask("POST", path, &[("content-type", JSON)], "{ \"spec\": ").await;
    let status = broken.fails(400, "BadRequest");
    assert_eq!((&status["apiVersion"], &status["kind"]), (&json!("v1"), &json!("Status")));
    let review = json!({ "spec": { "user": "nobody", "resourceAttributes": {
        "verb": "get", "resource": "secrets", "namespace": "prod-tls", "name": "acme-tls",
    } } });
    let answer = house.made(path, review).await;
    assert_eq!(answer["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(answer["kind"], "SubjectAccessReview");
    assert_eq!(answer["status"]["allowed"], false);
    assert!(answer["status"].get("denied").is_none(), "no opinion, never a refusal");
}
