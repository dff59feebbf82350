//! Rules of spec/retention.md: the unused report (section 13.2) never calls used what somebody mentions.

use serde_json::json;

use super::*;
use crate::facts::UnreadableKind;
use crate::unused::{Inventory, UnusedReport, UsageState};

/// A kind as discovery tells it.
fn kind(group: &str, kind: &str, plural: &str) -> DiscoveredResource {
    DiscoveredResource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        namespaced: true,
        verbs: vec!["list".into()],
    }
}

/// A table of rows as the server sends it.
fn page(columns: &[&str], rows: &[(Value, Value)]) -> TablePage {
    let columns: Vec<Value> = columns.iter().map(|name| json!({ "name": name })).collect();
    let rows: Vec<Value> = rows
        .iter()
        .map(|(cells, metadata)| json!({ "cells": cells, "object": { "metadata": metadata } }))
        .collect();
    serde_json::from_value(json!({ "columnDefinitions": columns, "rows": rows })).unwrap()
}

/// ConfigMaps and Secrets of these names in a namespace.
fn both(namespace: &str, names: &[&str]) -> Vec<UsageSubject> {
    let rows: Vec<(Value, Value)> = names
        .iter()
        .map(|name| {
            let uid = format!("uid-of-{name}");
            (json!([]), json!({ "name": name, "namespace": namespace, "uid": uid }))
        })
        .collect();
    SUBJECTS.iter().flat_map(|(kind, _)| page(&[], &rows).subjects(*kind)).collect()
}

/// The report after these objects were looked through.
fn report(
    subjects: Vec<UsageSubject>,
    objects: &[(DiscoveredResource, Value)],
    unread: &[&str],
) -> UnusedReport {
    let names = SubjectNames::new(&subjects);
    let mut seen = PageUsage::default();
    for (served, object) in objects {
        names.see(served, object, &mut seen);
    }
    let unread = unread.iter().map(|kind| UnreadableKind::new(*kind, "no"));
    let now = jiff::Timestamp::UNIX_EPOCH;
    let inventory = Inventory {
        namespace: None,
        seen: vec![seen],
        unread: unread.collect(),
        partial: false,
        now,
    };
    UnusedReport::new(subjects, inventory)
}

/// The verdict about one subject.
fn verdict(report: &UnusedReport, kind: &str, name: &str) -> UsageState {
    let found = report.subjects.iter().find(|one| one.kind == kind && one.name == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}")).verdict
}

fn in_shop(name: &str, body: Value) -> Value {
    let mut object = body;
    object["metadata"] = json!({ "name": name, "namespace": "shop", "uid": format!("uid-{name}") });
    object
}

/// The 26 places in a pod specification that name a subject (section 3), each with the kind it names.
fn sites() -> Vec<(&'static str, Value)> {
    let mut sites = Vec::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (kind, container) in [
            (
                "ConfigMap",
                json!({ "env": [{ "valueFrom": { "configMapKeyRef": { "name": "x" } } }] }),
            ),
            ("Secret", json!({ "env": [{ "valueFrom": { "secretKeyRef": { "name": "x" } } }] })),
            ("ConfigMap", json!({ "envFrom": [{ "configMapRef": { "name": "x" } }] })),
            ("Secret", json!({ "envFrom": [{ "secretRef": { "name": "x" } }] })),
        ] {
            sites.push((kind, json!({ list: [container] })));
        }
    }
    sites.push(("Secret", json!({ "imagePullSecrets": [{ "name": "x" }] })));
    let named = json!({ "name": "x" });
    for (kind, volume) in [
        ("ConfigMap", json!({ "configMap": named })),
        ("Secret", json!({ "secret": { "secretName": "x" } })),
        ("ConfigMap", json!({ "projected": { "sources": [{ "configMap": named }] } })),
        ("Secret", json!({ "projected": { "sources": [{ "secret": named }] } })),
        ("Secret", json!({ "azureFile": { "secretName": "x" } })),
        ("Secret", json!({ "cephfs": { "secretRef": named } })),
        ("Secret", json!({ "cinder": { "secretRef": named } })),
        ("Secret", json!({ "csi": { "nodePublishSecretRef": named } })),
        ("Secret", json!({ "flexVolume": { "secretRef": named } })),
        ("Secret", json!({ "iscsi": { "secretRef": named } })),
        ("Secret", json!({ "rbd": { "secretRef": named } })),
        ("Secret", json!({ "scaleIO": { "secretRef": named } })),
        ("Secret", json!({ "storageos": { "secretRef": named } })),
    ] {
        sites.push((kind, json!({ "volumes": [volume] })));
    }
    assert_eq!(sites.len(), 26);
    sites
}

