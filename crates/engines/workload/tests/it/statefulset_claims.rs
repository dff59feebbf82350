//! Rules of spec/workload-controllers.md: StatefulSet, its claims and who owns them.

use serde_json::{Value, json};
use tenure_workload::{BuiltinResource, owner};

use crate::statefulset::{
    SETS, all_ready, change, going, let_go, make_ready, parallel, pods, set, world,
};
use crate::world::World;

const CLAIMS: BuiltinResource = BuiltinResource::PersistentVolumeClaims;

fn claimed(mut set: Value, scaled: &str, deleted: &str) -> Value {
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data", "labels": {"disk": "a"}},
        "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"},
    }]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": scaled, "whenDeleted": deleted});
    set
}

/// The kinds and names of a claim's owners.
fn owners(world: &World, claim: &str) -> Vec<String> {
    let entries = world.json(CLAIMS, claim)["metadata"]["ownerReferences"].clone();
    let written = |entry: &Value| {
        assert_eq!(
            (&entry["controller"], &entry["blockOwnerDeletion"]),
            (&json!(true), &json!(true))
        );
        format!("{} {}", entry["kind"].as_str().unwrap(), entry["name"].as_str().unwrap())
    };
    entries.as_array().map(|entries| entries.iter().map(written).collect()).unwrap_or_default()
}

#[test]
fn ss12_claims_come_before_their_pod() {
    let mut wanted = claimed(set(1), "Retain", "Retain");
    wanted["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    let world = world(wanted);
    let claim = world.json(CLAIMS, "data-web-0");
    assert_eq!(claim["metadata"]["labels"], json!({"app": "web", "disk": "a"}));
    assert_eq!(claim["spec"], json!({"accessModes": ["ReadWriteOnce"]}));
    assert_eq!(claim["metadata"]["ownerReferences"], json!(null));
    assert_eq!(
        world.json(BuiltinResource::Pods, "web-0")["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
            {"name": "tmp", "emptyDir": {}}])
    );
    let made: Vec<&String> = world.writes.iter().filter(|w| w.starts_with("create p")).collect();
    assert_eq!(made, ["create persistentvolumeclaims/data-web-0", "create pods/web-0"]);
    assert_eq!(
        world.events[0],
        "Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success"
    );
}

#[test]
fn ss12_a_pending_pod_gets_a_lost_claim_again() {
    let mut world = world(claimed(set(1), "Retain", "Retain"));
    world.delete(CLAIMS, "data-web-0", None);
    world.settle();
    assert_eq!(world.names(CLAIMS), ["data-web-0"]);
    world.ready("web-0");
    world.delete(CLAIMS, "data-web-0", None);
    world.settle();
    assert_eq!(world.names(CLAIMS), Vec::<String>::new(), "a running pod has what it needs");
}

