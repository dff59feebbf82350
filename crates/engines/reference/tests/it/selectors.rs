//! Rules of spec/referential-authorization.md, decisions D9 and D13: namespaces by labels, classes by controller.

use serde_json::{Value, json};
use tenure_reference::*;

use crate::house::*;

/// A grant of `acme-tls` in `prod-tls` to namespaces that a selector selects.
fn selecting(name: &str, selector: Value) -> Value {
    let mut object = grant("prod-tls", name, "", &["acme-tls"]);
    let origin = object["origin"].as_object_mut().unwrap();
    origin.remove("namespace");
    origin.insert("namespaceSelector".into(), selector);
    object
}

fn team(name: &str) -> Value {
    json!({ "matchLabels": { "team": name } })
}

/// Gateways in two namespaces name a Secret of a third, which is granted to those with a label.
fn street(mut house: House) -> House {
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
    house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls")]);
    house.put_grant(selecting("teams", team("web")));
    house
}

fn may(house: &mut House) -> bool {
    house.may("prod-tls", "acme-tls")
}

#[test]
fn d9_labels_of_a_namespace_grant_and_their_change_revokes() {
    let mut house = street(House::selecting());
    assert!(!may(&mut house), "the namespace was never told");
    house.namespace("prod", json!({ "team": "web" }));
    assert!(may(&mut house));
    house.namespace("prod", json!({ "team": "mail" }));
    assert!(!may(&mut house));
    house.namespace("prod", json!({ "team": "web", "more": "" }));
    assert!(may(&mut house));
    house.drop_origin("namespaces", "", "prod");
    assert!(!may(&mut house));
    // One of the same name that was made anew has the labels it has.
    house.namespace("prod", Value::Null);
    assert!(!may(&mut house));
}

#[test]
fn d9_namespaces_are_asked_for_while_a_grant_selects() {
    let mut house = House::selecting();
    house.namespace("prod", json!({ "team": "web" }));
    let namespaces = || Resource::new("", "namespaces");
    let asked = |house: &House| {
        let needs = house.out.needs.iter();
        needs.filter(|need| **need == Need::Feed(namespaces(), "v1".into())).count()
    };
    assert_eq!(asked(&house), 0);
    let mut house = street(house);
    assert_eq!(asked(&house), 1);
    assert!(may(&mut house), "what was there before is told when it is asked for");
    house.put_grant(selecting("others", team("mail")));
    assert_eq!(asked(&house), 1, "one grant more that selects asks for nothing more");
    house.tell(IndexEvent::DropGrant("prod-tls", "teams"));
    assert!(!may(&mut house));
    house.put_grant(grant("prod-tls", "others", "other", &["acme-tls"]));
    assert_eq!(house.out.needs.last(), Some(&Need::Stop(namespaces(), "v1".into())));
    // Nothing of it is left that a later grant would go by.
    house.tell(IndexEvent::DropGrant("prod-tls", "others"));
    assert_eq!((house.index.stats().grants, house.index.stats().targets), (0, 1));
}

#[test]
fn d9_a_strategy_and_a_selector_may_look_at_the_same_type() {
    let mut house = street(House::selecting());
    house.namespace("prod", json!({ "team": "web" }));
    house.put_strategy(json!({
        "metadata": { "name": "namespaces" },
        "origin": { "group": "", "resource": "namespaces" },
        "versions": [{ "version": "v1", "references": [secret_path(".spec.secret")] }],
    }));
    house.tell(IndexEvent::DropStrategy("namespaces"));
    let stopped = Need::Stop(Resource::new("", "namespaces"), "v1".into());
    assert!(!house.out.needs.contains(&stopped), "the grant still selects");
    house.namespace("prod", json!({}));
    assert!(!may(&mut house));
}

#[test]
fn d9_the_empty_selector_means_every_namespace_that_is_there() {
    let mut house = street(House::selecting());
    house.put_grant(selecting("teams", json!({})));
    assert!(!may(&mut house));
    house.namespace("prod", Value::Null);
    assert!(may(&mut house));
    assert!(house.check(("prod", "web"), ("prod-tls", "acme-tls")).is_allowed());
}

