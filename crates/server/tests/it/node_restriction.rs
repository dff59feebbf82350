//! Rules of spec/downward-api.md: what a node may read and write, as tables: R139a–R139d.

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const NODES: &str = "/api/v1/nodes";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const CSI_DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const DEVICES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const MIRROR: &str = "kubernetes.io/config.mirror";

fn node(name: &str) -> Peer {
    peer(&format!("system:node:{name}"), &["system:nodes"])
}

async fn nodes() -> House {
    let house = House::new().await;
    for name in ["a", "b"] {
        house.made(NODES, json!({"metadata": {"name": name}})).await;
    }
    house
}

/// Sends as node `a` and gives the code and the answer.
async fn send(house: &House, method: &str, path: &str, kind: &str, body: &Value) -> (u16, String) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = house.ask_as(&node("a"), method, path, &[("content-type", kind)], body).await;
    (answer.code, answer.text().to_string())
}

async fn check(house: &House, rows: &[(&str, &str, Value, u16)]) {
    for (method, path, body, code) in rows {
        let kind = if *method == "PATCH" { MERGE } else { JSON };
        let (found, said) = send(house, method, path, kind, body).await;
        assert_eq!(found, *code, "{method} {path} {body}: {said}");
    }
}

fn bound_pod(name: &str, node: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap());
    pod
}

#[tokio::test]
async fn r139a_a_secret_leads_to_a_node_by_every_kind_of_reference() {
    let house = nodes().await;
    for name in ["claimed", "staged", "controlled", "other", "plain", "mirrored"] {
        house.made(SECRETS, json!({"metadata": {"name": name}})).await;
    }
    let claim = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeName": format!("of-{name}"),
                "resources": {"requests": {"storage": "1Gi"}},
            },
        })
    };
    let volume = |name: &str, csi: Value| {
        json!({
            "metadata": {"name": format!("of-{name}")},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": name},
                "csi": csi,
            },
        })
    };
    let secret = |name: &str| json!({"namespace": "default", "name": name});
    let handle = |more: Value| {
        let mut csi = json!({"driver": "d.example.com", "volumeHandle": "h"});
        csi.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        csi
    };
    for (name, csi) in [
        (
            "data",
            json!({
                "nodePublishSecretRef": secret("claimed"), "nodeStageSecretRef": secret("staged"),
                "controllerPublishSecretRef": secret("controlled"),
            }),
        ),
        ("web-scratch", json!({})),
        ("foreign", json!({"nodePublishSecretRef": secret("other")})),
    ] {
        house.made(CLAIMS, claim(name)).await;
        house.made(VOLUMES, volume(name, handle(csi))).await;
    }
    let template = json!({"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let volumes = json!({"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "more", "projected": {"sources": [{"secret": {"name": "plain"}}]}},
    ]});
    house.made(PODS, bound_pod("web", "a", volumes)).await;
    let foreign = json!({"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "foreign"}},
    ]});
    house.made(PODS, bound_pod("far", "b", foreign)).await;
    let get = |path: &str, name: &str| format!("{path}/{name}");
    let rows: Vec<(String, u16)> = [
        (SECRETS, "claimed", 200),
        (SECRETS, "staged", 200),
        (SECRETS, "plain", 200),
        // For the controller's eyes only, and for those of the other node.
        (SECRETS, "controlled", 403),
        (SECRETS, "other", 403),
        (CLAIMS, "data", 200),
        (CLAIMS, "web-scratch", 200),
        (CLAIMS, "foreign", 403),
        (VOLUMES, "of-data", 200),
        (VOLUMES, "of-web-scratch", 200),
        (VOLUMES, "of-foreign", 403),
    ]
    .map(|(path, name, code)| (get(path, name), code))
    .to_vec();
    for (path, code) in rows {
        let (found, said) = send(&house, "GET", &path, JSON, &Value::Null).await;
        assert_eq!(found, code, "{path}: {said}");
    }
    // A claim is read one by one, and its status alone is written.
    check(
        &house,
        &[
            ("GET", CLAIMS, Value::Null, 403),
            ("GET", &format!("{CLAIMS}?fieldSelector=metadata.name%3Ddata"), Value::Null, 403),
            ("DELETE", &format!("{CLAIMS}/data"), Value::Null, 403),
            ("PATCH", &format!("{CLAIMS}/data"), json!({"metadata": {"labels": {"x": "y"}}}), 403),
            ("GET", &format!("{CLAIMS}/data/status"), Value::Null, 403),
            ("PATCH", &format!("{CLAIMS}/foreign/status"), json!({"status": {}}), 403),
        ],
    )
    .await;
    let status = format!("{CLAIMS}/data/status");
    for (body, code) in [
        (json!({"status": {"capacity": {"storage": "2Gi"}}}), 200),
        (json!({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}}), 200),
        (json!({"status": {"phase": "Lost"}}), 403),
        (json!({"metadata": {"labels": {"x": "y"}}}), 403),
        (json!({"metadata": {"finalizers": ["example.com/x"]}}), 403),
        (json!({"spec": {"volumeName": "of-foreign"}}), 403),
    ] {
        let (found, said) = send(&house, "PATCH", &status, MERGE, &body).await;
        assert_eq!(found, code, "{body}: {said}");
    }
}

