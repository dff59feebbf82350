//! Rules of spec/referential-authorization.md: errors and their fields, over HTTP (R10–R32, R84).
//!
//! Each rule by itself is tested beside the rules, in crate `kinds`.

use serde_json::json;
use tenure_server::reference::ReferenceOptions;

use super::*;

/// What a create is refused with, as `field reason`.
async fn faults(house: &House, path: &str, body: Value) -> Vec<String> {
    let status = house.post(path, body).await.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    causes
        .map(|cause| {
            let reason = text(&cause["reason"]);
            format!("{} {}", text(&cause["field"]), reason.trim_start_matches("FieldValue"))
        })
        .collect()
}

#[tokio::test]
async fn r10_r11_r12_r13_r14_subjects() {
    let house = house().await;
    let bad = |pointer: &str, value: Value| with(consumer("c"), pointer, value);
    for (body, expected) in [
        (bad("/subject", Value::Null), "subject Required"),
        (bad("/subject/kind", json!("Robot")), "subject.kind NotSupported"),
        (bad("/subject/name", json!("")), "subject.name Required"),
        (bad("/subject/namespace", Value::Null), "subject.namespace Required"),
        (bad("/subject/kind", json!("User")), "subject.namespace Invalid"),
    ] {
        assert_eq!(faults(&house, CONSUMERS, body).await, [expected]);
    }
}

#[tokio::test]
async fn r15_a_service_account_as_a_user_is_accepted_with_a_warning() {
    let house = house().await;
    let account = json!({ "kind": "User", "name": "system:serviceaccount:ns:name" });
    let told = house.told(CONSUMERS, with(consumer("c"), "/subject", account)).await;
    assert!(told[0].starts_with("subject: ") && told[0].contains("use kind ServiceAccount"));
}

#[tokio::test]
async fn r16_r17_r18_r19_r20_references() {
    let house = house().await;
    let bad = |pointer: &str, value: Value| with(consumer("c"), pointer, value);
    for (body, expected) in [
        (bad("/references", json!([])), "references Required"),
        (bad("/references", Value::Null), "references Required"),
        (bad("/references/0/purpose", json!("TLS_Serving")), "references[0].purpose Invalid"),
        (bad("/references/0/purpose", Value::Null), "references[0].purpose Required"),
        (bad("/references/0/target/resource", json!("")), "references[0].target.resource Required"),
        (bad("/references/0/target/resource", json!("*")), "references[0].target.resource Invalid"),
        (bad("/references/0/origin/group", json!("core")), "references[0].origin.group Invalid"),
        (bad("/references/0/origin/group", Value::Null), "references[0].origin.group Required"),
    ] {
        assert_eq!(faults(&house, CONSUMERS, body).await, [expected]);
    }
    // What is served tells which resource was meant.
    let typed = bad("/references/0/target/resource", json!("Secret"));
    let status = house.post(CONSUMERS, typed).await.fails(422, "Invalid");
    let message = status["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(message.contains("the resource of kind Secret is \"secrets\""), "{message}");
}

#[tokio::test]
async fn r21_r22_r23_r24_r25_strategies() {
    let house = house().await;
    let bad = |pointer: &str, value: Value| with(strategy("s"), pointer, value);
    let entry = "/versions/0/references/0";
    let expression = |text: &str| {
        let with_path = bad(&format!("{entry}/expression"), json!(text));
        with(with_path, &format!("{entry}/path"), Value::Null)
    };
    let twice = json!([strategy("s")["versions"][0], strategy("s")["versions"][0]]);
    for (body, expected) in [
        (bad("/versions", twice), "versions[1].version Duplicate"),
        (bad("/versions", json!([])), "versions Required"),
        (bad(&format!("{entry}/path"), json!(".a[")), "versions[0].references[0].path Invalid"),
        (bad("/versions/0/classPath", json!(".a[*]")), "versions[0].classPath Invalid"),
        (bad(&format!("{entry}/path"), Value::Null), "versions[0].references[0].path Required"),
        (bad(&format!("{entry}/expression"), json!("[]")), "versions[0].references[0] Invalid"),
        (
            bad(&format!("{entry}/namespacePath"), json!("a")),
            "versions[0].references[0].namespacePath Invalid",
        ),
        (expression("self.spec.("), "versions[0].references[0].expression Invalid"),
        (expression("nobody.knows"), "versions[0].references[0].expression Invalid"),
        (expression("true"), "versions[0].references[0].expression Invalid"),
    ] {
        assert_eq!(faults(&house, STRATEGIES, body).await, [expected]);
    }
    let example = "self.spec.listeners.filter(l, has(l.tls) && has(l.tls.certificateRefs)).map(l, \
                   l.tls.certificateRefs.filter(r, r.group == '' && r.kind == 'Secret').map(r, \
                   {'name': r.name, 'namespace': has(r.namespace) ? r.namespace : ''}))";
    house.made(STRATEGIES, expression(example)).await;
}

