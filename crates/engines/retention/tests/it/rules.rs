//! Rules of spec/retention.md, sections 4 to 9, one by one.

use tenure_core::Revision;
use tenure_retention::*;

use crate::words::*;

#[test]
fn r19_r20_r21_r25_holders_own_and_roots_and_pods_do_not() {
    let rows = [
        (UserKind::ReplicaSet, true),
        (UserKind::ReplicationController, true),
        (UserKind::ControllerRevision, true),
        (UserKind::Deployment, false),
        (UserKind::StatefulSet, false),
        (UserKind::DaemonSet, false),
        (UserKind::Pod, false),
    ];
    for (kind, owns) in rows {
        let mut desk = Desk::new();
        desk.subject("a", &[]);
        desk.user(kind, "u", &["a"]);
        let want: &[&str] = if owns { &["edit a +u"] } else { &[] };
        assert_eq!(desk.plan(), want, "{kind:?}");
    }
}

#[test]
fn r12_r14_one_entry_for_each_holder_and_none_across_namespaces() {
    let mut desk = Desk::new();
    desk.subject("a", &[]);
    desk.set("s", &["a", "a", "b"]);
    let references = [(SubjectKind::ConfigMap, "a"), (SubjectKind::Secret, "a")];
    let other = RetentionUser { kind: UserKind::ReplicaSet, name: "o", uid: "o", ..plain() };
    desk.engine.put_user("elsewhere", &RetentionUser { references: &references, ..other });
    assert_eq!(desk.plan(), ["edit a +s"]);
}

