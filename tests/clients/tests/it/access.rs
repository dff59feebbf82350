//! `tenure access` as a person types it, against a running server, with kubectl for everything else.
//! Rules of spec/referential-authorization.md.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client_tests::Server;
use tenure_client_tests::server::root;

use crate::typed::{self, Said};

const EDGE: &str = "system:serviceaccount:edge-system:edge";

/// A controller of Ingresses, and a shop with one.
struct House {
    server: Server,
    folder: TempDir,
}

impl House {
    fn new() -> House {
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("audit.log");
        let log = log.to_str().unwrap();
        let flags = ["--ephemeral", "--nodes", "0", "--record-access", "--audit-log", log];
        let house = House { server: Server::start(&flags).unwrap(), folder };
        house.apply("controller");
        house.apply("shop");
        house
    }

    /// Applies a file of the guide.
    fn apply(&self, file: &str) {
        let file = root().unwrap().join(format!("docs/examples/secret-access/{file}.yaml"));
        self.kubectl(&["apply", "--filename", file.to_str().unwrap()], "");
    }

    /// Types a line for kubectl and gives what it printed.
    #[track_caller]
    fn kubectl(&self, words: &[&str], input: &str) -> String {
        let mut child = Command::new(std::env::var_os("KUBECTL").unwrap_or("kubectl".into()))
            .args(words)
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {words:?}\n{told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Takes the broad access away.
    fn take_away(&self) {
        self.kubectl(&["delete", "clusterrolebinding", "edge-secrets"], "");
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, words: &str) -> Said {
        typed::run(&self.server, &format!("access {words}"))
    }

    #[track_caller]
    fn says(&self, words: &str, code: i32) -> String {
        let said = self.run(words);
        assert_eq!(said.code, Some(code), "tenure access {words}\n{}{}", said.out, said.err);
        said.out
    }

    #[track_caller]
    fn json(&self, words: &str, code: i32) -> Value {
        serde_json::from_str(&self.says(&format!("{words} -o json"), code)).unwrap()
    }

    /// Applies what `narrow` prints for the class that the shop uses.
    fn narrow(&self) -> String {
        let yaml = self.says(&format!("narrow --subject {EDGE} --class edge -o yaml"), 1);
        assert!(yaml.contains("kind: ClusterReferenceConsumer\n"), "{yaml}");
        self.kubectl(&["apply", "--filename", "-"], &yaml);
        yaml
    }
}

#[test]
fn r96_r130_r132_a_person_learns_whether_and_why() {
    let house = House::new();
    house.narrow();
    let asked = format!("secret/web-tls -n shop --as {EDGE}");
    let said = house.says(&format!("can get {asked}"), 0);
    assert!(said.starts_with("yes\n  roles: yes, allowed by ClusterRoleBinding"), "{said}");
    house.take_away();
    let said = house.says(&format!("can get {asked}"), 0);
    let chain = "ingresses.networking.k8s.io shop/web -> secrets shop/web-tls for tls-serving, strategy \
                 ingresses.networking.k8s.io@v1, consumer edge";
    assert_eq!(said, format!("yes\n  roles: no\n  reference: yes, {chain}\n"));
    let can = house.json(&format!("can watch {asked}"), 0);
    assert_eq!((&can["allowed"], &can["by"]), (&json!(true), &json!("reference")));
    assert_eq!(can["server"]["reason"], format!("reference: {chain}"));
    assert_eq!(house.says(&format!("can get secret/db-password -n shop --as {EDGE} -q"), 1), "");
    assert!(house.says("can get secrets -A", 0).starts_with("yes\n"));

    let explained = house.json(&format!("explain get secret/db-password -n shop --as {EDGE}"), 1);
    assert_eq!((&explained["allowed"], &explained["code"]), (&json!(false), &json!("REFERENCE")));
    let states: Vec<&str> = explained["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["met", "met", "met", "met", "met", "missing", "unknown", "unknown"]);
    let explained = house.json(&format!("explain get {asked}"), 0);
    assert_eq!(explained["witnesses"][0]["consumer"], "edge");
    for (words, error) in [
        ("can get nonsense/a", "error: the cluster serves no kind `nonsense`\n"),
        ("can get secret/a/b", "error: `secret/a/b` names no object\n"),
        ("explain GET secret/a", "error: `GET` is no verb\n"),
        ("can get secret/a --as=", "error: `--as` names nobody\n"),
        (
            "map --kubeconfig /nonexistent",
            "error: no cluster can be reached with this kubeconfig\n",
        ),
    ] {
        let said = house.run(words);
        assert_eq!(said.code, Some(2), "{words}\n{}", said.err);
        assert!(said.err.starts_with(error), "{words}\n{}", said.err);
    }
}

#[test]
fn r64_r65_r133_a_person_sees_who_reaches_what_and_what_is_wrong() {
    let house = House::new();
    house.narrow();
    let doctor = house.says("doctor", 1);
    assert!(
        doctor.starts_with("warning: service account edge-system/edge reads all secrets by roles")
    );
    house.take_away();
    let doctor = house.says("doctor", 0);
    assert!(
        doctor.contains("note: whoever writes ingresses.networking.k8s.io in a namespace chooses")
    );
    let rule = ["--verb=update", "--resource=ingresses"];
    house.kubectl(&[&["create", "clusterrole", "writer"], &rule[..]].concat(), "");
    let account = ["--serviceaccount=edge-system:edge", "--clusterrole=writer", "-n", "shop"];
    house.kubectl(&[&["create", "rolebinding", "writer"], &account[..]].concat(), "");
    let doctor = house.json("doctor", 1);
    assert_eq!(doctor["advice"][0]["code"], "self-referencing-consumer");

    let who = house.json("who-can get secret/web-tls -n shop", 0);
    assert_eq!(who["byReference"][0]["subject"]["name"], "edge");
    let groups = who["byRoles"].as_array().unwrap();
    assert!(groups.iter().any(|it| it["subject"]["name"] == "system:masters"), "{who}");
    let map = house.says(&format!("map --as {EDGE}"), 0);
    assert_eq!(map.lines().next(), Some("service account edge-system/edge"));
    assert!(map.contains("    └─secrets shop/web-tls"), "{map}");
    assert_eq!(house.json("map -n certs", 0)["chains"], json!([]));
    assert!(house.says("map -o svg", 0).starts_with("<svg "));
    assert!(house.says("map -o dot", 0).starts_with("digraph access {"));

    assert_eq!(house.says("unused", 0), "there are no grants\n");
    house.apply("grant");
    assert_eq!(
        house.json("unused", 3)["grants"][0],
        json!({ "namespace": "certs", "name": "shop-ingresses" })
    );
    assert_eq!(house.json("unused -n shop", 0)["grants"], json!([]));
}

#[test]
fn r134_a_change_is_judged_before_it_is_made() {
    let house = House::new();
    let yaml = house.narrow();
    let objects = house.file("objects.yaml");
    std::fs::write(&objects, yaml).unwrap();
    assert!(house.says(&format!("diff -f {objects}"), 0).starts_with("nobody gains or loses"));
    let lost = house.json(&format!("diff -f {objects} --delete"), 3);
    assert_eq!(lost["lost"][0]["target"]["name"], "web-tls");
    let ingress = house.kubectl(&["get", "ingress", "web", "-n", "shop", "--output", "json"], "");
    let moved = house.file("moved.yaml");
    std::fs::write(&moved, ingress.replace("\"web-tls\"", "\"web-tls-renewed\"")).unwrap();
    let said = house.says(&format!("diff -f {moved}"), 3);
    assert!(
        said.ends_with("1 gained, 1 lost\n")
            && said.starts_with("+ service account edge-system/edge")
    );
    std::fs::write(
        &moved,
        "apiVersion: reference.authorization.k8s.io/v1alpha1\nkind: ReferenceGrant\n",
    )
    .unwrap();
    let said = house.run(&format!("diff -f {moved}"));
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("has no `metadata.name`"), "{}", said.err);
}

/// What a change is said to do is what `kubectl apply` then does: fields that others wrote stay, and fields that were
/// applied before and are no longer in the file go.
#[test]
fn r134_a_change_is_applied_and_replaces_nothing() {
    let house = House::new();
    house.narrow();
    house.take_away();
    let ingress = |spec: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\n\
             metadata: {{ name: made, namespace: shop }}\nspec:\n  \
             defaultBackend: {{ service: {{ name: web, port: {{ number: 80 }} }} }}\n{spec}"
        )
    };
    let tls = "  ingressClassName: edge\n  tls: [{ secretName: web-tls-renewed }]\n";
    house.kubectl(&["create", "--filename", "-"], &ingress(tls));
    let reads = || house.says(&format!("map --as {EDGE}"), 0).contains("web-tls-renewed");
    assert!(reads());

