//! A pod and its owners, on each runtime: the examples of KEP-4753, a DaemonSet that leaves its pods
//! and one that finds them again, the gate, and the story behind the proposal. Rules of
//! spec/downward-api.md.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use super::house::{House, On};

/// Owners as in KEP-4753's pods, with the second `controller` dropped: a pod has at most one (R48).
const OWNERS: &str = "
  ownerReferences:
  - apiVersion: apps/v1
    blockOwnerDeletion: true
    controller: true
    kind: DaemonSet
    name: an-owned-pod-1722852739
    uid: 6be1683f-da9c-4f68-9440-82376231cfa6
  - apiVersion: apps/v1
    blockOwnerDeletion: true
    kind: Some-CRD
    name: an-owned-pod-1722852739
    uid: 6be1683f-da9c-4f68-9440-82376231cfa6";

fn volume_example(image: &str, owners: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: kubernetes-downwardapi-volume-example{owners}
spec:
  containers:
    - name: client-container
      image: {image}
      command: [\"sh\", \"-c\"]
      args:
      - while true; do
          if [[ -e /etc/podinfo/ownerReferences ]]; then
            echo -en '\\n\\n'; cat /etc/podinfo/ownerReferences; fi;
          sleep 5;
        done;
      volumeMounts:
        - name: podinfo
          mountPath: /etc/podinfo
  volumes:
    - name: podinfo
      downwardAPI:
        items:
          - path: \"ownerReferences\"
            fieldRef:
              fieldPath: metadata.ownerReferences
"
    )
}

fn env_example(image: &str, owners: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: kubernetes-downwardapi-env-example{owners}
spec:
  containers:
    - name: client-container
      image: {image}
      command: [\"sh\", \"-c\"]
      args:
      - while true; do
          if [[ -n \"${{OWNER_REFERENCES}}\" ]]; then
            echo -en '\\n\\n'; echo $OWNER_REFERENCES; fi;
          sleep 5;
        done;
      env:
        - name: OWNER_REFERENCES
          valueFrom:
            fieldRef:
              fieldPath: metadata.ownerReferences
"
    )
}

/// The example for a variable or for a volume, valid, on the image that the proposal names.
pub(super) fn example(of: &str) -> String {
    if of == "env" { env_example("busybox", OWNERS) } else { volume_example("busybox", OWNERS) }
}

/// The references of the examples as items of the envelope, in the order that it has.
const ITEMS: &str = r#"{"apiVersion":"apps/v1","kind":"DaemonSet","name":"an-owned-pod-1722852739","uid":"6be1683f-da9c-4f68-9440-82376231cfa6","controller":true,"blockOwnerDeletion":true},{"apiVersion":"apps/v1","kind":"Some-CRD","name":"an-owned-pod-1722852739","uid":"6be1683f-da9c-4f68-9440-82376231cfa6","blockOwnerDeletion":true}"#;

fn envelope(items: &str) -> String {
    format!(r#"{{"kind":"OwnerReference","apiVersion":"meta/v1","items":[{items}]}}"#)
}

#[test]
fn r48_the_examples_of_the_proposal_run_on_the_runtime_process() {
    examples(On::Process);
}

#[test]
fn r48_the_examples_of_the_proposal_run_on_the_runtime_cri() {
    examples(On::Cri);
}

/// R40 to R43, R48.
fn examples(on: On) {
    // The examples are written for busybox: its shell knows `[[`, that of Debian does not.
    let Some(house) = House::with_busybox(on) else { return };
    let literal = OWNERS.replace("    kind: Some-CRD", "    controller: true\n    kind: Some-CRD");
    for example in [volume_example, env_example] {
        let text = example(house.image(), &literal);
        let (_, said) = house.kubectl.feed_until(&["apply", "--filename", "-"], &text, 1);
        assert!(said.contains("only one reference may be the controller"), "{said}");
        house.kubectl.feed(&["apply", "--filename", "-"], &example(house.image(), OWNERS));
    }
    // The variable is one line without blanks.
    let log = house.log_with("kubernetes-downwardapi-env-example", "OwnerReference");
    assert_eq!(log.trim_start().lines().next().unwrap(), envelope(ITEMS));
    // The file is the same document, indented by four.
    let log = house.log_with("kubernetes-downwardapi-volume-example", "\n}");
    let file = log.trim_start().split_once("\n}").unwrap().0.to_owned() + "\n}";
    let parsed: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(parsed, serde_json::from_str::<Value>(&envelope(ITEMS)).unwrap());
    let begin = "{\n    \"kind\": \"OwnerReference\",\n    \"apiVersion\": \"meta/v1\",\n    \"items\": [\n        {\n            \"apiVersion\": \"apps/v1\",\n";
    assert!(file.starts_with(begin), "{file}");
}

#[test]
fn r72_pods_left_and_found_again_read_it_on_the_runtime_process() {
    left_and_found(On::Process);
}

#[test]
fn r72_pods_left_and_found_again_read_it_on_the_runtime_cri() {
    left_and_found(On::Cri);
}

/// A DaemonSet whose pods read their owners both ways, and tell them when asked.
fn daemon_set(house: &House, name: &str) -> Value {
    let field = json!({"fieldRef": {"fieldPath": "metadata.ownerReferences"}});
    let mut item = field.clone();
    item["path"] = json!("owners");
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "agent",
                        "image": house.image(),
                        "command": ["sh", "-c", "while :; do sleep 1; done"],
                        "env": [{"name": "OWNERS", "valueFrom": field}],
                        "volumeMounts": [{"name": "info", "mountPath": "/etc/podinfo"}],
                    }],
                    "volumes": [{"name": "info", "downwardAPI": {"items": [item]}}],
                },
            },
        },
    })
}

