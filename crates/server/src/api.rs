//! One request in, one response out.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::upgrade::OnUpgrade;
use tenure_kinds::downward::Downward;
use tenure_kinds::retention::RetentionOptions;
use tenure_machinery::request_info::Prefix;
use tenure_machinery::status::Details;
use tenure_machinery::{Failure, ResourcePath, name};
use tenure_token::KeySet;
use tenure_world::WorldHandle;
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::access::{AccessGrant, AccessRefusal, AuthorizerChain, refusal, refused};
use crate::admit::{AdmissionPlugins, DynamicAdmission, OwnerChecks, ServiceRange, Turns};
use crate::aggregate::{self, FrontProxy};
use crate::audit::{AuditContext, AuditSink};
use crate::authenticate::fixed::AuthenticationOptions;
use crate::authenticate::token::Tokens;
use crate::authenticate::{User, authenticate, unauthorized, user_of_certificate};
use crate::authorize::{AccessQuestion, Consultation};
use crate::body::{Body, BudgetedBody};
use crate::certificate_signing::CertificateSigner;
use crate::clock::{self, Chance};
use crate::connect::{self, Dialer};
use crate::conversion::Conversions;
use crate::dispatch;
use crate::engine_api::{self, EngineApi};
use crate::fair::{self, Seat, ServerLimits, Shares};
use crate::metrics::Metrics;
use crate::negotiate::media_type;
use crate::node;
use crate::offload::OffloadPool;
use crate::permit::{Basis, Caller, Permit};
use crate::recorder::AccessRecorder;
use crate::reference::{self, Visibility};
use crate::registry::{ServedKind, ServedKinds};
use crate::request::ResourceRequest;
pub(crate) use crate::request_line::RequestLine;
use crate::request_log::RequestLog;
use crate::response;
use crate::route::Route;
use crate::snapshot;
use crate::system;

/// Bodies above this size are refused (R6).
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The deadline of every request that reads, but for watches (R7).
const DEADLINE: Duration = Duration::from_secs(60);

/// The deadline of every request that writes (R7).
const WRITE_DEADLINE: Duration = Duration::from_secs(34);

/// The longest that the writer of a strategy waits for its origins (referential authorization R174).
const FILL_MOST: Duration = Duration::from_secs(30);

/// Ids that clients bring along are cut to this length.
const AUDIT_ID_BYTES_MAX: usize = 64;

/// Who is on the other end of a connection, as TLS saw it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The user its verified certificate names, and the second at which that ends; read once for all requests
    /// of the connection.
    pub(crate) user: Option<(Arc<User>, i64)>,
    /// Whether it showed a certificate that proves nothing.
    pub(crate) untrusted: bool,
    /// Where it is.
    pub(crate) address: Option<IpAddr>,
}

impl Peer {
    /// The holder of a verified client certificate in DER form, or nobody.
    #[must_use]
    pub fn new(certificate: Option<&[u8]>) -> Peer {
        match certificate.and_then(user_of_certificate) {
            // What the server shows to nodes is worth nothing to itself (downward-api R133b).
            Some((user, _)) if user.name == connect::NODE_CLIENT => Peer::untrusted(),
            user => {
                let user = user.map(|(user, expires_at)| (Arc::new(user), expires_at));
                Peer { user, ..Peer::default() }
            }
        }
    }

    /// A client that showed a certificate which proves nothing.
    #[must_use]
    pub fn untrusted() -> Peer {
        Peer { untrusted: true, ..Peer::default() }
    }

    /// A service account of this process, which needs no credential; it is authorized like any other.
    pub(crate) fn account(namespace: &str, name: &str) -> Peer {
        let mut user = User::account(namespace, name);
        user.groups.push("system:authenticated".to_owned());
        Peer { user: Some((Arc::new(user), i64::MAX)), ..Peer::default() }
    }

    /// The same, at an address.
    #[must_use]
    pub fn at(self, address: IpAddr) -> Peer {
        Peer { address: Some(address), ..self }
    }
}

