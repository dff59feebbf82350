//! Rules of spec/api-server.md: what admission adds to objects and refuses, by plugin.

use serde_json::{Value, json};

use crate::house::*;

const LIMITS: &str = "/api/v1/namespaces/default/limitranges";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const RUNTIMES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const HERE: &str = "/api/v1/namespaces/default";

/// A pod with more in its specification.
fn pod_with(name: &str, more: Value) -> Value {
    let mut pod = pod(name);
    let more = more.as_object().unwrap().clone();
    pod["spec"].as_object_mut().unwrap().extend(more);
    pod
}

/// A warning as its header has it.
fn quoted(warning: &str) -> String {
    format!("299 - {warning:?}")
}

async fn label(house: &House, labels: Value) -> Answer {
    let labels: serde_json::Map<String, Value> = labels
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), value.clone()))
        .collect();
    house.merge(HERE, json!({ "metadata": { "labels": labels } })).await
}

#[tokio::test]
async fn r167_enforce_refuses_warn_warns() {
    let house = House::new().await;
    let shared = |name: &str| pod_with(name, json!({ "hostNetwork": true }));
    house.made(PODS, shared("before")).await;
    let told = label(&house, json!({ "enforce": "baseline" })).await;
    let expected = "existing pods in namespace \"default\" violate the new PodSecurity enforce level \"baseline:latest\"";
    assert_eq!(told.warnings(), [quoted(expected), quoted("before: host namespaces")]);
    told.with(200);
    house.post(PODS, shared("a")).await.fails(403, "Forbidden");
    house.post(&format!("{PODS}?dryRun=All"), shared("a")).await.fails(403, "Forbidden");
    house.made(PODS, pod("ok")).await;
    // What runs already may change in what does not matter.
    let before = format!("{PODS}/before");
    house.merge(&before, json!({ "metadata": { "labels": { "a": "b" } } })).await.with(200);
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "other" }] } });
    house.patch(&before, STRATEGIC, image).await.fails(403, "Forbidden");
    // What makes pods is let through with a warning.
    let mut workload = deployment("d");
    workload["spec"]["template"]["spec"]["hostPID"] = json!(true);
    let made = house.post(DEPLOYMENTS, workload).await;
    let warning = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
    assert_eq!(made.warnings(), [quoted(warning)]);
    made.with(201);
    label(&house, json!({ "enforce": null, "warn": "restricted" })).await.with(200);
    let told = house.post(PODS, shared("b")).await;
    assert_eq!(told.warnings().len(), 1);
    told.with(201);
}

#[tokio::test]
async fn r167_debug_containers_are_judged() {
    let house = House::new().await;
    label(&house, json!({ "enforce": "baseline" })).await.with(200);
    house.made(PODS, pod("a")).await;
    let debug = |privileged: bool| {
        json!({ "spec": { "ephemeralContainers": [
            { "name": "d", "image": "i", "securityContext": { "privileged": privileged } },
        ] } })
    };
    let path = format!("{PODS}/a/ephemeralcontainers");
    house.patch(&path, STRATEGIC, debug(true)).await.fails(403, "Forbidden");
    house.patch(&path, STRATEGIC, debug(false)).await.with(200);
}

