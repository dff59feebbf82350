//! Objects that a write is about: as they are stored, or as they will be once an earlier write is committed.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Owner, Ownership, Precondition, Record};

use crate::registry::ServedKind;
use crate::write::commit::unmoved;

/// An object that a write is about.
pub enum WriteTarget<'a> {
    /// As it is stored.
    Stored(&'a Arc<Record>),
    /// As it will be once a write that was submitted before is committed.
    Ahead {
        /// Where it is stored.
        key: &'a Arc<str>,
        /// What it will be.
        object: &'a Object,
    },
}

impl WriteTarget<'_> {
    /// Where it is stored.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        match self {
            WriteTarget::Stored(record) => record.key(),
            WriteTarget::Ahead { key, .. } => key,
        }
    }

    pub(super) fn object(&self, served: &ServedKind) -> Result<Cow<'_, Object>, Failure> {
        match self {
            WriteTarget::Stored(record) => served.read(record).map(Cow::Owned),
            WriteTarget::Ahead { object, .. } => Ok(Cow::Borrowed(object)),
        }
    }

    /// The uids of its owners.
    #[must_use]
    pub fn owner_uids(&self) -> Vec<Box<str>> {
        match self {
            WriteTarget::Stored(record) => record.owners().map(|owner| owner.uid.into()).collect(),
            WriteTarget::Ahead { object, .. } => {
                let entries = object.list_at(&["metadata", "ownerReferences"]);
                entries.iter().map(|entry| owner(entry).uid.into()).collect()
            }
        }
    }

    /// What must hold for a write that was decided on it.
    #[must_use]
    pub fn guard(&self) -> Precondition {
        match self {
            WriteTarget::Stored(record) => unmoved(record),
            WriteTarget::Ahead { key, object } => {
                Precondition::Owned { key: Arc::clone(key), ownership: Arc::new(ownership(object)) }
            }
        }
    }
}

/// The ownership that an object tells.
fn ownership(object: &Object) -> Ownership {
    let finalizers = object.list_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str);
    let owners = object.list_at(&["metadata", "ownerReferences"]).iter().map(owner);
    let deleting = object.str_at(&["metadata", "deletionTimestamp"]).is_some();
    let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default();
    Ownership::new(uid, deleting, finalizers, owners)
}

/// An owner reference as it is written in an object.
#[must_use]
pub fn owner(entry: &Value) -> Owner<'_> {
    let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or_default();
    let truth = |member: &str| entry.get(member).and_then(Value::as_bool).unwrap_or_default();
    Owner {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        controller: truth("controller"),
        block: truth("blockOwnerDeletion"),
    }
}
