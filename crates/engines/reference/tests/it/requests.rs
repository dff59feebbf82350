//! Rules of spec/referential-authorization.md, sections 4 and 5: subjects, verbs, names.

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

fn asked(change: impl FnOnce(&mut Attributes<'static>)) -> bool {
    let mut asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
    change(&mut asked);
    House::story().index.decide(&asked).is_allowed()
}

fn subject(house: &mut House, subject: serde_json::Value) {
    house.put_consumer(json!({
        "metadata": { "name": "contour-gateway" }, "subject": subject, "classNames": ["contour"],
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": "tls-serving",
        }],
    }));
}

#[test]
fn r80_user_group_and_service_account_match_exactly() {
    user_subject();
    group_subject();
    serviceaccount_wrong_namespace();
}

#[test]
fn user_subject() {
    let mut house = House::story();
    subject(&mut house, json!({ "kind": "User", "name": "alice" }));
    assert!(house.user_may("alice", "prod-tls", "acme-tls"));
    assert!(!house.user_may("Alice", "prod-tls", "acme-tls") && !house.may("prod-tls", "acme-tls"));
}

#[test]
fn group_subject() {
    let mut house = House::story();
    subject(&mut house, json!({ "kind": "Group", "name": "team" }));
    let groups = ["other".to_owned(), "team".to_owned()];
    let mut asked = get("anybody", "secrets", "prod-tls", "acme-tls");
    assert!(!house.index.decide(&asked).is_allowed());
    asked.groups = &groups;
    assert!(house.index.decide(&asked).is_allowed());
    asked.user = "team";
    asked.groups = &[];
    assert!(!house.index.decide(&asked).is_allowed());
}

#[test]
fn serviceaccount_wrong_namespace() {
    let mut house = House::story();
    subject(
        &mut house,
        json!({ "kind": "ServiceAccount", "namespace": "contour-system", "name": "contour" }),
    );
    assert!(house.may("prod-tls", "acme-tls"));
    assert!(!house.user_may("system:serviceaccount:other:contour", "prod-tls", "acme-tls"));
    assert!(!house.user_may("contour", "prod-tls", "acme-tls"));
}

#[test]
fn r81_no_group_is_implied_from_a_name() {
    let mut house = House::story();
    subject(&mut house, json!({ "kind": "Group", "name": "system:serviceaccounts" }));
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn r83_what_cannot_be_understood_is_set_aside_and_poisons_nothing() {
    let object = json!({
        "metadata": { "name": "robot" }, "subject": { "kind": "Robot", "name": "r" }, "references": [],
    });
    let read = Consumer::from_object(object.as_object().unwrap());
    assert_eq!(read, Err(Unusable::SubjectKind("Robot".into())));
    let mut house = House::story();
    house.tell(IndexEvent::Unusable(ReferenceApiKind::Consumer, "", "robot"));
    assert_eq!(house.index.stats().unusable, 1);
    assert!(house.may("prod-tls", "acme-tls"));
    house.tell(IndexEvent::Unusable(ReferenceApiKind::Consumer, "", "contour-gateway"));
    assert!(!house.may("prod-tls", "acme-tls"));
    house.consumer("contour-gateway", CONTOUR, &["*"], "gateways");
    assert_eq!(house.index.stats().unusable, 1);
    assert!(house.may("prod-tls", "acme-tls"));
}

#[test]
fn r90_r95_get_list_and_watch_of_the_object_and_nothing_else() {
    for verb in ["get", "list", "watch"] {
        assert!(asked(|asked| asked.verb = verb));
    }
    write_verbs_never_granted();
    subresource_never_granted();
}

#[test]
fn single_name_list_and_watch_granted() {
    assert!(asked(|asked| asked.verb = "list") && asked(|asked| asked.verb = "watch"));
}

#[test]
fn write_verbs_never_granted() {
    for verb in
        ["create", "update", "patch", "delete", "deletecollection", "escalate", "*", "GET", ""]
    {
        assert!(!asked(|asked| asked.verb = verb), "{verb}");
    }
}

#[test]
fn subresource_never_granted() {
    assert!(!asked(|asked| asked.subresource = "status"));
    assert!(!asked(|asked| asked.subresource = "*"));
}

#[test]
fn r91_namespace_list_never_granted() {
    for verb in ["list", "watch", "get"] {
        assert!(!asked(|asked| (asked.verb, asked.name) = (verb, "")));
    }
}

#[test]
fn namespace_list_never_granted() {
    r91_namespace_list_never_granted();
}

#[test]
fn r92_cluster_lists_and_wildcards_get_no_opinion() {
    assert!(!asked(|asked| (asked.verb, asked.namespace) = ("list", "")));
    for wild in [0, 1, 2, 3] {
        assert!(!asked(|asked| match wild {
            0 => asked.group = "*",
            1 => asked.resource = "*",
            2 => asked.namespace = "*",
            _ => asked.name = "*",
        }));
    }
    // Even where somebody points at an object that would be called so.
    let mut house = House::story();
    house.gateway("prod", "star", "contour", &[("*", "")]);
    assert!(!house.may("prod", "*"));
}

#[test]
fn cluster_list_never_granted() {
    assert!(!asked(|asked| (asked.verb, asked.namespace) = ("list", "")));
    assert!(!asked(|asked| (asked.verb, asked.namespace, asked.name) = ("list", "", "")));
}

#[test]
fn d7_a_purpose_called_get_means_nothing_special() {
    let mut house = House::story();
    let mut other = grant("prod-tls", "prod-gateways", "prod", &["acme-tls"]);
    other["purpose"] = json!("get");
    house.put_grant(other);
    assert!(!house.may("prod-tls", "acme-tls"));
}

#[test]
fn d8_a_grant_alone_gives_nothing() {
    let mut house = House::story();
    house.grant("prod-tls", "prod-gateways", "prod", &["acme-tls", "other"]);
    assert!(!house.may("prod-tls", "other"));
}

#[test]
fn r96_the_live_targets_of_a_subject_can_be_listed() {
    let mut house = House::story();
    house.gateway("prod", "more", "contour", &[("own", ""), ("waits", "prod-tls")]);
    house.gateway("prod", "envoy", "envoy", &[("not-mine", "")]);
    let view = house.index.publish();
    let mut live: Vec<String> = view.live_targets(CONTOUR, &[]).map(|t| t.to_string()).collect();
    live.sort();
    assert_eq!(live, ["secrets prod-tls/acme-tls", "secrets prod/own"]);
    assert_eq!(view.live_targets("nobody", &[]).count(), 0);
}
