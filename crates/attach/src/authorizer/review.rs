//! A SubjectAccessReview and its answer (A11, A12). Nothing is read here but what the API server sent.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_references::Attributes;

/// The group of reviews.
const GROUP: &str = "authorization.k8s.io/";
/// Who asks what others than this authorizer allow (R104) says so by this.
const WITHOUT_REFERENCES: &str = "reference.authorization.tenure.dev/exclude-referential";
/// What is said where nothing is allowed, whatever the reason: it is shown to the requester (R131).
const NO_REFERENCE: &str = "no reference gives this";
const REFERENCE: &str = "referenced";
/// What is said before everything has been read.
const NOT_READY: &str = "tenure has not read everything yet";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubjectAccessReview {
    api_version: String,
    kind: String,
    spec: ReviewSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewSpec {
    #[serde(default)]
    user: Option<String>,
    /// Called `group` in `v1beta1`.
    #[serde(default, alias = "group")]
    groups: Option<Vec<String>>,
    #[serde(default)]
    extra: Option<serde_json::Map<String, Value>>,
    #[serde(default)]
    resource_attributes: Option<ResourceAttributes>,
}

#[derive(Deserialize)]
struct ResourceAttributes {
    #[serde(default)]
    verb: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reviewed {
    Allowed,
    NoOpinion,
    NotReady,
}

/// The answer to a review; none where it is no review.
pub(super) fn answer(
    body: &[u8],
    decides: impl Fn(&Attributes<'_>) -> Option<bool>,
) -> Option<(Reviewed, Vec<u8>)> {
    let review: SubjectAccessReview = serde_json::from_slice(body).ok()?;
    if !review.api_version.starts_with(GROUP) || review.kind != "SubjectAccessReview" {
        return None;
    }
    let reviewed = decide(&review.spec, decides);
    let status = match reviewed {
        Reviewed::Allowed => json!({ "allowed": true, "reason": REFERENCE }),
        Reviewed::NoOpinion => json!({ "allowed": false, "reason": NO_REFERENCE }),
        Reviewed::NotReady => json!({ "allowed": false, "evaluationError": NOT_READY }),
    };
    let answer = json!({ "apiVersion": review.api_version, "kind": review.kind, "status": status });
    Some((reviewed, answer.to_string().into_bytes()))
}

fn decide(spec: &ReviewSpec, decides: impl Fn(&Attributes<'_>) -> Option<bool>) -> Reviewed {
    let is_excluded =
        spec.extra.as_ref().is_some_and(|extra| extra.contains_key(WITHOUT_REFERENCES));
    let Some(asked) = spec.resource_attributes.as_ref().filter(|_| !is_excluded) else {
        return Reviewed::NoOpinion;
    };
    let groups: &[String] = spec.groups.as_deref().unwrap_or_default();
    let attributes = Attributes {
        user: spec.user.as_deref().unwrap_or_default(),
        groups,
        verb: &asked.verb,
        group: &asked.group,
        resource: &asked.resource,
        subresource: &asked.subresource,
        namespace: &asked.namespace,
        name: &asked.name,
    };
    if !attributes.is_eligible() {
        return Reviewed::NoOpinion;
    }
    match decides(&attributes) {
        Some(true) => Reviewed::Allowed,
        Some(false) => Reviewed::NoOpinion,
        None => Reviewed::NotReady,
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    fn review(version: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut spec = json!({
            "user": "system:serviceaccount:edge:edge", "groups": ["system:serviceaccounts"],
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "secrets", "namespace": "shop", "name": "a",
            },
        });
        change(&mut spec);
        json!({ "apiVersion": format!("authorization.k8s.io/{version}"), "kind": "SubjectAccessReview", "spec": spec })
    }

    /// What is answered where the one Secret `shop/a` may be read.
    fn status(review: &Value) -> Value {
        let decides = |asked: &Attributes<'_>| {
            Some(asked.user.ends_with("edge") && asked.namespace == "shop" && asked.name == "a")
        };
        let (_, bytes) = answer(review.to_string().as_bytes(), decides).unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(answer["apiVersion"], review["apiVersion"]);
        answer["status"].clone()
    }

    #[test]
    fn a11_an_answer_allows_or_has_no_opinion() {
        for version in ["v1", "v1beta1"] {
            assert_eq!(
                status(&review(version, |_| {})),
                json!({ "allowed": true, "reason": REFERENCE })
            );
        }
        let allowed = |change: fn(&mut Value)| status(&review("v1", change))["allowed"] == true;
        assert!(allowed(|spec| spec["resourceAttributes"]["fieldSelector"] =
            json!({ "rawSelector": "metadata.name=a" })));
        for change in [
            (|spec| spec["user"] = "bob".into()) as fn(&mut Value),
            |spec| spec["resourceAttributes"]["name"] = "b".into(),
            |spec| spec["resourceAttributes"]["name"] = "".into(),
            |spec| spec["resourceAttributes"]["verb"] = "delete".into(),
            |spec| spec["resourceAttributes"]["subresource"] = "status".into(),
            |spec| spec["resourceAttributes"] = Value::Null,
            |spec| spec["extra"] = json!({ WITHOUT_REFERENCES: ["true"] }),
        ] {
            assert!(!allowed(change));
        }
    }

    #[test]
    fn a11_before_everything_was_read_nothing_is_allowed_and_that_is_said() {
        let body = review("v1", |_| {}).to_string();
        let (reviewed, bytes) = answer(body.as_bytes(), |_| None).unwrap();
        assert_eq!(reviewed, Reviewed::NotReady);
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(answer["status"], json!({ "allowed": false, "evaluationError": NOT_READY }));
    }

    #[test]
    fn a12_every_refusal_reads_the_same() {
        let said = |change: fn(&mut Value)| status(&review("v1", change));
        let wanted = json!({ "allowed": false, "reason": NO_REFERENCE });
        assert_eq!(said(|spec| spec["resourceAttributes"]["name"] = "absent".into()), wanted);
        assert_eq!(said(|spec| spec["user"] = "bob".into()), wanted);
        assert_eq!(said(|spec| spec["resourceAttributes"]["namespace"] = "other".into()), wanted);
    }

    #[test]
    fn a11_what_is_no_review_gets_no_answer() {
        for body in
            ["", "{}", "[]", "{\"apiVersion\":\"v1\",\"kind\":\"SubjectAccessReview\",\"spec\":{}}"]
        {
            assert_eq!(answer(body.as_bytes(), |_| Some(true)), None, "{body}");
        }
    }
}
