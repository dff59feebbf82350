//! Rules in schemas: refused until they can be run (dependencies R20).
//!
//! A definition that says when its objects are valid must not be accepted and then ignored.

use tenure_machinery::{Errors, Path};
use tenure_structural::{Evaluate, RuleEngine, Schema};

/// Refuses every rule at registration.
pub struct Refuse;

impl RuleEngine for Refuse {
    fn check(&self, schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
        for rule in schema.cel_rules() {
            errors.forbidden(
                &path.field(&rule.field()).field("rule"),
                "validation rules are not evaluated by this release",
            );
        }
    }

    fn compile(&self, _: &Schema) -> Option<Box<dyn Evaluate>> {
        None
    }
}
