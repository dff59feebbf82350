//! The volumes of pods on disk: set up, refreshed, mounted, torn down. What a volume holds is
//! computed elsewhere and comes in as bytes; when it is computed is the agent's decision.
//!
//! Every call blocks on the file system; the agent calls from a thread that may block.
//!
//! ```text
//!   <root>/pods/<uid>/volumes/<name>/   the folder a container sees, on disk
//!   <root>/memory/<uid>/<name>/         the same in memory: one file system for the whole node
//!   <root>/pods/<uid>/subpaths/<name>   a part of a volume, held for a runtime that opens paths
//!   <root>/pods/<uid>/empty/<name>      says that a volume is an emptyDir, whatever is in it
//! ```

mod empty;
mod execute;
mod folder;
mod host_path;
mod memory_medium;
mod owner;
mod retire;
mod sub_path;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

pub use tenure_downward::{Payload, PayloadFile};

use crate::private::PrivatePaths;
use crate::runtime::{Mount, PodKey};
use crate::{clock, random};

use self::folder::VolumeFolder;
use self::owner::VolumeOwner;

/// A volume as it should be.
#[derive(Clone)]
pub struct VolumeWanted {
    /// Its name in the pod.
    pub name: String,
    /// What it is.
    pub source: VolumeSource,
    /// `fsGroup` of the pod.
    pub fs_group: Option<u32>,
    /// The node's id of the pod's user 0: all that is made here belongs to users from there on.
    pub first_id: u32,
    /// Paths inside the volume that are mount points of other volumes (R69).
    pub nested: Vec<String>,
}

/// What a volume is.
#[derive(Clone)]
pub enum VolumeSource {
    /// Files the agent keeps current: configMap, secret, downwardAPI, projected.
    Files {
        /// What is in it.
        payload: Payload,
        /// Memory or disk (R67).
        memory: bool,
    },
    /// An empty folder that lives as long as the pod.
    EmptyDir {
        /// Memory or disk.
        memory: bool,
        /// Its largest size in bytes.
        limit: Option<u64>,
    },
    /// A folder or file of the node (R147: refused unless allowed).
    HostPath {
        /// Where.
        path: PathBuf,
        /// `Directory`, `DirectoryOrCreate`, `File`, `FileOrCreate`, `Socket`, …; empty: no check.
        kind: String,
    },
}

/// A mount of a volume into a container, as the pod asks for it.
#[derive(Debug, Clone, Default)]
pub struct MountWanted {
    /// The volume.
    pub volume: String,
    /// `mountPath`.
    pub at: String,
    /// `readOnly`.
    pub read_only: bool,
    /// `subPath`, or `subPathExpr` already expanded; empty for the whole volume.
    pub sub_path: String,
    /// `mountPropagation`.
    pub propagation: Option<String>,
    /// A name among those of the pod, for a runtime that opens the path by itself: a `sub_path` that a
    /// container may change meanwhile is bound under it (R69c).
    pub bound_as: Option<String>,
}

/// Why a volume is not as it should be; the text of an event.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VolumeError(pub String);

/// How volumes are kept on this node.
#[derive(Debug, Clone, Default)]
pub struct VolumeOptions {
    /// The agent's folder.
    pub root: PathBuf,
    /// Whether `hostPath` is allowed.
    pub host_path: bool,
    /// What of this machine is never given, whatever is allowed.
    pub private: Vec<PathBuf>,
}

/// Called after every single operation on the file system, with its number.
pub type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// How long a volume that did not change is believed to be as it was written.
const BELIEVE: Duration = Duration::from_secs(60);

/// The volumes of a node.
#[derive(Clone)]
pub struct Volumes {
    inner: Arc<Inner>,
}

struct Inner {
    options: VolumeOptions,
    private: PrivatePaths,
    memory: memory_medium::MemoryMedium,
    hook: Option<Hook>,
    known: Mutex<KnownVolumes>,
    /// Writers of a pod's volumes hold its lock together; whoever removes them holds it alone (R85).
    pods: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    retired: retire::RemovalQueue,
    hasher: [RandomState; 2],
}

/// What is known of every volume, by the pod's uid and the volume's name.
type KnownVolumes = HashMap<(String, String), Arc<Mutex<CachedVolume>>>;

/// What is known of one volume without looking at the disk.
#[derive(Default)]
struct CachedVolume {
    place: Option<PathBuf>,
    /// The node's id of the pod's user 0.
    first_id: u32,
    /// Files the agent keeps current: never to be written by a container (R68).
    files: bool,
    /// What was written last, and when that was seen to be so.
    written: Option<([u64; 2], Instant)>,
    /// Generations that are no longer current, and since when, in milliseconds of the wall clock.
    retired: HashMap<String, i64>,
}

