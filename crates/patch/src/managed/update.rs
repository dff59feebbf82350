//! Writes other than apply: changed fields go to the writer and leave everybody else.
//!
//! ```text
//!   managers of the request, else of the old object
//!     ── minus changed and removed fields ──► other entries
//!     ── plus changed fields ───────────────► the writer's entry
//! ```
//!
//! Call this with the object as the client means it: decoded and defaulted, but before the server
//! fills in what belongs to nobody, such as the addresses of a Service.

use std::sync::OnceLock;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::element;
use super::entry::{self, ManagedFieldsEntry, ManagedFieldsOperation};
use super::set::FieldSet;
use super::typed;
use crate::schema::MergeSchema;

/// The most managers that are told apart without having applied anything.
const UPDATE_MANAGERS_MAX: usize = 10;
/// Who owns the fields of the managers beyond that.
const ANCIENT: &str = "ancient-changes";

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct FieldManager<'w> {
    /// The name of the manager; empty is written as `unknown`.
    pub manager: &'w str,
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'w str,
    /// The subresource of the request, or empty.
    pub subresource: &'w str,
    /// The time as it is to be written: UTC, seconds.
    pub now: &'w str,
}

impl FieldManager<'_> {
    pub(crate) fn entry(
        &self,
        operation: ManagedFieldsOperation,
        fields: FieldSet,
    ) -> ManagedFieldsEntry {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        // Upstream keeps who scaled on the Scale, which has no times, and takes the entry from there.
        let timed = self.subresource != "scale";
        ManagedFieldsEntry {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: timed.then(|| self.now.to_owned()),
            fields,
        }
    }
}

/// Sets `metadata.managedFields` of `new` after a create, update or patch.
///
/// `reset` names the fields this endpoint never owns, such as `["status"]`. Entries written in
/// another version are taken to use the same paths.
pub fn update<S: MergeSchema>(
    schema: &S,
    old: Option<&Object>,
    new: &mut Object,
    who: &FieldManager<'_>,
    reset: &[&[&str]],
) {
    let sent = match new.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata.remove("managedFields"),
        _ => return,
    };
    let mut entries = managers(old, sent.as_ref(), who);
    // Once forgotten, managers are tracked again only from the next apply on.
    if entries.is_empty() && old.is_some() {
        return;
    }
    record(schema, old, new, &mut entries, who, reset);
    set(new, entries);
}

/// Sets the list, or leaves it out when there are no entries.
pub(crate) fn set(object: &mut Object, entries: Vec<ManagedFieldsEntry>) {
    if let Some(list) = entry::write(entries) {
        object.map_mut("metadata").insert("managedFields".to_owned(), list);
    }
}

/// The managers before this write.
fn managers(
    old: Option<&Object>,
    sent: Option<&Value>,
    who: &FieldManager<'_>,
) -> Vec<ManagedFieldsEntry> {
    if who.subresource.is_empty() {
        if entry::is_reset(sent) {
            return Vec::new();
        }
        // A client that does not know the list, or sends nonsense, must not lose it.
        if let Some(entries) = entry::read(sent)
            && !entries.is_empty()
        {
            return entries;
        }
    }
    stored(old)
}

/// The managers of a stored object.
pub(crate) fn stored(object: Option<&Object>) -> Vec<ManagedFieldsEntry> {
    let list = object.and_then(|object| object.at(&["metadata", "managedFields"]));
    entry::read(list).unwrap_or_default()
}

