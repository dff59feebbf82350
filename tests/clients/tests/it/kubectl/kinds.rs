//! The same life for every common kind: explained, checked, applied, applied again, shown,
//! watched, labelled, patched, compared, replaced, edited, deleted. What only one kind can do
//! is in the other files.

use std::io::{BufRead as _, BufReader};

use super::{Documented, Kubectl};

const CONFIG_MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
";
const SECRET: &str = "
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {password: b3Blbg==}
";
const DEPLOYMENT: &str = "
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
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
";
const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox}]
";
const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
";
const NAMESPACE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: annex}
";

/// One kind, an object of it, and how kubectl shows them.
struct Kind {
    manifest: &'static str,
    /// How the object is asked for.
    object: &'static str,
    /// How the object is told.
    shown: &'static str,
    header: &'static [&'static str],
    place: Documented<'static>,
}

const APPLY: [&str; 3] = ["apply", "--filename", "-"];

/// One object goes through everything, beside a watch that sees all of it.
fn live(kind: &Kind) {
    let kubectl = Kubectl::start();
    explain_and_check(&kubectl, kind);
    apply(&kubectl, kind);
    let arguments =
        ["get", kind.object, "--watch", "--output-watch-events", "--no-headers", "--output=wide"];
    let mut watch = kubectl.command(&arguments).spawn().unwrap();
    let mut events = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_event(&events.next().unwrap(), "ADDED", kind);
    show(&kubectl, kind);
    label(&kubectl, kind);
    patch(&kubectl, kind);
    rewrite(&kubectl, kind);
    delete(&kubectl, kind);
    let mut changes = 0;
    let last = loop {
        let line = events.next().expect("the watch goes on");
        if line.starts_with("DELETED") {
            break line;
        }
        assert_event(&line, "MODIFIED", kind);
        changes += 1;
    };
    assert_event(&last, "DELETED", kind);
    // Those made here, and those that come with the deletion.
    assert!(changes >= 8, "{changes}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Explains the kind, refuses an unknown field, and creates for show only.
fn explain_and_check(kubectl: &Kubectl, kind: &Kind) {
    let resource = kind.object.split('/').next().unwrap();
    let text = kubectl.explained(resource, &kind.place);
    assert!(text.contains("apiVersion\t<string>"), "{text}");
    let wrong = format!("{}nonsense: 1\n", kind.manifest);
    kubectl.refuses_unknown(&wrong, kind.place.kind, "nonsense");
    for verb in ["create", "apply"] {
        let said = kubectl.feed(&[verb, "--dry-run=server", "--filename=-"], kind.manifest);
        assert_eq!(said, format!("{} created (server dry run)\n", kind.shown));
    }
    assert_eq!(kubectl.ok(&["get", kind.object, "--ignore-not-found"]), "");
}

/// The second time changes nothing.
fn apply(kubectl: &Kubectl, kind: &Kind) {
    let Kind { manifest, object, shown, .. } = kind;
    assert_eq!(kubectl.feed(&APPLY, manifest), format!("{shown} created\n"));
    let revision = kubectl.settled(object);
    assert_eq!(kubectl.feed(&APPLY, manifest), format!("{shown} unchanged\n"));
    assert_eq!(kubectl.value(object, ".metadata.resourceVersion"), revision);
}

/// As a table, a wide table, a name and YAML.
fn show(kubectl: &Kubectl, kind: &Kind) {
    let Kind { object, shown, header, .. } = kind;
    let table = kubectl.ok(&["get", object]);
    let found: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(&found, header, "{table}");
    let name = kind.name();
    assert!(table.lines().nth(1).unwrap().starts_with(&format!("{name} ")), "{table}");
    let wide = kubectl.ok(&["get", object, "--output", "wide"]);
    let found: Vec<&str> = wide.lines().next().unwrap().split_whitespace().collect();
    assert!(found.starts_with(header), "{wide}");
    assert_eq!(kubectl.ok(&["get", object, "--output", "name"]), format!("{shown}\n"));
    let yaml = kubectl.ok(&["get", object, "--output", "yaml"]);
    let kind_line = format!("kind: {}", kind.place.kind);
    for line in ["metadata:", &kind_line, &format!("  name: {name}"), "  uid: "] {
        assert!(yaml.contains(line), "{line} is not in\n{yaml}");
    }
}

/// Sets and takes away a label, and sets an annotation: three changes.
fn label(kubectl: &Kubectl, kind: &Kind) {
    let Kind { manifest, object, shown, .. } = kind;
    assert_eq!(kubectl.ok(&["label", object, "tier=front"]), format!("{shown} labeled\n"));
    kubectl.label_again(object, shown, "tier", "front");
    assert_eq!(kubectl.value(object, ".metadata.labels.tier"), "front");
    assert_eq!(kubectl.ok(&["annotate", object, "note=a b"]), format!("{shown} annotated\n"));
    assert_eq!(kubectl.value(object, ".metadata.annotations.note"), "a b");
    kubectl.unlabel(object, shown, "tier");
    assert_eq!(kubectl.value(object, ".metadata.labels.tier"), "");
    // What others added stays: apply takes back only what it once applied.
    assert_eq!(kubectl.feed(&APPLY, manifest), format!("{shown} unchanged\n"));
    assert_eq!(kubectl.value(object, ".metadata.annotations.note"), "a b");
}

/// Adds a label by each type of patch: three changes.
fn patch(kubectl: &Kubectl, kind: &Kind) {
    let Kind { object, shown, .. } = kind;
    for (patch_type, patch) in [
        ("strategic", r#"{"metadata":{"labels":{"one":"first"}}}"#),
        ("merge", r#"{"metadata":{"labels":{"two":"second"}}}"#),
        ("json", r#"[{"op":"add","path":"/metadata/labels/three","value":"third"}]"#),
    ] {
        let said = kubectl.ok(&["patch", object, "--type", patch_type, "--patch", patch]);
        assert_eq!(said, format!("{shown} patched\n"));
    }
    for (key, value) in [("one", "first"), ("two", "second"), ("three", "third")] {
        assert_eq!(kubectl.value(object, &format!(".metadata.labels.{key}")), value);
    }
}

/// Compares, replaces and edits: two changes.
fn rewrite(kubectl: &Kubectl, kind: &Kind) {
    let Kind { manifest, object, shown, .. } = kind;
    let diff = ["diff", "--filename", "-"];
    assert_eq!(kubectl.feed(&diff, manifest), "");
    let name = format!("{{name: {}", kind.name());
    let longer = manifest.replacen(&name, &format!("{name}, labels: {{one: other}}"), 1);
    let (shown_diff, _) = kubectl.feed_until(&diff, &longer, 1);
    assert!(
        shown_diff.contains("-    one: first") && shown_diff.contains("+    one: other"),
        "{shown_diff}"
    );
    let text = kubectl.ok(&["get", object, "--output", "yaml"]);
    let replaced = text.replace("one: first", "one: replaced");
    let said = kubectl.feed(&["replace", "--filename", "-"], &replaced);
    assert_eq!(said, format!("{shown} replaced\n"));
    assert_eq!(kubectl.value(object, ".metadata.labels.one"), "replaced");
    let said = kubectl.edit(object, "s/one: replaced/one: edited/");
    assert_eq!(said, format!("{shown} edited\n"));
    assert_eq!(kubectl.value(object, ".metadata.labels.one"), "edited");
}

/// Deletes while another kubectl waits for that.
fn delete(kubectl: &Kubectl, kind: &Kind) {
    let Kind { object, shown, .. } = kind;
    let rehearsed = kubectl.ok(&["delete", object, "--dry-run=server"]);
    assert!(rehearsed.contains(" deleted"), "{rehearsed}");
    let arguments = ["wait", object, "--for", "delete", "--timeout", "30s"];
    let waiting = kubectl.command(&arguments).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let (resource, name) = shown.split_once('/').unwrap();
    let said = kubectl.ok(&["delete", object, "--wait=false"]);
    assert!(said.starts_with(&format!("{resource} \"{name}\" deleted")), "{said}");
    let (met, _) = kubectl.finish(waiting, &arguments, Some(0));
    assert_eq!(met, format!("{shown} condition met\n"));
    assert_eq!(kubectl.ok(&["get", object, "--ignore-not-found"]), "");
    let missing = kubectl.fails(&["get", object]);
    assert!(missing.starts_with("Error from server (NotFound)"), "{missing}");
}

fn assert_event(line: &str, event: &str, kind: &Kind) {
    let words: Vec<&str> = line.split_whitespace().take(2).collect();
    assert_eq!(words, [event, kind.name()], "{line}");
}

impl Kind {
    fn name(&self) -> &str {
        self.object.split('/').nth(1).unwrap()
    }
}

#[test]
fn config_map() {
    live(&Kind {
        manifest: CONFIG_MAP,
        object: "configmap/settings",
        shown: "configmap/settings",
        header: &["NAME", "DATA", "AGE"],
        place: Documented { kind: "ConfigMap", group: "", version: "v1" },
    });
}

#[test]
fn secret() {
    live(&Kind {
        manifest: SECRET,
        object: "secret/login",
        shown: "secret/login",
        header: &["NAME", "TYPE", "DATA", "AGE"],
        place: Documented { kind: "Secret", group: "", version: "v1" },
    });
}

#[test]
fn deployment() {
    live(&Kind {
        manifest: DEPLOYMENT,
        object: "deploy/web",
        shown: "deployment.apps/web",
        header: &["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"],
        place: Documented { kind: "Deployment", group: "apps", version: "v1" },
    });
}

#[test]
fn service() {
    live(&Kind {
        manifest: SERVICE,
        object: "svc/web",
        shown: "service/web",
        header: &["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"],
        place: Documented { kind: "Service", group: "", version: "v1" },
    });
}

#[test]
fn job() {
    live(&Kind {
        manifest: JOB,
        object: "job/once",
        shown: "job.batch/once",
        header: &["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"],
        place: Documented { kind: "Job", group: "batch", version: "v1" },
    });
}

#[test]
fn persistent_volume_claim() {
    live(&Kind {
        manifest: CLAIM,
        object: "pvc/disk",
        shown: "persistentvolumeclaim/disk",
        header: &[
            "NAME",
            "STATUS",
            "VOLUME",
            "CAPACITY",
            "ACCESS",
            "MODES",
            "STORAGECLASS",
            "VOLUMEATTRIBUTESCLASS",
            "AGE",
        ],
        place: Documented { kind: "PersistentVolumeClaim", group: "", version: "v1" },
    });
}

#[test]
fn namespace() {
    live(&Kind {
        manifest: NAMESPACE,
        object: "ns/annex",
        shown: "namespace/annex",
        header: &["NAME", "STATUS", "AGE"],
        place: Documented { kind: "Namespace", group: "", version: "v1" },
    });
}

#[test]
fn several_documents_at_once() {
    let kubectl = Kubectl::start();
    let all = [CONFIG_MAP, SECRET, DEPLOYMENT, SERVICE].join("---");
    let said = kubectl.feed(&["apply", "--filename", "-"], &all);
    let expected = "configmap/settings created\nsecret/login created\n\
                    deployment.apps/web created\nservice/web created\n";
    assert_eq!(said, expected);
    let names = kubectl.ok(&["get", "configmap,secret,deploy", "--output", "name"]);
    let ours: Vec<&str> =
        names.lines().filter(|name| !name.ends_with("kube-root-ca.crt")).collect();
    assert_eq!(ours, ["configmap/settings", "secret/login", "deployment.apps/web"]);
    let gone = kubectl.feed(&["delete", "--filename", "-"], &all);
    assert_eq!(gone.lines().count(), 4, "{gone}");
}
