//! Paths outside resources: health, version, discovery, OpenAPI, metrics (R37–R49).

mod documents;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::{Failure, Kind};
use tenure_openapi::{discovery, v2, v3};
use tenure_rbac::Requester;
use tenure_world::WriteAvailability;

use crate::api::{ApiServer, RequestLine, header, no_such_resource, not_found_text};
use crate::authenticate::User;
use crate::body::{Body, BudgetedBody, full};
use crate::negotiate::{BodyFormat, Offer, negotiate, wants_aggregated_discovery};
use crate::recorder::{self, AccessRecorder};
use crate::registry::Registry;
use crate::response;
use crate::route::Route;

pub(crate) use documents::Documents;
use documents::{CachedDocument, cached_or_offloaded, kept};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The Kubernetes release whose behaviour is served.
const EMULATED: (&str, &str) = ("1", "38");

/// The commit that was built and when, as far as whoever builds a release says so.
const COMMIT: &str = match option_env!("TENURE_COMMIT") {
    Some(commit) => commit,
    None => "0000000000000000000000000000000000000000",
};
const BUILD_DATE: &str = match option_env!("TENURE_BUILD_DATE") {
    Some(date) => date,
    None => "1970-01-01T00:00:00Z",
};

/// Names of the protobuf form of `/openapi/v2`: the one it is answered with, then the older one.
const OPENAPI_PROTOBUF: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];

/// So many objects are counted on the spot.
const COUNTED_AT_ONCE: usize = 2_000;

/// How long a document may be kept under its own hash (R47).
const YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Whether a path asks how the server fares.
pub(crate) fn is_probe(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("healthz" | "livez" | "readyz"))
}

/// Answers a path that names no resource.
pub(crate) async fn answer(
    api: &ApiServer,
    user: &User,
    line: &RequestLine,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    // What is not part of the API takes HEAD as well.
    let takes_head = matches!(line.route(), Route::Other(path) if !is_version(path));
    if line.method != Method::GET && !(takes_head && line.method == Method::HEAD) {
        return Err(Failure::method_not_allowed(&line.method.as_str().to_lowercase(), line.path()));
    }
    let registry = &api.kinds.current();
    let response = made(api, user, registry, line, headers).await?;
    // Documents are as long as lists, and whoever does not read them holds them as well (R241).
    let charge = api.shares.bytes(user, BudgetedBody::bytes_of(&response))?;
    Ok(BudgetedBody::held(response, charge))
}

async fn made(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    line: &RequestLine,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    match line.route() {
        Route::CoreVersions => versions(api, user, registry, headers, true).await,
        Route::Groups => versions(api, user, registry, headers, false).await,
        Route::Group(group) => {
            let document =
                |kinds: &[&Kind]| discovery::group(kinds, &registry.remote.versions(), group);
            plain(registry, headers, &format!("group {group}"), document, || Ok(not_found_text()))
        }
        Route::GroupVersion(group, version) => {
            let document = |kinds: &[&Kind]| discovery::resource_list(kinds, group, version);
            plain(registry, headers, &format!("resources {group}/{version}"), document, || {
                if registry.has_group(group) {
                    return Err(no_such_resource());
                }
                Ok(not_found_text())
            })
        }
        Route::Other(path) => other(api, user, registry, line, path, headers).await,
        Route::Resource(_) => Err(no_such_resource()),
    }
}

async fn other(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    line: &RequestLine,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    match path {
        "/" => Ok(json_bytes(Bytes::from(json!({ "paths": paths(registry) }).to_string()))),
        path if is_version(path) => Ok(json_bytes(Bytes::from(version().to_string()))),
        "/metrics" => metrics(api, user, registry).await,
        recorder::PATH => recorded(api, line),
        "/openapi/v2" => openapi_whole(api, user, registry, headers).await,
        "/openapi/v3" => openapi_index(api, user, registry).await,
        "/.well-known/openid-configuration" => {
            Ok(json_bytes(Bytes::from(api.tokens.configuration().to_string())))
        }
        "/openid/v1/jwks" => {
            let keys = full(Bytes::from(api.tokens.jwks().to_string()));
            Ok(response::respond(StatusCode::OK, "application/jwk-set+json", keys))
        }
        _ => {
            if let Some(document) = path.strip_prefix("/openapi/v3/") {
                return openapi_document(api, user, registry, line, document, headers).await;
            }
            let mut segments = path.strip_prefix('/').unwrap_or_default().split('/');
            match (segments.next(), segments.next(), segments.next()) {
                (Some(probe @ ("healthz" | "livez" | "readyz")), check, None) => {
                    Ok(health(api, line, probe, check))
                }
                _ => Ok(not_found_text()),
            }
        }
    }
}

