//! Watches: order, no gaps, no duplicates, resuming, falling behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::Revision;
use tenure_world::{Interest, Watch, WatchEnded, WorldHandle, WorldOptions, WriteOperation};

use crate::support::*;

fn all(world: &WorldHandle, after: u64) -> Watch {
    world.watch(Revision(after), Interest::Prefix(PREFIX.into())).unwrap()
}

fn one(world: &WorldHandle, name: &str) -> Watch {
    world.watch(Revision::ZERO, Interest::Key(key(name).to_string())).unwrap()
}

#[tokio::test]
async fn r104_changes_come_in_order_with_before_and_after() {
    let world = TestLog::default().open();
    let mut watch = all(&world, 0);
    write(&world, vec![put("a", "1")]).await;
    write(&world, vec![put("a", "2")]).await;
    write(&world, vec![delete("a")]).await;
    let (first, second, third) = (
        soon(&mut watch).await.unwrap(),
        soon(&mut watch).await.unwrap(),
        soon(&mut watch).await.unwrap(),
    );
    assert_eq!([line(&first), line(&second), line(&third)], ["1+a", "2~a", "3-a"]);
    assert_eq!(data(second.before.as_ref().unwrap().bytes()), "1");
    assert_eq!(data(second.after.as_ref().unwrap().bytes()), "2");
    assert_eq!(watch.delivered(), Revision(3));
    assert!(watch.try_next().unwrap().is_none());
}

#[tokio::test]
async fn r104_a_deletion_tells_the_last_state_with_its_own_revision() {
    let world = TestLog::default().open();
    write(&world, vec![put("a", "last")]).await;
    write(&world, vec![delete("a")]).await;
    let mut watch = all(&world, 1);
    let gone = soon(&mut watch).await.unwrap();
    assert_eq!((version(&gone.object()), data(&gone.object())), (2, "last".into()));
    assert_eq!(gone.object().as_ptr(), gone.object().as_ptr(), "made once for all watchers");
}

#[tokio::test]
async fn r105_changes_of_one_transaction_come_together() {
    let world = TestLog::default().open();
    let mut watch = all(&world, 0);
    let writes = (0..600).map(|n| put(&format!("n{n:03}"), "x")).collect();
    let writer = tokio::spawn({
        let world = world.clone();
        async move { write(&world, writes).await }
    });
    let first = soon(&mut watch).await.unwrap();
    assert_eq!(watch.delivered(), Revision::ZERO, "the rest of the transaction is pending");
    let rest = drain(&mut watch).unwrap();
    assert_eq!((line(&first), rest.len()), ("1+n000".into(), 599));
    assert!(rest.iter().all(|line| line.starts_with("1+")));
    assert_eq!(watch.delivered(), Revision(1));
    writer.await.unwrap();
}

#[tokio::test]
async fn r106_a_watch_resumes_after_any_revision_without_gap_or_repeat() {
    let log = TestLog::default();
    let world = log.open();
    for n in 1..=700_u64 {
        write(&world, vec![put(&format!("n{}", n % 3), "x")]).await;
    }
    let expected = |after: u64| (after + 1..=700).collect::<Vec<_>>();
    let check = |world: &WorldHandle| {
        for after in [0, 1, 255, 256, 257, 511, 512, 699, 700] {
            let mut watch = all(world, after);
            let mut seen = Vec::new();
            while let Some(change) = watch.try_next().unwrap() {
                seen.push(change.revision.0);
            }
            assert_eq!(seen, expected(after), "after {after}");
            assert_eq!(watch.delivered(), Revision(700));
        }
    };
    check(&world);
    world.stop().await.unwrap();
    check(&log.open());
}

#[tokio::test]
async fn r108_a_watch_from_the_future_waits_until_the_log_has_passed() {
    let world = TestLog::default().open();
    let mut watch = all(&world, 3);
    for _ in 0..5 {
        write(&world, vec![put("a", "x")]).await;
    }
    assert_eq!(line(&soon(&mut watch).await.unwrap()), "4~a");
    assert_eq!(line(&soon(&mut watch).await.unwrap()), "5~a");
}

#[tokio::test]
async fn r109_progress_moves_on_when_nothing_concerns_the_watch() {
    let world = TestLog::default().open();
    let mut watch = one(&world, "quiet");
    for _ in 0..1000 {
        write(&world, vec![put("loud", "x")]).await;
    }
    assert_eq!(watch.delivered(), Revision(1000));
    assert!(watch.try_next().unwrap().is_none());
    write(&world, vec![put("quiet", "x")]).await;
    assert_eq!(watch.delivered(), Revision(1000), "a pending change holds progress back");
    assert_eq!(line(&soon(&mut watch).await.unwrap()), "1001+quiet");
    assert_eq!(watch.delivered(), Revision(1001));
}

/// A world that keeps very little history.
fn forgetful() -> WorldHandle {
    TestLog::default()
        .open_with(WorldOptions { history_bytes: 64 << 10, ..WorldOptions::default() })
}

