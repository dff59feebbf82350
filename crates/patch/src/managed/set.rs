//! A set of fields of one object, and its form as FieldsV1 JSON.
//!
//! ```text
//!   {"f:data": {".": {}, "f:a": {}}}   =   data, data.a
//! ```
//!
//! The set knows paths only; what a path means is for the schema to say.

use serde_json::Value;
use tenure_machinery::Object;

use super::element::{self, PathElementError};

/// A set of fields, as a tree of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    // INVARIANT: sorted by step, no step twice, and every node is a member or has fields below.
    nodes: Vec<FieldNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldNode {
    step: String,
    member: bool,
    below: FieldSet,
}

impl FieldNode {
    fn is_void(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// FieldsV1 that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl FieldSet {
    /// The set of these paths, each a list of steps such as `f:spec`.
    pub fn from_paths<'p>(paths: impl IntoIterator<Item = &'p [&'p str]>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Adds one path; the path of no steps is the object itself, which nobody owns.
    pub fn insert(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.place(first) {
            Ok(at) => at,
            Err(at) => {
                let node =
                    FieldNode { step: (*first).to_owned(), member: false, below: Self::default() };
                self.nodes.insert(at, node);
                at
            }
        };
        if let Some(node) = self.nodes.get_mut(at) {
            if rest.is_empty() {
                node.member = true;
            } else {
                node.below.insert(rest);
            }
        }
    }

    /// Adds a step that sorts after all steps so far; a node that would say nothing is left out.
    pub(crate) fn push(&mut self, step: String, member: bool, below: Self) {
        let node = FieldNode { step, member, below };
        if node.is_void() {
            return;
        }
        debug_assert!(self.nodes.last().is_none_or(|last| last.step < node.step));
        self.nodes.push(node);
    }

    fn place(&self, step: &str) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.step.as_str().cmp(step))
    }

    fn node(&self, step: &str) -> Option<&FieldNode> {
        self.nodes.get(self.place(step).ok()?)
    }