/// What an API server is made of.
pub struct ApiConfig {
    /// The state, and the way to change it.
    pub world: WorldHandle,
    /// Which kinds are served.
    pub kinds: Arc<ServedKinds>,
    /// Who may do what, fed by the world.
    pub access: Arc<AuthorizerChain>,
    /// The keys of service-account tokens.
    pub token_keys: KeySet,
    /// How requests are authenticated beyond that.
    pub authentication: AuthenticationOptions,
    /// The authority that signs serving certificates, as PEM; every namespace gets a copy.
    pub authority_pem: String,
    /// As whom the server shows itself to the servers of other API groups; without it none is asked.
    pub front_proxy: Option<FrontProxy>,
    /// The authorities whose client certificates are believed, as PEM; other servers of the cluster read them.
    pub client_authority_pem: String,
    /// Where clients reach the server, such as `127.0.0.1:6443`.
    pub address: std::net::SocketAddr,
    /// Where requests are written down; `None` for nowhere.
    pub audit: Option<Arc<AuditSink>>,
    /// Turns true when the server ends.
    pub stop: watch::Receiver<bool>,
    /// How owner references are treated when they are written.
    pub owners: OwnerChecks,
    /// Whether a collector acts on owner references; without one DELETE adds no finalizers for it
    /// (ownership R48).
    pub collects_garbage: bool,
    /// How the opt-in of ConfigMaps and Secrets to retention is treated.
    pub retention: RetentionOptions,
    /// What pods may read of themselves.
    pub downward: Downward,
    /// The policies and webhooks of users, fed by the world.
    pub admission: Arc<DynamicAdmission>,
    /// Which admission plugins are on.
    pub plugins: AdmissionPlugins,
    /// Where the addresses of Services come from.
    pub service_range: ServiceRange,
    /// How much runs at a time.
    pub limits: ServerLimits,
}

/// The API server without its socket.
pub struct ApiServer {
    pub(crate) world: WorldHandle,
    pub(crate) kinds: Arc<ServedKinds>,
    pub(crate) access: Arc<AuthorizerChain>,
    pub(crate) tokens: Tokens,
    pub(crate) authority_pem: String,
    pub(crate) front_proxy: Option<FrontProxy>,
    pub(crate) client_authority_pem: String,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) chance: Chance,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<Arc<AuditSink>>,
    /// Where checks go that take long.
    pub(crate) offload: Arc<OffloadPool>,
    /// How much runs at a time, and who is next.
    pub(crate) shares: Arc<Shares>,
    pub(crate) limits: ServerLimits,
    pub(crate) owners: OwnerChecks,
    /// Whether a collector acts on owner references; without one DELETE adds no finalizers for it
    /// (ownership R48).
    pub(crate) collects_garbage: bool,
    pub(crate) retention: Arc<RetentionOptions>,
    pub(crate) downward: Downward,
    pub(crate) admission: Arc<DynamicAdmission>,
    /// Who brings custom objects into other versions.
    pub(crate) conversions: Arc<Conversions>,
    /// Which admission plugins are on.
    pub(crate) plugins: AdmissionPlugins,
    /// Where the addresses of Services come from.
    pub(crate) service_range: ServiceRange,
    /// Who creates next where quotas are.
    pub(crate) turns: Turns,
    pub(crate) engines: OnceLock<Arc<dyn EngineApi>>,
    /// Who has read what, if that is recorded.
    pub(crate) recorder: Option<AccessRecorder>,
    /// How nodes are reached.
    pub(crate) dialer: OnceLock<Arc<dyn Dialer>>,
    /// Who signs what nodes serve with.
    pub(crate) signer: OnceLock<Arc<dyn CertificateSigner>>,
}

impl ApiServer {
    /// Puts the parts together; nothing runs yet.
    #[must_use]
    pub fn new(config: ApiConfig) -> Arc<ApiServer> {
        let shares = Arc::new(Shares::new(config.limits));
        let tally = config.access.reference_authorizer().tally();
        let mut metrics =
            Metrics::new().with_commits(&config.world).with_references(tally).with_shares(&shares);
        metrics = metrics.with_admission(&config.admission).with_authorization(&config.access);
        let offload: Arc<OffloadPool> = Arc::default();
        let connect = config.admission.connect();
        let conversions = Arc::new(Conversions::new(connect, Arc::clone(&offload)));
        metrics = metrics.with_conversions(&conversions);
        if let Some(audit) = &config.audit {
            let (written, lost) = audit.counters();
            metrics = metrics.with_audit(written, lost);
        }
        let recorder = config.access.references().records().then(AccessRecorder::default);
        let api = Arc::new(ApiServer {
            tokens: Tokens::new(
                config.token_keys,
                config.address,
                config.authentication,
                config.world.clone(),
            ),
            access: config.access,
            world: config.world,
            kinds: config.kinds,
            authority_pem: config.authority_pem,
            front_proxy: config.front_proxy,
            client_authority_pem: config.client_authority_pem,
            address: config.address,
            stop: config.stop,
            chance: Chance::default(),
            metrics,
            audit: config.audit,
            offload,
            shares,
            limits: config.limits,
            owners: config.owners,
            collects_garbage: config.collects_garbage,
            retention: Arc::new(config.retention),
            downward: config.downward,
            admission: config.admission,
            conversions,
            plugins: config.plugins,
            service_range: config.service_range,
            turns: Turns::default(),
            recorder,
            engines: OnceLock::new(),
            dialer: OnceLock::new(),
            signer: OnceLock::new(),
        });
        api.admission.serve(Arc::downgrade(&api));
        api
    }

