//! Rule R158 of `spec/api-server.md`.

use serde_json::{Value, json};
use tenure_core::selector::LabelSelector;
use tenure_rbac::{
    Escalation, PolicyRule, Rbac, Relied, RequestAttributes, Requester, Role, RoleWrite, is_upkeep,
    missing,
};

use crate::fixture::{binding, holding, named, object, role, rule, urls};

fn who(user: &str) -> Requester<'_> {
    Requester { user, groups: &[] }
}

/// Asks the same roles, as a server without other authorizers does.
fn check_role(rbac: &Rbac, user: &str, role: &Role, asked_name: &str) -> Result<(), Escalation> {
    let who = who(user);
    let may = |asked: &RequestAttributes<'_>| rbac.allows(&who, asked).is_allowed();
    rbac.check_role(&who, role, asked_name, false, may).map(drop)
}

fn check_binding(rbac: &Rbac, user: &str, namespace: &str, role: &str) -> Result<(), Escalation> {
    let who = who(user);
    let binding = binding(namespace, "new", role, "User:friend");
    rbac.check_binding(&who, &binding, |asked| rbac.allows(&who, asked).is_allowed()).map(drop)
}

#[track_caller]
fn covered(held: &[PolicyRule], wanted: &PolicyRule) {
    assert_eq!(missing(held, std::slice::from_ref(wanted)), [], "{wanted}");
}

#[track_caller]
fn uncovered(held: &[PolicyRule], wanted: &PolicyRule, expected: &[PolicyRule]) {
    assert_eq!(missing(held, std::slice::from_ref(wanted)), expected, "{wanted}");
}

#[test]
fn r158_rules_are_covered_part_by_part() {
    let held = [rule("get list", "core", "pods"), rule("delete", "core apps", "pods")];
    covered(&held, &rule("get delete", "core", "pods"));
    let wanted = rule("get delete", "core apps", "pods services");
    let expected = [
        rule("get", "core", "services"),
        rule("delete", "core", "services"),
        rule("get", "apps", "pods"),
        rule("get", "apps", "services"),
        rule("delete", "apps", "services"),
    ];
    uncovered(&held, &wanted, &expected);
}

#[test]
fn r158_only_a_star_covers_a_star() {
    let held = [rule("get list watch create update patch delete", "core apps", "pods")];
    uncovered(&held, &rule("*", "core", "pods"), &[rule("*", "core", "pods")]);
    uncovered(&held, &rule("get", "*", "pods"), &[rule("get", "*", "pods")]);
    uncovered(&held, &rule("get", "core", "*"), &[rule("get", "core", "*")]);
    covered(&[rule("*", "*", "*")], &rule("*", "*", "* pods/exec */scale"));
}

#[test]
fn r158_subresources_are_covered_by_their_own_star() {
    let held = [rule("get", "core", "*/scale pods")];
    covered(&held, &rule("get", "core", "deployments/scale */scale pods"));
    uncovered(&held, &rule("get", "core", "pods/log"), &[rule("get", "core", "pods/log")]);
    uncovered(&held, &rule("get", "core", "scale"), &[rule("get", "core", "scale")]);
}

#[test]
fn r158_names_are_covered_by_the_same_names_or_by_none() {
    let all = [rule("get", "core", "pods")];
    covered(&all, &named("get", "core", "pods", "web"));
    let some = [named("get", "core", "pods", "web db")];
    covered(&some, &named("get", "core", "pods", "db"));
    uncovered(&some, &rule("get", "core", "pods"), &[rule("get", "core", "pods")]);
    let lacking = [named("get", "core", "pods", "x")];
    uncovered(&some, &named("get", "core", "pods", "web x"), &lacking);
}

#[test]
fn r158_paths_are_covered_by_themselves_and_by_longer_reach() {
    let held = [urls("get", "/apis/* /healthz")];
    covered(&held, &urls("get", "/apis/apps /apis/* /apis/apps/* /healthz"));
    uncovered(&held, &urls("get", "/healthz/x"), &[urls("get", "/healthz/x")]);
    uncovered(&held, &urls("get post", "/healthz"), &[urls("post", "/healthz")]);
    uncovered(&held, &urls("get", "*"), &[urls("get", "*")]);
    covered(&[urls("*", "*")], &urls("*", "* /x"));
}

