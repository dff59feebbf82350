//! `tenure migrate reference-grants --follow` while the cluster changes, across a restart of its server.
//! Rules of spec/referential-authorization.md.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client_tests::Server;

use super::{GATEWAYS, House, OLD_GRANTS, gateway, old_grant};
use crate::typed;

/// The longest that anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const GRANTS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/namespaces/prod-tls/referencegrants";
const MADE: &str = "old-gateways-secrets-tls-serving";
const THEIRS: &str = "other-gateways-secrets-tls-serving";

/// The command, and what it says line by line.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(server: &Server, kubeconfig: &std::path::Path) -> Follower {
        let words = "migrate reference-grants --cluster --write --follow";
        let mut command = typed::command(server, words);
        command.env("KUBECONFIG", kubeconfig).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, lines) = channel();
        tell(child.stdout.take().unwrap(), say.clone());
        tell(child.stderr.take().unwrap(), say);
        Follower { child, lines }
    }

    /// Waits for a line with this in it; lines before it are passed over.
    #[track_caller]
    fn hears(&self, part: &str) {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return,
                Ok(line) => before.push(line),
                Err(error) => panic!("{error}: no `{part}` in {before:#?}"),
            }
        }
    }

    /// Ends it as control-c does.
    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tell(from: impl Read + Send + 'static, say: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if say.send(line).is_err() {
                break;
            }
        }
    });
}

impl House {
    /// Replaces a Gateway.
    fn point(&self, name: &str, secrets: &[&str]) {
        let path = format!("{GATEWAYS}/{name}");
        let mut object = gateway(name, secrets);
        object["metadata"] = self.send("GET", &path, &Value::Null)["metadata"].clone();
        self.send("PUT", &path, &object);
    }

    fn names(&self, grant: &str) -> Value {
        self.send("GET", &format!("{GRANTS}/{grant}"), &Value::Null)["target"]["names"].clone()
    }

    fn count(&self, path: &str) -> usize {
        self.send("GET", path, &Value::Null)["items"].as_array().unwrap().len()
    }
}

#[test]
fn m4_m5_grants_are_kept_in_step_until_interrupted() {
    let data = TempDir::new().unwrap();
    let house = House { server: Server::durable(data.path()).unwrap() };
    let kubeconfig = data.path().join("kubeconfig-of-the-follower");
    std::fs::copy(house.server.kubeconfig(), &kubeconfig).unwrap();
    house.define("Gateway", "gateways", "v1");
    house.define("ReferenceGrant", "referencegrants", "v1beta1");
    for name in ["prod", "prod-tls"] {
        house.send("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
    }
    house.send("POST", OLD_GRANTS, &old_grant("old"));
    let follower = Follower::start(&house.server, &kubeconfig);
    follower.hears("in step with 1 old grant");
    assert_eq!(house.count(GRANTS), 0, "nothing is referenced");

    house.send("POST", GATEWAYS, &gateway("web", &["acme-tls"]));
    follower.hears(&format!("prod-tls/{MADE}: created, with acme-tls"));
    house.point("web", &["acme-tls", "beta-tls"]);
    follower.hears(&format!("prod-tls/{MADE}: now with beta-tls"));
    assert_eq!(house.names(MADE), json!(["acme-tls", "beta-tls"]));

    // Another server takes the place of the first, with the same objects.
    let address = house.server.url().strip_prefix("https://").unwrap().to_owned();
    house.server.stop().unwrap();
    follower.hears("not read, and tried again: ");
    let folder = data.path().to_str().unwrap();
    let server = Server::start(&["--data-dir", folder, "--listen", &address]).unwrap();
    let house = House { server };
    house.point("web", &["beta-tls"]);
    follower.hears(&format!("prod-tls/{MADE}: without acme-tls"));
    house.send("DELETE", &format!("{GATEWAYS}/web"), &Value::Null);
    follower.hears(&format!("prod-tls/{MADE}: deleted"));

    // A grant of somebody else has the name that is needed.
    let mut foreign = json!({
        "metadata": { "name": THEIRS },
        "origin": { "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["theirs"] },
        "purpose": "tls-serving",
    });
    foreign["apiVersion"] = "reference.authorization.k8s.io/v1alpha1".into();
    foreign["kind"] = "ReferenceGrant".into();
    house.send("POST", GRANTS, &foreign);
    house.send("POST", OLD_GRANTS, &old_grant("other"));
    house.send("POST", GATEWAYS, &gateway("web", &["acme-tls"]));
    follower.hears(&format!("prod-tls/{THEIRS}: left alone"));
    assert_eq!(house.names(THEIRS), json!(["theirs"]));

    // What the old one allowed is allowed no longer, and so is what was made from it.
    house.send("DELETE", &format!("{OLD_GRANTS}/old"), &Value::Null);
    follower.hears(&format!("prod-tls/{MADE}: deleted"));
    assert_eq!((house.count(GRANTS), house.count(OLD_GRANTS)), (1, 1));
    assert_eq!(follower.interrupt(), Some(0));
}
