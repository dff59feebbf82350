//! Rules of spec/api-server.md and spec/ownership.md under many clients at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::house::*;

/// Runs one task per number and collects what they answer.
async fn storm<F>(
    house: &Arc<House>,
    count: usize,
    act: impl Fn(Arc<House>, usize) -> F,
) -> Vec<Answer>
where
    F: Future<Output = Answer> + Send + 'static,
{
    let mut running = JoinSet::new();
    for at in 0..count {
        running.spawn(act(Arc::clone(house), at));
    }
    running.join_all().await
}

fn count(answers: &[Answer], code: u16) -> usize {
    answers.iter().filter(|answer| answer.code == code).count()
}

/// Nothing that belongs to the namespace is stored.
#[track_caller]
fn is_void(house: &House, namespace: &str) {
    let state = house.world.current();
    let inside = format!("/{namespace}/");
    let left: Vec<String> = state
        .range("/registry/", None)
        .filter(|record| record.namespace() == namespace || record.key().contains(&inside))
        .map(|record| record.key().to_string())
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

fn a() -> String {
    format!("{CONFIG_MAPS}/a")
}

fn service(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "type": "NodePort", "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }] },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r68_no_patch_is_lost() {
    let house = Arc::new(House::new().await);
    house.config_map("a").await;
    let start = house.revision();
    let answers = storm(&house, 96, |house, at| async move {
        let key = format!("k{at}");
        match at % 3 {
            0 => house.merge(&a(), json!({ "data": { key: "v" } })).await,
            1 => house.patch(&a(), STRATEGIC, json!({ "data": { key: "v" } })).await,
            _ => {
                let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { key: "v" } });
                let path = format!("{}?fieldManager=m{at}", a());
                house.patch(&path, "application/apply-patch+yaml", body).await
            }
        }
    }).await;
    assert_eq!(count(&answers, 200), 96, "{:?}", answers.iter().find(|a| a.code != 200));
    let versions: BTreeSet<&str> = answers.iter().map(|answer| version(&answer.json)).collect();
    assert_eq!(versions.len(), 96, "each patch is a version of its own");
    let live = house.get(&a()).await.with(200);
    assert_eq!(live["data"].as_object().unwrap().len(), 96);
    assert_eq!(
        house.revision().to_string(),
        (start.to_string().parse::<u64>().unwrap() + 96).to_string()
    );
}

