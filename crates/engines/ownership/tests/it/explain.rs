//! Rules of spec/ownership.md: what people are told (R171, sections 19.2 and 21), and plans (S16).

use tenure_ownership::{
    Circumstances, Dangling, DeletionPropagation, DeletionStep, Done, OwnerState, OwnershipEngine,
    OwnershipIntent, OwnershipProblem, OwnershipRule, Release, Unresolvable,
};
use tenure_sim::store::{self, SimulatedStore};

use crate::seeds::{engine, thing};

fn scene() -> (SimulatedStore, OwnershipEngine) {
    let mut store = SimulatedStore::new();
    store.write(thing("a", &[]));
    store.write(thing("b", &["a"]));
    let mut c = thing("c", &["b"]);
    c.finalizers.push("x/hold".into());
    store.write(c);
    let mut foreign = thing("f", &["a"]);
    foreign.namespace = "other".into();
    foreign.owners.push(store::Ref { kind: "Unheard".into(), ..foreign.owners[0].clone() });
    store.write(foreign);
    store.write(thing("r1", &["r2"]));
    store.write(thing("r2", &["r1"]));
    let engine = engine(&store, &mut Vec::new());
    (store, engine)
}

fn done(engine: &OwnershipEngine, uid: &str, policy: DeletionPropagation) -> Vec<String> {
    told(&engine.plan(uid, policy))
}

fn told(plan: &[DeletionStep]) -> Vec<String> {
    plan.iter()
        .map(|step| {
            let what = match &step.done {
                Done::Terminating(policy) => policy.text().to_owned(),
                Done::Removed => "removed".into(),
                Done::DroppedReferences(list) => format!("drops {}", list.len()),
                Done::Unblocked(list) => format!("unblocks {}", list.len()),
                Done::DroppedFinalizer(finalizer) => format!("loses {}", finalizer.text()),
            };
            format!("{} {what} {}", step.key.uid, step.rule)
        })
        .collect()
}

#[test]
fn every_reference_has_a_verdict_and_every_dependent_is_told() {
    let (_, engine) = scene();
    let told = engine.explain("f").unwrap();
    let verdicts: Vec<OwnerState> = told.references.iter().map(|r| r.verdict).collect();
    assert_eq!(
        verdicts,
        [
            OwnerState::Dangling(Dangling::OtherNamespace),
            OwnerState::Unresolvable(Unresolvable::UnknownKind)
        ]
    );
    let told = engine.explain("a").unwrap();
    assert!(told.state.seen && !told.state.terminating);
    let dependents: Vec<(&str, bool)> =
        told.dependents.iter().map(|d| (&*d.key.uid, d.blocks)).collect();
    assert_eq!(dependents, [("b", true), ("f", false), ("f", false)]);
    assert_eq!(engine.find(told.key.resource, "default", "a").as_deref(), Some("a"));
    assert!(engine.explain("nobody").is_none());
}

#[test]
fn problems_are_found_in_a_stable_order() {
    let (mut store, _) = scene();
    store.delete("b", DeletionPropagation::Foreground);
    store.delete("c", DeletionPropagation::Background);
    let engine = engine(&store, &mut Vec::new());
    let told: Vec<String> = engine
        .problems()
        .iter()
        .map(|problem| match problem {
            OwnershipProblem::Dangling { dependent, why, .. } => {
                format!("{} {why:?}", dependent.uid)
            }
            OwnershipProblem::Unresolvable { dependent, why, .. } => {
                format!("{} {why:?}", dependent.uid)
            }
            OwnershipProblem::Ring { members, waiting } => {
                format!("ring of {} {waiting}", members.len())
            }
            OwnershipProblem::Blocked { owner, by } => format!("{} by {}", owner.uid, by[0].uid),
            OwnershipProblem::Held { object } => format!("{} held", object.uid),
        })
        .collect();
    assert_eq!(told, ["f OtherNamespace", "f UnknownKind", "ring of 2 false", "b by c", "c held"]);
}

#[test]
fn a_ring_of_waiting_objects_is_explained() {
    let (mut store, _) = scene();
    store.delete("r1", DeletionPropagation::Foreground);
    store.delete("r2", DeletionPropagation::Foreground);
    let mut out = Vec::new();
    let engine = engine(&store, &mut out);
    // The ring was opened by the decision, so nothing waits in it any more.
    assert!(
        out.iter().any(|i| matches!(i, OwnershipIntent::Write(w) if w.rule == OwnershipRule::R105))
    );
    assert!(engine.explain("r1").unwrap().ring.is_empty());
    assert!(engine.explain("r1").unwrap().pending.is_some());
}

