//! Start a control plane, create an object, read it back.
//!
//! `cargo run -p tenure-cluster --example start`

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use tenure_cluster::Cluster;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    println!("ready at {} after {:?}", cluster.url(), cluster.ready_after());

    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let greeting = ConfigMap {
        metadata: ObjectMeta { name: Some("greeting".into()), ..ObjectMeta::default() },
        data: Some([("text".to_owned(), "hello".to_owned())].into()),
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &greeting).await?;

    let read = maps.get("greeting").await?;
    anyhow::ensure!(read.data == greeting.data, "what was written is read");
    for map in maps.list(&ListParams::default()).await? {
        println!("ConfigMap {}", map.metadata.name.unwrap_or_default());
    }
    Ok(())
}
