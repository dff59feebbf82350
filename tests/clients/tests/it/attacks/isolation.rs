//! Walls that cannot be built stop the pod instead of being left out, and those that are built hold:
//! users, devices, calls to the kernel, the number of processes, ports of the machine.

use serde_json::{Value, json};
use tenure_client_tests::server::Operator;

use super::running_pods::RunningPods;

/// Runs a program where nobody can make a user namespace.
const WITHOUT_USER_NAMESPACES: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "sh",
    "-c",
    "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"",
];
/// Runs a program as a root that may not make namespaces.
const WITHOUT_ADMINISTRATION: [&str; 3] = ["setpriv", "--bounding-set", "-sys_admin"];

#[test]
fn a_wall_that_cannot_be_built_stops_every_pod() {
    for &operator in Operator::all() {
        no_pod_runs(operator, &WITHOUT_USER_NAMESPACES, "make a user namespace");
    }
    if rustix::process::geteuid().is_root() {
        no_pod_runs(Operator::Caller, &WITHOUT_ADMINISTRATION, "make a");
    }
}

fn no_pod_runs(operator: Operator, before: &[&str], missing: &str) {
    let pods = RunningPods::start(operator, before, &[]);
    let node = pods.until(
        || pods.get("/api/v1/nodes/node-1"),
        |node| condition(node, "Ready")["status"] == "False",
    );
    let said = condition(&node, "Ready")["message"].to_string();
    assert!(said.contains(missing), "{said}");
    assert_eq!(condition(&node, "TenureIsolation"), Value::Null, "nothing runs without walls");
    let walls = node["metadata"]["annotations"]["tenure.dev/runtime-isolation"].to_string();
    assert!(walls.contains("mount=no") && walls.contains("seccomp=no"), "{walls}");
    let marked = pods.home().join("a-pod-was-here");
    let command = json!(["sh", "-c", format!("touch '{}'; sleep 1000", marked.display())]);
    // A pod that is put on the node whatever its conditions say.
    pods.create("bound", json!({"command": command}), json!({"nodeName": "node-1"}));
    pods.never_runs("bound", &format!("this node cannot isolate pods: {missing}"));
    pods.create("waiting", json!({"command": command}), json!({}));
    pods.never_runs("waiting", missing);
    assert!(!marked.exists());
    pods.end();
}

