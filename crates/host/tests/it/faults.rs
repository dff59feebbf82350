//! Rules of spec/downward-api.md: what becomes of an agent's loop and of a pod's worker that panic: both are
//! started again and find what runs; no container notices.

use serde_json::{Value, json};
use tenure_supervise::restarts;

use crate::agent::{PODS, object, pod, ready};
use crate::away::{NODE, agent, start, starts, until};
use crate::scripted::Scripted;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r217a_an_agent_and_a_worker_that_panic_work_again_and_no_container_notices() {
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
    let count = |task: &str| restarts().get(task).copied().unwrap_or_default();

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
