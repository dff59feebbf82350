//! Roles that gather the rules of others get them a moment after they were written (api-server R157a).
//!
//! ```text
//!   gathering role is written ──► stored as sent ──► its gathered rules are applied, by force
//!   a part is written ──► roles that hold what they gathered follow in the same transaction
//! ```
//!
//! What a role gathers is decided by engine `rbac`. Where nothing is gathered, nothing is applied: rules that a
//! role was sent with stay.

use alloc::string::ToString;

use serde_json::json;
use tenure_machinery::{Object, WriteRefusal};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::ControllerIntent;
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

/// Codes of an application to a role that is gone, or is another one by now.
const GONE_OR_ANOTHER: &[WriteRefusal] =
    &[WriteRefusal::Absent, WriteRefusal::Conflict, WriteRefusal::Invalid];

/// The controller of aggregated ClusterRoles. It has one key.
pub struct RoleAggregation;

impl Controller for RoleAggregation {
    fn name(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }
    fn alias(&self) -> &'static str {
        "clusterrole-aggregation"
    }
    fn manager(&self) -> &'static str {
        "clusterrole-aggregation-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::ClusterRoles]
    }
    fn wake(&self, _: &ObjectChange<'_>, _: &dyn ClusterView, wake: &mut dyn FnMut(ReconcileKey)) {
        wake(ReconcileKey::new("", ""));
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        for (name, rules) in pass.view.gathered_rules() {
            let Some(role) = pass.view.get(BuiltinResource::ClusterRoles, "", &name) else {
                continue;
            };
            let config = json!({
                "apiVersion": BuiltinResource::ClusterRoles.api_version(),
                "kind": BuiltinResource::ClusterRoles.kind(),
                // One that was made anew meanwhile comes by as a change.
                "metadata": { "name": name, "uid": owner::uid(&role) },
            });
            let mut config: Object = config.as_object().cloned().unwrap_or_default();
            if !rules.is_empty() {
                config.insert("rules".to_string(), rules.into());
            }
            let apply = ControllerIntent::apply(BuiltinResource::ClusterRoles, config);
            out.push(apply.forgiving(GONE_OR_ANOTHER).independent());
        }
        out
    }
}
