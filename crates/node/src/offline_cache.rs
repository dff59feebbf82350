//! What the agent keeps for times without a server: its node, its pods and what they mention, as they
//! were last read (R84). When any of it is used is decided elsewhere.
//!
//! ```text
//!   <root>/kept/node.json  services.json  pods/<uid>.json  configmaps/<namespace>_<name>.json
//!   <root>/memory/.kept/<namespace>_<name>.json            Secrets: in memory, or not at all
//! ```
//!
//! Whoever tells of a change never waits for the disk: a thread writes, and only what is newest.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenure_downward::ValueInput;
use tenure_machinery::Object;

use crate::volume::Volumes;

/// One thing that is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfflineObjectKey {
    Node,
    Services,
    /// By uid.
    Pod(String),
    /// By namespace and name.
    ConfigMap(String, String),
    /// By namespace and name.
    Secret(String, String),
}

impl OfflineObjectKey {
    /// What a pod of a namespace mentions, if it is an object.
    pub(crate) fn mentioned(namespace: &str, input: &ValueInput) -> Option<OfflineObjectKey> {
        match input {
            ValueInput::ConfigMap(name) => {
                Some(OfflineObjectKey::ConfigMap(namespace.to_owned(), name.clone()))
            }
            ValueInput::Secret(name) => {
                Some(OfflineObjectKey::Secret(namespace.to_owned(), name.clone()))
            }
            _ => None,
        }
    }

    /// Its place below the folder of what is kept; no name may lead out of there.
    fn place(&self) -> Option<PathBuf> {
        let plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        Some(match self {
            OfflineObjectKey::Node => "node.json".into(),
            OfflineObjectKey::Services => "services.json".into(),
            OfflineObjectKey::Pod(uid) if plain(uid) => {
                Path::new("pods").join(format!("{uid}.json"))
            }
            OfflineObjectKey::ConfigMap(namespace, name) if plain(namespace) && plain(name) => {
                Path::new("configmaps").join(format!("{namespace}_{name}.json"))
            }
            OfflineObjectKey::Secret(namespace, name) if plain(namespace) && plain(name) => {
                format!("{namespace}_{name}.json").into()
            }
            _ => return None,
        })
    }
}

/// Keeps things.
#[derive(Clone)]
pub(crate) struct OfflineCache {
    folder: Arc<Path>,
    volumes: Volumes,
    out: Arc<Mutex<Sender<News>>>,
}

enum News {
    Is(OfflineObjectKey, Vec<Arc<Object>>),
    IsNot(OfflineObjectKey),
    /// Tells when all that was said before is written.
    #[cfg(test)]
    Flush(Sender<()>),
}

impl OfflineCache {
    /// Keeps things in a folder of the agent.
    ///
    /// # Errors
    /// The folder cannot be made, or the system gives no thread.
    pub(crate) fn open(root: &Path, volumes: Volumes) -> io::Result<OfflineCache> {
        let folder = root.join("kept");
        for below in ["pods", "configmaps"] {
            tenure_files::make_folder(&folder.join(below))?;
        }
        let (out, inbox) = mpsc::channel();
        let (writing, memory) = (folder.clone(), volumes.clone());
        // The thread ends when the last keeper is gone.
        std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || write_all(&writing, &memory, &inbox))?;
        Ok(OfflineCache { folder: folder.into(), volumes, out: Arc::new(Mutex::new(out)) })
    }

    fn say(&self, news: News) {
        // A thread that is gone left nothing behind that could be kept.
        let _ = self.out.lock().unwrap_or_else(PoisonError::into_inner).send(news);
    }

    /// A thing as it now is.
    pub(crate) fn put(&self, thing: OfflineObjectKey, object: &Arc<Object>) {
        self.say(News::Is(thing, vec![Arc::clone(object)]));
    }

    /// Every Service.
    pub(crate) fn put_services<'a>(&self, services: impl Iterator<Item = &'a Arc<Object>>) {
        self.say(News::Is(OfflineObjectKey::Services, services.cloned().collect()));
    }

    /// A thing that is no more.
    pub(crate) fn forget(&self, thing: OfflineObjectKey) {
        self.say(News::IsNot(thing));
    }

    /// A thing as it was kept.
    pub(crate) fn get(&self, thing: &OfflineObjectKey) -> Option<Arc<Object>> {
        match self.read(thing)? {
            Value::Object(object) => Some(Arc::new(object)),
            _ => None,
        }
    }

    /// The Services as they were kept.
    pub(crate) fn services(&self) -> Option<Vec<Arc<Object>>> {
        let Value::Array(all) = self.read(&OfflineObjectKey::Services)? else { return None };
        let objects = all.into_iter().filter_map(|one| match one {
            Value::Object(object) => Some(Arc::new(object)),
            _ => None,
        });
        Some(objects.collect())
    }

    /// The pods as they were kept.
    pub(crate) fn pods(&self) -> Vec<Arc<Object>> {
        let entries = std::fs::read_dir(self.folder.join("pods")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let uids = names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()));
        uids.filter_map(|uid| self.get(&OfflineObjectKey::Pod(uid))).collect()
    }

    fn read(&self, thing: &OfflineObjectKey) -> Option<Value> {
        let place = thing.place()?;
        let bytes = match thing {
            OfflineObjectKey::Secret(..) => self.volumes.kept(&place)?,
            _ => std::fs::read(self.folder.join(place)).ok()?,
        };
        serde_json::from_slice(&bytes).ok()
    }

    #[cfg(test)]
    fn flush(&self) {
        let (out, done) = mpsc::channel();
        self.say(News::Flush(out));
        let _ = done.recv();
    }
}