/// Moves the fields that differ to the writer.
pub(crate) fn record<S: MergeSchema>(
    schema: &S,
    old: Option<&Object>,
    new: &Object,
    entries: &mut Vec<ManagedFieldsEntry>,
    who: &FieldManager<'_>,
    reset: &[&[&str]],
) {
    let comparison = typed::compare(schema, old, new).without(&fields_named(reset));
    let removed = comparison.removed;
    let changed = comparison.added.union(comparison.modified);
    for entry in entries.iter_mut() {
        let fields = std::mem::take(&mut entry.fields);
        entry.fields = fields.difference(&changed).difference(&removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
    let mine = changed.difference(nobody());
    if !mine.is_empty() {
        let mut mine = who.entry(ManagedFieldsOperation::Update, mine);
        if let Some(at) = entries.iter().position(|entry| entry.is_same_manager(&mine)) {
            mine.fields = mine.fields.union(entries.swap_remove(at).fields);
        }
        entries.push(mine);
    }
    cap(entries);
}

/// Fields given by name, as a set.
pub(crate) fn fields_named(paths: &[&[&str]]) -> FieldSet {
    let mut set = FieldSet::default();
    for path in paths {
        let steps: Vec<String> = path.iter().map(|name| element::field(name)).collect();
        set.insert(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    }
    set
}

/// The fields that nobody owns.
pub(crate) fn nobody() -> &'static FieldSet {
    static NOBODY: OnceLock<FieldSet> = OnceLock::new();
    NOBODY.get_or_init(|| {
        fields_named(&[
            &["apiVersion"],
            &["kind"],
            &["metadata"],
            &["metadata", "name"],
            &["metadata", "namespace"],
            &["metadata", "creationTimestamp"],
            &["metadata", "selfLink"],
            &["metadata", "uid"],
            &["metadata", "clusterName"],
            &["metadata", "generation"],
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
        ])
    })
}

/// Joins the oldest Update entries of each version until there are few enough.
fn cap(entries: &mut Vec<ManagedFieldsEntry>) {
    let is_update = |entry: &ManagedFieldsEntry| entry.operation == ManagedFieldsOperation::Update;
    let updates = entries.iter().filter(|entry| is_update(entry)).count();
    let mut excess = updates.saturating_sub(UPDATE_MANAGERS_MAX);
    if excess == 0 {
        return;
    }
    entries.sort_by(|left, right| left.age().cmp(&right.age()));
    let mut oldest: Vec<Vec<ManagedFieldsEntry>> = Vec::new();
    let mut kept = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        if excess == 0 || !is_update(&entry) {
            kept.push(entry);
            continue;
        }
        let same = |group: &&mut Vec<ManagedFieldsEntry>| {
            group.first().is_some_and(|first| first.api_version == entry.api_version)
        };
        match oldest.iter_mut().find(same) {
            Some(group) => {
                group.push(entry);
                excess -= 1;
            }
            None => oldest.push(vec![entry]),
        }
    }
    for mut joined in oldest.into_iter().filter_map(join) {
        // Entries of one age may leave an earlier joined entry among the younger ones.
        if let Some(at) = kept.iter().position(|entry| entry.is_same_manager(&joined)) {
            joined.fields = joined.fields.union(kept.swap_remove(at).fields);
        }
        kept.push(joined);
    }
    *entries = kept;
}

/// One entry for the fields of several, with the time of the last.
fn join(mut group: Vec<ManagedFieldsEntry>) -> Option<ManagedFieldsEntry> {
    if group.len() == 1 {
        return group.pop();
    }
    let last = group.last()?;
    let (api_version, time) = (last.api_version.clone(), last.time.clone());
    Some(ManagedFieldsEntry {
        manager: ANCIENT.to_owned(),
        operation: ManagedFieldsOperation::Update,
        api_version,
        subresource: String::new(),
        time,
        fields: FieldSet::union_all(group.into_iter().map(|entry| entry.fields)),
    })
}

/// Takes back the old `managedFields` when nothing but their times differs.
///
/// Call this last, when `new` is as it would be stored, so that a write without effect stays one.
pub fn keep_times(old: &Object, new: &mut Object) {
    let Some(before) = managed_fields(old) else { return };
    let equal = managed_fields(new).is_some_and(|after| {
        after.len() == before.len()
            && after.iter().zip(before).all(|(after, before)| equal_without(after, before, "time"))
    });
    if equal && equal_otherwise(old, new) {
        let before = Value::Array(before.clone());
        new.map_mut("metadata").insert("managedFields".to_owned(), before);
    }
}

fn managed_fields(object: &Object) -> Option<&Vec<Value>> {
    object.at(&["metadata", "managedFields"])?.as_array()
}

fn equal_otherwise(old: &Object, new: &Object) -> bool {
    let same = |(name, before): (&String, &Value)| match new.get(name) {
        Some(after) if name == "metadata" => equal_without(before, after, "managedFields"),
        after => after == Some(before),
    };
    old.len() == new.len() && old.iter().all(same)
}

/// Whether two maps are equal but for one member; compared in place, since copies are dear.
fn equal_without(left: &Value, right: &Value, member: &str) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return left == right };
    let others = |map: &'_ Object| map.iter().filter(|(name, _)| *name != member).count();
    others(left) == others(right)
        && left
            .iter()
            .filter(|(name, _)| *name != member)
            .all(|(name, value)| right.get(name) == Some(value))
}

#[cfg(test)]
mod tests;
