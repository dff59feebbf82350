//! What upstream's conformance suite asks of single pods that run, by the names of its tests. Volumes and
//! the downward API have tables of their own.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::house::{House, On};

/// Containers that end start again at once.
const QUICK: [&str; 2] = ["--restart-backoff", "100ms..1s"];
const STAYS: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

/// A pod with one container that runs a script, and more in that container and in the spec.
fn pod(house: &House, name: &str, script: &str, container: Value, spec: Value) -> Value {
    let mut main = json!({"name": "c", "image": house.image(), "command": ["sh", "-c", script]});
    main.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [main]}});
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

/// Runs a test on both runtimes, as far as the machine has them.
fn on_both(flags: &[&str], test: fn(&House)) {
    for on in [On::Process, On::Cri] {
        if let Some(house) = House::open(on, flags) {
            test(&house);
        }
    }
}

/// The last end of a pod's container.
fn message(house: &House, name: &str) -> String {
    house
        .kubectl
        .value(&format!("pod/{name}"), ".status.containerStatuses[0].state.terminated.message")
}

fn restarts(house: &House, name: &str) -> u64 {
    let path = ".status.containerStatuses[0].restartCount";
    house.kubectl.value(&format!("pod/{name}"), path).parse().unwrap_or_default()
}

/// DNS should support configurable pod DNS nameservers.
#[test]
fn names_are_asked_for_where_the_pod_says() {
    on_both(&[], |house| {
        let spec = json!({"dnsPolicy": "None", "dnsConfig": {
            "nameservers": ["1.1.1.1"], "searches": ["resolv.conf.local"]}});
        house.create(&pod(house, "dns", "cat /etc/resolv.conf", json!({}), spec));
        house.phase("dns", "Succeeded");
        let log = house.log("dns");
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["nameserver 1.1.1.1", "search resolv.conf.local"]);
    });
}

/// Container Runtime blackbox test on terminated container should report termination message from file when
/// pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set; if TerminationMessagePath is set as
/// non-root user and at a non-default path.
#[test]
fn last_words_are_read_from_their_file() {
    on_both(&[], |house| {
        let fallback = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
        let script = "echo not this; printf OK > /dev/termination-log";
        house.create(&pod(house, "well", script, fallback, json!({})));
        let path = "/dev/termination-custom-log";
        let custom =
            json!({"terminationMessagePath": path, "securityContext": {"runAsUser": 10000}});
        house.create(&pod(house, "custom", &format!("printf DONE > {path}"), custom, json!({})));
        for (name, said) in [("well", "OK"), ("custom", "DONE")] {
            house.phase(name, "Succeeded");
            assert_eq!(message(house, name), said, "{name}");
        }
    });
}

/// Kubelet when scheduling a busybox command that always fails in a pod should be possible to delete.
#[test]
fn a_pod_whose_command_always_fails_can_be_deleted() {
    on_both(&QUICK, |house| {
        let again = json!({"restartPolicy": "Always"});
        house.create(&pod(house, "fails", "false", json!({}), again));
        house.until("it is restarted", || restarts(house, "fails"), |count| *count > 1);
        house.kubectl.ok(&["delete", "pod", "fails", "--timeout", "30s"]);
        let said = house.kubectl.fails(&["get", "pod", "fails"]);
        assert!(said.contains("pods \"fails\" not found"), "{said}");
    });
}

/// Ephemeral Containers will start an ephemeral container in an existing pod; should update the ephemeral
/// containers in an existing pod.
#[test]
fn ephemeral_containers_start_in_a_pod_that_runs() {
    on_both(&[], |house| {
        house.create(&pod(house, "p", STAYS, json!({}), json!({})));
        house.phase("p", "Running");
        let path = "/api/v1/namespaces/shop/pods/p/ephemeralcontainers";
        let debugger = |name: &str| {
            json!({"name": name, "image": house.image(), "command": ["sh", "-c", format!("echo {name} polo; {STAYS}")],
                "terminationMessagePolicy": "File"})
        };
        let patch = json!({"spec": {"ephemeralContainers": [debugger("one")]}}).to_string();
        let arguments = ["patch", "pod", "p", "--subresource", "ephemeralcontainers"];
        house.kubectl.ok(&[&arguments[..], &["--type", "strategic", "--patch", &patch]].concat());
        let running = |name: &'static str| {
            let state = format!(
                ".status.ephemeralContainerStatuses[?(@.name=='{name}')].state.running.startedAt"
            );
            let look = || house.kubectl.value("pod/p", &state);
            house.until(&format!("{name} runs"), look, |since| !since.is_empty());
            let log = || house.kubectl.ok(&["logs", "p", "--container", name]);
            house.until(&format!("{name} speaks"), log, |log| *log == format!("{name} polo\n"));
        };
        running("one");
        let mut whole = house.get("pod/p");
        whole["spec"]["ephemeralContainers"].as_array_mut().unwrap().push(debugger("two"));
        house.kubectl.feed(&["replace", "--raw", path, "--filename", "-"], &whole.to_string());
        running("two");
        let names = house.kubectl.value("pod/p", ".spec.ephemeralContainers[*].name");
        assert_eq!(names, "one two");
        assert_eq!(restarts(house, "p"), 0);
    });
}

