//! Rules of spec/workload-controllers.md: adopting and releasing.

use serde_json::{Value, json};
use tenure_machinery::{ObjectExt as _, WriteRefusal};
use tenure_workload::{Act, BuiltinResource, IntentPropagation, owner};

use crate::replicas::set;
use crate::world::World;

fn orphan(name: &str, labels: Value) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {}})
}

fn controller(world: &World, pod: &str) -> Option<String> {
    let pod = world.get(BuiltinResource::Pods, pod);
    owner::controller_of(&pod).and_then(|e| e.str_at(&["name"])).map(str::to_owned)
}

fn named(name: &str, replicas: i64) -> Value {
    let mut set = set(replicas);
    set["metadata"]["name"] = name.into();
    set
}

/// The last update of a pod that a pass wants, as far as a refusal lets it be seen.
fn updates_of(world: &mut World, code: u16) -> std::rc::Rc<std::cell::RefCell<Vec<Value>>> {
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let noted = std::rc::Rc::clone(&seen);
    world.refuse(move |intent| match &intent.act {
        Act::Update { resource: BuiltinResource::Pods, object, .. } => {
            noted.borrow_mut().push(Value::Object(tenure_machinery::Object::clone(object)));
            Some((code, "Refused", "no"))
        }
        _ => None,
    });
    seen
}

#[test]
fn cr1_candidates_are_all_that_name_it_and_all_that_nobody_controls() {
    let mut world = World::new();
    let set = world.create(set(1));
    let entry = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
        "uid": owner::uid(&set), "controller": true, "blockOwnerDeletion": true}]);
    // It carries the entry but none of the labels: only a look past the selector finds it.
    let mut stray = orphan("stray", json!({"other": "x"}));
    stray["metadata"]["ownerReferences"] = entry.clone();
    world.create(stray);
    let mut far = orphan("far", json!({"app": "web"}));
    far["metadata"]["namespace"] = "elsewhere".into();
    world.create(far);
    world.create(orphan("lone", json!({"app": "web"})));
    world.settle();
    assert_eq!(controller(&world, "stray"), None, "released");
    assert_eq!(controller(&world, "lone").as_deref(), Some("web"), "adopted");
    assert_eq!(
        world.owned(owner::uid(&set), BuiltinResource::Pods),
        ["lone"],
        "of its namespace only"
    );
}

#[test]
fn cr3_what_it_controls_and_selects_is_its_own_even_while_it_goes() {
    let mut world = World::new();
    let mut held = set(1);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.settle();
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.delete(BuiltinResource::ReplicaSets, "web", None);
    world.settle();
    world.ready(&pod);
    world.settle();
    assert_eq!(controller(&world, &pod).as_deref(), Some("web"));
    assert_eq!(world.json(BuiltinResource::ReplicaSets, "web")["status"]["readyReplicas"], 1);
}

#[test]
fn cr7_adoption_adds_one_complete_entry_and_is_tried_again_when_refused() {
    let mut world = World::new();
    let wanted = updates_of(&mut world, 422);
    world.create(orphan("lone", json!({"app": "web"})));
    let set = world.create(set(1));
    world.settle();
    assert_eq!(
        wanted.borrow()[0]["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": owner::uid(&set), "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        wanted.borrow()[0]["metadata"]["uid"],
        *owner::uid(&world.get(BuiltinResource::Pods, "lone"))
    );
    assert_eq!(world.names(BuiltinResource::Pods), ["lone"], "no pod is made while a claim fails");
    world.advance(1);
    assert!(wanted.borrow().len() > 1, "422 is no success of an adoption");
    world.allow();
    world.advance(1);
    assert_eq!(controller(&world, "lone").as_deref(), Some("web"));
}

#[test]
fn cr8_cr9_release_takes_its_entry_only_and_gone_or_invalid_is_as_good() {
    let mut world = World::new();
    world.create(set(1));
    world.settle();
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    let keeper = world.create(json!({"kind": "ConfigMap", "metadata": {"name": "keeper"}}));
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper",
        "uid": owner::uid(&keeper)});
    world.edit(BuiltinResource::Pods, &pod, |pod| {
        pod["metadata"]["labels"]["app"] = "db".into();
        pod["metadata"]["ownerReferences"].as_array_mut().unwrap().push(other.clone());
    });
    world.create(orphan("lone", json!({"app": "web"})));
    world.refuse(|intent| {
        if let Act::Update { resource: BuiltinResource::Pods, object, .. } = &intent.act {
            let adopts = object.name() == "lone";
            let forgiven: &[WriteRefusal] = match adopts {
                true => &[WriteRefusal::Absent],
                false => &[WriteRefusal::Absent, WriteRefusal::Invalid],
            };
            assert_eq!((intent.forgiven, intent.independent), (forgiven, true));
        }
        None
    });
    world.settle();
    assert_eq!(
        world.json(BuiltinResource::Pods, &pod)["metadata"]["ownerReferences"],
        json!([other])
    );
    assert_eq!(controller(&world, "lone").as_deref(), Some("web"));
}

#[test]
fn cr2_another_controller_is_never_robbed() {
    let mut world = World::new();
    world.create(named("a", 2));
    world.settle();
    world.create(named("b", 2));
    world.settle();
    let owned = |name: &str| {
        let uid = owner::uid(&world.get(BuiltinResource::ReplicaSets, name)).to_owned();
        world.owned(&uid, BuiltinResource::Pods).len()
    };
    assert_eq!((owned("a"), owned("b")), (2, 2));
}

#[test]
fn cr4_release_on_label_change() {
    let mut world = World::new();
    world.create(set(1));
    world.settle();
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.edit(BuiltinResource::Pods, &pod, |pod| pod["metadata"]["labels"]["app"] = "db".into());
    world.settle();
    assert_eq!(controller(&world, &pod), None);
    assert!(world.json(BuiltinResource::Pods, &pod)["metadata"]["ownerReferences"].is_null());
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2, "a replacement was made");
}

