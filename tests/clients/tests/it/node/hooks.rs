//! Hooks and probes of containers, by the names of upstream's end-to-end tests. Who is asked over HTTP is the
//! test itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::{House, On};

/// Who is asked is on this machine, whose loopback pods with a network of their own do not reach.
const MACHINE: [&str; 2] = ["--pod-network", "host"];

/// Answers over HTTP, 200 but for paths with `bad` in them, and remembers what it was asked for.
struct Asked {
    port: u16,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Asked {
    fn new() -> Asked {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let paths = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&paths);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().and_then(Result::ok).unwrap_or_default();
                let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                let code = if path.contains("bad") { "500 no" } else { "200 OK" };
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                heard.lock().unwrap().push(path);
                let _ = write!(
                    stream,
                    "HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
            }
        });
        Asked { port, paths }
    }

    fn get(&self, path: &str) -> Value {
        json!({"httpGet": {"host": "127.0.0.1", "port": self.port, "path": path}})
    }

    fn times(&self, path: &str) -> usize {
        self.paths.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }
}

/// A pod with one container that runs a script, and more in that container.
fn pod(name: &str, script: &str, more: Value) -> Value {
    let mut container = json!({"name": "c", "image": "host", "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    for (member, value) in more.as_object().unwrap() {
        container[member] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 20, "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}]}})
}

fn with(probe: Value, more: Value) -> Value {
    let mut probe = probe;
    for (member, value) in more.as_object().unwrap() {
        probe[member] = value.clone();
    }
    probe
}

const TERMINATED: &str = "trap 'cat /data/said; exit 0' TERM; while :; do sleep 0.1; done";

/// Container Lifecycle Hook should execute poststart exec hook properly, and prestop; PreStop should call
/// prestop when killing a pod.
#[test]
fn hooks_run_commands_before_a_container_is_ready_and_before_it_is_told_to_end() {
    let house = House::open(On::Process, &MACHINE).unwrap();
    let shell = |script: &str| json!({"exec": {"command": ["sh", "-c", script]}});
    let asked = Asked::new();
    let after =
        format!("echo stopping > /data/said; sleep 1; exec 3<>/dev/tcp/127.0.0.1/{}", asked.port);
    let bash = json!({"exec": {"command": ["bash", "-c", format!("{after}; printf 'GET /stopping HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3")]}});
    let hooks = json!({"lifecycle": {"postStart": shell("sleep 1; echo here > /data/started"), "preStop": bash}});
    house.create(&pod("p", TERMINATED, hooks));
    house.phase("p", "Running");
    house.kubectl.ok(&["wait", "--for=condition=Ready", "pod/p", "--timeout=30s"]);
    // Whoever finds it ready finds what the hook made.
    assert_eq!(house.exec("p", &["cat", "/data/started"]), "here\n");

    let follow = house.kubectl.command(&["logs", "--follow", "p"]).spawn().unwrap();
    let begin = Instant::now();
    house.kubectl.ok(&["delete", "pod", "p"]);
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "TERM came after the hook, not after the grace"
    );
    assert_eq!(asked.times("/stopping"), 1);
    // The container was told to end after the hook had ended.
    let (log, _) = house.kubectl.finish(follow, &["logs"], Some(0));
    assert_eq!(log, "stopping\n");
}

/// Container Lifecycle Hook should execute poststart http hook properly, and prestop.
#[test]
fn hooks_ask_over_http_once_each() {
    let house = House::open(On::Process, &MACHINE).unwrap();
    let asked = Asked::new();
    let hooks = json!({"lifecycle": {"postStart": asked.get("/echo?msg=poststart"),
        "preStop": asked.get("/echo?msg=prestop")}});
    house.create(&pod("p", "trap 'exit 0' TERM; while :; do sleep 0.1; done", hooks));
    house.kubectl.ok(&["wait", "--for=condition=Ready", "pod/p", "--timeout=30s"]);
    assert_eq!((asked.times("/echo?msg=poststart"), asked.times("/echo?msg=prestop")), (1, 0));
    house.kubectl.ok(&["delete", "pod", "p"]);
    assert_eq!((asked.times("/echo?msg=poststart"), asked.times("/echo?msg=prestop")), (1, 1));

    // A container whose hook fails is killed, and that is told.
    house.create(&pod("bad", TERMINATED, json!({"lifecycle": {"postStart": asked.get("/bad")}})));
    let look =
        || house.kubectl.ok(&["get", "events", "--field-selector", "involvedObject.name=bad"]);
    house.until("the failed hook is told", look, |events| events.contains("FailedPostStartHook"));
    let restarts = || house.kubectl.value("pod/bad", ".status.containerStatuses[0].restartCount");
    house.until("the container is started again", restarts, |count| {
        count != "0" && !count.is_empty()
    });
}

/// Probing container with readiness probe should not be ready before initial delay and never restart; with
/// readiness probe that fails should never be ready and never restart; should *not* be restarted with a
/// /healthz http, a tcp or an exec liveness probe; should be restarted with one; startup probes.
#[test]
fn probes_decide_about_ready_and_about_the_life_of_a_container() {
    let house =
        House::open(On::Process, &[&MACHINE[..], &["--restart-backoff", "100ms..1s"]].concat())
            .unwrap();
    let asked = Asked::new();
    let sleep = "exec sleep 1000";
    let every = |more: Value| with(json!({"periodSeconds": 1}), more);
    let ready = |probe: Value| json!({"readinessProbe": probe});
    let live = |probe: Value| json!({"livenessProbe": probe});
    let delayed = with(asked.get("/ready"), every(json!({"initialDelaySeconds": 4})));
    let never = with(asked.get("/bad-ready"), every(json!({})));
    let healthy = with(asked.get("/healthz"), every(json!({})));
    let sick = with(asked.get("/bad-healthz"), every(json!({"failureThreshold": 1})));
    let file = json!({"exec": {"command": ["cat", "/data/health"]}});
    let lost = with(file.clone(), every(json!({"failureThreshold": 1, "initialDelaySeconds": 1})));
    let kept = with(file.clone(), every(json!({"initialDelaySeconds": 1})));
    let port = json!({"tcpSocket": {"host": "127.0.0.1", "port": asked.port}});
    let open = with(port, every(json!({"failureThreshold": 1})));
    let startup = json!({"startupProbe": with(file, every(json!({"failureThreshold": 60}))),
        "readinessProbe": healthy, "livenessProbe": with(asked.get("/bad-after-start"), every(json!({"failureThreshold": 1000})))});
    for (name, script, probes) in [
        ("delayed", sleep, ready(delayed)),
        ("never", sleep, ready(never)),
        ("healthy", sleep, live(healthy)),
        ("sick", sleep, live(sick)),
        ("lost", "touch /data/health; sleep 3; rm /data/health; exec sleep 1000", live(lost)),
        ("kept", "touch /data/health; exec sleep 1000", live(kept)),
        ("open", sleep, live(open)),
        ("slow", "sleep 3; touch /data/health; exec sleep 1000", startup),
    ] {
        let mut pod = pod(name, script, probes);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
        house.create(&pod);
    }
    let status = |name: &str| house.get(&format!("pod/{name}"))["status"].clone();
    let container = |name: &str| status(name)["containerStatuses"][0].clone();
    let restarted = |name: &'static str| {
        house.until(name, || container(name), |it| it["restartCount"].as_i64() > Some(0));
    };
    let started = house.until("started", || container("slow"), |it| it["started"] == true);
    assert_eq!(started["restartCount"], 0);
    let begun: jiff::Timestamp =
        started["state"]["running"]["startedAt"].as_str().unwrap().parse().unwrap();
    assert!(jiff::Timestamp::now().duration_since(begun).as_secs() >= 2, "{started}");
    restarted("sick");
    restarted("lost");
    let told = |name: &str| {
        let select = format!("involvedObject.name={name},reason=Unhealthy");
        house.kubectl.ok(&["get", "events", "--field-selector", &select])
    };
    assert!(told("sick").contains("Liveness probe failed: HTTP probe failed with statuscode: 500"));
    assert!(told("lost").contains("Liveness probe failed"));
    assert!(told("never").contains("Readiness probe failed"));

    house.kubectl.ok(&[
        "wait",
        "--for=condition=Ready",
        "pod/delayed",
        "pod/slow",
        "--timeout=30s",
    ]);
    let since = |status: &Value, path: &str| -> jiff::Timestamp {
        status.pointer(path).unwrap().as_str().unwrap().parse().unwrap()
    };
    let delayed = status("delayed");
    let conditions = delayed["conditions"].as_array().unwrap();
    let ready = conditions.iter().position(|one| one["type"] == "Ready").unwrap();
    let ready = since(&delayed, &format!("/conditions/{ready}/lastTransitionTime"));
    let begun = since(&delayed, "/containerStatuses/0/state/running/startedAt");
    // Times are whole seconds.
    assert!(ready.duration_since(begun).as_secs() >= 3, "{delayed}");
    assert!(asked.times("/healthz") > 2 && asked.times("/bad-ready") > 2);
    for name in ["delayed", "never", "healthy", "kept", "open", "slow"] {
        assert_eq!(container(name)["restartCount"], 0, "{name}");
    }
    assert_eq!(container("never")["ready"], false);
    assert_eq!(status("never")["phase"], "Running");
}

