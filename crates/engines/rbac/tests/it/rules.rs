//! Rules R152, R154, R155, R159 and R160 of `spec/api-server.md`.

use std::time::{Duration, Instant};

use serde_json::json;
use tenure_rbac::{
    BindingSubject, Rbac, RbacDecision, RequestAttributes, Requester, Role, RoleBinding,
};

use crate::fixture::{binding, holding, may, named, object, role, rule, urls, why};

#[test]
fn r154_the_engine_has_no_opinion_where_no_role_speaks() {
    let rbac = Rbac::new();
    let groups = ["system:masters".to_owned()];
    let who = Requester { user: "root", groups: &groups };
    assert!(who.is_master());
    assert!(!Requester { user: "system:masters", groups: &[] }.is_master());
    let asked = RequestAttributes::Path { verb: "get", path: "/any" };
    assert_eq!(rbac.allows(&who, &asked), RbacDecision::NoOpinion);
}

#[test]
fn r155_users_groups_and_service_accounts_are_bound() {
    let mut rbac = Rbac::new();
    rbac.put_role(role("shop", "r", &[rule("get", "core", "pods")]));
    let subjects = "User:jane Group:devs Account:ci/robot Account:/local";
    rbac.put_binding(binding("shop", "b", "Role:r", subjects));
    let get = "get pods in shop named web";
    assert!(may(&rbac, "jane", &[], get));
    assert!(may(&rbac, "joe", &["ops", "devs"], get));
    assert!(may(&rbac, "system:serviceaccount:ci:robot", &[], get));
    assert!(may(&rbac, "system:serviceaccount:shop:local", &[], get), "namespace of the binding");
    assert!(!may(&rbac, "devs", &["jane"], get), "users and groups have names of their own");
    assert!(!may(&rbac, "system:serviceaccount:ci:local", &[], get));
    assert!(!may(&rbac, "robot", &[], get));
}

#[test]
fn r155_a_service_account_without_namespace_is_nobody_in_a_cluster_binding() {
    let mut rbac = Rbac::new();
    rbac.put_role(role("", "r", &[rule("get", "core", "pods")]));
    rbac.put_binding(binding("", "b", "ClusterRole:r", "Account:/web"));
    assert!(!may(&rbac, "system:serviceaccount::web", &[], "get pods in shop"));
    assert!(!may(&rbac, "system:serviceaccount:shop:web", &[], "get pods in shop"));
}

#[test]
fn r155_cluster_bindings_reach_everywhere_and_role_bindings_their_namespace() {
    let mut rbac = Rbac::new();
    rbac.put_role(role("", "reader", &[rule("list", "core", "pods nodes"), urls("get", "/logs")]));
    rbac.put_binding(binding("", "all", "ClusterRole:reader", "User:jane"));
    rbac.put_binding(binding("shop", "some", "ClusterRole:reader", "User:joe"));
    for text in ["list pods", "list nodes", "list pods in shop", "list pods in bank", "get /logs"] {
        assert!(may(&rbac, "jane", &[], text), "{text}");
    }
    assert!(may(&rbac, "joe", &[], "list pods in shop"));
    for text in ["list pods", "list nodes", "list pods in bank", "get /logs"] {
        assert!(!may(&rbac, "joe", &[], text), "{text}");
    }
}

#[test]
fn r155_recorded_role_allows_what_it_says_and_nothing_else() {
    let mut rbac = Rbac::new();
    let secrets = json!({
        "metadata": {"name": "g", "namespace": "n"},
        "rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]}],
    });
    rbac.put_role(Role::from_object(&object(secrets)));
    let bound = json!({
        "metadata": {"name": "g", "namespace": "n"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "g"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}],
    });
    rbac.put_binding(RoleBinding::from_object(&object(bound)).expect("a known kind of role"));
    assert!(may(&rbac, "u", &[], "list secrets in n"));
    assert!(may(&rbac, "u", &[], "get secrets in n named none"));
    for text in [
        "create secrets in n",
        "list configmaps in n",
        "list secrets",
        "get deployments.apps in n named d",
        "list secrets.apps in n",
    ] {
        assert!(!may(&rbac, "u", &[], text), "{text}");
    }
}

