//! What a change gives and takes. Rules of spec/referential-authorization.md.

use serde_json::{Value, json};
use tenure_inspect::access::{AccessChange, Edit, NotApplied};
use tenure_inspect::render::{Paint, access};

use super::*;

fn change(town: &Town, objects: &[Value], edit: Edit) -> AccessChange {
    town.rights().change(objects, edit, "default").unwrap()
}

fn text(change: &AccessChange) -> String {
    access::change(change, Paint::Plain)
}

#[test]
fn r134_a_grant_gives_and_its_deletion_takes() {
    let town = Town::story();
    let gained = change(&town, &[grant("prod-tls", "api", "prod", &["api-tls"])], Edit::Apply);
    assert_eq!(
        text(&gained),
        "+ service account edge-system/edge reads secrets prod-tls/api-tls: \
         gateways.gateway.networking.k8s.io prod/api for tls-serving, strategy \
         gateways.gateway.networking.k8s.io@v1, grant prod-tls/api, consumer edge\n1 gained, 0 lost\n"
    );
    let there = grant("prod-tls", "prod-gateways", "prod", &["acme-tls"]);
    let lost = change(&town, std::slice::from_ref(&there), Edit::Delete);
    assert_eq!((lost.gained.len(), lost.lost.len()), (0, 1));
    assert!(
        text(&lost)
            .starts_with("- service account edge-system/edge reads secrets prod-tls/acme-tls")
    );
    let same = change(&town, &[there], Edit::Apply);
    assert!(same.is_nothing());
    // To delete something its name is enough.
    let name = json!({
        "apiVersion": format!("{REFERENCE}/v1alpha1"), "kind": "ReferenceGrant",
        "metadata": { "namespace": "prod-tls", "name": "prod-gateways" },
    });
    assert_eq!(change(&town, &[name], Edit::Delete).lost.len(), 1);
    assert_eq!(text(&same), "nobody gains or loses access by reference\n");
}

#[test]
fn r134_every_leg_of_the_join_is_judged() {
    let town = Town::story();
    // A gateway that points elsewhere, with what it pointed at before.
    let moved = gateway("prod", "web", "nginx", &[("own-tls", "prod")]);
    let moved = change(&town, &[moved], Edit::Apply);
    assert_eq!((moved.gained.len(), moved.lost.len()), (1, 1), "{}", text(&moved));
    // A class that nobody serves.
    let other = gateway("prod", "web", "traefik", &[("acme-tls", "prod-tls")]);
    assert_eq!(change(&town, &[other], Edit::Apply).lost.len(), 1);
    assert_eq!(change(&town, &[ingress_strategy()], Edit::Delete).lost.len(), 1);
    let more = consumer("more", "alice", &["*"], &[(NETWORKING, "ingresses")]);
    let more = change(&town, &[more], Edit::Apply);
    assert_eq!((more.gained.len(), more.lost.len()), (2, 0), "{}", text(&more));
    // Both halves at once, as a kustomization has them.
    let both = [
        gateway("prod", "new", "nginx", &[("new-tls", "prod-tls")]),
        grant("prod-tls", "new", "prod", &["new-tls"]),
    ];
    assert_eq!(change(&town, &both, Edit::Apply).gained.len(), 1);
}

#[test]
fn r134_what_says_nothing_about_references_is_named() {
    let town = Town::story();
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let change = change(&town, &[map], Edit::Apply);
    assert!(change.is_nothing());
    assert_eq!(change.ignored, ["ConfigMap `default/a`"]);
}

#[test]
fn r134_what_cannot_be_judged_is_an_error_that_names_the_field() {
    let rights = Town::story().rights();
    let failed = |object: Value| rights.change(&[object], Edit::Apply, "default").unwrap_err();
    let nothing = failed(json!({ "kind": "ReferenceGrant" }));
    assert_eq!(nothing, NotApplied::Missing("apiVersion"));
    let mut nameless = grant("a", "", "b", &[]);
    assert_eq!(failed(nameless.clone()), NotApplied::Missing("metadata.name"));
    nameless["metadata"]["name"] = json!("g");
    nameless["purpose"] = json!(7);
    let said = failed(nameless).to_string();
    assert_eq!(said, "ReferenceGrant `a/g`: `purpose` is missing or of a wrong type");
    let mut old = gateway("prod", "web", "nginx", &[]);
    old["apiVersion"] = json!(format!("{GATEWAY}/v1beta1"));
    let said = failed(old).to_string();
    assert!(said.contains("gateway.networking.k8s.io/v1beta1, and strategies read"), "{said}");
    for odd in [json!(null), json!([]), json!("text"), json!({ "metadata": 3 })] {
        failed(odd);
    }
}
