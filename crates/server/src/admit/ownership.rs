//! Who may set owner references, and what is worth telling about them (ownership section 3, B1).
//!
//! ```text
//!   change of references ──► may delete the dependent? ──► new blocking ones ──► may finalize each owner?
//! ```
//!
//! Whether a reference is well formed is decided in `machinery`; what becomes of dependents, elsewhere.

use serde_json::Value;
use tenure_machinery::validate::text;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::RequestAttributes;
use tenure_world::World;

use crate::admit::Operation;
use crate::api::ApiServer;
use crate::authenticate::User;
use crate::registry::{Registry, ServedKind};
use crate::request::ResourceRequest;

/// How owner references are treated when they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerChecks {
    /// Whether a reference is refused that its writer may not set; otherwise the log has a hint.
    pub enforced: bool,
    /// Whether a reference to an absent owner is answered with a warning.
    pub warns_of_absent: bool,
}

impl Default for OwnerChecks {
    fn default() -> OwnerChecks {
        OwnerChecks { enforced: true, warns_of_absent: false }
    }
}

/// One reference, as far as a change of it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnerReferenceView<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
    controller: Option<bool>,
    blocking: Option<bool>,
}

impl<'a> OwnerReferenceView<'a> {
    fn all(object: &'a Object) -> Vec<OwnerReferenceView<'a>> {
        let list = object.list_at(&["metadata", "ownerReferences"]);
        list.iter().filter_map(Value::as_object).map(OwnerReferenceView::read).collect()
    }

    fn read(reference: &'a Object) -> OwnerReferenceView<'a> {
        let flag = |member: &str| reference.get(member).and_then(Value::as_bool);
        OwnerReferenceView {
            api_version: text(reference, "apiVersion"),
            kind: text(reference, "kind"),
            name: text(reference, "name"),
            uid: text(reference, "uid"),
            controller: flag("controller"),
            blocking: flag("blockOwnerDeletion"),
        }
    }

    /// The kinds that the reference may mean, in just the version it names.
    fn kinds<'r>(&self, registry: &'r Registry) -> Vec<&'r ServedKind> {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or(("", self.api_version));
        let means = |served: &&ServedKind| {
            let kind = &served.kind;
            kind.group == group && kind.version == version && kind.kind == self.kind
        };
        registry.kinds().iter().map(AsRef::as_ref).filter(means).collect()
    }
}

/// Refuses references that the writer may not set (R24–R30); without enforcement the log has a hint.
pub(super) fn may_refer(
    api: &ApiServer,
    request: &ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let is_pod = kind.group.is_empty() && kind.plural == "pods";
    // This endpoint restores the stored references by itself (R24).
    if is_pod && request.subresource == "status" {
        return Ok(());
    }
    let (before, after) =
        (old.map(OwnerReferenceView::all).unwrap_or_default(), OwnerReferenceView::all(new));
    if before == after {
        return Ok(());
    }
    let may = |requested: &RequestAttributes<'_>| request.may(&api.access, requested);
    let dependent = RequestAttributes::Resource {
        verb: "delete",
        group: &kind.group,
        resource: &kind.plural,
        subresource: &request.subresource,
        namespace: request.access_namespace(),
        name: new.name(),
    };
    let registry = api.kinds.current();
    let why = if operation != Operation::Create && !may(&dependent) {
        Some("cannot set an ownerRef on a resource you can't delete".to_owned())
    } else {
        may_block(&registry, &new_blocking(&before, &after), new.namespace(), may)
    };
    match why {
        None => Ok(()),
        Some(why) if api.owners.enforced => {
            Err(Failure::forbidden(&kind.group, &kind.plural, new.name(), &why))
        }
        Some(why) => {
            hint(&request.user, &request.served, new, &why);
            Ok(())
        }
    }
}

/// References that block now and did not before (R27).
fn new_blocking<'a>(
    before: &[OwnerReferenceView<'a>],
    after: &[OwnerReferenceView<'a>],
) -> Vec<OwnerReferenceView<'a>> {
    let blocked = |uid: &str| {
        let known = before.iter().rev().find(|reference| reference.uid == uid);
        known.is_some_and(|reference| reference.blocking == Some(true))
    };
    let new = |reference: &&OwnerReferenceView<'_>| {
        reference.blocking == Some(true) && !blocked(reference.uid)
    };
    after.iter().filter(new).copied().collect()
}

/// Why somebody may not hold these owners back; `None` if they may (R28–R30).
fn may_block(
    registry: &Registry,
    blocking: &[OwnerReferenceView<'_>],
    namespace: &str,
    may: impl Fn(&RequestAttributes<'_>) -> bool,
) -> Option<String> {
    let finalize = |group: &str, resource: &str, namespace: &str, name: &str| {
        let (verb, subresource) = ("update", "finalizers");
        may(&RequestAttributes::Resource { verb, group, resource, subresource, namespace, name })
    };
    if blocking.is_empty() || finalize("*", "*", "", "*") {
        return None;
    }
    for reference in blocking {
        let kinds = reference.kinds(registry);
        if kinds.is_empty() {
            return Some(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                 APIVersion {} Kind {}",
                reference.api_version, reference.kind
            ));
        }
        for owner in kinds {
            // An owner with a namespace can only be in the dependent's.
            let place = if owner.kind.namespaced { namespace } else { "" };
            if !finalize(&owner.kind.group, &owner.kind.plural, place, reference.name) {
                return Some(format!(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you \
                     can't set finalizers on: update of {}/finalizers is missing",
                    owner.kind.plural
                ));
            }
        }
    }
    None
}

/// One line for the log where a reference would have been refused.
fn hint(user: &User, served: &ServedKind, object: &Object, why: &str) {
    tracing::info!(
        user = user.name,
        resource = %served.kind.plural,
        namespace = object.namespace(),
        name = object.name(),
        why,
        "an owner reference was accepted that a cluster with OwnerReferencesPermissionEnforcement refuses"
    );
}

/// What to tell about references that this write adds and whose owner is absent (B1).
pub(super) fn absent_owners(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Vec<String> {
    if !api.owners.warns_of_absent {
        return Vec::new();
    }
    let registry = api.kinds.current();
    let before = old.map(OwnerReferenceView::all).unwrap_or_default();
    let mut warnings = Vec::new();
    for (at, reference) in OwnerReferenceView::all(new).into_iter().enumerate() {
        let known = before.iter().any(|other| {
            OwnerReferenceView { controller: None, blocking: None, ..*other }
                == OwnerReferenceView { controller: None, blocking: None, ..reference }
        });
        let Some(owner) = reference.kinds(&registry).into_iter().next().filter(|_| !known) else {
            continue;
        };
        // A cluster-scoped object cannot have an owner in a namespace: nothing is collected then.
        if owner.kind.namespaced && !request.served.kind.namespaced {
            continue;
        }
        let found = state.get(&owner.key(new.namespace(), reference.name));
        // Who names itself is its own owner; its uid was drawn a moment ago.
        let own = new.str_at(&["metadata", "uid"]) == Some(reference.uid);
        if own || found.is_some_and(|record| record.uid() == reference.uid) {
            continue;
        }
        let place = match (owner.kind.namespaced, new.namespace()) {
            (true, namespace) => format!(" in namespace {namespace:?}"),
            (false, _) => String::new(),
        };
        warnings.push(format!(
            "metadata.ownerReferences[{at}]: there is no {} {:?} with uid {:?}{place}; unless \
             another owner lives, this object will be collected",
            reference.kind, reference.name, reference.uid
        ));
    }
    warnings
}
