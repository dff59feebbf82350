//! `kill -9` in the middle of rolling updates, again and again on one folder. After each restart the
//! update ends as it would have: every pod is new, has one living controller, and no place of a
//! StatefulSet is filled twice (spec/workload-controllers.md).
//!
//! `TENURE_CRASH_ROLLOUTS` sets the number of rounds.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::{Access, Server};

use super::{Random, get, revision_of, settle};

const REPLICAS: usize = 500;
/// How many more pods a rolling update may have, and how many fewer: a quarter.
const SLACK: usize = 125;
const ORDINALS: usize = 40;
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const STATEFUL_SET: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn rounds() -> usize {
    std::env::var("TENURE_CRASH_ROLLOUTS")
        .map_or(3, |text| text.parse().expect("a number of rounds"))
}

#[test]
fn a_rolling_update_that_was_cut_off_is_finished() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Box::pin(run(rounds())));
}

async fn run(rounds: usize) {
    let begin = Instant::now();
    let folder = tempfile::TempDir::new().unwrap();
    let server = Server::start(&with_nodes(folder.path())).unwrap();
    let access = server.access().unwrap();
    make(&access).await;
    settle(&access).await;
    check(&access, 0).await;
    server.stop().unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut cut_off = 0;
    for round in 1..=rounds {
        let server = Server::start(&with_nodes(folder.path())).unwrap();
        // A pod that is replaced is seen five times: this is somewhere within the update.
        let cut = 1 + usize::try_from(random.next() % 2_500).unwrap();
        let seen = update(&server.access().unwrap(), round, cut).await;
        server.kill().unwrap();
        assert!(seen >= cut, "round {round}: the watch ended after {seen} of {cut} events");

        // Without controllers the folder shows what the crash left to do.
        let standing = Server::start(&without_controllers(folder.path())).unwrap();
        cut_off += usize::from(undone(&standing.access().unwrap(), round).await);
        standing.kill().unwrap();

        let server = Server::start(&with_nodes(folder.path())).unwrap();
        let access = server.access().unwrap();
        settle(&access).await;
        check(&access, round).await;
        server.stop().unwrap();
    }
    assert!(cut_off * 2 > rounds, "only {cut_off} of {rounds} updates were cut off");
    let seconds = begin.elapsed().as_secs();
    println!(
        "{cut_off} of {rounds} rolling updates of {REPLICAS} replicas cut off, all finished, \
         {seconds} s"
    );
}

/// The flags of a durable server with room for all pods.
fn with_nodes(folder: &Path) -> [&str; 8] {
    let folder = folder.to_str().unwrap();
    ["--data-dir", folder, "--durability", "strict", "--nodes", "3", "--runtime", "none"]
}

/// The flags of a server on which pods stay as they are.
fn without_controllers(folder: &Path) -> [&str; 4] {
    let still = "-garbage-collector-controller,-deployment-controller,-replicaset-controller,\
                 -statefulset-controller,-pod-garbage-collector-controller,\
                 -taint-eviction-controller,-node-lifecycle-controller,*";
    ["--data-dir", folder.to_str().unwrap(), "--controllers", still]
}

