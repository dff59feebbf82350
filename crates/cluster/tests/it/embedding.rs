//! What docs/guide/embedding.md shows, word for word.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tenure_cluster::Cluster;

fn greeting() -> ConfigMap {
    let metadata = ObjectMeta { name: Some("greeting".into()), ..ObjectMeta::default() };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn web() -> Deployment {
    let pod = json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": "example.test/web:1" }] },
    });
    let spec = json!({
        "replicas": 2,
        "selector": { "matchLabels": { "app": "web" } },
        "template": pod,
    });
    serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
}

#[test]
fn without_async() {
    let cluster = Cluster::start_blocking().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.block_on(async {
        maps.create(&PostParams::default(), &greeting()).await.unwrap();
    });
}

#[tokio::test]
async fn with_controllers_and_imagined_pods() -> anyhow::Result<()> {
    let cluster = Cluster::builder().configure(|config| config.nodes = 1).start().await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    deployments.create(&PostParams::default(), &web()).await?;
    settle(&cluster).await?;

    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 2);
    Ok(())
}

/// Waits until the controllers have nothing left to do.
async fn settle(cluster: &Cluster) -> anyhow::Result<()> {
    let request = http::Request::post("/tenure/settle").body(Vec::new())?;
    cluster.client().request_text(request).await?;
    Ok(())
}

#[tokio::test]
async fn without_controllers() -> anyhow::Result<()> {
    let nobody = |config: &mut tenure_cluster::Config| config.controllers = Vec::new();
    let cluster = Cluster::builder().configure(nobody).start().await?;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    deployments.create(&PostParams::default(), &web()).await?;
    let status = Patch::Merge(json!({ "status": { "readyReplicas": 2, "replicas": 2 } }));
    let shown = deployments.patch_status("web", &PatchParams::default(), &status).await?;
    assert_eq!(shown.status.and_then(|status| status.ready_replicas), Some(2));
    Ok(())
}

#[tokio::test]
async fn with_a_folder() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let first = Cluster::builder().data_dir(folder.path()).start().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(first.client());
    maps.create(&PostParams::default(), &greeting()).await?;
    drop(first);

    let second = Cluster::builder().data_dir(folder.path()).start().await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(second.client());
    assert!(maps.get_opt("greeting").await?.is_some());
    Ok(())
}

#[test]
fn the_page_shows_the_tests_above() {
    let own = include_str!("embedding.rs");
    let page = include_str!("../../../../docs/guide/embedding.md");
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let code = block.split("```").next().unwrap();
        assert!(own.contains(code), "not in embedding.rs:\n{code}");
    }
}
