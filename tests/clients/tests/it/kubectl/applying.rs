//! Server-side apply as people use it: managers, conflicts, force, and the way from client-side
//! apply and back.

use serde_json::json;

use super::Kubectl;
use super::harbour::{BOATS, boat};

const SERVER_SIDE: [&str; 4] = ["apply", "--server-side", "--filename", "-"];

fn map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{{data}}}\n")
}

impl Kubectl {
    /// Applies on the server as `manager`.
    fn apply_as(&self, manager: &str, manifest: &str) -> String {
        let manager = format!("--field-manager={manager}");
        self.feed(&[&SERVER_SIDE[..], &[&manager]].concat(), manifest)
    }

    /// Applies on the server as `manager`, is refused, and gives what was said.
    fn conflict_as(&self, manager: &str, manifest: &str) -> String {
        let manager = format!("--field-manager={manager}");
        self.feed_until(&[&SERVER_SIDE[..], &[&manager]].concat(), manifest, 1).1
    }

    /// Who manages an object and how, without the times; sorted, since times decide the order.
    fn managers(&self, object: &str) -> Vec<String> {
        let each =
            r#"jsonpath={range .metadata.managedFields[*]}{.manager} {.operation}{"\n"}{end}"#;
        let text = self.ok(&["get", object, "--output", each]);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

#[test]
fn a_conflict_is_told_and_forced() {
    let kubectl = Kubectl::start();
    assert_eq!(
        kubectl.apply_as("one", &map("k: first, l: first")),
        "configmap/a serverside-applied\n"
    );
    assert_eq!(
        kubectl.apply_as("one", &map("k: first, l: first")),
        "configmap/a serverside-applied\n"
    );
    let said = kubectl.conflict_as("two", &map("k: second"));
    let first = "error: Apply failed with 1 conflict: conflict with \"one\": .data.k\n";
    assert!(said.starts_with(first), "{said}");
    assert!(said.contains("`--force-conflicts`"), "{said}");
    let said = kubectl.conflict_as("two", &map("k: second, l: second, m: second"));
    let first =
        "error: Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l\n";
    assert!(said.starts_with(first), "{said}");
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"k":"first","l":"first"}"#);
    let dry = [&SERVER_SIDE[..], &["--field-manager=two", "--force-conflicts", "--dry-run=server"]]
        .concat();
    assert_eq!(
        kubectl.feed(&dry, &map("k: second")),
        "configmap/a serverside-applied (server dry run)\n"
    );
    assert_eq!(kubectl.value("configmap/a", ".data.k"), "first");
    let force = [&SERVER_SIDE[..], &["--field-manager=two", "--force-conflicts"]].concat();
    assert_eq!(kubectl.feed(&force, &map("k: second")), "configmap/a serverside-applied\n");
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"k":"second","l":"first"}"#);
    assert_eq!(kubectl.managers("configmap/a"), ["one Apply", "two Apply"]);
    // The loser may leave the field out, and then there is no conflict.
    kubectl.apply_as("one", &map("l: third"));
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"k":"second","l":"third"}"#);
}

#[test]
fn what_an_applier_leaves_out_goes_unless_shared() {
    let kubectl = Kubectl::start();
    kubectl.apply_as("one", &map("k: v, l: v"));
    kubectl.apply_as("two", &map("l: v"));
    kubectl.apply_as("one", &map(""));
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"l":"v"}"#);
    kubectl.apply_as("two", &map(""));
    assert_eq!(kubectl.value("configmap/a", ".data"), "");
    // Other commands are managers too, each under its own name.
    kubectl.ok(&[
        "patch",
        "configmap",
        "a",
        "--type=merge",
        "--patch={\"data\":{\"k\":\"patched\"}}",
    ]);
    let said = kubectl.conflict_as("one", &map("k: v"));
    let first =
        "error: Apply failed with 1 conflict: conflict with \"kubectl-patch\" using v1: .data.k\n";
    assert!(said.starts_with(first), "{said}");
    kubectl.ok(&["label", "configmap", "a", "tier=front", "--field-manager=painter"]);
    let managers = kubectl.managers("configmap/a");
    for manager in ["kubectl-patch Update", "painter Update"] {
        assert!(managers.iter().any(|found| found == manager), "{managers:?}");
    }
}