    let file = house.file("ingress.yaml");
    std::fs::write(&file, ingress("")).unwrap();
    let said = house.says(&format!("diff -f {file}"), 0);
    assert!(said.starts_with("nobody gains or loses"), "{said}");
    house.kubectl(&["apply", "--filename", &file], "");
    assert!(reads());

    std::fs::write(&file, ingress(tls)).unwrap();
    house.kubectl(&["apply", "--filename", &file], "");
    std::fs::write(&file, ingress("  ingressClassName: edge\n")).unwrap();
    let lost = house.json(&format!("diff -f {file}"), 3);
    assert_eq!(lost["lost"][0]["target"]["name"], "web-tls-renewed", "{lost}");
    house.kubectl(&["apply", "--filename", &file], "");
    assert!(!reads());
}

#[test]
fn d13_r134_the_first_consumer_that_selects_classes_is_judged_by_the_classes_there_are() {
    let house = House::new();
    house.says("strategies install --for ingress", 0);
    house.take_away();
    let class = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: { name: edge }\n\
                 spec: { controller: example.com/edge }\n";
    house.kubectl(&["apply", "--filename", "-"], class);
    let consumer = house.file("consumer.yaml");
    let selecting = |controller: &str| {
        json!({
            "apiVersion": "reference.authorization.k8s.io/v1alpha1",
            "kind": "ClusterReferenceConsumer",
            "metadata": { "name": "edge" },
            "subject": { "kind": "ServiceAccount", "namespace": "edge-system", "name": "edge" },
            "classSelector": {
                "group": "networking.k8s.io", "resource": "ingressclasses",
                "controllerPath": ".spec.controller", "controllerName": controller,
            },
            "references": [{
                "origin": { "group": "networking.k8s.io", "resource": "ingresses" },
                "target": { "group": "", "resource": "secrets" },
                "purpose": "tls-serving",
            }],
        })
        .to_string()
    };
    std::fs::write(&consumer, selecting("example.com/edge")).unwrap();
    let change = house.json(&format!("diff -f {consumer}"), 3);
    assert_eq!(change["gained"][0]["target"]["name"], "web-tls", "{change}");
    std::fs::write(&consumer, selecting("example.com/other")).unwrap();
    assert!(house.says(&format!("diff -f {consumer}"), 0).starts_with("nobody gains or loses"));
}

