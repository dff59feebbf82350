//! Whether the expressions of ValidatingAdmissionPolicies fit the kinds that they are about (api-server R164d).
//!
//! ```text
//!   policy is written ──► the host compiles its expressions against schemas ──► warnings in its status
//! ```
//!
//! Once for each generation: a kind that is defined later is seen when the policy changes again, as upstream has
//! it. The language and the schemas are the host's.

use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::ControllerIntent;
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

const POLICIES: BuiltinResource = BuiltinResource::ValidatingAdmissionPolicies;

/// The controller of their status. A key names a policy.
pub struct PolicyTypes;

impl Controller for PolicyTypes {
    fn name(&self) -> &'static str {
        "validatingadmissionpolicy-status-controller"
    }
    fn alias(&self) -> &'static str {
        "validatingadmissionpolicy-status"
    }
    fn manager(&self) -> &'static str {
        "validatingadmissionpolicy-status"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[POLICIES]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if let Some(policy) = change.after.filter(|policy| is_unseen(policy)) {
            wake(ReconcileKey::of(policy));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let policy = pass.view.get(POLICIES, "", &pass.key.name);
        if let Some(policy) = policy.filter(|policy| is_unseen(policy)) {
            out.push(ControllerIntent::check_types(Object::clone(&policy), policy.revision));
        }
        out
    }
}

/// Whether nobody looked at this generation.
fn is_unseen(policy: &Object) -> bool {
    let seen = policy.int_at(&["status", "observedGeneration"]).unwrap_or(0);
    let generation = policy.int_at(&["metadata", "generation"]).unwrap_or(0);
    seen < generation && !owner::deleting(policy)
}