fn is_version(path: &str) -> bool {
    matches!(path, "/version" | "/version/")
}

/// Who has read what (referential authorization R135).
fn recorded(api: &ApiServer, line: &RequestLine) -> Result<Response<Body>, Failure> {
    let Some(recorder) = &api.recorder else {
        let why = "nothing is recorded; start the server with --record-access";
        return Err(Failure::new(404, "NotFound", why));
    };
    let user = Some(line.query().text("user")).filter(|user| !user.is_empty());
    let mut shown = recorder.show(user);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert(
            "filteredLists".to_owned(),
            api.access.reference_authorizer().filters_lists().into(),
        );
    }
    Ok(json_bytes(Bytes::from(shown.to_string())))
}

fn json_bytes(bytes: Bytes) -> Response<Body> {
    response::respond(StatusCode::OK, "application/json", full(bytes))
}

/// `/api` and `/apis`, legacy or aggregated.
async fn versions(
    api: &ApiServer,
    user: &User,
    registry: &Registry,
    headers: &HeaderMap,
    core: bool,
) -> Result<Response<Body>, Failure> {
    let accept = header(headers, "accept");
    if wants_aggregated_discovery(accept) {
        let name = if core { "aggregated core" } else { "aggregated groups" };
        let document = kept(registry, name, |kinds| {
            Some(if core {
                discovery::aggregated_core(kinds)
            } else {
                discovery::aggregated_groups(kinds, &registry.remote.versions())
            })
        });
        let document = document.ok_or_else(no_such_resource)?;
        return tagged(api, user, &document, AGGREGATED, headers).await;
    }
    let address = api.address.to_string();
    let name = if core { "core versions" } else { "groups" };
    let document = |kinds: &[&Kind]| {
        Some(if core {
            discovery::api_versions(&[("0.0.0.0/0", &address)])
        } else {
            discovery::group_list(kinds, &registry.remote.versions())
        })
    };
    plain(registry, headers, name, document, || Ok(not_found_text()))
}

/// A kept document as JSON or YAML.
fn plain(
    registry: &Registry,
    headers: &HeaderMap,
    name: &str,
    document: impl FnOnce(&[&Kind]) -> Option<Value>,
    missing: impl FnOnce() -> Result<Response<Body>, Failure>,
) -> Result<Response<Body>, Failure> {
    // Clients that speak protobuf first accept JSON behind it.
    let wanted = negotiate(header(headers, "accept"), Offer::PlainOnly)?;
    let Some(document) = kept(registry, name, document) else { return missing() };
    match wanted.format {
        BodyFormat::Json => Ok(json_bytes(document.bytes())),
        BodyFormat::Yaml => {
            Ok(response::respond(StatusCode::OK, "application/yaml", full(document.yaml()?)))
        }
    }
}

/// A document with a strong tag, or 304 for a client that has it (R40).
async fn tagged(
    api: &ApiServer,
    user: &User,
    document: &Arc<CachedDocument>,
    media: &'static str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    let tag = document.tag();
    let known = header(headers, IF_NONE_MATCH.as_str()).is_some_and(|text| text.contains(tag));
    let mut response = if known {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        documents::respond(api, user, document, media, headers).await?
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(ETAG, value);
    }
    Ok(response)
}

