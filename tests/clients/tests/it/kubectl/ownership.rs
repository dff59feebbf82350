//! The seed page "Owners and Dependents" as a person would type it: who owns what, the three ways
//! of deleting, the right to hold an owner back, the event about foreign owners, volumes in use.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::Kubectl;
use super::runner::rows;

/// Far longer than a cascade takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: example.com/web:1}]}
";

const DISK: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: none
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /none}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: none
  volumeName: disk
  resources: {requests: {storage: 1Gi}}
";

const OWNERS: &str = ".metadata.ownerReferences";
const FINALIZERS: &str = ".metadata.finalizers[*]";

impl Kubectl {
    /// Reads until the words of a `get` are as wanted.
    fn until(&self, arguments: &[&str], wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.ok(&[&["get", "--ignore-not-found"], arguments].concat());
            if wanted(&said) {
                return said;
            }
            assert!(Instant::now() < end, "{arguments:?} stays\n{said}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until nothing of these resources is left.
    fn until_none(&self, resources: &str) {
        self.until(&[resources, "--output", "name"], str::is_empty);
    }

    /// A Deployment with its ReplicaSet and its two pods; the names of those three.
    fn deployed(&self) -> (String, [String; 2]) {
        self.feed(&["create", "--filename", "-"], WEB);
        let set = self.until(&["replicasets", "--output", "name"], |said| !said.is_empty());
        let pods = self.until(&["pods", "--output", "name"], |said| said.lines().count() == 2);
        let mut pods = pods.lines().map(str::to_owned);
        (set.trim_end().to_owned(), [pods.next().unwrap(), pods.next().unwrap()])
    }

    /// A ConfigMap that names an owner; the code and what kubectl said, as this user.
    fn owned(&self, name: &str, owner: &str, block: bool, user: &str, code: i32) -> String {
        let manifest = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  \
             ownerReferences: [{{{owner}, blockOwnerDeletion: {block}}}]\n"
        );
        let create = ["create", "--filename", "-", "--as", user];
        let (said, refused) = self.feed_until(&create, &manifest, code);
        if code == 0 { said } else { refused }
    }

    /// What a reference to an object says.
    fn reference(&self, object: &str, kind: &str) -> String {
        let (_, name) = object.split_once('/').unwrap();
        let uid = self.value(object, ".metadata.uid");
        let api_version = self.value(object, ".apiVersion");
        format!("apiVersion: {api_version}, kind: {kind}, name: {name}, uid: {uid}")
    }
}

#[test]
fn controllers_own_what_they_make_and_background_takes_it_along() {
    let kubectl = Kubectl::start();
    let (set, pods) = kubectl.deployed();
    let owner = "{.kind}/{.name} {.controller} {.blockOwnerDeletion}";
    let owner = format!("jsonpath={{range {OWNERS}[*]}}{owner}{{end}}");
    let name = set.split_once('/').unwrap().1;
    for (object, wanted) in [
        (&set, "Deployment/web true true".to_owned()),
        (&pods[0], format!("ReplicaSet/{name} true true")),
        (&pods[1], format!("ReplicaSet/{name} true true")),
    ] {
        assert_eq!(kubectl.ok(&["get", object, "--output", &owner]), wanted);
    }
    let said = kubectl.ok(&["delete", "deployment", "web", "--cascade=background"]);
    assert!(said.starts_with("deployment.apps \"web\" deleted"), "{said}");
    kubectl.until_none("deployments,replicasets,pods");
    // Nothing said is the same.
    kubectl.deployed();
    kubectl.ok(&["delete", "deployment", "web"]);
    kubectl.until_none("deployments,replicasets,pods");
}

#[test]
fn foreground_shows_the_owner_until_its_dependents_are_gone() {
    let kubectl = Kubectl::start();
    let (set, [held, other]) = kubectl.deployed();
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    kubectl.ok(&["patch", &held, "--type=merge", "--patch", hold]);
    let delete = ["delete", "deployment", "web", "--cascade=foreground", "--wait=false"];
    assert!(kubectl.ok(&delete).starts_with("deployment.apps \"web\" deleted"));

    let going = "jsonpath={.metadata.finalizers} {.metadata.deletionGracePeriodSeconds}";
    for object in ["deployment/web", &set] {
        let said = kubectl.until(&[object, "--output", going], |said| said.contains("foreground"));
        assert_eq!(said, "[\"foregroundDeletion\"] 0");
        assert_ne!(kubectl.value(object, ".metadata.deletionTimestamp"), "");
    }
    // A leaf has nobody to wait for, and one that nothing holds is gone.
    kubectl.until(&[&other, "--output", "name"], str::is_empty);
    assert_eq!(kubectl.value(&held, FINALIZERS), "example.com/hold");
    let table = kubectl.ok(&["get", &held, "--no-headers"]);
    assert_eq!(rows(&table)[0][2], "Terminating", "{table}");
    let (_, said) = kubectl.feed_until(&["create", "--filename", "-"], WEB, 1);
    assert!(said.contains("(AlreadyExists)") && said.contains("object is being deleted"), "{said}");

    kubectl.ok(&["patch", &held, "--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#]);
    kubectl.until_none("deployments");
    assert_eq!(kubectl.ok(&["get", "replicasets,pods", "--output", "name"]), "");
}

#[test]
fn orphan_leaves_the_dependents_without_their_owner() {
    let kubectl = Kubectl::start();
    let (set, pods) = kubectl.deployed();
    let said = kubectl.ok(&["delete", "deployment", "web", "--cascade=orphan"]);
    assert!(said.starts_with("deployment.apps \"web\" deleted"), "{said}");
    kubectl.until_none("deployments");
    assert_eq!(kubectl.value(&set, OWNERS), "");
    assert_eq!(kubectl.value(&set, ".metadata.deletionTimestamp"), "");
    assert_eq!(kubectl.value(&pods[0], &format!("{OWNERS}[0].kind")), "ReplicaSet");
    kubectl.ok(&["delete", &set, "--cascade=orphan"]);
    kubectl.until_none("replicasets");
    for pod in &pods {
        assert_eq!(kubectl.value(pod, OWNERS), "");
    }
    // The same Deployment made again finds them.
    kubectl.feed(&["create", "--filename", "-"], WEB);
    let owner = format!("jsonpath={{{OWNERS}[0].kind}}");
    for pod in &pods {
        kubectl.until(&[pod, "--output", &owner], |said| said == "ReplicaSet");
    }
}

#[test]
fn nobody_holds_back_what_they_may_not_finalize() {
    let kubectl = Kubectl::start();
    kubectl.deployed();
    let web = kubectl.reference("deployment/web", "Deployment");
    let verbs = "--verb=create,get,list,update,patch";
    kubectl.ok(&["create", "role", "writer", verbs, "--resource=configmaps"]);
    kubectl.ok(&["create", "rolebinding", "writer", "--role=writer", "--user=eve"]);

    let said = kubectl.owned("blocking", &web, true, "eve", 1);
    let told = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
                set finalizers on";
    assert!(said.contains("(Forbidden)") && said.contains(told), "{said}");
    assert_eq!(kubectl.owned("open", &web, false, "eve", 0), "configmap/open created\n");
    // Who owns it is changed by those who may delete it.
    let none = r#"{"metadata":{"ownerReferences":null}}"#;
    let free = ["patch", "configmap", "open", "--type=merge", "--patch", none, "--as=eve"];
    let said = kubectl.fails(&free);
    let told = "cannot set an ownerRef on a resource you can't delete";
    assert!(said.contains("(Forbidden)") && said.contains(told), "{said}");

    let role =
        ["create", "role", "finalizer", "--verb=update", "--resource=deployments/finalizers"];
    kubectl.ok(&role);
    kubectl.ok(&["create", "rolebinding", "finalizer", "--role=finalizer", "--user=eve"]);
    kubectl.ok(&["create", "role", "cleaner", "--verb=delete", "--resource=configmaps"]);
    kubectl.ok(&["create", "rolebinding", "cleaner", "--role=cleaner", "--user=eve"]);
    assert_eq!(kubectl.owned("blocking", &web, true, "eve", 0), "configmap/blocking created\n");
    assert_eq!(kubectl.ok(&free), "configmap/open patched\n");
    let kept =
        kubectl.owned("unknown", "apiVersion: v1, kind: Nobody, name: x, uid: x", true, "eve", 1);
    assert!(kept.contains("(Forbidden)") && kept.contains("Nobody"), "{kept}");
}

#[test]
fn the_event_about_a_foreign_owner_is_found_as_the_page_says() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "namespace", "far"]);
    // Raw, because every other command is about the namespace of the tests.
    let far = "/api/v1/namespaces/far/configmaps";
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owner"}}"#;
    let made = kubectl.feed(&["create", "--raw", far, "--filename", "-"], map);
    let made: Value = serde_json::from_str(&made).unwrap();
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let owner = format!("apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}");
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: reader\n  \
         ownerReferences: [{{{owner}}}]\n"
    );
    let create = ["create", "--filename", "-"];
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: child, ownerReferences: [{{{owner}}}]}}\n"
    );
    kubectl.feed(&create, &map);
    kubectl.feed(&create, &role);

    let query = ["events", "--all-namespaces", "--field-selector=reason=OwnerRefInvalidNamespace"];
    let said = kubectl.until(&query, |said| said.lines().count() == 3);
    let mut found: Vec<Vec<String>> = rows(&said)[1..]
        .iter()
        .map(|row| [row[0], row[2], row[3], row[4]].map(str::to_owned).to_vec())
        .collect();
    found.sort();
    let reason = "OwnerRefInvalidNamespace";
    assert_eq!(found[0], ["default", "Warning", reason, "clusterrole/reader"]);
    assert_eq!(found[1], ["shop", "Warning", reason, "configmap/child"]);
    let told = format!(
        "ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: {uid}] does not exist in \
         namespace \"shop\""
    );
    assert!(said.contains(&told), "{said}");
    // One has no owner where it lives and goes; of the other nothing can be said, and it stays.
    kubectl.until(&["configmap/child", "--output", "name"], str::is_empty);
    assert_eq!(kubectl.value("clusterrole/reader", &format!("{OWNERS}[0].uid")), uid);
    kubectl.ok(&["get", "--raw", &format!("{far}/owner")]);
    assert_eq!(kubectl.until(&query, |_| true).lines().count(), 3);
}

#[test]
fn a_volume_stays_terminating_until_its_claim_lets_go() {
    let kubectl = Kubectl::start();
    kubectl.feed(&["create", "--filename", "-"], DISK);
    let phase = ["pv/disk", "--output", "jsonpath={.status.phase}"];
    kubectl.until(&phase, |said| said == "Bound");
    kubectl.ok(&["delete", "pv", "disk", "--wait=false"]);
    let going = ["pv/disk", "--output", "jsonpath={.metadata.finalizers[*]} {.status.phase}"];
    for _ in 0..10 {
        let said = kubectl.until(&going, |_| true);
        assert_eq!(said, "kubernetes.io/pv-protection Bound");
        std::thread::sleep(Duration::from_millis(30));
    }
    let table = kubectl.ok(&["get", "pv", "--no-headers"]);
    assert!(rows(&table)[0].contains(&"Terminating"), "{table}");
    kubectl.ok(&["delete", "pvc", "claim", "--wait=false"]);
    kubectl.until_none("pvc");
    kubectl.until_none("pv");
}