    /// Whether the set has no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Whether the path is a field of the set.
    #[must_use]
    pub fn contains(&self, path: &[&str]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.contains(rest)),
        }
    }

    /// Whether one step from here is a field of the set.
    #[must_use]
    pub fn has(&self, step: &str) -> bool {
        self.node(step).is_some_and(|node| node.member)
    }

    /// The fields below one step.
    #[must_use]
    pub fn below(&self, step: &str) -> Option<&Self> {
        self.node(step).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The steps from here: each with whether it is a field, and the fields below it.
    pub fn steps(&self) -> impl Iterator<Item = (&str, bool, &Self)> {
        self.nodes.iter().map(|node| (node.step.as_str(), node.member, &node.below))
    }

    /// Calls `see` with the path of each field, parents before what is below them.
    pub fn each<'s>(&'s self, see: &mut impl FnMut(&[&'s str])) {
        self.each_after(&mut Vec::new(), see);
    }

    fn each_after<'s>(&'s self, path: &mut Vec<&'s str>, see: &mut impl FnMut(&[&'s str])) {
        for node in &self.nodes {
            path.push(&node.step);
            if node.member {
                see(path);
            }
            node.below.each_after(path, see);
            path.pop();
        }
    }

    /// The fields that have no field of the set below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut leaves = Self::default();
        for node in &self.nodes {
            let below = node.below.leaves();
            leaves.push(node.step.clone(), node.member && below.is_empty(), below);
        }
        leaves
    }

    /// The fields in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let mut right = other.nodes.into_iter().peekable();
        for mut left in self.nodes {
            while let Some(node) = right.next_if(|node| node.step < left.step) {
                nodes.push(node);
            }
            if let Some(node) = right.next_if(|node| node.step == left.step) {
                left.member |= node.member;
                left.below = left.below.union(node.below);
            }
            nodes.push(left);
        }
        nodes.extend(right);
        Self { nodes }
    }

    /// The fields in any of the sets.
    pub fn union_all(sets: impl IntoIterator<Item = Self>) -> Self {
        let mut sets: Vec<Self> = sets.into_iter().collect();
        // Joining neighbours keeps many small sets from being copied over and over.
        while sets.len() > 1 {
            let mut halves = Vec::with_capacity(sets.len().div_ceil(2));
            let mut rest = sets.into_iter();
            while let Some(left) = rest.next() {
                halves.push(left.union(rest.next().unwrap_or_default()));
            }
            sets = halves;
        }
        sets.pop().unwrap_or_default()
    }

    /// The fields in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Self::default();
        let mut right = other.nodes.as_slice();
        for left in &self.nodes {
            if let Some(node) = seek(&mut right, &left.step) {
                let below = left.below.intersection(&node.below);
                common.push(left.step.clone(), left.member && node.member, below);
            }
        }
        common
    }

    /// Whether every field is in the other set as well.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut right = other.nodes.as_slice();
        self.nodes.iter().all(|left| {
            seek(&mut right, &left.step).is_some_and(|node| {
                (node.member || !left.member) && left.below.is_subset(&node.below)
            })
        })
    }

    /// The fields that are not in the other set; what is below a field of the other set stays.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// The fields that are neither in the other set nor below one of its fields.
    #[must_use]
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(self, other: &Self, and_below: bool) -> Self {
        if self.is_empty() || other.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut right = other.nodes.as_slice();
        for mut left in self.nodes {
            if let Some(node) = seek(&mut right, &left.step) {
                if node.member && and_below {
                    continue;
                }
                left.member &= !node.member;
                left.below = left.below.without(&node.below, and_below);
            }
            if !left.is_void() {
                nodes.push(left);
            }
        }
        Self { nodes }
    }

    /// Reads FieldsV1 JSON; steps of kinds that are not known are ignored.
    pub fn from_json(json: &Value) -> Result<Self, Malformed> {
        match json {
            Value::Object(map) => Self::from_map(map).map(|(set, _)| set),
            Value::Null => Ok(Self::default()),
            _ => Err(Malformed),
        }
    }

    /// The fields below, and whether the map says that its own step is a field.
    fn from_map(map: &Object) -> Result<(Self, bool), Malformed> {
        let mut set = Self { nodes: Vec::with_capacity(map.len()) };
        let mut dot = false;
        let mut sorted = true;
        for (key, value) in map {
            if key == "." {
                dot = true;
                continue;
            }
            let step = match element::read(key) {
                Ok(step) => step,
                Err(PathElementError::Unknown) => continue,
                Err(PathElementError::Malformed) => return Err(Malformed),
            };
            let (below, member) = match value {
                Value::Object(map) => Self::from_map(map)?,
                Value::Null => (Self::default(), true),
                _ => return Err(Malformed),
            };
            sorted &= set.nodes.last().is_none_or(|last| last.step < step);
            set.nodes.push(FieldNode { step, member, below });
        }
        if !sorted {
            set.sort();
        }
        // A step with nothing below it is written as an empty map and is a field itself.
        let member = dot || set.is_empty();
        Ok((set, member))
    }

    /// Restores the order after steps changed their text, and joins those that became equal.
    fn sort(&mut self) {
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.sort_by(|left, right| left.step.cmp(&right.step));
        for node in nodes {
            match self.nodes.last_mut() {
                Some(last) if last.step == node.step => {
                    last.member |= node.member;
                    last.below = std::mem::take(&mut last.below).union(node.below);
                }
                _ => self.nodes.push(node),
            }
        }
    }

    /// Writes FieldsV1 JSON.
    #[must_use]
    pub fn into_json(self) -> Value {
        Value::Object(self.into_map(false))
    }

    fn into_map(self, member: bool) -> Object {
        let mut map = Object::new();
        if member && !self.is_empty() {
            map.insert(".".to_owned(), Value::Object(Object::new()));
        }
        for node in self.nodes {
            map.insert(node.step, Value::Object(node.below.into_map(node.member)));
        }
        map
    }
}

