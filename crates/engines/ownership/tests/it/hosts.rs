//! Rules of spec/ownership.md, sections 10 to 12: races, types, retries and conflicts.

use tenure_sim::fixture::check;

#[test]
fn r120_r121_a_dependent_before_its_owner_is_kept() {
    check(
        "per-resource
         put Pod/p uid=p owner=r:ReplicaSet/r
         answer r present
         put ReplicaSet/r uid=r
         left",
        "ask ReplicaSet/r r in \"default\"
         ask ReplicaSet/r r in \"default\" again
         left p(r) r",
    );
}

#[test]
fn r122_an_owner_gone_before_the_dependent_is_observed_is_found_absent() {
    check(
        "per-resource
         put Pod/p uid=p owner=r:ReplicaSet/r
         put Pod/q uid=q owner=r:ReplicaSet/r
         answer r absent",
        "ask ReplicaSet/r r in \"default\"
         delete Pod/p p background R92
         delete Pod/q q background R92",
    );
}

#[test]
fn r123_an_unseen_owner_is_asked_for_until_it_is_absent() {
    check(
        "per-resource
         put Pod/p uid=p owner=r:ReplicaSet/r
         answer r present
         answer r failed
         answer r absent",
        "ask ReplicaSet/r r in \"default\"
         ask ReplicaSet/r r in \"default\" again
         ask ReplicaSet/r r in \"default\" again
         delete Pod/p p background R92",
    );
}

#[test]
fn r124_each_of_two_coordinates_of_one_uid_is_verified() {
    check(
        "per-resource
         put Pod/p uid=p owner=u:ReplicaSet/r
         put Pod/q uid=q owner=u:Deployment/d
         answer u absent
         answer u present",
        "ask ReplicaSet/r u in \"default\"
         ask Deployment/d u in \"default\"
         delete Pod/p p background R92
         ask Deployment/d u in \"default\" again",
    );
}

#[test]
fn r125_only_the_dependent_that_disagrees_is_classified_anew() {
    check(
        "put Deployment/d uid=d
         put ConfigMap/good uid=good owner=d
         put ConfigMap/other uid=other owner=d:apps/v1beta1:Deployment/d
         put ConfigMap/name uid=name owner=d:Deployment/e
         put ConfigMap/kind uid=kind owner=d:Unheard/d",
        "delete ConfigMap/name name background R92",
    );
}

#[test]
fn r126_absence_of_other_coordinates_does_not_touch_the_observed_owner() {
    check(
        "per-resource
         put ReplicaSet/r uid=r
         put Pod/good uid=good owner=r
         put Pod/bad uid=bad owner=r:Deployment/r
         answer r absent
         act
         left",
        "ask Deployment/r r in \"default\"
         delete Pod/bad bad background R92
         left bad*(r) good(r) r",
    );
}

#[test]
fn r127_an_answer_that_nobody_waits_for_is_dropped() {
    check(
        "per-resource
         put Pod/p uid=p owner=r:ReplicaSet/r
         put ReplicaSet/r uid=r
         answer r absent",
        "ask ReplicaSet/r r in \"default\"",
    );
}

#[test]
fn r128_references_that_change_meanwhile_save_the_object() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/s uid=s
         put ConfigMap/b uid=b owner=a
         gone a
         put ConfigMap/b uid=b owner=a owner=s
         act
         left",
        "delete ConfigMap/b b background R92
         drop ConfigMap/b b owner=a R90
         left b(s) s",
    );
}

#[test]
fn r129_an_unnoticed_removal_shows_when_the_name_is_taken_again() {
    check(
        "per-resource
         put ReplicaSet/r uid=r1
         put Pod/p uid=p owner=r1
         put ReplicaSet/r uid=r2",
        "delete Pod/p p background R92",
    );
}

#[test]
fn r130_an_update_without_a_creation_counts_with_its_deletion() {
    check(
        "per-resource
         put ReplicaSet/r uid=r deleting finalizers=foregroundDeletion
         put Pod/p uid=p owner=r!",
        "finish ReplicaSet/r r foregroundDeletion R104
         delete Pod/p p background R92",
    );
}

#[test]
fn r131_an_owner_that_cannot_be_observed_keeps_its_dependents_while_it_is_read() {
    check(
        "per-resource
         put Pod/p uid=p owner=g:Gauge/g
         answer g present
         answer g present
         answer g absent",
        "ask Gauge/g g in \"default\"
         ask Gauge/g g in \"default\" again
         ask Gauge/g g in \"default\" again
         delete Pod/p p background R92",
    );
}

#[test]
fn r132_a_reference_changed_in_place_is_classified_anew() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a
         put ConfigMap/b uid=b owner=a:ConfigMap/other",
        "delete ConfigMap/b b background R92",
    );
}

#[test]
fn r134_kinds_that_cannot_be_collected_are_never_deleted_but_may_own() {
    check(
        "put Gauge/g uid=g owner=gone:ConfigMap/x
         put ConfigMap/b uid=b owner=g
         gone g",
        "delete ConfigMap/b b background R92",
    );
}