/// A container that mounts a volume twice: as a whole, and below a path that its environment tells.
fn mounts(variable: Value, expression: &str) -> Value {
    json!({
        "env": [{"name": "NAME", "value": "foo"}, {"name": "TOLD", "valueFrom": {"fieldRef": variable}}],
        "volumeMounts": [
            {"name": "v", "mountPath": "/below", "subPathExpr": expression},
            {"name": "v", "mountPath": "/whole"},
        ],
    })
}

/// Variable Expansion should allow substituting values in a volume subpath; should succeed in writing subpaths
/// in container; should verify that a failing subpath expansion can be modified during the lifecycle of a
/// container.
#[test]
fn sub_paths_are_made_of_the_environment_as_it_was_at_the_start() {
    on_both(&[], |house| {
        let volumes = json!({"volumes": [{"name": "v", "emptyDir": {}}]});
        let script = "echo hi > /below/f && cat /whole/$TOLD/f";
        let by_name = mounts(json!({"fieldPath": "metadata.name"}), "$(TOLD)");
        house.create(&pod(house, "named", script, by_name, volumes.clone()));
        house.phase("named", "Succeeded");
        assert_eq!(house.log("named"), "hi\n");

        let annotated =
            || mounts(json!({"fieldPath": "metadata.annotations['place']"}), "$(TOLD)/$(NAME)");
        let mut writes = pod(house, "writes", STAYS, annotated(), volumes.clone());
        writes["metadata"]["annotations"] = json!({"place": "mine"});
        house.create(&writes);
        house.phase("writes", "Running");
        house.exec("writes", &["touch", "/whole/mine/foo/log"]);
        house.exec("writes", &["test", "-f", "/below/log"]);
        house.kubectl.ok(&["annotate", "pod", "writes", "place=other", "--overwrite"]);
        house.exec("writes", &["touch", "/below/later"]);
        house.exec("writes", &["test", "-f", "/whole/mine/foo/later"]);
        assert_eq!(restarts(house, "writes"), 0);

        // Without the annotation the path would be absolute.
        house.create(&pod(house, "waits", STAYS, annotated(), volumes));
        let reason = ".status.containerStatuses[0].state.waiting.reason";
        let look = || house.kubectl.value("pod/waits", reason);
        house.until("it cannot start", look, |reason| reason == "CreateContainerConfigError");
        house.kubectl.ok(&["annotate", "pod", "waits", "place=mine"]);
        house.phase("waits", "Running");
        house.exec("waits", &["test", "-d", "/whole/mine/foo"]);
        house.delete_pod("writes");
        house.delete_pod("waits");
    });
}

/// Job should run a job to completion when tasks sometimes fail and are locally restarted.
#[test]
fn tasks_that_fail_once_are_restarted_where_they_are() {
    let house = House::open(On::Process, &QUICK).unwrap();
    let script = "if [ -r /data/foo ]; then exit 0; fi; touch /data/foo; exit 1";
    let mounts = json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    let spec = json!({"restartPolicy": "OnFailure", "volumes": [{"name": "data", "emptyDir": {}}]});
    let template = pod(&house, "t", script, mounts, spec);
    house.create(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"parallelism": 2, "completions": 4, "template": {"spec": template["spec"]}}}));
    house.kubectl.ok(&["wait", "--for=condition=Complete", "job/once", "--timeout=60s"]);
    let path = "jsonpath={.items[*].status.containerStatuses[0].restartCount}";
    let selector = "batch.kubernetes.io/job-name=once";
    let counts = house.kubectl.ok(&["get", "pods", "--selector", selector, "--output", path]);
    assert_eq!(counts, "1 1 1 1");
}

/// RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead.
#[test]
fn a_class_without_overhead_adds_none() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "plain"}, "handler": "test-handler"}));
    let class = json!({"runtimeClassName": "plain"});
    house.create(&pod(&house, "classed", "true", json!({}), class));
    house.kubectl.ok(&["wait", "--for=condition=PodScheduled", "pod/classed", "--timeout=30s"]);
    assert_eq!(house.get("pod/classed")["spec"]["overhead"], Value::Null);
}

/// Answers calls of `grpc.health.v1.Health/Check` with SERVING, on a port that it gives.
fn health() -> u16 {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with the test's process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(serving)));
            }
        });
    });
    port
}

async fn serving(
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
    let mut status = http::HeaderMap::new();
    status.insert("grpc-status", http::HeaderValue::from_static("0"));
    // One message of two bytes: the first member is 1.
    let frames = [
        Ok(Frame::data(Bytes::from_static(&[0, 0, 0, 0, 2, 0x08, 1]))),
        Ok(Frame::trailers(status)),
    ];
    let body = StreamBody::new(futures::stream::iter(frames));
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

/// Probing container should *not* be restarted with a GRPC liveness probe; should be restarted with a GRPC
/// liveness probe. Here pods are in the network of the machine, so who answers is the test.
#[test]
fn a_container_lives_as_long_as_its_service_says_so() {
    let house =
        House::open(On::Process, &[&QUICK[..], &["--pod-network", "host"]].concat()).unwrap();
    let nobody = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    for (name, port) in [("serving", health()), ("silent", nobody)] {
        let probe = json!({"grpc": {"port": port}, "periodSeconds": 1, "failureThreshold": 1});
        let container = json!({"livenessProbe": probe});
        house.create(&pod(&house, name, STAYS, container, json!({"restartPolicy": "Always"})));
    }
    house.until("the silent one ends", || restarts(&house, "silent"), |count| *count > 1);
    assert_eq!(house.kubectl.value("pod/serving", ".status.phase"), "Running");
    assert_eq!(restarts(&house, "serving"), 0);
}
