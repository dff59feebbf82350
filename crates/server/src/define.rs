//! What follows a change of a definition: its end, and names that others waited for (R130, R132).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_structural::crd::{self, Ended, Waiting};
use tenure_world::{Change, Guard, Record, Write};

use crate::api::Api;
use crate::clock::now;
use crate::custom::{self, DEFINITIONS};
use crate::internal::{find, request};
use crate::registry::Served;
use crate::write::commit::{Extras, draft, propose};
use crate::write::delete::{self, DeleteOptions};

const AGENT: &str = "kube-apiserver";
/// How long the end of a definition waits for the collector before others get their turn.
const COLLECTED_MOST: Duration = Duration::from_millis(500);

/// The definitions that a change concerns: itself, or the one whose instance is gone.
pub(crate) fn touches(api: &Api, change: &Change, names: &mut BTreeSet<String>) {
    if let Some(name) = change.key.strip_prefix(DEFINITIONS) {
        names.insert(name.to_owned());
        return;
    }
    if change.after.is_some() {
        return;
    }
    let kinds = api.kinds.current();
    let custom = kinds.stored_at(&change.key).and_then(|served| served.custom.as_ref());
    if let Some(custom) = custom.filter(|custom| custom.terminating) {
        names.insert(custom.definition.clone());
    }
}

/// Every definition: looked at once when following begins.
pub(crate) fn all(api: &Api) -> BTreeSet<String> {
    let state = api.world.current();
    state.range(DEFINITIONS, None).map(|record| record.name().to_owned()).collect()
}

/// Brings a definition on: deletes its instances if it is going, and lets others have its names.
pub(crate) async fn tend(api: &Api, name: &str) -> Result<(), Failure> {
    let state = api.world.current();
    if let Some(record) = state.get(&format!("{DEFINITIONS}{name}")) {
        let definition = served(api)?.read(record)?;
        if record.deleting() && crd::has_finalizer(&definition) {
            finish(api, record, definition).await?;
        }
    }
    settle_others(api, name).await
}

fn served(api: &Api) -> Result<Arc<Served>, Failure> {
    find(api, "apiextensions.k8s.io", "customresourcedefinitions")
}

/// Deletes what is left of the kind; without any instance the definition may go (ownership R160, R161).
async fn finish(api: &Api, record: &Arc<Record>, mut definition: Object) -> Result<(), Failure> {
    let registry = api.kinds.current();
    let kind = registry
        .kinds()
        .iter()
        .find(|s| s.custom.as_ref().is_some_and(|custom| custom.definition == record.name()));
    let builtin =
        |prefix: &str| registry.kinds().iter().any(|s| s.custom.is_none() && s.prefix == prefix);
    let (ended, kind) = match kind {
        // Deleting those would delete what the definition only seems to define.
        Some(kind) if builtin(&kind.prefix) => (Ended::Overlapping, None),
        Some(kind) => (Ended::Completed, Some(kind)),
        None if crd::is_established(&definition) => (Ended::Completed, None),
        None => (Ended::NeverEstablished, None),
    };
    let mut extras = Extras::default();
    if let Some(kind) = kind {
        let deleted = delete_instances(api, kind).await;
        if api.world.current().range(&kind.prefix, None).next().is_some() {
            let waiting = match &deleted {
                Ok(()) => Waiting::InProgress,
                Err(failure) => Waiting::Failed(&failure.message),
            };
            crd::note_deletion(&mut definition, waiting, &now());
            put(api, record, &definition, extras).await?;
            return deleted;
        }
        extras.guards.push(Guard::Vacant { prefix: kind.prefix.as_str().into() });
        collected(api).await?;
    }
    crd::end_deletion(&mut definition, ended, &now());
    put(api, record, &definition, extras).await
}

/// What the instances owned is collected while their kind is known: afterwards a reference to it would
/// tell nothing any more (ownership R141).
async fn collected(api: &Api) -> Result<(), Failure> {
    let Some(beside) = api.beside.get() else { return Ok(()) };
    let collected = beside.collected(api.world.current().revision());
    let late = |_| Failure::new(504, "Timeout", "dependents of the instances are still collected");
    tokio::time::timeout(COLLECTED_MOST, collected).await.map_err(late)
}

/// Deletes every instance without options, so that what each says of its dependents holds; an instance
/// that is gone meanwhile is what was wanted.
async fn delete_instances(api: &Api, kind: &Arc<Served>) -> Result<(), Failure> {
    let mut done = Ok(());
    for instance in api.world.current().range(&kind.prefix, None) {
        if instance.deleting() {
            continue;
        }
        let (namespace, name) = (instance.namespace(), instance.name());
        let mut request = request(kind, namespace, name, AGENT);
        let options = DeleteOptions::default();
        let deleted = Box::pin(delete::one(api, &mut request, &options, namespace, name)).await;
        match deleted {
            Err(failure) if failure.code != 404 => done = Err(failure),
            _ => {}
        }
    }
    done
}

/// Writes a definition that is going; without a finalizer it goes. A lost race comes by again as a change.
async fn put(
    api: &Api,
    record: &Record,
    definition: &Object,
    extras: Extras,
) -> Result<(), Failure> {
    let served = served(api)?;
    if served.read(record)? == *definition {
        return Ok(());
    }
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let write = if definition.list_at(&["metadata", "finalizers"]).is_empty() {
        Write::Delete { key }
    } else {
        Write::Put { key, draft: draft(&served, definition)? }
    };
    propose(&api.world, own, write, extras).await.map(|_| ())
}

/// Definitions in conflict may have the names they want once nobody else holds them.
async fn settle_others(api: &Api, changed: &str) -> Result<(), Failure> {
    let state = api.world.current();
    let served = served(api)?;
    for (record, mut definition) in custom::definitions(&state) {
        if record.name() == changed || crd::is_served(&definition) || record.deleting() {
            continue;
        }
        let before = definition.clone();
        custom::settle(&state, &api.kinds.current(), &mut definition, &now());
        if definition == before {
            continue;
        }
        let key = Arc::clone(record.key());
        let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
        let write = Write::Put { key, draft: draft(&served, &definition)? };
        propose(&api.world, own, write, Extras::default()).await?;
    }
    Ok(())
}
