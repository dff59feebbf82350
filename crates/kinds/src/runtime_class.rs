//! RuntimeClass: a handler that never changes.

use tenure_machinery::validate::{text, validate_frozen};
use tenure_machinery::{Errors, Object, Path, Rules, name};

/// Rules of RuntimeClass.
pub(crate) struct RuntimeClassRules;

impl Rules for RuntimeClassRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let handler = text(object, "handler");
        if let Some(why) = name::dns_label(handler) {
            errors.invalid(&Path::Root.field("handler"), format_args!("{handler:?}"), why);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "handler", &Path::Root, errors);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, update_faults};

    #[test]
    fn r136_runtime_class() {
        let kind = row("node.k8s.io", "RuntimeClass");
        assert_eq!(faults(&kind, json!({})), ["handler FieldValueInvalid"]);
        assert_eq!(
            update_faults(&kind, json!({"handler": "a"}), json!({"handler": "b"})),
            ["handler FieldValueInvalid"]
        );
    }
}
