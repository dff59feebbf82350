//! What the story is made of: a small Gateway API, a strategy, a consumer, rights without Secrets.

use serde_json::{Value, json};

const GROUP: &str = "gateway.networking.k8s.io";
const REFERENCE: &str = "reference.authorization.k8s.io/v1alpha1";

/// Everything but the Gateway and its grant, each with its address.
pub(crate) fn set_up() -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = ["edge-system", "prod", "prod-tls"]
        .into_iter()
        .map(|name| {
            let namespace =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            (format!("/api/v1/namespaces/{name}"), namespace)
        })
        .collect();
    all.extend([definition(), strategy(), consumer(), account()]);
    all.extend(rights());
    all.extend([secret("acme-tls"), secret("other-tls")]);
    all
}

fn definition() -> (String, Value) {
    let text = json!({ "type": "string" });
    let reference = json!({ "type": "object", "required": ["name"], "properties": {
        "group": { "type": "string", "default": "" },
        "kind": { "type": "string", "default": "Secret" },
        "name": text, "namespace": text,
    }});
    let spec = json!({ "type": "object", "properties": {
        "gatewayClassName": text,
        "listeners": { "type": "array", "items": { "type": "object", "properties": {
            "name": text,
            "tls": { "type": "object", "properties": {
                "certificateRefs": { "type": "array", "items": reference },
            }},
        }}},
    }});
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    let name = format!("gateways.{GROUP}");
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "annotations": { "api-approved.kubernetes.io": "unapproved, a shape for an example" },
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": "Gateway", "plural": "gateways", "singular": "gateway" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    (format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"), object)
}

fn strategy() -> (String, Value) {
    let object = json!({
        "apiVersion": REFERENCE,
        "kind": "ReferenceStrategy",
        "metadata": { "name": "gateways" },
        "origin": { "group": GROUP, "resource": "gateways" },
        "versions": [{ "version": "v1", "classPath": ".spec.gatewayClassName", "references": [{
            "path": ".spec.listeners[*].tls.certificateRefs[?(@.group=='' && @.kind=='Secret')].name",
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }]}],
    });
    (format!("/apis/{REFERENCE}/referencestrategies/gateways"), object)
}

fn consumer() -> (String, Value) {
    let object = json!({
        "apiVersion": REFERENCE,
        "kind": "ClusterReferenceConsumer",
        "metadata": { "name": "edge" },
        "subject": { "kind": "ServiceAccount", "namespace": "edge-system", "name": "edge" },
        "classNames": ["edge"],
        "references": [{
            "origin": { "group": GROUP, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }],
    });
    (format!("/apis/{REFERENCE}/clusterreferenceconsumers/edge"), object)
}

fn account() -> (String, Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "namespace": "edge-system", "name": "edge" },
    });
    ("/api/v1/namespaces/edge-system/serviceaccounts/edge".to_owned(), object)
}

/// All that role-based access gives the controller: the three kinds, its Gateways, and their status.
fn rights() -> [(String, Value); 2] {
    let read = ["get", "list", "watch"];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "edge" },
        "rules": [
            { "apiGroups": ["reference.authorization.k8s.io"], "resources": ["*"], "verbs": read },
            { "apiGroups": [GROUP], "resources": ["gateways"], "verbs": read },
            { "apiGroups": [GROUP], "resources": ["gateways/status"], "verbs": ["patch"] },
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "edge" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edge" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": "edge-system", "name": "edge" }],
    });
    let root = "/apis/rbac.authorization.k8s.io/v1";
    [
        (format!("{root}/clusterroles/edge"), role),
        (format!("{root}/clusterrolebindings/edge"), binding),
    ]
}

fn secret(name: &str) -> (String, Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "namespace": "prod-tls", "name": name },
        "data": { "tls.crt": "Y2VydGlmaWNhdGU=" },
    });
    (format!("/api/v1/namespaces/prod-tls/secrets/{name}"), object)
}

/// A Gateway that names a Secret of another namespace.
pub(crate) fn gateway() -> (String, Value) {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Gateway",
        "metadata": { "namespace": "prod", "name": "web" },
        "spec": { "gatewayClassName": "edge", "listeners": [{
            "name": "https",
            "tls": { "certificateRefs": [{ "name": "acme-tls", "namespace": "prod-tls" }] },
        }]},
    });
    (format!("/apis/{GROUP}/v1/namespaces/prod/gateways/web"), object)
}

/// What the owner of the Secret says to that.
pub(crate) fn grant() -> (String, Value) {
    let object = json!({
        "apiVersion": REFERENCE,
        "kind": "ReferenceGrant",
        "metadata": { "namespace": "prod-tls", "name": "prod-gateways" },
        "origin": { "group": GROUP, "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["acme-tls"] },
        "purpose": "tls-serving",
    });
    (format!("/apis/{REFERENCE}/namespaces/prod-tls/referencegrants/prod-gateways"), object)
}
