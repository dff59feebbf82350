//! Who acts as somebody else gets just what that somebody has.

use serde_json::{Value, json};
use tenure_client_tests::Server;

use super::caller::Caller;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/secrets";

/// A server, its administrator, and an account with these rights.
async fn begin(rules: Value) -> (Server, Caller, Caller) {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    admin.create(ACCOUNTS, json!({"metadata": {"name": "actor"}})).await;
    let subject = json!({"kind": "ServiceAccount", "name": "actor", "namespace": "default"});
    admin.bind("actor", rules, subject).await;
    let granted = admin.create(&format!("{ACCOUNTS}/actor/token"), json!({"spec": {}})).await;
    let token = granted["status"]["token"].as_str().unwrap();
    // The connection must not show the administrator's certificate.
    let bare = tenure_client_tests::Access::bearer(server.kubeconfig(), token).unwrap();
    let actor = Caller::new(bare).with("authorization", &format!("Bearer {token}"));
    (server, admin, actor)
}

/// Who the server takes the caller for.
async fn whoami(caller: &Caller) -> Result<Value, u16> {
    let answer = caller.post(REVIEW, &json!({})).await;
    match answer.code {
        201 => Ok(answer.json["status"]["userInfo"].clone()),
        code => Err(code),
    }
}

fn impersonate(group: &str, resource: &str, names: &[&str]) -> Value {
    let mut rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["impersonate"]});
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

#[tokio::test]
async fn a_name_that_no_account_can_have_is_in_no_group_of_accounts() {
    let (_server, admin, actor) = begin(json!([impersonate("", "users", &[])])).await;
    let malformed = [
        "system:serviceaccount:default",
        "system:serviceaccount:default:",
        "system:serviceaccount::actor",
        "system:serviceaccount::",
        "system:serviceaccount:",
        "system:serviceaccount:default:actor:more",
        "system:serviceaccount:kube-system:a:b:c",
        "system:serviceaccount:Default:actor",
        "system:serviceaccount:default:Actor",
        "system:serviceaccount:default:a/b",
        "system:serviceaccount:a.b:actor",
        "system:serviceaccount:-:actor",
        "system:serviceaccounts:default:actor",
    ];
    for name in malformed {
        for who in [&admin, &actor] {
            let user = whoami(&who.acting_as(name, &[])).await;
            let user = user.unwrap_or_else(|code| panic!("{name}: {code}"));
            assert_eq!(user["username"], name);
            assert_eq!(user["groups"], json!(["system:authenticated"]), "{name}");
        }
    }
    let real = "system:serviceaccount:default:other";
    let user = whoami(&admin.acting_as(real, &[])).await.unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default"];
    assert_eq!(user["groups"], json!([groups[0], groups[1], "system:authenticated"]));
    // A right to any user is none to accounts.
    assert_eq!(whoami(&actor.acting_as(real, &[])).await, Err(403));
}

#[tokio::test]
async fn groups_of_accounts_lend_nothing_to_a_malformed_name() {
    let (_server, admin, actor) = begin(json!([impersonate("", "users", &[])])).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    for (name, group) in [
        ("all", "system:serviceaccounts"),
        ("of-one", "system:serviceaccounts:kube-system"),
        ("of-none", "system:serviceaccounts:"),
    ] {
        let group =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group});
        admin.bind(name, rules.clone(), group).await;
    }
    for name in ["system:serviceaccount:kube-system:a:b", "system:serviceaccount::x"] {
        actor.acting_as(name, &[]).get(SECRETS).await.expect(403, name);
    }
}

