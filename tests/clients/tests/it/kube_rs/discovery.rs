//! What there is: both forms of discovery, one kind at a time, and the server's version.

use kube::core::GroupVersionKind;
use kube::discovery::{self, Discovery, Scope, verbs};

use super::World;

#[tokio::test]
async fn both_forms_agree() {
    let world = World::start().await;
    let plain = Discovery::new(world.client.clone()).run().await.unwrap();
    let whole = Discovery::new(world.client.clone()).run_aggregated().await.unwrap();
    let names = |found: &Discovery| {
        let mut names = Vec::new();
        for group in found.groups_alphabetical() {
            for (resource, _) in group.recommended_resources() {
                names.push(format!("{}/{}", resource.api_version, resource.plural));
            }
        }
        names.sort();
        names
    };
    assert_eq!(names(&plain), names(&whole));
    assert!(names(&plain).contains(&"apps/v1/deployments".to_owned()));
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, capabilities) = whole.resolve_gvk(&kind).unwrap();
    assert_eq!(resource.plural, "deployments");
    assert!(
        capabilities.supports_operation(verbs::WATCH) && capabilities.scope == Scope::Namespaced
    );
}

#[tokio::test]
async fn one_kind_at_a_time() {
    let world = World::start().await;
    let kind = GroupVersionKind::gvk("", "v1", "Namespace");
    let (resource, capabilities) = discovery::pinned_kind(&world.client, &kind).await.unwrap();
    assert_eq!((resource.plural.as_str(), capabilities.scope), ("namespaces", Scope::Cluster));
    let group = discovery::group(&world.client, "batch").await.unwrap();
    assert!(group.recommended_kind("Job").is_some());
    let absent = GroupVersionKind::gvk("apps", "v1", "Nothing");
    assert!(discovery::pinned_kind(&world.client, &absent).await.is_err());
}

#[tokio::test]
async fn the_version_is_told() {
    let world = World::start().await;
    let version = world.client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    assert!(version.minor.trim_end_matches('+').parse::<u32>().unwrap() >= 32, "{version:?}");
}
