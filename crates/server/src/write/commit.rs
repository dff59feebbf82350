//! From a finished write to the sequencer: proposals and what came of them.

use std::borrow::Cow;
use std::sync::Arc;

use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Object};
use tenure_world::{
    Committed, Draft, Precondition, Proposal, ProposalError, Record, Submission, World,
    WorldHandle, WriteOperation,
};

use crate::admit;
use crate::api::ApiServer;
use crate::conversion::version_of;
use crate::permit::Permit;
use crate::reference;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;

/// Objects above this size are refused (R188).
pub(crate) const OBJECT_BYTES_MAX: usize = 1536 * 1024;

/// How long a revision may become, which the draft leaves out.
const REVISION_DIGITS_MAX: usize = 20;

/// What else a write touches: allocations that commit or fail with it.
#[derive(Default)]
pub struct Extras {
    /// What the allocations rely on.
    pub guards: Vec<Precondition>,
    /// The allocations.
    pub writes: Vec<WriteOperation>,
}

/// How a proposal ended.
pub(crate) enum CommitOutcome {
    /// It is in the log.
    Committed(Committed),
    /// The object it relied on has moved; here is what it is now.
    Moved(Option<Arc<Record>>),
    /// Something else it relied on has moved, the guard of this number: try again from the start.
    Retry(usize),
}

/// Encodes an object of a kind for storage.
pub(crate) fn draft(served: &ServedKind, object: &Object) -> Result<Draft, Failure> {
    let draft = match served.view {
        None => match &served.custom {
            Some(custom) => {
                let given = version_of(object);
                let given = if given.is_empty() { &served.api_version } else { given };
                if custom.converts(given, &custom.storage_version) {
                    let why = format!("an object in {given} is not converted to be stored");
                    return Err(Failure::internal(why));
                }
                let stored = custom.to_stored(object, given);
                Draft::encode(&served.kind.kind, &custom.storage_version, &stored)
            }
            None => Draft::encode(&served.kind.kind, &served.api_version, object),
        },
        Some(view) => {
            let mut stored = object.clone();
            view.store(&mut stored);
            Draft::encode(view.kind, view.api_version, &stored)
        }
    };
    if draft.len() + REVISION_DIGITS_MAX > OBJECT_BYTES_MAX {
        return Err(Failure::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {OBJECT_BYTES_MAX}"),
        )
        .with(Details::default()));
    }
    Ok(draft)
}

/// An object of a request's kind in the version that it is stored in, where a webhook brings it there.
///
/// # Errors
/// The webhook did not.
pub(crate) async fn to_stored<'o>(
    api: &ApiServer,
    request: &ResourceRequest,
    object: &'o Object,
) -> Result<Cow<'o, Object>, Failure> {
    let Some(custom) = &request.served.custom else { return Ok(Cow::Borrowed(object)) };
    let to = &custom.storage_version;
    if !custom.converts(version_of(object), to) {
        return Ok(Cow::Borrowed(object));
    }
    let objects = vec![object.clone()];
    let converted =
        Box::pin(api.conversions.objects(&request.user.name, custom, objects, to)).await?;
    let one = converted.into_iter().next();
    one.map(Cow::Owned).ok_or_else(|| Failure::internal("a conversion without its object"))
}