/// kopf tests the version first and takes 422 for an answer, but not 409.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r68_a_tested_version_that_lost_the_race_is_a_failed_test() {
    let house = Arc::new(House::new().await);
    let mut live = house.config_map("a").await;
    for round in 0..8 {
        let tested = version(&live).to_owned();
        let answers = storm(&house, 24, move |house, at| {
            let patch = json!([
                { "op": "test", "path": "/metadata/resourceVersion", "value": tested },
                { "op": "add", "path": "/data", "value": { "winner": format!("{round}-{at}") } },
            ]);
            async move { house.patch(&a(), JSON_PATCH, patch).await }
        })
        .await;
        assert_eq!((count(&answers, 200), count(&answers, 422)), (1, 23), "round {round}");
        live = house.get(&a()).await.with(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r66_one_put_wins_per_version() {
    let house = Arc::new(House::new().await);
    let mut live = house.config_map("a").await;
    for round in 0..8 {
        let base = live.clone();
        let answers = storm(&house, 24, move |house, at| {
            let mut body = base.clone();
            body["data"] = json!({ "winner": format!("{round}-{at}") });
            async move { house.put(&a(), body).await }
        })
        .await;
        assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 23), "round {round}");
        live = house.get(&a()).await.with(200);
        let winner = answers.iter().find(|answer| answer.code == 200).unwrap();
        assert_eq!(live, winner.json);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r66_unconditional_puts_all_get_through() {
    let house = Arc::new(House::new().await);
    house.config_map("a").await;
    let answers = storm(&house, 48, |house, at| async move {
        house
            .put(&a(), json!({ "metadata": { "name": "a" }, "data": { "k": at.to_string() } }))
            .await
    })
    .await;
    assert_eq!(count(&answers, 200), 48);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r73_deletes_and_updates_race_to_one_end() {
    let house = Arc::new(House::new().await);
    for round in 0..12 {
        house.made(CONFIG_MAPS, if round % 2 == 0 { named("a") } else { held("a") }).await;
        let from = format!(
            "{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da&resourceVersion={}",
            house.revision()
        );
        let mut watch = house.watch(&from).await;
        let answers = storm(&house, 24, |house, at| async move {
            match at % 3 {
                0 => house.delete(&a()).await,
                1 => house.merge(&a(), json!({ "data": { format!("k{at}"): "v" } })).await,
                _ => house.merge(&a(), json!({ "metadata": { "finalizers": null, "labels": { format!("l{at}"): "v" } } })).await,
            }
        }).await;
        assert_eq!(count(&answers, 200) + count(&answers, 404), 24, "{answers:?}");
        house.merge(&a(), json!({ "metadata": { "finalizers": null } })).await;
        house.delete(&a()).await;
        house.get(&a()).await.fails(404, "NotFound");
        // Watchers see any number of changes and one end.
        loop {
            let event = watch.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "MODIFIED" => {}
                kind => break assert_eq!(kind, "DELETED"),
            }
        }
        assert!(watch.is_silent().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r72_one_of_many_deletes_removes() {
    let house = Arc::new(House::new().await);
    house.config_map("a").await;
    let answers = storm(&house, 24, |house, _| async move { house.delete(&a()).await }).await;
    assert_eq!((count(&answers, 200), count(&answers, 404)), (1, 23));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r59_generated_names_are_distinct() {
    let house = Arc::new(House::new().await);
    let answers = storm(&house, 300, |house, _| async move {
        house.post(CONFIG_MAPS, json!({ "metadata": { "generateName": "g-" } })).await
    })
    .await;
    assert_eq!(count(&answers, 201), 300);
    let names: BTreeSet<&str> = answers.iter().map(|answer| name(&answer.json)).collect();
    let uids: BTreeSet<String> =
        answers.iter().map(|answer| answer.json["metadata"]["uid"].to_string()).collect();
    assert_eq!((names.len(), uids.len()), (300, 300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r57_one_of_many_creates_of_a_name_wins() {
    let house = Arc::new(House::new().await);
    let answers = storm(&house, 24, |house, at| async move {
        if at % 2 == 0 {
            return house.post(CONFIG_MAPS, named("a")).await;
        }
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { format!("k{at}"): "v" } });
        house.patch(&format!("{}?fieldManager=m{at}", a()), "application/apply-patch+yaml", body).await
    }).await;
    assert_eq!(count(&answers, 201), 1);
    // Applies never lose a race: they come to the created object instead.
    assert!(count(&answers, 200) >= 11, "{answers:?}");
    assert_eq!(house.get(&a()).await.with(200)["data"].as_object().unwrap().len(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r136_services_share_no_address_and_no_port() {
    let house = Arc::new(House::new().await);
    let before = house.world.current().range("/registry/ranges/", None).count();
    let answers = storm(&house, 120, |house, at| async move {
        house.post(SERVICES, service(&format!("s{at}"))).await
    })
    .await;
    assert_eq!(count(&answers, 201), 120, "{:?}", answers.iter().find(|a| a.code != 201));
    let spec =
        |answer: &Answer, member: &str| answer.json["spec"][member].as_str().unwrap().to_owned();
    let addresses: BTreeSet<String> =
        answers.iter().map(|answer| spec(answer, "clusterIP")).collect();
    let ports: BTreeSet<i64> = answers
        .iter()
        .flat_map(|answer| answer.json["spec"]["ports"].as_array().unwrap())
        .map(|port| port["nodePort"].as_i64().unwrap())
        .collect();
    assert_eq!((addresses.len(), ports.len()), (120, 240));
    // Many ask for the same address and port: one gets them.
    let answers = storm(&house, 16, |house, at| async move {
        let spec = json!({ "type": "NodePort", "clusterIP": "10.96.0.99", "ports": [{ "port": 80, "nodePort": 30099 }] });
        house.post(SERVICES, json!({ "metadata": { "name": format!("t{at}") }, "spec": spec })).await
    }).await;
    let taken = ports.contains(&30099);
    assert_eq!(count(&answers, 201), usize::from(!taken));
    assert_eq!(count(&answers, 422), 16 - usize::from(!taken));
    let answers =
        storm(
            &house,
            120,
            |house, at| async move { house.delete(&format!("{SERVICES}/s{at}")).await },
        )
        .await;
    assert_eq!(count(&answers, 200), 120);
    house.delete(&format!("{SERVICES}?labelSelector=!component")).await.with(200);
    let state = house.world.current();
    assert_eq!(state.range("/registry/ranges/", None).count(), before, "ports are given back");
    let left: Vec<&str> =
        state.range("/registry/ipaddresses/", None).map(|record| record.name()).collect();
    assert_eq!(left, ["10.96.0.1"], "addresses are given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r78_no_create_outlives_its_namespace() {
    let house = Arc::new(House::new().await);
    for round in 0..6 {
        house.made(NAMESPACES, named("n")).await;
        let answers = storm(&house, 48, move |house, at| async move {
            if at == 4 * round {
                return house.delete("/api/v1/namespaces/n").await;
            }
            let body = json!({ "metadata": { "name": format!("c{at}") } });
            match at % 3 {
                0 => house.post("/api/v1/namespaces/n/configmaps", body).await,
                1 => house.post("/api/v1/namespaces/n/secrets", body).await,
                _ => {
                    let body = json!({ "metadata": { "name": format!("s{at}") }, "spec": { "ports": [{ "port": 80 }] } });
                    house.put(&format!("/api/v1/namespaces/n/services/s{at}"), body).await
                }
            }
        }).await;
        let settled = count(&answers, 201)
            + count(&answers, 200)
            + count(&answers, 403)
            + count(&answers, 404);
        assert_eq!(settled, 48, "{answers:?}");
        house.until("/api/v1/namespaces/n", 404).await;
        is_void(&house, "n");
        let state = house.world.current();
        assert_eq!(state.range("/registry/ipaddresses/", None).count(), 1, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r76_a_full_namespace_goes_when_its_finalizers_do() {
    let house = Arc::new(House::new().await);
    house.made(NAMESPACES, named("n")).await;
    house.until("/api/v1/namespaces/n/serviceaccounts/default", 200).await;
    let answers = storm(&house, 300, |house, at| async move {
        let name = format!("c{at}");
        let body = if at % 30 == 0 { held(&name) } else { named(&name) };
        match at % 10 {
            9 => house.post("/api/v1/namespaces/n/pods", pod(&name)).await,
            8 => house.post("/api/v1/namespaces/n/secrets", named(&name)).await,
            _ => house.post("/api/v1/namespaces/n/configmaps", body).await,
        }
    })
    .await;
    assert_eq!(count(&answers, 201), 300);
    house.delete("/api/v1/namespaces/n").await.with(200);
    let held = |house: &House| {
        let state = house.world.current();
        state.range("/registry/", None).filter(|record| record.namespace() == "n").count()
    };
    for _ in 0..1000 {
        if held(&house) == 10 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(held(&house), 10, "only the held ones are left");
    let answers = storm(&house, 10, |house, at| async move {
        let path = format!("/api/v1/namespaces/n/configmaps/c{}", at * 30);
        house.merge(&path, json!({ "metadata": { "finalizers": null } })).await
    })
    .await;
    assert_eq!(count(&answers, 200), 10);
    house.until("/api/v1/namespaces/n", 404).await;
    is_void(&house, "n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r141_one_of_many_bindings_wins() {
    let house = Arc::new(House::new().await);
    house.made(PODS, pod("p")).await;
    let answers = storm(&house, 16, |house, at| async move {
        house
            .post(&format!("{PODS}/p/binding"), json!({ "target": { "name": format!("n{at}") } }))
            .await
    })
    .await;
    assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 15));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r142_evictions_spend_no_more_than_the_budget() {
    let house = Arc::new(House::new().await);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let body = json!({ "metadata": { "name": "b" }, "spec": { "selector": { "matchLabels": { "app": "a" } } } });
    house.made(budgets, body).await;
    let allowed = json!({ "status": {
        "disruptionsAllowed": 5, "currentHealthy": 16, "desiredHealthy": 11, "expectedPods": 16, "observedGeneration": 1,
    } });
    house.merge(&format!("{budgets}/b/status"), allowed).await.with(200);
    for at in 0..16 {
        house.made(PODS, pod(&format!("p{at}"))).await;
        let path = format!("{PODS}/p{at}");
        house.made(&format!("{path}/binding"), json!({ "target": { "name": "n" } })).await;
        house
            .merge(
                &format!("{path}/status"),
                json!({ "status": {
                "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
            } }),
            )
            .await
            .with(200);
    }
    let answers = storm(&house, 16, |house, at| async move {
        house.post(&format!("{PODS}/p{at}/eviction"), json!({})).await
    })
    .await;
    assert_eq!((count(&answers, 201), count(&answers, 429)), (5, 11));
    let live = house.get(&format!("{budgets}/b")).await.with(200);
    assert_eq!(live["status"]["disruptedPods"].as_object().unwrap().len(), 5);
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn rule(resource: &str) -> Value {
    json!({ "verbs": ["get"], "apiGroups": [""], "resources": [resource] })
}

fn bound(name: &str, role: &str, user: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "User", "apiGroup": group, "name": user }],
    })
}

fn number(object: &Value) -> u64 {
    version(object).parse().unwrap()
}

/// A house in which mallory may write roles and bindings of the cluster, and reads pods by a binding of this name.
async fn with_mallory(reads: &str) -> (Arc<House>, Arc<tenure_server::Peer>) {
    let house = Arc::new(House::new().await);
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    let writes = json!({
        "verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles", "clusterrolebindings"],
    });
    house.made(&roles, json!({ "metadata": { "name": "writes" }, "rules": [writes] })).await;
    house.made(&roles, json!({ "metadata": { "name": "reads" }, "rules": [rule("pods")] })).await;
    house.made(&bindings, bound("writes", "writes", "mallory")).await;
    house.made(&bindings, bound(reads, "reads", "mallory")).await;
    (house, Arc::new(peer("mallory", &[])))
}

async fn posts(house: &House, who: &tenure_server::Peer, path: &str, body: Value) -> Answer {
    house.ask_as(who, "POST", path, &[("content-type", JSON)], body.to_string()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r262_a_role_that_grows_while_it_is_bound_is_judged_as_it_is_then() {
    let (house, mallory) = with_mallory("reads").await;
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    let mut late = 0;
    for round in 0..60 {
        let name = format!("r{round}");
        house.made(&roles, json!({ "metadata": { "name": name }, "rules": [rule("pods")] })).await;
        let grown =
            json!({ "metadata": { "name": name }, "rules": [rule("pods"), rule("secrets")] });
        let (at, to) = (Arc::clone(&house), format!("{roles}/{name}"));
        let grows = tokio::spawn(async move { at.put(&to, grown).await });
        let answers = storm(&house, 8, |house, at| {
            let (mallory, bindings) = (Arc::clone(&mallory), bindings.clone());
            let body = bound(&format!("b{round}-{at}"), &format!("r{round}"), "mallory-2");
            async move { posts(&house, &mallory, &bindings, body).await }
        });
        let answers = answers.await;
        let grown = number(&grows.await.unwrap().with(200));
        for answer in answers {
            match answer.code {
                201 => {
                    assert!(number(&answer.json) < grown, "bound with what mallory does not hold")
                }
                code => {
                    assert_eq!(code, 403);
                    late += 1;
                }
            }
        }
    }
    assert!(late > 0, "nobody was late, so nothing was tested");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r262_what_is_taken_away_while_it_is_handed_on_is_not_handed_on() {
    let (house, mallory) = with_mallory("reads").await;
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    for round in 0..60 {
        let (at, to) = (Arc::clone(&house), format!("{bindings}/reads"));
        let taken =
            tokio::spawn(async move { at.put(&to, bound("reads", "reads", "nobody")).await });
        let answers = storm(&house, 8, |house, at| {
            let (mallory, roles) = (Arc::clone(&mallory), roles.clone());
            let name = format!("r{round}-{at}");
            let body = json!({ "metadata": { "name": name }, "rules": [rule("pods")] });
            async move { posts(&house, &mallory, &roles, body).await }
        });
        let answers = answers.await;
        let taken = number(&taken.await.unwrap().with(200));
        for answer in answers.iter().filter(|answer| answer.code == 201) {
            assert!(number(&answer.json) < taken, "handed on after it was taken away");
        }
        house.put(&format!("{bindings}/reads"), bound("reads", "reads", "mallory")).await.with(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r262_a_role_that_gathers_misses_no_part_that_comes_or_goes_meanwhile() {
    let house = Arc::new(House::new().await);
    let roles = format!("{RBAC}/clusterroles");
    for round in 0..60 {
        let part = move |name: &str, resource: &str| {
            let labels = json!({ "gather": format!("g{round}") });
            json!({ "metadata": { "name": name, "labels": labels }, "rules": [rule(resource)] })
        };
        let old = format!("old-{round}");
        house.made(&roles, part(&old, "secrets")).await;
        let answers = storm(&house, 3, |house, at| {
            let (roles, old) = (roles.clone(), old.clone());
            let labels = json!({ "gather": format!("g{round}") });
            let sum = json!({
                "metadata": { "name": format!("sum-{round}") },
                "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": labels }] },
            });
            let new = part(&format!("new-{round}"), "pods");
            async move {
                match at {
                    0 => house.post(&roles, sum).await,
                    1 => house.post(&roles, new).await,
                    _ => house.delete(&format!("{roles}/{old}")).await,
                }
            }
        });
        assert!(answers.await.iter().all(|answer| answer.code < 300));
        let mut rules = json!(null);
        for _ in 0..500 {
            rules = house.get(&format!("{roles}/sum-{round}")).await.with(200)["rules"].clone();
            if rules == json!([rule("pods")]) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(rules, json!([rule("pods")]), "round {round}");
    }
}