async fn make(access: &Access) {
    let template = |app: &str| {
        json!({"metadata": {"labels": {"app": app}},
            "spec": {"containers": [{"name": "main", "image": image(0)}]}})
    };
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let web = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": REPLICAS, "selector": selector("web"), "template": template("web"),
        "strategy": {"rollingUpdate": {"maxSurge": SLACK, "maxUnavailable": SLACK}}}});
    let db = json!({"metadata": {"name": "db"}, "spec": {
        "replicas": ORDINALS, "selector": selector("db"), "template": template("db"),
        "serviceName": "db", "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 4}}}});
    for (path, body) in [(DEPLOYMENT, web), (STATEFUL_SET, db)] {
        let (collection, _) = path.rsplit_once('/').unwrap();
        let body = body.to_string();
        let answer = access.once("POST", collection, Some(body.as_bytes())).await.unwrap();
        assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
}

fn image(round: usize) -> String {
    format!("example.test/app:{round}")
}

/// Changes both templates, and returns once at least so many changes of pods were seen.
async fn update(access: &Access, round: usize, cut: usize) -> usize {
    let since = revision_of(&get(access, &format!("{PODS}?limit=1")).await);
    let path = format!("{PODS}?watch=true&resourceVersion={since}");
    let mut events = access.connect().await.unwrap().watch(&path).await.unwrap();
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": image(round)}]}}}});
    for path in [DEPLOYMENT, STATEFUL_SET] {
        let merge = "application/strategic-merge-patch+json";
        let body = patch.to_string();
        let mut connection = access.connect().await.unwrap();
        let answer = connection.send_as("PATCH", path, merge, Some(body.as_bytes())).await.unwrap();
        assert_eq!(answer.code, 200, "{}", String::from_utf8_lossy(&answer.body));
    }
    let mut seen = 0;
    while seen < cut {
        match tokio::time::timeout(Duration::from_secs(30), events.line()).await {
            Ok(Ok(Some(_))) => seen += 1,
            _ => break,
        }
    }
    seen
}

async fn items(access: &Access, path: &str) -> Vec<Value> {
    get(access, path).await["items"].as_array().unwrap().clone()
}

/// Whether something of an update is left to do; the bounds hold even now.
async fn undone(access: &Access, round: usize) -> bool {
    let pods = items(access, PODS).await;
    let of = |app: &'static str| {
        let app = move |pod: &&Value| pod["metadata"]["labels"]["app"] == app;
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods.iter().filter(app).filter(stays)
    };
    let (web, db) = (of("web").count(), of("db").count());
    assert!(web <= REPLICAS + SLACK, "round {round}: {web} pods");
    assert!(db <= ORDINALS, "round {round}: {db} places");
    let new = |pod: &&Value| pod["spec"]["containers"][0]["image"] == image(round);
    of("web").chain(of("db")).filter(new).count() < REPLICAS + ORDINALS
}

async fn check(access: &Access, round: usize) {
    let deployment = get(access, DEPLOYMENT).await;
    let status = &deployment["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[count], REPLICAS, "round {round}: {count} of {status}");
    }
    assert_eq!(status["observedGeneration"], deployment["metadata"]["generation"]);
    let set = get(access, STATEFUL_SET).await;
    let status = &set["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "currentReplicas"] {
        assert_eq!(status[count], ORDINALS, "round {round}: {count} of {status}");
    }
    assert_eq!(status["currentRevision"], status["updateRevision"], "round {round}");

    let sets = items(access, SETS).await;
    for set in &sets {
        assert_eq!(controller(set), Some(&deployment["metadata"]["uid"]), "round {round}: {set}");
    }
    let full: Vec<&Value> = sets.iter().filter(|set| set["spec"]["replicas"] != 0).collect();
    assert_eq!(full.len(), 1, "round {round}: one set has pods");
    assert!(sets.len() <= 11, "round {round}: {} sets are kept", sets.len());

    let pods = items(access, PODS).await;
    assert_eq!(pods.len(), REPLICAS + ORDINALS, "round {round}");
    let mut ordinals = BTreeSet::new();
    for pod in &pods {
        let metadata = &pod["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let owner = match metadata["labels"]["app"].as_str() {
            Some("web") => &full[0]["metadata"]["uid"],
            _ => {
                let place = metadata["labels"]["apps.kubernetes.io/pod-index"].as_str().unwrap();
                assert_eq!(name, format!("db-{place}"), "round {round}");
                assert!(ordinals.insert(place.to_owned()), "round {round}: two of {name}");
                &set["metadata"]["uid"]
            }
        };
        assert_eq!(controller(pod), Some(owner), "round {round}: the owner of {name}");
        assert_eq!(metadata["deletionTimestamp"], Value::Null, "round {round}: {name} is going");
        assert_eq!(pod["spec"]["containers"][0]["image"], image(round), "round {round}: {name}");
    }
    assert_eq!(ordinals.len(), ORDINALS, "round {round}");
}

/// The uid of the only controller.
fn controller(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let mut controllers = owners.iter().filter(|owner| owner["controller"] == true);
    let only = controllers.next();
    assert!(controllers.next().is_none(), "two controllers: {object}");
    only.map(|owner| &owner["uid"])
}
