//! Seeded histories against the model, hosts with faults, and shapes that must cost little.
//! The properties are those of spec/ownership.md, 19.5 and 19.6.

use tenure_core::Revision;
use tenure_ownership::{ChangeOrder, DeletionPropagation, OwnershipEngine, OwnershipIntent};
use tenure_sim::run::{Trial, try_seed};
use tenure_sim::store::{self, ROWS, Ref, SimulatedObject, SimulatedStore, StoreEvent};

/// A ConfigMap with blocking references to others.
pub(crate) fn thing(uid: &str, owners: &[&str]) -> SimulatedObject {
    let owner = |uid: &&str| Ref {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: (*uid).into(),
        uid: (*uid).into(),
        block: true,
    };
    SimulatedObject {
        row: 0,
        namespace: "default".into(),
        name: uid.into(),
        uid: uid.into(),
        revision: 0,
        terminating: false,
        in_grace: false,
        finalizers: Vec::new(),
        owners: owners.iter().map(owner).collect(),
    }
}

/// An engine that knows every kind and has seen a store.
pub(crate) fn engine(store: &SimulatedStore, out: &mut Vec<OwnershipIntent>) -> OwnershipEngine {
    let mut engine = OwnershipEngine::new(ChangeOrder::Total, 3);
    for row in 0..ROWS.len() {
        store::feed_type(&mut engine, row, true, 0, out);
    }
    for thing in store.things.values() {
        store::feed(&mut engine, thing.revision, &StoreEvent::Put(thing.clone()), out);
    }
    engine.synced(Revision(store.revision), out);
    engine
}

/// Builds a store and gives what an engine that sees it wants, and the newest revision.
pub(crate) fn first_intents(
    store: &mut SimulatedStore,
    build: impl FnOnce(&mut SimulatedStore, fn(&str, &[&str]) -> SimulatedObject),
) -> (Vec<OwnershipIntent>, u64) {
    build(store, thing);
    let mut out = Vec::new();
    engine(store, &mut out);
    (out, store.revision)
}

fn tried(trial: Trial, count: u64) {
    for seed in 0..count {
        if let Err(failure) = try_seed(trial, seed) {
            panic!("{failure:#?}");
        }
    }
}

#[test]
fn histories_equal_the_model() {
    tried(Trial::History, 400);
}

#[test]
fn a_host_with_one_order_survives_faults() {
    tried(Trial::Up, 300);
}

#[test]
fn a_host_without_order_survives_faults() {
    tried(Trial::Attach, 300);
}

#[test]
fn two_schedules_end_alike() {
    tried(Trial::Schedules, 60);
}

/// Carries out everything; tells how many writes it took.
fn drain(store: &mut SimulatedStore) -> usize {
    let mut out = Vec::new();
    let mut engine = engine(store, &mut out);
    let mut writes = 0;
    while !out.is_empty() {
        for intent in std::mem::take(&mut out) {
            let OwnershipIntent::Write(write) = intent else { continue };
            if !engine.current(write.id) {
                continue;
            }
            writes += 1;
            let from = store.log.len();
            store.apply(&write.key.uid, &write.action);
            for (revision, event) in store.log.split_off(from) {
                store::feed(&mut engine, revision, &event, &mut out);
            }
            let applied = tenure_ownership::WriteOutcome::Applied(Revision(store.revision));
            engine.outcome(write.id, &applied, &mut out);
        }
    }
    writes
}

#[test]
fn l7_a_wide_owner_takes_one_write_for_each_dependent() {
    for (policy, more) in [
        (DeletionPropagation::Foreground, 1),
        (DeletionPropagation::Background, 0),
        (DeletionPropagation::Orphan, 1),
    ] {
        let mut store = SimulatedStore::new();
        store.write(thing("owner", &[]));
        for number in 0..5_000 {
            store.write(thing(&format!("d{number}"), &["owner"]));
        }
        store.delete("owner", policy);
        store.log.clear();
        assert_eq!(drain(&mut store), 5_000 + more, "{policy:?}");
        assert_eq!(
            store.things.len(),
            if policy == DeletionPropagation::Orphan { 5_000 } else { 0 }
        );
    }
}

#[test]
fn l7_a_deep_chain_takes_two_writes_for_each_object() {
    let mut store = SimulatedStore::new();
    store.write(thing("c0", &[]));
    for number in 1..=20_000 {
        store.write(thing(&format!("c{number}"), &[&format!("c{}", number - 1)]));
    }
    store.delete("c0", DeletionPropagation::Foreground);
    store.log.clear();
    // The first is deleted by its client, the last has no dependents and goes at once.
    assert_eq!(drain(&mut store), 40_000);
    assert!(store.things.is_empty());
}

#[test]
fn l2_a_ring_of_twenty_thousand_drains_with_one_opening() {
    let mut store = SimulatedStore::new();
    let count = 20_000;
    for number in 0..count {
        store.write(thing(&format!("c{number}"), &[&format!("c{}", (number + count - 1) % count)]));
    }
    store.delete("c0", DeletionPropagation::Foreground);
    store.log.clear();
    assert_eq!(drain(&mut store), 2 * count);
    assert!(store.things.is_empty());
}
