//! From a verb to the handler that answers it.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::json;
use tenure_core::Revision;
use tenure_machinery::Failure;

use crate::api::ApiServer;
use crate::authenticate::token;
use crate::body::{Body, BudgetedBody};
use crate::negotiate::Offer;
use crate::pods;
use crate::query::ListOptions;
use crate::read::{get, list, watch};
use crate::request::ResourceRequest;
use crate::response::{self, ResponseObject};
use crate::review;
use crate::write::delete::{self, DeleteOptions, Deleted};
use crate::write::{apply, collection, create, patch, scale, update};

/// No watch lives longer (R112).
const WATCH_SECONDS_MAX: u32 = 60 * 60;

/// Answers a request whose kind, subresource and verb are offered.
pub(crate) async fn dispatch(
    api: &ApiServer,
    verb: &str,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    match (request.subresource.as_str(), verb) {
        ("", "get") | ("status" | "ephemeralcontainers" | "resize" | "approval", "get") => {
            get_object(api, request).await
        }
        ("", "list") => list_objects(api, request).await,
        ("", "watch") => watch_objects(api, request).await,
        ("", "create") if review::is_review(&request.served.kind) => {
            review::answer(api, request).await
        }
        ("", "create") if request.served.kind.kind == "Binding" => pods::bind(api, request).await,
        ("", "create") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let found = create::create(api, request).await?;
            // The path named no object; from here on the request is about the one that was made.
            found.name().clone_into(&mut request.name);
            response::object(StatusCode::CREATED, &request.served, &found, wanted, style)
        }
        ("", "delete") => delete_object(api, request).await,
        ("", "deletecollection") => delete_collection(api, request).await,
        ("scale", "get") => {
            request.wanted(Offer::PlainOnly)?;
            let state = request.permit.newest(&api.world, None).await?;
            let record = get::shown(&state, &request.served, &request.namespace, &request.name)?;
            let parent = api.conversions.read(&request.user.name, &request.served, &record).await?;
            let found = ResponseObject::Object(scale::view(&request.served, &parent)?);
            respond(request, StatusCode::OK, &found, Offer::Object)
        }
        ("scale", "update" | "patch") => {
            let found = scale::write(api, request, verb == "patch").await?;
            respond(request, StatusCode::OK, &found, Offer::Object)
        }
        ("binding", "create") => pods::bind(api, request).await,
        ("eviction", "create") => pods::evict(api, request).await,
        ("token", "create") => token::request(api, request).await,
        (_, "update") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let (code, found) = update::put(api, request).await?.parts();
            response::object(code, &request.served, &found, wanted, style)
        }
        (_, "patch") if request.content_type == "application/apply-patch+yaml" => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let (code, found) = apply::apply(api, request).await?.parts();
            response::object(code, &request.served, &found, wanted, style)
        }
        (_, "patch") => {
            let wanted = request.wanted(Offer::Object)?;
            let style = request.style()?;
            let found = patch::patch(api, request).await?;
            response::object(StatusCode::OK, &request.served, &found, wanted, style)
        }
        _ => Err(Failure::method_not_allowed(verb, &request.served.kind.plural)),
    }
}

fn respond(
    request: &ResourceRequest,
    code: StatusCode,
    found: &ResponseObject,
    offer: Offer,
) -> Result<Response<Body>, Failure> {
    response::object(code, &request.served, found, request.wanted(offer)?, request.style()?)
}

async fn get_object(api: &ApiServer, request: &ResourceRequest) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Object)?;
    let style = request.style()?;
    let revision = match request.query.text("resourceVersion") {
        "" => None,
        text => Some(Revision::parse(text).ok_or_else(|| {
            Failure::bad_request(format!("resourceVersion: `{text}` is not a whole number"))
        })?),
    };
    let state = request.permit.newest(&api.world, revision).await?;
    let record = get::shown(&state, &request.served, &request.namespace, &request.name)?;
    let record = api.conversions.record(&request.user.name, &request.served, record).await?;
    if record.is_reshaped() {
        // Somebody else was waited for.
        request.permit.check(&api.world)?;
    }
    response::object(
        StatusCode::OK,
        &request.served,
        &ResponseObject::Record(record),
        wanted,
        style,
    )
}

async fn list_objects(
    api: &ApiServer,
    request: &ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::List)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, false)?;
    let page = list::page(api, request, &options).await?;
    list::respond(api, &request.user, &request.served, page, wanted, style).await
}

async fn watch_objects(
    api: &ApiServer,
    request: &ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Watch)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, true)?;
    let lifetime = lifetime(&options, || {
        u64::from(WATCH_SECONDS_MAX / 2 + api.chance.below(WATCH_SECONDS_MAX / 2))
    });
    let requested = watch::WatchRequest {
        served: Arc::clone(&request.served),
        namespace: request.namespace.clone(),
        only: request.name.clone(),
        options,
        shape: wanted.shape,
        include: style.include,
        lifetime,
        events: api.metrics.watch_events(&request.served.kind.group, &request.served.kind.plural),
        running: api.metrics.long_running(
            "WATCH",
            &request.served.kind.group,
            &request.served.kind.plural,
        ),
        permit: request.permit.clone(),
        user: Arc::clone(&request.user),
        shares: Arc::clone(&api.shares),
        conversions: Arc::clone(&api.conversions),
    };
    let open = api.shares.watch(&request.user)?;
    let response = watch::start(&api.world, &api.kinds, requested, api.stop.clone()).await?;
    Ok(BudgetedBody::held(response, open))
}

/// How long a watch lives: as long as its client says within the bound, else half of it and more (R112).
fn lifetime(options: &ListOptions, or_else: impl FnOnce() -> u64) -> Duration {
    let seconds = match options.timeout_seconds {
        Some(seconds) if seconds < 0 => 0,
        Some(seconds) if (1..=i64::from(WATCH_SECONDS_MAX)).contains(&seconds) => {
            seconds.unsigned_abs()
        }
        _ => or_else(),
    };
    Duration::from_secs(seconds)
}

async fn delete_object(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::Object)?;
    let style = request.style()?;
    let (options, deleted) = delete::delete(api, request).await?;
    match deleted {
        Deleted::Removed(object) if request.served.kind.returns_deleted => {
            let found = ResponseObject::Object(object);
            response::object(StatusCode::OK, &request.served, &found, wanted, style)
        }
        Deleted::Removed(object) => {
            let status = delete::success(request, &object);
            response::json_value(StatusCode::OK, &status, wanted.format, style)
        }
        Deleted::Marked(found) => {
            let code = if options.orphan_false { StatusCode::ACCEPTED } else { StatusCode::OK };
            response::object(code, &request.served, &found, wanted, style)
        }
    }
}

/// Deletes a page of a collection, each object on its own; answers the list as it was read (R77).
async fn delete_collection(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::List)?;
    let style = request.style()?;
    let options = ListOptions::read(&request.query, false)?;
    let deleting = DeleteOptions::read(request)?;
    delete::warn_of_kept_pods(request, &deleting);
    let served = Arc::clone(&request.served);
    let page = list::page(api, request, &options).await?;
    collection::delete(api, request, &deleting, &page.records).await?;
    list::respond(api, &request.user, &served, page, wanted, style).await
}

/// The Status that answers bindings and evictions.
pub(crate) fn created_status() -> serde_json::Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
}
