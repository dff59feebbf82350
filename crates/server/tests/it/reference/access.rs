//! Rules of spec/referential-authorization.md: what references let a consumer read, in this server (R90–R97,
//! R104, R120–R123, R130, R155).

use serde_json::json;
use tenure_server::Peer;

use super::*;

pub const TLS: &str = "/api/v1/namespaces/prod-tls/secrets";
pub const LOCAL: &str = "/api/v1/namespaces/prod/secrets";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// A house where `contour` serves Gateways of its class; the Gateway `web` refers to the Secret `local` beside it
/// and to `acme-tls` in another namespace, for which there is a grant.
pub async fn town() -> (House, Peer) {
    town_in(House::new().await).await
}

/// The same in a house of another kind.
pub async fn town_in(house: House) -> (House, Peer) {
    let house = furnished(house).await;
    serve_gateways(&house, &["v1"]).await;
    for (path, name) in [(TLS, "acme-tls"), (TLS, "other"), (LOCAL, "local"), (LOCAL, "other")] {
        house.made(path, named(name)).await;
    }
    house.made(STRATEGIES, strategy("gateways")).await;
    let user = json!({ "kind": "User", "name": "contour" });
    house.made(CONSUMERS, with(consumer("contour-gateway"), "/subject", user)).await;
    house.made(GRANTS, grant("prod-gateways", &["acme-tls"])).await;
    house.made(&gateways_path(), gateway("contour")).await;
    (house, peer("contour", &[]))
}

pub fn gateways_path() -> String {
    "/apis/gateway.networking.k8s.io/v1/namespaces/prod/gateways".to_owned()
}

pub fn gateway(class: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": "web" },
        "spec": {
            "gatewayClassName": class,
            "listeners": [{ "tls": { "certificateRefs": [
                { "kind": "Secret", "name": "local" },
                { "kind": "Secret", "name": "acme-tls", "namespace": "prod-tls" },
            ] } }],
        },
    })
}

impl House {
    pub async fn reads(&self, who: &Peer, path: &str) -> u16 {
        self.ask_as(who, "GET", path, &[], "").await.code
    }
}

pub async fn watched(house: &House, who: &Peer, path: &str) -> Stream {
    let response = house.send(who, build("GET", path, &[("accept", JSON)], "")).await;
    assert_eq!(response.status(), 200, "{path}");
    Stream::of(response.into_body())
}

#[tokio::test]
async fn r90_r91_r92_r93_r155_a_consumer_reads_what_is_referenced_and_nothing_else() {
    let (house, contour) = town().await;
    for (path, code) in [
        (format!("{LOCAL}/local"), 200),
        (format!("{LOCAL}?fieldSelector=metadata.name=local"), 200),
        (format!("{LOCAL}?fieldSelector=metadata.name%3Dlocal,type%3DOpaque"), 200),
        (format!("{TLS}/acme-tls"), 200),
        (format!("{TLS}?fieldSelector=metadata.name=acme-tls"), 200),
        (format!("{LOCAL}/other"), 403),
        (format!("{TLS}/other"), 403),
        (format!("{TLS}/nobody-has-it"), 403),
        (LOCAL.to_owned(), 403),
        (format!("{LOCAL}?fieldSelector=metadata.name!=local"), 403),
        (format!("{LOCAL}?labelSelector=a=b"), 403),
        ("/api/v1/secrets?fieldSelector=metadata.name=local".to_owned(), 403),
        ("/api/v1/namespaces/prod/configmaps/local".to_owned(), 403),
    ] {
        assert_eq!(house.reads(&contour, &path).await, code, "{path}");
    }
    let one = format!("{LOCAL}?fieldSelector=metadata.name=local");
    let list = house.ask_as(&contour, "GET", &one, &[], "").await.with(200);
    assert_eq!(names(&list), ["local"]);
    for method in ["PUT", "PATCH", "DELETE"] {
        let answer = house.ask_as(&contour, method, &format!("{LOCAL}/local"), &[], "{}").await;
        assert_eq!(answer.code, 403, "{method}");
    }
    for path in [
        format!("{LOCAL}?watch=1&fieldSelector=metadata.name%3Dlocal"),
        "/api/v1/watch/namespaces/prod/secrets/local".to_owned(),
    ] {
        watched(&house, &contour, &path).await.expect(&["ADDED local"]).await;
    }
    let stranger = peer("stranger", &[]);
    assert_eq!(house.reads(&stranger, &format!("{LOCAL}/local")).await, 403);
}