#[test]
fn r155_stars_match_verbs_groups_and_resources() {
    let any_verb = holding(&[rule("*", "core", "pods")]);
    assert!(may(&any_verb, "u", &[], "frobnicate pods"));
    assert!(!may(&any_verb, "u", &[], "get services"));
    let any_group = holding(&[rule("get", "*", "pods")]);
    assert!(may(&any_group, "u", &[], "get pods.metrics"));
    assert!(may(&any_group, "u", &[], "get pods"));
    let any_resource = holding(&[rule("get", "core", "*")]);
    assert!(may(&any_resource, "u", &[], "get pods"));
    assert!(may(&any_resource, "u", &[], "get pods/log"), "a star takes subresources in");
    assert!(!may(&any_resource, "u", &[], "get deployments.apps"));
}

#[test]
fn r155_resources_and_subresources_are_named_apart() {
    let rbac = holding(&[rule("get", "core", "pods services/status */scale")]);
    for text in ["get pods", "get services/status", "get anything/scale", "get pods/scale"] {
        assert!(may(&rbac, "u", &[], text), "{text}");
    }
    let whole = RequestAttributes::Resource {
        verb: "get",
        group: "",
        resource: "services/status",
        subresource: "",
        namespace: "",
        name: "",
    };
    let who = Requester { user: "u", groups: &[] };
    assert!(rbac.allows(&who, &whole).is_allowed(), "reviews may write both in one");
    for text in ["get pods/log", "get services", "get scale", "get pods/scaled", "get podss"] {
        assert!(!may(&rbac, "u", &[], text), "{text}");
    }
}

#[test]
fn r155_names_match_only_questions_with_a_name() {
    let rbac = holding(&[named("*", "core", "pods pods/exec", "web db")]);
    assert!(may(&rbac, "u", &[], "get pods in shop named web"));
    assert!(may(&rbac, "u", &[], "create pods/exec in shop named db"));
    assert!(may(&rbac, "u", &[], "list pods in shop named web"), "by a metadata.name selector");
    assert!(!may(&rbac, "u", &[], "get pods in shop named other"));
    for verb in ["create", "list", "watch", "deletecollection"] {
        assert!(!may(&rbac, "u", &[], &format!("{verb} pods in shop")), "{verb}");
    }
    let empty = holding(&[named("*", "core", "pods", "")]);
    assert!(!may(&empty, "u", &[], "list pods in shop"), "an empty name names nothing");
}

#[test]
fn r155_paths_match_exactly_or_by_their_start() {
    let rbac = holding(&[urls("get", "/healthz /apis/* /logs*")]);
    for path in ["/healthz", "/apis/", "/apis/apps/v1", "/logs", "/logs/x"] {
        assert!(may(&rbac, "u", &[], &format!("get {path}")), "{path}");
    }
    for path in ["/healthz/", "/apis", "/", "/log"] {
        assert!(!may(&rbac, "u", &[], &format!("get {path}")), "{path}");
    }
    assert!(!may(&rbac, "u", &[], "post /healthz"));
    assert!(may(&holding(&[urls("*", "*")]), "u", &[], "post /x"));
    assert!(!may(&holding(&[urls("*", "*")]), "u", &[], "get pods"), "paths are not resources");
    assert!(!may(&holding(&[rule("*", "*", "*")]), "u", &[], "get /x"), "resources are not paths");
}

#[test]
fn r155_a_dangling_role_grants_nothing_until_it_comes() {
    let mut rbac = Rbac::new();
    let get = "get pods in shop";
    rbac.put_binding(binding("shop", "b", "Role:r", "User:u"));
    rbac.put_role(role("", "r", &[rule("get", "core", "pods")]));
    rbac.put_role(role("bank", "r", &[rule("get", "core", "pods")]));
    assert!(!may(&rbac, "u", &[], get), "neither a ClusterRole nor another namespace's Role");
    rbac.put_role(role("shop", "r", &[rule("get", "core", "pods")]));
    assert!(may(&rbac, "u", &[], get));
    rbac.remove_role("shop", "r");
    assert!(!may(&rbac, "u", &[], get));
    rbac.put_binding(binding("", "c", "Role:r", "User:u"));
    assert!(!may(&rbac, "u", &[], get), "a cluster binding cannot name a Role");
}

#[test]
fn r155_changes_count_at_once() {
    let mut rbac = holding(&[rule("get", "core", "pods")]);
    assert!(may(&rbac, "u", &[], "get pods"));
    rbac.put_role(role("", "r", &[rule("get", "core", "nodes")]));
    assert!(!may(&rbac, "u", &[], "get pods"));
    assert!(may(&rbac, "u", &[], "get nodes"));
    rbac.put_binding(binding("", "b", "ClusterRole:r", "Group:ops"));
    assert!(!may(&rbac, "u", &[], "get nodes"));
    assert!(may(&rbac, "u", &["ops"], "get nodes"));
    rbac.remove_binding("", "b");
    assert!(!may(&rbac, "u", &["ops"], "get nodes"));
}

