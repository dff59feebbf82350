//! Rules of spec/ownership.md, section 2: namespaces and what is reported.

use tenure_sim::fixture::check;

#[test]
fn r13_an_owner_is_looked_up_in_the_dependents_namespace_only() {
    check(
        "put ConfigMap/a uid=a ns=x
         put ConfigMap/b uid=b ns=y owner=a",
        "report ConfigMap/b b owner=a
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r14_a_cluster_scoped_owner_is_good_from_anywhere() {
    check(
        "put Node/n uid=n
         put ConfigMap/a uid=a ns=x owner=n
         put ConfigMap/b uid=b ns=y owner=n
         delete n background",
        "delete ConfigMap/a a background R92
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r15_cluster_scoped_objects_may_own_one_another() {
    check(
        "put Node/n uid=n
         put Bar/b uid=b owner=n!
         delete n foreground
         act
         left",
        "delete Bar/b b background R92
         finish Node/n n foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn r16_a_cluster_scoped_dependent_of_a_namespaced_kind_is_kept_for_ever() {
    check(
        "put ConfigMap/a uid=a
         put Node/n uid=n owner=a owner=gone:Node/x
         gone a",
        "report Node/n n owner=a",
    );
}

#[test]
fn r17_an_invalid_reference_never_harms_a_valid_dependent() {
    check(
        "put ConfigMap/a uid=a ns=x
         put ConfigMap/good uid=good ns=x owner=a
         put ConfigMap/bad uid=bad ns=y owner=a
         put ConfigMap/worse uid=worse ns=x owner=a:Pod/a
         act
         left",
        "report ConfigMap/bad bad owner=a
         delete ConfigMap/bad bad background R92
         delete ConfigMap/worse worse background R92
         left a good(a)",
    );
}

#[test]
fn r18_a_uid_that_nobody_has_is_just_dangling() {
    check("put ConfigMap/b uid=b owner=a", "delete ConfigMap/b b background R92");
}

#[test]
fn r19_the_dependent_first_is_reported_when_the_owner_appears() {
    check(
        "per-resource
         put ConfigMap/b uid=b ns=y owner=a:Pod/a
         put Pod/a uid=a ns=x",
        "ask Pod/a a in \"y\"
         report ConfigMap/b b owner=a
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r19_gaining_the_reference_is_reported() {
    check(
        "put ConfigMap/a uid=a ns=x
         put ConfigMap/b uid=b ns=y
         put ConfigMap/b uid=b ns=y owner=a",
        "report ConfigMap/b b owner=a
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r20_other_updates_do_not_report_again_and_every_reference_is_reported_once() {
    check(
        "put ConfigMap/a uid=a ns=x
         put ConfigMap/c uid=c ns=x
         put ConfigMap/b uid=b ns=y owner=a owner=c finalizers=x/hold
         put ConfigMap/b uid=b ns=y owner=a owner=c
         put ConfigMap/b uid=b ns=y owner=c owner=a",
        "report ConfigMap/b b owner=a
         report ConfigMap/b b owner=c
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn r21_what_an_earlier_process_reported_is_not_reported_again() {
    use tenure_core::Revision;
    use tenure_ownership::{ChangeOrder, OwnershipEngine, OwnershipIntent};
    use tenure_sim::store;
    let mut told = store::SimulatedStore::new();
    let (mut engine, mut out) = (OwnershipEngine::new(ChangeOrder::Total, 1), Vec::new());
    for row in 0..store::ROWS.len() {
        store::feed_type(&mut engine, row, true, 0, &mut out);
    }
    engine.already_reported("b", "a");
    told.write(crate::seeds::thing("a", &[]));
    let mut other = crate::seeds::thing("b", &["a"]);
    other.namespace = "elsewhere".into();
    told.write(other);
    for (revision, event) in &told.log {
        store::feed(&mut engine, *revision, event, &mut out);
    }
    engine.synced(Revision(9), &mut out);
    assert!(matches!(out[..], [OwnershipIntent::Write(_)]), "{out:?}");
}

#[test]
fn r22_the_report_does_not_change_the_decision() {
    check(
        "put ConfigMap/a uid=a ns=x
         put ConfigMap/s uid=s ns=y
         put ConfigMap/b uid=b ns=y owner=a owner=s
         act
         left",
        "report ConfigMap/b b owner=a
         drop ConfigMap/b b owner=a R90
         left a b(s) s",
    );
}
