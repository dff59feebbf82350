//! Referential authorization, the engine alone: decisions of all kinds on the spec's scale and beside a
//! million origins, what a change costs until readers see it, and what an edge costs in memory.

mod beside;
mod world;

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_reference::{Attributes, CapabilityView, Index, IndexEvent, Outputs};

use super::measure::{Measure, middle, resident};
use world::{
    CONSUMERS, GRANTS, NAMESPACES, four, gateway, grant, place, put, resource, secret, user, world,
};

const ORIGINS_FEW: usize = 10_000;
const ORIGINS_MANY: usize = 1_000_000;
/// As many as Kubernetes' own measure of such an index has, in one namespace, with one Secret for all.
const ORIGINS_SHARING: usize = 5_000;
const BATCH: usize = 100;
const BATCHES: usize = 2_000;
const WRITES: usize = 20_000;
/// Decisions that are timed one by one.
const SINGLES: usize = 200_000;
/// The size of the object that is told as bytes.
const BYTES: usize = 4_096;

/// Takes every measure of the engine.
pub(super) fn engine() -> Result<Vec<Measure>> {
    let (mut few, _) = world(ORIGINS_FEW)?;
    let mut measures = decisions(&mut few, ORIGINS_FEW, &FEW)?;
    measures.push(maintenance()?);
    let before = resident()?;
    let (mut index, built) = world(ORIGINS_MANY)?;
    let bytes = resident()?.saturating_sub(before);
    let edges = index.stats().edges;
    ensure!(edges == 2 * ORIGINS_MANY, "{edges} edges");
    #[expect(clippy::cast_precision_loss, reason = "bytes of an edge need few digits")]
    let per_edge = bytes as f64 / edges as f64;
    let name = "reference: 1,000,000 origins indexed";
    measures.push(Measure::at_most(name, 5.0, built.as_secs_f64(), "s"));
    let name = "reference: memory of an edge, both views";
    measures.push(Measure::at_most(name, 150.0, per_edge, "bytes"));
    measures.extend(writes(&mut index)?);
    measures.push(from_bytes(&mut index)?);
    measures.extend(decisions(&mut index, ORIGINS_MANY, &MANY)?);
    measures.extend(rates(&mut index)?);
    measures.extend(beside::events(index)?);
    measures.extend(beside::strategy_change()?);
    Ok(measures)
}

/// The names of the decisions that are measured.
type Names = [&'static str; 4];
const FEW: Names = [
    "reference: allow, 100 strategies, 5,000 grants",
    "reference: allow, random targets",
    "reference: deny, a consumer",
    "reference: deny, no consumer",
];
const MANY: Names = [
    "reference: allow, 1,000,000 origins",
    "reference: allow, 1,000,000 origins, random targets",
    "reference: deny, 1,000,000 origins, a consumer",
    "reference: deny, 1,000,000 origins, no consumer",
];

/// Who asks for what.
struct Asking {
    users: Vec<String>,
    places: Vec<String>,
    /// What names of targets start with.
    prefix: &'static str,
}

impl Asking {
    /// Consumers who ask for what they may have.
    fn reader() -> Asking {
        let (users, places) = ((0..CONSUMERS).map(user), (0..NAMESPACES).map(place));
        Asking { users: users.collect(), places: places.collect(), prefix: "tls-" }
    }

    /// Consumers who ask for what nobody points at.
    fn denied() -> Asking {
        Asking { prefix: "not-", ..Asking::reader() }
    }

    fn stranger() -> Asking {
        Asking { users: vec!["stranger".into()], ..Asking::reader() }
    }

    /// The request for the target of a number and a name, `tls-0000017`, by the user who may have it.
    fn asked<'a>(&'a self, number: usize, name: &'a str) -> Attributes<'a> {
        let user = self.users.get(number % self.users.len()).map(String::as_str);
        let namespace = self.places.get(number % NAMESPACES).map(String::as_str);
        Attributes {
            user: user.unwrap_or_default(),
            groups: &[],
            verb: "get",
            group: "",
            resource: "secrets",
            subresource: "",
            namespace: namespace.unwrap_or_default(),
            name,
        }
    }
}

/// Decisions of four kinds on a published view.
fn decisions(index: &mut Index, origins: usize, names: &Names) -> Result<Vec<Measure>> {
    let view = index.publish();
    let (reader, denied, stranger) = (Asking::reader(), Asking::denied(), Asking::stranger());
    let rows = [
        (&reader, 1, true, 80.0),
        (&reader, origins, true, 300.0),
        (&denied, origins, false, 100.0),
        (&stranger, origins, false, 40.0),
    ];
    let mut measures = Vec::new();
    for ((asking, many, expected, limit), name) in rows.into_iter().zip(names) {
        let median = median(&view, asking, many, expected)?;
        measures.push(Measure::at_most(name, limit, median, "ns"));
    }
    Ok(measures)
}

/// What a decision takes: the median of batches, each asking for random ones of so many targets.
///
/// A batch is timed as a whole because reading the clock takes as long as a decision. Its requests are
/// written before the clock starts: whoever decides has just read one. Beside a million origins a batch's
/// targets are so far apart that none is near because of another; the processor may start on a decision
/// while the one before waits for memory, as it does in a busy server.
fn median(view: &CapabilityView, asking: &Asking, many: usize, expected: bool) -> Result<f64> {
    let mut mixed = 7_u64;
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let numbers: Vec<usize> = (0..BATCH)
            .map(|_| {
                mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                usize::try_from(mixed >> 33).unwrap_or_default() % many
            })
            .collect();
        let names: Vec<String> =
            numbers.iter().map(|number| format!("{}{number:07}", asking.prefix)).collect();
        let asked: Vec<Attributes<'_>> =
            numbers.iter().zip(&names).map(|(number, name)| asking.asked(*number, name)).collect();
        let begin = Instant::now();
        let allowed =
            asked.iter().filter(|asked| view.decide(black_box(asked)).is_allowed()).count();
        times.push(begin.elapsed());
        ensure!(allowed == if expected { BATCH } else { 0 }, "{allowed} of {BATCH} allowed");
    }
    Ok(middle(&mut times).as_secs_f64() * 1e9 / 100.0)
}

