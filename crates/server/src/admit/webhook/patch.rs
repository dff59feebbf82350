//! What the patch of a webhook makes of an object.

use serde_json::Value;
use tenure_machinery::{Failure, Object};

use super::call::WebhookCall;
use super::compiled::Webhook;
use crate::api::ApiServer;
use crate::write::decode;

/// The object with the patch of a webhook applied to what it saw of it, decoded and defaulted.
pub(super) async fn apply(
    api: &ApiServer,
    user: &str,
    call: WebhookCall,
    hook: &Webhook,
    object: &Object,
    patch: &[Value],
) -> Result<Object, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::internal(format!("the patch of webhook {:?} does not apply: {why}", hook.name))
    };
    let (seen, shown) = call.seen.ok_or_else(|| nothing_to_change(hook))?;
    let patch = Value::Array(patch.to_vec());
    let mut patched =
        tenure_patch::json::apply(seen, &patch).map_err(|error| failed(&error.message))?;
    decode::check_object_size(&patched)?;
    // What the schema does not know falls away in silence, as upstream's decoder has it.
    shown.read(&mut patched).map_err(|why| failed(&why))?;
    shown.restore(api, user, patched, object).await
}

/// A webhook wants to change what goes, or what was never there.
pub(super) fn nothing_to_change(hook: &Webhook) -> Failure {
    Failure::internal(format!(
        "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
        hook.name
    ))
}
