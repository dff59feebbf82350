//! Rules of spec/referential-authorization.md, section 14: what the proof of concept got wrong stays right here.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

#[test]
fn poc_every_type_of_origin_is_noticed() {
    let mut house = House::new();
    house.strategy("profiles", "profiles", None, ".spec.ref.name");
    let wanted = Need::Feed(Resource::new("x", "profiles"), "v1".into());
    assert_eq!(house.out.needs.last(), Some(&wanted), "a type nobody has heard of is asked for");
    house.consumer("c", CONTOUR, &[], "profiles");
    house.origin("profiles", "", "p", json!({ "ref": { "name": "s", "namespace": "prod" } }));
    let mut given = grant("prod", "g", "", &["s"]);
    given["origin"] = json!({ "group": "x", "resource": "profiles" });
    house.put_grant(given);
    assert!(house.may("prod", "s"));
}

#[test]
fn poc_groups_count() {
    let mut house = House::story();
    house.put_consumer(json!({
        "metadata": { "name": "team" }, "subject": { "kind": "Group", "name": "team" },
        "classNames": ["contour"],
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": "tls-serving",
        }],
    }));
    let groups = ["team".to_owned()];
    let asked = get("member", "secrets", "prod-tls", "acme-tls");
    assert!(!house.index.decide(&asked).is_allowed());
    assert!(house.index.decide(&Attributes { groups: &groups, ..asked }).is_allowed());
}

#[test]
fn poc_a_referenced_secret_is_not_deleted_and_a_subresource_is_another_thing() {
    let house = House::story();
    let asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
    assert!(house.index.decide(&asked).is_allowed());
    assert!(!house.index.decide(&Attributes { verb: "delete", ..asked }).is_allowed());
    assert!(!house.index.decide(&Attributes { subresource: "status", ..asked }).is_allowed());
}

#[test]
fn poc_a_gateway_of_another_class_gives_nothing() {
    let mut house = House::story();
    house.gateway("prod", "theirs", "envoy", &[("theirs", "")]);
    assert!(!house.may("prod", "theirs"));
}

/// A gateway that names one Secret for two purposes, and a consumer of both.
fn two_purposes() -> House {
    let mut house = House::story();
    let purposes = ["tls-serving", "other"];
    for purpose in purposes {
        let mut path = secret_path(".spec.secret");
        path["purpose"] = json!(purpose);
        house.put_strategy(json!({
            "metadata": { "name": purpose },
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "versions": [{ "version": "v1", "references": [path] }],
        }));
    }
    let references = purposes.map(|purpose| {
        json!({
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": purpose,
        })
    });
    house.put_consumer(json!({
        "metadata": { "name": "both" }, "subject": { "kind": "User", "name": CONTOUR },
        "references": references,
    }));
    house.origin("gateways", "prod", "both", json!({ "secret": "shared" }));
    house
}

#[test]
fn poc_a_second_purpose_overwrites_nothing_and_takes_nothing_along() {
    for (first, second) in [("tls-serving", "other"), ("other", "tls-serving")] {
        let mut house = two_purposes();
        house.tell(IndexEvent::DropStrategy(first));
        assert!(house.may("prod", "shared"), "{first} went, {second} stays");
        house.tell(IndexEvent::DropStrategy(second));
        assert!(!house.may("prod", "shared"));
    }
}

