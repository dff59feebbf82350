//! The ownership engine alone: how fast it takes in a million objects, what they cost, how fast it
//! follows changes; and what a change costs that has nothing to do with ownership.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_ownership::{
    ChangeOrder, Finalizers, InternedResource, KindVersion, Object, OwnerView, OwnershipEngine,
};
use tenure_world::{PlainLayout, Record};

use super::measure::{Measure, middle, resident};

const OBJECTS: usize = 1_000_000;
const OWNERS: usize = 1000;
const COMPARED: u32 = 1_000_000;

struct Named {
    uid: String,
    name: String,
}

/// Takes every measure of the engine.
pub(super) fn engine() -> Result<Vec<Measure>> {
    let objects: Vec<Named> = (0..OBJECTS)
        .map(|n| {
            let mixed = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let uid =
                format!("{:08x}-{:04x}-4000-8000-{n:012x}", mixed >> 32, mixed >> 16 & 0xffff);
            Named { uid, name: format!("web-{n:07}") }
        })
        .collect();
    // Each takes about a second, in which others may be busy on the machine: the middle of three.
    let (mut loads, mut changes) = (Vec::new(), Vec::new());
    let (mut wanted, mut bytes) = (0, None);
    for _ in 0..3 {
        let before = resident()?;
        let begin = Instant::now();
        let (mut engine, resource) = empty();
        engine.reserve(objects.len());
        wanted += feed(&mut engine, resource, &objects, 0, 1);
        engine.synced(Revision(OBJECTS as u64), &mut Vec::new());
        loads.push(begin.elapsed());
        // Only the first engine has all its memory from the system.
        bytes.get_or_insert(resident()?.saturating_sub(before));
        let begin = Instant::now();
        // Everybody changes owner, and nobody is without one.
        wanted += feed(&mut engine, resource, &objects, 1, OBJECTS as u64);
        changes.push(begin.elapsed());
    }
    let loaded = middle(&mut loads).as_secs_f64();
    let rate = OBJECTS as f64 / middle(&mut changes).as_secs_f64();
    let bytes = bytes.unwrap_or_default() as f64 / OBJECTS as f64;
    ensure!(wanted == 0, "the engine wants something where nothing is to be done");
    Ok(vec![
        Measure::at_most("engine: 1,000,000 objects loaded", 2.0, loaded, "s"),
        Measure::at_most("engine: memory of an object with an owner", 200.0, bytes, "bytes"),
        Measure::at_least("engine: changes of owner", 1_000_000.0, rate),
        Measure::at_most("a change that does not touch ownership", 100.0, untouched()?, "ns"),
    ])
}

/// An engine that knows ConfigMaps and no object.
fn empty() -> (OwnershipEngine, InternedResource) {
    let mut engine = OwnershipEngine::new(ChangeOrder::Total, 7);
    let resource = engine.resource("", "configmaps");
    let row = KindVersion {
        api_version: "v1",
        kind: "ConfigMap",
        resource,
        namespaced: true,
        collected: true,
        graceful: false,
    };
    engine.types(&[row], &[], Revision(0), &mut Vec::new());
    (engine, resource)
}

/// Puts every object, each with one owner of a thousand; how many intents came of it.
fn feed(
    engine: &mut OwnershipEngine,
    resource: InternedResource,
    objects: &[Named],
    shift: usize,
    revision: u64,
) -> usize {
    let mut out = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let owner = objects.get((number + shift) % OWNERS).filter(|_| number >= OWNERS);
        let owner = owner.map(|owner| OwnerView {
            api_version: "v1",
            kind: "ConfigMap",
            name: &owner.name,
            uid: &owner.uid,
            controller: true,
            block: true,
        });
        let object = Object {
            resource,
            namespace: "default",
            name: &object.name,
            uid: &object.uid,
            revision: Revision(revision + number as u64),
            terminating: false,
            finalizers: Finalizers::default(),
            owners: owner.as_slice(),
        };
        engine.put(&object, &mut out);
    }
    out.len()
}

/// What the collector does with a change of a label of an object with an owner.
fn untouched() -> Result<f64> {
    let record = |label: &str, revision: u64| -> Result<Record> {
        let metadata = json!({
            "name": "web-0000001", "namespace": "default", "uid": "6e1f0e0a-4000-4000-8000-1",
            "labels": { "beat": label }, "resourceVersion": revision.to_string(),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true,
                "uid": "6e1f0e0a-4000-4000-8000-2", "blockOwnerDeletion": true,
            }],
        });
        let metadata = Value::to_string(&metadata);
        let bytes = format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata}}}"#);
        Ok(Record::read(Arc::from("/k"), Revision(revision), bytes.into(), &PlainLayout)?)
    };
    let (one, two) = (record("a", 1)?, record("b", 2)?);
    let begin = Instant::now();
    for _ in 0..COMPARED {
        ensure!(black_box(&one).owned_like(black_box(&two)), "ownership is the same");
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(COMPARED))
}
