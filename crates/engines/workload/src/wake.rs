//! Which controllers a change concerns (CR10, CR11).
//!
//! Every function costs a few lookups; only an object without a controller is held against the
//! selectors of its namespace.

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{ObjectChange, ReconcileKey};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;
use crate::{owner, selector};

/// Wakes the changed object itself.
pub fn itself(change: &ObjectChange<'_>, wake: &mut dyn FnMut(ReconcileKey)) {
    if let Some(object) = change.object() {
        wake(ReconcileKey::of(object));
    }
}

/// The controller of a child, if it is of this kind and has the uid that the child names (CR10).
#[must_use]
pub fn controller(
    child: &Object,
    resource: BuiltinResource,
    view: &dyn ClusterView,
) -> Option<crate::VersionedObject> {
    let entry = owner::controller_of(child)?;
    if entry.str_at(&["kind"]) != Some(resource.kind()) {
        return None;
    }
    let found = view.get(resource, child.namespace(), entry.str_at(&["name"])?)?;
    (Some(owner::uid(&found)) == entry.str_at(&["uid"])).then_some(found)
}

/// Wakes the controllers of a kind that a change of a child concerns: the one it has, the one it had,
/// and for a new or relabelled object without one, all that could adopt it (CR11).
pub fn by_child(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    resource: BuiltinResource,
    selector_of: fn(&Object) -> Option<LabelSelector>,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    for child in [change.before, change.after].into_iter().flatten() {
        if let Some(found) = controller(child, resource, view) {
            wake(ReconcileKey::of(&found));
        }
    }
    if let Some(orphan) = change.after
        && owner::controller_of(orphan).is_none()
        && !owner::deleting(orphan)
        && change.before.is_none_or(|before| adoptable_anew(before, orphan))
    {
        by_selector(orphan, view, resource, selector_of, wake);
    }
}

/// Wakes all objects of a kind in the namespace of an object whose selector matches it.
pub fn by_selector(
    object: &Object,
    view: &dyn ClusterView,
    resource: BuiltinResource,
    selector_of: fn(&Object) -> Option<LabelSelector>,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    for candidate in view.list(resource, Some(object.namespace())) {
        let matches = selector_of(&candidate)
            .is_some_and(|s| !s.is_everything() && selector::matches(&s, object));
        if matches {
            wake(ReconcileKey::of(&candidate));
        }
    }
}

/// Whether somebody who did not want the object before could want it now.
fn adoptable_anew(before: &Object, after: &Object) -> bool {
    owner::controller_of(before).is_some()
        || before.at(&["metadata", "labels"]) != after.at(&["metadata", "labels"])
}
