//! What a LimitRange does to pods and claims: amounts it fills in, amounts it refuses (R250).
//!
//! Reading the LimitRanges of a namespace, and when they are asked, live elsewhere.

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::usage::{Usage, amounts, container_totals};
use tenure_machinery::{Object, ObjectExt};

use crate::podspec::view::{items, items_mut, text};

/// Where a pod says what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Fills in what the containers of a pod leave unsaid and a LimitRange has a default for.
pub fn default_limits(range: &Object, pod: &mut Object) {
    let limits: Vec<&Object> =
        limits(range).filter(|limit| text(limit, "type") == "Container").collect();
    if limits.is_empty() {
        return;
    }
    let mut filled = Vec::new();
    let spec = pod.map_mut("spec");
    for (list, noun) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(spec, list) {
            let name = text(container, "name").to_owned();
            for (side, of, word) in
                [("requests", "defaultRequest", "request"), ("limits", "default", "limit")]
            {
                let set =
                    fill(container, side, limits.iter().filter_map(|limit| limit.map_at(&[of])));
                if !set.is_empty() {
                    filled.push(format!("{} {word} for {noun} {name}", set.join(", ")));
                }
            }
        }
    }
    if !filled.is_empty() {
        let value = format!("LimitRanger plugin set: {}", filled.join("; "));
        pod.map_mut("metadata").map_mut("annotations").insert(ANNOTATION.to_owned(), value.into());
    }
}

/// Sets the amounts that a container leaves unsaid; returns their names in order.
fn fill<'a>(
    container: &mut Object,
    side: &str,
    defaults: impl Iterator<Item = &'a Object>,
) -> Vec<String> {
    // A later limit of the same type has the last word.
    let defaults: Vec<(&String, &Value)> = defaults.flatten().collect();
    let mut set = Vec::new();
    for (name, amount) in defaults.into_iter().rev() {
        if container.at(&["resources", side, name]).is_none() {
            container.map_mut("resources").map_mut(side).insert(name.clone(), amount.clone());
            set.push(name.clone());
        }
    }
    set.sort();
    set
}

/// What a LimitRange does not allow in a pod.
#[must_use]
pub fn refuse_pod(range: &Object, pod: &Object) -> Vec<String> {
    let mut faults = Vec::new();
    for limit in limits(range) {
        match text(limit, "type") {
            "Container" => {
                let of = |list| items_of(pod, list);
                for container in of("containers").chain(of("initContainers")) {
                    let side = |name| amounts(container.map_at(&["resources", name]));
                    bounds(limit, &side("requests"), &side("limits"), &mut faults);
                }
            }
            "Pod" => {
                let side = |name| container_totals(pod, name);
                bounds(limit, &side("requests"), &side("limits"), &mut faults);
            }
            _ => {}
        }
    }
    faults
}

/// What a LimitRange does not allow in a claim.
#[must_use]
pub fn refuse_claim(range: &Object, claim: &Object) -> Vec<String> {
    let requests = amounts(claim.map_at(&["spec", "resources", "requests"]));
    let mut faults = Vec::new();
    for limit in limits(range).filter(|limit| text(limit, "type") == "PersistentVolumeClaim") {
        for (name, least) in amounts(limit.map_at(&["min"])) {
            at_least(limit, &name, least, &requests, &Usage::new(), &mut faults);
        }
        for (name, most) in amounts(limit.map_at(&["max"])) {
            let said = format!("maximum {}", usage_per(limit, &name, most));
            match requests.get(&name) {
                None => faults.push(format!("{said}.  No request is specified")),
                Some(asked) if *asked > most => faults.push(but(&said, "request", *asked)),
                Some(_) => {}
            }
        }
    }
    faults
}

fn limits(range: &Object) -> impl Iterator<Item = &Object> {
    range.list_at(&["spec", "limits"]).iter().filter_map(Value::as_object)
}

fn items_of<'a>(pod: &'a Object, list: &str) -> impl Iterator<Item = &'a Object> {
    pod.map_at(&["spec"]).into_iter().flat_map(move |spec| items(spec, list).collect::<Vec<_>>())
}

/// Checks the least, the most and the ratio of one limit.
fn bounds(limit: &Object, requests: &Usage, caps: &Usage, faults: &mut Vec<String>) {
    for (name, least) in amounts(limit.map_at(&["min"])) {
        at_least(limit, &name, least, requests, caps, faults);
    }
    for (name, most) in amounts(limit.map_at(&["max"])) {
        let said = format!("maximum {}", usage_per(limit, &name, most));
        match (caps.get(&name), requests.get(&name)) {
            (None, _) => faults.push(format!("{said}.  No limit is specified")),
            (Some(cap), _) if *cap > most => faults.push(but(&said, "limit", *cap)),
            (_, Some(asked)) if *asked > most => faults.push(but(&said, "request", *asked)),
            _ => {}
        }
    }
    for (name, ratio) in amounts(limit.map_at(&["maxLimitRequestRatio"])) {
        let per = text(limit, "type");
        let said = format!("{name} max limit to request ratio per {per} is {}", ratio.canonical());
        match (requests.get(&name), caps.get(&name)) {
            (None, _) => {
                faults.push(format!("{said}, but no request is specified or request is 0"))
            }
            (Some(asked), _) if asked.is_zero() => {
                faults.push(format!("{said}, but no request is specified or request is 0"));
            }
            (_, None) => faults.push(format!("{said}, but no limit is specified or limit is 0")),
            (_, Some(cap)) if cap.is_zero() => {
                faults.push(format!("{said}, but no limit is specified or limit is 0"));
            }
            (Some(asked), Some(cap)) if cap.exceeds_ratio(*asked, ratio) => {
                let (asked, cap) = (asked.canonical(), cap.canonical());
                faults.push(format!("{said}, but the limit is {cap} and the request {asked}"));
            }
            _ => {}
        }
    }
}