fn write_all(folder: &Path, memory: &Volumes, inbox: &Receiver<News>) {
    while let Ok(first) = inbox.recv() {
        let mut newest: BTreeMap<OfflineObjectKey, Option<Vec<Arc<Object>>>> = BTreeMap::new();
        #[cfg(test)]
        let mut waiting = Vec::new();
        for news in std::iter::once(first).chain(inbox.try_iter()) {
            match news {
                News::Is(thing, objects) => newest.insert(thing, Some(objects)),
                News::IsNot(thing) => newest.insert(thing, None),
                #[cfg(test)]
                News::Flush(done) => {
                    waiting.push(done);
                    None
                }
            };
        }
        for (thing, objects) in &newest {
            if let Err(error) = write(folder, memory, thing, objects.as_deref()) {
                // What is kept serves when the server is away; without it that is all that is lost.
                tracing::warn!(%error, ?thing, "not kept");
            }
        }
        #[cfg(test)]
        for done in waiting {
            let _ = done.send(());
        }
    }
}

fn write(
    folder: &Path,
    memory: &Volumes,
    thing: &OfflineObjectKey,
    objects: Option<&[Arc<Object>]>,
) -> io::Result<()> {
    let Some(place) = thing.place() else { return Ok(()) };
    let encoded = |objects: &[Arc<Object>]| match (thing, objects) {
        (OfflineObjectKey::Services, all) => {
            serde_json::to_vec(&all.iter().map(|one| &**one).collect::<Vec<&Object>>())
        }
        (_, [one]) => serde_json::to_vec(&**one),
        _ => Ok(Vec::new()),
    };
    let bytes = objects.map(encoded).transpose()?;
    if matches!(thing, OfflineObjectKey::Secret(..)) {
        return memory.keep(&place, bytes.as_deref());
    }
    write_file(&folder.join(place), bytes.as_deref())
}

/// Replaces a file whole, or removes it: whoever reads sees the old or the new.
pub(crate) fn write_file(path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    let Some(bytes) = bytes else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    tenure_files::replace_unsynced(path, bytes)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use serde_json::json;

    use super::*;
    use crate::volume::VolumeOptions;

    fn object(value: Value) -> Arc<Object> {
        Arc::new(value.as_object().unwrap().clone())
    }

    fn keeper(root: &Path) -> OfflineCache {
        let options = VolumeOptions { root: root.to_owned(), ..VolumeOptions::default() };
        OfflineCache::open(root, Volumes::open(options).unwrap()).unwrap()
    }

    #[test]
    fn r84_what_was_read_is_found_by_the_next_agent() {
        let folder = tempfile::tempdir().unwrap();
        let first = keeper(folder.path());
        let pod = object(json!({"metadata": {"uid": "u", "name": "p"}}));
        let map = object(json!({"data": {"a": "b"}}));
        let place = || OfflineObjectKey::ConfigMap("n".to_owned(), "m".to_owned());
        first.put(
            OfflineObjectKey::Pod("u".to_owned()),
            &object(json!({"metadata": {"uid": "old"}})),
        );
        first.put(OfflineObjectKey::Pod("u".to_owned()), &pod);
        first.put(OfflineObjectKey::Pod("gone".to_owned()), &pod);
        first.forget(OfflineObjectKey::Pod("gone".to_owned()));
        first.put(place(), &map);
        first.put_services([Arc::clone(&map)].iter());
        first.flush();
        drop(first);
        let second = keeper(folder.path());
        assert_eq!(second.pods(), [pod]);
        assert_eq!(second.get(&place()), Some(Arc::clone(&map)));
        assert_eq!(second.services(), Some(vec![map]));
        assert_eq!(second.get(&OfflineObjectKey::Node), None);
    }

    #[test]
    fn r84_secrets_are_kept_in_memory_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let first = keeper(folder.path());
        let secret = object(json!({"data": {"password": "aHVzaA=="}}));
        let place = || OfflineObjectKey::Secret("n".to_owned(), "s".to_owned());
        first.put(place(), &secret);
        first.flush();
        let on_disk = std::fs::read_dir(folder.path().join("kept")).unwrap();
        let names: Vec<_> = on_disk.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == "pods" || name == "configmaps"), "{names:?}");
        let in_memory = first.volumes.memory().is_ok();
        drop(first);
        let second = keeper(folder.path());
        assert_eq!(second.get(&place()).is_some(), in_memory, "memory outlives an agent");
        assert_eq!(second.volumes.pods(), Vec::<String>::new(), "it is no pod");
        second.forget(place());
        second.flush();
        assert_eq!(second.get(&place()), None);
        // With the last of it the memory goes back.
        assert!(!folder.path().join("memory").exists());
    }

    #[test]
    fn r84_no_name_leads_out_of_the_folder() {
        let name = "../../x".to_owned();
        assert_eq!(OfflineObjectKey::Pod(name.clone()).place(), None);
        assert_eq!(OfflineObjectKey::ConfigMap("n".to_owned(), name.clone()).place(), None);
        assert_eq!(OfflineObjectKey::Secret("n".to_owned(), name).place(), None);
        assert_eq!(OfflineObjectKey::Pod(String::new()).place(), None);
    }
}
