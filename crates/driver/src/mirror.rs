//! A world that mirrors another API server: what its lists and watches say, as changes in one order.
//!
//! ```text
//!   list of a resource ──► replace ──┐
//!   watch event ─────────► put, gone ┴──► world ──► the loop of `follow`, as over this process's own log
//! ```
//!
//! Revisions count what was heard, so order holds within a resource and means nothing between two. Which
//! version an object has over there is remembered beside it, for writes that go there. Who asks the other
//! server, and how, never lives here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};
use tenure_server::registry::ServedKind;
use tenure_world::{Draft, Proposal, ProposalError, Record, WorldHandle, WriteOperation};

/// What the other server calls the version of each object, and as which revision it is known here.
type Versions = HashMap<Arc<str>, (Revision, Box<str>)>;

/// A mirror of another API server.
pub struct Mirror {
    world: WorldHandle,
    versions: Mutex<Versions>,
}

impl Mirror {
    /// A mirror that feeds this world; nobody else may write to it.
    #[must_use]
    pub fn new(world: WorldHandle) -> Mirror {
        Mirror { world, versions: Mutex::default() }
    }

    /// What followers follow.
    #[must_use]
    pub fn world(&self) -> &WorldHandle {
        &self.world
    }

    /// Takes in a whole list of a resource: what it has is put, what it lacks is gone, in one step.
    ///
    /// # Errors
    /// Something in it is no object, or the world has stopped.
    pub async fn replace(
        &self,
        served: &ServedKind,
        objects: &[Object],
    ) -> Result<(), ProposalError> {
        let (mut writes, mut heard) = (Vec::new(), Vec::new());
        let mut listed: HashSet<String> = HashSet::new();
        for object in objects {
            let key = served.key(object.namespace(), object.name());
            if self.is_known(&key, object) {
                listed.insert(key);
                continue;
            }
            let (write, version) = put(served, &key, object);
            heard.push((Arc::clone(write.key()), version));
            writes.push(write);
            listed.insert(key);
        }
        let state = self.world.current();
        let known = state.range(&served.prefix, None);
        let gone = known.filter(|record| !listed.contains(&**record.key()));
        writes.extend(gone.map(|record| WriteOperation::Delete { key: Arc::clone(record.key()) }));
        self.take(writes, heard).await
    }

    /// Takes in an object as it is now.
    ///
    /// # Errors
    /// As [`Mirror::replace`].
    pub async fn put(&self, served: &ServedKind, object: &Object) -> Result<(), ProposalError> {
        let key = served.key(object.namespace(), object.name());
        if self.is_known(&key, object) {
            return Ok(());
        }
        let (write, version) = put(served, &key, object);
        let heard = vec![(Arc::clone(write.key()), version)];
        self.take(vec![write], heard).await
    }

    /// Takes in that an object is gone.
    ///
    /// # Errors
    /// As [`Mirror::replace`].
    pub async fn gone(
        &self,
        served: &ServedKind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ProposalError> {
        let key = served.key(namespace, name).into();
        self.take(vec![WriteOperation::Delete { key }], Vec::new()).await
    }

    /// What the other server calls the version that a record shows; none once it has moved on.
    #[must_use]
    pub fn version(&self, record: &Record) -> Option<Box<str>> {
        let versions = self.lock();
        let (revision, version) = versions.get(record.key())?;
        (*revision == record.revision()).then(|| version.clone())
    }

    fn is_known(&self, key: &str, object: &Object) -> bool {
        let versions = self.lock();
        versions.get(key).is_some_and(|(_, known)| **known == *version_of(object))
    }

    async fn take(
        &self,
        writes: Vec<WriteOperation>,
        heard: Vec<(Arc<str>, Box<str>)>,
    ) -> Result<(), ProposalError> {
        if writes.is_empty() {
            return Ok(());
        }
        let gone: Vec<Arc<str>> = writes
            .iter()
            .filter(|write| matches!(write, WriteOperation::Delete { .. }))
            .map(|write| Arc::clone(write.key()))
            .collect();
        let committed = self.world.propose(Proposal { guards: Vec::new(), writes }).await?;
        let mut versions = self.lock();
        for key in gone {
            versions.remove(&key);
        }
        for (key, version) in heard {
            versions.insert(key, (committed.revision, version));
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn version_of(object: &Object) -> &str {
    object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default()
}

fn put(served: &ServedKind, key: &str, object: &Object) -> (WriteOperation, Box<str>) {
    let draft = Draft::encode(&served.kind.kind, &served.api_version, object);
    (WriteOperation::Put { key: key.into(), draft }, version_of(object).into())
}
