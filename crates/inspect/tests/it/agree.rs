//! A plan equals what then really happens: random graphs on a real control plane with its collector
//! running are read, planned, deleted, settled and read again (spec/ownership.md S16).

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use http::Request;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tenure_cluster::Cluster;
use tenure_inspect::{
    ClusterReader, DeletionPlan, DeletionPropagation, Happens, ObservedObject, OwnershipAnalysis,
};

/// How many graphs one run makes.
const GRAPHS: usize = 320;
/// How many clients make them.
const AT_ONCE: usize = 8;
const POLICIES: [(&str, DeletionPropagation); 3] = [
    ("Background", DeletionPropagation::Background),
    ("Foreground", DeletionPropagation::Foreground),
    ("Orphan", DeletionPropagation::Orphan),
];

/// A small generator, so that a seed gives the same graphs everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }
}

/// What one namespace holds and what is done to it.
struct Graph {
    namespace: String,
    /// Plural and finalizer of each object; the name is its number.
    objects: Vec<(&'static str, bool)>,
    /// Dependent, owner, whether it blocks.
    edges: Vec<(usize, usize, bool)>,
    /// A dependent with a reference of a kind that nobody serves.
    unresolvable: Option<usize>,
    /// What is deleted before the plan is made.
    before: Option<(usize, &'static str)>,
    /// What the plan is about.
    target: usize,
    policy: usize,
}

impl Graph {
    fn random(number: usize, dice: &mut Dice) -> Graph {
        let size = 2 + dice.roll(6);
        let objects = (0..size)
            .map(|_| (if dice.one_in(4) { "pods" } else { "configmaps" }, dice.one_in(7)))
            .collect();
        let mut edges = BTreeMap::new();
        for _ in 0..dice.roll(size * 2) {
            let (dependent, owner) = (dice.roll(size), dice.roll(size));
            // Mostly trees; rings and objects that own themselves now and then.
            if dependent > owner || dice.one_in(4) {
                edges.insert((dependent, owner), !dice.one_in(3));
            }
        }
        let before = dice.one_in(4).then(|| (dice.roll(size), POLICIES[dice.roll(3)].0));
        Graph {
            namespace: format!("graph-{number}"),
            objects,
            edges: edges.into_iter().map(|((from, to), block)| (from, to, block)).collect(),
            unresolvable: dice.one_in(8).then(|| dice.roll(size)),
            before,
            target: dice.roll(size),
            policy: dice.roll(3),
        }
    }

    fn path(&self, index: usize) -> String {
        let plural = self.objects[index].0;
        format!("/api/v1/namespaces/{}/{plural}/o{index}", self.namespace)
    }
}

struct Wire(kube::Client);

impl Wire {
    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body)
            .unwrap();
        self.0.request(request).await
    }

    async fn settle(&self) {
        let request = Request::post("/tenure/settle").body(Vec::new()).unwrap();
        self.0.request_text(request).await.unwrap();
    }

    async fn make(&self, graph: &Graph) {
        let namespace = json!({ "metadata": { "name": graph.namespace } });
        self.ask("POST", "/api/v1/namespaces", Some(namespace)).await.unwrap();
        // Pods need the account that a new namespace gets.
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", graph.namespace);
        while self.ask("GET", &account, None).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let mut uids = Vec::new();
        for (index, (plural, finalizer)) in graph.objects.iter().enumerate() {
            let mut object = json!({ "metadata": { "name": format!("o{index}") } });
            if *finalizer {
                object["metadata"]["finalizers"] = json!(["example.com/hold"]);
            }
            if *plural == "pods" {
                object["spec"] =
                    json!({ "containers": [{ "name": "c", "image": "example.com/i" }] });
            }
            let path = format!("/api/v1/namespaces/{}/{plural}", graph.namespace);
            let made = self.ask("POST", &path, Some(object)).await.unwrap();
            uids.push(made["metadata"]["uid"].as_str().unwrap().to_owned());
        }
        for (index, _) in graph.objects.iter().enumerate() {
            let mut owners: Vec<Value> = graph
                .edges
                .iter()
                .filter(|(dependent, _, _)| *dependent == index)
                .map(|(_, owner, block)| {
                    let kind = if graph.objects[*owner].0 == "pods" { "Pod" } else { "ConfigMap" };
                    json!({
                        "apiVersion": "v1", "kind": kind, "name": format!("o{owner}"),
                        "uid": uids[*owner], "blockOwnerDeletion": block,
                    })
                })
                .collect();
            if graph.unresolvable == Some(index) {
                owners.push(json!({
                    "apiVersion": "sea.example.com/v1", "kind": "Boat", "name": "b", "uid": "b",
                }));
            }
            if !owners.is_empty() {
                let patch = json!({ "metadata": { "ownerReferences": owners } });
                self.ask("PATCH", &graph.path(index), Some(patch)).await.unwrap();
            }
        }
    }

