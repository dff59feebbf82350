//! Rules of spec/api-server.md.

use serde_json::{Value, json};
use tenure_server::{Peer, bootstrap};

use crate::house::{
    Answer, CONFIG_MAPS, House, JSON, NAMESPACES, PODS, SECRETS, admin, fields, named, peer,
};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": [""], "resources": resources })
}

fn role(name: &str, rules: Value) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

/// A binding of the same name as its role.
fn binding(role_kind: &str, name: &str, subjects: Value) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name,
        },
        "subjects": subjects,
    })
}

fn user(name: &str) -> Value {
    json!([{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name }])
}

/// Asks for the identity the server sees.
async fn identity(house: &House, who: &Peer, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("content-type", JSON)];
    all.extend(headers);
    house.ask_as(who, "POST", SELF, &all, "{}").await
}

async fn code(house: &House, who: &Peer, method: &str, path: &str) -> u16 {
    let body = if method == "POST" { named("made").to_string() } else { String::new() };
    house.ask_as(who, method, path, &[("content-type", JSON)], body).await.code
}

#[tokio::test]
async fn r44_anonymous_reaches_health_and_version_only() {
    let house = House::new().await;
    let nobody = Peer::new(None);
    for (path, wanted) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/version/", 200),
        ("/api", 403),
        ("/apis", 403),
        ("/openapi/v2", 403),
        ("/metrics", 403),
        ("/openid/v1/jwks", 403),
        (CONFIG_MAPS, 403),
        (NAMESPACES, 403),
    ] {
        assert_eq!(code(&house, &nobody, "GET", path).await, wanted, "{path}");
    }
    assert_eq!(code(&house, &nobody, "POST", CONFIG_MAPS).await, 403);
}

#[tokio::test]
async fn r151_no_credential_is_anonymous_and_a_wrong_one_is_refused() {
    let house = House::new().await;
    let nobody = Peer::new(None);
    let refused = house.ask_as(&nobody, "GET", PODS, &[], "").await.fails(403, "Forbidden");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("User \"system:anonymous\" cannot list resource \"pods\""),
        "{message}"
    );
    for wrong in ["Bearer wrong", "Bearer a.b.c", "Bearer a b", "bearer x"] {
        for path in ["/healthz", PODS] {
            let answer = house.ask_as(&nobody, "GET", path, &[("authorization", wrong)], "").await;
            answer.fails(401, "Unauthorized");
        }
    }
    // What is no bearer token is no credential.
    for none in
        ["Basic YTpi", "Bearer", "Bearer ", "Bearer  x", "Bearer\tx", "nonsense", "Negotiate x"]
    {
        let headers = [("authorization", none)];
        house.ask_as(&nobody, "GET", "/healthz", &headers, "").await.with(200);
        house.ask_as(&nobody, "GET", PODS, &headers, "").await.fails(403, "Forbidden");
        // A certificate that proves nothing is one, and no other scheme makes up for it.
        let answer = house.ask_as(&Peer::untrusted(), "GET", PODS, &headers, "").await;
        answer.fails(401, "Unauthorized");
    }
    let known = identity(&house, &peer("u", &["devs"]), &[]).await.with(201);
    let groups = &known["status"]["userInfo"]["groups"];
    assert_eq!(*groups, json!(["devs", "system:authenticated"]));
}

