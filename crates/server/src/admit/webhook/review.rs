//! What is asked of a webhook, and what its answer means (R163).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Object};

use super::compiled::ReviewVersion;

/// The longest text of an answer that is shown.
const SHOWN_BYTES_MAX: usize = 256;

/// A review as JSON: who does what, to which object.
pub(super) fn request(
    version: ReviewVersion,
    uid: &str,
    mut about: Object,
    (new, old): (Option<&Object>, Option<&Object>),
) -> Vec<u8> {
    about.insert("uid".into(), uid.into());
    // What is not there is said to be null.
    let object = |object: Option<&Object>| object.map_or(Value::Null, |o| Value::Object(o.clone()));
    about.insert("object".into(), object(new));
    about.insert("oldObject".into(), object(old));
    about.entry("options").or_insert(Value::Null);
    let review = json!({
        "kind": "AdmissionReview", "apiVersion": version.api_version(), "request": about,
    });
    review.to_string().into_bytes()
}

/// What a webhook answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The `status` of a refusal.
    pub(super) status: Object,
    /// The operations of a JSON patch; none changes nothing.
    pub(super) patch: Vec<Value>,
    pub(super) warnings: Vec<String>,
    /// For the audit log, by key.
    pub(super) annotations: BTreeMap<String, String>,
}

/// Reads an answer; says what is wrong about it.
pub(super) fn read(
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
    body: &[u8],
) -> Result<Answer, String> {
    let review: Value =
        serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?;
    let named = |member: &str| review.get(member).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (named("kind"), named("apiVersion"));
    let wanted = version.api_version();
    if (kind, api_version) != ("AdmissionReview", wanted) {
        return Err(format!(
            "expected webhook response of {wanted}, Kind=AdmissionReview, got {}, Kind={}",
            cut(api_version),
            cut(kind)
        ));
    }
    let response = match review.get("response") {
        Some(Value::Object(response)) => response,
        None | Some(Value::Null) => return Err("webhook response was absent".to_owned()),
        Some(_) => return Err("response is not an object".to_owned()),
    };
    let answered = text(response, "uid")?.unwrap_or_default();
    if version == ReviewVersion::V1 && answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", cut(answered)));
    }
    let allowed = match response.get("allowed") {
        Some(Value::Bool(allowed)) => *allowed,
        None | Some(Value::Null) => false,
        Some(_) => return Err("response.allowed is neither true nor false".to_owned()),
    };
    let status = match response.get("status") {
        Some(Value::Object(status)) => status.clone(),
        None | Some(Value::Null) => Object::new(),
        Some(_) => return Err("response.status is not an object".to_owned()),
    };
    Ok(Answer {
        allowed,
        status,
        patch: patch(version, mutating, response)?,
        warnings: texts(response, "warnings")?,
        annotations: map(response, "auditAnnotations")?,
    })
}

/// The operations of the patch, if the answer may have one.
fn patch(version: ReviewVersion, mutating: bool, response: &Object) -> Result<Vec<Value>, String> {
    let encoded = text(response, "patch")?.unwrap_or_default();
    let kind = text(response, "patchType")?;
    let strict = version == ReviewVersion::V1;
    if !mutating {
        return match (encoded, kind) {
            (patch, _) if strict && !patch.is_empty() => {
                Err("validating webhook may not return response.patch".to_owned())
            }
            (_, Some(_)) if strict => {
                Err("validating webhook may not return response.patchType".to_owned())
            }
            _ => Ok(Vec::new()),
        };
    }
    match (encoded, kind) {
        ("", Some(_)) if strict => {
            return Err("webhook returned response.patchType but not response.patch".to_owned());
        }
        ("", _) => return Ok(Vec::new()),
        (_, None) if strict => {
            return Err("webhook returned response.patch but not response.patchType".to_owned());
        }
        (_, Some("JSONPatch")) => {}
        (_, Some(other)) if strict => {
            return Err(format!("unsupported patch type {:?}", cut(other)));
        }
        _ => {}
    }
    let undecodable = |why: &dyn std::fmt::Display| {
        format!("received undecodable patch in webhook response: {why}")
    };
    let bytes = STANDARD.decode(encoded).map_err(|error| undecodable(&error))?;
    match serde_json::from_slice(&bytes).map_err(|error| undecodable(&error))? {
        Value::Array(operations) => Ok(operations),
        Value::Null => Ok(Vec::new()),
        _ => Err(undecodable(&"it is not a list of operations")),
    }
}

