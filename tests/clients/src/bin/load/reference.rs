//! Referential authorization, the engine alone: decisions of all kinds on the spec's scale and beside a
//! million origins, what a change costs until readers see it, and what an edge costs in memory.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_reference::path::Path;
use tenure_reference::{
    Attributes, Consumer, Event, Finder, Grant, Index, Kind, Origin, OriginName, Outputs,
    ReferencePath, Resource, ServedType, Strategy, Subject, Synced, Triple, VersionPaths, View,
};

use super::measure::{Measure, resident};

const CONSUMERS: usize = 100;
const STRATEGIES: usize = 100;
const GRANTS: usize = 5_000;
const ORIGINS_FEW: usize = 10_000;
const ORIGINS_MANY: usize = 1_000_000;
/// As many as Kubernetes' own measure of such an index has, in one namespace, with one Secret for all.
const ORIGINS_SHARING: usize = 5_000;
const NAMESPACES: usize = 1_000;
const BATCH: usize = 100;
const BATCHES: usize = 2_000;
const WRITES: usize = 20_000;
/// How many objects are made at once: few, because a host has just read what it tells.
const CHUNK: usize = 100;
const GROUP: &str = "gateway.networking.k8s.io";

/// Takes every measure of the engine.
pub(super) fn engine() -> Result<Vec<Measure>> {
    let (few, _) = world(ORIGINS_FEW)?;
    let mut measures = decisions(few, ORIGINS_FEW, &FEW)?;
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
    measures.extend(decisions(index, ORIGINS_MANY, &MANY)?);
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
fn decisions(mut index: Index, origins: usize, names: &Names) -> Result<Vec<Measure>> {
    let view = index.publish();
    let places: Vec<String> = (0..NAMESPACES).map(place).collect();
    let users: Vec<String> = (0..CONSUMERS).map(user).collect();
    let consumer = |prefix| Asking { users: users.clone(), places: places.clone(), prefix };
    let (reader, denied) = (consumer("tls-"), consumer("not-"));
    let stranger = Asking { users: vec!["stranger".into()], ..consumer("tls-") };
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
fn median(view: &View, asking: &Asking, many: usize, expected: bool) -> Result<f64> {
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
    Ok(super::measure::middle(&mut times).as_secs_f64() * 1e9 / 100.0)
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
    let micros = super::measure::middle(&mut times).as_secs_f64() * 1e6;
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
        .any(|target| (target.namespace, target.name) == (namespace.as_str(), "four-0-0"));
    ensure!(seen, "the writes are seen");
    let mut granted = Vec::with_capacity(WRITES);
    for number in 0..WRITES {
        let grant = grant(GRANTS + number, 16);
        let begin = Instant::now();
        index.apply(Event::PutGrant(grant), &mut out);
        front = index.publish();
        granted.push(begin.elapsed());
    }
    drop(front);
    let each = |times: &mut [Duration]| super::measure::middle(times).as_secs_f64() * 1e6;
    let (origins, granted) = (each(&mut origins), each(&mut granted));
    Ok(vec![
        Measure::at_most("reference: a new origin of 4 references, seen", 2.0, origins, "µs"),
        Measure::at_most("reference: a grant of 16 names, seen", 5.0, granted, "µs"),
    ])
}

/// The world of the spec with so many origins of two references each, all to targets of their own.
fn world(origins: usize) -> Result<(Index, Duration)> {
    let mut index = Index::new(7);
    let mut out = Outputs::default();
    index.apply(Event::Served(served()), &mut out);
    for number in 0..STRATEGIES {
        index.apply(Event::PutStrategy(strategy(number)?), &mut out);
    }
    for number in 0..CONSUMERS {
        index.apply(Event::PutConsumer(consumer(number)), &mut out);
    }
    for number in 0..GRANTS {
        index.apply(Event::PutGrant(grant(number, 1)), &mut out);
    }
    let mut built = Duration::ZERO;
    for chunk in 0..origins / CHUNK {
        let numbers = chunk * CHUNK..(chunk + 1) * CHUNK;
        let objects: Vec<([String; 3], Value)> = numbers
            .map(|number| {
                let name = [resource(number), place(number), format!("web-{number:07}")];
                (name, gateway(&[secret(number), format!("ca-{number:07}")]))
            })
            .collect();
        let begin = Instant::now();
        for (name, object) in &objects {
            put(&mut index, name, object, &mut out);
        }
        built += begin.elapsed();
    }
    let begin = Instant::now();
    for kind in [Kind::Consumer, Kind::Strategy, Kind::Grant] {
        index.apply(Event::Synced(Synced::Kind(kind)), &mut out);
    }
    for number in 0..STRATEGIES {
        let resource = &resource(number);
        let synced = Synced::Origins { group: GROUP, resource, version: "v1" };
        index.apply(Event::Synced(synced), &mut out);
    }
    let view: Arc<View> = index.publish();
    drop(view);
    built += begin.elapsed();
    Ok((index, built))
}

/// An origin: its resource, namespace and name, and what it says.
fn put(index: &mut Index, name: &[String; 3], object: &Value, out: &mut Outputs) {
    let [resource, namespace, name] = name;
    let name = OriginName { group: GROUP, resource, namespace, name };
    index.apply(Event::PutOrigin(Origin { name, version: "v1", object }), out);
}

fn user(number: usize) -> String {
    format!("system:serviceaccount:system-{0}:gateway-{0}", number % CONSUMERS)
}

fn place(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

fn secret(number: usize) -> String {
    format!("tls-{number:07}")
}

fn four(number: usize) -> [String; 4] {
    [0, 1, 2, 3].map(|n| format!("four-{number}-{n}"))
}

fn resource(number: usize) -> String {
    format!("gateways{}", number % STRATEGIES)
}

fn gateway(secrets: &[String]) -> Value {
    let listeners: Vec<Value> = secrets
        .iter()
        .map(|name| {
            let reference = json!({ "group": "", "kind": "Secret", "name": name });
            json!({ "name": "https", "port": 443, "tls": { "certificateRefs": [reference] } })
        })
        .collect();
    json!({ "spec": { "gatewayClassName": "one", "listeners": listeners } })
}

fn served() -> Vec<ServedType> {
    let row = |group: &str, resource: &str, kind: &str| ServedType {
        resource: Resource::new(group, resource),
        kind: kind.into(),
        namespaced: true,
        versions: vec!["v1".into()],
    };
    let origins = (0..STRATEGIES).map(|number| row(GROUP, &resource(number), "Gateway"));
    origins.chain([row("", "secrets", "Secret")]).collect()
}

fn triple(number: usize) -> Triple {
    Triple {
        origin: Resource::new(GROUP, &resource(number)),
        target: Resource::new("", "secrets"),
        purpose: "tls-serving".into(),
    }
}

fn strategy(number: usize) -> Result<Strategy> {
    let path = "$.spec.listeners[*].tls.certificateRefs[?(@.group=='' && @.kind=='Secret')].name";
    let Triple { origin, target, purpose } = triple(number);
    let reference = ReferencePath {
        finder: Finder::Path(Path::parse(path)?),
        target,
        purpose,
        namespace_path: None,
        allow_cluster_scoped: false,
    };
    let version = VersionPaths {
        version: "v1".into(),
        class_path: Some(Path::parse(".spec.gatewayClassName")?),
        references: vec![reference],
    };
    Ok(Strategy { name: format!("strategy-{number}"), origin, versions: vec![version] })
}

fn consumer(number: usize) -> Consumer {
    let (namespace, name) = (format!("system-{number}"), format!("gateway-{number}"));
    Consumer {
        name: format!("consumer-{number}"),
        subject: Subject::ServiceAccount { namespace, name },
        class_names: vec!["one".into()],
        references: vec![triple(number)],
    }
}

fn grant(number: usize, names: usize) -> Grant {
    let Triple { origin, target, purpose } = triple(number);
    Grant {
        namespace: place(number / 5),
        name: format!("grant-{number}"),
        origin,
        origin_namespace: place(number + 1),
        target,
        names: (0..names).map(|n| format!("shared-{n}")).collect(),
        purpose,
    }
}
