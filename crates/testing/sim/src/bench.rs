//! Measures of the engine alone, printed for people.

use std::time::{Duration, Instant};

use tenure_core::Revision;
use tenure_ownership::{Engine, Finalizers, Intent, Object, Order, Outcome, Owner, Resource, Type};

/// One object of the load.
struct Load {
    uid: String,
    name: String,
}

fn uid(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-{:04x}-4000-8000-{number:012x}", mixed >> 32, (mixed >> 16) & 0xffff)
}

fn engine() -> (Engine, Resource) {
    let mut engine = Engine::new(Order::Total, 7);
    let resource = engine.resource("", "configmaps");
    let row = Type {
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

fn put(
    engine: &mut Engine,
    resource: Resource,
    load: &Load,
    owner: Option<&Load>,
    revision: u64,
    state: (bool, Finalizers),
    out: &mut Vec<Intent>,
) {
    let owner = owner.map(|owner| Owner {
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
        name: &load.name,
        uid: &load.uid,
        revision: Revision(revision),
        terminating: state.0,
        finalizers: state.1,
        owners: owner.as_slice(),
    };
    engine.put(&object, out);
}

/// A measure of the time this thread had a processor, so that a busy machine does not spoil it.
struct Clock {
    begin: Instant,
    used: Option<u64>,
}

impl Clock {
    fn start() -> Clock {
        Clock { begin: Instant::now(), used: Clock::used() }
    }

    fn used() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split(' ').next()?.parse().ok()
    }

    fn elapsed(&self) -> Duration {
        match (self.used, Clock::used()) {
            (Some(from), Some(to)) if to > from => Duration::from_nanos(to - from),
            _ => self.begin.elapsed(),
        }
    }
}

/// Memory in use by this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

const LIVE: (bool, Finalizers) =
    (false, Finalizers { orphan: false, foreground: false, other: false });
const WAITING: (bool, Finalizers) =
    (true, Finalizers { orphan: false, foreground: true, other: false });

/// Prints every measure.
pub fn run() {
    load();
    wide(5_000);
    wide(100_000);
    deep(500);
    deep(100_000);
}

fn loads(count: u64) -> Vec<Load> {
    (0..count).map(|n| Load { uid: uid(n), name: format!("web-{n:07}") }).collect()
}

fn load() {
    let count = 1_000_000;
    let objects = loads(count);
    let (mut engine, resource) = engine();
    let (mut out, before) = (Vec::new(), resident());
    let begin = Clock::start();
    engine.reserve(objects.len());
    for (number, load) in objects.iter().enumerate() {
        // A thousand owners, everybody else has one of them.
        let owner = (number >= 1000).then(|| &objects[number % 1000]);
        put(&mut engine, resource, load, owner, number as u64 + 1, LIVE, &mut out);
    }
    engine.synced(Revision(count), &mut out);
    let took = begin.elapsed();
    let bytes = (resident() - before) / count;
    println!("load: {count} objects in {} ms, {bytes} bytes each", took.as_millis());
    assert!(out.is_empty(), "nothing is wanted");
    let begin = Clock::start();
    for (number, load) in objects.iter().enumerate() {
        let owner = (number >= 1000).then(|| &objects[number % 1000]);
        put(&mut engine, resource, load, owner, count + number as u64, LIVE, &mut out);
    }
    let each = begin.elapsed().as_nanos() / u128::from(count);
    println!("update without ownership, all of a million in turn: {each} ns");
    let begin = Clock::start();
    for round in 0..100 {
        for (number, load) in objects.iter().enumerate().skip(5_000).take(10_000) {
            let owner = &objects[number % 1000];
            let revision = 2 * count + 10_000 * round + number as u64;
            put(&mut engine, resource, load, Some(owner), revision, LIVE, &mut out);
        }
    }
    let each = begin.elapsed().as_nanos() / 1_000_000;
    println!("update without ownership, ten thousand again and again: {each} ns");
    let begin = Clock::start();
    for (number, load) in objects.iter().enumerate().skip(1000) {
        let owner = &objects[(number + 1) % 1000];
        put(&mut engine, resource, load, Some(owner), 4 * count + number as u64, LIVE, &mut out);
    }
    let rate = (count - 1000) as f64 / begin.elapsed().as_secs_f64();
    println!("changes of owner: {rate:.0} a second");
    let begin = Clock::start();
    for (number, load) in objects.iter().enumerate().skip(1000) {
        engine.gone(&load.uid, Revision(6 * count + number as u64), &mut out);
    }
    let rate = (count - 1000) as f64 / begin.elapsed().as_secs_f64();
    println!("removals: {rate:.0} a second");
    assert!(out.is_empty(), "nothing is wanted");
}

fn wide(count: usize) {
    let objects = loads(count as u64 + 1);
    let (mut engine, resource) = engine();
    let mut out = Vec::new();
    for load in &objects {
        let owner = (load.uid != objects[0].uid).then(|| &objects[0]);
        put(&mut engine, resource, load, owner, 1, LIVE, &mut out);
    }
    engine.synced(Revision(1), &mut out);
    let begin = Clock::start();
    put(&mut engine, resource, &objects[0], None, 2, WAITING, &mut out);
    let steps = drain(&mut engine, resource, &objects, &mut out);
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "foreground, {count} dependents: {:.1} ms, {steps} writes, {:.0} objects a second",
        seconds * 1e3,
        count as f64 / seconds
    );
}

fn deep(count: usize) {
    let objects = loads(count as u64 + 1);
    let (mut engine, resource) = engine();
    let mut out = Vec::new();
    for (number, load) in objects.iter().enumerate() {
        let owner = number.checked_sub(1).map(|above| &objects[above]);
        put(&mut engine, resource, load, owner, 1, LIVE, &mut out);
    }
    engine.synced(Revision(1), &mut out);
    let begin = Clock::start();
    put(&mut engine, resource, &objects[0], None, 2, WAITING, &mut out);
    let steps = drain(&mut engine, resource, &objects, &mut out);
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "foreground, chain of {count}: {:.1} ms, {steps} writes, {:.0} objects a second",
        seconds * 1e3,
        count as f64 / seconds
    );
}

/// Carries out every write at once, as a host with one order would.
fn drain(
    engine: &mut Engine,
    resource: Resource,
    objects: &[Load],
    out: &mut Vec<Intent>,
) -> usize {
    let number = |uid: &str| usize::from_str_radix(uid.rsplit('-').next().unwrap_or("0"), 16);
    let (mut revision, mut steps) = (2, 0);
    while !out.is_empty() {
        for intent in std::mem::take(out) {
            let Intent::Write(write) = intent else { continue };
            revision += 1;
            steps += 1;
            let at = number(&write.key.uid).unwrap_or_default();
            match &write.action {
                tenure_ownership::Action::Delete(tenure_ownership::Policy::Foreground) => {
                    let owner = &objects[at - 1];
                    put(engine, resource, &objects[at], Some(owner), revision, WAITING, out);
                }
                _ => engine.gone(&write.key.uid, Revision(revision), out),
            }
            engine.outcome(write.id, &Outcome::Applied(Revision(revision)), out);
        }
    }
    assert!(engine.is_empty(), "everything is gone");
    steps
}
