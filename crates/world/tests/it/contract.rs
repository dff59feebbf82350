//! What every backend promises, on the log in memory and on the file.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_core::Revision;
use tenure_store::{FileLog, FileOptions, Log, MemoryLog};
use tenure_world::{
    Precondition, Proposal, ProposalError, RevisionError, WorldHandle, WorldOptions,
    WriteAvailability, open,
};

use crate::support::*;

/// The two backends under test.
enum Backend {
    Memory,
    File(tempfile::TempDir),
}

impl Backend {
    fn both() -> [Backend; 2] {
        [Backend::Memory, Backend::File(tempfile::tempdir().unwrap())]
    }

    fn path(&self) -> Option<PathBuf> {
        match self {
            Backend::Memory => None,
            Backend::File(dir) => Some(dir.path().join("log")),
        }
    }

    fn open(&self) -> WorldHandle {
        let log: Box<dyn Log> = match self.path() {
            None => Box::new(MemoryLog::keeping()),
            Some(path) => Box::new(FileLog::open(&path, FileOptions::default()).unwrap()),
        };
        open(log, WorldOptions::default()).unwrap()
    }
}

#[tokio::test]
async fn r182_revisions_strictly_increase_across_keys() {
    for backend in Backend::both() {
        let world = backend.open();
        assert_eq!(world.current().revision(), Revision::ZERO);
        let mut last = 0;
        for name in ["a", "b", "a", "c"] {
            let committed = write(&world, vec![put(name, "x")]).await;
            assert!(committed.revision.0 > last);
            last = committed.revision.0;
            assert_eq!(version(committed.record().unwrap().bytes()), last);
        }
        let gone = write(&world, vec![delete("a")]).await;
        assert!(gone.revision.0 > last);
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn r182_revisions_do_not_repeat_after_a_restart() {
    let backend = Backend::File(tempfile::tempdir().unwrap());
    let world = backend.open();
    write(&world, vec![put("a", "1")]).await;
    let last = write(&world, vec![delete("a")]).await.revision;
    world.compact(last).await.unwrap();
    world.stop().await.unwrap();
    let world = backend.open();
    assert!(world.current().revision() >= last);
    assert!(write(&world, vec![put("a", "2")]).await.revision > last);
    world.stop().await.unwrap();
}

#[tokio::test]
async fn r183_create_update_and_delete_compare_revisions() {
    for backend in Backend::both() {
        let world = backend.open();
        let first = write_if(&world, vec![at("a", None)], vec![put("a", "1")]).await.unwrap();
        let again = write_if(&world, vec![at("a", None)], vec![put("a", "2")]).await;
        let Err(ProposalError::Guard { index: 0, current: Some(current) }) = again else {
            panic!("{again:?}")
        };
        assert_eq!(current.revision(), first.revision);
        let stale = write_if(&world, vec![at("a", Some(99))], vec![put("a", "2")]).await;
        assert!(matches!(stale, Err(ProposalError::Guard { .. })));
        let guard = vec![at("a", Some(first.revision.0))];
        let second = write_if(&world, guard.clone(), vec![put("a", "2")]).await.unwrap();
        let stale = write_if(&world, guard, vec![delete("a")]).await;
        assert!(matches!(stale, Err(ProposalError::Guard { .. })));
        let guard = vec![at("a", Some(second.revision.0))];
        let gone = write_if(&world, guard, vec![delete("a")]).await.unwrap();
        assert_eq!(data(gone.record().unwrap().bytes()), "2");
        assert!(world.current().get(&key("a")).is_none());
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn r183_a_transaction_commits_whole_or_not_at_all() {
    for backend in Backend::both() {
        let world = backend.open();
        let first = write(&world, vec![put("a", "1")]).await.revision;
        let guards = vec![at("a", Some(first.0)), at("b", Some(1))];
        let refused = write_if(&world, guards, vec![put("a", "2"), put("b", "2")]).await;
        assert!(matches!(refused, Err(ProposalError::Guard { index: 1, current: None })));
        assert_eq!(world.current().revision(), first);
        let both = write(&world, vec![put("b", "3"), delete("a"), put("c", "3")]).await;
        assert_eq!(both.records.len(), 3);
        assert_eq!(both.records[0].as_ref().unwrap().revision(), both.revision);
        assert_eq!(both.records[2].as_ref().unwrap().revision(), both.revision);
        assert_eq!(world.current().len(), 2);
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn r183_ranges_follow_the_bytes_of_the_key() {
    let world = TestLog::default().open();
    for name in ["b", "a-b", "a.b", "a", "a0", "ab"] {
        write(&world, vec![put(name, "x")]).await;
    }
    let now = world.current();
    let names: Vec<_> = now.range(PREFIX, None).map(|r| r.name().to_owned()).collect();
    assert_eq!(names, ["a", "a-b", "a.b", "a0", "ab", "b"]);
    let after: Vec<_> = now.range(PREFIX, Some(&key("a.b"))).map(|r| r.name().to_owned()).collect();
    assert_eq!(after, ["a0", "ab", "b"]);
    assert_eq!(now.count(PREFIX), 6);
    assert_eq!(now.count("/registry/configmaps/sho"), 6);
    assert_eq!(now.count("/registry/configmaps/shop2/"), 0);
    assert_eq!(now.range(PREFIX, Some("/a")).count(), 6);
    assert_eq!(now.range(PREFIX, Some("/z")).count(), 0);
    assert_eq!(now.range(PREFIX, Some("/registry/configmaps/shop0")).count(), 0);
    assert_eq!(now.range(PREFIX, Some(&key("b"))).count(), 0);
    assert_eq!(now.range("", None).count(), 6);
    assert_eq!(now.count("/registry/configmaps/shop/\u{7f}"), 0);
}

#[tokio::test]
async fn r183_compaction_refuses_the_past_and_keeps_the_newest() {
    for backend in Backend::both() {
        let world = backend.open();
        for n in 1..=9 {
            write(&world, vec![put("a", &n.to_string())]).await;
        }
        write(&world, vec![put("b", "only")]).await;
        world.compact(Revision(5)).await.unwrap();
        assert_eq!(world.oldest(), Revision(5));
        assert_eq!(world.at(Revision(4)).unwrap_err(), RevisionError::Compacted(Revision(5)));
        let past = world.at(Revision(5)).unwrap();
        assert_eq!(data(past.get(&key("a")).unwrap().bytes()), "5");
        let interest = || tenure_world::Interest::Prefix(PREFIX.into());
        assert_eq!(world.watch(Revision(4), interest()).unwrap_err().oldest, Revision(5));
        let mut watch = world.watch(Revision(5), interest()).unwrap();
        assert_eq!(drain(&mut watch).unwrap(), ["6~a", "7~a", "8~a", "9~a", "10+b"]);
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn r184_a_read_after_the_answer_sees_the_write() {
    for backend in Backend::both() {
        let world = backend.open();
        for n in 0..50 {
            let text = n.to_string();
            let revision = write(&world, vec![put("a", &text)]).await.revision;
            let now = world.current();
            assert!(now.revision() >= revision);
            assert_eq!(data(now.get(&key("a")).unwrap().bytes()), text);
        }
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn r184_r195_past_states_are_exact_also_after_a_restart() {
    let backend = Backend::File(tempfile::tempdir().unwrap());
    let world = backend.open();
    for n in 1..=600_u64 {
        let name = format!("n{}", n % 7);
        let writes = if n % 5 == 0 { vec![delete(&name)] } else { vec![put(&name, "x")] };
        write(&world, writes).await;
    }
    let newest = world.current().revision();
    let seen = |world: &WorldHandle, revision: u64| -> Vec<(String, u64)> {
        let past = world.at(Revision(revision)).unwrap();
        assert_eq!(past.revision(), Revision(revision));
        past.range("", None).map(|r| (r.name().to_owned(), r.revision().0)).collect()
    };
    let before: Vec<_> = (0..=newest.0).map(|r| seen(&world, r)).collect();
    world.stop().await.unwrap();
    let world = backend.open();
    for revision in (0..=newest.0).rev() {
        assert_eq!(seen(&world, revision), before[revision as usize], "at {revision}");
    }
    let future = world.at(Revision(newest.0 + 1000)).unwrap_err();
    assert_eq!(future, RevisionError::Future(world.current().revision()));
    world.stop().await.unwrap();
}

#[tokio::test]
async fn r186_acknowledged_writes_are_there_after_a_restart() {
    let backend = Backend::File(tempfile::tempdir().unwrap());
    let world = backend.open();
    write(&world, vec![put("a", "1"), put("b", "1")]).await;
    let last = write(&world, vec![put("a", "2"), delete("b")]).await;
    drop(world);
    // The last handle is gone: the sequencer closes the file by itself, a moment later.
    let path = backend.path().unwrap();
    let mut log = None;
    for _ in 0..1000 {
        match FileLog::open(&path, FileOptions::default()) {
            Ok(opened) => {
                log = Some(opened);
                break;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    let world = open(Box::new(log.unwrap()), WorldOptions::default()).unwrap();
    let now = world.current();
    assert_eq!(now.len(), 1);
    let record = now.get(&key("a")).unwrap();
    assert_eq!((record.revision(), data(record.bytes())), (last.revision, "2".into()));
    world.stop().await.unwrap();
}

#[tokio::test]
async fn r186_a_relaxed_log_is_synced_within_the_interval() {
    let log = TestLog::default();
    let every = Some(Duration::from_millis(20));
    let world = log.open_with(WorldOptions { sync_every: every, ..WorldOptions::default() });
    write(&world, vec![put("a", "1")]).await;
    for _ in 0..500 {
        if log.inner.syncs.load(Ordering::SeqCst) == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(log.inner.syncs.load(Ordering::SeqCst), 1, "once, and not while nothing is written");
}

#[tokio::test]
async fn a_running_world_can_be_measured() {
    let backend = Backend::File(tempfile::tempdir().unwrap());
    let world = backend.open();
    write(&world, vec![put("a", "1"), put("b", "1")]).await;
    let stats = world.stats().await.unwrap();
    assert_eq!(stats.entries, 2);
    write(&world, vec![put("c", "1")]).await;
    world.stop().await.unwrap();
}

#[tokio::test]
async fn an_index_that_panics_stops_the_world_and_tells_everybody() {
    struct Broken;
    impl tenure_world::LockStep for Broken {
        fn start(&mut self, _world: &tenure_world::World) {}
        fn apply(
            &mut self,
            _world: &tenure_world::World,
            _changes: &[std::sync::Arc<tenure_world::Change>],
        ) {
            panic!("a fault in an index");
        }
    }
    let options = WorldOptions { indexes: vec![Box::new(Broken)], ..WorldOptions::default() };
    let world = TestLog::default().open_with(options);
    let mut watch =
        world.watch(Revision::ZERO, tenure_world::Interest::Prefix(String::new())).unwrap();
    let refused = write_if(&world, vec![], vec![put("a", "1")]).await;
    assert!(matches!(refused, Err(ProposalError::Stopped(_))), "{refused:?}");
    assert_eq!(soon(&mut watch).await.unwrap_err(), tenure_world::WatchEnded::Stopped);
    let why = world.broken().await;
    assert_eq!(&*why, "the sequencer panicked: a fault in an index");
    assert_eq!(world.status(), WriteAvailability::Stopped(why));
}

#[tokio::test]
async fn r189_an_object_over_the_limit_fails_alone() {
    for backend in Backend::both() {
        let world = backend.open();
        let large = "x".repeat(tenure_store::DEFAULT_VALUE_BYTES_MAX);
        let (refused, kept) = tokio::join!(
            write_if(&world, vec![], vec![put("small", "x"), put("large", &large)]),
            write_if(&world, vec![], vec![put("other", "x")]),
        );
        assert!(matches!(refused, Err(ProposalError::TooLarge { .. })), "{refused:?}");
        kept.unwrap();
        assert_eq!(world.current().len(), 1);
        assert_eq!(world.status(), WriteAvailability::Running);
        world.stop().await.unwrap();
    }
}

#[tokio::test]
async fn proposals_that_make_no_sense_are_refused() {
    let world = TestLog::default().open();
    let twice = write_if(&world, vec![], vec![put("a", "1"), delete("a")]).await;
    assert!(matches!(twice, Err(ProposalError::Key(_))), "{twice:?}");
    let write_it = tenure_world::WriteOperation::Delete { key: "".into() };
    assert!(matches!(write_if(&world, vec![], vec![write_it]).await, Err(ProposalError::Key(_))));
    let nothing = write(&world, vec![delete("absent")]).await;
    assert_eq!((nothing.revision, nothing.records.len()), (Revision::ZERO, 1));
    assert_eq!(world.current().revision(), Revision::ZERO);
}

#[tokio::test]
async fn guards_on_life_and_vacancy_hold_or_name_what_is_there() {
    let world = TestLog::default().open();
    let living = |uid: &str| {
        vec![Precondition::Living { key: key("owner"), uid: uid.to_owned().into_boxed_str() }]
    };
    let absent = write_if(&world, living("uid-owner"), vec![put("a", "1")]).await;
    assert!(matches!(absent, Err(ProposalError::Guard { current: None, .. })));
    write(&world, vec![put("owner", "1")]).await;
    write(&world, vec![put("owner", "2")]).await;
    write_if(&world, living("uid-owner"), vec![put("a", "1")]).await.unwrap();
    let other = write_if(&world, living("uid-other"), vec![put("a", "2")]).await;
    assert!(matches!(other, Err(ProposalError::Guard { current: Some(_), .. })));
    let mut dying = object("owner", "3");
    dying["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let draft = tenure_world::Draft::encode("ConfigMap", "v1", &dying);
    write(&world, vec![tenure_world::WriteOperation::Put { key: key("owner"), draft }]).await;
    let refused = write_if(&world, living("uid-owner"), vec![put("a", "2")]).await;
    assert!(matches!(refused, Err(ProposalError::Guard { current: Some(_), .. })));

    let vacant =
        |prefix: &str| vec![Precondition::Vacant { prefix: prefix.to_owned().into_boxed_str() }];
    let refused = write_if(&world, vacant(PREFIX), vec![delete("a")]).await;
    let Err(ProposalError::Guard { current: Some(current), .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(current.name(), "a");
    write_if(&world, vacant("/registry/pods/"), vec![delete("a")]).await.unwrap();
}

#[tokio::test]
async fn dependents_are_known_by_their_owner_in_every_state() {
    let owned = |name: &str, owners: &[&str]| {
        let mut object = object(name, "1");
        let references = owners.iter().map(|uid| {
            serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid})
        });
        object["metadata"]["ownerReferences"] = references.collect();
        let draft = tenure_world::Draft::encode("ConfigMap", "v1", &object);
        tenure_world::WriteOperation::Put { key: key(name), draft }
    };
    let names = |world: &tenure_world::World, uid: &str| {
        world.owned_by(uid).map(|record| record.name().to_owned()).collect::<Vec<_>>()
    };
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![owned("a", &["u", "v"]), owned("b", &["u"]), put("c", "1")]).await;
    assert_eq!(names(&world.current(), "u"), ["a", "b"]);
    assert_eq!(names(&world.current(), "v"), ["a"]);
    let then = world.current().revision();
    write(&world, vec![owned("a", &["v"]), delete("b"), owned("c", &["u"])]).await;
    assert_eq!(names(&world.current(), "u"), ["c"]);
    assert_eq!(names(&world.at(then).unwrap(), "u"), ["a", "b"]);

    let seen = |seen| vec![Precondition::Dependents { uid: "u".into(), seen }];
    let refused = write_if(&world, seen(then), vec![put("d", "1")]).await;
    let Err(ProposalError::Guard { current: Some(current), .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(current.name(), "c");
    write_if(&world, seen(world.current().revision()), vec![put("d", "1")]).await.unwrap();

    world.stop().await.unwrap();
    let world = log.open();
    assert_eq!(names(&world.current(), "u"), ["c"]);
}

#[tokio::test]
async fn a_guard_may_rest_on_nobody_mentioning_a_text() {
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![put("p/a", "before")]).await;
    let then = world.current().revision();
    let guard = |text: &str, seen| {
        let prefixes = ["q/", "p/"].map(|under| Box::from(&*key(under))).into();
        vec![Precondition::Unmentioned { prefixes, text: text.into(), seen }]
    };
    write(&world, vec![put("p/b", "mine")]).await;
    write(&world, vec![put("r/c", "other")]).await;
    for (text, seen, holds) in [
        ("before", then, true),
        ("mine", then, false),
        ("min", then, true),
        ("other", then, true),
        ("mine", world.current().revision(), true),
    ] {
        let done = write_if(&world, guard(text, seen), vec![put("d", "1")]).await;
        assert_eq!(done.is_ok(), holds, "{text} {seen:?}: {done:?}");
    }
    // One that comes before in the same batch counts, and one that is gone does not.
    let seen = world.current().revision();
    write(&world, vec![put("p/e", "late")]).await;
    write(&world, vec![delete("p/e")]).await;
    let refused = write_if(&world, guard("late", seen), vec![put("d", "1")]).await;
    assert!(matches!(refused, Err(ProposalError::Guard { .. })), "{refused:?}");
    let seen = world.current().revision();
    let first = world.submit(Proposal { guards: Vec::new(), writes: vec![put("p/f", "soon")] });
    let second =
        world.submit(Proposal { guards: guard("soon", seen), writes: vec![put("d", "1")] });
    first.unwrap().await.unwrap();
    assert!(second.unwrap().await.is_err());
}

#[tokio::test]
async fn lock_step_indexes_see_a_batch_before_readers_do() {
    use std::sync::{Arc, Mutex};
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);
    impl tenure_world::LockStep for Seen {
        fn start(&mut self, world: &tenure_world::World) {
            self.0.lock().unwrap().push(format!("start {}", world.len()));
        }
        fn apply(&mut self, world: &tenure_world::World, changes: &[Arc<tenure_world::Change>]) {
            let lines: Vec<_> = changes.iter().map(|c| line(c)).collect();
            self.0.lock().unwrap().push(format!("{} {}", world.revision(), lines.join(" ")));
        }
    }
    let log = TestLog::default();
    let world = log.open();
    write(&world, vec![put("a", "1")]).await;
    world.stop().await.unwrap();
    let seen = Seen::default();
    let world = log.open_with(WorldOptions {
        indexes: vec![Box::new(seen.clone())],
        ..WorldOptions::default()
    });
    write(&world, vec![put("b", "1"), delete("a")]).await;
    assert_eq!(*seen.0.lock().unwrap(), ["start 1", "2 2+b 2-a"]);
}
