//! Rules of spec/referential-authorization.md: what the server says of references beside its answers (R65, R72, R76,
//! R79, R82, R83, R108, R136).

use serde_json::json;
use tenure_server::Peer;
use tenure_server::reference::{AuthorizerMode, ReferenceOptions};
use tenure_world::{Draft, Proposal};

use super::access::{LOCAL, TLS, gateway, gateways_path, town, town_in, watched};
use super::*;

const EVENTS: &str = "/api/v1/namespaces/prod/events";

/// Whether metrics have this line.
async fn measured(house: &House, line: &str) -> bool {
    let text = house.get("/metrics").await;
    text.text().lines().any(|shown| shown == line)
}

async fn reads(house: &House, who: &Peer, path: &str, headers: &[(&str, &str)]) -> u16 {
    house.ask_as(who, "GET", path, headers, "").await.code
}

#[tokio::test]
async fn r136_metrics_count_decisions_and_show_how_much_there_is() {
    let (house, contour) = town().await;
    for _ in 0..2 {
        assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local"), &[]).await, 200);
    }
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/other"), &[]).await, 403);
    assert_eq!(reads(&house, &contour, "/apis/apps/v1/namespaces/a/deployments/b", &[]).await, 403);
    // Whole collections and the administrator are nobody's decision here.
    assert_eq!(reads(&house, &contour, LOCAL, &[]).await, 403);
    house.get(&format!("{LOCAL}/local")).await.with(200);
    let envoy = with(gateway("envoy"), "/metadata/name", json!("envoy"));
    house.made(&gateways_path(), envoy).await;
    let waits = json!([{ "tls": { "certificateRefs": [
        { "kind": "Secret", "name": "a", "namespace": "nowhere" },
    ] } }]);
    let waits = with(gateway("contour"), "/spec/listeners", waits);
    house.made(&gateways_path(), with(waits, "/metadata/name", json!("waits"))).await;
    for line in [
        r#"tenure_ref_decisions_total{decision="allow",verb="get",resource="secrets"} 2"#,
        r#"tenure_ref_decisions_total{decision="no_opinion",verb="get",resource="secrets"} 1"#,
        r#"tenure_ref_decisions_total{decision="no_opinion",verb="get",resource="other"} 1"#,
        "tenure_ref_decision_seconds_count 4",
        r#"tenure_ref_edges{origin="gateways.gateway.networking.k8s.io",state="live"} 2"#,
        r#"tenure_ref_edges{origin="gateways.gateway.networking.k8s.io",state="class_closed"} 2"#,
        r#"tenure_ref_edges{origin="gateways.gateway.networking.k8s.io",state="waiting_grant"} 1"#,
        r#"tenure_ref_objects{kind="ClusterReferenceConsumer"} 1"#,
        r#"tenure_ref_objects{kind="ReferenceStrategy"} 1"#,
        r#"tenure_ref_objects{kind="ReferenceGrant"} 1"#,
        r#"tenure_ref_objects{kind="origin"} 3"#,
        "tenure_ref_index_staleness_seconds 0",
        "tenure_ref_revocation_lag_seconds_count 0",
        "tenure_ref_invalid_objects 0",
        r#"tenure_ref_findings{finding="authors-choose"} 1"#,
        r#"tenure_ref_findings{finding="self-referencing-consumer"} 0"#,
        r#"tenure_ref_findings{finding="unused-grant"} 0"#,
    ] {
        assert!(measured(&house, line).await, "{line}\n{}", house.get("/metrics").await.text());
    }
    let text = house.get("/metrics").await;
    let applied = text.text().lines().find(|line| line.contains("index_apply_seconds_count"));
    assert_ne!(applied, Some("tenure_ref_index_apply_seconds_count 0"));
    // No label names a target.
    let ours = text.text().lines().filter(|line| line.starts_with("tenure_ref_"));
    assert!(ours.into_iter().all(|line| !line.contains("local") && !line.contains("acme")));
}

#[tokio::test]
async fn r136_the_lag_of_a_revocation_is_measured() {
    let (house, contour) = town().await;
    let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
    let mut watch = watched(&house, &contour, &path).await;
    watch.expect(&["ADDED acme-tls"]).await;
    house.delete(&format!("{GRANTS}/prod-gateways")).await.with(200);
    assert_eq!(watch.next().await.unwrap()["type"], "ERROR");
    assert!(watch.next().await.is_none());
    assert!(measured(&house, "tenure_ref_revocation_lag_seconds_count 1").await);
}

