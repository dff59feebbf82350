//! A controller with a finalizer: what it made outlives no object, and the test waits for facts
//! instead of sleeping.
//!
//! `cargo run -p tenure-cluster --example controller`

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tenure_cluster::Cluster;

const FINALIZER: &str = "example.com/mirror";
const PATIENCE: Duration = Duration::from_secs(20);

type Error = kube::runtime::finalizer::Error<kube::Error>;

/// Every ConfigMap with the label gets a Secret of its name.
async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced((*client).clone());
    let secrets: Api<Secret> = Api::default_namespaced((*client).clone());
    finalizer(&maps, FINALIZER, map, |event| async {
        match event {
            Event::Apply(map) => {
                let name = map.name_any();
                let secret = json!({
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": { "name": name },
                    "stringData": map.data,
                });
                let apply = PatchParams::apply("mirror").force();
                secrets.patch(&name, &apply, &Patch::Apply(secret)).await?;
            }
            Event::Cleanup(map) => {
                secrets.delete(&map.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

fn retry(_: Arc<ConfigMap>, _: &Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(50))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let labelled = watcher::Config::default().labels("mirror=yes");
    let controller = Controller::new(maps.clone(), labelled)
        .run(reconcile, retry, Arc::new(client.clone()))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);

    let metadata = ObjectMeta {
        name: Some("greeting".into()),
        labels: Some([("mirror".to_owned(), "yes".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let data = Some([("text".to_owned(), "hello".to_owned())].into());
    let map = ConfigMap { metadata, data, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await?;
    let exists = |secret: Option<&Secret>| secret.is_some();
    let made = await_condition(secrets.clone(), "greeting", exists);
    let made = tokio::time::timeout(PATIENCE, made).await??;
    let uid = made.and_then(|secret| secret.uid()).unwrap_or_default();
    println!("the controller made the Secret `greeting`");

    maps.delete("greeting", &DeleteParams::default()).await?;
    let gone = await_condition(secrets, "greeting", conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await??;
    println!("the Secret went with its ConfigMap");
    controller.abort();
    Ok(())
}
