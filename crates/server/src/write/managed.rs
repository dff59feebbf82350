//! Whose fields are whose: hands writes to the bookkeeping of crate `patch` (R92, R94, R98).

use tenure_machinery::Object;
use tenure_patch::TypeSchema;
use tenure_patch::managed::{Writer, keep_times, update};
use tenure_schema::facts;

use crate::registry::Served;

/// A created object: everything set belongs to its writer, but for what this endpoint does not own.
pub(crate) fn created(served: &Served, object: &mut Object, manager: &str, now: &str) {
    record(served, None, object, manager, None, now);
}

/// A changed object: what changed moves to its writer.
pub(crate) fn updated(
    served: &Served,
    old: &Object,
    new: &mut Object,
    manager: &str,
    subresource: Option<&str>,
    now: &str,
) {
    record(served, Some(old), new, manager, subresource, now);
}

/// A write that changes nothing but times keeps the old ones, and so nothing at all (R62).
pub(crate) fn settle(old: &Object, new: &mut Object) {
    keep_times(old, new);
}

fn record(
    served: &Served,
    old: Option<&Object>,
    new: &mut Object,
    manager: &str,
    subresource: Option<&str>,
    now: &str,
) {
    let Some(type_id) = served.type_id else { return };
    let schema = TypeSchema::new(facts(), type_id);
    let reset: &[&[&str]] = match subresource {
        Some("status") => &[&["spec"]],
        _ if served.kind.status.is_some() => &[&["status"]],
        _ => &[],
    };
    let writer = Writer {
        manager,
        api_version: &served.api_version,
        subresource: subresource.unwrap_or_default(),
        now,
    };
    update(&schema, old, new, &writer, reset);
}
