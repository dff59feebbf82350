//! What objects will be once the writes under way are committed, and what rests on that.
//!
//! A decision that was made on a write which is not committed yet must fail if that write fails. So
//! whatever is submitted meanwhile carries guards for what it took for granted: owners that will be
//! gone, dependents that will have let go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tenure_machinery::Object;
use tenure_ownership::{OwnershipWrite, WriteId};
use tenure_server::internal_writer::WriteTarget;
use tenure_world::Precondition;

/// One object, as it will be.
struct ProjectedObject {
    /// The write that makes it so.
    by: WriteId,
    /// Its uid.
    uid: Box<str>,
    /// The uids of the owners it had when the write was decided.
    owners: Vec<Box<str>>,
    /// The object; `None` when it will be gone.
    object: Option<Arc<Object>>,
}

/// Everything that is not committed yet.
#[derive(Default)]
pub(crate) struct Ahead {
    entries: HashMap<Arc<str>, ProjectedObject>,
    /// Where objects are that will be gone, by uid.
    gone: HashMap<Box<str>, Arc<str>>,
    /// Objects under way, by the uid of each owner they had.
    dependents: HashMap<Box<str>, BTreeSet<Arc<str>>>,
}

impl Ahead {
    /// What the object at a key will be, if a write to it is under way.
    pub(crate) fn get(&self, key: &str) -> Option<&Option<Arc<Object>>> {
        self.entries.get(key).map(|entry| &entry.object)
    }

    /// Whose write to a key is under way; whoever takes the name after it is somebody else.
    pub(crate) fn uid(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|entry| &*entry.uid)
    }

    /// A write to an object was submitted.
    pub(crate) fn insert(
        &mut self,
        key: Arc<str>,
        write: &OwnershipWrite,
        owners: Vec<Box<str>>,
        object: Option<Arc<Object>>,
    ) {
        self.forget(&key);
        if object.is_none() {
            self.gone.insert(write.key.uid.clone(), Arc::clone(&key));
        }
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(Arc::clone(&key));
        }
        let entry = ProjectedObject { by: write.id, uid: write.key.uid.clone(), owners, object };
        self.entries.insert(key, entry);
    }

    /// A write is done; whether it was the last one to its object.
    pub(crate) fn conclude(&mut self, key: &str, by: WriteId) -> bool {
        let last = self.entries.get(key).is_some_and(|entry| entry.by == by);
        if last {
            self.forget(key);
        }
        last
    }

    fn forget(&mut self, key: &str) {
        let Some(entry) = self.entries.remove(key) else { return };
        self.gone.remove(&entry.uid);
        for owner in entry.owners {
            if let Some(keys) = self.dependents.get_mut(&owner) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
    }

    /// That those of these owners which will be gone are.
    pub(crate) fn absences<'a>(
        &'a self,
        owners: &'a [Box<str>],
    ) -> impl Iterator<Item = Precondition> + 'a {
        owners
            .iter()
            .filter_map(|uid| self.gone.get(uid))
            .map(|key| Precondition::At { key: Arc::clone(key), revision: None })
    }

    /// That the dependents of an owner which are under way have become what they will be.
    pub(crate) fn of_dependents<'a>(
        &'a self,
        owner: &str,
    ) -> impl Iterator<Item = Precondition> + 'a {
        let keys = self.dependents.get(owner).into_iter().flatten();
        keys.filter_map(|key| {
            let guard = match &self.entries.get(key)?.object {
                Some(object) => WriteTarget::Ahead { key, object }.guard(),
                None => Precondition::At { key: Arc::clone(key), revision: None },
            };
            Some(guard)
        })
    }
}
