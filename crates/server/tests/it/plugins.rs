//! Rules of spec/api-server.md: which admission plugins are on (R161), and how users are known beyond certificates
//! (R150, R151).

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tenure_server::Peer;
use tenure_server::authenticate::fixed::{AuthenticationOptions, FixedTokens};

use crate::house::*;

const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn pod_with(name: &str, more: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod
}

#[tokio::test]
async fn r161_a_plugin_that_is_switched_off_adds_nothing() {
    let off = ["ServiceAccount", "Priority", "DefaultTolerationSeconds", "TaintNodesByCondition"];
    let house = House::switching(&[], &off).await;
    let made = house.made(PODS, pod("p")).await;
    for member in ["serviceAccountName", "priority", "tolerations", "volumes"] {
        assert_eq!(made["spec"].get(member), None, "{member}");
    }
    // Nobody looks whether the account is there.
    house.made(PODS, pod_with("q", json!({ "serviceAccountName": "nobody" }))).await;
    let node = house.made(NODES, named("n")).await;
    assert_eq!(node["spec"].get("taints"), None);

    let off = ["StorageObjectInUseProtection", "DefaultStorageClass", "DefaultIngressClass"];
    let house = House::switching(&[], &off).await;
    let class = json!({
        "metadata": {
            "name": "fast",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": "acme.com/disk",
    });
    house.made(CLASSES, class).await;
    let claim = json!({
        "metadata": { "name": "c" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let claim = house.made(CLAIMS, claim).await;
    assert_eq!(claim["metadata"].get("finalizers"), None);
    assert_eq!(claim["spec"].get("storageClassName"), None);
    let ingress = json!({
        "metadata": { "name": "i" },
        "spec": { "defaultBackend": { "service": { "name": "s", "port": { "number": 80 } } } },
    });
    house.made(INGRESSES, ingress).await;
}

#[tokio::test]
async fn r161_a_plugin_that_is_switched_off_refuses_nothing() {
    let refused = [
        (
            "LimitRanger",
            "limitranges",
            json!({
                "metadata": { "name": "l" },
                "spec": { "limits": [{ "type": "Container", "max": { "cpu": "1m" } }] },
            }),
        ),
        (
            "ResourceQuota",
            "resourcequotas",
            json!({
                "metadata": { "name": "q" }, "spec": { "hard": { "pods": "0" } },
            }),
        ),
    ];
    let big = pod_with(
        "big",
        json!({
            "containers": [{ "name": "c", "image": "i", "resources": { "limits": { "cpu": "1" } } }],
        }),
    );
    for (plugin, resource, bound) in refused {
        let path = format!("/api/v1/namespaces/default/{resource}");
        for on in [true, false] {
            let off: &[&str] = if on { &[] } else { &[plugin] };
            let house = House::switching(&[], off).await;
            house.made(&path, bound.clone()).await;
            if resource == "resourcequotas" {
                // What its controller would fill in.
                let status =
                    json!({ "status": { "hard": { "pods": "0" }, "used": { "pods": "0" } } });
                house.merge(&format!("{path}/q/status"), status).await.with(200);
            }
            let code = if on { 403 } else { 201 };
            house.post(PODS, big.clone()).await.with(code);
        }
    }
    let label = json!({
        "metadata": { "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    let house = House::switching(&[], &["PodSecurity", "RuntimeClass"]).await;
    house.merge("/api/v1/namespaces/default", label).await.with(200);
    house.made(PODS, pod_with("shared", json!({ "hostNetwork": true }))).await;
    house.made(PODS, pod_with("class", json!({ "runtimeClassName": "none" }))).await;
}

#[tokio::test]
async fn r161_without_the_life_of_namespaces_nobody_asks_whether_one_is_there() {
    let map = |name: &str| json!({ "metadata": { "name": name } });
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    let house = House::switching(&[], &["NamespaceLifecycle"]).await;
    house.made(nowhere, map("m")).await;
    house.delete("/api/v1/namespaces/default").await.with(200);
    let house = House::switching(&["NamespaceExists"], &["NamespaceLifecycle"]).await;
    house.post(nowhere, map("m")).await.fails(404, "NotFound");
    house.made(CONFIG_MAPS, map("m")).await;
}

/// A webhook that nobody answers, so that whoever calls it fails.
fn nobody(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "webhooks": [{
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://127.0.0.1:1/" },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"],
            }],
        }],
    })
}

#[tokio::test]
async fn r161_webhooks_and_policies_are_switched_off_one_by_one() {
    let policy = json!({
        "metadata": { "name": "p" },
        "spec": {
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"],
            }] },
            "validations": [{ "expression": "false" }],
        },
    });
    let binding = json!({
        "metadata": { "name": "b" }, "spec": { "policyName": "p", "validationActions": ["Deny"] },
    });
    let map = json!({ "metadata": { "name": "m" } });
    for (plugin, objects) in [
        ("MutatingAdmissionWebhook", vec![(MUTATING, nobody("c"))]),
        ("ValidatingAdmissionWebhook", vec![(VALIDATING, nobody("c"))]),
        ("ValidatingAdmissionPolicy", vec![(POLICIES, policy), (BINDINGS, binding)]),
    ] {
        for on in [true, false] {
            let off: &[&str] = if on { &[] } else { &[plugin] };
            let house = House::switching(&[], off).await;
            for (path, object) in &objects {
                house.made(path, object.clone()).await;
            }
            let answer = house.post(CONFIG_MAPS, map.clone()).await;
            assert_eq!(answer.code == 201, !on, "{plugin}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn r161_images_are_always_pulled_where_that_is_switched_on() {
    let house = House::switching(&["AlwaysPullImages"], &[]).await;
    let lazy = pod_with(
        "p",
        json!({
            "initContainers": [{ "name": "i", "image": "i:1", "imagePullPolicy": "Never" }],
            "containers": [{ "name": "c", "image": "c:1", "imagePullPolicy": "IfNotPresent" }],
        }),
    );
    let made = house.made(PODS, lazy).await;
    for list in ["initContainers", "containers"] {
        assert_eq!(made["spec"][list][0]["imagePullPolicy"], "Always", "{list}");
    }
}

#[tokio::test]
async fn r161_what_is_off_by_default_can_be_switched_on() {
    let on = ["ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology"];
    let house = House::switching(&[on[0], on[1], "DenyServiceExternalIPs"], &[]).await;
    let device = pod_with(
        "d",
        json!({ "containers": [{
        "name": "c", "image": "i",
        "resources": { "limits": { "acme.com/gpu": "1" }, "requests": { "acme.com/gpu": "1" } },
    }] }),
    );
    let made = house.made(PODS, device).await;
    let wanted = json!({ "key": "acme.com/gpu", "operator": "Exists", "effect": "NoSchedule" });
    let tolerations = made["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&wanted), "{tolerations:?}");
    let apart = |key: &str| {
        json!({ "affinity": { "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {}, "topologyKey": key,
        }],
    } } })
    };
    let zone = pod_with("z", apart("topology.kubernetes.io/zone"));
    let refused = house.post(PODS, zone).await.fails(403, "Forbidden");
    let why = "has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    house.made(PODS, pod_with("h", apart("kubernetes.io/hostname"))).await;
    let service = |addresses: Value| {
        json!({
            "metadata": { "name": "s" },
            "spec": { "ports": [{ "port": 80 }], "externalIPs": addresses },
        })
    };
    let refused = house.post(SERVICES, service(json!(["192.0.2.1"]))).await;
    let refused = refused.fails(403, "Forbidden");
    let why = "Use of external IPs is denied by admission control";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    house.made(SERVICES, service(json!([]))).await;
    let changed = json!({ "spec": { "externalIPs": ["192.0.2.1"] } });
    house.merge(&format!("{SERVICES}/s"), changed).await.fails(403, "Forbidden");
    // Without the plugins all of that is let through.
    let house = House::new().await;
    house.made(PODS, pod_with("z", apart("topology.kubernetes.io/zone"))).await;
    house.made(SERVICES, service(json!(["192.0.2.1"]))).await;
}

/// The code of a GET by somebody who shows this token, or nothing.
async fn get_with(house: &House, path: &str, token: Option<&str>) -> u16 {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::default()).unwrap();
    house.send(&Peer::default(), request).await.status().as_u16()
}