#[tokio::test]
async fn r167_a_wrong_label_is_refused_and_never_opens() {
    let house = House::new().await;
    label(&house, json!({ "enforce": "basline" })).await.fails(422, "Invalid");
    label(&house, json!({ "enforce-version": "v1.x" })).await.fails(422, "Invalid");
    let namespace = json!({ "metadata": {
        "name": "n", "labels": { "pod-security.kubernetes.io/audit": "none" },
    } });
    house.post("/api/v1/namespaces", namespace).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r250_limit_ranges_fill_in_and_refuse() {
    let house = House::new().await;
    let range = json!({ "metadata": { "name": "l" }, "spec": { "limits": [
        { "type": "Container", "default": { "cpu": "500m" }, "max": { "cpu": "1" } },
        { "type": "PersistentVolumeClaim", "max": { "storage": "1Gi" } },
    ] } });
    house.made(LIMITS, range).await;
    let made = house.made(PODS, pod("a")).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({ "limits": { "cpu": "500m" }, "requests": { "cpu": "500m" } })
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let asks = |amount: &str| json!({ "containers": [{ "name": "c", "image": "i", "resources": { "limits": { "cpu": amount } } }] });
    house.post(PODS, pod_with("b", asks("2"))).await.fails(403, "Forbidden");
    house.made(PODS, pod_with("b", asks("1"))).await;
    let resize = |amount: &str| {
        json!({ "spec": { "containers": [{ "name": "c", "resources": {
            "limits": { "cpu": amount }, "requests": { "cpu": amount },
        } }] } })
    };
    let path = format!("{PODS}/b/resize");
    house.patch(&path, STRATEGIC, resize("1500m")).await.fails(403, "Forbidden");
    house.patch(&path, STRATEGIC, resize("900m")).await.with(200);
    let claim = |storage: &str| {
        json!({ "metadata": { "name": "c" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": storage } },
        } })
    };
    house.post(CLAIMS, claim("2Gi")).await.fails(403, "Forbidden");
    house.made(CLAIMS, claim("1Gi")).await;
}

#[tokio::test]
async fn r251_a_priority_is_that_of_its_class() {
    let house = House::new().await;
    let class = |name: &str, rest: Value| {
        let mut class = json!({ "metadata": { "name": name } });
        class.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        class
    };
    house.made(CLASSES, class("quiet", json!({ "value": 7, "preemptionPolicy": "Never" }))).await;
    let made = house.made(PODS, pod_with("a", json!({ "priorityClassName": "quiet" }))).await;
    assert_eq!(made["spec"]["priority"], 7);
    assert_eq!(made["spec"]["preemptionPolicy"], "Never");
    for (name, wrong) in [
        ("b", json!({ "priority": 1 })),
        ("c", json!({ "preemptionPolicy": "Never" })),
        ("d", json!({ "priorityClassName": "quiet", "preemptionPolicy": "PreemptLowerPriority" })),
        ("e", json!({ "priorityClassName": "none" })),
    ] {
        house.post(PODS, pod_with(name, wrong)).await.fails(403, "Forbidden");
    }
    let default = json!({ "value": 3, "globalDefault": true });
    house.made(CLASSES, class("first", default.clone())).await;
    house.post(CLASSES, class("second", default.clone())).await.fails(403, "Forbidden");
    // That the name is taken is said of those that could be made.
    house.post(CLASSES, class("first", default)).await.fails(403, "Forbidden");
    let path = format!("{CLASSES}/first");
    house.merge(&path, json!({ "description": "still the default" })).await.with(200);
    let made = house.made(PODS, pod("f")).await;
    assert_eq!(made["spec"]["priorityClassName"], "first");
    // An update that leaves it out keeps it.
    let mut put = made.clone();
    put["spec"].as_object_mut().unwrap().remove("priority");
    house.put(&format!("{PODS}/f"), put).await.with(200);
}

#[tokio::test]
async fn r252_a_runtime_class_brings_its_costs_and_nodes() {
    let house = House::new().await;
    house
        .post(PODS, pod_with("a", json!({ "runtimeClassName": "r" })))
        .await
        .fails(403, "Forbidden");
    let class = json!({
        "metadata": { "name": "r" }, "handler": "h", "overhead": { "podFixed": { "cpu": "100m" } },
        "scheduling": {
            "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "k", "operator": "Exists" }],
        },
    });
    house.made(RUNTIMES, class).await;
    let made = house
        .made(PODS, pod_with("a", json!({ "runtimeClassName": "r", "nodeSelector": { "c": "d" } })))
        .await;
    assert_eq!(made["spec"]["overhead"], json!({ "cpu": "100m" }));
    assert_eq!(made["spec"]["nodeSelector"], json!({ "a": "b", "c": "d" }));
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 3);
    for (name, wrong) in [
        ("b", json!({ "runtimeClassName": "r", "nodeSelector": { "a": "c" } })),
        ("c", json!({ "runtimeClassName": "r", "overhead": { "cpu": "1" } })),
        ("d", json!({ "overhead": { "cpu": "1" } })),
    ] {
        house.post(PODS, pod_with(name, wrong)).await.fails(403, "Forbidden");
    }
    house
        .made(PODS, pod_with("e", json!({ "runtimeClassName": "r", "overhead": { "cpu": "0.1" } })))
        .await;
}

