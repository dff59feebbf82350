//! Who may do what: asked, granted, used with a token, reconciled.

use std::io::{BufRead as _, BufReader};

use super::Kubectl;
use super::harbour::boat;
use super::runner::rows;

const READERS: [&str; 5] =
    ["create", "role", "reader", "--verb=get,list,watch", "--resource=boats.harbour.example"];
const BIND: [&str; 5] =
    ["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=shop:robot"];

impl Kubectl {
    /// Asks whether something may be done; the exit code says the same as the word.
    fn may(&self, arguments: &[&str]) -> bool {
        let arguments = [&["auth", "can-i"], arguments].concat();
        let child = self.command(&arguments).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        match (said.lines().last().unwrap(), output.status.code()) {
            ("yes", Some(0)) => true,
            (no, Some(1)) if no.starts_with("no") => false,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }
}

#[test]
fn rights_are_asked_for() {
    let kubectl = Kubectl::harbour();
    assert!(kubectl.may(&["create", "deployments"]));
    assert!(kubectl.may(&["*", "*"]));
    for (arguments, allowed) in [
        (&["list", "boats.harbour.example"][..], false),
        (&["get", "pods", "--subresource=log"], false),
        (&["get", "/version"], true),
        (&["get", "/metrics"], false),
    ] {
        assert_eq!(kubectl.may(&[arguments, &["--as=eve"]].concat()), allowed, "{arguments:?}");
    }
    kubectl.ok(&READERS);
    kubectl.ok(&["create", "rolebinding", "eve", "--role=reader", "--user=eve"]);
    kubectl.ok(&["create", "clusterrole", "logs", "--verb=get", "--resource=pods/log"]);
    kubectl.ok(&["create", "clusterrole", "sums", "--verb=get", "--non-resource-url=/metrics"]);
    kubectl.ok(&[
        "create",
        "clusterrole",
        "one",
        "--verb=delete",
        "--resource=secrets",
        "--resource-name=x",
    ]);
    for role in ["logs", "sums", "one"] {
        let role_flag = format!("--clusterrole={role}");
        let said = kubectl.ok(&["create", "clusterrolebinding", role, &role_flag, "--group=crew"]);
        assert_eq!(said, format!("clusterrolebinding.rbac.authorization.k8s.io/{role} created\n"));
    }
    for (arguments, allowed) in [
        (&["list", "boats.harbour.example"][..], true),
        (&["list", "bt", "--all-namespaces"], false),
        (&["delete", "bt"], false),
        (&["get", "pods", "--subresource=log"], true),
        (&["get", "pods"], false),
        (&["get", "/metrics"], true),
        (&["delete", "secrets/x"], true),
        (&["delete", "secrets/y"], false),
    ] {
        let eve = ["--as=eve", "--as-group=crew"];
        assert_eq!(kubectl.may(&[arguments, &eve].concat()), allowed, "{arguments:?}");
    }
    let list = kubectl.ok(&["auth", "can-i", "--list", "--as=eve", "--as-group=crew"]);
    let text: Vec<String> = rows(&list).iter().map(|row| row.join(" ")).collect();
    for row in [
        "Resources Non-Resource URLs Resource Names Verbs",
        "boats.harbour.example [] [] [get list watch]",
        "pods/log [] [] [get]",
        "secrets [] [x] [delete]",
        "[/metrics] [] [get]",
        "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
    ] {
        assert!(text.iter().any(|found| found == row), "`{row}` is not in\n{list}");
    }
    let mine = kubectl.ok(&["auth", "can-i", "--list"]);
    assert!(rows(&mine).iter().any(|row| row.join(" ") == "*.* [] [] [*]"), "{mine}");
}

#[test]
fn a_token_is_the_service_account() {
    let kubectl = Kubectl::harbour();
    kubectl.feed(&["create", "--filename", "-"], &boat("anna", "port: kiel"));
    assert_eq!(
        kubectl.ok(&["create", "serviceaccount", "robot"]),
        "serviceaccount/robot created\n"
    );
    let token = kubectl.token("robot");
    let user = kubectl.who_is(Some(&token));
    assert_eq!(user["username"], "system:serviceaccount:shop:robot");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    assert_eq!(user["groups"], serde_json::json!(groups));
    assert_eq!(kubectl.who_is(None)["username"], "kubernetes-admin");

    let (_, said) = kubectl.bearer(&token, &["get", "boats"], 1);
    let told = "Error from server (Forbidden): boats.harbour.example is forbidden: User \
                \"system:serviceaccount:shop:robot\" cannot list resource \"boats\" in API group \
                \"harbour.example\" in the namespace \"shop\"\n";
    assert_eq!(said, told);
    assert_eq!(kubectl.ok(&READERS), "role.rbac.authorization.k8s.io/reader created\n");
    assert_eq!(kubectl.ok(&BIND), "rolebinding.rbac.authorization.k8s.io/reader created\n");
    let (said, _) = kubectl.bearer(&token, &["get", "boats", "--output", "name"], 0);
    assert_eq!(said, "boat.harbour.example/anna\n");
    let (_, said) = kubectl.bearer(&token, &["delete", "boats", "anna"], 1);
    assert!(said.contains("cannot delete resource \"boats\""), "{said}");
    let (said, _) = kubectl.bearer(&token, &["auth", "can-i", "watch", "boats.harbour.example"], 0);
    assert_eq!(said, "yes\n");

    let arguments = ["get", "boats", "--watch", "--output", "name"];
    let mut child = kubectl.bearer_command(&token, &arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "boat.harbour.example/anna");
    kubectl.feed(&["create", "--filename", "-"], &boat("berta", "port: riga"));
    assert_eq!(lines.next().unwrap(), "boat.harbour.example/berta");
    child.kill().unwrap();
    child.wait().unwrap();

    // Without its account a token is nothing.
    kubectl.ok(&["delete", "serviceaccount", "robot"]);
    let (_, said) = kubectl.bearer(&token, &["get", "boats"], 1);
    assert!(said.contains("You must be logged in to the server"), "{said}");
}

#[test]
fn roles_are_created_and_described() {
    let kubectl = Kubectl::harbour();
    let role = [
        "create",
        "role",
        "mixed",
        "--verb=get,list",
        "--resource=pods,deployments.apps,boats/scale",
    ];
    assert_eq!(kubectl.ok(&role), "role.rbac.authorization.k8s.io/mixed created\n");
    let text = kubectl.ok(&["describe", "role", "mixed"]);
    let found: Vec<String> = rows(&text).iter().map(|row| row.join(" ")).collect();
    for row in [
        "Resources Non-Resource URLs Resource Names Verbs",
        "pods [] [] [get list]",
        "boats.harbour.example/scale [] [] [get list]",
        "deployments.apps [] [] [get list]",
    ] {
        assert!(found.iter().any(|line| line == row), "`{row}` is not in\n{text}");
    }
    let binding = [
        "create",
        "rolebinding",
        "all",
        "--role=mixed",
        "--user=eve",
        "--group=crew",
        "--serviceaccount=shop:robot",
    ];
    kubectl.ok(&binding);
    let wide = kubectl.ok(&["get", "rolebinding", "all", "--output", "wide"]);
    let found = rows(&wide);
    assert_eq!(found[0], ["NAME", "ROLE", "AGE", "USERS", "GROUPS", "SERVICEACCOUNTS"]);
    assert_eq!([found[1][0], found[1][1]], ["all", "Role/mixed"]);
    assert_eq!(found[1][3..], ["eve", "crew", "shop/robot"]);
    // An aggregated role takes in the rules of those it selects.
    kubectl.ok(&["create", "clusterrole", "sum", "--aggregation-rule=harbour=yes"]);
    kubectl.ok(&[
        "create",
        "clusterrole",
        "part",
        "--verb=get",
        "--resource=boats.harbour.example",
    ]);
    kubectl.ok(&["label", "clusterrole", "part", "harbour=yes"]);
    let verbs = "jsonpath={.rules[*].resources[*]}={.rules[*].verbs[*]}";
    assert_eq!(kubectl.ok(&["get", "clusterrole", "sum", "--output", verbs]), "boats=get");
    let unknown = ["create", "role", "wrong", "--verb=get", "--resource=submarines"];
    assert!(
        kubectl.fails(&unknown).contains("the server doesn't have a resource type \"submarines\"")
    );
}

#[test]
fn reconcile_adds_and_removes() {
    let kubectl = Kubectl::harbour();
    let manifest = |verbs: &str, user: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: reader, namespace: shop}}\n\
             rules: [{{apiGroups: [harbour.example], resources: [boats], verbs: [{verbs}]}}]\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: reader, namespace: shop}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}\n\
             subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]\n"
        )
    };
    let reconcile = ["auth", "reconcile", "--filename", "-"];
    let names = "role.rbac.authorization.k8s.io/reader reconciled\n";
    let said = kubectl.feed(&reconcile, &manifest("get", "eve"));
    assert!(said.starts_with(names), "{said}");
    assert!(said.contains("rolebinding.rbac.authorization.k8s.io/reader reconciled"), "{said}");
    assert!(kubectl.may(&["get", "boats.harbour.example", "--as=eve"]));
    kubectl.feed(&reconcile, &manifest("list", "ida"));
    let verbs = "{.rules[*].verbs[*]}";
    let read = |what: &str, path: &str| {
        kubectl.ok(&["get", what, "--output", &format!("jsonpath={path}")])
    };
    assert_eq!(read("role/reader", verbs), "get list");
    assert_eq!(read("rolebinding/reader", "{.subjects[*].name}"), "eve ida");
    let strict =
        [&reconcile[..], &["--remove-extra-permissions", "--remove-extra-subjects"]].concat();
    kubectl.feed(&strict, &manifest("list", "ida"));
    assert_eq!(read("role/reader", verbs), "list");
    assert_eq!(read("rolebinding/reader", "{.subjects[*].name}"), "ida");
    assert!(!kubectl.may(&["get", "boats.harbour.example", "--as=eve"]));
}

