//! Reviews: questions about access and identity, answered and not stored (R153, R159).

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::{Errors, Failure, Kind, Object, ObjectExt, Path};
use tenure_rbac::Asked;

use crate::access::who;
use crate::answer;
use crate::api::Api;
use crate::authenticate::{User, token};
use crate::body::Body;
use crate::clock::now;
use crate::negotiate::Offer;
use crate::query::WriteOptions;
use crate::request::Request;
use crate::write::{decode, managed};

/// Whether the kind is a review.
#[must_use]
pub(crate) fn is_review(kind: &Kind) -> bool {
    matches!(kind.group.as_ref(), "authorization.k8s.io" | "authentication.k8s.io")
        && kind.kind.ends_with("Review")
}

/// Answers a review.
pub(crate) fn answer(api: &Api, request: &mut Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let style = request.style()?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut review = decode::body(request, options.validation)?;
    let served = std::sync::Arc::clone(&request.served);
    let manager = request.manager(options.manager.as_deref());
    managed::record(&served, None, &mut review, &manager, None, &now());
    let status = match served.kind.kind.as_ref() {
        "SelfSubjectReview" => {
            review.map_mut("metadata").insert("creationTimestamp".into(), now().into());
            json!({ "userInfo": user_info(&request.user) })
        }
        "SelfSubjectAccessReview" => access(api, &request.user, &review)?,
        "SubjectAccessReview" => access(api, &subject(&review)?, &review)?,
        "LocalSubjectAccessReview" => {
            check_namespace(request, &review)?;
            access(api, &subject(&review)?, &review)?
        }
        "SelfSubjectRulesReview" => rules(api, &request.user, &review)?,
        _ => token::review(api, &review),
    };
    review.insert("status".into(), status);
    answer::json_value(StatusCode::CREATED, &Value::Object(review), wanted.format, style)
}

/// A user as reviews show it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if let Some(map) = info.as_object_mut() {
        if !user.uid.is_empty() {
            map.insert("uid".into(), user.uid.as_str().into());
        }
        if !user.extra.is_empty() {
            map.insert("extra".into(), json!(user.extra));
        }
    }
    info
}

fn invalid(field: &[&str], why: &str) -> Failure {
    fn push(errors: &mut Errors, parent: &Path<'_>, rest: &[&str], why: &str) {
        match rest.split_first() {
            Some((first, rest)) => push(errors, &parent.field(first), rest, why),
            None => errors.invalid(parent, "{}", why),
        }
    }
    let mut errors = Errors::new();
    push(&mut errors, &Path::Root, field, why);
    Failure::invalid("authorization.k8s.io", "", "", errors)
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
        return Err(invalid(&["spec", "user"], "at least one of user or group must be specified"));
    }
    Ok(User { name, groups, ..User::default() })
}

fn check_namespace(request: &Request, review: &Object) -> Result<(), Failure> {
    let asked = review.str_at(&["spec", "resourceAttributes", "namespace"]).unwrap_or_default();
    if asked == request.namespace {
        return Ok(());
    }
    Err(invalid(
        &["spec", "resourceAttributes", "namespace"],
        "must match the namespace of the path",
    ))
}

fn access(api: &Api, user: &User, review: &Object) -> Result<Value, Failure> {
    let resource = review.map_at(&["spec", "resourceAttributes"]);
    let path = review.map_at(&["spec", "nonResourceAttributes"]);
    let reason = match (resource, path) {
        (Some(asked), None) => {
            let text = |member: &str| asked.str_at(&[member]).unwrap_or_default();
            let asked = Asked::Resource {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
            };
            api.access.may(user, &asked)
        }
        (None, Some(asked)) => {
            let text = |member: &str| asked.str_at(&[member]).unwrap_or_default();
            api.access.may(user, &Asked::Path { verb: text("verb"), path: text("path") })
        }
        _ => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(&["spec"], why));
        }
    };
    let mut status = json!({ "allowed": reason.is_some() });
    if let (Some(map), Some(reason)) = (status.as_object_mut(), reason.filter(|r| !r.is_empty())) {
        map.insert("reason".into(), reason.into());
    }
    Ok(status)
}

/// What the user may do in a namespace, as far as the authorizers can list it.
fn rules(api: &Api, user: &User, review: &Object) -> Result<Value, Failure> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let rbac = api.access.rbac();
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    if who(user).is_master() {
        resources.push(json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
        paths.push(json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }));
    }
    for rule in rbac.rules_for(&who(user), namespace) {
        if !rule.resources.is_empty() {
            let mut shown = json!({
                "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
            });
            if let (Some(map), false) = (shown.as_object_mut(), rule.resource_names.is_empty()) {
                map.insert("resourceNames".into(), json!(rule.resource_names));
            }
            resources.push(shown);
        }
        if !rule.non_resource_urls.is_empty() {
            paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls }));
        }
    }
    Ok(json!({ "incomplete": false, "resourceRules": resources, "nonResourceRules": paths }))
}