#[test]
fn the_chain_of_causes_leads_back_to_the_clients_delete() {
    let mut store = SimulatedStore::new();
    store.write(thing("a", &[]));
    store.write(thing("b", &["a"]));
    store.write(thing("c", &["b"]));
    let mut out = Vec::new();
    let mut engine = engine(&store, &mut out);
    let mut fed = store.log.len();
    store.delete("a", DeletionPropagation::Foreground);
    let mut last = None;
    loop {
        for (revision, event) in store.log.clone().into_iter().skip(fed) {
            store::feed(&mut engine, revision, &event, &mut out);
        }
        fed = store.log.len();
        let Some(OwnershipIntent::Write(write)) = out.pop() else { break };
        store.apply(&write.key.uid, &write.action);
        if &*write.key.uid == "c" {
            last = Some(write.cause);
        }
    }
    let chain = engine.chain(last.unwrap());
    let told: Vec<String> = chain.iter().map(|c| format!("{} {}", c.key.uid, c.rule)).collect();
    assert_eq!(told, ["c R92", "b R91", "a client"]);
    assert!(chain[2].revision < chain[0].revision);
}

#[test]
fn a_plan_tells_what_goes_what_stays_and_in_which_order() {
    let (_, engine) = scene();
    assert_eq!(
        done(&engine, "a", DeletionPropagation::Background),
        ["a removed client", "b removed R92", "c Background R92",]
    );
    assert_eq!(
        done(&engine, "a", DeletionPropagation::Foreground),
        ["a Foreground client", "b Foreground R91", "c Background R92",]
    );
    assert_eq!(
        done(&engine, "a", DeletionPropagation::Orphan),
        ["a Orphan client", "b drops 1 R114", "a removed R115",]
    );
    assert_eq!(
        done(&engine, "r1", DeletionPropagation::Foreground),
        [
            "r1 Foreground client",
            "r2 Foreground R91",
            "r1 unblocks 1 R105",
            "r2 removed R104",
            "r1 removed R104",
        ]
    );
    assert!(done(&engine, "nobody", DeletionPropagation::Orphan).is_empty());
}

/// While its grace period runs a pod is solid, so that what else it owns is kept with it for as long.
#[test]
fn r52_a_plan_gives_no_grace_to_a_pod_that_runs_nowhere() {
    let mut store = SimulatedStore::new();
    let mut pod = thing("p", &[]);
    pod.row = store::row_of("Pod").unwrap();
    store.write(pod);
    let mut between = thing("a", &["p"]);
    let mut last = thing("b", &["p", "a"]);
    for owned in [&mut between, &mut last] {
        owned.owners[0].kind = "Pod".into();
        owned.owners[0].block = false;
    }
    last.finalizers.push("x/hold".into());
    store.write(between);
    store.write(last);
    let engine = engine(&store, &mut Vec::new());
    let deletes = [("p", DeletionPropagation::Foreground)];
    assert_eq!(
        told(&engine.plan_knowing(&deletes, Circumstances { graceful: &|_| true, releases: &[] })),
        [
            "p Foreground client",
            "a Foreground R91",
            "p loses foregroundDeletion R104",
            "b drops 1 R90",
            "a removed R104",
            "p removed client",
            "b Background R92",
        ]
    );
    assert_eq!(
        told(&engine.plan_knowing(&deletes, Circumstances { graceful: &|_| false, releases: &[] })),
        ["p Foreground client", "a Foreground R91", "p removed R104", "b Background R92"]
    );
}

/// Finalizers of built-in controllers go when nobody uses the object; those of others stay.
#[test]
fn r171e_a_plan_lets_go_what_its_controllers_let_go() {
    let mut store = SimulatedStore::new();
    let mut claim = thing("claim", &[]);
    claim.finalizers.push("kubernetes.io/pvc-protection".into());
    store.write(claim);
    store.write(thing("user", &["top"]));
    store.write(thing("top", &[]));
    let engine = engine(&store, &mut Vec::new());
    let users = ["user".to_owned()];
    let plan = |deletes: &[(&str, DeletionPropagation)], releases: &[Release<'_>]| {
        told(&engine.plan_knowing(deletes, Circumstances { graceful: &|_| true, releases }))
    };
    let claim = [("claim", DeletionPropagation::Background)];
    let kept = Release { uid: "claim", users: &users };
    assert_eq!(plan(&claim, &[]), ["claim Background client"]);
    assert_eq!(plan(&claim, &[kept]), ["claim Background client"]);
    let free = Release { uid: "claim", users: &[] };
    assert_eq!(plan(&claim, &[free]), ["claim Background client", "claim removed client"]);
    let both =
        [("claim", DeletionPropagation::Background), ("top", DeletionPropagation::Background)];
    assert_eq!(
        plan(&both, &[kept]),
        [
            "claim Background client",
            "top removed client",
            "user removed R92",
            "claim removed client",
        ]
    );
}

#[test]
fn r171_the_graph_is_drawn_whole_or_around_some_uids() {
    let (_, engine) = scene();
    let all = engine.dot(&[]);
    assert!(all.starts_with("strict digraph full {"), "{all}");
    assert_eq!(all.matches("uid=\"").count(), 6);
    let some = engine.dot(&["r1"]);
    assert_eq!(some.matches("uid=\"").count(), 2);
    assert!(some.contains("virtual=\"false\"") && some.contains("kind=\"ConfigMap\""), "{some}");
    assert!(some.contains("0 -> 1;") && some.contains("1 -> 0;"), "{some}");
}
