//! The same life for every common kind: applied, applied again, shown, labelled, deleted.

use super::Kubectl;

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

/// Applies, applies again, shows, labels, annotates and deletes one object.
fn live(manifest: &str, short: &str, shown: &str, header: &[&str]) {
    let kubectl = Kubectl::start();
    let apply = ["apply", "--filename", "-"];
    assert_eq!(kubectl.feed(&apply, manifest), format!("{shown} created\n"));
    assert_eq!(kubectl.feed(&apply, manifest), format!("{shown} unchanged\n"));
    let revision = kubectl.value(short, ".metadata.resourceVersion");

    let table = kubectl.ok(&["get", short]);
    let found: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(found, header, "{table}");
    let name = short.split('/').nth(1).unwrap();
    assert!(table.lines().nth(1).unwrap().starts_with(&format!("{name} ")), "{table}");
    let wide = kubectl.ok(&["get", short, "--output", "wide"]);
    assert!(wide.lines().next().unwrap().starts_with("NAME "), "{wide}");
    assert_eq!(kubectl.ok(&["get", short, "--output", "name"]), format!("{shown}\n"));
    let yaml = kubectl.ok(&["get", short, "--output", "yaml"]);
    for line in ["metadata:", &format!("  name: {name}"), "  uid: "] {
        assert!(yaml.contains(line), "{line} is not in\n{yaml}");
    }

    assert_eq!(kubectl.ok(&["label", short, "tier=front"]), format!("{shown} labeled\n"));
    assert_eq!(kubectl.ok(&["label", short, "tier=front"]), format!("{shown} not labeled\n"));
    assert_eq!(kubectl.ok(&["annotate", short, "note=a b"]), format!("{shown} annotated\n"));
    assert_eq!(kubectl.value(short, ".metadata.labels.tier"), "front");
    assert_eq!(kubectl.value(short, ".metadata.annotations.note"), "a b");
    assert_ne!(kubectl.value(short, ".metadata.resourceVersion"), revision);
    assert_eq!(kubectl.ok(&["label", short, "tier-"]), format!("{shown} unlabeled\n"));
    // What others added stays: apply takes back only what it once applied.
    assert_eq!(kubectl.feed(&apply, manifest), format!("{shown} unchanged\n"));
    assert_eq!(kubectl.value(short, ".metadata.annotations.note"), "a b");
}

/// Deletes and makes sure that it is gone.
fn die(manifest: &str, short: &str, quoted: &str) {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], manifest);
    let said = kubectl.ok(&["delete", short, "--timeout", "30s"]);
    assert!(said.starts_with(&format!("{quoted} deleted")), "{said}");
    assert_eq!(kubectl.ok(&["get", short, "--ignore-not-found"]), "");
    let missing = kubectl.fails(&["get", short]);
    assert!(missing.starts_with("Error from server (NotFound)"), "{missing}");
}

#[test]
fn config_map() {
    live(CONFIG_MAP, "configmap/settings", "configmap/settings", &["NAME", "DATA", "AGE"]);
}

#[test]
fn secret() {
    live(SECRET, "secret/login", "secret/login", &["NAME", "TYPE", "DATA", "AGE"]);
}

#[test]
fn deployment() {
    let header = ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"];
    live(DEPLOYMENT, "deploy/web", "deployment.apps/web", &header);
}

#[test]
fn service() {
    let header = ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"];
    live(SERVICE, "svc/web", "service/web", &header);
}

#[test]
fn job() {
    live(JOB, "job/once", "job.batch/once", &["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]);
}

#[test]
fn persistent_volume_claim() {
    let header = [
        "NAME",
        "STATUS",
        "VOLUME",
        "CAPACITY",
        "ACCESS",
        "MODES",
        "STORAGECLASS",
        "VOLUMEATTRIBUTESCLASS",
        "AGE",
    ];
    live(CLAIM, "pvc/disk", "persistentvolumeclaim/disk", &header);
}

#[test]
fn namespace() {
    live(NAMESPACE, "ns/annex", "namespace/annex", &["NAME", "STATUS", "AGE"]);
}

#[test]
fn deleted_objects_are_gone() {
    die(CONFIG_MAP, "configmap/settings", "configmap \"settings\"");
    die(SECRET, "secret/login", "secret \"login\"");
    die(DEPLOYMENT, "deploy/web", "deployment.apps \"web\"");
    die(SERVICE, "svc/web", "service \"web\"");
    die(JOB, "job/once", "job.batch \"once\"");
    die(NAMESPACE, "ns/annex", "namespace \"annex\"");
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
