//! What upstream's conformance suite asks of kubectl, by the names of its tests, on nodes that run nothing.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::Kubectl;

const NODES: [&str; 5] = ["--ephemeral", "--nodes", "1", "--runtime", "none"];
const CREATE: [&str; 3] = ["create", "--filename", "-"];
const CONTROLLER: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: primary, labels: {app: agnhost, role: primary}}
spec:
  replicas: 1
  selector: {app: agnhost, role: primary}
  template:
    metadata: {labels: {app: agnhost, role: primary}}
    spec:
      containers:
      - {name: c, image: example.com/app:v1, ports: [{name: server, containerPort: 6379}]}
";
const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: primary, labels: {app: agnhost, role: primary}}
spec:
  ports: [{port: 6379, targetPort: server}]
  selector: {app: agnhost, role: primary}
";

/// A ReplicationController with one ready pod, and the name of that.
fn controlled() -> (Kubectl, String) {
    let kubectl = Kubectl::start_with(&NODES);
    kubectl.feed(&CREATE, CONTROLLER);
    kubectl.ok(&[
        "wait",
        "rc/primary",
        "--for=jsonpath={.status.readyReplicas}=1",
        "--timeout=30s",
    ]);
    let name = ["get", "pods", "--output", "jsonpath={.items[*].metadata.name}"];
    let pod = kubectl.ok(&name);
    (kubectl, pod)
}

/// Whether there is a line with all of these words for each of the rows.
#[track_caller]
fn describes(text: &str, rows: &[&[&str]]) {
    for row in rows {
        let is_there = text.lines().any(|line| row.iter().all(|word| line.contains(word)));
        assert!(is_there, "{row:?} is not in\n{text}");
    }
}

/// Kubectl describe should check if kubectl describe prints relevant information for rc and pods.
#[test]
fn describe_tells_what_matters_of_a_controller_and_all_around_it() {
    let (kubectl, pod) = controlled();
    kubectl.feed(&CREATE, SERVICE);
    let labels: [&[&str]; 3] = [&["Labels:", "app=agnhost"], &["role=primary"], &["Annotations:"]];
    let place: [&[&str]; 1] = [&["Namespace:", "shop"]];
    let own: [&[&str]; 8] = [
        &["Name:", "primary-"],
        &["Node:"],
        &["Status:", "Running"],
        &["IP:"],
        &["Controlled By:", "ReplicationController/primary"],
        &["Image:", "example.com/app:v1"],
        &["State:", "Running"],
        &["QoS Class:", "BestEffort"],
    ];
    let told = kubectl.ok(&["describe", "pod", &pod]);
    describes(&told, &[&labels[..], &place, &own].concat());
    let own: [&[&str]; 7] = [
        &["Name:", "primary"],
        &["Selector:", "app=agnhost,role=primary"],
        &["Replicas:", "1 current", "1 desired"],
        &["Pods Status:", "1 Running", "0 Waiting", "0 Succeeded", "0 Failed"],
        &["Pod Template:"],
        &["Image:", "example.com/app:v1"],
        &["SuccessfulCreate", "Created pod"],
    ];
    let told = kubectl.ok(&["describe", "rc", "primary"]);
    describes(&told, &[&labels[..], &place, &own].concat());
    let own: [&[&str]; 7] = [
        &["Name:", "primary"],
        &["Selector:", "app=agnhost", "role=primary"],
        &["Type:", "ClusterIP"],
        &["IP:"],
        &["Port:", "<unset>", "6379/TCP"],
        &["Endpoints:"],
        &["Session Affinity:", "None"],
    ];
    let told = kubectl.ok(&["describe", "service", "primary"]);
    describes(&told, &[&labels[..], &place, &own].concat());
    let node = kubectl.value(&format!("pod/{pod}"), ".spec.nodeName");
    let told = kubectl.ok(&["describe", "node", &node]);
    describes(
        &told,
        &[
            &["Name:", &node],
            &["Labels:"],
            &["Annotations:"],
            &["CreationTimestamp:"],
            &["Conditions:"],
            &["Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason", "Message"],
            &["Addresses:"],
            &["Capacity:"],
            &["Kernel Version:"],
            &["OS Image:"],
            &["Container Runtime Version:"],
            &["Kubelet Version:"],
            &["Pods:"],
        ],
    );
    let told = kubectl.ok(&["describe", "namespace", "shop"]);
    describes(
        &told,
        &[&["Name:", "shop"], &["Labels:"], &["Annotations:"], &["Status:", "Active"]],
    );
}

