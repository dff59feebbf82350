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

/// A quota with scopes.
async fn scoped(estate: &Estate, name: &str, scope: &str, hard: Value) {
    let spec = json!({ "hard": hard, "scopes": [scope] });
    estate.house.made(QUOTAS, json!({ "metadata": { "name": name }, "spec": spec })).await;
    estate.settle().await;
}

fn service(name: &str, kind: &str) -> Value {
    let spec = json!({ "type": kind, "ports": [{ "port": 80 }] });
    json!({ "metadata": { "name": name }, "spec": spec })
}

#[tokio::test]
async fn qu1_what_is_made_is_counted_until_it_goes() {
    let estate = Estate::new().await;
    let hard = json!({
        "count/replicasets.apps": "5", "replicationcontrollers": "5", "secrets": "9",
        "services": "5", "services.nodeports": "1", "services.loadbalancers": "1",
    });
    quota(&estate, "all", hard).await;
    let controller = json!({
        "metadata": { "name": "it" },
        "spec": { "replicas": 0, "selector": { "app": "a" }, "template": {
            "metadata": { "labels": { "app": "a" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
        }},
    });
    const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
    for (path, body, counted) in [
        (SETS, set("it", 0), &["count/replicasets.apps"][..]),
        (CONTROLLERS, controller, &["replicationcontrollers"]),
        (SECRETS, named("it"), &["secrets"]),
        (SERVICES, service("it", "ClusterIP"), &["services"]),
        (SERVICES, service("it", "NodePort"), &["services", "services.nodeports"]),
    ] {
        let before = used(&estate, "all").await;
        estate.house.made(path, body).await;
        estate.settle().await;
        let mut more = before.clone();
        for name in counted {
            let count: u64 = before[name].as_str().unwrap().parse().unwrap();
            more[name] = (count + 1).to_string().into();
        }
        assert_eq!(used(&estate, "all").await, more, "{path}");
        estate.house.delete(&format!("{path}/it")).await.with(200);
        estate.settle().await;
        assert_eq!(used(&estate, "all").await, before, "{path}");
    }
    // One that needs a port of nodes as well finds none, and what went makes room.
    estate.house.made(SERVICES, service("ported", "NodePort")).await;
    estate.house.post(SERVICES, service("it", "LoadBalancer")).await.fails(403, "Forbidden");
    estate.house.delete(&format!("{SERVICES}/ported")).await.with(200);
    estate.settle().await;
    estate.house.made(SERVICES, service("it", "LoadBalancer")).await;
    estate.settle().await;
    let used = used(&estate, "all").await;
    assert_eq!(
        (&used["services.loadbalancers"], &used["services.nodeports"]),
        (&json!("1"), &json!("1"))
    );
}

#[tokio::test]
async fn qu1_a_quota_counts_the_pods_of_its_scope_alone() {
    let estate = Estate::new().await;
    let asked = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } });
    let mut ending = asking("it", json!({}));
    ending["spec"]["activeDeadlineSeconds"] = json!(3600);
    for (scope, other, pod, opposite) in [
        ("BestEffort", "NotBestEffort", asking("it", json!({})), asking("it", asked)),
        ("Terminating", "NotTerminating", ending, asking("it", json!({}))),
    ] {
        let (first, second) = (scope.to_lowercase(), other.to_lowercase());
        scoped(&estate, &first, scope, json!({ "pods": "5" })).await;
        scoped(&estate, &second, other, json!({ "pods": "5" })).await;
        for (pod, counts) in [(pod, ["1", "0"]), (opposite, ["0", "1"])] {
            estate.house.made(PODS, pod).await;
            estate.settle().await;
            let found = [&first, &second].map(|name| used(&estate, name));
            let found = futures::future::join_all(found).await;
            assert_eq!([&found[0]["pods"], &found[1]["pods"]], counts, "{scope}");
            estate.house.delete(&format!("{PODS}/it")).await.with(200);
            estate.settle().await;
            for name in [&first, &second] {
                assert_eq!(used(&estate, name).await["pods"], "0", "{scope}");
            }
        }
    }
}
