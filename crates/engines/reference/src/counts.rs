//! Things counted: a short sorted list, and a tree once it is no longer short.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// From this many on, moving a list about costs more than a tree.
const FEW: usize = 64;

/// How often each of a few, or of very many, things is there.
#[derive(Clone, Debug)]
pub(crate) enum Multiset<K> {
    Few(Vec<(K, u32)>),
    Many(BTreeMap<K, u32>),
}

impl<K: Ord + Copy> Multiset<K> {
    pub(crate) fn new() -> Multiset<K> {
        Multiset::Few(Vec::new())
    }

    /// Counts some up; how many there were before.
    pub(crate) fn add(&mut self, key: K, count: u32) -> u32 {
        if let Multiset::Few(list) = self
            && list.len() >= FEW
        {
            *self = Multiset::Many(core::mem::take(list).into_iter().collect());
        }
        let counted = match self {
            Multiset::Few(list) => match list.binary_search_by_key(&key, |(key, _)| *key) {
                Ok(at) => list.get_mut(at).map(|(_, counted)| counted),
                Err(at) => {
                    // Most lists stay very short, and there may be one for each target.
                    if list.len() < 4 {
                        list.reserve_exact(1);
                    }
                    list.insert(at, (key, 0));
                    list.get_mut(at).map(|(_, counted)| counted)
                }
            },
            Multiset::Many(tree) => Some(tree.entry(key).or_insert(0)),
        };
        counted.map_or(0, |counted| {
            let before = *counted;
            *counted = before.saturating_add(count);
            before
        })
    }

    /// Counts some down; how many are left. What is not there is not counted.
    pub(crate) fn sub(&mut self, key: K, count: u32) -> u32 {
        match self {
            Multiset::Few(list) => {
                let Ok(at) = list.binary_search_by_key(&key, |(key, _)| *key) else { return 0 };
                let Some((_, counted)) = list.get_mut(at) else { return 0 };
                *counted = counted.saturating_sub(count);
                let left = *counted;
                if left == 0 {
                    list.remove(at);
                }
                left
            }
            Multiset::Many(tree) => {
                let Some(counted) = tree.get_mut(&key) else { return 0 };
                *counted = counted.saturating_sub(count);
                let left = *counted;
                if left == 0 {
                    tree.remove(&key);
                }
                left
            }
        }
    }

    /// The greatest key.
    pub(crate) fn last(&self) -> Option<K> {
        match self {
            Multiset::Few(list) => list.last().map(|(key, _)| *key),
            Multiset::Many(tree) => tree.last_key_value().map(|(key, _)| *key),
        }
    }

    /// Everything between two keys, in order.
    pub(crate) fn between(&self, keys: RangeInclusive<K>) -> impl Iterator<Item = (K, u32)> {
        let (list, tree) = match self {
            Multiset::Few(list) => {
                let start = list.partition_point(|(key, _)| key < keys.start());
                let end = list.partition_point(|(key, _)| key <= keys.end());
                (list.get(start..end), None)
            }
            Multiset::Many(tree) => (None, Some(tree.range(keys))),
        };
        let list = list.unwrap_or_default().iter().copied();
        list.chain(tree.into_iter().flatten().map(|(key, count)| (*key, *count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_count_alike() {
        let mut counts = Multiset::new();
        for key in (0..200_u32).rev() {
            assert_eq!(counts.add(key, 2), 0);
            assert_eq!(counts.add(key, 1), 2);
        }
        assert!(matches!(counts, Multiset::Many(_)));
        assert_eq!(counts.last(), Some(199));
        assert_eq!(counts.between(10..=12).collect::<Vec<_>>(), [(10, 3), (11, 3), (12, 3)]);
        assert_eq!((counts.sub(11, 1), counts.sub(11, 9), counts.sub(11, 1)), (2, 0, 0));
        assert_eq!(counts.between(10..=12).count(), 2);
        let mut few = Multiset::new();
        assert_eq!((few.add(5_u32, 1), few.add(3, 1), few.sub(4, 1)), (0, 0, 0));
        assert_eq!(few.last(), Some(5));
        assert_eq!(few.between(0..=9).collect::<Vec<_>>(), [(3, 1), (5, 1)]);
    }
}
