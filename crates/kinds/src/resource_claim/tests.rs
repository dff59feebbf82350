//! Rules of spec/api-server.md.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object};

use super::{allocated_node, changed_drivers, changes_binding};
use crate::check::{created, row, update_faults};

fn claim(status: &Value) -> Object {
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {}},
            {"name": "s", "firstAvailable": [{"name": "one"}]},
        ]}},
        "status": status,
    });
    claim.as_object().cloned().unwrap()
}

fn device(driver: &str, name: &str) -> Value {
    json!({"driver": driver, "pool": "p", "device": name})
}

fn result(request: &str, driver: &str, name: &str) -> Value {
    json!({"request": request, "driver": driver, "pool": "p", "device": name})
}

fn allocated(results: &[Value]) -> Value {
    json!({"devices": {"results": results}})
}

/// What a status write finds wrong, and the status that it stores.
fn written(old: &Value, new: &Value) -> (Vec<String>, Value) {
    let kind = row("resource.k8s.io", "ResourceClaim");
    let now = "2024-01-02T03:04:05Z".to_owned();
    let cx = Cx { now, uid: "u".into(), subresource: Some("status"), unlabelled: false };
    let (old, mut new) = (claim(old), claim(new));
    kind.rules.prepare_status(&mut new, &old, &cx);
    let mut errors = Errors::new();
    kind.rules.validate_status(&new, &old, &mut errors);
    let causes = errors.into_causes().into_iter();
    let listed = causes.map(|cause| format!("{} {}", cause.field, cause.reason.as_str()));
    (listed.collect(), new["status"].clone())
}

#[test]
fn r136c_a_claim_begins_without_status_and_keeps_its_spec() {
    for name in ["ResourceClaim", "ResourceClaimTemplate"] {
        let kind = row("resource.k8s.io", name);
        let body = |request: &str| json!({"spec": {"devices": {"requests": [{"name": request}]}}});
        let frozen = ["spec FieldValueInvalid"];
        assert_eq!(update_faults(&kind, body("a"), body("b")), frozen, "{name}");
        assert!(update_faults(&kind, body("a"), body("a")).is_empty(), "{name}");
    }
    let kind = row("resource.k8s.io", "ResourceClaim");
    let made = created(&kind, json!({"spec": {}, "status": {"allocation": {}}}));
    assert_eq!(made["status"], json!({}));
}

#[test]
fn r136c_what_a_claim_got_stays_and_is_what_is_spoken_of() {
    let one = allocated(&[result("r", "d", "x")]);
    let user = |uid: &str| json!({"resource": "pods", "name": "p", "uid": uid});
    for (old, new, expected) in [
        (json!({}), json!({"allocation": one}), &[][..]),
        (json!({"allocation": one}), json!({}), &[]),
        (json!({}), json!({"allocation": allocated(&[result("s/one", "d", "x")])}), &[]),
        (
            json!({}),
            json!({"allocation": allocated(&[result("t", "d_", "X")])}),
            &[
                "status.allocation.devices.results[0].request FieldValueInvalid",
                "status.allocation.devices.results[0].driver FieldValueInvalid",
                "status.allocation.devices.results[0].device FieldValueInvalid",
            ],
        ),
        (
            json!({"allocation": one}),
            json!({"allocation": allocated(&[result("r", "d", "y")])}),
            &["status.allocation FieldValueInvalid"],
        ),
        (
            json!({}),
            json!({"reservedFor": [user("u")]}),
            &["status.reservedFor FieldValueForbidden"],
        ),
        (
            json!({"allocation": one}),
            json!({"allocation": one, "reservedFor": [user("u"), user("u"), user("")]}),
            &[
                "status.reservedFor[1] FieldValueDuplicate",
                "status.reservedFor[2].uid FieldValueRequired",
            ],
        ),
        (
            json!({"allocation": one}),
            json!({"allocation": one, "devices": [device("d", "x"), device("d", "y")]}),
            &["status.devices[1] FieldValueInvalid"],
        ),
    ] {
        assert_eq!(written(&old, &new).0, expected, "{old} {new}");
    }
}

#[test]
fn r136c_what_was_said_of_devices_goes_with_them() {
    let both = allocated(&[result("r", "d", "x"), result("r", "e", "x")]);
    let said = json!([device("d", "x"), device("e", "x")]);
    let old = json!({"allocation": both, "devices": said});
    let (faults, status) = written(&old, &json!({"devices": said}));
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(status, json!({}));
    let left = allocated(&[result("r", "e", "x")]);
    let (_, status) = written(&old, &json!({"allocation": left, "devices": said}));
    assert_eq!(status["devices"], json!([device("e", "x")]));
}

#[test]
fn r136d_which_drivers_a_change_speaks_for() {
    let one = allocated(&[result("r", "d", "x")]);
    let status = |devices: &[Value]| claim(&json!({"allocation": one, "devices": devices}));
    let mut ready = device("d", "x");
    ready["data"] = json!({"ready": true});
    for (old, new, expected) in [
        (&[][..], &[][..], &[][..]),
        (&[], &[device("d", "x")], &["d"]),
        (&[device("d", "x")], &[ready], &["d"]),
        (&[device("d", "x"), device("e", "x")], &[device("d", "x")], &["e"]),
        (&[device("d", "x")], &[device("d", "x")], &[]),
        (&[device("d", "x")], &[device("e", "x")], &["d", "e"]),
    ] {
        let (old, new) = (status(old), status(new));
        assert!(changed_drivers(&new, &old).iter().eq(expected.iter()), "{new:?}");
    }
    let bare = claim(&json!({"devices": [device("d", "x")]}));
    assert!(changed_drivers(&bare, &status(&[])).is_empty(), "there is nothing allocated");
}

#[test]
fn r136d_what_binds_a_claim_and_to_which_node() {
    let bare = claim(&json!({}));
    assert!(changes_binding(&claim(&json!({"reservedFor": [{}]})), &bare));
    assert!(changes_binding(&claim(&json!({"allocation": {}})), &bare), "even an empty one");
    assert!(changes_binding(&bare, &claim(&json!({"allocation": {"devices": {}}}))));
    assert!(!changes_binding(&claim(&json!({"devices": [device("d", "x")]})), &bare));
    let field = |key: &str, values: Value| json!({"key": key, "operator": "In", "values": values});
    let on = |terms: Value| {
        claim(&json!({"allocation": {"nodeSelector": {
        "nodeSelectorTerms": terms}}}))
    };
    let named = json!({"matchFields": [field("metadata.name", json!(["n"]))]});
    let mut also = named.clone();
    also["matchExpressions"] = json!([{"key": "a", "operator": "Exists"}]);
    for (terms, node) in [
        (json!([named]), Some("n")),
        (json!([named, named]), None),
        (json!([also]), None),
        (json!([{"matchFields": [field("metadata.name", json!(["n", "m"]))]}]), None),
        (json!([{"matchFields": [field("other", json!(["n"]))]}]), None),
        (json!([]), None),
    ] {
        assert_eq!(allocated_node(&on(terms.clone())), node, "{terms}");
    }
    assert_eq!(allocated_node(&bare), None);
}
