//! What follows a write to a namespace: its default objects, and its end (R76, R80; ownership R149–R159).
//!
//! ```text
//!   changes ──► which namespaces moved ──► next(state, namespace) ──► writes through the same door
//! ```
//!
//! [`next`] decides from one immutable state; everything else here carries out.

mod conditions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Interest, Record, World, Write};
use tokio::task::JoinSet;

use crate::accounts;
use crate::aggregate;
use crate::api::Api;
use crate::clock::now;
use crate::define;
use crate::internal::{Wanted, ensure, ensure_all, request};
use crate::own;
use crate::pace::Pace;
use crate::protect;
use crate::reference;
use crate::registry::{Registry, Served};
use crate::sign;
use crate::write::commit::{Extras, draft, propose};
use crate::write::delete::{self, DeleteOptions, Propagation};

pub use conditions::Remaining;

const AGENT: &str = "kube-controller-manager";
const PREFIX: &str = "/registry/namespaces/";
/// Namespaces that every cluster has; they are made again if somebody deletes them (R79).
pub(crate) const SYSTEM_NAMESPACES: [&str; 4] =
    ["default", "kube-system", "kube-public", "kube-node-lease"];
/// How many objects of a namespace are deleted at the same time.
const DELETES_AT_ONCE: usize = 64;
/// How long after a failure the same is tried again; doubled from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Something to look at; in this order where several wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// The server's own objects.
    Own,
    /// A volume, claim or class: protected while it is in use.
    Protect(Arc<str>),
    /// A token of a service account, or the certificate of the authority.
    Account(Arc<str>),
    /// Roles that gather the rules of others.
    Gather,
    /// A definition.
    Define(String),
    /// A request for a certificate.
    Sign(Arc<str>),
    /// A namespace.
    Tend(String),
}

/// Follows the log until the server stops, and tells what authors of references should hear of.
pub async fn run(api: Arc<Api>) {
    tokio::select! {
        () = follow(&api) => {}
        () = reference::tell(&api) => {}
    }
}

async fn follow(api: &Arc<Api>) {
    loop {
        // Everything that stands now is looked at once, then only what moves.
        let state = api.world.current();
        let Ok(mut changes) =
            api.world.watch(state.revision(), Interest::Prefix("/registry/".into()))
        else {
            continue;
        };
        let mut tasks = standing(api, &state);
        let mut failed = BTreeMap::new();
        let mut stop = api.stop.clone();
        let mut pace = Pace::default();
        loop {
            pace.looked(!tasks.is_empty());
            for task in std::mem::take(&mut tasks) {
                perform(api, task, &mut failed).await;
            }
            let pause = failed.values().min().copied().unwrap_or(PAUSE_MAX);
            let ready = tokio::select! {
                ready = pace.ready(&mut changes) => ready,
                () = tokio::time::sleep(pause), if !failed.is_empty() => {
                    tasks.extend(failed.keys().cloned());
                    continue;
                }
                _ = stop.changed() => return,
            };
            if ready.is_err() {
                break;
            }
            while let Ok(Some(change)) = changes.try_next() {
                see(api, &change, &mut tasks);
            }
        }
        if matches!(api.world.status(), tenure_world::Status::Running) {
            continue;
        }
        return;
    }
}

/// What is looked at when following begins.
fn standing(api: &Api, state: &World) -> BTreeSet<Task> {
    let namespaces = state.range(PREFIX, None).map(|record| record.name().to_owned());
    let mut tasks: BTreeSet<Task> = namespaces.map(Task::Tend).collect();
    tasks.extend(protect::all(state).into_iter().map(Task::Protect));
    tasks.extend(accounts::all(state).into_iter().map(Task::Account));
    tasks.extend(define::all(api).into_iter().map(Task::Define));
    tasks.extend(sign::all(state).map(Task::Sign));
    tasks.insert(Task::Gather);
    tasks.insert(Task::Own);
    tasks
}

/// What must be looked at after a change.
fn see(api: &Api, change: &Change, tasks: &mut BTreeSet<Task>) {
    let mut protected = BTreeSet::new();
    protect::touches(&api.world.current(), change, &mut protected);
    let mut kept = BTreeSet::new();
    accounts::touches(&api.world.current(), change, &mut kept);
    tasks.extend(kept.into_iter().map(Task::Account));
    let mut definitions = BTreeSet::new();
    define::touches(api, change, &mut definitions);
    tasks.extend(protected.into_iter().map(Task::Protect));
    tasks.extend(definitions.into_iter().map(Task::Define));
    let mut requests = BTreeSet::new();
    sign::touches(&api.world.current(), change, &mut requests);
    tasks.extend(requests.into_iter().map(Task::Sign));
    tasks.extend(touches(change).map(Task::Tend));
    tasks.extend(aggregate::touches(change).then_some(Task::Gather));
    tasks.extend(own::touches(change).then_some(Task::Own));
}

