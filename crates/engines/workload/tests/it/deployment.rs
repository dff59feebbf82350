//! Rules of spec/workload-controllers.md: Deployment, but for the course of a rollout.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, IntentPropagation, owner, template as templates};

use crate::replicas::template;
use crate::world::World;

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";

/// A Deployment `web` of so many pods, with the defaults that the server fills in.
pub(crate) fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("1"),
            "strategy": {"type": "RollingUpdate",
                         "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
    })
}

pub(crate) fn world(deployment: Value) -> World {
    let mut world = World::new();
    world.create(deployment);
    world.settle();
    world
}

pub(crate) fn edit(world: &mut World, edit: impl FnOnce(&mut Value)) {
    world.edit(BuiltinResource::Deployments, "web", edit);
    world.settle();
}

/// Moves to the template of a version.
pub(crate) fn update(world: &mut World, version: &str) {
    edit(world, |web| web["spec"]["template"] = template(version));
}

pub(crate) fn status(world: &World) -> Value {
    world.json(BuiltinResource::Deployments, "web")["status"].clone()
}

pub(crate) fn condition(world: &World, kind: &str) -> Value {
    let status = status(world);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|c| c["type"] == kind).unwrap_or_default()
}

/// The ReplicaSet whose template has a version.
pub(crate) fn set_of(world: &World, version: &str) -> Value {
    let sets = world.list(BuiltinResource::ReplicaSets);
    let found = sets
        .iter()
        .find(|set| set.str_at(&["spec", "template", "metadata", "labels", "v"]) == Some(version));
    Value::Object((*found.expect("a ReplicaSet of that version").object).clone())
}

pub(crate) fn size(world: &World, version: &str) -> i64 {
    set_of(world, version)["spec"]["replicas"].as_i64().unwrap()
}

fn name(set: &Value) -> String {
    set["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn dp1_selecting_everything_is_warned_about_once() {
    let mut everything = deployment(1);
    everything["spec"]["selector"] = json!({});
    let mut world = world(everything);
    assert!(world.names(BuiltinResource::ReplicaSets).is_empty());
    assert_eq!(status(&world), json!({"observedGeneration": 1}));
    world.settle();
    assert_eq!(
        world.events,
        [
            "Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required."
        ]
    );
}

#[test]
fn dp1_terminating_writes_status_only() {
    let mut held = deployment(2);
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let mut world = world(held);
    world.delete(BuiltinResource::Deployments, "web", None);
    world.edit(BuiltinResource::Deployments, "web", |web| web["spec"]["template"] = template("2"));
    world.settle();
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 1);
    assert_eq!(status(&world)["observedGeneration"], 2);
}

#[test]
fn dp4_new_set_carries_hash_selector_and_owner() {
    let world = world(deployment(2));
    let web = world.json(BuiltinResource::Deployments, "web");
    let set = set_of(&world, "1");
    let hash = templates::hash(web["spec"]["template"].as_object().unwrap(), None);
    assert_eq!(name(&set), format!("web-{hash}"));
    assert_eq!(
        set["metadata"]["labels"],
        json!({"app": "web", "v": "1", "pod-template-hash": hash})
    );
    assert_eq!(
        set["spec"]["selector"],
        json!({"matchLabels": {"app": "web", "pod-template-hash": hash}})
    );
    assert_eq!(set["spec"]["template"]["metadata"]["labels"], set["metadata"]["labels"]);
    assert_eq!(set["spec"]["template"]["spec"], web["spec"]["template"]["spec"]);
    assert_eq!(
        set["metadata"]["ownerReferences"],
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                "uid": web["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        set["metadata"]["annotations"],
        json!({"deployment.kubernetes.io/desired-replicas": "2",
               "deployment.kubernetes.io/max-replicas": "3", REVISION: "1"})
    );
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
}

#[test]
fn dp4_long_names_are_cut_to_fit() {
    let mut long = deployment(0);
    long["metadata"]["name"] = "x".repeat(253).into();
    let mut world = World::new();
    world.create(long);
    world.settle();
    let name = world.names(BuiltinResource::ReplicaSets)[0].clone();
    assert_eq!(name.len(), 253);
    assert!(name.starts_with("xxx") && name.contains('-'));
}

#[test]
fn dp5_a_taken_name_counts_as_collision() {
    let web = deployment(1);
    let hash = templates::hash(web["spec"]["template"].as_object().unwrap(), None);
    let mut world = World::new();
    world.create(json!({
        "kind": "ReplicaSet", "metadata": {"name": format!("web-{hash}"), "labels": {"other": "x"}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"other": "x"}},
                 "template": {"metadata": {"labels": {"other": "x"}}, "spec": {}}},
    }));
    world.create(web);
    world.settle();
    assert_eq!(status(&world)["collisionCount"], 1);
    let set = set_of(&world, "1");
    assert_ne!(name(&set), format!("web-{hash}"));
    assert_eq!(set["spec"]["replicas"], 1);
}