#[tokio::test]
async fn r139b_a_mirror_pod_is_the_nodes_own_and_leads_nowhere() {
    let house = nodes().await;
    let uid = house.get(&format!("{NODES}/a")).await.json["metadata"]["uid"].clone();
    house.made(SECRETS, json!({"metadata": {"name": "s"}})).await;
    let owner = |more: Value| {
        let mut owner = json!({
            "apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true,
        });
        owner.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        owner
    };
    let mirror = |name: &str, owners: Vec<Value>, spec: Value| {
        let mut pod = bound_pod(name, "a", spec);
        pod["metadata"]["annotations"] = json!({MIRROR: "x"});
        pod["metadata"]["ownerReferences"] = owners.into();
        pod
    };
    let own = || vec![owner(json!({}))];
    let volume = |source: Value| {
        let mut volume = json!({"name": "v"});
        volume.as_object_mut().unwrap().extend(source.as_object().cloned().unwrap());
        json!({"volumes": [volume]})
    };
    let env = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    let good = mirror("good", own(), volume(json!({"emptyDir": {}})));
    let (code, said) = send(&house, "POST", PODS, JSON, &good).await;
    assert_eq!(code, 201, "{said}");
    let made = house.get(&format!("{PODS}/good")).await.json;
    assert_eq!(made["spec"].get("serviceAccountName"), None, "a mirror is not changed");
    assert_eq!(made["spec"]["volumes"].as_array().unwrap().len(), 1);
    let mut plain = mirror("bad", own(), json!({}));
    plain["metadata"].as_object_mut().unwrap().remove("annotations");
    for pod in [
        plain,
        mirror("bad", own(), json!({"nodeName": "b"})),
        mirror("bad", vec![], json!({})),
        mirror(
            "bad",
            vec![owner(json!({})), owner(json!({"uid": "u", "controller": false}))],
            json!({}),
        ),
        mirror("bad", vec![owner(json!({"name": "b"}))], json!({})),
        mirror("bad", vec![owner(json!({"kind": "Pod"}))], json!({})),
        mirror("bad", vec![owner(json!({"controller": false}))], json!({})),
        mirror("bad", vec![owner(json!({"blockOwnerDeletion": true}))], json!({})),
        mirror("bad", vec![owner(json!({"uid": "another"}))], json!({})),
        mirror("bad", own(), json!({"serviceAccountName": "default"})),
        mirror("bad", own(), json!({"imagePullSecrets": [{"name": "s"}]})),
        mirror("bad", own(), json!({"containers": [{"name": "c", "image": "i", "env": env}]})),
        mirror("bad", own(), volume(json!({"secret": {"secretName": "s"}}))),
        mirror("bad", own(), volume(json!({"configMap": {"name": "s"}}))),
        mirror("bad", own(), volume(json!({"persistentVolumeClaim": {"claimName": "s"}}))),
        mirror("bad", own(), volume(json!({"csi": {"driver": "d.example.com"}}))),
        mirror(
            "bad",
            own(),
            volume(json!({"projected": {"sources": [
            {"serviceAccountToken": {"path": "t"}}]}})),
        ),
        mirror(
            "bad",
            own(),
            volume(json!({"projected": {"sources": [
            {"configMap": {"name": "s"}}]}})),
        ),
        mirror("bad", own(), json!({"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]})),
    ] {
        let (code, said) = send(&house, "POST", PODS, JSON, &pod).await;
        assert_eq!(code, 403, "{pod}: {said}");
    }
    // Not even one that an administrator wrote lets its node read anything.
    let odd = mirror("odd", vec![], volume(json!({"configMap": {"name": "kube-root-ca.crt"}})));
    house.made(PODS, odd).await;
    let config = format!("{CONFIG_MAPS}/kube-root-ca.crt");
    check(&house, &[("GET", &config, Value::Null, 403)]).await;
    for spec in [
        json!({"serviceAccountName": "default"}),
        volume(json!({"secret": {"secretName": "s"}})),
        volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
    ] {
        house.post(PODS, mirror("worse", vec![], spec)).await.fails(403, "Forbidden");
    }
    // What is a mirror stays one.
    let strip = json!({"metadata": {"annotations": {MIRROR: null}}});
    let (code, said) = send(&house, "PATCH", &format!("{PODS}/good/status"), MERGE, &strip).await;
    assert_eq!(code, 422, "{said}");
}

#[tokio::test]
async fn r139c_a_node_reports_and_changes_nothing_else() {
    let house = nodes().await;
    house.made(PODS, bound_pod("mine", "a", json!({}))).await;
    house.made(PODS, bound_pod("far", "b", json!({}))).await;
    let slice = |name: &str, node: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "driver": "d.example.com",
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
        })
    };
    let attachment = |name: &str, node: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"attacher": "d.example.com", "nodeName": node,
                "source": {"persistentVolumeName": "v"}},
        })
    };
    let csi = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    house.made(CSI_NODES, csi("b")).await;
    house.made(SLICES, slice("far", "b")).await;
    house.made(ATTACHMENTS, attachment("mine", "a")).await;
    house.made(ATTACHMENTS, attachment("far", "b")).await;
    let claim =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": []}}});
    house.made(DEVICES, claim("used")).await;
    house.made(DEVICES, claim("free")).await;
    let uses = json!({"resourceClaims": [{"name": "r", "resourceClaimName": "used"}]});
    house.made(PODS, bound_pod("device", "a", uses)).await;
    let status = format!("{PODS}/mine/status");
    let of_node = format!("{NODES}/a/status");
    let selected = |node: &str| format!("{SLICES}?fieldSelector=spec.nodeName%3D{node}");
    let (of_a, of_b) = (selected("a"), selected("b"));
    let none = Value::Null;
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let owners = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}]}});
    check(
        &house,
        &[
            ("PATCH", &status, json!({"status": {"phase": "Running"}}), 200),
            ("PATCH", &status, json!({"metadata": {"labels": {"x": "y"}}}), 403),
            (
                "PATCH",
                &status,
                json!({"status": {"resourceClaimStatuses": [
            {"name": "r", "resourceClaimName": "free"}]}}),
                403,
            ),
            (
                "PATCH",
                &status,
                json!({"status": {"extendedResourceClaimStatus": {
            "resourceClaimName": "free", "requestMappings": []}}}),
                403,
            ),
            ("PATCH", &format!("{PODS}/mine"), json!({"metadata": {"labels": {"x": "y"}}}), 403),
            ("POST", &format!("{PODS}/mine/binding"), json!({"target": {"name": "a"}}), 403),
            ("POST", &format!("{PODS}/far/eviction"), json!({"metadata": {"name": "far"}}), 403),
            ("POST", &format!("{PODS}/none/eviction"), json!({"metadata": {"name": "none"}}), 404),
            // What a status may not change is refused, not dropped.
            ("PATCH", &of_node, json!({"status": {"phase": "Running"}}), 200),
            ("PATCH", &of_node, taint, 403),
            ("PATCH", &of_node, owners.clone(), 403),
            ("PATCH", &of_node, json!({"metadata": {"labels": {"x.k8s.io/y": "z"}}}), 403),
            ("PATCH", &format!("{NODES}/a"), owners, 403),
            ("PATCH", &format!("{NODES}/a"), json!({"spec": {"unschedulable": true}}), 200),
            ("PATCH", &format!("{NODES}/b/status"), json!({"status": {}}), 403),
            ("POST", CSI_NODES, csi("a"), 201),
            ("POST", CSI_NODES, csi("c"), 403),
            ("GET", &format!("{CSI_NODES}/b"), none.clone(), 403),
            ("DELETE", &format!("{CSI_NODES}/b"), none.clone(), 403),
            ("GET", CSI_NODES, none.clone(), 403),
            ("POST", SLICES, slice("mine", "a"), 201),
            ("POST", SLICES, slice("new", "b"), 403),
            ("GET", &format!("{SLICES}/mine"), none.clone(), 200),
            ("GET", &format!("{SLICES}/far"), none.clone(), 403),
            ("DELETE", &format!("{SLICES}/far"), none.clone(), 403),
            ("PATCH", &format!("{SLICES}/mine"), json!({"spec": {"nodeName": "b"}}), 422),
            ("GET", SLICES, none.clone(), 403),
            ("GET", &of_a, none.clone(), 200),
            ("GET", &of_b, none.clone(), 403),
            ("DELETE", SLICES, none.clone(), 403),
            ("DELETE", &of_b, none.clone(), 403),
            ("DELETE", &of_a, none.clone(), 200),
            ("GET", &format!("{ATTACHMENTS}/mine"), none.clone(), 200),
            ("GET", &format!("{ATTACHMENTS}/far"), none.clone(), 403),
            ("GET", ATTACHMENTS, none.clone(), 403),
            ("DELETE", &format!("{ATTACHMENTS}/mine"), none.clone(), 403),
            ("GET", &format!("{DEVICES}/used"), none.clone(), 200),
            ("GET", &format!("{DEVICES}/free"), none.clone(), 403),
            ("DELETE", &format!("{DEVICES}/used"), none.clone(), 403),
            ("GET", &format!("{PODS}?fieldSelector=metadata.name%3Dmine"), none.clone(), 200),
            ("GET", &format!("{PODS}?fieldSelector=metadata.name%3Dfar"), none.clone(), 403),
            ("GET", &format!("{PODS}/mine/log"), none.clone(), 403),
            ("POST", &format!("{PODS}/mine/eviction"), json!({"metadata": {"name": "mine"}}), 201),
        ],
    )
    .await;
    let left = house.get(&format!("{SLICES}/far")).await;
    assert_eq!(left.code, 200, "what is of another node stays");
    // Half an identity is a node that may do nothing.
    let nobody = peer("system:node:", &["system:nodes"]);
    house.made("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json!({
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:"}],
    }))
    .await;
    let body = json!({"metadata": {"name": "x"}}).to_string();
    let headers = [("content-type", JSON)];
    let answer = house.ask_as(&nobody, "POST", CONFIG_MAPS, &headers, body).await;
    assert_eq!(answer.code, 403, "{}", answer.text());
}

