//! `tenure tree`, `why`, `plan` and `audit` as a person types them, against a running server.

mod finalizers;
mod foreign;
mod looks;
mod rights;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tenure_client_tests::Server;
use tenure_client_tests::server::binary;

use crate::typed::{self, Said};

/// A server, and the commands that look at it.
struct House {
    server: Server,
}

impl House {
    fn new() -> House {
        House { server: Server::ephemeral().unwrap() }
    }

    fn run(&self, words: &str) -> Said {
        typed::run(&self.server, words)
    }

    #[track_caller]
    fn ok(&self, words: &str) -> String {
        let said = self.run(words);
        assert_eq!(said.code, Some(0), "tenure {words}\n{}{}", said.out, said.err);
        said.out
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        typed::send(&self.server, method, path, Some(body))
    }

    /// Makes a ConfigMap and gives the reference that names it as an owner.
    fn map(&self, namespace: &str, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
        let object = json!({ "metadata": {
            "name": name, "ownerReferences": owners, "finalizers": finalizers,
        }});
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let made = self.send("POST", &path, &object);
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "blockOwnerDeletion": true,
            "uid": made["metadata"]["uid"],
        })
    }

    fn delete(&self, name: &str, policy: &str) {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        self.send("DELETE", &path, &json!({ "propagationPolicy": policy }));
    }

    fn settle(&self) {
        self.send("POST", "/tenure/settle", &json!({}));
    }

    /// A kubeconfig that speaks as a service account; its file.
    fn kubeconfig_of(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let token = self.send("POST", &path, &json!({ "spec": {} }));
        let token = token["status"]["token"].as_str().unwrap();
        let kubeconfig = std::fs::read_to_string(self.server.kubeconfig()).unwrap();
        let lines = kubeconfig.lines().filter(|line| !line.contains("client-key-data"));
        let with_token: Vec<String> = lines
            .map(|line| match line.find("client-certificate-data") {
                Some(at) => format!("{}token: {token}", &line[..at]),
                None => line.to_owned(),
            })
            .collect();
        let file = self.server.folder().join(format!("{namespace}-{account}"));
        std::fs::write(&file, with_token.join("\n")).unwrap();
        file.display().to_string()
    }

    /// A Deployment whose pods nobody schedules.
    fn deployment(&self, namespace: &str, name: &str, replicas: u32) {
        let deployment = json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": {
                        "schedulerName": "nobody",
                        "containers": [{ "name": "c", "image": "example.com/web" }],
                    },
                },
            },
        });
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        self.send("POST", &path, &deployment);
        self.settle();
    }

    /// A namespace with the account that pods need.
    fn namespace(&self, name: &str) {
        self.send("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
        self.settle();
    }
}

/// The cells of a line, ages left out.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

#[test]
fn a_tree_shows_what_a_deployment_owns() {
    let house = House::new();
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "c", "image": "example.com/web" }] },
            },
        },
    });
    house.send("POST", "/apis/apps/v1/namespaces/default/deployments", &deployment);
    house.settle();
    for kind in ["deployment/web", "deploy web", "deployments.apps/web", "Deployment/web"] {
        let tree = house.ok(&format!("tree {kind}"));
        let rows: Vec<&str> = tree.lines().collect();
        assert_eq!(rows.len(), 5, "{tree}");
        assert!(rows[1].contains("Deployment/web") && rows[1].contains("0/2 ready"), "{tree}");
        assert!(rows[2].contains("└─ReplicaSet/web-"), "{tree}");
        assert!(rows[3].contains("  ├─Pod/web-"), "{tree}");
        assert!(rows[4].contains("  └─Pod/web-"), "{tree}");
        assert!(rows[4].ends_with("solid, controller, blocks"), "{tree}");
    }
    let tree: Value = serde_json::from_str(&house.ok("tree deploy/web -o json")).unwrap();
    let pod = &tree["objects"][3];
    assert_eq!((&pod["kind"], &pod["depth"]), (&json!("Pod"), &json!(2)));
    let name = pod["name"].as_str().unwrap();
    let up = house.ok(&format!("tree --up pod/{name}"));
    assert!(up.lines().nth(3).unwrap().contains("└─Deployment/web"), "{up}");
    assert!(house.ok("tree deploy/web -o svg").starts_with("<svg "));
    assert!(house.ok("tree deploy/web -o dot").starts_with("digraph ownership {"));
    assert!(house.ok("tree deploy/web -o mermaid").starts_with("flowchart RL\n"));
    let colored = house.ok("tree deploy/web --color always");
    assert!(colored.contains("\x1b[1mDeployment/web\x1b[0m"), "{colored}");

    let plan = house.ok("plan delete deploy/web");
    assert!(plan.starts_with("deleting Deployment `default/web` in the background would\n"));
    assert!(plan.contains("4 objects go: Deployment (1), Pod (2), ReplicaSet (1)"), "{plan}");
    let pod = house.ok(&format!("plan delete pod/{name}"));
    assert!(pod.contains("may be replaced: ReplicaSet"), "{pod}");
}