/// Kubectl expose should create services for rc.
#[test]
fn services_are_made_of_a_controller_and_of_another_service() {
    let (kubectl, pod) = controlled();
    let uid = kubectl.value(&format!("pod/{pod}"), ".metadata.uid");
    for (from, name, port) in [(["rc", "primary"], "rm2", 1234), (["service", "rm2"], "rm3", 2345)]
    {
        let (on, as_name) = (format!("--port={port}"), format!("--name={name}"));
        let flags = [as_name.as_str(), &on, "--target-port=6379"];
        kubectl.ok(&[&["expose"], &from[..], &flags].concat());
        let ports = kubectl.value(&format!("service/{name}"), ".spec.ports");
        let ports: serde_json::Value = serde_json::from_str(&ports).unwrap();
        let [seen, target] =
            [&ports[0]["port"], &ports[0]["targetPort"]].map(serde_json::Value::as_u64);
        assert_eq!(ports.as_array().unwrap().len(), 1);
        assert_eq!((seen, target), (Some(port), Some(6379)));
        let label = format!("kubernetes.io/service-name={name}");
        let path = "jsonpath={.items[*].endpoints[*].targetRef.uid} {.items[*].ports[*].port}";
        let list = ["get", "endpointslices", "--selector", &label, "--output", path];
        let begin = Instant::now();
        while kubectl.ok(&list) != format!("{uid} 6379") {
            assert!(begin.elapsed() < Duration::from_secs(20), "{}", kubectl.ok(&list));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Kubectl patch should add annotations for pods in rc.
#[test]
fn pods_of_a_controller_are_annotated_by_a_patch() {
    let (kubectl, pod) = controlled();
    kubectl.ok(&["patch", "pod", &pod, "-p", r#"{"metadata":{"annotations":{"x":"y"}}}"#]);
    assert_eq!(kubectl.value(&format!("pod/{pod}"), ".metadata.annotations.x"), "y");
}

/// Kubectl replace should update a single-container pod's image.
#[test]
fn the_image_of_a_pod_is_replaced() {
    let kubectl = Kubectl::start_with(&NODES);
    let labels = "--labels=run=single";
    kubectl.ok(&["run", "single", "--image=example.com/app:v1", labels]);
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/single", "--timeout=30s"]);
    let whole = kubectl.ok(&["get", "pod", "single", "--output", "json"]);
    let newer = whole.replacen("example.com/app:v1", "example.com/app:v2", 1);
    assert_ne!(newer, whole);
    let said = kubectl.feed(&["replace", "--filename", "-"], &newer);
    assert_eq!(said, "pod/single replaced\n");
    let image = kubectl.value("pod/single", ".spec.containers[0].image");
    assert_eq!(image, "example.com/app:v2");
}

/// Kubectl cluster-info should check if Kubernetes control plane services is included in cluster-info.
#[test]
fn the_control_plane_is_named_with_its_place() {
    let kubectl = Kubectl::start();
    let said = kubectl.ok(&["cluster-info"]);
    let server =
        kubectl.ok(&["config", "view", "--output", "jsonpath={.clusters[0].cluster.server}"]);
    assert!(said.contains("Kubernetes control plane"), "{said}");
    assert!(said.contains(" is running at ") && said.contains(&server), "{said}");
}

/// Proxy server should support --unix-socket=/path.
#[test]
fn a_proxy_listens_on_a_socket() {
    let kubectl = Kubectl::start();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("proxy.sock");
    let mut proxy = kubectl.command(&["proxy", &format!("--unix-socket={}", path.display())]);
    let mut proxy = proxy.spawn().unwrap();
    let begin = Instant::now();
    let mut stream = loop {
        match UnixStream::connect(&path) {
            Ok(stream) => break stream,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    stream
        .write_all(b"GET /api/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("APIVersions"), "{said}");
}