/// The pod of the DaemonSet, once it runs.
fn running(house: &House) -> String {
    let look = || house.kubectl.ok(&["get", "pods", "--selector", "app=agent", "--output", "name"]);
    let name = house.until("a pod", look, |names| names.lines().count() == 1);
    let name = name.trim().trim_start_matches("pod/").to_owned();
    house.phase(&name, "Running");
    name
}

/// The references that a document of the pod names: kind, name and uid.
fn owners(document: &str) -> Vec<(String, String, String)> {
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(
        (&document["kind"], &document["apiVersion"]),
        (&json!("OwnerReference"), &json!("meta/v1"))
    );
    let text = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    let items = document["items"].as_array().unwrap().iter();
    items.map(|item| (text(item, "kind"), text(item, "name"), text(item, "uid"))).collect()
}

/// R47, R72, R61i: section 23's new tests 1 to 4.
fn left_and_found(on: On) {
    let Some(house) = House::open(on, &[]) else { return };
    house.create(&daemon_set(&house, "first"));
    let uid = |name: &str| house.kubectl.value(&format!("daemonset/{name}"), ".metadata.uid");
    let pod = running(&house);
    let file = || owners(&house.exec(&pod, &["cat", "/etc/podinfo/owners"]));
    let env = || owners(&house.exec(&pod, &["sh", "-c", "echo \"$OWNERS\""]));
    let first = vec![("DaemonSet".to_owned(), "first".to_owned(), uid("first"))];
    assert_eq!((file(), env()), (first.clone(), first.clone()));

    house.kubectl.ok(&["delete", "daemonset/first", "--cascade=orphan"]);
    house.until("the file names nobody", file, |owners| owners.is_empty());
    let text = house.exec(&pod, &["cat", "/etc/podinfo/owners"]);
    assert!(text.contains("\"items\": []"), "{text}");

    house.create(&daemon_set(&house, "second"));
    let second = vec![("DaemonSet".to_owned(), "second".to_owned(), uid("second"))];
    house.until("the file names the second", file, |owners| *owners == second);
    // The process is the same, and so is what it was started with.
    assert_eq!(env(), first);
    let status = house.get(&format!("pod/{pod}"));
    assert_eq!(status["status"]["containerStatuses"][0]["restartCount"], json!(0));
}

#[test]
fn r52_without_the_gate_the_path_is_refused() {
    let flags = ["--feature-gates", "DownwardAPIOwnerReferences=false"];
    let Some(house) = House::open(On::Process, &flags) else { return };
    for (example, field) in [
        (volume_example("host", ""), "spec.volumes[0].downwardAPI.fieldRef.fieldPath"),
        (env_example("host", ""), "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"),
    ] {
        let (_, said) = house.kubectl.feed_until(&["create", "--filename", "-"], &example, 1);
        assert!(said.contains(field) && said.contains("metadata.ownerReferences"), "{said}");
        assert!(said.contains("field label not supported"), "{said}");
    }
}

#[test]
fn r216_the_story_of_the_proposal_on_the_runtime_process() {
    story(On::Process);
}

