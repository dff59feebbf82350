//! Rules of spec/referential-authorization.md: a strategy that comes when there are many origins (R174, R175).

use serde_json::json;

use super::access::{LOCAL, gateway, gateways_path};
use super::*;

/// More than are told within a commit, and than are told at once beside it.
const MANY: usize = 300;

fn numbered(number: usize) -> Value {
    let listeners = json!([{ "tls": { "certificateRefs": [
        { "kind": "Secret", "name": format!("s{number}") },
    ] } }]);
    let gateway = with(gateway("contour"), "/spec/listeners", listeners);
    let gateway = with(gateway, "/spec/extra", json!(format!("e{number}")));
    with(gateway, "/metadata/name", json!(format!("g{number}")))
}

async fn town() -> House {
    let house = house().await;
    serve_gateways(&house, &["v1"]).await;
    let user = json!({ "kind": "User", "name": "contour" });
    house.made(CONSUMERS, with(consumer("contour-gateway"), "/subject", user)).await;
    for number in 0..MANY {
        house.made(&gateways_path(), numbered(number)).await;
    }
    house
}

async fn allowed(house: &House, name: &str) -> bool {
    let contour = peer("contour", &[]);
    let path = format!("{LOCAL}/{name}");
    // What does not exist may be read as well: 404 is an answer.
    house.ask_as(&contour, "GET", &path, &[], "").await.code == 404
}

#[tokio::test]
async fn r174_a_strategy_over_many_origins_is_in_force_when_its_writer_hears_of_it() {
    let house = town().await;
    assert!(!allowed(&house, "s0").await);
    house.made(STRATEGIES, strategy("gateways")).await;
    for number in [0, 1, MANY / 2, MANY - 1] {
        assert!(allowed(&house, &format!("s{number}")).await, "{number}");
    }
    // What is taken away is gone at once, however much it is.
    house.delete(&format!("{STRATEGIES}/gateways")).await.with(200);
    for number in [0, MANY / 2, MANY - 1] {
        assert!(!allowed(&house, &format!("s{number}")).await, "{number}");
    }
    house.made(STRATEGIES, strategy("anew")).await;
    assert!(allowed(&house, "s7").await);
}

#[tokio::test]
async fn r174_r175_what_changes_while_origins_are_told_is_what_counts() {
    for _ in 0..3 {
        let house = town().await;
        let writes = async {
            for number in (0..MANY).rev().step_by(7) {
                let path = format!("{}/g{number}", gateways_path());
                match number % 3 {
                    0 => drop(house.delete(&path).await.with(200)),
                    1 => {
                        let changed = json!({ "spec": { "gatewayClassName": "envoy" } });
                        drop(house.merge(&path, changed).await.with(200));
                    }
                    _ => {
                        let refs = json!([{ "kind": "Secret", "name": format!("t{number}") }]);
                        let spec = json!({ "listeners": [{ "tls": { "certificateRefs": refs } }] });
                        drop(house.merge(&path, json!({ "spec": spec })).await.with(200));
                    }
                }
            }
        };
        tokio::join!(house.made(STRATEGIES, strategy("gateways")), writes);
        let touched: Vec<usize> = (0..MANY).rev().step_by(7).collect();
        for number in 0..MANY {
            let (old, new) = (format!("s{number}"), format!("t{number}"));
            let changed = touched.contains(&number);
            assert_eq!(allowed(&house, &old).await, !changed, "{old}");
            if changed {
                assert_eq!(allowed(&house, &new).await, number % 3 == 2, "{new}");
            }
        }
    }
}

#[tokio::test]
async fn r174_a_strategy_that_goes_while_its_origins_are_told_leaves_nothing() {
    let house = town().await;
    let goes = async {
        let path = format!("{STRATEGIES}/gateways");
        while house.delete(&path).await.code != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(house.made(STRATEGIES, strategy("gateways")), goes);
    assert!(!allowed(&house, "s0").await && !allowed(&house, &format!("s{}", MANY - 1)).await);
    // What it found is cleared away beside other writes.
    super::beside::cleared(&house, 0).await;
}

#[tokio::test]
async fn r174_a_second_strategy_adds_and_an_edit_interrupts_nothing() {
    let house = town().await;
    house.made(STRATEGIES, strategy("gateways")).await;
    let extra = with(strategy("extra"), "/versions/0/references/0/path", json!(".spec.extra"));
    let names: Vec<String> = (0..MANY).map(|number| format!("s{number}")).collect();
    let reads = async {
        for name in &names {
            assert!(allowed(&house, name).await, "{name} is lost meanwhile");
        }
    };
    tokio::join!(house.made(STRATEGIES, extra), reads);
    for number in [0, MANY / 2, MANY - 1] {
        assert!(allowed(&house, &format!("e{number}")).await, "{number}");
    }
    // An edit: what both forms find stays, what only the old one finds goes with the answer.
    let union = json!({ "versions": [{
        "version": "v1", "classPath": ".spec.gatewayClassName",
        "references": [{
            "path": ".spec.listeners[*].tls.certificateRefs[*].name",
            "target": secrets(), "purpose": "tls-serving",
        }],
    }] });
    let path = format!("{STRATEGIES}/gateways");
    let reads = async {
        for name in &names {
            assert!(allowed(&house, name).await, "{name} is lost meanwhile");
        }
    };
    tokio::join!(async { house.merge(&path, union).await.with(200) }, reads);
    let none = with(strategy("extra"), "/versions/0/references/0/path", json!(".spec.none"));
    house.merge(&format!("{STRATEGIES}/extra"), none).await.with(200);
    assert!(!allowed(&house, "e0").await && !allowed(&house, &format!("e{}", MANY - 1)).await);
    assert!(allowed(&house, "s0").await);
}