fn at_least(
    limit: &Object,
    name: &str,
    least: Quantity,
    requests: &Usage,
    caps: &Usage,
    faults: &mut Vec<String>,
) {
    let said = format!("minimum {}", usage_per(limit, name, least));
    match (requests.get(name), caps.get(name)) {
        (None, _) => faults.push(format!("{said}.  No request is specified")),
        (Some(asked), _) if *asked < least => faults.push(but(&said, "request", *asked)),
        (_, Some(cap)) if *cap < least => faults.push(but(&said, "limit", *cap)),
        _ => {}
    }
}

fn usage_per(limit: &Object, name: &str, amount: Quantity) -> String {
    format!("{name} usage per {} is {}", text(limit, "type"), amount.canonical())
}

fn but(said: &str, what: &str, amount: Quantity) -> String {
    format!("{said}, but {what} is {}", amount.canonical())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};
    use tenure_machinery::Object;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn range(limits: Value) -> Object {
        object(json!({"spec": {"limits": limits}}))
    }

    fn pod(resources: &[Value], first: &[Value]) -> Object {
        let list = |of: &[Value]| -> Vec<Value> {
            let one = |(at, resources): (usize, &Value)| json!({"name": format!("c{at}"), "resources": resources});
            of.iter().enumerate().map(one).collect()
        };
        object(json!({"spec": {"containers": list(resources), "initContainers": list(first)}}))
    }

    #[test]
    fn r250_defaults_fill_what_is_unsaid() {
        let range = range(json!([{"type": "Container",
            "default": {"cpu": "500m", "memory": "64Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}]));
        let mut pod =
            pod(&[json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}})], &[json!({})]);
        default_limits(&range, &mut pod);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "2", "memory": "64Mi"}, "requests": {"cpu": "2", "memory": "64Mi"}})
        );
        assert_eq!(
            pod["spec"]["initContainers"][0]["resources"]["requests"],
            json!({"cpu": "100m", "memory": "64Mi"})
        );
        assert_eq!(
            pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
            "LimitRanger plugin set: memory request for container c0; memory limit for container c0; \
             cpu, memory request for init container c0; cpu, memory limit for init container c0"
        );
    }

    #[test]
    fn r250_bounds_hold_for_containers_and_their_sum() {
        let range = range(json!([
            {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}},
            {"type": "Pod", "max": {"cpu": "1500m"}},
        ]));
        let both = |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let count = |containers: &[Value], first: &[Value]| {
            refuse_pod(&range, &pod(containers, first)).len()
        };
        assert_eq!(count(&[both("500m", "1")], &[]), 0);
        assert_eq!(count(&[both("50m", "50m")], &[]), 1);
        assert_eq!(count(&[both("1", "2")], &[]), 2);
        assert_eq!(count(&[both("400m", "1")], &[]), 1);
        assert_eq!(count(&[both("1", "1"), both("1", "1")], &[]), 1);
        assert_eq!(count(&[both("1", "1")], &[both("2", "2")]), 2);
        // What is unsaid is refused by every bound.
        assert_eq!(count(&[json!({})], &[]), 4);
    }

    #[test]
    fn r250_claims_are_bounded() {
        let range = range(json!([{"type": "PersistentVolumeClaim",
            "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]));
        let claim = |storage: &str| {
            object(json!({"spec": {"resources": {"requests": {"storage": storage}}}}))
        };
        assert!(refuse_claim(&range, &claim("1Gi")).is_empty());
        assert_eq!(refuse_claim(&range, &claim("3Gi")).len(), 1);
        assert_eq!(refuse_claim(&range, &claim("1Mi")).len(), 1);
    }

    #[test]
    fn r250_of_a_whole_pod_only_cpu_and_memory_are_bounded() {
        let range = range(json!([{"type": "Pod", "max": {"hugepages-2Mi": "2Mi", "cpu": "1"}}]));
        let own = json!({"hugepages-2Mi": "2Mi", "cpu": "1"});
        let mut pod = pod(&[json!({"requests": own, "limits": own})], &[]);
        pod["spec"]["resources"] = json!({"limits": {"hugepages-2Mi": "4Mi"}});
        assert_eq!(refuse_pod(&range, &pod), [""; 0]);
        pod["spec"]["resources"] = json!({"limits": {"cpu": "2"}});
        assert_eq!(refuse_pod(&range, &pod).len(), 1);
    }
}