/// Looks at one thing; what fails is tried again after a pause, what moved comes by as a change.
async fn perform(api: &Arc<Api>, task: Task, failed: &mut BTreeMap<Task, Duration>) {
    let done = match &task {
        Task::Own => own::settle(api).await,
        Task::Protect(key) => protect::settle(api, key).await,
        Task::Account(key) => accounts::settle(api, key).await,
        Task::Gather => aggregate::settle(api).await,
        Task::Define(name) => define::tend(api, name).await,
        Task::Sign(key) => sign::settle(api, key).await,
        Task::Tend(name) => tend(api, name).await,
    };
    match done {
        Ok(()) => drop(failed.remove(&task)),
        Err(failure) => {
            tracing::debug!(?task, reason = %failure.message, "to be tried again");
            let pause = failed.entry(task).or_insert(PAUSE_MIN / 2);
            *pause = (*pause * 2).min(PAUSE_MAX);
        }
    }
}

/// The namespace that may need attention after a change: one that moved, or one that lost an object.
fn touches(change: &Change) -> Option<String> {
    if let Some(name) = change.key.strip_prefix(PREFIX) {
        return Some(name.to_owned());
    }
    if change.after.is_some() {
        return None;
    }
    let namespace = change.before.as_ref()?.namespace();
    (!namespace.is_empty()).then(|| namespace.to_owned())
}

/// What a namespace needs next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Rest,
    /// To be there again: the cluster needs it.
    Restore,
    /// Its default objects.
    Fill,
    /// These objects must go, as (index of the kind, name), of all that is left.
    Delete(Vec<(usize, String)>, Remaining),
    /// Objects are marked and wait for their finalizers.
    Wait(Remaining),
    /// Nothing is left: let it go.
    Finalize,
}

/// Decides what a namespace needs.
#[must_use]
pub fn next(state: &World, registry: &Registry, name: &str) -> Next {
    let Some(namespace) = state.get(&format!("{PREFIX}{name}")) else {
        return if SYSTEM_NAMESPACES.contains(&name) { Next::Restore } else { Next::Rest };
    };
    if !namespace.deleting() {
        let complete = state.get(&format!("/registry/serviceaccounts/{name}/default")).is_some()
            && state.get(&format!("/registry/configmaps/{name}/kube-root-ca.crt")).is_some();
        return if complete { Next::Rest } else { Next::Fill };
    }
    let mut remaining = Remaining::default();
    let mut pods_remain = false;
    let mut pods = Vec::new();
    let mut others = Vec::new();
    for (at, served) in stored_kinds(registry) {
        let is_pod = served.kind.plural == "pods" && served.kind.group.is_empty();
        for record in state.range(&served.collection(name), None) {
            let resource = format!("{}.{}", served.kind.plural, served.kind.group);
            *remaining.objects.entry(resource).or_default() += 1;
            for finalizer in record.finalizers() {
                *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
            pods_remain |= is_pod;
            if wants_delete(record) {
                let list = if is_pod { &mut pods } else { &mut others };
                list.push((at, record.name().to_owned()));
            }
        }
    }
    // Pods go first: while one remains, nothing else is touched (ownership R154).
    let delete = if pods_remain { pods } else { others };
    match (delete.is_empty(), remaining.objects.is_empty()) {
        (false, _) => Next::Delete(delete, remaining),
        (true, false) => Next::Wait(remaining),
        (true, true) => Next::Finalize,
    }
}

/// Whether a DELETE in the background would change the object: one that is not marked, or that was to
/// wait for its dependents or keep them (ownership R54, R153).
fn wants_delete(record: &Record) -> bool {
    !record.deleting()
        || record.finalizers().any(|name| matches!(name, "orphan" | "foregroundDeletion"))
}

/// Namespaced kinds with storage of their own; a second view of one storage is left out.
fn stored_kinds(registry: &Registry) -> impl Iterator<Item = (usize, &Arc<Served>)> {
    let mut seen = BTreeSet::new();
    registry
        .kinds()
        .iter()
        .enumerate()
        .filter(|(_, served)| served.kind.namespaced)
        .filter(move |(_, served)| seen.insert(served.prefix.clone()))
}

async fn tend(api: &Arc<Api>, name: &str) -> Result<(), Failure> {
    let mut tried = Vec::new();
    let mut failures = Vec::new();
    loop {
        let registry = api.kinds.current();
        match next(&api.world.current(), &registry, name) {
            Next::Rest => return Ok(()),
            Next::Restore => return make_namespace(api, name).await,
            Next::Fill => return fill_namespace(api, name).await,
            // Pods make way for the rest within one look.
            Next::Delete(objects, _) if objects != tried => {
                failures = delete_all(api, &registry, name, &objects).await;
                tried = objects;
            }
            Next::Delete(_, remaining) | Next::Wait(remaining) => {
                let said: BTreeSet<String> = failures.iter().map(|f| f.message.clone()).collect();
                set_conditions(api, name, &remaining, &Vec::from_iter(said)).await?;
                return failures.pop().map_or(Ok(()), Err);
            }
            Next::Finalize => return finalize(api, name).await,
        }
    }
}

/// Makes a namespace.
async fn make_namespace(api: &Api, name: &str) -> Result<(), Failure> {
    ensure(api, namespace(name), "kube-apiserver").await
}

/// A namespace to be made.
pub(crate) fn namespace(name: &str) -> Wanted {
    Wanted {
        group: "",
        resource: "namespaces",
        namespace: String::new(),
        object: json!({ "metadata": { "name": name } }),
    }
}

/// The objects every namespace has.
pub(crate) fn filling(api: &Api, name: &str) -> [Wanted; 2] {
    let account = json!({ "metadata": { "name": "default" } });
    let authority = json!({
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": { "kubernetes.io/description":
                "The authority that signs this server's certificate, for clients that verify it." },
        },
        "data": { "ca.crt": api.authority_pem },
    });
    [("serviceaccounts", account), ("configmaps", authority)].map(|(resource, object)| Wanted {
        group: "",
        resource,
        namespace: name.to_owned(),
        object,
    })
}

