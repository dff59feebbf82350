//! Retention: the engine alone, and on a running server the time from a change of a template until the
//! owner lists are right.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};
use tenure_core::Revision;
use tenure_retention::{
    OwnerEntry, RetentionEngine, RetentionEngineSettings, RetentionIntent, RetentionSubject,
    RetentionUser, SubjectKind, UserKind,
};

use super::measure::{CLIENTS, Measure, OBJECTS, middle, milliseconds, resident};

const ROOTS: usize = 1000;
const REVISIONS: usize = 11;
const SUBJECTS: usize = 3;
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// Revisions of each Deployment on the server, each with a ConfigMap of its own.
const ROLLOUTS: usize = 10;
const CHANGES: usize = 20;

/// A thousand Deployments with eleven revisions that mention three subjects each.
struct Estate {
    holders: Vec<(String, String, usize)>,
    subjects: Vec<(String, String)>,
}

impl Estate {
    fn new() -> Estate {
        let uid = |kind: usize, number: usize| {
            let mixed = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!("{:08x}-{kind:04x}-4000-8000-{number:012x}", mixed >> 32)
        };
        let holders = (0..ROOTS * REVISIONS).map(|number| {
            let root = number / REVISIONS;
            (format!("web-{root}-{:010}", number % REVISIONS), uid(1, number), root)
        });
        let subjects = (0..ROOTS * SUBJECTS).map(|number| {
            (format!("settings-{}-{}", number / SUBJECTS, number % SUBJECTS), uid(2, number))
        });
        Estate { holders: holders.collect(), subjects: subjects.collect() }
    }

    fn put_holder(
        &self,
        engine: &mut RetentionEngine,
        (name, uid, root): &(String, String, usize),
    ) {
        let mentioned = self.subjects.iter().skip(root * SUBJECTS).take(SUBJECTS);
        let references: Vec<(SubjectKind, &str)> =
            mentioned.map(|(name, _)| (SubjectKind::ConfigMap, name.as_str())).collect();
        let user = RetentionUser {
            kind: UserKind::ReplicaSet,
            name,
            uid,
            terminating: false,
            controller: None,
            references: &references,
            pulls: &[],
        };
        engine.put_user("default", &user);
    }

    fn put_subjects(&self, engine: &mut RetentionEngine, owned: bool) {
        for (number, (name, uid)) in self.subjects.iter().enumerate() {
            let holders = self.holders.iter().skip(number / SUBJECTS * REVISIONS).take(REVISIONS);
            let owners: Vec<OwnerEntry<'_>> = holders
                .filter(|_| owned)
                .map(|(_, uid, _)| OwnerEntry { uid, managed: true })
                .collect();
            let subject = RetentionSubject {
                kind: SubjectKind::ConfigMap,
                name,
                uid,
                revision: Revision(1 + u64::from(owned)),
                terminating: false,
                opted_in: true,
                owners: &owners,
            };
            engine.put_subject("default", &subject);
        }
    }
}

/// The engine alone.
pub(super) fn engine() -> Result<Vec<Measure>> {
    let estate = Estate::new();
    let before = resident()?;
    let mut engine = RetentionEngine::new(RetentionEngineSettings::default());
    estate.holders.iter().for_each(|holder| estate.put_holder(&mut engine, holder));
    estate.put_subjects(&mut engine, false);
    estate.put_subjects(&mut engine, true);
    #[expect(clippy::cast_precision_loss, reason = "bytes need few digits")]
    let bytes = resident()?.saturating_sub(before) as f64 / (ROOTS * REVISIONS * SUBJECTS) as f64;
    engine.plan(1, &mut Vec::new());
    let mut full = RetentionEngine::new(RetentionEngineSettings::default());
    estate.holders.iter().for_each(|holder| estate.put_holder(&mut full, holder));
    estate.put_subjects(&mut full, false);
    let begin = Instant::now();
    let mut out = Vec::new();
    full.plan(0, &mut out);
    let planned = milliseconds(begin.elapsed());
    let added = |intent: &RetentionIntent| match intent {
        RetentionIntent::Edit { add, .. } => add.len(),
        _ => 0,
    };
    let pairs: usize = out.iter().map(added).sum();
    ensure!(pairs == ROOTS * REVISIONS * SUBJECTS, "{pairs} entries were planned");
    let mut times = Vec::new();
    for root in 0..ROOTS {
        let holder = (format!("web-{root}-new"), format!("new-{root}"), root);
        let begin = Instant::now();
        estate.put_holder(&mut engine, &holder);
        let mut out = Vec::new();
        engine.plan(10_000, &mut out);
        times.push(begin.elapsed());
        ensure!(black_box(out).len() == SUBJECTS, "a new holder owns what it mentions");
    }
    times.sort_unstable();
    // The slowest few of a thousand met something else on the machine.
    let slow = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    Ok(vec![
        Measure::at_most("retention: full plan, 33,000 pairs", 100.0, planned, "ms"),
        Measure::at_most("retention: plan for one event, 99 of 100", 1.0, milliseconds(slow), "ms"),
        Measure::at_most("retention: memory of a pair", 300.0, bytes, "bytes"),
    ])
}

