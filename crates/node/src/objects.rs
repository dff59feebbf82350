//! The ConfigMaps, Secrets, Services, trust bundles and requests for certificates around the pods of a
//! node, followed as long as a pod needs them. A node may read only what its pods mention, so each
//! ConfigMap and Secret is followed by its name.
//!
//! ```text
//!   pod ──hold──► object ──follow──► server        one watch for each object, however many pods
//!    ▲               │
//!    └── Input ◄─────┘
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher as _;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_downward::{CredentialBundle, Sources, TokenWanted, ValueInput, trust_anchors};
use tenure_machinery::{Object, ObjectExt as _};
use tenure_supervise::keep_running;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::follow::{CollectionEvent, follow};
use crate::offline_cache::{OfflineCache, OfflineObjectKey};
use crate::shared_collection::SharedCollection;
use crate::{pod_certificate, random};

/// Every bundle of the cluster: which of them a pod means is known only when all are.
const TRUST_BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";

/// How long a start waits for objects that were never read.
const SETTLE: Duration = Duration::from_secs(10);

/// Whom to tell that an input changed.
pub(crate) type InputCallback = Arc<dyn Fn(ValueInput) + Send + Sync>;

/// Which object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InputKey {
    pub(crate) namespace: String,
    /// `ValueInput::ConfigMap` or `ValueInput::Secret`.
    pub(crate) input: ValueInput,
}

/// What is known of an object.
#[derive(Debug, Clone, Default)]
pub(crate) enum CachedObject {
    #[default]
    NotYet,
    Unread(String),
    Absent,
    Here(Arc<Object>),
}

struct WatchedObject {
    known: watch::Sender<CachedObject>,
    users: BTreeMap<String, InputCallback>,
    task: AbortHandle,
}

/// The objects around the pods of a node.
pub(crate) struct ObjectCache {
    client: Client,
    keeper: OfflineCache,
    entries: Mutex<HashMap<InputKey, WatchedObject>>,
    services: Mutex<BTreeMap<(String, String), Arc<Object>>>,
    services_read: watch::Sender<bool>,
    trust_bundles: Arc<SharedCollection>,
    pub(crate) certificate_requests: Arc<SharedCollection>,
    /// Decides the order of certificates in files, as long as this agent lives.
    seed: u64,
}

impl ObjectCache {
    /// The objects around the pods of the node of this name.
    pub(crate) fn new(client: Client, keeper: OfflineCache, node: &str) -> Arc<ObjectCache> {
        let bundles = SharedCollection::new(
            client.clone(),
            TRUST_BUNDLES.to_owned(),
            ValueInput::TrustBundle,
            None,
        );
        let requests = SharedCollection::new(
            client.clone(),
            pod_certificate::collection(node),
            ValueInput::PodCertificate,
            Some(|request: &Object| request.str_at(&["spec", "podUID"])),
        );
        Arc::new(ObjectCache {
            client,
            keeper,
            entries: Mutex::default(),
            services: Mutex::default(),
            services_read: watch::Sender::new(false),
            trust_bundles: bundles,
            certificate_requests: requests,
            seed: random::hasher().hash_one(TRUST_BUNDLES),
        })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<InputKey, WatchedObject>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the Services of every namespace until the task is dropped.
    pub(crate) async fn follow_services(self: Arc<Self>) {
        let objects = Arc::clone(&self);
        let key = |object: &Object| (object.namespace().to_owned(), object.name().to_owned());
        let tell = move |event| {
            let mut services = objects.services.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                CollectionEvent::All(all) => {
                    *services = all.into_iter().map(|service| (key(&service), service)).collect();
                    objects.keeper.put_services(services.values());
                    drop(services);
                    objects.services_read.send_replace(true);
                }
                CollectionEvent::Put(service) => {
                    services.insert(key(&service), service);
                    objects.keeper.put_services(services.values());
                }
                CollectionEvent::Gone(service) => {
                    services.remove(&key(&service));
                    objects.keeper.put_services(services.values());
                }
                CollectionEvent::Unread(why) => {
                    tracing::debug!(why, "services cannot be read");
                    // Those of last time are better than none (R84).
                    let kept = objects.keeper.services();
                    if let Some(kept) = kept.filter(|_| !*objects.services_read.borrow()) {
                        *services = kept.into_iter().map(|one| (key(&one), one)).collect();
                        drop(services);
                        objects.services_read.send_replace(true);
                    }
                }
            }
            true
        };
        follow(self.client.clone(), "/api/v1/services".to_owned(), tell).await;
    }

