//! What somebody wants written, what it relied on, and what came of it.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use tenure_core::Revision;

use crate::header::{BadRecord, SelectableFields};
use crate::history::{Change, Recent};
use crate::ownership::Ownership;
use crate::record::{Draft, PreparedDraft, Record};
use crate::snapshot::{RecordIndex, World};

/// The most digits a revision is written with.
const REVISION_DIGITS_MAX: usize = 20;

/// Something a decision relied on; the commit checks that it still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The record at a key was written at this revision; `None` means that there is no record.
    At {
        /// The key that was looked at.
        key: Arc<str>,
        /// The revision it had.
        revision: Option<Revision>,
    },
    /// The record at a key still has this uid and is not being deleted, whatever else has changed.
    Living {
        /// The key that was looked at.
        key: Arc<str>,
        /// The uid it had.
        uid: Box<str>,
    },
    /// There is no record under a prefix.
    Vacant {
        /// The prefix that was looked at.
        prefix: Box<str>,
    },
    /// The record at a key has this identity and ownership, whatever else has changed.
    ///
    /// It may rest on a proposal that was submitted before and is not committed yet.
    Owned {
        /// The key that was looked at.
        key: Arc<str>,
        /// What it had, or will have.
        ownership: Arc<Ownership>,
    },
    /// No record that names a uid among its owners was written after a revision.
    Dependents {
        /// The uid of the owner.
        uid: Box<str>,
        /// The revision up to which its dependents were looked at.
        seen: Revision,
    },
    /// No record under these prefixes that was written after a revision contains a text as a JSON
    /// string, wherever in it.
    Unmentioned {
        /// The prefixes that were looked at.
        prefixes: Arc<[Box<str>]>,
        /// The text; one that JSON writes as it is.
        text: Box<str>,
        /// The revision up to which records were looked at.
        seen: Revision,
    },
}

