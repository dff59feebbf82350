//! Rules of spec/referential-authorization.md: questions about one reference, and the record of reads (R113, R131,
//! R135).

use serde_json::json;
use tenure_server::Peer;
use tenure_server::reference::{AuthorizerMode, ReferenceOptions};

use super::access::{LOCAL, TLS, gateway, gateways_path, town, town_in};
use super::*;

const REVIEW_GROUP: &str = "/apis/reference.tenure.dev/v1alpha1";
const REVIEWS: &str = "/apis/reference.tenure.dev/v1alpha1/referencereviews";
const RECORDS: &str = "/debug/tenure/access";

fn question(namespace: &str, name: &str) -> Value {
    json!({ "spec": {
        "origin": {
            "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "prod",
            "name": "web",
        },
        "target": { "resource": "secrets", "namespace": namespace, "name": name },
        "purpose": "tls-serving",
    } })
}

#[tokio::test]
async fn r113_a_review_says_whether_a_reference_is_allowed_and_by_what() {
    let (house, _) = town().await;
    let made = house.made(REVIEWS, question("prod", "local")).await;
    assert_eq!(
        (&made["kind"], &made["metadata"]["name"]),
        (&json!("ReferenceReview"), &Value::Null)
    );
    let local = &made["status"];
    assert_eq!((&local["allowed"], &local["strategies"]), (&json!(true), &json!(["gateways"])));
    assert!(local.get("grants").is_none() && local.get("code").is_none());
    let observed: u64 = local["observedResourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(observed, house.revision().0);
    let far = house.made(REVIEWS, question("prod-tls", "acme-tls")).await["status"].clone();
    assert_eq!(far["allowed"], true);
    assert_eq!(far["grants"], json!([{ "namespace": "prod-tls", "name": "prod-gateways" }]));
    // Whose class, whose consumer and which origin count as in the library.
    let subject = |name: &str| json!({ "kind": "User", "name": name });
    for (query, allowed, code) in [
        (with(question("prod", "local"), "/spec/class", json!("contour")), true, Value::Null),
        (with(question("prod", "local"), "/spec/class", json!("envoy")), false, json!("CLASS")),
        (with(question("prod", "local"), "/spec/class", json!("")), false, json!("CLASS")),
        (with(question("prod", "local"), "/spec/subject", subject("contour")), true, Value::Null),
        (with(question("prod", "local"), "/spec/subject", subject("x")), false, json!("SUBJECT")),
        (
            with(question("prod", "local"), "/spec/purpose", json!("other")),
            false,
            json!("REFERENCE"),
        ),
        (with(question("prod", "local"), "/spec/origin/name", json!("no")), false, json!("ORIGIN")),
        (question("prod", "other"), false, json!("REFERENCE")),
        (question("nowhere", "local"), false, json!("REFERENCE")),
    ] {
        let status = house.made(REVIEWS, query.clone()).await["status"].clone();
        assert_eq!((&status["allowed"], &status["code"]), (&json!(allowed), &code), "{query}");
    }
    // Two origins point at one target, and only one of them may.
    let second = with(gateway("contour"), "/metadata/namespace", json!("contour-system"));
    house.made(&gateways_path().replace("/prod/", "/contour-system/"), second).await;
    let of = |namespace: &str| {
        with(question("prod-tls", "acme-tls"), "/spec/origin/namespace", json!(namespace))
    };
    assert_eq!(house.made(REVIEWS, of("prod")).await["status"]["allowed"], true);
    assert_eq!(house.made(REVIEWS, of("contour-system")).await["status"]["code"], "GRANT");
}

#[tokio::test]
async fn r113_reviews_are_created_and_never_stored() {
    let (house, _) = town().await;
    let list = house.get(REVIEW_GROUP).await.with(200);
    assert_eq!(
        list["resources"],
        json!([{
            "name": "referencereviews", "singularName": "referencereview", "namespaced": false,
            "kind": "ReferenceReview", "verbs": ["create"],
        }])
    );
    let document = house.get(&format!("/openapi/v3{REVIEW_GROUP}")).await.with(200);
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert!(paths.contains(&&REVIEWS.to_owned()), "{paths:?}");
    assert!(document["paths"][REVIEWS]["post"].is_object());
    assert!(document["paths"][REVIEWS].get("get").is_none());
    let schemas = document["components"]["schemas"].to_string();
    assert!(schemas.contains("ReferenceReviewStatus"));
    let before = house.revision();
    house.made(REVIEWS, question("prod", "local")).await;
    assert_eq!(house.revision(), before);
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(house.ask(method, REVIEWS, &[], "").await.code, 405, "{method}");
    }
    // What asks about nothing is told so; what is unknown is not asked.
    let wrong = house.post(REVIEWS, json!({ "spec": { "origin": {}, "target": {} } })).await;
    let wrong = wrong.fails(422, "Invalid");
    assert_eq!(
        fields(&wrong),
        [
            "spec.origin.resource",
            "spec.origin.name",
            "spec.target.resource",
            "spec.target.name",
            "spec.purpose",
        ]
    );
    let robot =
        with(question("prod", "local"), "/spec/subject", json!({ "kind": "Robot", "name": "x" }));
    assert_eq!(fields(&house.post(REVIEWS, robot).await.fails(422, "Invalid")), ["spec.subject"]);
}