#[tokio::test]
async fn r65_r136_a_consumer_that_may_write_its_origins_is_found() {
    let (house, _) = town().await;
    let group = "gateway.networking.k8s.io";
    user(&house, "contour", "", &[rule(&["patch"], group, "gateways/status", &[])]).await;
    let none = r#"tenure_ref_findings{finding="self-referencing-consumer"} 0"#;
    assert!(measured(&house, none).await);
    let rules = json!({ "rules": [rule(&["patch"], group, "gateways", &[])] });
    house.merge(&format!("{RBAC}/clusterroles/contour"), rules).await.with(200);
    let one = r#"tenure_ref_findings{finding="self-referencing-consumer"} 1"#;
    assert!(measured(&house, one).await);
}

#[tokio::test]
async fn d15_r136_observing_counts_what_roles_allow_as_well() {
    let settings =
        ReferenceOptions { authorizer: AuthorizerMode::Observe, ..ReferenceOptions::default() };
    let (house, contour) = town_in(House::referring(settings).await).await;
    user(&house, "contour", "prod", &[rule(&["get"], "", "secrets", &[])]).await;
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local"), &[]).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/other"), &[]).await, 200);
    assert_eq!(reads(&house, &contour, &format!("{TLS}/acme-tls"), &[]).await, 403);
    for line in [
        r#"tenure_ref_decisions_total{decision="allow",verb="get",resource="secrets"} 2"#,
        r#"tenure_ref_decisions_total{decision="no_opinion",verb="get",resource="secrets"} 1"#,
    ] {
        assert!(measured(&house, line).await, "{line}");
    }
}

