//! `tenure access strategies`, `tenure access conformance` and `tenure migrate` as a person types them, against
//! a running server. Rules of spec/referential-authorization.md.

mod follow;

use std::path::PathBuf;

use serde_json::{Value, json};
use tenure_client_tests::Server;

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

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        typed::send(&self.server, method, path, (!body.is_null()).then_some(body))
    }

    /// A kind of the Gateway API, in a shape that is good enough.
    fn define(&self, kind: &str, plural: &str, version: &str) {
        let group = "gateway.networking.k8s.io";
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{group}"),
                "annotations": { "api-approved.kubernetes.io": "unapproved, a shape for a test" },
            },
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": schema },
                }],
            },
        }));
    }

    /// A kubeconfig of the administrator, who acts as somebody else.
    fn kubeconfig_as(&self, user: &str) -> PathBuf {
        let text = std::fs::read_to_string(self.server.kubeconfig()).unwrap();
        let user_entry = "  user:\n";
        assert!(text.contains(user_entry), "{text}");
        let file = self.server.folder().join(format!("kubeconfig-{user}"));
        let text = text.replace(user_entry, &format!("  user:\n    as: {user}\n"));
        std::fs::write(&file, text).unwrap();
        file
    }
}

const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/prod/gateways";
const OLD_GRANTS: &str =
    "/apis/gateway.networking.k8s.io/v1beta1/namespaces/prod-tls/referencegrants";

/// A Gateway in `prod` that serves with these Secrets of `prod-tls`.
fn gateway(name: &str, secrets: &[&str]) -> Value {
    let secret = |name: &&str| json!({ "group": "", "kind": "Secret", "name": name, "namespace": "prod-tls" });
    let secrets: Vec<Value> = secrets.iter().map(secret).collect();
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": name },
        "spec": {
            "gatewayClassName": "edge", "listeners": [{ "tls": { "certificateRefs": secrets } }],
        },
    })
}

/// Gateways of `prod` may use every Secret of `prod-tls`, as the Gateway API says it.
fn old_grant(name: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "name": name },
        "spec": {
            "from": [{ "group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "prod" }],
            "to": [{ "group": "", "kind": "Secret" }],
        },
    })
}

#[test]
fn r117_a_server_passes_the_conformance_suite() {
    let house = House::new();
    let said = house.run("access conformance");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.ends_with("47 passed, 0 failed\n"), "{}", said.out);
    // Nothing is left.
    let path = "/apis/reference.authorization.k8s.io/v1alpha1/referencestrategies";
    assert_eq!(house.send("GET", path, &Value::Null)["items"], json!([]));
    let said = house.run("access conformance --only nothing_such");
    assert_eq!(said.code, Some(2), "{}", said.err);
    let said = house.run("access conformance --only grant_empty_selector_means_all");
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--gates GrantNamespaceSelector"), "{}", said.err);
    let said = house.run("access conformance --gates Nothing");
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("GrantNamespaceSelector"), "{}", said.err);
}

#[test]
fn d9_d13_a_server_with_the_gates_passes_their_cases_and_one_without_does_not() {
    let gates = "GrantNamespaceSelector=true,ConsumerClassSelector=true";
    let server = Server::start(&["--ephemeral", "--feature-gates", gates]).unwrap();
    let house = House { server };
    let named = "grant_selects_namespaces_by_labels,grant_empty_selector_means_all,\
        grant_selects_by_expressions,consumer_selects_classes_by_controller,ref_without_grant";
    let words = format!(
        "access conformance --gates GrantNamespaceSelector,ConsumerClassSelector --only {named}"
    );
    let said = house.run(&words);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.ends_with("5 passed, 0 failed\n"), "{}", said.out);
    let said = House::new().run(
        "access conformance --gates GrantNamespaceSelector --only grant_empty_selector_means_all",
    );
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("FAIL grant_empty_selector_means_all: "), "{}", said.out);
}

