//! An ordered map whose copies share what they have in common.
//!
//! A copy is made of one pointer. A change copies the nodes from the root to its place and nothing else, so what it
//! costs does not depend on how much the map holds, and whoever reads an older copy is not disturbed.
//!
//! ```text
//!   copy before ──► root ──► a b c ──┐
//!   copy after ───► root'─► a b c' ──┴─► most nodes are in both
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::slice;

/// How many entries a node holds at most.
const MOST: usize = 12;
/// With fewer entries a node looks for a neighbour that has room for them.
const FEW: usize = MOST / 4;

/// The map.
#[derive(Debug)]
pub(crate) struct PersistentMap<K, V> {
    // INVARIANT: no node is empty, and every leaf is as deep as every other.
    root: Option<TreeNode<K, V>>,
}

#[derive(Debug)]
enum TreeNode<K, V> {
    Leaf(Arc<[(K, V)]>),
    // INVARIANT: all keys of a child but the first are at least the key beside it, and less than the next one's.
    Branch(Arc<[Child<K, V>]>),
}

type Child<K, V> = (K, TreeNode<K, V>);

impl<K, V> Clone for TreeNode<K, V> {
    fn clone(&self) -> TreeNode<K, V> {
        match self {
            TreeNode::Leaf(entries) => TreeNode::Leaf(Arc::clone(entries)),
            TreeNode::Branch(children) => TreeNode::Branch(Arc::clone(children)),
        }
    }
}

impl<K, V> Clone for PersistentMap<K, V> {
    fn clone(&self) -> PersistentMap<K, V> {
        PersistentMap { root: self.root.clone() }
    }
}

impl<K, V> Default for PersistentMap<K, V> {
    fn default() -> PersistentMap<K, V> {
        PersistentMap { root: None }
    }
}

impl<K, V> PersistentMap<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        let mut node = self.root.as_ref()?;
        loop {
            match node {
                TreeNode::Leaf(entries) => return entries.first().map(|(key, value)| (key, value)),
                TreeNode::Branch(children) => node = &children.first()?.1,
            }
        }
    }

    /// What is first found at an entry, in their order.
    pub(crate) fn find<'a, R>(
        &'a self,
        mut look: impl FnMut(&'a K, &'a V) -> Option<R>,
    ) -> Option<R> {
        self.root.as_ref()?.find(&mut look)
    }

    /// Every entry, in their order.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        let mut iter = Iter { branches: Vec::new(), leaf: [].iter() };
        if let Some(root) = &self.root {
            iter.enter(root);
        }
        iter
    }
}

impl<K: Clone + Ord, V: Clone> PersistentMap<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub(crate) fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let mut node = self.root.as_ref()?;
        loop {
            match node {
                TreeNode::Leaf(entries) => {
                    let place = place_of(entries, key).ok()?;
                    return entries.get(place).map(|(key, value)| (key, value));
                }
                TreeNode::Branch(children) => node = &children.get(child_of(children, key))?.1,
            }
        }
    }

    /// The value of a key, to be changed.
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        // What is not there is no reason to copy anything.
        self.get(key)?;
        let mut node = self.root.as_mut()?;
        loop {
            match node {
                TreeNode::Leaf(entries) => {
                    let place = place_of(entries, key).ok()?;
                    return Arc::make_mut(entries).get_mut(place).map(|(_, value)| value);
                }
                TreeNode::Branch(children) => {
                    let place = child_of(children, key);
                    node = &mut Arc::make_mut(children).get_mut(place)?.1;
                }
            }
        }
    }

    /// Changes the value of a key, a new one if there is none.
    pub(crate) fn change(&mut self, key: &K, change: impl FnOnce(&mut V))
    where
        V: Default,
    {
        if let Some(value) = self.get_mut(key) {
            change(value);
            return;
        }
        let mut value = V::default();
        change(&mut value);
        self.insert(key.clone(), value);
    }

    /// Puts a value in the place of the one that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let Some(root) = &mut self.root else {
            self.root = Some(TreeNode::Leaf(Arc::new([(key, value)])));
            return;
        };
        if let Some(right) = root.insert(key, value) {
            let left = root.clone();
            // The key beside the first child is never looked at.
            *root = TreeNode::Branch(Arc::new([(right.0.clone(), left), right]));
        }
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get(key)?;
        let root = self.root.as_mut()?;
        let value = root.remove(key);
        match root {
            TreeNode::Leaf(entries) if entries.is_empty() => self.root = None,
            TreeNode::Branch(children) if children.len() <= 1 => {
                self.root = children.first().map(|(_, only)| only.clone());
            }
            _ => {}
        }
        value
    }
}

