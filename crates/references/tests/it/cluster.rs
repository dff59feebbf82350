//! The library against a server: watches, the cache, and the vectors through SubjectAccessReviews.
//! Rules of spec/referential-authorization.md.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_cluster::Cluster;
use tenure_references::conformance::cluster::{ConformanceCluster as UnderTest, ConformanceTiming};
use tenure_references::conformance::{Base, CONSUMER, GATED_VECTORS, VECTORS, Vector};
use tenure_references::{Identity, ObjectName, ReferencedCache, References, Resource};

#[tokio::test(flavor = "multi_thread")]
async fn r117_the_vectors_hold_against_a_server() {
    hold(&Cluster::start().await.unwrap(), VECTORS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_d13_the_gated_vectors_hold_against_a_server_with_the_gates() {
    let gates = |config: &mut tenure_cluster::Config| {
        config.features.grant_namespace_selector = true;
        config.features.consumer_class_selector = true;
    };
    let cluster = Cluster::builder().configure(gates).start().await.unwrap();
    hold(&cluster, GATED_VECTORS).await;
}

async fn hold(cluster: &Cluster, vectors: &[(&str, &str)]) {
    let pace = ConformanceTiming { patience: Duration::from_secs(5), hold: Duration::ZERO };
    let base = Base::read().unwrap();
    let tested = UnderTest::prepare(cluster.client(), base, CONSUMER, pace).await.unwrap();
    let mut failures = Vec::new();
    for (name, text) in vectors {
        let outcome = tested.run(&Vector::read(text).unwrap()).await;
        match outcome {
            Ok(wrong) => failures.extend(wrong.into_iter().map(|why| format!("{name}: {why}"))),
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    tested.clean().await.unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

pub(crate) async fn apply(client: &kube::Client, path: &str, object: &Value) {
    let request = http::Request::patch(format!("{path}?fieldManager=test&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())
        .unwrap();
    client.request::<Value>(request).await.unwrap();
}

pub(crate) async fn delete(client: &kube::Client, path: &str) {
    let request = http::Request::delete(path).body(Vec::new()).unwrap();
    client.request::<Value>(request).await.unwrap();
}

/// Waits for something to become true.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("not in time: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r114_r115_a_cache_without_rights_holds_just_what_is_referenced() {
    let cluster = Cluster::start().await.unwrap();
    let admin = cluster.client();
    let group = "/apis/reference.authorization.k8s.io/v1alpha1";
    let v1alpha1 = "reference.authorization.k8s.io/v1alpha1";
    let (origin, target) = (
        json!({ "group": "networking.k8s.io", "resource": "ingresses" }),
        json!({ "group": "", "resource": "secrets" }),
    );
    let strategy = json!({
        "apiVersion": v1alpha1, "kind": "ReferenceStrategy", "metadata": { "name": "ingresses" },
        "origin": origin,
        "versions": [{ "version": "v1", "classPath": ".spec.ingressClassName", "references": [
            { "path": ".spec.tls[*].secretName", "target": target, "purpose": "tls-serving" },
        ]}],
    });
    let consumer = json!({
        "apiVersion": v1alpha1, "kind": "ClusterReferenceConsumer", "metadata": { "name": "mine" },
        "subject": { "kind": "ServiceAccount", "namespace": "default", "name": "edge" },
        "classNames": ["mine"],
        "references": [{ "origin": origin, "target": target, "purpose": "tls-serving" }],
    });
    apply(&admin, &format!("{group}/referencestrategies/ingresses"), &strategy).await;
    apply(&admin, &format!("{group}/clusterreferenceconsumers/mine"), &consumer).await;
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "edge" } });
    apply(&admin, "/api/v1/namespaces/default/serviceaccounts/edge", &account).await;
    let rights = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "edge" },
        "rules": [
            { "apiGroups": ["reference.authorization.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
            { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["get", "list", "watch"] },
        ],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    apply(&admin, &format!("{rbac}/clusterroles/edge"), &rights).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "edge" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edge" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "edge" }],
    });
    apply(&admin, &format!("{rbac}/clusterrolebindings/edge"), &binding).await;
    for name in ["used", "unused"] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "a": "1" },
        });
        apply(&admin, &format!("/api/v1/namespaces/default/secrets/{name}"), &secret).await;
    }
    let ingress = |name: &str, class: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": name },
            "spec": {
                "ingressClassName": class,
                "tls": [{ "secretName": "used" }],
                "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
            },
        })
    };
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";

    let client = cluster.service_account_client("default", "edge").await.unwrap();
    let references =
        References::start(client.clone(), Identity::service_account("default", "edge"));
    let cache = ReferencedCache::start(client, &references);
    tokio::time::timeout(Duration::from_secs(10), references.ready()).await.unwrap();
    let secret = |name: &str| ObjectName {
        resource: Resource::new("", "secrets"),
        namespace: "default".into(),
        name: name.into(),
    };
    assert!(cache.watched().is_empty());

    apply(&admin, &format!("{ingresses}/a"), &ingress("a", "mine")).await;
    apply(&admin, &format!("{ingresses}/b"), &ingress("b", "mine")).await;
    until("the Secret is here", || cache.get(&secret("used")).is_some()).await;
    assert_eq!(cache.watched(), [secret("used")]);
    let changed = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "used" }, "stringData": { "a": "2" },
    });
    apply(&admin, "/api/v1/namespaces/default/secrets/used", &changed).await;
    until("its new content is here", || {
        cache.get(&secret("used")).is_some_and(|copy| copy.data["data"]["a"] == "Mg==")
    })
    .await;

    delete(&admin, &format!("{ingresses}/a")).await;
    apply(&admin, &format!("{ingresses}/b"), &ingress("b", "another")).await;
    until("the copy is gone", || cache.watched().is_empty()).await;
    assert!(cache.get(&secret("used")).is_none());
    assert_eq!(references.problem(), None);
}
