//! From a verb to the handler that answers it.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::json;
use tenure_core::Revision;
use tenure_machinery::Failure;

use crate::answer::{self, Found};
use crate::api::Api;
use crate::authenticate::token;
use crate::body::Body;
use crate::negotiate::Offer;
use crate::node;
use crate::pods;
use crate::query::ListOptions;
use crate::read::{get, list, watch};
use crate::reference::Sight;
use crate::request::Request;
use crate::review;
use crate::write::delete::{self, DeleteOptions, Deleted};
use crate::write::{apply, create, patch, scale, update};

/// Watches live 30 to 60 minutes unless the client says otherwise (R112).
const WATCH_MINUTES: u32 = 30;

/// Answers a request whose kind, subresource and verb are offered.
pub(crate) async fn dispatch(
    api: &Api,
    verb: &str,
    request: &mut Request,
) -> Result<Response<Body>, Failure> {
    match (request.subresource.as_str(), verb) {
        ("", "get") | ("status" | "ephemeralcontainers" | "resize" | "approval", "get") => {
            get_object(api, request).await
        }
        ("", "list") => list_objects(api, request).await,
        ("", "watch") => watch_objects(api, request).await,
        ("", "create") if review::is_review(&request.served.kind) => review::answer(api, request),
        ("", "create") if request.served.kind.kind == "Binding" => pods::bind(api, request).await,
        ("", "create") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let found = create::create(api, request).await?;
            // The path named no object; from here on the request is about the one that was made.
            found.name().clone_into(&mut request.name);
            answer::object(StatusCode::CREATED, &request.served, &found, wanted, style)
        }
        ("", "delete") => delete_object(api, request).await,
        ("", "deletecollection") => delete_collection(api, request).await,
        ("scale", "get") => {
            request.wanted(Offer::PlainOnly)?;
            let state = api.world.current();
            let record = get::stored(&state, &request.served, &request.namespace, &request.name)?;
            let found =
                Found::Object(scale::view(&request.served, &request.served.read(&record)?)?);
            respond(request, StatusCode::OK, &found, Offer::Object)
        }
        ("scale", "update" | "patch") => {
            let found = scale::write(api, request, verb == "patch").await?;
            respond(request, StatusCode::OK, &found, Offer::Object)
        }
        ("binding", "create") => pods::bind(api, request).await,
        ("eviction", "create") => pods::evict(api, request).await,
        ("token", "create") => token::request(api, request),
        (_, "update") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let (code, found) = update::put(api, request).await?.parts();
            answer::object(code, &request.served, &found, wanted, style)
        }
        (_, "patch") if request.content_type == "application/apply-patch+yaml" => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let (code, found) = apply::apply(api, request).await?.parts();
            answer::object(code, &request.served, &found, wanted, style)
        }
        (_, "patch") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let found = patch::patch(api, request).await?;
            answer::object(StatusCode::OK, &request.served, &found, wanted, style)
        }
        _ => Err(Failure::method_not_allowed(verb, &request.served.kind.plural)),
    }
}

fn respond(
    request: &Request,
    code: StatusCode,
    found: &Found,
    offer: Offer,
) -> Result<Response<Body>, Failure> {
    answer::object(code, &request.served, found, request.wanted(offer)?, request.style()?)
}

async fn get_object(api: &Api, request: &Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Object)?;
    let style = request.style()?;
    let revision = match request.query.text("resourceVersion") {
        "" => None,
        text => Some(Revision::parse(text).ok_or_else(|| {
            Failure::bad_request(format!("resourceVersion: `{text}` is not a whole number"))
        })?),
    };
    let state = get::not_older_than(&api.world, revision).await?;
    let record = get::stored(&state, &request.served, &request.namespace, &request.name)?;
    answer::object(StatusCode::OK, &request.served, &Found::Record(record), wanted, style)
}

async fn list_objects(api: &Api, request: &Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::List)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, false)?;
    let sight = sight(api, request, &options, "list");
    let (served, namespace) = (&request.served, &request.namespace);
    let page = list::page(&api.world, served, namespace, &options, sight.as_ref()).await?;
    list::respond(&request.served, &page, wanted, style)
}