/// A quota as if the controller had counted: nothing is used.
async fn quota(house: &House, name: &str, hard: Value, rest: Value) {
    let mut spec = json!({ "hard": hard });
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    house.made(QUOTAS, json!({ "metadata": { "name": name }, "spec": spec })).await;
    let mut used = hard.clone();
    used.as_object_mut().unwrap().values_mut().for_each(|amount| *amount = json!("0"));
    let status = json!({ "status": { "hard": hard, "used": used } });
    house.merge(&format!("{QUOTAS}/{name}/status"), status).await.with(200);
}

async fn used(house: &House, name: &str) -> Value {
    house.get(&format!("{QUOTAS}/{name}")).await.with(200)["status"]["used"].clone()
}

#[tokio::test]
async fn r253_changes_are_charged_with_what_they_use_more() {
    let house = House::new().await;
    quota(&house, "q", json!({ "services.nodeports": "2", "services": "5" }), json!({})).await;
    let ports = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }]);
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": ports } });
    house.made(SERVICES, service).await;
    let path = format!("{SERVICES}/s");
    house.merge(&path, json!({ "spec": { "type": "NodePort" } })).await.with(200);
    assert_eq!(used(&house, "q").await, json!({ "services.nodeports": "2", "services": "1" }));
    let more = json!([
        { "name": "a", "port": 80 }, { "name": "b", "port": 81 }, { "name": "c", "port": 82 },
    ]);
    house.merge(&path, json!({ "spec": { "ports": more } })).await.fails(403, "Forbidden");
    house.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await.with(200);
    assert_eq!(used(&house, "q").await, json!({ "services.nodeports": "2", "services": "1" }));
}

#[tokio::test]
async fn r253_a_pod_that_grows_or_changes_scope_is_charged() {
    let house = House::new().await;
    quota(&house, "cpu", json!({ "requests.cpu": "1" }), json!({})).await;
    quota(&house, "ending", json!({ "pods": "0" }), json!({ "scopes": ["Terminating"] })).await;
    let asks = |amount: &str| json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": amount } } });
    house.made(PODS, pod_with("a", json!({ "containers": [asks("500m")] }))).await;
    let resize = |amount: &str| json!({ "spec": { "containers": [asks(amount)] } });
    let path = format!("{PODS}/a/resize");
    house.patch(&path, STRATEGIC, resize("1100m")).await.fails(403, "Forbidden");
    house.patch(&path, STRATEGIC, resize("800m")).await.with(200);
    assert_eq!(used(&house, "cpu").await, json!({ "requests.cpu": "800m" }));
    let ends = json!({ "spec": { "activeDeadlineSeconds": 60 } });
    house.merge(&format!("{PODS}/a"), ends).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn r253_a_quota_that_came_later_does_not_stand_in_the_way_of_updates() {
    let house = House::new().await;
    let mut body = pod_with("a", json!({ "containers": [{ "name": "c", "image": "i:1" }] }));
    body["metadata"]["finalizers"] = json!(["example.com/f"]);
    house.made(PODS, body).await;
    quota(&house, "cpu", json!({ "requests.cpu": "1" }), json!({})).await;
    let path = format!("{PODS}/a");
    // The pod says nothing of its requests, which only new ones must.
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "i:2" }] } });
    house.patch(&path, STRATEGIC, image).await.with(200);
    let tolerations = json!({ "spec": { "tolerations": [{ "key": "k", "operator": "Exists" }] } });
    house.merge(&path, tolerations).await.with(200);
    house.merge(&path, json!({ "metadata": { "finalizers": null } })).await.with(200);
    // A deadline changes the scope.
    let ends = json!({ "spec": { "activeDeadlineSeconds": 60 } });
    house.merge(&path, ends).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn r253_what_is_refused_is_refused_before_the_name_is_found_taken() {
    let house = House::new().await;
    quota(&house, "q", json!({ "services": "1" }), json!({})).await;
    let service = |address: &str| {
        json!({
            "metadata": { "name": "s" }, "spec": { "clusterIP": address, "ports": [{ "port": 80 }] },
        })
    };
    house.made(SERVICES, service("10.96.0.77")).await;
    for path in [SERVICES.to_owned(), format!("{SERVICES}?dryRun=All")] {
        let status = house.post(&path, service("10.96.0.77")).await.fails(422, "Invalid");
        assert_eq!(fields(&status), ["spec.clusterIPs"]);
        house.post(&path, service("10.96.0.78")).await.fails(403, "Forbidden");
    }
    let status = json!({ "status": { "hard": { "services": "5" } } });
    house.merge(&format!("{QUOTAS}/q/status"), status).await.with(200);
    house.post(SERVICES, service("10.96.0.78")).await.fails(409, "AlreadyExists");
    assert_eq!(used(&house, "q").await, json!({ "services": "1" }));
    house.delete(&format!("{SERVICES}/s")).await.with(200);
    house.made(SERVICES, service("10.96.0.78")).await;
}

