//! Rules of spec/api-server.md: authorizers in the order of a configuration, webhooks among them (R154–R154f), called
//! over TLS as they are by operators.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_https::ReviewServer;
use tenure_server::authorize::configuration::AuthorizationConfiguration;
use tenure_server::authorize::{TlsSettings, WebhookEndpoint};

use crate::house::*;

/// A webhook that runs, with all that it was asked.
struct Webhook(ReviewServer);

impl Webhook {
    /// Answers each review with the members of a status.
    async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Webhook {
        Webhook::raw(move |review| {
            let whole = json!({
                "kind": "SubjectAccessReview", "apiVersion": review["apiVersion"],
                "status": answer(&review["spec"]),
            });
            Response::new(whole.to_string().into())
        })
        .await
    }

    async fn raw(answer: impl Fn(&Value) -> Response<Bytes> + Send + Sync + 'static) -> Webhook {
        Webhook(ReviewServer::start(answer).await)
    }

    fn endpoint(&self) -> WebhookEndpoint {
        let authorities = self.0.server.authority.clone().into_bytes();
        WebhookEndpoint {
            url: self.0.server.url("/authorize"),
            tls: TlsSettings { authorities, ..TlsSettings::default() },
            authorization: Some("Bearer secret".to_owned()),
        }
    }

    /// The specs of the reviews so far.
    fn asked(&self) -> Vec<Value> {
        self.0.seen().into_iter().map(|review| review.body["spec"].clone()).collect()
    }
}

/// A webhook of a configuration, with these members.
fn entry(name: &str, members: &Value) -> Value {
    let mut webhook = json!({
        "timeout": "2s", "subjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
        "connectionInfo": { "type": "KubeConfigFile", "kubeConfigFile": "/not/read/here" },
    });
    webhook.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({ "type": "Webhook", "name": name, "webhook": webhook })
}

fn rbac() -> Value {
    json!({ "type": "RBAC", "name": "rbac" })
}

fn configure(house: &House, authorizers: &[Value], hooks: &[&Webhook]) {
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    });
    let configuration = AuthorizationConfiguration::read(&document).unwrap();
    let endpoints = hooks.iter().map(|hook| hook.endpoint()).collect();
    house.access().configure(&configuration, endpoints).unwrap();
}

/// Lets a user do something with ConfigMaps in `default`.
async fn grant(house: &House, user: &str, verbs: &[&str]) {
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    house.made(roles, json!({ "metadata": { "name": user }, "rules": rules })).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    house.made(bindings, binding).await;
}

async fn get_as(house: &House, user: &str, path: &str) -> Answer {
    house.ask_as(&peer(user, &["dev"]), "GET", path, &[], "").await
}

fn message(answer: &Answer) -> &str {
    answer.json["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn r154_the_first_who_allows_or_denies_ends_it() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    let first = Webhook::start(|spec| match spec["user"].as_str() {
        Some("allowed") => json!({ "allowed": true, "reason": "friend" }),
        Some("denied" | "jane") if spec["resourceAttributes"]["verb"] == "list" => {
            json!({ "allowed": false, "denied": true, "reason": "not today" })
        }
        _ => json!({ "allowed": false, "reason": "who is that" }),
    })
    .await;
    let second = Webhook::start(|spec| json!({ "allowed": spec["user"] == "denied" })).await;
    let hooks = [entry("first.example", &json!({})), rbac(), entry("second.example", &json!({}))];
    configure(&house, &hooks, &[&first, &second]);
    assert_eq!(get_as(&house, "allowed", CONFIG_MAPS).await.code, 200);
    assert!(second.asked().is_empty(), "allow is final");
    for user in ["denied", "jane"] {
        let refused = get_as(&house, user, CONFIG_MAPS).await;
        assert_eq!(refused.code, 403, "{user}");
        assert!(
            message(&refused).ends_with("in the namespace \"default\": not today"),
            "{refused:?}"
        );
    }
    assert!(second.asked().is_empty(), "deny is final, whatever roles and others say");
    let refused = get_as(&house, "stranger", CONFIG_MAPS).await;
    assert_eq!((refused.code, second.asked().len()), (403, 1));
    assert!(message(&refused).ends_with(": first.example: who is that"), "{refused:?}");
    assert_eq!(get_as(&house, "denied", PODS).await.code, 403, "asked about each request");
    assert_eq!(house.get(CONFIG_MAPS).await.code, 200, "system:masters come before everybody");
    assert!(first.asked().iter().all(|spec| spec["user"] != "kubernetes-admin"));
}