    /// A number nobody can guess, for tables that must not be filled with collisions.
    #[must_use]
    pub fn draw_seed(&self) -> u64 {
        self.chance.seed()
    }

    /// Shows in `/metrics` whether a feature gate is on, and whether it is by default.
    pub fn show_feature(&self, name: &'static str, by_default: bool, on: bool) {
        self.metrics.set_feature(name, by_default, on);
    }

    /// Lets clients ask the engines that run beside the server; the first ones stay.
    pub fn put_engines(&self, engines: Arc<dyn EngineApi>) {
        let _ = self.engines.set(engines);
    }

    /// Lets clients reach the nodes; the first way stays.
    pub fn put_dialer(&self, dialer: Arc<dyn Dialer>) {
        let _ = self.dialer.set(dialer);
    }

    /// Lets nodes have certificates for what they serve; the first signer stays.
    pub fn put_signer(&self, signer: Arc<dyn CertificateSigner>) {
        let _ = self.signer.set(signer);
    }

    /// Answers one request.
    pub async fn call<B>(&self, mut request: http::Request<B>, peer: &Peer) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = clock::instant();
        let id = audit_id(self, request.headers());
        let upgrade = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let line = Arc::new(RequestLine::new(&parts));
        let _running = self.metrics.in_flight(line.mutating());
        let audit = self.audit.as_ref();
        let mut trail = AuditContext::begin(audit, &parts, &line, peer.address, &id);
        let mut log = RequestLog::begin(&line);
        let answered = {
            let about = (&mut trail, &log, id.as_str());
            // Pinned where it is: to move it into the span would cost more than the span.
            let answering = pin!(self.answer(&line, &parts, (body, upgrade), peer, about));
            answering.instrument(log.span()).await
        };
        let mut response = answered.unwrap_or_else(|failure| response::failure(&failure));
        if parts.method == Method::HEAD {
            *response.body_mut() = crate::body::full("");
        }
        // Only served resources become labels, so hostile paths cannot make metrics grow.
        let (group, resource) = line.served_resource(&self.kinds.current());
        let (code, took) = (response.status().as_u16(), started.elapsed());
        self.metrics.observe(line.verb(), group, resource, code, took);
        log.end(&line, &response, || self.world.current().revision().0, took);
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert("audit-id", id);
        }
        trail.end(response)
    }

    async fn answer<B>(
        &self,
        line: &Arc<RequestLine>,
        parts: &http::request::Parts,
        (body, upgrade): (B, OnUpgrade),
        peer: &Peer,
        (trail, log, audit_id): (&mut AuditContext, &RequestLog, &str),
    ) -> Result<Response<Body>, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if line.is_malformed() {
            return Err(Failure::bad_request("an escape in the path is broken"));
        }
        let headers = &parts.headers;
        // Before the first decision: what is taken away from now on is looked at again.
        let since = (self.access.revocations().generation(), self.access.epoch());
        let consultation = Consultation::default();
        let (user, credential) = authenticate(peer, headers, &self.tokens).map_err(|why| {
            trail.refused(why);
            unauthorized()
        })?;
        trail.user(&user);
        let attributes = line.attributes();
        let access = &self.access;
        let caller =
            Caller::new(user, credential, headers, &attributes, access, &consultation).await;
        let caller = caller.inspect_err(|failure| {
            if failure.code == 403 {
                trail.decided(false, String::new);
            }
        })?;
        if let Some(impersonator) = &caller.impersonator {
            trail.acting(&caller.user, impersonator.constraint);
        }
        let user = Arc::clone(&caller.user);
        log.user(&user);
        consultation.forget();
        let decision = self.decide(&user, line, &consultation).await;
        trail.decided(decision.is_ok(), || match &decision {
            Ok(grant) => access.reason(grant, &user, &attributes),
            Err(refusal) if refusal.is_failure() => "internal error".to_owned(),
            Err(refusal) => refusal.reason(),
        });
        if let Some(recorder) = &self.recorder {
            recorder.request(
                self.access.reference_authorizer(),
                &user,
                line,
                headers,
                decision.is_ok(),
            );
        }
        let grant = decision.map_err(|why| {
            let hint = self.access.reference_authorizer().hint(&user, &attributes);
            refused(&user, &attributes, &why, hint.unwrap_or_default())
        })?;
        let permit = Permit::new(&self.access, line, caller, &grant, since);
        if let Some(remote) = aggregate::server_of(&self.kinds.current(), line) {
            // References and what is bound to a node say nothing about what others store.
            if matches!(grant.basis, Basis::Node | Basis::Reference | Basis::References) {
                return Err(refusal(&user, &attributes));
            }
            if !connect::may_pass(&parts.method) {
                let method = parts.method.as_str().to_lowercase();
                return Err(Failure::method_not_allowed(&method, line.path()));
            }
            let ending = connect::wants_upgrade(headers).then(|| trail.streams());
            let open = self.shares.node_connection(&user)?;
            let user = &user;
            let call = connect::ForwardedRequest {
                line,
                parts,
                user,
                permit,
                upgrade,
                ending,
                audit_id,
                open,
            };
            return Box::pin(connect::forward(self, &remote, call, body)).await;
        }
        match line.route() {
            Route::Resource(path) if let Some(subresource) = connect::connect_subresource(path) => {
                let ending = trail.streams();
                let user = &user;
                let open = self.shares.node_connection(user)?;
                let call = connect::ConnectRequest {
                    subresource,
                    path,
                    line,
                    parts,
                    user,
                    permit,
                    upgrade,
                    ending,
                    open,
                };
                Box::pin(connect::answer(self, call, body)).await
            }
            Route::Resource(path) => {
                let requested = (Arc::clone(&user), permit);
                let response = self.resource(line, path, headers, body, requested, trail).await?;
                Ok(self.shares.pace(&user, response))
            }
            Route::Other(path) if path == snapshot::PATH => {
                snapshot::answer(self, &user, &permit, line).await
            }
            Route::Other(path) if engine_api::leads_to(path) => {
                engine_api::answer(self, &user, &permit, line).await
            }
            // Whoever watches over the server is answered also when it is busy.
            Route::Other(path) if system::is_probe(path) => {
                system::answer(self, &user, line, headers).await
            }
            _ => {
                let seat = self.shares.enter(&user, false, || 1).await?;
                if seat.as_ref().is_some_and(Seat::has_waited) {
                    permit.check(&self.world)?;
                }
                let response = fair::on(seat, system::answer(self, &user, line, headers)).await?;
                Ok(self.shares.pace(&user, response))
            }
        }
    }

    /// Asks all authorizers. Who may not read a collection may see what references lead to in it (referential
    /// authorization R155), unless somebody denies it.
    async fn decide(
        &self,
        user: &User,
        line: &RequestLine,
        consultation: &Consultation,
    ) -> Result<AccessGrant, AccessRefusal> {
        let is_node = node::node_of(user).is_some();
        let state = is_node.then(|| self.world.current());
        let asks_webhooks = self.access.asks_webhooks();
        let question = AccessQuestion {
            node: state.as_deref().map(|state| (state, line.selected_node())),
            ..AccessQuestion::of_line(line, asks_webhooks)
        };
        let refusal = match consultation.decide(&self.access, user, &question).await {
            Err(refusal) if refusal.is_silent() && !is_node => refusal,
            decided => return decided,
        };
        match Visibility::of(&self.access, user, &line.attributes()) {
            None => Err(refusal),
            Some(_) => Ok(AccessGrant {
                basis: Basis::References,
                reason: "reference: what is referenced is shown".to_owned(),
                by_webhook: asks_webhooks,
            }),
        }
    }

    async fn resource<B>(
        &self,
        line: &RequestLine,
        path: &ResourcePath,
        headers: &HeaderMap,
        body: B,
        (user, permit): (Arc<User>, Permit),
        trail: &mut AuditContext,
    ) -> Result<Response<Body>, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let registry = self.kinds.current();
        if !registry.has_group(&path.group) {
            return Ok(not_found_text());
        }
        let served = registry
            .find(&path.group, &path.version, &path.resource)
            .filter(|served| !path.deeper && fits(path, served.kind.namespaced))
            .filter(|_| path.prefix != Some(Prefix::Proxy))
            .ok_or_else(no_such_resource)?;
        if !path.subresource.is_empty() && served.kind.subresource(&path.subresource).is_none() {
            return Err(no_such_resource());
        }
        check_path(served, path)?;
        let verb = line.verb();
        // A custom kind has no path to create across namespaces (R133).
        let nowhere = served.kind.namespaced && path.object_namespace().is_empty();
        if served.custom.is_some() && verb == "create" && nowhere {
            return Err(no_such_resource());
        }
        if !offers(served, path, verb, &line.method) {
            return Err(Failure::method_not_allowed(
                &line.method.as_str().to_lowercase(),
                &path.resource,
            ));
        }
        let mut request = ResourceRequest {
            served: Arc::clone(served),
            namespace: path.object_namespace().to_owned(),
            name: path.name.clone(),
            subresource: path.subresource.clone(),
            verb: line.owned_verb(),
            query: line.query().clone(),
            accept: header(headers, ACCEPT.as_str()).map(str::to_owned),
            content_type: media_type(header(headers, CONTENT_TYPE.as_str())),
            agent: header(headers, USER_AGENT.as_str()).unwrap_or_default().to_owned(),
            gzip: header(headers, ACCEPT_ENCODING.as_str()).is_some_and(|text| {
                text.split(',').any(|coding| coding.trim().starts_with("gzip"))
            }),
            user,
            permit,
            consultation: Consultation::default(),
            body: Bytes::new(),
            warnings: Vec::new(),
            annotations: Vec::new(),
            relied_on: Vec::new(),
            restates_identity: false,
            collection_objects: 0,
        };
        if let Some(deprecated) = &served.kind.deprecated {
            request.warn(deprecated.as_ref());
        }
        let work = async {
            let mut charge = None;
            if line.mutating() {
                charge = self.shares.bytes(&request.user, body_bytes_max(&body))?;
                request.body = read_body(body).await?;
                trail.body(&request.served, &request.content_type, &request.body);
            }
            request.collection_objects = self.collection_objects(line, &request);
            let width = || match request.collection_objects {
                0 => fair::width_of_bytes(request.body.len()),
                objects => fair::width_of_objects(objects),
            };
            let seat = self.shares.enter(&request.user, line.mutating(), width).await?;
            if line.mutating() || seat.as_ref().is_some_and(Seat::has_waited) {
                // Whoever sends a body slowly, or waited for a turn, is not allowed more by that.
                request.permit.check(&self.world)?;
            }
            let response = fair::on(seat, dispatch::dispatch(self, verb, &mut request)).await?;
            if !line.mutating() {
                charge = self.shares.bytes(&request.user, BudgetedBody::bytes_of(&response))?;
            }
            // What is written is written: its answer stands in for its body, which is about as long.
            Ok(BudgetedBody::held(response, charge))
        };
        let result = if verb == "watch" {
            work.await
        } else {
            // A collection may take as long to delete as to read (ownership R66).
            let quick = line.mutating() && verb != "deletecollection";
            let most = if quick { WRITE_DEADLINE } else { DEADLINE };
            let limit = line.query().timeout()?.unwrap_or(most).min(most);
            let late = || Failure::new(504, "Timeout", "the request took too long");
            tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
        };
        if line.mutating() && reference::brings_origins(&request.served.kind) {
            // What a strategy adds is there when its writer hears of it; beyond that, a little later.
            let filled = self.access.reference_authorizer().filled();
            let _ = tokio::time::timeout(FILL_MOST, filled).await;
        }
        let mut response = result.unwrap_or_else(|failure| response::failure(&failure));
        add_warnings(response.headers_mut(), &request.warnings);
        trail.handled(&request);
        Ok(response)
    }
}