impl Precondition {
    /// The record that breaks the guard, as `Err`.
    pub(crate) fn check(
        &self,
        objects: &RecordIndex,
        recent: &Recent<'_>,
    ) -> Result<(), Option<Arc<Record>>> {
        match self {
            Precondition::At { key, revision } => {
                let current = objects.get(key);
                if current.map(|record| record.revision()) == *revision {
                    return Ok(());
                }
                Err(current.cloned())
            }
            Precondition::Living { key, uid } => match objects.get(key) {
                Some(record) if record.uid() == &**uid && !record.deleting() => Ok(()),
                current => Err(current.cloned()),
            },
            Precondition::Vacant { prefix } => {
                let from = Bound::Included(&**prefix);
                let first = objects.range((from, Bound::Unbounded)).next();
                match first {
                    Some((key, record)) if key.starts_with(&**prefix) => Err(Some(record.clone())),
                    _ => Ok(()),
                }
            }
            Precondition::Owned { key, ownership } => match objects.get(key) {
                Some(record) if ownership.is_of(record) => Ok(()),
                current => Err(current.cloned()),
            },
            Precondition::Dependents { uid, seen } => {
                match objects.owned_by(uid).find(|record| record.revision() > *seen) {
                    Some(record) => Err(Some(record.clone())),
                    None => Ok(()),
                }
            }
            Precondition::Unmentioned { prefixes, text, seen } => {
                let quoted = format!("\"{text}\"");
                // Nobody knows any more what was written in between.
                let Some(mut changes) = recent.since(*seen) else { return Err(None) };
                let mentions = |change: &Arc<Change>| {
                    let under = prefixes.iter().any(|prefix| change.key.starts_with(&**prefix));
                    let after = change.after.as_ref().filter(|_| under)?;
                    after.contains(&quoted).then(|| after.clone())
                };
                match changes.find_map(|change| mentions(&change)) {
                    Some(record) => Err(Some(record)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// One write of a proposal.
#[derive(Clone, Debug)]
pub enum WriteOperation {
    /// Puts an object at a key, whether or not there is one.
    Put {
        /// Where it goes.
        key: Arc<str>,
        /// What it says, but for its revision.
        draft: Draft,
    },
    /// Removes the object at a key; nothing happens if there is none.
    Delete {
        /// What to remove.
        key: Arc<str>,
    },
}

impl WriteOperation {
    /// The key this write is about.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        match self {
            WriteOperation::Put { key, .. } | WriteOperation::Delete { key } => key,
        }
    }
}

/// Writes that happen together at one revision, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// What must still hold.
    pub guards: Vec<Precondition>,
    /// What to write; a key may be named once.
    pub writes: Vec<WriteOperation>,
}

impl Proposal {
    /// Puts an object where there must be none.
    #[must_use]
    pub fn create(key: Arc<str>, draft: Draft) -> Proposal {
        Proposal::put(key, None, draft)
    }

    /// Puts an object over the one written at `revision`; `None` means that there is none.
    #[must_use]
    pub fn put(key: Arc<str>, revision: Option<Revision>, draft: Draft) -> Proposal {
        Proposal {
            guards: vec![Precondition::At { key: key.clone(), revision }],
            writes: vec![WriteOperation::Put { key, draft }],
        }
    }

    /// Removes the object written at `revision`.
    #[must_use]
    pub fn delete(key: Arc<str>, revision: Revision) -> Proposal {
        Proposal {
            guards: vec![Precondition::At { key: key.clone(), revision: Some(revision) }],
            writes: vec![WriteOperation::Delete { key }],
        }
    }
}

/// A proposal that was committed.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the transaction; the newest one when there was nothing to do.
    pub revision: Revision,
    /// For each write in turn: the record put, or the record that was removed.
    pub records: Vec<Option<Arc<Record>>>,
}

impl Committed {
    /// The record of the first write.
    #[must_use]
    pub fn record(&self) -> Option<&Arc<Record>> {
        self.records.first()?.as_ref()
    }
}

/// A proposal that was not committed; nothing of it was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProposalError {
    /// A guard no longer holds.
    #[error("guard {index} of the proposal no longer holds")]
    Guard {
        /// The guard's place in the proposal.
        index: usize,
        /// The record that is there now.
        current: Option<Arc<Record>>,
    },
    /// Too many proposals wait already.
    #[error("too many writes are waiting")]
    Busy,
    /// Writes have stopped until the next start.
    #[error("writes have stopped: {0}")]
    Stopped(Arc<str>),
    /// The log did not take the batch this proposal was in; nothing was written and writes go on.
    #[error("the log did not take the write: {0}")]
    Unwritten(Arc<str>),
    /// An object is larger than the log stores.
    #[error("the object at `{key}` has {bytes} bytes; at most {bytes_max} are stored")]
    TooLarge {
        /// Where it was to go.
        key: Arc<str>,
        /// About how large it is.
        bytes: usize,
        /// How large it may be.
        bytes_max: usize,
    },
    /// The store holds as much as it may; nothing that makes it larger is taken.
    #[error("the store is full: it holds {used} of {quota} bytes")]
    Full {
        /// How many bytes it holds.
        used: u64,
        /// How many it may hold.
        quota: u64,
    },
    /// The proposal names a key twice, or an empty one.
    #[error("the proposal may not write `{0}` once more")]
    Key(Arc<str>),
    /// A draft is not an object that can be stored.
    #[error(transparent)]
    Malformed(#[from] BadRecord),
}

/// A write with everything done that can be done before its turn.
#[derive(Debug)]
pub(crate) enum StagedWrite {
    Put(Box<PreparedDraft>),
    Delete(Arc<str>),
}

impl StagedWrite {
    /// Checks all writes and reads the headers of all drafts, on the proposer's own time.
    ///
    /// What the log would refuse is refused here, so that nobody else's write fails with it.
    pub(crate) fn all(
        writes: Vec<WriteOperation>,
        layout: &dyn SelectableFields,
        bytes_max: usize,
    ) -> Result<Vec<StagedWrite>, ProposalError> {
        let mut keys = HashSet::new();
        for write in &writes {
            // Most proposals hold one write and need no set.
            if write.key().is_empty() || (writes.len() > 1 && !keys.insert(&**write.key())) {
                return Err(ProposalError::Key(write.key().clone()));
            }
        }
        let ready = |write| match write {
            WriteOperation::Put { key, draft } => {
                let bytes = draft.len() + REVISION_DIGITS_MAX;
                if bytes > bytes_max {
                    return Err(ProposalError::TooLarge { key, bytes, bytes_max });
                }
                Ok(StagedWrite::Put(Box::new(draft.prepare(key, layout)?)))
            }
            WriteOperation::Delete { key } => Ok(StagedWrite::Delete(key)),
        };
        writes.into_iter().map(ready).collect()
    }

    /// About how many bytes it adds to the log.
    pub(crate) fn len(&self) -> usize {
        match self {
            StagedWrite::Put(prepared) => prepared.len() + prepared.key.len(),
            StagedWrite::Delete(key) => key.len(),
        }
    }
}

/// An index that moves with the commit, before anybody can see the change.
///
/// It runs on the sequencer's thread: it must be quick, must not wait and must not propose.
pub trait LockStep: Send {
    /// Takes in the whole state at the start.
    fn start(&mut self, world: &World);
    /// Takes in one batch of changes; `world` is the state they lead to.
    fn apply(&mut self, world: &World, changes: &[Arc<Change>]);
}
