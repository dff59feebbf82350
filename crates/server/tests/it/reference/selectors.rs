//! Rules of spec/referential-authorization.md, decisions D9 and D13: grants that select namespaces by labels, and
//! consumers that select classes by their controller, each behind a feature that is off unless asked for.

use serde_json::json;
use tenure_server::Peer;
use tenure_server::reference::{ReferenceOptions, Selectors};

use super::access::{LOCAL, TLS, gateway, gateways_path, town, town_in, watched};
use super::*;

const PROD: &str = "/api/v1/namespaces/prod";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const CONTROLLER: &str = "example.com/contour";

async fn selecting_house() -> House {
    House::referring(ReferenceOptions { selectors: Selectors::ALL, ..ReferenceOptions::default() })
        .await
}

/// The town, where the grant selects namespaces by labels instead of naming one.
async fn selecting_town(selector: Value) -> (House, Peer) {
    let (house, contour) = town_in(selecting_house().await).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    house.made(GRANTS, selecting("teams", selector)).await;
    (house, contour)
}

fn selecting(name: &str, selector: Value) -> Value {
    let without = with(grant(name, &["acme-tls"]), "/origin/namespace", Value::Null);
    with(without, "/origin/namespaceSelector", selector)
}

fn web() -> Value {
    json!({ "matchLabels": { "team": "web" } })
}

async fn label(house: &House, labels: Value) {
    house.merge(PROD, json!({ "metadata": { "labels": labels } })).await.with(200);
}

/// The causes of a refusal: field and message.
fn causes(answer: Answer) -> Vec<String> {
    let status = answer.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    causes.map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"]))).collect()
}

#[tokio::test]
async fn d9_labels_grant_and_revoke_with_the_acknowledged_write() {
    let (house, contour) = selecting_town(web()).await;
    let path = format!("{TLS}/acme-tls");
    for round in 0..20 {
        assert_eq!(house.reads(&contour, &path).await, 403, "{round}");
        label(&house, json!({ "team": "web" })).await;
        assert_eq!(house.reads(&contour, &path).await, 200, "{round}");
        label(&house, json!({ "team": if round % 2 == 0 { json!("mail") } else { Value::Null } }))
            .await;
    }
    assert_eq!(house.reads(&contour, &format!("{LOCAL}/local")).await, 200, "needs no grant");
}

#[tokio::test]
async fn d9_a_change_of_labels_ends_an_open_watch() {
    let (house, contour) = selecting_town(web()).await;
    label(&house, json!({ "team": "web" })).await;
    let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    label(&house, json!({ "other": "label" })).await;
    let touch = |value: &str| json!({ "metadata": { "labels": { "a": value } } });
    house.merge(&format!("{TLS}/acme-tls"), touch("b")).await.with(200);
    watch.expect(&["MODIFIED acme-tls"]).await;
    label(&house, json!({ "team": "mail" })).await;
    house.merge(&format!("{TLS}/acme-tls"), touch("c")).await.with(200);
    let last = watch.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn d9_namespaces_come_and_go() {
    let own = json!({ "matchLabels": { "kubernetes.io/metadata.name": "blue" } });
    let (house, contour) = selecting_town(own).await;
    let path = format!("{TLS}/acme-tls");
    for round in 0..3 {
        assert_eq!(house.reads(&contour, &path).await, 403, "{round}");
        house.made(NAMESPACES, named("blue")).await;
        house.made(&gateways_path().replace("/prod/", "/blue/"), gateway("contour")).await;
        assert_eq!(house.reads(&contour, &path).await, 200, "{round}");
        house.delete(&format!("{NAMESPACES}/blue")).await.with(200);
        house.until(&format!("{NAMESPACES}/blue"), 404).await;
    }
}

#[tokio::test]
async fn d9_the_empty_selector_means_all_and_is_told() {
    let (house, contour) = selecting_town(web()).await;
    let lines = house.told(GRANTS, selecting("all", json!({}))).await;
    assert!(
        lines.contains(&"origin.namespaceSelector: is empty, which means all namespaces".into()),
        "{lines:?}"
    );
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 200);
    let stored = house.get(&format!("{GRANTS}/all")).await.with(200);
    assert_eq!(stored["origin"]["namespaceSelector"], json!({}));
    // Who asks for a table sees what is selected.
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let list = house.ask("GET", GRANTS, &[("accept", table)], "").await.with(200);
    let rows = list["rows"].as_array().unwrap().iter();
    let from: Vec<&str> = rows.map(|row| row["cells"][2].as_str().unwrap()).collect();
    assert_eq!(from, ["<all>", "team=web"]);
}

#[tokio::test]
async fn d9_many_namespaces_are_told_before_the_author_hears_of_it() {
    let (house, contour) = town_in(selecting_house().await).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    for number in 0..100 {
        house.made(NAMESPACES, named(&format!("n{number}"))).await;
    }
    label(&house, json!({ "team": "web" })).await;
    house.made(GRANTS, selecting("teams", web())).await;
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 200);
    label(&house, json!({ "team": null })).await;
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 403);
}

