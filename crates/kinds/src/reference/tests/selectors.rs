//! Rules of spec/referential-authorization.md, decisions D9 and D13: selectors of namespaces and of classes.

use super::*;

const GRANT: &str = "ReferenceGrant";
const CONSUMER: &str = "ClusterReferenceConsumer";

fn selecting(selector: Value) -> Value {
    let without = with(grant(), "/origin/namespace", Value::Null);
    with(without, "/origin/namespaceSelector", selector)
}

fn classifying() -> Value {
    let selector = json!({
        "group": "example.com", "resource": "classes",
        "controllerPath": ".spec.controller", "controllerName": "example.com/contour",
    });
    with(consumer(), "/classSelector", selector)
}

/// What is wrong while no selector may be written.
fn faults_without(kind: &str, value: &Value, old: Option<&Value>) -> Vec<String> {
    let around = Cluster { selectors: Selectors::default(), ..CLUSTER };
    let mut errors = Errors::new();
    let old = old.cloned().map(object);
    validate(&row(kind), &object(value.clone()), old.as_ref(), &around, &mut errors);
    errors
        .into_causes()
        .into_iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

#[test]
fn d9_a_grant_may_select_namespaces_by_labels() {
    for selector in [
        json!({"matchLabels": {"team": "web"}}),
        json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["web"]}]}),
        json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
    ] {
        assert_eq!(causes(GRANT, selecting(selector.clone()), None), [], "{selector}");
        assert_eq!(told(GRANT, selecting(selector), None), [] as [&str; 0]);
    }
}

#[test]
fn d9_the_empty_selector_is_written_and_means_all() {
    let all = selecting(json!({}));
    assert_eq!(causes(GRANT, all.clone(), None), []);
    let said = ["origin.namespaceSelector: is empty, which means all namespaces"];
    assert_eq!(told(GRANT, all, None), said);
    let neither = with(grant(), "/origin/namespace", Value::Null);
    assert_eq!(faults(GRANT, neither), ["origin.namespace Required"]);
}

#[test]
fn d9_a_selector_excludes_a_namespace() {
    let both = with(grant(), "/origin/namespaceSelector", json!({}));
    let found = causes(GRANT, both, None);
    assert_eq!(found[0].0, "origin.namespaceSelector Invalid");
    assert!(found[0].1.ends_with("namespace and namespaceSelector exclude each other"));
    assert_eq!(found.len(), 1);
}

#[test]
fn d9_a_selector_is_for_origins_in_namespaces() {
    let nodes = json!({"group": "", "resource": "nodes", "namespaceSelector": {}});
    let found = faults(GRANT, with(grant(), "/origin", nodes));
    assert_eq!(found, ["origin.namespaceSelector Invalid"]);
}

#[test]
fn d9_what_is_wrong_with_a_selector_is_said_with_its_field() {
    let expression = |value: Value| selecting(json!({"matchExpressions": [value]}));
    for (value, fault) in [
        (expression(json!({"key": "team", "operator": "Near"})), "operator Invalid"),
        (expression(json!({"key": "team", "operator": "In"})), "values Required"),
        (
            expression(json!({"key": "team", "operator": "Exists", "values": ["a"]})),
            "values Forbidden",
        ),
        (expression(json!({"key": "a b", "operator": "Exists"})), "key Invalid"),
    ] {
        let field = format!("origin.namespaceSelector.matchExpressions[0].{fault}");
        assert_eq!(faults(GRANT, value), [field]);
    }
    let labels = selecting(json!({"matchLabels": {"team": "not a value"}}));
    assert_eq!(faults(GRANT, labels), ["origin.namespaceSelector.matchLabels Invalid"]);
}

#[test]
fn d9_without_the_feature_no_selector_is_written_but_one_may_stay() {
    let said = "origin.namespaceSelector: Forbidden: needs the feature gate GrantNamespaceSelector";
    let all = selecting(json!({}));
    assert_eq!(faults_without(GRANT, &all, None), [said]);
    assert_eq!(faults_without(GRANT, &all, Some(&grant())), [said]);
    let kept = with(all.clone(), "/metadata/finalizers", json!(["example.com/a"]));
    assert_eq!(faults_without(GRANT, &kept, Some(&all)), [] as [&str; 0]);
    let other = selecting(json!({"matchLabels": {"team": "web"}}));
    assert_eq!(faults_without(GRANT, &other, Some(&all)), [said]);
    assert_eq!(faults_without(GRANT, &grant(), Some(&all)), [] as [&str; 0]);
}

#[test]
fn d9_r36_a_narrower_selector_names_what_it_revokes() {
    let (all, web) = (selecting(json!({})), selecting(json!({"matchLabels": {"team": "web"}})));
    let lines = told(GRANT, web.clone(), Some(all.clone()));
    assert_eq!(
        lines,
        ["origin: this update revokes secrets \"acme-tls\" for tls-serving from \
          gateways.example.com in all namespaces"]
    );
    let lines = told(GRANT, grant(), Some(web));
    assert!(lines[0].ends_with("in namespaces with \"team=web\""), "{lines:?}");
    assert_eq!(told(GRANT, all.clone(), Some(all)).len(), 1, "what stays revokes nothing");
}

#[test]
fn d13_a_consumer_may_select_classes_beside_those_it_lists() {
    assert_eq!(causes(CONSUMER, classifying(), None), []);
    let both = with(classifying(), "/classNames", json!(["a", "*", ""]));
    assert_eq!(causes(CONSUMER, both, None), []);
    let lines = told(CONSUMER, classifying(), None);
    assert!(lines[0].starts_with("classSelector: classes.example.com is not served"), "{lines:?}");
}

#[test]
fn d13_what_is_wrong_with_a_selector_is_said_with_its_field() {
    let fault = |member: &str, value: Value| {
        faults(CONSUMER, with(classifying(), &format!("/classSelector/{member}"), value))
    };
    for (member, value, expected) in [
        ("group", Value::Null, "group Required"),
        ("group", json!("core"), "group Invalid"),
        ("resource", Value::Null, "resource Required"),
        ("resource", json!("*"), "resource Invalid"),
        ("controllerPath", Value::Null, "controllerPath Required"),
        ("controllerPath", json!(".spec.names[*]"), "controllerPath Invalid"),
        ("controllerPath", json!(".spec..name"), "controllerPath Invalid"),
        ("controllerName", Value::Null, "controllerName Required"),
        ("controllerName", json!("c".repeat(254)), "controllerName TooLong"),
    ] {
        assert_eq!(fault(member, value.clone()), [format!("classSelector.{expected}")], "{value}");
    }
    let secrets = json!({
        "group": "", "resource": "secrets", "controllerPath": ".type", "controllerName": "x",
    });
    let found = faults(CONSUMER, with(consumer(), "/classSelector", secrets));
    assert_eq!(found, ["classSelector.resource Invalid"], "secrets live in namespaces");
}

#[test]
fn d13_without_the_feature_no_selector_is_written_but_one_may_stay() {
    let said = "classSelector: Forbidden: needs the feature gate ConsumerClassSelector";
    assert_eq!(faults_without(CONSUMER, &classifying(), None), [said]);
    let kept = with(classifying(), "/metadata/finalizers", json!(["example.com/a"]));
    assert_eq!(faults_without(CONSUMER, &kept, Some(&classifying())), [] as [&str; 0]);
}
