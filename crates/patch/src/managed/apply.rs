//! Server-side apply: a manager states its fields, all of them, and the object follows.
//!
//! ```text
//!   live ── merge configuration ──► merged ── minus what the manager gave up ──► new
//!                                                                                 │
//!   live against new ── fields of other managers that changed ──► conflicts, unless forced
//! ```
//!
//! The result still has to be decoded and defaulted; a part that lost everything is null in it.

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::combine;
use super::element;
use super::entry::{ManagedFieldsEntry, ManagedFieldsOperation};
use super::set::FieldSet;
use super::typed;
use super::update::{FieldManager, fields_named, nobody, record, set, stored};
use crate::schema::MergeSchema;

/// Who owns what was there before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose client-side past is taken over.
const KUBECTL: &str = "kubectl";
/// Where client-side apply keeps what it last applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes that all annotations of an object may have.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Fields belong to other managers, in path order for each.
    Conflicts(Vec<Conflict>),
    /// The configuration cannot be told apart into fields.
    Invalid(String),
}

/// A field that belongs to somebody else and would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name of its manager.
    pub manager: String,
    /// How that manager came to own it.
    pub operation: ManagedFieldsOperation,
    /// The version that manager wrote in.
    pub api_version: String,
    /// The subresource that manager wrote through, or empty.
    pub subresource: String,
    /// When it did.
    pub time: Option<String>,
    /// The field, as in `.spec.containers[name="a"].image`.
    pub field: String,
}

/// One apply request.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The configuration, as sent.
    pub config: &'a Object,
    /// Who applies it.
    pub who: FieldManager<'a>,
    /// The fields this endpoint never owns, such as `["status"]`.
    pub reset: &'a [&'a [&'a str]],
    /// Whether to take fields from other managers.
    pub force: bool,
}

/// Applies a configuration to the live object, or to nothing, and sets `managedFields`.
///
/// The live object is lent: its managers are laid aside meanwhile, because a copy without them is dear.
pub fn apply<S: MergeSchema>(
    schema: &S,
    live: Option<&mut Object>,
    request: &Application<'_>,
) -> Result<Object, ApplyError> {
    combine::check(schema, request.config).map_err(ApplyError::Invalid)?;
    let entries = stored(live.as_deref());
    let Some(live) = live else { return apply_to(schema, None, entries, request) };
    let managers = match live.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata.remove("managedFields"),
        _ => None,
    };
    let applied = apply_to(schema, Some(live), entries, request);
    if let (Some(managers), Some(Value::Object(metadata))) = (managers, live.get_mut("metadata")) {
        metadata.insert("managedFields".to_owned(), managers);
    }
    applied
}

/// Applies to an object without managers, which are `entries`.
fn apply_to<S: MergeSchema>(
    schema: &S,
    live: Option<&Object>,
    mut entries: Vec<ManagedFieldsEntry>,
    request: &Application<'_>,
) -> Result<Object, ApplyError> {
    if let Some(live) = live
        && entries.is_empty()
    {
        let before = FieldManager { manager: BEFORE_FIRST_APPLY, ..request.who };
        record(schema, None, live, &mut entries, &before, request.reset);
    }
    let force = request.force || explained(schema, live, &entries, request)?;
    let mut object = attempt(schema, live, entries, request, force)?;
    if request.who.manager == KUBECTL {
        renew_last_applied(&mut object, request.config);
    }
    Ok(object)
}

fn attempt<S: MergeSchema>(
    schema: &S,
    live: Option<&Object>,
    mut entries: Vec<ManagedFieldsEntry>,
    request: &Application<'_>,
    force: bool,
) -> Result<Object, ApplyError> {
    let reset = fields_named(request.reset);
    let config = request.config;
    let fields = typed::fields(schema, config).recursive_difference(&reset);
    let mut mine = request.who.entry(ManagedFieldsOperation::Apply, fields);
    let last = entries
        .iter()
        .position(|entry| entry.is_same_manager(&mine))
        .map(|at| entries.swap_remove(at));

    let merged = combine::merge(schema, live.unwrap_or(&Object::new()), config);
    let mut new = match &last {
        // Mostly a manager states the same fields again, and then there is nothing to give up.
        Some(last) if !last.fields.is_subset(&mine.fields) => {
            prune(schema, merged, &last.fields, &entries, &mine.fields)
        }
        _ => merged,
    };
    let comparison = typed::compare(schema, live, &new).without(&reset);
    let changed = comparison.added.union(comparison.modified);
    if !force {
        let conflicts = conflicts(&entries, &changed);
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(conflicts));
        }
    }
    for entry in &mut entries {
        let fields = std::mem::take(&mut entry.fields);
        entry.fields = fields.difference(&changed).difference(&comparison.removed);
    }
    entries.retain(|entry| !entry.fields.is_empty());
    // A change of ownership alone is not worth a new time.
    if live == Some(&new) {
        mine.time = last.and_then(|last| last.time);
    }
    mine.fields = mine.fields.difference(nobody());
    if !mine.fields.is_empty() {
        entries.push(mine);
    }
    set(&mut new, entries);
    Ok(new)
}