    /// Follows exactly these objects for a pod; those it held before and not now are let go.
    pub(crate) fn hold(
        self: &Arc<Self>,
        uid: &str,
        namespace: &str,
        inputs: &BTreeSet<ValueInput>,
        tell: &InputCallback,
    ) {
        self.trust_bundles.hold(uid, inputs.contains(&ValueInput::TrustBundle), tell);
        let certificates = inputs.contains(&ValueInput::PodCertificate);
        self.certificate_requests.hold(uid, certificates, tell);
        let wanted: BTreeSet<InputKey> = inputs
            .iter()
            .filter(|input| matches!(input, ValueInput::ConfigMap(_) | ValueInput::Secret(_)))
            .map(|input| InputKey { namespace: namespace.to_owned(), input: input.clone() })
            .collect();
        let mut entries = self.entries();
        entries.retain(|place, entry| {
            if !wanted.contains(place) {
                entry.users.remove(uid);
            }
            let used = !entry.users.is_empty();
            if !used {
                entry.task.abort();
                let thing = OfflineObjectKey::mentioned(&place.namespace, &place.input);
                thing.into_iter().for_each(|thing| self.keeper.forget(thing));
            }
            used
        });
        for place in wanted {
            let entry = entries.entry(place.clone()).or_insert_with(|| self.begin(place));
            entry.users.entry(uid.to_owned()).or_insert_with(|| Arc::clone(tell));
        }
    }

    /// Lets go of everything a pod held.
    pub(crate) fn release(self: &Arc<Self>, uid: &str) {
        let nothing: InputCallback = Arc::new(|_| {});
        self.hold(uid, "", &BTreeSet::new(), &nothing);
    }

    fn begin(self: &Arc<Self>, place: InputKey) -> WatchedObject {
        let (resource, name) = match &place.input {
            ValueInput::Secret(name) => ("secrets", name),
            ValueInput::ConfigMap(name) => ("configmaps", name),
            _ => ("configmaps", &place.namespace),
        };
        let namespace = &place.namespace;
        let path = format!(
            "/api/v1/namespaces/{namespace}/{resource}?fieldSelector=metadata.name%3D{name}"
        );
        let objects = Arc::downgrade(self);
        let client = self.client.clone();
        let tell = move |event| {
            let Some(objects) = objects.upgrade() else { return false };
            let known = match event {
                CollectionEvent::All(all) => {
                    all.into_iter().next().map_or(CachedObject::Absent, CachedObject::Here)
                }
                CollectionEvent::Put(object) => CachedObject::Here(object),
                CollectionEvent::Gone(_) => CachedObject::Absent,
                CollectionEvent::Unread(why) => CachedObject::Unread(why),
            };
            // What can never change need not be watched (R74).
            let fixed = matches!(&known, CachedObject::Here(object)
                if object.bool_at(&["immutable"]) == Some(true));
            objects.learn(&place, known);
            !fixed
        };
        let tell = Arc::new(tell);
        let following = keep_running("an object of pods", move || {
            let tell = Arc::clone(&tell);
            follow(client.clone(), path.clone(), move |event| tell(event))
        });
        let task = tokio::spawn(following).abort_handle();
        WatchedObject { known: watch::Sender::default(), users: BTreeMap::new(), task }
    }