impl<K, V> TreeNode<K, V> {
    fn len(&self) -> usize {
        match self {
            TreeNode::Leaf(entries) => entries.len(),
            TreeNode::Branch(children) => children.len(),
        }
    }

    fn find<'a, R>(&'a self, look: &mut impl FnMut(&'a K, &'a V) -> Option<R>) -> Option<R> {
        match self {
            TreeNode::Leaf(entries) => entries.iter().find_map(|(key, value)| look(key, value)),
            TreeNode::Branch(children) => children.iter().find_map(|(_, child)| child.find(look)),
        }
    }
}

impl<K: Clone + Ord, V: Clone> TreeNode<K, V> {
    /// Inserts, and gives away its right half if it became too long.
    fn insert(&mut self, key: K, value: V) -> Option<Child<K, V>> {
        match self {
            TreeNode::Leaf(entries) => {
                let place = match place_of(entries, &key) {
                    Ok(place) => {
                        Arc::make_mut(entries).get_mut(place)?.1 = value;
                        return None;
                    }
                    Err(place) => place,
                };
                let (left, right) = spliced(entries, place, (key, value));
                *entries = left;
                right.and_then(|right| Some((right.first()?.0.clone(), TreeNode::Leaf(right))))
            }
            TreeNode::Branch(children) => {
                let place = child_of(children, &key);
                let new = Arc::make_mut(children).get_mut(place)?.1.insert(key, value)?;
                let (left, right) = spliced(children, place + 1, new);
                *children = left;
                right.and_then(|right| Some((right.first()?.0.clone(), TreeNode::Branch(right))))
            }
        }
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match self {
            TreeNode::Leaf(entries) => {
                let place = place_of(entries, key).ok()?;
                let value = entries.get(place)?.1.clone();
                *entries = without(entries, place);
                Some(value)
            }
            TreeNode::Branch(children) => {
                let place = child_of(children, key);
                let child = &mut Arc::make_mut(children).get_mut(place)?.1;
                let value = child.remove(key);
                if child.len() < FEW {
                    join(children, place);
                }
                value
            }
        }
    }

    /// Itself and the entries of its right neighbour, which are all at least `from`.
    fn joined(&self, from: &K, right: &TreeNode<K, V>) -> Option<TreeNode<K, V>> {
        match (self, right) {
            (TreeNode::Leaf(left), TreeNode::Leaf(right)) => {
                Some(TreeNode::Leaf(left.iter().chain(&**right).cloned().collect()))
            }
            (TreeNode::Branch(left), TreeNode::Branch(right)) => {
                // The first child of the right one is no longer the first.
                let first = right.first().map(|(_, child)| (from.clone(), child.clone()));
                let right = first.into_iter().chain(right.iter().skip(1).cloned());
                Some(TreeNode::Branch(left.iter().cloned().chain(right).collect()))
            }
            // Neighbours are equally deep.
            _ => None,
        }
    }
}

/// Removes an empty child; a short one goes to a neighbour that has room for it.
fn join<K: Clone + Ord, V: Clone>(children: &mut Arc<[Child<K, V>]>, place: usize) {
    let child = |place: usize| children.get(place);
    if child(place).is_some_and(|(_, child)| child.len() == 0) {
        *children = without(children, place);
        return;
    }
    for left in [place.checked_sub(1), Some(place)].into_iter().flatten() {
        let (Some((_, one)), Some((from, other))) = (child(left), child(left + 1)) else {
            continue;
        };
        if one.len() + other.len() > MOST {
            continue;
        }
        let Some(joined) = one.joined(from, other) else { return };
        let mut fewer = without(children, left + 1);
        if let Some(child) = Arc::make_mut(&mut fewer).get_mut(left) {
            child.1 = joined;
        }
        *children = fewer;
        return;
    }
}

/// The list with one more, in two halves if it is too long then.
fn spliced<T: Clone>(list: &[T], place: usize, new: T) -> (Arc<[T]>, Option<Arc<[T]>>) {
    let mut all = Vec::with_capacity(list.len() + 1);
    all.extend_from_slice(list);
    all.insert(place.min(list.len()), new);
    let right = (all.len() > MOST).then(|| all.split_off(all.len() / 2).into());
    (all.into(), right)
}

fn without<T: Clone>(list: &[T], place: usize) -> Arc<[T]> {
    let kept = list.iter().enumerate().filter(|(number, _)| *number != place);
    kept.map(|(_, entry)| entry.clone()).collect()
}

