//! Roles that gather the rules of others get them a moment after they were written (R157a).
//!
//! ```text
//!   gathering role is written ──► stored as sent ──► its gathered rules are applied, by force
//!   a part is written ──► roles that hold what they gathered follow in the same transaction
//! ```
//!
//! Where nothing is gathered, nothing is applied: rules that a role was sent with stay.

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_machinery::Failure;
use tenure_rbac::{GROUP, RoleChange, Rule};
use tenure_world::Change;

use crate::api::Api;
use crate::internal::{find, request};
use crate::query::Query;
use crate::write::apply;

/// Under which name the rules are applied.
const MANAGER: &str = "clusterrole-aggregation-controller";
const OPTIONS: &str = "fieldManager=clusterrole-aggregation-controller&force=true";
/// Where roles are kept that may gather.
pub(crate) const CLUSTER_ROLES: &str = "/registry/clusterroles/";

/// Whether a change may leave a role without the rules that it gathers.
pub(crate) fn touches(change: &Change) -> bool {
    change.key.starts_with(CLUSTER_ROLES)
}

/// Applies the rules that roles gather and do not hold yet.
pub(crate) async fn settle(api: &Api) -> Result<(), Failure> {
    let served = find(api, GROUP, "clusterroles")?;
    for (name, rules) in api.access.rbac().aggregates(RoleChange::None) {
        let Some(record) = api.world.current().get(&served.key("", &name)).cloned() else {
            continue;
        };
        let mut config = json!({
            "apiVersion": served.api_version,
            "kind": served.kind.kind,
            // One that was made anew meanwhile comes by as a change.
            "metadata": { "name": name, "uid": record.uid() },
        });
        if let (false, Some(config)) = (rules.is_empty(), config.as_object_mut()) {
            config.insert("rules".to_owned(), rules.iter().map(Rule::to_value).collect());
        }
        let mut request = request(&served, "", &name, MANAGER);
        request.query = Query::parse(Some(OPTIONS));
        request.body = Bytes::from(Value::to_string(&config));
        match apply::apply(api, &mut request).await {
            Ok(_) => {}
            // It is gone, or another one.
            Err(failure) if matches!(failure.code, 404 | 409 | 422) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
