//! PUT and the second half of PATCH: an object as it should become (R53, R61–R68, R73, R81).

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use tenure_core::Revision;
use tenure_kinds::reference;
use tenure_kinds::retention::is_subject;
use tenure_machinery::kind::{Kind, StatusMeta};
use tenure_machinery::{Cx, Errors, Failure, Object, ObjectExt, Path, meta};
use tenure_world::{Precondition, Record, WriteOperation};

use crate::admit::policy::{self, AdmissionAttributes};
use crate::admit::{self, Operation};
use crate::api::ApiServer;
use crate::clock::now;
use crate::query::WriteOptions;
use crate::read::get::missing;
use crate::reference::ReferenceContext;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::commit::{CommitOutcome, Extras, draft, propose_object};
use crate::write::managed::ManagedFieldsMode;
use crate::write::{create, decode, managed};

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
        let live = StoredObject::read(&served, &record)?;
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

/// An object as it is stored.
pub(crate) struct StoredObject<'a> {
    /// The record.
    pub(crate) record: &'a Arc<Record>,
    /// What it says.
    pub(crate) object: Object,
}

impl<'a> StoredObject<'a> {
    /// Reads a record.
    pub(crate) fn read(
        served: &ServedKind,
        record: &'a Arc<Record>,
    ) -> Result<StoredObject<'a>, Failure> {
        Ok(StoredObject { record, object: served.read(record)? })
    }
}

/// Takes `new`, decoded and checked against the path, through defaults, ownership of fields, admission
/// and validation, and proposes it in place of what stands.
pub(crate) async fn store(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    StoredObject { record, object: old }: StoredObject<'_>,
    mut new: Object,
    fields: ManagedFieldsMode,
) -> Result<UpdateOutcome, Failure> {
    let served = Arc::clone(&request.served);
    let kind = &served.kind;
    let subresource = subresource_name(&request.subresource);
    let cx = Cx { now: now(), uid: record.uid().to_owned(), subresource, unlabelled: false };
    meta::keep_stored_meta(&mut new, &old);
    // From here on the object counts as stored: rules for new objects do not apply.
    set_version(&mut new, record.revision());
    kind.rules.default(&mut new);
    admit::restrict(api, request, Some(&old), &new)?;
    admit::settle_retention(api, request, Some(&old), &mut new);
    api.downward.settle(kind, &mut new, Some(&old));
    if subresource == Some("status") {
        new = status_only(new, &old, kind.status.unwrap_or(StatusMeta::Frozen));
    } else if kind.status.is_some() && subresource != Some("approval") {
        copy_member(&mut new, &old, "status");
    }
    let manager = request.manager(options.manager.as_deref());
    if fields == ManagedFieldsMode::Written {
        managed::record(&served, Some(&old), &mut new, &manager, subresource, &cx.now);
    }
    decode::settle_empty(&served, &mut new);

    let state = api.world.current();
    let mut extras = Extras::default();
    admit::mutate(api, &state, request, Operation::Update, Some(&old), &mut new, &mut extras)?;
    for repeated in meta::dedupe_owner_references(&mut new) {
        request.warn(repeated);
    }
    match subresource {
        Some("status") => kind.rules.prepare_status(&mut new, &old, &cx),
        _ => kind.rules.prepare_update(&mut new, &old, &cx),
    }
    if kind.generation && subresource != Some("status") {
        move_generation(kind, &mut new, &old);
    }
    let (mut new, old) = validate(api, request, new, old, subresource).await?;
    // Whoever refuses the object from here on leaves its writer with what there is to say about it.
    for warning in meta::finalizer_warnings(&new, kind) {
        request.warn(warning);
    }
    for warning in kind.rules.warnings(&new, Some(&old)) {
        request.warn(warning);
    }
    admit::validate(api, request, Operation::Update, Some(&old), Some(&new))?;
    let subject = AdmissionAttributes {
        operation: Operation::Update,
        old: Some(&old),
        new: Some(&new),
        dry_run: options.dry_run,
        kind: None,
    };
    policy::enforce(api, request, subject).await?;
    admit::judge_existing_pods(api, &state, request, &old, &new).await?;
    for warning in admit::warnings(api, &state, request, Some(&old), &new) {
        request.warn(warning);
    }
    admit::allocate(api, &state, request, Some(&old), &mut new, &mut extras)?;
    managed::settle(&old, &mut new);
    if new == old || options.dry_run {
        // What answers with an object is allowed at that moment, written or not.
        request.permit.check(&api.world)?;
    }
    if new == old {
        return Ok(UpdateOutcome::Done(ResponseObject::Record(Arc::clone(record))));
    }
    if options.dry_run {
        return Ok(UpdateOutcome::Done(ResponseObject::Object(new)));
    }
    let own = Precondition::At { key: Arc::clone(record.key()), revision: Some(record.revision()) };
    let gone = is_finished(&new);
    let write = if gone {
        WriteOperation::Delete { key: Arc::clone(record.key()) }
    } else {
        WriteOperation::Put { key: Arc::clone(record.key()), draft: draft(&served, &new)? }
    };
    if gone {
        // What this write would have taken is not taken: only what the object had goes back.
        extras = Extras::default();
        admit::release(api, &state, request, &old, &mut extras)?;
    }
    extras.guards.extend(request.relied_on.iter().cloned());
    match propose_object(api, &request.permit, (&served, &new), own, write, extras).await? {
        CommitOutcome::Committed(_) if gone => Ok(UpdateOutcome::Done(ResponseObject::Object(new))),
        CommitOutcome::Committed(committed) => committed
            .records
            .into_iter()
            .next()
            .flatten()
            .map(|record| UpdateOutcome::Done(ResponseObject::Record(record)))
            .ok_or_else(|| Failure::internal("the commit answered without the object")),
        CommitOutcome::Moved(_) => Ok(UpdateOutcome::Moved),
        CommitOutcome::Retry(_) => Ok(UpdateOutcome::Again),
    }
}