/// Pod Generation: what a node has seen of a pod is said with its conditions.
#[test]
fn what_a_node_has_seen_of_a_pod_is_told_as_its_observed_generation() {
    let house = House::open(On::Process, &MACHINE).unwrap();
    house.create(&pod("p", "trap 'exit 0' TERM; while :; do sleep 0.1; done", json!({})));
    let seen = |generation: i64| {
        let look = || house.get("pod/p");
        let holds = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut all = conditions.map(|one| one["observedGeneration"].as_i64());
            pod["status"]["observedGeneration"].as_i64() == Some(generation)
                && all.all(|observed| observed == Some(generation))
        };
        let pod = house.until(&format!("generation {generation} is seen"), look, holds);
        assert_eq!(pod["metadata"]["generation"], generation);
    };
    seen(1);
    house.kubectl.ok(&["label", "pod/p", "a=b"]);
    seen(1);
    house.kubectl.ok(&[
        "patch",
        "pod/p",
        "--type=merge",
        "--patch",
        r#"{"spec":{"activeDeadlineSeconds":5000}}"#,
    ]);
    seen(2);
    house.kubectl.ok(&["set", "image", "pod/p", "c=busybox"]);
    seen(3);
    house.delete_pod("p");
}

/// KubeletManagedEtcHosts should test kubelet managed /etc/hosts file.
#[test]
fn names_of_hosts_are_the_pods_own_or_on_its_nodes_network_the_nodes() {
    let house = House::open(On::Process, &MACHINE).unwrap();
    let aliases = json!([{"ip": "1.2.3.4", "hostnames": ["a.local", "b.local"]}]);
    for (name, host_network) in [("own", false), ("nodes", true)] {
        let mut pod = pod(name, "cat /etc/hosts", json!({}));
        pod["spec"]["hostAliases"] = aliases.clone();
        pod["spec"]["hostNetwork"] = json!(host_network);
        pod["spec"]["restartPolicy"] = json!("Never");
        house.create(&pod);
    }
    for name in ["own", "nodes"] {
        house.phase(name, "Succeeded");
    }
    let added = "\n# Entries added by HostAliases.\n1.2.3.4\ta.local\tb.local\n";
    let own = house.log("own");
    assert!(own.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"), "{own}");
    assert!(own.contains("\town\n") && own.ends_with(added), "{own}");
    let machine = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let expected = format!("# Kubernetes-managed hosts file (host network).\n{machine}{added}");
    assert_eq!(house.log("nodes"), expected);

    // Who mounts a file there has that one.
    house.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hosts"},
        "data": {"hosts": "127.0.0.9\tmine\n"}}));
    let mut mounted = pod("mounted", "cat /etc/hosts", json!({}));
    let spec = &mut mounted["spec"];
    spec["restartPolicy"] = json!("Never");
    let volume = json!({"name": "hosts", "configMap": {"name": "hosts"}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    let mount = json!({"name": "hosts", "mountPath": "/etc/hosts", "subPath": "hosts"});
    spec["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
    house.create(&mounted);
    house.phase("mounted", "Succeeded");
    assert_eq!(house.log("mounted"), "127.0.0.9\tmine\n");
}
