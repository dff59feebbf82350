//! Rules of spec/ownership.md (sections 1 and 5) and, where the name says `api`, spec/api-server.md.

use serde_json::json;

use super::*;
use crate::kind::{Dependents, NoRules, Verbs};

fn kind(name_rule: NameRule, namespaced: bool, type_name: &'static str) -> Kind {
    Kind {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        singular: "configmap".into(),
        short_names: vec![],
        categories: vec![],
        namespaced,
        verbs: Verbs::All,
        type_name: type_name.into(),
        storage: "configmaps".into(),
        subresources: vec![],
        name_rule,
        generation: false,
        status: None,
        unconditional_update: true,
        create_on_update: false,
        returns_deleted: false,
        dependents: Dependents::Delete,
        fields: vec![],
        acted_on: crate::kind::ActedOn::By("nobody but tests"),
        deprecated: None,
        rules: Box::new(NoRules),
    }
}

fn config_map() -> Kind {
    kind(NameRule::Subdomain, true, "api.core.v1.ConfigMap")
}

fn object(meta: Value) -> Object {
    json!({ "metadata": meta }).as_object().cloned().unwrap()
}

fn listed(errors: &Errors) -> Vec<String> {
    errors.causes().iter().map(|c| format!("{} {}", c.field, c.reason.as_str())).collect()
}

fn create(meta: Value, kind: &Kind) -> Vec<String> {
    let mut meta = meta;
    if kind.namespaced {
        meta["namespace"] = json!("n");
    }
    let mut errors = Errors::new();
    validate_meta(&object(meta), kind, &mut errors);
    listed(&errors)
}

fn update(new: Value, old: Value) -> Vec<String> {
    let old = object(old);
    let mut new = object(new);
    keep_stored_meta(&mut new, &old);
    let mut errors = Errors::new();
    validate_meta_update(&new, &old, &config_map(), &mut errors);
    listed(&errors)
}

#[test]
fn api_r59_a_name_is_required() {
    assert_eq!(create(json!({}), &config_map()), ["metadata.name FieldValueRequired"]);
}

#[test]
fn api_r60_names_by_kind() {
    let bad = ["metadata.name FieldValueInvalid"];
    let none: [&str; 0] = [];
    let cases = [
        (NameRule::Subdomain, "a.b-c.d", &none[..]),
        (NameRule::Subdomain, "Upper", &bad[..]),
        (NameRule::Subdomain, "under_score", &bad[..]),
        (NameRule::Subdomain, "-dash", &bad[..]),
        (NameRule::Label, "1abc", &none[..]),
        (NameRule::Label, "a.b", &bad[..]),
        (NameRule::PathSegment, "system:node", &none[..]),
        (NameRule::PathSegment, "a/b", &bad[..]),
        (NameRule::PathSegment, "..", &bad[..]),
    ];
    for (rule, name, expected) in cases {
        let kind = kind(rule, true, "api.core.v1.ConfigMap");
        assert_eq!(create(json!({"name": name}), &kind), expected, "{name}");
    }
    let long = "x".repeat(253);
    assert_eq!(create(json!({"name": long}), &config_map()), none);
    assert_eq!(create(json!({"name": format!("{long}x")}), &config_map()), bad);
    // Every fault is a cause of its own.
    let twice = "metadata.name FieldValueInvalid";
    let shouted = "X".repeat(254);
    for (rule, name) in [
        (NameRule::Subdomain, &*shouted),
        (NameRule::Label, &*shouted),
        (NameRule::PathSegment, "a/b%c"),
    ] {
        let kind = kind(rule, true, "api.core.v1.ConfigMap");
        assert_eq!(create(json!({"name": name}), &kind), [twice, twice], "{name}");
    }
}

#[test]
fn api_r60_the_beginning_of_a_name() {
    let of = |rule, text: &str| {
        let kind = kind(rule, true, "api.core.v1.ConfigMap");
        create(json!({"name": "a", "generateName": text}), &kind).len()
    };
    for (text, count) in [("web-", 0), ("A-", 0), ("-", 1), ("é-", 1), ("A.-", 1), ("web", 0)] {
        assert_eq!(of(NameRule::Subdomain, text), count, "{text}");
    }
    assert_eq!(of(NameRule::Label, &format!("{}-", "A".repeat(65))), 2);
    assert_eq!(of(NameRule::PathSegment, "a/b%c"), 2);
    let old = json!({"name": "a", "generateName": ".."});
    assert!(update(old.clone(), old).is_empty());
}

