//! Families of Services on a cluster that has IPv4 addresses only (R136 of spec/api-server.md).

use super::*;
use crate::check::{created, faults, row, update_faults, updated};

const POLICY: &str = "spec.ipFamilyPolicy FieldValueInvalid";

/// A service that has a second fault: `ports` are missing.
fn service(spec: Value) -> Value {
    json!({ "spec": spec })
}

fn address(index: usize) -> String {
    format!("spec.clusterIPs[{index}] FieldValueInvalid")
}

fn family(index: usize) -> String {
    format!("spec.ipFamilies[{index}] FieldValueInvalid")
}

#[test]
fn r136_what_is_wrong_with_families_is_told_alone() {
    let list = || "spec.clusterIPs FieldValueInvalid".to_owned();
    let policy = || POLICY.to_owned();
    let cases = [
        (json!({"ipFamilies": ["IPv6"]}), vec![family(0)]),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), vec![policy()]),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            vec![policy(), family(1)],
        ),
        (json!({"ipFamilies": ["IPv4", "IPv6"]}), vec![policy()]),
        (json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}), vec![family(0)]),
        (
            json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "fd00::1"]}),
            vec![policy(), address(1)],
        ),
        (
            json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "fd00::1"],
                "ipFamilies": ["IPv4", "IPv6"]}),
            vec![policy(), policy()],
        ),
        (json!({"clusterIP": "fd00::1"}), vec![address(0)]),
        (
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.3.3"],
                "ipFamilyPolicy": "PreferDualStack"}),
            vec![address(0)],
        ),
        (json!({"clusterIP": "10.96.3.3", "ipFamilies": ["IPv6"]}), vec![address(0)]),
        (json!({"clusterIPs": ["10.96.3.3"]}), vec![list()]),
        (json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "10.96.3.4"]}), vec![list()]),
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1", "10.0.0.2"]}),
            vec![list()],
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv4"]}),
            vec!["spec.ipFamilies[1] FieldValueDuplicate".to_owned()],
        ),
        (
            json!({"ipFamilyPolicy": ""}),
            vec!["spec.ipFamilyPolicy FieldValueNotSupported".to_owned()],
        ),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilies": ["IPv6"]}),
            vec![family(0)],
        ),
    ];
    let kind = row("", "Service");
    for (spec, expected) in cases {
        assert_eq!(faults(&kind, service(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn r136_open_services_may_name_both_families() {
    let kind = row("", "Service");
    let of = |mut spec: Value| {
        spec["clusterIP"] = json!("None");
        assert!(faults(&kind, service(spec.clone())).is_empty(), "{spec}");
        let made = created(&kind, service(spec));
        (made["spec"]["ipFamilyPolicy"].clone(), made["spec"]["ipFamilies"].clone())
    };
    let both = json!(["IPv4", "IPv6"]);
    assert_eq!(of(json!({})), (json!(REQUIRED), both.clone()));
    assert_eq!(of(json!({"ipFamilies": ["IPv6"]})), (json!(REQUIRED), json!(["IPv6", "IPv4"])));
    assert_eq!(of(json!({"ipFamilyPolicy": "PreferDualStack"})).1, both);
    assert_eq!(of(json!({"ipFamilyPolicy": "SingleStack"})).1, json!(["IPv4"]));
    let selecting = of(json!({"selector": {"a": "b"}}));
    assert_eq!(selecting, (json!(SINGLE), json!(["IPv4"])));
    // Even both by name ask for the policy, unless there is nothing to give.
    let named =
        json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilies": ["IPv4", "IPv6"]});
    assert_eq!(faults(&kind, service(named)), [POLICY]);
}

#[test]
fn r136_changes_of_families() {
    let kind = row("", "Service");
    let ports = json!([{"port": 80}]);
    let old = service(json!({"clusterIP": "10.96.0.9", "ports": ports}));
    let with = |change: Value| {
        let mut spec = json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": ports});
        for (member, value) in change.as_object().unwrap() {
            spec[member] = value.clone();
        }
        service(spec)
    };
    let cases = [
        (json!({"ipFamilies": ["IPv6"]}), vec![address(0)]),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), vec![POLICY.to_owned()]),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), vec![]),
        (json!({"ipFamilies": ["IPv4", "IPv6"]}), vec![POLICY.to_owned()]),
        (json!({"clusterIPs": ["10.96.0.9", "fd00::1"]}), vec![POLICY.to_owned(), address(1)]),
        (json!({"ipFamilies": []}), vec![]),
    ];
    for (change, expected) in cases {
        assert_eq!(update_faults(&kind, old.clone(), with(change.clone())), expected, "{change}");
    }
    // The second family goes with the policy, not without it.
    let open = service(json!({"clusterIP": "None"}));
    let changed = |policy: &str, families: Value| {
        service(json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": policy,
            "ipFamilies": families}))
    };
    let both = json!(["IPv4", "IPv6"]);
    let single = changed("SingleStack", both.clone());
    assert!(update_faults(&kind, open.clone(), single.clone()).is_empty());
    assert_eq!(updated(&kind, open.clone(), single)["spec"]["ipFamilies"], json!(["IPv4"]));
    let less = changed("RequireDualStack", json!(["IPv4"]));
    assert_eq!(update_faults(&kind, open.clone(), less), [POLICY]);
    // A policy that is left out is the stored one, which a selector does not go with.
    let selecting = service(json!({"clusterIP": "None", "selector": {"a": "b"}}));
    assert_eq!(update_faults(&kind, open, selecting), [POLICY]);
}

#[test]
fn r136_what_takes_what_there_is_stays() {
    let kind = row("", "Service");
    let spec = json!({"clusterIP": "10.96.0.9", "ipFamilyPolicy": "PreferDualStack",
        "ports": [{"port": 80}]});
    let mut again = spec.clone();
    again["clusterIPs"] = json!(["10.96.0.9"]);
    again["ipFamilies"] = json!(["IPv4"]);
    assert!(update_faults(&kind, service(spec.clone()), service(again)).is_empty());
    let external = json!({"type": "ExternalName", "externalName": "a.b", "ipFamilies": ["IPv6"]});
    let told = faults(&kind, service(external));
    assert_eq!(told, ["spec.ipFamilies FieldValueForbidden"]);
    let external = service(json!({"type": "ExternalName", "externalName": "a.b"}));
    assert_eq!(updated(&kind, external, service(spec))["spec"]["ipFamilies"], json!(["IPv4"]));
}