#[tokio::test]
async fn r107_r113_a_watch_that_fell_behind_is_told_so() {
    let world = forgetful();
    let mut slow = all(&world, 0);
    let text = "x".repeat(1000);
    for _ in 0..400 {
        write(&world, vec![put("a", &text)]).await;
    }
    let oldest = world.oldest();
    assert!(oldest > Revision(100) && oldest < Revision(400), "{oldest}");
    assert_eq!(soon(&mut slow).await.unwrap_err(), WatchEnded::Compacted { oldest });
    let refused = world.watch(Revision(oldest.0 - 1), Interest::Key(key("a").to_string()));
    assert_eq!(refused.unwrap_err().oldest, oldest);
    let mut fresh = all(&world, oldest.0);
    let seen = drain(&mut fresh).unwrap();
    assert_eq!(seen.len() as u64, 400 - oldest.0);
    assert_eq!(seen[0], format!("{}~a", oldest.0 + 1));
}

/// Whether a watch of one key outlives the letting go of a history that does not concern it.
async fn quiet_watch_survives() -> bool {
    let world = forgetful();
    let mut quiet = one(&world, "quiet");
    let text = "x".repeat(1000);
    for n in 0..400 {
        write(&world, vec![put("loud", &text)]).await;
        if n % 10 == 0 {
            // The dispatcher must be able to follow a log this small.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert!(world.oldest() > Revision(100));
    write(&world, vec![put("quiet", "x")]).await;
    match soon(&mut quiet).await {
        Ok(change) => line(&change) == "401+quiet",
        Err(_) => false,
    }
}

#[tokio::test]
async fn r116_unrelated_history_that_was_let_go_does_not_end_a_quiet_watch() {
    // A busy machine may hold the dispatcher up; one success in five shows that it can.
    for _ in 0..5 {
        if quiet_watch_survives().await {
            return;
        }
    }
    panic!("a quiet watch always ended");
}

#[tokio::test]
async fn interests_hear_of_their_own_keys_only() {
    let world = TestLog::default().open();
    let watch = |interest| world.watch(Revision::ZERO, interest).unwrap();
    let mut key_watch = watch(Interest::Key(key("ab").to_string()));
    let mut folder = watch(Interest::Prefix(PREFIX.into()));
    let mut partial = watch(Interest::Prefix(format!("{PREFIX}ab")));
    let mut everything = watch(Interest::Prefix(String::new()));
    let mut elsewhere = watch(Interest::Prefix("/registry/configmaps/shop2/".into()));
    for name in ["a", "ab", "abc"] {
        write(&world, vec![put(name, "x")]).await;
    }
    assert_eq!(line(&soon(&mut key_watch).await.unwrap()), "2+ab");
    assert_eq!(line(&soon(&mut partial).await.unwrap()), "2+ab");
    assert_eq!(line(&soon(&mut partial).await.unwrap()), "3+abc");
    for watch in [&mut folder, &mut everything] {
        for expected in ["1+a", "2+ab", "3+abc"] {
            assert_eq!(line(&soon(watch).await.unwrap()), expected);
        }
    }
    assert_eq!(drain(&mut elsewhere).unwrap(), Vec::<String>::new());
    assert_eq!(drain(&mut key_watch).unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn watches_come_and_go() {
    let world = TestLog::default().open();
    let watches: Vec<_> = (0..100).map(|n| one(&world, &format!("n{}", n % 10))).collect();
    assert_eq!(world.watches(), 100);
    drop(watches);
    assert_eq!(world.watches(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r185_concurrent_watches_see_every_change_once_in_one_order() {
    let world = TestLog::default().open();
    let watchers: Vec<_> = (0..20)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(async move {
                // Half start at once, half later and from where they find the world.
                if n % 2 == 1 {
                    tokio::time::sleep(Duration::from_millis(n)).await;
                }
                let from = world.current().revision();
                let mut watch = all(&world, from.0);
                let mut seen = Vec::new();
                while seen.last() != Some(&"end".to_owned()) {
                    let change = soon(&mut watch).await.unwrap();
                    assert!(change.revision > from);
                    seen.push(change.key.rsplit('/').next().unwrap().to_owned());
                }
                (from, seen)
            })
        })
        .collect();
    let writers: Vec<_> = (0..8)
        .map(|task| {
            let world = world.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    write(&world, vec![put(&format!("t{task}-{n}"), "x")]).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    write(&world, vec![put("end", "x")]).await;
    let mut whole = all(&world, 0);
    let mut order = Vec::new();
    while let Some(change) = whole.try_next().unwrap() {
        order.push(change.key.rsplit('/').next().unwrap().to_owned());
    }
    assert_eq!(order.len(), 1601);
    for watcher in watchers {
        let (from, seen) = watcher.await.unwrap();
        assert_eq!(seen, order[from.0 as usize..]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r185_quiet_watches_among_noise_miss_nothing() {
    let world = TestLog::default().open();
    let watchers: Vec<_> = (0..16)
        .map(|n| {
            let mut watch = one(&world, &format!("q{n}"));
            tokio::spawn(async move {
                let mut seen = 0;
                while seen < 50 {
                    let change = soon(&mut watch).await.unwrap();
                    seen += 1;
                    let text = data(change.after.as_ref().unwrap().bytes());
                    assert_eq!(text, seen.to_string());
                }
            })
        })
        .collect();
    let noise: Vec<_> = (0..4)
        .map(|task| {
            let world = world.clone();
            tokio::spawn(async move {
                for n in 0..500 {
                    write(&world, vec![put(&format!("noise{task}"), &n.to_string())]).await;
                }
            })
        })
        .collect();
    for round in 1..=50 {
        for n in 0..16 {
            write(&world, vec![put(&format!("q{n}"), &round.to_string())]).await;
        }
    }
    for task in watchers.into_iter().chain(noise) {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn r185_fifty_watchers_hear_of_one_write_soon() {
    let world = TestLog::default().open();
    let mut watches: Vec<_> = (0..50).map(|_| all(&world, 0)).collect();
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let before = Instant::now();
        write(&world, vec![put("a", "x")]).await;
        for watch in &mut watches {
            soon(watch).await.unwrap();
        }
        best = best.min(before.elapsed());
    }
    assert!(best < Duration::from_millis(20), "{best:?}");
}

#[tokio::test]
async fn stopping_ends_watches_after_they_have_read_everything() {
    let world = TestLog::default().open();
    let mut watch = all(&world, 0);
    let waiting = {
        let mut watch = one(&world, "never");
        tokio::spawn(async move { watch.next().await.unwrap_err() })
    };
    write(&world, vec![put("a", "x")]).await;
    world.stop().await.unwrap();
    assert_eq!(line(&soon(&mut watch).await.unwrap()), "1+a");
    assert_eq!(soon(&mut watch).await.unwrap_err(), WatchEnded::Stopped);
    assert_eq!(waiting.await.unwrap(), WatchEnded::Stopped);
}

#[tokio::test]
async fn waiting_for_a_revision_ends_when_it_is_there_or_time_is_up() {
    let world = TestLog::default().open();
    assert!(!world.wait_for(Revision(1), Duration::from_millis(10)).await);
    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.wait_for(Revision(2), Duration::from_secs(10)).await }
    });
    write(&world, vec![put("a", "1")]).await;
    write(&world, vec![WriteOperation::Put { key: Arc::from("/other"), draft: draft("b", "1") }])
        .await;
    assert!(waiting.await.unwrap());
    assert!(world.wait_for(Revision(2), Duration::ZERO).await);
}

fn resumed(world: &WorldHandle, after: u64, interest: Interest) -> Vec<String> {
    drain(&mut world.resume(Revision(after), interest).unwrap()).unwrap()
}

#[tokio::test]
async fn r104_what_was_put_at_one_revision_is_told_again_to_those_who_resume_from_it() {
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![put("a", "1")]).await;
    write(&world, vec![put("a", "2"), put("b", "2"), delete("c"), put("d", "2")]).await;
    write(&world, vec![put("b", "3")]).await;
    let prefix = || Interest::Prefix(PREFIX.into());
    let check = |world: &WorldHandle| {
        assert_eq!(resumed(world, 2, prefix()), ["2~a", "2+b", "2+d", "3~b"]);
        assert_eq!(resumed(world, 1, prefix()), ["2~a", "2+b", "2+d", "3~b"], "1 was whole");
        assert_eq!(resumed(world, 3, prefix()), Vec::<String>::new(), "3 was whole");
        let one = Interest::Key(key("a").to_string());
        assert_eq!(resumed(world, 2, one), Vec::<String>::new(), "one event cannot be cut");
        let part = Interest::Prefix(format!("{PREFIX}d"));
        assert_eq!(resumed(world, 2, part), Vec::<String>::new());
        assert_eq!(resumed(world, 9, prefix()), Vec::<String>::new(), "yet to come");
    };
    check(&world);
    let mut again = world.resume(Revision(2), prefix()).unwrap();
    assert_eq!(line(&soon(&mut again).await.unwrap()), "2~a");
    assert_eq!(again.delivered(), Revision(2), "what the client named itself");
    assert_eq!(drain(&mut again).unwrap(), ["2+b", "2+d", "3~b"]);
    assert_eq!(again.delivered(), Revision(3));
    world.stop().await.unwrap();
    check(&log.open());
}

#[tokio::test]
async fn r104_what_was_put_at_the_oldest_revision_is_told_again_too() {
    // A history of which each step lets go of all that was before it.
    let world =
        TestLog::default().open_with(WorldOptions { history_bytes: 1, ..WorldOptions::default() });
    let text = "x".repeat(1000);
    for _ in 0..3 {
        let both = vec![put("a", &text), put("b", &text)];
        let at = write(&world, both).await.revision.0;
        // The second put of the transaction let its first one go.
        assert_eq!(world.oldest(), Revision(at));
        let again = resumed(&world, at, Interest::Prefix(PREFIX.into()));
        assert_eq!(again, [format!("{at}+a"), format!("{at}+b")]);
    }
}
