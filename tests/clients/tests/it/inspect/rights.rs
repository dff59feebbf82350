//! Rules of spec/ownership.md and spec/referential-authorization.md: who may look at one namespace only, and who may
//! look at nothing. What is seen is shown, what is not seen is never called absent.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::House;
use crate::typed;

/// A house whose account `shop/viewer` may view namespace `shop`, and `shop/stranger` nothing.
fn house() -> House {
    let house = House::new();
    house.namespace("shop");
    for name in ["viewer", "stranger"] {
        let account = json!({ "metadata": { "name": name } });
        house.send("POST", "/api/v1/namespaces/shop/serviceaccounts", &account);
    }
    let binding = json!({
        "metadata": { "name": "viewer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "viewer", "namespace": "shop" }],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";
    house.send("POST", path, &binding);
    house.deployment("shop", "web", 2);
    house
}

#[test]
fn r171a_a_namespace_is_enough_for_trees_reasons_and_plans() {
    let house = house();
    let file = house.kubeconfig_of("shop", "viewer");
    let ok = |words: &str| house.ok(&format!("{words} --kubeconfig {file}"));

    let tree = ok("tree deploy/web -n shop");
    assert_eq!(tree.lines().filter(|line| line.contains("Pod/web-")).count(), 2, "{tree}");
    assert!(tree.contains("kinds were read in namespace `shop` only"), "{tree}");
    assert!(tree.contains("could not be read") && tree.contains("`secrets`"), "{tree}");
    let json: Value = serde_json::from_str(&ok("tree deploy/web -n shop -o json")).unwrap();
    let unread = json["unread"].as_array().unwrap();
    let of = |kind: &str| unread.iter().find(|unread| unread["kind"] == kind);
    assert_eq!(of("pods").unwrap()["within"], "shop", "{json}");
    assert_eq!(of("secrets").unwrap()["within"], Value::Null, "{json}");
    assert!(of("nodes").is_none(), "what owns nothing here is not missed: {json}");

    let why = ok("why deploy/web -n shop");
    assert!(why.contains("is not collected: it has no owners"), "{why}");
    let plan = ok("plan delete deploy/web -n shop");
    assert!(plan.contains("4 objects go: Deployment (1), Pod (2), ReplicaSet (1)"), "{plan}");
    let inside = ok("tree namespace/shop");
    assert!(inside.contains("├─Deployment/web"), "{inside}");
}

#[test]
fn r171a_only_the_cluster_calls_something_absent() {
    let house = house();
    let run = |who: &str, words: &str| {
        let file = house.kubeconfig_of("shop", who);
        house.run(&format!("{words} --kubeconfig {file}"))
    };
    let absent = run("viewer", "why deploy/nothing -n shop");
    assert!(absent.err.contains("there is no Deployment `shop/nothing`"), "{}", absent.err);
    for words in ["tree deploy/web", "why deploy/web", "plan delete deploy/web"] {
        let refused = run("stranger", &format!("{words} -n shop"));
        assert_ne!(refused.code, Some(0), "{words}: {}", refused.out);
        assert!(!refused.err.contains("there is no"), "{words}: {}", refused.err);
        assert!(refused.err.contains("Deployment `shop/web` could not be read"), "{}", refused.err);
    }
    let all = run("stranger", "tree deployments -n shop");
    assert!(all.err.contains("cannot be said"), "{}", all.err);
    let everywhere = run("viewer", "tree deploy -A");
    assert_eq!(everywhere.code, Some(2), "{}", everywhere.out);
    assert!(everywhere.err.contains("with `-n NAMESPACE`"), "{}", everywhere.err);
    // One cause, one code: of a name, and of a kind of which there is none.
    assert_eq!(absent.code, Some(1));
    assert_eq!(run("viewer", "tree jobs -n shop").code, Some(1));
}

#[test]
fn r171a_a_watch_says_gone_of_what_is_gone_only() {
    let house = house();
    let file = house.kubeconfig_of("shop", "viewer");
    let words = format!("tree deploy/web -n shop --watch --kubeconfig {file}");
    let mut child = typed::command(&house.server, &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("Pod/web-")));
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";
    house.send("DELETE", &format!("{path}/viewer"), &json!({}));
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("Deployment `shop/web` could not be read")));
    let binding = json!({
        "metadata": { "name": "again" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "viewer", "namespace": "shop" }],
    });
    house.send("POST", path, &binding);
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    house.send("DELETE", path, &json!({ "propagationPolicy": "Background" }));
    assert_eq!(lines.last().as_deref(), Some("gone"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn r171b_an_audit_says_how_far_it_saw() {
    let house = house();
    let run = |who: &str, words: &str| {
        let file = house.kubeconfig_of("shop", who);
        house.run(&format!("{words} --kubeconfig {file}"))
    };
    for words in ["audit", "audit --partial", "audit -n shop --partial"] {
        let blind = run("stranger", words);
        assert_eq!(blind.code, Some(2), "{words}: {}", blind.out);
        assert!(blind.out.starts_with("nothing could be read"), "{}", blind.out);
    }
    let partly = run("viewer", "audit -n shop");
    assert_eq!(partly.code, Some(2), "{}", partly.out);
    assert!(partly.out.starts_with("nothing found in what could be read: "), "{}", partly.out);
    assert_eq!(run("viewer", "audit -n shop --partial").code, Some(0));

    // Who may read all of a namespace has seen all of it.
    let binding = json!({
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] }],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop";
    house.send("POST", &format!("{path}/roles"), &binding);
    let binding = json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "viewer", "namespace": "shop" }],
    });
    house.send("POST", &format!("{path}/rolebindings"), &binding);
    let whole = run("viewer", "audit -n shop");
    assert_eq!(whole.code, Some(0), "{}", whole.out);
    assert!(whole.out.starts_with("nothing found: looked at "), "{}", whole.out);
    assert!(whole.out.contains("kinds were read in namespace `shop` only"), "{}", whole.out);
}

#[test]
fn r133_who_may_not_read_rights_is_not_told_that_nobody_has_any() {
    let house = house();
    let file = house.kubeconfig_of("shop", "stranger");
    for words in ["map", "who-can get secret/x -n shop", "unused", "doctor"] {
        let blind = house.run(&format!("access {words} --kubeconfig {file}"));
        assert_eq!(blind.code, Some(2), "{words}: {}{}", blind.out, blind.err);
        assert!(!blind.out.contains("nobody"), "{words}: {}", blind.out);
        assert!(blind.out.contains("could not be read"), "{words}: {}", blind.out);
    }
    let narrow = "access narrow --subject system:serviceaccount:shop:viewer";
    let blind = house.run(&format!("{narrow} --kubeconfig {file}"));
    assert_eq!(blind.code, Some(2), "{}{}", blind.out, blind.err);
    let blind = house.run(&format!("unused -n shop --kubeconfig {file}"));
    assert_eq!(blind.code, Some(2), "{}{}", blind.out, blind.err);
    assert!(blind.out.starts_with("nothing could be read"), "{}", blind.out);
    let seen = house.ok("access who-can get secret/x -n shop");
    assert!(seen.contains("by reference: nobody"), "{seen}");
    assert_eq!(house.ok("access map"), "nobody reaches anything by reference\n");
}