#[tokio::test]
async fn r150_tokens_of_a_file_are_believed() {
    let fixed_tokens = FixedTokens::read("secret,alice,1,\"system:masters\"\nother,bob,2").unwrap();
    let options = AuthenticationOptions { fixed_tokens, ..AuthenticationOptions::default() };
    let house = House::knowing(options).await;
    assert_eq!(get_with(&house, PODS, Some("secret")).await, 200);
    assert_eq!(get_with(&house, PODS, Some("other")).await, 403, "known, without a right");
    assert_eq!(get_with(&house, PODS, Some("wrong")).await, 401);
    let review = json!({ "spec": { "token": "other" } });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let status = &house.made(path, review).await["status"];
    assert_eq!(status["user"]["username"], "bob");
    let elsewhere = json!({ "spec": { "token": "other", "audiences": ["vault"] } });
    let status = &house.made(path, elsewhere).await["status"];
    assert_ne!(status["authenticated"], true, "{status}");
}

#[tokio::test]
async fn r151_anonymous_requests_can_be_switched_off() {
    let house = House::new().await;
    assert_eq!(get_with(&house, "/healthz", None).await, 200);
    let options = AuthenticationOptions { anonymous: false, ..AuthenticationOptions::default() };
    let house = House::knowing(options).await;
    assert_eq!(get_with(&house, "/healthz", None).await, 401);
}