fn text<'a>(response: &'a Object, member: &str) -> Result<Option<&'a str>, String> {
    match response.get(member) {
        Some(Value::String(text)) => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(format!("response.{member} is not a text")),
    }
}

fn texts(response: &Object, member: &str) -> Result<Vec<String>, String> {
    let list = match response.get(member) {
        Some(Value::Array(list)) => list,
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(_) => return Err(format!("response.{member} is not a list of texts")),
    };
    let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
    let texts: Option<Vec<String>> = texts.collect();
    texts.ok_or_else(|| format!("response.{member} is not a list of texts"))
}

fn map(response: &Object, member: &str) -> Result<BTreeMap<String, String>, String> {
    let map = match response.get(member) {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(_) => return Err(format!("response.{member} is not a map of texts")),
    };
    let texts = map.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    let texts: Option<BTreeMap<String, String>> = texts.collect();
    texts.ok_or_else(|| format!("response.{member} is not a map of texts"))
}

/// What the client of a refused request gets: the status of the webhook, with who refused in front.
pub(super) fn refusal(webhook: &str, status: &Object) -> Failure {
    let said = |member: &str| status.get(member).and_then(Value::as_str).unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (said("message"), said("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let mut failure = Failure::new(code(status), "", message);
    failure.reason = said("reason").to_owned().into();
    match status.get("details").and_then(Value::as_object) {
        Some(given) => failure.with(details(given)),
        None => failure,
    }
}

/// The code of a refusal, which is never one of success.
pub(super) fn code(status: &Object) -> u16 {
    let code = status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    code.filter(|code| (400..600).contains(code)).unwrap_or(400)
}

fn details(given: &Object) -> Details {
    let said = |of: &Object, member: &str| -> String {
        of.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let causes = given.get("causes").and_then(Value::as_array).into_iter().flatten();
    let cause = |cause: &Object| StatusCause {
        reason: said(cause, "reason"),
        message: said(cause, "message"),
        field: said(cause, "field"),
    };
    let seconds = given.get("retryAfterSeconds").and_then(Value::as_u64);
    Details {
        name: said(given, "name"),
        group: said(given, "group"),
        kind: said(given, "kind"),
        uid: said(given, "uid"),
        causes: causes.filter_map(Value::as_object).map(cause).collect(),
        retry_after_seconds: seconds.and_then(|s| u32::try_from(s).ok()).unwrap_or_default(),
    }
}

/// A text of somebody else's, short enough to be shown.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    fn answered(response: Value) -> Value {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
    }

    fn reading(mutating: bool, review: &Value) -> Result<Answer, String> {
        read(ReviewVersion::V1, "u", mutating, review.to_string().as_bytes())
    }

    #[test]
    fn r163_an_answer_is_for_the_question_that_was_asked() {
        let fine = reading(true, &answered(json!({"uid": "u", "allowed": true}))).unwrap();
        assert!(fine.allowed && fine.patch.is_empty());
        for (review, why) in [
            (
                answered(json!({"uid": "v", "allowed": true})),
                "expected response.uid=\"u\", got \"v\"",
            ),
            (answered(Value::Null), "webhook response was absent"),
            (answered(json!([])), "response is not an object"),
            (answered(json!({"uid": "u", "allowed": "yes"})), "neither true nor false"),
            (answered(json!({"uid": "u", "warnings": [1]})), "not a list of texts"),
            (answered(json!({"uid": "u", "auditAnnotations": {"a": 1}})), "not a map of texts"),
            (answered(json!({"uid": "u", "status": "no"})), "response.status is not an object"),
            (json!({"kind": "Pod", "apiVersion": "v1"}), "got v1, Kind=Pod"),
            (json!([]), "expected webhook response of admission.k8s.io/v1"),
        ] {
            let wrong = reading(true, &review).unwrap_err();
            assert!(wrong.contains(why), "{review}: {wrong}");
        }
        let rubbish = read(ReviewVersion::V1, "u", true, b"<html>").unwrap_err();
        assert!(rubbish.starts_with("it is not JSON"), "{rubbish}");
    }

    #[test]
    fn r163_a_patch_says_its_type_and_only_mutating_webhooks_have_one() {
        let encoded = STANDARD.encode(r#"[{"op": "remove", "path": "/a"}]"#);
        let with = |rest: Value| {
            let mut response = json!({"uid": "u", "allowed": true});
            response.as_object_mut().unwrap().extend(rest.as_object().cloned().unwrap());
            answered(response)
        };
        let whole = with(json!({"patch": encoded, "patchType": "JSONPatch"}));
        assert_eq!(reading(true, &whole).unwrap().patch.len(), 1);
        assert!(reading(false, &whole).unwrap_err().contains("may not return response.patch"));
        for (rest, why) in [
            (json!({"patch": encoded}), "but not response.patchType"),
            (json!({"patchType": "JSONPatch"}), "but not response.patch"),
            (json!({"patch": encoded, "patchType": "Merge"}), "unsupported patch type \"Merge\""),
            (json!({"patch": "?", "patchType": "JSONPatch"}), "undecodable patch"),
            (json!({"patch": STANDARD.encode("{}"), "patchType": "JSONPatch"}), "not a list"),
        ] {
            let wrong = reading(true, &with(rest.clone())).unwrap_err();
            assert!(wrong.contains(why), "{rest}: {wrong}");
        }
        let beta = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1",
            "response": {"allowed": true, "patch": encoded}});
        let old = read(ReviewVersion::V1Beta1, "u", true, beta.to_string().as_bytes()).unwrap();
        assert_eq!(old.patch.len(), 1, "the old version names neither uid nor type");
    }

    #[test]
    fn r163_a_refusal_is_in_the_words_of_the_webhook() {
        let of = |status: Value| refusal("a.b", status.as_object().unwrap());
        let plain = of(json!({}));
        assert_eq!((plain.code, &*plain.reason), (400, ""));
        assert_eq!(
            plain.message,
            "admission webhook \"a.b\" denied the request without explanation"
        );
        assert!(of(json!({"reason": "Tired"})).message.ends_with("denied the request: Tired"));
        let full = of(json!({"code": 422, "reason": "Invalid", "message": "no", "details": {
            "name": "n", "causes": [{"field": "spec.a", "message": "m", "reason": "r"}]}}));
        assert_eq!((full.code, &*full.reason), (422, "Invalid"));
        let details = full.details.unwrap();
        assert_eq!((details.name.as_str(), details.causes[0].field.as_str()), ("n", "spec.a"));
        assert_eq!(of(json!({"code": 200})).code, 400, "a refusal is no success");
        assert_eq!(of(json!({"code": 70000})).code, 400);
    }

    #[test]
    fn r163_a_review_says_null_for_what_is_not_there() {
        let about = json!({"operation": "CONNECT"}).as_object().cloned().unwrap();
        let bytes = request(ReviewVersion::V1, "u", about, (None, None));
        let review: Value = serde_json::from_slice(&bytes).unwrap();
        let request = review["request"].as_object().unwrap();
        assert_eq!(request["uid"], "u");
        for member in ["object", "oldObject", "options"] {
            assert!(request.get(member).is_some_and(Value::is_null), "{member}");
        }
    }
}
