//! From a body to a checked object (R21, R32, R54, R55).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_schema::{decode as schema, duplicate};

use crate::query::FieldValidation;
use crate::registry::Served;
use crate::request::Request;

/// Reads the body of a create or update.
pub(crate) fn body(request: &mut Request, validation: FieldValidation) -> Result<Object, Failure> {
    let (value, duplicates) = parse(&request.content_type, &request.body, validation)?;
    let Value::Object(mut object) = value else {
        return Err(Failure::bad_request("the body is not an object"));
    };
    check_type(&object, &request.served)?;
    let mut findings: Vec<String> =
        duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    let served = std::sync::Arc::clone(&request.served);
    findings.extend(check_schema(&served, &mut object).map_err(Failure::bad_request)?);
    report(request, validation, &findings).map_err(Failure::bad_request)?;
    Ok(object)
}

/// Reads JSON or YAML; says which keys stand twice when somebody wants to know.
pub(crate) fn parse(
    content_type: &str,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Failure> {
    match content_type {
        "" | "application/json" => {
            let value = serde_json::from_slice(body)
                .map_err(|error| Failure::bad_request(format!("the body is not JSON: {error}")))?;
            let duplicates = match validation {
                FieldValidation::Ignore => Vec::new(),
                _ => duplicate::duplicate_fields(body),
            };
            Ok((value, duplicates))
        }
        "application/yaml" => tenure_yaml::to_json_lenient(body, tenure_yaml::Limits::default())
            .map_err(|error| Failure::bad_request(format!("the body is not YAML: {error}"))),
        other => Err(unsupported(other)),
    }
}

/// 415 with the types that are read here.
#[must_use]
pub(crate) fn unsupported(media: &str) -> Failure {
    Failure::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml (not `{media}`)"
        ),
    )
}

/// `apiVersion` and `kind` may be absent; if present they agree with the path.
fn check_type(object: &Object, served: &Served) -> Result<(), Failure> {
    let version = object.str_at(&["apiVersion"]).unwrap_or_default();
    let kind = object.str_at(&["kind"]).unwrap_or_default();
    if !version.is_empty() && version != served.api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            served.api_version
        )));
    }
    if !kind.is_empty() && kind != served.kind.kind {
        return Err(Failure::bad_request(format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            served.kind.kind
        )));
    }
    Ok(())
}

/// Runs the schema over the object; answers the unknown fields it dropped, or what has a wrong type.
pub(crate) fn check_schema(served: &Served, object: &mut Object) -> Result<Vec<String>, String> {
    let Some(type_id) = served.type_id else { return Ok(Vec::new()) };
    let noticed = schema::decode(type_id, object).map_err(|wrong| wrong.message)?;
    object.insert("kind".into(), served.kind.kind.as_ref().into());
    object.insert("apiVersion".into(), served.api_version.as_str().into());
    Ok(noticed.unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

/// Refuses, warns or keeps still.
pub(crate) fn report(
    request: &mut Request,
    validation: FieldValidation,
    findings: &[String],
) -> Result<(), String> {
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Strict if findings.is_empty() => Ok(()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", findings.join(", "))),
        FieldValidation::Warn => {
            findings.iter().for_each(|finding| request.warn(finding.clone()));
            Ok(())
        }
    }
}

/// The body's namespace agrees with the path's and is filled from it; cluster-scoped kinds have none.
pub(crate) fn settle_namespace(request: &Request, object: &mut Object) -> Result<(), Failure> {
    let metadata = object.map_mut("metadata");
    if !request.served.kind.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != request.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), request.namespace.as_str().into());
    Ok(())
}
