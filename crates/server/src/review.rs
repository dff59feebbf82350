//! Reviews: questions about access and identity, answered and not stored (R153, R159).

mod check;
mod reference;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_kinds::reference::REVIEW_GROUP;
use tenure_machinery::{Failure, Kind, Object, ObjectExt};
use tenure_rbac::RequestAttributes;

use crate::access::{AccessGrant, AccessRefusal, who};
use crate::api::ApiServer;
use crate::authenticate::{User, token};
use crate::authorize::{AccessQuestion, Authorizer, Consultation};
use crate::body::Body;
use crate::clock::now;
use crate::negotiate::Offer;
use crate::node;
use crate::permit::Basis;
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
pub(crate) async fn answer(
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
        "SelfSubjectAccessReview" => access(api, &request.user, &review).await,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access(api, &subject(&review), &review).await
        }
        "SelfSubjectRulesReview" => {
            let status = rules(api, &request.user, &review)?;
            review.insert("metadata".into(), json!({}));
            review.insert("spec".into(), json!({}));
            status
        }
        "ReferenceReview" => reference::status(api, &request.user, &review).await,
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
    let groups = groups.map(str::to_owned).collect();
    let uid = review.str_at(&["spec", "uid"]).unwrap_or_default().to_owned();
    let texts = |values: &Value| -> Vec<String> {
        let all = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let extra = review.map_at(&["spec", "extra"]).into_iter().flatten();
    // Keys of extras have no case, as upstream.
    let extra = extra.map(|(key, values)| (key.to_lowercase(), texts(values))).collect();
    User { name, uid, groups, extra }
}

/// What the whole chain of authorizers says, webhooks included.
async fn access(api: &ApiServer, user: &User, review: &Object) -> Value {
    let state = node::node_of(user).is_some().then(|| api.world.current());
    let about = review.map_at(&["spec", "resourceAttributes"]);
    let question = match about {
        Some(requested) => AccessQuestion {
            node: state.as_deref().map(|state| (state, check::selected_node(requested))),
            ..AccessQuestion::of_review(attributes(requested), requested)
        },
        None => {
            let text =
                |member| review.str_at(&["spec", "nonResourceAttributes", member]).unwrap_or("");
            let (verb, path) = (text("verb"), text("path"));
            AccessQuestion::plain(RequestAttributes::Path { verb, path })
        }
    };
    let mut decided = Consultation::default().decide(&api.access, user, &question).await;
    if decided.as_ref().is_err_and(AccessRefusal::is_silent)
        && let Some(reason) = about.and_then(|requested| by_selector(api, user, requested))
    {
        decided = Ok(AccessGrant { basis: Basis::References, reason, by_webhook: false });
    }
    let ignored = about.map(check::ignored).unwrap_or_default();
    let (denied, reason, error) = match &decided {
        Ok(grant) => (false, api.access.reason(grant, user, &question.attributes), String::new()),
        Err(refusal) => (refusal.is_denied, refusal.reason(), refusal.error()),
    };
    let mut status = json!({ "allowed": decided.is_ok() });
    if let Some(map) = status.as_object_mut() {
        if denied {
            map.insert("denied".into(), true.into());
        }
        if !reason.is_empty() {
            map.insert("reason".into(), reason.into());
        }
        let said: Vec<String> = [ignored, error].into_iter().filter(|it| !it.is_empty()).collect();
        if !said.is_empty() {
            map.insert("evaluationError".into(), said.join("; ").into());
        }
    }
    status
}

/// What a review asks about, as roles look at it.
fn attributes(requested: &Object) -> RequestAttributes<'_> {
    let text = |member: &str| requested.str_at(&[member]).unwrap_or_default();
    RequestAttributes::Resource {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    }
}

/// Why references allow a collection of which only one object is selected.
fn by_selector(api: &ApiServer, user: &User, requested: &Object) -> Option<String> {
    let RequestAttributes::Resource { verb, group, resource, subresource, namespace, name: "" } =
        attributes(requested)
    else {
        return None;
    };
    let name =
        check::selected(requested, "metadata.name").filter(|_| api.access.asks_references())?;
    let named = RequestAttributes::Resource { verb, group, resource, subresource, namespace, name };
    let references = api.access.reference_authorizer();
    references.may(user, &named).then(|| references.reason(user, &named))
}

/// What the user may do in a namespace, as far as the authorizers can list it.
fn rules(api: &ApiServer, user: &User, review: &Object) -> Result<Value, Failure> {
    let namespace = review.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let order = api.access.order();
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    let mut unlisted = Vec::new();
    for one in &order.all {
        match &one.authorizer {
            Authorizer::Rbac => of_roles(api, user, namespace, (&mut resources, &mut paths)),
            Authorizer::Reference => {
                let named = api.access.reference_authorizer().names(user, namespace);
                resources.extend(named.into_iter().map(|(resource, names)| {
                    json!({
                        "verbs": ["get", "list", "watch"], "apiGroups": [resource.group],
                        "resources": [resource.resource], "resourceNames": names,
                    })
                }));
            }
            Authorizer::AlwaysAllow => {
                resources.push(json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }));
                paths.push(json!({ "verbs": ["*"], "nonResourceURLs": ["*"] }));
            }
            Authorizer::AlwaysDeny => {}
            // What a node may do depends on its pods.
            Authorizer::Node if node::node_of(user).is_some() => {
                unlisted.push("node authorizer does not support user rule resolution");
            }
            Authorizer::Node => {}
            Authorizer::Webhook(_) => {
                unlisted.push("webhook authorizer does not support user rule resolution");
            }
        }
    }
    unlisted.dedup();
    let mut status = json!({
        "incomplete": !unlisted.is_empty(), "resourceRules": resources, "nonResourceRules": paths,
    });
    if let (Some(map), false) = (status.as_object_mut(), unlisted.is_empty()) {
        map.insert("evaluationError".into(), unlisted.join("; ").into());
    }
    Ok(status)
}

fn of_roles(
    api: &ApiServer,
    user: &User,
    namespace: &str,
    (resources, paths): (&mut Vec<Value>, &mut Vec<Value>),
) {
    for rule in api.access.rbac().rules_for(&who(user), namespace) {
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
}
