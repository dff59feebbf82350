//! Rules of spec/ownership.md, sections 6 and 7: verification, classification, background.

use tenure_sim::fixture::check;

#[test]
fn r81_objects_without_references_are_never_candidates() {
    check(
        "put Pod/a uid=a
         put Pod/b uid=b owner=a
         put Pod/c uid=c
         gone a
         act
         left",
        "delete Pod/b b background R92
         left b*(a) c",
    );
}

#[test]
fn r82_a_terminating_object_is_left_alone() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a deleting finalizers=x/hold
         gone a",
        "",
    );
}

#[test]
fn r83_the_decision_uses_the_newest_references() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/c uid=c
         put ConfigMap/b uid=b owner=a
         gone a
         put ConfigMap/b uid=b owner=c
         applied b",
        "delete ConfigMap/b b background R92",
    );
}

#[test]
fn r84_a_name_taken_by_another_uid_is_absence() {
    check(
        "put ConfigMap/a uid=a2
         put ConfigMap/b uid=b owner=a1:ConfigMap/a",
        "delete ConfigMap/b b background R92",
    );
}

#[test]
fn r85_a_wrong_coordinate_does_not_speak_for_the_right_one() {
    check(
        "per-resource
         put ConfigMap/bad uid=bad owner=a:Pod/x
         put ConfigMap/good uid=good owner=a:ConfigMap/x
         answer a absent
         answer a present",
        "ask Pod/x a in \"default\"
         ask ConfigMap/x a in \"default\"
         delete ConfigMap/bad bad background R92
         ask ConfigMap/x a in \"default\" again",
    );
}

#[test]
fn r86_an_unresolvable_reference_forbids_deletion() {
    check("put ConfigMap/b uid=b owner=gone:ConfigMap/a owner=x:Unheard/x", "");
}

#[test]
fn r87_a_recreated_owner_owns_nothing_of_before() {
    check(
        "put ConfigMap/a uid=a1
         put ConfigMap/b uid=b owner=a1
         gone a1
         put ConfigMap/a uid=a2
         act
         left",
        "delete ConfigMap/b b background R92
         left a2",
    );
}

#[test]
fn r88_any_served_version_of_the_kind_is_good() {
    check(
        "put Deployment/d uid=d
         put ConfigMap/old uid=old owner=d:apps/v1beta1:Deployment/d
         put ConfigMap/new uid=new owner=d:apps/v1:Deployment/d
         unserve apps/v1beta1 Deployment
         gone d
         act
         left",
        "delete ConfigMap/new new background R92
         left old(d)",
    );
}

#[test]
fn r89_solid_owners_want_nothing() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a!",
        "",
    );
}

#[test]
fn r90_beside_a_solid_owner_dangling_and_waiting_references_go_in_one_write() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/w uid=w
         put ConfigMap/g uid=g
         put ConfigMap/b uid=b owner=a owner=w! owner=g
         delete w foreground
         gone g
         act
         left",
        "drop ConfigMap/b b owner=w R90
         drop ConfigMap/b b owner=g,w R90
         finish ConfigMap/w w foregroundDeletion R104
         left a b(a)",
    );
}

#[test]
fn r91_with_a_waiting_owner_and_dependents_the_object_goes_in_the_foreground() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a! finalizers=orphan
         put ConfigMap/c uid=c owner=b!
         delete a foreground",
        "delete ConfigMap/b b foreground R91",
    );
}

#[test]
fn r92_otherwise_its_own_finalizers_choose_the_policy() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a finalizers=orphan
         put ConfigMap/c uid=c owner=a finalizers=foregroundDeletion
         put ConfigMap/d uid=d owner=a finalizers=x/hold
         gone a",
        "delete ConfigMap/b b orphan R92
         delete ConfigMap/c c foreground R92
         delete ConfigMap/d d background R92",
    );
}

#[test]
fn r93_r94_an_object_whose_last_reference_went_is_independent() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a
         put ConfigMap/b uid=b
         gone a",
        "",
    );
}

#[test]
fn r95_what_is_dropped_is_told_in_full() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a:ConfigMap/a! owner=a:ConfigMap/wrong
         act
         left",
        "drop ConfigMap/b b owner=a R90
         left a b(a!)",
    );
}

#[test]
fn r96_controller_plays_no_role() {
    use tenure_core::Revision;
    use tenure_ownership::{
        ChangeOrder, Finalizers, Object, OwnerView, OwnershipEngine, OwnershipIntent,
    };
    for controller in [false, true] {
        let mut engine = OwnershipEngine::new(ChangeOrder::Total, 1);
        let mut out = Vec::new();
        tenure_sim::store::feed_type(&mut engine, 0, true, 1, &mut out);
        engine.synced(Revision(1), &mut out);
        let owner = OwnerView {
            api_version: "v1",
            kind: "ConfigMap",
            name: "a",
            uid: "a",
            controller,
            block: true,
        };
        let resource = engine.resource("", "configmaps");
        let object = Object {
            resource,
            namespace: "default",
            name: "b",
            uid: "b",
            revision: Revision(2),
            terminating: false,
            finalizers: Finalizers::default(),
            owners: &[owner],
        };
        engine.put(&object, &mut out);
        assert!(matches!(out[..], [OwnershipIntent::Write(_)]), "{out:?}");
    }
}

#[test]
fn r97_a_collected_pod_keeps_its_own_grace() {
    check(
        "put ConfigMap/a uid=a
         put Pod/p uid=p owner=a
         gone a
         act
         left
         release p
         left",
        "delete Pod/p p background R92
         left p*(a)
         left nothing",
    );
}

#[test]
fn r98_a_solid_owner_keeps_its_dependent_whatever_befalls_the_others() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b
         put ConfigMap/c uid=c owner=a! owner=b!
         delete b foreground
         act
         left",
        "drop ConfigMap/c c owner=b R90
         finish ConfigMap/b b foregroundDeletion R104
         left a c(a!)",
    );
}

#[test]
fn r99_background_goes_to_any_depth() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a
         put ConfigMap/c uid=c owner=b
         put ConfigMap/d uid=d owner=c
         delete a background
         act
         left",
        "delete ConfigMap/b b background R92
         delete ConfigMap/c c background R92
         delete ConfigMap/d d background R92
         left nothing",
    );
}

#[test]
fn r100_an_owner_held_by_finalizers_is_still_solid() {
    check(
        "put ConfigMap/a uid=a finalizers=x/hold
         put ConfigMap/b uid=b owner=a
         delete a background
         left
         release a
         act
         left",
        "left a* b(a)
         delete ConfigMap/b b background R92
         left nothing",
    );
}

#[test]
fn r101_a_ring_is_not_garbage_until_one_of_it_goes() {
    check(
        "put ConfigMap/a uid=a owner=b:ConfigMap/b
         put ConfigMap/b uid=b owner=a
         put ConfigMap/a uid=a owner=b
         left
         delete a background
         act
         left",
        "delete ConfigMap/a a background R92
         left a(b) b(a)
         delete ConfigMap/b b background R92
         left nothing",
    );
}