/// `/openapi/v2`: one document, protobuf only for those who name it (R50).
async fn openapi_whole(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    let accept = header(headers, "accept").unwrap_or_default();
    let protobuf = OPENAPI_PROTOBUF.iter().any(|media| accept.contains(media));
    let (name, media) = match protobuf {
        true => ("openapi v2 protobuf", OPENAPI_PROTOBUF[0]),
        false => ("openapi v2", "application/json"),
    };
    let made = move |registry: &Registry, kinds: &[&Kind]| {
        let mut document = v2::document(kinds, &|kind| registry.custom_schema(kind));
        registry.remote.swagger().for_each(|part| v2::merge::add(&mut document, part));
        let text = || Bytes::from(document.to_string());
        Some(if protobuf { Bytes::from(v2::protobuf(&document)) } else { text() })
    };
    let document = cached_or_offloaded(api, user, registry, name.to_owned(), made).await?;
    let document = document.ok_or_else(no_such_resource)?;
    let mut response = tagged(api, user, &document, media, headers).await?;
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

async fn openapi_index(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
) -> Result<Response<Body>, Failure> {
    let made = |registry: &Registry, kinds: &[&Kind]| {
        let mut index = v3::index(kinds, &|kind| registry.custom_schema(kind));
        for (group, version, hash) in registry.remote.documents() {
            let path = format!("apis/{group}/{version}");
            let url = format!("/openapi/v3/{path}?hash={hash}");
            if let Some(Value::Object(paths)) = index.get_mut("paths") {
                paths.insert(path, json!({ "serverRelativeURL": url }));
            }
        }
        Some(Bytes::from(index.to_string()))
    };
    let document =
        cached_or_offloaded(api, user, registry, "openapi index".to_owned(), made).await?;
    Ok(json_bytes(document.ok_or_else(no_such_resource)?.bytes()))
}

/// `/openapi/v3/apis/apps/v1?hash=…`: immutable under its right hash, elsewhere a redirect (R47).
async fn openapi_document(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    line: &RequestLine,
    document: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    let segments: Vec<&str> = document.splitn(4, '/').collect();
    let (group, version) = match segments.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Ok(not_found_text()),
    };
    if !registry.has_version(group, version) {
        return Ok(not_found_text());
    }
    let hash = openapi_hash(api, user, registry, group, version).await?;
    let given = line.query().text("hash");
    if !given.is_empty() && given != hash {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        if let Ok(to) = HeaderValue::from_str(&format!("{}?hash={hash}", line.path())) {
            response.headers_mut().insert(LOCATION, to);
        }
        return Ok(response);
    }
    let name = format!("openapi {group}/{version}");
    let (group, version) = (group.to_owned(), version.to_owned());
    let made = move |registry: &Registry, kinds: &[&Kind]| {
        let schema = |kind: &Kind| registry.custom_schema(kind);
        Some(Bytes::from(v3::document(kinds, &group, &version, &schema)?.to_string()))
    };
    let kept =
        cached_or_offloaded(api, user, registry, name, made).await?.ok_or_else(no_such_resource)?;
    let mut response = documents::respond(api, user, &kept, "application/json", headers).await?;
    if !given.is_empty() {
        let forever = HeaderValue::from_static("public, immutable, max-age=31536000");
        response.headers_mut().insert(CACHE_CONTROL, forever);
        if let Ok(then) = HeaderValue::from_str(&crate::clock::http_date_after(YEAR_SECONDS)) {
            response.headers_mut().insert(http::header::EXPIRES, then);
        }
    }
    Ok(response)
}

/// What the index says of a document. Schemas of custom kinds are long, so they are hashed aside, and once.
async fn openapi_hash(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    group: &str,
    version: &str,
) -> Result<String, Failure> {
    let name = format!("openapi hash {group}/{version}");
    let (group, version) = (group.to_owned(), version.to_owned());
    let made = move |registry: &Registry, kinds: &[&Kind]| {
        let schema = |kind: &Kind| registry.custom_schema(kind);
        v3::hash(kinds, &group, &version, &schema).map(Bytes::from)
    };
    let hash =
        cached_or_offloaded(api, user, registry, name, made).await?.ok_or_else(no_such_resource)?;
    Ok(String::from_utf8_lossy(&hash.bytes()).into_owned())
}

/// What is known of the program that runs.
pub(crate) struct BuildFacts {
    pub(crate) major: &'static str,
    pub(crate) minor: &'static str,
    pub(crate) version: String,
    pub(crate) commit: &'static str,
    pub(crate) tree_state: &'static str,
    pub(crate) date: &'static str,
    pub(crate) go_version: &'static str,
    pub(crate) compiler: &'static str,
    pub(crate) platform: String,
}

impl BuildFacts {
    pub(crate) fn of_this_program() -> BuildFacts {
        let (major, minor) = EMULATED;
        BuildFacts {
            major,
            minor,
            version: format!("v{major}.{minor}.0+tenure{}", env!("CARGO_PKG_VERSION")),
            commit: COMMIT,
            tree_state: "clean",
            date: BUILD_DATE,
            go_version: "none",
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, platform()),
        }
    }
}

/// The version of Kubernetes that this server says it is.
#[must_use]
pub fn kubernetes_version() -> String {
    BuildFacts::of_this_program().version
}

/// The version clients compare with their own (R37).
fn version() -> Value {
    let facts = BuildFacts::of_this_program();
    json!({
        "major": facts.major,
        "minor": facts.minor,
        "emulationMajor": facts.major,
        "emulationMinor": facts.minor,
        "minCompatibilityMajor": facts.major,
        "minCompatibilityMinor": "37",
        "gitVersion": facts.version,
        "gitCommit": facts.commit,
        "gitTreeState": facts.tree_state,
        "buildDate": facts.date,
        "goVersion": facts.go_version,
        "compiler": facts.compiler,
        "platform": facts.platform,
    })
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .into();
    for remote in registry.remote.all() {
        paths.push(format!("/apis/{}", remote.group));
        paths.push(format!("/apis/{}/{}", remote.group, remote.version));
    }
    for served in registry.kinds() {
        let kind = &served.kind;
        if kind.group.is_empty() {
            paths.push(format!("/api/{}", kind.version));
        } else {
            paths.push(format!("/apis/{}", kind.group));
            paths.push(format!("/apis/{}/{}", kind.group, kind.version));
        }
    }
    paths.sort();
    paths.dedup();
    paths
}

