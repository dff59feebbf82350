//! Rules of spec/downward-api.md and spec/api-server.md: what becomes of threads and tasks that panic. An agent's
//! loop and a pod's worker are started again and find what runs; without the sequencer or the dispatcher the
//! control plane says that it cannot go on, and still ends in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane};
use tenure_supervise::restarts;
use tokio::sync::Mutex;

use crate::agent::{PATIENCE, PODS, object, pod, ready};
use crate::away::{NODE, agent, start, starts, until};
use crate::scripted::Scripted;

/// Held by tests that look at how often tasks of this process were started again.
static COUNTED: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r217a_an_agent_and_a_worker_that_panic_work_again_and_no_container_notices() {
    let _turn = COUNTED.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let (plane, server, client) = start(folder.path()).await;
    let runtime = Scripted::new();
    let agent = agent(folder.path(), &server, &runtime);
    let make = async |name: &str| {
        client.post(PODS, &object(pod(name, json!({"nodeName": NODE})))).await.unwrap();
    };
    let is_ready = async |name: &str| {
        let pod = client.get(&format!("{PODS}/{name}")).await.ok().map(Value::Object)?;
        ready(&pod).then(|| pod["metadata"]["uid"].as_str().unwrap().to_owned())
    };
    make("first").await;
    let first = until("the first is ready", async || is_ready("first").await).await;
    let before = restarts();
    let count = |task: &str| {
        let of = |counts: &BTreeMap<_, u64>| counts.get(task).copied().unwrap_or_default();
        of(&restarts()) - of(&before)
    };

    // The loop: the next thing that happens finds it gone, and the one after it there again.
    agent.plant_panic("agent");
    make("second").await;
    until("the loop is started again", async || (count("agent") == 1).then_some(())).await;
    until("the second is ready", async || is_ready("second").await).await;
    assert_eq!(starts(&runtime, "first"), 1, "what runs is left alone");

    // The worker of a pod: the pod is looked after by another one.
    agent.plant_panic(&first);
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    client.patch(&format!("{PODS}/first"), &object(label)).await.unwrap();
    until("the worker is started again", async || (count("pod worker") == 1).then_some(())).await;
    until("somebody says so", async || {
        let events =
            client.get("/api/v1/namespaces/default/events").await.ok().map(Value::Object)?;
        let said = |event: &Value| event["reason"] == "WorkerFailed";
        events["items"].as_array()?.iter().any(said).then_some(())
    })
    .await;
    assert_eq!(starts(&runtime, "first"), 1, "what runs is left alone");
    runtime.exit("first", 1);
    until("its container is started again", async || {
        (starts(&runtime, "first") == 2).then_some(())
    })
    .await;
    let options =
        object(json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 1}));
    client.delete(&format!("{PODS}/first"), &options).await.unwrap();
    until("the pod ends", async || client.get(&format!("{PODS}/first")).await.err().map(drop))
        .await;
    drop(agent);
    plane.stop().await;
}

/// A node whose loop panics at every turn must not look well because each start renews the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r217a_the_lease_of_an_agent_that_panics_again_and_again_is_not_renewed() {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/alone";
    let _turn = COUNTED.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let (plane, server, client) = start(folder.path()).await;
    let agent = Arc::new(agent(folder.path(), &server, &Scripted::new()));
    let renewed = async || {
        let lease = client.get(LEASE).await.ok().map(Value::Object)?;
        lease["spec"]["renewTime"].as_str().map(str::to_owned)
    };
    let before = until("there is a lease", renewed).await;
    let count = || restarts().get("agent").copied().unwrap_or_default();
    let planted = count();
    let planting = tokio::spawn({
        let agent = Arc::clone(&agent);
        async move {
            loop {
                agent.plant_panic("agent");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let pod = pod("first", json!({"nodeName": NODE}));
    client.post(PODS, &object(pod)).await.unwrap();
    until("the loop panics again and again", async || (count() > planted + 6).then_some(())).await;
    assert_eq!(renewed().await.unwrap(), before, "nobody looks after its pods");

    planting.abort();
    until("it looks well again", async || renewed().await.filter(|now| *now != before)).await;
    drop(agent);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r43a_without_its_sequencer_or_dispatcher_the_control_plane_says_so_and_ends() {
    for thread in ["sequencer", "dispatcher"] {
        let folder = tempfile::tempdir().unwrap();
        let (plane, _, client) = start(folder.path()).await;
        let map = |name: &str| object(json!({"metadata": {"name": name}}));
        let maps = "/api/v1/namespaces/default/configmaps";
        client.post(maps, &map("before")).await.unwrap();

        plane.plant_panic(thread);
        // Whoever writes now may still be answered by a sequencer whose dispatcher fails behind it.
        let _ = client.post(maps, &map("meanwhile")).await;
        let why = tokio::time::timeout(PATIENCE, plane.failed()).await.unwrap();
        assert_eq!(why, format!("the {thread} panicked: planted by a test"));
        let refused = client.post(maps, &map("after")).await.unwrap_err();
        assert!(refused.to_string().contains(thread), "{refused}");
        assert!(client.get(&format!("{maps}/before")).await.is_ok(), "reads go on");
        let settled = client.post("/tenure/settle", &object(json!({}))).await.unwrap_err();
        assert!(settled.to_string().contains("cannot be written"), "{settled}");
        let ready = client.get("/readyz").await.unwrap_err();
        assert!(ready.to_string().contains("[-]etcd failed"), "{ready}");

        // It ends in order all the same, and what was acknowledged is there at the next start.
        tokio::time::timeout(PATIENCE, plane.stop()).await.unwrap();
        let (plane, _, client) = start(folder.path()).await;
        assert!(client.get(&format!("{maps}/before")).await.is_ok());
        plane.stop().await;
    }
}

/// A start that cannot finish leaves nothing that holds the folder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r43a_a_start_that_fails_half_way_frees_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (plane, _, client) = start(folder.path()).await;
    let map = object(json!({"metadata": {"name": "before"}}));
    client.post("/api/v1/namespaces/default/configmaps", &map).await.unwrap();
    plane.stop().await;
    // The store is open and everything follows it when this is found: a folder is where a kubeconfig goes.
    let data = folder.path().join("data");
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::create_dir(&kubeconfig).unwrap();
    let config = |kubeconfig| Config {
        listen: ([127, 0, 0, 1], 0).into(),
        nodes: 0,
        kubeconfig,
        ..Config::new(data.clone())
    };
    let failed = ControlPlane::start(config(Some(kubeconfig.clone()))).await;
    assert!(failed.is_err(), "a folder is no kubeconfig");
    let (plane, _, client) = start(folder.path()).await;
    assert!(client.get("/api/v1/namespaces/default/configmaps/before").await.is_ok());
    plane.stop().await;
}
