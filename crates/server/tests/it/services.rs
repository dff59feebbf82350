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

const NETWORKS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// The address that a new Service got; the code where it got none.
async fn address(house: &House, name: &str, asked: Option<&str>) -> Result<String, u16> {
    let mut spec = json!({ "ports": [{ "port": 80 }] });
    if let Some(asked) = asked {
        spec["clusterIP"] = asked.into();
    }
    let answer = house.post(SERVICES, json!({ "metadata": { "name": name }, "spec": spec })).await;
    match answer.code {
        201 => Ok(answer.with(201)["spec"]["clusterIP"].as_str().unwrap().to_owned()),
        code => Err(code),
    }
}

#[tokio::test]
async fn r79a_addresses_come_from_every_network_that_is_ready() {
    let house = House::new().await;
    assert_eq!(address(&house, "early", Some("203.0.113.5")).await, Err(422), "no such network");
    let network =
        json!({ "metadata": { "name": "more" }, "spec": { "cidrs": ["203.0.113.0/29"] } });
    house.made(NETWORKS, network).await;
    let ready = |object: &Value| object["status"]["conditions"][0]["status"] == "True";
    house.until_looks(&format!("{NETWORKS}/more"), ready).await;
    assert_eq!(address(&house, "five", Some("203.0.113.5")).await, Ok("203.0.113.5".to_owned()));
    assert_eq!(address(&house, "again", Some("203.0.113.5")).await, Err(422), "it is taken");
    for end in ["203.0.113.0", "203.0.113.7", "203.0.113.8"] {
        assert_eq!(address(&house, "end", Some(end)).await, Err(422), "{end}");
    }
    let object = house.get(&format!("{ADDRESSES}/203.0.113.5")).await.with(200);
    let parent = json!({ "resource": "services", "namespace": "default", "name": "five" });
    assert_eq!(object["spec"]["parentRef"], parent);
    // While the first network has room, what nobody asks for comes from there.
    assert!(address(&house, "first", None).await.unwrap().starts_with("10."));
    // What is being deleted gives nothing any more, though it holds addresses and so stays.
    house.delete(&format!("{NETWORKS}/kubernetes")).await.with(200);
    let mut given = Vec::new();
    for at in 0..5 {
        given.push(address(&house, &format!("more-{at}"), None).await.unwrap());
    }
    given.sort();
    let rest = ["1", "2", "3", "4", "6"].map(|last| format!("203.0.113.{last}"));
    assert_eq!(given, rest);
    assert_eq!(address(&house, "full", None).await, Err(500));
    house.delete(&format!("{SERVICES}/more-0")).await.with(200);
    house.delete(&format!("{NETWORKS}/more")).await.with(200);
    assert_eq!(address(&house, "late", None).await, Err(500));
}

#[tokio::test]
async fn r255_a_network_of_services_is_acted_on_but_for_ipv6() {
    let house = House::new().await;
    for (name, networks, warned) in [
        ("four", json!(["203.0.113.0/24"]), 0),
        ("both", json!(["198.51.100.0/24", "2001:db8::/64"]), 1),
    ] {
        let body = json!({ "metadata": { "name": name }, "spec": { "cidrs": networks } });
        let answer = house.post(NETWORKS, body).await;
        assert_eq!(answer.headers.get_all("warning").iter().count(), warned, "{name}");
    }
}
