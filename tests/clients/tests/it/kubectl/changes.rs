//! Every way to change an object: patch, replace, edit, apply, scale, dry runs, strictness.

use serde_json::json;

use super::Kubectl;
use super::version::Writable;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: nginx}]}
";

/// Nobody but the test writes the conditions of a Service.
const SERVICES: Writable<'_> =
    Writable { resource: "service", shown: "service", path: "/api/v1/namespaces/shop/services" };

#[test]
fn patch_in_three_types() {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], WEB);
    // Strategic: the list of containers is merged by name.
    let strategic =
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"busybox"}]}}}}"#;
    let said = kubectl.ok(&["patch", "deploy", "web", "--patch", strategic]);
    assert_eq!(said, "deployment.apps/web patched\n");
    let names = ".spec.template.spec.containers[*].name";
    assert_eq!(kubectl.value("deploy/web", names), "side main");
    // Merge: the list is replaced.
    let merge =
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"httpd"}]}}}}"#;
    kubectl.ok(&["patch", "deploy", "web", "--type", "merge", "--patch", merge]);
    assert_eq!(kubectl.value("deploy/web", names), "main");
    // JSON: operations in order, and a failed test changes nothing.
    let json = r#"[{"op":"test","path":"/spec/replicas","value":2},
                   {"op":"replace","path":"/spec/replicas","value":5}]"#;
    kubectl.ok(&["patch", "deploy", "web", "--type", "json", "--patch", json]);
    assert_eq!(kubectl.value("deploy/web", ".spec.replicas"), "5");
    kubectl.fails(&["patch", "deploy", "web", "--type", "json", "--patch", json]);
    assert_eq!(kubectl.value("deploy/web", ".spec.replicas"), "5");
    let same = kubectl.ok(&["patch", "deploy", "web", "--type", "merge", "--patch", merge]);
    assert_eq!(same, "deployment.apps/web patched (no change)\n");
}

#[test]
fn status_written_leaves_spec_alone() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "service", "clusterip", "web", "--tcp=80"]);
    let told = json!({"type":"Available","status":"True","reason":"Told","message":"told",
        "lastTransitionTime":"2024-01-02T03:04:05Z"});
    let spec = json!({ "sessionAffinity": "ClientIP" });
    kubectl.write_status(&SERVICES, "web", &spec, &json!({ "conditions": [told] }));
    assert_eq!(kubectl.value("service/web", ".spec.sessionAffinity"), "None");
    let met =
        kubectl.ok(&["wait", "service/web", "--for", "condition=Available", "--timeout", "10s"]);
    assert_eq!(met, "service/web condition met\n");
}

#[test]
fn apply_changes_and_removes() {
    let kubectl = Kubectl::start();
    let apply = ["apply", "--filename", "-"];
    let first =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: first, two: second}\n";
    let second = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: third}\n";
    assert_eq!(kubectl.feed(&apply, first), "configmap/a created\n");
    kubectl.ok(&["patch", "configmap", "a", "--patch", r#"{"data":{"three":"kept"}}"#]);
    assert_eq!(kubectl.feed(&apply, second), "configmap/a configured\n");
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"one":"third","three":"kept"}"#);
}

#[test]
fn replace_needs_the_right_revision() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a", "--from-literal", "k=1"]);
    let shown = kubectl.ok(&["get", "configmap", "a", "--output", "yaml"]);
    let changed = shown.replace("k: \"1\"", "k: \"2\"");
    assert_ne!(shown, changed);
    assert_eq!(kubectl.feed(&["replace", "--filename", "-"], &changed), "configmap/a replaced\n");
    assert_eq!(kubectl.value("configmap/a", ".data.k"), "2");
    let (_, said) = kubectl.feed_until(&["replace", "--filename", "-"], &shown, 1);
    assert!(said.contains("(Conflict)"), "{said}");
}

#[test]
fn edit_with_a_scripted_editor() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a", "--from-literal", "k=old"]);
    let said = kubectl.edit("configmap/a", "s/k: old/k: new/");
    assert_eq!(said, "configmap/a edited\n");
    assert_eq!(kubectl.value("configmap/a", ".data.k"), "new");
    let untouched = kubectl.edit("configmap/a", "s/k: old/k: newer/");
    assert_eq!(untouched, "");
}