#[test]
fn cr4_no_release_while_terminating() {
    let mut world = World::new();
    let mut held = set(1);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.settle();
    world.delete(BuiltinResource::ReplicaSets, "web", None);
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.edit(BuiltinResource::Pods, &pod, |pod| pod["metadata"]["labels"]["app"] = "db".into());
    world.settle();
    assert_eq!(controller(&world, &pod).as_deref(), Some("web"));
}

#[test]
fn cr5_adopts_orphans_and_keeps_their_other_owners() {
    let mut world = World::new();
    let keeper = world.create(json!({"kind": "ConfigMap", "metadata": {"name": "keeper"}}));
    let mut pod = orphan("lone", json!({"app": "web"}));
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": owner::uid(&keeper)}]);
    world.create(pod);
    world.create(set(1));
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods), ["lone"]);
    assert_eq!(controller(&world, "lone").as_deref(), Some("web"));
    let pod = world.json(BuiltinResource::Pods, "lone");
    assert_eq!(pod["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "web", "as in the recordings");
    assert_eq!(pod["metadata"]["ownerReferences"][1]["name"], "keeper");
}

#[test]
fn cr5_excess_orphans_are_adopted_then_deleted() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        world.create(orphan(name, json!({"app": "web"})));
    }
    world.create(set(1));
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 1);
}

#[test]
fn cr5_a_terminating_orphan_is_left() {
    let mut world = World::new();
    let mut pod = orphan("going", json!({"app": "web"}));
    pod["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(pod);
    world.delete(BuiltinResource::Pods, "going", None);
    world.create(set(1));
    world.settle();
    assert_eq!(controller(&world, "going"), None);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
}

#[test]
fn cr6_no_adoption_by_a_controller_that_is_gone() {
    let mut world = World::new();
    world.create(set(2));
    world.settle();
    world.delete(BuiltinResource::ReplicaSets, "web", Some(IntentPropagation::Orphan));
    world.settle();
    assert!(world.names(BuiltinResource::Pods).iter().all(|pod| controller(&world, pod).is_none()));
    // The guard itself: every adoption relies on its controller being alive.
    let mut watched = World::new();
    watched.refuse(|intent| {
        if let Act::Update { resource: BuiltinResource::Pods, .. } = &intent.act {
            assert_eq!(intent.relies_on.len(), 1);
            assert!(intent.independent);
        }
        None
    });
    watched.create(orphan("lone", json!({"app": "web"})));
    watched.create(set(1));
    watched.settle();
    assert_eq!(controller(&watched, "lone").as_deref(), Some("web"));
}

#[test]
fn cr9_one_refused_adoption_does_not_stop_the_others() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Update { object, .. } if object.name() == "a" => Some((422, "Invalid", "no")),
        _ => None,
    });
    world.create(orphan("a", json!({"app": "web"})));
    world.create(orphan("b", json!({"app": "web"})));
    world.create(set(2));
    world.settle();
    assert_eq!(controller(&world, "b").as_deref(), Some("web"));
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2, "no pod is made while a claim fails");
    world.allow();
    world.advance(1);
    assert_eq!(controller(&world, "a").as_deref(), Some("web"));
}

#[test]
fn cr10_a_new_controller_of_the_same_name_inherits_nothing_by_name() {
    let mut world = World::new();
    let mut pod = orphan("stale", json!({"app": "web"}));
    let living = world.create(json!({"kind": "ConfigMap", "metadata": {"name": "x"}}));
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner::uid(&living),
         "controller": true}]);
    world.create(pod);
    world.create(set(1));
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2, "its own pod was made");
}

#[test]
fn cr11_relabelling_moves_a_pod_from_one_to_the_other() {
    let mut world = World::new();
    world.create(set(1));
    let mut other = named("db", 1);
    other["spec"]["selector"]["matchLabels"]["app"] = "db".into();
    other["spec"]["template"]["metadata"]["labels"]["app"] = "db".into();
    world.create(other);
    world.settle();
    let uid = owner::uid(&world.get(BuiltinResource::ReplicaSets, "web")).to_owned();
    let pod = world.owned(&uid, BuiltinResource::Pods)[0].clone();
    world.edit(BuiltinResource::Pods, &pod, |pod| pod["metadata"]["labels"]["app"] = "db".into());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2, "one too many was deleted");
    let uid = owner::uid(&world.get(BuiltinResource::ReplicaSets, "db")).to_owned();
    assert_eq!(world.owned(&uid, BuiltinResource::Pods).len(), 1);
}

#[test]
fn cr11_a_label_that_comes_later_wakes_who_can_adopt() {
    let mut world = World::new();
    world.create(set(1));
    world.settle();
    world.create(orphan("late", json!({"other": "x"})));
    world.settle();
    assert_eq!(controller(&world, "late"), None);
    world
        .edit(BuiltinResource::Pods, "late", |pod| pod["metadata"]["labels"]["app"] = "web".into());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 1, "adopted, then one of two deleted");
}

#[test]
fn cr12_entries_are_complete() {
    let mut world = World::new();
    world.create(set(1));
    world.settle();
    let pod = &world.list(BuiltinResource::Pods)[0];
    let entry = owner::controller_of(pod).unwrap();
    for member in ["apiVersion", "kind", "name", "uid"] {
        assert!(entry.str_at(&[member]).is_some_and(|text| !text.is_empty()), "{member}");
    }
    assert_eq!(entry.bool_at(&["controller"]), Some(true));
    assert_eq!(entry.bool_at(&["blockOwnerDeletion"]), Some(true));
}