impl ApiServer {
    /// How many objects a request is about that is about a collection, as far as that makes a difference.
    fn collection_objects(&self, line: &RequestLine, request: &ResourceRequest) -> usize {
        let is_collection = matches!(line.verb(), "list" | "watch" | "deletecollection");
        if !is_collection || line.is_about_one() {
            return 0;
        }
        let prefix = request.served.collection(&request.namespace);
        let limit = line.query().number("limit").ok().flatten().unwrap_or_default();
        let most = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let most = most.unwrap_or(usize::MAX).min(fair::OBJECTS_COUNTED_MAX);
        self.world.current().count_up_to(&prefix, most)
    }
}

/// Whether the path names a namespace just where the kind needs one.
pub(crate) fn fits(path: &ResourcePath, namespaced: bool) -> bool {
    if namespaced { path.in_namespace || path.name.is_empty() } else { !path.in_namespace }
}

/// Refuses a path that leads to a resource but names no object there (R2).
pub(crate) fn check_path(served: &ServedKind, path: &ResourcePath) -> Result<(), Failure> {
    if path.name.is_empty() {
        let needs_name = !path.subresource.is_empty();
        return if needs_name {
            Err(Failure::bad_request("name must be provided"))
        } else {
            Ok(())
        };
    }
    if served.kind.namespaced && path.namespace.is_empty() {
        return Err(Failure::bad_request("a namespace must be provided"));
    }
    match name::path_segment(&path.name) {
        Some(why) => Err(Failure::bad_request(format!("the name in the path {why}"))),
        None => Ok(()),
    }
}

