//! Start and end: isolation, folders, addresses, and what is left afterwards.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams};
use tenure_cluster::{Cluster, Durability, StartError};

pub(crate) fn config_map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

fn maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::default_namespaced(cluster.client())
}

#[tokio::test]
async fn a_cluster_serves_a_test_with_one_thread() {
    let cluster = Cluster::start().await.unwrap();
    maps(&cluster).create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(maps(&cluster).get_opt("a").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_serves_a_test_with_several_threads() {
    let cluster = Cluster::start().await.unwrap();
    let maps = maps(&cluster);
    let create = |number: usize| {
        let maps = maps.clone();
        let name = format!("m-{number}");
        tokio::spawn(async move { maps.create(&PostParams::default(), &config_map(&name)).await })
    };
    for created in try_join_all((0..20).map(create)).await.unwrap() {
        created.unwrap();
    }
    // The namespace has one more, which every namespace has.
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 21);
}

#[tokio::test]
async fn clusters_share_nothing() {
    let clusters = try_join_all((0..8).map(|_| Cluster::start())).await.unwrap();
    for (number, cluster) in clusters.iter().enumerate() {
        let name = format!("only-{number}");
        maps(cluster).create(&PostParams::default(), &config_map(&name)).await.unwrap();
    }
    for (number, cluster) in clusters.iter().enumerate() {
        let found = maps(cluster).list(&ListParams::default()).await.unwrap();
        let found = found.items.iter().filter_map(|map| map.metadata.name.as_deref());
        let found: Vec<&str> = found.filter(|name| name.starts_with("only")).collect();
        assert_eq!(found, [format!("only-{number}")]);
    }
    let different = |of: fn(&Cluster) -> String| {
        clusters.iter().map(of).collect::<BTreeSet<_>>().len() == clusters.len()
    };
    assert!(different(|cluster| cluster.url().to_owned()));
    assert!(different(|cluster| cluster.authority_pem().to_owned()));
    assert!(different(|cluster| cluster.kubeconfig_file().display().to_string()));
}

#[tokio::test]
async fn one_cluster_does_not_trust_the_users_of_another() {
    let (one, other) = (Cluster::start().await.unwrap(), Cluster::start().await.unwrap());
    let mut config = one.config();
    config.auth_info = other.config().auth_info;
    let stranger: Api<Namespace> = Api::all(kube::Client::try_from(config).unwrap());
    let refused = stranger.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused:?}") };
    assert_eq!(status.code, 401);
}

#[tokio::test]
async fn a_drop_is_quick_even_with_a_client_that_holds_on() {
    let cluster = Cluster::start().await.unwrap();
    let (maps, address) = (maps(&cluster), cluster.address());
    let file = cluster.kubeconfig_file().to_owned();
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let _open = maps.watch(&kube::api::WatchParams::default(), "0").await.unwrap();
    assert!(file.exists());
    let begin = Instant::now();
    drop(cluster);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(!file.exists() && !file.parent().unwrap().exists());
    // The port is free again.
    drop(tokio::net::TcpListener::bind(address).await.unwrap());
}

#[tokio::test]
async fn a_folder_keeps_objects_from_one_cluster_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let start = || Cluster::builder().data_dir(folder.path().join("data")).start();
    let cluster = start().await.unwrap();
    maps(&cluster).create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let taken = start().await.unwrap_err();
    let taken_by =
        matches!(taken, StartError::ControlPlane(tenure_host::HostStartError::FolderLocked { .. }));
    assert!(taken_by, "{taken:?}");
    drop(cluster);
    let cluster = start().await.unwrap();
    assert!(maps(&cluster).get_opt("kept").await.unwrap().is_some());
}

#[tokio::test]
async fn settings_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let cluster = Cluster::builder()
        .listen(([127, 0, 0, 1], 0).into())
        .kubeconfig(&file)
        .configure(|config| config.durability = Durability::Relaxed)
        .start()
        .await
        .unwrap();
    assert_eq!(cluster.kubeconfig_file(), file);
    let taken = Cluster::builder().listen(cluster.address()).start().await.unwrap_err();
    assert!(taken.to_string().contains("the port is taken"), "{taken}");
}