/// What a write leaves of an object.
pub(crate) enum ResultingObject<'a> {
    /// This.
    Object(&'a Object),
    /// Nothing of this.
    Nothing(&'a Object),
}

/// The operation that leaves an object so; what it had taken goes back with its end.
pub(crate) fn operation(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    key: &Arc<str>,
    result: ResultingObject<'_>,
    extras: &mut Extras,
) -> Result<WriteOperation, Failure> {
    let key = Arc::clone(key);
    match result {
        ResultingObject::Object(new) => {
            Ok(WriteOperation::Put { key, draft: draft(&request.served, new)? })
        }
        ResultingObject::Nothing(old) => {
            admit::release(api, state, request, old, extras)?;
            Ok(WriteOperation::Delete { key })
        }
    }
}

/// The guard that nobody has written to an object since this record.
pub(crate) fn unmoved(record: &Record) -> Precondition {
    Precondition::At { key: Arc::clone(record.key()), revision: Some(record.revision()) }
}

/// The object that a commit stored, to answer with.
///
/// # Errors
/// It is stored, but a webhook does not convert it back.
pub(crate) async fn shown(
    api: &ApiServer,
    request: &ResourceRequest,
    committed: &Committed,
) -> Result<ResponseObject, Failure> {
    let record = committed.record().map(Arc::clone);
    let record = record.ok_or_else(|| Failure::internal("a commit without its object"))?;
    shown_record(api, request, record).await
}

/// A stored object, to answer with.
///
/// # Errors
/// As [`shown`].
pub(crate) async fn shown_record(
    api: &ApiServer,
    request: &ResourceRequest,
    record: Arc<Record>,
) -> Result<ResponseObject, Failure> {
    let converted = api.conversions.record(&request.user.name, &request.served, record);
    Ok(ResponseObject::Record(converted.await?))
}

/// Proposes one write under a guard on its own key, with its extras.
pub(crate) async fn propose(
    world: &WorldHandle,
    own: Precondition,
    write: WriteOperation,
    extras: Extras,
) -> Result<CommitOutcome, Failure> {
    outcome(world.propose(proposal(own, write, extras)).await)
}

/// The same, but for the waiting: the write has its place in the order when this returns.
pub(crate) fn submit(
    world: &WorldHandle,
    own: Precondition,
    write: WriteOperation,
    extras: Extras,
) -> Result<Submission, Failure> {
    world.submit(proposal(own, write, extras)).map_err(|refused| refused_failure(&refused))
}

/// One write with what goes with it; the first guard is on its own object.
pub(crate) fn proposal(own: Precondition, write: WriteOperation, extras: Extras) -> Proposal {
    let mut guards = vec![own];
    guards.extend(extras.guards);
    let mut writes = vec![write];
    writes.extend(extras.writes);
    Proposal { guards, writes }
}

/// What came of a proposal whose first guard is on the object itself.
pub(crate) fn outcome(ended: Result<Committed, ProposalError>) -> Result<CommitOutcome, Failure> {
    match ended {
        Ok(committed) => Ok(CommitOutcome::Committed(committed)),
        Err(ProposalError::Guard { index: 0, current }) => Ok(CommitOutcome::Moved(current)),
        Err(ProposalError::Guard { index, .. }) => Ok(CommitOutcome::Retry(index)),
        Err(refused) => Err(refused_failure(&refused)),
    }
}

/// The same for an object as it is to be stored, once what must be made ready before is ready (referential
/// authorization R174).
pub(crate) async fn propose_object(
    api: &ApiServer,
    permit: &Permit,
    (served, object): (&ServedKind, &Object),
    own: Precondition,
    write: WriteOperation,
    extras: Extras,
) -> Result<CommitOutcome, Failure> {
    let prepared = reference::prepare(api, served, object).await;
    // What was waited for meanwhile may have taken long.
    permit.check(&api.world)?;
    let outcome = propose(&api.world, own, write, extras).await?;
    if let (Some(prepared), CommitOutcome::Committed(_)) = (prepared, &outcome) {
        prepared.stored();
    }
    Ok(outcome)
}

/// The answer to a write that would make a full store larger: 500 as upstream's, because clients know no
/// better code (R245).
fn store_full(used: u64, quota: u64) -> Failure {
    let why = format!(
        "database space exceeded: the store holds {used} of {quota} bytes; delete objects, or start \
         the server with a larger --store-quota"
    );
    let cause = StatusCause {
        reason: "StoreQuotaExceeded".to_owned(),
        message: why.clone(),
        field: String::new(),
    };
    Failure::new(500, "InternalError", why)
        .with(Details { causes: vec![cause], ..Details::default() })
}

/// What the client is told when nothing can be written.
pub(crate) fn refused_failure(refused: &ProposalError) -> Failure {
    match refused {
        ProposalError::Busy => Failure::new(
            429,
            "TooManyRequests",
            "too many writes are waiting, please try again later",
        )
        .with(Details { retry_after_seconds: 1, ..Details::default() }),
        ProposalError::Full { used, quota } => store_full(*used, *quota),
        other => Failure::internal(other),
    }
}