/// What `BenchmarkWriteIndexMaintenance` of the Node authorizer does: many origins of four references share
/// one target, and one of them is written. There it is the same one as before; here each write changes a
/// reference, and every origin has its turn.
fn maintenance() -> Result<Measure> {
    let (mut index, _) = world(0)?;
    let mut out = Outputs::default();
    let name =
        |number: usize| [resource(0), place(0), format!("pod-{:07}", number % ORIGINS_SHARING)];
    let object = |number: usize, last: &str| {
        let own = |part: &str| format!("{part}-{:07}", number % ORIGINS_SHARING);
        gateway(&["shared".to_owned(), own("a"), own("b"), format!("{last}-{number:07}")])
    };
    for number in 0..ORIGINS_SHARING {
        put(&mut index, &name(number), &object(number, "c"), &mut out);
    }
    let mut front = index.publish();
    let mut times = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        let (name, object) = (name(number), object(number, "d"));
        let begin = Instant::now();
        put(&mut index, &name, &object, &mut out);
        front = index.publish();
        times.push(begin.elapsed());
    }
    let edges = index.stats().edges;
    ensure!(edges == 4 * ORIGINS_SHARING, "{edges} edges");
    drop(front);
    let micros = middle(&mut times).as_secs_f64() * 1e6;
    let name = "reference: an origin of 4 references changes one, seen, 5,000 origins";
    Ok(Measure::at_most(name, 2.0, micros, "µs"))
}

/// Changes one at a time, each until readers have it; the middle of many, because tables grow now and then.
fn writes(index: &mut Index) -> Result<Vec<Measure>> {
    let mut front = index.publish();
    let mut out = Outputs::default();
    let mut origins = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        let object = gateway(&four(number));
        let name = [resource(number), place(number), format!("four-{number}")];
        let begin = Instant::now();
        put(index, &name, &object, &mut out);
        front = index.publish();
        origins.push(begin.elapsed());
    }
    let (user, namespace) = (user(0), place(0));
    let seen = front
        .live_targets(&user, &[])
        .any(|target| (target.namespace, &*target.name) == (namespace.as_str(), "four-0-0"));
    ensure!(seen, "the writes are seen");
    let mut granted = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        let grant = grant(GRANTS + number, 16);
        let begin = Instant::now();
        index.apply(IndexEvent::PutGrant(grant), &mut out);
        front = index.publish();
        granted.push(begin.elapsed());
    }
    drop(front);
    let each = |times: &mut [Duration]| middle(times).as_secs_f64() * 1e6;
    let (origins, granted) = (each(&mut origins), each(&mut granted));
    Ok(vec![
        Measure::at_most("reference: a new origin of 4 references, seen", 2.0, origins, "µs"),
        Measure::at_most("reference: a grant of 16 names, seen", 5.0, granted, "µs"),
    ])
}

