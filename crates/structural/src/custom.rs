//! The rules of custom kinds: what the server asks of every kind, answered from a schema.
//!
//! Decoding comes before: [`crate::meta::coerce`], [`crate::prune::prune`] and
//! [`crate::default::default`] have run on the object.

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::field::Reason;
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::crd::ScalePaths;
use crate::schema::Schema;
use crate::{default, meta, unique, validate};

/// Compiles the rules of schemas; lives in another crate.
pub trait RuleEngine: Send + Sync {
    /// Adds what is wrong with the rules of a schema that stands at `path`; `raw` is the same schema
    /// as it is written in the definition.
    fn check(&self, raw: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Errors);
    /// The rules of a legal schema, ready to run; `None` when it has none.
    fn compile(&self, raw: &Value, schema: &Schema) -> Option<Box<dyn Evaluate>>;
}

/// Compiled rules.
pub trait Evaluate: Send + Sync {
    /// Adds what the rules say about an object, or about its change; gives up in haste when that
    /// takes long.
    fn evaluate(&self, schema: &Schema, object: &Object, old: Option<&Object>, errors: &mut Errors);
}

/// The rules of one version of a custom kind.
pub struct CustomResourceRules {
    /// Group and version, as objects name them.
    pub api_version: String,
    /// The kind, as objects name it.
    pub kind: String,
    /// Its schema; a version without one accepts nothing but metadata.
    pub schema: Option<Arc<Schema>>,
    /// Whether status is written through its own endpoint only.
    pub status: bool,
    /// Where replicas are counted, if there is a scale subresource.
    pub scale: Option<ScalePaths>,
    /// Its rules, compiled.
    pub rules: Option<Box<dyn Evaluate>>,
}

impl Rules for CustomResourceRules {
    fn default(&self, object: &mut Object) {
        if let Some(schema) = &self.schema {
            default::default(object, schema);
        }
    }

    fn prepare_create(&self, object: &mut Object, _: &Cx) {
        if self.status {
            object.remove("status");
        }
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _: &Cx) {
        if self.status {
            match old.get("status") {
                Some(status) => object.insert("status".to_owned(), status.clone()),
                None => object.remove("status"),
            };
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        // A stored object is judged together with what it was, in `validate_update`.
        if object.str_at(&["metadata", "resourceVersion"]).is_none_or(str::is_empty) {
            self.judge(object, None, errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        self.judge(object, Some(old), errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        if !self.is_own(object, errors) {
            return;
        }
        let Some(schema) = &self.schema else { return };
        let before = errors.causes().len();
        if let (Some(status), Some(schema)) =
            (object.get("status"), schema.properties.get("status"))
        {
            let path = Path::Root.field("status");
            validate::validate_value(status, old.get("status"), schema, &path, errors);
        }
        if let Some(scale) = &self.scale {
            scale.validate_status(object, errors);
        }
        self.judge_rest(schema, object, Some(old), before, errors);
    }
}

impl CustomResourceRules {
    /// Whether the object is of this kind at all.
    fn is_own(&self, object: &Object, errors: &mut Errors) -> bool {
        let before = errors.causes().len();
        for (member, wanted) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let found = object.str_at(&[member]).unwrap_or_default();
            if found != wanted {
                let why = format!("must be {wanted}");
                errors.invalid(&Path::Root.field(member), format_args!("{found:?}"), &why);
            }
        }
        errors.causes().len() == before
    }

    fn judge(&self, object: &Object, old: Option<&Object>, errors: &mut Errors) {
        if !self.is_own(object, errors) {
            return;
        }
        let before = errors.causes().len();
        if let Some(schema) = &self.schema {
            validate::validate(object, old, schema, errors);
        }
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, errors);
            scale.validate_status(object, errors);
        }
        if let Some(schema) = &self.schema {
            self.judge_rest(schema, object, old, before, errors);
        }
    }

    fn judge_rest(
        &self,
        schema: &Schema,
        object: &Object,
        old: Option<&Object>,
        before: usize,
        errors: &mut Errors,
    ) {
        meta::validate_embedded(object, schema, errors);
        // A list that repeated itself before may go on doing so.
        if old.is_none_or(|old| unique::is_unique(old, schema)) {
            unique::validate_unique(object, schema, errors);
        }
        let Some(rules) = &self.rules else { return };
        if errors.causes().iter().skip(before).any(|cause| blocks(cause.reason)) {
            errors.invalid(
                &Path::Root.field("<nil>"),
                Value::Null,
                "rules were not evaluated, since the object does not meet its schema",
            );
        } else {
            rules.evaluate(schema, object, old, errors);
        }
    }
}

/// Whether rules could stumble over a value with such a cause.
fn blocks(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotSupported
            | Reason::Required
            | Reason::TooLong
            | Reason::TooMany
            | Reason::TypeInvalid
    )
}