#[test]
fn dp6_annotations_are_copied_and_follow() {
    let mut annotated = deployment(1);
    annotated["metadata"]["annotations"] =
        json!({"a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let mut world = world(annotated);
    assert_eq!(set_of(&world, "1")["metadata"]["annotations"]["a"], "1");
    edit(&mut world, |web| web["metadata"]["annotations"]["a"] = "2".into());
    let annotations = set_of(&world, "1")["metadata"]["annotations"].clone();
    assert_eq!(annotations["a"], "2");
    assert!(annotations["kubectl.kubernetes.io/last-applied-configuration"].is_null());
}

#[test]
fn dp6_min_ready_seconds_follow() {
    let mut world = world(deployment(1));
    edit(&mut world, |web| web["spec"]["minReadySeconds"] = 7.into());
    assert_eq!(set_of(&world, "1")["spec"]["minReadySeconds"], 7);
    edit(&mut world, |web| web["spec"]["minReadySeconds"] = 0.into());
    assert!(set_of(&world, "1")["spec"]["minReadySeconds"].is_null());
}

#[test]
fn dp6_rollback_bumps_the_old_set_and_remembers_its_number() {
    let mut world = world(deployment(1));
    world.pods_run = true;
    update(&mut world, "2");
    let first = name(&set_of(&world, "1"));
    update(&mut world, "1");
    let set = set_of(&world, "1");
    assert_eq!(name(&set), first, "the same ReplicaSet is used again");
    assert_eq!(set["metadata"]["annotations"][REVISION], "3");
    assert_eq!(set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!((size(&world, "1"), size(&world, "2")), (1, 0));
    let web = world.json(BuiltinResource::Deployments, "web");
    assert_eq!(web["metadata"]["annotations"][REVISION], "3");
}

#[test]
fn dp7_the_revision_is_written_through_the_status_endpoint() {
    let world = world(deployment(1));
    let web = world.json(BuiltinResource::Deployments, "web");
    assert_eq!(web["metadata"]["annotations"][REVISION], "1");
    assert_eq!(web["metadata"]["generation"], 1, "a write to the main door would have counted");
    assert!(!world.writes.contains(&"update deployments/web ".to_owned()));
}

#[test]
fn dp12_history_limit() {
    let mut limited = deployment(1);
    limited["spec"]["revisionHistoryLimit"] = 2.into();
    let mut world = world(limited);
    world.pods_run = true;
    for version in ["2", "3", "4", "5"] {
        update(&mut world, version);
    }
    let sets = world.list(BuiltinResource::ReplicaSets);
    let mut kept: Vec<&str> =
        sets.iter().map(|set| owner::annotation(set, REVISION).unwrap()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["3", "4", "5"]);
}

#[test]
fn dp12_limit_zero_keeps_none_and_the_largest_keeps_all() {
    for (limit, left) in [(0, 1), (i64::from(i32::MAX), 3)] {
        let mut limited = deployment(1);
        limited["spec"]["revisionHistoryLimit"] = limit.into();
        let mut world = world(limited);
        world.pods_run = true;
        update(&mut world, "2");
        update(&mut world, "3");
        assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), left, "limit {limit}");
    }
}

#[test]
fn dp12_sets_with_pods_are_not_pruned() {
    let mut limited = deployment(2);
    limited["spec"]["revisionHistoryLimit"] = 0.into();
    limited["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 1, "maxUnavailable": 0});
    let mut world = world(limited);
    for pod in world.names(BuiltinResource::Pods) {
        world.ready(&pod);
    }
    world.settle();
    update(&mut world, "2");
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 2, "the new pod is not ready");
    world.pods_run = true;
    world.settle();
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 1);
}

