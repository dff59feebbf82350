//! Admission policies: what users forbid, and what they change, in expressions (R161, R164; spec/downward-api.md
//! R59).
//!
//! ```text
//!   commit of a policy or binding ──► PolicyUpdater ──► BoundPolicies (replaced whole; compiled when first needed)
//!   write ──► matching ──► parameters ──► mutate ──► patches of the object
//!                                     └─► evaluate ──► refusal, warnings, lines for the audit log
//! ```
//!
//! The language lives in crate `cel`, patches in crate `patch`. Reviews are not looked at: they write nothing.

mod authorize;
mod bound;
mod cases;
mod check;
pub(in crate::admit) mod compile;
pub(in crate::admit) mod evaluate;
pub(in crate::admit) mod matching;
mod mutate;
mod patch;
mod proxied;
pub(in crate::admit) mod subject;
mod type_check;
mod validate;

use std::sync::Arc;

use tenure_world::{Change, LockStep, World};

pub(super) use authorize::may_read_parameters;
pub(super) use bound::LazyRecord;
pub(super) use check::check;
pub(super) use mutate::mutate;
pub(crate) use proxied::proxied_path;
pub(crate) use subject::AdmissionAttributes;
pub(crate) use type_check::expression_warnings;
pub(crate) use validate::{enforce, enforce_now};

use super::Operation;
use crate::request::ResourceRequest;
use bound::BoundPolicies;

/// The policies that are bound, as they are now.
pub(crate) struct AdmissionPolicies {
    /// Those that refuse.
    pub(crate) validating: BoundPolicies,
    /// Those that change.
    pub(crate) mutating: BoundPolicies,
}

impl Default for AdmissionPolicies {
    fn default() -> AdmissionPolicies {
        AdmissionPolicies {
            validating: BoundPolicies::new(
                "/registry/validatingadmissionpolicies/",
                "/registry/validatingadmissionpolicybindings/",
            ),
            mutating: BoundPolicies::new(
                "/registry/mutatingadmissionpolicies/",
                "/registry/mutatingadmissionpolicybindings/",
            ),
        }
    }
}

impl AdmissionPolicies {
    /// The index that must be handed to the world.
    #[must_use]
    pub(crate) fn feed(self: &Arc<AdmissionPolicies>) -> Box<dyn LockStep> {
        Box::new(PolicyUpdater { policies: Arc::clone(self) })
    }

    /// Whether no policy is bound, so that nobody has to look further.
    pub(crate) fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }

    /// Whether some policy may change what such a request writes; what goes is not changed.
    pub(crate) fn may_change(&self, operation: Operation, request: &ResourceRequest) -> bool {
        operation != Operation::Delete && self.mutating.may_concern(operation, request)
    }
}

struct PolicyUpdater {
    policies: Arc<AdmissionPolicies>,
}

impl LockStep for PolicyUpdater {
    fn start(&mut self, world: &World) {
        self.policies.validating.read(world);
        self.policies.mutating.read(world);
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        self.policies.validating.apply(world, changes);
        self.policies.mutating.apply(world, changes);
    }
}
