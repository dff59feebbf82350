//! Grants that select namespaces and consumers that select classes, as people see them.
//! Rules of spec/referential-authorization.md, D9 and D13.

use serde_json::{Value, json};
use tenure_inspect::access::Edit;

use super::*;

fn namespace(name: &str, labels: Value) -> Value {
    let metadata = json!({ "name": name, "labels": labels });
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

fn class(name: &str, controller: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": { "name": name }, "spec": { "controller": controller },
    })
}

/// The story, where the grant selects namespaces of a team.
fn selecting() -> Town {
    let mut town = Town::story();
    let mut teams = grant("prod-tls", "prod-gateways", "", &["acme-tls"]);
    teams["origin"] = json!({
        "group": GATEWAY, "resource": "gateways",
        "namespaceSelector": { "matchLabels": { "team": "web" } },
    });
    town.snapshot.objects.retain(|object| object["kind"] != "ReferenceGrant");
    town.snapshot.objects.push(teams);
    town
}

fn labelled(mut town: Town, labels: Value) -> Town {
    town.snapshot.origins.push((Resource::new("", "namespaces"), namespace("prod", labels)));
    town
}

#[test]
fn d9_an_explanation_says_that_labels_do_not_match() {
    let question = asks(EDGE, "get", "prod-tls", "acme-tls");
    let explained = labelled(selecting(), json!({ "team": "mail" })).rights().explain(&question);
    assert!(!explained.allowed);
    assert_eq!(
        explained.message,
        "ReferenceGrant `prod-tls/prod-gateways` differs in `origin.namespaceSelector`: the labels of \
         namespace `prod` do not match `team=web`"
    );
    let explained = labelled(selecting(), json!({ "team": "web" })).rights().explain(&question);
    assert!(explained.allowed, "{}", explained.message);
    assert!(explained.message.contains("grant prod-tls/prod-gateways"), "{}", explained.message);
}

#[test]
fn d9_a_change_of_labels_is_judged() {
    let town = labelled(selecting(), json!({ "team": "web" }));
    let mail = namespace("prod", json!({ "team": "mail" }));
    let moved = town.rights().change(&[mail], Edit::Apply, "default").unwrap();
    assert_eq!((moved.gained.len(), moved.lost.len()), (0, 1));
    // A label that somebody else wrote stays when a file without it is applied.
    let kept = town.rights().change(&[namespace("prod", json!({}))], Edit::Apply, "default");
    assert!(kept.unwrap().is_nothing());
    let gone = town.rights().change(&[namespace("prod", json!({}))], Edit::Delete, "default");
    assert_eq!(gone.unwrap().lost.len(), 1);
    let same = town.rights().change(&[namespace("other", json!({}))], Edit::Apply, "default");
    assert!(same.unwrap().is_nothing());
}

#[test]
fn d13_a_change_of_a_class_is_judged() {
    let mut town = Town::story();
    let mut selecting = consumer("edge", EDGE, &[], &[(NETWORKING, "ingresses")]);
    selecting["classSelector"] = json!({
        "group": NETWORKING, "resource": "ingressclasses",
        "controllerPath": ".spec.controller", "controllerName": "example.com/edge",
    });
    town.snapshot.objects.retain(|object| object["kind"] != "ClusterReferenceConsumer");
    town.snapshot.objects.push(selecting);
    let class = |controller| class("nginx", controller);
    let taken = town.rights().change(&[class("example.com/edge")], Edit::Apply, "default").unwrap();
    assert_eq!((taken.gained.len(), taken.lost.len()), (1, 0));
    let other =
        town.rights().change(&[class("example.com/other")], Edit::Apply, "default").unwrap();
    assert!(other.is_nothing());
    let question = asks(EDGE, "get", "shop", "web-tls");
    let explained = town.rights().explain(&question);
    assert!(
        explained.message.ends_with("`example.com/edge`, which are none"),
        "{}",
        explained.message
    );
}

#[test]
fn d13_the_first_consumer_that_selects_classes_is_judged_with_the_class_it_comes_with() {
    let mut town = Town::story();
    town.snapshot.objects.retain(|object| object["kind"] != "ClusterReferenceConsumer");
    let mut selecting = consumer("edge", EDGE, &[], &[(NETWORKING, "ingresses")]);
    selecting["classSelector"] = json!({
        "group": NETWORKING, "resource": "ingressclasses",
        "controllerPath": ".spec.controller", "controllerName": "example.com/edge",
    });
    let both = [class("nginx", "example.com/edge"), selecting];
    let change = town.rights().change(&both, Edit::Apply, "default").unwrap();
    assert_eq!((change.gained.len(), change.ignored.len()), (1, 0), "{change:?}");
    let [_, alone] = both;
    assert!(town.rights().change(&[alone], Edit::Apply, "default").unwrap().is_nothing());
}
