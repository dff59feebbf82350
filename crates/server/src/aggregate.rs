//! API groups that other servers serve, as APIServices register them (R131a–R131f).
//!
//! ```text
//!   commit of an APIService ──► RemoteApis (read in lock step) ──► requests, discovery
//!   check of a follower ──────► RemoteDiscovery ─────────────────► discovery, OpenAPI
//! ```
//!
//! What is passed on, and how, is in `connect::aggregated`; whether a server counts as available is decided
//! in engine `workload`.

mod check;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};
use tenure_openapi::remote::RemoteVersion;
use tenure_outbound::{CertifiedKey, Connect, HttpsClient, TlsSettings};
use tenure_world::{Change, Record, World};

use crate::registry::Registry;
use crate::request_line::RequestLine;
use crate::route::Route;

pub(crate) use check::check;

/// Where APIServices are kept.
pub(crate) const API_SERVICES: &str = "/registry/apiregistration.k8s.io/apiservices/";
/// Where documents of groups are.
const DOCUMENTS: &str = "/openapi/v3/apis/";
/// The port of a Service that names none.
const PORT: u16 = 443;

/// The front proxy: as whom this server shows itself to others whose APIs it passes requests on to.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// Who signed the certificate, as PEM: what those servers know this one by.
    pub authority_pem: String,
    /// The name in the certificate.
    pub name: &'static str,
    /// The certificate and its key.
    pub identity: CertifiedKey,
}

/// A version of a group that another server serves.
pub(crate) struct RemoteApi {
    /// The name of its APIService.
    pub(crate) name: String,
    uid: String,
    spec: Object,
    pub(crate) group: String,
    pub(crate) version: String,
    /// `name.namespace.svc:port`.
    pub(crate) authority: String,
    group_priority: i64,
    version_priority: i64,
    tls: Result<TlsSettings, String>,
    /// Whether it counts as available.
    available: AtomicBool,
    clients: [OnceLock<Result<HttpsClient, String>>; 2],
}

/// What its connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Requests and answers.
    Http,
    /// What can become something else than HTTP.
    Upgrades,
}

impl RemoteApi {
    /// What an APIService registers; none if it is served here.
    fn read(object: &Object) -> Option<RemoteApi> {
        let spec = object.map_at(&["spec"])?;
        let service = spec.map_at(&["service"])?;
        let text = |member: &str| spec.str_at(&[member]).unwrap_or_default().to_owned();
        let (group, version) = (text("group"), text("version"));
        if !may_be_elsewhere(&group) {
            return None;
        }
        let of = |member: &str| service.str_at(&[member]).unwrap_or_default();
        let port = service.int_at(&["port"]).and_then(|port| u16::try_from(port).ok());
        let authority = format!("{}.{}.svc:{}", of("name"), of("namespace"), port.unwrap_or(PORT));
        let unverified = spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true);
        let bundle = STANDARD.decode(text("caBundle")).map_err(|error| error.to_string());
        let tls = bundle.map(|authorities| TlsSettings {
            authorities,
            server_name: None,
            unverified,
            identity: None,
        });
        Some(RemoteApi {
            name: object.name().to_owned(),
            uid: object.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned(),
            group,
            version,
            authority,
            group_priority: spec.int_at(&["groupPriorityMinimum"]).unwrap_or_default(),
            version_priority: spec.int_at(&["versionPriority"]).unwrap_or_default(),
            tls,
            available: AtomicBool::new(says_available(object)),
            clients: Default::default(),
            spec: spec.clone(),
        })
    }

    /// Whether requests are passed on.
    pub(crate) fn is_available(&self) -> bool {
        self.available.load(Ordering::Relaxed)
    }

    /// The client for requests to it; made when it is first needed and kept while the APIService says the same.
    pub(crate) fn client(
        &self,
        speaks: Speaks,
        front_proxy: Option<&FrontProxy>,
        connect: &Arc<dyn Connect>,
    ) -> Result<&HttpsClient, &str> {
        let [http, upgrades] = &self.clients;
        let place = if speaks == Speaks::Http { http } else { upgrades };
        let made = place.get_or_init(|| {
            let front_proxy = front_proxy.ok_or("this server has no certificate for others")?;
            let settings = self.tls.clone()?;
            let settings = TlsSettings { identity: Some(front_proxy.identity.clone()), ..settings };
            let connect = Arc::clone(connect);
            let made = match speaks {
                Speaks::Http => HttpsClient::new(settings, connect),
                Speaks::Upgrades => HttpsClient::upgrading(settings, connect),
            };
            made.map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::as_str)
    }

    /// A client of nobody else, whose connections tell how it is now.
    pub(crate) fn fresh_client(
        &self,
        front_proxy: Option<&FrontProxy>,
        connect: &Arc<dyn Connect>,
    ) -> Result<HttpsClient, String> {
        let front_proxy = front_proxy.ok_or("this server has no certificate for others")?;
        let identity = Some(front_proxy.identity.clone());
        let settings = TlsSettings { identity, ..self.tls.clone()? };
        HttpsClient::new(settings, Arc::clone(connect)).map_err(|error| error.to_string())
    }
}

/// The server that answers a request, if that is another one.
pub(crate) fn server_of(registry: &Registry, line: &RequestLine) -> Option<Arc<RemoteApi>> {
    let remote = &registry.remote;
    let found = match line.route() {
        Route::Resource(path) if !path.core => remote.find(&path.group, &path.version),
        Route::GroupVersion(group, version) => remote.find(group, version),
        Route::Other(path) => {
            let (group, version) = path.strip_prefix(DOCUMENTS)?.split_once('/')?;
            let found = remote.find(group, version);
            found.filter(|api| remote.discovery(api).is_some_and(|known| known.openapi.is_some()))
        }
        _ => None,
    };
    found.cloned()
}