#[tokio::test]
async fn r131_the_nearest_miss_is_for_those_who_may_explain() {
    let (house, contour) = town().await;
    assert_eq!(house.post_as(&contour, REVIEWS, &question("prod", "local")).await.code, 403);
    let rules = [rule(&["create"], "reference.tenure.dev", "referencereviews", &[])];
    let asks = user(&house, "asks", "", &rules).await;
    let rules = [
        rule(&["create"], "reference.tenure.dev", "referencereviews", &[]),
        rule(&["create"], "reference.tenure.dev", "referencereviews/explain", &[]),
    ];
    let explains = user(&house, "explains", "", &rules).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    house.made(GRANTS, grant("near", &["other"])).await;
    let status = async |who: &Peer, name: &str| {
        let body = question("prod-tls", name);
        house.post_as(who, REVIEWS, &body).await.with(201)["status"].clone()
    };
    let plain = status(&asks, "acme-tls").await;
    assert_eq!((&plain["allowed"], &plain["code"]), (&json!(false), &json!("GRANT")));
    assert!(plain.get("nearest").is_none() && !plain.to_string().contains("near"), "{plain}");
    let full = status(&explains, "acme-tls").await;
    assert_eq!(
        (&full["nearest"]["name"], &full["nearest"]["field"]),
        (&json!("near"), &json!("target.names"))
    );
    assert!(full["explanation"].as_str().unwrap().contains("prod-tls/near"));
    // Whether the target exists makes no difference.
    house.delete(&format!("{TLS}/acme-tls")).await.with(200);
    let gone = status(&asks, "acme-tls").await;
    assert_eq!((&gone["code"], &gone["reason"]), (&plain["code"], &plain["reason"]));
}

async fn reads(house: &House, who: &Peer, path: &str) -> u16 {
    house.ask_as(who, "GET", path, &[("user-agent", "contour/1.2")], "").await.code
}

#[tokio::test]
async fn r135_reads_of_what_may_be_referenced_are_recorded() {
    let settings = ReferenceOptions { record_access: true, ..ReferenceOptions::default() };
    let (house, contour) = town_in(House::referring(settings).await).await;
    let rules = [rule(&["get", "list", "watch"], "", "secrets", &[])];
    user(&house, "contour", "prod", &rules).await;
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local")).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local")).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/other")).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{TLS}/other")).await, 403);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}?limit=1")).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}?limit=500&continue=x")).await, 400);
    assert_eq!(reads(&house, &contour, "/api/v1/namespaces/prod/pods").await, 403);
    let shown = house.get(&format!("{RECORDS}?user=contour")).await.with(200);
    let brief: Vec<(String, u64, u64, u64, bool)> = shown["reads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|read| {
            assert_eq!(
                (&read["user"], &read["userAgent"]),
                (&json!("contour"), &json!("contour/1.2"))
            );
            assert_eq!((&read["group"], &read["resource"]), (&json!(""), &json!("secrets")));
            assert!(read["first"].as_str().unwrap() >= shown["since"].as_str().unwrap());
            assert!(read["last"].as_str().unwrap() >= read["first"].as_str().unwrap());
            let text = |member: &str| read[member].as_str().unwrap();
            let number = |member: &str| read[member].as_u64().unwrap();
            let what = format!("{} {}/{}", text("verb"), text("namespace"), text("name"));
            let referenced = read["referenced"].as_bool().unwrap();
            (what, number("count"), number("denied"), number("fresh"), referenced)
        })
        .collect();
    assert_eq!(
        brief,
        [
            ("get prod/local".to_owned(), 2, 0, 0, true),
            ("get prod/other".to_owned(), 1, 0, 0, false),
            ("get prod-tls/other".to_owned(), 0, 1, 0, false),
            ("list prod/".to_owned(), 2, 0, 1, false),
        ]
    );
    assert_eq!(shown["dropped"], 0);
    // Administrators see it, and whom they let.
    assert_eq!(reads(&house, &contour, RECORDS).await, 403);
    let rules = [json!({ "verbs": ["get"], "nonResourceURLs": [RECORDS] })];
    let auditor = user(&house, "auditor", "", &rules).await;
    assert_eq!(reads(&house, &auditor, RECORDS).await, 200);
}

#[tokio::test]
async fn r135_nothing_is_recorded_unless_somebody_asked_for_it() {
    let (house, _) = town().await;
    assert_eq!(house.get(RECORDS).await.code, 404);
    let settings =
        ReferenceOptions { authorizer: AuthorizerMode::Observe, ..ReferenceOptions::default() };
    let (house, contour) = town_in(House::referring(settings).await).await;
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local")).await, 403);
    let shown = house.get(&format!("{RECORDS}?user=contour")).await.with(200);
    assert_eq!(shown["reads"][0]["referenced"], true);
    assert_eq!((&shown["reads"][0]["denied"], &shown["reads"][0]["count"]), (&json!(1), &json!(0)));
}