async fn fill_namespace(api: &Api, name: &str) -> Result<(), Failure> {
    ensure_all(api, filling(api, name).into(), AGENT).await
}

/// Deletes these objects in the background, whoever owns them; answers what went wrong (ownership R153,
/// R159).
async fn delete_all(
    api: &Arc<Api>,
    registry: &Registry,
    namespace: &str,
    objects: &[(usize, String)],
) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut running: JoinSet<Result<(), Failure>> = JoinSet::new();
    for (kind, name) in objects {
        let Some(served) = registry.kinds().get(*kind).cloned() else { continue };
        if running.len() >= DELETES_AT_ONCE {
            failures.extend(running.join_next().await.and_then(failed_delete));
        }
        let (api, namespace, name) = (Arc::clone(api), namespace.to_owned(), name.clone());
        running.spawn(async move {
            let mut request = request(&served, &namespace, &name, AGENT);
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            };
            delete::one(&api, &mut request, &options, &namespace, &name).await.map(|_| ())
        });
    }
    while let Some(ended) = running.join_next().await {
        failures.extend(failed_delete(ended));
    }
    failures
}

/// What went wrong; an object that is gone or moved meanwhile comes by again, or is what was wanted.
fn failed_delete(ended: Result<Result<(), Failure>, tokio::task::JoinError>) -> Option<Failure> {
    let failure = ended.unwrap_or_else(|error| Err(Failure::internal(error))).err()?;
    (!matches!(failure.code, 404 | 409)).then_some(failure)
}

/// Writes what a namespace waits for into its status, if that says something new (ownership R156).
async fn set_conditions(
    api: &Api,
    name: &str,
    remaining: &Remaining,
    failures: &[String],
) -> Result<(), Failure> {
    let now = now();
    change_namespace(api, name, |namespace| conditions::set(namespace, remaining, failures, &now))
        .await
}

/// Takes the server's own finalizer off; the namespace goes if no other is left (ownership R157).
async fn finalize(api: &Api, name: &str) -> Result<(), Failure> {
    let now = now();
    change_namespace(api, name, |namespace| {
        if let Some(Value::Array(list)) = namespace.map_mut("spec").get_mut("finalizers") {
            list.retain(|finalizer| finalizer.as_str() != Some("kubernetes"));
        }
        conditions::set(namespace, &Remaining::default(), &[], &now);
    })
    .await
}

async fn change_namespace(
    api: &Api,
    name: &str,
    change: impl Fn(&mut Object),
) -> Result<(), Failure> {
    let served = api.kinds.current().find("", "v1", "namespaces").cloned();
    let served = served.ok_or_else(crate::api::no_such_resource)?;
    let record = api.world.current().get(&served.key("", name)).cloned();
    // One that was made anew meanwhile is not the one that goes.
    let Some(record) = record.filter(|record| record.deleting()) else { return Ok(()) };
    let old = served.read(&record)?;
    let mut new = old.clone();
    change(&mut new);
    if new == old {
        return Ok(());
    }
    let held = !new.list_at(&["spec", "finalizers"]).is_empty()
        || !new.list_at(&["metadata", "finalizers"]).is_empty();
    if new.get("spec").is_some_and(|spec| spec.get("finalizers") == Some(&json!([]))) {
        new.insert("spec".into(), json!({}));
    }
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let mut extras = Extras::default();
    let write = if held {
        Write::Put { key, draft: draft(&served, &new)? }
    } else {
        // Nothing may slip in between the last look and the end.
        for (_, kind) in stored_kinds(&api.kinds.current()) {
            extras.guards.push(Guard::Vacant { prefix: kind.collection(name).into() });
        }
        Write::Delete { key }
    };
    // A lost race comes by again as a change.
    propose(&api.world, own, write, extras).await.map(|_| ())
}