impl Volumes {
    /// Opens the agent's folder and recovers what an agent that was killed left there (R64, R83).
    pub fn open(options: VolumeOptions) -> Result<Volumes, VolumeError> {
        Volumes::open_watched(options, None)
    }

    /// The same, with somebody told of every single operation: tests cut the agent off there.
    pub fn open_watched(
        mut options: VolumeOptions,
        hook: Option<Hook>,
    ) -> Result<Volumes, VolumeError> {
        let pods = options.root.join("pods");
        make_private(&options.root)
            .and_then(|()| make_private(&pods))
            .map_err(|error| VolumeError(format!("{}: {error}", pods.display())))?;
        options.root = std::fs::canonicalize(&options.root)
            .map_err(|error| VolumeError(format!("{}: {error}", options.root.display())))?;
        let memory = memory_medium::MemoryMedium::find(&options.root);
        let private = PrivatePaths::resolve(&options.private)
            .map_err(|error| VolumeError(error.to_string()))?;
        let inner = Inner {
            private,
            options,
            memory,
            hook,
            known: Mutex::default(),
            pods: Mutex::default(),
            retired: retire::RemovalQueue::default(),
            hasher: [random::hasher(), random::hasher()],
        };
        let volumes = Volumes { inner: Arc::new(inner) };
        volumes.recover();
        Ok(volumes)
    }

    /// Makes a volume. A second call for one that is there is a refresh. When the first set-up fails,
    /// nothing is left (R81); when a refresh fails, the last good content stays (R80).
    pub fn set_up(&self, pod: &PodKey, wanted: &VolumeWanted) -> Result<(), VolumeError> {
        plain_name(&pod.uid)?;
        plain_name(&wanted.name)?;
        let pod_lock = self.pod_lock(&pod.uid);
        let _writing = pod_lock.read().unwrap_or_else(PoisonError::into_inner);
        let known = self.known(&pod.uid, &wanted.name);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.first_id = wanted.first_id;
        match &wanted.source {
            VolumeSource::Files { payload, memory } => {
                known.files = true;
                self.write_files(pod, wanted, payload, *memory, &mut known)
            }
            VolumeSource::EmptyDir { memory, limit } => {
                known.files = false;
                let place = self.disk(&pod.uid).join(&wanted.name);
                empty::mark(&self.folder(&pod.uid), &wanted.name)
                    .map_err(|error| VolumeError(error.to_string()))?;
                empty::set_up(&place, *memory, *limit, VolumeOwner::of(wanted))
                    .map_err(|error| VolumeError(error.to_string()))?;
                make_nested(&place, wanted)?;
                known.place = Some(place);
                Ok(())
            }
            VolumeSource::HostPath { path, kind } => {
                if !self.inner.options.host_path {
                    return Err(VolumeError(
                        "hostPath is not allowed on this node: its containers are processes of the \
                         machine; start the agent with --allow-privileged-process to allow it"
                            .to_owned(),
                    ));
                }
                known.files = false;
                let private = &self.inner.private;
                let place = host_path::check(path, kind, private).map_err(VolumeError)?;
                known.place = Some(place);
                Ok(())
            }
        }
    }

    /// Where a container finds a volume, resolved now (R69a): called once for each container start,
    /// after every `set_up`.
    pub fn mount(&self, pod: &PodKey, wanted: &MountWanted) -> Result<Mount, VolumeError> {
        let known = self.known(&pod.uid, &wanted.volume);
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || VolumeError(format!("volume \"{}\" is not set up", wanted.volume));
        let place = known.place.clone().ok_or_else(missing)?;
        let from = if wanted.sub_path.is_empty() {
            place
        } else {
            let owner = (!known.files).then(|| VolumeOwner::root(known.first_id));
            let failed = |error: std::io::Error| {
                VolumeError(format!(
                    "failed to prepare subPath for volumeMount \"{}\": \"{}\": {error}",
                    wanted.volume, wanted.sub_path
                ))
            };
            let held = folder::sub_path(&place, &wanted.sub_path, owner).map_err(failed)?;
            match &wanted.bound_as {
                // Only the agent writes there, so the path leads where it led.
                Some(name) if !known.files => self.bind(pod, name, &held).map_err(failed)?,
                _ => folder::path_of(&held).map_err(failed)?,
            }
        };
        Ok(Mount {
            at: wanted.at.clone(),
            from,
            read_only: wanted.read_only || known.files,
            propagation: wanted.propagation.clone(),
        })
    }

