//! What the patch of a webhook makes of an object.

use serde_json::Value;
use tenure_machinery::{Failure, Object};

use super::call::WebhookCall;
use super::compiled::Webhook;
use crate::admit::policy::subject::convert;
use crate::write::decode;

/// The object that a webhook saw with its patch applied, decoded and defaulted, in the form of the request.
pub(super) fn apply(
    call: &WebhookCall,
    hook: &Webhook,
    object: &Object,
    patch: &[Value],
) -> Result<Object, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::internal(format!("the patch of webhook {:?} does not apply: {why}", hook.name))
    };
    let (seen, served) = match &call.seen {
        Some((seen, served)) => (seen.clone(), served),
        None => (object.clone(), &call.requested),
    };
    let patch = Value::Array(patch.to_vec());
    let patched =
        tenure_patch::json::apply(seen, &patch).map_err(|error| failed(&error.message))?;
    decode::check_object_size(&patched)?;
    if call.posted {
        return Ok(patched);
    }
    let mut patched = patched;
    // What the schema does not know falls away in silence, as upstream's decoder has it.
    decode::check_schema(served, &mut patched).map_err(|why| failed(&why))?;
    served.kind.rules.default(&mut patched);
    if served.api_version == call.requested.api_version {
        return Ok(patched);
    }
    Ok(convert(patched, served, &call.requested))
}

/// A webhook wants to change what goes, or what was never there.
pub(super) fn nothing_to_change(hook: &Webhook) -> Failure {
    Failure::internal(format!(
        "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
        hook.name
    ))
}
