//! Rules of spec/workload-controllers.md: HorizontalPodAutoscalers.

use serde_json::{Value, json};
use tenure_workload::{Act, BuiltinResource};

use crate::world::World;

const AUTOSCALERS: BuiltinResource = BuiltinResource::HorizontalPodAutoscalers;
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/web/scale";
const METRICS: &str =
    "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";

fn cpu(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn autoscaler(metrics: &[Value]) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 10, "metrics": metrics}})
}

/// A Deployment of so many pods that are ready since long ago; an hour later the autoscaler may come.
fn world(replicas: i64) -> World {
    let mut world = World::of(&["horizontalpodautoscaling"]);
    let group = json!({"preferredVersion": {"version": "v1"}, "versions": [{"version": "v1"}]});
    world.api.insert("/apis/apps".into(), group);
    let resources = json!({"resources": [
        {"name": "deployments", "kind": "Deployment"},
        {"name": "deployments/scale", "kind": "Scale"},
    ]});
    world.api.insert("/apis/apps/v1".into(), resources);
    let scale = json!({"kind": "Scale", "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": replicas}, "status": {"replicas": replicas, "selector": "app=web"}});
    world.api.insert(SCALE.into(), scale);
    for number in 0..replicas {
        let name = format!("web-{number}");
        world.create(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}));
        let now = world.now.to_string();
        world.edit_status(BuiltinResource::Pods, &name, |status| {
            *status = json!({"phase": "Running", "startTime": now, "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": now}]});
        });
    }
    world.now += jiff::SignedDuration::from_hours(1);
    world
}

/// Each pod uses so much, as PodMetrics say it.
fn measure(world: &mut World, used: &[&str]) {
    let now = world.now.to_string();
    let items: Vec<Value> = used
        .iter()
        .enumerate()
        .map(|(number, used)| {
            json!({"metadata": {"name": format!("web-{number}")}, "timestamp": now,
                   "window": "30s", "containers": [{"name": "c", "usage": {"cpu": used}}]})
        })
        .collect();
    world.api.insert(METRICS.into(), json!({"items": items}));
}

fn status(world: &World) -> Value {
    world.json(AUTOSCALERS, "web")["status"].clone()
}

/// Status and reason of a condition.
fn condition(world: &World, kind: &str) -> String {
    let status = status(world);
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let found = found.unwrap_or_else(|| panic!("no condition {kind} in {status}"));
    format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
}

fn scaled(world: &World) -> Vec<&str> {
    world.writes.iter().filter(|write| write.starts_with("scale")).map(String::as_str).collect()
}

#[test]
fn ha1_a_busy_deployment_grows_and_says_why() {
    let mut world = world(2);
    measure(&mut world, &["900m", "700m"]);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    assert_eq!(scaled(&world), ["scale web 4"]);
    let words = "Normal SuccessfulRescale New size: 4; reason: cpu resource utilization \
                 (percentage of request) above target";
    assert_eq!(world.events, [words]);
    let status = status(&world);
    assert_eq!((&status["currentReplicas"], &status["desiredReplicas"]), (&json!(2), &json!(4)));
    assert_eq!(status["lastScaleTime"], "2026-01-01T01:00:00Z");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(
        status["currentMetrics"],
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {
            "averageUtilization": 80, "averageValue": "800m"}}}])
    );
    assert_eq!(condition(&world, "AbleToScale"), "True SucceededRescale");
    assert_eq!(condition(&world, "ScalingActive"), "True ValidMetricFound");
    assert_eq!(condition(&world, "ScalingLimited"), "False DesiredWithinRange");
    assert_eq!(condition(&world, "ScaledToZero"), "False NotScaledToZero");
}

#[test]
fn ha1_the_metrics_are_looked_at_every_fifteen_seconds_and_when_the_wishes_change() {
    let mut world = world(2);
    measure(&mut world, &["500m", "500m"]);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    measure(&mut world, &["1", "1"]);
    world.advance(14);
    assert!(scaled(&world).is_empty());
    world.advance(1);
    assert_eq!(scaled(&world), ["scale web 4"]);
    world.edit(AUTOSCALERS, "web", |object| object["spec"]["maxReplicas"] = json!(3));
    world.settle();
    assert_eq!(scaled(&world), ["scale web 4", "scale web 3"]);
    let words = "Normal SuccessfulRescale New size: 3; reason: Current number of replicas above \
                 Spec.MaxReplicas";
    assert_eq!(world.events.last().unwrap(), words);
}

