//! Rules of spec/api-server.md: what other servers store goes with its namespace and with its owners (R131h),
//! over TLS as it is for users.

use std::sync::{Arc, Mutex};

use http::{Method, Response};
use serde_json::{Value, json};
use tenure_driver::{Controllers, Driver};
use tenure_https::StreamedBody;
use tenure_server::internal_writer::InternalWriter;
use tokio::sync::watch;

use crate::aggregation::{Asked, Backend, resources, settings, text};
use crate::house::*;

type Fishes = Arc<Mutex<Vec<Value>>>;

const V1: &str = "/apis/fish.example/v1";

fn fish(namespace: &str, name: &str, owners: Value) -> Value {
    json!({"apiVersion": "fish.example/v1", "kind": "Fish", "metadata": {
        "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "ownerReferences": owners}})
}

/// A server of fishes, with these.
async fn pond(fishes: &Fishes) -> Backend {
    let kept = Arc::clone(fishes);
    Backend::start(settings(), move |asked| {
        let answer = answer(&mut kept.lock().unwrap(), &asked);
        async move { answer }
    })
    .await
}

fn answer(fishes: &mut Vec<Value>, asked: &Asked) -> Response<StreamedBody> {
    let path = asked.uri.split('?').next().unwrap_or_default();
    if path == V1 {
        return text(200, resources().to_string());
    }
    let at = |fish: &Value| {
        let text = |member: &str| fish["metadata"][member].as_str().unwrap().to_owned();
        format!("{V1}/namespaces/{}/fishes/{}", text("namespace"), text("name"))
    };
    let list =
        |items: Vec<&Value>| text(200, json!({"kind": "FishList", "items": items}).to_string());
    let collection = path.strip_suffix("/fishes");
    if let Some(within) = collection {
        let inside = |fish: &&Value| at(fish).starts_with(&format!("{within}/"));
        return list(fishes.iter().filter(inside).collect());
    }
    let Some(found) = fishes.iter().position(|fish| at(fish) == path) else {
        return text(404, json!({"kind": "Status", "code": 404, "reason": "NotFound"}).to_string());
    };
    if asked.method == Method::DELETE {
        let options: Value = serde_json::from_slice(&asked.body).unwrap();
        assert_eq!(options["preconditions"]["uid"], fishes[found]["metadata"]["uid"]);
        assert_eq!(options["propagationPolicy"], "Background");
        return text(200, fishes.remove(found).to_string());
    }
    text(200, fishes[found].to_string())
}

#[tokio::test]
async fn r131h_a_namespace_takes_with_it_what_other_servers_store_in_it() {
    let house = House::new().await;
    let none = json!([]);
    let fishes: Fishes = Arc::new(Mutex::new(vec![
        fish("sea", "cod", none.clone()),
        fish("sea", "eel", none.clone()),
        fish("lake", "pike", none),
    ]));
    let backend = pond(&fishes).await;
    backend.serve(&house).await;
    house.made(NAMESPACES, named("sea")).await;
    house.delete(&format!("{NAMESPACES}/sea")).await.with(200);
    house.until(&format!("{NAMESPACES}/sea"), 404).await;
    let left: Vec<String> =
        fishes.lock().unwrap().iter().map(|fish| name(fish).to_owned()).collect();
    assert_eq!(left, ["pike"], "those of other namespaces stay");
    let deletions = backend.asked().into_iter().filter(|asked| asked.method == Method::DELETE);
    for asked in deletions {
        let who = asked.headers.get("x-remote-user").unwrap();
        assert_eq!(who, "system:serviceaccount:kube-system:namespace-controller");
    }
}

#[tokio::test]
async fn r131h_owners_and_dependents_of_different_servers_are_collected() {
    let house = House::new().await;
    let map = house.config_map("owner").await;
    let by_map = |uid: &Value| json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let fishes: Fishes = Arc::new(Mutex::new(vec![
        fish("default", "kept", by_map(&map["metadata"]["uid"])),
        fish("default", "lost", by_map(&json!("another"))),
    ]));
    let by_fish = |name: &str| json!({"apiVersion": "fish.example/v1", "kind": "Fish", "name": name, "uid": format!("uid-{name}")});
    for (name, owner) in [("of-kept", "kept"), ("of-gone", "gone")] {
        let mut body = named(name);
        body["metadata"]["ownerReferences"] = json!([by_fish(owner)]);
        house.made(CONFIG_MAPS, body).await;
    }
    let backend = pond(&fishes).await;
    backend.serve(&house).await;
    let controllers = Controllers::named(&["aggregatedgarbagecollector".to_owned()]).unwrap();
    let (driver, _) = Driver::new(InternalWriter::new(Arc::clone(&house.api)), 1, controllers);
    let (stop, stopping) = watch::channel(false);
    let thread = std::thread::spawn(move || driver.run(stopping).unwrap());
    house.until(&format!("{CONFIG_MAPS}/of-gone"), 404).await;
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    while fishes.lock().unwrap().len() > 1 {
        assert!(tokio::time::Instant::now() < end, "the fish without an owner stays");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(name(&fishes.lock().unwrap()[0]), "kept");
    house.get(&format!("{CONFIG_MAPS}/of-kept")).await.with(200);
    stop.send(true).unwrap();
    tokio::task::spawn_blocking(move || thread.join().unwrap()).await.unwrap();
}