/// A running server with ten thousand ConfigMaps and a thousand Deployments of ten revisions.
pub(super) async fn settles() -> Result<Vec<Measure>> {
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    let access = server.access()?;
    many(&access, ROOTS * ROLLOUTS, |number| ("POST", OBJECTS.to_owned(), subject(number))).await?;
    many(&access, ROOTS, |root| ("POST", DEPLOYMENTS.to_owned(), deployment(root, 0))).await?;
    let mut connection = access.connect().await?;
    settle(&mut connection).await?;
    for rollout in 1..ROLLOUTS {
        let change = move |root| {
            let path = format!("{DEPLOYMENTS}/web-{root}");
            ("PUT", path, deployment(root, root * ROLLOUTS + rollout))
        };
        many(&access, ROOTS, change).await?;
        settle(&mut connection).await?;
    }
    let mut times = Vec::new();
    for change in 0..CHANGES {
        // A ConfigMap that only another Deployment mentions so far.
        let (root, number) = (change * 7, (ROOTS - 1 - change) * ROLLOUTS);
        let (path, body) = (format!("{DEPLOYMENTS}/web-{root}"), deployment(root, number));
        let begin = Instant::now();
        let answer = connection.send("PUT", &path, Some(body.as_bytes())).await?;
        ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
        while owners(&mut connection, number).await? < 2 {
            ensure!(begin.elapsed() < Duration::from_secs(5), "the new revision does not own it");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        times.push(begin.elapsed());
        settle(&mut connection).await?;
        let owners = owners(&mut connection, number).await?;
        ensure!(owners == 2, "{owners} revisions own it");
    }
    let time = middle(&mut times);
    eprintln!("  {} MB", server.peak_bytes()? / 1_000_000);
    let name = "retention: a template changes among 10,000 ConfigMaps, lists right";
    Ok(vec![Measure::at_most(name, 50.0, milliseconds(time), "ms")])
}

/// How many revisions own a ConfigMap.
async fn owners(connection: &mut Connection, number: usize) -> Result<usize> {
    let subject = connection.send("GET", &format!("{OBJECTS}/settings-{number}"), None).await?;
    let object = subject.json()?;
    let owners = object.pointer("/metadata/ownerReferences");
    Ok(owners.and_then(|list| list.as_array().map(Vec::len)).unwrap_or_default())
}

async fn settle(connection: &mut Connection) -> Result<Duration> {
    let begin = Instant::now();
    let answer = connection.send("POST", "/tenure/settle", None).await?;
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    Ok(begin.elapsed())
}

fn subject(number: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"settings-{number}"}},"controllersAsOwners":true,"data":{{"k":"v"}}}}"#
    )
}

/// A Deployment without pods, whose template mentions one ConfigMap.
fn deployment(root: usize, subject: usize) -> String {
    let subject = if subject == 0 { root * ROLLOUTS } else { subject };
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web-{root}"}},"spec":{{"replicas":0,"selector":{{"matchLabels":{{"app":"web-{root}"}}}},"template":{{"metadata":{{"labels":{{"app":"web-{root}"}}}},"spec":{{"containers":[{{"name":"c","image":"example.com/app:v1","envFrom":[{{"configMapRef":{{"name":"settings-{subject}"}}}}]}}]}}}}}}}}"#
    )
}

/// Sends numbered requests from all clients.
async fn many(
    access: &Access,
    count: usize,
    make: impl Fn(usize) -> (&'static str, String, String) + 'static,
) -> Result<()> {
    let (next, make) = (Rc::new(Cell::new(0)), Rc::new(make));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection = access.connect().await?;
        let (next, make) = (Rc::clone(&next), Rc::clone(&make));
        clients.push(tokio::task::spawn_local(async move {
            while next.get() < count {
                let number = next.get();
                next.set(number + 1);
                let (verb, path, body) = make(number);
                let answer = connection.send(verb, &path, Some(body.as_bytes())).await?;
                ensure!(answer.code < 300, "{}", String::from_utf8_lossy(&answer.body));
            }
            Ok::<(), anyhow::Error>(())
        }));
    }
    for client in clients {
        client.await??;
    }
    Ok(())
}
