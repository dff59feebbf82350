//! Rules of spec/referential-authorization.md.

mod access;
mod authors;
mod beside;
mod decisions;
mod filtered;
mod hammer;
mod left_out;
mod many;
mod modes;
mod permits;
mod reviews;
mod selectors;
mod telling;
mod types;
mod validation;
mod warnings;

use serde_json::{Value, json};
use tenure_server::Peer;

pub use crate::custom::DEFINITIONS;
use crate::house::*;

pub const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
pub const STRATEGIES: &str = "/apis/reference.authorization.k8s.io/v1alpha1/referencestrategies";
pub const CONSUMERS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/clusterreferenceconsumers";
pub const GRANTS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/namespaces/prod-tls/referencegrants";
pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The documents of the group as the seed prints them.
pub const SEED: &str = include_str!("seed.yaml");

/// A server with the namespaces that the examples name.
pub async fn house() -> House {
    furnished(House::new().await).await
}

/// The same server with the namespaces of the examples.
pub async fn furnished(house: House) -> House {
    for namespace in ["prod", "prod-tls", "contour-system"] {
        house.made(NAMESPACES, named(namespace)).await;
    }
    house
}

pub fn gateways() -> Value {
    json!({ "group": "gateway.networking.k8s.io", "resource": "gateways" })
}

pub fn secrets() -> Value {
    json!({ "group": "", "resource": "secrets" })
}

pub fn strategy(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "origin": gateways(),
        "versions": [{
            "version": "v1",
            "classPath": ".spec.gatewayClassName",
            "references": [{
                "path": ".spec.listeners[*].tls.certificateRefs[?(@.kind=='Secret')].name",
                "target": secrets(),
                "purpose": "tls-serving",
            }],
        }],
    })
}

pub fn consumer(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "subject": {
            "kind": "ServiceAccount", "name": "contour", "namespace": "contour-system",
        },
        "classNames": ["contour"],
        "references": [{
            "origin": gateways(), "target": secrets(), "purpose": "tls-serving",
        }],
    })
}

pub fn grant(name: &str, names: &[&str]) -> Value {
    json!({
        "metadata": { "name": name },
        "origin": {
            "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "prod",
        },
        "target": { "group": "", "resource": "secrets", "names": names },
        "purpose": "tls-serving",
    })
}

/// The object with one member replaced; null removes it.
pub fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match (parent, member) {
        (Value::Object(map), Value::Null) => drop(map.remove(name)),
        (Value::Object(map), member) => drop(map.insert(name.to_owned(), member)),
        (Value::Array(list), member) => list[name.parse::<usize>().unwrap()] = member,
        _ => panic!("{pointer}"),
    }
    value
}

/// A definition of Gateways, served in these versions.
pub fn definition(versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, version)| {
            json!({
                "name": version, "served": true, "storage": index == 0,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            })
        })
        .collect();
    json!({
        "metadata": {
            "name": "gateways.gateway.networking.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, a test" },
        },
        "spec": {
            "group": "gateway.networking.k8s.io", "scope": "Namespaced",
            "names": { "plural": "gateways", "singular": "gateway", "kind": "Gateway" },
            "versions": versions,
        },
    })
}

/// Serves Gateways in these versions.
pub async fn serve_gateways(house: &House, versions: &[&str]) {
    house.made(DEFINITIONS, definition(versions)).await;
    let newest = versions[0];
    house.until(&format!("/apis/gateway.networking.k8s.io/{newest}/gateways"), 200).await;
}

/// Ends the serving of Gateways. A kind is gone a moment before its definition is, so the definition is
/// what is waited for.
pub async fn unserve_gateways(house: &House) {
    let path = format!("{DEFINITIONS}/gateways.gateway.networking.k8s.io");
    house.delete(&path).await.with(200);
    house.until(&path, 404).await;
    house.get("/apis/gateway.networking.k8s.io/v1/gateways").await.with(404);
}

/// A user with these rules, in a namespace or in all of them.
pub async fn user(house: &House, name: &str, namespace: &str, rules: &[Value]) -> Peer {
    let (role, binding, kind) = match namespace {
        "" => ("clusterroles", "clusterrolebindings", "ClusterRole"),
        _ => ("roles", "rolebindings", "Role"),
    };
    let home = match namespace {
        "" => RBAC.to_owned(),
        namespace => format!("{RBAC}/namespaces/{namespace}"),
    };
    house
        .made(&format!("{home}/{role}"), json!({ "metadata": { "name": name }, "rules": rules }))
        .await;
    let bound = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name }],
    });
    house.made(&format!("{home}/{binding}"), bound).await;
    peer(name, &[])
}

pub fn rule(verbs: &[&str], group: &str, resource: &str, names: &[&str]) -> Value {
    let mut rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": [resource] });
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

/// Everything on the three kinds, but not `escalate`.
pub fn writes() -> Value {
    json!({
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        "apiGroups": ["reference.authorization.k8s.io"], "resources": ["*"],
    })
}

impl House {
    /// Creates as somebody.
    pub async fn post_as(&self, who: &Peer, path: &str, body: &Value) -> Answer {
        self.ask_as(who, "POST", path, &[("content-type", JSON)], body.to_string()).await
    }

    /// Replaces as somebody.
    pub async fn put_as(&self, who: &Peer, path: &str, body: &Value) -> Answer {
        self.ask_as(who, "PUT", path, &[("content-type", JSON)], body.to_string()).await
    }

    /// The texts of the warnings of a create that succeeds.
    pub async fn told(&self, path: &str, body: Value) -> Vec<String> {
        let answer = self.post(path, body).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        texts(&answer)
    }
}

/// The texts of warnings, without code and quotes.
pub fn texts(answer: &Answer) -> Vec<String> {
    let inner = |line: String| {
        let text = line.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        let text = text.replace("\\\"", "\"").replace("\\\\", "\\");
        assert!(text.len() <= 256, "{text}");
        text
    };
    answer.warnings().into_iter().map(inner).collect()
}
