//! What the suite of an operator does on a control plane of envtest, step by step: definitions as envtest installs
//! them, webhooks on this machine, finalizers, owned objects, a namespace that goes (api-server R163, R177).

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Response;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt as _, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tenure_client_tests::Access;
use tenure_client_tests::envtest::TestEnvironment;
use tenure_https::{HttpsServer, HttpsSettings};

use super::{MASTERS, assets, client, eventually};
use crate::kube_rs::boats::{Boat, boat};

/// The status of a GET that asks for protobuf, as controller-runtime asks for every built-in kind.
async fn get_protobuf(path: &Path, resource: &str) -> u16 {
    let mut connection = Access::read(path).unwrap().connect().await.unwrap();
    let request = format!(
        "GET {resource} HTTP/1.1\r\nHost: x\r\nAccept: application/vnd.kubernetes.protobuf, application/json\r\n\r\n"
    );
    connection.write(request.as_bytes()).await.unwrap();
    connection.answer().await.unwrap().code
}

#[tokio::test]
async fn r177_definitions_are_installed_as_envtest_does() {
    let assets = assets();
    let environment = TestEnvironment::start(assets.path()).await.unwrap();
    let admin = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    assert_eq!(get_protobuf(&admin, "/api/v1/namespaces/default").await, 200);
    let definitions: Api<CustomResourceDefinition> = Api::all(client(&admin).await);
    let mut crd = Boat::crd();
    let path =
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", crd.name_any());
    assert_eq!(get_protobuf(&admin, &path).await, 404);
    definitions.create(&PostParams::default(), &crd).await.unwrap();
    let access = Access::read(&admin).unwrap();
    let listed = || async {
        let answer = access.once("GET", "/apis/harbour.example/v1", None).await.unwrap();
        let list = answer.json().unwrap_or_default();
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        resources.iter().any(|resource| resource["name"] == "boats")
    };
    eventually("the kind is discovered", listed).await;
    // A second suite on the same server finds it, and replaces it.
    // Its status may be written meanwhile, so it is tried again.
    loop {
        let found = definitions.get(&crd.name_any()).await.unwrap();
        crd.metadata.resource_version = found.metadata.resource_version;
        match definitions.replace(&crd.name_any(), &PostParams::default(), &crd).await {
            Ok(_) => break,
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A webhook on this machine, and the configuration by which envtest has it called: by a URL, with its own certificate
/// as `caBundle`.
async fn webhook(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> HttpsServer {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let settings = HttpsSettings { names, ..HttpsSettings::default() };
    HttpsServer::start(settings, move |request| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
        let said = answer(&review["request"]);
        response.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
        let whole = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        });
        async move { Response::new(whole.to_string().into()) }
    })
    .await
}

fn configuration(server: &HttpsServer, name: &str, path: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "webhooks": [{
            "name": format!("{name}.harbour.example"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": server.url(path), "caBundle": STANDARD.encode(&server.certificate) },
            "rules": [{
                "apiGroups": ["harbour.example"], "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["boats"],
            }],
        }],
    })
}

#[tokio::test]
async fn r163_r177_an_operators_suite_sees_webhooks_called_and_owned_objects_go() {
    let assets = assets();
    let environment = TestEnvironment::start(assets.path()).await.unwrap();
    let admin = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    let client = client(&admin).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Boat::crd()).await.unwrap();

    let defaulting = webhook(|request| {
        if !request["object"]["spec"]["flag"].is_null() {
            return json!({});
        }
        let patch = json!([{ "op": "add", "path": "/spec/flag", "value": "white" }]);
        json!({ "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()) })
    })
    .await;
    let validating = webhook(|request| match request["object"]["spec"]["port"].as_str() {
        Some("atoll") => json!({ "allowed": false, "status": { "message": "too shallow" } }),
        _ => json!({}),
    })
    .await;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let object = configuration(&defaulting, "defaults", "/mutate-boat");
    mutating
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let object = configuration(&validating, "checks", "/validate-boat");
    hooks.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let shop = ObjectMeta { name: Some("shop".into()), ..ObjectMeta::default() };
    let shop = Namespace { metadata: shop, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let boats: Api<Boat> = Api::namespaced(client.clone(), "shop");
    eventually("the kind is served", || async { boats.list(&ListParams::default()).await.is_ok() })
        .await;
    let mut wanted = boat("anna", "kiel");
    wanted.metadata.finalizers = Some(vec!["harbour.example/moored".into()]);
    let anna = boats.create(&PostParams::default(), &wanted).await.unwrap();
    assert_eq!(anna.spec.flag.as_deref(), Some("white"), "the webhook has set it");
    let refused = boats.create(&PostParams::default(), &boat("berta", "atoll")).await.unwrap_err();
    let why = "admission webhook \"checks.harbour.example\" denied the request: too shallow";
    assert!(refused.to_string().contains(why), "{refused}");

    // Suites make pods without an account: envtest switches that plugin off.
    let owned = |name: &str| ObjectMeta {
        name: Some(name.into()),
        owner_references: Some(vec![anna.controller_owner_ref(&()).unwrap()]),
        ..ObjectMeta::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    let papers = ConfigMap { metadata: owned("papers"), ..ConfigMap::default() };
    maps.create(&PostParams::default(), &papers).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let crew =
        Pod { metadata: owned("crew"), spec: serde_json::from_value(spec).ok(), status: None };
    let crew = pods.create(&PostParams::default(), &crew).await.unwrap();
    assert_eq!(crew.spec.unwrap().service_account_name, None);

    // The finalizer holds the owner; when it goes, so does what it owned.
    boats.delete("anna", &DeleteParams::default()).await.unwrap();
    let held = boats.get("anna").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let free = json!({ "metadata": { "finalizers": null } });
    boats.patch("anna", &PatchParams::default(), &Patch::Merge(free)).await.unwrap();
    eventually("the owned map goes", || async { maps.get_opt("papers").await.unwrap().is_none() })
        .await;
    eventually("the owned pod goes", || async { pods.get_opt("crew").await.unwrap().is_none() })
        .await;

    boats.create(&PostParams::default(), &boat("clara", "riga")).await.unwrap();
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    eventually("the namespace goes", || async {
        namespaces.get_opt("shop").await.unwrap().is_none()
    })
    .await;
    let all: Api<Boat> = Api::all(client);
    assert!(all.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(defaulting.requests() >= 2 && validating.requests() >= 2);
}
