//! Plain tests without a runtime of their own.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use tenure_cluster::Cluster;

use crate::life::config_map;

#[test]
fn a_plain_test_needs_no_runtime() {
    let cluster = Cluster::start_blocking().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    cluster.block_on(async {
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
        assert!(maps.get_opt("a").await.unwrap().is_some());
    });
}

#[test]
fn a_runtime_of_ones_own_works_as_well() {
    let cluster = Cluster::start_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    runtime.block_on(async {
        maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    });
}

/// Waiting inside async code is poor manners, but it must not panic.
#[tokio::test]
async fn a_blocking_start_inside_async_code_works() {
    let cluster = Cluster::start_blocking().unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert!(maps.get_opt("a").await.unwrap().is_none());
}
