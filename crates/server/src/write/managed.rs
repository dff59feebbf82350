//! Whose fields are whose: hands writes to the bookkeeping of crate `patch` (R92, R94, R98).

use tenure_machinery::{Object, ObjectExt};
use tenure_patch::TypeSchema;
use tenure_patch::managed::{FieldManager, keep_times, update};
use tenure_schema::facts;

use crate::registry::ServedKind;

/// Whose fields the written ones become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFieldsMode {
    /// The writer's: what changed moves to it.
    Written,
    /// Settled before, by an apply.
    Settled,
}

/// Records the writer of what `new` has and `old` has not.
pub(crate) fn record(
    served: &ServedKind,
    old: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: Option<&str>,
    now: &str,
) {
    let writer = FieldManager {
        manager,
        api_version: &served.api_version,
        subresource: subresource.unwrap_or_default(),
        now,
    };
    let reset = reset(served, subresource);
    match (&served.custom, served.type_id) {
        (Some(custom), _) => update(&custom.merging(), old, new, &writer, reset),
        (None, Some(type_id)) => {
            update(&TypeSchema::new(facts(), type_id), old, new, &writer, reset);
        }
        (None, None) => {}
    }
}

/// As [`record`], for a body that is answered and never stored.
pub(crate) fn record_unstored(
    type_name: &str,
    api_version: &str,
    object: &mut Object,
    manager: &str,
    subresource: &str,
) {
    let Some(type_id) = facts().type_id(type_name) else { return };
    let schema = TypeSchema::new(facts(), type_id);
    let writer = FieldManager { manager, api_version, subresource, now: &crate::clock::now() };
    update(&schema, None, object, &writer, &[&["status"]]);
}

/// Whether the managers of an object can be read; one without any can.
pub(crate) fn is_readable(object: &Object) -> bool {
    object.at(&["metadata", "managedFields"]).is_none_or(tenure_patch::managed::is_readable)
}

/// The fields that writes through an endpoint never own (R98).
pub(crate) fn reset(
    served: &ServedKind,
    subresource: Option<&str>,
) -> &'static [&'static [&'static str]] {
    match subresource {
        Some("status") => &[&["spec"]],
        _ if served.kind.status.is_some() => &[&["status"]],
        _ => &[],
    }
}

/// A write that changes nothing but times keeps the old ones, and so nothing at all (R62).
pub(crate) fn settle(old: &Object, new: &mut Object) {
    keep_times(old, new);
}