#[test]
fn dp14_status_of_pending_pods() {
    let world = world(deployment(2));
    let mut status = status(&world);
    let conditions = status["conditions"].take();
    assert_eq!(
        status,
        json!({"replicas": 2, "updatedReplicas": 2, "unavailableReplicas": 2,
               "terminatingReplicas": 0, "observedGeneration": 1, "conditions": null})
    );
    let kinds: Vec<&str> =
        conditions.as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Available", "Progressing"], "in the order of the recordings");
    assert_eq!(condition(&world, "Available")["reason"], "MinimumReplicasUnavailable");
    assert_eq!(condition(&world, "Progressing")["reason"], "ReplicaSetUpdated");
}

#[test]
fn dp13_complete_when_all_pods_are_new_and_available() {
    let mut world = world(deployment(2));
    world.pods_run = true;
    world.settle();
    let set = name(&set_of(&world, "1"));
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing["status"], "True");
    assert_eq!(progressing["reason"], "NewReplicaSetAvailable");
    assert_eq!(
        progressing["message"],
        format!("ReplicaSet \"{set}\" has successfully progressed.")
    );
    let available = condition(&world, "Available");
    assert_eq!(available["reason"], "MinimumReplicasAvailable");
    assert_eq!(available["message"], "Deployment has minimum availability.");
    assert_eq!(status(&world)["availableReplicas"], 2);
    assert!(status(&world)["unavailableReplicas"].is_null());
}

#[test]
fn dp15_availability_comes_and_goes() {
    let mut world = world(deployment(4));
    let pods = world.names(BuiltinResource::Pods);
    for pod in &pods[..3] {
        world.ready(pod);
    }
    world.settle();
    assert_eq!(condition(&world, "Available")["status"], "True", "one of four may be missing");
    world.set_ready(&pods[0], false);
    world.settle();
    let available = condition(&world, "Available");
    assert_eq!(
        (&available["status"], &available["reason"]),
        (&json!("False"), &json!("MinimumReplicasUnavailable"))
    );
    assert_eq!(available["message"], "Deployment does not have minimum availability.");
}

#[test]
fn dp15_same_status_and_reason_leave_a_condition_untouched() {
    let mut world = world(deployment(2));
    world.pods_run = true;
    world.settle();
    let before = status(&world)["conditions"].clone();
    world.advance(100);
    edit(&mut world, |web| web["metadata"]["annotations"]["x"] = "y".into());
    assert_eq!(status(&world)["conditions"], before);
}

#[test]
fn dp15_progress_refreshes_the_update_time_only() {
    let mut world = world(deployment(2));
    let before = condition(&world, "Progressing");
    world.advance(60);
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.ready(&pod);
    world.settle();
    let after = condition(&world, "Progressing");
    assert_eq!(after["reason"], "ReplicaSetUpdated");
    assert_eq!(after["lastTransitionTime"], before["lastTransitionTime"]);
    assert_eq!(after["lastUpdateTime"], "2026-01-01T00:01:00Z");
}

#[test]
fn dp15_replica_failure_is_copied() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(deployment(1));
    world.settle();
    world.advance(3);
    let failure = condition(&world, "ReplicaFailure");
    assert_eq!(
        (&failure["reason"], &failure["message"]),
        (&json!("FailedCreate"), &json!("quota"))
    );
    assert!(failure["lastUpdateTime"].is_string());
    world.allow();
    world.advance(3);
    assert!(condition(&world, "ReplicaFailure").is_null());
}

#[test]
fn dp15_a_set_that_cannot_be_created_is_told() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::ReplicaSets, .. } => {
            Some((403, "Forbidden", "quota"))
        }
        _ => None,
    });
    world.create(deployment(1));
    world.settle();
    world.advance(1);
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing["status"], "False");
    assert_eq!(progressing["reason"], "ReplicaSetCreateError");
    let words = progressing["message"].as_str().unwrap();
    assert!(words.starts_with("Failed to create new replica set \"web-"), "{words}");
    assert!(words.ends_with("\": quota"), "{words}");
    assert!(world.events.contains(&format!("Warning ReplicaSetCreateError {words}")));
    world.allow();
    world.advance(1);
    assert_eq!(condition(&world, "Progressing")["status"], "True");
    assert_eq!(world.names(BuiltinResource::Pods).len(), 1);
}

