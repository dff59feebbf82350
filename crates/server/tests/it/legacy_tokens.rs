//! Rules of spec/api-server.md: tokens that Secrets hold, R149.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::{House, SECRETS, named};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn secret(account: &str) -> Value {
    json!({
        "metadata": { "name": "t", "annotations": { "kubernetes.io/service-account.name": account } },
        "type": "kubernetes.io/service-account-token",
    })
}

/// The token that the Secret gets.
async fn token(house: &House) -> String {
    house.made(SECRETS, secret("bob")).await;
    let path = format!("{SECRETS}/t");
    let filled = house.until_looks(&path, |object| object["data"]["token"].is_string()).await;
    let token = STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap();
    String::from_utf8(token).unwrap()
}

/// What the bearer hears when it asks who it is.
async fn ask(house: &House, token: &str) -> u16 {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    house.ask_as(&Peer::default(), "POST", path, &headers, "{}").await.code
}

#[tokio::test]
async fn r149_the_token_of_a_secret_is_what_the_secret_holds() {
    let house = House::new().await;
    house.made(ACCOUNTS, named("bob")).await;
    let token = token(&house).await;
    let path = format!("{SECRETS}/t");
    assert_eq!(ask(&house, &token).await, 201);
    let review = json!({ "spec": { "token": token } });
    let review =
        house.made("/apis/authentication.k8s.io/v1/tokenreviews", review).await["status"].clone();
    assert_eq!(review["user"]["username"], "system:serviceaccount:default:bob");
    assert_eq!(review["user"]["extra"], Value::Null, "it has no id");
    // Somebody found it unused, and changed their mind.
    let label = |value: Value| json!({ "metadata": { "labels": { "kubernetes.io/legacy-token-invalid-since": value } } });
    for (value, code) in [(json!("2024-01-02"), 401), (json!(""), 201), (Value::Null, 201)] {
        house.merge(&path, label(value)).await.with(200);
        assert_eq!(ask(&house, &token).await, code);
    }
    // Another token takes its place, then it is back.
    let held = |text: &str| json!({ "data": { "token": STANDARD.encode(text) } });
    house.merge(&path, held("other")).await.with(200);
    assert_eq!(ask(&house, &token).await, 401);
    house.merge(&path, held(&token)).await.with(200);
    assert_eq!(ask(&house, &token).await, 201);
    house.merge(&path, json!({ "data": null })).await.with(200);
    house.until_looks(&path, |object| object["data"]["token"].is_string()).await;
    assert_eq!(ask(&house, &token).await, 401, "it got a new one");
}

#[tokio::test]
async fn r149_the_token_of_a_secret_goes_at_once_with_it_or_its_account() {
    for object in ["secrets/t", "serviceaccounts/bob"] {
        let house = House::new().await;
        house.made(ACCOUNTS, named("bob")).await;
        let token = token(&house).await;
        assert_eq!(ask(&house, &token).await, 201);
        let path = format!("/api/v1/namespaces/default/{object}");
        let kept = json!({ "metadata": { "finalizers": ["example.com/kept"] } });
        house.merge(&path, kept).await.with(200);
        assert_eq!(ask(&house, &token).await, 201);
        house.delete(&path).await.with(200);
        assert_eq!(ask(&house, &token).await, 401, "{object}");
    }
}
