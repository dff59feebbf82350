//! Reviews: questions about access and identity, answered and not stored (R153, R159).

mod check;
mod reference;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_kinds::reference::REVIEW_GROUP;
use tenure_machinery::{Failure, Kind, Object, ObjectExt};
use tenure_rbac::RequestAttributes;

use crate::access::who;
use crate::api::ApiServer;
use crate::authenticate::{User, token};
use crate::body::Body;
use crate::clock::now;
use crate::negotiate::Offer;
use crate::node;
use crate::query::WriteOptions;
use crate::request::ResourceRequest;
use crate::response;
use crate::write::{decode, managed};

/// Whether the kind is a review.
#[must_use]
pub(crate) fn is_review(kind: &Kind) -> bool {
    let groups = ["authorization.k8s.io", "authentication.k8s.io", REVIEW_GROUP];
    groups.contains(&kind.group.as_ref()) && kind.kind.ends_with("Review")
}

/// Answers a review.
pub(crate) fn answer(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let style = request.style()?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut review = decode::body(request, options.validation)?;
    let served = std::sync::Arc::clone(&request.served);
    check::wipe(&mut review);
    decode::settle_namespace(request, &mut review)?;
    if served.kind.kind.ends_with("SubjectAccessReview") {
        check::check(&served.kind.kind, &request.namespace, &review)?;
    }
    if served.kind.group == REVIEW_GROUP {
        reference::check(&review)?;
    }
    let manager = request.manager(options.manager.as_deref());
    managed::record(&served, None, &mut review, &manager, None, &now());
    let status = match served.kind.kind.as_ref() {
        "SelfSubjectReview" => {
            // Nothing of what was sent comes back.
            review.insert("metadata".into(), json!({ "creationTimestamp": now() }));
            json!({ "userInfo": user_info(&request.user) })
        }
        "SelfSubjectAccessReview" => access(api, &request.user, &review),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access(api, &subject(&review), &review)
        }
        "SelfSubjectRulesReview" => {
            let status = rules(api, &request.user, &review)?;
            review.insert("metadata".into(), json!({}));
            review.insert("spec".into(), json!({}));
            status
        }
        "ReferenceReview" => reference::status(api, &request.user, &review),
        _ => token::review(api, &review)?,
    };
    review.insert("status".into(), status);
    response::json_value(StatusCode::CREATED, &Value::Object(review), wanted.format, style)
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

fn subject(review: &Object) -> User {
    let name = review.str_at(&["spec", "user"]).unwrap_or_default().to_owned();
    let groups = review.list_at(&["spec", "groups"]).iter().filter_map(Value::as_str);
    User { name, groups: groups.map(str::to_owned).collect(), ..User::default() }
}

fn access(api: &ApiServer, user: &User, review: &Object) -> Value {
    let (reason, ignored) = match review.map_at(&["spec", "resourceAttributes"]) {
        Some(asked) => {
            let text = |member: &str| asked.str_at(&[member]).unwrap_or_default();
            let question = RequestAttributes::Resource {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
            };
            {
                let state = api.world.current();
                let node = || {
                    let selected = check::selected_node(asked);
                    let may = node::may(&state, user, &question, selected.as_deref())?;
                    may.ok().map(|()| "Node: allowed".to_owned())
                };
                let by_selector = || {
                    let name = check::selected(asked, "metadata.name")
                        .filter(|_| text("name").is_empty())?;
                    let RequestAttributes::Resource {
                        verb,
                        group,
                        resource,
                        subresource,
                        namespace,
                        ..
                    } = question
                    else {
                        return None;
                    };
                    let named = RequestAttributes::Resource {
                        verb,
                        group,
                        resource,
                        subresource,
                        namespace,
                        name,
                    };
                    api.access.reference_authorizer().may(user, &named)
                };
                let reason = api.access.may(user, &question).or_else(by_selector).or_else(node);
                (reason, check::ignored(asked))
            }
        }
        None => {
            let text =
                |member| review.str_at(&["spec", "nonResourceAttributes", member]).unwrap_or("");
            let question = RequestAttributes::Path { verb: text("verb"), path: text("path") };
            (api.access.may(user, &question), String::new())
        }
    };
    let mut status = json!({ "allowed": reason.is_some() });
    if let Some(map) = status.as_object_mut() {
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            map.insert("reason".into(), reason.into());
        }
        if !ignored.is_empty() {
            map.insert("evaluationError".into(), ignored.into());
        }
    }
    status
}

/// What the user may do in a namespace, as far as the authorizers can list it.
fn rules(api: &ApiServer, user: &User, review: &Object) -> Result<Value, Failure> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let rbac = api.access.rbac();
    let mut resources = Vec::new();
    let mut paths = Vec::new();
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
    for (resource, names) in api.access.reference_authorizer().names(user, namespace) {
        resources.push(json!({
            "verbs": ["get", "list", "watch"], "apiGroups": [resource.group],
            "resources": [resource.resource], "resourceNames": names,
        }));
    }
    let is_node = node::node_of(user).is_some();
    let mut status = json!({
        "incomplete": is_node, "resourceRules": resources, "nonResourceRules": paths,
    });
    if let (Some(map), true) = (status.as_object_mut(), is_node) {
        // What a node may do depends on its pods.
        let why = "node authorizer does not support user rule resolution";
        map.insert("evaluationError".into(), why.into());
    }
    Ok(status)
}
