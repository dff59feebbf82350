//! Group commit, conflicts and failing logs; rule numbers are those of `spec/dependencies.md`.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_core::Revision;
use tenure_world::{ChoreError, Proposal, ProposalError, WorldOptions, WriteAvailability};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r29_waiting_proposals_share_one_append() {
    let log = TestLog::default();
    *log.inner.delay.lock().unwrap() = Duration::from_millis(5);
    let world = log.open();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let world = world.clone();
            tokio::spawn(async move {
                for n in 0..5 {
                    write(&world, vec![put(&format!("t{task}-{n}"), "x")]).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(world.current().len(), 320);
    assert_eq!(world.current().revision(), Revision(320));
    let appends = log.inner.appends.load(Ordering::SeqCst);
    assert!(appends <= 320 / 8, "{appends} appends for 320 writes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r29_a_batch_is_bounded_by_bytes() {
    let log = TestLog::default();
    *log.inner.delay.lock().unwrap() = Duration::from_millis(50);
    let world = log.open();
    let text = "x".repeat(400_000);
    let tasks: Vec<_> = (0..13)
        .map(|n| {
            let (world, text) = (world.clone(), text.clone());
            tokio::spawn(async move { write(&world, vec![put(&n.to_string(), &text)]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // Three of these fill a batch.
    assert!(log.inner.appends.load(Ordering::SeqCst) >= 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicting_proposals_of_one_batch_let_one_through() {
    let log = TestLog::default();
    *log.inner.delay.lock().unwrap() = Duration::from_millis(2);
    let world = log.open();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                let mut won = 0_u64;
                while won < 20 {
                    let now = world.current();
                    let record = now.get(&key("counter"));
                    let count: u64 = record.map_or(0, |r| data(r.bytes()).parse().unwrap());
                    let revision = record.map(|r| r.revision());
                    let draft = draft("counter", &(count + 1).to_string());
                    let proposal = Proposal::put(key("counter"), revision, draft);
                    match world.propose(proposal).await {
                        Ok(_) => won += 1,
                        Err(ProposalError::Guard { current, .. }) => {
                            assert_ne!(current.map(|r| r.revision()), revision);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let now = world.current();
    assert_eq!(data(now.get(&key("counter")).unwrap().bytes()), "320");
    assert_eq!(now.revision(), Revision(320));
}

#[tokio::test]
async fn r32_a_failed_append_stops_writes_and_reads_go_on() {
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![put("a", "1")]).await;
    log.inner.fail.store(true, Ordering::SeqCst);
    let refused = write_if(&world, vec![], vec![put("a", "2")]).await;
    assert!(matches!(&refused, Err(ProposalError::Stopped(why)) if why.contains("no space")));
    log.inner.fail.store(false, Ordering::SeqCst);
    let refused = write_if(&world, vec![], vec![put("a", "3")]).await;
    assert!(matches!(refused, Err(ProposalError::Stopped(_))), "for ever: {refused:?}");
    assert!(matches!(world.status(), WriteAvailability::Stopped(why) if why.contains("no space")));
    let now = world.current();
    assert_eq!(
        (now.revision(), data(now.get(&key("a")).unwrap().bytes())),
        (Revision(1), "1".into())
    );
    let _ = world.stop().await;
    let again = log.open();
    assert_eq!(again.status(), WriteAvailability::Running);
    assert_eq!(write(&again, vec![put("a", "4")]).await.revision, Revision(2));
}

#[tokio::test]
async fn a_full_queue_is_told_at_once() {
    let log = TestLog::default();
    *log.inner.delay.lock().unwrap() = Duration::from_millis(300);
    let world = log.open_with(WorldOptions { queue: 4, ..WorldOptions::default() });
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(
                async move { write_if(&world, vec![], vec![put(&n.to_string(), "x")]).await },
            )
        })
        .collect();
    let (mut busy, mut done) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => done += 1,
            Err(ProposalError::Busy) => busy += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(busy > 0 && done > 0, "{busy} busy, {done} done");
    assert_eq!(world.current().len(), done);
}

#[tokio::test]
async fn a_stopped_world_refuses_writes_and_chores() {
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![put("a", "1")]).await;
    world.stop().await.unwrap();
    assert!(matches!(
        write_if(&world, vec![], vec![put("a", "2")]).await,
        Err(ProposalError::Stopped(_))
    ));
    assert_eq!(world.compact(Revision(1)).await, Err(ChoreError::Stopped));
    assert_eq!(world.stop().await, Err(ChoreError::Stopped));
    assert_eq!(world.current().len(), 1);
}