#[tokio::test]
async fn d9_what_is_wrong_is_told_with_its_field() {
    let house = furnished(selecting_house().await).await;
    serve_gateways(&house, &["v1"]).await;
    let both = with(grant("g", &["s"]), "/origin/namespaceSelector", json!({}));
    let said = causes(house.post(GRANTS, both).await);
    assert!(said[0].starts_with("origin.namespaceSelector: Invalid value: "), "{said:?}");
    let odd = json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
    let said = causes(house.post(GRANTS, selecting("g", odd)).await);
    assert!(said[0].starts_with("origin.namespaceSelector.matchExpressions[0].operator: "));
    let text = house.post(GRANTS, selecting("g", json!("team=web"))).await;
    text.fails(400, "BadRequest");
    let neither = with(grant("g", &["s"]), "/origin/namespace", Value::Null);
    let said = causes(house.post(GRANTS, neither).await);
    assert!(said[0].starts_with("origin.namespace: Required value"), "{said:?}");
}

#[tokio::test]
async fn d9_without_the_feature_the_field_is_refused() {
    let (house, contour) = town().await;
    let said = causes(house.post(GRANTS, selecting("g", json!({}))).await);
    let gate = "origin.namespaceSelector: Forbidden: needs the feature gate GrantNamespaceSelector";
    assert_eq!(said, [gate]);
    let patch = json!({ "origin": { "namespace": null, "namespaceSelector": {} } });
    assert_eq!(causes(house.merge(&format!("{GRANTS}/prod-gateways"), patch).await), [gate]);
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 200);
}

#[tokio::test]
async fn d9_an_author_needs_the_verb_to_select() {
    let house = furnished(selecting_house().await).await;
    let group = "reference.authorization.k8s.io";
    let read = rule(&["get", "list", "watch"], "", "secrets", &["acme-tls"]);
    let alice = user(&house, "alice", "prod-tls", &[writes(), read.clone()]).await;
    house.post_as(&alice, GRANTS, &grant("named", &["acme-tls"])).await.with(201);
    let answer = house.post_as(&alice, GRANTS, &selecting("g", web())).await;
    let refused = answer.fails(403, "Forbidden")["message"].as_str().unwrap().to_owned();
    assert_eq!(
        refused,
        "referencegrants.reference.authorization.k8s.io \"g\" is forbidden: user \"alice\" \
         (groups=[\"system:authenticated\"]) cannot select namespaces of origins without the verb \
         \"grant-selector\" on referencegrants.reference.authorization.k8s.io in namespace \"prod-tls\""
    );
    let selects = rule(&["grant-selector"], group, "referencegrants", &[]);
    let bob = user(&house, "bob", "prod-tls", &[writes(), selects.clone()]).await;
    let answer = house.post_as(&bob, GRANTS, &selecting("g", web())).await;
    let refused = answer.fails(403, "Forbidden")["message"].as_str().unwrap().to_owned();
    assert!(refused.contains("cannot grant access not held: "), "{refused}");
    assert!(!refused.contains("grant-selector"), "{refused}");
    let carol = user(&house, "carol", "prod-tls", &[writes(), read, selects]).await;
    let made = house.post_as(&carol, GRANTS, &selecting("g", web())).await.with(201);
    // Every change is a grant anew; what only upkeep changes is not, and whoever may escalate passes.
    let wider = with(made.clone(), "/origin/namespaceSelector", json!({}));
    house.put_as(&alice, &format!("{GRANTS}/g"), &wider).await.fails(403, "Forbidden");
    let kept = with(made, "/metadata/finalizers", json!(["example.com/a"]));
    house.put_as(&alice, &format!("{GRANTS}/g"), &kept).await.with(200);
    let escalates = rule(&["escalate"], group, "referencegrants", &[]);
    let dave = user(&house, "dave", "prod-tls", &[writes(), escalates]).await;
    house.post_as(&dave, GRANTS, &selecting("h", web())).await.with(201);
}

#[tokio::test]
async fn d9_a_review_says_that_labels_do_not_match() {
    let (house, _) = selecting_town(web()).await;
    let review = json!({ "spec": {
        "origin": {
            "group": "gateway.networking.k8s.io", "resource": "gateways",
            "namespace": "prod", "name": "web",
        },
        "target": { "group": "", "resource": "secrets", "namespace": "prod-tls", "name": "acme-tls" },
        "purpose": "tls-serving",
    } });
    let path = "/apis/reference.tenure.dev/v1alpha1/referencereviews";
    let said = house.made(path, review.clone()).await["status"].clone();
    assert_eq!((&said["allowed"], &said["code"]), (&json!(false), &json!("GRANT")));
    assert_eq!(said["nearest"]["field"], "origin.namespaceSelector");
    assert!(said["explanation"].as_str().unwrap().contains("labels of namespace `prod`"), "{said}");
    label(&house, json!({ "team": "web" })).await;
    let said = house.made(path, review).await["status"].clone();
    assert_eq!(said["allowed"], true);
    assert_eq!(said["grants"], json!([{ "namespace": "prod-tls", "name": "teams" }]));
}

