//! What is asked of a conversion webhook, and what it may answer (R129).
//!
//! An answer has every object in its place, in the version that was asked for, and is still the same object:
//! of its metadata only labels and annotations are taken over. Nothing is called here.

use serde_json::{Value, json};
use tenure_machinery::meta::validate_annotations;
use tenure_machinery::validate::validate_labels;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

/// The longest text of an answer that is shown.
const SHOWN_BYTES_MAX: usize = 512;

/// In which version a webhook wants its reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversionReviewVersion {
    V1,
    V1Beta1,
}

impl ConversionReviewVersion {
    /// The first of a list that the server speaks.
    pub(super) fn first_of(list: &[Value]) -> Option<ConversionReviewVersion> {
        list.iter().find_map(|version| match version.as_str()? {
            "v1" => Some(ConversionReviewVersion::V1),
            "v1beta1" => Some(ConversionReviewVersion::V1Beta1),
            _ => None,
        })
    }

    fn api_version(self) -> &'static str {
        match self {
            ConversionReviewVersion::V1 => "apiextensions.k8s.io/v1",
            ConversionReviewVersion::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

/// What a call went wrong by, as upstream's metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConversionFault {
    /// There was no answer.
    Call,
    /// The answer is no answer to what was asked, or says that the webhook failed.
    Malformed,
    /// It has another number of objects.
    Partial,
    /// One of its objects is not what was asked for.
    Object,
}

impl ConversionFault {
    /// The value of the label.
    pub(super) fn label(self) -> &'static str {
        match self {
            ConversionFault::Call => "conversion_webhook_call_failure",
            ConversionFault::Malformed => "conversion_webhook_malformed_response_failure",
            ConversionFault::Partial => "conversion_webhook_partial_response_failure",
            ConversionFault::Object => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// Why an answer cannot be used: what it is counted as, and in words that follow the name of the webhook.
pub(super) type Unusable = (ConversionFault, String);

/// A review as JSON: these objects, in that version.
pub(super) fn request(
    version: ConversionReviewVersion,
    uid: &str,
    desired: &str,
    objects: &[Object],
) -> Vec<u8> {
    let review = json!({
        "kind": "ConversionReview", "apiVersion": version.api_version(),
        "request": { "uid": uid, "desiredAPIVersion": desired, "objects": [] },
    });
    let text = review.to_string();
    // The list is put in by hand, so that no object is copied; the text before it is made here, and short.
    const EMPTY: &str = "\"objects\":[]";
    let Some((before, after)) = text.split_once(EMPTY) else { return text.into_bytes() };
    let mut out = Vec::with_capacity(text.len() + objects.len() * 1024);
    out.extend_from_slice(before.as_bytes());
    out.extend_from_slice(b"\"objects\":[");
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // Writing a tree into memory cannot fail.
        let _ = serde_json::to_writer(&mut out, object);
    }
    out.push(b']');
    out.extend_from_slice(after.as_bytes());
    out
}

/// Reads an answer: the objects in the wanted version, in their order.
///
/// # Errors
/// It is none, or an object in it is not what it should be.
pub(super) fn read(
    version: ConversionReviewVersion,
    uid: &str,
    desired: &str,
    body: &[u8],
    originals: &[Object],
) -> Result<Vec<Object>, Unusable> {
    let converted = converted(version, uid, body)
        .map_err(|why| (ConversionFault::Malformed, format!("failed: {why}")))?;
    if converted.len() != originals.len() {
        let (got, wanted) = (converted.len(), originals.len());
        let why = format!("returned {got} objects, expected {wanted}");
        return Err((ConversionFault::Partial, why));
    }
    let all = converted.into_iter().zip(originals).enumerate();
    all.map(|(index, (value, original))| {
        object(value, original, desired).map_err(|why| {
            let why = format!("returned invalid converted object at index {index}: {why}");
            (ConversionFault::Object, why)
        })
    })
    .collect()
}

/// The list of an answer to this very question, if it says that all went well.
fn converted(
    version: ConversionReviewVersion,
    uid: &str,
    body: &[u8],
) -> Result<Vec<Value>, String> {
    let mut review: Value =
        serde_json::from_slice(body).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let named = |member: &str| review.get(member).and_then(Value::as_str).unwrap_or_default();
    let wanted = version.api_version();
    let (kind, api_version) = (named("kind"), named("apiVersion"));
    // Reviews of the old version were never compared, so what says nothing of itself will do.
    let silent = version == ConversionReviewVersion::V1Beta1 && (kind, api_version) == ("", "");
    if (kind, api_version) != ("ConversionReview", wanted) && !silent {
        return Err(format!(
            "expected webhook response of {wanted}, Kind=ConversionReview, got {}, Kind={}",
            cut(api_version),
            cut(kind)
        ));
    }
    let mut response = match review.get_mut("response").map(Value::take) {
        Some(Value::Object(response)) => response,
        None | Some(Value::Null) => return Err("no response provided".to_owned()),
        Some(_) => return Err("response is not an object".to_owned()),
    };
    let answered = response.str_at(&["uid"]).unwrap_or_default();
    if version == ConversionReviewVersion::V1 && answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", cut(answered)));
    }
    let status = response.str_at(&["result", "status"]).unwrap_or_default();
    if status != "Success" {
        let message = response.str_at(&["result", "message"]).unwrap_or_default();
        return Err(match message {
            "" => format!("response.result.status was '{}', not 'Success'", cut(status)),
            message => cut(message).to_owned(),
        });
    }
    match response.remove("convertedObjects") {
        Some(Value::Array(list)) => Ok(list),
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(_) => Err("response.convertedObjects is not a list".to_owned()),
    }
}

/// A converted object, if it is still the same one.
fn object(value: Value, original: &Object, desired: &str) -> Result<Object, String> {
    let Value::Object(mut object) = value else {
        return Err(format!("must be an object, not {}", type_of(&value)));
    };
    let text = |object: &Object, path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
    let got = text(&object, &["kind"]);
    if got.is_empty() {
        return Err("Object 'Kind' is missing".to_owned());
    }
    let version = text(&object, &["apiVersion"]);
    if version != desired {
        let got = cut(&version);
        return Err(format!("invalid groupVersion (expected {desired}, received {got})"));
    }
    let expected = text(original, &["kind"]);
    if got != expected {
        return Err(format!("invalid kind (expected {expected}, received {})", cut(&got)));
    }
    for (member, name) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (was, is) =
            (text(original, &["metadata", member]), text(&object, &["metadata", member]));
        if was != is {
            return Err(format!("must have the same {name}: {was} != {}", cut(&is)));
        }
    }
    let metadata = restored(original, object.remove("metadata"))?;
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Ok(object)
}

