//! `tenure node`: a node that joins a running server, which reaches it over TLS. Rules of
//! spec/downward-api.md.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client_tests::server;

use super::house::{House, On};

/// An agent of its own process. Made before the house, so that it outlives the house's pods.
struct Agent {
    folder: TempDir,
    child: Option<Child>,
}

impl Agent {
    fn new() -> Agent {
        Agent { folder: TempDir::with_prefix("tenure-node-").unwrap(), child: None }
    }

    fn command(&self, house: &House) -> Command {
        let mut command = Command::new(server::binary().unwrap());
        command.arg("node").arg("--kubeconfig").arg(house.kubectl.kubeconfig());
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--node-name", "second", "--node-ip", "127.0.0.1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Joins and waits for the word that it has.
    fn join(&mut self, house: &House) {
        self.join_at(house, "127.0.0.1:0");
    }

    /// The same, listening here.
    fn join_at(&mut self, house: &House, listen: &str) {
        let mut command = self.command(house);
        command.args(["--listen", listen]).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.child = Some(child);
        assert!(line.starts_with("ready second at https://127.0.0.1:"), "{line}");
    }

    /// Ends as ctrl-c ends it.
    fn leave(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "main", "image": "host",
                "command": ["sh", "-c", "echo on $NODE; exec sleep 600"],
                "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            }],
        },
    })
}

#[test]
fn r139_a_node_joins_a_running_server_and_is_reached_over_tls() {
    let mut agent = Agent::new();
    let house = House::open(On::Process, &["--nodes", "0"]).unwrap();
    // There is nobody to run it, and nobody says anything about it.
    house.create(&pod("early"));
    let waits = house.get("pod/early");
    assert_eq!(
        (&waits["spec"]["nodeName"], &waits["status"]["conditions"]),
        (&Value::Null, &Value::Null)
    );

    agent.join(&house);
    house.phase("early", "Running");
    house.create(&pod("late"));
    for name in ["early", "late"] {
        house.phase(name, "Running");
        assert_eq!(house.kubectl.value(&format!("pod/{name}"), ".spec.nodeName"), "second");
        assert_eq!(house.log_with(name, "second"), "on second\n");
        for sockets in ["true", "false"] {
            let mut command =
                house.kubectl.command(&["exec", name, "--", "sh", "-c", "echo $NODE"]);
            let output =
                command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", sockets).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "second\n", "{output:?}");
        }
    }
    let node = house.get("node/second");
    let port = &node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"];
    assert!(port.as_u64().is_some_and(|port| port != 0), "{port}");
    let path = "/api/v1/nodes/second/proxy/healthz";
    assert_eq!(house.kubectl.ok(&["get", "--raw", path]), "ok");

    // The node wrote as itself, although its kubeconfig is the administrator's.
    let may = |what: &[&str]| {
        let as_node = ["--as", "system:node:second", "--as-group", "system:nodes"];
        let mut command = house.kubectl.command(&[&["auth", "can-i"], what, &as_node].concat());
        command.output().unwrap().status.success()
    };
    assert!(may(&["patch", "nodes/second", "--subresource", "status"]));
    assert!(!may(&["list", "secrets"]));

    // Containers run on without their agent, and the next one finds them.
    let container = || house.kubectl.value("pod/early", ".status.containerStatuses[0].containerID");
    let before = container();
    agent.leave();
    let mut exec = house.kubectl.command(&["exec", "early", "--", "true"]);
    assert!(!exec.output().unwrap().status.success());
    agent.join(&house);
    let look = || {
        let output = house.kubectl.command(&["exec", "early", "--", "echo", "again"]).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    };
    house.until("the agent answers again", look, |said| said == "again\n");
    assert_eq!(container(), before);
    let restarts = house.kubectl.value("pod/early", ".status.containerStatuses[0].restartCount");
    assert_eq!(restarts, "0");
}

#[test]
fn r133_an_impostor_on_the_port_of_a_node_is_not_talked_to() {
    let mut agent = Agent::new();
    let mut impostor = Agent::new();
    let house = House::open(On::Process, &["--nodes", "0"]).unwrap();
    let other = House::open(On::Process, &["--nodes", "0"]).unwrap();
    agent.join(&house);
    house.create(&pod("web"));
    assert_eq!(house.log_with("web", "second"), "on second\n");
    // The server signed what the node serves with, because the node asked for itself.
    let requests = house.kubectl.ok(&["get", "csr", "--no-headers"]);
    assert_eq!(requests.lines().count(), 1, "{requests}");
    for part in ["kubernetes.io/kubelet-serving", "system:node:second", "Approved,Issued"] {
        assert!(requests.contains(part), "{part}: {requests}");
    }

    let port = house.kubectl.value("node/second", ".status.daemonEndpoints.kubeletEndpoint.Port");
    agent.leave();
    let address = format!("127.0.0.1:{port}");
    impostor.join_at(&other, &address);
    // Who asks learns nothing of what is at the address; the server's log does (R133d).
    let why = "node \"second\" cannot be reached";
    for arguments in [&["logs", "web"][..], &["exec", "web", "--", "true"]] {
        let output = house.kubectl.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert!(output.stdout.is_empty() && !said.contains(&address), "{output:?}");
    }
    let log = house.kubectl.server_said();
    assert!(log.contains(&format!("{address} does not prove that it is node second")), "{log}");
    impostor.leave();

    // The node itself is known again, with the certificate that it kept.
    agent.join_at(&house, &address);
    assert_eq!(house.log_with("web", "second"), "on second\n");
    assert_eq!(house.kubectl.ok(&["get", "csr", "--no-headers"]).lines().count(), 1);
}

#[test]
fn a_node_that_cannot_join_says_why() {
    let agent = Agent::new();
    let house = House::open(On::Process, &["--nodes", "0"]).unwrap();
    let said = |mut command: Command| {
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!child.wait().unwrap().success(), "{said}");
        said
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = agent.command(&house);
    command.args(["--listen", &taken.local_addr().unwrap().to_string()]);
    let words = said(command);
    assert!(words.contains(&taken.local_addr().unwrap().to_string()), "{words}");
    let mut command = agent.command(&house);
    command.args(["--runtime", "none"]);
    assert!(said(command).contains("a node that joins a server runs pods for real"));
    let mut command = Command::new(server::binary().unwrap());
    command.arg("node").stderr(Stdio::piped());
    assert!(said(command).contains("--kubeconfig FILE"));
}

#[test]
fn a_node_on_loopback_tells_the_address_at_which_its_logs_are_asked_for() {
    let mut agent = Agent::new();
    let house = House::open(On::Process, &["--nodes", "0"]).unwrap();
    let mut command = Command::new(server::binary().unwrap());
    command.arg("node").arg("--kubeconfig").arg(house.kubectl.kubeconfig());
    command.arg("--data-dir").arg(agent.folder.path().join("data"));
    // Nothing but where it listens: what this machine is called elsewhere is of no use then.
    command.args(["--node-name", "second", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    agent.child = Some(child);
    assert!(line.starts_with("ready second at "), "{line}");

    let path = ".status.addresses[?(@.type=='InternalIP')].address";
    assert_eq!(house.kubectl.value("node/second", path), "127.0.0.1 10.244.0.1");
    house.create(&pod("web"));
    assert_eq!(house.log_with("web", "second"), "on second\n");
    assert_eq!(house.exec("web", &["sh", "-c", "echo $NODE"]), "second\n");
}
