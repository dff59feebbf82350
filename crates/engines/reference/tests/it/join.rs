//! Rules of spec/referential-authorization.md, section 2: exactly when access exists.

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

#[test]
fn r50_a_local_reference_needs_no_grant() {
    let mut house = House::story();
    house.gateway("prod", "local", "contour", &[("own", ""), ("named", "prod")]);
    assert!(house.may("prod", "own") && house.may("prod", "named"));
    assert!(!house.may("prod", "other") && !house.may("other", "own"));
}

#[test]
fn many_new_targets_of_one_origin_come_together_and_each_once() {
    let mut house = House::story();
    let before = house.index.stats();
    let names: Vec<String> = (0..20)
        .map(|n| {
            format!("new-{n}{}", if n % 3 == 0 { "-with-a-name-too-long-for-a-slot" } else { "" })
        })
        .collect();
    // Every name twice, and every fourth in another namespace.
    let namespace = |n: usize| if n.is_multiple_of(4) { "elsewhere" } else { "" };
    let twice: Vec<(&str, &str)> =
        (0..20).flat_map(|n| [n, n]).map(|n| (names[n].as_str(), namespace(n))).collect();
    for round in 0..3 {
        house.gateway("prod", "many", "contour", &twice);
        assert_eq!(house.index.stats().edges, before.edges + 20);
        let view = house.index.publish();
        for (n, name) in names.iter().enumerate() {
            let local = namespace(n).is_empty();
            let asked = get(CONTOUR, "secrets", "prod", name);
            assert_eq!(view.decide(&asked).is_allowed(), local, "{round} {name}");
            assert_eq!(house.may("prod", name), local, "{round} {name}");
            assert!(!house.may("elsewhere", name));
        }
        house.drop_origin("gateways", "prod", "many");
        let view = house.index.publish();
        assert!(
            names
                .iter()
                .all(|name| { !view.decide(&get(CONTOUR, "secrets", "prod", name)).is_allowed() })
        );
        assert_eq!(house.index.stats().edges, before.edges);
    }
}

#[test]
fn r51_a_cross_namespace_reference_needs_strategy_reference_consumer_and_grant() {
    let parts: [fn(&mut House); 4] = [
        |house| house.tell(IndexEvent::DropStrategy("gateways")),
        |house| house.drop_origin("gateways", "prod", "web"),
        |house| house.tell(IndexEvent::DropConsumer("contour-gateway")),
        |house| house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways")),
    ];
    assert!(House::story().may("prod-tls", "acme-tls"));
    for part in parts {
        let mut house = House::story();
        part(&mut house);
        assert!(!house.may("prod-tls", "acme-tls"));
    }
}

#[test]
fn r52_a_target_without_a_namespace_needs_the_strategys_leave() {
    for (allow, expected) in [(false, false), (true, true)] {
        let mut house = House::new();
        house.put_strategy(json!({
            "metadata": { "name": "s" },
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "versions": [{ "version": "v1", "references": [{
                "path": ".spec.cert", "target": { "group": "x", "resource": "certs" },
                "purpose": "ca", "allowClusterScopedTarget": allow,
            }] }],
        }));
        house.put_consumer(json!({
            "metadata": { "name": "c" }, "subject": { "kind": "User", "name": CONTOUR },
            "references": [{
                "origin": { "group": GATEWAYS, "resource": "gateways" },
                "target": { "group": "x", "resource": "certs" }, "purpose": "ca",
            }],
        }));
        house.origin("gateways", "prod", "web", json!({ "cert": "root" }));
        let asked = Attributes { group: "x", ..get(CONTOUR, "certs", "", "root") };
        assert_eq!(house.index.decide(&asked).is_allowed(), expected);
        let named = Attributes { namespace: "prod", ..asked };
        assert!(!house.index.decide(&named).is_allowed());
    }
}