#[tokio::test]
async fn r120_r122_access_ends_with_any_leg_of_the_join() {
    let (house, contour) = town().await;
    let (local, far) = (format!("{LOCAL}/local"), format!("{TLS}/acme-tls"));
    let both = async || (house.reads(&contour, &local).await, house.reads(&contour, &far).await);
    assert_eq!(both().await, (200, 200));

    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    assert_eq!(both().await, (200, 403), "the grant");
    house.made(GRANTS, grant("again", &["acme-tls"])).await;
    assert_eq!(both().await, (200, 200));

    let web = format!("{}/web", gateways_path());
    house.merge(&web, json!({ "spec": { "gatewayClassName": "envoy" } })).await.with(200);
    assert_eq!(both().await, (403, 403), "the class");
    house.merge(&web, json!({ "spec": { "gatewayClassName": "contour" } })).await.with(200);
    assert_eq!(both().await, (200, 200));

    house.merge(&web, json!({ "spec": { "listeners": [] } })).await.with(200);
    assert_eq!(both().await, (403, 403), "the references");
    house.delete(&web).await.with(200);
    house.made(&gateways_path(), gateway("contour")).await;
    assert_eq!(both().await, (200, 200));

    house.delete(&format!("{STRATEGIES}/gateways")).await.with(200);
    assert_eq!(both().await, (403, 403), "the strategy");
    house.made(STRATEGIES, strategy("anew")).await;
    assert_eq!(both().await, (200, 200));

    house.delete(&format!("{CONSUMERS}/contour-gateway")).await.with(200);
    assert_eq!(both().await, (403, 403), "the consumer");
}

#[tokio::test]
async fn r43_access_revives_with_the_api_of_the_origin() {
    let (house, contour) = town().await;
    unserve_gateways(&house).await;
    assert_eq!(house.reads(&contour, &format!("{LOCAL}/local")).await, 403);
    serve_gateways(&house, &["v1"]).await;
    house.made(&gateways_path(), gateway("contour")).await;
    assert_eq!(house.reads(&contour, &format!("{LOCAL}/local")).await, 200);
}