#[tokio::test]
async fn r26_r27_r28_r30_grants() {
    let house = house().await;
    let names: Vec<String> = (0..17).map(|n| format!("n{n}")).collect();
    let bad = |pointer: &str, value: Value| with(grant("g", &["a"]), pointer, value);
    for (body, expected) in [
        (bad("/target/names", json!(names)), "target.names TooMany"),
        (bad("/target/names", json!(["a", "a"])), "target.names[1] Duplicate"),
        (bad("/target/names", json!(["a", "*"])), "target.names[1] Invalid"),
        (bad("/origin/namespace", json!("*")), "origin.namespace Invalid"),
    ] {
        assert_eq!(faults(&house, GRANTS, body).await, [expected]);
    }
    let sixteen: Vec<&str> = names.iter().take(16).map(String::as_str).collect();
    house.made(GRANTS, grant("g", &sixteen)).await;
}

#[tokio::test]
async fn r29_the_namespace_of_origins_follows_what_is_served() {
    let house = house().await;
    let absent = |name| with(grant(name, &["a"]), "/origin/namespace", Value::Null);
    // Not served: accepted, and told.
    let told = house.told(GRANTS, absent("early")).await;
    assert!(told[0].starts_with("origin: gateways.gateway.networking.k8s.io is not served"));
    serve_gateways(&house, &["v1"]).await;
    assert_eq!(faults(&house, GRANTS, absent("late")).await, ["origin.namespace Required"]);
    let nodes = |namespace: Value| {
        let origin = json!({ "group": "", "resource": "nodes", "namespace": namespace });
        with(grant("nodes", &["a"]), "/origin", origin)
    };
    assert_eq!(faults(&house, GRANTS, nodes(json!("prod"))).await, ["origin.namespace Invalid"]);
    house.made(GRANTS, nodes(Value::Null)).await;
}

#[tokio::test]
async fn r31_a_grant_for_its_own_namespace_is_accepted_with_a_warning() {
    let house = house().await;
    let local = with(grant("g", &["a"]), "/origin/namespace", json!("prod-tls"));
    let told = house.told(GRANTS, local).await;
    assert!(told.iter().any(|text| text.starts_with("origin.namespace: ")), "{told:?}");
}

#[tokio::test]
async fn r32_the_origin_of_a_strategy_is_immutable() {
    let house = house().await;
    let made = house.made(STRATEGIES, strategy("s")).await;
    let path = format!("{STRATEGIES}/s");
    let moved = with(made.clone(), "/origin/resource", json!("routes"));
    let status = house.put(&path, moved).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["origin"]);
    house.put(&path, with(made, "/versions/0/version", json!("v2"))).await.with(200);
}

#[tokio::test]
async fn r84_everybody_is_refused_unless_it_is_development() {
    let everybody = json!({ "kind": "Group", "name": "system:authenticated" });
    let body = with(consumer("c"), "/subject", everybody);
    let strict = house().await;
    assert_eq!(faults(&strict, CONSUMERS, body.clone()).await, ["subject.name Forbidden"]);
    let settings = ReferenceOptions { lets_everybody: true, ..ReferenceOptions::default() };
    let lax = furnished(House::referring(settings).await).await;
    let told = lax.told(CONSUMERS, body).await;
    assert!(told[0].starts_with("subject.name: "), "{told:?}");
}

#[tokio::test]
async fn faults_come_together_with_those_of_the_metadata() {
    let house = house().await;
    let mut body = with(grant("G", &["a", "a"]), "/purpose", json!(""));
    body["origin"]["resource"] = json!("Gateway");
    assert_eq!(
        faults(&house, GRANTS, body).await,
        [
            "metadata.name Invalid",
            "origin.resource Invalid",
            "target.names[1] Duplicate",
            "purpose Required",
        ]
    );
}