#[test]
fn ss12_a_terminating_claim_holds_its_pod_back() {
    let mut world = World::new();
    world.create(json!({"kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "finalizers": ["kubernetes.io/pvc-protection"]}}));
    world.delete(CLAIMS, "data-web-0", None);
    world.create(claimed(set(1), "Retain", "Retain"));
    world.settle();
    assert!(pods(&world).is_empty());
    let told = "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: \
                pvc data-web-0 is being deleted";
    assert_eq!(world.events, [told]);
    world.edit(CLAIMS, "data-web-0", |claim| claim["metadata"]["finalizers"] = json!([]));
    world.settle();
    assert_eq!(pods(&world), ["web-0"]);
    assert!(!owner::deleting(&world.get(CLAIMS, "data-web-0")));
}

#[test]
fn ss20_owners_follow_the_policy_and_the_scale() {
    // Scaled, deleted, owner of a claim in use, owner of one no longer in use, claims left at last.
    let (set_owner, pod_owner) = (Some("StatefulSet web"), Some("Pod web-1"));
    for (scaled, deleted, inside, outside, left) in [
        ("Retain", "Retain", None, None, 2),
        ("Retain", "Delete", set_owner, set_owner, 0),
        ("Delete", "Retain", None, pod_owner, 1),
        ("Delete", "Delete", set_owner, pod_owner, 0),
    ] {
        for wanted in [set(2), parallel(2)] {
            let mut world = all_ready(claimed(wanted, scaled, deleted));
            let list =
                |owner: Option<&str>| owner.map(str::to_owned).into_iter().collect::<Vec<_>>();
            assert_eq!(owners(&world, "data-web-1"), list(inside), "{scaled} {deleted}");
            change(&mut world, |set| set["spec"]["replicas"] = 1.into());
            assert_eq!(going(&world), ["web-1"]);
            assert_eq!(owners(&world, "data-web-1"), list(outside), "{scaled} {deleted}");
            assert_eq!(owners(&world, "data-web-0"), list(inside), "{scaled} {deleted}");
            let_go(&mut world);
            let gone = scaled == "Delete";
            assert_eq!(world.names(CLAIMS).len(), if gone { 1 } else { 2 }, "{scaled} {deleted}");
            world.delete(SETS, "web", None);
            world.settle();
            assert_eq!(world.names(CLAIMS).len(), left, "{scaled} {deleted}");
        }
    }
}

#[test]
fn ss20_a_changed_policy_changes_owners() {
    let mut world = world(claimed(set(1), "Retain", "Delete"));
    let policy = |world: &mut World, scaled: &str, deleted: &str| {
        change(world, |set| {
            set["spec"]["persistentVolumeClaimRetentionPolicy"] =
                json!({"whenScaled": scaled, "whenDeleted": deleted});
        });
    };
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet web"]);
    policy(&mut world, "Retain", "Retain");
    assert_eq!(owners(&world, "data-web-0"), Vec::<String>::new());
    make_ready(&mut world);
    policy(&mut world, "Delete", "Delete");
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet web"]);
}

#[test]
fn ss20_a_claim_kept_from_before_is_owned_again() {
    let mut world = World::new();
    world.create(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-0"}}));
    world.create(claimed(set(1), "Retain", "Delete"));
    world.settle();
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet web"]);
}

#[test]
fn ss21_a_claim_of_an_earlier_pod_holds_its_successor_back() {
    let mut world = World::new();
    let stale = json!({"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "earlier",
        "controller": true, "blockOwnerDeletion": true});
    world.create(json!({"kind": "Pod", "metadata": {"name": "earlier"}}));
    let earlier = world.get(BuiltinResource::Pods, "earlier");
    let mut entry = stale;
    entry["uid"] = owner::uid(&earlier).into();
    world.create(json!({"kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "ownerReferences": [entry]}}));
    world.create(claimed(set(1), "Delete", "Retain"));
    world.settle();
    assert_eq!(pods(&world), ["earlier"], "web-0 waits");
    assert_eq!(owners(&world, "data-web-0"), ["Pod web-0"], "and does not touch the claim");
    world.delete(BuiltinResource::Pods, "earlier", None);
    world.settle();
    assert_eq!(pods(&world), ["web-0"]);
    assert_eq!(owners(&world, "data-web-0"), Vec::<String>::new());
}

#[test]
fn ss22_a_claim_that_somebody_else_controls_is_theirs() {
    let mut world = World::new();
    let other = world.create(json!({"kind": "ConfigMap", "metadata": {"name": "boss"}}));
    let entry = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss",
        "uid": owner::uid(&other), "controller": true, "blockOwnerDeletion": true});
    world.create(json!({"kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "ownerReferences": [entry]}}));
    world.create(claimed(set(1), "Retain", "Delete"));
    world.settle();
    make_ready(&mut world);
    assert_eq!(owners(&world, "data-web-0"), ["ConfigMap boss"]);
    let told = world.events.iter().filter(|event| {
        event.starts_with("Warning ConflictingController PersistentVolumeClaim data-web-0 has")
    });
    assert_eq!(told.count(), 1);
}

#[test]
fn ss23_an_entry_without_the_flag_is_made_whole() {
    let mut world = world(claimed(set(1), "Retain", "Delete"));
    world.edit(CLAIMS, "data-web-0", |claim| {
        let entry = claim["metadata"]["ownerReferences"][0].as_object_mut().unwrap();
        entry.remove("controller");
        entry.remove("blockOwnerDeletion");
    });
    world.settle();
    assert_eq!(owners(&world, "data-web-0"), ["StatefulSet web"]);
}
