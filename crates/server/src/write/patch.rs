//! PATCH: JSON, merge and strategic patches (R83–R90).

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_kinds::retention;
use tenure_machinery::status::Details;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_patch::{PatchError, PatchErrorKind, TypeSchema};
use tenure_schema::{duplicate, facts};

use crate::api::ApiServer;
use crate::query::{FieldValidation, WriteOptions};
use crate::read::get::missing;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::decode;
use crate::write::managed::ManagedFieldsMode;
use crate::write::stages::StoredObject;
use crate::write::update::{UpdateOutcome, changed, store, version_missing};

/// The patch types that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Merge by the keys of the schema.
    Strategic,
}

impl PatchType {
    /// From the bare media type; 415 for any other.
    pub(crate) fn read(media: &str) -> Result<PatchType, Failure> {
        match media {
            "application/json-patch+json" => Ok(PatchType::Json),
            "application/merge-patch+json" => Ok(PatchType::Merge),
            "application/strategic-merge-patch+json" => Ok(PatchType::Strategic),
            other => Err(PatchType::unsupported(other).with(Details::default())),
        }
    }

    fn unsupported(media: &str) -> Failure {
        Failure::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/apply-patch+yaml, application/strategic-merge-patch+json for built-in \
                 kinds (not `{media}`)"
            ),
        )
    }
}

/// PATCH of an object or its status, computed again on newer objects until the deadline (R68).
pub(crate) async fn patch(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<ResponseObject, Failure> {
    let kind = PatchType::read(&request.content_type)?;
    if kind == PatchType::Strategic && request.served.custom.is_some() {
        // Clients fall back to a merge patch on this answer (R21).
        return Err(PatchType::unsupported(&request.content_type));
    }
    let options = WriteOptions::read(&request.query, "PatchOptions", false)?;
    let patch = read_patch(&request.body, kind)?;
    let repeated = repeated(&request.body, kind, &patch, options.validation);
    let served = Arc::clone(&request.served);
    let key = served.key(&request.namespace, &request.name);
    loop {
        let Some(record) = api.world.current().get(&key).cloned() else {
            return Err(missing(&served, &request.name));
        };
        let StoredObject { object: old, .. } = StoredObject::read(api, request, &record).await?;
        let mut new = apply(&served, kind, old.clone(), &patch)?;
        check_type(&served, kind, &old, &new)?;
        warn_of_kept(request, &old, &new);
        let mut findings = repeated.clone();
        findings.extend(decode::check_schema(&served, &mut new).map_err(|m| bad_result(&m))?);
        decode::report(request, options.validation, &findings).map_err(|m| bad_result(&m))?;
        decode::settle_namespace(request, &mut new)?;
        check_name(request, &new)?;
        let conditional = asks_for_version(&patch, kind);
        // A patch that takes the version away asks for none, where the kind lets it.
        let named = new.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        if matches!(named, "" | "0") {
            if !served.kind.unconditional_update {
                return Err(version_missing(request));
            }
        } else if version(&new) != Some(record.revision()) {
            return Err(changed(request));
        }
        let live = StoredObject { record: &record, object: old };
        match store(api, request, &options, live, new, ManagedFieldsMode::Written).await? {
            UpdateOutcome::Done(found) => return Ok(found),
            UpdateOutcome::Moved if conditional => return Err(changed(request)),
            UpdateOutcome::Moved | UpdateOutcome::Again => {}
        }
    }
}

/// Says what the patch takes away and the server keeps (retention R4).
pub(crate) fn warn_of_kept(request: &mut ResourceRequest, old: &Object, new: &Object) {
    if !retention::is_subject(&request.served.kind) {
        return;
    }
    if let Some(warning) = retention::kept(old, new) {
        request.warn(warning);
    }
}

/// Reads the body: a list of operations or an object.
pub(crate) fn read_patch(body: &[u8], kind: PatchType) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the patch is not JSON: {error}")))?;
    decode::check_size(&value)?;
    match (kind, &value) {
        (PatchType::Json, Value::Array(_))
        | (PatchType::Merge | PatchType::Strategic, Value::Object(_)) => Ok(value),
        (PatchType::Json, _) => Err(Failure::bad_request("a JSON patch is a list of operations")),
        _ => Err(Failure::bad_request("the patch is not an object")),
    }
}