fn condition(node: &Value, kind: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

#[test]
fn a_volume_gives_neither_other_users_nor_devices() {
    const MAKE: &str = "cp /usr/bin/id /vol/id && chmod 6755 /vol/id; \
        mknod /vol/zero c 1 5 2>/dev/null && echo MADE >/vol/made; true";
    const TRY: &str = "/vol/id -u; /vol/id -g; head -c 1 /vol/zero >/dev/null 2>&1 && echo READ; \
        [ -e /vol/made ] && echo MADE; grep -c ' /vol .*nosuid,nodev' /proc/self/mountinfo";
    for &operator in Operator::all() {
        let pods = RunningPods::start(operator, &[], &[]);
        let mounts = json!([{"name": "vol", "mountPath": "/vol"}]);
        let first = json!({"name": "first", "image": "busybox", "volumeMounts": mounts,
            "command": ["sh", "-c", MAKE], "securityContext": {"runAsUser": 0}});
        // New privileges are allowed, so that it is the volume that gives none.
        let security = json!({
            "runAsUser": 1000, "runAsGroup": 2000, "allowPrivilegeEscalation": true});
        pods.create(
            "volume",
            json!({"command": ["sh", "-c", TRY], "volumeMounts": mounts,
                "securityContext": security}),
            json!({"initContainers": [first], "volumes": [{"name": "vol", "emptyDir": {}}]}),
        );
        assert_eq!(pods.log_of("volume"), "1000\n2000\n1\n", "as {operator:?}");
        pods.end();
    }
}

#[test]
fn a_pod_that_makes_processes_without_end_comes_to_one() {
    const BOMB: &str = "/usr/bin/perl -e '$| = 1; my $made = 0; while (1) { my $pid = fork; \
        last if !defined $pid; if (!$pid) { sleep 1000; exit } $made++ } print \"$made\\n\"'";
    for &operator in Operator::all() {
        let pods = RunningPods::start(operator, &[], &[]);
        let made = pods.said("bomb", BOMB, json!({}));
        let made: u32 = made.trim().parse().unwrap();
        assert!((3000..4096).contains(&made), "{made} processes as {operator:?}");
        assert_eq!(pods.said("other", "echo fine", json!({})), "fine\n");
        let node = pods.get("/api/v1/nodes/node-1");
        let walls = node["metadata"]["annotations"]["tenure.dev/runtime-isolation"].to_string();
        assert!(walls.contains("pids=yes"), "{walls}");
        pods.end();
    }
}

#[test]
fn root_in_a_pod_is_nobody_on_the_machine() {
    const SCRIPT: &str = "id -u; cat /proc/self/uid_map /proc/self/gid_map; \
        stat -L -c %u:%g /usr /bin/sh /etc/nsswitch.conf; touch /usr/x 2>/dev/null && echo WROTE; \
        true";
    for &operator in Operator::all() {
        let pods = RunningPods::start(operator, &[], &[]);
        let mut ranges = Vec::new();
        for (number, spec) in
            [json!({}), json!({"hostUsers": true}), json!({"hostUsers": false})].iter().enumerate()
        {
            let said = pods.said(&format!("root-{number}"), SCRIPT, spec.clone());
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines[0], "0");
            for map in &lines[1..3] {
                let map: Vec<u32> =
                    map.split_whitespace().map(|number| number.parse().unwrap()).collect();
                let caller_is_root = operator == Operator::Caller && is_root();
                if caller_is_root {
                    assert!(map[0] == 0 && map[1] >= 0x7000_0000 && map[2] == 65_536, "{map:?}");
                } else {
                    // One user: the only one of the namespace around the pod's network, who is the
                    // operator. That the machine's root is somebody else is seen below.
                    assert_eq!(map, [0, 0, 1]);
                }
                ranges.push(map[1]);
            }
            // The machine's root has no name in there.
            assert_eq!(lines[3..], ["65534:65534"; 3], "as {operator:?}: {said}");
        }
        if operator == Operator::Caller && is_root() {
            ranges.sort_unstable();
            ranges.dedup();
            assert_eq!(ranges.len(), 3, "pods share users: {ranges:?}");
            let users = std::fs::read_to_string("/etc/passwd").unwrap();
            let ids = users.lines().filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok());
            assert!(ids.max() < ranges.first().copied(), "somebody has an id of a pod");
        }
        pods.end();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn calls_that_lead_out_of_a_container_are_refused() {
    // The numbers of this architecture, and arguments that a kernel would take.
    let calls: &[(&str, i64, &str)] = if cfg!(target_arch = "x86_64") {
        &[
            ("setns", 308, "0, 0"),
            ("keyctl", 250, "0, -3, 1"),
            ("add_key", 248, "0, 0, 0, 0, 0"),
            ("bpf", 321, "0, 0, 0"),
            ("io_uring_setup", 425, "1, 0"),
            ("userfaultfd", 323, "1"),
            ("perf_event_open", 298, "0, 0, 0, 0, 0"),
            ("fsopen", 430, "0, 0"),
            ("attach to the first process", 101, "16, 1, 0, 0"),
            ("seize the first process", 101, "0x4206, 1, 0, 0"),
        ]
    } else {
        &[
            ("setns", 268, "0, 0"),
            ("keyctl", 219, "0, -3, 1"),
            ("add_key", 217, "0, 0, 0, 0, 0"),
            ("bpf", 280, "0, 0, 0"),
            ("io_uring_setup", 425, "1, 0"),
            ("userfaultfd", 282, "1"),
            ("perf_event_open", 241, "0, 0, 0, 0, 0"),
            ("fsopen", 430, "0, 0"),
            ("attach to the first process", 117, "16, 1, 0, 0"),
            ("seize the first process", 117, "0x4206, 1, 0, 0"),
        ]
    };
    let mut script = String::from("exec 2>/dev/null\n");
    for tried in [
        "unshare --user true",
        "unshare --mount true",
        "unshare --net true",
        "mount -t tmpfs none /tmp",
        "mount -o remount,bind,rw /usr",
        "umount /proc/sys",
        "umount /tmp",
        "hostname other",
        "ls /proc/1/root",
        "cat /proc/1/environ",
        "cat /proc/1/fd/0",
        "dmesg",
    ] {
        script += &format!("if {tried} >/dev/null; then echo 'DONE {tried}'; fi\n");
    }
    let mut program = String::new();
    for (name, number, arguments) in calls {
        program += &format!(
            "$! = 0; print \"DONE {name} $!\\n\" if syscall({number}, {arguments}) >= 0 || $! != 1; "
        );
    }
    script += &format!("/usr/bin/perl -e '{program}' || echo DONE perl failed\n");
    script += "for tool in unshare mount umount hostname; do which $tool >/dev/null || \
        echo \"MISSING $tool\"; done\necho end";
    for &operator in Operator::all() {
        let pods = RunningPods::start(operator, &[], &[]);
        assert_eq!(pods.said("caller", &script, json!({})), "end\n", "as {operator:?}");
        pods.end();
    }
}

#[test]
fn ports_of_the_machine_are_not_the_pods() {
    const SERVE: &str = "exec /usr/bin/perl -e 'use IO::Socket::INET; $| = 1; \
        my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => $ARGV[0], LocalPort => 0) or die $!; \
        print $s->sockport, \"\\n\"; while (my $c = $s->accept) { \
        while (<$c>) { last if /^\\r?$/ } print $c \"HTTP/1.0 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello\"; close $c }' ";
    for &operator in Operator::all() {
        let pods = RunningPods::start(operator, &[], &[]);
        let mut ports = Vec::new();
        for (name, address) in [("web", "0.0.0.0"), ("other", "127.0.0.1")] {
            let command = json!(["sh", "-c", format!("{SERVE}{address}")]);
            pods.create(name, json!({"command": command}), json!({}));
            let log = format!("/api/v1/namespaces/default/pods/{name}/log");
            let port = pods.until(
                || pods.send("GET", &log, None).body,
                |said| said.ends_with(b"\n") && !said.starts_with(b"{"),
            );
            ports.push(String::from_utf8(port).unwrap().trim().parse::<u16>().unwrap());
        }
        let (own, others) = (ports[0], ports[1]);
        let proxied = |port: u16| {
            let path = format!("/api/v1/namespaces/default/pods/web:{port}/proxy/");
            let answer = pods.send("GET", &path, None);
            (answer.code, String::from_utf8_lossy(&answer.body).into_owned())
        };
        assert_eq!(proxied(own), (200, "hello".to_owned()));
        assert!(pods.forwarded("web", own).ends_with("hello"), "{}", pods.forwarded("web", own));
        let node = pods.get("/api/v1/nodes/node-1");
        let agent = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        for port in [
            pods.port(),
            u16::try_from(agent).unwrap(),
            listener.local_addr().unwrap().port(),
            others,
        ] {
            let (code, said) = proxied(port);
            assert!(code >= 500 && said.contains("no process of the pod listens"), "{code} {said}");
            let said = pods.forwarded("web", port);
            assert!(said.contains("no process of the pod listens"), "{port}: {said}");
        }
        assert!(listener.accept().is_err(), "somebody connected as {operator:?}");
        // A Service that leads to the pod leads to its ports only, whatever its EndpointSlice says.
        let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [
            {"name": "own", "port": 80, "targetPort": own},
            {"name": "api", "port": 81, "targetPort": pods.port()}]}});
        let made = pods.send("POST", "/api/v1/namespaces/default/services", Some(&service));
        assert_eq!(made.code, 201);
        let slice = json!({
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "ports": [{"name": "own", "port": own}, {"name": "api", "port": pods.port()}],
            "endpoints": [{
                "addresses": ["192.0.2.1"],
                "targetRef": {"kind": "Pod", "name": "web", "namespace": "default"},
            }],
        });
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        assert_eq!(pods.send("POST", slices, Some(&slice)).code, 201);
        let through = |port: &str| {
            let path = format!("/api/v1/namespaces/default/services/web:{port}/proxy/");
            let answer = pods.send("GET", &path, None);
            String::from_utf8_lossy(&answer.body).into_owned()
        };
        pods.until(|| through("own"), |said| said == "hello");
        let said = through("api");
        assert!(said.contains("no process of the pod listens"), "{said}");
        pods.end();
    }
}