#[test]
fn poc_rebuilding_one_origin_type_erases_nothing_of_another() {
    let mut house = House::story();
    house.strategy("routes", "httproutes", None, ".spec.secret");
    house.consumer("routes", CONTOUR, &[], "httproutes");
    house.origin("httproutes", "prod-tls", "r", json!({ "secret": "acme-tls" }));
    house.drop_origin("gateways", "prod", "web");
    assert!(house.may("prod-tls", "acme-tls"));
    house.tell(IndexEvent::DropStrategy("gateways"));
    assert!(house.may("prod-tls", "acme-tls"));
    house.tell(IndexEvent::DropStrategy("routes"));
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn poc_readers_never_see_half_of_a_change() {
    // One Secret or the other is referenced, never both and never none, whenever a reader looks.
    let mut house = House::story();
    house.gateway("prod", "web", "contour", &[("a", "")]);
    let published = RwLock::new(house.index.publish());
    let (done, looked) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let view = Arc::clone(&published.read().unwrap());
                let may = |name| view.decide(&get(CONTOUR, "secrets", "prod", name)).is_allowed();
                assert!(may("a") != may("b"), "a: {}, b: {}", may("a"), may("b"));
                looked.store(true, Ordering::Relaxed);
            }
        });
        for round in 0..2_000 {
            let (next, last) = if round % 2 == 0 { ("b", "a") } else { ("a", "b") };
            // Two events of one transaction, and a moment with both in between.
            house.gateway("prod", "more", "contour", &[(next, "")]);
            house.gateway("prod", "web", "contour", &[(next, "")]);
            house.drop_origin("gateways", "prod", "more");
            *published.write().unwrap() = house.index.publish();
            let view = Arc::clone(&published.read().unwrap());
            assert!(!view.decide(&get(CONTOUR, "secrets", "prod", last)).is_allowed());
        }
        while !looked.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn poc_an_event_leaves_no_window_without_access() {
    let mut house = House::story();
    house.out = Outputs::default();
    // Each of them touches what `acme-tls` hangs on, and none takes it away.
    let touched: [fn(&mut House); 4] = [
        |house| house.gateway("prod", "web", "contour", &[("x", ""), ("acme-tls", "prod-tls")]),
        |house| house.grant("prod-tls", "prod-gateways", "prod", &["x", "acme-tls"]),
        |house| house.consumer("contour-gateway", CONTOUR, &["contour", "x"], "gateways"),
        |house| house.strategy("again", "gateways", None, SEED_PATH),
    ];
    for touch in touched {
        touch(&mut house);
        assert!(house.may("prod-tls", "acme-tls"));
    }
    // Not even for those who follow what becomes live and dead, within an event.
    let went = house.out.transitions.iter().filter(|transition| !transition.live);
    assert_eq!(went.count(), 0);
}

#[test]
fn poc_an_event_asks_for_no_list() {
    let mut house = House::story();
    house.out = Outputs::default();
    house.gateway("prod", "second", "contour", &[("own", "")]);
    house.grant("prod-tls", "second", "prod", &["x"]);
    house.consumer("second", "second", &["*"], "gateways");
    house.drop_origin("gateways", "prod", "second");
    assert_eq!(house.out.needs, []);
}

#[test]
fn poc_the_version_listed_first_is_not_the_only_one() {
    let mut house = House::new();
    house.put_strategy(json!({
        "metadata": { "name": "gateways" },
        "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [
            { "version": "v1alpha2", "references": [secret_path(".spec.first")] },
            { "version": "v1", "references": [secret_path(".spec.second")] },
        ],
    }));
    house.consumer("c", CONTOUR, &[], "gateways");
    house.origin("gateways", "n", "o", json!({ "first": "first", "second": "second" }));
    assert!(house.may("n", "second") && !house.may("n", "first"));
}

#[test]
fn poc_every_path_of_a_strategy_counts() {
    let mut house = House::new();
    let paths = [".spec.a", ".spec.b", ".spec.c"].map(secret_path);
    house.put_strategy(json!({
        "metadata": { "name": "gateways" },
        "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [{ "version": "v1", "references": paths }],
    }));
    house.consumer("c", CONTOUR, &[], "gateways");
    house.origin("gateways", "n", "o", json!({ "a": "a", "b": "b", "c": "c" }));
    assert!(["a", "b", "c"].iter().all(|name| house.may("n", name)));
}

#[test]
fn poc_a_name_with_a_space_or_a_number_corrupts_nothing() {
    let mut house = House::story();
    let refs = json!([
        { "group": "", "kind": "Secret", "name": "a b" }, { "group": "", "kind": "Secret", "name": 7 },
        { "group": "", "kind": "Secret", "name": "fine" },
    ]);
    let spec = json!({ "gatewayClassName": "contour", "listeners": [{ "tls": { "certificateRefs": refs } }] });
    house.origin("gateways", "prod", "odd", spec);
    assert!(house.may("prod", "fine") && house.may("prod", "a b") && !house.may("prod", "a"));
}

#[test]
fn poc_a_reference_to_another_kind_gives_no_secret() {
    let mut house = House::new();
    house.strategy("gateways", "gateways", None, ".spec.refs[*]");
    house.consumer("c", CONTOUR, &[], "gateways");
    let refs = json!([
        { "group": "", "kind": "ConfigMap", "name": "config" },
        { "group": "x", "kind": "Secret", "name": "foreign" },
        { "group": "", "kind": "Secret", "name": "secret" },
    ]);
    house.origin("gateways", "n", "o", json!({ "refs": refs }));
    assert!(house.may("n", "secret") && !house.may("n", "config") && !house.may("n", "foreign"));
}
