//! A town by hand: what is served, the three kinds, origins, roles; and questions about who may read what.
//! Rules of spec/referential-authorization.md.

mod changes;
mod narrowing;
mod questions;
mod selectors;

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_inspect::access::{AccessRequest, ClusterAccess, Roles, identity};
use tenure_references::live::Snapshot;
use tenure_references::{NoExpressions, ObjectName, Resource, ServedType};

pub(crate) const EDGE: &str = "system:serviceaccount:edge-system:edge";
pub(crate) const GATEWAY: &str = "gateway.networking.k8s.io";
pub(crate) const NETWORKING: &str = "networking.k8s.io";
pub(crate) const REFERENCE: &str = "reference.authorization.k8s.io";

pub(crate) struct Town {
    pub(crate) snapshot: Snapshot,
    pub(crate) roles: Vec<Value>,
}

fn served() -> Vec<ServedType> {
    let row = |group: &str, resource: &str, kind: &str, namespaced: bool| ServedType {
        resource: Resource::new(group, resource),
        kind: kind.to_owned(),
        namespaced,
        versions: vec![if group == REFERENCE { "v1alpha1" } else { "v1" }.to_owned()],
    };
    vec![
        row("", "secrets", "Secret", true),
        row("", "services", "Service", true),
        row("", "configmaps", "ConfigMap", true),
        row("", "namespaces", "Namespace", false),
        row(NETWORKING, "ingressclasses", "IngressClass", false),
        row(NETWORKING, "ingresses", "Ingress", true),
        row(GATEWAY, "gateways", "Gateway", true),
        row(REFERENCE, "referencegrants", "ReferenceGrant", true),
        row(REFERENCE, "referencestrategies", "ReferenceStrategy", false),
        row(REFERENCE, "clusterreferenceconsumers", "ClusterReferenceConsumer", false),
    ]
}

impl Town {
    /// Everything is served, nothing is there.
    pub(crate) fn empty() -> Town {
        let snapshot = Snapshot { served: served(), ..Snapshot::default() };
        Town { snapshot, roles: Vec::new() }
    }

    /// The edge serves Ingresses and Gateways of its class. One Gateway points into another namespace with a
    /// grant, one without.
    pub(crate) fn story() -> Town {
        let mut town = Town::empty();
        town.snapshot.objects = vec![
            ingress_strategy(),
            gateway_strategy(),
            consumer("edge", EDGE, &["nginx"], &[(NETWORKING, "ingresses"), (GATEWAY, "gateways")]),
            grant("prod-tls", "prod-gateways", "prod", &["acme-tls"]),
        ];
        town.ingress("shop", "web", Some("nginx"), "web-tls");
        town.ingress("shop", "old", Some("haproxy"), "old-tls");
        town.gateway("prod", "web", "nginx", &[("acme-tls", "prod-tls")]);
        town.gateway("prod", "api", "nginx", &[("api-tls", "prod-tls")]);
        town
    }

    pub(crate) fn ingress(
        &mut self,
        namespace: &str,
        name: &str,
        class: Option<&str>,
        secret: &str,
    ) {
        let mut spec = json!({ "tls": [{ "secretName": secret }] });
        if let Some(class) = class {
            spec["ingressClassName"] = class.into();
        }
        self.origin(NETWORKING, "ingresses", "Ingress", namespace, name, spec);
    }

    pub(crate) fn gateway(
        &mut self,
        namespace: &str,
        name: &str,
        class: &str,
        secrets: &[(&str, &str)],
    ) {
        let object = gateway(namespace, name, class, secrets);
        self.snapshot.origins.push((Resource::new(GATEWAY, "gateways"), object));
    }

