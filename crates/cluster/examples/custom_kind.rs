//! A kind of your own: defined with kube's derive, applied, watched; a bad object is refused.
//!
//! `cargo run -p tenure-cluster --example custom_kind`

use std::pin::pin;

use futures::TryStreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenure_cluster::Cluster;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Garden", namespaced)]
struct GardenSpec {
    #[schemars(range(min = 1))]
    beds: u32,
    #[serde(default = "fallow")]
    crop: String,
}

fn fallow() -> String {
    "fallow".to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let client = cluster.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Garden::crd()).await?;

    // The kind can be used in the moment its definition is answered; nothing needs to be waited for.
    let gardens: Api<Garden> = Api::default_namespaced(client);
    let apply = PatchParams::apply("example");
    let object = |beds: u32| {
        Patch::Apply(serde_json::json!({
            "apiVersion": "example.com/v1",
            "kind": "Garden",
            "metadata": { "name": "kitchen" },
            "spec": { "beds": beds },
        }))
    };
    let made = gardens.patch("kitchen", &apply, &object(2)).await?;
    anyhow::ensure!(made.spec == GardenSpec { beds: 2, crop: fallow() }, "the default is there");

    match gardens.patch("kitchen", &apply, &object(0)).await {
        Err(kube::Error::Api(status)) if status.code == 422 => println!("{}", status.message),
        other => anyhow::bail!("no bed is too few: {other:?}"),
    }

    let mut events = pin!(watcher(gardens.clone(), watcher::Config::default()));
    while let Some(event) = events.try_next().await? {
        match event {
            Event::InitDone => {
                gardens.patch("kitchen", &apply, &object(3)).await?;
            }
            Event::Apply(garden) => {
                println!("now {} beds of {}", garden.spec.beds, garden.spec.crop);
                anyhow::ensure!(garden.spec.beds == 3, "the change is seen");
                return Ok(());
            }
            _ => {}
        }
    }
    anyhow::bail!("the watch ended")
}
