//! Rules of spec/referential-authorization.md, sections 7 and 10: this particular reference.

use serde_json::{Value, json};
use tenure_reference::*;

use crate::house::*;

const WEB: (&str, &str) = ("prod", "web");
const ACME: (&str, &str) = ("prod-tls", "acme-tls");

/// The story without its grant.
fn ungranted() -> House {
    let mut house = House::story();
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    house
}

fn refusal(house: &House) -> WhyNot {
    match house.check(WEB, ACME) {
        Verdict::NotPermitted(why) => *why,
        other => unreachable!("{other:?}"),
    }
}

/// A grant that is wrong in one field is the nearest miss, and that field is named.
fn wrong(field: &str, change: impl FnOnce(&mut Value)) {
    let mut house = ungranted();
    let mut grant = grant("prod-tls", "near", "prod", &["acme-tls"]);
    change(&mut grant);
    house.put_grant(grant);
    assert!(!house.may("prod-tls", "acme-tls"), "{field}");
    let why = refusal(&house);
    let nearest = why.nearest.unwrap();
    assert_eq!((why.code, nearest.field, &*nearest.name), (UnmetCondition::Grant, field, "near"));
    let explained = house.explain("prod-tls", "acme-tls");
    assert_eq!(explained.nearest.unwrap().field, field);
}

#[test]
fn r110_local_granted_not_permitted_not_a_reference_unknown() {
    let mut house = House::story();
    assert_eq!(
        house.check(WEB, ACME),
        Verdict::Granted {
            strategy: "gateways",
            grants: [("prod-tls", "prod-gateways")].into_iter().collect(),
        }
    );
    house.gateway("prod", "local", "contour", &[("own", "")]);
    assert_eq!(
        house.check(("prod", "local"), ("prod", "own")),
        Verdict::Local { strategy: "gateways" }
    );
    assert_eq!(house.check(("prod", "local"), ACME), Verdict::NotAReference);
    assert_eq!(house.check(("prod", "absent"), ACME), Verdict::UnknownOrigin);
    let other = RefQuery { purpose: "other", ..query(WEB, ACME) };
    assert_eq!(house.index.check(&other), Verdict::NotAReference);
    // The class as the caller read it, and who reads.
    let class = |class| house.index.check(&RefQuery { class: Some(class), ..query(WEB, ACME) });
    assert!(
        class("contour").is_allowed() && !class("envoy").is_allowed() && !class("").is_allowed()
    );
    let (me, you) = (Subject::User(CONTOUR.into()), Subject::User("you".into()));
    let by = |who| house.index.check(&RefQuery { subject: Some(who), ..query(WEB, ACME) });
    assert!(by(&me).is_allowed());
    assert_eq!(
        by(&you),
        Verdict::NotPermitted(Box::new(WhyNot { code: UnmetCondition::Subject, nearest: None }))
    );
    let account =
        Subject::ServiceAccount { namespace: "contour-system".into(), name: "contour".into() };
    assert!(by(&account).is_allowed());
}

#[test]
fn r112_each_reference_that_becomes_allowed_or_denied_is_told_once() {
    let mut house = ungranted();
    house.index.follow_references();
    let told = |house: &mut House| {
        let moved = core::mem::take(&mut house.out.moved);
        moved.into_iter().map(|m| (m.origin_name, m.target_name, m.allowed)).collect::<Vec<_>>()
    };
    house.grant("prod-tls", "one", "prod", &["acme-tls"]);
    assert_eq!(told(&mut house), [("web".into(), "acme-tls".into(), true)]);
    house.grant("prod-tls", "two", "prod", &["acme-tls"]);
    house.tell(IndexEvent::DropGrant("prod-tls", "one"));
    assert_eq!(told(&mut house), []);
    house.gateway("prod", "second", "contour", &[("acme-tls", "prod-tls")]);
    assert_eq!(told(&mut house), [("second".into(), "acme-tls".into(), true)]);
    house.gateway("prod", "second", "contour", &[("acme-tls", "prod-tls"), ("own", "")]);
    assert_eq!(told(&mut house), [("second".into(), "own".into(), true)]);
    house.tell(IndexEvent::DropGrant("prod-tls", "two"));
    let mut both = told(&mut house);
    both.sort();
    assert_eq!(
        both,
        [("second".into(), "acme-tls".into(), false), ("web".into(), "acme-tls".into(), false)]
    );
    house.drop_origin("gateways", "prod", "second");
    assert_eq!(told(&mut house), [("second".into(), "own".into(), false)]);
}

#[test]
fn ref_to_missing_namespace() {
    let mut house = ungranted();
    house.gateway("prod", "web", "contour", &[("acme-tls", "no-such-namespace")]);
    let missing = house.explain("no-such-namespace", "acme-tls");
    house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls")]);
    let existing = house.explain("prod-tls", "acme-tls");
    assert_eq!(
        (missing.code, existing.code),
        (Some(UnmetCondition::Grant), Some(UnmetCondition::Grant))
    );
    assert_eq!(missing.message.replace("no-such-namespace", "prod-tls"), existing.message);
}

#[test]
fn ref_to_missing_object() {
    // Whether the target exists is nobody's business here: it is never told.
    assert!(House::story().may("prod-tls", "acme-tls"));
}

