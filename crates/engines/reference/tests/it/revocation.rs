//! Rules of spec/referential-authorization.md, sections 8 and 16: how access ends, and what readers see.

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

#[test]
fn r120_access_ends_when_any_leg_ends() {
    let legs: [fn(&mut House); 9] = [
        |house| house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways")),
        |house| house.grant("prod-tls", "prod-gateways", "prod", &["other"]),
        |house| house.drop_origin("gateways", "prod", "web"),
        |house| house.gateway("prod", "web", "contour", &[]),
        |house| house.gateway("prod", "web", "envoy", &[("acme-tls", "prod-tls")]),
        |house| house.tell(IndexEvent::DropStrategy("gateways")),
        |house| house.strategy("gateways", "gateways", None, ".spec.other"),
        |house| house.consumer("contour-gateway", CONTOUR, &["contour"], "httproutes"),
        |house| house.serve(&[]),
    ];
    for (number, leg) in legs.into_iter().enumerate() {
        let mut house = House::story();
        assert!(house.may("prod-tls", "acme-tls"));
        leg(&mut house);
        assert!(!house.may("prod-tls", "acme-tls"), "leg {number}");
    }
}

#[test]
fn origin_edit_moves_access() {
    let mut house = House::story();
    house.gateway("prod", "web", "contour", &[("next", "")]);
    assert!(!house.may("prod-tls", "acme-tls") && house.may("prod", "next"));
}

#[test]
fn origin_delete_revokes() {
    let mut house = House::story();
    house.drop_origin("gateways", "prod", "web");
    assert!(!house.may("prod-tls", "acme-tls"));
    assert_eq!(house.index.stats().origins, 0);
}

#[test]
fn strategy_delete_revokes_all() {
    let mut house = House::story();
    house.gateway("prod", "own", "contour", &[("own", "")]);
    house.tell(IndexEvent::DropStrategy("gateways"));
    assert!(!house.may("prod-tls", "acme-tls") && !house.may("prod", "own"));
    let stopped = Need::Stop(Resource::new(GATEWAYS, "gateways"), "v1".into());
    assert_eq!(house.out.needs.last(), Some(&stopped));
    assert_eq!((house.index.stats().origins, house.index.stats().edges), (0, 0));
}

#[test]
fn consumer_delete_revokes_all() {
    let mut house = House::story();
    house.tell(IndexEvent::DropConsumer("contour-gateway"));
    assert!(!house.may("prod-tls", "acme-tls"));
    assert_eq!(house.out.subjects.last(), Some(&(false, CONTOUR.into())));
}

#[test]
fn r121_r175_a_batch_is_seen_whole_and_a_reader_keeps_what_it_sees() {
    let mut house = House::story();
    let asked = |name| get(CONTOUR, "secrets", "prod-tls", name);
    let before = house.index.publish();
    // An older removal and a newer addition of one stream.
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    house.gateway("prod", "web", "contour", &[("next", "prod-tls")]);
    house.grant("prod-tls", "next", "prod", &["next"]);
    assert!(before.decide(&asked("acme-tls")).is_allowed());
    assert!(!before.decide(&asked("next")).is_allowed());
    let after = house.index.publish();
    assert!(!after.decide(&asked("acme-tls")).is_allowed());
    assert!(after.decide(&asked("next")).is_allowed());
    assert!(before.decide(&asked("acme-tls")).is_allowed(), "a view does not change");
    // A reader of the older one does not keep the writer.
    assert!(!house.index.is_free());
    house.tell(IndexEvent::DropGrant("prod-tls", "next"));
    let last = house.index.publish();
    assert!(!last.decide(&asked("next")).is_allowed());
    drop((before, after));
    house.grant("prod-tls", "next", "prod", &["next"]);
    assert!(house.index.publish().decide(&asked("next")).is_allowed());
}