#[test]
fn r216_the_story_of_the_proposal_on_the_runtime_cri() {
    story(On::Cri);
}

/// The kind that the story is about, as small as it can be.
const NODE_FEATURE: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodefeatures.nfd.example.com}
spec:
  group: nfd.example.com
  scope: Namespaced
  names: {plural: nodefeatures, singular: nodefeature, kind: NodeFeature}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: discovery}
rules:
- {apiGroups: [nfd.example.com], resources: [nodefeatures], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: discovery}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: discovery}
subjects: [{kind: ServiceAccount, name: default}]
";

/// What the agent does: it writes one object of the old kind, owned by its pod, and one of the new
/// kind, owned by whoever owns its pod. What it copies is the safe part of a reference (R216).
const DISCOVER: &str = r#"
items=$(echo "$OWNERS" | sed 's/.*"items"://; s/}$//; s/,"controller":true//g; s/,"blockOwnerDeletion":true//g')
mine="[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"$POD\",\"uid\":\"$POD_UID\"}]"
send() {
  wget -q -O /dev/null \
    --header "Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)" \
    --header 'Content-Type: application/json' \
    --post-data "{\"apiVersion\":\"nfd.example.com/v1\",\"kind\":\"NodeFeature\",\"metadata\":{\"name\":\"$1\",\"ownerReferences\":$2},\"spec\":{\"cpu\":\"fast\"}}" \
    "$SERVER/apis/nfd.example.com/v1/namespaces/shop/nodefeatures"
}
send "of-$POD" "$mine" && echo sent
send of-the-set "$items"
while :; do sleep 1; done
"#;

/// Speaks TLS for pods, as busybox knows no kind of it that the server takes. It has no rights: whoever
/// asks shows a token of its own.
struct Proxy {
    child: std::process::Child,
    url: String,
}

impl Proxy {
    fn start(house: &House) -> Proxy {
        let mut child =
            house.kubectl.bearer_command("nobody", &["proxy", "--port", "0"]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let place = line.trim().rsplit(' ').next().unwrap();
        assert!(place.starts_with("127.0.0.1:"), "{line}");
        Proxy { url: format!("http://{place}"), child }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Section 23's new test 5, the story behind the proposal: an agent on each node writes what it finds
/// there. When its pod is replaced, the objects it owned by the pod go with it; what it owned by the
/// DaemonSet stays, until the DaemonSet goes. The pod never asks the server who its owner is.
fn story(on: On) {
    // What speaks TLS for the pods listens on the machine's loopback.
    let Some(house) = House::busybox_and(on, &["--pod-network", "host"]) else { return };
    house.kubectl.feed(&["create", "--filename", "-"], NODE_FEATURE);
    let mut set = daemon_set(&house, "discovery");
    let container = &mut set["spec"]["template"]["spec"]["containers"][0];
    container["command"] = json!(["sh", "-c", DISCOVER]);
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let env = container["env"].as_array_mut().unwrap();
    env.push(json!({"name": "POD", "valueFrom": field("metadata.name")}));
    env.push(json!({"name": "POD_UID", "valueFrom": field("metadata.uid")}));
    let proxy = Proxy::start(&house);
    env.push(json!({"name": "SERVER", "value": proxy.url}));
    house.create(&set);
    let names = || {
        let all = house.kubectl.ok(&["get", "nodefeatures", "--output", "name"]);
        let short = |line: &str| line.rsplit('/').next().unwrap().to_owned();
        all.lines().map(short).collect::<Vec<_>>()
    };
    let first = running(&house);
    let both = vec![format!("of-{first}"), "of-the-set".to_owned()];
    house.until("both are written", names, |names| *names == both);
    let owner = |path: &str| house.kubectl.value("nodefeature/of-the-set", path);
    assert_eq!(owner(".metadata.ownerReferences[*].kind"), "DaemonSet");
    assert_eq!(owner(".metadata.ownerReferences[0].controller"), "");

    house.delete_pod(&first);
    house.until("what the pod owned goes", names, |names| !names.contains(&both[0]));
    let second = running(&house);
    assert_ne!(first, second);
    house.log_with(&second, "sent");
    assert_eq!(names(), [format!("of-{second}"), "of-the-set".to_owned()]);

    house.kubectl.ok(&["delete", "daemonset/discovery"]);
    house.until("what the set owned goes", names, Vec::is_empty);
}
