//! What one mutation of a policy makes of an object: an apply configuration laid over it, or a JSON patch (R164a).

use serde_json::Value;
use tenure_machinery::{Failure, Object};
use tenure_patch::PatchErrorKind;

use super::compile::PatchForm;
use crate::admit::shown::{ShownObject, is_same_kind};
use crate::write::decode;

/// Why a mutation was not made.
pub(super) enum MutationError {
    /// The policy is wrong about this object; its failure policy says what comes of it.
    Policy(String),
    /// What the patch made is no object of its kind, whatever the failure policy is.
    Request(Failure),
}

/// Applies what an expression made; nothing if the patch finds that it has nothing to do.
pub(super) fn apply(
    form: PatchForm,
    made: Value,
    seen: &Object,
    shown: &ShownObject,
) -> Result<Option<Object>, MutationError> {
    match form {
        PatchForm::Json => json(made, seen, shown),
        PatchForm::Apply => configuration(made, seen, shown).map(Some),
    }
}

fn json(
    operations: Value,
    seen: &Object,
    shown: &ShownObject,
) -> Result<Option<Object>, MutationError> {
    let mut patched = match tenure_patch::json::apply(seen.clone(), &operations) {
        Ok(patched) => patched,
        // A patch whose test does not hold is not meant for this object.
        Err(error) if error.kind == PatchErrorKind::TestFailed => return Ok(None),
        Err(error) => return Err(MutationError::Policy(format!("JSON Patch: {error}"))),
    };
    decode::check_object_size(&patched).map_err(MutationError::Request)?;
    let wrong = |why: &str| MutationError::Request(Failure::internal(why));
    if !is_same_kind(&patched, seen) {
        return Err(wrong("a JSON patch of a policy may not change kind or apiVersion"));
    }
    let unknown = shown.read(&mut patched).map_err(|why| wrong(&why))?;
    match unknown.is_empty() || !shown.is_strict() {
        true => Ok(Some(patched)),
        false => {
            let reported = unknown.iter().map(|path| format!("unknown field {path:?}"));
            let reported = reported.collect::<Vec<_>>().join(", ");
            Err(wrong(&format!("strict decoding error: {reported}")))
        }
    }
}

fn configuration(made: Value, seen: &Object, shown: &ShownObject) -> Result<Object, MutationError> {
    let failed = |why: String| MutationError::Policy(format!("error applying patch: {why}"));
    let Value::Object(mut config) = made else {
        return Err(failed("the configuration is no object".to_owned()));
    };
    for member in ["kind", "apiVersion"] {
        match seen.get(member) {
            Some(own) => config.insert(member.to_owned(), own.clone()),
            None => config.remove(member),
        };
    }
    let mut patched = shown.overlay(seen, &config).map_err(failed)?;
    decode::check_object_size(&patched).map_err(MutationError::Request)?;
    shown.read(&mut patched).map_err(failed)?;
    Ok(patched)
}
