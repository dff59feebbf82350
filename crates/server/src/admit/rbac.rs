//! Nobody hands out more than they hold; gathered roles follow their parts (R157, R158).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_rbac::{Escalation, GROUP, Role, RoleChange, RoleWrite, Rule};
use tenure_world::{Guard, World, Write};

use crate::access::who;
use crate::admit::Operation;
use crate::api::Api;
use crate::request::Request;
use crate::write::commit::{Extras, draft};

/// Refuses a role or binding that would give more than its writer has.
pub(super) fn may_hand_out(
    api: &Api,
    request: &Request,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let rbac = api.access.rbac();
    let who = who(&request.user);
    let may = |asked: &tenure_rbac::Asked<'_>| api.access.may(&request.user, asked).is_some();
    let write = RoleWrite { old, new, path_name: &request.name };
    let plural = request.served.kind.plural.as_ref();
    rbac.check_write(&who, &write, may).map_err(|escalation| match escalation {
        Escalation::RoleAbsent => Failure::not_found(GROUP, plural, new.name()),
        other => Failure::forbidden(GROUP, plural, new.name(), &other.message(&who)),
    })
}

/// Gives gathered ClusterRoles the rules of their parts, in the transaction that changes a part.
pub(super) fn gather(
    api: &Api,
    state: &World,
    request: &Request,
    operation: Operation,
    object: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let own = Role::from_object(object);
    let change = match operation {
        Operation::Delete => RoleChange::Gone(&own.name),
        _ => RoleChange::Put(&own),
    };
    for (name, rules) in api.access.rbac().aggregates(change) {
        // Upstream's controller leaves no list where it finds no rule.
        let rules = match rules.as_slice() {
            [] => Value::Null,
            rules => rules.iter().map(Rule::to_value).collect(),
        };
        if name == own.name {
            object.insert("rules".into(), rules);
            continue;
        }
        let key = request.served.key("", &name);
        let Some(record) = state.get(&key) else { continue };
        let mut role = request.served.read(record)?;
        role.insert("rules".into(), rules);
        let draft = draft(&request.served, &role)?;
        extras.guards.push(Guard::At {
            key: std::sync::Arc::clone(record.key()),
            revision: Some(record.revision()),
        });
        extras.writes.push(Write::Put { key: std::sync::Arc::clone(record.key()), draft });
    }
    Ok(())
}