/// An origin of four references as a host gets it, in bytes, until readers see it.
fn from_bytes(index: &mut Index) -> Result<Measure> {
    let mut out = Outputs::default();
    let mut front = index.publish();
    let mut times = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        let secrets = [0, 1, 2, 3].map(|n| format!("bytes-{number}-{n}"));
        let bytes = large_gateway(&secrets)?;
        let name = [resource(number), place(number), format!("bytes-{number}")];
        let begin = Instant::now();
        let object: Value = serde_json::from_slice(&bytes)?;
        put(index, &name, &object, &mut out);
        front = index.publish();
        times.push(begin.elapsed());
    }
    drop(front);
    let name = "reference: a Gateway of 4 KiB from its bytes, seen";
    Ok(Measure::at_most(name, 25.0, middle(&mut times).as_secs_f64() * 1e6, "µs"))
}

/// A Gateway that says what most say, and is as large as one that says much.
fn large_gateway(secrets: &[String]) -> Result<Vec<u8>> {
    let mut object = gateway(secrets);
    let conditions: Vec<Value> = ["Accepted", "Programmed", "ResolvedRefs", "Conflicted"]
        .iter()
        .map(|kind| {
            json!({
                "type": kind, "status": "True", "reason": kind, "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "as it should be",
            })
        })
        .collect();
    let listeners: Vec<Value> = (0..4)
        .map(|n| json!({ "name": format!("https-{n}"), "attachedRoutes": 7, "conditions": &conditions }))
        .collect();
    let root = object.as_object_mut().context("an object")?;
    root.insert("status".into(), json!({ "conditions": &conditions, "listeners": listeners }));
    root.insert("metadata".into(), json!({ "name": "web", "annotations": { "note": "" } }));
    let missing = BYTES.checked_sub(serde_json::to_vec(&object)?.len()).context("too large")?;
    let note = object.pointer_mut("/metadata/annotations/note").context("the note")?;
    *note = Value::String("n".repeat(missing));
    let bytes = serde_json::to_vec(&object)?;
    ensure!(bytes.len() == BYTES, "{} bytes", bytes.len());
    Ok(bytes)
}

/// What the slowest of many decisions take, and how many of all kinds a core takes in a second.
fn rates(index: &mut Index) -> Result<Vec<Measure>> {
    let view = index.publish();
    let reader = Asking::reader();
    let p99 = slowest(&reader, SINGLES, |asked| view.decide(asked).is_allowed())?;
    let (denied, stranger) = (Asking::denied(), Asking::stranger());
    let kinds =
        [(&reader, 1), (&reader, ORIGINS_MANY), (&denied, ORIGINS_MANY), (&stranger, ORIGINS_MANY)];
    let mut seconds = 0.0;
    for (asking, many) in kinds {
        let expected = asking.prefix == "tls-" && asking.users.len() > 1;
        seconds += median(&view, asking, many, expected)? / 1e9;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate needs few digits")]
    let rate = kinds.len() as f64 / seconds;
    let name = "reference: allow, 1,000,000 origins, random targets, p99";
    Ok(vec![
        Measure::at_most(name, 1_000.0, p99, "ns"),
        Measure::at_least("reference: decisions of a core, the four kinds in turn", 5e6, rate),
    ])
}

/// The 99th percentile of decisions about random targets, in nanoseconds, each timed alone: nothing of one overlaps with the next. What reading the
/// clock takes is taken off.
fn slowest(
    asking: &Asking,
    count: usize,
    mut decide: impl FnMut(&Attributes<'_>) -> bool,
) -> Result<f64> {
    let clock = |_| {
        let begin = Instant::now();
        begin.elapsed()
    };
    let clock = middle(&mut (0..1_000).map(clock).collect::<Vec<_>>());
    let mut mixed = 7_u64;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = usize::try_from(mixed >> 33)? % ORIGINS_MANY;
        let name = secret(number);
        let asked = asking.asked(number, &name);
        let begin = Instant::now();
        let allowed = decide(black_box(&asked));
        times.push(begin.elapsed().saturating_sub(clock));
        ensure!(allowed, "{name} is not allowed");
    }
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).context("no decisions")?;
    Ok(p99.as_secs_f64() * 1e9)
}
