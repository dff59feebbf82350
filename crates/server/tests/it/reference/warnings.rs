//! Rules of spec/referential-authorization.md: what is told about objects that are written all the same (R33–R43).

use serde_json::json;

use super::*;

fn starts(told: &[String], start: &str) -> bool {
    told.iter().any(|text| text.starts_with(start))
}

#[tokio::test]
async fn r33_r41_paths_that_may_surprise() {
    let house = house().await;
    let path = ".spec.refs[[?(@.kind != 'Secret')].name";
    let odd = with(strategy("s"), "/versions/0/references/0/path", json!(path));
    let told = house.told(STRATEGIES, odd).await;
    let field = "versions[0].references[0].path: ";
    assert!(starts(&told, &format!("{field}the path has an extra `[`")), "{told:?}");
    assert_eq!(told.iter().filter(|text| text.starts_with(field)).count(), 2, "{told:?}");
}

#[tokio::test]
async fn r34_r37_r43_what_is_not_served_is_told_and_revives() {
    let house = house().await;
    let told = house.told(STRATEGIES, strategy("s")).await;
    assert!(starts(
        &told,
        "origin: gateways.gateway.networking.k8s.io is not served by this cluster; has no effect until it is"
    ));
    serve_gateways(&house, &["v1"]).await;
    let told = house.told(STRATEGIES, strategy("t")).await;
    assert!(!starts(&told, "origin: gateways.gateway.networking.k8s.io is not"), "{told:?}");
    let other = with(strategy("u"), "/versions/0/version", json!("v2"));
    let told = house.told(STRATEGIES, other).await;
    assert!(starts(&told, "versions: none is served, so the strategy is inert"), "{told:?}");
    // The definition goes; what is stored stays, can be written, and is shown as inert again.
    unserve_gateways(&house).await;
    let stored = house.get(&format!("{STRATEGIES}/s")).await.with(200);
    assert_eq!(stored["origin"], gateways());
    let labelled = with(stored, "/metadata/labels", json!({ "a": "b" }));
    let answer = house.put(&format!("{STRATEGIES}/s"), labelled).await;
    assert!(starts(&texts(&answer), "origin: gateways"));
    answer.with(200);
    serve_gateways(&house, &["v1"]).await;
    let rows = house.get_as(STRATEGIES, TABLE).await.with(200)["rows"].clone();
    assert_eq!(rows[0]["cells"][2], "v1*");
}

#[tokio::test]
async fn r35_a_grant_of_no_names() {
    let house = house().await;
    let told = house.told(GRANTS, grant("g", &[])).await;
    assert!(starts(&told, "target.names: is empty, so the grant grants nothing"), "{told:?}");
}

#[tokio::test]
async fn r36_an_update_that_revokes() {
    let house = house().await;
    let made = house.made(GRANTS, grant("g", &["a", "b"])).await;
    let path = format!("{GRANTS}/g");
    let answer = house.put(&path, with(made, "/target/names", json!(["b", "c"]))).await;
    let told = texts(&answer);
    assert!(starts(&told, "target.names: this update revokes secrets \"a\" for"), "{told:?}");
    let made = answer.with(200);
    let answer = house.put(&path, with(made, "/target/names", json!(["b", "c", "d"]))).await;
    assert!(!starts(&texts(&answer), "target.names"));
}

#[tokio::test]
async fn r38_a_strategy_without_classes_voids_the_partition_of_another() {
    let house = house().await;
    house.made(STRATEGIES, strategy("parted")).await;
    let told =
        house.told(STRATEGIES, with(strategy("open"), "/versions/0/classPath", Value::Null)).await;
    assert!(starts(&told, "versions[0].classPath: absent, but ReferenceStrategy \"parted\""));
    assert!(told.iter().any(|text| text.ends_with("the partition by class is void")), "{told:?}");
    let told = house.told(STRATEGIES, strategy("again")).await;
    assert!(starts(&told, "versions[0].classPath: ReferenceStrategy \"open\" covers"), "{told:?}");
}

#[tokio::test]
async fn r39_a_consumer_without_classes_matches_nothing_that_has_them() {
    let house = house().await;
    house.made(STRATEGIES, strategy("s")).await;
    let none = with(consumer("c"), "/classNames", Value::Null);
    let told = house.told(CONSUMERS, none).await;
    assert!(
        starts(&told, "classNames: absent, but ReferenceStrategy \"s\" has classes"),
        "{told:?}"
    );
    assert!(!starts(&house.told(CONSUMERS, consumer("d")).await, "classNames"));
}

#[tokio::test]
async fn r40_a_missing_counterpart_and_the_nearest_one() {
    let house = house().await;
    let told = house.told(STRATEGIES, strategy("s")).await;
    assert!(starts(&told, "origin: no ClusterReferenceConsumer consumes"), "{told:?}");
    let other = with(consumer("c"), "/references/0/purpose", json!("backend"));
    let told = house.told(CONSUMERS, other).await;
    assert!(
        starts(&told, "references[0].purpose: no ReferenceStrategy finds gateways.gateway")
            && told
                .iter()
                .any(|text| text.ends_with("; the nearest, \"s\", has purpose \"tls-serving\"")),
        "{told:?}"
    );
    let told = house.told(GRANTS, grant("g", &["a"])).await;
    assert!(starts(&told, "purpose: no ClusterReferenceConsumer consumes"), "{told:?}");
    assert!(!told.iter().any(|text| text.contains("no ReferenceStrategy")), "{told:?}");
    house.made(CONSUMERS, consumer("right")).await;
    let told = house.told(GRANTS, grant("h", &["a"])).await;
    assert!(!told.iter().any(|text| text.contains("consumes")), "{told:?}");
}

#[tokio::test]
async fn r42_a_subject_that_reads_everything_already() {
    let house = house().await;
    assert!(!starts(&house.told(CONSUMERS, consumer("before")).await, "subject: "));
    let role = json!({
        "metadata": { "name": "all-secrets" },
        "rules": [rule(&["list"], "", "secrets", &[])],
    });
    house.made(&format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({
        "metadata": { "name": "all-secrets" },
        "roleRef": { "kind": "ClusterRole", "name": "all-secrets" },
        "subjects": [
            { "kind": "ServiceAccount", "name": "contour", "namespace": "contour-system" },
        ],
    });
    house.made(&format!("{RBAC}/clusterrolebindings"), binding).await;
    let told = house.told(CONSUMERS, consumer("after")).await;
    assert!(starts(&told, "subject: may list secrets everywhere through RBAC"), "{told:?}");
}