/// Removes what the manager applied last time and not now, unless somebody else owns it.
fn prune<S: MergeSchema>(
    schema: &S,
    merged: Object,
    last: &FieldSet,
    others: &[ManagedFieldsEntry],
    mine: &FieldSet,
) -> Object {
    let last = combine::with_named(schema, last);
    let all = combine::with_named(schema, &typed::fields(schema, &merged));
    let fields = |object: &Object| combine::with_named(schema, &typed::fields(schema, object));
    let minus = |set: &FieldSet| {
        let mut object = merged.clone();
        combine::remove(schema, &mut object, set);
        object
    };
    let others = others.iter().map(|entry| entry.fields.clone());
    let owned = FieldSet::union_all(others.chain([mine.clone()]));
    let owned = combine::with_named(schema, &owned);
    let kept = fields(&minus(&last)).union(owned);
    let pruned = minus(&all.clone().difference(&kept));
    // What nobody owned, or only updaters, is not the manager's to remove.
    let given_up = all.difference(&fields(&pruned)).intersection(&last);
    minus(&given_up)
}

fn conflicts(entries: &[ManagedFieldsEntry], changed: &FieldSet) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for entry in entries {
        entry.fields.intersection(changed).each(&mut |path| {
            conflicts.push(Conflict {
                manager: entry.manager.clone(),
                operation: entry.operation,
                api_version: entry.api_version.clone(),
                subresource: entry.subresource.clone(),
                time: entry.time.clone(),
                field: path.iter().map(|step| element::shown(step)).collect(),
            });
        });
    }
    conflicts
}

/// Whether kubectl's own client-side past explains every conflict; one it does not is an error.
fn explained<S: MergeSchema>(
    schema: &S,
    live: Option<&Object>,
    entries: &[ManagedFieldsEntry],
    request: &Application<'_>,
) -> Result<bool, ApplyError> {
    let (KUBECTL, Some(live)) = (request.who.manager, live) else { return Ok(false) };
    let Some(past) = last_applied(live, request.who.api_version) else { return Ok(false) };
    let Err(ApplyError::Conflicts(conflicts)) =
        attempt(schema, Some(live), entries.to_vec(), request, false)
    else {
        return Ok(false);
    };
    let comparison = typed::compare(schema, Some(&past), live);
    let allowed = typed::fields(schema, &past)
        .difference(&comparison.changed())
        .difference(&comparison.removed);
    let mut fields = std::collections::HashSet::new();
    allowed.each(&mut |path| {
        fields.insert(path.iter().map(|step| element::shown(step)).collect::<String>());
    });
    let left: Vec<Conflict> =
        conflicts.into_iter().filter(|conflict| !fields.contains(&conflict.field)).collect();
    if left.is_empty() { Ok(true) } else { Err(ApplyError::Conflicts(left)) }
}

fn last_applied(object: &Object, api_version: &str) -> Option<Object> {
    let text = object.str_at(&["metadata", "annotations", LAST_APPLIED])?;
    let past: Object = serde_json::from_str(text).ok()?;
    (past.str_at(&["apiVersion"]) == Some(api_version)).then_some(past)
}

/// Keeps the annotation of client-side apply in step, where there is one.
fn renew_last_applied(object: &mut Object, config: &Object) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    if annotations.get(LAST_APPLIED).and_then(Value::as_str).unwrap_or_default().is_empty() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(metadata)) = config.get_mut("metadata")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", Value::Object(config));
    annotations.remove(LAST_APPLIED);
    let bytes =
        |(name, value): (&String, &Value)| name.len() + value.as_str().unwrap_or_default().len();
    let others: usize = annotations.iter().map(bytes).sum();
    if others + LAST_APPLIED.len() + text.len() <= ANNOTATIONS_BYTES_MAX {
        annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
    }
}

#[cfg(test)]
mod tests;
