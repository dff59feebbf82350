//! What the README shows, word for word.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use tenure_cluster::Cluster;

#[tokio::test]
async fn alice_may_not_write_before_somebody_says_so() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let mut map = ConfigMap::default();
    map.metadata.name = Some("greeting".into());

    let admin: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    admin.create(&PostParams::default(), &map).await?;

    let alice: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("alice", &["dev"]));
    assert!(alice.get("greeting").await.is_err());
    Ok(())
}

#[test]
fn the_readme_shows_the_test_above() {
    let own = include_str!("readme.rs");
    let begin = own.find("use k8s_openapi").unwrap();
    let end = own.find("\n#[test]").unwrap();
    let readme = include_str!("../../../../README.md");
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown.trim(), own[begin..end].trim());
}
