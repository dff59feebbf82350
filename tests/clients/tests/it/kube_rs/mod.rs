//! kube-rs: typed, dynamic and metadata-only clients, watchers, discovery, custom kinds, server-side
//! apply, a controller, and service accounts.

mod applying;
pub(crate) mod boats;
mod controller;
mod discovery;
mod objects;
mod referenced;
mod rights;
mod watching;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Client, Config};
use serde_json::json;
use tenure_client_tests::Server;

/// A namespace on a fresh server; the server lives as long as this.
struct World {
    client: Client,
    _server: Server,
}

impl World {
    async fn start() -> World {
        let server = Server::ephemeral().unwrap();
        let file = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let namespace = Namespace { metadata: named("shop"), ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        World { client, _server: server }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "shop")
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "shop")
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let data = Some([("k".to_owned(), value.to_owned())].into());
    ConfigMap { metadata: named(name), data, ..ConfigMap::default() }
}

fn value(config_map: &ConfigMap) -> &str {
    &config_map.data.as_ref().unwrap()["k"]
}

fn deployment(name: &str) -> Deployment {
    let object = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    });
    serde_json::from_value(object).unwrap()
}

/// The status code of a refusal.
fn code<T>(result: kube::Result<T>) -> u16 {
    refusal(result).code
}

/// What the server says when it refuses.
fn refusal<T>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        Err(other) => panic!("no answer of the server: {other:?}"),
        Ok(_) => panic!("the server agreed"),
    }
}