#[tokio::test]
async fn r161_what_is_refused_after_validation_carries_its_warnings() {
    let house = House::new().await;
    // A name that is no host's.
    let made = house.post(PODS, pod("a.b")).await;
    let warnings = made.warnings();
    assert_eq!((made.code, warnings.len()), (201, 1), "{warnings:?}");
    quota(&house, "none", json!({ "pods": "0" }), json!({})).await;
    let refused = house.post(PODS, pod("a.c")).await;
    assert_eq!(refused.warnings(), warnings);
    refused.fails(403, "Forbidden");
    label(&house, json!({ "enforce": "restricted" })).await.with(200);
    let refused = house.post(PODS, pod("a.c")).await;
    assert_eq!(refused.warnings(), warnings);
    refused.fails(403, "Forbidden");

    // The same of an update that a policy refuses.
    house.made(DEPLOYMENTS, deployment("d")).await;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["deployments"],
    });
    let spec = json!({
        "matchConstraints": { "resourceRules": [rule] }, "validations": [{ "expression": "false" }],
    });
    let policy = json!({ "metadata": { "name": "p" }, "spec": spec });
    house.made(&format!("{group}/validatingadmissionpolicies"), policy).await;
    let spec = json!({ "policyName": "p", "validationActions": ["Deny"] });
    let binding = json!({ "metadata": { "name": "b" }, "spec": spec });
    house.made(&format!("{group}/validatingadmissionpolicybindings"), binding).await;
    let selector = json!({ "beta.kubernetes.io/os": "linux" });
    let patch = json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
    let refused = house.patch(&format!("{DEPLOYMENTS}/d"), MERGE, patch).await;
    assert!(refused.warnings().iter().any(|text| text.contains("deprecated since v1.14")));
    refused.fails(422, "Invalid");
}