/// The metadata of the original with the labels and annotations of the answer.
fn restored(original: &Object, answered: Option<Value>) -> Result<Object, String> {
    let mut answered = match answered {
        Some(Value::Object(metadata)) => metadata,
        None => return Err("missing metadata in converted object".to_owned()),
        Some(other) => {
            return Err(format!(
                "invalid metadata of type {} in converted object",
                type_of(&other)
            ));
        }
    };
    let mut metadata = original.map_at(&["metadata"]).cloned().unwrap_or_default();
    for member in ["labels", "annotations"] {
        let texts = match answered.remove(member) {
            None | Some(Value::Null) => {
                metadata.remove(member);
                continue;
            }
            Some(Value::Object(texts)) => texts,
            Some(other) => {
                let kind = type_of(&other);
                return Err(format!(
                    "invalid metadata.{member} of type {kind} in converted object"
                ));
            }
        };
        if let Some((key, value)) = texts.iter().find(|(_, value)| !value.is_string()) {
            let (key, kind) = (cut(key), type_of(value));
            return Err(format!(
                "metadata.{member}[{key}] must be a string, but is {kind} in converted object"
            ));
        }
        // What was stored is not judged again.
        if metadata.get(member).and_then(Value::as_object) != Some(&texts) {
            check(member, &texts)?;
        }
        metadata.insert(member.to_owned(), Value::Object(texts));
    }
    Ok(metadata)
}

fn check(member: &str, texts: &Object) -> Result<(), String> {
    let mut errors = Errors::new();
    let path = Path::Root.field("metadata");
    match member {
        "labels" => validate_labels(texts, &path.field(member), &mut errors),
        _ => validate_annotations(texts, &path.field(member), &mut errors),
    }
    match errors.causes().first() {
        None => Ok(()),
        Some(cause) => Err(format!("{}: {}", cause.field, cut(&cause.message))),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// A text of somebody else's, no longer than it may be shown.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default()
}

#[cfg(test)]
#[path = "review/tests.rs"]
mod tests;
