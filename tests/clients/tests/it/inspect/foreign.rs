//! Servers of others: lists that are `null`, and bindings of policies that choose their parameters by labels.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::json;

use super::House;
use crate::typed;

/// An API server with two kinds, of which there are no objects: lists are `null`, as Go writes them.
fn server_of_nulls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    url
}

fn answer(stream: std::net::TcpStream) {
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    // One request after another on a connection that is kept.
    while let Some(Ok(first)) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let resource = |plural: &str, kind: &str| {
            json!({
                "resource": plural, "responseKind": { "group": "", "version": "v1", "kind": kind },
                "scope": "Namespaced", "singularResource": "", "shortNames": null,
                "verbs": ["delete", "get", "list", "watch"],
            })
        };
        let body = match path.split('?').next().unwrap_or_default() {
            "/api" => json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
                "items": [{ "metadata": { "name": "" }, "versions": [{
                    "version": "v1", "freshness": "Current",
                    "resources": [resource("pods", "Pod"), resource("configmaps", "ConfigMap")],
                }] }],
            }),
            "/apis" => json!({
                "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
                "items": null,
            }),
            _ => json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": { "resourceVersion": "7" }, "items": null, "rows": null,
                "columnDefinitions": null,
            }),
        }
        .to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
        if write!(writer, "{head}: {}\r\n\r\n{body}", body.len()).is_err() {
            return;
        }
    }
}

#[test]
fn an_empty_list_may_be_null() {
    let house = House::new();
    let url = server_of_nulls();
    let file = house.server.folder().join("nulls");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": url } }],
        "users": [{ "name": "c", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let file = file.display();
    let audit = house.ok(&format!("audit --kubeconfig {file}"));
    assert_eq!(audit, "nothing found: looked at 0 objects of 2 kinds\n");
    let unused = house.run(&format!("unused --kubeconfig {file}"));
    assert_eq!(unused.code, Some(0), "{unused:?}");
}

#[test]
fn a_binding_that_selects_its_parameters_leaves_other_maps_unused() {
    let house = House::new();
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "metadata": { "name": "limits" },
        "spec": {
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "matchConstraints": { "resourceRules": [{ "apiGroups": ["apps"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["statefulsets"] }] },
            "validations": [{ "expression": "true" }],
        },
    });
    house.send("POST", &format!("{group}/validatingadmissionpolicies"), &policy);
    let binding = json!({
        "metadata": { "name": "limits" },
        "spec": {
            "policyName": "limits", "validationActions": ["Deny"],
            "paramRef": {
                "selector": { "matchLabels": { "role": "limits" } },
                "parameterNotFoundAction": "Allow",
            },
        },
    });
    house.send("POST", &format!("{group}/validatingadmissionpolicybindings"), &binding);
    for (name, role) in [("chosen", "limits"), ("left", "none")] {
        let map = json!({ "metadata": { "name": name, "labels": { "role": role } } });
        house.send("POST", "/api/v1/namespaces/default/configmaps", &map);
    }
    let report = typed::run(&house.server, "unused");
    assert_eq!(report.code, Some(3), "{report:?}");
    assert!(super::line(&report.out, "configmap/left").contains(" unused "), "{}", report.out);
    let chosen = super::line(&report.out, "configmap/chosen");
    assert!(chosen.contains(" unknown ") && chosen.contains("parameters of a policy"), "{chosen}");
}