#[test]
fn why_names_the_one_who_holds() {
    let house = House::new();
    let owner = house.map("default", "owner", &[], &[]);
    house.map("default", "held", &[owner], &["example.com/hold"]);
    house.delete("owner", "Foreground");
    house.settle();
    let why = house.ok("why cm/owner");
    assert!(why.contains("ConfigMap `default/owner` waits for 1 dependent"), "{why}");
    assert!(why.contains("cause: ConfigMap `default/held` blocks it and is Terminating"), "{why}");
    assert!(why.contains("hint: go on with `tenure why configmap/held -n default`"), "{why}");
    assert!(why.contains("rule: R104: a foreground deletion ends when"), "{why}");
    let held = house.ok("why configmap/held -n default");
    assert!(held.contains("for finalizer `example.com/hold`"), "{held}");
    assert!(held.contains("cause: last written by `"), "{held}");
    let json: Value = serde_json::from_str(&house.ok("why cm/owner -o json")).unwrap();
    assert_eq!(json["standing"], "Waiting");
    assert_eq!(json["reasons"][0]["code"], "blocked");

    let tree = house.ok("tree cm/owner");
    assert!(line(&tree, "ConfigMap/owner").contains("waits for dependents"), "{tree}");
    let plan = house.ok("plan delete cm/owner --cascade=orphan");
    assert!(plan.contains("release"), "{plan}");
}

#[test]
fn an_audit_ends_with_what_it_found() {
    let house = House::new();
    let clean = house.ok("audit");
    assert!(clean.starts_with("nothing found: looked at "), "{clean}");

    let boat =
        json!({ "apiVersion": "sea.example.com/v1", "kind": "Boat", "name": "b", "uid": "b" });
    house.map("default", "odd", &[boat], &[]);
    house.map("default", "held", &[], &["example.com/hold"]);
    house.delete("held", "Background");
    let first = house.map("default", "first", &[], &[]);
    let second = house.map("default", "second", &[first], &[]);
    let path = "/api/v1/namespaces/default/configmaps/first";
    let mut ring =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "first" } });
    ring["metadata"]["ownerReferences"] = json!([second]);
    house.send("PUT", path, &ring);
    house.settle();

    let found = house.run("audit");
    assert_eq!(found.code, Some(1), "{}{}", found.out, found.err);
    for part in [
        "warning: ConfigMap `default/odd` is never collected through one of its references",
        "`sea.example.com/v1` serves no kind `Boat`",
        "own one another",
        "2 findings: looked at ",
    ] {
        assert!(found.out.contains(part), "no {part} in\n{}", found.out);
    }
    let found = house.run("audit --stuck-after 0 -n default -o json");
    assert_eq!(found.code, Some(1));
    let json: Value = serde_json::from_str(&found.out).unwrap();
    let codes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["unresolvable", "ring", "finalizer"]);
    assert_eq!(house.run("audit -n kube-system").code, Some(0));
}

#[test]
fn who_may_not_look_is_told_so() {
    let house = House::new();
    let user = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "viewer" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }],
    });
    house.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &user);
    let file = house.kubeconfig_of("default", "default");
    let partly = house.run(&format!("audit --kubeconfig {file}"));
    assert_eq!(partly.code, Some(2), "{}{}", partly.out, partly.err);
    assert!(partly.out.starts_with("nothing found in what could be read: "), "{}", partly.out);
    assert!(partly.out.contains("cause: you may not list it: "), "{}", partly.out);
    assert!(partly.out.contains("`secrets`"), "{}", partly.out);
    assert_eq!(house.run(&format!("audit --kubeconfig {file} --partial")).code, Some(0));
}

#[test]
fn mistakes_are_answered_with_a_way_on() {
    let house = House::new();
    let unknown = house.run("why boats/titanic");
    assert_eq!(unknown.code, Some(2));
    assert_eq!(
        unknown.err,
        "error: the cluster serves no kind `boats`\n  hint: see what it serves with `kubectl api-resources`\n"
    );
    let near = house.run("tree deploymen/web");
    assert!(near.err.contains("hint: perhaps `deployment`"), "{}", near.err);
    let absent = house.run("tree cm/kube-root-ca.crt -n nowhere");
    assert!(
        absent.err.contains("there is no ConfigMap `nowhere/kube-root-ca.crt`"),
        "{}",
        absent.err
    );
    assert!(absent.err.contains("hint: there is one with `-n "), "{}", absent.err);
    let wrong = house.run("audit --context nobody");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("hint: name one with --kubeconfig"), "{}", wrong.err);
    let gone = house.run("audit --kubeconfig /nonexistent");
    assert_eq!(gone.code, Some(2), "{}", gone.err);
}

#[test]
fn it_is_a_plugin_of_kubectl_as_well() {
    let house = House::new();
    let link = house.server.folder().join("kubectl-tenure");
    std::os::unix::fs::symlink(binary().unwrap(), &link).unwrap();
    let help = Command::new(&link).args(["tree", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("Usage: kubectl tenure tree [OPTIONS] <KIND/NAME>"), "{help}");
    house.map("default", "held", &[], &["example.com/hold"]);
    house.delete("held", "Foreground");
    house.settle();
    let audit = Command::new(&link)
        .args(["audit", "--stuck-after", "0"])
        .env("KUBECONFIG", house.server.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(audit.status.code(), Some(1));
}

#[test]
fn a_watched_tree_follows_the_cluster() {
    let house = House::new();
    let owner = house.map("default", "owner", &[], &[]);
    let mut child = typed::command(&house.server, "tree cm/owner --watch")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains("ConfigMap/owner")));
    house.map("default", "late", &[owner], &[]);
    assert!(lines.by_ref().any(|line| line.contains("└─ConfigMap/late")));
    house.delete("owner", "Background");
    assert_eq!(lines.last().as_deref(), Some("gone"));
    assert!(child.wait().unwrap().success());
}