    /// Takes in what was read and tells the pods if it is news.
    fn learn(&self, place: &InputKey, known: CachedObject) {
        let entries = self.entries();
        let Some(entry) = entries.get(place) else { return };
        let known = self.kept(place, known, &entry.known.borrow());
        let news = entry.known.send_if_modified(|old| {
            let news = match (&*old, &known) {
                // A server that is away changes nothing that was read before.
                (CachedObject::Here(_) | CachedObject::Absent, CachedObject::Unread(_)) => {
                    return false;
                }
                (CachedObject::Here(old), CachedObject::Here(new)) => {
                    revision(old) != revision(new)
                }
                (CachedObject::Absent, CachedObject::Absent) => false,
                _ => true,
            };
            if news {
                *old = known;
            }
            news
        });
        if news {
            let users: Vec<InputCallback> = entry.users.values().cloned().collect();
            drop(entries);
            for tell in users {
                tell(place.input.clone());
            }
        }
    }

    /// Keeps what was read; while nothing can be read, what was kept counts as read (R84).
    fn kept(&self, place: &InputKey, found: CachedObject, before: &CachedObject) -> CachedObject {
        let Some(thing) = OfflineObjectKey::mentioned(&place.namespace, &place.input) else {
            return found;
        };
        match (&found, before) {
            (CachedObject::Here(object), _) => self.keeper.put(thing, object),
            (CachedObject::Absent, _) => self.keeper.forget(thing),
            (CachedObject::Unread(_), CachedObject::NotYet | CachedObject::Unread(_)) => {
                return self.keeper.get(&thing).map_or(found, CachedObject::Here);
            }
            (CachedObject::Unread(_) | CachedObject::NotYet, _) => {}
        }
        found
    }

    /// Waits until each of these objects was read once, or nobody can tell.
    pub(crate) async fn settle(&self, namespace: &str, inputs: &BTreeSet<ValueInput>) {
        let mut waits = Vec::new();
        {
            let entries = self.entries();
            for input in inputs {
                let place = InputKey { namespace: namespace.to_owned(), input: input.clone() };
                waits.extend(entries.get(&place).map(|entry| entry.known.subscribe()));
            }
        }
        let all = async {
            let mut services = self.services_read.subscribe();
            let _ = services.wait_for(|read| *read).await;
            for mut wait in waits {
                let _ = wait.wait_for(|known| !matches!(known, CachedObject::NotYet)).await;
            }
            if inputs.contains(&ValueInput::TrustBundle) {
                self.trust_bundles.settle().await;
            }
            if inputs.contains(&ValueInput::PodCertificate) {
                self.certificate_requests.settle().await;
            }
        };
        // The caller finds out what is missing by itself.
        let _ = tokio::time::timeout(SETTLE, all).await;
    }

    fn known(&self, namespace: &str, input: ValueInput) -> CachedObject {
        let place = InputKey { namespace: namespace.to_owned(), input };
        self.entries().get(&place).map(|entry| entry.known.borrow().clone()).unwrap_or_default()
    }

