//! Selectors in the library: by hand, and kept current by watches.
//! Rules of spec/referential-authorization.md, D9 and D13.

use serde_json::{Value, json};
use tenure_cluster::Cluster;
use tenure_references::live::{ProposedObjects, Snapshot};
use tenure_references::{Identity, Obj, RefIndex, RefQuery, References, Resource, Selectors};

use crate::cluster::{apply, delete, until};

const V1ALPHA1: &str = "reference.authorization.k8s.io/v1alpha1";
const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";

fn secret<'a>(namespace: &'a str, name: &'a str) -> Obj<'a> {
    Obj { group: "", resource: "secrets", namespace, name }
}

fn far() -> RefQuery<'static> {
    RefQuery {
        origin: Obj { group: "", resource: "configmaps", namespace: "prod", name: "far" },
        target: secret("tls", "far"),
        purpose: "values",
        class: None,
        subject: None,
    }
}

fn namespace(name: &str, labels: Value) -> Value {
    let metadata = json!({ "name": name, "labels": labels });
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

fn class(controller: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": { "name": "inner" }, "spec": { "controller": controller },
    })
}

/// The path and the text of everything but namespaces and classes: a ConfigMap of class `inner` names a Secret of
/// another namespace, granted to those with a label.
fn objects() -> Vec<(String, Value)> {
    let (origin, target) = (
        json!({ "group": "", "resource": "configmaps" }),
        json!({ "group": "", "resource": "secrets" }),
    );
    let strategy = json!({
        "apiVersion": V1ALPHA1, "kind": "ReferenceStrategy", "metadata": { "name": "maps" },
        "origin": origin,
        "versions": [{ "version": "v1", "classPath": ".data.class", "references": [{
            "path": ".data.secret", "namespacePath": "$.data.place",
            "target": target, "purpose": "values",
        }] }],
    });
    let consumer = |name: &str, controller: &str| {
        json!({
            "apiVersion": V1ALPHA1, "kind": "ClusterReferenceConsumer", "metadata": { "name": name },
            "subject": { "kind": "ServiceAccount", "namespace": "default", "name": name },
            "classSelector": {
                "group": "networking.k8s.io", "resource": "ingressclasses",
                "controllerPath": ".spec.controller", "controllerName": controller,
            },
            "references": [{ "origin": origin, "target": target, "purpose": "values" }],
        })
    };
    let grant = json!({
        "apiVersion": V1ALPHA1, "kind": "ReferenceGrant",
        "metadata": { "namespace": "tls", "name": "teams" },
        "origin": {
            "group": "", "resource": "configmaps",
            "namespaceSelector": { "matchLabels": { "team": "web" } },
        },
        "target": { "group": "", "resource": "secrets", "names": ["far"] },
        "purpose": "values",
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "prod", "name": "far" },
        "data": { "class": "inner", "secret": "far", "place": "tls" },
    });
    vec![
        (format!("{GROUP}/referencestrategies/maps"), strategy),
        (format!("{GROUP}/clusterreferenceconsumers/edge"), consumer("edge", "example.com/edge")),
        (
            format!("{GROUP}/clusterreferenceconsumers/other"),
            consumer("other", "example.com/other"),
        ),
        (format!("{GROUP}/namespaces/tls/referencegrants/teams"), grant),
        ("/api/v1/namespaces/prod/configmaps/far".to_owned(), map),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_d13_watches_keep_what_is_selected_current() {
    let gates = |config: &mut tenure_cluster::Config| {
        config.features.grant_namespace_selector = true;
        config.features.consumer_class_selector = true;
    };
    let cluster = Cluster::builder().configure(gates).start().await.unwrap();
    let admin = cluster.client();
    let spaces = "/api/v1/namespaces";
    for name in ["prod", "tls"] {
        apply(&admin, &format!("{spaces}/{name}"), &namespace(name, json!({}))).await;
    }
    for (path, object) in objects() {
        apply(&admin, &path, &object).await;
    }
    let edge = Identity::service_account("default", "edge");
    let selecting = References::start_selecting(admin.clone(), edge.clone(), Selectors::ALL);
    let plain = References::start(admin.clone(), edge.clone());
    selecting.ready().await;
    plain.ready().await;
    let reads = || selecting.read().may_read(&edge, &secret("tls", "far"));
    assert!(!reads() && !selecting.read().check(&far()).is_allowed());

    apply(&admin, &format!("{spaces}/prod"), &namespace("prod", json!({ "team": "web" }))).await;
    until("the labels are seen", || selecting.read().check(&far()).is_allowed()).await;
    assert!(!reads(), "the class is nobody's");
    apply(&admin, &format!("{CLASSES}/inner"), &class("example.com/edge")).await;
    until("the class is seen", reads).await;
    // What a tool reads at one moment says the same.
    let snapshot = Snapshot::read(&admin, &ProposedObjects::default()).await.unwrap();
    assert!(snapshot.index().may_read(&edge, &secret("tls", "far")));
    assert!(snapshot.unread.is_empty(), "{:?}", snapshot.unread);
    assert!(snapshot.grants()[0].is_from("prod") && !snapshot.grants()[0].is_from("tls"));

    delete(&admin, &format!("{CLASSES}/inner")).await;
    until("the class is gone", || !reads()).await;
    apply(&admin, &format!("{CLASSES}/inner"), &class("example.com/edge")).await;
    until("the class is back", reads).await;
    apply(&admin, &format!("{spaces}/prod"), &namespace("prod", json!({ "team": "mail" }))).await;
    until("the labels are gone", || !reads()).await;
    assert_eq!(selecting.problem(), None);
    // Without being told so, the library goes by no selector.
    assert!(!plain.read().check(&far()).is_allowed());
}

#[test]
fn d9_an_index_that_is_fed_by_hand_asks_for_namespaces() {
    let row = |resource: &str, kind: &str, namespaced| tenure_references::ServedType {
        resource: Resource::new("", resource),
        kind: kind.to_owned(),
        namespaced,
        versions: vec!["v1".to_owned()],
    };
    let mut index = RefIndex::new().with_selectors(Selectors::ALL);
    index.serve(vec![
        row("configmaps", "ConfigMap", true),
        row("secrets", "Secret", true),
        row("namespaces", "Namespace", false),
    ]);
    for (_, object) in objects().iter().filter(|(path, _)| path.starts_with(GROUP)) {
        index.put(object).unwrap();
    }
    let wanted = tenure_references::Need::Feed(Resource::new("", "namespaces"), "v1".to_owned());
    assert!(index.needs().contains(&wanted));
    let (_, map) = objects().pop().unwrap();
    index.put_origin(&Resource::new("", "configmaps"), &map);
    index.mark_all_synced();
    assert!(!index.check(&far()).is_allowed());
    let namespaces = Resource::new("", "namespaces");
    index.put_origin(&namespaces, &namespace("prod", json!({ "team": "web" })));
    assert!(index.check(&far()).is_allowed());
    index.remove_origin(&Obj { group: "", resource: "namespaces", namespace: "", name: "prod" });
    assert!(!index.check(&far()).is_allowed());
}