#[tokio::test]
async fn r154b_a_webhook_is_told_who_wants_what() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": true })).await;
    configure(&house, &[entry("a.example", &json!({}))], &[&hook]);
    let path = format!("{PODS}?labelSelector=a%3D1&fieldSelector=spec.nodeName%3Dn");
    assert_eq!(get_as(&house, "jane", &path).await.code, 200);
    let sent = hook.0.seen()[0].clone();
    let seen = &sent.body;
    assert_eq!(seen["apiVersion"], "authorization.k8s.io/v1");
    assert!(sent.uri.ends_with("/authorize?timeout=2s"), "{sent:?}");
    assert_eq!(sent.authorization, "Bearer secret");
    assert_eq!(
        seen["spec"],
        json!({
            "user": "jane", "groups": ["dev", "system:authenticated"],
            "resourceAttributes": {
                "namespace": "default", "verb": "list", "version": "v1", "resource": "pods",
                "fieldSelector": { "requirements": [
                    { "key": "spec.nodeName", "operator": "In", "values": ["n"] },
                ] },
                "labelSelector": { "requirements": [{ "key": "a", "operator": "In", "values": ["1"] }] },
            },
        })
    );
    get_as(&house, "jane", "/version").await;
    assert_eq!(
        hook.asked()[1]["nonResourceAttributes"],
        json!({ "path": "/version", "verb": "get" })
    );
    configure(
        &house,
        &[entry("a.example", &json!({ "subjectAccessReviewVersion": "v1beta1" }))],
        &[&hook],
    );
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200);
    let seen = hook.0.seen()[2].body.clone();
    assert_eq!(seen["apiVersion"], "authorization.k8s.io/v1beta1");
    assert_eq!(seen["spec"]["group"], json!(["dev", "system:authenticated"]));
}

