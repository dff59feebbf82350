//! Rules of spec/api-server.md.
//!
//! A store that is full: what is refused, what goes on, and how it recovers.

use serde_json::json;
use tenure_world::{Draft, ProposalError, WorldOptions, WriteOperation};

use crate::support::*;

/// Enough for a hundred small objects.
const QUOTA: u64 = 100_000;

fn text(letter: &str) -> String {
    letter.repeat(1000)
}

/// Fills a world; how many objects it took.
async fn fill(world: &tenure_world::WorldHandle) -> usize {
    for number in 0.. {
        let written = write_if(world, vec![], vec![put(&number.to_string(), &text("x"))]).await;
        match written {
            Ok(_) => {}
            Err(ProposalError::Full { used, quota }) => {
                assert!(used <= quota && used + 3000 > quota, "{used} of {quota}");
                return number;
            }
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!("a full store refuses");
}

fn full(log: &TestLog) -> tenure_world::WorldHandle {
    log.open_with(WorldOptions { quota: Some(QUOTA), ..WorldOptions::default() })
}

#[tokio::test]
async fn r245_a_full_store_refuses_growth_and_takes_the_rest() {
    let log = TestLog::default();
    let world = full(&log);
    let count = fill(&world).await;
    assert_eq!(world.current().len(), count);
    assert!(world.current().bytes() <= QUOTA);
    let refused = write_if(&world, vec![], vec![put("1", &text("x").repeat(3))]).await;
    assert!(
        matches!(refused, Err(ProposalError::Full { .. })),
        "an update that grows: {refused:?}"
    );
    write(&world, vec![put("1", "small")]).await;
    write(&world, vec![put("2", &text("y"))]).await;
    // One out, one in.
    write(&world, vec![delete("3"), put("new", &text("z"))]).await;
    write(&world, vec![delete("4")]).await;
    write(&world, vec![put("again", &text("z"))]).await;
    assert_eq!(world.current().len(), count);
}

#[tokio::test]
async fn r245_the_count_of_bytes_is_the_same_after_a_restart() {
    let log = TestLog::default();
    let world = full(&log);
    fill(&world).await;
    write(&world, vec![put("1", "small"), delete("2")]).await;
    let bytes = world.current().bytes();
    let _ = world.stop().await;
    let again = full(&log);
    assert_eq!(again.current().bytes(), bytes);
    for number in 0..200 {
        let _ = write_if(&again, vec![], vec![delete(&number.to_string())]).await;
    }
    assert_eq!((again.current().len(), again.current().bytes()), (0, 0));
}

#[tokio::test]
async fn r245_an_object_on_its_way_out_may_be_marked_in_a_full_store() {
    let log = TestLog::default();
    let world = full(&log);
    fill(&world).await;
    let mut object = object("1", &text("x"));
    let finalizer = |number| format!("example.com/{}-{number}", "hold-on".repeat(6));
    object["metadata"]["finalizers"] = (0..60).map(finalizer).collect();
    let held = Draft::encode("ConfigMap", "v1", &object);
    let refused =
        write_if(&world, vec![], vec![WriteOperation::Put { key: key("1"), draft: held }]).await;
    assert!(
        matches!(refused, Err(ProposalError::Full { .. })),
        "it is not on its way out: {refused:?}"
    );
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let draft = Draft::encode("ConfigMap", "v1", &object);
    write(&world, vec![WriteOperation::Put { key: key("1"), draft }]).await;
}