#[test]
fn r155_a_decision_names_the_binding() {
    let mut rbac = holding(&[rule("get", "core", "pods")]);
    let said = why(&rbac, "u", &[], "get pods in shop");
    assert_eq!(said, r#"ClusterRoleBinding "b" grants ClusterRole "r" to the user"#);
    rbac.put_role(role("shop", "x", &[rule("get", "core", "secrets")]));
    rbac.put_binding(binding("shop", "y", "Role:x", "Group:devs"));
    let said = why(&rbac, "u", &["devs"], "get secrets in shop");
    assert_eq!(said, r#"RoleBinding "shop/y" grants Role "x" to group "devs""#);
}

#[test]
fn r159_rules_are_listed_once_for_every_role_that_applies() {
    let mut rbac = holding(&[rule("get", "core", "pods"), urls("get", "/x")]);
    rbac.put_binding(binding("shop", "again", "ClusterRole:r", "User:u Group:devs"));
    rbac.put_role(role("shop", "local", &[rule("get", "core", "secrets")]));
    rbac.put_binding(binding("shop", "c", "Role:local", "Group:devs"));
    rbac.put_binding(binding("bank", "d", "Role:local", "User:u"));
    let groups = ["devs".to_owned()];
    let who = Requester { user: "u", groups: &groups };
    let in_cluster = [rule("get", "core", "pods"), urls("get", "/x")];
    assert_eq!(rbac.rules_for(&who, ""), in_cluster.iter().collect::<Vec<_>>());
    assert_eq!(rbac.rules_for(&who, "bank"), in_cluster.iter().collect::<Vec<_>>());
    let secrets = rule("get", "core", "secrets");
    let in_shop: Vec<_> = in_cluster.iter().chain([&secrets]).collect();
    assert_eq!(rbac.rules_for(&who, "shop"), in_shop);
}

#[test]
fn r160_subresources_authorize_as_resource_and_subresource() {
    let reader = holding(&[rule("get list", "core", "pods pods/log pods/exec")]);
    assert!(may(&reader, "u", &[], "get pods/log in shop named web"));
    assert!(
        !may(&reader, "u", &[], "create pods/exec in shop named web"),
        "reading is not running"
    );
    let runner = holding(&[rule("create", "core", "pods/exec")]);
    assert!(may(&runner, "u", &[], "create pods/exec in shop named web"));
    assert!(!may(&runner, "u", &[], "create pods in shop"));
    let deleter = holding(&[rule("delete", "core", "pods")]);
    assert!(!may(&deleter, "u", &[], "deletecollection pods in shop"), "a verb of its own");
}

#[test]
fn what_cannot_be_read_grants_nothing() {
    let odd = json!({
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Pod", "name": "r"},
    });
    assert_eq!(RoleBinding::from_object(&object(odd)), None);
    assert_eq!(BindingSubject::from_value(&json!({"kind": "Robot", "name": "x"})), None);
    let role = Role::from_object(&object(json!({"rules": [{"verbs": "*"}, 7]})));
    assert!(role.rules.iter().all(|rule| rule.verbs.is_empty()));
}

/// A commit copies the index and changes the copy. To copy all of it would take minutes here.
#[test]
fn r155_a_change_costs_what_changes_and_not_what_there_is() {
    let mut rbac = Rbac::new();
    for number in 0..10_000 {
        let (namespace, name) = (format!("n{}", number % 500), format!("r{number}"));
        rbac.put_role(role(&namespace, &name, &[rule("get list", "core", "pods secrets")]));
        rbac.put_binding(binding(&namespace, &name, &format!("Role:{name}"), "User:u"));
        rbac.put_binding(binding("", &name, "ClusterRole:all", &format!("User:u{number}")));
    }
    let begun = Instant::now();
    let mut older = Vec::new();
    for number in 0..5_000 {
        let mut next = rbac.clone();
        next.put_binding(binding("n1", &format!("b{number}"), "Role:r1", "User:u Group:g"));
        next.put_role(role("", &format!("r{number}"), &[]));
        next.remove_binding("", &format!("r{number}"));
        older.push(std::mem::replace(&mut rbac, next));
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
