//! Whether `openAPIV3Schema` is structural and legal; causes stand at the definition.
//!
//! Three passes, as upstream makes them: the structure, then the defaults if the structure holds,
//! and in any case everything else. Expressions are only checked for their form here.

mod defaults;
mod keywords;
mod structure;

use serde_json::Value;
use tenure_machinery::{Errors, Path};

use crate::parse;
use crate::raw::Raw;
use crate::schema::Schema;

/// Members that may stand at the root of a schema whose kind has a status of its own.
const WITH_STATUS: [&str; 21] = [
    "description",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Checks a schema that stands at `path`; `status` says whether the kind has a status subresource.
///
/// Answers the schema if nothing is wrong with it.
pub fn check(value: &Value, status: bool, path: &Path<'_>, errors: &mut Errors) -> Option<Schema> {
    if let Err(fault) = parse::bounds(value) {
        errors.invalid(path, "\"\"", &fault.to_string());
        return None;
    }
    let Some(raw) = Raw::new(value) else {
        errors.invalid(path, value, "must be an object");
        return None;
    };
    let before = errors.causes().len();
    if status {
        check_root_with_status(raw, path, errors);
    }
    if raw.flag("nullable") {
        errors.forbidden(&path.field("nullable"), "the root must not be nullable");
    }
    let mut unread = structure::unsupported(raw);
    let mut schema = None;
    if unread.is_none() && structure::check(raw, path, errors) {
        match Schema::parse(value) {
            Ok(read) => {
                defaults::check(&read, path, errors);
                schema = Some(read);
            }
            Err(fault) => unread = Some(fault.to_string()),
        }
    }
    keywords::check(raw, path, errors);
    let clean = errors.causes().len() == before;
    // What cannot be read is usually explained better by what was found above.
    if let Some(why) = unread.filter(|_| clean) {
        errors.invalid(path, "\"\"", &why);
    }
    schema.filter(|_| clean)
}

/// Whether a schema is structural; says what is not, in order.
pub fn check_structure(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let (Ok(()), Some(raw)) = (parse::bounds(value), Raw::new(value)) {
        structure::check(raw, path, errors);
    }
}

fn check_root_with_status(raw: Raw<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !raw.kind().is_empty() && raw.kind() != "object" {
        let why = "must be object at the root if there is a status subresource";
        errors.invalid(&path.field("type"), format_args!("{:?}", raw.kind()), why);
        return;
    }
    let other = raw.members().find(|member| *member != "type" && !WITH_STATUS.contains(member));
    if let Some(member) = other {
        let why = format!("must not have {member} at the root if there is a status subresource");
        errors.invalid(path, "\"\"", &why);
    }
}
