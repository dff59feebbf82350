//! Rules of spec/workload-controllers.md: tokens of service accounts, and the authority's certificate.

use serde_json::{Value, json};

use crate::house::{CONFIG_MAPS, House, SECRETS, named};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn secret(account: &str) -> Value {
    json!({
        "metadata": { "name": "t", "annotations": { "kubernetes.io/service-account.name": account } },
        "type": "kubernetes.io/service-account-token",
    })
}

#[tokio::test]
async fn sa1_an_edited_certificate_is_restored() {
    let house = House::new().await;
    let path = format!("{CONFIG_MAPS}/kube-root-ca.crt");
    let before = house.until(&path, 200).await.with(200)["data"].clone();
    house.merge(&path, json!({ "data": { "ca.crt": "x", "more": "y" } })).await.with(200);
    house.until_looks(&path, |object| object["data"] == before).await;
}

#[tokio::test]
async fn sa2_a_token_secret_is_filled_and_goes_with_its_account() {
    let house = House::new().await;
    let account = house.made(ACCOUNTS, named("bob")).await;
    house.made(SECRETS, secret("bob")).await;
    let path = format!("{SECRETS}/t");
    let filled = house.until_looks(&path, |object| object["data"]["token"].is_string()).await;
    assert_eq!(filled["data"]["namespace"], "ZGVmYXVsdA==");
    assert!(filled["data"]["ca.crt"].is_string());
    let uid = &filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(uid, &account["metadata"]["uid"]);
    house.delete(&format!("{ACCOUNTS}/bob")).await.with(200);
    house.until(&path, 404).await;
}

#[tokio::test]
async fn sa2_a_token_secret_of_nobody_or_of_somebody_else_goes() {
    let house = House::new().await;
    house.made(SECRETS, secret("nobody")).await;
    house.until(&format!("{SECRETS}/t"), 404).await;
    house.made(ACCOUNTS, named("bob")).await;
    let mut stale = secret("bob");
    stale["metadata"]["annotations"]["kubernetes.io/service-account.uid"] = json!("another");
    house.made(SECRETS, stale).await;
    house.until(&format!("{SECRETS}/t"), 404).await;
}