/// Under which child a key stands.
fn child_of<K, V, Q>(children: &[Child<K, V>], key: &Q) -> usize
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    // Whatever is not under another child is under the first.
    let others = children.get(1..).unwrap_or_default();
    others.iter().position(|(from, _)| from.borrow() > key).unwrap_or(others.len())
}

/// Where a key stands in a leaf, or where it would.
///
/// Nodes are short: looking at one entry after the other is faster than halving, whose steps wait for each other.
fn place_of<K, V, Q>(entries: &[(K, V)], key: &Q) -> Result<usize, usize>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    for (place, (held, _)) in entries.iter().enumerate() {
        match held.borrow().cmp(key) {
            Ordering::Less => {}
            Ordering::Equal => return Ok(place),
            Ordering::Greater => return Err(place),
        }
    }
    Err(entries.len())
}

/// See [`PersistentMap::iter`].
pub(crate) struct Iter<'a, K, V> {
    branches: Vec<slice::Iter<'a, Child<K, V>>>,
    leaf: slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    fn enter(&mut self, mut node: &'a TreeNode<K, V>) {
        loop {
            match node {
                TreeNode::Leaf(entries) => {
                    self.leaf = entries.iter();
                    return;
                }
                TreeNode::Branch(children) => {
                    let mut children = children.iter();
                    let Some((_, first)) = children.next() else { return };
                    self.branches.push(children);
                    node = first;
                }
            }
        }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        loop {
            if let Some((key, value)) = self.leaf.next() {
                return Some((key, value));
            }
            let children = self.branches.last_mut()?;
            match children.next() {
                Some((_, child)) => self.enter(child),
                None => drop(self.branches.pop()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! The map against one of the standard library, and its copies against what they were copies of.

    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entries(map: &PersistentMap<u16, u32>) -> Vec<(u16, u32)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    /// Checks what the map promises about its shape; answers its depth.
    fn check(node: &TreeNode<u16, u32>, from: Option<u16>, to: Option<u16>) -> usize {
        assert!((1..=MOST).contains(&node.len()));
        let within = |key: u16| from.is_none_or(|from| from <= key) && to.is_none_or(|to| key < to);
        match node {
            TreeNode::Leaf(entries) => {
                assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
                assert!(entries.iter().all(|(key, _)| within(*key)));
                1
            }
            TreeNode::Branch(children) => {
                let depths = children.iter().enumerate().map(|(place, (key, child))| {
                    let from = if place == 0 { from } else { Some(*key) };
                    let next = children.get(place + 1).map(|(key, _)| *key);
                    check(child, from, next.or(to))
                });
                let depths: Vec<usize> = depths.collect();
                assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "{depths:?}");
                depths[0] + 1
            }
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_map_holds_and_its_copies_stay(
            steps in prop::collection::vec((0..3_u8, 0..600_u16, any::<u32>()), 0..3_000),
        ) {
            let (mut map, mut model) = (PersistentMap::default(), BTreeMap::new());
            let mut kept = Vec::new();
            for (number, (step, key, value)) in steps.into_iter().enumerate() {
                // First it grows, then it shrinks to nothing.
                let shrinks = number > 1_500;
                match step {
                    0 | 1 if shrinks => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    0 => map.change(&key, |held: &mut u32| *held = held.wrapping_add(value)),
                    1 => map.insert(key, value),
                    _ => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                }
                match step {
                    0 | 1 if shrinks => {}
                    0 => {
                        let held: &mut u32 = model.entry(key).or_default();
                        *held = held.wrapping_add(value);
                    }
                    1 => drop(model.insert(key, value)),
                    _ => {}
                }
                if number % 100 == 0 {
                    kept.push((map.clone(), model.clone()));
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.is_empty(), model.is_empty());
            }
            kept.push((map, model));
            for (map, model) in kept {
                prop_assert_eq!(entries(&map), model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(map.first().map(|(key, _)| *key), model.keys().next().copied());
                let found = map.find(|key, _| (*key >= 300).then_some(*key));
                prop_assert_eq!(found, model.range(300..).next().map(|(key, _)| *key));
                if let Some(root) = &map.root {
                    check(root, None, None);
                }
            }
        }
    }

    #[test]
    fn emptied_it_is_as_new() {
        let mut map = PersistentMap::default();
        (0..5_000_u16).for_each(|key| map.insert(key, 0_u32));
        for key in (0..5_000).rev().step_by(2).chain((0..5_000).step_by(2)) {
            assert_eq!(map.remove(&key), Some(0));
        }
        assert!(map.is_empty());
    }
}