/// The members that a patch gives twice, and those of its operations that mean nothing, when somebody wants
/// to know (R32). The patched object no longer shows them.
pub(crate) fn repeated(
    body: &[u8],
    kind: PatchType,
    patch: &Value,
    validation: FieldValidation,
) -> Vec<String> {
    if validation == FieldValidation::Ignore {
        return Vec::new();
    }
    let twice = duplicate::duplicate_fields(body);
    if kind != PatchType::Json {
        return twice.iter().map(|path| format!("duplicate field {path:?}")).collect();
    }
    let unknown = unknown_members(patch);
    // What a member means that nobody reads is not looked at.
    let read = twice.iter().filter(|path| {
        !unknown.iter().any(|member| {
            let rest = path.strip_prefix(member.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    });
    let read = read.map(|path| format!("json patch duplicate field {path:?}"));
    read.chain(unknown.iter().map(|path| format!("json patch unknown field {path:?}"))).collect()
}

/// How many members of operations are told, as of all others.
const UNKNOWN_TOLD: usize = 100;

fn unknown_members(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let members = operations.flat_map(|(index, operation)| {
        let names = operation.as_object().into_iter().flatten().map(|(name, _)| name);
        let strange =
            names.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        strange.map(move |name| format!("[{index}].{name}"))
    });
    members.take(UNKNOWN_TOLD).collect()
}

/// The patched members, not yet checked.
pub(crate) fn apply(
    served: &ServedKind,
    kind: PatchType,
    old: Object,
    patch: &Value,
) -> Result<Object, Failure> {
    let result = match (kind, served.type_id) {
        (PatchType::Json, _) => tenure_patch::json::apply(old, patch),
        (PatchType::Merge, _) | (PatchType::Strategic, None) => {
            tenure_patch::merge::apply(old, patch)
        }
        (PatchType::Strategic, Some(type_id)) => {
            tenure_patch::strategic::apply(&TypeSchema::new(facts(), type_id), old, patch)
        }
    };
    let patched = result.map_err(failed)?;
    decode::check_object_size(&patched)?;
    Ok(patched)
}

pub(crate) fn failed(error: PatchError) -> Failure {
    match error.kind {
        PatchErrorKind::BadRequest => Failure::bad_request(error.message),
        PatchErrorKind::Unprocessable | PatchErrorKind::TestFailed => {
            Failure::new(422, "Invalid", error.message).with(Details::default())
        }
        PatchErrorKind::TooLarge => {
            Failure::new(413, "RequestEntityTooLarge", error.message).with(Details::default())
        }
        PatchErrorKind::Internal => Failure::internal(error.message),
    }
}

/// 422 at `patch`: the result is no object of this kind (R32).
pub(crate) fn bad_result(message: &str) -> Failure {
    let mut errors = Errors::new();
    errors.invalid(&Path::Root.field("patch"), "the patched object", message);
    Failure::invalid("", "", "", errors)
}

/// A patch may not change what the object is (R85).
fn check_type(
    served: &ServedKind,
    kind: PatchType,
    old: &Object,
    new: &Object,
) -> Result<(), Failure> {
    // What a strategic patch makes is read by the type of its object, whatever it calls itself.
    if kind == PatchType::Strategic {
        return Ok(());
    }
    let unset = |member: &str| match new.get(member) {
        None | Some(Value::Null) => true,
        Some(value) => value.as_str() == Some(""),
    };
    for member in ["kind", "apiVersion"] {
        if old.get(member) == new.get(member) {
            continue;
        }
        if !unset(member) || served.custom.is_some() {
            return Err(bad_result(&format!("{member} may not change")));
        }
    }
    // A built-in kind needs no saying, but without a version there is no form to read its name by.
    if unset("apiVersion") {
        return Err(Failure::bad_request("apiVersion: the patched object has no version"));
    }
    Ok(())
}

/// A patch may not change which object this is (R85).
fn check_name(request: &ResourceRequest, new: &Object) -> Result<(), Failure> {
    if new.name() == request.name {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "metadata.name: the name of the object ({}) does not match the name on the URL ({})",
        new.name(),
        request.name,
    )))
}

fn version(object: &Object) -> Option<Revision> {
    object.str_at(&["metadata", "resourceVersion"]).and_then(Revision::parse)
}

/// Whether the patch itself names a version: then a lost race is the client's to resolve (R68).
fn asks_for_version(patch: &Value, kind: PatchType) -> bool {
    match kind {
        // One that only tests the version says so itself when it is computed again: 422, as upstream.
        PatchType::Json => patch.as_array().is_some_and(|operations| {
            operations.iter().any(|operation| {
                operation.get("path").and_then(Value::as_str) == Some("/metadata/resourceVersion")
                    && operation.get("op").and_then(Value::as_str) != Some("test")
            })
        }),
        _ => patch
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str)
            .is_some_and(|version| !matches!(version, "" | "0")),
    }
}
