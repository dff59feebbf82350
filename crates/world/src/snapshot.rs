//! The state after a revision: an immutable ordered map of records.
//!
//! Whoever holds one sees one moment, for as long as they like, and waits for nobody.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use tenure_core::Revision;

use crate::record::Record;

/// Records by key, in the order of the bytes of the key.
pub(crate) type Objects = OrdMap<Arc<str>, Arc<Record>>;

/// The state after one revision.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub(crate) revision: Revision,
    pub(crate) objects: Objects,
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
        let range = (!past).then(|| self.objects.range::<_, str>((from, to)));
        range
            .into_iter()
            .flatten()
            .take_while(move |(key, _)| !check || key.starts_with(prefix))
            .map(|(_, record)| record)
    }

    /// How many records have a key that begins with `prefix`.
    #[must_use]
    pub fn count(&self, prefix: &str) -> usize {
        self.range(prefix, None).count()
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no record at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// The smallest text after everything that begins with `prefix`, where a last byte is easily raised.
fn end_of(prefix: &str) -> Option<String> {
    let last = prefix.bytes().next_back().filter(|byte| *byte < 0x7f)?;
    let mut end = prefix.get(..prefix.len() - 1)?.to_owned();
    end.push(char::from(last + 1));
    Some(end)
}