#[test]
fn r60_nothing_is_told_twice() {
    let labels = json!({"a": "b d", "b": "b d"});
    let one = ["metadata.labels FieldValueInvalid"];
    let custom = kind(NameRule::Subdomain, true, "");
    assert_eq!(create(json!({"name": "a", "labels": labels}), &custom), one);
    // A changed custom object says it three times, in the first two as often as it finds it.
    let (new, old) = (json!({"name": "a", "labels": labels}), json!({"name": "a"}));
    let mut errors = Errors::new();
    validate_meta_update(&object(new), &object(old), &custom, &mut errors);
    assert_eq!(errors.causes().len(), 5);
    errors.dedupe();
    assert_eq!(listed(&errors), one);
}

#[test]
fn api_r60_labels_and_annotations() {
    let label = vec!["metadata.labels FieldValueInvalid"];
    let annotation = vec!["metadata.annotations FieldValueInvalid"];
    let cases = [
        (json!({"labels": {"bad key": "v"}}), label.clone()),
        (json!({"labels": {"k": "bad value"}}), label.clone()),
        (json!({"labels": {"a/b/c": "v"}}), label.clone()),
        (json!({"labels": {"Example.com/k": "v"}}), label.clone()),
        (json!({"labels": {"k": "x".repeat(64)}}), label),
        (json!({"labels": {"example.com/K_1.x": "", "k": "A-b_c.9"}}), vec![]),
        (json!({"annotations": {"bad key": "v"}}), annotation.clone()),
        (json!({"annotations": {"/x": "v"}}), annotation.clone()),
        (json!({"annotations": {"x".repeat(64): "v"}}), annotation),
        (json!({"annotations": {"Example.com/UPPER": "any {text}\n"}}), vec![]),
        (
            json!({"annotations": {"k": "x".repeat(ANNOTATIONS_BYTES_MAX)}}),
            vec!["metadata.annotations FieldValueTooLong"],
        ),
    ];
    for (mut meta, expected) in cases {
        meta["name"] = json!("a");
        assert_eq!(create(meta, &config_map()), expected);
    }
}

#[test]
fn api_r60_cluster_kinds_have_no_namespace() {
    let cluster = kind(NameRule::Subdomain, false, "api.core.v1.Node");
    assert_eq!(
        create(json!({"name": "a", "namespace": "n"}), &cluster),
        ["metadata.namespace FieldValueForbidden"]
    );
}

#[test]
fn r1_to_r4_owner_references() {
    let at = |tail: &str| format!("metadata.ownerReferences{tail}");
    let cases = [
        (
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p"}]),
            vec![at("[0].uid FieldValueRequired")],
        ),
        (
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}, {}]),
            vec![
                at("[1].apiVersion FieldValueRequired"),
                at("[1].kind FieldValueRequired"),
                at("[1].name FieldValueRequired"),
                at("[1].uid FieldValueRequired"),
            ],
        ),
        (
            json!([{"apiVersion": "a/b/c", "kind": "T", "name": "t", "uid": "u"}]),
            vec![at("[0].apiVersion FieldValueInvalid")],
        ),
        (
            json!([
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "u2", "controller": true}
            ]),
            vec![at(" FieldValueInvalid")],
        ),
        (
            json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]),
            vec![at("[0] FieldValueInvalid")],
        ),
        (
            json!([{"apiVersion": "events.k8s.io/v1", "kind": "Event", "name": "e", "uid": "u"}]),
            vec![],
        ),
        (json!([{"apiVersion": "/v1", "kind": "T", "name": "t", "uid": "u"}]), vec![]),
    ];
    for (owners, expected) in cases {
        assert_eq!(
            create(json!({"name": "a", "ownerReferences": owners}), &config_map()),
            expected
        );
    }
}

#[test]
fn r8_equal_owner_references_collapse() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let mut other = owner.clone();
    other["controller"] = json!(false);
    let mut changed = object(json!({"ownerReferences": [owner, owner, other]}));
    let warnings = dedupe_owner_references(&mut changed);
    assert_eq!(changed.list_at(&["metadata", "ownerReferences"]).len(), 2);
    assert!(warnings.len() == 1 && warnings[0].ends_with(": u"), "{warnings:?}");
    assert!(dedupe_owner_references(&mut changed).is_empty());
}