#[tokio::test]
async fn r154b_nobody_says_who_they_are_by_headers_or_reviews() {
    let house = House::new().await;
    let hook = Webhook::start(|spec| json!({ "allowed": spec["user"] == "boss" })).await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&hook]);
    let (jane, boss) = (peer("jane", &[]), peer("boss", &[]));
    let spoofed = [("x-remote-user", "boss"), ("x-remote-group", "system:masters")];
    let answer = house.ask_as(&jane, "GET", CONFIG_MAPS, &spoofed, "").await;
    assert_eq!(answer.code, 403);
    // Acting as somebody else is a right of its own, which the webhook is asked about.
    let acting = [("impersonate-user", "boss")];
    let answer = house.ask_as(&jane, "GET", CONFIG_MAPS, &acting, "").await;
    assert_eq!(answer.code, 403);
    let asked = hook.asked();
    let right = &asked.last().unwrap()["resourceAttributes"];
    assert!(asked.iter().all(|spec| spec["user"] == "jane"), "{asked:?}");
    assert!(right["verb"].as_str().unwrap().starts_with("impersonate"), "{right}");
    let answer = house.ask_as(&boss, "GET", CONFIG_MAPS, &[("impersonate-user", "joe")], "").await;
    assert_eq!(answer.code, 403, "the boss may act as joe, who may not");
    assert_eq!(hook.asked().last().unwrap()["user"], "joe");
    let mine = json!({ "spec": { "user": "boss", "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let said = house.ask_as(&boss, "POST", path, &[("content-type", JSON)], mine.to_string()).await;
    assert_eq!(said.json["status"]["allowed"], true, "{said:?}");
}

#[tokio::test]
async fn r154c_a_call_that_fails_is_an_error_unless_another_allows() {
    let review = |status: Value| {
        json!({ "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status })
            .to_string()
    };
    let both = review(json!({ "allowed": true, "denied": true }));
    let rubbish: Vec<(u16, String)> = vec![
        (200, "rubbish".into()),
        (200, String::new()),
        (200, review(json!({ "allowed": "yes" }))),
        (200, json!({ "kind": "Status", "status": { "allowed": true } }).to_string()),
        (200, format!("[{}]", "1,".repeat(700_000))),
        (201, "{}".into()),
        (302, review(json!({ "allowed": true }))),
        (400, "no".into()),
        (401, review(json!({ "allowed": true }))),
        (403, "no".into()),
        (404, "no".into()),
        (502, "no".into()),
    ];
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    for (code, body) in rubbish {
        let what = format!("{code} {}", body.get(..60).unwrap_or(&body));
        let hook = Webhook::raw(move |_| {
            let response =
                Response::builder().status(code).header("location", "https://127.0.0.1:1/");
            response.body(Bytes::from(body.clone())).unwrap()
        })
        .await;
        for policy in ["NoOpinion", "Deny"] {
            let hooks = [entry("a.example", &json!({ "failurePolicy": policy })), rbac()];
            configure(&house, &hooks, &[&hook]);
            let stranger = get_as(&house, "stranger", CONFIG_MAPS).await;
            assert_eq!(stranger.code, 500, "{what} {policy}: {stranger:?}");
            let said = "authorization failed: authorizer \"a.example\": it could not be asked";
            assert!(message(&stranger).ends_with(said), "{stranger:?}");
            let jane = get_as(&house, "jane", CONFIG_MAPS).await;
            let wanted = if policy == "Deny" { 500 } else { 200 };
            assert_eq!(jane.code, wanted, "{what} {policy}: {jane:?}");
        }
    }
    let hook = Webhook::raw(move |_| Response::new(both.clone().into())).await;
    configure(&house, &[entry("a.example", &json!({})), rbac()], &[&hook]);
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 500, "both at once is a denial");
}

#[tokio::test]
async fn r154c_a_server_that_fails_is_called_again() {
    let house = House::new().await;
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let hook = Webhook::raw(move |_| {
        let mut calls = counted.lock().unwrap();
        *calls += 1;
        let review = json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "status": { "allowed": true },
        });
        let mut response = Response::new(Bytes::from(review.to_string()));
        if *calls < 4 {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        response
    })
    .await;
    configure(&house, &[entry("a.example", &json!({ "timeout": "30s" }))], &[&hook]);
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200);
    assert_eq!(*calls.lock().unwrap(), 4);
}

#[tokio::test]
async fn r154c_a_webhook_that_hangs_harms_nobody_else() {
    let house = Arc::new(House::new().await);
    grant(&house, "jane", &["list", "create"]).await;
    let hook = Webhook(ReviewServer::hanging().await);
    let hooks = [rbac(), entry("a.example", &json!({ "timeout": "3s" }))];
    configure(&house, &hooks, &[&hook]);
    let begin = std::time::Instant::now();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let house = Arc::clone(&house);
        waiting.spawn(async move { get_as(&house, "stranger", CONFIG_MAPS).await.code });
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    for number in 0..50 {
        assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200);
        house.config_map(&format!("m{number}")).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    while let Some(code) = waiting.join_next().await {
        assert_eq!(code.unwrap(), 500);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn r154c_answers_are_kept_as_long_as_the_configuration_says() {
    let house = House::new().await;
    let hook = Webhook::start(|spec| json!({ "allowed": spec["user"] == "jane" })).await;
    let kept = json!({
        "cacheAuthorizedRequests": true, "cacheUnauthorizedRequests": true,
        "authorizedTTL": "1h", "unauthorizedTTL": "300ms",
    });
    configure(&house, &[entry("a.example", &kept)], &[&hook]);
    for _ in 0..3 {
        assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200);
        assert_eq!(get_as(&house, "joe", CONFIG_MAPS).await.code, 403);
    }
    assert_eq!(hook.asked().len(), 2);
    tokio::time::sleep(Duration::from_millis(400)).await;
    get_as(&house, "jane", CONFIG_MAPS).await;
    get_as(&house, "joe", CONFIG_MAPS).await;
    assert_eq!(hook.asked().len(), 3, "only what was not allowed is asked again");
    // A name that is very long is somebody's wish to fill the memory.
    let long = format!("{CONFIG_MAPS}/{}", "x".repeat(10_000));
    get_as(&house, "jane", &long).await;
    get_as(&house, "jane", &long).await;
    assert_eq!(hook.asked().len(), 5);
    configure(&house, &[entry("a.example", &kept)], &[&hook]);
    get_as(&house, "jane", CONFIG_MAPS).await;
    assert_eq!(hook.asked().len(), 6, "a new configuration knows nothing");
    configure(&house, &[entry("a.example", &json!({}))], &[&hook]);
    for _ in 0..3 {
        assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200);
    }
    assert_eq!(hook.asked().len(), 9, "not kept at all");
}

#[tokio::test]
async fn r154b_conditions_decide_who_is_asked() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    let hook = Webhook::start(|_| json!({ "allowed": true })).await;
    let conditions = |all: &[&str]| {
        let all: Vec<Value> = all.iter().map(|text| json!({ "expression": text })).collect();
        json!({ "matchConditions": all })
    };
    let about_pods =
        ["has(request.resourceAttributes)", "request.resourceAttributes.resource == 'pods'"];
    configure(&house, &[entry("a.example", &conditions(&about_pods)), rbac()], &[&hook]);
    assert_eq!(get_as(&house, "stranger", CONFIG_MAPS).await.code, 403);
    assert!(hook.asked().is_empty());
    assert_eq!(get_as(&house, "stranger", PODS).await.code, 200);
    // One that fails is as a call that fails.
    let fails = ["request.nonResourceAttributes.path == '/'"];
    for (policy, code) in [("NoOpinion", 200), ("Deny", 500)] {
        let mut members = conditions(&fails);
        members["failurePolicy"] = json!(policy);
        configure(&house, &[entry("a.example", &members), rbac()], &[&hook]);
        assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, code, "{policy}");
        assert_eq!(get_as(&house, "stranger", CONFIG_MAPS).await.code, 500, "{policy}");
    }
    assert_eq!(hook.asked().len(), 1);
    // One that does not hold counts more than one that fails.
    let both = [fails[0], "request.user == 'nobody'"];
    configure(&house, &[entry("a.example", &conditions(&both)), rbac()], &[&hook]);
    assert_eq!(get_as(&house, "stranger", CONFIG_MAPS).await.code, 403);
}

