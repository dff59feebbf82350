//! A server with a node that runs pods for real, and what somebody who may make pods sees in them.
//! What they try is said by tests.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::server::{Operator, Server};
use tenure_client_tests::wire::{Access, Answer};
use tokio::runtime::Runtime;

/// How long a pod may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A folder that is none of temporary files: containers have those anew, so nothing is proven there.
pub(super) fn outside() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib")
    } else {
        PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
    }
}

/// A server and its node.
pub(super) struct RunningPods {
    server: Server,
    access: Access,
    runtime: Runtime,
}

impl RunningPods {
    /// Starts them; `before` is put in front of the program.
    pub(super) fn start(operator: Operator, before: &[&str], flags: &[&str]) -> RunningPods {
        let flags = [&["--nodes", "1"], flags].concat();
        let server = Server::start_within(operator, &outside(), before, &flags).unwrap();
        let access = server.access().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        RunningPods { server, access, runtime }
    }

    /// The folder of the operator: home, kubeconfig and, if the flags say so, data.
    pub(super) fn home(&self) -> &Path {
        self.server.folder()
    }

    pub(super) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(|body| serde_json::to_vec(body).unwrap());
        self.runtime.block_on(self.access.once(method, path, body.as_deref())).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).json().unwrap()
    }

    /// Makes a pod whose container is this.
    pub(super) fn create(&self, name: &str, container: Value, spec: Value) {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        let mut whole = json!({"name": "main", "image": "busybox"});
        for (key, value) in container.as_object().unwrap() {
            whole[key] = value.clone();
        }
        pod["spec"]["containers"] = json!([whole]);
        let answer = self.send("POST", "/api/v1/namespaces/default/pods", Some(&pod));
        assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// Runs a script in a pod to its end and gives what it said.
    pub(super) fn said(&self, name: &str, script: &str, spec: Value) -> String {
        self.create(name, json!({"command": ["sh", "-c", script]}), spec);
        self.log_of(name)
    }

    /// What a pod said when it has come to its end.
    pub(super) fn log_of(&self, name: &str) -> String {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let phase = self.until(
            || self.get(&path)["status"]["phase"].as_str().unwrap_or_default().to_owned(),
            |phase| phase == "Succeeded" || phase == "Failed",
        );
        let log = self.send("GET", &format!("{path}/log"), None).body;
        let log = String::from_utf8_lossy(&log).into_owned();
        assert_eq!(phase, "Succeeded", "{log}");
        log
    }

    /// The port of the server.
    pub(super) fn port(&self) -> u16 {
        self.access.address().port()
    }

    /// What a port of a pod answers, or why it cannot be forwarded: channel 0 carries data, 1 errors.
    pub(super) fn forwarded(&self, pod: &str, port: u16) -> String {
        self.runtime.block_on(async {
            let mut connection = self.access.connect().await.unwrap();
            let head = format!(
                "GET /api/v1/namespaces/default/pods/{pod}/portforward?ports={port} HTTP/1.1\r\n\
                 host: tenure\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 sec-websocket-protocol: v4.channel.k8s.io\r\n\r\n"
            );
            connection.write(head.as_bytes()).await.unwrap();
            assert_eq!(connection.head().await.unwrap().0, 101);
            // A whole binary message, masked with nothing, for the channel of data.
            let asked = b"\0GET / HTTP/1.0\r\n\r\n";
            let length = 0x80 | u8::try_from(asked.len()).unwrap();
            let message = [&[0x82, length, 0, 0, 0, 0], asked.as_slice()].concat();
            connection.write(&message).await.unwrap();
            let mut said = String::new();
            loop {
                let Ok(head) = connection.exact(2).await else { return said };
                let length = match head[1] & 0x7f {
                    126 => connection.exact(2).await.unwrap(),
                    short => vec![0, short],
                };
                let length = u16::from_be_bytes([length[0], length[1]]);
                let message = connection.exact(usize::from(length)).await.unwrap();
                match (head[0] & 0x0f, message.split_first()) {
                    // Each channel begins with its port.
                    (2, Some((_, body))) if body.len() > 2 => {
                        said += &String::from_utf8_lossy(body);
                        if said.ends_with("hello") || message[0] == 1 {
                            return said;
                        }
                    }
                    (8, _) => return said,
                    _ => {}
                }
            }
        })
    }

    /// Waits until the pod or its node gets an event that says this, while the pod never runs.
    pub(super) fn never_runs(&self, name: &str, because: &str) {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        self.until(
            || {
                let pod = self.get(&path);
                let phase = pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
                assert!(phase.is_empty() || phase == "Pending", "the pod is {phase}");
                self.events()
            },
            |events| events.contains(because),
        );
    }

    /// What all events say.
    fn events(&self) -> String {
        let events = self.get("/api/v1/events");
        let items = events["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|event| event["message"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Looks until something holds.
    pub(super) fn until<T: std::fmt::Debug>(
        &self,
        look: impl Fn() -> T,
        holds: impl Fn(&T) -> bool,
    ) -> T {
        let begin = Instant::now();
        loop {
            let seen = look();
            if holds(&seen) {
                return seen;
            }
            assert!(
                begin.elapsed() < LIMIT,
                "never: {seen:?}\n{}\n{}",
                self.events(),
                self.server.said()
            );
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the pods: processes outlive an agent that is killed.
    pub(super) fn end(self) {
        self.send("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0", None);
        self.until(
            || self.get("/api/v1/namespaces/default/pods")["items"].as_array().map_or(0, Vec::len),
            |left| *left == 0,
        );
        self.server.stop().unwrap();
    }
}