#[test]
fn dp16_deadline_passes_one_second_later() {
    let mut slow = deployment(1);
    slow["spec"]["progressDeadlineSeconds"] = 10.into();
    let mut world = world(slow);
    world.advance(10);
    assert_eq!(condition(&world, "Progressing")["reason"], "ReplicaSetUpdated");
    world.advance(1);
    let set = name(&set_of(&world, "1"));
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing["status"], "False");
    assert_eq!(progressing["reason"], "ProgressDeadlineExceeded");
    assert_eq!(progressing["message"], format!("ReplicaSet \"{set}\" has timed out progressing."));
    let writes = world.writes.len();
    world.advance(1000);
    assert_eq!(world.writes.len(), writes, "nothing is tried again");
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.ready(&pod);
    world.settle();
    assert_eq!(condition(&world, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[test]
fn dp16_never_after_completion() {
    let mut slow = deployment(1);
    slow["spec"]["progressDeadlineSeconds"] = 10.into();
    let mut world = world(slow);
    let pod = world.names(BuiltinResource::Pods)[0].clone();
    world.ready(&pod);
    world.settle();
    world.set_ready(&pod, false);
    world.settle();
    world.advance(1000);
    assert_eq!(condition(&world, "Progressing")["reason"], "NewReplicaSetAvailable");
}

#[test]
fn dp16_without_deadline_there_is_no_condition() {
    let mut patient = deployment(1);
    patient["spec"]["progressDeadlineSeconds"] = i64::from(i32::MAX).into();
    let world = world(patient);
    assert!(condition(&world, "Progressing").is_null());
    assert_eq!(condition(&world, "Available")["status"], "False");
}

#[test]
fn dp17_paused_creates_nothing_but_scales() {
    let mut paused = deployment(2);
    paused["spec"]["paused"] = true.into();
    let mut world = world(paused);
    assert!(world.names(BuiltinResource::ReplicaSets).is_empty());
    let progressing = condition(&world, "Progressing");
    assert_eq!(progressing["status"], "Unknown");
    assert_eq!(progressing["reason"], "DeploymentPaused");
    assert_eq!(progressing["message"], "Deployment is paused");
    edit(&mut world, |web| web["spec"]["paused"] = false.into());
    assert_eq!(size(&world, "1"), 2);
    edit(&mut world, |web| web["spec"]["paused"] = true.into());
    update(&mut world, "2");
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 1, "the new template waits");
    edit(&mut world, |web| web["spec"]["replicas"] = 5.into());
    assert_eq!(size(&world, "1"), 5);
}

#[test]
fn dp17_paused_still_prunes() {
    let mut world = world(deployment(1));
    world.pods_run = true;
    update(&mut world, "2");
    update(&mut world, "3");
    edit(&mut world, |web| {
        web["spec"]["paused"] = true.into();
        web["spec"]["revisionHistoryLimit"] = 1.into();
    });
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 2);
}

#[test]
fn dp16_paused_time_does_not_count() {
    let mut slow = deployment(1);
    slow["spec"]["progressDeadlineSeconds"] = 10.into();
    let mut world = world(slow);
    edit(&mut world, |web| web["spec"]["paused"] = true.into());
    world.advance(1000);
    assert_eq!(condition(&world, "Progressing")["reason"], "DeploymentPaused");
    edit(&mut world, |web| web["spec"]["paused"] = false.into());
    assert_eq!(condition(&world, "Progressing")["reason"], "DeploymentResumed");
    assert_eq!(condition(&world, "Progressing")["message"], "Deployment is resumed");
    world.advance(9);
    assert_eq!(condition(&world, "Progressing")["reason"], "DeploymentResumed");
    world.advance(2);
    assert_eq!(condition(&world, "Progressing")["reason"], "ProgressDeadlineExceeded");
}

fn roll_back(world: &mut World, revision: &str) {
    world.events.clear();
    edit(world, |web| {
        web["metadata"]["annotations"]["deprecated.deployment.rollback.to"] = revision.into();
    });
    let web = world.json(BuiltinResource::Deployments, "web");
    assert!(web["metadata"]["annotations"]["deprecated.deployment.rollback.to"].is_null());
}

