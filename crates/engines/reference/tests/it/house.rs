//! A small host: keeps objects, feeds the index what it asks for, and asks it.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_reference::*;

pub(crate) const CONTOUR: &str = "system:serviceaccount:contour-system:contour";
pub(crate) const GATEWAYS: &str = "gateway.networking.k8s.io";
/// The seed's path for serving certificates, as its author wrote it.
pub(crate) const SEED_PATH: &str =
    "$.spec.listeners[*].tls.certificateRefs[[?(@.group=='' && @.kind=='Secret')].name";

pub(crate) struct House {
    pub(crate) index: Index,
    pub(crate) out: Outputs,
    /// Type, version, namespace, name and object of every origin.
    pub(crate) origins: Vec<(&'static str, &'static str, String, String, Value)>,
    versions: Vec<&'static str>,
}

/// What is served: gateways, routes, profiles without a namespace; Secrets, ConfigMaps, Services; certs
/// without a namespace; namespaces and classes of gateways.
pub(crate) fn served(versions: &[&str]) -> Vec<ServedType> {
    let row =
        |group: &str, resource: &str, kind: &str, namespaced: bool, versions: &[&str]| ServedType {
            resource: Resource::new(group, resource),
            kind: kind.into(),
            namespaced,
            versions: versions.iter().map(|version| (*version).into()).collect(),
        };
    vec![
        row(GATEWAYS, "gateways", "Gateway", true, versions),
        row(GATEWAYS, "httproutes", "HTTPRoute", true, versions),
        row("x", "profiles", "Profile", false, versions),
        row("", "secrets", "Secret", true, &["v1"]),
        row("", "configmaps", "ConfigMap", true, &["v1"]),
        row("", "services", "Service", true, &["v1"]),
        row("x", "certs", "Cert", false, &["v1"]),
        row("", "namespaces", "Namespace", false, &["v1"]),
        row(GATEWAYS, "gatewayclasses", "GatewayClass", false, versions),
    ]
}

fn group_of(resource: &str) -> &'static str {
    match resource {
        "profiles" => "x",
        "namespaces" => "",
        _ => GATEWAYS,
    }
}

impl House {
    /// Everything is served and seen; nothing is stored.
    pub(crate) fn new() -> House {
        let mut house = House::unseen();
        for kind in
            [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant]
        {
            house.tell(IndexEvent::Synced(Synced::Kind(kind)));
        }
        house
    }

    pub(crate) fn unseen() -> House {
        House::with(Index::new(7))
    }

    /// As [`House::new`], where selectors mean something.
    pub(crate) fn selecting() -> House {
        let mut house = House::with(Index::new(7).with_selectors(Selectors::ALL));
        for kind in
            [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant]
        {
            house.tell(IndexEvent::Synced(Synced::Kind(kind)));
        }
        house
    }

    fn with(index: Index) -> House {
        let versions = vec!["v1", "v1beta1"];
        let mut house = House { index, out: Outputs::default(), origins: Vec::new(), versions };
        house.tell(IndexEvent::Served(served(&["v1", "v1beta1"])));
        house
    }

    /// The seed's story: contour serves gateways of its class; a gateway names a Secret elsewhere; a grant.
    pub(crate) fn story() -> House {
        let mut house = House::new();
        house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
        house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
        house.gateway("prod", "web", "contour", &[("acme-tls", "prod-tls")]);
        house.grant("prod-tls", "prod-gateways", "prod", &["acme-tls"]);
        house
    }

    pub(crate) fn tell(&mut self, event: IndexEvent<'_>) {
        let mut out = Outputs::default();
        self.index.apply(event, &mut out);
        let needs = core::mem::take(&mut out.needs);
        self.keep(out);
        self.out.needs.extend(needs.iter().cloned());
        for need in needs {
            let Need::Feed(resource, version) = need else { continue };
            self.feed(&resource, &version);
        }
    }

    fn keep(&mut self, out: Outputs) {
        self.out.transitions.extend(out.transitions);
        self.out.moved.extend(out.moved);
        self.out.subjects.extend(out.subjects);
        self.out.reports.extend(out.reports);
    }

    fn feed(&mut self, resource: &Resource, version: &str) {
        let mut out = Outputs::default();
        for (kind, at, namespace, name, object) in &self.origins {
            if *kind == resource.resource && *at == version {
                let name = OriginName { group: &resource.group, resource: kind, namespace, name };
                let origin = Origin { name, version, object };
                self.index.apply(IndexEvent::PutOrigin(origin), &mut out);
            }
        }
        let (group, resource) = (&resource.group, &resource.resource);
        let synced = Synced::Origins { group, resource, version };
        self.index.apply(IndexEvent::Synced(synced), &mut out);
        self.keep(out);
    }