/// The node with that step; the nodes up to it are done with.
fn seek<'n>(nodes: &mut &'n [FieldNode], step: &str) -> Option<&'n FieldNode> {
    // Mostly the next node is the one; a search keeps a small set cheap against a large one.
    if nodes.first()?.step.as_str() < step {
        let skipped = nodes.partition_point(|node| node.step.as_str() < step);
        *nodes = nodes.get(skipped..)?;
    }
    let (first, rest) = nodes.split_first()?;
    if first.step != step {
        return None;
    }
    *nodes = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md, and the algebra against sets of paths.

    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    type Paths = BTreeSet<Vec<String>>;

    fn paths(set: &FieldSet) -> Paths {
        let mut paths = Paths::new();
        set.each(&mut |path| {
            paths.insert(path.iter().map(|step| (*step).to_owned()).collect());
        });
        paths
    }

    fn set(paths: &Paths) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.iter().map(String::as_str).collect::<Vec<_>>());
        }
        set
    }

    #[test]
    fn r92_dots_tell_members_from_parents() {
        let json = json!({"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}});
        let set = FieldSet::from_json(&json).expect("good");
        assert!(set.contains(&["f:data"]));
        assert!(set.contains(&["f:data", "f:a"]));
        assert!(!set.contains(&["f:metadata"]));
        assert!(!set.contains(&["f:metadata", "f:labels"]));
        assert_eq!(set.len(), 3);
        assert_eq!(set.leaves().len(), 2);
        assert_eq!(set.into_json(), json);
    }

    #[test]
    fn r92_keys_are_sorted_and_compact() {
        let odd = json!({"k:{\"protocol\": \"TCP\", \"port\": 80}": {}, "k:{\"a\":1}": {}});
        let set = FieldSet::from_json(&odd).expect("good");
        let even = json!({"k:{\"a\":1}": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {}});
        assert_eq!(set.into_json(), even);
    }

    #[test]
    fn r92_unknown_steps_are_ignored_and_malformed_ones_refused() {
        let later = json!({"z:what": {}, "f:a": {}});
        assert_eq!(FieldSet::from_json(&later).expect("good").len(), 1);
        for bad in [
            json!({"": {}}),
            json!({"f": {}}),
            json!({"fa": {}}),
            json!({"k:[1]": {}}),
            json!({"v:{": {}}),
            json!({"i:x": {}}),
            json!({"f:a": 1}),
            json!({"é": {}}),
            json!([1]),
        ] {
            assert_eq!(FieldSet::from_json(&bad), Err(Malformed), "{bad}");
        }
    }

    fn any_paths() -> impl Strategy<Value = Paths> {
        let step = prop_oneof![
            Just("f:a"),
            Just("f:b"),
            Just("k:{\"name\":\"x\"}"),
            Just("v:\"y\""),
            Just("i:0"),
        ];
        let path = prop::collection::vec(step.prop_map(str::to_owned), 1..4);
        prop::collection::btree_set(path, 0..12)
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!({})), Just(json!(null)), Just(json!(1))];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let key = prop_oneof![
                "[fkvi.]:?.{0,3}",
                Just("k:{\"b\":1, \"a\":2}".to_owned()),
                Just(".".to_owned()),
                ".{0,4}",
            ];
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect()))
        })
    }

    proptest! {
        #[test]
        fn r92_algebra_equals_sets_of_paths(left in any_paths(), right in any_paths()) {
            let (a, b) = (set(&left), set(&right));
            prop_assert_eq!(paths(&a), left.clone());
            prop_assert_eq!(a.len(), left.len());
            let union: Paths = left.union(&right).cloned().collect();
            prop_assert_eq!(paths(&a.clone().union(b.clone())), union);
            let common: Paths = left.intersection(&right).cloned().collect();
            prop_assert_eq!(paths(&a.intersection(&b)), common);
            let rest: Paths = left.difference(&right).cloned().collect();
            prop_assert_eq!(paths(&a.clone().difference(&b)), rest);
            prop_assert_eq!(a.is_subset(&b), left.is_subset(&right));
            prop_assert!(a.is_subset(&a.clone().union(b.clone())));
            let under = |path: &Vec<String>| right.iter().any(|other| path.starts_with(other));
            let far: Paths = left.iter().filter(|path| !under(path)).cloned().collect();
            prop_assert_eq!(paths(&a.clone().recursive_difference(&b)), far);
            let over = |path: &Vec<String>| {
                left.iter().any(|other| other != path && other.starts_with(path))
            };
            let leaves: Paths = left.iter().filter(|path| !over(path)).cloned().collect();
            prop_assert_eq!(paths(&a.leaves()), leaves);
        }

        #[test]
        fn r92_codec_round_trips(left in any_paths()) {
            let set = set(&left);
            prop_assert_eq!(FieldSet::from_json(&set.clone().into_json()), Ok(set));
        }

        #[test]
        fn r92_reading_never_panics(json in any_json()) {
            if let Ok(set) = FieldSet::from_json(&json) {
                prop_assert_eq!(FieldSet::from_json(&set.clone().into_json()), Ok(set));
            }
        }
    }
}
