//! What is removed, in which order, and what stands in the way.

use serde_json::json;
use tenure_attach::uninstall::{InstalledObject, installed, remove, templates_in_use, uninstall};
use tenure_attach::{AttachFeature, install};

use crate::downward::{NATIVE, reading};
use crate::town::{JSON, SERVER, Town};

const DOWNWARD: AttachFeature = AttachFeature::Downward;

#[tokio::test(flavor = "multi_thread")]
async fn a83_applying_again_writes_nothing() {
    let town = Town::start().await;
    let text = install::downward(SERVER, None).unwrap();
    let first = town.apply_all(&text).await;
    let second = town.apply_all(&text).await;
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first["metadata"]["generation"], second["metadata"]["generation"]);
        if first["kind"] != "ValidatingAdmissionPolicy" {
            // The status of the others is written by a controller.
            assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a85_install_use_and_uninstall_leave_the_cluster_as_it_was() {
    let town = Town::start().await;
    let before = town.inventory().await;
    town.apply_all(&install::downward(SERVER, None).unwrap()).await;
    assert_ne!(town.inventory().await, before);
    let path = "/api/v1/namespaces/default/pods";
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" }, "spec": reading(NATIVE) });
    town.made(path, &pod).await;
    let now = json!({ "gracePeriodSeconds": 0 });
    let (code, said) = town.send("DELETE", &format!("{path}/a"), JSON, &now).await;
    assert!(code < 300, "{said}");
    let order: Vec<String> = installed(&town.client, DOWNWARD, false)
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let group = "admissionregistration.k8s.io";
    assert_eq!(
        order,
        [
            format!("mutatingadmissionpolicybindings.{group} downward-pods.tenure.dev"),
            format!("mutatingadmissionpolicybindings.{group} downward-templates.tenure.dev"),
            format!("validatingadmissionpolicybindings.{group} downward-binding.tenure.dev"),
            format!("validatingadmissionpolicybindings.{group} downward-text.tenure.dev"),
            format!("mutatingadmissionpolicies.{group} downward-pods.tenure.dev"),
            format!("mutatingadmissionpolicies.{group} downward-templates.tenure.dev"),
            format!("validatingadmissionpolicies.{group} downward-binding.tenure.dev"),
            format!("validatingadmissionpolicies.{group} downward-text.tenure.dev"),
        ],
        "what changes objects goes before what guards them"
    );
    let mut removed = Vec::new();
    let mut tell = |object: &InstalledObject| removed.push(object.to_string());
    uninstall(&town.client, DOWNWARD, false, &mut tell).await.unwrap();
    assert_eq!(removed, order);
    uninstall(&town.client, DOWNWARD, false, &mut |_| panic!("nothing is left")).await.unwrap();
    assert_eq!(town.inventory().await, before);
    let (code, _) = town.create(path, &pod).await;
    assert_eq!(code, 422, "the server is what it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn a85_what_took_the_name_of_an_object_meanwhile_stays() {
    let town = Town::start().await;
    let text = install::downward(SERVER, None).unwrap();
    town.apply_all(&text).await;
    let found = installed(&town.client, DOWNWARD, false).await.unwrap();
    for object in &found {
        remove(&town.client, object).await.unwrap();
    }
    town.apply_all(&text).await;
    for object in &found {
        assert!(!remove(&town.client, object).await.unwrap(), "{object}");
    }
    assert_eq!(installed(&town.client, DOWNWARD, false).await.unwrap().len(), found.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a85_the_callers_rights_are_what_counts() {
    let town = Town::start().await;
    town.apply_all(&install::downward(SERVER, None).unwrap()).await;
    let nobody = town.cluster.client_as("nobody", &[]);
    let problem = installed(&nobody, DOWNWARD, false).await.unwrap_err();
    assert_eq!(problem.code(), Some(403));
    assert!(problem.reason().contains("mutatingadmissionpolicybindings"), "{}", problem.reason());
    assert_eq!(templates_in_use(&nobody).await.unwrap_err().code(), Some(403));
}

#[tokio::test(flavor = "multi_thread")]
async fn a87_templates_that_read_are_named_and_their_copies_are_not() {
    let town = Town::start().await;
    town.apply_all(&install::downward(SERVER, None).unwrap()).await;
    assert_eq!(templates_in_use(&town.client).await.unwrap(), []);
    let labels = json!({ "app": "a" });
    let template = json!({ "metadata": { "labels": labels }, "spec": reading(NATIVE) });
    let object = |kind: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "a" },
            "spec": { "selector": { "matchLabels": labels }, "template": template },
        })
    };
    let path = "/apis/apps/v1/namespaces/default";
    town.made(&format!("{path}/deployments"), &object("Deployment")).await;
    let copied = |list: &serde_json::Value| list["items"][0].is_object();
    town.until(&format!("{path}/replicasets"), "a copy", copied).await;
    let mut other = object("DaemonSet");
    other["spec"]["template"]["spec"] = json!({ "containers": [{ "name": "a", "image": "x" }] });
    town.made(&format!("{path}/daemonsets"), &other).await;
    let named = json!({ "apiVersion": "v1", "kind": "PodTemplate", "metadata": { "name": "t" }, "template": template });
    town.made("/api/v1/namespaces/default/podtemplates", &named).await;
    let found: Vec<String> =
        templates_in_use(&town.client).await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["Deployment default/a", "PodTemplate default/t"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a85_the_namespace_stays_while_somebody_has_something_in_it() {
    let town = Town::start().await;
    let webhook = install::DownwardWebhook {
        authority: "-----BEGIN CERTIFICATE-----\n".to_owned(),
        image: "tenure:test".to_owned(),
    };
    let text = install::downward("1.35".parse().unwrap(), Some(&webhook)).unwrap();
    // Nobody answers at the address: only the configuration is left out.
    for object in crate::town::documents(&text) {
        if object["kind"] != "MutatingWebhookConfiguration" {
            let (code, said) = town.apply(&crate::town::path_of(&object), &object).await;
            assert!(code < 300, "{said}");
        }
    }
    let secrets = "/api/v1/namespaces/tenure-system/secrets";
    town.made(secrets, &json!({ "metadata": { "name": "tenure-downward-tls" } })).await;
    uninstall(&town.client, DOWNWARD, false, &mut |_| {}).await.unwrap();
    assert_eq!(installed(&town.client, DOWNWARD, false).await.unwrap(), []);
    town.get(&format!("{secrets}/tenure-downward-tls")).await;
    let (code, _) = town
        .send("DELETE", &format!("{secrets}/tenure-downward-tls"), JSON, &serde_json::Value::Null)
        .await;
    assert_eq!(code, 200);
    uninstall(&town.client, DOWNWARD, false, &mut |_| {}).await.unwrap();
    town.until("/api/v1/namespaces", "gone", |list| !list.to_string().contains("tenure-system"))
        .await;
}
