//! Rules of spec/workload-controllers.md: ControllerRevisions of StatefulSets and DaemonSets.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, IntentPropagation, history, owner};

use crate::replicas::template;
use crate::statefulset::{all_ready, let_go, make_ready, set};
use crate::world::World;
use crate::{daemonset, statefulset};

const REVISIONS: BuiltinResource = BuiltinResource::ControllerRevisions;
const BOTH: [BuiltinResource; 2] = [BuiltinResource::StatefulSets, BuiltinResource::DaemonSets];

/// A world with one set of the kind and no pods.
fn world(kind: BuiltinResource, limit: i64) -> World {
    let mut wanted = wanted(kind);
    wanted["spec"]["revisionHistoryLimit"] = limit.into();
    let mut world = World::new();
    world.create(wanted);
    world.settle();
    world
}

fn wanted(kind: BuiltinResource) -> Value {
    if kind == BuiltinResource::StatefulSets { statefulset::set(0) } else { daemonset::set() }
}

fn update(world: &mut World, kind: BuiltinResource, version: &str) {
    world.edit(kind, "web", |set| set["spec"]["template"] = template(version));
    world.settle();
}

/// Versions and numbers of all revisions, by number.
fn numbers(world: &World) -> String {
    let mut all: Vec<(i64, String)> = world
        .list(REVISIONS)
        .iter()
        .map(|r| (history::number(r), owner::label(r, "v").unwrap().to_owned()))
        .collect();
    all.sort();
    all.iter().map(|(number, v)| format!("{v}:{number}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn hi1_hi2_hi3_hi4_hi5_a_revision_of_either_kind() {
    for (kind, label) in [
        (BuiltinResource::StatefulSets, "controller.kubernetes.io/hash"),
        (BuiltinResource::DaemonSets, "controller-revision-hash"),
    ] {
        let mut world = World::new();
        let mut wanted = wanted(kind);
        wanted["metadata"]["annotations"] = json!({"team": "a"});
        let uid = owner::uid(&world.create(wanted)).to_owned();
        world.settle();
        let found = Value::Object((*world.list(REVISIONS)[0].object).clone());
        let mut held = template("1");
        held["$patch"] = "replace".into();
        assert_eq!(found["data"], json!({"spec": {"template": held}}));
        let hash = found["metadata"]["labels"][label].as_str().unwrap();
        assert_eq!(found["metadata"]["name"], format!("web-{hash}"));
        assert_eq!(found["metadata"]["labels"], json!({"app": "web", "v": "1", label: hash}));
        assert_eq!(found["metadata"]["annotations"], json!({"team": "a"}));
        assert_eq!(found["revision"], 1);
        assert_eq!(
            found["metadata"]["ownerReferences"],
            json!([{"apiVersion": "apps/v1", "kind": kind.kind(), "name": "web", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
        );
    }
}

#[test]
fn hi6_going_back_gives_the_old_revision_a_new_number() {
    for kind in BOTH {
        let mut world = world(kind, 10);
        let first = owner::uid(&world.list(REVISIONS)[0]).to_owned();
        update(&mut world, kind, "2");
        assert_eq!(numbers(&world), "1:1 2:2");
        update(&mut world, kind, "1");
        assert_eq!(numbers(&world), "2:2 1:3");
        let kept = world.list(REVISIONS).into_iter().find(|r| owner::uid(r) == first).unwrap();
        assert_eq!(history::number(&kept), 3, "the same object");
        world.restart();
        world.settle();
        assert_eq!(numbers(&world), "2:2 1:3", "equal content at the end is used as it is");
    }
}

#[test]
fn hi6_several_revisions_of_one_template_become_one() {
    let mut world = World::new();
    daemonset::node(&mut world, "n1");
    world.create(daemonset::set());
    world.settle();
    let kept = world.list(REVISIONS)[0].clone();
    let mut twin = Value::Object((*kept.object).clone());
    twin["metadata"]["name"] = "web-twin".into();
    twin["metadata"]["labels"]["controller-revision-hash"] = "twin".into();
    twin["revision"] = 2.into();
    world.create(twin);
    world.settle();
    assert_eq!(world.names(REVISIONS), ["web-twin"], "the highest stays");
    let pods = world.list(BuiltinResource::Pods);
    assert_eq!(owner::label(&pods[0], "controller-revision-hash"), Some("twin"));
    assert_eq!(pods.len(), 1, "the pod is told, not replaced");
}

#[test]
fn hi7_new_defaults_restart_nothing() {
    let mut world = all_ready(set(1));
    world.edit(BuiltinResource::StatefulSets, "web", |set| {
        set["spec"]["template"]["spec"]["schedulerName"] = "default-scheduler".into();
    });
    world.settle();
    assert_eq!(world.list(REVISIONS).len(), 1);
    assert!(statefulset::going(&world).is_empty());
}

#[test]
fn hi8_a_taken_name_counts_as_a_collision() {
    for kind in BOTH {
        // Find the name that the revision would get, and take it before.
        let name = world(kind, 10).names(REVISIONS)[0].clone();
        let mut world = World::new();
        world.create(json!({"kind": "ControllerRevision", "metadata": {"name": name},
            "data": {"other": true}, "revision": 1}));
        world.create(wanted(kind));
        world.settle();
        let names = world.names(REVISIONS);
        assert_eq!(names.len(), 2, "{names:?}");
        assert_eq!(world.json(kind, "web")["status"]["collisionCount"], 1);
    }
}

#[test]
fn hi8_a_taken_name_with_the_same_data_is_used() {
    for kind in BOTH {
        let taken = Value::Object((*world(kind, 10).list(REVISIONS)[0].object).clone());
        let mut world = World::new();
        let other = world.create(json!({"kind": "ConfigMap", "metadata": {"name": "boss"}}));
        let mut copy = taken.clone();
        copy["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
            "name": "boss", "uid": owner::uid(&other), "controller": true}]);
        world.create(copy);
        world.create(wanted(kind));
        world.settle();
        assert_eq!(world.names(REVISIONS).len(), 1);
        assert_eq!(world.json(kind, "web")["status"]["observedGeneration"], 1);
    }
}

#[test]
fn hi9_history_is_kept_up_to_the_limit() {
    for kind in BOTH {
        let mut world = world(kind, 2);
        for version in ["2", "3", "4", "5"] {
            update(&mut world, kind, version);
        }
        // A StatefulSet of no pods takes every update as complete, so one revision is live.
        assert_eq!(numbers(&world), "3:3 4:4 5:5", "{}", kind.kind());
    }
}

#[test]
fn hi9_revisions_of_pods_live_on_beside_the_limit() {
    let mut wanted = set(2);
    wanted["spec"]["revisionHistoryLimit"] = 0.into();
    wanted["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    let mut world = all_ready(wanted);
    for version in ["2", "3"] {
        update(&mut world, BuiltinResource::StatefulSets, version);
        let_go(&mut world);
        make_ready(&mut world);
    }
    assert_eq!(numbers(&world), "1:1 3:3", "web-0 still carries the first");
}

#[test]
fn hi9_in_a_daemonset_revisions_of_pods_count_against_the_limit() {
    let mut world = World::new();
    daemonset::node(&mut world, "n1");
    let mut wanted = daemonset::set();
    wanted["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    wanted["spec"]["revisionHistoryLimit"] = 1.into();
    world.create(wanted);
    world.settle();
    for version in ["2", "3", "4"] {
        update(&mut world, BuiltinResource::DaemonSets, version);
    }
    assert_eq!(numbers(&world), "1:1 4:4", "one old one is kept, and it is the pod's");
}

#[test]
fn hi10_data_never_changes() {
    for kind in BOTH {
        let mut world = world(kind, 10);
        let before = world.list(REVISIONS)[0].get("data").cloned();
        update(&mut world, kind, "2");
        update(&mut world, kind, "1");
        let first = world.list(REVISIONS).into_iter().find(|r| owner::label(r, "v") == Some("1"));
        assert_eq!(first.unwrap().get("data").cloned(), before);
    }
}

#[test]
fn hi11_revisions_left_behind_are_adopted() {
    for kind in BOTH {
        let mut world = world(kind, 10);
        let uid = owner::uid(&world.list(REVISIONS)[0]).to_owned();
        world.delete(kind, "web", Some(IntentPropagation::Orphan));
        world.settle();
        assert!(owner::controller_of(&world.list(REVISIONS)[0]).is_none());
        world.create(wanted(kind));
        world.settle();
        let found = world.list(REVISIONS);
        assert_eq!((found.len(), owner::uid(&found[0])), (1, uid.as_str()));
        assert!(owner::controlled_by(&found[0], owner::uid(&world.get(kind, "web"))));
    }
}

#[test]
fn hi11_only_a_daemonset_lets_go_of_revisions() {
    for kind in BOTH {
        let mut world = world(kind, 10);
        let name = world.names(REVISIONS)[0].clone();
        world.edit(REVISIONS, &name, |r| r["metadata"]["labels"]["app"] = "other".into());
        world.settle();
        let held = owner::controller_of(&world.get(REVISIONS, &name)).is_some();
        assert_eq!(held, kind == BuiltinResource::StatefulSets);
    }
}

#[test]
fn hi12_undo_brings_the_template_back_exactly() {
    for kind in BOTH {
        let mut world = world(kind, 10);
        update(&mut world, kind, "2");
        let first = world.list(REVISIONS).into_iter().find(|r| history::number(r) == 1).unwrap();
        // What a client's patch does: `$patch: replace` puts the template of the data in place.
        let mut held = first.at(&["data", "spec", "template"]).cloned().unwrap();
        assert_eq!(held.as_object_mut().unwrap().remove("$patch"), Some(json!("replace")));
        assert_eq!(held, template("1"));
        world.edit(kind, "web", |set| set["spec"]["template"] = held);
        world.settle();
        assert_eq!(numbers(&world), "2:2 1:3");
    }
}
