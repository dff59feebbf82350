//! Reviews: questions about access and identity, answered and not stored (R153, R159).

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::{Failure, Kind, Object, ObjectExt};

use crate::answer;
use crate::authenticate::User;
use crate::authorize::{Attributes, authorize};
use crate::body::Body;
use crate::negotiate::Offer;
use crate::query::WriteOptions;
use crate::request::Request;
use crate::write::decode;

/// Whether the kind is a review.
#[must_use]
pub(crate) fn is_review(kind: &Kind) -> bool {
    matches!(kind.group.as_ref(), "authorization.k8s.io" | "authentication.k8s.io")
        && kind.kind.ends_with("Review")
}

/// Answers a review.
pub(crate) fn answer(request: &mut Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut review = decode::body(request, options.validation)?;
    let status = match request.served.kind.kind.as_ref() {
        "SelfSubjectReview" => json!({ "userInfo": user_info(&request.user) }),
        "SelfSubjectAccessReview" => access(&request.user, &review)?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access(&subject(&review)?, &review)?,
        "SelfSubjectRulesReview" => rules(&request.user),
        // Tokens are not issued yet, so none is valid.
        _ => json!({ "authenticated": false, "user": {}, "error": "token is not valid" }),
    };
    review.insert("status".into(), status);
    answer::json_value(StatusCode::CREATED, &Value::Object(review), wanted.format, request.style()?)
}

fn user_info(user: &User) -> Value {
    json!({ "username": user.name, "groups": user.groups })
}

fn subject(review: &Object) -> Result<User, Failure> {
    let name = review.str_at(&["spec", "user"]).unwrap_or_default().to_owned();
    let groups: Vec<String> = review
        .list_at(&["spec", "groups"])
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if name.is_empty() && groups.is_empty() {
        return Err(Failure::bad_request(
            "spec.user: at least one of user or group must be specified",
        ));
    }
    Ok(User { name, groups })
}

fn access(user: &User, review: &Object) -> Result<Value, Failure> {
    let resource = review.map_at(&["spec", "resourceAttributes"]);
    let path = review.map_at(&["spec", "nonResourceAttributes"]);
    let text = |map: &Object, member: &str| map.str_at(&[member]).unwrap_or_default().to_owned();
    let allowed = match (resource, path) {
        (Some(asked), None) => {
            let (verb, group, plural) =
                (text(asked, "verb"), text(asked, "group"), text(asked, "resource"));
            let (sub, namespace, name) =
                (text(asked, "subresource"), text(asked, "namespace"), text(asked, "name"));
            authorize(
                user,
                &Attributes::Resource {
                    verb: &verb,
                    group: &group,
                    resource: &plural,
                    subresource: &sub,
                    namespace: &namespace,
                    name: &name,
                },
            )
            .is_ok()
        }
        (None, Some(asked)) => {
            let (verb, path) = (text(asked, "verb"), text(asked, "path"));
            authorize(user, &Attributes::Path { verb: &verb, path: &path }).is_ok()
        }
        _ => {
            return Err(Failure::bad_request(
                "spec: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
    };
    Ok(json!({ "allowed": allowed }))
}

/// Everything for members of `system:masters`, the public paths for all.
fn rules(user: &User) -> Value {
    let (resources, paths) = if user.is_in("system:masters") {
        (
            json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]),
            json!([{ "verbs": ["*"], "nonResourceURLs": ["*"] }]),
        )
    } else {
        let public = json!(["/healthz", "/livez", "/readyz", "/version", "/version/"]);
        (json!([]), json!([{ "verbs": ["get"], "nonResourceURLs": public }]))
    };
    json!({ "incomplete": false, "resourceRules": resources, "nonResourceRules": paths })
}