#[tokio::test]
async fn r159_reviews_go_through_the_whole_chain() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    let hook = Webhook::start(|spec| match spec["user"].as_str() {
        Some("jane") => json!({ "allowed": false, "denied": true, "reason": "no" }),
        Some("joe") => json!({ "allowed": true, "reason": "yes" }),
        _ => json!({ "allowed": false }),
    })
    .await;
    configure(&house, &[entry("a.example", &json!({})), rbac()], &[&hook]);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let about = json!({ "verb": "list", "resource": "configmaps", "namespace": "default", "version": "v1" });
    let review = |user: &str| {
        json!({ "spec": {
        "user": user, "uid": "7", "groups": ["g"], "extra": { "Team": ["x"] }, "resourceAttributes": about,
    } })
    };
    let said = house.made(path, review("jane")).await;
    assert_eq!(said["status"], json!({ "allowed": false, "denied": true, "reason": "no" }));
    let said = house.made(path, review("joe")).await;
    assert_eq!(said["status"], json!({ "allowed": true, "reason": "yes" }));
    assert_eq!(house.made(path, review("x")).await["status"], json!({ "allowed": false }));
    let asked = hook.asked()[0].clone();
    assert_eq!(asked["extra"], json!({ "team": ["x"] }));
    assert_eq!((&asked["uid"], &asked["groups"]), (&json!("7"), &json!(["g"])));
    assert_eq!(asked["resourceAttributes"], about);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let said = house.made(rules, json!({ "spec": { "namespace": "default" } })).await;
    assert_eq!(said["status"]["incomplete"], true);
    let why = said["status"]["evaluationError"].as_str().unwrap();
    assert_eq!(why, "webhook authorizer does not support user rule resolution");
    let failing =
        Webhook::raw(|_| Response::builder().status(404).body(Bytes::new()).unwrap()).await;
    configure(&house, &[entry("a.example", &json!({})), rbac()], &[&failing]);
    let said = house.made(path, review("x")).await;
    assert_eq!(
        said["status"]["evaluationError"],
        "authorizer \"a.example\": it could not be asked"
    );
}

#[tokio::test]
async fn r154d_what_admission_asks_is_asked_of_webhooks_too() {
    let house = House::new().await;
    let hook = Webhook::start(|spec| {
        let about = &spec["resourceAttributes"];
        let verb = about["verb"].as_str().unwrap_or_default();
        let denied = about["subresource"] == "finalizers" || verb == "escalate";
        json!({ "allowed": spec["user"] == "jane" && !denied })
    })
    .await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&hook]);
    let jane = peer("jane", &[]);
    let post = async |path: &str, body: Value| {
        house.ask_as(&jane, "POST", path, &[("content-type", JSON)], body.to_string()).await
    };
    // Handing out rights needs a right that the webhook does not give.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let refused = post(roles, json!({ "metadata": { "name": "all" }, "rules": rules })).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    assert!(message(&refused).contains("attempting to grant RBAC permissions"), "{refused:?}");
    // So does holding an owner back.
    let owner = house.config_map("owner").await;
    let dependent = json!({ "metadata": { "name": "dependent", "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }] } });
    let refused = post(CONFIG_MAPS, dependent.clone()).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    let friendly = Webhook::start(|spec| json!({ "allowed": spec["user"] == "jane" })).await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&friendly]);
    assert_eq!(post(CONFIG_MAPS, dependent).await.code, 201);
    assert_eq!(
        post(roles, json!({ "metadata": { "name": "all" }, "rules": rules })).await.code,
        201
    );
    let finalize = friendly.asked().into_iter().any(|spec| {
        spec["resourceAttributes"]["subresource"] == "finalizers" && spec["user"] == "jane"
    });
    assert!(finalize);
}

