//! What follows a write to a namespace: its default objects, and its end (R76, R80; ownership R149–R159).
//!
//! ```text
//!   changes ──► which namespaces moved ──► next(state, namespace) ──► writes through the same door
//! ```
//!
//! [`next`] decides from one immutable state; everything else here carries out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Interest, World, Write};
use tokio::task::JoinSet;

use crate::api::Api;
use crate::clock::now;
use crate::define;
use crate::internal::{Wanted, ensure, ensure_all, request};
use crate::protect;
use crate::registry::{Registry, Served};
use crate::write::commit::{Extras, draft, propose};
use crate::write::delete::{self, DeleteOptions, Propagation};

const AGENT: &str = "kube-controller-manager";
const PREFIX: &str = "/registry/namespaces/";
/// Namespaces that every cluster has; they are made again if somebody deletes them (R79).
pub(crate) const SYSTEM_NAMESPACES: [&str; 4] =
    ["default", "kube-system", "kube-public", "kube-node-lease"];
/// How many objects of a namespace are deleted at the same time.
const DELETES_AT_ONCE: usize = 64;

/// Follows the log until the server stops.
pub async fn run(api: Arc<Api>) {
    loop {
        // Everything that stands now is looked at once, then only what moves.
        let state = api.world.current();
        let Ok(mut changes) =
            api.world.watch(state.revision(), Interest::Prefix("/registry/".into()))
        else {
            continue;
        };
        for record in state.range(PREFIX, None) {
            tend(&api, record.name()).await;
        }
        free(&api, protect::marked(&state)).await;
        bring_on(&api, define::all(&api)).await;
        let mut stop = api.stop.clone();
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                _ = stop.changed() => return,
            };
            let Ok(change) = change else { break };
            let mut touched: BTreeSet<String> = BTreeSet::new();
            let mut unused = BTreeSet::new();
            let mut definitions = BTreeSet::new();
            let mut see = |change: &Change| {
                touched.extend(touches(change));
                protect::touches(&api.world.current(), change, &mut unused);
                define::touches(&api, change, &mut definitions);
            };
            see(&change);
            while let Ok(Some(change)) = changes.try_next() {
                see(&change);
            }
            free(&api, unused).await;
            bring_on(&api, definitions).await;
            for namespace in touched {
                tend(&api, &namespace).await;
            }
        }
        if matches!(api.world.status(), tenure_world::Status::Running) {
            continue;
        }
        return;
    }
}

/// Brings these definitions on.
async fn bring_on(api: &Api, names: BTreeSet<String>) {
    for name in names {
        if let Err(failure) = define::tend(api, &name).await {
            tracing::debug!(name, reason = %failure.message, "a definition could not be tended");
        }
    }
}

