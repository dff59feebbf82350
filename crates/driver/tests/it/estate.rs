//! A server with its engines, and short ways to build and end ownership. No test lives here.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_driver::{Controllers, Driver, Engines};
use tenure_server::engine_api::EngineApi;
use tenure_server::internal_writer::InternalWriter;
use tokio::sync::watch;

use crate::house::*;

/// Far longer than any cascade of these tests.
const PATIENCE: Duration = Duration::from_secs(20);

/// Engines that run on a thread of their own until they are stopped or dropped.
pub struct Running {
    pub engines: Arc<Engines>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts these controllers, as `--controllers` names them, behind a server.
    pub fn start(house: &House, controllers: &[&str]) -> Running {
        let words: Vec<String> = controllers.iter().map(|&word| word.to_owned()).collect();
        Running::with(house, Controllers::named(&words).unwrap())
    }

    /// Starts controllers behind a server.
    pub fn with(house: &House, controllers: Controllers) -> Running {
        let writer = InternalWriter::new(Arc::clone(&house.api));
        let (driver, engines) = Driver::new(writer, 1, controllers);
        let (stop, stopping) = watch::channel(false);
        let thread = std::thread::spawn(move || driver.run(stopping).unwrap());
        Running { engines, stop, thread: Some(thread) }
    }

    /// Waits until nothing is left to do.
    pub async fn settle(&self, house: &House) {
        let settled = self.engines.settle(house.revision());
        let settled = tokio::time::timeout(PATIENCE, settled).await;
        settled.expect("the engines never settle").expect("the engines work");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server with a collector and every controller.
pub struct Estate {
    pub house: House,
    pub running: Running,
}

impl Estate {
    pub async fn new() -> Estate {
        Estate::around(House::collecting().await).await
    }

    /// The same around another server.
    pub async fn around(house: House) -> Estate {
        Estate::run_by(house, Controllers::named(&["*".to_owned()]).unwrap()).await
    }

    /// The same with other controllers.
    pub async fn run_by(house: House, controllers: Controllers) -> Estate {
        let running = Running::with(&house, controllers);
        house.api.put_engines(running.engines.clone());
        let estate = Estate { house, running };
        estate.settle().await;
        estate
    }

    pub async fn settle(&self) {
        self.running.settle(&self.house).await;
    }

    /// The names that are left of a collection, without what the server makes itself.
    pub async fn left(&self, collection: &str) -> Vec<String> {
        let list = self.house.get(collection).await.with(200);
        let names = names(&list).into_iter().filter(|name| *name != "kube-root-ca.crt");
        names.map(str::to_owned).collect()
    }

    /// Makes a ConfigMap in a namespace with these owners.
    pub async fn map_in(&self, namespace: &str, name: &str, owners: &[Value]) -> Value {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.house.made(&path, owned(name, owners)).await
    }

    /// Makes a ConfigMap in `default` with these owners.
    pub async fn map(&self, name: &str, owners: &[Value]) -> Value {
        self.map_in("default", name, owners).await
    }

    /// Makes one that nothing but its finalizer keeps.
    pub async fn stuck(&self, name: &str, owners: &[Value]) -> Value {
        let mut body = owned(name, owners);
        body["metadata"]["finalizers"] = json!(["example.com/hold"]);
        self.house.made(CONFIG_MAPS, body).await
    }

    /// Takes the last finalizer of a ConfigMap.
    pub async fn free(&self, name: &str) {
        let none = json!({ "metadata": { "finalizers": null } });
        self.house.merge(&format!("{CONFIG_MAPS}/{name}"), none).await.with(200);
    }

    /// Deletes a ConfigMap with a policy.
    pub async fn end(&self, name: &str, policy: &str) -> Value {
        let path = format!("{CONFIG_MAPS}/{name}?propagationPolicy={policy}");
        self.house.delete(&path).await.with(200)
    }

    /// Events of the collector: about whom, and the message.
    pub async fn reports(&self) -> Vec<(String, String)> {
        let path = "/api/v1/events?fieldSelector=reason%3DOwnerRefInvalidNamespace";
        let list = self.house.get(path).await.with(200);
        let items = list["items"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        items
            .map(|event| (text(&event["involvedObject"]["name"]), text(&event["message"])))
            .collect()
    }
}

/// A body with owners.
pub fn owned(name: &str, owners: &[Value]) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners } })
}

/// A reference to a ConfigMap.
pub fn to(owner: &Value) -> Value {
    reference(owner, "v1", "ConfigMap")
}

/// A reference that blocks.
pub fn blocking(owner: &Value) -> Value {
    let mut reference = to(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

/// A reference to anything.
pub fn reference(owner: &Value, api_version: &str, kind: &str) -> Value {
    let metadata = &owner["metadata"];
    json!({
        "apiVersion": api_version, "kind": kind,
        "name": metadata["name"], "uid": metadata["uid"],
    })
}

/// A reference to nobody.
pub fn nobody(kind: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "name": "nobody", "uid": "nobody" })
}