#[test]
fn dp18_the_rollback_annotation_restores_template_and_annotations() {
    let mut first = deployment(1);
    first["metadata"]["annotations"] = json!({"cause": "first"});
    let mut world = world(first);
    world.pods_run = true;
    edit(&mut world, |web| {
        web["spec"]["template"] = template("2");
        web["metadata"]["annotations"]["cause"] = "second".into();
    });
    roll_back(&mut world, "0");
    let web = world.json(BuiltinResource::Deployments, "web");
    assert_eq!(web["spec"]["template"], template("1"));
    assert_eq!(web["metadata"]["annotations"]["cause"], "first");
    assert_eq!(web["metadata"]["annotations"][REVISION], "3");
    assert_eq!(
        world.events[0],
        "Normal DeploymentRollback Rolled back deployment \"web\" to revision 1"
    );
    assert_eq!((size(&world, "1"), size(&world, "2")), (1, 0));
}

#[test]
fn dp18_a_rollback_that_cannot_be_is_told() {
    let mut world = world(deployment(1));
    roll_back(&mut world, "0");
    assert_eq!(
        world.events,
        ["Warning DeploymentRollbackRevisionNotFound Unable to find last revision."]
    );
    roll_back(&mut world, "7");
    assert_eq!(
        world.events,
        ["Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to."]
    );
    roll_back(&mut world, "1");
    assert_eq!(
        world.events,
        ["Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same \
          template as current deployment \"web\""]
    );
}

#[test]
fn dp19_scaling_is_told() {
    let mut world = world(deployment(2));
    let set = name(&set_of(&world, "1"));
    edit(&mut world, |web| web["spec"]["replicas"] = 1.into());
    let told: Vec<&String> =
        world.events.iter().filter(|event| event.contains("ScalingReplicaSet")).collect();
    assert_eq!(
        told,
        [
            &format!("Normal ScalingReplicaSet Scaled up replica set {set} from 0 to 2"),
            &format!("Normal ScalingReplicaSet Scaled down replica set {set} from 2 to 1")
        ]
    );
}

#[test]
fn dp3_the_oldest_equal_set_is_the_new_one() {
    let mut world = World::new();
    for (name, at) in [("b", 0), ("a", 5)] {
        world.create(json!({
            "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"replicas": 1, "template": template("1"),
                     "selector": {"matchLabels": {"app": "web"}}},
        }));
        world.advance(at + 1);
    }
    world.create(deployment(1));
    world.pods_run = true;
    world.settle();
    assert_eq!(world.names(BuiltinResource::ReplicaSets), ["a", "b"], "both adopted, none made");
    assert_eq!(world.json(BuiltinResource::ReplicaSets, "b")["spec"]["replicas"], 1);
    assert_eq!(world.json(BuiltinResource::ReplicaSets, "a")["spec"]["replicas"], 0);
    let adopted = world.json(BuiltinResource::ReplicaSets, "b")["metadata"]["annotations"].clone();
    assert_eq!(adopted, json!({REVISION: "1"}), "no sizes are noted on one of the right size");
}

#[test]
fn cr5_orphaned_sets_are_adopted_again() {
    let mut world = world(deployment(2));
    let set = name(&set_of(&world, "1"));
    world.delete(BuiltinResource::Deployments, "web", Some(IntentPropagation::Orphan));
    world.settle();
    assert!(
        world.json(BuiltinResource::ReplicaSets, &set)["metadata"]["ownerReferences"].is_null()
    );
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
    world.create(deployment(2));
    world.settle();
    assert_eq!(world.names(BuiltinResource::ReplicaSets), [set.as_str()]);
    let web = owner::uid(&world.get(BuiltinResource::Deployments, "web")).to_owned();
    assert_eq!(world.owned(&web, BuiltinResource::ReplicaSets), [set]);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2, "no pod was replaced");
}

#[test]
fn cr4_a_relabelled_set_is_released_and_replaced() {
    let mut world = world(deployment(1));
    let set = name(&set_of(&world, "1"));
    world.edit(BuiltinResource::ReplicaSets, &set, |set| {
        set["metadata"]["labels"]["app"] = "x".into()
    });
    world.settle();
    assert!(
        world.json(BuiltinResource::ReplicaSets, &set)["metadata"]["ownerReferences"].is_null()
    );
    assert_eq!(status(&world)["collisionCount"], 1, "its name is taken");
    assert_eq!(world.names(BuiltinResource::ReplicaSets).len(), 2);
}