#[test]
fn ha3_without_a_metrics_api_that_is_said_and_nothing_is_scaled() {
    let mut world = world(2);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    assert_eq!(condition(&world, "AbleToScale"), "True SucceededGetScale");
    assert_eq!(condition(&world, "ScalingActive"), "False FailedGetResourceMetric");
    let why = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to \
               fetch metrics from resource metrics API: the server could not find the requested \
               resource (get pods.metrics.k8s.io)";
    let status = status(&world);
    let active = &status["conditions"][1];
    let words = format!("the HPA was unable to compute the replica count: {why}");
    assert_eq!(active["message"], words);
    assert_eq!(status["currentReplicas"], 2);
    assert_eq!(status["currentMetrics"], json!([{"type": ""}]));
    let first = format!(
        "Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error \
         is: failed to get cpu resource metric value: {why}"
    );
    assert_eq!(world.events, [format!("Warning FailedGetResourceMetric {why}"), first]);
    assert!(scaled(&world).is_empty());
}

#[test]
fn ha2_a_target_that_is_not_there_is_told() {
    let mut world = world(2);
    let mut lost = autoscaler(&[cpu(50)]);
    lost["spec"]["scaleTargetRef"]["name"] = json!("gone");
    world.create(lost);
    world.settle();
    assert_eq!(condition(&world, "AbleToScale"), "False FailedGetScale");
    world.edit(AUTOSCALERS, "web", |object| {
        object["spec"]["scaleTargetRef"] =
            json!({"apiVersion": "apps/v1", "kind": "Nothing", "name": "web"});
    });
    world.settle();
    let last = "Warning FailedGetScale no matches for kind \"Nothing\" in group \"apps\"";
    assert_eq!(world.events.last().unwrap(), last);
}

#[test]
fn ha5_a_size_shrinks_five_minutes_after_the_last_need() {
    let mut world = world(4);
    measure(&mut world, &["100m", "100m", "100m", "100m"]);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    assert!(scaled(&world).is_empty());
    assert_eq!(condition(&world, "AbleToScale"), "True ScaleDownStabilized");
    world.advance(300);
    assert!(scaled(&world).is_empty());
    world.advance(15);
    assert_eq!(scaled(&world), ["scale web 1"]);
    assert!(
        world.events.last().unwrap().ends_with("New size: 1; reason: All metrics below target")
    );
}

#[test]
fn ha5_a_behavior_sets_the_pace() {
    let mut world = world(4);
    measure(&mut world, &["100m", "100m", "100m", "100m"]);
    let mut wanted = autoscaler(&[cpu(50)]);
    let rules = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
        {"type": "Pods", "value": 1, "periodSeconds": 60}]});
    wanted["spec"]["behavior"] = json!({"scaleDown": rules, "scaleUp": rules});
    world.create(wanted);
    world.settle();
    assert_eq!(scaled(&world), ["scale web 3"]);
    assert_eq!(condition(&world, "ScalingLimited"), "True ScaleDownLimit");
    world.advance(45);
    assert_eq!(scaled(&world), ["scale web 3"]);
    world.advance(15);
    assert_eq!(scaled(&world), ["scale web 3", "scale web 2"]);
}

#[test]
fn ha6_with_a_part_of_the_metrics_a_size_grows_and_never_shrinks() {
    let other = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "AverageValue", "averageValue": "10"}}});
    let mut world = world(2);
    measure(&mut world, &["1", "1"]);
    world.create(autoscaler(&[other, cpu(50)]));
    world.settle();
    assert_eq!(scaled(&world), ["scale web 4"]);
    assert_eq!(status(&world)["currentMetrics"][0], json!({"type": ""}));
    world.api.get_mut(SCALE).unwrap()["spec"]["replicas"] = json!(2);
    measure(&mut world, &["100m", "100m"]);
    world.advance(1000);
    assert_eq!(scaled(&world), ["scale web 4"]);
    assert_eq!(condition(&world, "ScalingActive"), "False FailedGetExternalMetric");
}