#[tokio::test]
async fn r152_impersonation_needs_the_right_and_a_user() {
    let house = House::new().await;
    let (outsider, helper) = (peer("u", &[]), peer("helper", &[]));
    let rules = json!([
        { "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
          "resourceNames": ["alice"] },
        { "verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"],
          "resourceNames": ["devs"] },
    ]);
    house.made(CLUSTER_ROLES, role("act", rules)).await;
    house.made(CLUSTER_BINDINGS, binding("ClusterRole", "act", user("helper"))).await;
    let alice = ("impersonate-user", "alice");
    let devs = ("impersonate-group", "devs");
    let masters = ("impersonate-group", "system:masters");
    for (who, headers, wanted) in [
        (admin(), &[alice][..], 201),
        (admin(), &[alice, devs], 201),
        (&outsider, &[alice], 403),
        (&helper, &[alice], 201),
        (&helper, &[alice, devs], 201),
        (&helper, &[alice, masters], 403),
        (&helper, &[("impersonate-user", "bob")], 403),
        (&helper, &[alice, ("impersonate-uid", "7")], 403),
        (&helper, &[alice, ("impersonate-extra-scope", "all")], 403),
        (&helper, &[("impersonate-user", "system:serviceaccount:default:default")], 403),
        (admin(), &[devs], 400),
        (admin(), &[("impersonate-uid", "7")], 400),
        (admin(), &[("impersonate-extra-scope", "all")], 400),
    ] {
        let answer = identity(&house, who, headers).await;
        assert_eq!(answer.code, wanted, "{headers:?} {}", answer.text());
    }
    // Who acts as somebody has that one's rights and not their own.
    let answer = house.ask("GET", PODS, &[alice], "").await;
    answer.fails(403, "Forbidden");
}

#[tokio::test]
async fn r153_the_review_of_oneself_shows_who_the_server_sees() {
    let house = House::new().await;
    for (headers, wanted) in [
        (
            &[][..],
            json!({
                "username": "kubernetes-admin",
                "groups": ["system:masters", "system:authenticated"],
            }),
        ),
        (
            &[
                ("impersonate-user", "alice"),
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
            ],
            json!({ "username": "alice", "groups": ["a", "b", "system:authenticated"] }),
        ),
        (
            &[
                ("impersonate-user", "alice"),
                ("impersonate-uid", "7"),
                ("impersonate-extra-example.com%2fscope", "x"),
            ],
            json!({
                "username": "alice", "uid": "7", "groups": ["system:authenticated"],
                "extra": { "example.com/scope": ["x"] },
            }),
        ),
        (
            &[("impersonate-user", "system:serviceaccount:default:robot")],
            json!({
                "username": "system:serviceaccount:default:robot",
                "groups": [
                    "system:serviceaccounts", "system:serviceaccounts:default",
                    "system:authenticated",
                ],
            }),
        ),
    ] {
        let answer = identity(&house, admin(), headers).await.with(201);
        assert_eq!(answer["kind"], "SelfSubjectReview");
        assert_eq!(answer["status"]["userInfo"], wanted);
    }
    // Who acts as somebody unknown is not known.
    let unknown = [("impersonate-user", "x"), ("impersonate-group", "system:unauthenticated")];
    identity(&house, admin(), &unknown).await.fails(403, "Forbidden");
    // Nobody in particular may not even ask who they are.
    let answer = identity(&house, admin(), &[("impersonate-user", "system:anonymous")]).await;
    answer.fails(403, "Forbidden");
}

