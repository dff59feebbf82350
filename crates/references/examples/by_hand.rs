//! The index without a cluster: what a controller with caches of its own would tell it, and what it answers.
//!
//! `cargo run -p tenure-references --example by_hand`

use serde_json::json;
use tenure_references::{
    Condition, Filter, Obj, RefIndex, RefQuery, Resource, ServedType, Verdict, VerdictUpdate,
};

const GROUP: &str = "gateway.networking.k8s.io";

fn main() -> anyhow::Result<()> {
    let gateways = Resource::new(GROUP, "gateways");
    let row = |resource: &Resource, kind: &str| ServedType {
        resource: resource.clone(),
        kind: kind.to_owned(),
        namespaced: true,
        versions: vec!["v1".to_owned()],
    };
    let mut index = RefIndex::new();
    index.serve(vec![row(&gateways, "Gateway"), row(&Resource::new("", "secrets"), "Secret")]);
    index.put(&json!({
        "kind": "ReferenceStrategy",
        "metadata": { "name": "gateways" },
        "origin": { "group": GROUP, "resource": "gateways" },
        "versions": [{ "version": "v1", "references": [{
            "path": "$.spec.listeners[*].tls.certificateRefs[?(@.group=='' && @.kind=='Secret')].name",
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }]}],
    }))?;
    index.put_origin(
        &gateways,
        &json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "metadata": { "namespace": "prod", "name": "web" },
            "spec": { "listeners": [{ "tls": { "certificateRefs": [
                { "group": "", "kind": "Secret", "name": "acme-tls", "namespace": "prod-tls" },
            ]}}]},
        }),
    );
    index.mark_all_synced();
    let mut changes = index.watch(Filter::default());

    let query = RefQuery {
        origin: Obj { group: GROUP, resource: "gateways", namespace: "prod", name: "web" },
        target: Obj { group: "", resource: "secrets", namespace: "prod-tls", name: "acme-tls" },
        purpose: "tls-serving",
        class: None,
        subject: None,
    };
    let condition = Condition::of(&query, &index.check(&query));
    println!("{}: {}", condition.reason, condition.message);
    anyhow::ensure!(condition.reason == "RefNotPermitted", "nothing is granted yet");

    index.put(&json!({
        "kind": "ReferenceGrant",
        "metadata": { "namespace": "prod-tls", "name": "prod-gateways" },
        "origin": { "group": GROUP, "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["acme-tls"] },
        "purpose": "tls-serving",
    }))?;
    if let Verdict::Granted { strategy, grants } = index.check(&query) {
        println!("allowed by strategy {strategy} and {grants:?}");
    }
    let told = changes.try_recv()?;
    anyhow::ensure!(matches!(told, VerdictUpdate::BecameAllowed(_)), "the grant was told");
    println!("became allowed: {}", told.reference());
    Ok(())
}
