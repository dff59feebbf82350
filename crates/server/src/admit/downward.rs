//! What the cluster has to say about pods that read themselves: a namespace may forbid that they read their owner
//! references (spec/downward-api.md R58). Which paths there are is decided in `kinds::podspec`.

use tenure_kinds::downward::{self, owner_reference_uses};
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::World;

use crate::admit::namespace;
use crate::request::ResourceRequest;

/// The label of a namespace that forbids it, and its value.
const LABEL: &str = "downward.tenure.dev/owner-references";
const FORBID: &str = "forbid";

/// Refuses a use of owner references that was not there before, where the namespace forbids it.
///
/// What is stored stays valid, so that a label set later wedges nothing that runs.
pub(super) fn may_read_owners(
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let uses = owner_reference_uses(kind, new);
    if uses.is_empty() || old.is_some_and(|old| owner_reference_uses(kind, old).len() >= uses.len())
    {
        return Ok(());
    }
    let name = new.namespace();
    let forbids =
        state.get(&namespace::key(name)).is_some_and(|record| record.label(LABEL) == Some(FORBID));
    if !forbids {
        return Ok(());
    }
    let why = format!(
        "{}: pods may not read their owner references here: namespace {name:?} has the label {LABEL}={FORBID}",
        uses.join(", ")
    );
    let failure = Failure::forbidden(&kind.group, &kind.plural, new.name(), &why);
    let cause = |field: String| StatusCause {
        reason: "FieldValueForbidden".to_owned(),
        message: format!("forbidden by the label {LABEL}={FORBID} of the namespace"),
        field,
    };
    let causes = uses.into_iter().map(cause).collect();
    let details = failure.details.as_deref().cloned().unwrap_or_default();
    Err(failure.with(Details { causes, ..details }))
}

/// What to tell about fields that can never have a value and files that can never be written (R8, R62i).
pub(super) fn warnings(
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    downward::warnings(&request.served.kind, new, old)
}
