//! Followers that cannot keep up: what the log no longer keeps is read from the state instead.

use std::pin::pin;
use std::sync::Arc;

use serde_json::json;
use tenure_driver::{Controllers, Driver, Engines};
use tenure_server::engine_api::EngineApi;
use tenure_server::internal_writer::InternalWriter;
use tenure_world::Interest;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::estate::*;
use crate::house::*;

/// Room for the quiet life of an empty server, and far from enough for what the test writes.
const HISTORY_BYTES: u64 = 256 * 1024;

/// Lets the engines run until they have nothing to do; whoever ends meanwhile has given up.
async fn settled(
    house: &House,
    engines: &Engines,
    following: &mut (impl Future<Output = ()> + Unpin),
) {
    let patience = std::time::Duration::from_secs(20);
    tokio::select! {
        () = following => panic!("the followers ended"),
        settled = tokio::time::timeout(patience, engines.settle(house.revision())) => {
            settled.expect("the engines never settle").expect("the engines work");
        }
    }
}

/// Writes more than the log keeps.
async fn flood(house: &House) {
    let path = format!("{CONFIG_MAPS}/large");
    for number in 0..100 {
        let data = json!({ "data": { "n": format!("{number}{}", "x".repeat(16 * 1024)) } });
        house.merge(&path, data).await.with(200);
    }
}

#[tokio::test]
async fn followers_that_fell_behind_the_log_begin_anew() {
    let test = async {
        let house = House::followed(None, HISTORY_BYTES).await;
        let writer = InternalWriter::new(Arc::clone(&house.api));
        let controllers = Controllers::named(&["*".to_owned()]).unwrap();
        let (driver, engines) = Driver::new(writer, 1, controllers);
        let (_stop, stopping) = watch::channel(false);
        let mut following = pin!(driver.follow(stopping));
        for name in ["owner", "large"] {
            house.made(CONFIG_MAPS, named(name)).await;
        }
        let owner = house.get(&format!("{CONFIG_MAPS}/owner")).await.with(200);
        let early = house.made(CONFIG_MAPS, owned("early", &[to(&owner)])).await;
        settled(&house, &engines, &mut following).await;

        // Nobody polls the followers from here on, so they see none of this while it is kept.
        let seen = house.revision();
        let late = [to(&owner), to(&early)];
        house.made(CONFIG_MAPS, owned("late", &late)).await;
        house.delete(&format!("{CONFIG_MAPS}/owner")).await.with(200);
        let mut web = deployment("web");
        web["spec"]["replicas"] = json!(2);
        house.made(DEPLOYMENTS, web).await;
        flood(&house).await;
        let everything = Interest::Prefix("/registry/".into());
        assert!(house.world.watch(seen, everything).is_err(), "the log keeps too much");

        settled(&house, &engines, &mut following).await;
        let left = house.get(CONFIG_MAPS).await.with(200);
        assert_eq!(names(&left), ["kube-root-ca.crt", "large"]);
        let pods = house.get(PODS).await.with(200);
        assert_eq!(names(&pods).len(), 2, "controllers caught up as well");

        // And from here on they follow as before.
        let owner = house.made(CONFIG_MAPS, named("owner")).await;
        house.made(CONFIG_MAPS, owned("dependent", &[to(&owner)])).await;
        house.delete(&format!("{CONFIG_MAPS}/owner")).await.with(200);
        settled(&house, &engines, &mut following).await;
        house.get(&format!("{CONFIG_MAPS}/dependent")).await.with(404);
    };
    LocalSet::new().run_until(Box::pin(test)).await;
}

/// Waits until an object is gone, while others run.
async fn gone(house: &House, path: &str) {
    while house.get(path).await.code == 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_name_that_is_taken_again_before_the_collector_knows_is_another_object() {
    let test = async {
        let house = House::collecting().await;
        let controllers = Controllers::named(&["garbagecollector".to_owned()]).unwrap();
        let (driver, engines) =
            Driver::new(InternalWriter::new(Arc::clone(&house.api)), 1, controllers);
        let (_stop, stopping) = watch::channel(false);
        let mut following = pin!(driver.follow(stopping));
        let path = format!("{CONFIG_MAPS}/owner");
        for round in 0..100 {
            let owner = house.made(CONFIG_MAPS, named("owner")).await;
            house.made(CONFIG_MAPS, owned("dependent", &[blocking(&owner)])).await;
            settled(&house, &engines, &mut following).await;
            let left = house.get(CONFIG_MAPS).await.with(200);
            assert_eq!(names(&left), ["dependent", "kube-root-ca.crt", "owner"], "round {round}");
            house.delete(&format!("{path}?propagationPolicy=Foreground")).await.with(200);
            // From then on nobody polls the collector until the names are taken again: its last write is
            // done, and it has not heard of that.
            tokio::select! {
                () = &mut following => panic!("the followers ended"),
                () = gone(&house, &path) => {}
            }
        }
    };
    LocalSet::new().run_until(Box::pin(test)).await;
}
