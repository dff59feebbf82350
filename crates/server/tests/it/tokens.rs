//! Rules of spec/api-server.md.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::{Answer, House, JSON, PODS, fields, named, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEW: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

async fn asked(house: &House, account: &str, spec: Value) -> Answer {
    house.post(&format!("{ACCOUNTS}/{account}/token"), json!({ "spec": spec })).await
}

/// A token of a new account.
async fn token(house: &House, account: &str) -> String {
    house.made(ACCOUNTS, named(account)).await;
    text(&asked(house, account, json!({})).await.with(201))
}

fn text(granted: &Value) -> String {
    granted["status"]["token"].as_str().unwrap().to_owned()
}

/// Asks who the bearer is.
async fn bearer(house: &House, token: &str) -> Answer {
    let credential = format!("Bearer {token}");
    let headers = [("content-type", JSON), ("authorization", credential.as_str())];
    house.ask_as(&Peer::new(None), "POST", SELF, &headers, "{}").await
}

fn part(token: &str, at: usize) -> Value {
    let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn robot_pod() -> Value {
    let mut pod = pod("p");
    pod["spec"]["serviceAccountName"] = "robot".into();
    pod
}

#[tokio::test]
async fn r143_a_token_request_is_answered_with_defaults() {
    let house = House::new().await;
    let account = house.made(ACCOUNTS, named("robot")).await;
    let before = house.revision();
    let granted = asked(&house, "robot", json!({})).await.with(201);
    assert_eq!(house.revision(), before, "nothing is stored");
    assert_eq!(granted["kind"], "TokenRequest");
    assert_eq!(granted["spec"]["expirationSeconds"], 3600);
    let claims = part(&text(&granted), 1);
    assert_eq!(claims["aud"], granted["spec"]["audiences"]);
    assert_eq!(claims["aud"], json!([claims["iss"]]));
    assert_eq!(claims["sub"], "system:serviceaccount:default:robot");
    let seconds = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(seconds, 3600);
    let inner = &claims["kubernetes.io"];
    assert_eq!(inner["namespace"], "default");
    assert_eq!(inner["serviceaccount"]["name"], "robot");
    assert_eq!(inner["serviceaccount"]["uid"], account["metadata"]["uid"]);
    assert!(claims["jti"].as_str().is_some_and(|id| !id.is_empty()));
    let granted = asked(&house, "robot", json!({ "audiences": ["x"], "expirationSeconds": 600 }));
    assert_eq!(part(&text(&granted.await.with(201)), 1)["aud"], json!(["x"]));
}

#[tokio::test]
async fn r143_a_token_request_that_cannot_be_granted_is_refused() {
    let house = House::new().await;
    house.made(ACCOUNTS, named("robot")).await;
    house.made(PODS, pod("other")).await;
    let reference = |kind: &str, name: &str, uid: &str| {
        let mut reference = json!({ "kind": kind, "apiVersion": "v1", "name": name });
        if !uid.is_empty() {
            reference["uid"] = uid.into();
        }
        json!({ "boundObjectRef": reference })
    };
    for (account, spec, code) in [
        ("robot", json!({ "expirationSeconds": 599 }), 422),
        ("robot", json!({ "expirationSeconds": 600 }), 201),
        ("robot", json!({ "expirationSeconds": (1_i64 << 32) + 1 }), 422),
        ("none", json!({}), 404),
        ("robot", reference("Pod", "none", ""), 404),
        ("default", reference("Pod", "other", ""), 201),
        ("default", reference("Pod", "other", "not-its-uid"), 409),
        ("default", reference("ConfigMap", "other", ""), 400),
    ] {
        let answer = asked(&house, account, spec.clone()).await;
        assert_eq!(answer.code, code, "{account} {spec} {}", answer.text());
    }
    let short = asked(&house, "robot", json!({ "expirationSeconds": 599 })).await;
    assert_eq!(fields(&short.fails(422, "Invalid")), ["spec.expirationSeconds"]);
    // A pod of another account is not bound to.
    let wrong = asked(&house, "robot", reference("Pod", "other", "")).await;
    assert!((400..500).contains(&wrong.code), "{}", wrong.text());
    let path = format!("{ACCOUNTS}/robot/token");
    let body = json!({ "metadata": { "uid": "another" }, "spec": {} });
    house.post(&path, body).await.fails(409, "Conflict");
}

#[tokio::test]
async fn r149_a_token_speaks_for_its_account() {
    let house = House::new().await;
    let token = token(&house, "robot").await;
    let info = bearer(&house, &token).await.with(201)["status"]["userInfo"].clone();
    assert_eq!(info["username"], "system:serviceaccount:default:robot");
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    let account = house.get(&format!("{ACCOUNTS}/robot")).await.json;
    assert_eq!(info["uid"], account["metadata"]["uid"]);
    let credential = format!("Bearer {token}");
    let headers = [("authorization", credential.as_str())];
    let answer = house.ask_as(&Peer::new(None), "GET", PODS, &headers, "").await;
    answer.fails(403, "Forbidden");
}

#[tokio::test]
async fn r149_what_is_no_token_of_this_server_is_refused() {
    let (house, other) = (House::new().await, House::new().await);
    let good = token(&house, "robot").await;
    let foreign = token(&other, "robot").await;
    let parts: Vec<&str> = good.split('.').collect();
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let mut claims = part(&good, 1);
    claims["sub"] = "system:serviceaccount:kube-system:default".into();
    let changed = URL_SAFE_NO_PAD.encode(claims.to_string());
    let audience = json!({ "audiences": ["elsewhere"] });
    let elsewhere = text(&asked(&house, "robot", audience).await.with(201));
    bearer(&house, &good).await.with(201);
    for wrong in [
        "garbage".to_owned(),
        "a.b.c".to_owned(),
        foreign,
        elsewhere,
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{changed}.{}", parts[0], parts[2]),
        format!("{good}.x"),
    ] {
        bearer(&house, &wrong).await.fails(401, "Unauthorized");
    }
}

#[tokio::test]
async fn r149_a_token_ends_with_its_account_and_another_of_that_name_is_another() {
    let house = House::new().await;
    let token = token(&house, "robot").await;
    bearer(&house, &token).await.with(201);
    house.delete(&format!("{ACCOUNTS}/robot")).await.with(200);
    bearer(&house, &token).await.fails(401, "Unauthorized");
    house.made(ACCOUNTS, named("robot")).await;
    bearer(&house, &token).await.fails(401, "Unauthorized");
}

#[tokio::test]
async fn r149_a_token_ends_with_its_pod() {
    let house = House::new().await;
    house.made(ACCOUNTS, named("robot")).await;
    let made = house.made(PODS, robot_pod()).await;
    let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
    let spec = json!({ "boundObjectRef": reference });
    let token = text(&asked(&house, "robot", spec).await.with(201));
    let bound = &part(&token, 1)["kubernetes.io"]["pod"];
    assert_eq!(*bound, json!({ "name": "p", "uid": made["metadata"]["uid"] }));
    let info = bearer(&house, &token).await.with(201)["status"]["userInfo"].clone();
    assert_eq!(info["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    let path = format!("{PODS}/p");
    house.delete_with(&path, json!({ "gracePeriodSeconds": 0 })).await.with(200);
    house.until(&path, 404).await;
    bearer(&house, &token).await.fails(401, "Unauthorized");
    house.made(PODS, robot_pod()).await;
    bearer(&house, &token).await.fails(401, "Unauthorized");
}

#[tokio::test]
async fn r153_a_token_review_says_who_a_token_speaks_for() {
    let house = House::new().await;
    let good = token(&house, "robot").await;
    let review = async |spec: Value| {
        house.post(REVIEW, json!({ "spec": spec })).await.with(201)["status"].clone()
    };
    let status = review(json!({ "token": good })).await;
    assert_eq!(status["authenticated"], true);
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    assert_eq!(status["user"]["groups"].as_array().unwrap().len(), 3);
    let own = part(&good, 1)["aud"].clone();
    assert_eq!(status["audiences"], own);
    let status = review(json!({ "token": good, "audiences": ["other", own[0]] })).await;
    assert_eq!(status["audiences"], own);
    for spec in [json!({ "token": "wrong" }), json!({ "token": good, "audiences": ["other"] })] {
        let status = review(spec).await;
        assert_eq!(status["authenticated"], Value::Null);
        assert_eq!(status["user"], json!({}));
        assert!(status["error"].is_string());
    }
}

#[tokio::test]
async fn r51_the_issuer_tells_its_keys() {
    let house = House::new().await;
    let token = token(&house, "robot").await;
    let keys = house.get("/openid/v1/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    let keys = keys.with(200);
    let id = &part(&token, 0)["kid"];
    assert!(keys["keys"].as_array().unwrap().iter().any(|key| key["kid"] == *id), "{keys}");
    assert!(!keys.to_string().contains("\"d\":"), "no private key");
    let about = house.get("/.well-known/openid-configuration").await.with(200);
    assert_eq!(about["issuer"], part(&token, 1)["iss"]);
    assert!(about["jwks_uri"].as_str().unwrap().ends_with("/openid/v1/jwks"));
    assert_eq!(about["response_types_supported"], json!(["id_token"]));
    // Accounts may read both; a person may not without a right.
    let credential = format!("Bearer {token}");
    let headers = [("authorization", credential.as_str())];
    for path in ["/openid/v1/jwks", "/.well-known/openid-configuration"] {
        let answer = house.ask_as(&Peer::new(None), "GET", path, &headers, "").await;
        assert_eq!(answer.code, 200, "{path}");
        let answer = house.ask("GET", path, &[("impersonate-user", "u")], "").await;
        assert_eq!(answer.code, 403, "{path}");
    }
}
