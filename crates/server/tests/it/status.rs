//! Rules of spec/api-server.md.
//!
//! What failures look like, and who is refused. Which request fails when is the matter of the other
//! modules.

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

#[tokio::test]
async fn r33_a_status_has_its_members_and_no_others() {
    let house = House::new().await;
    let answer = house.get("/apis/apps/v1/namespaces/default/deployments/none").await;
    assert_eq!(answer.header("content-type"), JSON);
    assert_eq!(
        answer.with(404),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "deployments.apps \"none\" not found", "reason": "NotFound", "code": 404,
            "details": { "name": "none", "group": "apps", "kind": "deployments" },
        })
    );
    let answer = house.get(&format!("{CONFIG_MAPS}?limit=x")).await.fails(400, "BadRequest");
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(members, ["apiVersion", "code", "kind", "message", "metadata", "reason", "status"]);
}

/// The Python client hands the body on as it is, and its own suite compares the text.
#[tokio::test]
async fn r33_a_status_is_written_in_the_order_of_its_members() {
    let house = House::new().await;
    house.config_map("a").await;
    let taken = house.post(CONFIG_MAPS, named("a")).await;
    assert_eq!(
        std::str::from_utf8(&taken.bytes).unwrap(),
        concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"configmaps \"a\" already exists","reason":"AlreadyExists","#,
            r#""details":{"name":"a","kind":"configmaps"},"code":409}"#,
            "\n"
        )
    );
    let wrong = house.post(CONFIG_MAPS, named("A")).await;
    let text = std::str::from_utf8(&wrong.bytes).unwrap();
    let order = [
        r#""details":{"name":"A","#,
        r#""kind":"ConfigMap","#,
        r#""causes":[{"reason":"#,
        r#""message":"#,
        r#""field":"metadata.name"}]},"#,
        r#""code":422}"#,
    ];
    let mut rest = text;
    for part in order {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} in {text}")).1;
    }
}

#[tokio::test]
async fn r34_reasons_have_their_codes_and_texts() {
    let house = House::new().await;
    house.config_map("a").await;
    house.made(CONFIG_MAPS, held("going")).await;
    house.delete(&format!("{CONFIG_MAPS}/going")).await.with(200);
    let stale =
        json!({ "metadata": { "name": "a", "resourceVersion": "1" }, "data": { "k": "v" } });
    let a = "/api/v1/namespaces/default/configmaps/a";
    for (method, path, body, code, reason, message) in [
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/x",
            Value::Null,
            404,
            "NotFound",
            "configmaps \"x\" not found",
        ),
        (
            "POST",
            "/api/v1/namespaces/nope/configmaps",
            named("x"),
            404,
            "NotFound",
            "namespaces \"nope\" not found",
        ),
        ("POST", CONFIG_MAPS, named("a"), 409, "AlreadyExists", "configmaps \"a\" already exists"),
        (
            "POST",
            CONFIG_MAPS,
            named("going"),
            409,
            "AlreadyExists",
            "object is being deleted: configmaps \"going\" already exists",
        ),
        (
            "PUT",
            a,
            stale,
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; \
             please apply your changes to the latest version and try again",
        ),
        (
            "POST",
            CONFIG_MAPS,
            named("A_b"),
            422,
            "Invalid",
            "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": ",
        ),
        (
            "POST",
            DEPLOYMENTS,
            named("d"),
            422,
            "Invalid",
            "Deployment.apps \"d\" is invalid: [spec.",
        ),
        ("POST", CONFIG_MAPS, json!([]), 400, "BadRequest", ""),
        ("POST", REVIEWS, json!("x"), 400, "BadRequest", ""),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = house.ask(method, path, &[("content-type", JSON)], body).await;
        let status = answer.fails(code, reason);
        let text = status["message"].as_str().unwrap();
        assert!(text.starts_with(message), "{method} {path}: {text}");
    }
    let answer = house.ask("POST", CONFIG_MAPS, &[("content-type", "text/plain")], "x").await;
    answer.fails(415, "UnsupportedMediaType");
}

#[tokio::test]
async fn r34_details_name_the_resource_or_for_invalid_the_kind() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let again = house.post(DEPLOYMENTS, deployment("d")).await.fails(409, "AlreadyExists");
    assert_eq!(again["details"], json!({ "name": "d", "group": "apps", "kind": "deployments" }));
    let invalid = house.post(DEPLOYMENTS, named("e")).await.fails(422, "Invalid");
    assert_eq!(invalid["details"]["kind"], "Deployment");
    assert_eq!(invalid["details"]["group"], "apps");
    assert_eq!(invalid["details"]["name"], "e");
}