#[test]
fn nobody_grants_more_than_they_hold() {
    let kubectl = Kubectl::harbour();
    let rbac = "--resource=roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io";
    kubectl.ok(&["create", "role", "granter", "--verb=create", rbac]);
    kubectl.ok(&["create", "rolebinding", "granter", "--role=granter", "--user=eve"]);
    kubectl.ok(&READERS);
    let eve = |arguments: &[&str]| kubectl.fails(&[arguments, &["--as=eve"]].concat());
    let said = eve(&["create", "role", "more", "--verb=get", "--resource=secrets"]);
    assert!(said.contains("(Forbidden)") && said.contains("Resources:[\"secrets\"]"), "{said}");
    let said = eve(&["create", "rolebinding", "mine", "--role=reader", "--user=eve"]);
    assert!(said.contains("orbidden") && said.contains("boats"), "{said}");
    // With the rights of the role in hand, the same is allowed.
    kubectl.ok(&["create", "rolebinding", "eve", "--role=reader", "--user=eve"]);
    let mine = ["create", "rolebinding", "mine", "--role=reader", "--user=ida", "--as=eve"];
    assert_eq!(kubectl.ok(&mine), "rolebinding.rbac.authorization.k8s.io/mine created\n");
    assert!(eve(&["get", "configmaps", "--as-group=crew"]).contains("cannot list resource"));
    // To act as another is a right of its own.
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    let token = kubectl.token("robot");
    let (_, said) = kubectl.bearer(&token, &["get", "boats", "--as=eve"], 1);
    assert!(said.contains("cannot impersonate resource \"users\""), "{said}");
}