#[tokio::test]
async fn r72_an_origin_with_too_many_references_counts_for_nothing_and_says_so() {
    let (house, contour) = town().await;
    let refs: Vec<Value> =
        (0..10_000).map(|at| json!({ "kind": "Secret", "name": format!("s{at}") })).collect();
    let listeners = json!([{ "tls": { "certificateRefs": refs } }]);
    let huge = with(gateway("contour"), "/spec/listeners", listeners);
    house.made(&gateways_path(), with(huge, "/metadata/name", json!("huge"))).await;
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/s0"), &[]).await, 403);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local"), &[]).await, 200);
    let events =
        house.until_looks(EVENTS, |list| !list["items"].as_array().unwrap().is_empty()).await;
    let event = &events["items"][0];
    assert_eq!(event["reason"], "ReferenceLimitExceeded");
    assert_eq!((&event["type"], &event["count"]), (&json!("Warning"), &json!(1)));
    let about = &event["involvedObject"];
    assert_eq!((&about["kind"], &about["name"]), (&json!("Gateway"), &json!("huge")));
    let stored = house.get(&format!("{}/huge", gateways_path())).await.json;
    assert_eq!(about["uid"], stored["metadata"]["uid"]);
    assert!(event["message"].as_str().unwrap().contains("\"gateways\""), "{event}");
    assert!(measured(&house, "tenure_ref_limit_exceeded_total 1").await);
    // The same once more makes no second event.
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    house.merge(&format!("{}/huge", gateways_path()), label).await.with(200);
    assert!(measured(&house, "tenure_ref_limit_exceeded_total 2").await);
    assert_eq!(house.get(EVENTS).await.json["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn r79_an_expression_that_fails_leads_to_nothing_and_says_so() {
    let (house, contour) = town().await;
    let found = json!([{
        "expression": "[self.spec.missing]", "target": secrets(), "purpose": "tls-serving",
    }]);
    let failing = with(strategy("failing"), "/versions/0/references", found);
    house.made(STRATEGIES, failing).await;
    let events =
        house.until_looks(EVENTS, |list| !list["items"].as_array().unwrap().is_empty()).await;
    assert_eq!(events["items"][0]["reason"], "ReferenceExpressionFailed");
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local"), &[]).await, 200);
}

#[tokio::test]
async fn r76_names_that_are_none_are_dropped_and_counted() {
    let (house, _) = town().await;
    let listeners = json!([{ "tls": { "certificateRefs": [
        { "kind": "Secret", "name": "a/b" },
        { "kind": "Secret", "name": ".." },
        { "kind": "Secret", "name": "a", "namespace": "No Label" },
        { "kind": "Secret", "name": 7 },
    ] } }]);
    let odd = with(gateway("contour"), "/spec/listeners", listeners);
    house.made(&gateways_path(), with(odd, "/metadata/name", json!("odd"))).await;
    for line in [
        r#"tenure_ref_dropped_references_total{reason="invalid_name"} 2"#,
        r#"tenure_ref_dropped_references_total{reason="invalid_namespace"} 1"#,
        r#"tenure_ref_dropped_references_total{reason="not_a_name"} 1"#,
    ] {
        assert!(measured(&house, line).await, "{line}");
    }
}

#[tokio::test]
async fn r83_what_cannot_be_understood_is_counted_and_poisons_nothing() {
    let (house, contour) = town().await;
    let robot = with(consumer("robot"), "/subject/kind", json!("Robot"));
    let Value::Object(robot) = robot else { unreachable!() };
    let kind = "ClusterReferenceConsumer";
    let draft = Draft::encode(kind, "reference.authorization.k8s.io/v1alpha1", &robot);
    let key = "/registry/clusterreferenceconsumers/robot";
    house.world.propose(Proposal::create(key.into(), draft)).await.unwrap();
    assert!(measured(&house, "tenure_ref_invalid_objects 1").await);
    assert_eq!(reads(&house, &contour, &format!("{LOCAL}/local"), &[]).await, 200);
}

#[tokio::test]
async fn r82_impersonation_is_judged_as_the_impersonated_and_nothing_else_about_a_user_counts() {
    let (house, contour) = town().await;
    let local = format!("{LOCAL}/local");
    let rules = [json!({
        "verbs": ["impersonate"], "apiGroups": ["", "authentication.k8s.io"],
        "resources": ["users", "groups", "uids", "userextras/scopes"],
    })];
    let helper = user(&house, "helper", "", &rules).await;
    let as_contour = ("impersonate-user", "contour");
    // The helper may read nothing; as contour it may read what contour may, and nothing more.
    assert_eq!(reads(&house, &helper, &local, &[]).await, 403);
    assert_eq!(reads(&house, &helper, &local, &[as_contour]).await, 200);
    assert_eq!(reads(&house, &helper, &format!("{LOCAL}/other"), &[as_contour]).await, 403);
    // Whoever consumes loses its rights while it acts as somebody else.
    let acts = json!({
        "metadata": { "name": "acts" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "helper" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "contour" }],
    });
    house.made(&format!("{RBAC}/clusterrolebindings"), acts).await;
    assert_eq!(reads(&house, &contour, &local, &[]).await, 200);
    assert_eq!(reads(&house, &contour, &local, &[("impersonate-user", "nobody")]).await, 403);
    // Neither uid nor extra nor groups that nobody names give or take anything.
    for more in [
        ("impersonate-uid", "7"),
        ("impersonate-extra-scopes", "none"),
        ("impersonate-group", "some"),
    ] {
        assert_eq!(reads(&house, &helper, &local, &[as_contour, more]).await, 200, "{more:?}");
        let other = ("impersonate-user", "nobody");
        assert_eq!(reads(&house, &helper, &local, &[other, more]).await, 403, "{more:?}");
    }
    let review = |extra: Value| {
        json!({ "spec": { "user": "contour", "uid": "7", "extra": extra, "resourceAttributes": {
            "verb": "get", "resource": "secrets", "namespace": "prod", "name": "local",
        } } })
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for extra in [json!({}), json!({ "scopes": ["none"], "audience": ["elsewhere"] })] {
        assert_eq!(house.made(path, review(extra)).await["status"]["allowed"], true);
    }
}

#[tokio::test]
async fn r108_the_check_of_authors_holds_for_dry_runs_and_for_no_other_kind() {
    let house = house().await;
    let secret = rule(&["create"], "", "configmaps", &[]);
    let alice = user(&house, "alice", "prod-tls", &[writes(), secret]).await;
    // It has no effect but its answer, so a write that is only tried is checked as any other.
    let dry = format!("{GRANTS}?dryRun=All");
    house.post_as(&alice, &dry, &grant("g", &["acme-tls"])).await.fails(403, "Forbidden");
    house.post_as(&alice, &dry, &grant("g", &[])).await.with(201);
    assert_eq!(house.get(&format!("{GRANTS}/g")).await.code, 404);
    // Other kinds are not asked about, whatever they say.
    let maps = "/api/v1/namespaces/prod-tls/configmaps";
    let looks = json!({ "metadata": { "name": "m" }, "data": { "target": "secrets/acme-tls" } });
    house.post_as(&alice, maps, &looks).await.with(201);
}
