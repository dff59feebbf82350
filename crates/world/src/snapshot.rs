//! The state after a revision: an immutable ordered map of records, and who depends on whom.
//!
//! Whoever holds one sees one moment, for as long as they like, and waits for nobody.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use tenure_core::Revision;

use crate::quota::weight;
use crate::record::{Owner, Record};

/// Records by key, in the order of the bytes of the key, and the same records by owner.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordIndex {
    records: OrdMap<Arc<str>, Arc<Record>>,
    // INVARIANT: holds (mark of the uid, key) for every owner reference of every record.
    owned: OrdSet<(u64, Arc<str>)>,
    // INVARIANT: the sum of what the records count.
    bytes: u64,
}

impl RecordIndex {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Record>> {
        self.records.get(key)
    }

    /// What all records count together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts a record at its key and gives back the one that was there.
    pub(crate) fn insert(&mut self, key: Arc<str>, record: Arc<Record>) -> Option<Arc<Record>> {
        let before = self.records.insert(key, record.clone());
        self.bytes += weight(&record);
        self.bytes -= before.as_deref().map_or(0, weight);
        let same = before
            .as_ref()
            .is_some_and(|before| before.owners().map(uid).eq(record.owners().map(uid)));
        if !same {
            self.forget_owners(before.as_deref());
            for owner in record.owners() {
                self.owned.insert((mark(owner.uid), record.key().clone()));
            }
        }
        before
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Record>> {
        let before = self.records.remove(key);
        self.bytes -= before.as_deref().map_or(0, weight);
        self.forget_owners(before.as_deref());
        before
    }

    fn forget_owners(&mut self, record: Option<&Record>) {
        let Some(record) = record else { return };
        for owner in record.owners() {
            self.owned.remove(&(mark(owner.uid), record.key().clone()));
        }
    }

    pub(crate) fn range<'a>(
        &'a self,
        bounds: (Bound<&str>, Bound<&str>),
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Record>)> + use<'a> {
        self.records.range::<_, str>(bounds)
    }

    /// The records that name a uid among their owners, in the order of their keys.
    pub(crate) fn owned_by<'a>(&'a self, owner: &'a str) -> impl Iterator<Item = &'a Arc<Record>> {
        let mark = mark(owner);
        self.owned
            .range((mark, Arc::from(""))..)
            .take_while(move |(marked, _)| *marked == mark)
            .filter_map(|(_, key)| self.records.get(key))
            // Two uids may share a mark.
            .filter(move |record| record.owners().any(|has| has.uid == owner))
    }
}

fn uid<'a>(owner: Owner<'a>) -> &'a str {
    owner.uid
}

/// A short form of a uid (FNV-1a); whoever looks up by it compares the whole uid afterwards.
fn mark(uid: &str) -> u64 {
    uid.bytes().fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The state after one revision.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(crate) revision: Revision,
    pub(crate) objects: RecordIndex,
    /// How many changes the log had seen when this state was made.
    pub(crate) end: u64,
}

impl World {
    /// The newest revision this state contains.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The record at a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Record>> {
        self.objects.get(key)
    }

    /// The records whose key begins with `prefix` and comes after `after`, by the bytes of the key.
    pub fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Record>> + 'a {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        // With an end that is known, the walk need not touch a key.
        let end = end_of(prefix);
        let (to, check) = match &end {
            Some(end) => (Bound::Excluded(end.as_str()), false),
            None => (Bound::Unbounded, true),
        };
        let past = matches!((after, &end), (Some(after), Some(end)) if after >= end.as_str());
        let range = (!past).then(|| self.objects.range((from, to)));
        range
            .into_iter()
            .flatten()
            .take_while(move |(key, _)| !check || key.starts_with(prefix))
            .map(|(_, record)| record)
    }

    /// The records that name a uid among their owners, in the order of their keys.
    pub fn owned_by<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Arc<Record>> {
        self.objects.owned_by(uid)
    }

    /// How many records have a key that begins with `prefix`.
    #[must_use]
    pub fn count(&self, prefix: &str) -> usize {
        self.range(prefix, None).count()
    }

    /// The same, or `most` if there are more; a large collection is not walked to its end.
    #[must_use]
    pub fn count_up_to(&self, prefix: &str, most: usize) -> usize {
        self.range(prefix, None).take(most).count()
    }

    /// How many bytes all records count towards the quota, with what is kept beside them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.bytes()
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.records.len()
    }

    /// Whether there is no record at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.records.is_empty()
    }
}

/// The smallest text after everything that begins with `prefix`, where a last byte is easily raised.
fn end_of(prefix: &str) -> Option<String> {
    let last = prefix.bytes().next_back().filter(|byte| *byte < 0x7f)?;
    let mut end = prefix.get(..prefix.len() - 1)?.to_owned();
    end.push(char::from(last + 1));
    Some(end)
}
