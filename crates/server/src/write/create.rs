//! POST: a new object (R53, R56–R59, R78).

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Precondition, WriteOperation};

use crate::api::ApiServer;
use crate::query::WriteOptions;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::commit::{self, CommitOutcome, draft, propose_object};
use crate::write::decode;
use crate::write::managed::ManagedFieldsMode;
use crate::write::stages::{self, PreparedObject, exists};

/// How often a generated name that is taken is drawn again.
const NAME_TRIES: usize = 8;

/// Creates what the body says.
pub(crate) async fn create(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<ResponseObject, Failure> {
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut object = decode::body(request, options.validation)?;
    decode::settle_namespace(request, &mut object)?;
    if !options.dry_run {
        check_version_unset(&object)?;
    }
    from_object(api, request, &options, object, ManagedFieldsMode::Written).await
}

/// Creates a decoded object; also the way of updates that create.
pub(crate) async fn from_object(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    object: Object,
    fields: ManagedFieldsMode,
) -> Result<ResponseObject, Failure> {
    let generated = object.name().is_empty() && !generate_name(&object).is_empty();
    let mut tries = if generated { NAME_TRIES } else { 1 };
    loop {
        match attempt(api, request, options, object.clone(), fields).await {
            Ok(Attempt::Done(found)) => return Ok(found),
            Ok(Attempt::Again) => {}
            Err(failure) => {
                tries -= 1;
                if tries == 0 || failure.reason != "AlreadyExists" {
                    return Err(failure);
                }
            }
        }
    }
}

enum Attempt {
    Done(ResponseObject),
    /// Something besides the object moved; nothing was stored.
    Again,
}

async fn attempt(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    object: Object,
    fields: ManagedFieldsMode,
) -> Result<Attempt, Failure> {
    let _turn = api.turns.wait(&api.world.current(), object.namespace()).await;
    let PreparedObject { new, mut extras, .. } =
        stages::prepare(api, request, options, None, object, fields).await?;
    if options.dry_run {
        request.permit.check(&api.world)?;
        return Ok(Attempt::Done(ResponseObject::Object(new)));
    }
    let served = &request.served;
    let key: Arc<str> = served.key(new.namespace(), new.name()).into();
    let form = commit::to_stored(api, request, &new).await?;
    let write = WriteOperation::Put { key: Arc::clone(&key), draft: draft(served, &form)? };
    let own = Precondition::At { key, revision: None };
    // The first guard is the object's own, those after it are of what goes with it.
    let relied_from = 1 + extras.guards.len();
    extras.guards.extend(request.relied_on.iter().cloned());
    match propose_object(api, &request.permit, (served, &new), own, write, extras).await? {
        CommitOutcome::Committed(committed) => {
            commit::shown(api, request, &committed).await.map(Attempt::Done)
        }
        CommitOutcome::Moved(current) => {
            Err(exists(&served.kind, new.name(), current.is_some_and(|r| r.deleting())))
        }
        CommitOutcome::Retry(guard) if guard < relied_from => Ok(Attempt::Again),
        CommitOutcome::Retry(_) => Err(relied_on_moved(&served.kind, new.name())),
    }
}

/// What a follower is told when something it relied on may have changed.
fn relied_on_moved(kind: &tenure_machinery::Kind, name: &str) -> Failure {
    Failure::conflict(&kind.group, &kind.plural, name, "something it relied on has changed")
}

/// Refuses the version of another object; what is no version, or zero, counts as unset (R57).
fn check_version_unset(object: &Object) -> Result<(), Failure> {
    let version = object.str_at(&["metadata", "resourceVersion"]).and_then(Revision::parse);
    if version.is_none_or(|version| version == Revision::ZERO) {
        return Ok(());
    }
    Err(Failure::bad_request(
        "metadata.resourceVersion: resourceVersion should not be set on objects to be created",
    ))
}

pub(crate) fn generate_name(object: &Object) -> &str {
    object.str_at(&["metadata", "generateName"]).unwrap_or_default()
}

/// Completes `generateName`; its base is cut so that the whole stays within 63 characters (R59).
pub(crate) fn draw_name(api: &ApiServer, object: &mut Object) {
    let base: String = generate_name(object).chars().take(58).collect();
    let name = format!("{base}{}", api.chance.suffix());
    object.map_mut("metadata").insert("name".into(), Value::String(name));
}
