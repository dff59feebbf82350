//! Rules of spec/retention.md: the opt-in of ConfigMaps and Secrets, as kubectl sees it.

use super::Kubectl;
use super::runner::rows;

fn manifest(kind: &str, name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\ncontrollersAsOwners: {value}\n"
    )
}

#[test]
fn r5_kubectl_explains_and_validates_it() {
    let kubectl = Kubectl::start();
    for (resource, kind) in [("configmap", "ConfigMap"), ("secret", "Secret")] {
        let text = kubectl.ok(&["explain", &format!("{resource}.controllersAsOwners")]);
        assert!(text.contains("FIELD: controllersAsOwners <boolean>"), "{text}");
        assert!(text.contains("May be set only at"), "{text}");
        let strict = ["apply", "--validate=strict", "--filename", "-"];
        let made = kubectl.feed(&strict, &manifest(kind, "a", "true"));
        assert_eq!(made, format!("{resource}/a created\n"));
        assert_eq!(kubectl.value(&format!("{resource}/a"), ".controllersAsOwners"), "true");
        // Applied again, nothing changes.
        let again = kubectl.feed(&strict, &manifest(kind, "a", "true"));
        assert_eq!(again, format!("{resource}/a unchanged\n"));
        let (_, said) = kubectl.feed_until(&strict, &manifest(kind, "b", "maybe"), 1);
        assert!(said.contains("controllersAsOwners"), "{said}");
    }
}

#[test]
fn r2_r4_a_patch_is_refused_or_warned_of() {
    let kubectl = Kubectl::start();
    for (resource, kind) in [("configmap", "ConfigMap"), ("secret", "Secret")] {
        kubectl.feed(&["create", "--filename", "-"], &manifest(kind, "a", "true"));
        let object = format!("{resource}/a");
        for patch_type in ["merge", "strategic"] {
            let patch = r#"{"controllersAsOwners":false}"#;
            let said = kubectl.fails(&["patch", &object, "--type", patch_type, "--patch", patch]);
            let expected = format!(
                "The {kind} \"a\" is invalid: controllersAsOwners: Invalid value: false: field is immutable"
            );
            assert!(said.starts_with(&expected), "{said}");
        }
        let patch = r#"{"controllersAsOwners":null}"#;
        let mut command = kubectl.command(&["patch", &object, "--type=merge", "--patch", patch]);
        let output = command.output().unwrap();
        assert!(output.status.success());
        let warning = String::from_utf8(output.stderr).unwrap();
        assert!(warning.starts_with("Warning: controllersAsOwners: "), "{warning}");
        assert_eq!(kubectl.value(&object, ".controllersAsOwners"), "true");
    }
}

#[test]
fn r9_a_wide_table_shows_the_intent() {
    let kubectl = Kubectl::start();
    for (resource, kind) in [("configmap", "ConfigMap"), ("secret", "Secret")] {
        kubectl.feed(&["create", "--filename", "-"], &manifest(kind, "a", "true"));
        kubectl.feed(&["create", "--filename", "-"], &manifest(kind, "b", "false"));
        let wide = kubectl.ok(&["get", resource, "--output", "wide"]);
        let table = rows(&wide);
        let row = |name: &str| table.iter().find(|row| row[0] == name).unwrap();
        assert!(row("NAME").ends_with(&["RETAINED-BY", "GC"]), "{wide}");
        assert!(row("a").ends_with(&["0", "auto"]), "{wide}");
        assert!(row("b").ends_with(&["0", "-"]), "{wide}");
        let usual = kubectl.ok(&["get", resource, "b", "--output", "wide"]);
        assert!(!usual.contains("RETAINED-BY"), "{usual}");
        let narrow = kubectl.ok(&["get", resource, "a"]);
        assert!(!narrow.contains("RETAINED-BY"), "{narrow}");
    }
}

#[test]
fn r60_a_job_is_told_that_it_does_not_retain() {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], &manifest("ConfigMap", "a", "true"));
    let job = "
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: example.com/i, envFrom: [{configMapRef: {name: a}}]}]
";
    let file = kubectl.file("job.yaml", job);
    let mut command = kubectl.command(&["create", "--filename", &file]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("a Job does not retain it"), "{warning}");
}