#[tokio::test]
async fn r254_a_pod_gets_the_place_of_its_node() {
    let house = House::new().await;
    const ZONE: &str = "topology.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    let labels = json!({ ZONE: "z", REGION: "r", "topology.kubernetes.io/rack": "k", "a": "b" });
    let node = json!({ "metadata": { "name": "n", "labels": labels } });
    house.made("/api/v1/nodes", node).await;
    let place = json!({ "app": "a", ZONE: "z", REGION: "r" });
    let mut body = pod_with("there", json!({ "nodeName": "n" }));
    body["metadata"]["labels"][ZONE] = json!("elsewhere");
    assert_eq!(house.made(PODS, body).await["metadata"]["labels"], place);
    let nowhere = house.made(PODS, pod_with("nowhere", json!({ "nodeName": "none" }))).await;
    assert_eq!(nowhere["metadata"]["labels"], json!({ "app": "a" }));

    let bindings = "/api/v1/namespaces/default/bindings".to_owned();
    let plain = json!({ "app": "a" });
    for (name, path, target, labels) in [
        ("a", format!("{PODS}/a/binding"), json!({ "kind": "Node", "name": "n" }), &place),
        ("b", format!("{PODS}/b/binding"), json!({ "name": "n" }), &plain),
        // Upstream's plugin does not look at these.
        ("c", bindings, json!({ "kind": "Node", "name": "n" }), &plain),
    ] {
        house.made(PODS, pod(name)).await;
        house.made(&path, json!({ "metadata": { "name": name }, "target": target })).await;
        let bound = house.get(&format!("{PODS}/{name}")).await.with(200);
        assert_eq!(
            (&bound["spec"]["nodeName"], &bound["metadata"]["labels"]),
            (&json!("n"), labels)
        );
    }
    // What the pod says later is its own.
    let path = format!("{PODS}/there");
    let patch = json!({ "metadata": { "labels": { ZONE: "other" } } });
    assert_eq!(house.merge(&path, patch).await.with(200)["metadata"]["labels"][ZONE], "other");
}

#[tokio::test]
async fn r254_a_pod_is_resized_within_its_node() {
    let house = House::new().await;
    house.made(RUNTIMES, json!({
        "metadata": { "name": "r" }, "handler": "h", "overhead": { "podFixed": { "cpu": "200m" } },
    })).await;
    let asks = |amount: &str| {
        json!({ "containers": [{
        "name": "c", "image": "i", "resources": { "requests": { "cpu": amount } },
    }] })
    };
    let mut spec = asks("500m");
    spec["runtimeClassName"] = json!("r");
    house.bound(pod_with("p", spec)).await;
    let path = format!("{PODS}/p/resize");
    let resize =
        async |amount: &str| house.patch(&path, STRATEGIC, json!({ "spec": asks(amount) })).await;
    // What changes nothing needs no node.
    resize("500m").await.with(200);
    resize("600m").await.fails(403, "Forbidden");
    let cause = |status: Value| status["details"]["causes"][0]["reason"].clone();
    house.made("/api/v1/nodes", named("n")).await;
    let status = json!({ "status": { "allocatable": { "cpu": "1", "memory": "1Gi" } } });
    house.merge("/api/v1/nodes/n/status", status).await.with(200);
    resize("800m").await.with(200);
    assert_eq!(cause(resize("801m").await.fails(403, "Forbidden")), "NodeCapacity");
    let windows = json!({ "metadata": { "labels": { "kubernetes.io/os": "windows" } } });
    house.merge("/api/v1/nodes/n", windows).await.with(200);
    assert_eq!(cause(resize("700m").await.fails(403, "Forbidden")), "UnsupportedPlatform");
}

#[tokio::test]
async fn r253_custom_kinds_are_counted() {
    let house = House::new().await;
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    house.post(definitions, definition).await.with(201);
    house.made(QUOTAS, json!({ "metadata": { "name": "q" }, "spec": { "hard": { "count/widgets.example.com": "1" } } })).await;
    // The controller writes the limit down and cannot count what it does not know.
    let status = json!({ "status": { "hard": { "count/widgets.example.com": "1" }, "used": {} } });
    house.merge(&format!("{QUOTAS}/q/status"), status).await.with(200);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = |name: &str| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } });
    house.made(widgets, widget("a")).await;
    house.post(widgets, widget("b")).await.fails(403, "Forbidden");
}

