//! Watches, the watcher in both strategies, and a reflector on top.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, reflector, wait, watcher as watch};
use serde_json::json;

use super::{World, config_map};

const PATIENCE: Duration = Duration::from_secs(20);

async fn next<T: std::fmt::Debug, E: std::fmt::Debug>(
    stream: &mut (impl Stream<Item = Result<T, E>> + Unpin),
) -> T {
    let item = tokio::time::timeout(PATIENCE, stream.next()).await;
    item.expect("an event in time").expect("the stream goes on").expect("no error")
}

/// Creates, changes and deletes `b`.
async fn change(world: &World) {
    let api = world.config_maps();
    api.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
    let patch = json!({"data": {"k": "2"}});
    api.patch("b", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_plain_watch_sees_every_change_in_order() {
    let world = World::start().await;
    let api = world.config_maps();
    let since = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    change(&world).await;
    let mut events = pin!(api.watch(&WatchParams::default(), &since).await.unwrap());
    let mut seen = Vec::new();
    let mut last = since.parse::<u64>().unwrap();
    while seen.len() < 3 {
        let (kind, object) = match next(&mut events).await {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        if object.name_any() != "b" {
            continue;
        }
        let revision = object.resource_version().unwrap().parse::<u64>().unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = revision;
        seen.push(kind);
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout() {
    let world = World::start().await;
    let api = world.config_maps();
    let mut events = pin!(api.watch(&WatchParams::default().timeout(1), "0").await.unwrap());
    let all = tokio::time::timeout(PATIENCE, async { while events.next().await.is_some() {} });
    all.await.expect("the watch ends");
}

async fn strategy(config: watcher::Config) {
    let world = World::start().await;
    let api = world.config_maps();
    for name in ["x", "y", "z"] {
        api.create(&PostParams::default(), &config_map(name, "0")).await.unwrap();
    }
    let config = config.labels("!nothing");
    let mut events = pin!(watch(api.clone(), config).boxed());
    assert!(matches!(next(&mut events).await, Event::Init));
    let mut initial = Vec::new();
    loop {
        match next(&mut events).await {
            Event::InitApply(object) => initial.push(object.name_any()),
            Event::InitDone => break,
            other => panic!("{other:?}"),
        }
    }
    initial.retain(|name| name != "kube-root-ca.crt");
    assert_eq!(initial, ["x", "y", "z"]);
    change(&world).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match next(&mut events).await {
            Event::Apply(object) if object.name_any() == "b" => seen.push("apply"),
            Event::Delete(object) if object.name_any() == "b" => seen.push("delete"),
            Event::Apply(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, ["apply", "apply", "delete"]);
}

#[tokio::test]
async fn the_watcher_lists_and_watches() {
    // Two to a page, so that the list has more than one.
    strategy(watcher::Config::default().page_size(2)).await;
}

#[tokio::test]
async fn the_watcher_streams_its_list() {
    strategy(watcher::Config::default().streaming_lists()).await;
}

#[tokio::test]
async fn the_metadata_watcher_works_in_both_strategies() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let world = World::start().await;
        let api = world.config_maps();
        api.create(&PostParams::default(), &config_map("x", "0")).await.unwrap();
        let config = config.fields("metadata.name=x");
        let metadata: Api<PartialObjectMeta<ConfigMap>> =
            Api::namespaced(world.client.clone(), "shop");
        let mut objects = pin!(watch(metadata, config).boxed().applied_objects());
        assert_eq!(next(&mut objects).await.name_any(), "x");
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        api.patch("x", &PatchParams::default(), &Patch::Merge(&labels)).await.unwrap();
        assert_eq!(next(&mut objects).await.labels()["a"], "b");
    }
}

#[tokio::test]
async fn a_reflector_follows() {
    let world = World::start().await;
    let api = world.config_maps();
    let (store, writer) = reflector::store::<ConfigMap>();
    let config = watcher::Config::default().streaming_lists();
    let stream = reflector(writer, watch(api.clone(), config)).default_backoff();
    let running = tokio::spawn(async move {
        stream.try_for_each(|_| async { Ok(()) }).await.unwrap();
    });
    tokio::time::timeout(PATIENCE, store.wait_until_ready()).await.unwrap().unwrap();
    for number in 0..50 {
        let object = config_map(&format!("m-{number}"), "x");
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let held = || store.state().iter().filter(|object| object.name_any().starts_with("m-")).count();
    tokio::time::timeout(PATIENCE, async {
        while held() != 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the store follows");
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        while held() != 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the store empties");
    running.abort();
}

#[tokio::test]
async fn waiting_for_a_condition() {
    let world = World::start().await;
    let api = world.config_maps();
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let uid = made.uid().unwrap();
    let gone = wait::await_condition(api.clone(), "a", wait::conditions::is_deleted(&uid));
    let (gone, deleted) = tokio::join!(tokio::time::timeout(PATIENCE, gone), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        api.delete("a", &DeleteParams::default()).await
    });
    deleted.unwrap();
    gone.expect("in time").unwrap();
}
