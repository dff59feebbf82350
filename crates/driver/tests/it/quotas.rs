//! Quotas behind a whole API server. Rules of spec/workload-controllers.md.

use std::time::Duration;

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;
use crate::workloads::{PODS, SETS, pods_of, set};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(estate: &Estate, name: &str, hard: Value) {
    let body = json!({ "metadata": { "name": name }, "spec": { "hard": hard } });
    estate.house.made(QUOTAS, body).await;
    estate.settle().await;
}

async fn used(estate: &Estate, name: &str) -> Value {
    estate.house.get(&format!("{QUOTAS}/{name}")).await.with(200)["status"]["used"].clone()
}

fn asking(name: &str, resources: Value) -> Value {
    let mut body = pod(name);
    body["spec"]["containers"] = json!([{ "name": "c", "image": "i", "resources": resources }]);
    body
}

#[tokio::test]
async fn qu1_counts_end_with_the_words_of_upstream_and_come_back() {
    let estate = Estate::new().await;
    let hard = json!({ "configmaps": "3", "count/secrets": "1", "count/deployments.apps": "0" });
    quota(&estate, "few", hard).await;
    // Every namespace has one ConfigMap of its own.
    assert_eq!(used(&estate, "few").await["configmaps"], "1");
    estate.map("a", &[]).await;
    estate.map("b", &[]).await;
    let refused = estate.house.post(CONFIG_MAPS, named("c")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "configmaps \"c\" is forbidden: exceeded quota: few, requested: configmaps=1, used: \
         configmaps=3, limited: configmaps=3"
    );
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let refused = estate.house.post(path, deployment("d")).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "deployments.apps \"d\" is forbidden: exceeded quota: few, requested: \
         count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0"
    );
    estate.house.delete(&format!("{CONFIG_MAPS}/a")).await.with(200);
    estate.settle().await;
    estate.map("c", &[]).await;
    assert_eq!(used(&estate, "few").await["configmaps"], "3");
}

#[tokio::test]
async fn qu1_pods_say_what_they_need_and_get_no_more() {
    let estate = Estate::new().await;
    quota(&estate, "compute", json!({ "requests.cpu": "1", "limits.memory": "1Gi", "pods": "9" }))
        .await;
    let refused = estate.house.post(PODS, asking("p", json!({}))).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"p\" is forbidden: failed quota: compute: must specify limits.memory for: c; \
         requests.cpu for: c"
    );
    let half = json!({ "requests": { "cpu": "600m" }, "limits": { "memory": "512Mi" } });
    estate.house.made(PODS, asking("one", half.clone())).await;
    let refused = estate.house.post(PODS, asking("two", half)).await.fails(403, "Forbidden");
    assert_eq!(
        refused["message"],
        "pods \"two\" is forbidden: exceeded quota: compute, requested: requests.cpu=600m, used: \
         requests.cpu=600m, limited: requests.cpu=1"
    );
    estate.settle().await;
    let stands = json!({ "limits.memory": "512Mi", "pods": "1", "requests.cpu": "600m" });
    assert_eq!(used(&estate, "compute").await, stands);
}

#[tokio::test]
async fn qu1_creates_at_once_never_exceed_a_quota() {
    let estate = Estate::new().await;
    quota(&estate, "few", json!({ "configmaps": "11" })).await;
    let creates = (0..40).map(|number| {
        let house = &estate.house;
        async move { house.post(CONFIG_MAPS, named(&format!("m{number}"))).await.code }
    });
    let codes = futures::future::join_all(creates).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 10, "{codes:?}");
    assert!(codes.iter().all(|code| [201, 403].contains(code)), "{codes:?}");
    estate.settle().await;
    assert_eq!(used(&estate, "few").await["configmaps"], "11");
    // A controller that wants more makes what it may, says why, and does not run hot.
    quota(&estate, "pods", json!({ "pods": "5" })).await;
    estate.house.made(SETS, set("web", 8)).await;
    for _ in 0..100 {
        if pods_of(&estate, "web").await.len() == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(pods_of(&estate, "web").await.len(), 5);
    let path = format!("{SETS}/web");
    let told = |set: &Value| {
        let conditions = set["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["reason"] == "FailedCreate"))
    };
    estate.house.until_looks(&path, told).await;
}