    /// Gives what is held a path that nobody but the agent changes (R69c).
    fn bind(&self, pod: &PodKey, name: &str, held: &OwnedFd) -> std::io::Result<PathBuf> {
        plain_name(name).map_err(std::io::Error::other)?;
        let pod_lock = self.pod_lock(&pod.uid);
        let _writing = pod_lock.read().unwrap_or_else(PoisonError::into_inner);
        sub_path::bind(&self.folder(&pod.uid), name, held).map_err(|error| {
            std::io::Error::other(format!(
                "the volume is written by containers, so a part of it must be bound before the \
                 runtime opens it, and this agent cannot: {error}"
            ))
        })
    }

    /// Removes every volume of a pod and its folder; nothing there is success.
    pub fn tear_down(&self, pod_uid: &str) -> Result<(), VolumeError> {
        plain_name(pod_uid)?;
        let pod_lock = self.pod_lock(pod_uid);
        // A write that is under way ends first.
        let removing = pod_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.all_known().retain(|(uid, _), _| uid != pod_uid);
        let told = |path: &Path, error: std::io::Error| {
            VolumeError(format!("{}: {error}", path.display()))
        };
        let own = self.folder(pod_uid);
        sub_path::release_all(&own).map_err(|error| told(&own, error))?;
        let disk = self.disk(pod_uid);
        memory_medium::unmount_below(&disk).map_err(|error| told(&disk, error))?;
        let pods = self.inner.options.root.join("pods");
        folder::remove(&pods, pod_uid).map_err(|error| told(&pods, error))?;
        let memory = self.inner.memory.place();
        folder::remove(memory, pod_uid).map_err(|error| told(memory, error))?;
        self.inner.memory.release();
        drop(removing);
        drop(pod_lock);
        let mut locks = self.inner.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.get(pod_uid).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(pod_uid);
        }
        Ok(())
    }

    /// The uids of pods that have a folder here, for pods that went while the agent was away.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        let pods = self.inner.options.root.join("pods");
        let mut all = names(&pods);
        all.extend(names(self.inner.memory.place()));
        all.retain(|name| name != memory_medium::KEPT);
        all.sort();
        all.dedup();
        all
    }

    /// A folder of the agent's own for one pod: termination messages, hosts files. It goes with
    /// `tear_down`.
    #[must_use]
    pub fn folder(&self, pod_uid: &str) -> PathBuf {
        self.inner.options.root.join("pods").join(pod_uid)
    }

    /// Keeps bytes in memory under a name, or lets them go. Where there is only disk nothing is kept
    /// (R84).
    pub(crate) fn keep(&self, name: &Path, bytes: Option<&[u8]>) -> std::io::Result<()> {
        let memory = &self.inner.memory;
        let folder = memory.place().join(memory_medium::KEPT);
        if bytes.is_none() {
            crate::offline_cache::write_file(&folder.join(name), None)?;
            memory.release();
            return Ok(());
        }
        let held = memory.hold()?;
        if !matches!(&*held, Some(Ok(()))) {
            return Ok(());
        }
        make_private(&folder)?;
        crate::offline_cache::write_file(&folder.join(name), bytes)
    }

    /// What was kept in memory under a name.
    pub(crate) fn kept(&self, name: &Path) -> Option<Vec<u8>> {
        std::fs::read(self.inner.memory.place().join(memory_medium::KEPT).join(name)).ok()
    }

    /// Whether a volume has content, of this agent or of one before it.
    pub(crate) fn is_set_up(&self, pod_uid: &str, name: &str) -> bool {
        let known = self.known(pod_uid, name);
        known.lock().unwrap_or_else(PoisonError::into_inner).place.is_some()
    }

    /// Where memory-backed volumes really are, for `tenure node info`: `Ok` for tmpfs, else why not.
    pub fn memory(&self) -> Result<(), String> {
        self.inner.memory.holds()
    }

    /// Gives back what the node lent: for an agent whose pods are all gone for good.
    pub fn close(&self) {
        for uid in names(&self.inner.options.root.join("pods")) {
            sub_path::release_all(&self.folder(&uid)).unwrap_or_default();
        }
        memory_medium::unmount_below(&self.inner.options.root.join("pods")).unwrap_or_default();
        self.inner.memory.drop_all();
    }

    fn write_files(
        &self,
        pod: &PodKey,
        wanted: &VolumeWanted,
        payload: &Payload,
        memory: bool,
        known: &mut CachedVolume,
    ) -> Result<(), VolumeError> {
        let digest = self.digest(payload, wanted.fs_group);
        if let Some((last, seen)) = known.written
            && last == digest
            && seen.elapsed() < BELIEVE
        {
            return Ok(());
        }
        let told = |error: &dyn std::fmt::Display| VolumeError(error.to_string());
        let _held = if memory {
            Some(self.inner.memory.hold().map_err(|error| told(&error))?)
        } else {
            None
        };
        let base =
            if memory { self.inner.memory.place().join(&pod.uid) } else { self.disk(&pod.uid) };
        let durable = !memory;
        let place = base.join(&wanted.name);
        let first = !place.exists();
        let hook = self.inner.hook.as_ref();
        let made = VolumeFolder::make(&base, wanted, hook).map_err(|error| told(&error));
        let done = made.and_then(|folder| {
            folder.make_nested(wanted).map_err(|error| told(&error))?;
            folder.write(payload, wanted, durable, &known.retired).map_err(|error| told(&error))
        });
        match done {
            Ok(switched) => {
                if let Some(old) = switched {
                    known.retired.insert(old.clone(), now());
                    let volume = (pod.uid.clone(), wanted.name.clone());
                    retire::later(&self.inner, volume, old);
                }
                known.place = Some(place);
                known.written = Some((digest, clock::instant()));
                Ok(())
            }
            Err(error) => {
                known.written = None;
                if first {
                    // Nothing is left of a volume that never was (R81).
                    let _ = folder::remove(&base, &wanted.name);
                }
                Err(error)
            }
        }
    }

    /// A stand-in for all bytes of a payload; keys that change with every start make it one that
    /// nobody can aim for.
    fn digest(&self, payload: &Payload, group: Option<u32>) -> [u64; 2] {
        let files: Vec<_> =
            payload.iter().map(|(path, file)| (path, &file.bytes, file.mode, file.owner)).collect();
        [0, 1].map(|one| {
            self.inner
                .hasher
                .get(one)
                .map_or(0, |keys: &RandomState| keys.hash_one((&files, group)))
        })
    }

    fn recover(&self) {
        let memory = self.inner.memory.place();
        let of_disk = names(&self.inner.options.root.join("pods"))
            .into_iter()
            .map(|uid| (self.disk(&uid), uid));
        let of_memory = names(memory).into_iter().filter(|name| name != memory_medium::KEPT);
        let of_memory = of_memory.map(|uid| (memory.join(&uid), uid));
        for (base, uid) in of_disk.chain(of_memory) {
            for name in names(&base) {
                let Ok(folder) = VolumeFolder::open(&base, &name, self.inner.hook.as_ref()) else {
                    continue;
                };
                let known = self.known(&uid, &name);
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.place = Some(base.join(&name));
                if base != memory.join(&uid) && empty::is_marked(&self.folder(&uid), &name) {
                    // What a container wrote is its own, whatever it is called.
                    continue;
                }
                match folder.recover(&HashMap::new()) {
                    Ok(Some(left)) => {
                        known.files = true;
                        for old in left {
                            let volume = (uid.clone(), name.clone());
                            known.retired.insert(old.clone(), now());
                            retire::later(&self.inner, volume, old);
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(
                            volume = %base.join(&name).display(), %error,
                            "not recovered"
                        );
                    }
                }
            }
        }
    }

    fn disk(&self, uid: &str) -> PathBuf {
        self.inner.options.root.join("pods").join(uid).join("volumes")
    }

    fn pod_lock(&self, uid: &str) -> Arc<RwLock<()>> {
        let mut locks = self.inner.pods.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(uid.to_owned()).or_default())
    }

    fn all_known(&self) -> MutexGuard<'_, KnownVolumes> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, uid: &str, name: &str) -> Arc<Mutex<CachedVolume>> {
        let key = (uid.to_owned(), name.to_owned());
        Arc::clone(self.all_known().entry(key).or_default())
    }
}

/// Removes an entry of a folder that is held, and all below it, without following any link.
pub(crate) fn remove_tree_at(folder: &std::os::fd::OwnedFd, name: &str) -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    folder::remove_tree(folder.as_fd(), name)
}

/// Milliseconds of the wall clock.
fn now() -> i64 {
    clock::timestamp().as_millisecond()
}

/// A name that is one element of a path and nothing else.
fn plain_name(name: &str) -> Result<(), VolumeError> {
    let fits = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    if fits { Ok(()) } else { Err(VolumeError(format!("{name:?} is no name of a folder"))) }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Containers of other users reach their volumes by mounts, never by this path.
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

fn make_nested(place: &Path, wanted: &VolumeWanted) -> Result<(), VolumeError> {
    let held = VolumeFolder::at(place).map_err(|error| VolumeError(error.to_string()))?;
    held.make_nested(wanted).map_err(|error| VolumeError(error.to_string()))
}
