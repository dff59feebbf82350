//! Workloads that make no sense or too much: each is refused or comes to rest, and nobody else waits.
//! Rules of spec/workload-controllers.md.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;
use crate::workloads::{PODS, SETS, pods_of, set};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

impl Estate {
    /// Settles, and then nothing is written any more: no hot loop.
    async fn rests(&self) {
        self.settle().await;
        // What is told about it comes a moment later.
        tokio::time::sleep(Duration::from_millis(600)).await;
        let revision = self.house.revision();
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(
            self.house.revision(),
            revision,
            "something is written although nothing happens"
        );
    }
}

#[tokio::test]
async fn rs1_dp1_selectors_that_select_nothing_or_everything() {
    let estate = Estate::new().await;
    let mut misses = set("misses", 3);
    misses["spec"]["template"]["metadata"]["labels"] = json!({ "app": "other" });
    let mut everything = set("everything", 3);
    everything["spec"]["selector"] = json!({});
    for body in [misses, everything] {
        let mut of_deployment = body.clone();
        of_deployment["kind"] = json!("Deployment");
        estate.house.post(SETS, body).await.fails(422, "Invalid");
        estate.house.post(DEPLOYMENTS, of_deployment).await.fails(422, "Invalid");
    }
    // Expressions may contradict one another; the template cannot satisfy them either.
    let mut never = set("never", 3);
    never["spec"]["selector"]["matchExpressions"] =
        json!([{ "key": "app", "operator": "NotIn", "values": ["never"] }]);
    estate.house.post(SETS, never).await.fails(422, "Invalid");
    // A budget over everything is allowed and disturbs nobody.
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let body =
        json!({ "metadata": { "name": "all" }, "spec": { "selector": {}, "minAvailable": 1 } });
    estate.house.made(budgets, body).await;
    estate.house.made(SETS, set("web", 2)).await;
    estate.rests().await;
    assert_eq!(pods_of(&estate, "web").await.len(), 2);
    let all = estate.house.get(&format!("{budgets}/all")).await.with(200);
    assert_eq!(all["status"]["expectedPods"], 2);
}