    pub(crate) fn serve(&mut self, versions: &[&'static str]) {
        self.versions = versions.to_vec();
        self.tell(IndexEvent::Served(served(versions)));
    }

    /// A strategy for Secrets and `tls-serving` in both versions.
    pub(crate) fn strategy(&mut self, name: &str, origin: &str, class: Option<&str>, path: &str) {
        self.put_strategy(json!({
            "metadata": { "name": name },
            "origin": { "group": group_of(origin), "resource": origin },
            "versions": [
                { "version": "v1", "classPath": class, "references": [secret_path(path)] },
                { "version": "v1beta1", "classPath": class, "references": [secret_path(path)] },
            ],
        }));
    }

    pub(crate) fn put_strategy(&mut self, object: Value) {
        let strategy = Strategy::from_object(object.as_object().unwrap()).unwrap();
        self.tell(IndexEvent::PutStrategy(strategy));
    }

    pub(crate) fn consumer(&mut self, name: &str, user: &str, classes: &[&str], origin: &str) {
        self.put_consumer(json!({
            "metadata": { "name": name },
            "subject": { "kind": "User", "name": user },
            "classNames": classes,
            "references": [{
                "origin": { "group": group_of(origin), "resource": origin },
                "target": { "group": "", "resource": "secrets" },
                "purpose": "tls-serving",
            }],
        }));
    }

    pub(crate) fn put_consumer(&mut self, object: Value) {
        let consumer = Consumer::from_object(object.as_object().unwrap()).unwrap();
        self.tell(IndexEvent::PutConsumer(consumer));
    }

    pub(crate) fn grant(&mut self, namespace: &str, name: &str, from: &str, names: &[&str]) {
        self.put_grant(grant(namespace, name, from, names));
    }

    pub(crate) fn put_grant(&mut self, object: Value) {
        let grant = Grant::from_object(object.as_object().unwrap()).unwrap();
        self.tell(IndexEvent::PutGrant(grant));
    }

    /// A Gateway with one certificate for each listener: name and namespace, empty for none.
    pub(crate) fn gateway(
        &mut self,
        namespace: &str,
        name: &str,
        class: &str,
        refs: &[(&str, &str)],
    ) {
        let listeners: Vec<Value> = refs
            .iter()
            .map(|(name, namespace)| {
                let mut certificate = json!({ "group": "", "kind": "Secret", "name": name });
                if !namespace.is_empty() {
                    certificate["namespace"] = json!(namespace);
                }
                json!({ "tls": { "certificateRefs": [certificate] } })
            })
            .collect();
        let spec = json!({ "gatewayClassName": class, "listeners": listeners });
        self.origin("gateways", namespace, name, spec);
    }

    /// An origin that is the same in every version that is served.
    pub(crate) fn origin(&mut self, kind: &'static str, namespace: &str, name: &str, spec: Value) {
        for version in self.versions.clone() {
            self.origin_at(kind, version, namespace, name, spec.clone());
        }
    }

    pub(crate) fn origin_at(
        &mut self,
        kind: &'static str,
        version: &'static str,
        namespace: &str,
        name: &str,
        spec: Value,
    ) {
        let object = json!({ "metadata": { "name": name, "namespace": namespace }, "spec": spec });
        self.object_at(kind, version, namespace, name, object);
    }

    /// A namespace with these labels.
    pub(crate) fn namespace(&mut self, name: &str, labels: Value) {
        let object = json!({ "metadata": { "name": name, "labels": labels } });
        self.object_at("namespaces", "v1", "", name, object);
    }

    fn object_at(
        &mut self,
        kind: &'static str,
        version: &'static str,
        namespace: &str,
        name: &str,
        object: Value,
    ) {
        self.origins
            .retain(|(k, v, ns, n, _)| (*k, *v, &**ns, &**n) != (kind, version, namespace, name));
        self.origins.push((kind, version, namespace.into(), name.into(), object.clone()));
        let name = OriginName { group: group_of(kind), resource: kind, namespace, name };
        self.tell(IndexEvent::PutOrigin(Origin { name, version, object: &object }));
    }

    pub(crate) fn drop_origin(&mut self, kind: &str, namespace: &str, name: &str) {
        self.origins.retain(|(k, _, ns, n, _)| (*k, &**ns, &**n) != (kind, namespace, name));
        let name = OriginName { group: group_of(kind), resource: kind, namespace, name };
        self.tell(IndexEvent::DropOrigin(name));
    }

    /// Whether contour may get a Secret, on the published view.
    pub(crate) fn may(&mut self, namespace: &str, name: &str) -> bool {
        self.user_may(CONTOUR, namespace, name)
    }

    pub(crate) fn user_may(&mut self, user: &str, namespace: &str, name: &str) -> bool {
        let view: Arc<CapabilityView> = self.index.publish();
        view.decide(&get(user, "secrets", namespace, name)).is_allowed()
    }

    /// Asks about a gateway's use of a Secret for `tls-serving`.
    pub(crate) fn check(&self, origin: (&str, &str), target: (&str, &str)) -> Verdict<'_> {
        self.index.check(&query(origin, target))
    }

    pub(crate) fn explain(&self, namespace: &str, name: &str) -> Explanation {
        self.index.explain(&get(CONTOUR, "secrets", namespace, name))
    }
}

pub(crate) fn secret_path(path: &str) -> Value {
    json!({
        "path": path,
        "target": { "group": "", "resource": "secrets" },
        "purpose": "tls-serving",
    })
}

pub(crate) fn grant(namespace: &str, name: &str, from: &str, names: &[&str]) -> Value {
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "origin": { "group": GATEWAYS, "resource": "gateways", "namespace": from },
        "target": { "group": "", "resource": "secrets", "names": names },
        "purpose": "tls-serving",
    })
}

pub(crate) fn query<'a>(origin: (&'a str, &'a str), target: (&'a str, &'a str)) -> RefQuery<'a> {
    RefQuery {
        origin: Obj { group: GATEWAYS, resource: "gateways", namespace: origin.0, name: origin.1 },
        target: Obj { group: "", resource: "secrets", namespace: target.0, name: target.1 },
        purpose: "tls-serving",
        class: None,
        subject: None,
    }
}

pub(crate) fn get<'a>(
    user: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> Attributes<'a> {
    Attributes {
        user,
        groups: &[],
        verb: "get",
        group: "",
        resource,
        subresource: "",
        namespace,
        name,
    }
}
