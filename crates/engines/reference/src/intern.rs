//! Values as small numbers: each distinct value is kept once and dropped after its last use.

use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hash};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// A number that stands for nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// Values by number and numbers by value.
///
/// A value is looked up by anything that hashes and compares like it, so that looking up never allocates.
#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    /// The value, and how often it is used.
    entries: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hasher: FixedState,
}

impl<T: Hash> Interner<T> {
    pub(crate) fn new(hasher: &FixedState) -> Interner<T> {
        Interner {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: hasher.clone(),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref().map(|(value, _)| value)
    }

    /// The number of a value that is in use.
    pub(crate) fn find<K: Hash>(&self, key: &K, is: impl Fn(&T) -> bool) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |id| self.get(*id).is_some_and(&is)).copied()
    }

    /// The number of a value, which is used once more from now on; and whether it is new.
    ///
    /// INVARIANT: `make` gives a value that hashes like the key.
    pub(crate) fn hold<K: Hash>(
        &mut self,
        key: &K,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> (u32, bool) {
        if let Some(id) = self.find(key, is) {
            self.keep(id);
            return (id, false);
        }
        let entry = Some((make(), 1));
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(place) = self.entries.get_mut(id as usize) {
                    *place = entry;
                }
                id
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
            }
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        let rehash = |id: &u32| match entries.get(*id as usize) {
            Some(Some((value, _))) => hasher.hash_one(value),
            _ => 0,
        };
        self.index.insert_unique(hasher.hash_one(key), id, rehash);
        (id, true)
    }

    /// Uses a value that is in use once more.
    pub(crate) fn keep(&mut self, id: u32) {
        if let Some(Some((_, uses))) = self.entries.get_mut(id as usize) {
            *uses += 1;
        }
    }

    /// Uses a value once less; the value, if that was the last use.
    pub(crate) fn release(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?;
        let (value, uses) = entry.as_mut()?;
        *uses = uses.saturating_sub(1);
        if *uses > 0 {
            return None;
        }
        let hash = self.hasher.hash_one(&*value);
        if let Ok(found) = self.index.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.free.push(id);
        entry.take().map(|(value, _)| value)
    }

    /// How many values are in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;

    #[test]
    fn a_value_lives_as_long_as_it_is_used_and_its_number_is_used_again() {
        let mut names: Interner<Box<str>> = Interner::new(&FixedState::with_seed(1));
        let hold = |names: &mut Interner<Box<str>>, text: &str| {
            names.hold(&text, |known| **known == *text, || text.into())
        };
        let (a, new) = hold(&mut names, "a");
        assert!(new);
        assert_eq!(hold(&mut names, "a"), (a, false));
        assert_eq!(names.release(a), None);
        assert_eq!(names.find(&"a", |known| **known == *"a"), Some(a));
        assert_eq!(names.release(a).as_deref(), Some("a"));
        assert_eq!(names.find(&"a", |known| **known == *"a"), None);
        assert_eq!(hold(&mut names, "b"), (a, true));
        assert_eq!((names.len(), names.get(NONE)), (1, None));
    }
}
