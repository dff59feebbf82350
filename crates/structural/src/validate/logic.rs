//! `allOf`, `anyOf`, `oneOf` and `not`: which alternatives hold, and which failure is explained.
//!
//! Of several failing alternatives the one with the most checks that held is explained.

use serde_json::Value;
use tenure_machinery::Path;

use super::{SchemaValidator, ValidationOutcome};
use crate::ratchet::Old;
use crate::schema::{Schema, ValueConstraints};

impl SchemaValidator<'_> {
    pub(super) fn logic(
        &self,
        value: &Value,
        old: Option<Old<'_>>,
        limits: &ValueConstraints,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let mut found = ValidationOutcome::default();
        let run = |schema: &Schema| self.value(value, old, schema, path);
        self.any_of(limits, &run, path, &mut found);
        self.one_of(limits, &run, path, &mut found);
        self.all_of(limits, &run, path, &mut found);
        if limits.not.as_deref().is_some_and(|not| run(not).is_valid()) {
            self.whole(
                format!("{:?} must not match the schema of not", path.to_string()),
                &mut found,
            );
        }
        found.matches += 2;
        out.merge_new(found);
    }

    fn any_of(
        &self,
        limits: &ValueConstraints,
        run: &dyn Fn(&Schema) -> ValidationOutcome,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let mut best: Option<ValidationOutcome> = None;
        for schema in &limits.any_of {
            let result = run(schema);
            if result.is_valid() {
                out.matches += result.matches;
                return;
            }
            if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        if let Some(best) = best {
            let name = path.to_string();
            self.whole(format!("{name:?} must match at least one schema of anyOf"), out);
            out.merge_new(best);
        }
    }

    fn one_of(
        &self,
        limits: &ValueConstraints,
        run: &dyn Fn(&Schema) -> ValidationOutcome,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let mut best: Option<ValidationOutcome> = None;
        let mut first: Option<ValidationOutcome> = None;
        let mut valid = 0_usize;
        for schema in &limits.one_of {
            let result = run(schema);
            if result.is_valid() {
                valid += 1;
                first.get_or_insert(result);
            } else if best.as_ref().is_none_or(|best| result.matches > best.matches) {
                best = Some(result);
            }
        }
        match (valid, first) {
            _ if limits.one_of.is_empty() => {}
            (1, Some(first)) => out.matches += first.matches,
            _ => {
                let name = path.to_string();
                let message =
                    format!("{name:?} must match one schema of oneOf, but matches {valid}");
                self.whole(message, out);
                if let Some(best) = best.filter(|_| valid == 0) {
                    out.merge_new(best);
                }
            }
        }
    }

    fn all_of(
        &self,
        limits: &ValueConstraints,
        run: &dyn Fn(&Schema) -> ValidationOutcome,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let mut valid = true;
        for schema in &limits.all_of {
            let result = run(schema);
            valid &= result.is_valid();
            out.merge_new(result);
        }
        if !valid {
            let name = path.to_string();
            self.whole(format!("{name:?} must match all schemas of allOf"), out);
        }
    }
}