#[test]
fn r158_a_rule_too_large_to_take_apart_is_refused_whole() {
    let many = |letter: char| {
        let words: Vec<String> = (0..200).map(|number| format!("{letter}{number}")).collect();
        words.join(" ")
    };
    let large = rule(&many('v'), &many('g'), &many('r'));
    uncovered(&[rule("v0", "*", "*")], &large, std::slice::from_ref(&large));
    covered(&[rule("*", "*", "*")], &large);
}

#[test]
fn r158_recorded_roles_hand_on_only_what_is_held() {
    let mut rbac = Rbac::new();
    let administers =
        rule("create get list update", "rbac.authorization.k8s.io", "roles rolebindings");
    rbac.put_role(role("n", "g", &[rule("get", "core", "secrets"), administers]));
    rbac.put_binding(binding("n", "g", "Role:g", "User:u"));
    let more = role("n", "more", &[rule("delete", "core", "secrets")]);
    let refused = check_role(&rbac, "u", &more, "");
    assert_eq!(refused, Err(Escalation::Missing(more.rules)));
    assert_eq!(
        check_role(&rbac, "u", &role("n", "same", &[rule("get", "core", "secrets")]), ""),
        Ok(())
    );
    let elsewhere = role("m", "same", &[rule("get", "core", "secrets")]);
    assert!(check_role(&rbac, "u", &elsewhere, "").is_err(), "held in another namespace");
    rbac.put_role(role("n", "big", &[rule("*", "*", "*")]));
    let refused = check_binding(&rbac, "u", "n", "Role:big");
    assert_eq!(refused, Err(Escalation::Missing(vec![rule("*", "*", "*")])));
    assert_eq!(check_binding(&rbac, "u", "n", "Role:g"), Ok(()));
}

#[test]
fn r158_escalate_on_the_role_lifts_the_check() {
    let rbac = holding(&[named("escalate", "rbac.authorization.k8s.io", "clusterroles", "lifted")]);
    let lifted = role("", "lifted", &[rule("*", "*", "*")]);
    assert_eq!(check_role(&rbac, "u", &lifted, "lifted"), Ok(()));
    assert!(check_role(&rbac, "u", &lifted, "").is_err(), "a POST names no role");
    assert!(check_role(&rbac, "u", &role("", "other", &lifted.rules), "other").is_err());
    assert!(check_role(&rbac, "u", &role("n", "lifted", &lifted.rules), "lifted").is_err());
}

#[test]
fn r158_bind_on_the_role_lifts_the_check() {
    let mut rbac = Rbac::new();
    rbac.put_role(role("", "admin", &[rule("*", "*", "*")]));
    let binds = named("bind", "rbac.authorization.k8s.io", "clusterroles", "admin absent");
    rbac.put_role(role("", "binder", &[binds]));
    rbac.put_binding(binding("n", "b", "ClusterRole:binder", "User:u"));
    assert_eq!(check_binding(&rbac, "u", "n", "ClusterRole:admin"), Ok(()));
    assert_eq!(check_binding(&rbac, "u", "n", "ClusterRole:absent"), Ok(()), "nobody looks it up");
    assert!(check_binding(&rbac, "u", "", "ClusterRole:admin").is_err(), "bound in the cluster");
    assert!(check_binding(&rbac, "u", "m", "ClusterRole:admin").is_err());
}

#[test]
fn r158_an_absent_role_cannot_be_bound_without_leave() {
    let mut rbac = holding(&[rule("*", "core", "*")]);
    let absent = Err(Escalation::RoleAbsent { name: "none".to_owned() });
    assert_eq!(check_binding(&rbac, "u", "n", "ClusterRole:none"), absent);
    rbac.put_role(role("", "none", &[]));
    assert_eq!(check_binding(&rbac, "u", "n", "Role:none"), absent);
    assert_eq!(check_binding(&rbac, "u", "n", "ClusterRole:"), Err(Escalation::RoleNameless));
    assert_eq!(check_binding(&rbac, "u", "", "Role:none"), Err(Escalation::RoleNowhere));
    assert_eq!(check_binding(&rbac, "u", "n", "ClusterRole:none"), Ok(()));
}

