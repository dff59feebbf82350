//! The gaps of upstream that spec/ownership.md lists, and what happens here instead.

use tenure_sim::fixture::check;

#[test]
fn g1_a_cluster_scoped_dependent_is_reported_though_its_owner_was_never_seen() {
    check("put Node/n uid=n owner=x:ConfigMap/x", "report Node/n n owner=x");
}

#[test]
fn g3_orphaning_ends_at_a_revision_at_which_nobody_refers_to_the_owner() {
    // The last write carries the guard: a dependent that is written later breaks it.
    use tenure_ownership::{
        DeletionPropagation, OwnershipIntent, OwnershipPrecondition, WriteAction,
    };
    let mut store = tenure_sim::store::SimulatedStore::new();
    let (intents, _) = crate::seeds::first_intents(&mut store, |store, thing| {
        store.write(thing("a", &[]));
        store.delete("a", DeletionPropagation::Orphan);
    });
    let [OwnershipIntent::Write(write)] = &intents[..] else { panic!("{intents:?}") };
    assert!(matches!(write.action, WriteAction::DropFinalizer(_)));
    let guarded = |g: &OwnershipPrecondition| matches!(g, OwnershipPrecondition::NoNewDependents { uid, .. } if &**uid == "a");
    assert!(write.guards.iter().any(guarded), "{:?}", write.guards);
}

#[test]
fn g6_an_object_in_another_namespace_does_not_hold_the_owner() {
    for foreign in [
        "put ConfigMap/f uid=f ns=other owner=a! finalizers=x/hold",
        "put ConfigMap/f uid=f ns=other owner=a! owner=u:Unheard/u",
    ] {
        let text = format!(
            "put ConfigMap/a uid=a
             {foreign}
             delete a foreground
             act
             left"
        );
        let told = tenure_sim::fixture::play(&text);
        assert!(told.contains("finish ConfigMap/a a foregroundDeletion R104"), "{told}");
        let left = told.lines().last().unwrap_or_default();
        assert!(!left.contains("a*"), "{told}");
    }
}

#[test]
fn g7_a_self_reference_never_blocks_and_stays_solid() {
    check(
        "put ConfigMap/a uid=a owner=a:ConfigMap/a!
         left
         delete a foreground
         act
         left",
        "left a(a!)
         finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn g8_rings_deleted_in_the_foreground_at_the_same_time_drain() {
    check(
        "unsynced
         put ConfigMap/a uid=a owner=b:ConfigMap/b! deleting finalizers=foregroundDeletion
         put ConfigMap/b uid=b owner=a! deleting finalizers=foregroundDeletion
         synced
         act
         left",
        "unblock ConfigMap/a a owner=b R105
         finish ConfigMap/b b foregroundDeletion R104
         finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn g9_in_a_chain_every_owner_waits_for_what_blocks_it() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a!
         put ConfigMap/c uid=c owner=b!
         put ConfigMap/d uid=d owner=c! finalizers=x/hold
         delete c foreground
         act
         delete a foreground
         act
         left
         release d
         act
         left",
        "delete ConfigMap/d d background R92
         delete ConfigMap/b b foreground R91
         left a* b*(a!) c*(b!) d*(c!)
         finish ConfigMap/c c foregroundDeletion R104
         finish ConfigMap/b b foregroundDeletion R104
         finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn g9_a_diamond_is_no_ring() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a!
         put ConfigMap/c uid=c owner=b! owner=a!
         put ConfigMap/d uid=d owner=c! finalizers=x/hold
         delete a foreground
         act
         left",
        "delete ConfigMap/b b foreground R91
         drop ConfigMap/c c owner=a R90
         delete ConfigMap/c c foreground R91
         delete ConfigMap/d d background R92
         left a* b*(a!) c*(b!,a!) d*(c!)",
    );
}

#[test]
fn g10_both_finalizers_are_processed() {
    check(
        "put ConfigMap/a uid=a deleting finalizers=orphan,foregroundDeletion
         act
         left",
        "finish ConfigMap/a a orphan R115
         finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn g11_a_name_changed_in_place_is_examined() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/s uid=s
         put ConfigMap/b uid=b owner=a owner=s
         put ConfigMap/b uid=b owner=a:ConfigMap/x owner=s",
        "drop ConfigMap/b b owner=a R90",
    );
}

#[test]
fn g12_objects_of_a_type_that_went_are_forgotten_not_absent() {
    check(
        "per-resource
         put Bar/x uid=x
         put ConfigMap/b uid=b owner=x
         unserve example.com/v1 Bar
         serve example.com/v1 Bar
         answer x present",
        "ask Bar/x x in \"\"
         ask Bar/x x in \"\" again",
    );
}

#[test]
fn g13_orphaning_leaves_objects_in_other_namespaces_alone() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/s uid=s ns=other
         put ConfigMap/f uid=f ns=other owner=a owner=u:Unheard/u
         delete a orphan
         act
         left",
        "report ConfigMap/f f owner=a
         finish ConfigMap/a a orphan R115
         left f(a,u) s",
    );
}

#[test]
fn g14_a_dangling_or_waiting_reference_goes_although_another_is_unresolvable() {
    check(
        "put ConfigMap/s uid=s
         put ConfigMap/w uid=w
         put ConfigMap/b uid=b owner=s owner=gone:ConfigMap/x owner=w! owner=u:Unheard/u
         delete w foreground
         act
         left",
        "drop ConfigMap/b b owner=gone R90
         drop ConfigMap/b b owner=gone,w R90
         finish ConfigMap/w w foregroundDeletion R104
         left b(s,u) s",
    );
}

#[test]
fn n1_a_dependent_created_under_a_waiting_owner_is_examined_at_once() {
    check(
        "put ConfigMap/a uid=a deleting finalizers=foregroundDeletion,x/hold
         put ConfigMap/b uid=b owner=a!",
        "finish ConfigMap/a a foregroundDeletion R104
         delete ConfigMap/b b background R92",
    );
}

#[test]
fn n2_an_object_that_names_a_kind_removed_moments_ago_is_kept() {
    check(
        "unserve example.com/v1 Bar
         put ConfigMap/b uid=b owner=x:Bar/x",
        "",
    );
    // Where the table of types lags, the answer says that the kind is not served.
    check(
        "per-resource
         put ConfigMap/b uid=b owner=x:Bar/x
         answer x unresolvable
         left",
        "ask Bar/x x in \"\"
         ask Bar/x x in \"\" again
         left b(x)",
    );
}