async fn watch_objects(api: &Api, request: &Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Watch)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, true)?;
    let lease = lease(api, request, &options);
    let sight = sight(api, request, &options, "watch");
    let seconds = WATCH_MINUTES * 60 + api.chance.below(WATCH_MINUTES * 60);
    let asked = watch::Asked {
        served: Arc::clone(&request.served),
        namespace: request.namespace.clone(),
        only: request.name.clone(),
        options,
        shape: wanted.shape,
        include: style.include,
        lifetime: Duration::from_secs(u64::from(seconds)),
        events: api.metrics.watch_events(&request.served.kind.group, &request.served.kind.plural),
        running: api.metrics.long_running(
            "WATCH",
            &request.served.kind.group,
            &request.served.kind.plural,
        ),
        lease,
        sight,
    };
    watch::start(&api.world, &api.kinds, asked, api.stop.clone()).await
}

/// What is seen of a collection by one who may not read the whole of it (referential authorization R155).
fn sight(api: &Api, request: &Request, options: &ListOptions, verb: &'static str) -> Option<Sight> {
    let named = !request.name.is_empty() || options.fields.exact("metadata.name").is_some();
    if named || node::node_of(&request.user).is_some() {
        return None;
    }
    let kind = &request.served.kind;
    let asked = tenure_rbac::Asked::Resource {
        verb,
        group: &kind.group,
        resource: &kind.plural,
        subresource: "",
        namespace: &request.namespace,
        name: "",
    };
    Sight::of(&api.access, &request.user, &asked)
}

/// What a watch of one object must go on to hold, if nothing but a reference allows it.
fn lease(api: &Api, request: &Request, options: &ListOptions) -> Option<watch::Lease> {
    let kind = &request.served.kind;
    let name = match request.name.as_str() {
        "" => options.fields.exact("metadata.name")?.to_owned(),
        name => name.to_owned(),
    };
    let asked = tenure_rbac::Asked::Resource {
        verb: "watch",
        group: &kind.group,
        resource: &kind.plural,
        subresource: "",
        namespace: &request.namespace,
        name: &name,
    };
    // What a node may watch because of what is bound to it is looked at elsewhere.
    let is_held = api.access.may_without_references(&request.user, &asked).is_some();
    let selected = options.fields.exact("spec.nodeName");
    let of_node = || node::may(&api.world.current(), &request.user, &asked, selected);
    if is_held || of_node() == Some(Ok(())) {
        return None;
    }
    Some(watch::Lease {
        access: Arc::clone(&api.access),
        user: request.user.clone(),
        group: kind.group.to_string(),
        resource: kind.plural.to_string(),
        namespace: request.namespace.clone(),
        name,
    })
}

async fn delete_object(api: &Api, request: &mut Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Object)?;
    let style = request.style()?;
    let (options, deleted) = delete::delete(api, request).await?;
    match deleted {
        Deleted::Removed(object) if request.served.kind.returns_deleted => {
            let found = Found::Object(object);
            answer::object(StatusCode::OK, &request.served, &found, wanted, style)
        }
        Deleted::Removed(object) => {
            let status = delete::success(request, &object);
            answer::json_value(StatusCode::OK, &status, wanted.format, style)
        }
        Deleted::Marked(found) => {
            let code = if options.orphan_false { StatusCode::ACCEPTED } else { StatusCode::OK };
            answer::object(code, &request.served, &found, wanted, style)
        }
    }
}

/// Deletes a page of a collection one by one; answers the list as it was read (R77).
async fn delete_collection(api: &Api, request: &mut Request) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::List)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, false)?;
    let deleting = DeleteOptions::read(request)?;
    delete::warn_of_kept_pods(request, &deleting);
    let served = Arc::clone(&request.served);
    let page = list::page(&api.world, &served, &request.namespace, &options, None).await?;
    for record in &page.records {
        match delete::one(api, request, &deleting, record.namespace(), record.name()).await {
            Ok(_) => {}
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    list::respond(&served, &page, wanted, style)
}

/// The Status that answers bindings and evictions.
pub(crate) fn created_status() -> serde_json::Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
