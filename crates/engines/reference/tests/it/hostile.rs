//! Rules of spec/referential-authorization.md, R179: hostile objects, texts and streams of events.

use serde_json::{Value, json};
use tenure_reference::path::JsonPath;
use tenure_reference::*;
use tenure_sim::random::Random;

use crate::house::*;

#[test]
fn r179_fuzz_paths_never_panic() {
    let parts = [
        ".a",
        ".*",
        "['a']",
        "[0]",
        "[-1]",
        "[*]",
        "[0:2]",
        "[0,1]",
        "[?(@.a)]",
        "[?@.a=='x']",
        "[[?(@.a && @.b!=1)]",
        "[[?(!@.a)]]",
        ".é",
    ];
    let noise = [
        "$", ".", "..", "[", "]", "[[?(", "?", "(", ")", "@", "*", "\"", "\\", "\\u", "d83d", ":",
        "-", "==", "&&", "||", "!", " ", ",", "{", "}", "null", "1e9", "-0", "length",
    ];
    let object = json!({ "a": [{ "a": "x", "b": [1, 2] }, null, [["x"]]], "é": { "a": "x" } });
    let mut random = Random::new(3);
    let mut parsed = 0;
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..random.below(8) {
            let list: &[&str] = if random.once_in(6) { &noise } else { &parts };
            text += list[random.below(list.len())];
        }
        match JsonPath::parse(&text) {
            Ok(path) => {
                parsed += 1;
                let _ = path.evaluate(&object);
                // What it is read as is read as itself.
                let again = JsonPath::parse(path.text()).unwrap();
                assert_eq!(again.text(), path.text(), "{text}");
                assert_eq!(again.evaluate(&object), path.evaluate(&object), "{text}");
            }
            Err(error) => {
                assert!(text.is_char_boundary(error.offset) && error.offset <= text.len())
            }
        }
    }
    assert!(parsed > 500, "{parsed}");
}

#[test]
fn fuzz_paths_never_panic() {
    r179_fuzz_paths_never_panic();
}

#[test]
fn r179_hostile_objects_do_not_disturb_others() {
    let mut house = House::story();
    let mut deep = json!("bottom");
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    let whole = JsonPath::parse("$[?(@ == $[1])]").unwrap();
    let twice = Value::Array(vec![deep.clone(), deep.clone()]);
    assert!(whole.evaluate(&twice).is_err(), "deeper than can be sent");
    let long = "n".repeat(100_000);
    for spec in [
        json!({ "listeners": deep, "gatewayClassName": long }),
        json!({ "listeners": vec![json!({ "tls": { "certificateRefs": vec![json!({}); 200] } }); 1000] }),
        json!({ "gatewayClassName": long, "listeners": [{ "tls": { "certificateRefs": [
            { "group": "", "kind": "Secret", "name": long, "namespace": long },
            { "group": "", "kind": "Secret", "name": "x\u{0}y", "namespace": "\u{0}" },
        ] } }] }),
    ] {
        house.origin("gateways", "prod", "hostile", spec);
        assert!(house.may("prod-tls", "acme-tls"));
    }
    house.origin("gateways", "prod", &long, json!({}));
    house.drop_origin("gateways", "prod", "hostile");
    house.grant("prod-tls", "long", "prod", &[&long, "", "..", "a/b"]);
    assert_eq!(house.index.stats().edges, 1);
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn a_class_too_long_to_be_named_is_any_class_and_no_other() {
    let mut house = House::story();
    let long = "é".repeat(5_000);
    house.gateway("prod", "long", &long, &[("own", "")]);
    assert!(!house.may("prod", "own"));
    house.consumer("star", "star", &["*"], "gateways");
    assert!(house.user_may("star", "prod", "own"));
}

#[test]
fn many_origins_of_one_target_come_and_go() {
    let mut house = House::story();
    for number in 0..300 {
        house.gateway(
            "prod",
            &format!("g{number}"),
            "contour",
            &[("acme-tls", "prod-tls"), ("own", "")],
        );
    }
    for number in 0..300 {
        assert!(house.may("prod", "own"));
        house.drop_origin("gateways", "prod", &format!("g{number}"));
    }
    assert!(!house.may("prod", "own") && house.may("prod-tls", "acme-tls"));
    assert_eq!(house.index.stats().targets, 1);
}

#[test]
fn d20_many_grants_of_one_namespace_do() {
    let mut house = House::story();
    for number in 0..500 {
        house.grant("prod-tls", &format!("g{number}"), &format!("n{number}"), &["acme-tls"]);
    }
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    assert!(!house.may("prod-tls", "acme-tls"));
    house.gateway("n499", "web", "contour", &[("acme-tls", "prod-tls")]);
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn unread_versions_and_types_are_ignored() {
    let mut house = House::story();
    let object: Value = json!({ "spec": { "secret": "s" } });
    for (resource, version) in [("gateways", "v9"), ("nothing", "v1"), ("httproutes", "v1")] {
        let name = OriginName { group: GATEWAYS, resource, namespace: "n", name: "o" };
        house.tell(IndexEvent::PutOrigin(Origin { name, version, object: &object }));
    }
    assert_eq!(house.index.stats().origins, 1);
}