#[test]
fn d9_expressions_select() {
    let expression = |operator: &str, values: Value| json!({ "matchExpressions": [{ "key": "team", "operator": operator, "values": values }] });
    for (selector, with_web, with_mail, without) in [
        (expression("In", json!(["web", "api"])), true, false, false),
        (expression("NotIn", json!(["web"])), false, true, true),
        (expression("Exists", Value::Null), true, true, false),
        (expression("DoesNotExist", Value::Null), false, false, true),
    ] {
        let mut house = street(House::selecting());
        house.put_grant(selecting("teams", selector.clone()));
        for (labels, expected) in [
            (json!({ "team": "web" }), with_web),
            (json!({ "team": "mail" }), with_mail),
            (json!({}), without),
        ] {
            house.namespace("prod", labels.clone());
            assert_eq!(may(&mut house), expected, "{selector} {labels}");
        }
    }
}

#[test]
fn d9_what_cannot_be_understood_selects_nothing() {
    let mut house = street(House::selecting());
    house.put_grant(selecting("teams", json!({})));
    // Labels that are none.
    for labels in [json!({ "team": 1 }), json!([]), json!("team")] {
        house.namespace("prod", json!({}));
        assert!(may(&mut house));
        house.namespace("prod", labels.clone());
        assert!(!may(&mut house), "{labels}");
    }
    for selector in [
        json!({ "matchExpressions": [{ "key": "team", "operator": "Near" }] }),
        json!({ "matchExpressions": [{ "key": "team", "operator": "NotIn" }] }),
        json!([]),
        json!("team=web"),
    ] {
        let object = selecting("teams", selector.clone());
        let read = Grant::from_object(object.as_object().unwrap());
        let unusable = Unusable::Field("origin.namespaceSelector");
        assert_eq!(read, Err(unusable), "{selector}");
    }
    let both = grant("prod-tls", "both", "prod", &["acme-tls"]);
    let mut both = both.as_object().unwrap().clone();
    both["origin"]["namespaceSelector"] = json!({});
    assert_eq!(Grant::from_object(&both), Err(Unusable::Field("origin.namespace")));
}

#[test]
fn d9_a_selector_is_never_for_origins_without_a_namespace() {
    let mut house = House::selecting();
    house.strategy("profiles", "profiles", None, ".spec.ref.name");
    house.consumer("contour-profile", CONTOUR, &[], "profiles");
    let reference = json!({ "ref": { "name": "acme-tls", "namespace": "prod-tls" } });
    house.origin("profiles", "", "global", reference);
    let mut object = selecting("all", json!({}));
    object["origin"]["group"] = json!("x");
    object["origin"]["resource"] = json!("profiles");
    house.namespace("prod", json!({}));
    house.put_grant(object);
    assert!(!may(&mut house));
}

#[test]
fn d9_without_the_feature_a_selector_selects_nothing() {
    let mut house = street(House::new());
    house.namespace("prod", json!({ "team": "web" }));
    assert!(!may(&mut house));
    house.put_grant(selecting("teams", json!({})));
    assert!(!may(&mut house));
    let asked = |need: &Need| *need == Need::Feed(Resource::new("", "namespaces"), "v1".into());
    assert!(!house.out.needs.iter().any(asked));
}

#[test]
fn d9_namespaces_that_overlap_are_counted() {
    let mut house = street(House::selecting());
    house.namespace("prod", json!({ "team": "web" }));
    house.grant("prod-tls", "named", "prod", &["acme-tls"]);
    house.put_grant(selecting("all", json!({})));
    for gone in ["named", "teams"] {
        house.tell(IndexEvent::DropGrant("prod-tls", gone));
        assert!(may(&mut house), "{gone}");
    }
    house.namespace("staging", json!({ "team": "web" }));
    house.drop_origin("namespaces", "", "staging");
    assert!(may(&mut house));
    house.tell(IndexEvent::DropGrant("prod-tls", "all"));
    assert!(!may(&mut house));
}