#[test]
fn r26_r39_every_holder_there_is_owns_a_subject_that_comes_later() {
    let mut desk = Desk::new();
    desk.set("old", &["a"]);
    desk.set("new", &["a"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.subject("a", &[]);
    assert_eq!(desk.plan(), ["edit a +new +old"]);
}

#[test]
fn r27_an_entry_names_its_holder_and_nothing_else() {
    let mut desk = Desk::new();
    desk.subject("a", &[]);
    desk.set("s", &["a"]);
    let intents = desk.intents();
    let [RetentionIntent::Edit { key: at, uid, revision, add, remove }] = &intents[..] else {
        panic!()
    };
    assert_eq!((at, &**uid, *revision), (&key("a"), "uid-a", Revision(1)));
    assert_eq!(
        add[..],
        [SubjectHolder { kind: UserKind::ReplicaSet, name: "s".into(), uid: "s".into() }]
    );
    assert_eq!((add[0].kind.api_version(), add[0].kind.as_str()), ("apps/v1", "ReplicaSet"));
    assert_eq!(UserKind::ReplicationController.api_version(), "v1");
    assert!(remove.is_empty());
}

#[test]
fn r29_foreign_entries_stay_and_count_as_owners() {
    let mut desk = Desk::new();
    desk.set("s", &[]);
    desk.set("t", &[]);
    desk.subject("a", &["!s", "!x", "t"]);
    assert_eq!(desk.plan(), ["edit a -t"]);
    desk.set("s", &["a"]);
    desk.subject("a", &["!s", "!x"]);
    assert_eq!(desk.plan(), Vec::<String>::new(), "it is an owner already");
}

#[test]
fn r31_adds_come_before_removals_and_pods_keep_what_they_use() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.set("t", &["a"]);
    desk.subject("a", &["s", "t"]);
    desk.subject("b", &[]);
    desk.pod("p", Some("s"), &["a"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.set("s", &["b"]);
    assert_eq!(desk.plan(), ["edit b +s"], "a pod of s uses a");
    desk.gone("p");
    assert_eq!(desk.plan(), ["edit b +s"], "not before b has it");
    let mut other = desk.clone();
    desk.subject("b", &["s"]);
    assert_eq!(desk.plan(), ["edit a -s"]);
    other.engine.gone_subject(NAMESPACE, SubjectKind::ConfigMap, "b", "uid-b");
    assert_eq!(other.plan(), ["edit a -s"], "nor when there is no b any more");
}

#[test]
fn r31_the_list_is_never_emptied() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.subject("a", &["s"]);
    desk.user(UserKind::Deployment, "d", &["a"]);
    desk.set("s", &[]);
    assert_eq!(desk.plan(), Vec::<String>::new(), "the root needs it");
    desk.user(UserKind::Deployment, "d", &[]);
    assert_eq!(desk.plan(), ["delete a"]);
    // The rest is dead: nothing but the collector's work is left.
    desk.subject("a", &["dead", "s"]);
    assert_eq!(desk.plan(), ["delete a"]);
    desk.subject("a", &["dead", "!person", "s"]);
    assert_eq!(desk.plan(), ["edit a -s"]);
}

#[test]
fn r33_r34_r37_r45_r49_dead_and_adopted_holders_lead_to_no_write() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.set("t", &["a"]);
    desk.subject("a", &["s", "t"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.gone("s");
    assert_eq!(desk.plan(), Vec::<String>::new(), "dead entries are the collector's");
    desk.subject("a", &["t"]);
    desk.set("t", &["a"]);
    assert!(desk.engine.touch_user(NAMESPACE, "t", false, None));
    assert_eq!(desk.plan(), Vec::<String>::new());
}

#[test]
fn r38_a_list_that_others_emptied_is_told_unless_somebody_owns_it_again() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.subject("a", &["s"]);
    desk.plan();
    desk.going("s", &["a"]);
    desk.subject("a", &[]);
    assert_eq!(desk.plan(), ["orphaned a"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.set("t", &["a"]);
    assert_eq!(desk.plan(), ["edit a +t"]);
    desk.subject("a", &["t"]);
    desk.subject("a", &[]);
    assert_eq!(desk.plan(), ["edit a +t"], "stripped by hand, added again");
}

#[test]
fn r41_r42_another_uid_is_another_subject() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.subject("a", &["s"]);
    desk.subject_as("a", &[], RetentionSubject { uid: "again", ..opted_in() });
    assert_eq!(desk.plan(), ["edit a +s"]);
    let (at, now) = (key("a"), desk.now);
    desk.engine.outcome(&at, "uid-a", IntentOutcome::Failed, now);
    assert_eq!(desk.plan(), ["edit a +s"], "news of the old one mean nothing");
    desk.subject_as("a", &[], RetentionSubject { uid: "out", opted_in: false, ..opted_in() });
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert_eq!(desk.engine.subjects_in(NAMESPACE), 0);
}

#[test]
fn r43_a_holder_of_the_same_name_is_another_holder() {
    let mut desk = Desk::new();
    desk.set("s", &["a"]);
    desk.subject("a", &["s"]);
    desk.gone("s");
    let references = [(SubjectKind::ConfigMap, "a")];
    let again = RetentionUser { kind: UserKind::ReplicaSet, name: "s", uid: "s2", ..plain() };
    desk.engine.put_user(NAMESPACE, &RetentionUser { references: &references, ..again });
    assert_eq!(desk.plan(), ["edit a +s2"]);
}

#[test]
fn r46_r47_what_is_going_is_neither_written_nor_added() {
    let mut desk = Desk::new();
    desk.subject_as("a", &[], RetentionSubject { uid: "uid-a", terminating: true, ..opted_in() });
    desk.set("s", &["a", "b"]);
    desk.going("t", &["b"]);
    desk.subject("b", &["t"]);
    assert_eq!(desk.plan(), ["edit b +s"]);
    desk.going("t", &[]);
    desk.subject("b", &["s", "t"]);
    assert_eq!(desk.plan(), Vec::<String>::new(), "its entry stays until it is gone");
}

#[test]
fn r16_what_only_pulls_images_keeps_an_owner_and_makes_none() {
    let mut desk = Desk::new();
    let pull = [(SubjectKind::ConfigMap, "a")];
    let pod = RetentionUser { controller: Some("s"), pulls: &pull, ..plain() };
    desk.set("s", &[]);
    desk.subject("a", &[]);
    desk.user_as(UserKind::Pod, "p", &["a"], pod);
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert!(matches!(desk.ask("a"), CollectionVerdict::Hold { count: 1, .. }));
    desk.subject("a", &["s", "!x"]);
    assert_eq!(desk.plan(), Vec::<String>::new(), "its pod still pulls with it");
    desk.gone("p");
    assert_eq!(desk.plan(), ["edit a -s", "release uid-a"]);
}

#[test]
fn r50_r51_r52_who_holds_and_who_does_not() {
    let rows: [(UserKind, bool, bool); 9] = [
        (UserKind::ReplicaSet, false, true),
        (UserKind::ReplicaSet, true, false),
        (UserKind::ControllerRevision, false, true),
        (UserKind::ReplicationController, false, true),
        (UserKind::Deployment, false, true),
        (UserKind::Deployment, true, false),
        (UserKind::StatefulSet, false, true),
        (UserKind::DaemonSet, false, true),
        (UserKind::Pod, true, true),
    ];
    for (kind, terminating, holds) in rows {
        let mut desk = Desk::new();
        desk.subject("a", &["dead"]);
        desk.user_as(kind, "u", &["a"], RetentionUser { terminating, ..plain() });
        assert_eq!(desk.ask("a") != CollectionVerdict::Clear, holds, "{kind:?} {terminating}");
    }
    let mut desk = Desk::new();
    assert_ne!(desk.ask("a"), CollectionVerdict::Clear, "who is not known is not collected");
    desk.subject("a", &["dead"]);
    assert_eq!(desk.ask("a"), CollectionVerdict::Clear);
}

#[test]
fn r50_a_denial_is_told_once_in_ten_minutes_and_names_three() {
    let mut desk = Desk::new();
    desk.subject("a", &["dead"]);
    for pod in ["p4", "p2", "p3", "p1"] {
        desk.pod(pod, None, &["a"]);
    }
    desk.ask("a");
    assert_eq!(desk.plan(), Vec::<String>::new(), "most are over at once");
    assert_eq!(desk.engine.due(), Some(desk.now + 1000));
    assert!(desk.engine.is_idle());
    desk.now += 1000;
    assert_eq!(desk.plan(), ["held a by 4: p1 p2 p3"]);
    desk.now += 599_000;
    desk.ask("a");
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.now += 1000;
    desk.ask("a");
    assert_eq!(desk.plan(), ["held a by 4: p1 p2 p3"]);
}

#[test]
fn r57_a_denied_collection_is_released_when_the_last_use_ends() {
    let mut desk = Desk::new();
    desk.subject("a", &["dead"]);
    desk.pod("p", None, &["a"]);
    desk.pod("q", None, &["a"]);
    assert!(matches!(desk.ask("a"), CollectionVerdict::Hold { count: 2, .. }));
    desk.gone("p");
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.gone("q");
    assert_eq!(desk.plan(), ["release uid-a"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert_eq!(desk.ask("a"), CollectionVerdict::Clear);
}

#[test]
fn r54_a_denial_repairs_a_missing_entry() {
    let mut desk = Desk::new();
    desk.subject("a", &["dead"]);
    desk.set("s", &["a"]);
    assert!(matches!(desk.ask("a"), CollectionVerdict::Hold { .. }));
    assert_eq!(desk.plan(), ["edit a +s"]);
}

#[test]
fn r58_without_a_guard_the_owner_list_decides_alone() {
    let mut desk = Desk::with(RetentionEngineSettings {
        guarded: false,
        ..RetentionEngineSettings::default()
    });
    desk.subject("a", &["dead"]);
    desk.pod("p", None, &["a"]);
    assert_eq!(desk.ask("a"), CollectionVerdict::Clear);
}

#[test]
fn r62_owner_lists_that_grow_past_a_mark_are_told_once() {
    let mut desk = Desk::new();
    let uids: Vec<String> = (0..1200).map(|number| format!("!f{number}")).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    desk.subject("a", &uids[..99]);
    desk.subject("a", &uids[..100]);
    desk.subject("a", &uids[..150]);
    assert_eq!(desk.plan(), ["many a 100"]);
    desk.subject("a", &uids);
    assert_eq!(desk.plan(), ["many a 1000"]);
    desk.subject("b", &uids);
    assert_eq!(desk.plan(), Vec::<String>::new(), "so it was found");
}

#[test]
fn r63_r66_a_full_list_takes_no_more_and_says_so_once() {
    let mut desk = Desk::with(RetentionEngineSettings {
        entries_max: 2,
        ..RetentionEngineSettings::default()
    });
    desk.subject("a", &[]);
    for uid in ["s1", "s2", "s3", "s4"] {
        desk.set(uid, &["a"]);
    }
    assert_eq!(desk.plan(), ["full a 2", "edit a +s1 +s2"]);
    desk.subject("a", &["s1", "s2"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.gone("s1");
    assert_eq!(desk.plan(), ["edit a +s3"], "the dead take no room");
    desk.subject("a", &["s2", "s3"]);
    desk.gone("s2");
    desk.gone("s3");
    assert_eq!(desk.plan(), ["edit a +s4"]);
}

#[test]
fn r65_what_moved_is_decided_anew_and_what_failed_later() {
    let mut desk = Desk::new();
    desk.subject("a", &[]);
    desk.set("s", &["a"]);
    let mut out = Vec::new();
    desk.engine.plan(desk.now, &mut out);
    assert_eq!(out.len(), 1);
    desk.set("t", &["a"]);
    assert_eq!(desk.plan(), Vec::<String>::new(), "one is under way");
    desk.engine.outcome(&key("a"), "uid-a", IntentOutcome::Failed, desk.now);
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.now = desk.engine.due().unwrap();
    assert_eq!(desk.plan(), ["edit a +s +t"]);
}

#[test]
fn r67_edits_of_one_subject_are_a_second_apart_and_carry_all() {
    let mut desk = Desk::new();
    desk.subject("a", &[]);
    desk.set("s", &["a"]);
    let mut out = Vec::new();
    desk.engine.plan(desk.now, &mut out);
    desk.engine.outcome(&key("a"), "uid-a", IntentOutcome::Applied(Revision(2)), desk.now);
    desk.revision = 1;
    desk.subject("a", &["s"]);
    desk.set("t", &["a"]);
    desk.set("u", &["a"]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert!(!desk.engine.is_idle());
    desk.now += 999;
    assert_eq!(desk.plan(), Vec::<String>::new());
    desk.now += 1;
    assert_eq!(desk.engine.due(), Some(desk.now));
    assert_eq!(desk.plan(), ["edit a +t +u"]);
}

#[test]
fn r68_what_was_told_twice_leads_to_nothing() {
    let mut desk = Desk::new();
    for _ in 0..2 {
        desk.set("s", &["a"]);
        desk.pod("p", Some("s"), &["a", "b"]);
        desk.subject("a", &["s"]);
        assert_eq!(desk.plan(), Vec::<String>::new());
    }
    desk.gone("nobody");
    desk.engine.gone_subject(NAMESPACE, SubjectKind::ConfigMap, "nothing", "u");
    assert_eq!(desk.plan(), Vec::<String>::new());
}

#[test]
fn r70_r72_a_drain_takes_what_was_added_and_nothing_else() {
    let mut desk = Desk::with(RetentionEngineSettings {
        draining: true,
        ..RetentionEngineSettings::default()
    });
    desk.subject("a", &["s", "!f", "dead"]);
    desk.subject("b", &["s"]);
    desk.subject("c", &["!f"]);
    desk.set("s", &["a", "b", "c"]);
    assert_ne!(desk.ask("b"), CollectionVerdict::Clear, "not while an entry is left");
    assert_eq!(desk.plan(), ["edit a -s -dead", "edit b -s"]);
    desk.subject("b", &[]);
    assert_eq!(desk.ask("c"), CollectionVerdict::Clear, "others' owners are the collector's");
    assert!(desk.plan().iter().all(|said| !said.starts_with("orphaned")));
}