#[test]
fn scaling_takes_the_replicas_from_the_applier() {
    let kubectl = Kubectl::harbour();
    let shown = "boat.harbour.example/anna";
    let manifest = boat("anna", "port: kiel, crew: 2, cargo: [{name: fish, tons: 2}]");
    assert_eq!(kubectl.apply_as("one", &manifest), format!("{shown} serverside-applied\n"));
    kubectl.ok(&["scale", "bt/anna", "--replicas=5"]);
    let said = kubectl.conflict_as("one", &manifest);
    let first = "error: Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \
                 \"scale\" using harbour.example/v1: .spec.crew\n";
    assert!(said.starts_with(first), "{said}");
    // Elements of a keyed list have owners of their own.
    kubectl.apply_as("two", &boat("anna", "port: kiel, cargo: [{name: salt, tons: 1}]"));
    assert_eq!(kubectl.value("bt/anna", ".spec.cargo[*].name"), "fish salt");
    let said =
        kubectl.conflict_as("two", &boat("anna", "port: kiel, cargo: [{name: fish, tons: 3}]"));
    assert!(said.contains("conflict with \"one\": .spec.cargo[name=\"fish\"].tons\n"), "{said}");
    kubectl.apply_as("one", &boat("anna", "port: kiel"));
    assert_eq!(kubectl.value("bt/anna", ".spec.cargo[*].name"), "salt");
    assert_eq!(kubectl.value("bt/anna", ".spec.crew"), "5");
}

#[test]
fn the_status_is_applied_apart() {
    let kubectl = Kubectl::harbour();
    kubectl.apply_as("one", &boat("anna", "port: kiel"));
    let status = "apiVersion: harbour.example/v1\nkind: Boat\nmetadata: {name: anna}\n\
                  spec: {port: riga}\nstatus: {phase: Afloat}\n";
    kubectl.apply_status(&BOATS, "anna", status, &json!({ "phase": "Afloat" }));
    assert_eq!(kubectl.value("bt/anna", ".status.phase"), "Afloat");
    assert_eq!(kubectl.value("bt/anna", ".spec.port"), "kiel");
}

#[test]
fn from_client_side_apply_and_back() {
    let kubectl = Kubectl::start();
    let client_side = ["apply", "--filename", "-"];
    kubectl.feed(&client_side, &map("k: first, l: first"));
    let annotation = r".metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration";
    assert!(kubectl.value("configmap/a", annotation).contains(r#""k":"first""#));
    assert_eq!(kubectl.managers("configmap/a"), ["kubectl-client-side-apply Update"]);
    // What client-side apply wrote is no conflict for the server-side apply of kubectl.
    let said = kubectl.feed(&SERVER_SIDE, &map("k: second, l: first"));
    assert_eq!(said, "configmap/a serverside-applied\n");
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"k":"second","l":"first"}"#);
    assert!(kubectl.managers("configmap/a").contains(&"kubectl Apply".to_owned()));
    // The annotation follows, so that the way back is open.
    assert!(kubectl.value("configmap/a", annotation).contains(r#""k":"second""#));
    let said = kubectl.feed(&client_side, &map("k: third"));
    assert_eq!(said, "configmap/a configured\n");
    assert_eq!(kubectl.value("configmap/a", ".data"), r#"{"k":"third"}"#);
    // Another manager meets a conflict as everybody does.
    let said = kubectl.conflict_as("other", &map("k: fourth"));
    assert!(
        said.contains("conflict with \"kubectl-client-side-apply\" using v1: .data.k"),
        "{said}"
    );
}
