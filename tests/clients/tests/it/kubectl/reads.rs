//! Looking at things: tables, selectors, watches, discovery, documentation.

use std::io::{BufRead as _, BufReader};

use super::runner::rows;
use super::{Documented, Kubectl};

#[test]
fn tables_name_the_namespace_and_labels() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a", "--from-literal", "k=1"]);
    kubectl.ok(&["label", "configmap", "a", "tier=front"]);
    let all = kubectl.ok(&["get", "configmap", "--all-namespaces", "--selector", "tier=front"]);
    let rows_all = rows(&all);
    assert_eq!(rows_all[0], ["NAMESPACE", "NAME", "DATA", "AGE"]);
    assert_eq!(rows_all[1][..3], ["shop", "a", "1"]);
    let labels = kubectl.ok(&["get", "configmap", "a", "--show-labels", "--label-columns", "tier"]);
    let rows_labels = rows(&labels);
    assert_eq!(rows_labels[0], ["NAME", "DATA", "AGE", "TIER", "LABELS"]);
    assert_eq!(rows_labels[1][3..], ["front", "tier=front"]);
    let sorted = kubectl.ok(&["get", "namespace", "--sort-by", ".metadata.name", "--no-headers"]);
    let names: Vec<&str> = rows(&sorted).iter().map(|row| row[0]).collect();
    assert!(
        names.is_sorted() && names.contains(&"default") && names.contains(&"shop"),
        "{names:?}"
    );
}

#[test]
fn selectors_choose() {
    let kubectl = Kubectl::start();
    for (name, tier) in [("a", "front"), ("b", "back"), ("c", "back")] {
        kubectl.ok(&["create", "configmap", name]);
        kubectl.ok(&["label", "configmap", name, &format!("tier={tier}")]);
    }
    let get = |flag: &str, text: &str| {
        kubectl.ok(&[
            "get",
            "configmap",
            flag,
            text,
            "--output",
            "jsonpath={.items[*].metadata.name}",
        ])
    };
    assert_eq!(get("--selector", "tier=back"), "b c");
    assert_eq!(get("--selector", "tier in (front, none)"), "a");
    assert_eq!(get("--selector", "tier,tier!=front"), "b c");
    assert_eq!(get("--field-selector", "metadata.name=c"), "c");
    let said = kubectl.fails(&["get", "configmap", "--field-selector", "data.k=1"]);
    assert!(said.contains("(BadRequest)"), "{said}");
    let gone = kubectl.ok(&["delete", "configmap", "--selector", "tier=back"]);
    assert_eq!(gone.lines().count(), 2, "{gone}");
    assert_eq!(get("--selector", "tier"), "a");
}

#[test]
fn watch_prints_every_change() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a"]);
    let arguments = ["get", "configmap", "a", "--watch", "--output-watch-events", "--no-headers"];
    let mut child = kubectl.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || -> (String, String) {
        let line = lines.next().expect("the watch goes on").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_owned(), format!("{} {}", words[1], words[2]))
    };
    let row = |event: &str, row: &str| (event.to_owned(), row.to_owned());
    assert_eq!(next(), row("ADDED", "a 0"));
    kubectl.ok(&["patch", "configmap", "a", "--patch", r#"{"data":{"k":"v"}}"#]);
    assert_eq!(next(), row("MODIFIED", "a 1"));
    kubectl.ok(&["delete", "configmap", "a"]);
    assert_eq!(next(), row("DELETED", "a 1"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn discovery_lists_the_kinds() {
    let kubectl = Kubectl::start();
    let wide = kubectl.ok(&["api-resources", "--output", "wide", "--no-headers"]);
    let row = |name: &str| {
        let found = wide.lines().find(|line| line.split_whitespace().next() == Some(name));
        found.unwrap_or_else(|| panic!("{name} is missing:\n{wide}")).to_owned()
    };
    let expected: [(&str, &[&str]); 5] = [
        ("configmaps", &["cm", "v1", "true", "ConfigMap"]),
        ("deployments", &["deploy", "apps/v1", "true", "Deployment"]),
        ("jobs", &["batch/v1", "true", "Job"]),
        ("namespaces", &["ns", "v1", "false", "Namespace"]),
        ("persistentvolumeclaims", &["pvc", "v1", "true", "PersistentVolumeClaim"]),
    ];
    for (name, words) in expected {
        let row = row(name);
        let found: Vec<&str> = row.split_whitespace().collect();
        for word in words {
            assert!(found.contains(word), "{word} is not in `{row}`");
        }
    }
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    for (name, categories) in [("deployments", "all"), ("jobs", "all"), ("configmaps", "")] {
        kubectl.ends_with_verbs(&row(name), &verbs, categories);
    }
    // What the category is for.
    kubectl.ok(&["create", "job", "once", "--image", "busybox"]);
    let all = kubectl.ok(&["get", "all", "--output", "name"]);
    // The pod of the Job may be there already.
    let others: Vec<&str> = all.lines().filter(|line| !line.starts_with("pod/once-")).collect();
    assert_eq!(others, ["job.batch/once"]);
    let versions = kubectl.ok(&["api-versions"]);
    for version in ["v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"] {
        assert!(versions.lines().any(|line| line == version), "{version} is not in\n{versions}");
    }
}

#[test]
fn explain_knows_the_fields() {
    let kubectl = Kubectl::start();
    let place = Documented { kind: "Deployment", group: "apps", version: "v1" };
    for (path, field, type_name) in [
        ("deployment.spec.template.spec.containers", "containers", "[]Container"),
        ("deployment.spec.strategy", "strategy", "DeploymentStrategy"),
        ("deployment.spec.replicas", "replicas", "integer"),
    ] {
        let text = kubectl.explained(path, &place);
        let line = kubectl.field_line(field, type_name);
        assert!(text.contains(&line), "`{line}` is not in\n{text}");
    }
    let said = kubectl.fails(&["explain", "deployment.spec.nothing"]);
    assert!(said.contains("does not exist"), "{said}");
}

#[test]
fn describe_and_version_work() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a", "--from-literal", "k=value"]);
    let text = kubectl.ok(&["describe", "configmap", "a"]);
    assert!(text.contains("Name:         a") && text.contains("value"), "{text}");
    let version = kubectl.ok(&["version", "--output", "json"]);
    assert!(version.contains("serverVersion"), "{version}");
    assert!(kubectl.ok(&["get", "--raw", "/readyz"]).starts_with("ok"));
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "deployments"]), "yes\n");
}