/// Whether a group may be served by somebody else: what APIServices themselves and the core of the API are,
/// is always served here.
pub(crate) fn may_be_elsewhere(group: &str) -> bool {
    !group.is_empty() && group != "apiregistration.k8s.io"
}

fn says_available(object: &Object) -> bool {
    let conditions = object.list_at(&["status", "conditions"]).iter().filter_map(Value::as_object);
    let mut available = conditions.filter(|one| one.str_at(&["type"]) == Some("Available"));
    available.any(|one| one.str_at(&["status"]) == Some("True"))
}

/// Whether a change may be one of what other servers serve: most APIServices are about what is served here.
pub(crate) fn concerns(change: &Change) -> bool {
    change.key.starts_with(API_SERVICES)
        && change.before.iter().chain(&change.after).any(|record| mentions_service(record))
}

fn mentions_service(record: &Record) -> bool {
    const MEMBER: &[u8] = b"\"service\"";
    record.bytes().windows(MEMBER.len()).any(|part| part == MEMBER)
}

/// What another server says of itself.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RemoteDiscovery {
    /// Its resources, as `tenure_openapi::remote` reads them.
    pub(crate) resources: Vec<Value>,
    /// Whether it said so when it was last asked.
    pub(crate) current: bool,
    /// The hash of its OpenAPI document; none if it has none.
    pub(crate) openapi: Option<String>,
    /// What its OpenAPI v2 document says of the version.
    pub(crate) swagger: Option<Arc<Value>>,
}

/// Everything that other servers serve, at one moment.
#[derive(Clone, Default)]
pub(crate) struct RemoteApis {
    all: Vec<Arc<RemoteApi>>,
    by_version: HashMap<String, Arc<RemoteApi>>,
    // INVARIANT: what is here was said by the server that the APIService names now.
    discovered: HashMap<String, Arc<RemoteDiscovery>>,
}

impl RemoteApis {
    /// What a state registers; clients and what is known of servers stay while their APIServices say the same.
    pub(crate) fn read(&self, world: &World) -> RemoteApis {
        let mut found = RemoteApis::default();
        for record in world.range(API_SERVICES, None).filter(|record| mentions_service(record)) {
            let object: Object = serde_json::from_slice(record.bytes()).unwrap_or_default();
            let Some(read) = RemoteApi::read(&object) else { continue };
            let known = self.all.iter().find(|known| known.uid == read.uid);
            let api = match known.filter(|known| known.spec == read.spec) {
                Some(known) => {
                    known.available.store(read.is_available(), Ordering::Relaxed);
                    if let Some(discovery) = self.discovered.get(&known.name) {
                        found.discovered.insert(known.name.clone(), Arc::clone(discovery));
                    }
                    Arc::clone(known)
                }
                None => Arc::new(read),
            };
            found.by_version.insert(format!("{}/{}", api.group, api.version), Arc::clone(&api));
            found.all.push(api);
        }
        found
    }

    /// Whether the same is registered, whatever is available.
    pub(crate) fn registers_as(&self, other: &RemoteApis) -> bool {
        self.all.len() == other.all.len()
            && self.all.iter().zip(&other.all).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Takes over what a server says of itself; whether that is news.
    pub(crate) fn learn(&mut self, api: &Arc<RemoteApi>, discovery: RemoteDiscovery) -> bool {
        let registered = self.all.iter().any(|known| Arc::ptr_eq(known, api));
        let known = self.discovered.get(&api.name);
        if !registered || known.is_some_and(|known| **known == discovery) {
            return false;
        }
        self.discovered.insert(api.name.clone(), Arc::new(discovery));
        true
    }

    /// Who serves a version of a group.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<&Arc<RemoteApi>> {
        if self.all.is_empty() {
            return None;
        }
        self.by_version.get(&format!("{group}/{version}"))
    }

    /// The server of an APIService.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<RemoteApi>> {
        self.all.iter().find(|api| api.name == name)
    }

    /// What is known of it.
    pub(crate) fn discovery(&self, api: &RemoteApi) -> Option<&Arc<RemoteDiscovery>> {
        self.discovered.get(&api.name)
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<RemoteApi>] {
        &self.all
    }

    /// The groups and versions whose servers have OpenAPI documents, with their hashes.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.all.iter().filter_map(|api| {
            let hash = self.discovery(api)?.openapi.as_deref()?;
            Some((api.group.as_str(), api.version.as_str(), hash))
        })
    }

    /// What the OpenAPI v2 documents of other servers say of their versions.
    pub(crate) fn swagger(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.all.iter().filter_map(|api| self.discovery(api)?.swagger.as_ref())
    }

    /// All of them, as discovery lists them.
    pub(crate) fn versions(&self) -> Vec<RemoteVersion<'_>> {
        self.all
            .iter()
            .map(|api| {
                let discovery = self.discovered.get(&api.name);
                RemoteVersion {
                    group: &api.group,
                    version: &api.version,
                    group_priority: api.group_priority,
                    version_priority: api.version_priority,
                    resources: discovery.map_or(&[][..], |known| &known.resources),
                    current: discovery.is_some_and(|known| known.current),
                }
            })
            .collect()
    }
}
