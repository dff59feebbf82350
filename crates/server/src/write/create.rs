//! POST: a new object (R53, R56–R59, R78).

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_kinds::reference;
use tenure_kinds::retention::is_subject;
use tenure_machinery::{Cx, Errors, Failure, Object, ObjectExt, meta};
use tenure_world::{Precondition, WriteOperation};

use crate::admit::policy::{self, AdmissionAttributes};
use crate::admit::{self, Operation};
use crate::api::ApiServer;
use crate::clock::now;
use crate::query::WriteOptions;
use crate::reference::ReferenceContext;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::commit::{CommitOutcome, Extras, draft, propose_object};
use crate::write::managed::ManagedFieldsMode;
use crate::write::{decode, managed};

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
        let mut candidate = object.clone();
        if generated {
            draw_name(api, &mut candidate);
        }
        match attempt(api, request, options, candidate, fields).await {
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

/// An object that is ready to be stored.
pub(crate) struct PreparedCreate {
    /// Where it goes; there must be nothing yet.
    pub(crate) key: Arc<str>,
    /// What it is.
    pub(crate) object: Object,
    /// What goes with it.
    pub(crate) extras: Extras,
}

/// Takes an object through defaults, ownership of fields, admission and validation; stores nothing.
pub(crate) async fn prepare(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    mut object: Object,
    fields: ManagedFieldsMode,
) -> Result<PreparedCreate, Failure> {
    let served = Arc::clone(&request.served);
    let labels = object.map_at(&["metadata", "labels"]);
    let unlabelled = labels.is_none_or(Object::is_empty);
    let cx = Cx { now: now(), uid: api.chance.uid(), subresource: None, unlabelled };
    wipe_system_metadata(&mut object, &served.kind);
    served.kind.rules.default(&mut object);
    admit::restrict(api, request, None, &object)?;
    admit::settle_retention(api, request, None, &mut object);
    api.downward.settle(&served.kind, &mut object, None);
    let manager = request.manager(options.manager.as_deref());
    if fields == ManagedFieldsMode::Written {
        managed::record(&served, None, &mut object, &manager, None, &cx.now);
    }
    decode::settle_empty(&served, &mut object);
    fill_system_metadata(&mut object, &served.kind, &cx);

    let state = admit::state_for_new(api, request, &object).await;
    let mut extras = Extras::default();
    admit::mutate(api, &state, request, Operation::Create, None, &mut object, &mut extras)?;
    for repeated in meta::dedupe_owner_references(&mut object) {
        request.warn(repeated);
    }
    served.kind.rules.prepare_create(&mut object, &cx);
    let mut object = validate(api, request, object).await?;
    // Whoever refuses the object from here on leaves its writer with what there is to say about it.
    for warning in meta::finalizer_warnings(&object, &served.kind) {
        request.warn(warning);
    }
    for warning in served.kind.rules.warnings(&object, None) {
        request.warn(warning);
    }
    admit::validate(api, request, Operation::Create, None, Some(&object))?;
    let subject = AdmissionAttributes {
        operation: Operation::Create,
        old: None,
        new: Some(&object),
        dry_run: options.dry_run,
        kind: None,
    };
    policy::enforce(api, request, subject).await?;
    for warning in admit::warnings(api, &state, request, None, &object) {
        request.warn(warning);
    }
    let key = served.key(object.namespace(), object.name());
    let there = state.get(&key).map(|record| record.deleting());
    // Of a POST the name is looked at last: what it would take is refused first. A PUT or an apply that
    // finds the object goes on to update it, and followers want to know that it is there.
    if there.is_none() || request.verb == "create" {
        admit::allocate(api, &state, request, None, &mut object, &mut extras)?;
    }
    if let Some(deleting) = there {
        return Err(exists(&served.kind, object.name(), deleting));
    }
    Ok(PreparedCreate { key: key.into(), object, extras })
}

async fn attempt(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    object: Object,
    fields: ManagedFieldsMode,
) -> Result<Attempt, Failure> {
    let _turn = api.turns.wait(&api.world.current(), object.namespace()).await;
    let PreparedCreate { key, object, mut extras } =
        prepare(api, request, options, object, fields).await?;
    if options.dry_run {
        request.permit.check(&api.world)?;
        return Ok(Attempt::Done(ResponseObject::Object(object)));
    }
    let served = &request.served;
    let write = WriteOperation::Put { key: Arc::clone(&key), draft: draft(served, &object)? };
    let own = Precondition::At { key, revision: None };
    // The first guard is the object's own, those after it are of what goes with it.
    let relied_from = 1 + extras.guards.len();
    extras.guards.extend(request.relied_on.iter().cloned());
    match propose_object(api, &request.permit, (served, &object), own, write, extras).await? {
        CommitOutcome::Committed(committed) => committed
            .records
            .into_iter()
            .next()
            .flatten()
            .map(|record| Attempt::Done(ResponseObject::Record(record)))
            .ok_or_else(|| Failure::internal("the commit answered without the object")),
        CommitOutcome::Moved(current) => {
            Err(exists(&served.kind, object.name(), current.is_some_and(|r| r.deleting())))
        }
        CommitOutcome::Retry(guard) if guard < relied_from => Ok(Attempt::Again),
        CommitOutcome::Retry(_) => Err(relied_on_moved(&served.kind, object.name())),
    }
}

async fn validate(
    api: &ApiServer,
    request: &ResourceRequest,
    object: Object,
) -> Result<Object, Failure> {
    let served = &request.served;
    let (of, retention) = (Arc::clone(served), Arc::clone(&api.retention));
    let (downward, around) = (api.downward, ReferenceContext::now(api));
    let check = move |object: &Object, errors: &mut Errors| {
        of.kind.rules.validate_alone(object, None, errors);
        if !errors.is_empty() {
            return;
        }
        of.kind.validate_new(object, errors);
        if is_subject(&of.kind) {
            retention.validate(object, None, errors);
        }
        downward.validate(&of.kind, object, None, errors);
        reference::validate(&of.kind, object, None, &around, errors);
        admit::check_expressions(&of.kind, object, None, errors);
        if of.kind.tells_once() {
            errors.dedupe();
        }
    };
    let (object, errors) = api.aside.check(&request.user, object, check).await?;
    if errors.is_empty() {
        return Ok(object);
    }
    Err(Failure::invalid(served.refusing_group(), &served.kind.kind, object.name(), errors))
}

fn exists(kind: &tenure_machinery::Kind, name: &str, deleting: bool) -> Failure {
    let prefix = if deleting { "object is being deleted: " } else { "" };
    Failure::already_exists(&kind.group, &kind.plural, name, prefix)
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

/// Drops what only the server sets (R56–R58, R74 of ownership).
fn wipe_system_metadata(object: &mut Object, kind: &tenure_machinery::Kind) {
    let metadata = object.map_mut("metadata");
    for member in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(member);
    }
    // Of kinds that do not count their changes the number is the client's (R61).
    if kind.generation || metadata.get("generation").and_then(Value::as_i64) == Some(0) {
        metadata.remove("generation");
    }
}

fn fill_system_metadata(object: &mut Object, kind: &tenure_machinery::Kind, cx: &Cx) {
    let metadata = object.map_mut("metadata");
    metadata.insert("uid".into(), cx.uid.as_str().into());
    metadata.insert("creationTimestamp".into(), cx.now.as_str().into());
    if kind.generation {
        metadata.insert("generation".into(), 1.into());
    }
}

fn generate_name(object: &Object) -> &str {
    object.str_at(&["metadata", "generateName"]).unwrap_or_default()
}

/// Completes `generateName`; its base is cut so that the whole stays within 63 characters (R59).
fn draw_name(api: &ApiServer, object: &mut Object) {
    let base: String = generate_name(object).chars().take(58).collect();
    let name = format!("{base}{}", api.chance.suffix());
    object.map_mut("metadata").insert("name".into(), Value::String(name));
}