#[test]
fn r135_a_new_kind_is_collected_from_its_revision_on() {
    check(
        "unserve example.com/v1 Bar
         put Bar/b uid=b owner=n:Node/n
         serve example.com/v1 Bar",
        "delete Bar/b b background R92",
    );
}

#[test]
fn r138_blocking_by_a_kind_out_of_service_is_best_effort() {
    check(
        "put Node/n uid=n
         put Bar/b uid=b owner=n! finalizers=x/hold
         delete n foreground
         unserve example.com/v1 Bar
         act",
        "delete Bar/b b background R92
         finish Node/n n foregroundDeletion R104",
    );
}

#[test]
fn r139_nothing_is_wanted_before_everything_was_seen() {
    check(
        "unsynced
         put ConfigMap/b uid=b owner=a:ConfigMap/a
         put ConfigMap/c uid=c owner=gone:ConfigMap/x
         put ConfigMap/a uid=a
         left
         synced",
        "left a b(a) c(gone)
         delete ConfigMap/c c background R92",
    );
}

#[test]
fn r140_an_unknown_kind_is_waited_for() {
    check(
        "unserve example.com/v1 Bar
         put ConfigMap/b uid=b owner=x:Bar/x
         left
         serve example.com/v1 Bar",
        "left b(x)
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r141_dependents_go_when_the_owners_deletion_was_seen_before_its_type_went() {
    check(
        "put Bar/x uid=x
         put ConfigMap/b uid=b owner=x
         gone x
         act
         unserve example.com/v1 Bar
         put ConfigMap/c uid=c owner=x
         left",
        "delete ConfigMap/b b background R92
         left c(x)",
    );
}

#[test]
fn r142_r144_what_failed_is_tried_again_when_the_host_says_so() {
    check(
        "put ConfigMap/b uid=b owner=gone:ConfigMap/x
         failed b
         put ConfigMap/b uid=b owner=gone:ConfigMap/x
         retry b
         denied b
         retry b",
        "delete ConfigMap/b b background R92
         delete ConfigMap/b b background R92
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r143_what_is_gone_is_not_tried_again() {
    check(
        "per-resource
         put ConfigMap/b uid=b owner=gone:ConfigMap/x
         answer gone absent
         notfound b
         retry b",
        "ask ConfigMap/x gone in \"default\"
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r145_a_finalizer_that_went_by_itself_is_success() {
    check(
        "put ConfigMap/a uid=a finalizers=x/hold
         delete a foreground
         put ConfigMap/a uid=a deleting finalizers=x/hold
         applied a",
        "finish ConfigMap/a a foregroundDeletion R104",
    );
}

#[test]
fn r146_a_conflict_with_the_same_references_repeats_by_uid_and_with_others_decides_anew() {
    check(
        "per-resource
         put ConfigMap/s uid=s
         put ConfigMap/b uid=b owner=gone:ConfigMap/x
         answer gone absent
         conflict b
         put ConfigMap/b uid=b owner=s
         left",
        "ask ConfigMap/x gone in \"default\"
         delete ConfigMap/b b background R92
         delete ConfigMap/b b background by uid R92
         left b(s) s",
    );
}

#[test]
fn r147_two_references_with_one_uid_are_told_apart() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a owner=a:Pod/a
         act
         left",
        "drop ConfigMap/b b owner=a R90
         left a b(a)",
    );
}

#[test]
fn an_outcome_may_come_before_or_after_its_change() {
    check(
        "put ConfigMap/b uid=b owner=gone:ConfigMap/x finalizers=x/hold
         applied b
         retry b
         put ConfigMap/b uid=b owner=gone:ConfigMap/x finalizers=x/hold deleting",
        "delete ConfigMap/b b background R92",
    );
    check(
        "put ConfigMap/b uid=b owner=gone:ConfigMap/x finalizers=x/hold
         put ConfigMap/b uid=b owner=gone:ConfigMap/x finalizers=x/hold deleting
         applied b
         retry b",
        "delete ConfigMap/b b background R92",
    );
}

#[test]
fn an_echo_of_an_older_object_under_the_name_is_ignored() {
    use tenure_core::Revision;
    use tenure_sim::store::{self, SimulatedStore, StoreEvent};
    let mut store = SimulatedStore::new();
    let mut old = crate::seeds::thing("old", &[]);
    old.name = "a".into();
    store.write(old);
    store.delete("old", tenure_ownership::DeletionPropagation::Background);
    let mut new = crate::seeds::thing("new", &[]);
    new.name = "a".into();
    store.write(new);
    let mut out = Vec::new();
    let mut engine = crate::seeds::engine(&store, &mut out);
    let echo: Vec<(u64, StoreEvent)> = store.log.iter().take(1).cloned().collect();
    store::feed(&mut engine, echo[0].0, &echo[0].1, &mut out);
    assert!(engine.explain("old").is_none() && engine.explain("new").is_some());
    assert_eq!(engine.revision(), Revision(store.revision));
}