#[tokio::test]
async fn r139d_a_token_is_for_an_audience_that_the_pod_asks_for() {
    let house = nodes().await;
    house
        .made(
            CSI_DRIVERS,
            json!({
                "metadata": {"name": "d.example.com"},
                "spec": {"tokenRequests": [{"audience": "driver"}]},
            }),
        )
        .await;
    let volumes = json!({"volumes": [
        {"name": "t", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t", "audience": "vault"}}]}},
        {"name": "d", "csi": {"driver": "d.example.com"}},
    ]});
    let pod = house.made(PODS, bound_pod("web", "a", volumes)).await;
    let bound = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": pod["metadata"]["uid"],
    });
    let path = format!("{ACCOUNTS}/default/token");
    let request = |audiences: &[&str], bound: &Value| {
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "boundObjectRef": bound},
        })
    };
    let without = |member: &str| {
        let mut bound = bound.clone();
        bound.as_object_mut().unwrap().remove(member);
        bound
    };
    for (audiences, bound, code) in [
        (&[][..], bound.clone(), 201),
        (&["vault"], bound.clone(), 201),
        (&["driver"], bound.clone(), 201),
        (&["other"], bound.clone(), 403),
        (&["vault", "driver"], bound.clone(), 403),
        (&[], without("uid"), 403),
        (&[], without("apiVersion"), 403),
        (&[], Value::Null, 403),
        (&[], json!({"apiVersion": "v1", "kind": "Pod", "name": "none", "uid": "u"}), 404),
        (&[], json!({"apiVersion": "v1", "kind": "Secret", "name": "web", "uid": "u"}), 403),
    ] {
        let (found, said) = send(&house, "POST", &path, JSON, &request(audiences, &bound)).await;
        assert_eq!(found, code, "{audiences:?} {bound}: {said}");
    }
    // A role may name more audiences.
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    house
        .made(
            &format!("{rbac}/clusterroles"),
            json!({
                "metadata": {"name": "audience"},
                "rules": [{"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""],
                    "resources": ["other"], "resourceNames": ["default"]}],
            }),
        )
        .await;
    house.made(&format!("{rbac}/clusterrolebindings"), json!({
        "metadata": {"name": "audience"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }))
    .await;
    let (found, said) = send(&house, "POST", &path, JSON, &request(&["other"], &bound)).await;
    assert_eq!(found, 201, "{said}");
    // While the driver of a volume is not known, only what the pod says itself is given.
    house.delete(&format!("{CSI_DRIVERS}/d.example.com")).await.with(200);
    for (audience, code) in [("vault", 201), ("other", 403)] {
        let (found, said) = send(&house, "POST", &path, JSON, &request(&[audience], &bound)).await;
        assert_eq!(found, code, "{audience}: {said}");
    }
}
