//! Lease: a holder for a time.

use tenure_machinery::validate::{text, validate_non_negative, validate_one_of};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules};

use crate::stored::spec;

/// Rules of Lease.
pub(crate) struct LeaseRules;

impl Rules for LeaseRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if let Some(seconds) = spec.int_at(&["leaseDurationSeconds"])
            && seconds <= 0
        {
            errors.invalid(&path.field("leaseDurationSeconds"), seconds, "must be more than 0");
        }
        validate_non_negative(spec, "leaseTransitions", &path, errors);
        validate_one_of(spec, "strategy", &["OldestEmulationVersion"], &path, errors);
        if !text(spec, "preferredHolder").is_empty() && text(spec, "strategy").is_empty() {
            errors.forbidden(&path.field("preferredHolder"), "needs a strategy");
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row};

    #[test]
    fn r136_lease() {
        let kind = row("coordination.k8s.io", "Lease");
        let cases = [
            (json!({"leaseDurationSeconds": 15, "leaseTransitions": 0}), vec![]),
            (
                json!({"leaseDurationSeconds": 0}),
                vec!["spec.leaseDurationSeconds FieldValueInvalid"],
            ),
            (json!({"leaseTransitions": -1}), vec!["spec.leaseTransitions FieldValueInvalid"]),
            (json!({"preferredHolder": "h"}), vec!["spec.preferredHolder FieldValueForbidden"]),
        ];
        for (spec, expected) in cases {
            assert_eq!(faults(&kind, json!({"spec": spec})), expected);
        }
    }
}