#[tokio::test]
async fn r254_claims_grow_where_their_class_allows_it() {
    let house = House::new().await;
    let class = |name: &str, grows: bool| json!({ "metadata": { "name": name }, "provisioner": "p", "allowVolumeExpansion": grows });
    for (name, grows) in [("fixed", false), ("elastic", true)] {
        house.made("/apis/storage.k8s.io/v1/storageclasses", class(name, grows)).await;
        let claim = json!({ "metadata": { "name": name }, "spec": {
            "storageClassName": name, "accessModes": ["ReadWriteOnce"],
            "volumeName": "v", "resources": { "requests": { "storage": "1Gi" } },
        } });
        house.made(CLAIMS, claim).await;
        let path = format!("{CLAIMS}/{name}");
        let grow = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
        let unbound = house.merge(&path, grow.clone()).await.code;
        assert!(unbound == 403 || unbound == 422, "{unbound}");
        house
            .merge(&format!("{path}/status"), json!({ "status": { "phase": "Bound" } }))
            .await
            .with(200);
        let grown = house.merge(&path, grow).await;
        assert_eq!(grown.code, if grows { 200 } else { 403 });
    }
}

#[tokio::test]
async fn r254_new_nodes_are_tainted_and_ingresses_get_the_default_class() {
    let house = House::new().await;
    let made = house.made("/api/v1/nodes", named("n")).await;
    assert_eq!(
        made["spec"]["taints"],
        json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }])
    );
    let class = json!({
        "metadata": {
            "name": "web", "annotations": { "ingressclass.kubernetes.io/is-default-class": "true" },
        },
        "spec": { "controller": "example.com/web" },
    });
    house.made("/apis/networking.k8s.io/v1/ingressclasses", class).await;
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    let ingress = json!({ "metadata": { "name": "i" }, "spec": { "defaultBackend": backend } });
    let made = house.made("/apis/networking.k8s.io/v1/namespaces/default/ingresses", ingress).await;
    assert_eq!(made["spec"]["ingressClassName"], "web");
}

/// In a hundred namespaces, because mostly the account is there sooner than the pod.
#[tokio::test]
async fn r165_a_pod_waits_for_the_account_of_a_new_namespace() {
    let house = House::new().await;
    for number in 0..100 {
        let name = format!("new-{number}");
        house.made("/api/v1/namespaces", named(&name)).await;
        house.made(&format!("/api/v1/namespaces/{name}/pods"), pod("p")).await;
    }
    // An account that somebody named is not waited for.
    let pods = "/api/v1/namespaces/new-0/pods";
    let other = pod_with("q", json!({ "serviceAccountName": "other" }));
    let before = std::time::Instant::now();
    house.post(pods, other).await.fails(403, "Forbidden");
    assert!(before.elapsed() < std::time::Duration::from_millis(900));
}

#[tokio::test]
async fn r165_an_account_may_list_the_secrets_of_its_pods() {
    let house = House::new().await;
    let account = json!({
        "metadata": {
            "name": "strict", "annotations": { "kubernetes.io/enforce-mountable-secrets": "true" },
        },
        "secrets": [{ "name": "mine" }],
    });
    house.made("/api/v1/namespaces/default/serviceaccounts", account).await;
    let mounts = |secret: &str| json!({ "serviceAccountName": "strict", "volumes": [{ "name": "v", "secret": { "secretName": secret } }] });
    house.made(PODS, pod_with("a", mounts("mine"))).await;
    house.post(PODS, pod_with("b", mounts("theirs"))).await.fails(403, "Forbidden");
    let reads = json!({ "serviceAccountName": "strict", "containers": [{ "name": "c", "image": "i",
        "envFrom": [{ "secretRef": { "name": "theirs" } }] }] });
    house.post(PODS, pod_with("c", reads)).await.fails(403, "Forbidden");
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "d", "image": "i",
        "env": [{ "name": "E", "valueFrom": { "secretKeyRef": { "name": "theirs", "key": "k" } } }] }] } });
    house
        .patch(&format!("{PODS}/a/ephemeralcontainers"), STRATEGIC, debug)
        .await
        .fails(403, "Forbidden");
}