pub(crate) fn offers(
    served: &ServedKind,
    path: &ResourcePath,
    verb: &str,
    method: &Method,
) -> bool {
    use tenure_machinery::kind::Verbs;
    // HEAD is authorized as a read, but nothing answers it.
    if matches!(verb, "get" | "list" | "watch") && *method != Method::GET {
        return false;
    }
    if !path.subresource.is_empty() {
        let verb = if verb == "deletecollection" { "delete" } else { verb };
        return served.kind.subresource(&path.subresource).is_some_and(|s| s.verbs.contains(&verb));
    }
    let all_namespaces = served.kind.namespaced && path.object_namespace().is_empty();
    let shape = match verb {
        "create" => {
            path.name.is_empty() && (!all_namespaces || served.kind.verbs == Verbs::CreateOnly)
        }
        "update" | "patch" | "delete" => !path.name.is_empty(),
        "get" | "list" | "watch" => true,
        "deletecollection" => !all_namespaces,
        _ => false,
    };
    shape
        && match served.kind.verbs {
            Verbs::All => true,
            Verbs::NoDeleteCollection => verb != "deletecollection",
            Verbs::CreateOnly => verb == "create",
        }
}

/// 404 for a resource that no served version has: a Status with empty details (R4).
pub(crate) fn no_such_resource() -> Failure {
    Failure::new(404, "NotFound", "the server could not find the requested resource")
        .with(Details::default())
}

