//! Nobody hands out what they cannot read: the check before a grant, a consumer or a strategy is written
//! (spec/referential-authorization.md, section 6).
//!
//! What a writer holds only because something refers to it does not count: it may not be handed on (R104).

use tenure_kinds::reference::{
    GROUP, GroupResourceRef, ReferencePolicyKind, namespace_selector, target_names, targets,
};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::RequestAttributes;

use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// What reading means.
const VERBS: [&str; 3] = ["get", "list", "watch"];
/// What somebody may who selects namespaces by labels, beside what they grant (D9).
const SELECT: &str = "grant-selector";

/// Refuses an object that would let others read what its writer may not (R100–R105).
pub(super) fn may_hand_out(
    api: &ApiServer,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let Some(of) = ReferencePolicyKind::of(kind) else { return Ok(()) };
    if old.is_some_and(|old| tenure_rbac::is_upkeep(old, new)) {
        return Ok(());
    }
    let asker = Asker { api, request };
    let missing = match of {
        ReferencePolicyKind::Grant => asker.missing_names(new),
        _ if api.access.references().unchecked_consumers => Vec::new(),
        _ => targets(of, new).into_iter().filter_map(|to| asker.missing_everywhere(to)).collect(),
    };
    let selects = of == ReferencePolicyKind::Grant && namespace_selector(new).is_some();
    let selects = selects && !asker.may_write(SELECT, new);
    if (missing.is_empty() && !selects) || asker.may_write("escalate", new) {
        return Ok(());
    }
    let groups: Vec<String> =
        request.user.groups.iter().map(|group| format!("{group:?}")).collect();
    let mut lacks = Vec::new();
    if selects {
        lacks.push(format!(
            "cannot select namespaces of origins without the verb {SELECT:?} on {}.{GROUP} in \
             namespace {:?}",
            kind.plural,
            new.namespace()
        ));
    }
    if !missing.is_empty() {
        lacks.push(format!("cannot grant access not held: {}", missing.join("; ")));
    }
    let who = format!("user {:?} (groups=[{}])", request.user.name, groups.join(" "));
    let why = format!("{who} {}", lacks.join("; "));
    Err(Failure::forbidden(GROUP, &kind.plural, new.name(), &why))
}

/// The writer, asked about.
struct Asker<'a> {
    api: &'a ApiServer,
    request: &'a ResourceRequest,
}

impl Asker<'_> {
    fn may(&self, verb: &str, of: GroupResourceRef<'_>, namespace: &str, name: &str) -> bool {
        let requested = RequestAttributes::Resource {
            verb,
            group: of.group,
            resource: of.resource,
            subresource: "",
            namespace,
            name,
        };
        self.request.may_without_references(&self.api.access, &requested)
    }

    /// Whether the writer holds a verb on the object that is written. Whoever may `escalate` it may write what they
    /// like (R103).
    fn may_write(&self, verb: &str, new: &Object) -> bool {
        let kind = &self.request.served.kind;
        let of = GroupResourceRef { group: GROUP, resource: &kind.plural };
        self.may(verb, of, new.namespace(), new.name())
    }

    /// What of the names of a grant the writer may not read; asked for all names first, then for each (R101).
    fn missing_names(&self, grant: &Object) -> Vec<String> {
        let target = GroupResourceRef::read(grant, "target");
        let served = self.api.kinds.current().resource(target.group, target.resource);
        // A role in a namespace says nothing about what lives outside of all of them.
        let namespace = match served {
            Some(served) if !served.namespaced => "",
            _ => grant.namespace(),
        };
        let names = target_names(grant);
        if names.is_empty() {
            return Vec::new();
        }
        let narrow: Vec<&str> =
            VERBS.into_iter().filter(|verb| !self.may(verb, target, namespace, "")).collect();
        let place = match namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in namespace {namespace:?}"),
        };
        let missing = names.into_iter().filter_map(|name| {
            let lacking: Vec<&str> = narrow
                .iter()
                .copied()
                .filter(|verb| !self.may(verb, target, namespace, name))
                .collect();
            (!lacking.is_empty())
                .then(|| format!("{} {target} {name:?} {place}", lacking.join(",")))
        });
        missing.collect()
    }

    /// What of a resource the writer may not read in the whole cluster (R105).
    fn missing_everywhere(&self, target: GroupResourceRef<'_>) -> Option<String> {
        let lacking: Vec<&str> =
            VERBS.into_iter().filter(|verb| !self.may(verb, target, "", "")).collect();
        (!lacking.is_empty()).then(|| format!("{} {target} in all namespaces", lacking.join(",")))
    }
}
