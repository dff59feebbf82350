//! `install downward`: nine kinds, the annotation, and who may not forge it.

mod forging;
mod keeping;
mod kinds;
mod webhook;

use serde_json::{Value, json};
use tenure_attach::install::{self, DownwardWebhook, InstallError};
use tenure_attach::{AttachFeature, FEATURE, MANAGED_BY, VERSION};
use tenure_downward::{ValueDestination, owner_envelope};

use crate::town::{SERVER, Town, documents};

pub(crate) const NATIVE: &str = "metadata.ownerReferences";
pub(crate) const CARRIER: &str = "metadata.annotations['tenure.dev/owner-references']";
const ANNOTATION: &str = "tenure.dev/owner-references";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster with the policies.
async fn town() -> Town {
    let town = Town::start().await;
    town.apply_all(&install::downward(SERVER, None).unwrap()).await;
    town
}

/// A specification that reads owner references wherever that can be asked for.
pub(crate) fn reading(path: &str) -> Value {
    let field = json!({ "fieldRef": { "fieldPath": path } });
    let item = json!({ "path": "owners", "fieldRef": { "fieldPath": path } });
    json!({
        "initContainers": [{ "name": "first", "image": "x", "env": [{ "name": "O", "valueFrom": field }] }],
        "containers": [
            { "name": "plain", "image": "x" },
            { "name": "main", "image": "x", "env": [
                { "name": "A", "value": "1" }, { "name": "O", "valueFrom": field },
            ]},
        ],
        "volumes": [
            { "name": "none", "emptyDir": {} },
            { "name": "files", "downwardAPI": { "items": [item] } },
            { "name": "mixed", "projected": { "sources": [
                { "configMap": { "name": "some" } }, { "downwardAPI": { "items": [item] } },
            ]}},
        ],
    })
}

fn pod(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str()
}

/// What the annotation of an object must hold.
fn envelope(object: &Value) -> String {
    let none = Vec::new();
    let references = object["metadata"]["ownerReferences"].as_array().unwrap_or(&none);
    owner_envelope(references, ValueDestination::Env)
}

/// Holds that a pod's annotation is what its references say.
#[track_caller]
fn holds(object: &Value) {
    assert_eq!(annotation(object), Some(envelope(object).as_str()), "{object}");
}

#[test]
fn a1_the_same_arguments_give_the_same_bytes() {
    let printed = install::downward(SERVER, None).unwrap();
    assert_eq!(printed, install::downward("v1.41.3".parse().unwrap(), None).unwrap());
    let kinds: Vec<String> =
        documents(&printed).iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "MutatingAdmissionPolicy").count(), 2);
    assert!(kinds.iter().all(|kind| !kind.contains("Webhook")), "never both: {kinds:?}");
}

#[test]
fn a1_an_older_server_gets_a_webhook_and_never_both() {
    let said = |version: &str, webhook| install::downward(version.parse().unwrap(), webhook);
    let refused = said("1.35", None).unwrap_err().to_string();
    assert_eq!(refused, "a server of 1.35 needs a webhook, and who signs its certificate");
    let refused = said("1.29", None).unwrap_err().to_string();
    assert_eq!(refused, "`downward` needs Kubernetes 1.30, and the server is of 1.29");
    let webhook = DownwardWebhook {
        authority: "-----BEGIN CERTIFICATE-----\n".to_owned(),
        image: "tenure:test".to_owned(),
    };
    let printed = said("1.35", Some(&webhook)).unwrap();
    assert!(!printed.contains('@') && !printed.contains("MutatingAdmissionPolicy\n"));
    let objects = documents(&printed);
    let configuration = objects.last().unwrap();
    assert_eq!(configuration["kind"], "MutatingWebhookConfiguration");
    assert_eq!(configuration["webhooks"][0]["failurePolicy"], "Fail");
    assert!(!said("1.36", Some(&webhook)).unwrap().contains("Webhook"));
    let wrong = DownwardWebhook { authority: "a key".to_owned(), ..webhook.clone() };
    assert_eq!(said("1.35", Some(&wrong)), Err(InstallError::NoCertificate));
}

#[test]
fn a3_every_object_carries_three_labels() {
    let (manager, tenure) = MANAGED_BY;
    for object in documents(&install::downward(SERVER, None).unwrap()) {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels[manager], tenure, "{object}");
        assert_eq!(labels[FEATURE], AttachFeature::Downward.name(), "{object}");
        assert_eq!(labels[VERSION], env!("CARGO_PKG_VERSION"), "{object}");
    }
}

#[test]
fn a81_the_namespaces_of_the_system_are_outside_of_every_binding_that_changes_objects() {
    let objects = documents(&install::downward(SERVER, None).unwrap());
    let bindings = objects.iter().filter(|one| one["kind"] == "MutatingAdmissionPolicyBinding");
    let selectors: Vec<&Value> =
        bindings.map(|one| &one["spec"]["matchResources"]["namespaceSelector"]).collect();
    assert_eq!(selectors.len(), 2);
    for selector in selectors {
        let outside = json!({ "matchExpressions": [{
            "key": "kubernetes.io/metadata.name", "operator": "NotIn",
            "values": ["kube-system", "tenure-system"],
        }]});
        assert_eq!(*selector, outside);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a81_a_pod_of_the_system_is_not_touched() {
    let town = town().await;
    let path = "/api/v1/namespaces/kube-system/pods";
    let (code, said) = town.create(path, &pod("a", &reading(NATIVE))).await;
    assert_eq!(code, 422, "{said}");
    // Named as any other annotation, it is one.
    town.made(path, &pod("b", &reading(CARRIER))).await;
}
