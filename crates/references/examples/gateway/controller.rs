//! A controller of Gateways that may read no Secret but those its Gateways reference.
//!
//! It serves the certificates of every reference that is allowed, and says on the Gateway which are not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tenure_references::{
    Condition, Filter, Identity, Obj, ObjectName, RefQuery, ReferencedCache, References, Resource,
};

const GROUP: &str = "gateway.networking.k8s.io";
const PURPOSE: &str = "tls-serving";

/// What the controller has at hand.
pub(crate) struct Edge {
    client: Client,
    references: References,
    certificates: ReferencedCache,
    /// What is served now: the certificates of each Gateway.
    served: Mutex<BTreeMap<String, Vec<String>>>,
}

impl Edge {
    /// Starts watching, with the rights of a service account.
    pub(crate) fn start(client: Client, namespace: &str, account: &str) -> Arc<Edge> {
        let who = Identity::service_account(namespace, account);
        let references = References::start(client.clone(), who);
        let certificates = ReferencedCache::start(client.clone(), &references);
        Arc::new(Edge { client, references, certificates, served: Mutex::default() })
    }

    /// The certificates a Gateway is served with now.
    pub(crate) fn served(&self, gateway: &str) -> Vec<String> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.get(gateway).cloned().unwrap_or_default()
    }

    /// Reconciles Gateways until dropped: when one changes, when a verdict turns, when a Secret changes.
    pub(crate) async fn run(self: Arc<Edge>) {
        let gateways: Api<DynamicObject> = Api::all_with(self.client.clone(), &gateway_type());
        let verdicts = self.references.watch(Filter::default()).map(|_| ());
        let secrets = self.certificates.changes().map(|_| ());
        Controller::new_with(gateways, watcher::Config::default(), gateway_type())
            .reconcile_all_on(verdicts)
            .reconcile_all_on(secrets)
            .run(reconcile, retry, self)
            .for_each(|_| async {})
            .await;
    }
}

fn gateway_type() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gateway"), "gateways")
}

async fn reconcile(gateway: Arc<DynamicObject>, edge: Arc<Edge>) -> Result<Action, kube::Error> {
    let namespace = gateway.namespace().unwrap_or_default();
    let name = gateway.name_any();
    let origin = Obj { group: GROUP, resource: "gateways", namespace: &namespace, name: &name };
    let (mut worst, mut served): (Option<Condition>, _) = (None, Vec::new());
    for target in certificates_of(&gateway, &namespace) {
        let query = RefQuery {
            origin,
            target: target.as_obj(),
            purpose: PURPOSE,
            class: None,
            subject: None,
        };
        let index = edge.references.read();
        let verdict = index.check(&query);
        let condition = Condition::of(&query, &verdict);
        // A Secret that another Gateway may use is in the cache as well: the verdict comes first.
        if let (true, Some(secret)) = (verdict.is_allowed(), edge.certificates.get(&target)) {
            let certificate = secret.data.pointer("/data/tls.crt").and_then(Value::as_str);
            served.push(format!("{}:{}", target.name, certificate.unwrap_or_default()));
        }
        if worst.as_ref().is_none_or(|worst| worst.status == "True") {
            worst = Some(condition);
        }
    }
    edge.served.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), served);
    let Some(condition) = worst else { return Ok(Action::await_change()) };
    tell(&edge.client, &gateway, &condition).await?;
    // The index may hear of a Gateway a moment later than this does.
    Ok(match condition.status {
        "Unknown" => Action::requeue(Duration::from_millis(50)),
        _ => Action::await_change(),
    })
}

fn retry(_: Arc<DynamicObject>, _: &kube::Error, _: Arc<Edge>) -> Action {
    Action::requeue(Duration::from_millis(100))
}

/// The Secrets a Gateway names.
fn certificates_of(gateway: &DynamicObject, namespace: &str) -> Vec<ObjectName> {
    let listeners = gateway.data.pointer("/spec/listeners").and_then(Value::as_array);
    let references = listeners
        .into_iter()
        .flatten()
        .filter_map(|listener| listener.pointer("/tls/certificateRefs").and_then(Value::as_array));
    let names = references.flatten().filter_map(|reference| {
        let text = |name: &str| reference.get(name).and_then(Value::as_str);
        Some(ObjectName {
            resource: Resource::new("", "secrets"),
            namespace: text("namespace").unwrap_or(namespace).to_owned(),
            name: text("name")?.to_owned(),
        })
    });
    names.collect()
}

/// Writes the condition into the status of the Gateway, when it is another than before.
async fn tell(
    client: &Client,
    gateway: &DynamicObject,
    condition: &Condition,
) -> Result<(), kube::Error> {
    let before = gateway.data.pointer("/status/conditions/0");
    let is = |field: &str, value: &str| {
        before.and_then(|before| before.get(field)).and_then(Value::as_str) == Some(value)
    };
    if is("status", condition.status) && is("message", &condition.message) {
        return Ok(());
    }
    let generation = gateway.metadata.generation.unwrap_or_default();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let status = json!({ "status": { "conditions": [condition.to_json(generation, &now)] } });
    let namespace = gateway.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &gateway_type());
    api.patch_status(&gateway.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}
