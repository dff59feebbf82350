//! PUT and the second half of PATCH: an object as it should become (R53, R61–R68, R73, R81).

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use tenure_core::Revision;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};

use crate::api::ApiServer;
use crate::query::WriteOptions;
use crate::read::get::missing;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::commit::{
    CommitOutcome, Extras, ResultingObject, operation, propose_object, shown, shown_record,
    to_stored, unmoved,
};
use crate::write::managed::ManagedFieldsMode;
use crate::write::stages::{self, PreparedObject, StoredObject};
use crate::write::{create, decode};

/// What an update did.
pub(crate) enum Updated {
    /// The object was there and is as asked.
    Changed(ResponseObject),
    /// The object was not there and is now.
    Created(ResponseObject),
}

impl Updated {
    /// The code to answer with, and what was found or made.
    pub(crate) fn parts(self) -> (StatusCode, ResponseObject) {
        match self {
            Updated::Changed(found) => (StatusCode::OK, found),
            Updated::Created(found) => (StatusCode::CREATED, found),
        }
    }
}

/// PUT; without a version it is tried again until the deadline (R53).
pub(crate) async fn put(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Updated, Failure> {
    let options = WriteOptions::read(&request.query, "UpdateOptions", false)?;
    let mut body = decode::body(request, options.validation)?;
    decode::settle_namespace(request, &mut body)?;
    check_name(request, &body)?;
    let served = Arc::clone(&request.served);
    let key = served.key(&request.namespace, &request.name);
    loop {
        let state = api.world.current();
        let Some(record) = state.get(&key).cloned() else {
            if served.kind.create_on_update && request.subresource.is_empty() {
                // A uid says which object is meant; a version means nothing before there is one.
                check_uid(request, &body, "")?;
                let object = body.clone();
                match create::from_object(
                    api,
                    request,
                    &options,
                    object,
                    ManagedFieldsMode::Written,
                )
                .await
                {
                    // Somebody else was first: what stands now is updated.
                    Err(failure) if failure.reason == "AlreadyExists" => continue,
                    result => return result.map(Updated::Created),
                }
            }
            return Err(missing(&served, &request.name));
        };
        check_uid(request, &body, record.uid())?;
        let conditional = check_version(request, &body, record.revision())?;
        let live = StoredObject::read(api, request, &record).await?;
        match store(api, request, &options, live, body.clone(), ManagedFieldsMode::Written).await? {
            UpdateOutcome::Done(found) => return Ok(Updated::Changed(found)),
            UpdateOutcome::Moved if conditional => return Err(changed(request)),
            UpdateOutcome::Moved | UpdateOutcome::Again => {}
        }
    }
}

/// How an attempt ended.
pub(crate) enum UpdateOutcome {
    /// The object is stored, unchanged, or removed by its last finalizer.
    Done(ResponseObject),
    /// Somebody else wrote first.
    Moved,
    /// The object stands as it was, but something it was to take is gone: try again.
    Again,
}

/// Takes `new`, decoded and checked against the path, through all steps, and proposes it in place of what
/// stands.
pub(crate) async fn store(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    live: StoredObject<'_>,
    new: Object,
    fields: ManagedFieldsMode,
) -> Result<UpdateOutcome, Failure> {
    let record = live.record;
    let prepared = stages::prepare(api, request, options, Some(live), new, fields).await?;
    let PreparedObject { old, new, mut extras, state } = prepared;
    // What stands in an old version is written anew, as everything is that brings objects to a new one.
    let unchanged = old.as_ref() == Some(&new) && request.served.stores_as(record);
    if unchanged || options.dry_run {
        // What answers with an object is allowed at that moment, written or not.
        request.permit.check(&api.world)?;
        return match unchanged {
            true => shown_record(api, request, Arc::clone(record)).await.map(UpdateOutcome::Done),
            false => Ok(UpdateOutcome::Done(ResponseObject::Object(new))),
        };
    }
    let gone = is_finished(&new);
    let form = if gone { Cow::Borrowed(&new) } else { to_stored(api, request, &new).await? };
    let result = match &old {
        Some(old) if gone => {
            // What this write would have taken is not taken: only what the object had goes back.
            extras = Extras::default();
            ResultingObject::Nothing(old)
        }
        _ => ResultingObject::Object(&form),
    };
    let write = operation(api, &state, request, record.key(), result, &mut extras)?;
    extras.guards.extend(request.relied_on.iter().cloned());
    let of = (&*request.served, &new);
    match propose_object(api, &request.permit, of, unmoved(record), write, extras).await? {
        CommitOutcome::Committed(_) if gone => Ok(UpdateOutcome::Done(ResponseObject::Object(new))),
        CommitOutcome::Committed(committed) => {
            shown(api, request, &committed).await.map(UpdateOutcome::Done)
        }
        CommitOutcome::Moved(_) => Ok(UpdateOutcome::Moved),
        CommitOutcome::Retry(_) => Ok(UpdateOutcome::Again),
    }
}

/// Whether a marked object has lost its last finalizer and goes with this write (R73).
pub(crate) fn is_finished(object: &Object) -> bool {
    object.str_at(&["metadata", "deletionTimestamp"]).is_some()
        && object.list_at(&["metadata", "finalizers"]).is_empty()
        && object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        && (object.str_at(&["kind"]) != Some("Namespace")
            || object.list_at(&["spec", "finalizers"]).is_empty())
}

fn version_of(object: &Object) -> &str {
    object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default()
}

fn check_name(request: &ResourceRequest, body: &Object) -> Result<(), Failure> {
    let name = body.name();
    if name == request.name {
        return Ok(());
    }
    Err(Failure::bad_request(if name.is_empty() {
        "name must be provided".to_owned()
    } else {
        format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name
        )
    }))
}

/// Whether the client asked for just this version; 409 if it is another, 422 if it must be said (R66).
fn check_version(
    request: &ResourceRequest,
    body: &Object,
    stored: Revision,
) -> Result<bool, Failure> {
    let kind = &request.served.kind;
    match version_of(body) {
        "" | "0" if kind.unconditional_update => Ok(false),
        "" | "0" => Err(version_missing(request)),
        text if Revision::parse(text) == Some(stored) => Ok(true),
        text if Revision::parse(text).is_none() => Err(Failure::bad_request(format!(
            "metadata.resourceVersion: `{text}` is not a resource version"
        ))),
        _ => Err(changed(request)),
    }
}

/// 409 if the body is about an object of another uid.
pub(crate) fn check_uid(
    request: &ResourceRequest,
    body: &Object,
    stored: &str,
) -> Result<(), Failure> {
    let uid = body.str_at(&["metadata", "uid"]).unwrap_or_default();
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let kind = &request.served.kind;
    let why =
        format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored}",);
    Err(Failure::conflict(&kind.group, &kind.plural, &request.name, &why))
}

/// 422: this kind is only updated from a version that the client names (R66).
#[must_use]
pub(crate) fn version_missing(request: &ResourceRequest) -> Failure {
    let kind = &request.served.kind;
    let mut errors = Errors::new();
    let metadata = Path::Root.field("metadata");
    errors.invalid(&metadata.field("resourceVersion"), "0x0", "must be specified for an update");
    Failure::invalid(&kind.group, &kind.plural, &request.name, errors)
}

/// 409: the client's version is not the newest.
#[must_use]
pub(crate) fn changed(request: &ResourceRequest) -> Failure {
    let kind = &request.served.kind;
    Failure::conflict(
        &kind.group,
        &kind.plural,
        &request.name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}