#[test]
fn d9_a_changed_selector_keeps_what_both_give() {
    let mut house = street(House::selecting());
    house.namespace("prod", json!({ "team": "web" }));
    house.index.follow_references();
    house.put_grant(selecting("teams", json!({})));
    assert!(house.out.moved.is_empty(), "{:?}", house.out.moved);
    house.put_grant(selecting("teams", team("mail")));
    assert_eq!(house.out.moved.iter().map(|moved| moved.allowed).collect::<Vec<_>>(), [false]);
}

#[test]
fn d9_the_labels_that_do_not_match_are_the_nearest_miss() {
    let mut house = street(House::selecting());
    house.namespace("prod", json!({ "team": "mail" }));
    let said = house.explain("prod-tls", "acme-tls");
    assert_eq!(said.code, Some(UnmetCondition::Grant));
    assert_eq!(
        said.message,
        "ReferenceGrant `prod-tls/teams` differs in `origin.namespaceSelector`: the labels of \
         namespace `prod` do not match `team=web`"
    );
    let Verdict::NotPermitted(why) = house.check(("prod", "web"), ("prod-tls", "acme-tls")) else {
        panic!("not refused");
    };
    assert_eq!(why.nearest.as_ref().map(|near| near.field), Some("origin.namespaceSelector"));
    // A witness names the grant as ever.
    house.namespace("prod", json!({ "team": "web" }));
    let target = Obj { group: "", resource: "secrets", namespace: "prod-tls", name: "acme-tls" };
    let readers = house.index.who_can(&target);
    let grants = &readers[0].witnesses[0].grants;
    assert_eq!(*grants, [("prod-tls".to_owned(), "teams".to_owned())]);
}

#[test]
fn d9_a_grant_that_selects_is_unused_when_nothing_points() {
    let mut house = street(House::selecting());
    let unused = |house: &House| house.index.unused_grants().count();
    assert_eq!(unused(&house), 1);
    house.namespace("other", json!({ "team": "web" }));
    assert_eq!(unused(&house), 1);
    house.namespace("prod", json!({ "team": "web" }));
    assert_eq!(unused(&house), 0);
}

const CLASSES: &str = "gatewayclasses";

/// A consumer of the classes of a controller, beside those it lists.
fn classifying(controller: &str, classes: &[&str]) -> Value {
    json!({
        "metadata": { "name": "contour-gateway" },
        "subject": { "kind": "User", "name": CONTOUR },
        "classNames": classes,
        "classSelector": {
            "group": GATEWAYS, "resource": CLASSES,
            "controllerPath": ".spec.controllerName", "controllerName": controller,
        },
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }],
    })
}

fn class(house: &mut House, name: &str, controller: Value) {
    house.origin(CLASSES, "", name, json!({ "controllerName": controller }));
}

/// A gateway of class `inner` names a Secret beside it.
fn square(mut house: House) -> House {
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.gateway("prod", "web", "inner", &[("own", "")]);
    house.gateway("prod", "plain", "listed", &[("listed", "")]);
    house.put_consumer(classifying("example.com/contour", &["listed"]));
    house
}

#[test]
fn d13_the_classes_of_a_controller_follow_their_objects() {
    let mut house = square(House::selecting());
    assert!(!house.may("prod", "own"), "nothing is selected, so nothing is accepted");
    assert!(house.may("prod", "listed"), "what is listed is accepted all the same");
    class(&mut house, "inner", json!("example.com/contour"));
    assert!(house.may("prod", "own") && house.may("prod", "listed"));
    class(&mut house, "inner", json!("example.com/other"));
    assert!(!house.may("prod", "own"));
    for nothing in [Value::Null, json!(""), json!(7), json!(["example.com/contour"])] {
        class(&mut house, "inner", json!("example.com/contour"));
        assert!(house.may("prod", "own"));
        class(&mut house, "inner", nothing.clone());
        assert!(!house.may("prod", "own"), "{nothing}");
    }
    class(&mut house, "inner", json!("example.com/contour"));
    house.drop_origin(CLASSES, "", "inner");
    assert!(!house.may("prod", "own") && house.may("prod", "listed"));
}

