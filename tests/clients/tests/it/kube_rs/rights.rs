//! A client that is a service account: refused, then bound, then let in.

use std::pin::pin;
use std::time::Duration;

use futures::TryStreamExt as _;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectRulesReview};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::boats::{Boat, boat};
use super::{World, code, config_map, named, refusal};

fn from<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

impl World {
    /// A token of a new service account.
    async fn token(&self, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "shop");
        let account = ServiceAccount { metadata: named(name), ..ServiceAccount::default() };
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let wanted: TokenRequest =
            from(json!({ "spec": { "expirationSeconds": 3600, "audiences": [] } }));
        let made = accounts.create_token_request(name, &PostParams::default(), &wanted).await;
        let status = made.unwrap().status.unwrap();
        assert!(status.expiration_timestamp.unwrap().0 > k8s_openapi::jiff::Timestamp::now());
        status.token.unwrap()
    }

    /// A client that shows this token and no certificate.
    async fn bearer(&self, token: &str) -> Client {
        let text = std::fs::read_to_string(self._server.kubeconfig()).unwrap();
        let lines = text.lines().filter(|line| !line.contains("client-key-data"));
        let lines = lines.map(|line| match line.split_once("client-certificate-data:") {
            Some((indent, _)) => format!("{indent}token: {token}\n"),
            None => format!("{line}\n"),
        });
        let file = Kubeconfig::from_yaml(&lines.collect::<String>()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Lets a service account do `verbs` with `resource` of `group` in the namespace.
    async fn allow(&self, account: &str, group: &str, resource: &str, verbs: &[&str]) {
        let name = format!("{account}-{resource}");
        let role: Role = from(json!({
            "metadata": { "name": name },
            "rules": [{ "apiGroups": [group], "resources": [resource], "verbs": verbs }],
        }));
        let binding: RoleBinding = from(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "shop" }],
        }));
        let roles: Api<Role> = Api::namespaced(self.client.clone(), "shop");
        roles.create(&PostParams::default(), &role).await.unwrap();
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), "shop");
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }
}

#[tokio::test]
async fn a_service_account_does_what_its_role_allows() {
    let world = World::start().await;
    let boats = world.boats().await;
    boats.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    let client = world.bearer(&world.token("robot").await).await;
    let seen: Api<Boat> = Api::namespaced(client.clone(), "shop");
    let status = refusal(seen.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    for word in ["system:serviceaccount:shop:robot", "list", "boats", "harbour.example", "shop"] {
        assert!(status.message.contains(word), "{word}: {}", status.message);
    }

    world.allow("robot", "harbour.example", "boats", &["get", "list", "watch"]).await;
    let list = seen.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(seen.get("anna").await.unwrap().spec.port, "kiel");
    let since = list.metadata.resource_version.unwrap();
    let mut events = pin!(seen.watch(&WatchParams::default(), &since).await.unwrap());
    boats.create(&PostParams::default(), &boat("berta", "riga")).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(20), events.try_next()).await;
    match event.expect("in time").unwrap() {
        Some(WatchEvent::Added(boat)) => assert_eq!(boat.spec.port, "riga"),
        other => panic!("{other:?}"),
    }
    // Nothing else: no writes, no other kinds, no other namespaces.
    assert_eq!(code(seen.delete("anna", &DeleteParams::default()).await), 403);
    assert_eq!(code(seen.create(&PostParams::default(), &boat("c", "oslo")).await), 403);
    assert_eq!(code(seen.get_scale("anna").await), 403);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    assert_eq!(code(maps.get("a").await), 403);
    let elsewhere: Api<Boat> = Api::namespaced(client.clone(), "default");
    assert_eq!(code(elsewhere.list(&ListParams::default()).await), 403);
    assert_eq!(code(Api::<Boat>::all(client).list(&ListParams::default()).await), 403);
}

#[tokio::test]
async fn a_service_account_knows_itself() {
    let world = World::start().await;
    let token = world.token("robot").await;
    world.allow("robot", "", "configmaps", &["create"]).await;
    let client = world.bearer(&token).await;
    let parameters = PostParams::default();
    let me: Api<SelfSubjectReview> = Api::all(client.clone());
    let me = me.create(&parameters, &SelfSubjectReview::default()).await.unwrap();
    let user = me.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:serviceaccount:shop:robot"));
    let groups = user.groups.unwrap();
    for group in ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"] {
        assert!(groups.iter().any(|found| found == group), "{groups:?}");
    }
    let may: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for (verb, allowed) in [("create", true), ("delete", false)] {
        let question = from(json!({ "spec": { "resourceAttributes":
            { "namespace": "shop", "verb": verb, "resource": "configmaps" } } }));
        let answer = may.create(&parameters, &question).await.unwrap().status.unwrap();
        assert_eq!(answer.allowed, allowed, "{verb}: {answer:?}");
    }
    let rules: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let question = from(json!({ "spec": { "namespace": "shop" } }));
    let answer = rules.create(&parameters, &question).await.unwrap().status.unwrap();
    let found = answer
        .resource_rules
        .iter()
        .find(|rule| rule.resources.as_deref() == Some(&["configmaps".to_owned()][..]));
    assert_eq!(found.unwrap().verbs, ["create"]);
    assert!(!answer.incomplete);
    let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
    maps.create(&parameters, &config_map("a", "1")).await.unwrap();
    let reviews: Api<TokenReview> = Api::all(world.client.clone());
    let review = from(json!({ "spec": { "token": token } }));
    let status = reviews.create(&parameters, &review).await.unwrap().status.unwrap();
    assert_eq!(status.authenticated, Some(true));
    assert_eq!(status.user.unwrap().uid, user.uid);
}

#[tokio::test]
async fn a_token_ends_with_its_account_and_its_role() {
    let world = World::start().await;
    let client = world.bearer(&world.token("robot").await).await;
    world.allow("robot", "", "configmaps", &["list"]).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
    maps.list(&ListParams::default()).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), "shop");
    bindings.delete("robot-configmaps", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.list(&ListParams::default()).await), 403);
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "shop");
    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.list(&ListParams::default()).await), 401);
    // A new account of the same name is another account.
    let again = ServiceAccount { metadata: named("robot"), ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &again).await.unwrap();
    assert_eq!(code(maps.list(&ListParams::default()).await), 401);
    let stranger = world.bearer("not.a.token").await;
    let maps: Api<ConfigMap> = Api::namespaced(stranger, "shop");
    assert_eq!(code(maps.list(&ListParams::default()).await), 401);
}

#[tokio::test]
async fn nobody_grants_more_than_they_hold() {
    let world = World::start().await;
    let client = world.bearer(&world.token("robot").await).await;
    world.allow("robot", "rbac.authorization.k8s.io", "roles", &["create"]).await;
    world.allow("robot", "", "configmaps", &["get"]).await;
    let roles: Api<Role> = Api::namespaced(client, "shop");
    let role = |name: &str, verb: &str| -> Role {
        from(json!({ "metadata": { "name": name },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": [verb] }] }))
    };
    roles.create(&PostParams::default(), &role("mine", "get")).await.unwrap();
    let status = refusal(roles.create(&PostParams::default(), &role("more", "delete")).await);
    assert_eq!(status.code, 403);
    assert!(status.message.contains("delete"), "{}", status.message);
}
