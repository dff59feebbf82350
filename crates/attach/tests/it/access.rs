//! `install access`: kinds, who may write them, and Roles that follow references.

mod authors;
mod kinds;
mod leaving;
mod rights;
mod roles;
mod webhook;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_attach::install::{self, AccessInstall, AccessMode};
use tenure_attach::{
    AccessAttachment, AccessSettings, AttachFeature, FEATURE, MANAGED_BY, VERSION,
};

use crate::town::{SERVER, Town, documents, send};

pub(crate) const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const V1ALPHA1: &str = "reference.authorization.k8s.io/v1alpha1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
/// What is promised about a revocation (the table of modes).
const PROMISE: Duration = Duration::from_secs(2);

pub(crate) fn printed() -> String {
    let origins = BTreeSet::from([("networking.k8s.io".to_owned(), "ingresses".to_owned())]);
    let wanted = AccessInstall {
        mode: AccessMode::Synthesis,
        consumers: vec!["edge".into()],
        origins,
        image: "tenure:test".into(),
    };
    install::access(SERVER, &wanted).unwrap()
}

fn ingress(name: &str, class: &str, secrets: &[&str]) -> Value {
    let tls: Vec<Value> = secrets.iter().map(|name| json!({ "secretName": name })).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": name },
        "spec": {
            "ingressClassName": class, "tls": tls,
            "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
        },
    })
}

pub(crate) fn consumer(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": V1ALPHA1, "kind": "ClusterReferenceConsumer", "metadata": { "name": name },
        "subject": { "kind": "ServiceAccount", "namespace": "default", "name": "edge" },
        "classNames": [class],
        "references": [{
            "origin": { "group": "networking.k8s.io", "resource": "ingresses" },
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }],
    })
}

fn strategy() -> Value {
    json!({
        "apiVersion": V1ALPHA1, "kind": "ReferenceStrategy", "metadata": { "name": "ingresses" },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses" },
        "versions": [{
            "version": "v1", "classPath": ".spec.ingressClassName",
            "references": [{
                "path": ".spec.tls[*].secretName", "purpose": "tls-serving",
                "target": { "group": "", "resource": "secrets" },
            }],
        }],
    })
}

/// A cluster with everything installed, a consumer and some Secrets; nothing runs yet.
async fn furnished() -> Town {
    furnish(Town::start().await, &printed()).await
}

async fn furnish(town: Town, text: &str) -> Town {
    town.apply_all(text).await;
    for name in ["edge"] {
        let account = json!({ "metadata": { "name": name } });
        town.made("/api/v1/namespaces/default/serviceaccounts", &account).await;
    }
    for name in ["a", "b", "c"] {
        let secret = json!({ "metadata": { "name": name }, "stringData": { "k": "v" } });
        town.made("/api/v1/namespaces/default/secrets", &secret).await;
    }
    established(&town).await;
    town.made(&format!("{GROUP}/referencestrategies"), &strategy()).await;
    town.made(&format!("{GROUP}/clusterreferenceconsumers"), &consumer("edge", "mine")).await;
    town
}

/// Waits until the three kinds are served.
pub(crate) async fn established(town: &Town) {
    for plural in ["referencestrategies", "clusterreferenceconsumers", "referencegrants"] {
        let path = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.reference.authorization.k8s.io"
        );
        let is_there = |crd: &Value| {
            crd["status"]["conditions"].as_array().is_some_and(|all| {
                all.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
            })
        };
        town.until(&path, "established", is_there).await;
    }
}

/// Starts what the Deployment would run, with the rights that it has and no others.
async fn attached(town: &Town, identity: &str) -> AccessAttachment {
    let client =
        town.cluster.service_account_client("tenure-system", "tenure-access").await.unwrap();
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let settings = AccessSettings { identity: identity.to_owned(), listen };
    AccessAttachment::start(client, &settings).await.unwrap()
}

/// The consumer, with its own token.
async fn edge(town: &Town) -> kube::Client {
    town.cluster.service_account_client("default", "edge").await.unwrap()
}

/// What the consumer gets when it reads a Secret.
async fn reads(edge: &kube::Client, namespace: &str, name: &str) -> u16 {
    let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
    send(edge, "GET", &path, "application/json", &Value::Null).await.0
}

/// Waits until reading gives this code, and tells how long that took.
async fn reads_become(edge: &kube::Client, namespace: &str, name: &str, code: u16) -> Duration {
    let begin = Instant::now();
    loop {
        let now = reads(edge, namespace, name).await;
        if now == code {
            return begin.elapsed();
        }
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{namespace}/{name} is {now}, not {code}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn remove(town: &Town, path: &str) {
    let (code, said) = town.send("DELETE", path, "application/json", &Value::Null).await;
    assert!(code < 300, "{path}: {said}");
}

#[test]
fn a1_a3_what_is_printed_is_the_same_and_says_whose_it_is() {
    let text = printed();
    assert_eq!(text, printed());
    assert!(!text.contains('@'), "{}", text.lines().find(|line| line.contains('@')).unwrap());
    let (manager, tenure) = MANAGED_BY;
    for object in documents(&text) {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels[manager], tenure, "{object}");
        if object["kind"] != "Namespace" {
            assert_eq!(labels[FEATURE], AttachFeature::Access.name(), "{object}");
            assert_eq!(labels[VERSION], env!("CARGO_PKG_VERSION"), "{object}");
        }
    }
}

#[test]
fn a1_names_that_are_none_are_told() {
    let wanted = |consumer: &str, image: &str| {
        let consumers = vec![consumer.to_owned()];
        let wanted = AccessInstall {
            mode: AccessMode::Synthesis,
            consumers,
            origins: BTreeSet::new(),
            image: image.into(),
        };
        install::access(SERVER, &wanted).map_err(|error| error.to_string())
    };
    assert!(wanted("edge.example.com", "host:5000/tenure@sha256:aa").is_ok());
    for consumer in ["", "Edge", "a]", "a, b", "-a", &"a".repeat(231)] {
        let said = wanted(consumer, "tenure").unwrap_err();
        assert_eq!(said, format!("`{consumer}` is not the name of a consumer"));
    }
    for image in ["", "a b", "a'", "@LABELS@", "a@LABELS@b", "a\n"] {
        let said = wanted("edge", image).unwrap_err();
        assert_eq!(said, format!("`{image}` is not the name of an image"));
    }
    let old = install::access(
        "1.29".parse().unwrap(),
        &AccessInstall {
            mode: AccessMode::Synthesis,
            consumers: Vec::new(),
            origins: BTreeSet::new(),
            image: "tenure".into(),
        },
    );
    assert_eq!(
        old.unwrap_err().to_string(),
        "`access` needs Kubernetes 1.30, and the server is of 1.29"
    );
}

#[test]
fn a2_a21_a42_rights_name_what_they_are_about() {
    let objects = documents(&printed());
    let roles =
        objects.iter().filter(|one| matches!(one["kind"].as_str(), Some("Role" | "ClusterRole")));
    for rule in roles.flat_map(|role| role["rules"].as_array().unwrap()) {
        let list = |member: &str| rule[member].as_array().cloned().unwrap_or_default();
        assert!(!list("verbs").contains(&"*".into()), "{rule}");
        assert!(!list("resources").iter().any(|one| one == "secrets" || one == "*"), "{rule}");
        let writes = ["create", "patch", "delete", "update", "escalate", "bind"];
        let writes = list("verbs").iter().any(|verb| writes.contains(&verb.as_str().unwrap()));
        if writes && list("resources") != [json!("referencegrants")] {
            assert!(!list("resourceNames").is_empty(), "{rule}");
        }
    }
}