#[tokio::test]
async fn r154_masters_may_everything_and_others_nothing_unsaid() {
    let house = House::new().await;
    let (master, member) = (peer("root", &["system:masters"]), peer("u", &["devs"]));
    for (method, path) in [
        ("GET", PODS),
        ("POST", CONFIG_MAPS),
        ("DELETE", "/api/v1/namespaces/default/configmaps/made"),
        ("GET", "/metrics"),
    ] {
        assert_eq!(code(&house, &member, method, path).await, 403, "{method} {path}");
        assert!(code(&house, &master, method, path).await < 300, "{method} {path}");
    }
    // Discovery is for everybody who is known.
    for path in ["/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"] {
        assert_eq!(code(&house, &member, "GET", path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn r155_a_role_allows_exactly_its_verbs_from_the_next_request_on() {
    let house = House::new().await;
    let who = peer("u", &[]);
    let one = format!("{CONFIG_MAPS}/a");
    house.config_map("a").await;
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    let checks = [
        ("GET", one.as_str(), 200),
        ("GET", CONFIG_MAPS, 200),
        ("GET", SECRETS, 403),
        ("GET", elsewhere, 403),
        ("GET", "/api/v1/configmaps", 403),
        ("POST", CONFIG_MAPS, 403),
        ("DELETE", one.as_str(), 403),
        ("DELETE", CONFIG_MAPS, 403),
    ];
    for (method, path, _) in checks {
        assert_eq!(code(&house, &who, method, path).await, 403, "{method} {path}");
    }
    house.made(BINDINGS, binding("Role", "reader", user("u"))).await;
    // A binding to a role that is not there grants nothing.
    assert_eq!(code(&house, &who, "GET", CONFIG_MAPS).await, 403);
    let rules = json!([rule(&["get", "list"], &["configmaps"])]);
    house.made(ROLES, role("reader", rules)).await;
    for (method, path, wanted) in checks {
        assert_eq!(code(&house, &who, method, path).await, wanted, "{method} {path}");
    }
    let watching = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(code(&house, &who, "GET", &watching).await, 403);
    let rules = json!({ "rules": [rule(&["get"], &["configmaps"])] });
    house.merge(&format!("{ROLES}/reader"), rules).await.with(200);
    assert_eq!(code(&house, &who, "GET", CONFIG_MAPS).await, 403);
    assert_eq!(code(&house, &who, "GET", &one).await, 200);
    house.delete(&format!("{BINDINGS}/reader")).await.with(200);
    assert_eq!(code(&house, &who, "GET", &one).await, 403);
}

#[tokio::test]
async fn r155_a_cluster_binding_holds_everywhere() {
    let house = House::new().await;
    let (member, robot) =
        (peer("u", &["devs"]), ("impersonate-user", "system:serviceaccount:default:robot"));
    let subjects = json!([
        { "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "devs" },
        { "kind": "ServiceAccount", "name": "robot", "namespace": "default" },
    ]);
    let rules = json!([
        rule(&["*"], &["configmaps"]),
        { "verbs": ["get"], "nonResourceURLs": ["/metrics"] },
    ]);
    house.made(CLUSTER_ROLES, role("keeper", rules)).await;
    house.made(CLUSTER_BINDINGS, binding("ClusterRole", "keeper", subjects)).await;
    for (method, path, wanted) in [
        ("GET", "/api/v1/configmaps", 200),
        ("GET", "/api/v1/namespaces/kube-system/configmaps", 200),
        ("POST", CONFIG_MAPS, 201),
        ("GET", "/metrics", 200),
        ("GET", PODS, 403),
    ] {
        assert_eq!(code(&house, &member, method, path).await, wanted, "{method} {path}");
        if method == "GET" {
            let answer = house.ask("GET", path, &[robot], "").await;
            assert_eq!(answer.code, wanted, "{path}");
        }
    }
    house.delete(&format!("{CLUSTER_ROLES}/keeper")).await.with(200);
    assert_eq!(code(&house, &member, "GET", "/api/v1/configmaps").await, 403);
}

#[tokio::test]
async fn r155_names_bound_a_rule_and_a_selector_of_one_name_fits_reads() {
    let house = House::new().await;
    let who = peer("u", &[]);
    house.config_map("a").await;
    house.config_map("b").await;
    let verbs = ["get", "list", "watch", "create", "delete", "deletecollection"];
    let mut bounded = rule(&verbs, &["configmaps"]);
    bounded["resourceNames"] = json!(["a"]);
    house.made(ROLES, role("one", json!([bounded]))).await;
    house.made(BINDINGS, binding("Role", "one", user("u"))).await;
    for (method, rest, wanted) in [
        ("GET", "/a", 200),
        ("GET", "/b", 403),
        ("GET", "", 403),
        ("GET", "?fieldSelector=metadata.name%3Da", 200),
        ("GET", "?fieldSelector=metadata.name%3Db", 403),
        ("GET", "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da", 200),
        ("GET", "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Db", 403),
        ("GET", "?watch=1&timeoutSeconds=1", 403),
        ("POST", "", 403),
        ("DELETE", "", 403),
        ("DELETE", "/b", 403),
        // A selector narrows what is read; it names nothing that is written.
        ("DELETE", "?fieldSelector=metadata.name%3Da", 403),
        ("POST", "?fieldSelector=metadata.name%3Da", 403),
        ("GET", "/a?fieldSelector=metadata.name%3Db", 200),
        ("DELETE", "/a", 200),
    ] {
        let path = format!("{CONFIG_MAPS}{rest}");
        assert_eq!(code(&house, &who, method, &path).await, wanted, "{method} {path}");
    }
    house.get(&format!("{CONFIG_MAPS}/b")).await.with(200);
}

#[tokio::test]
async fn r156_the_first_roles_exist_and_damage_is_mended() {
    let house = House::new().await;
    for name in [
        "cluster-admin",
        "admin",
        "edit",
        "view",
        "system:aggregate-to-view",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
        "system:auth-delegator",
        "system:monitoring",
        "system:service-account-issuer-discovery",
        "system:kube-scheduler",
    ] {
        let role = house.get(&format!("{CLUSTER_ROLES}/{name}")).await.with(200);
        assert_eq!(role["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
        let update =
            &role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"];
        assert_eq!(update, "true", "{name}");
        assert!(!role["rules"].as_array().unwrap().is_empty(), "{name}");
    }
    let (role, grant) =
        (format!("{CLUSTER_ROLES}/system:discovery"), format!("{CLUSTER_BINDINGS}/cluster-admin"));
    let bound = house.get(&grant).await.with(200);
    let known = peer("u", &[]);
    let extra = json!({ "verbs": ["get"], "nonResourceURLs": ["/extra"] });
    house.merge(&role, json!({ "rules": [extra] })).await.with(200);
    house.merge(&grant, json!({ "subjects": [] })).await.with(200);
    house.delete(&format!("{CLUSTER_ROLES}/view")).await.with(200);
    assert_eq!(code(&house, &known, "GET", "/apis").await, 403);
    Box::pin(bootstrap::bootstrap(&house.api, bootstrap::FirstContents::ALL)).await.unwrap();
    assert_eq!(code(&house, &known, "GET", "/apis").await, 200);
    let mended = house.get(&role).await.with(200);
    assert!(mended["rules"].as_array().unwrap().contains(&extra), "what was added stays");
    assert_eq!(house.get(&grant).await.json["subjects"], bound["subjects"]);
    let view = house.get(&format!("{CLUSTER_ROLES}/view")).await.with(200);
    assert!(!view["rules"].as_array().unwrap().is_empty());
    // Who does not want it says so.
    let still = json!({
        "metadata": { "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "false" } },
        "rules": [],
    });
    house.merge(&role, still).await.with(200);
    Box::pin(bootstrap::bootstrap(&house.api, bootstrap::FirstContents::ALL)).await.unwrap();
    assert!(house.get(&role).await.json["rules"].as_array().is_none_or(Vec::is_empty));
}

/// Waits until the role holds these rules.
async fn gathers(house: &House, path: &str, rules: Value) {
    for _ in 0..500 {
        if house.get(path).await.json["rules"] == rules {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{path} does not get {rules}: {}", house.get(path).await.json["rules"]);
}

#[tokio::test]
async fn r157a_a_gathering_role_is_answered_as_sent_and_gathers_a_moment_later() {
    let house = House::new().await;
    let role = |name: &str, part: &str| {
        json!({
            "metadata": { "name": name },
            "rules": [rule(&["list"], &["nodes"])],
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part": part } }] },
        })
    };
    let part = json!({
        "metadata": { "name": "part", "labels": { "part": "of-some" } },
        "rules": [rule(&["get"], &["pods"])],
    });
    house.made(CLUSTER_ROLES, part).await;
    let sent = json!([rule(&["list"], &["nodes"])]);
    let gathered = json!([rule(&["get"], &["pods"])]);
    assert_eq!(house.made(CLUSTER_ROLES, role("none", "of-none")).await["rules"], sent);
    assert_eq!(house.made(CLUSTER_ROLES, role("some", "of-some")).await["rules"], sent);
    let path = format!("{CLUSTER_ROLES}/some");
    gathers(&house, &path, gathered.clone()).await;
    let managers = house.get(&path).await.json["metadata"]["managedFields"].clone();
    assert_eq!(managers[0]["manager"], "clusterrole-aggregation-controller");
    assert_eq!(managers[0]["fieldsV1"], json!({ "f:rules": {} }));
    let other = json!([rule(&["*"], &["*"])]);
    let patched = house.merge(&path, json!({ "rules": other.clone() })).await;
    assert_eq!(patched.json["rules"], other);
    gathers(&house, &path, gathered).await;
    // Where nothing is gathered there is nothing to apply.
    let none = house.get(&format!("{CLUSTER_ROLES}/none")).await;
    assert_eq!(none.json["rules"], sent);
}

#[tokio::test]
async fn r157_a_gathered_role_follows_its_parts_in_the_same_transaction() {
    let house = House::new().await;
    let part = |name: &str, resource: &str| {
        json!({
            "metadata": { "name": name, "labels": { "part": "of-all" } },
            "rules": [rule(&["get"], &[resource])],
        })
    };
    house.made(CLUSTER_ROLES, part("p1", "pods")).await;
    let all = json!({
        "metadata": { "name": "all" },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part": "of-all" } }] },
    });
    let path = format!("{CLUSTER_ROLES}/all");
    house.made(CLUSTER_ROLES, all).await;
    gathers(&house, &path, json!([rule(&["get"], &["pods"])])).await;
    let before = house.revision();
    house.made(CLUSTER_ROLES, part("p2", "secrets")).await;
    assert_eq!(house.revision().0, before.0 + 1, "one transaction");
    let rules = house.get(&path).await.json["rules"].clone();
    assert_eq!(rules.as_array().unwrap().len(), 2, "{rules}");
    house.made(CLUSTER_BINDINGS, binding("ClusterRole", "all", user("u"))).await;
    let who = peer("u", &[]);
    let secret = format!("{SECRETS}/none");
    assert_eq!(code(&house, &who, "GET", &secret).await, 404);
    house.merge(&format!("{CLUSTER_ROLES}/p2"), json!({ "metadata": { "labels": null } })).await;
    assert_eq!(code(&house, &who, "GET", &secret).await, 403);
    house.delete(&format!("{CLUSTER_ROLES}/p1")).await.with(200);
    assert!(house.get(&path).await.json["rules"].as_array().is_none_or(Vec::is_empty));
    // The role everybody views with gathers what is added to it.
    let mut more = part("more", "widgets");
    more["metadata"]["labels"] = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    house.made(CLUSTER_ROLES, more).await;
    for name in ["view", "edit", "admin"] {
        let role = house.get(&format!("{CLUSTER_ROLES}/{name}")).await.with(200);
        assert!(role["rules"].to_string().contains("widgets"), "{name}");
    }
}

#[tokio::test]
async fn r158_nobody_hands_out_more_than_they_hold() {
    let house = House::new().await;
    let who = peer("u", &[]);
    let verbs = ["create", "get", "update", "patch"];
    let rules = json!([
        rule(&["get"], &["secrets"]),
        { "verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"],
          "resources": ["roles", "rolebindings"] },
    ]);
    house.made(ROLES, role("own", rules)).await;
    house.made(BINDINGS, binding("Role", "own", user("u"))).await;
    house.made(ROLES, role("big", json!([rule(&["*"], &["*"])]))).await;
    house.made(ROLES, role("small", json!([rule(&["get"], &["secrets"])]))).await;
    let more = role("more", json!([rule(&["delete"], &["secrets"])]));
    let same = role("same", json!([rule(&["get"], &["secrets"])]));
    let ask = async |method: &str, path: &str, body: &Value| {
        let kind = if method == "PATCH" { crate::house::MERGE } else { JSON };
        house.ask_as(&who, method, path, &[("content-type", kind)], body.to_string()).await
    };
    let same_path = format!("{ROLES}/same");
    for (method, path, body, wanted) in [
        ("POST", ROLES, &more, 403),
        ("POST", ROLES, &same, 201),
        ("PATCH", &same_path, &json!({ "metadata": { "labels": { "a": "b" } } }), 200),
        ("PATCH", &same_path, &json!({ "rules": more["rules"] }), 403),
        ("POST", BINDINGS, &binding("Role", "big", user("u")), 403),
        ("POST", BINDINGS, &binding("Role", "small", user("v")), 201),
        ("POST", BINDINGS, &binding("Role", "absent", user("u")), 404),
        ("POST", BINDINGS, &binding("ClusterRole", "cluster-admin", user("u")), 403),
        ("POST", BINDINGS, &binding("ClusterRole", "absent", user("u")), 404),
    ] {
        let answer = ask(method, path, body).await;
        assert_eq!(answer.code, wanted, "{method} {path} {body} {}", answer.text());
    }
    // A stronger role, sent again as it stands: whoever read it changes nothing, a manifest is judged.
    let big_path = format!("{ROLES}/big");
    let read = ask("GET", &big_path, &json!({})).await;
    for (body, wanted) in [
        (house.get(&big_path).await.with(200), 200),
        (role("big", json!([rule(&["*"], &["*"])])), 403),
    ] {
        assert_eq!(ask("PUT", &big_path, &body).await.code, wanted, "{body}");
    }
    assert_eq!(house.get(&big_path).await.json, read.json);
    let refused = ask("POST", ROLES, &more).await.fails(403, "Forbidden");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("attempting to grant RBAC permissions not currently held"),
        "{message}"
    );
    // The verbs that allow it.
    let rules = json!([{
        "verbs": ["escalate", "bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"], "resourceNames": ["more", "big"],
    }]);
    house.made(CLUSTER_ROLES, role("may", rules)).await;
    house.made(CLUSTER_BINDINGS, binding("ClusterRole", "may", user("u"))).await;
    ask("POST", BINDINGS, &binding("Role", "big", user("u"))).await.with(201);
}

#[tokio::test]
async fn r159_reviews_answer_as_requests_would_be() {
    let house = House::new().await;
    house.made(ROLES, role("g", json!([rule(&["get"], &["pods", "pods/log"])]))).await;
    house.made(BINDINGS, binding("Role", "g", user("u"))).await;
    let asked = |verb: &str, resource: &str, namespace: &str| {
        json!({ "resourceAttributes": {
            "verb": verb, "resource": resource, "namespace": namespace,
        } })
    };
    let mut log = asked("get", "pods", "default");
    log["resourceAttributes"]["subresource"] = "log".into();
    let version = json!({ "nonResourceAttributes": { "verb": "get", "path": "/version" } });
    let metrics = json!({ "nonResourceAttributes": { "verb": "get", "path": "/metrics" } });
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    let who = peer("u", &[]);
    for (spec, allowed) in [
        (asked("get", "pods", "default"), true),
        (asked("delete", "pods", "default"), false),
        (asked("get", "pods", "kube-system"), false),
        (asked("get", "secrets", "default"), false),
        (log, true),
        (version, true),
        (metrics, false),
    ] {
        let body = json!({ "spec": spec }).to_string();
        let own = format!("{REVIEWS}/selfsubjectaccessreviews");
        let answer = house.ask_as(&who, "POST", &own, &[("content-type", JSON)], body).await;
        assert_eq!(answer.with(201)["status"]["allowed"], allowed, "{spec}");
        let mut named = spec.clone();
        named["user"] = "u".into();
        named["groups"] = json!(["system:authenticated"]);
        let path = format!("{REVIEWS}/subjectaccessreviews");
        let answer = house.post(&path, json!({ "spec": named })).await.with(201);
        assert_eq!(answer["status"]["allowed"], allowed, "{spec}");
        if spec["resourceAttributes"]["namespace"] == "default" {
            let body = json!({ "metadata": { "namespace": "default" }, "spec": named });
            let answer = house.post(&local, body).await.with(201);
            assert_eq!(answer["status"]["allowed"], allowed, "{spec}");
        }
    }
    // Asking about others is a right of its own.
    let path = format!("{REVIEWS}/subjectaccessreviews");
    assert_eq!(code(&house, &who, "POST", &path).await, 403);
}

#[tokio::test]
async fn r159_rules_of_oneself_are_listed() {
    let house = House::new().await;
    house.made(ROLES, role("g", json!([rule(&["get"], &["pods"])]))).await;
    house.made(BINDINGS, binding("Role", "g", user("u"))).await;
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let who = peer("u", &[]);
    for (namespace, listed) in [("default", true), ("kube-system", false)] {
        let body = json!({ "spec": { "namespace": namespace } }).to_string();
        let answer = house.ask_as(&who, "POST", &path, &[("content-type", JSON)], body).await;
        let status = answer.with(201)["status"].clone();
        let rules = status["resourceRules"].as_array().unwrap();
        assert_eq!(rules.contains(&rule(&["get"], &["pods"])), listed, "{namespace}");
        assert!(status["nonResourceRules"].to_string().contains("/healthz"));
        assert_eq!(status["incomplete"], false);
    }
}

#[tokio::test]
async fn r159_a_review_says_nothing_that_was_sent_with_it() {
    let house = House::new().await;
    let metadata =
        json!({ "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z", "namespace": "n" });
    let node = json!({ "user": "system:node:a", "groups": ["system:nodes"], "resourceAttributes": {
        "verb": "list", "resource": "pods", "fieldSelector": { "rawSelector": "spec.nodeName=a" } } });
    let body = json!({ "metadata": metadata, "spec": node });
    let answer = house.post(&format!("{REVIEWS}/subjectaccessreviews"), body).await.with(201);
    assert_eq!(answer["status"]["allowed"], true);
    assert_eq!(answer["metadata"]["uid"], Value::Null);
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    house
        .post(&local, json!({ "metadata": metadata, "spec": node }))
        .await
        .fails(400, "BadRequest");
    let own = format!("{REVIEWS}/selfsubjectrulesreviews");
    let body = json!({ "spec": { "namespace": "default" } });
    let rules = house.post(&own, body.clone()).await.with(201);
    assert_eq!((&rules["metadata"], &rules["spec"]), (&json!({}), &json!({})));
    // What a node may do depends on its pods, and no list says it.
    let peer = peer("system:node:a", &["system:nodes"]);
    let headers = [("content-type", JSON)];
    let rules = house.ask_as(&peer, "POST", &own, &headers, body.to_string()).await.with(201);
    assert_eq!(rules["status"]["incomplete"], true);
}

#[tokio::test]
async fn r159_senseless_reviews_are_invalid() {
    let house = House::new().await;
    let asked = json!({ "verb": "get", "resource": "pods", "namespace": "default" });
    let path = json!({ "verb": "get", "path": "/version" });
    let local = "namespaces/default/localsubjectaccessreviews";
    let other = json!({ "verb": "get", "resource": "pods", "namespace": "kube-system" });
    for (review, spec, field) in [
        ("subjectaccessreviews", json!({ "resourceAttributes": asked }), "spec.user"),
        ("subjectaccessreviews", json!({ "user": "u" }), "spec"),
        (
            "subjectaccessreviews",
            json!({ "user": "u", "resourceAttributes": asked, "nonResourceAttributes": path }),
            "spec",
        ),
        ("selfsubjectaccessreviews", json!({}), "spec"),
        (
            local,
            json!({ "user": "u", "resourceAttributes": other }),
            "spec.resourceAttributes.namespace",
        ),
    ] {
        let answer = house.post(&format!("{REVIEWS}/{review}"), json!({ "spec": spec })).await;
        assert_eq!(answer.code, 422, "{review} {spec} {}", answer.text());
        let status = answer.fails(422, "Invalid");
        assert!(fields(&status).iter().any(|at| at.starts_with(field)), "{status}");
    }
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    house.post(&path, json!({ "spec": {} })).await.fails(400, "BadRequest");
}
