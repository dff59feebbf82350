//! Every active namespace has the certificate of the cluster's authority, for clients that verify the server
//! (SA1; api-server R80). Who edits or deletes it gets it back.

use alloc::string::ToString;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::service_accounts::{THERE_OR_GONE, is_active, wake_new_namespace};
use crate::view::ClusterView;

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str =
    "The authority that signs this server's certificate, for clients that verify it.";

/// The publisher of the authority's certificate. A key names a namespace.
pub struct RootCaCertificates;

impl Controller for RootCaCertificates {
    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }
    fn alias(&self) -> &'static str {
        "root-ca-cert-publisher"
    }
    fn account(&self) -> &'static str {
        "root-ca-cert-publisher"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Namespaces, BuiltinResource::ConfigMaps]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Namespaces {
            wake_new_namespace(change, wake);
        } else if let Some(map) = change.object().filter(|map| map.name() == NAME) {
            wake(ReconcileKey::new("", map.namespace()));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let namespace = &pass.key.name;
        if !is_active(pass.view, namespace) {
            return out;
        }
        let data = json!({ "ca.crt": pass.view.authority() });
        match pass.view.get(BuiltinResource::ConfigMaps, namespace, NAME) {
            None => {
                let map = new(namespace, data);
                out.push(
                    ControllerIntent::create(BuiltinResource::ConfigMaps, map)
                        .forgiving(THERE_OR_GONE),
                );
            }
            Some(map) if owner::deleting(&map) => {}
            Some(map) if map.get("data") == Some(&data) && !map.contains_key("binaryData") => {}
            Some(map) => {
                let mut object = Object::clone(&map.object);
                object.insert("data".to_string(), data);
                object.remove("binaryData");
                out.push(ControllerIntent::update(
                    BuiltinResource::ConfigMaps,
                    object,
                    UpdateEndpoint::Main,
                    map.revision,
                ));
            }
        }
        out
    }
}

/// The certificate as a namespace gets it.
fn new(namespace: &str, data: Value) -> Object {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": NAME, "namespace": namespace,
            "annotations": { "kubernetes.io/description": DESCRIPTION },
        },
        "data": data,
    });
    map.as_object().cloned().unwrap_or_default()
}
