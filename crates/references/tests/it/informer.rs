//! An informer of kube-rs that knows nothing of references, where the server filters collections. Rules of
//! spec/referential-authorization.md.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use kube::runtime::reflector::{self, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tenure_cluster::Cluster;

use crate::cluster::{apply, delete, until};

const GROUP: &str = "reference.authorization.k8s.io/v1alpha1";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const INGRESS: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses/web";

async fn town() -> Cluster {
    let gate =
        |config: &mut tenure_cluster::Config| config.features.reference_filtered_lists = true;
    let cluster = Cluster::builder().configure(gate).start().await.unwrap();
    let admin = cluster.client();
    let (origin, target) = (
        json!({ "group": "networking.k8s.io", "resource": "ingresses" }),
        json!({ "group": "", "resource": "secrets" }),
    );
    let strategy = json!({
        "apiVersion": GROUP, "kind": "ReferenceStrategy", "metadata": { "name": "ingresses" },
        "origin": origin,
        "versions": [{ "version": "v1", "references": [
            { "path": ".spec.tls[*].secretName", "target": target, "purpose": "tls-serving" },
        ]}],
    });
    let consumer = json!({
        "apiVersion": GROUP, "kind": "ClusterReferenceConsumer", "metadata": { "name": "edge" },
        "subject": { "kind": "User", "name": "edge" },
        "references": [{ "origin": origin, "target": target, "purpose": "tls-serving" }],
    });
    apply(&admin, &format!("/apis/{GROUP}/referencestrategies/ingresses"), &strategy).await;
    apply(&admin, &format!("/apis/{GROUP}/clusterreferenceconsumers/edge"), &consumer).await;
    for name in ["a", "b", "c"] {
        secret(&admin, name, "1").await;
    }
    cluster
}

async fn secret(admin: &kube::Client, name: &str, value: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "k": value },
    });
    apply(admin, &format!("{SECRETS}/{name}"), &secret).await;
}

async fn refer_to(admin: &kube::Client, names: &[&str]) {
    let tls: Vec<Value> = names.iter().map(|name| json!({ "secretName": name })).collect();
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" },
        "spec": {
            "tls": tls, "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
        },
    });
    apply(admin, INGRESS, &ingress).await;
}

/// What the informer holds, as `name=value`.
fn held(store: &Store<Secret>) -> Vec<String> {
    let mut held: Vec<String> = store
        .state()
        .iter()
        .map(|secret| {
            let value = &secret.data.as_ref().unwrap()["k"].0;
            format!("{}={}", secret.metadata.name.as_ref().unwrap(), String::from_utf8_lossy(value))
        })
        .collect();
    held.sort();
    held
}

async fn follows(config: watcher::Config, everywhere: bool) {
    let cluster = town().await;
    let admin = cluster.client();
    let edge = cluster.client_as("edge", &[]);
    refer_to(&admin, &["a"]).await;
    let api: Api<Secret> =
        if everywhere { Api::all(edge) } else { Api::namespaced(edge, "default") };
    let (store, writer) = reflector::store();
    let informer = reflector::reflector(writer, watcher(api, config)).default_backoff();
    let informer = tokio::spawn(informer.for_each(|event| async move { drop(event) }));
    until("the first list", || held(&store) == ["a=1"]).await;
    refer_to(&admin, &["a", "b"]).await;
    until("an edge that appears", || held(&store) == ["a=1", "b=1"]).await;
    secret(&admin, "b", "2").await;
    secret(&admin, "c", "2").await;
    until("a change", || held(&store) == ["a=1", "b=2"]).await;
    refer_to(&admin, &["c"]).await;
    until("edges that move", || held(&store) == ["c=2"]).await;
    // Longer than a watch lives: it goes on from where it was.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    refer_to(&admin, &["c", "d"]).await;
    secret(&admin, "d", "1").await;
    until("an object that comes later", || held(&store) == ["c=2", "d=1"]).await;
    delete(&admin, &format!("{SECRETS}/c")).await;
    until("an object that goes", || held(&store) == ["d=1"]).await;
    delete(&admin, INGRESS).await;
    until("the end of the origin", || held(&store).is_empty()).await;
    informer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn r155_an_informer_that_lists_and_watches_runs_unmodified() {
    follows(watcher::Config::default().timeout(1), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r155_an_informer_that_streams_the_list_runs_unmodified() {
    follows(watcher::Config::default().streaming_lists().timeout(1), true).await;
}