#[test]
fn r158_members_of_masters_are_exempt() {
    let rbac = Rbac::new();
    let groups = ["system:masters".to_owned()];
    let master = Requester { user: "root", groups: &groups };
    let never = |_: &RequestAttributes<'_>| false;
    let all = role("", "all", &[rule("*", "*", "*")]);
    assert_eq!(rbac.check_role(&master, &all, "", true, never), Ok(Relied::default()));
    let absent = binding("", "b", "ClusterRole:absent", "User:u");
    assert_eq!(rbac.check_binding(&master, &absent, never), Ok(Relied::default()));
}

#[test]
fn r158_gathering_rules_needs_all_of_them() {
    let selector = LabelSelector::parse("a=b").expect("a selector");
    let gathers = Role { gathers: Some(vec![selector]), ..role("", "sum", &[]) };
    let never = |_: &RequestAttributes<'_>| false;
    let some = holding(&[rule("*", "*", "*")]);
    let refused = some.check_role(&who("u"), &gathers, "", false, never);
    assert_eq!(refused, Err(Escalation::Gathers));
    let plain = role("", "sum", &[]);
    assert_eq!(some.check_role(&who("u"), &plain, "", true, never), Err(Escalation::Gathers));
    assert!(some.check_role(&who("u"), &plain, "", false, never).is_ok());
    let all = holding(&[rule("*", "*", "*"), urls("*", "*")]);
    assert!(all.check_role(&who("u"), &gathers, "", false, never).is_ok());
}

#[test]
fn r158_what_a_decision_relied_on_is_told() {
    let mut rbac = Rbac::new();
    for (name, held) in [("pods", "pods"), ("nodes", "nodes"), ("all", "pods nodes secrets")] {
        rbac.put_role(role("", name, &[rule("get", "core", held)]));
    }
    rbac.put_role(role("n", "local", &[rule("get", "core", "secrets")]));
    rbac.put_binding(binding("", "of-pods", "ClusterRole:pods", "User:u"));
    rbac.put_binding(binding("", "of-nodes", "ClusterRole:nodes", "User:u"));
    rbac.put_binding(binding("n", "of-local", "Role:local", "User:u"));
    let never = |_: &RequestAttributes<'_>| false;
    let two = role("n", "two", &[rule("get", "core", "pods secrets")]);
    let relied = rbac.check_role(&who("u"), &two, "", false, never).expect("it is held");
    assert_eq!(relied.roles, [("", "pods"), ("n", "local")].into(), "and not that of nodes");
    assert_eq!(relied.bindings, [("", "of-pods"), ("n", "of-local")].into());
    let all = binding("n", "new", "ClusterRole:all", "User:friend");
    let relied = rbac.check_binding(&who("u"), &all, never).expect("it is held");
    assert_eq!(relied.roles, [("", "pods"), ("", "nodes"), ("n", "local")].into());
    assert_eq!(relied.bound, Some(("", "all")));
    assert_eq!(relied.bindings.len(), 3);
}

#[test]
fn r158_a_refusal_has_a_bound() {
    let names: Vec<String> = (0..1_000).map(|number| format!("n{number}")).collect();
    let refused = Escalation::Missing(missing::<PolicyRule>(
        &[],
        &[named("get", "core", "secrets", &names.join(" "))],
    ));
    let message = refused.message(&who("u"));
    assert_eq!(message.lines().count(), 202);
    assert!(message.ends_with("\nand 800 more"), "{message}");
}

#[test]
fn r158_the_refusal_lists_what_is_not_held() {
    let groups = ["devs".to_owned(), "system:authenticated".to_owned()];
    let who = Requester { user: "u", groups: &groups };
    let refused = Escalation::Missing(missing::<PolicyRule>(
        &[],
        &[named("get list", "core", "secrets", "x"), urls("get", "/x"), rule("get", "apps", "*")],
    ));
    let expected = "user \"u\" (groups=[\"devs\" \"system:authenticated\"]) is attempting to grant \
                    RBAC permissions not currently held:\n\
                    {APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"x\"], Verbs:[\"get\" \"list\"]}\n\
                    {APIGroups:[\"apps\"], Resources:[\"*\"], Verbs:[\"get\"]}\n\
                    {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}";
    assert_eq!(refused.message(&who), expected);
}