#[test]
fn d13_a_selector_alone_selects_and_an_object_without_a_class_stays_out() {
    let mut house = square(House::selecting());
    class(&mut house, "inner", json!("example.com/contour"));
    house.put_consumer(classifying("example.com/contour", &[]));
    assert!(house.may("prod", "own") && !house.may("prod", "listed"));
    house.gateway("prod", "web", "", &[("own", "")]);
    assert!(!house.may("prod", "own"));
    // A class object is a name, whatever it looks like.
    class(&mut house, "*", json!("example.com/contour"));
    assert!(!house.may("prod", "listed"));
}

#[test]
fn d13_class_objects_are_asked_for_at_the_preferred_version() {
    let mut house = square(House::selecting());
    let classes = || Resource::new(GATEWAYS, CLASSES);
    assert!(house.out.needs.contains(&Need::Feed(classes(), "v1".into())));
    house.origin_at(
        CLASSES,
        "v1beta1",
        "",
        "inner",
        json!({ "controllerName": "example.com/contour" }),
    );
    assert!(!house.may("prod", "own"), "nobody asked for that version");
    house.serve(&["v1beta1"]);
    assert!(house.may("prod", "own"));
    house.serve(&[]);
    house.serve(&["v1"]);
    assert!(!house.may("prod", "own"), "at this version it is not there");
    house.tell(IndexEvent::DropConsumer("contour-gateway"));
    assert_eq!(house.out.needs.last(), Some(&Need::Stop(classes(), "v1".into())));
}

#[test]
fn d13_two_paths_into_one_type_are_kept_apart() {
    let mut house = square(House::selecting());
    class(&mut house, "inner", json!("example.com/contour"));
    let mut second = classifying("example.com/contour", &[]);
    second["metadata"]["name"] = json!("second");
    second["subject"]["name"] = json!("second");
    second["classSelector"]["controllerPath"] = json!(".spec.other");
    house.put_consumer(second);
    assert!(house.may("prod", "own") && !house.user_may("second", "prod", "own"));
    let both = json!({ "controllerName": "x", "other": "example.com/contour" });
    house.origin(CLASSES, "", "inner", both);
    assert!(!house.may("prod", "own") && house.user_may("second", "prod", "own"));
}

#[test]
fn d13_objects_in_namespaces_describe_no_class() {
    let mut house = square(House::selecting());
    let mut inside = classifying("example.com/contour", &[]);
    inside["classSelector"]["resource"] = json!("httproutes");
    house.put_consumer(inside);
    house.origin("httproutes", "", "inner", json!({ "controllerName": "example.com/contour" }));
    assert!(!house.may("prod", "own"));
    assert!(
        !house.out.needs.contains(&Need::Feed(Resource::new(GATEWAYS, "httproutes"), "v1".into()))
    );
}

#[test]
fn d13_without_the_feature_only_what_is_listed_is_accepted() {
    let mut house = square(House::new());
    class(&mut house, "inner", json!("example.com/contour"));
    assert!(!house.may("prod", "own") && house.may("prod", "listed"));
}

#[test]
fn d13_what_cannot_be_understood_makes_the_consumer_unusable() {
    for (member, value) in [
        ("controllerPath", json!(".spec.names[*]")),
        ("controllerPath", json!("..")),
        ("controllerName", json!("")),
        ("resource", Value::Null),
        ("group", json!(1)),
    ] {
        let mut object = classifying("example.com/contour", &[]);
        object["classSelector"][member] = value.clone();
        assert!(Consumer::from_object(object.as_object().unwrap()).is_err(), "{member} {value}");
    }
}

#[test]
fn d13_an_explanation_names_the_selector_and_its_classes() {
    let mut house = square(House::selecting());
    house.put_consumer(classifying("example.com/contour", &[]));
    let selector =
        "gatewayclasses.gateway.networking.k8s.io with .spec.controllerName `example.com/contour`";
    let start = "gateways.gateway.networking.k8s.io prod/web has class `inner`; consumer \
                 `contour-gateway` allows";
    let said = house.explain("prod", "own").message;
    assert_eq!(said, format!("{start} those of {selector}, which are none"));
    class(&mut house, "outer", json!("example.com/contour"));
    let said = house.explain("prod", "own").message;
    assert_eq!(said, format!("{start} those of {selector}: `outer`"));
}