#[tokio::test]
async fn every_group_uid_and_extra_is_asked_for() {
    let (_server, _admin, actor) = begin(json!([
        impersonate("", "users", &["bob"]),
        impersonate("", "groups", &["dev", "ops"]),
        impersonate("authentication.k8s.io", "uids", &["u-1"]),
        impersonate("authentication.k8s.io", "userextras/scopes", &["view"]),
    ]))
    .await;
    let bob = actor.acting_as("bob", &[]);
    let seen = |user: Value, member: &str| user[member].clone();
    assert_eq!(seen(whoami(&bob).await.unwrap(), "groups"), json!(["system:authenticated"]));
    let both = whoami(&actor.acting_as("bob", &["dev", "ops"])).await.unwrap();
    assert_eq!(both["groups"], json!(["dev", "ops", "system:authenticated"]));
    let uid = whoami(&bob.with("impersonate-uid", "u-1")).await.unwrap();
    assert_eq!(uid["uid"], "u-1");
    let extra = whoami(&bob.with("impersonate-extra-scopes", "view")).await.unwrap();
    assert_eq!(extra["extra"], json!({"scopes": ["view"]}));
    for (what, refused) in [
        ("another user", actor.acting_as("alice", &[])),
        ("a third group", actor.acting_as("bob", &["dev", "ops", "admins"])),
        ("a group among many", actor.acting_as("bob", &["dev", "dev", "dev", "dev", "admins"])),
        ("masters", actor.acting_as("bob", &["system:masters"])),
        ("masters behind a group", actor.acting_as("bob", &["dev", "system:masters"])),
        ("a group of the server's own", actor.acting_as("bob", &["system:authenticated"])),
        ("another uid", bob.with("impersonate-uid", "u-2")),
        ("another value", bob.with("impersonate-extra-scopes", "admin")),
        (
            "two values",
            bob.with("impersonate-extra-scopes", "view").with("impersonate-extra-scopes", "admin"),
        ),
        ("another key", bob.with("impersonate-extra-other", "view")),
        ("an account", actor.acting_as("system:serviceaccount:kube-system:default", &[])),
        ("a node", actor.acting_as("system:node:n", &[])),
        ("itself", actor.acting_as("system:serviceaccount:default:actor", &[])),
    ] {
        assert_eq!(whoami(&refused).await, Err(403), "{what}");
        refused.get(SECRETS).await.expect(403, what);
        // Not even what everybody may read.
        refused.get("/healthz").await.expect(403, what);
    }
}

#[tokio::test]
async fn half_a_request_is_refused_and_not_run_as_the_caller() {
    let (_server, admin, actor) = begin(json!([])).await;
    for (name, value) in [
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-scopes", "x"),
    ] {
        admin.with(name, value).get(SECRETS).await.expect(400, name);
        let code = actor.with(name, value).get(SECRETS).await.code;
        assert!([400, 403].contains(&code), "{name}: {code}");
    }
    // Of two users neither may be tried until one fits.
    let two = actor.acting_as("bob", &[]).acting_as("alice", &[]).get(SECRETS).await.code;
    assert!([400, 403].contains(&two), "{two}");
}

#[tokio::test]
async fn masters_need_the_right_to_that_very_group() {
    let (_server, _admin, actor) = begin(json!([
        impersonate("", "users", &[]),
        {"apiGroups": ["authentication.k8s.io"], "resources": ["*"],
         "verbs": ["impersonate:user-info"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["impersonate-on:user-info:list"]},
    ]))
    .await;
    for groups in [&["system:masters"][..], &["a", "b", "c", "d", "system:masters"]] {
        actor.acting_as("bob", groups).get(SECRETS).await.expect(403, "masters");
    }
    for name in ["system:masters", "system:admin", "admin"] {
        actor.acting_as(name, &[]).get(SECRETS).await.expect(403, name);
    }
}

#[tokio::test]
async fn a_constrained_right_holds_for_its_verb_and_its_kind_of_user() {
    let authentication = "authentication.k8s.io";
    let (_server, admin, actor) = begin(json!([
        {"apiGroups": [authentication], "resources": ["users"], "verbs": ["impersonate:user-info"],
         "resourceNames": ["bob"]},
        {"apiGroups": [""], "resources": ["configmaps"],
         "verbs": ["impersonate-on:user-info:list"]},
    ]))
    .await;
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    admin.user_with("bob", everything).await;
    let bob = actor.acting_as("bob", &[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    bob.get(maps).await.expect(200, "what the right is for");
    for path in
        [format!("{maps}/x"), format!("{maps}?watch=1&timeoutSeconds=1"), SECRETS.to_owned()]
    {
        bob.get(&path).await.expect(403, &path);
    }
    bob.post(maps, &json!({"metadata": {"name": "x"}})).await.expect(403, "create");
    bob.delete(maps).await.expect(403, "deletecollection");
    for (what, other) in [
        ("another user", actor.acting_as("alice", &[])),
        ("a group", actor.acting_as("bob", &["dev"])),
        ("masters", actor.acting_as("bob", &["system:masters"])),
        ("a uid", bob.with("impersonate-uid", "1")),
        ("an account", actor.acting_as("system:serviceaccount:default:actor", &[])),
        ("a node", actor.acting_as("system:node:bob", &[])),
    ] {
        other.get(maps).await.expect(403, what);
    }
}