    /// Everything a pod may read from, as it is now.
    pub(crate) fn around(
        &self,
        namespace: &str,
        inputs: &BTreeSet<ValueInput>,
        tokens: BTreeMap<TokenWanted, Vec<u8>>,
    ) -> PodSources {
        let services = self.services_read.borrow().then(|| {
            let services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
            services
                .iter()
                .filter(|((place, name), _)| {
                    place == namespace || (place == "default" && name == "kubernetes")
                })
                .map(|(_, service)| Arc::clone(service))
                .collect()
        });
        let known =
            inputs.iter().map(|input| (input.clone(), self.known(namespace, input.clone())));
        let bundles = inputs.contains(&ValueInput::TrustBundle);
        PodSources {
            services,
            known: known.collect(),
            tokens,
            trust_bundles: bundles.then(|| self.trust_bundles.all()),
            seed: self.seed,
            certificates: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }
}

fn revision(object: &Object) -> Option<&str> {
    object.str_at(&["metadata", "resourceVersion"])
}

/// What is around one pod at one moment.
pub(crate) struct PodSources {
    services: Option<Vec<Arc<Object>>>,
    known: BTreeMap<ValueInput, CachedObject>,
    tokens: BTreeMap<TokenWanted, Vec<u8>>,
    trust_bundles: Option<Result<Vec<Arc<Object>>, String>>,
    seed: u64,
    /// Credentials of the volume that is read, by the place of their source.
    pub(crate) certificates: BTreeMap<usize, Result<CredentialBundle, String>>,
    /// Folders of volumes, for variables that come from files.
    pub(crate) files: BTreeMap<String, std::path::PathBuf>,
}

impl PodSources {
    fn object(
        &self,
        input: ValueInput,
        what: &str,
        name: &str,
    ) -> Result<Option<Arc<Object>>, String> {
        match self.known.get(&input) {
            Some(CachedObject::Here(object)) => Ok(Some(Arc::clone(object))),
            Some(CachedObject::Absent) => Ok(None),
            Some(CachedObject::Unread(why)) => Err(why.clone()),
            Some(CachedObject::NotYet) | None => Err(format!("{what} {name:?} was not read yet")),
        }
    }
}

/// The most that a file with variables may have.
const ENV_FILE_BYTES_MAX: u64 = 64 << 10;

/// Reads a file that a container wrote. It may have put anything there: what leads out of the folder, is
/// no plain file or is too long is refused, and nothing is waited for.
fn read_beneath(folder: &Path, path: &str) -> io::Result<Vec<u8>> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let folder = rustix::fs::open(
        folder,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let held = rustix::fs::openat2(&folder, path, flags, Mode::empty(), within)?;
    let file = std::fs::File::from(held);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(format!("{path:?} is no file")));
    }
    let mut bytes = Vec::new();
    file.take(ENV_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > ENV_FILE_BYTES_MAX {
        return Err(io::Error::other(format!("{path:?} has more than 64 KiB")));
    }
    Ok(bytes)
}

impl Sources for PodSources {
    fn services(&self) -> Result<&[Arc<Object>], String> {
        let services = self.services.as_deref();
        services.ok_or_else(|| "services have not yet been read at least once".to_owned())
    }

    fn config_map(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        self.object(ValueInput::ConfigMap(name.to_owned()), "configmap", name)
    }

    fn secret(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        self.object(ValueInput::Secret(name.to_owned()), "secret", name)
    }

    fn file(&self, volume: &str, path: &str) -> Result<Vec<u8>, String> {
        let folder =
            self.files.get(volume).ok_or_else(|| format!("volume {volume:?} not found"))?;
        if path.split('/').any(|element| element == "..") || path.starts_with('/') {
            return Err(format!("{path:?} leads out of the volume"));
        }
        read_beneath(folder, path).map_err(|error| error.to_string())
    }

    fn token(&self, wanted: &TokenWanted) -> Result<Vec<u8>, String> {
        let token = self.tokens.get(wanted).cloned();
        token.ok_or_else(|| "failed to fetch token: there is none yet".to_owned())
    }

    fn trust_bundle(&self, source: &Object) -> Result<Vec<u8>, String> {
        match &self.trust_bundles {
            Some(Ok(bundles)) => trust_anchors(source, bundles.iter().map(Arc::as_ref), self.seed),
            Some(Err(why)) => Err(format!("ClusterTrustBundles cannot be read: {why}")),
            None => Err("ClusterTrustBundles were not read yet".to_owned()),
        }
    }

    fn pod_certificate(&self, _volume: &str, at: usize) -> Result<CredentialBundle, String> {
        let none = || Err("credential bundle is not issued yet".to_owned());
        self.certificates.get(&at).cloned().unwrap_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r61j_a_file_with_variables_leads_nowhere_else_and_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("env"), "K='v'").unwrap();
        std::os::unix::fs::symlink("env", at("inside")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", at("outside")).unwrap();
        std::os::unix::fs::symlink("../..", at("up")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        std::fs::File::create(at("long")).unwrap().set_len(1 << 40).unwrap();
        for name in ["env", "inside"] {
            assert_eq!(read_beneath(folder.path(), name).unwrap(), b"K='v'", "{name}");
        }
        for name in ["outside", "up/etc/hostname", "endless", "pipe", "long", "absent", "."] {
            assert!(read_beneath(folder.path(), name).is_err(), "{name}");
        }
    }
}