/// A consumer of the classes of a controller, and no others.
fn classifying() -> Value {
    let selector = json!({
        "group": "networking.k8s.io", "resource": "ingressclasses",
        "controllerPath": ".spec.controller", "controllerName": CONTROLLER,
    });
    let user = json!({ "kind": "User", "name": "contour" });
    let consumer = with(consumer("contour-gateway"), "/subject", user);
    with(with(consumer, "/classNames", Value::Null), "/classSelector", selector)
}

fn class(name: &str, controller: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "controller": controller } })
}

/// The town, where the consumer selects classes; the Gateway is of class `inner`.
async fn classifying_town() -> (House, Peer) {
    let (house, contour) = town_in(selecting_house().await).await;
    house.delete(&format!("{CONSUMERS}/contour-gateway")).await.with(200);
    house.made(CONSUMERS, classifying()).await;
    let inner = json!({ "spec": { "gatewayClassName": "inner" } });
    house.merge(&format!("{}/web", gateways_path()), inner).await.with(200);
    (house, contour)
}

#[tokio::test]
async fn d13_classes_follow_their_objects() {
    let (house, contour) = classifying_town().await;
    let path = format!("{LOCAL}/local");
    assert_eq!(house.reads(&contour, &path).await, 403, "nothing is selected");
    house.made(CLASSES, class("inner", CONTROLLER)).await;
    assert_eq!(house.reads(&contour, &path).await, 200);
    let watch = format!("{LOCAL}?watch=1&fieldSelector=metadata.name%3Dlocal");
    let mut watch = watched(&house, &contour, &watch).await;
    watch.expect(&["ADDED local"]).await;
    house.made(CLASSES, class("outer", CONTROLLER)).await;
    house.delete(&format!("{CLASSES}/inner")).await.with(200);
    assert_eq!(house.reads(&contour, &path).await, 403);
    let last = watch.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
    // One of the same name belongs to whoever it names.
    house.made(CLASSES, class("inner", "example.com/other")).await;
    assert_eq!(house.reads(&contour, &path).await, 403);
    // What is listed and what is selected unite.
    let listed = json!({ "classNames": ["inner"] });
    house.merge(&format!("{CONSUMERS}/contour-gateway"), listed).await.with(200);
    assert_eq!(house.reads(&contour, &path).await, 200);
}

#[tokio::test]
async fn d13_r39_a_consumer_that_selects_is_not_told_that_it_lists_nothing() {
    let (house, _) = classifying_town().await;
    let lines = house.told(CONSUMERS, with(classifying(), "/metadata/name", json!("second"))).await;
    assert!(!lines.iter().any(|line| line.starts_with("classNames: ")), "{lines:?}");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let list = house.ask("GET", CONSUMERS, &[("accept", table)], "").await.with(200);
    assert_eq!(list["rows"][0]["cells"][2], CONTROLLER);
}

#[tokio::test]
async fn d13_r105_authors_are_checked_as_ever() {
    let house = furnished(selecting_house().await).await;
    let alice = user(&house, "alice", "", &[writes()]).await;
    house.post_as(&alice, CONSUMERS, &classifying()).await.fails(403, "Forbidden");
    let read = rule(&["get", "list", "watch"], "", "secrets", &[]);
    let bob = user(&house, "bob", "", &[writes(), read]).await;
    house.post_as(&bob, CONSUMERS, &classifying()).await.with(201);
}

#[tokio::test]
async fn d13_without_the_feature_the_field_is_refused() {
    let (house, _) = town().await;
    let said = causes(house.post(CONSUMERS, classifying()).await);
    let gate = "classSelector: Forbidden: needs the feature gate ConsumerClassSelector";
    assert_eq!(said, [gate]);
}

#[tokio::test]
async fn d13_what_is_wrong_is_told_with_its_field() {
    let house = furnished(selecting_house().await).await;
    let wild = with(classifying(), "/classSelector/controllerPath", json!(".spec.parameters[*]"));
    let said = causes(house.post(CONSUMERS, wild).await);
    assert!(said[0].starts_with("classSelector.controllerPath: Invalid value: "), "{said:?}");
    let inside = with(classifying(), "/classSelector/resource", json!("ingresses"));
    let said = causes(house.post(CONSUMERS, inside).await);
    assert!(said[0].starts_with("classSelector.resource: Invalid value: "), "{said:?}");
    let empty = with(classifying(), "/classSelector", json!({}));
    assert_eq!(causes(house.post(CONSUMERS, empty).await).len(), 4);
}