    async fn delete(&self, graph: &Graph, index: usize, policy: &str) {
        let options = json!({ "propagationPolicy": policy });
        self.ask("DELETE", &graph.path(index), Some(options)).await.unwrap();
    }
}

/// What can be seen of an object: whether it is Terminating, its finalizers and its references.
type Seen = (bool, Vec<String>, Vec<(String, bool)>);

fn seen(found: &ObservedObject) -> Seen {
    let owners = found.meta.owner_references.iter().map(|owner| {
        (format!("{}/{}", owner.kind, owner.name), owner.block_owner_deletion == Some(true))
    });
    (found.meta.terminating(), found.meta.finalizers.clone(), owners.collect())
}

fn state(look: &OwnershipAnalysis, namespace: &str) -> BTreeMap<String, Seen> {
    let ours = |found: &&ObservedObject| {
        found.meta.namespace == namespace
            && ["Pod", "ConfigMap"].contains(&found.served.kind.as_str())
            && found.meta.name.starts_with('o')
    };
    let objects = look.facts().objects.iter().filter(ours);
    objects.map(|found| (found.meta.uid.clone(), seen(found))).collect()
}

/// What a plan says will be seen.
fn foreseen(mut state: BTreeMap<String, Seen>, plan: &DeletionPlan) -> BTreeMap<String, Seen> {
    for step in &plan.steps {
        let Some((terminating, finalizers, owners)) = state.get_mut(&step.object.uid) else {
            panic!("{} is not there", step.object)
        };
        match &step.happens {
            Happens::Removed => {
                state.remove(&step.object.uid);
            }
            Happens::Terminating { cascade } => {
                *terminating = true;
                finalizers.retain(|name| !["orphan", "foregroundDeletion"].contains(&&**name));
                match *cascade {
                    "foreground" => finalizers.push("foregroundDeletion".to_owned()),
                    "orphan" => finalizers.push("orphan".to_owned()),
                    _ => {}
                }
            }
            Happens::LosesReferences { owners: lost } => {
                owners.retain(|(owner, _)| !lost.contains(owner));
            }
            Happens::Unblocked { owners: open } => {
                for (owner, block) in owners.iter_mut() {
                    *block &= !open.contains(owner);
                }
            }
            Happens::LosesFinalizer { finalizer } => finalizers.retain(|name| name != finalizer),
        }
    }
    state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_equal_what_then_really_happens() {
    let seed: u64 =
        std::env::var("TENURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x7e4a);
    let mut dice = Dice(seed | 1);
    let graphs: Vec<Graph> = (0..GRAPHS).map(|number| Graph::random(number, &mut dice)).collect();
    let cluster = Cluster::start().await.unwrap();
    let wire = Wire(cluster.client());
    futures::stream::iter(&graphs).for_each_concurrent(AT_ONCE, |graph| wire.make(graph)).await;
    wire.settle().await;
    for graph in &graphs {
        if let Some((index, policy)) = graph.before {
            // A ring may have taken it along.
            wire.delete(graph, index, policy).await;
        }
    }
    wire.settle().await;

    let reader = ClusterReader::with(cluster.client(), "default");
    let mut before = OwnershipAnalysis::new(reader.read().await.unwrap());
    reader.graces(&mut before).await;
    let mut plans = Vec::new();
    for graph in &graphs {
        let kind = if graph.objects[graph.target].0 == "pods" { "pods" } else { "configmaps" };
        let served = before.facts().kinds.called(kind).unwrap().clone();
        let name = format!("o{}", graph.target);
        if let Some(found) = before.find(&served, &graph.namespace, &name) {
            plans.push((graph, before.plan(found, POLICIES[graph.policy].1)));
        }
    }
    assert!(plans.len() > 100, "only {} graphs have something left to delete", plans.len());

    let mut deleted = watch(&wire.0).await;
    for (graph, _) in &plans {
        wire.delete(graph, graph.target, POLICIES[graph.policy].0).await;
    }
    wire.settle().await;
    let after = OwnershipAnalysis::new(reader.read().await.unwrap());
    let mut larger = 0;
    for (graph, plan) in &plans {
        let expected = foreseen(state(&before, &graph.namespace), plan);
        let real = state(&after, &graph.namespace);
        let target = graph.target;
        assert_eq!(
            real, expected,
            "seed {seed}: {} o{target} {}: edges {:?}, plan {:#?}",
            graph.namespace, POLICIES[graph.policy].0, graph.edges, plan.steps
        );
        larger += usize::from(plan.steps.len() > 2);
    }
    assert!(larger > 30, "only {larger} plans have more than two steps");

    let expected = plans.iter().flat_map(|(_, plan)| &plan.gone);
    let maps = expected.filter(|named| named.kind == "ConfigMap").count();
    let order: Vec<String> = deleted.by_ref().take(maps).collect().await;
    let place = |uid: &str| order.iter().position(|gone| gone == uid);
    for (graph, plan) in &plans {
        check_order(graph, plan, &before, &place, seed);
    }
}

/// Of an owner and its dependent, the one that goes first in the plan goes first indeed. Where
/// something is deleted in the foreground, only those who wait for one another have an order: others
/// are independent of each other, and the collector, which writes many at once, may finish either
/// first. (That a plan is the engine's own order, step by step, is S16 of the simulation.)
fn check_order(
    graph: &Graph,
    plan: &DeletionPlan,
    before: &OwnershipAnalysis,
    place: &dyn Fn(&str) -> Option<usize>,
    seed: u64,
) {
    let maps: BTreeSet<&str> =
        plan.gone.iter().filter(|n| n.kind == "ConfigMap").map(|n| n.uid.as_str()).collect();
    let steps = &plan.steps;
    let foreground = |uid: Option<&str>| {
        steps.iter().any(|step| {
            matches!(step.happens, Happens::Terminating { cascade: "foreground" })
                && uid.is_none_or(|uid| step.object.uid == uid)
        })
    };
    let planned = |uid: &str| plan.gone.iter().position(|named| named.uid == uid);
    for uid in &maps {
        let owners = &before.get(uid).unwrap().meta.owner_references;
        for owner in owners.iter().filter(|owner| maps.contains(owner.uid.as_str())) {
            let opened = steps.iter().any(|step| {
                step.object.uid == **uid && matches!(step.happens, Happens::Unblocked { .. })
            });
            let blocks = owner.block_owner_deletion == Some(true) && !opened;
            let waits = foreground(Some(&owner.uid)) && blocks;
            if foreground(None) && !waits {
                continue;
            }
            let real = (place(uid).unwrap(), place(&owner.uid).unwrap());
            let plan = (planned(uid), planned(&owner.uid));
            assert_eq!(
                real.0.cmp(&real.1),
                plan.0.cmp(&plan.1),
                "seed {seed}: {}: the order of {uid} and {}, {:?}, plan {:#?}",
                graph.namespace,
                owner.uid,
                graph.edges,
                steps
            );
        }
    }
}

/// The uids of ConfigMaps in the order in which they go from now on.
async fn watch(client: &kube::Client) -> impl futures::Stream<Item = String> + Unpin + use<> {
    let list = Request::get("/api/v1/configmaps?limit=1").body(Vec::new()).unwrap();
    let list: Value = client.request(list).await.unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={revision}");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let events = client.request_events::<Value>(request).await.unwrap();
    Box::pin(events.filter_map(|event| async move {
        match event.unwrap() {
            WatchEvent::Deleted(object) => {
                Some(object["metadata"]["uid"].as_str().unwrap().to_owned())
            }
            _ => None,
        }
    }))
}