/// 404 for a path outside the API.
pub(crate) fn not_found_text() -> Response<Body> {
    response::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The id of a request: its own, cut to a bound, or a new one.
fn audit_id(api: &ApiServer, headers: &HeaderMap) -> String {
    let own = header(headers, "audit-id").filter(|text| !text.is_empty());
    // The text is ASCII, so every place is between two letters.
    own.map(|text| text.get(..AUDIT_ID_BYTES_MAX).unwrap_or(text).to_owned())
        .unwrap_or_else(|| api.chance.uid())
}

/// How many bytes a body may bring.
pub(crate) fn body_bytes_max(body: &impl http_body::Body) -> u64 {
    let most = BODY_BYTES_MAX as u64;
    body.size_hint().upper().map_or(most, |upper| upper.min(most))
}

pub(crate) async fn read_body<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_BYTES_MAX}"),
        )
        .with(Details::default())),
        Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
    }
}

/// `Warning: 299 - "text"`, one header per text, 4,096 characters in all (R31).
fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    const TOTAL_MAX: usize = 4096;
    const EACH_MAX: usize = 256;
    let total: usize = warnings.iter().map(String::len).sum();
    let mut used = 0;
    for warning in warnings {
        let printable = warning.chars().filter(|c| !c.is_control());
        let text: String = if total > TOTAL_MAX {
            printable.take(EACH_MAX).collect()
        } else {
            printable.collect()
        };
        used += text.len();
        if used > TOTAL_MAX {
            return;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(http::header::WARNING, value);
        }
    }
}
