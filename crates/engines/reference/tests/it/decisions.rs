//! Rules of spec/referential-authorization.md, section 15: what was decided, where the engine alone shows it.

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

#[test]
fn d2_no_type_is_known_beforehand() {
    let mut house = House::new();
    let row = |group: &str, resource: &str, kind: &str| ServedType {
        resource: Resource::new(group, resource),
        kind: kind.into(),
        namespaced: true,
        versions: vec!["v1".into()],
    };
    house.tell(IndexEvent::Served(vec![row("a", "askers", "Asker"), row("b", "things", "Thing")]));
    let origin = json!({ "group": "a", "resource": "askers" });
    let target = json!({ "group": "b", "resource": "things" });
    house.put_strategy(json!({
        "metadata": { "name": "askers" }, "origin": origin,
        "versions": [{ "version": "v1", "references": [
            { "path": ".thing.name", "target": target, "purpose": "use" },
        ] }],
    }));
    house.put_consumer(json!({
        "metadata": { "name": "c" }, "subject": { "kind": "User", "name": "u" },
        "references": [{ "origin": origin, "target": target, "purpose": "use" }],
    }));
    house.put_grant(json!({
        "metadata": { "name": "g", "namespace": "there" },
        "origin": { "group": "a", "resource": "askers", "namespace": "here" },
        "target": { "group": "b", "resource": "things", "names": ["t"] }, "purpose": "use",
    }));
    let object = json!({ "thing": { "name": "t", "namespace": "there" } });
    let name = OriginName { group: "a", resource: "askers", namespace: "here", name: "o" };
    house.tell(IndexEvent::PutOrigin(Origin { name, version: "v1", object: &object }));
    let asked = Attributes { group: "b", ..get("u", "things", "there", "t") };
    assert!(house.index.decide(&asked).is_allowed());
    assert!(!house.index.decide(&Attributes { name: "u", ..asked }).is_allowed());
}

#[test]
fn d3_a_grant_serves_every_controller_and_belongs_to_none() {
    let mut house = House::story();
    house.consumer("second", "second", &["contour"], "gateways");
    assert!(house.may("prod-tls", "acme-tls"));
    assert!(house.user_may("second", "prod-tls", "acme-tls"));
    house.tell(IndexEvent::DropConsumer("contour-gateway"));
    assert!(!house.may("prod-tls", "acme-tls"));
    assert!(house.user_may("second", "prod-tls", "acme-tls"));
}

#[test]
fn d5_d6_verbs_that_write_and_verbs_nobody_enforces_get_no_opinion() {
    let house = House::story();
    let asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
    for verb in
        ["create", "update", "patch", "delete", "deletecollection", "forward", "scale", "use"]
    {
        let decision = house.index.decide(&Attributes { verb, ..asked });
        assert_eq!(decision, ReferenceDecision::NoOpinion, "{verb}");
    }
}

#[test]
fn d6_d7_the_purpose_carries_the_intent_and_the_check_asks_for_it() {
    let house = House::story();
    let asked = query(("prod", "web"), ("prod-tls", "acme-tls"));
    assert!(house.index.check(&asked).is_allowed());
    for purpose in ["forward", "get", ""] {
        assert!(!house.index.check(&RefQuery { purpose, ..asked }).is_allowed(), "{purpose}");
    }
}

#[test]
fn d10_a_star_covers_every_class_that_is_set() {
    let mut house = House::story();
    house.consumer("contour-gateway", CONTOUR, &["*"], "gateways");
    house.gateway("prod", "new", "never-seen-before", &[("new", "")]);
    house.gateway("prod", "unset", "", &[("unset", "")]);
    assert!(house.may("prod-tls", "acme-tls") && house.may("prod", "new"));
    assert!(!house.may("prod", "unset"));
}

#[test]
fn d24_a_name_is_what_is_referenced_whoever_bears_it() {
    // An origin that is made anew, with another uid, refers to the same names; nothing else is compared.
    let mut house = House::story();
    house.drop_origin("gateways", "prod", "web");
    assert!(!house.may("prod-tls", "acme-tls"));
    house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls")]);
    assert!(house.may("prod-tls", "acme-tls"));
    // A uid beside the name narrows nothing and widens nothing.
    let refs = json!([{ "group": "", "kind": "Secret", "name": "s", "uid": "some" }]);
    let spec = json!({ "gatewayClassName": "contour", "listeners": [{ "tls": { "certificateRefs": refs } }] });
    house.origin("gateways", "prod", "uid", spec);
    assert!(house.may("prod", "s"));
}

#[test]
fn r126_d23_without_news_the_last_state_answers() {
    // Whoever feeds the index falls silent: nothing in it expires, and nothing in it opens.
    let mut house = House::story();
    let last = house.index.publish();
    for _ in 0..1_000 {
        assert!(std::sync::Arc::ptr_eq(&last, &house.index.publish()));
    }
    assert!(house.may("prod-tls", "acme-tls") && !house.may("prod-tls", "other"));
}

#[test]
fn r172_a_class_that_appears_is_expanded_for_who_takes_all_and_for_who_waits_for_it() {
    let mut house = House::story();
    house.consumer("all", "all", &["*"], "gateways");
    house.consumer("waits", "waits", &["late"], "gateways");
    house.gateway("prod", "late", "late", &[("s", "")]);
    assert!(house.user_may("all", "prod", "s") && house.user_may("waits", "prod", "s"));
    assert!(!house.may("prod", "s"));
}

#[test]
fn r172_words_are_given_back_with_the_last_that_uses_them() {
    let mut house = House::story();
    let before = house.index.stats();
    for round in 0..50 {
        let name = format!("only-{round}");
        house.gateway("prod", &name, "contour", &[(&name, ""), (&name, "prod-tls")]);
        house.drop_origin("gateways", "prod", &name);
    }
    house.index.publish();
    assert_eq!(house.index.stats(), before);
}