#[test]
fn no_existence_leak() {
    ref_to_missing_namespace();
}

#[test]
fn ref_without_grant() {
    let mut house = ungranted();
    assert_eq!(refusal(&house), WhyNot { code: UnmetCondition::Grant, nearest: None });
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn grant_multiple_entries() {
    let names: Vec<String> = (0..16).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut house = House::story();
    let refs: Vec<(&str, &str)> = names.iter().map(|name| (*name, "prod-tls")).collect();
    for from in ["prod", "test"] {
        house.gateway(from, "many", "contour", &refs);
        house.grant("prod-tls", from, from, &names);
    }
    for name in &names {
        assert!(house.may("prod-tls", name));
    }
    house.tell(IndexEvent::DropGrant("prod-tls", "prod"));
    assert!(house.may("prod-tls", "s15"));
    house.tell(IndexEvent::DropGrant("prod-tls", "test"));
    assert!(!house.may("prod-tls", "s15"));
}

#[test]
fn grant_for_unserved_kinds() {
    let mut house = House::story();
    house.serve(&[]);
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    house.grant("prod-tls", "early", "prod", &["acme-tls"]);
    assert!(!house.may("prod-tls", "acme-tls"));
    house.serve(&["v1"]);
    assert!(house.may("prod-tls", "acme-tls"));
}

fn overlapping() -> House {
    let mut house = ungranted();
    house.gateway("prod", "web", "contour", &[("a", "n"), ("b", "n"), ("c", "n")]);
    house.grant("n", "one", "prod", &["a", "b"]);
    house.grant("n", "two", "prod", &["b", "c"]);
    house
}

#[test]
fn grants_partially_overlap() {
    let mut house = overlapping();
    assert!(["a", "b", "c"].into_iter().all(|name| house.may("n", name)));
}

#[test]
fn revoke_one_of_overlapping() {
    let mut house = overlapping();
    house.tell(IndexEvent::DropGrant("n", "one"));
    assert!(!house.may("n", "a") && house.may("n", "b") && house.may("n", "c"));
}

#[test]
fn grant_without_names() {
    let mut house = ungranted();
    house.grant("prod-tls", "empty", "prod", &[]);
    assert!(!house.may("prod-tls", "acme-tls"));
    let mut absent = grant("prod-tls", "empty", "prod", &[]);
    absent["target"].as_object_mut().unwrap().remove("names");
    house.put_grant(absent);
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn grants_overlap_with_and_without_names() {
    let mut house = House::story();
    house.grant("prod-tls", "empty", "prod", &[]);
    house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls"), ("other", "prod-tls")]);
    assert!(house.may("prod-tls", "acme-tls") && !house.may("prod-tls", "other"));
    house.tell(IndexEvent::DropGrant("prod-tls", "empty"));
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn ref_not_allowed_by_any_grant() {
    let mut house = ungranted();
    house.grant("prod-tls", "far", "elsewhere", &["another"]);
    house.grant("prod-tls", "near", "elsewhere", &["acme-tls"]);
    assert_eq!(refusal(&house).nearest.unwrap().name, "near");
}

#[test]
fn grant_wrong_origin_namespace() {
    wrong("origin.namespace", |grant| grant["origin"]["namespace"] = json!("test"));
}

#[test]
fn grant_wrong_origin_group() {
    wrong("origin.group", |grant| grant["origin"]["group"] = json!("networking.k8s.io"));
}

#[test]
fn grant_wrong_origin_resource() {
    wrong("origin.resource", |grant| grant["origin"]["resource"] = json!("httproutes"));
}

#[test]
fn grant_wrong_target_group() {
    wrong("target.group", |grant| grant["target"]["group"] = json!("x"));
}

#[test]
fn grant_wrong_target_resource() {
    wrong("target.resource", |grant| grant["target"]["resource"] = json!("configmaps"));
}

#[test]
fn grant_wrong_target_name() {
    wrong("target.names", |grant| grant["target"]["names"] = json!(["acme", "tls"]));
}

#[test]
fn grant_in_wrong_namespace() {
    wrong("metadata.namespace", |grant| grant["metadata"]["namespace"] = json!("prod"));
}

#[test]
fn grant_wrong_purpose() {
    wrong("purpose", |grant| grant["purpose"] = json!("tls-client"));
}

#[test]
fn consumer_wrong_purpose() {
    let mut house = House::story();
    house.put_consumer(json!({
        "metadata": { "name": "contour-gateway" }, "subject": { "kind": "User", "name": CONTOUR },
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": "serving",
        }],
    }));
    assert!(!house.may("prod-tls", "acme-tls"));
    let explained = house.explain("prod-tls", "acme-tls");
    assert_eq!(explained.code, Some(UnmetCondition::Triple));
    assert_eq!(explained.nearest.unwrap().field, "purpose");
}

#[test]
fn two_gateways_one_granted() {
    let mut house = House::story();
    house.gateway("test", "web", "contour", &[("acme-tls", "prod-tls")]);
    assert!(house.may("prod-tls", "acme-tls"));
    assert!(house.check(WEB, ACME).is_allowed());
    assert!(!house.check(("test", "web"), ACME).is_allowed());
}