    fn origin(
        &mut self,
        group: &str,
        resource: &str,
        kind: &str,
        namespace: &str,
        name: &str,
        spec: Value,
    ) {
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind,
            "metadata": { "namespace": namespace, "name": name }, "spec": spec,
        });
        self.snapshot.origins.push((Resource::new(group, resource), object));
    }

    /// A binding of a role of its own; without a namespace, for the cluster.
    pub(crate) fn bind(&mut self, namespace: &str, name: &str, subjects: Value, rule: Value) {
        let (role, binding) = match namespace {
            "" => ("ClusterRole", "ClusterRoleBinding"),
            _ => ("Role", "RoleBinding"),
        };
        let metadata = json!({ "namespace": namespace, "name": name });
        self.roles.push(json!({ "kind": role, "metadata": metadata, "rules": [rule] }));
        self.roles.push(json!({
            "kind": binding, "metadata": metadata,
            "roleRef": { "kind": role, "name": name },
            "subjects": subjects,
        }));
    }

    pub(crate) fn rights(&self) -> ClusterAccess {
        let roles = Roles::new(&self.roles);
        ClusterAccess::new(self.snapshot.clone(), roles, Arc::new(NoExpressions))
    }
}

pub(crate) fn edge_account() -> Value {
    json!([{ "kind": "ServiceAccount", "namespace": "edge-system", "name": "edge" }])
}

pub(crate) fn reads(group: &str, resource: &str) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"] })
}

fn strategy(name: &str, group: &str, resource: &str, class: &str, path: &str) -> Value {
    json!({
        "apiVersion": format!("{REFERENCE}/v1alpha1"), "kind": "ReferenceStrategy",
        "metadata": { "name": name },
        "origin": { "group": group, "resource": resource },
        "versions": [{ "version": "v1", "classPath": class, "references": [{
            "path": path,
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }]}],
    })
}

pub(crate) fn ingress_strategy() -> Value {
    let name = "ingresses.networking.k8s.io";
    strategy(name, NETWORKING, "ingresses", ".spec.ingressClassName", ".spec.tls[*].secretName")
}

pub(crate) fn gateway_strategy() -> Value {
    let name = "gateways.gateway.networking.k8s.io";
    let path = ".spec.listeners[*].tls.certificateRefs[*].name";
    strategy(name, GATEWAY, "gateways", ".spec.gatewayClassName", path)
}

pub(crate) fn consumer(
    name: &str,
    user: &str,
    classes: &[&str],
    origins: &[(&str, &str)],
) -> Value {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|it| it.split_once(':'));
    let subject = match account {
        Some((namespace, name)) => {
            json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
        }
        None => json!({ "kind": "User", "name": user }),
    };
    let references: Vec<Value> = origins
        .iter()
        .map(|(group, resource)| {
            json!({
                "origin": { "group": group, "resource": resource },
                "target": { "group": "", "resource": "secrets" },
                "purpose": "tls-serving",
            })
        })
        .collect();
    json!({
        "apiVersion": format!("{REFERENCE}/v1alpha1"), "kind": "ClusterReferenceConsumer",
        "metadata": { "name": name }, "subject": subject, "classNames": classes,
        "references": references,
    })
}

pub(crate) fn grant(namespace: &str, name: &str, from: &str, names: &[&str]) -> Value {
    json!({
        "apiVersion": format!("{REFERENCE}/v1alpha1"), "kind": "ReferenceGrant",
        "metadata": { "namespace": namespace, "name": name },
        "origin": { "group": GATEWAY, "resource": "gateways", "namespace": from },
        "target": { "group": "", "resource": "secrets", "names": names },
        "purpose": "tls-serving",
    })
}

pub(crate) fn gateway(namespace: &str, name: &str, class: &str, secrets: &[(&str, &str)]) -> Value {
    let refs: Vec<Value> =
        secrets.iter().map(|(name, place)| json!({ "name": name, "namespace": place })).collect();
    json!({
        "apiVersion": format!("{GATEWAY}/v1"), "kind": "Gateway",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "gatewayClassName": class, "listeners": [{ "tls": { "certificateRefs": refs } }] },
    })
}

pub(crate) fn secrets() -> Resource {
    Resource::new("", "secrets")
}

pub(crate) fn asks(user: &str, verb: &str, namespace: &str, name: &str) -> AccessRequest {
    AccessRequest {
        who: identity(user, &[]),
        verb: verb.to_owned(),
        object: ObjectName::new(&secrets(), namespace, name),
        subresource: String::new(),
    }
}