#[tokio::test]
async fn open_watch_is_closed_on_revocation() {
    let (house, contour) = town().await;
    let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    // Something else is revoked: the watch goes on.
    house.made(GRANTS, grant("more", &["acme-tls", "other"])).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    house.merge(&format!("{TLS}/acme-tls"), label).await.with(200);
    watch.expect(&["MODIFIED acme-tls"]).await;
    // The last grant goes: the stream ends with 403, before any later change of the Secret.
    house.delete(&format!("{GRANTS}/more")).await.with(200);
    let label = json!({ "metadata": { "labels": { "a": "c" } } });
    house.merge(&format!("{TLS}/acme-tls"), label).await.with(200);
    let last = watch.next().await.unwrap();
    assert_eq!(last["type"], "ERROR");
    assert_eq!(last["object"]["code"], 403);
    assert_eq!(last["object"]["reason"], "Forbidden");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn r123_a_watch_that_roles_allow_too_stays_open() {
    let (house, contour) = town().await;
    let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    let rules = [rule(&["watch"], "", "secrets", &["acme-tls"])];
    user(&house, "contour", "prod-tls", &rules).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    house.merge(&format!("{TLS}/acme-tls"), label).await.with(200);
    watch.expect(&["MODIFIED acme-tls"]).await;
}

#[tokio::test]
async fn referential_access_cannot_be_regranted() {
    let (house, contour) = town().await;
    user(&house, "contour", "prod-tls", &[writes()]).await;
    assert_eq!(house.reads(&contour, &format!("{TLS}/acme-tls")).await, 200);
    let answer = house.post_as(&contour, GRANTS, &grant("mine", &["acme-tls"])).await;
    answer.fails(403, "Forbidden");
}

#[tokio::test]
async fn r104_what_is_held_by_roles_as_well_may_be_granted() {
    let (house, contour) = town().await;
    let rules = [writes(), rule(&["get", "list", "watch"], "", "secrets", &["acme-tls"])];
    user(&house, "contour", "prod-tls", &rules).await;
    house.post_as(&contour, GRANTS, &grant("mine", &["acme-tls"])).await.with(201);
}

fn review(spec: Value) -> Value {
    let mut review = json!({ "spec": { "user": "contour", "resourceAttributes": {
        "verb": "get", "resource": "secrets", "namespace": "prod-tls",
    } } });
    for (name, value) in spec.as_object().unwrap() {
        review["spec"]["resourceAttributes"][name] = value.clone();
    }
    review
}

#[tokio::test]
async fn r96_r130_reviews_say_yes_and_why() {
    let (house, _) = town().await;
    let status = house.made(REVIEWS, review(json!({ "name": "acme-tls" }))).await["status"].clone();
    assert_eq!(status["allowed"], true);
    assert_eq!(
        status["reason"],
        "reference: gateways.gateway.networking.k8s.io prod/web -> secrets prod-tls/acme-tls for \
         tls-serving, strategy gateways@v1, grant prod-tls/prod-gateways, consumer contour-gateway"
    );
    for other in [
        json!({ "name": "other" }),
        json!({}),
        json!({ "name": "acme-tls", "verb": "delete" }),
        json!({ "name": "acme-tls", "subresource": "status" }),
        json!({ "name": "*" }),
    ] {
        let status = house.made(REVIEWS, review(other.clone())).await["status"].clone();
        assert_eq!(status["allowed"], false, "{other}");
    }
}

#[tokio::test]
async fn r96_rules_list_the_names_that_are_referenced() {
    let (house, contour) = town().await;
    let body = json!({ "spec": { "namespace": "prod-tls" } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let status = house.post_as(&contour, path, &body).await.with(201)["status"].clone();
    assert_eq!(status["incomplete"], false);
    let rules = status["resourceRules"].as_array().unwrap();
    let own = json!({
        "verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": ["acme-tls"],
    });
    assert!(rules.contains(&own), "{rules:?}");
}

#[tokio::test]
async fn r94_a_review_may_name_the_object_by_a_selector() {
    let (house, _) = town().await;
    let selector = |requirements: Value| {
        review(json!({ "verb": "list", "fieldSelector": { "requirements": requirements } }))
    };
    let by_name = |operator: &str, values: Value| json!([{ "key": "metadata.name", "operator": operator, "values": values }]);
    for (body, allowed) in [
        (selector(by_name("In", json!(["acme-tls"]))), true),
        (selector(by_name("In", json!(["other"]))), false),
        (selector(by_name("NotIn", json!(["acme-tls"]))), false),
        (
            review(
                json!({ "verb": "list", "fieldSelector": { "rawSelector": "metadata.name=acme-tls" } }),
            ),
            false,
        ),
    ] {
        let status = house.made(REVIEWS, body.clone()).await["status"].clone();
        assert_eq!(status["allowed"], allowed, "{body}");
    }
}

#[tokio::test]
async fn r97_r131_a_refusal_tells_consumers_more_and_nobody_whether_it_exists() {
    let (house, contour) = town().await;
    let message = async |who: &Peer, path: &str| {
        let status = house.ask_as(who, "GET", path, &[], "").await.fails(403, "Forbidden");
        status["message"].as_str().unwrap().to_owned()
    };
    let there = message(&contour, &format!("{TLS}/other")).await;
    let absent = message(&contour, &format!("{TLS}/absent")).await;
    assert!(
        there.ends_with("in the namespace \"prod-tls\": no live reference for you leads there")
    );
    assert_eq!(there.replace("other", "absent"), absent);
    let stranger = message(&peer("stranger", &[]), &format!("{TLS}/other")).await;
    assert!(stranger.ends_with("in the namespace \"prod-tls\""), "{stranger}");
    let other_type = message(&contour, "/api/v1/namespaces/prod-tls/configmaps/x").await;
    assert!(other_type.ends_with("in the namespace \"prod-tls\""), "{other_type}");
}

#[tokio::test]
async fn r79_references_are_found_by_expressions() {
    let (house, contour) = town().await;
    house.delete(&format!("{STRATEGIES}/gateways")).await.with(200);
    let expression = "self.spec.listeners.filter(l, has(l.tls) && has(l.tls.certificateRefs)).map(l, \
                      l.tls.certificateRefs.filter(r, r.kind == 'Secret').map(r, {'name': r.name, \
                      'namespace': has(r.namespace) ? r.namespace : ''}))";
    let entry = "/versions/0/references/0";
    let by_expression = with(strategy("cel"), &format!("{entry}/expression"), json!(expression));
    house.made(STRATEGIES, with(by_expression, &format!("{entry}/path"), Value::Null)).await;
    for path in [format!("{LOCAL}/local"), format!("{TLS}/acme-tls")] {
        assert_eq!(house.reads(&contour, &path).await, 200, "{path}");
    }
    assert_eq!(house.reads(&contour, &format!("{TLS}/other")).await, 403);
}

#[tokio::test]
async fn r122_no_request_after_the_acknowledged_revocation_is_allowed() {
    let (house, contour) = town().await;
    let far = format!("{TLS}/acme-tls");
    for round in 0..50 {
        let name = format!("round-{round}");
        house.delete(&format!("{GRANTS}/prod-gateways")).await;
        assert_eq!(house.reads(&contour, &far).await, 403, "{round}");
        house.made(GRANTS, grant(&name, &["acme-tls"])).await;
        assert_eq!(house.reads(&contour, &far).await, 200, "{round}");
        house.delete(&format!("{GRANTS}/{name}")).await.with(200);
        assert_eq!(house.reads(&contour, &far).await, 403, "{round}");
    }
}

#[tokio::test]
async fn r123_a_node_that_watches_because_of_a_reference_loses_it_like_everybody() {
    let (house, _) = town().await;
    let user = json!({ "kind": "User", "name": "system:node:n" });
    house.made(CONSUMERS, with(consumer("node"), "/subject", user)).await;
    let node = peer("system:node:n", &["system:nodes"]);
    let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
    let mut watch = watched(&house, &node, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    let last = watch.next().await.unwrap();
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(403)));
    assert!(watch.next().await.is_none());
}
