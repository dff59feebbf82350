//! Nobody hands out more than they hold; gathered roles follow their parts (R157, R158).
//!
//! ```text
//!   judge ──► what it relied on: roles and bindings of the writer, the role that is bound ──► guards
//! ```
//!
//! Roles change while others are judged by them. What a decision relied on goes with the write as guards; if some of
//! it has changed at the commit, nothing is stored and the write is judged again, until its deadline (R262).

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::{
    Escalation, GROUP, PolicyRule, RbacDecision, Relied, RequestAttributes, Role, RoleChange,
    RoleWrite,
};
use tenure_world::{Precondition, World, WriteOperation};

use crate::access::who;
use crate::admit::Operation;
use crate::api::ApiServer;
use crate::request::ResourceRequest;
use crate::write::commit::{Extras, draft};

/// So many roles and bindings are guarded. The sequencer looks at each of them; nobody may make it look at thousands.
const GUARDS_MAX: usize = 256;

/// Refuses a role or binding that would give more than its writer has.
pub(super) fn may_hand_out(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    // Not older than the state: what is newer than that breaks a guard.
    let rbac = api.access.rbac();
    let who = who(&request.user);
    let mut allowed = Relied::default();
    let may = |requested: &RequestAttributes<'_>| {
        if let RbacDecision::Allow(granted) = rbac.allows(&who, requested) {
            allowed.add(&granted);
            return true;
        }
        request.may(&api.access, requested)
    };
    let restated = request.restates_identity;
    let write = RoleWrite { old, new, restated, path_name: &request.name };
    let plural = request.served.kind.plural.as_ref();
    let mut relied =
        rbac.check_write(&who, &write, may).map_err(|escalation| match escalation {
            // Upstream looks the role up as if it were what the request is about.
            Escalation::RoleAbsent { name } => Failure::not_found(GROUP, plural, &name),
            Escalation::RoleNameless | Escalation::RoleNowhere => {
                Failure::bad_request(escalation.message(&who))
            }
            other => Failure::forbidden(GROUP, plural, new.name(), &other.message(&who)),
        })?;
    relied.roles.append(&mut allowed.roles);
    relied.bindings.append(&mut allowed.bindings);
    extras.guards.extend(guards(state, &relied).take(GUARDS_MAX));
    Ok(())
}

/// What a decision relied on, as it stands in a state; the role that is bound comes first.
fn guards(state: &World, relied: &Relied<'_>) -> impl Iterator<Item = Precondition> {
    let key = |cluster: &str, local: &str, (namespace, name): &(&str, &str)| match *namespace {
        "" => format!("/registry/{cluster}/{name}"),
        namespace => format!("/registry/{local}/{namespace}/{name}"),
    };
    let roles = relied.bound.iter().chain(&relied.roles);
    let roles = roles.map(move |role| key("clusterroles", "roles", role));
    let bindings = relied.bindings.iter();
    let bindings = bindings.map(move |binding| key("clusterrolebindings", "rolebindings", binding));
    roles.chain(bindings).map(|key| Precondition::At {
        revision: state.get(&key).map(|record| record.revision()),
        key: key.into(),
    })
}

/// Gives other ClusterRoles the rules that they gather, in the transaction that changes a part. Those that do not
/// hold what they gather yet, and the role itself, get it a moment later (R157, R157a).
pub(super) fn gather(
    api: &ApiServer,
    state: &World,
    request: &ResourceRequest,
    operation: Operation,
    object: &Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let own = Role::from_object(object);
    let change = match operation {
        Operation::Delete => RoleChange::Gone(&own.name),
        _ => RoleChange::Put(&own),
    };
    let rbac = api.access.rbac();
    // Another role that gathers is not to come unseen.
    extras.guards.push(Precondition::Unmentioned {
        prefixes: Arc::new(["/registry/clusterroles/".into()]),
        text: "aggregationRule".into(),
        seen: state.revision(),
    });
    let waiting: Vec<String> =
        rbac.aggregates(RoleChange::None).into_iter().map(|(name, _)| name).collect();
    for (name, rules) in rbac.aggregates(change) {
        if name == own.name || waiting.contains(&name) {
            continue;
        }
        // Upstream's controller leaves no list where it finds no rule.
        let rules = match rules.as_slice() {
            [] => Value::Null,
            rules => rules.iter().map(PolicyRule::to_value).collect(),
        };
        let key = request.served.key("", &name);
        let Some(record) = state.get(&key) else { continue };
        let mut role = request.served.read(record)?;
        role.insert("rules".into(), rules);
        let draft = draft(&request.served, &role)?;
        extras.guards.push(Precondition::At {
            key: Arc::clone(record.key()),
            revision: Some(record.revision()),
        });
        extras.writes.push(WriteOperation::Put { key: Arc::clone(record.key()), draft });
    }
    Ok(())
}
