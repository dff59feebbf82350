//! StorageVersionMigrations: every object of a resource is written anew, so that it is stored as the server
//! stores it today (SM1, SM2).
//!
//! ```text
//!   migration ──► Running ──► objects, some at a time: a patch that changes nothing ──► Succeeded
//!                                └─ one that is refused ──► Failed
//!   of a definition: what it says of stored versions is its storage version alone
//! ```
//!
//! How far a migration is stands in memory: after a restart it begins again.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::api_question::escaped;
use crate::condition;
use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, ResourcePlace, VersionedObject};

/// How many objects are written at once.
const AT_ONCE: usize = 250;
const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";
/// Refusals that need no second try: who is gone, or was written by somebody else, is stored anew or not at all.
const DONE_OTHERWISE: &[WriteRefusal] = &[WriteRefusal::Absent, WriteRefusal::Conflict];

/// The controller. A key names a migration.
pub struct StorageVersionMigrations;

impl Controller for StorageVersionMigrations {
    fn name(&self) -> &'static str {
        "storage-version-migrator-controller"
    }
    fn alias(&self) -> &'static str {
        "storage-version-migrator"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::StorageVersionMigrations]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if let Some(migration) = change.after {
            wake(ReconcileKey::of(migration));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let found = pass.view.get(BuiltinResource::StorageVersionMigrations, "", &pass.key.name);
        let open = |migration: &VersionedObject| {
            let conditions = migration.list_at(&["status", "conditions"]);
            let ended =
                [SUCCEEDED, FAILED].iter().any(|kind| condition::is(conditions, kind, "True"));
            !ended && !owner::deleting(migration)
        };
        match found.filter(open) {
            Some(migration) => migrate(pass, &migration),
            None => ReconcileResult::default(),
        }
    }
}

/// How far a migration is.
#[derive(Default)]
struct Progress {
    /// The last object that was written, as `namespace/name`.
    after: Option<(String, String)>,
    /// The version that the definition stored in when it began.
    storing: Option<String>,
}

impl Progress {
    fn read(memory: &ReconcileMemory) -> Option<Progress> {
        let ReconcileMemory::Said(words) = memory else { return None };
        let mut progress = Progress::default();
        for word in words {
            match word.split_once('=') {
                Some(("after", at)) => {
                    let (namespace, name) = at.split_once('/').unwrap_or(("", at));
                    progress.after = Some((namespace.to_string(), name.to_string()));
                }
                Some(("storing", version)) => progress.storing = Some(version.to_string()),
                _ => {}
            }
        }
        Some(progress)
    }

    fn kept(&self) -> ReconcileMemory {
        let after = self.after.iter().map(|(namespace, name)| format!("after={namespace}/{name}"));
        let storing = self.storing.iter().map(|version| format!("storing={version}"));
        // Also where nothing was written yet, there is something to remember: that it began.
        let began = core::iter::once(RUNNING.to_string());
        ReconcileMemory::Said(after.chain(storing).chain(began).collect::<BTreeSet<String>>())
    }
}

fn migrate(pass: &Pass<'_>, migration: &VersionedObject) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let text = |member: &str| migration.str_at(&["spec", "resource", member]).unwrap_or_default();
    let (group, plural) = (text("group"), text("resource"));
    let Some(place) = pass.view.resource_place(group, plural) else {
        let why = format!("the server stores no resource {plural:?} of the group {group:?}");
        out.push(say(pass, migration, FAILED, "StorageVersionMigrationFailed", &why));
        return out;
    };
    let refused = pass.refused.iter().find(|one| !DONE_OTHERWISE.contains(&one.why));
    if let Some(refused) = refused {
        let why = format!("{}: {}", refused.name, refused.message);
        out.push(say(pass, migration, FAILED, "StorageVersionMigrationFailed", &why));
        return out;
    }
    let definition =
        pass.view.get(BuiltinResource::CustomResourceDefinitions, "", &format!("{plural}.{group}"));
    let stores = definition.as_ref().and_then(|definition| storage_version(definition));
    let running = condition::is(migration.list_at(&["status", "conditions"]), RUNNING, "True");
    let known = Progress::read(pass.memory);
    let (true, Some(mut progress)) = (running, known) else {
        // Said before anything is written; the change of the status comes by.
        out.memory = Progress { after: None, storing: stores }.kept();
        match running {
            true => out.wake_after(Duration::ZERO),
            false => {
                let reason = "StorageVersionMigrationInProgress";
                out.push(say(pass, migration, RUNNING, reason, ""));
            }
        }
        return out;
    };
    let after = progress.after.as_ref().map(|(namespace, name)| (&**namespace, &**name));
    let objects = pass.view.stored_objects(group, plural, after, AT_ONCE);
    let Some((namespace, name)) = objects.last().cloned() else {
        if let Some(definition) = definition.filter(|_| stores == progress.storing) {
            out.intents.extend(only_stores(&definition, stores.as_deref()));
        }
        out.push(say(pass, migration, SUCCEEDED, "StorageVersionMigrationSucceeded", ""));
        return out;
    };
    out.intents.extend(objects.iter().enumerate().map(|(number, (namespace, name))| {
        ControllerIntent::touch(path(&place, plural, namespace, name), name.clone())
            .independent()
            .together(number > 0)
            .forgiving(DONE_OTHERWISE)
    }));
    progress.after = Some((namespace, name));
    out.memory = progress.kept();
    out.wake_after(Duration::ZERO);
    out
}

fn path(place: &ResourcePlace, plural: &str, namespace: &str, name: &str) -> String {
    let within = match place.namespaced {
        true => format!("namespaces/{}/", escaped(namespace)),
        false => String::new(),
    };
    format!("{}/{within}{}/{}", place.version, escaped(plural), escaped(name))
}

/// The version that a definition stores in.
fn storage_version(definition: &Object) -> Option<String> {
    let versions = definition.list_at(&["spec", "versions"]).iter().filter_map(Value::as_object);
    let mut stores = versions.filter(|version| version.bool_at(&["storage"]) == Some(true));
    stores.next()?.str_at(&["name"]).map(ToString::to_string)
}

/// Has a definition say that its objects are stored in one version alone.
fn only_stores(definition: &VersionedObject, version: Option<&str>) -> Option<ControllerIntent> {
    let version = version?;
    let mut object = Object::clone(&definition.object);
    object.map_mut("status").insert("storedVersions".to_string(), json!([version]));
    (object != *definition.object).then(|| {
        ControllerIntent::update(
            BuiltinResource::CustomResourceDefinitions,
            object,
            UpdateEndpoint::Status,
            definition.revision,
        )
    })
}

/// Writes a condition; one that ends the migration ends `Running` too.
fn say(
    pass: &Pass<'_>,
    migration: &VersionedObject,
    kind: &str,
    reason: &str,
    message: &str,
) -> ControllerIntent {
    let mut object = Object::clone(&migration.object);
    let running = condition::is(object.list_at(&["status", "conditions"]), RUNNING, "True");
    if kind == RUNNING {
        let revision = pass.view.revision().0.to_string();
        object.map_mut("status").insert("resourceVersion".to_string(), revision.into());
    } else if running {
        condition::put(&mut object, (RUNNING, "False"), reason, message, pass.now);
    }
    condition::put(&mut object, (kind, "True"), reason, message, pass.now);
    ControllerIntent::update(
        BuiltinResource::StorageVersionMigrations,
        object,
        UpdateEndpoint::Status,
        migration.revision,
    )
}