/// Every kind that holds a pod specification, and where.
fn holders(spec: &Value) -> Vec<(DiscoveredResource, Value)> {
    let template = json!({ "spec": spec });
    vec![
        (kind("", "Pod", "pods"), in_shop("a", json!({ "spec": spec }))),
        (kind("", "PodTemplate", "podtemplates"), in_shop("a", json!({ "template": template }))),
        (
            kind("", "ReplicationController", "replicationcontrollers"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
        (
            kind("apps", "ReplicaSet", "replicasets"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
        (
            kind("apps", "Deployment", "deployments"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
        (
            kind("apps", "StatefulSet", "statefulsets"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
        (
            kind("apps", "DaemonSet", "daemonsets"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
        (
            kind("apps", "ControllerRevision", "controllerrevisions"),
            in_shop("a", json!({ "data": { "spec": { "template": template } } })),
        ),
        (kind("batch", "Job", "jobs"), in_shop("a", json!({ "spec": { "template": template } }))),
        (
            kind("batch", "CronJob", "cronjobs"),
            in_shop(
                "a",
                json!({ "spec": { "jobTemplate": { "spec": { "template": template } } } }),
            ),
        ),
        (
            kind("argoproj.io", "Rollout", "rollouts"),
            in_shop("a", json!({ "spec": { "template": template } })),
        ),
    ]
}

#[test]
fn every_site_of_every_holder_is_a_use() {
    for (subject, spec) in sites() {
        for (served, object) in holders(&spec) {
            let who = served.kind.clone();
            let report = report(both("shop", &["x", "y"]), &[(served, object)], &[]);
            assert_eq!(verdict(&report, subject, "x"), UsageState::Used, "{who}: {spec}");
            let other = if subject == "Secret" { "ConfigMap" } else { "Secret" };
            // What a custom kind names may be anything of that name.
            let expected = if who == "Rollout" { UsageState::Unknown } else { UsageState::Unused };
            let said = verdict(&report, other, "x");
            assert!(said == expected || said == UsageState::Unused, "{who}: {spec}: {said:?}");
            assert_eq!(verdict(&report, subject, "y"), UsageState::Unused, "{who}: {spec}");
        }
    }
}

#[test]
fn names_do_not_cross_namespaces() {
    let spec = json!({ "volumes": [{ "configMap": { "name": "x" } }] });
    let report = report(both("other", &["x"]), &holders(&spec), &[]);
    assert_eq!(report.unused, 2);
}

#[test]
fn objects_beside_pods_are_users() {
    let elsewhere = json!({ "name": "x", "namespace": "shop" });
    let table = [
        (kind("", "ServiceAccount", "serviceaccounts"), json!({ "secrets": [{ "name": "x" }] })),
        (
            kind("", "ServiceAccount", "serviceaccounts"),
            json!({ "imagePullSecrets": [{ "name": "x" }] }),
        ),
        (
            kind("networking.k8s.io", "Ingress", "ingresses"),
            json!({ "spec": { "tls": [{ "secretName": "x" }] } }),
        ),
        (
            kind("", "PersistentVolume", "persistentvolumes"),
            json!({ "spec": { "csi": { "nodeStageSecretRef": elsewhere } } }),
        ),
        (
            kind("", "PersistentVolume", "persistentvolumes"),
            json!({ "spec": { "csi": { "controllerExpandSecretRef": elsewhere } } }),
        ),
        (
            kind("", "PersistentVolume", "persistentvolumes"),
            json!({ "spec": { "claimRef": { "namespace": "shop" }, "azureFile": { "secretName": "x" } } }),
        ),
        (
            kind("", "PersistentVolume", "persistentvolumes"),
            json!({ "spec": { "azureFile": { "secretName": "x", "secretNamespace": "shop" } } }),
        ),
        (
            kind("storage.k8s.io", "StorageClass", "storageclasses"),
            json!({ "parameters": { "csi.storage.k8s.io/provisioner-secret-name": "x",
                "csi.storage.k8s.io/provisioner-secret-namespace": "shop" } }),
        ),
        (
            kind("storage.k8s.io", "StorageClass", "storageclasses"),
            json!({ "parameters": { "adminSecretName": "x", "adminSecretNamespace": "shop" } }),
        ),
        (
            kind("cert-manager.io", "Certificate", "certificates"),
            json!({ "spec": { "secretName": "x" } }),
        ),
        (
            kind("gateway.networking.k8s.io", "Gateway", "gateways"),
            json!({ "spec": { "tls": { "certificateRefs": [{ "kind": "Secret", "name": "x" }] } } }),
        ),
    ];
    for (served, body) in table {
        let (who, object) = (served.kind.clone(), in_shop("a", body));
        let report = report(both("shop", &["x"]), &[(served, object.clone())], &[]);
        assert_eq!(verdict(&report, "Secret", "x"), UsageState::Used, "{who}: {object}");
    }
}

#[test]
fn what_may_be_a_mention_is_not_called_unused() {
    let pod = |container: Value| json!({ "spec": { "containers": [container] } });
    let rule =
        json!({ "resources": ["configmaps", "secrets"], "resourceNames": ["x"], "verbs": ["get"] });
    let mut annotated = in_shop("a", json!({}));
    annotated["metadata"]["annotations"] =
        json!({ "nginx.ingress.kubernetes.io/auth-secret": "shop/x" });
    let cluster = json!({ "metadata": { "name": "c" }, "rules": [rule] });
    let table = [
        (kind("", "Pod", "pods"), in_shop("a", pod(json!({ "args": ["--leader-election-id=x"] })))),
        (kind("", "Pod", "pods"), in_shop("a", pod(json!({ "command": ["run", "shop/x"] })))),
        (kind("", "Pod", "pods"), in_shop("a", pod(json!({ "env": [{ "value": "x" }] })))),
        (
            kind("rbac.authorization.k8s.io", "Role", "roles"),
            in_shop("a", json!({ "rules": [rule] })),
        ),
        (kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles"), cluster),
        (kind("networking.k8s.io", "Ingress", "ingresses"), annotated.clone()),
        (
            kind(
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
            annotated,
        ),
        (
            kind(
                "admissionregistration.k8s.io",
                "ValidatingAdmissionPolicyBinding",
                "validatingadmissionpolicybindings",
            ),
            json!({ "metadata": { "name": "b" }, "spec": { "paramRef": { "name": "x" } } }),
        ),
        (
            kind("example.com", "Thing", "things"),
            in_shop("a", json!({ "spec": { "settings": "x" } })),
        ),
        (
            kind("example.com", "Plan", "plans"),
            json!({ "metadata": { "name": "p" }, "spec": { "secretRef": { "name": "x" } } }),
        ),
        (
            kind("storage.k8s.io", "StorageClass", "storageclasses"),
            json!({ "metadata": { "name": "s" }, "parameters": {
                "csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}",
                "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}" } }),
        ),
    ];
    for (served, object) in table {
        let who = served.kind.clone();
        let report = report(both("shop", &["x", "y-other"]), &[(served, object.clone())], &[]);
        let said = [verdict(&report, "ConfigMap", "x"), verdict(&report, "Secret", "x")];
        assert!(said.contains(&UsageState::Unknown), "{who}: {object}: {said:?}");
        assert!(report.subjects.iter().all(|one| one.verdict != UsageState::Used), "{who}");
    }
}

#[test]
fn well_known_objects_are_not_called_unused() {
    let place =
        |namespace: &str, name: &str| json!({ "name": name, "namespace": namespace, "uid": name });
    let with = |name: &str, member: &str, key: &str| {
        let mut metadata = place("shop", name);
        metadata[member] = json!({ key: "1" });
        metadata
    };
    let mut helm = place("shop", "sh.helm.release.v1.web.v1");
    helm["labels"] = json!({ "owner": "helm" });
    let secrets = page(
        &["Name", "Type", "Data", "Age"],
        &[
            (json!(["a", "helm.sh/release.v1", 1, "5m"]), place("shop", "release")),
            (json!(["a", "Opaque", 1, "5m"]), helm),
            (json!(["a", "kubernetes.io/service-account-token", 3, "5m"]), place("shop", "token")),
            (json!(["a", "bootstrap.kubernetes.io/token", 3, "5m"]), place("kube-system", "boot")),
            (json!(["a", "Opaque", 3, "5m"]), place("kube-system", "system")),
            (
                json!(["a", "Opaque", 3, "5m"]),
                with("argo", "labels", "argocd.argoproj.io/secret-type"),
            ),
            (json!(["a", "Opaque", 3, "5m"]), place("shop", "plain")),
        ],
    );
    let maps = page(
        &["Name", "Data", "Age", "Retained-By", "GC"],
        &[
            (json!(["a", 1, "5m", 0, "-"]), place("shop", "kube-root-ca.crt")),
            (
                json!(["a", 1, "5m", 0, "-"]),
                with("lock", "annotations", "control-plane.alpha.kubernetes.io/leader"),
            ),
            (json!(["a", 1, "5m", 0, "-"]), with("dashboard", "labels", "grafana_dashboard")),
            (json!(["a", 1, "5m", 0, "-"]), with("own", "labels", "tenure.dev/dynamic")),
            (json!(["a", 1, "5m", 0, "-"]), place("shop", "istio-ca-root-cert")),
            (json!(["a", 1, "5m", 2, "auto"]), place("shop", "kept")),
        ],
    );
    let mut subjects: Vec<UsageSubject> = secrets.subjects(ReferenceKind::Secret).collect();
    subjects.extend(maps.subjects(ReferenceKind::ConfigMap));
    let report = report(subjects, &[], &[]);
    let unused: Vec<&str> = report
        .subjects
        .iter()
        .filter(|one| one.verdict == UsageState::Unused)
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(unused, ["kept", "plain"]);
    let kept = &report.subjects[0];
    assert_eq!((kept.entries, kept.controllers_as_owners), (Some(1), true));
    assert_eq!(report.used, 6);
}

#[test]
fn owners_that_live_may_read_what_they_own() {
    let owned = |name: &str, owner: &str| {
        json!({ "name": name, "namespace": "shop", "uid": name, "ownerReferences":
            [{ "apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": owner }] })
    };
    let rows = [(json!([]), owned("held", "uid-t")), (json!([]), owned("left", "uid-gone"))];
    let subjects: Vec<UsageSubject> = page(&[], &rows).subjects(ReferenceKind::Secret).collect();
    let thing = (kind("example.com", "Thing", "things"), in_shop("t", json!({})));
    let report = report(subjects, &[thing], &[]);
    assert_eq!(verdict(&report, "Secret", "held"), UsageState::Unknown);
    assert_eq!(verdict(&report, "Secret", "left"), UsageState::Unused);
}

#[test]
fn nothing_is_unused_while_something_was_not_read() {
    let report = report(both("shop", &["x"]), &[], &["things.example.com"]);
    assert_eq!((report.unused, report.unknown), (0, 2));
}

/// A policy with parameters of a kind, and a binding that chooses some of them.
fn policy(kind_of: &Value, reference: &Value) -> [(DiscoveredResource, Value); 2] {
    let group = "admissionregistration.k8s.io";
    [
        (
            kind(group, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
            json!({ "metadata": { "name": "b" }, "spec": {
                "policyName": "p", "paramRef": reference } }),
        ),
        (
            kind(group, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            json!({ "metadata": { "name": "p" }, "spec": { "paramKind": kind_of } }),
        ),
    ]
}

#[test]
fn a72_parameters_of_policies_are_those_that_their_bindings_choose() {
    let maps = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
    let secrets = json!({ "apiVersion": "v1", "kind": "Secret" });
    let limits = json!({ "apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit" });
    let labelled = json!({ "selector": { "matchLabels": { "role": "limits" } } });
    let everything = json!({ "selector": {} });
    let elsewhere = json!({ "selector": {}, "namespace": "other" });
    let subjects = || -> Vec<UsageSubject> {
        let row = |name: &str, role: &str| {
            let labels = json!({ "role": role });
            (json!([]), json!({ "name": name, "namespace": "shop", "uid": name, "labels": labels }))
        };
        let rows = [row("x", "limits"), row("y", "other")];
        SUBJECTS.iter().flat_map(|(kind, _)| page(&[], &rows).subjects(*kind)).collect()
    };
    use UsageState::{Unknown, Unused};
    for (kind, reference, expected) in [
        (&maps, &labelled, [Unknown, Unused, Unused, Unused]),
        (&secrets, &labelled, [Unused, Unused, Unknown, Unused]),
        (&maps, &everything, [Unknown, Unknown, Unused, Unused]),
        (&limits, &everything, [Unused; 4]),
        (&maps, &elsewhere, [Unused; 4]),
        (&Value::Null, &everything, [Unused; 4]),
    ] {
        let report = report(subjects(), &policy(kind, reference), &[]);
        let said = [("ConfigMap", "x"), ("ConfigMap", "y"), ("Secret", "x"), ("Secret", "y")]
            .map(|(kind, name)| verdict(&report, kind, name));
        assert_eq!(said, expected, "{kind} {reference}");
    }
    // Of a policy that was not seen nothing is known but the labels.
    let [binding, _] = policy(&maps, &labelled);
    let report = report(subjects(), &[binding], &[]);
    assert_eq!(verdict(&report, "Secret", "x"), Unknown);
    assert_eq!(verdict(&report, "ConfigMap", "y"), Unused);
}