/// What becomes of a write by somebody who holds `get pods` everywhere.
fn write(old: Option<&Value>, new: &Value) -> Result<(), Escalation> {
    let rbac = holding(&[rule("get", "core", "pods")]);
    let who = who("u");
    let old = old.map(|old| object(old.clone()));
    let new = object(new.clone());
    let name = if old.is_some() { "r" } else { "" };
    let write = RoleWrite { old: old.as_ref(), new: &new, restated: true, path_name: name };
    rbac.check_write(&who, &write, |asked| rbac.allows(&who, asked).is_allowed()).map(drop)
}

#[test]
fn r158_labels_on_a_stronger_role_are_judged_by_its_rules() {
    for kind in ["ClusterRole", "Role"] {
        let namespace = if kind == "Role" { "shop" } else { "" };
        let role = |labels: Value, verb: &str| {
            json!({
                "kind": kind, "metadata": { "name": "r", "namespace": namespace, "labels": labels },
                "rules": [{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }],
            })
        };
        let plain = |verb| role(json!({}), verb);
        let labelled = |verb| role(json!({ "aggregate-to-view": "true" }), verb);
        assert!(write(Some(&plain("delete")), &labelled("delete")).is_err(), "one more label");
        assert!(write(Some(&labelled("delete")), &plain("delete")).is_err(), "one label less");
        assert_eq!(write(Some(&plain("get")), &labelled("get")), Ok(()), "rules that are held");
        assert_eq!(write(Some(&plain("delete")), &plain("delete")), Ok(()), "nothing");
    }
}

#[test]
fn r158_what_garbage_collection_changes_hands_out_nothing() {
    let role = |metadata: Value| {
        json!({
            "kind": "ClusterRole", "metadata": metadata,
            "rules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
        })
    };
    let old = role(json!({ "name": "r" }));
    for (metadata, free) in [
        (json!({ "name": "r", "finalizers": ["a/b"] }), true),
        (json!({ "name": "r", "ownerReferences": [{ "name": "x" }] }), true),
        (json!({ "name": "r", "managedFields": [] }), true),
        (json!({ "name": "r", "annotations": { "a": "b" } }), false),
        (json!({ "name": "r", "labels": { "a": "b" } }), false),
        (json!({ "name": "r", "finalizers": [], "labels": { "a": "b" } }), false),
    ] {
        let new = role(metadata);
        assert_eq!(write(Some(&old), &new).is_ok(), free, "{new}");
        assert_eq!(is_upkeep(&object(old.clone()), &object(new.clone())), free, "{new}");
    }
    assert!(write(None, &old).is_err(), "a new role is judged whatever its metadata");
}

#[test]
fn r158_a_manifest_that_is_sent_again_is_judged() {
    let rbac = holding(&[rule("get", "core", "pods")]);
    let who = who("u");
    for (verb, restated, free) in [
        ("get", true, true),
        ("get", false, true),
        ("delete", true, true),
        ("delete", false, false),
    ] {
        let role = object(json!({
            "kind": "ClusterRole", "metadata": { "name": "r" },
            "rules": [{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }],
        }));
        let write = RoleWrite { old: Some(&role), new: &role, restated, path_name: "r" };
        let may = |asked: &RequestAttributes<'_>| rbac.allows(&who, asked).is_allowed();
        assert_eq!(rbac.check_write(&who, &write, may).is_ok(), free, "{verb} {restated}");
    }
}

#[test]
fn r158_a_binding_to_a_stronger_role_is_not_touched() {
    let mut rbac = holding(&[rule("get", "core", "pods")]);
    rbac.put_role(role("", "strong", &[rule("*", "*", "*")]));
    let who = who("u");
    let binding = |subjects: Value, labels: Value| {
        object(json!({
            "kind": "RoleBinding", "metadata": { "name": "b", "namespace": "shop", "labels": labels },
            "roleRef": { "kind": "ClusterRole", "name": "strong" }, "subjects": subjects,
        }))
    };
    let boss = json!([{ "kind": "User", "name": "boss" }]);
    let old = binding(boss.clone(), json!({}));
    for new in [binding(json!([]), json!({})), binding(boss, json!({ "a": "b" }))] {
        let write = RoleWrite { old: Some(&old), new: &new, restated: true, path_name: "b" };
        let may = |asked: &RequestAttributes<'_>| rbac.allows(&who, asked).is_allowed();
        assert!(rbac.check_write(&who, &write, may).is_err(), "{new:?}");
    }
}