#[tokio::test]
async fn r154d_expressions_of_policies_ask_webhooks() {
    let house = House::new().await;
    let hook = Webhook::start(|spec| {
        json!({ "allowed": spec["resourceAttributes"]["verb"] == "frob", "reason": "because" })
    })
    .await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&hook]);
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let may = |verb: &str| {
        format!(
            "authorizer.serviceAccount('default', 'x').group('').resource('configmaps').check('{verb}').allowed()"
        )
    };
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
        }] },
        // What is not known yet must never count as no: then the second would let it pass.
        "validations": [
            { "expression": may("frob"), "message": "no frob" },
            { "expression": format!("!{} || object.metadata.name != 'bad'", may("frob")), "message": "bad" },
        ],
    } });
    house.made(policies, policy).await;
    let binding = json!({ "metadata": { "name": "p" }, "spec": {
        "policyName": "p", "validationActions": ["Deny"],
    } });
    house.made(bindings, binding).await;
    house.made(CONFIG_MAPS, named("good")).await;
    let refused = house.post(CONFIG_MAPS, named("bad")).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    assert!(message(&refused).ends_with("denied request: bad"), "{refused:?}");
    assert!(hook.asked().iter().all(|spec| spec["user"] == "system:serviceaccount:default:x"));
}

#[tokio::test]
async fn r154_nobody_but_those_named_is_asked() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    configure(&house, &[json!({ "type": "AlwaysDeny", "name": "alwaysdeny" })], &[]);
    let refused = get_as(&house, "jane", CONFIG_MAPS).await;
    assert_eq!(refused.code, 403);
    assert!(message(&refused).ends_with(": alwaysdeny: Everything is forbidden."), "{refused:?}");
    let node = peer("system:node:n", &["system:nodes"]);
    let own = "/api/v1/nodes/n";
    assert_eq!(house.ask_as(&node, "GET", own, &[], "").await.code, 403);
    configure(&house, &[json!({ "type": "Node", "name": "node" })], &[]);
    assert_eq!(house.ask_as(&node, "GET", own, &[], "").await.code, 404);
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 403);
    configure(&house, &[json!({ "type": "AlwaysAllow", "name": "alwaysallow" })], &[]);
    assert_eq!(get_as(&house, "anybody", SECRETS).await.code, 200);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let said = house.made(rules, json!({ "spec": { "namespace": "default" } })).await;
    assert_eq!(said["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    // Nothing that a role hands out is more than everything.
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let role = json!({ "metadata": { "name": "all" }, "rules": rules }).to_string();
    let content = [("content-type", JSON)];
    let made = house.ask_as(&peer("anybody", &["dev"]), "POST", roles, &content, role).await;
    assert_eq!(made.code, 201, "{made:?}");
}

/// The lines of a watch until it ends, or time is over.
async fn ends_within(stream: &mut Stream, limit: Duration) -> bool {
    tokio::time::timeout(limit, async { while stream.next_unhurried().await.is_some() {} })
        .await
        .is_ok()
}

#[tokio::test]
async fn r154f_a_watch_ends_when_its_webhook_allows_it_no_longer() {
    let house = House::new().await;
    let open = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let allows = Arc::clone(&open);
    let hook = Webhook::start(
        move |_| json!({ "allowed": allows.load(std::sync::atomic::Ordering::SeqCst) }),
    )
    .await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&hook]);
    let jane = peer("jane", &[]);
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut stream = house.watch_by(&jane, &path).await;
    assert!(!ends_within(&mut stream, Duration::from_secs(11)).await, "allowed again");
    assert!(hook.asked().len() >= 2, "it was asked again");
    open.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(ends_within(&mut stream, Duration::from_secs(15)).await);
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 403);
}

