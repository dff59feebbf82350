//! What an object uses of a ResourceQuota, which quotas look at it, and what they ask of pods.
//!
//! Counting all objects of a namespace and refusing what is too much live elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::quantity::Quantity;
use crate::{Object, ObjectExt};

/// Amounts by the names that quotas use.
pub type Usage = BTreeMap<String, Quantity>;

/// Resources that a quota may name without `count/`.
const COUNTED: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// What each container must say once a quota limits it.
const TOLD: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// Where claims named their class before there was a field.
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const NATIVE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What an object of this resource uses.
#[must_use]
pub fn of(group: &str, plural: &str, object: &Object) -> Usage {
    let mut usage = Usage::new();
    let one = Quantity::from_units(1);
    let dot = if group.is_empty() { "" } else { "." };
    usage.insert(format!("count/{plural}{dot}{group}"), one);
    if !group.is_empty() {
        return usage;
    }
    if COUNTED.contains(&plural) {
        usage.insert(plural.to_owned(), one);
    }
    match plural {
        "pods" if !ended(object) => pod(object, &mut usage),
        "services" => service(object, &mut usage),
        "persistentvolumeclaims" => claim(object, &mut usage),
        _ => {}
    }
    usage
}

fn ended(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn pod(pod: &Object, usage: &mut Usage) {
    usage.insert("pods".to_owned(), Quantity::from_units(1));
    for (side, names) in
        [("requests", charged_usage(pod, "requests")), ("limits", charged_usage(pod, "limits"))]
    {
        for (name, amount) in names {
            let native = NATIVE.contains(&name.as_str());
            if side == "limits" && !native {
                continue;
            }
            if side == "requests" && (native || name.starts_with("hugepages-")) {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("{side}.{name}"), amount);
        }
    }
}

/// What a pod is charged for: what it asks for in all, and what the pod itself costs.
fn charged_usage(pod: &Object, side: &str) -> Usage {
    let mut together = container_totals(pod, side);
    let whole = amounts(pod.map_at(&["spec", "resources", side]));
    together.extend(whole.into_iter().filter(|(name, _)| name.starts_with("hugepages-")));
    let mut overhead = amounts(pod.map_at(&["spec", "overhead"]));
    // What has no limit does not get one.
    let limited = |name: &String| together.get(name).is_some_and(|limit| !limit.is_zero());
    overhead.retain(|name, _| side == "requests" || limited(name));
    add(&mut together, &overhead);
    together
}

/// What a pod asks for in all, as `requests` or `limits`: its containers together, or one of those that come
/// first if that is more; the cpu and the memory it says as a whole go before that.
#[must_use]
pub fn container_totals(pod: &Object, side: &str) -> Usage {
    let mut together = Usage::new();
    let mut first = Usage::new();
    let mut beside = Usage::new();
    for container in objects(pod.list_at(&["spec", "initContainers"])) {
        let mut needs = amounts(container.map_at(&["resources", side]));
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut beside, &needs);
            needs = beside.clone();
        } else {
            add(&mut needs, &beside);
        }
        for (name, amount) in needs {
            let most = first.get(&name).map_or(amount, |known| amount.max(*known));
            first.insert(name, most);
        }
    }
    for container in objects(pod.list_at(&["spec", "containers"])) {
        add(&mut together, &amounts(container.map_at(&["resources", side])));
    }
    add(&mut together, &beside);
    for (name, amount) in first {
        let most = together.get(&name).map_or(amount, |known| amount.max(*known));
        together.insert(name, most);
    }
    let whole = amounts(pod.map_at(&["spec", "resources", side]));
    together.extend(whole.into_iter().filter(|(name, _)| is_compute(name)));
    together
}

