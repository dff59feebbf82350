//! Rule R157 of `spec/api-server.md`.

use serde_json::json;
use tenure_rbac::{PolicyRule, Rbac, Role, RoleChange};

use crate::fixture::{object, role, rule};

fn labelled(name: &str, label: &str, rules: &[PolicyRule]) -> Role {
    let labels = [(label.to_owned(), "true".to_owned())].into();
    Role { labels, ..role("", name, rules) }
}

fn gathering(name: &str, label: &str) -> Role {
    Role::from_object(&object(json!({
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
    })))
}

fn index(roles: &[Role]) -> Rbac {
    let mut rbac = Rbac::new();
    for role in roles {
        rbac.put_role(role.clone());
    }
    rbac
}

fn pods(verb: &str) -> PolicyRule {
    rule(verb, "core", "pods")
}

#[test]
fn r157_rules_are_merged_by_role_name_each_once() {
    let rbac = index(&[
        gathering("sum", "a"),
        labelled("z", "a", &[pods("get"), pods("list")]),
        labelled("b", "a", &[pods("watch"), pods("get")]),
        labelled("other", "x", &[pods("delete")]),
    ]);
    let expected = vec![("sum".to_owned(), vec![pods("watch"), pods("get"), pods("list")])];
    assert_eq!(rbac.aggregates(RoleChange::None), expected);
}

#[test]
fn r157_aggregates_follow_the_change_that_is_about_to_happen() {
    let sum = Role { rules: vec![pods("get")], ..gathering("sum", "a") };
    let rbac = index(&[sum.clone(), labelled("one", "a", &[pods("get")])]);
    assert_eq!(rbac.aggregates(RoleChange::None), []);
    let two = labelled("two", "a", &[pods("list")]);
    let grown = vec![("sum".to_owned(), vec![pods("get"), pods("list")])];
    assert_eq!(rbac.aggregates(RoleChange::Put(&two)), grown);
    assert_eq!(rbac.aggregates(RoleChange::Gone("one")), [("sum".to_owned(), vec![])]);
    assert_eq!(rbac.aggregates(RoleChange::Gone("sum")), []);
    let edited = Role { rules: vec![pods("delete")], ..sum };
    let back = vec![("sum".to_owned(), vec![pods("get")])];
    assert_eq!(rbac.aggregates(RoleChange::Put(&edited)), back, "rules of its own are overwritten");
}

#[test]
fn r157_aggregates_of_aggregates_settle_in_one_step() {
    let middle = Role { labels: labelled("", "top", &[]).labels, ..gathering("m", "low") };
    let rbac = index(&[gathering("a", "top"), middle, labelled("z", "low", &[pods("get")])]);
    let expected = vec![("a".to_owned(), vec![pods("get")]), ("m".to_owned(), vec![pods("get")])];
    assert_eq!(rbac.aggregates(RoleChange::None), expected);
}

#[test]
fn r157_roles_that_gather_each_other_keep_no_rule_alive() {
    let round = |name: &str, label: &str, gathers: &str, rules: &[PolicyRule]| Role {
        labels: labelled("", label, &[]).labels,
        rules: rules.to_vec(),
        ..gathering(name, gathers)
    };
    let rbac = index(&[
        round("a", "x", "y", &[pods("get")]),
        round("b", "y", "x", &[pods("get")]),
        gathering("self", "nothing"),
    ]);
    let expected = vec![("a".to_owned(), vec![]), ("b".to_owned(), vec![])];
    assert_eq!(rbac.aggregates(RoleChange::None), expected);
}

#[test]
fn r157_a_role_does_not_gather_itself() {
    let own = Role {
        labels: labelled("", "a", &[]).labels,
        rules: vec![pods("get")],
        ..gathering("sum", "a")
    };
    assert_eq!(index(&[own]).aggregates(RoleChange::None), [("sum".to_owned(), vec![])]);
}

#[test]
fn r157_selectors_with_expressions_are_understood() {
    let sum = Role::from_object(&object(json!({
        "metadata": {"name": "sum"},
        "aggregationRule": {"clusterRoleSelectors": [
            {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["z", "b"]}]},
            {"matchExpressions": [
                {"key": "extra", "operator": "Exists"},
                {"key": "tier", "operator": "DoesNotExist"},
            ]},
            {"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["b"]}]},
        ]},
    })));
    let tier = |name: &str, key: &str, value: &str, verb: &str| Role {
        labels: [(key.to_owned(), value.to_owned())].into(),
        ..role("", name, &[pods(verb)])
    };
    let rbac = index(&[
        sum,
        tier("1", "extra", "", "get"),
        tier("2", "tier", "b", "list"),
        tier("3", "tier", "c", "watch"),
    ]);
    let expected = vec![("sum".to_owned(), vec![pods("list"), pods("get")])];
    assert_eq!(rbac.aggregates(RoleChange::None), expected);
}