#[test]
fn ha3_metrics_of_objects_and_of_the_outside_count() {
    let mut world = world(3);
    let at = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue?labelSelector=q%3Da";
    world.api.insert(at.into(), json!({"items": [{"value": "30"}, {"value": "15"}]}));
    let custom = json!({"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}],
        "preferredVersion": {"version": "v1beta2"}});
    world.api.insert("/apis/custom.metrics.k8s.io".into(), custom);
    let base = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
    let hits = json!({"items": [{"value": "20k", "windowSeconds": 60}]});
    world.api.insert(format!("{base}/deployments.apps/web/hits"), hits);
    let each: Vec<Value> = (0..3)
        .map(|n| json!({"describedObject": {"name": format!("web-{n}")}, "value": "1500m"}))
        .collect();
    let path = format!("{base}/pods/%2A/load?labelSelector=app%3Dweb");
    world.api.insert(path, json!({"items": each}));
    let external = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"q": "a"}}},
        "target": {"type": "AverageValue", "averageValue": "10"}}});
    let object = json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "15k"}}});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "load"},
        "target": {"type": "AverageValue", "averageValue": "1"}}});
    world.create(autoscaler(&[external, object, pods]));
    world.settle();
    assert_eq!(scaled(&world), ["scale web 5"], "45 in all, 10 for each");
    let current = status(&world)["currentMetrics"].clone();
    assert_eq!(current[0]["external"]["current"], json!({"averageValue": "15"}));
    assert_eq!(current[1]["object"]["current"], json!({"value": "20k"}));
    assert_eq!(current[2]["pods"]["current"], json!({"averageValue": "1500m"}));
}

#[test]
fn ha7_nothing_is_scaled_while_somebody_wants_no_pods() {
    let mut world = world(0);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    assert_eq!(condition(&world, "ScalingActive"), "False ScalingDisabled");
    assert!(scaled(&world).is_empty());
}

#[test]
fn ha7_a_queue_that_is_empty_leaves_no_pods_and_one_that_fills_brings_them_back() {
    let at = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue";
    let external = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "10"}}});
    let mut world = world(1);
    world.api.insert(at.into(), json!({"items": [{"value": "0"}]}));
    let mut wanted = autoscaler(&[external]);
    wanted["spec"]["minReplicas"] = json!(0);
    world.create(wanted);
    world.settle();
    world.advance(330);
    assert_eq!(scaled(&world), ["scale web 0"]);
    assert_eq!(condition(&world, "ScaledToZero"), "True ScaledToZero");
    world.api.insert(at.into(), json!({"items": [{"value": "25"}]}));
    world.advance(15);
    assert_eq!(scaled(&world), ["scale web 0", "scale web 3"]);
    assert_eq!(condition(&world, "ScaledToZero"), "False NotScaledToZero");
}

#[test]
fn ha8_a_size_that_is_refused_is_said_and_tried_with_the_next_look() {
    let mut world = world(2);
    measure(&mut world, &["1", "1"]);
    world.refuse(|intent| {
        matches!(intent.act, Act::PutScale { .. }).then_some((403, "Forbidden", "no"))
    });
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    world.advance(5);
    let refused = "Warning FailedRescale New size: 4; reason: cpu resource utilization \
                   (percentage of request) above target; error: no";
    assert_eq!(world.events, [refused]);
    assert_eq!(condition(&world, "AbleToScale"), "False FailedUpdateScale");
    world.allow();
    world.advance(15);
    assert_eq!(scaled(&world), ["scale web 4"]);
    assert_eq!(condition(&world, "AbleToScale"), "True SucceededRescale");
}

#[test]
fn ha2_two_autoscalers_of_the_same_pods_do_nothing() {
    let mut world = world(2);
    measure(&mut world, &["1", "1"]);
    world
        .create(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}}));
    let mut other = autoscaler(&[cpu(50)]);
    other["metadata"]["name"] = json!("other");
    world.create(other);
    world.create(autoscaler(&[cpu(50)]));
    world.settle();
    assert_eq!(condition(&world, "ScalingActive"), "False AmbiguousSelector");
    assert!(scaled(&world).is_empty());
}