/// The resources that give a pod its class.
fn is_compute(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// Whether a pod asks for no cpu and no memory: as a whole if it says anything as a whole, else in its
/// containers. What the pod itself costs does not count.
fn is_best_effort(pod: &Object) -> bool {
    let sides = ["requests", "limits"];
    let is_silent = |resources: Option<&Object>| {
        let all = sides.iter().flat_map(|side| amounts(resources.and_then(|r| r.map_at(&[side]))));
        all.into_iter().all(|(name, amount)| !is_compute(&name) || amount.is_zero())
    };
    let says = |resources: &&Object| {
        sides.iter().any(|side| resources.map_at(&[side]).is_some_and(|list| !list.is_empty()))
    };
    if let Some(whole) = pod.map_at(&["spec", "resources"]).filter(says) {
        return is_silent(Some(whole));
    }
    ["initContainers", "containers"]
        .iter()
        .flat_map(|list| objects(pod.list_at(&["spec", list])))
        .all(|container| is_silent(container.map_at(&["resources"])))
}

fn add(to: &mut Usage, from: &Usage) {
    for (name, amount) in from {
        let sum = to.get(name).map_or(*amount, |known| known.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

fn objects(list: &[Value]) -> impl Iterator<Item = &Object> {
    list.iter().filter_map(Value::as_object)
}

/// The amounts of a list of resources; what is no amount is left out.
#[must_use]
pub fn amounts(map: Option<&Object>) -> Usage {
    let amount =
        |(name, value): (&String, &Value)| Some((name.clone(), Quantity::from_value(value)?));
    map.into_iter().flatten().filter_map(amount).collect()
}

fn service(service: &Object, usage: &mut Usage) {
    let ports = i64::try_from(service.list_at(&["spec", "ports"]).len()).unwrap_or(i64::MAX);
    let (balancers, nodes) = match service.str_at(&["spec", "type"]) {
        Some("NodePort") => (0, ports),
        Some("LoadBalancer") => {
            let all = service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(false);
            (1, if all { ports } else { chosen_node_ports(service) })
        }
        _ => (0, 0),
    };
    usage.insert("services.loadbalancers".to_owned(), Quantity::from_units(balancers));
    usage.insert("services.nodeports".to_owned(), Quantity::from_units(nodes));
}

/// How many ports of a service name their node port.
fn chosen_node_ports(service: &Object) -> i64 {
    let ports = objects(service.list_at(&["spec", "ports"]));
    let chosen = ports.filter(|port| port.int_at(&["nodePort"]).is_some_and(|port| port != 0));
    i64::try_from(chosen.count()).unwrap_or(i64::MAX)
}

fn claim(claim: &Object, usage: &mut Usage) {
    // The annotation goes before the field, even where it is empty.
    let class = claim
        .str_at(&["metadata", "annotations", BETA_CLASS])
        .or_else(|| claim.str_at(&["spec", "storageClassName"]))
        .unwrap_or_default();
    let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
    if !class.is_empty() {
        usage.insert(of_class("persistentvolumeclaims"), Quantity::from_units(1));
    }
    let requested = claim.at(&["spec", "resources", "requests", "storage"]);
    // What a resize has taken already is used until it is given back.
    let taken = claim.at(&["status", "allocatedResources", "storage"]);
    let taken = taken.and_then(Quantity::from_value).unwrap_or(Quantity::ZERO);
    if let Some(amount) = requested.and_then(Quantity::from_value) {
        let amount = in_whole_bytes(in_whole_bytes(amount).max(taken));
        usage.insert("requests.storage".to_owned(), amount);
        if !class.is_empty() {
            usage.insert(of_class("requests.storage"), amount);
        }
    }
}

/// The amount rounded up to whole bytes, written as it was: quotas count no parts of bytes.
fn in_whole_bytes(amount: Quantity) -> Quantity {
    amount.plus(Quantity::from_units(amount.value()).minus(amount))
}

/// What one usage has more than another.
#[must_use]
pub fn increase(now: &Usage, before: &Usage) -> Usage {
    let more = |(name, amount): (&String, &Quantity)| {
        let known = before.get(name).copied().unwrap_or(Quantity::ZERO);
        (*amount > known).then(|| (name.clone(), amount.minus(known)))
    };
    now.iter().filter_map(more).collect()
}

/// Whether an update may change what an object uses, or which quotas look at it.
#[must_use]
pub fn may_change(group: &str, plural: &str, old: &Object, new: &Object) -> bool {
    if !group.is_empty() {
        return false;
    }
    match plural {
        "pods" => ended(old) != ended(new) || old.map_at(&["spec"]) != new.map_at(&["spec"]),
        "services" | "persistentvolumeclaims" => {
            of(group, plural, old) != of(group, plural, new)
                || attributes_classes(old) != attributes_classes(new)
        }
        _ => false,
    }
}

/// Whether the scopes of a quota let it look at an object; only pods and claims have scopes.
#[must_use]
pub fn in_scope(quota: &Object, group: &str, plural: &str, object: &Object) -> bool {
    let scopes = quota.list_at(&["spec", "scopes"]);
    let chosen = quota.list_at(&["spec", "scopeSelector", "matchExpressions"]);
    if scopes.is_empty() && chosen.is_empty() {
        return true;
    }
    let is_in: fn(&Object, &str, &str, &[Value]) -> bool = match (group, plural) {
        ("", "pods") => pod_in,
        ("", "persistentvolumeclaims") => claim_in,
        _ => return false,
    };
    scopes.iter().filter_map(Value::as_str).all(|scope| is_in(object, scope, "Exists", &[]))
        && objects(chosen).all(|wanted| {
            let text = |name: &str| wanted.str_at(&[name]).unwrap_or_default();
            is_in(object, text("scopeName"), text("operator"), wanted.list_at(&["values"]))
        })
}

/// The classes of attributes that a claim has, wants, or is on its way to.
fn attributes_classes(claim: &Object) -> BTreeSet<&str> {
    [
        &["spec", "volumeAttributesClassName"][..],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ]
    .into_iter()
    .filter_map(|path| claim.str_at(path))
    .filter(|class| !class.is_empty())
    .collect()
}

fn claim_in(claim: &Object, scope: &str, operator: &str, values: &[Value]) -> bool {
    if scope != "VolumeAttributesClass" {
        return false;
    }
    let classes = attributes_classes(claim);
    let listed = |class: &&str| values.iter().any(|value| value.as_str() == Some(class));
    match operator {
        "In" => classes.iter().any(listed),
        "NotIn" => classes.is_empty() || !classes.iter().all(listed),
        "DoesNotExist" => classes.is_empty(),
        _ => !classes.is_empty(),
    }
}

/// Whether a pod has a say about pods of other namespaces: whom it runs beside, or not.
fn reaches_other_namespaces(pod: &Object) -> bool {
    let crosses = |term: &Object| {
        !term.list_at(&["namespaces"]).is_empty() || term.map_at(&["namespaceSelector"]).is_some()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|side| {
        let of = |list: &str| objects(pod.list_at(&["spec", "affinity", side, list]));
        of("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || of("preferredDuringSchedulingIgnoredDuringExecution")
                .filter_map(|weighted| weighted.map_at(&["podAffinityTerm"]))
                .any(crosses)
    })
}

fn pod_in(pod: &Object, scope: &str, operator: &str, values: &[Value]) -> bool {
    let ends = pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        "PriorityClass" => {
            let class = pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default();
            let listed = values.iter().any(|value| value.as_str() == Some(class));
            match operator {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

/// What containers of a pod leave unsaid although a quota limits it, in the words of upstream.
#[must_use]
pub fn unsaid<'a>(pod: &Object, limited: impl Iterator<Item = &'a str>) -> Option<String> {
    if pod.map_at(&["spec", "resources"]).is_some_and(|whole| !whole.is_empty()) {
        return None;
    }
    let limited: BTreeSet<&str> = limited.filter(|name| TOLD.contains(name)).collect();
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in objects(pod.list_at(&["spec", list])) {
            for name in &limited {
                let (side, what) = name.split_once('.').unwrap_or(("requests", *name));
                if container.at(&["resources", side, what]).is_none() {
                    let names = silent.entry(*name).or_default();
                    names.insert(container.str_at(&["name"]).unwrap_or_default());
                }
            }
        }
    }
    let reported = |(name, of): (&&str, &BTreeSet<&str>)| {
        format!("{name} for: {}", of.iter().copied().collect::<Vec<_>>().join(","))
    };
    let reported: Vec<String> = silent.iter().map(reported).collect();
    (!reported.is_empty()).then(|| format!("must specify {}", reported.join("; ")))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn written(usage: &Usage) -> String {
        let one = |(name, amount): (&String, &Quantity)| format!("{name}={}", amount.canonical());
        usage.iter().map(one).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn qu1_a_pod_uses_what_its_containers_ask_for() {
        let pod = object(&json!({"spec": {
            "overhead": {"cpu": "10m"},
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "first", "resources": {"requests": {"cpu": "1"}}}],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "200m", "example.com/card": "1"},
                    "limits": {"memory": "1Gi", "example.com/card": "1"}}},
                {"name": "b", "resources": {"requests": {"cpu": "300m"}}}]}}));
        assert_eq!(
            written(&of("", "pods", &pod)),
            "count/pods=1,cpu=1110m,limits.memory=1Gi,pods=1,requests.cpu=1110m,\
             requests.example.com/card=1"
        );
        let limited = ["limits.cpu", "pods", "requests.cpu", "requests.storage"];
        assert_eq!(
            unsaid(&pod, limited.into_iter()).as_deref(),
            Some("must specify limits.cpu for: a,b,first,side")
        );
        let ended = object(&json!({"status": {"phase": "Failed"}}));
        assert_eq!(written(&of("", "pods", &ended)), "count/pods=1");
    }

    #[test]
    fn qu1_other_objects_count_and_have_no_scopes() {
        let service = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}});
        assert_eq!(
            written(&of("", "services", &object(&service))),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
        );
        let claim = json!({"spec": {"storageClassName": "fast",
            "resources": {"requests": {"storage": "5Gi"}}}});
        assert_eq!(
            written(&of("", "persistentvolumeclaims", &object(&claim))),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             fast.storageclass.storage.k8s.io/requests.storage=5Gi,persistentvolumeclaims=1,\
             requests.storage=5Gi"
        );
        assert_eq!(written(&of("apps", "deployments", &Object::new())), "count/deployments.apps=1");
        let scoped = object(&json!({"spec": {"scopes": ["BestEffort"]}}));
        assert!(!in_scope(&scoped, "", "services", &object(&service)));
        assert!(in_scope(&scoped, "", "pods", &Object::new()));
    }

    #[test]
    fn qu1_a_claim_belongs_to_the_class_of_its_annotation_and_uses_whole_bytes() {
        let claim = |class: Value| {
            object(&json!({
                "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": class}},
                "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1500m"}}},
            }))
        };
        assert_eq!(
            written(&of("", "persistentvolumeclaims", &claim(json!("slow")))),
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2,\
             slow.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             slow.storageclass.storage.k8s.io/requests.storage=2"
        );
        assert_eq!(
            written(&of("", "persistentvolumeclaims", &claim(json!("")))),
            "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2"
        );
        let taken = object(&json!({
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"allocatedResources": {"storage": "2Gi"}},
        }));
        let usage = of("", "persistentvolumeclaims", &taken);
        assert_eq!(usage["requests.storage"].canonical(), "2Gi");
    }

    #[test]
    fn qu1_what_a_pod_itself_costs_is_no_effort() {
        let quota = object(&json!({"spec": {"scopes": ["BestEffort"]}}));
        let is_in = |spec: Value| in_scope(&quota, "", "pods", &object(&json!({"spec": spec})));
        let asks = |side: &str, name: &str| json!({"resources": {side: {name: "1"}}});
        assert!(is_in(json!({"containers": [{}], "overhead": {"cpu": "1", "memory": "1Gi"}})));
        assert!(is_in(json!({"containers": [asks("requests", "example.com/card")]})));
        assert!(!is_in(json!({"containers": [asks("limits", "cpu")]})));
        assert!(!is_in(
            json!({"initContainers": [asks("requests", "memory")], "containers": [{}]})
        ));
        assert!(!is_in(json!({"containers": [{}], "resources": {"requests": {"cpu": "1"}}})));
        assert!(is_in(json!({"containers": [{}], "resources": {"requests": {"cpu": "0"}}})));
    }

    #[test]
    fn qu1_huge_pages_of_a_whole_pod_count_for_quotas_only() {
        let pages = json!({"hugepages-2Mi": "4Mi", "cpu": "2"});
        let pod = object(&json!({"spec": {
            "resources": {"requests": pages, "limits": pages},
            "containers": [{"resources": {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}}}],
        }}));
        assert_eq!(of("", "pods", &pod)["requests.hugepages-2Mi"].canonical(), "4Mi");
        let requested = container_totals(&pod, "requests");
        assert_eq!(
            (requested["hugepages-2Mi"].canonical(), requested["cpu"].canonical()),
            ("2Mi".into(), "2".into())
        );
        assert!(!container_totals(&pod, "limits").contains_key("hugepages-2Mi"));
    }
}