/// Lets go of the volumes and claims among these that nobody uses.
async fn free(api: &Api, keys: BTreeSet<Arc<str>>) {
    for key in keys {
        if let Err(failure) = protect::release(api, &key).await {
            tracing::debug!(%key, reason = %failure.message, "a volume or claim could not be let go");
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
    /// These objects must go, as (index of the kind, name).
    Delete(Vec<(usize, String)>),
    /// Objects are marked and wait for their finalizers.
    Wait(Remaining),
    /// Nothing is left: let it go.
    Finalize,
}

/// What is left in a namespace that is going.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// How many objects of each resource, such as `pods.` or `deployments.apps`.
    pub objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    pub finalizers: BTreeMap<String, usize>,
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
    let kinds = || stored_kinds(registry);
    // Pods go first: while one remains, nothing else is touched (ownership R154).
    for pods in [true, false] {
        let mut unmarked = Vec::new();
        let mut remaining = Remaining::default();
        for (at, served) in kinds().filter(|(_, s)| (s.kind.plural == "pods") == pods) {
            for record in state.range(&served.collection(name), None) {
                *remaining
                    .objects
                    .entry(format!("{}.{}", served.kind.plural, served.kind.group))
                    .or_default() += 1;
                for finalizer in record.finalizers() {
                    *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
                if !record.deleting() {
                    unmarked.push((at, record.name().to_owned()));
                }
            }
        }
        if !unmarked.is_empty() {
            return Next::Delete(unmarked);
        }
        if !remaining.objects.is_empty() {
            return Next::Wait(remaining);
        }
    }
    Next::Finalize
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

async fn tend(api: &Arc<Api>, name: &str) {
    let state = api.world.current();
    let done = match next(&state, &api.kinds.current(), name) {
        Next::Rest => Ok(()),
        Next::Restore => make_namespace(api, name).await,
        Next::Fill => fill_namespace(api, name).await,
        Next::Delete(objects) => {
            delete_all(api, name, objects).await;
            Ok(())
        }
        Next::Wait(remaining) => set_conditions(api, name, &remaining).await,
        Next::Finalize => finalize(api, name).await,
    };
    if let Err(failure) = done {
        // Whatever moved will come by again as a change.
        tracing::debug!(namespace = name, reason = %failure.message, "a namespace could not be tended");
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

async fn delete_all(api: &Arc<Api>, namespace: &str, objects: Vec<(usize, String)>) {
    let registry = api.kinds.current();
    let mut running = JoinSet::new();
    for (kind, name) in objects {
        let Some(served) = registry.kinds().get(kind).cloned() else { continue };
        if running.len() >= DELETES_AT_ONCE {
            running.join_next().await;
        }
        let (api, namespace) = (Arc::clone(api), namespace.to_owned());
        running.spawn(async move {
            let mut request = request(&served, &namespace, &name, AGENT);
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            };
            // An object that is gone meanwhile is what was wanted.
            let _ = delete::one(&api, &mut request, &options, &namespace, &name).await;
        });
    }
    while running.join_next().await.is_some() {}
    // The last delete is a change too, but marked objects send none when they are all that is left.
    let state = api.world.current();
    let step = next(&state, &registry, namespace);
    let done = match step {
        Next::Finalize => finalize(api, namespace).await,
        Next::Wait(remaining) => set_conditions(api, namespace, &remaining).await,
        _ => Ok(()),
    };
    if let Err(failure) = done {
        tracing::debug!(namespace, reason = %failure.message, "a namespace could not be tended");
    }
}

/// Writes what a namespace waits for into its status, if that says something new (ownership R156).
async fn set_conditions(api: &Api, name: &str, remaining: &Remaining) -> Result<(), Failure> {
    change_namespace(api, name, |namespace| {
        let list = |counts: &BTreeMap<String, usize>, what: &str| {
            counts
                .iter()
                .map(|(n, c)| format!("{n} {what} {c} resource instances"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let some = |left: bool, yes: &'static str, no: &'static str| {
            if left { ("True", yes) } else { ("False", no) }
        };
        let objects = some(!remaining.objects.is_empty(), "SomeResourcesRemain", "ContentRemoved");
        let finalizers = some(
            !remaining.finalizers.is_empty(),
            "SomeFinalizersRemain",
            "ContentHasNoFinalizers",
        );
        for (kind, (status, reason), message) in [
            (
                "NamespaceDeletionDiscoveryFailure",
                ("False", "ResourcesDiscovered"),
                "All resources successfully discovered".to_owned(),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                ("False", "ParsedGroupVersions"),
                "All legacy kube types successfully parsed".to_owned(),
            ),
            (
                "NamespaceDeletionContentFailure",
                ("False", "ContentDeleted"),
                "All content successfully deleted, may be waiting on finalization".to_owned(),
            ),
            (
                "NamespaceContentRemaining",
                objects,
                format!("Some resources are remaining: {}", list(&remaining.objects, "has")),
            ),
            (
                "NamespaceFinalizersRemaining",
                finalizers,
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    list(&remaining.finalizers, "in")
                ),
            ),
        ] {
            set_condition(namespace, kind, status, reason, &message);
        }
    })
    .await
}

fn set_condition(namespace: &mut Object, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions =
        namespace.map_mut("status").entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = conditions else { return };
    let same = |condition: &Value, member: &str, value: &str| {
        condition.get(member).and_then(Value::as_str) == Some(value)
    };
    let old = list.iter().find(|condition| same(condition, "type", kind));
    if old.is_some_and(|old| {
        same(old, "status", status) && same(old, "reason", reason) && same(old, "message", message)
    }) {
        return;
    }
    list.retain(|condition| !same(condition, "type", kind));
    list.push(json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now(),
    }));
}

/// Takes the server's own finalizer off; the namespace goes if no other is left (ownership R157).
async fn finalize(api: &Api, name: &str) -> Result<(), Failure> {
    change_namespace(api, name, |namespace| {
        if let Some(Value::Array(list)) = namespace.map_mut("spec").get_mut("finalizers") {
            list.retain(|finalizer| finalizer.as_str() != Some("kubernetes"));
        }
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
    let Some(record) = api.world.current().get(&served.key("", name)).cloned() else {
        return Ok(());
    };
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
