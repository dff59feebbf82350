//! Rules of spec/ownership.md, section 8: foreground.

use tenure_sim::fixture::{check, play};

#[test]
fn r102_a_waiting_owner_without_dependents_is_finished() {
    check(
        "put ConfigMap/a uid=a
         delete a foreground
         act
         left",
        "finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn r103_every_dependent_is_examined_at_once_and_leaves_go_first() {
    check(
        "put Deployment/d uid=d
         put ReplicaSet/r uid=r owner=d!
         put ConfigMap/x uid=x owner=d
         put ConfigMap/p uid=p owner=r!
         delete d foreground
         act
         left",
        "delete ReplicaSet/r r foreground R91
         delete ConfigMap/x x background R92
         delete ConfigMap/p p background R92
         finish ReplicaSet/r r foregroundDeletion R104
         finish Deployment/d d foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn r104_a_terminating_blocking_dependent_holds_the_owner_and_others_do_not() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a! finalizers=x/hold
         put ConfigMap/c uid=c owner=a finalizers=x/hold
         delete a foreground
         act
         left
         release b
         act
         left",
        "delete ConfigMap/b b background R92
         delete ConfigMap/c c background R92
         left a* b*(a!) c*(a)
         finish ConfigMap/a a foregroundDeletion R104
         left c*(a)",
    );
}

#[test]
fn r105_a_ring_of_three_drains() {
    check(
        "put ConfigMap/a uid=a owner=c:ConfigMap/c!
         put ConfigMap/b uid=b owner=a!
         put ConfigMap/c uid=c owner=b!
         delete a foreground
         act
         left",
        "delete ConfigMap/a a background R92
         delete ConfigMap/b b foreground R91
         delete ConfigMap/c c foreground R91
         unblock ConfigMap/a a owner=c R105
         finish ConfigMap/c c foregroundDeletion R104
         finish ConfigMap/b b foregroundDeletion R104
         finish ConfigMap/a a foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn r106_a_dependent_with_another_solid_owner_survives() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/s uid=s
         put ConfigMap/b uid=b owner=a! owner=s!
         delete a foreground
         act
         left",
        "drop ConfigMap/b b owner=a R90
         finish ConfigMap/a a foregroundDeletion R104
         left b(s!) s",
    );
}

#[test]
fn r107_an_unblocked_owner_is_examined_at_once() {
    for end in [
        "put ConfigMap/b uid=b owner=a deleting finalizers=x/hold",
        "put ConfigMap/b uid=b deleting finalizers=x/hold",
    ] {
        let text = format!(
            "put ConfigMap/a uid=a
             put ConfigMap/b uid=b owner=a! deleting finalizers=x/hold
             delete a foreground
             {end}"
        );
        assert_eq!(play(&text), "finish ConfigMap/a a foregroundDeletion R104");
    }
}

#[test]
fn r108_other_finalizers_of_the_owner_do_not_delay_dependents() {
    check(
        "put ConfigMap/a uid=a finalizers=x/hold
         put ConfigMap/b uid=b owner=a!
         delete a foreground
         act
         left",
        "delete ConfigMap/b b background R92
         finish ConfigMap/a a foregroundDeletion R104
         left a*",
    );
}

#[test]
fn r109_the_finalizer_goes_at_the_owners_revision_and_others_stay() {
    use tenure_ownership::{OwnershipIntent, OwnershipPrecondition};
    let mut up = tenure_sim::store::SimulatedStore::new();
    let (intents, revision) = crate::seeds::first_intents(&mut up, |store, thing| {
        store.write(thing("a", &[]));
        store.delete("a", tenure_ownership::DeletionPropagation::Foreground);
    });
    let [OwnershipIntent::Write(write)] = &intents[..] else { panic!("{intents:?}") };
    assert_eq!(write.revision.map(|r| r.0), Some(revision));
    assert!(
        matches!(&write.guards[..], [OwnershipPrecondition::NoNewDependents { since, .. }] if since.0 == revision)
    );
}

#[test]
fn r110_a_second_foreground_delete_is_processed_again() {
    check(
        "put ConfigMap/a uid=a finalizers=x/hold
         delete a foreground
         act
         delete a foreground
         act
         left",
        "finish ConfigMap/a a foregroundDeletion R104
         finish ConfigMap/a a foregroundDeletion R104
         left a*",
    );
}

#[test]
fn r111_the_finalizer_on_a_living_object_is_inert() {
    check(
        "put ConfigMap/a uid=a finalizers=foregroundDeletion
         put ConfigMap/b uid=b owner=a!",
        "",
    );
}

#[test]
fn r80_a_dependent_of_a_waiting_owner_is_collected_with_the_rest() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a! finalizers=x/hold
         delete a foreground
         act
         put ConfigMap/c uid=c owner=a!
         act
         left",
        "delete ConfigMap/b b background R92
         delete ConfigMap/c c background R92
         left a* b*(a!)",
    );
}

#[test]
fn r169_along_blocking_edges_no_owner_goes_before_its_dependent() {
    let text = "put Deployment/d uid=d
         put ReplicaSet/r uid=r owner=d!
         put Pod/p uid=p owner=r!
         delete d foreground
         act
         left
         release p
         act
         left";
    check(
        text,
        "delete ReplicaSet/r r foreground R91
         delete Pod/p p background R92
         left d* p*(r!) r*(d!)
         finish ReplicaSet/r r foregroundDeletion R104
         finish Deployment/d d foregroundDeletion R104
         left nothing",
    );
}

#[test]
fn r77_a_preset_finalizer_is_honoured_by_the_collector() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a finalizers=orphan
         put ConfigMap/c uid=c owner=b
         delete a background
         act
         left",
        "delete ConfigMap/b b orphan R92
         drop ConfigMap/c c owner=b R114
         finish ConfigMap/b b orphan R115
         left c",
    );
}
