//! What the ownership of an object is: its identity, deletion, finalizers and owner references.

use crate::record::{Owner, Record};

/// The ownership of one object at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    uid: Box<str>,
    deleting: bool,
    finalizers: Box<[Box<str>]>,
    owners: Box<[StoredOwnerReference]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredOwnerReference {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: bool,
    block: bool,
}

impl StoredOwnerReference {
    fn says(&self, owner: &Owner<'_>) -> bool {
        *self.uid == *owner.uid
            && *self.name == *owner.name
            && *self.kind == *owner.kind
            && *self.api_version == *owner.api_version
            && self.controller == owner.controller
            && self.block == owner.block
    }
}

impl Ownership {
    /// The ownership that these parts make.
    pub fn new<'a>(
        uid: &str,
        deleting: bool,
        finalizers: impl Iterator<Item = &'a str>,
        owners: impl Iterator<Item = Owner<'a>>,
    ) -> Ownership {
        let reference = |owner: Owner<'_>| StoredOwnerReference {
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid.into(),
            controller: owner.controller,
            block: owner.block,
        };
        Ownership {
            uid: uid.into(),
            deleting,
            finalizers: finalizers.map(Into::into).collect(),
            owners: owners.map(reference).collect(),
        }
    }

    /// Whether a record has this ownership.
    #[must_use]
    pub fn is_of(&self, record: &Record) -> bool {
        record.uid() == &*self.uid
            && record.deleting() == self.deleting
            && record.finalizers().eq(self.finalizers.iter().map(|name| &**name))
            && record.owners().len() == self.owners.len()
            && record.owners().zip(&self.owners).all(|(owner, reference)| reference.says(&owner))
    }
}