#[tokio::test]
async fn r154f_a_new_order_is_in_force_for_what_is_open() {
    let house = House::new().await;
    grant(&house, "jane", &["list", "watch"]).await;
    let hook = Webhook::start(|spec| json!({ "allowed": spec["user"] == "joe" })).await;
    configure(&house, &[rbac(), entry("a.example", &json!({}))], &[&hook]);
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut by_role = house.watch_by(&peer("jane", &[]), &path).await;
    let mut by_webhook = house.watch_by(&peer("joe", &[]), &path).await;
    configure(&house, &[rbac()], &[]);
    assert!(ends_within(&mut by_webhook, Duration::from_secs(3)).await, "nobody allows it now");
    assert!(!ends_within(&mut by_role, Duration::from_secs(2)).await, "its role still does");
    configure(&house, &[json!({ "type": "Node", "name": "node" })], &[]);
    assert!(ends_within(&mut by_role, Duration::from_secs(3)).await, "roles do not count any more");
}

#[tokio::test]
async fn r154e_decisions_and_calls_are_counted() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    let hook = Webhook::start(|spec| match spec["user"].as_str() {
        Some("bad") => json!({ "denied": true }),
        _ => json!({ "allowed": spec["user"] == "joe" }),
    })
    .await;
    let condition = json!({ "matchConditions": [{ "expression": "request.user != 'mute'" }] });
    configure(&house, &[rbac(), entry("a.example", &condition)], &[&hook]);
    for user in ["jane", "joe", "bad", "mute"] {
        get_as(&house, user, CONFIG_MAPS).await;
    }
    let hanging = Webhook(ReviewServer::hanging().await);
    configure(&house, &[rbac(), entry("b.example", &json!({ "timeout": "100ms" }))], &[&hanging]);
    get_as(&house, "joe", CONFIG_MAPS).await;
    let metrics = house.get("/metrics").await;
    let text = std::str::from_utf8(&metrics.bytes).unwrap();
    for line in [
        r#"apiserver_authorization_decisions_total{type="Webhook",name="a.example",decision="allowed"} 1"#,
        r#"apiserver_authorization_decisions_total{type="Webhook",name="a.example",decision="denied"} 1"#,
        r#"apiserver_authorization_webhook_evaluations_total{name="a.example",result="success"} 2"#,
        r#"apiserver_authorization_webhook_evaluations_total{name="b.example",result="timeout"} 1"#,
        r#"apiserver_authorization_webhook_evaluations_fail_open_total{name="b.example",result="timeout"} 1"#,
        r#"apiserver_authorization_match_condition_exclusions_total{type="Webhook",name="a.example"} 1"#,
        r#"apiserver_authorization_webhook_duration_seconds_count{name="a.example",result="success"} 2"#,
    ] {
        assert!(
            text.contains(line),
            "{line}\n{}",
            text.lines().filter(|l| l.contains("authorization")).collect::<Vec<_>>().join("\n")
        );
    }
}

#[tokio::test]
async fn r154a_a_webhook_that_cannot_be_called_is_told_and_changes_nothing() {
    let house = House::new().await;
    grant(&house, "jane", &["list"]).await;
    let hook = Webhook::start(|_| json!({ "allowed": true })).await;
    let configuration = AuthorizationConfiguration::read(&json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [entry("a.example", &json!({}))],
    }))
    .unwrap();
    let good = hook.endpoint();
    let bad_tls = TlsSettings { authorities: b"no certificate".to_vec(), ..TlsSettings::default() };
    for endpoint in [
        WebhookEndpoint { url: "http://a.example".into(), ..good.clone() },
        WebhookEndpoint { url: String::new(), ..good.clone() },
        WebhookEndpoint { authorization: Some("Bearer a\nb".into()), ..good.clone() },
        WebhookEndpoint { tls: bad_tls, ..good.clone() },
    ] {
        let why = house.access().configure(&configuration, vec![endpoint]).unwrap_err();
        assert!(why.starts_with("a.example: "), "{why}");
        assert!(!why.contains("secret"), "{why}");
    }
    assert!(house.access().configure(&configuration, Vec::new()).is_err());
    assert_eq!(get_as(&house, "jane", CONFIG_MAPS).await.code, 200, "as before");
    // A certificate that nobody signed whom we trust is as good as no answer.
    let other = Webhook::start(|_| json!({ "allowed": true })).await;
    let untrusted = WebhookEndpoint { tls: other.endpoint().tls, ..good };
    house.access().configure(&configuration, vec![untrusted]).unwrap();
    assert_eq!(get_as(&house, "joe", CONFIG_MAPS).await.code, 500);
    assert!(hook.asked().is_empty());
}