#[tokio::test]
async fn r35_causes_carry_reason_and_path() {
    let house = House::new().await;
    let container = |image: &str, name: &str| json!({ "name": name, "image": image });
    let spec = |containers: Value| json!({ "metadata": { "name": "p" }, "spec": { "containers": containers } });
    for (body, reason, field) in [
        (spec(json!([container("", "c")])), "FieldValueRequired", "spec.containers[0].image"),
        (
            spec(json!([container("i", "c"), container("i", "c")])),
            "FieldValueDuplicate",
            "spec.containers[1].name",
        ),
        (spec(json!([container("i", "C_")])), "FieldValueInvalid", "spec.containers[0].name"),
        (spec(json!([])), "FieldValueRequired", "spec.containers"),
    ] {
        let status = house.post(PODS, body).await.fails(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!((&cause["reason"], &cause["field"]), (&json!(reason), &json!(field)));
        let message = cause["message"].as_str().unwrap();
        assert!(status["message"].as_str().unwrap().contains(message), "{status}");
    }
}

#[tokio::test]
async fn r148_a_certificate_names_the_user_and_its_groups() {
    let house = House::new().await;
    let body = json!({ "spec": {} }).to_string();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let jane = peer("jane", &["team", "system:masters"]);
    let review = house.ask_as(&jane, "POST", path, &[("content-type", JSON)], body).await.with(201);
    let info = &review["status"]["userInfo"];
    assert_eq!(info["username"], "jane");
    assert_eq!(info["groups"], json!(["team", "system:masters", "system:authenticated"]));
}

#[tokio::test]
async fn r151_no_credential_is_anonymous_and_a_wrong_one_is_401() {
    let house = House::new().await;
    let nobody = Peer::default();
    let refused = house.ask_as(&nobody, "GET", CONFIG_MAPS, &[], "").await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" \
         in API group \"\" in the namespace \"default\""
    );
    assert_eq!(refused["details"], json!({ "kind": "configmaps" }));
    for path in [CONFIG_MAPS, "/healthz", "/version"] {
        for credential in ["Bearer wrong", "Bearer a b"] {
            let headers = [("authorization", credential)];
            let answer = house.ask_as(&nobody, "GET", path, &headers, "").await;
            let status = answer.fails(401, "Unauthorized");
            assert_eq!(status["message"], "Unauthorized", "{path} {credential}");
        }
    }
}

#[tokio::test]
async fn r154_who_is_no_master_is_refused_before_anything_is_looked_up() {
    let house = House::new().await;
    house.config_map("a").await;
    let jane = peer("jane", &["team"]);
    for (method, path, message) in [
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/a",
            "configmaps \"a\" is forbidden: User \"jane\" cannot \
            get resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps/none",
            "configmaps \"none\" is forbidden: User \"jane\" \
            cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "PUT",
            "/apis/apps/v1/namespaces/x/deployments/d/scale",
            "deployments.apps \"d\" is forbidden: User \
            \"jane\" cannot update resource \"deployments/scale\" in API group \"apps\" in the namespace \"x\"",
        ),
        (
            "DELETE",
            "/api/v1/nodes",
            "nodes is forbidden: User \"jane\" cannot deletecollection resource \"nodes\" \
            in API group \"\" at the cluster scope",
        ),
        (
            "GET",
            "/api/v1/secrets?watch=1",
            "secrets is forbidden: User \"jane\" cannot watch resource \"secrets\" \
            in API group \"\" at the cluster scope",
        ),
        (
            "POST",
            "/apis/nope.example.com/v1/nopes",
            "nopes.nope.example.com is forbidden: User \"jane\" cannot \
            create resource \"nopes\" in API group \"nope.example.com\" at the cluster scope",
        ),
        ("GET", "/metrics", "forbidden: User \"jane\" cannot get path \"/metrics\""),
        ("POST", "/version", "forbidden: User \"jane\" cannot post path \"/version\""),
    ] {
        let status = house.ask_as(&jane, method, path, &[], "").await.fails(403, "Forbidden");
        assert_eq!(status["message"], message, "{method} {path}");
    }
    house.get(&format!("{CONFIG_MAPS}/a")).await.with(200);
}