fn subresource_name(text: &str) -> Option<&'static str> {
    ["status", "scale", "finalize", "ephemeralcontainers", "resize", "approval", "binding"]
        .into_iter()
        .find(|name| *name == text)
}

async fn validate(
    api: &ApiServer,
    request: &ResourceRequest,
    new: Object,
    old: Object,
    subresource: Option<&'static str>,
) -> Result<(Object, Object), Failure> {
    let served = &request.served;
    let (of, retention) = (Arc::clone(served), Arc::clone(&api.retention));
    let (downward, around) = (api.downward, ReferenceContext::now(api));
    let check = move |(new, old): &(Object, Object), errors: &mut Errors| {
        if subresource.is_none() {
            of.kind.rules.validate_alone(new, Some(old), errors);
            if !errors.is_empty() {
                return;
            }
        }
        check(&of.kind, new, old, subresource, errors);
        if is_subject(&of.kind) {
            retention.validate(new, Some(old), errors);
        }
        downward.validate(&of.kind, new, Some(old), errors);
        reference::validate(&of.kind, new, Some(old), &around, errors);
        admit::check_expressions(&of.kind, new, Some(old), errors);
        if of.kind.tells_once() {
            errors.dedupe();
        }
    };
    let (both, errors) = api.aside.check(&request.user, (new, old), check).await?;
    if errors.is_empty() {
        return Ok(both);
    }
    Err(Failure::invalid(served.refusing_group(), &served.kind.kind, both.1.name(), errors))
}

fn check(kind: &Kind, new: &Object, old: &Object, subresource: Option<&str>, errors: &mut Errors) {
    meta::validate_meta_update(new, old, kind, errors);
    if subresource == Some("status") {
        kind.rules.validate_status(new, old, errors);
        return;
    }
    match subresource {
        Some("ephemeralcontainers") => {
            kind.rules.validate(new, errors);
            tenure_kinds::validate_ephemeral_update(new, old, errors);
        }
        Some("resize") => {
            kind.rules.validate(new, errors);
            tenure_kinds::validate_resize(new, old, errors);
        }
        _ => kind.validate_change(new, old, errors),
    }
}

/// Everything as stored but the status, and what of the metadata this kind lets through (R81).
fn status_only(new: Object, old: &Object, rule: StatusMeta) -> Object {
    let mut result = old.clone();
    copy_member(&mut result, &new, "status");
    let Some(Value::Object(sent)) = new.get("metadata") else { return result };
    let stored = result.map_mut("metadata");
    let kept: &[&str] = match rule {
        StatusMeta::Frozen => {
            copy_member(stored, sent, "managedFields");
            return result;
        }
        StatusMeta::KeepLabels => &["labels"],
        StatusMeta::KeepOwners => &["ownerReferences"],
        StatusMeta::Open => &[],
    };
    let mut metadata = sent.clone();
    for member in kept {
        match stored.get(*member) {
            Some(value) => metadata.insert((*member).to_owned(), value.clone()),
            None => metadata.remove(*member),
        };
    }
    *stored = metadata;
    result
}

fn copy_member(into: &mut Object, from: &Object, member: &str) {
    match from.get(member) {
        Some(value) => into.insert(member.to_owned(), value.clone()),
        None => into.remove(member),
    };
}

/// Counts a change outside metadata and status (R61).
fn move_generation(kind: &Kind, new: &mut Object, old: &Object) {
    // Without an endpoint of its own, status is content like any other.
    let counts = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => kind.status.is_none(),
        _ => true,
    };
    let same = new.iter().filter(|(n, _)| counts(n)).eq(old.iter().filter(|(n, _)| counts(n)));
    if !same || kind.rules.counts(new, old) {
        let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0).saturating_add(1);
        new.map_mut("metadata").insert("generation".into(), generation.into());
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

fn set_version(object: &mut Object, revision: Revision) {
    object.map_mut("metadata").insert("resourceVersion".into(), revision.to_string().into());
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