#[test]
fn r69_to_r71_finalizers() {
    let cases = [
        (json!(["example.com/a b"]), vec!["metadata.finalizers FieldValueInvalid"]),
        (json!(["orphan", "foregroundDeletion"]), vec!["metadata.finalizers FieldValueInvalid"]),
        (json!(["noslash"]), vec!["metadata.finalizers[0] FieldValueInvalid"]),
        (json!(["kubernetes", "orphan", "example.com/a"]), vec![]),
    ];
    for (finalizers, expected) in cases {
        let meta = json!({"name": "a", "finalizers": finalizers});
        assert_eq!(create(meta, &config_map()), expected);
    }
    let custom = kind(NameRule::Subdomain, true, "");
    let plain = json!({"name": "a", "finalizers": ["noslash", "orphan"]});
    assert!(create(plain.clone(), &custom).is_empty());
    assert_eq!(finalizer_warnings(&object(plain.clone()), &custom).len(), 1);
    assert!(finalizer_warnings(&object(plain), &config_map()).is_empty());
}

#[test]
fn api_r60_groups_whose_finalizers_need_no_domain() {
    let of = |group: &'static str| {
        let mut kind = config_map();
        kind.group = group.into();
        create(json!({"name": "a", "finalizers": ["noslash"]}), &kind)
    };
    for group in ["coordination.k8s.io", "node.k8s.io", "policy", "apiregistration.k8s.io"] {
        assert!(of(group).is_empty(), "{group}");
    }
    for group in ["", "storage.k8s.io", "rbac.authorization.k8s.io", "events.k8s.io"] {
        assert_eq!(of(group), ["metadata.finalizers[0] FieldValueInvalid"], "{group}");
    }
}

#[test]
fn api_r60_metadata_that_is_looked_at_three_times() {
    let of = |group: &'static str, new: Value| {
        let mut kind = config_map();
        kind.group = group.into();
        let (mut new, old) = (object(new), object(json!({"name": "a", "uid": "u"})));
        keep_stored_meta(&mut new, &old);
        let mut errors = Errors::new();
        validate_meta_update(&new, &old, &kind, &mut errors);
        listed(&errors)
    };
    let new = json!({"uid": "v", "labels": {"a": "b d"}});
    let (labels, uid) = ("metadata.labels FieldValueInvalid", "metadata.uid FieldValueInvalid");
    assert_eq!(of("apps", new.clone()), [labels, uid]);
    assert_eq!(of("apiregistration.k8s.io", new), [labels, uid, labels, labels, uid]);
}

#[test]
fn r72_no_new_finalizers_while_terminating() {
    let old = json!({"name": "a", "deletionTimestamp": "2030-01-01T00:00:00Z",
        "finalizers": ["example.test/hold", "example.test/two"]});
    let forbidden = ["metadata.finalizers FieldValueForbidden"];
    assert_eq!(update(json!({"finalizers": ["example.test/three"]}), old.clone()), forbidden);
    let swapped = json!({"finalizers": ["example.test/two", "example.test/hold"]});
    assert!(update(swapped, old.clone()).is_empty());
    assert!(update(json!({}), old).is_empty());
}

#[test]
fn r74_clients_cannot_move_deletion() {
    let live = json!({"name": "a"});
    assert_eq!(
        update(json!({"deletionTimestamp": "2030-01-01T00:00:00Z"}), live),
        ["metadata.deletionTimestamp FieldValueInvalid"]
    );
    let going =
        json!({"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5});
    assert!(update(json!({"deletionTimestamp": "2031-01-01T00:00:00Z"}), going.clone()).is_empty());
    assert_eq!(
        update(json!({"deletionGracePeriodSeconds": 6}), going),
        ["metadata.deletionGracePeriodSeconds FieldValueInvalid"]
    );
}

#[test]
fn api_r65_identity_is_frozen_and_filled_in() {
    let old = json!({"name": "a", "namespace": "n", "uid": "u", "generation": 3});
    assert!(update(json!({}), old.clone()).is_empty());
    assert_eq!(update(json!({"uid": "v"}), old.clone()), ["metadata.uid FieldValueInvalid"]);
    let mut new = object(json!({"generation": 99}));
    keep_stored_meta(&mut new, &object(old));
    assert_eq!(new.int_at(&["metadata", "generation"]), Some(3));
}