#[test]
fn r160_strategies_are_installed_where_their_api_is_served_and_not_otherwise() {
    let house = House::new();
    let said = house.run("access strategies install --for gateway-api,ingress,volumes");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("ingresses.networking.k8s.io: installed\n"), "{}", said.out);
    assert!(
        said.out.contains("gateways.gateway.networking.k8s.io: left out, its API is not served\n")
    );
    house.define("ListenerSet", "listenersets", "v1");
    house.define("Gateway", "gateways", "v1");
    let said = house.run("access strategies install --for gateway-api");
    assert!(said.out.contains("gateways.gateway.networking.k8s.io: installed\n"), "{}", said.out);
    assert!(said.out.contains("listenersets.gateway.networking.k8s.io: left out"), "{}", said.out);
    let said = house.run("access strategies install --for gateway-api --allow-unpartitioned");
    assert!(said.out.contains("listenersets.gateway.networking.k8s.io: installed\n"));
    let path = "/apis/reference.authorization.k8s.io/v1alpha1/referencestrategies";
    let list = house.send("GET", path, &Value::Null);
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "gateways.gateway.networking.k8s.io",
            "ingresses.networking.k8s.io",
            "listenersets.gateway.networking.k8s.io",
            "persistentvolumeclaims",
        ]
    );
    let said = house.run("access strategies install --for nonsense");
    assert_eq!(said.code, Some(1));
    assert!(
        said.err
            .starts_with("error: there is no bundle `nonsense`\n  hint: there are: gateway-api")
    );
}

#[test]
fn m4_m5_m7_a_cluster_is_migrated_with_the_rights_of_whoever_does_it() {
    let house = House::new();
    house.define("Gateway", "gateways", "v1");
    house.define("ReferenceGrant", "referencegrants", "v1beta1");
    for name in ["prod", "prod-tls"] {
        house.send("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
    }
    house.send("POST", GATEWAYS, &gateway("web", &["acme-tls"]));
    house.send("POST", OLD_GRANTS, &old_grant("old"));
    let said = house.run("migrate reference-grants --cluster --verify");
    // Two purposes lead from Gateways to Secrets besides the one in use; their grants would be empty.
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("name: old-gateways-secrets-tls-serving\n"), "{}", said.out);
    assert!(said.err.contains("snapshot-of-wildcard"), "{}", said.err);
    assert!(said.err.contains("1 of 1 references into other namespaces keep their verdict"));

    // Who may read nothing is not told that there is nothing.
    let blind = house.kubeconfig_as("bob");
    for flags in ["", " --verify", " --write"] {
        let words = format!("migrate reference-grants --cluster{flags}");
        let mut command = typed::command(&house.server, &words);
        let said = Said::from(command.env("KUBECONFIG", &blind).output().unwrap());
        assert_eq!(said.code, Some(2), "{flags}: {}{}", said.out, said.err);
        assert!(!said.err.contains("there is no"), "{flags}: {}", said.err);
        assert!(said.err.contains("no ReferenceGrant of gateway.networking.k8s.io could be read"));
    }

    // Somebody who may write grants and read no Secret; every verb would hold `escalate` as well.
    let rbac = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    house.send(
        "POST",
        rbac,
        &json!({
            "metadata": { "name": "migrator" },
            "rules": [
                { "apiGroups": ["reference.authorization.k8s.io"], "resources": ["referencegrants"],
                  "verbs": ["get", "list", "create", "update", "patch"] },
                { "apiGroups": ["reference.authorization.k8s.io", "gateway.networking.k8s.io"],
                  "resources": ["*"], "verbs": ["get", "list"] },
            ],
        }),
    );
    house.send("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &json!({
        "metadata": { "name": "migrator" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "migrator" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann" }],
    }));
    let kubeconfig = house.kubeconfig_as("ann");
    let mut command = typed::command(&house.server, "migrate reference-grants --cluster --write");
    let said = Said::from(command.env("KUBECONFIG", kubeconfig).output().unwrap());
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let refused = "prod-tls/old-gateways-secrets-tls-serving: not created: ";
    assert!(said.out.contains(refused) && said.out.contains("acme-tls"), "{}", said.out);

    let said = house.run("migrate reference-grants --cluster --write --verify");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let made = "prod-tls/old-gateways-secrets-tls-serving";
    assert_eq!(said.out, format!("{made}: created, with acme-tls\n"));
    let said = house.run("migrate reference-grants --cluster --write");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "nothing to do\n"), "{}", said.err);
    // The old one stays.
    let old = house.send("GET", &format!("{OLD_GRANTS}/old"), &Value::Null);
    assert_eq!(old["metadata"]["name"], "old");
}