#[test]
fn r53_an_origin_without_a_namespace_names_one_and_needs_a_grant_for_none() {
    let mut house = House::new();
    house.strategy("profiles", "profiles", None, ".spec.ref.name");
    house.consumer("c", CONTOUR, &[], "profiles");
    house.origin("profiles", "", "p", json!({ "ref": { "name": "s", "namespace": "prod" } }));
    house.origin("profiles", "", "lost", json!({ "ref": { "name": "t" } }));
    assert!(!house.may("prod", "s"));
    let mut wrong = grant("prod", "g", "prod", &["s"]);
    wrong["origin"] = json!({ "group": "x", "resource": "profiles", "namespace": "prod" });
    house.put_grant(wrong.clone());
    assert!(!house.may("prod", "s"));
    wrong["origin"] = json!({ "group": "x", "resource": "profiles" });
    house.put_grant(wrong);
    assert!(house.may("prod", "s"));
    assert_eq!(house.index.stats().dropped.iter().find(|d| d.0 == "no_namespace").unwrap().1, 1);
    // One for no namespace is none for gateways of a namespace.
    let mut house = House::story();
    house.grant("prod-tls", "prod-gateways", "", &["acme-tls"]);
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn r54_everything_is_compared_byte_by_byte() {
    let mut house = House::story();
    assert!(!house.may("prod-tls", "Acme-tls") && !house.may("Prod-tls", "acme-tls"));
    for (group, resource) in [("core", "secrets"), ("", "Secret"), ("", "secret"), ("", "SECRETS")]
    {
        let asked = Attributes { group, ..get(CONTOUR, resource, "prod-tls", "acme-tls") };
        assert!(!house.index.decide(&asked).is_allowed());
    }
    house.gateway("prod", "web", "Contour", &[("acme-tls", "prod-tls")]);
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn r55_classes_are_accepted_as_the_table_says() {
    let rows: [(Option<&str>, serde_json::Value, &[&str], bool); 12] = [
        (None, json!("x"), &[], true),
        (None, json!("x"), &["y"], true),
        (Some(".spec.class"), json!("x"), &["x"], true),
        (Some(".spec.class"), json!("x"), &["*"], true),
        (Some(".spec.class"), json!("x"), &[], false),
        (Some(".spec.class"), json!("x"), &["y", ""], false),
        (Some(".spec.class"), json!(null), &[""], true),
        (Some(".spec.class"), json!(""), &[""], true),
        (Some(".spec.class"), json!(7), &[""], true),
        (Some(".spec.class"), json!(null), &["*", "x"], false),
        (Some(".spec.other"), json!("x"), &["*"], false),
        (Some(".spec.other"), json!("x"), &["", "x"], true),
    ];
    for (path, class, names, expected) in rows {
        let mut house = House::new();
        house.strategy("s", "gateways", path, ".spec.secret");
        house.consumer("c", CONTOUR, names, "gateways");
        house.origin("gateways", "n", "o", json!({ "class": class, "secret": "s" }));
        assert_eq!(house.may("n", "s"), expected, "{path:?} {class} {names:?}");
    }
}

#[test]
fn class_closed_when_no_classnames() {
    let mut house = House::story();
    house.consumer("contour-gateway", CONTOUR, &[], "gateways");
    assert!(!house.may("prod-tls", "acme-tls"));
    assert_eq!(house.explain("prod-tls", "acme-tls").code, Some(UnmetCondition::Class));
}

#[test]
fn class_star_is_explicit() {
    let mut house = House::story();
    house.gateway("prod", "web", "envoy", &[("acme-tls", "prod-tls")]);
    assert!(!house.may("prod-tls", "acme-tls"));
    house.consumer("contour-gateway", CONTOUR, &["*"], "gateways");
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn class_unset_needs_empty_string() {
    let mut house = House::story();
    house.gateway("prod", "web", "", &[("acme-tls", "prod-tls")]);
    house.consumer("contour-gateway", CONTOUR, &["*"], "gateways");
    assert!(!house.may("prod-tls", "acme-tls"));
    house.consumer("contour-gateway", CONTOUR, &[""], "gateways");
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn d11_d12_the_defaults_are_closed() {
    class_closed_when_no_classnames();
    class_unset_needs_empty_string();
}

#[test]
fn r56_two_purposes_one_object_each_revoked_alone() {
    let mut house = House::story();
    let mut strategy = json!({
        "metadata": { "name": "other" },
        "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [{ "version": "v1", "references": [secret_path(".spec.other")] }],
    });
    strategy["versions"][0]["references"][0]["purpose"] = json!("other");
    house.put_strategy(strategy);
    house.put_consumer(json!({
        "metadata": { "name": "second" }, "subject": { "kind": "User", "name": CONTOUR },
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": "other",
        }],
    }));
    let spec = json!({
        "gatewayClassName": "contour", "other": "s",
        "listeners": [{ "tls": { "certificateRefs": [{ "group": "", "kind": "Secret", "name": "s" }] } }],
    });
    house.origin("gateways", "prod", "both", spec);
    assert!(house.may("prod", "s"));
    house.tell(IndexEvent::DropConsumer("second"));
    assert!(house.may("prod", "s"));
    house.tell(IndexEvent::DropConsumer("contour-gateway"));
    assert!(!house.may("prod", "s"));
}

#[test]
fn two_purposes_one_object_each_revoked_alone() {
    r56_two_purposes_one_object_each_revoked_alone();
}

#[test]
fn r57_the_target_need_not_exist_and_a_terminating_origin_counts() {
    let mut house = House::story();
    let mut object =
        json!({ "metadata": { "name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    object["spec"] = json!({
        "gatewayClassName": "contour",
        "listeners": [{ "tls": { "certificateRefs": [{ "group": "", "kind": "Secret", "name": "x" }] } }],
    });
    let name =
        OriginName { group: GATEWAYS, resource: "gateways", namespace: "prod", name: "going" };
    house.tell(IndexEvent::PutOrigin(Origin { name, version: "v1", object: &object }));
    assert!(house.may("prod", "x"));
}

#[test]
fn r58_d22_one_version_is_active_the_first_served_that_is_listed() {
    let mut versions: Vec<String> =
        ["v1alpha1", "v2beta1", "v1", "foo", "v10", "v1beta2"].map(Into::into).to_vec();
    preference_order("v1beta2", &mut versions);
    assert_eq!(versions, ["v1beta2", "v10", "v1", "v2beta1", "v1alpha1", "foo"]);
    active_version_preferred();
}

fn versioned() -> serde_json::Value {
    json!({
        "metadata": { "name": "gateways" },
        "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [
            { "version": "v1beta1", "references": [secret_path(".spec.old")] },
            { "version": "v1", "references": [secret_path(".spec.new")] },
        ],
    })
}

#[test]
fn active_version_preferred() {
    let mut house = House::new();
    house.put_strategy(versioned());
    house.consumer("c", CONTOUR, &[], "gateways");
    house.origin_at("gateways", "v1", "n", "o", json!({ "new": "n", "old": "not-read" }));
    house.origin_at("gateways", "v1beta1", "n", "o", json!({ "old": "o" }));
    assert!(house.may("n", "n") && !house.may("n", "o") && !house.may("n", "not-read"));
    house.serve(&["v1beta1"]);
    assert!(!house.may("n", "n") && house.may("n", "o"));
    house.serve(&["v2"]);
    assert!(!house.may("n", "n") && !house.may("n", "o"));
    assert_eq!(
        house.index.explain(&get(CONTOUR, "secrets", "n", "o")).code,
        Some(UnmetCondition::Version)
    );
}

#[test]
fn r59_version_switch_has_no_gap() {
    let mut house = House::new();
    house.put_strategy(versioned());
    house.consumer("c", CONTOUR, &[], "gateways");
    house.origin_at("gateways", "v1", "n", "o", json!({ "new": "same" }));
    house.origin_at("gateways", "v1", "n", "p", json!({ "new": "only-new" }));
    house.origin_at("gateways", "v1beta1", "n", "o", json!({ "old": "same" }));
    assert!(house.may("n", "same"));
    house.out = Outputs::default();
    // By hand, to look in between.
    let mut out = Outputs::default();
    house.index.apply(IndexEvent::Served(served(&["v1beta1"])), &mut out);
    assert_eq!(
        out.needs,
        [
            Need::Stop(Resource::new(GATEWAYS, "gateways"), "v1".into()),
            Need::Feed(Resource::new(GATEWAYS, "gateways"), "v1beta1".into()),
        ]
    );
    assert!(house.may("n", "same") && house.may("n", "only-new"));
    let object = json!({ "spec": { "old": "same" } });
    let name = OriginName { group: GATEWAYS, resource: "gateways", namespace: "n", name: "o" };
    let origin = Origin { name, version: "v1beta1", object: &object };
    house.index.apply(IndexEvent::PutOrigin(origin), &mut out);
    // The path of the new version takes the place of the old one within one event, itself first.
    let moved = |out: &Outputs| out.transitions.iter().map(|t| t.live).collect::<Vec<bool>>();
    assert!(house.may("n", "same") && moved(&out) == [true, false]);
    let synced = Synced::Origins { group: GATEWAYS, resource: "gateways", version: "v1beta1" };
    house.index.apply(IndexEvent::Synced(synced), &mut out);
    assert!(house.may("n", "same") && !house.may("n", "only-new"));
    assert_eq!(moved(&out), [true, false, false]);
}

#[test]
fn version_switch_has_no_gap() {
    r59_version_switch_has_no_gap();
}

#[test]
fn r60_overlap_is_counted() {
    let mut house = House::story();
    house.strategy("again", "gateways", None, SEED_PATH);
    house.consumer("again", CONTOUR, &["contour"], "gateways");
    house.grant("prod-tls", "again", "prod", &["acme-tls"]);
    house.tell(IndexEvent::DropStrategy("gateways"));
    house.tell(IndexEvent::DropConsumer("contour-gateway"));
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    assert!(house.may("prod-tls", "acme-tls"));
    house.tell(IndexEvent::DropGrant("prod-tls", "again"));
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn shared_target_two_origins_refcount() {
    let mut house = House::story();
    house.gateway(
        "prod",
        "second",
        "contour",
        &[("acme-tls", "prod-tls"), ("acme-tls", "prod-tls")],
    );
    house.drop_origin("gateways", "prod", "web");
    assert!(house.may("prod-tls", "acme-tls"));
    house.drop_origin("gateways", "prod", "second");
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn r63_access_is_not_passed_on() {
    let mut house = House::story();
    // The Secret's namesake is an origin of its own type; nobody consumes that.
    house.strategy("routes", "httproutes", None, ".spec.secret");
    house.origin("httproutes", "prod", "r", json!({ "secret": "routed" }));
    assert!(!house.may("prod", "routed"));
    house.consumer("routes", "router", &[], "httproutes");
    assert!(!house.may("prod", "routed") && house.user_may("router", "prod", "routed"));
    assert!(!house.user_may("router", "prod-tls", "acme-tls"));
}

#[test]
fn r64_r65_d26_what_authors_and_consumers_can_do_is_found() {
    let house = House::story();
    let found = house.index.findings(&|subject, origin| {
        *subject == Subject::User(CONTOUR.into()) && origin.resource == "gateways"
    });
    let secrets = vec![Resource::new("", "secrets")];
    let gateways = Resource::new(GATEWAYS, "gateways");
    assert_eq!(
        found,
        [
            ReferenceFinding::AuthorsChoose {
                strategy: "gateways".into(),
                origin: gateways.clone(),
                targets: secrets,
            },
            ReferenceFinding::SelfReferencing {
                consumer: "contour-gateway".into(),
                origin: gateways
            },
        ]
    );
    let mut house = House::story();
    house.drop_origin("gateways", "prod", "web");
    let found = house.index.findings(&|_, _| false);
    assert!(
        matches!(&found[1], ReferenceFinding::UnusedGrant { name, .. } if name == "prod-gateways")
    );
}

#[test]
fn r38_r39_r40_authors_are_told_what_does_not_match() {
    let house = House::story();
    let kept = Strategy::from_object(
        json!({
            "metadata": { "name": "flat" },
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "versions": [{ "version": "v1", "references": [secret_path(".spec.x")] }],
        })
        .as_object()
        .unwrap(),
    );
    let advice = house.index.advise_strategy(&kept.unwrap());
    assert!(advice.len() == 1 && advice[0].text.contains("the partition is void"), "{advice:?}");
    let consumer = Consumer {
        name: "new".into(),
        subject: Subject::User("u".into()),
        class_names: Vec::new(),
        class_selector: None,
        references: vec![Triple {
            origin: Resource::new(GATEWAYS, "gateways"),
            target: Resource::new("", "secrets"),
            purpose: "tls-serving".into(),
        }],
    };
    assert_eq!(house.index.advise_consumer(&consumer)[0].field, "classNames");
    let mut other = consumer;
    other.references[0].purpose = "serving".into();
    let advice = house.index.advise_consumer(&other);
    assert!(advice[0].text.ends_with("nearest is `gateways`, whose purpose is `tls-serving`"));
    let grant = grant("n", "g", "prod", &["s"]);
    let grant = Grant::from_object(grant.as_object().unwrap()).unwrap();
    assert_eq!(house.index.advise_grant(&grant), []);
}

#[test]
fn r43_an_api_that_goes_and_returns_revives_what_is_stored() {
    let mut house = House::story();
    house.serve(&[]);
    assert!(!house.may("prod-tls", "acme-tls"));
    house.serve(&["v1"]);
    assert!(house.may("prod-tls", "acme-tls"));
    let without = served(&["v1"]).into_iter().filter(|row| row.resource.resource != "secrets");
    house.tell(IndexEvent::Served(without.collect()));
    assert!(!house.may("prod-tls", "acme-tls"));
    house.serve(&["v1"]);
    assert!(house.may("prod-tls", "acme-tls"));
}
