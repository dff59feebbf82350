//! Rules of spec/api-server.md: addresses and node ports of Services, taken and given back.

use serde_json::{Value, json};

use crate::house::*;

fn s() -> String {
    format!("{SERVICES}/s")
}

fn service(spec: Value) -> Value {
    json!({ "metadata": { "name": "s" }, "spec": spec })
}

/// How many node ports and addresses are taken, without the one of the `kubernetes` Service.
fn taken(house: &House) -> (usize, usize) {
    let state = house.world.current();
    let addresses = state.range("/registry/ipaddresses/", None).count();
    (state.range("/registry/ranges/", None).count(), addresses - 1)
}

#[tokio::test]
async fn r136_a_change_of_type_takes_and_gives_back() {
    let house = House::new().await;
    let ports = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }]);
    let made = house.made(SERVICES, service(json!({ "ports": ports }))).await;
    assert_eq!(taken(&house), (0, 1));
    for (patch, after) in [
        (json!({ "type": "NodePort" }), (2, 1)),
        (json!({ "type": "NodePort" }), (2, 1)),
        (json!({ "ports": [{ "name": "a", "port": 80 }] }), (1, 1)),
        (json!({ "ports": [{ "name": "a", "port": 80, "nodePort": 30123 }] }), (1, 1)),
        (json!({ "type": "LoadBalancer" }), (1, 1)),
        (json!({ "type": "ClusterIP" }), (0, 1)),
        (json!({ "type": "ExternalName", "externalName": "example.com" }), (0, 0)),
        (json!({ "type": "NodePort", "externalName": null }), (1, 1)),
    ] {
        house.merge(&s(), json!({ "spec": patch })).await.with(200);
        assert_eq!(taken(&house), after, "{patch}");
    }
    assert!(made["spec"]["clusterIP"].is_string());
    house.delete(&s()).await.with(200);
    assert_eq!(taken(&house), (0, 0));
}

#[tokio::test]
async fn r136_protocols_share_a_node_port() {
    let house = House::new().await;
    let spec = json!({ "type": "NodePort", "ports": [
        { "name": "a", "port": 53, "protocol": "TCP", "nodePort": 30053 },
        { "name": "b", "port": 53, "protocol": "UDP", "nodePort": 30053 },
    ] });
    for _ in 0..2 {
        house.made(SERVICES, service(spec.clone())).await;
        assert_eq!(taken(&house), (1, 1));
        house.merge(&s(), json!({ "spec": { "type": "ClusterIP" } })).await.with(200);
        assert_eq!(taken(&house), (0, 1));
        house.delete(&s()).await.with(200);
    }
    assert_eq!(taken(&house), (0, 0));
}

#[tokio::test]
async fn r136_what_cannot_be_had_is_refused_and_nothing_is_taken() {
    let house = House::new().await;
    let port =
        |port: Value| json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] });
    for spec in [
        json!({ "clusterIP": "10.96.0.1", "ports": [{ "port": 80 }] }),
        json!({ "clusterIP": "192.0.2.1", "ports": [{ "port": 80 }] }),
        json!({ "clusterIP": "10.96.0.0", "ports": [{ "port": 80 }] }),
        json!({ "clusterIP": "fd00::1", "ports": [{ "port": 80 }] }),
        json!({ "clusterIP": "x", "ports": [{ "port": 80 }] }),
        json!({ "clusterIP": "../../namespaces/default", "ports": [{ "port": 80 }] }),
        port(json!(80)),
        port(json!(-1)),
        port(json!(65536)),
        port(json!(i32::MAX)),
        json!({ "type": "NodePort", "ports": [
            { "name": "a", "port": 80, "nodePort": 30080 }, { "name": "b", "port": 81, "nodePort": 30080 },
        ] }),
    ] {
        house.post(SERVICES, service(spec.clone())).await.fails(422, "Invalid");
        assert_eq!(taken(&house), (0, 0), "{spec}");
    }
    house.made(SERVICES, service(json!({ "ports": [{ "port": 80 }] }))).await;
    house.merge(&s(), json!({ "spec": { "clusterIP": "10.96.0.9" } })).await.fails(422, "Invalid");
    assert_eq!(taken(&house), (0, 1));
}

#[tokio::test]
async fn r73_a_service_that_goes_by_its_last_finalizer_gives_everything_back() {
    let house = House::new().await;
    let mut body = service(json!({ "ports": [{ "port": 80 }] }));
    body["metadata"]["finalizers"] = json!(["a/b"]);
    house.made(SERVICES, body).await;
    house.delete(&s()).await.with(200);
    // The write that lets it go also asks for ports: they must not stay behind.
    let last = json!({ "metadata": { "finalizers": null }, "spec": { "type": "NodePort" } });
    house.merge(&s(), last).await.with(200);
    house.get(&s()).await.fails(404, "NotFound");
    assert_eq!(taken(&house), (0, 0));
}