#[test]
fn diff_shows_what_apply_would_do() {
    let kubectl = Kubectl::start();
    let first = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: one}\n";
    kubectl.feed(&["apply", "--filename", "-"], first);
    assert_eq!(kubectl.feed(&["diff", "--filename", "-"], first), "");
    let (shown, _) =
        kubectl.feed_until(&["diff", "--filename", "-"], &first.replace("one", "two"), 1);
    assert!(shown.contains("-  k: one") && shown.contains("+  k: two"), "{shown}");
    assert_eq!(kubectl.value("configmap/a", ".data.k"), "one");
}

#[test]
fn scale_moves_replicas_and_generation() {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], WEB);
    let said = kubectl.ok(&["scale", "deploy/web", "--replicas", "4"]);
    assert_eq!(said, "deployment.apps/web scaled\n");
    assert_eq!(kubectl.value("deploy/web", ".spec.replicas"), "4");
    assert_eq!(kubectl.value("deploy/web", ".metadata.generation"), "2");
    kubectl.fails(&["scale", "deploy/web", "--current-replicas", "3", "--replicas", "1"]);
    assert_eq!(kubectl.value("deploy/web", ".spec.replicas"), "4");
}

#[test]
fn dry_run_on_the_server_keeps_nothing() {
    let kubectl = Kubectl::start();
    let said = kubectl.feed(&["create", "--dry-run=server", "--filename", "-"], WEB);
    assert_eq!(said, "deployment.apps/web created (server dry run)\n");
    assert_eq!(kubectl.ok(&["get", "deploy", "web", "--ignore-not-found"]), "");
    kubectl.feed(&["create", "--filename", "-"], WEB);
    let revision = kubectl.settled("deploy/web");
    kubectl.ok(&["label", "deploy", "web", "a=b", "--dry-run=server"]);
    kubectl.ok(&["delete", "deploy", "web", "--dry-run=server"]);
    assert_eq!(kubectl.value("deploy/web", ".metadata.resourceVersion"), revision);
}

#[test]
fn strict_validation_names_the_unknown_field() {
    let kubectl = Kubectl::start();
    let wrong = WEB.replace("replicas: 2", "replicsa: 2");
    kubectl.refuses_unknown(&wrong, "Deployment.spec", "replicsa");
    assert_eq!(kubectl.ok(&["get", "deploy", "--output", "name"]), "");
    let (done, warned) = kubectl.create_and_warn(&wrong);
    assert_eq!(done, "deployment.apps/web created\n");
    assert!(warned.contains("Warning: unknown field \"spec.replicsa\""), "{warned}");
    assert_eq!(kubectl.value("deploy/web", ".spec.replicas"), "1");
    kubectl.ok(&["delete", "deploy", "web"]);
    let created = kubectl.create_and_ignore(&wrong);
    let names = kubectl.ok(&["get", "deploy", "--output", "name"]);
    assert_eq!(names, if created { "deployment.apps/web\n" } else { "" });
}

#[test]
fn wrong_values_are_told_by_field() {
    let kubectl = Kubectl::start();
    let (_, said) =
        kubectl.feed_until(&["create", "--filename", "-"], &WEB.replace("nginx", "''"), 1);
    assert!(said.contains("spec.template.spec.containers[0].image"), "{said}");
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    kubectl.feed(&["create", "--filename", "-"], twice);
    let (_, said) = kubectl.feed_until(&["create", "--filename", "-"], twice, 1);
    assert!(said.contains("(AlreadyExists)"), "{said}");
}

#[test]
fn wait_for_deletion_and_for_values() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "configmap", "a", "--from-literal", "k=1"]);
    kubectl.wait_for_value("configmap/a", ".data.k", "1");
    let arguments = ["wait", "configmap/a", "--for=delete", "--timeout=30s"];
    let waiting = kubectl.command(&arguments).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    kubectl.ok(&["delete", "configmap", "a"]);
    let (said, _) = kubectl.finish(waiting, &arguments, Some(0));
    assert_eq!(said, "configmap/a condition met\n");
}
