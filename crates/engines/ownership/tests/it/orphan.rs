//! Rules of spec/ownership.md, section 9: orphan.

use tenure_sim::fixture::check;

#[test]
fn r113_r114_r116_dependents_lose_the_reference_and_keep_the_others() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/s uid=s
         put ConfigMap/b uid=b owner=a owner=s
         put ConfigMap/c uid=c owner=a!
         put ConfigMap/d uid=d owner=c
         delete a orphan
         act
         left",
        "drop ConfigMap/b b owner=a R114
         drop ConfigMap/c c owner=a R114
         finish ConfigMap/a a orphan R115
         left b(s) c d(c) s",
    );
}

#[test]
fn r115_the_finalizer_stays_until_every_reference_is_gone() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a
         delete a orphan
         failed b
         left
         retry b
         act
         left",
        "drop ConfigMap/b b owner=a R114
         left a* b(a)
         drop ConfigMap/b b owner=a R114
         finish ConfigMap/a a orphan R115
         left b",
    );
}

#[test]
fn r117_an_orphaning_owner_is_solid() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/w uid=w
         put ConfigMap/b uid=b owner=a owner=w!
         put ConfigMap/a uid=a deleting finalizers=orphan
         delete w foreground
         act
         left",
        "drop ConfigMap/b b owner=a R114
         drop ConfigMap/b b owner=a,w R114
         finish ConfigMap/a a orphan R115
         finish ConfigMap/w w foregroundDeletion R104
         left b",
    );
}

#[test]
fn r118_a_dependent_that_came_during_orphaning_is_orphaned_too() {
    check(
        "put ConfigMap/a uid=a
         put ConfigMap/b uid=b owner=a
         delete a orphan
         put ConfigMap/c uid=c owner=a
         act
         left",
        "drop ConfigMap/b b owner=a R114
         drop ConfigMap/c c owner=a R114
         finish ConfigMap/a a orphan R115
         left b c",
    );
}

#[test]
fn r119_with_both_finalizers_orphan_is_first_and_the_other_follows() {
    check(
        "put ConfigMap/a uid=a deleting finalizers=foregroundDeletion,orphan
         put ConfigMap/b uid=b owner=a!
         act
         left",
        "finish ConfigMap/a a orphan R115
         drop ConfigMap/b b owner=a R114
         finish ConfigMap/a a orphan R115
         finish ConfigMap/a a foregroundDeletion R104
         left b",
    );
}