#[test]
fn r135_broad_access_is_narrowed_until_nothing_would_break() {
    let house = House::new();
    let kubectl = |words: &[&str]| {
        house.kubectl(&[words, &["--namespace", "shop", "--as", EDGE]].concat(), "")
    };
    kubectl(&["get", "ingresses", "--all-namespaces"]);
    kubectl(&["get", "secret", "web-tls"]);
    kubectl(&["get", "secrets", "--field-selector", "metadata.name=web-tls"]);
    let log = house.file("audit.log");
    let asked = format!("narrow --subject {EDGE} --class edge --audit-log {log}");
    let told = house.json(&asked, 1);
    assert_eq!(told["verdict"], "would-break", "{told}");
    assert_eq!(told["verdictWithObjects"], "safe", "{told}");
    assert_eq!(told["bindings"][0]["binding"]["name"], "edge-secrets");
    assert_eq!(told["window"]["restartSeen"], true);
    let kinds: Vec<&str> =
        told["objects"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ReferenceStrategy", "ClusterReferenceConsumer"]);
    let yaml = house.narrow();
    assert!(yaml.starts_with(
        "apiVersion: reference.authorization.k8s.io/v1alpha1\nkind: ReferenceStrategy\n"
    ));
    let text = house.says(&asked, 0);
    assert!(text.ends_with("verdict: safe\n"), "{text}");
    // Now it is taken away, and what was read still is.
    house.take_away();
    kubectl(&["get", "secret", "web-tls"]);
    // Without a log nothing is called safe while there is something to take away.
    house.apply("controller");
    let empty = house.file("empty.log");
    std::fs::write(&empty, "").unwrap();
    let told = house.json(&format!("narrow --subject {EDGE} --audit-log {empty}"), 1);
    assert_eq!(told["verdict"], "not-shown");
    // The recorder of the server saw the same.
    let told = house.json(&format!("narrow --subject {EDGE} --class edge"), 0);
    assert_eq!(told["window"]["source"], "the recorder of the server");
    assert_eq!(told["reads"].as_array().unwrap().len(), 2, "{told}");
    // A whole collection, and what nobody points at.
    kubectl(&["get", "secrets", "--all-namespaces"]);
    kubectl(&["get", "secret", "db-password"]);
    let told = house.json(&asked, 1);
    let outcomes: Vec<(&str, &str)> = told["reads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["outcome"].as_str().unwrap(), it["verb"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes, [("lost", "get"), ("kept", "get"), ("breaks", "list"), ("kept", "list")]);
    let agent = told["reads"][2]["userAgents"][0].as_str().unwrap();
    assert!(agent.starts_with("kubectl/"), "{agent}");
    let said = house.run(&format!("narrow --subject {EDGE} --audit-log /nonexistent"));
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn r135_r155_narrow_knows_whether_the_server_filters_lists() {
    let told = |flags: &[&str], words: &str| {
        let server = Server::start(&[&["--ephemeral"], flags].concat()).unwrap();
        let words = format!("access narrow --subject {EDGE} -o json{words}");
        let said = typed::run(&server, &words);
        let told: Value = serde_json::from_str(&said.out).unwrap();
        told["filteredLists"].as_str().unwrap().to_owned()
    };
    let gate = "--feature-gates=ReferenceFilteredLists=true";
    assert_eq!(told(&["--record-access"], ""), "off");
    assert_eq!(told(&["--record-access", gate], ""), "on");
    // A server that records nothing is not asked about it.
    assert_eq!(told(&[gate], ""), "unknown");
    assert_eq!(told(&[], " --filtered-lists"), "on");
}
