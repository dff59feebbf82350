//! The world that the engine of references is measured in: who consumes what, and which origins point where.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tenure_reference::path::JsonPath;
use tenure_reference::{
    CapabilityView, Consumer, Finder, Grant, Index, IndexEvent, Origin, OriginName, Outputs,
    ReferenceApiKind, ReferencePath, Resource, ServedType, Strategy, Subject, Synced, Triple,
    VersionPaths,
};

pub(super) const CONSUMERS: usize = 100;
const STRATEGIES: usize = 100;
pub(super) const GRANTS: usize = 5_000;
pub(super) const NAMESPACES: usize = 1_000;
/// How many objects are made at once: few, because a host has just read what it tells.
const CHUNK: usize = 100;
pub(super) const GROUP: &str = "gateway.networking.k8s.io";

/// The world of the spec with so many origins of two references each, all to targets of their own.
pub(super) fn world(origins: usize) -> Result<(Index, Duration)> {
    world_of(origins, STRATEGIES)
}

/// The same, where the origins are of so many types.
pub(super) fn world_of(origins: usize, types: usize) -> Result<(Index, Duration)> {
    let mut index = Index::new(7).with_background_clearing();
    let mut out = Outputs::default();
    index.apply(IndexEvent::Served(served()), &mut out);
    for number in 0..STRATEGIES {
        index.apply(IndexEvent::PutStrategy(strategy(number)?), &mut out);
    }
    for number in 0..CONSUMERS {
        index.apply(IndexEvent::PutConsumer(consumer(number)), &mut out);
    }
    for number in 0..GRANTS {
        index.apply(IndexEvent::PutGrant(grant(number, 1)), &mut out);
    }
    let mut built = Duration::ZERO;
    for chunk in 0..origins / CHUNK {
        let numbers = chunk * CHUNK..(chunk + 1) * CHUNK;
        let objects: Vec<([String; 3], Value)> = numbers
            .map(|number| {
                let name = [resource(number % types), place(number), web(number)];
                (name, gateway(&[secret(number), format!("ca-{number:07}")]))
            })
            .collect();
        let begin = Instant::now();
        for (name, object) in &objects {
            put(&mut index, name, object, &mut out);
        }
        built += begin.elapsed();
    }
    let begin = Instant::now();
    for kind in [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant] {
        index.apply(IndexEvent::Synced(Synced::Kind(kind)), &mut out);
    }
    for number in 0..STRATEGIES {
        let resource = &resource(number);
        let synced = Synced::Origins { group: GROUP, resource, version: "v1" };
        index.apply(IndexEvent::Synced(synced), &mut out);
    }
    let view: Arc<CapabilityView> = index.publish();
    drop(view);
    built += begin.elapsed();
    Ok((index, built))
}

/// An origin: its resource, namespace and name, and what it says.
pub(super) fn put(index: &mut Index, name: &[String; 3], object: &Value, out: &mut Outputs) {
    let [resource, namespace, name] = name;
    let name = OriginName { group: GROUP, resource, namespace, name };
    index.apply(IndexEvent::PutOrigin(Origin { name, version: "v1", object }), out);
}

pub(super) fn web(number: usize) -> String {
    format!("web-{number:07}")
}

pub(super) fn user(number: usize) -> String {
    format!("system:serviceaccount:system-{0}:gateway-{0}", number % CONSUMERS)
}

pub(super) fn place(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

pub(super) fn secret(number: usize) -> String {
    format!("tls-{number:07}")
}

pub(super) fn four(number: usize) -> [String; 4] {
    [0, 1, 2, 3].map(|n| format!("four-{number}-{n}"))
}

pub(super) fn resource(number: usize) -> String {
    format!("gateways{}", number % STRATEGIES)
}

pub(super) fn gateway(secrets: &[String]) -> Value {
    let listeners: Vec<Value> = secrets
        .iter()
        .map(|name| {
            let reference = json!({ "group": "", "kind": "Secret", "name": name });
            json!({ "name": "https", "port": 443, "tls": { "certificateRefs": [reference] } })
        })
        .collect();
    json!({ "spec": { "gatewayClassName": "one", "listeners": listeners } })
}

fn served() -> Vec<ServedType> {
    let row = |group: &str, resource: &str, kind: &str| ServedType {
        resource: Resource::new(group, resource),
        kind: kind.into(),
        namespaced: true,
        versions: vec!["v1".into()],
    };
    let origins = (0..STRATEGIES).map(|number| row(GROUP, &resource(number), "Gateway"));
    origins.chain([row("", "secrets", "Secret")]).collect()
}

fn triple(number: usize) -> Triple {
    Triple {
        origin: Resource::new(GROUP, &resource(number)),
        target: Resource::new("", "secrets"),
        purpose: "tls-serving".into(),
    }
}

pub(super) fn strategy(number: usize) -> Result<Strategy> {
    let path = "$.spec.listeners[*].tls.certificateRefs[?(@.group=='' && @.kind=='Secret')].name";
    let Triple { origin, target, purpose } = triple(number);
    let reference = ReferencePath {
        finder: Finder::Path(JsonPath::parse(path)?),
        target,
        purpose,
        namespace_path: None,
        allow_cluster_scoped: false,
    };
    let version = VersionPaths {
        version: "v1".into(),
        class_path: Some(JsonPath::parse(".spec.gatewayClassName")?),
        references: vec![reference],
    };
    Ok(Strategy { name: format!("strategy-{number}"), origin, versions: vec![version] })
}

pub(super) fn consumer(number: usize) -> Consumer {
    let (namespace, name) = (format!("system-{number}"), format!("gateway-{number}"));
    Consumer {
        name: format!("consumer-{number}"),
        subject: Subject::ServiceAccount { namespace, name },
        class_names: vec!["one".into()],
        class_selector: None,
        references: vec![triple(number)],
    }
}

pub(super) fn grant(number: usize, names: usize) -> Grant {
    let Triple { origin, target, purpose } = triple(number);
    Grant {
        namespace: place(number / 5),
        name: format!("grant-{number}"),
        origin,
        origin_namespace: place(number + 1),
        namespace_selector: None,
        target,
        names: (0..names).map(|n| format!("shared-{n}")).collect(),
        purpose,
    }
}