#[test]
fn r123_r170_targets_that_become_live_or_dead_are_told_with_their_names() {
    let mut house = House::story();
    house.index.publish();
    house.out = Outputs::default();
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    house.drop_origin("gateways", "prod", "web");
    let [transition] = house.out.transitions[..] else { unreachable!("one") };
    assert!(!transition.live);
    let target = house.index.target(transition.target).unwrap();
    assert_eq!(target.to_string(), "secrets prod-tls/acme-tls");
    house.index.publish();
    assert_eq!(house.index.target(transition.target), None);
    // It comes and goes again before the next publication: its name is good once more.
    house.out = Outputs::default();
    house.gateway("prod-tls", "own", "contour", &[("acme-tls", "")]);
    house.drop_origin("gateways", "prod-tls", "own");
    let [come, gone] = house.out.transitions[..] else { unreachable!("two") };
    assert!(come.live && !gone.live);
    assert_eq!(house.index.target(gone.target).unwrap().to_string(), "secrets prod-tls/acme-tls");
    house.index.publish();
    assert_eq!(house.index.target(gone.target), None);
}

#[test]
fn r125_nothing_is_live_before_everything_was_seen() {
    let mut house = House::unseen();
    house.strategy("gateways", "gateways", None, SEED_PATH);
    house.consumer("c", CONTOUR, &[], "gateways");
    house.gateway("prod", "web", "contour", &[("own", "")]);
    for kind in [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant] {
        assert!(!house.may("prod", "own"));
        assert!(!house.index.view().is_ready());
        assert_eq!(
            house.index.explain(&get(CONTOUR, "secrets", "prod", "own")).message,
            "index not synced"
        );
        house.tell(IndexEvent::Synced(Synced::Kind(kind)));
    }
    assert!(house.may("prod", "own") && house.index.view().is_ready());
    // A type that is not seen to the end is closed; others are not.
    let mut out = Outputs::default();
    let strategy = json!({
        "metadata": { "name": "routes" },
        "origin": { "group": GATEWAYS, "resource": "httproutes" },
        "versions": [{ "version": "v1", "references": [secret_path(".spec.s")] }],
    });
    let strategy = Strategy::from_object(strategy.as_object().unwrap()).unwrap();
    house.index.apply(IndexEvent::PutStrategy(strategy), &mut out);
    house.consumer("r", CONTOUR, &[], "httproutes");
    house.origin("httproutes", "prod", "r", json!({ "s": "routed" }));
    assert!(!house.may("prod", "routed") && house.may("prod", "own"));
    let synced = Synced::Origins { group: GATEWAYS, resource: "httproutes", version: "v1" };
    house.tell(IndexEvent::Synced(synced));
    assert!(house.may("prod", "routed"));
}

#[test]
fn r170_every_event_may_be_repeated() {
    let mut house = House::story();
    let view = house.index.publish();
    house.out = Outputs::default();
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
    house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls")]);
    house.grant("prod-tls", "prod-gateways", "prod", &["acme-tls"]);
    house.tell(IndexEvent::Served(served(&["v1", "v1beta1"])));
    assert!(house.out.needs.is_empty() && house.out.transitions.is_empty());
    assert!(house.out.subjects.is_empty());
    assert!(std::sync::Arc::ptr_eq(&view, &house.index.publish()));
}

#[test]
fn r171_the_handle_of_an_allow_and_no_opinion() {
    let house = House::story();
    assert!(matches!(
        house.index.decide(&get(CONTOUR, "secrets", "prod-tls", "acme-tls")),
        ReferenceDecision::Allow(_)
    ));
    assert_eq!(
        house.index.decide(&get(CONTOUR, "secrets", "prod-tls", "x")),
        ReferenceDecision::NoOpinion
    );
}

#[test]
fn r174_a_consumer_or_a_class_walks_over_no_edges() {
    // A class that appears later is covered by `*` at once, and a consumer of a known class as well.
    let mut house = House::story();
    house.consumer("star", "star", &["*"], "gateways");
    house.gateway("prod", "late", "brand-new", &[("late", "")]);
    assert!(house.user_may("star", "prod", "late"));
    house.consumer("named", "named", &["brand-new"], "gateways");
    assert!(house.user_may("named", "prod", "late") && !house.may("prod", "late"));
}