async fn metrics(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
) -> Result<Response<Body>, Failure> {
    let state = api.world.current();
    let (counted, of) = (Arc::clone(&state), Arc::clone(registry));
    let count = move || {
        of.kinds().iter().map(|served| counted.count(&served.prefix)).collect::<Vec<usize>>()
    };
    let few = state.len() <= COUNTED_AT_ONCE;
    let counts = if few { count() } else { api.offload.run(user, count).await? };
    api.metrics.clear_storage_objects();
    for (served, count) in registry.kinds().iter().zip(counts) {
        api.metrics.set_storage_objects(&served.kind.group, &served.kind.plural, count);
    }
    api.metrics.set_storage_bytes(state.bytes(), api.world.quota());
    api.metrics.measure_store(&api.world).await;
    api.shares.measure();
    for (of, count) in [
        ("documents", registry.documents.count()),
        ("metric_resources", api.metrics.resources_known()),
        ("quota_turns", api.turns.count()),
        ("long_work", api.offload.waiting()),
        ("access_records", api.recorder.as_ref().map_or(0, AccessRecorder::count)),
    ] {
        api.metrics.set_kept(of, count);
    }
    measure_references(api);
    let mut text = api.metrics.render();
    if let Some(engines) = api.engines.get() {
        let end = text.rfind("# EOF").unwrap_or(text.len());
        text.insert_str(end, &engines.metrics());
    }
    let mut response = Response::new(full(text));
    let media = HeaderValue::from_static(crate::metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, media);
    Ok(response)
}

/// Looks up how much there is of references; who may write origins everywhere is asked of roles
/// (referential authorization R65, R136).
fn measure_references(api: &ApiServer) {
    let rbac = api.access.rbac();
    api.access.reference_authorizer().measure(&|subject, origin| {
        let name = subject.request_name();
        let groups = if subject.is_group() { vec![name.clone()] } else { Vec::new() };
        let who = Requester { user: if subject.is_group() { "" } else { &name }, groups: &groups };
        ["create", "update", "patch"].into_iter().any(|verb| {
            let asked = tenure_rbac::RequestAttributes::Resource {
                verb,
                group: &origin.group,
                resource: &origin.resource,
                subresource: "",
                namespace: "",
                name: "",
            };
            who.is_master() || rbac.allows(&who, &asked).is_allowed()
        })
    });
}

/// The health paths: all checks, one check, or all with a line each (R43).
fn health(api: &ApiServer, line: &RequestLine, probe: &str, check: Option<&str>) -> Response<Body> {
    let stopping = *api.stop.borrow();
    let storage = matches!(api.world.status(), WriteAvailability::Running);
    let mut checks = vec![
        ("ping", true),
        ("log", true),
        ("etcd", storage || probe == "livez"),
        ("informer-sync", true),
    ];
    if probe == "readyz" {
        checks.push(("shutdown", !stopping));
    }
    // A start of the process would not help what is being started again (R43a).
    if let Some(engines) = api.engines.get()
        && probe != "livez"
        && !stopping
    {
        checks.extend(engines.health().into_iter().map(|(name, state)| (name, state.is_ok())));
    }
    // A full store is no reason to send nobody here: reads and deletes are served, and needed (R245).
    let full = api.world.quota().is_some_and(|quota| api.world.current().bytes() >= quota);
    checks.push(("store-quota", true));
    let excluded: Vec<&str> = line.query().all("exclude").collect();
    checks.retain(|(name, _)| !excluded.contains(name));
    if let Some(wanted) = check {
        checks.retain(|(name, _)| *name == wanted);
        if checks.is_empty() {
            return not_found_text();
        }
    }
    let passed = checks.iter().all(|(_, ok)| *ok);
    let code = if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if passed && line.query().get("verbose").is_none() {
        return response::text(code, "ok");
    }
    let mut text = String::new();
    for (name, ok) in checks {
        text += &match ok {
            true if full && name == "store-quota" => {
                format!("[+]{name} ok: full, only what makes the store smaller is taken\n")
            }
            true => format!("[+]{name} ok\n"),
            false => format!("[-]{name} failed: reason withheld\n"),
        };
    }
    text += &format!("{probe} check {}\n", if passed { "passed" } else { "failed" });
    response::text(code, text)
}