#[tokio::test]
async fn rs1_sizes_below_zero_and_beyond_all_numbers_are_refused() {
    let estate = Estate::new().await;
    for (size, code, reason) in
        [(json!(-1), 422, "Invalid"), (json!(3_000_000_000_u64), 400, "BadRequest")]
    {
        let mut body = set("web", 1);
        body["spec"]["replicas"] = size.clone();
        estate.house.post(SETS, body.clone()).await.fails(code, reason);
        body["kind"] = json!("Deployment");
        estate.house.post(DEPLOYMENTS, body).await.fails(code, reason);
        let mut job = json!({ "metadata": { "name": "j" }, "spec": { "template": {
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } });
        job["spec"]["parallelism"] = size;
        estate.house.post(JOBS, job).await.fails(code, reason);
    }
    estate.rests().await;
    assert_eq!(estate.left(PODS).await, Vec::<String>::new());
}

#[tokio::test]
async fn pt4_a_huge_size_starves_nobody() {
    let estate = Estate::new().await;
    let mut huge = set("huge", 2_000_000_000);
    huge["kind"] = json!("Deployment");
    huge["spec"]["strategy"] = json!({ "type": "Recreate" });
    estate.house.made(DEPLOYMENTS, huge).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // While its pods are made, others get theirs and requests are answered.
    let begin = Instant::now();
    estate.house.made(SETS, set("small", 3)).await;
    let mut slowest = Duration::ZERO;
    let mut found = 0;
    while found < 3 {
        assert!(begin.elapsed() < Duration::from_secs(10), "{found} of 3 pods after ten seconds");
        let asked = Instant::now();
        found = pods_of(&estate, "small").await.len();
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "a request took {slowest:?}");
    estate.house.delete(&format!("{DEPLOYMENTS}/huge")).await.with(200);
    let sets = format!("{SETS}?labelSelector=app%3Dhuge");
    for _ in 0..200 {
        let left = estate.house.get(&sets).await.with(200);
        if left["items"].as_array().unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("its ReplicaSet never goes");
}

#[tokio::test]
async fn cr2_two_controllers_do_not_fight_for_one_pod() {
    let estate = Estate::new().await;
    let mut other = set("other", 2);
    other["spec"]["selector"]["matchLabels"] = json!({ "app": "web" });
    other["spec"]["template"]["metadata"]["labels"] = json!({ "app": "web" });
    let lone = json!({
        "metadata": { "name": "lone", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    estate.house.made(PODS, lone).await;
    estate.house.made(SETS, set("web", 2)).await;
    estate.house.made(SETS, other).await;
    estate.rests().await;
    let pods = pods_of(&estate, "web").await;
    assert_eq!(pods.len(), 4, "each has its own");
    let controllers = |pod: &Value| {
        let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
        owners.iter().filter(|owner| owner["controller"] == true).count()
    };
    assert!(pods.iter().all(|pod| controllers(pod) == 1));
    // A pod that somebody takes from one goes to one of them, and both are whole again.
    let path = format!("{PODS}/{}", name(&pods[0]));
    let nobody = json!({ "metadata": { "ownerReferences": null } });
    estate.house.merge(&path, nobody).await.with(200);
    estate.rests().await;
    assert_eq!(pods_of(&estate, "web").await.len(), 4);
}

#[tokio::test]
async fn dp3_a_template_that_changes_under_its_rollout() {
    let estate = Estate::new().await;
    let mut web = set("web", 4);
    web["kind"] = json!("Deployment");
    web["spec"]["revisionHistoryLimit"] = json!(2);
    estate.house.made(DEPLOYMENTS, web).await;
    let path = format!("{DEPLOYMENTS}/web");
    for number in 0..20 {
        let template = json!({ "metadata": { "annotations": { "n": number.to_string() } } });
        estate.house.merge(&path, json!({ "spec": { "template": template } })).await.with(200);
    }
    // Nothing becomes ready here: the rollout stands at its bounds, and does so quietly.
    estate.rests().await;
    let pods = pods_of(&estate, "web").await;
    assert!((3..=5).contains(&pods.len()), "{} pods", pods.len());
    let recreate = json!({ "spec": { "strategy": { "type": "Recreate", "rollingUpdate": null } } });
    estate.house.merge(&path, recreate).await.with(200);
    estate.rests().await;
    let pods = pods_of(&estate, "web").await;
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|pod| pod["metadata"]["annotations"]["n"] == "19"));
}

#[tokio::test]
async fn cj1_schedules_that_never_come_and_zones_that_do_not_exist() {
    let estate = Estate::new().await;
    let cron = |name: &str, schedule: &str, zone: Value| {
        json!({ "metadata": { "name": name }, "spec": {
            "schedule": schedule, "timeZone": zone,
            "jobTemplate": { "spec": { "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } },
        } })
    };
    for (schedule, zone) in [
        ("0 0 1 1 *", json!("Middle/Earth")),
        ("0 0 1 1 *", json!("")),
        ("61 * * * *", Value::Null),
        ("TZ=Europe/Paris 0 0 1 1 *", Value::Null),
        ("* * * *", Value::Null),
        ("", Value::Null),
    ] {
        let body = cron("wrong", schedule, zone);
        estate.house.post(CRON_JOBS, body).await.fails(422, "Invalid");
    }
    estate.house.made(CRON_JOBS, cron("never", "0 0 30 2 *", Value::Null)).await;
    estate.house.made(CRON_JOBS, cron("rare", "0 0 29 2 *", json!("Europe/Paris"))).await;
    estate.rests().await;
    assert_eq!(estate.left(JOBS).await, Vec::<String>::new());
}
