//! What follows a change of a definition: its end, and names that others waited for (R130, R132).

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_structural::crd;
use tenure_world::{Change, Guard, Record, Write};

use crate::api::Api;
use crate::clock::now;
use crate::custom::{self, DEFINITIONS};
use crate::internal::{find, request};
use crate::registry::Served;
use crate::write::commit::{Extras, draft, propose};
use crate::write::delete::{self, DeleteOptions};

const AGENT: &str = "kube-apiserver";

/// The definitions that a change concerns: itself, or the one whose instance is gone.
pub(crate) fn touches(api: &Api, change: &Change, names: &mut BTreeSet<String>) {
    if let Some(name) = change.key.strip_prefix(DEFINITIONS) {
        names.insert(name.to_owned());
        return;
    }
    if change.after.is_some() {
        return;
    }
    for served in api.kinds.current().kinds() {
        if let Some(custom) = served.custom.as_ref().filter(|custom| custom.terminating)
            && change.key.starts_with(&served.prefix)
        {
            names.insert(custom.definition.clone());
        }
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

/// Deletes what is left of the kind; without any instance the definition may go.
async fn finish(api: &Api, record: &Arc<Record>, mut definition: Object) -> Result<(), Failure> {
    let registry = api.kinds.current();
    let kind = registry
        .kinds()
        .iter()
        .find(|s| s.custom.as_ref().is_some_and(|custom| custom.definition == record.name()));
    if let Some(kind) = kind {
        let state = api.world.current();
        let mut left = false;
        for instance in state.range(&kind.prefix, None) {
            left = true;
            if !instance.deleting() {
                let (namespace, name) = (instance.namespace(), instance.name());
                let mut request = request(kind, namespace, name, AGENT);
                let options = DeleteOptions::default();
                // An instance that is gone meanwhile is what was wanted.
                let _ = Box::pin(delete::one(api, &mut request, &options, namespace, name)).await;
            }
        }
        if left && api.world.current().range(&kind.prefix, None).next().is_some() {
            return Ok(());
        }
    }
    crd::end_deletion(&mut definition, &now());
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let mut extras = Extras::default();
    let write = if definition.list_at(&["metadata", "finalizers"]).is_empty() {
        if let Some(kind) = kind {
            extras.guards.push(Guard::Vacant { prefix: kind.prefix.as_str().into() });
        }
        Write::Delete { key }
    } else {
        Write::Put { key, draft: draft(&*served(api)?, &definition)? }
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
        custom::settle(&state, &mut definition, &now());
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
