//! Values walked with their schema: which fields there are, and which differ.
//!
//! An old object that does not exist counts as the empty object of its type, in which members that
//! are always written are already there. That is why a created Deployment owns `f:strategy` only
//! through its members, but `f:rollingUpdate` also itself.

use std::cmp::Ordering;

use serde_json::Value;
use tenure_machinery::Object;

use super::element;
use super::set::FieldSet;
use crate::schema::{ListRule, MergeSchema};

/// The fields in which two objects differ; no field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new object has.
    pub added: FieldSet,
    /// Fields that both have, with different values.
    pub modified: FieldSet,
    /// Fields that only the old object has.
    pub removed: FieldSet,
}

impl Comparison {
    /// Leaves out the given fields and everything below them.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }

    /// The fields that are new or have a new value.
    #[must_use]
    pub fn changed(&self) -> FieldSet {
        self.added.clone().union(self.modified.clone())
    }
}

/// Compares two objects of one type; no old object stands for the empty one.
pub fn compare<S: MergeSchema>(schema: &S, old: Option<&Object>, new: &Object) -> Comparison {
    let mut found = FieldChanges::default();
    let old = old.map_or(MapSide::Zero, MapSide::Is);
    maps(schema, schema.root(), old, MapSide::Is(new), &mut found);
    Comparison {
        added: found.added.below,
        modified: found.modified.below,
        removed: found.removed.below,
    }
}

/// One of two values at the same place.
#[derive(Clone, Copy)]
enum ComparedValue<'v> {
    Absent,
    /// The value that an unset member is written with.
    Zero,
    Is(&'v Value),
}

#[derive(Clone, Copy)]
enum MapSide<'v> {
    Absent,
    Zero,
    Is(&'v Object),
}

impl<'v> MapSide<'v> {
    fn iter(self) -> std::iter::Peekable<impl Iterator<Item = (&'v String, &'v Value)>> {
        let map = match self {
            Self::Is(map) => Some(map),
            Self::Absent | Self::Zero => None,
        };
        map.into_iter().flatten().peekable()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// Absent or null: takes the form of the other side.
    Any,
    Scalar,
    Map,
    List,
}

impl<'v> ComparedValue<'v> {
    fn form(self) -> ValueKind {
        match self {
            Self::Absent | Self::Zero | Self::Is(Value::Null) => ValueKind::Any,
            Self::Is(Value::Object(_)) => ValueKind::Map,
            Self::Is(Value::Array(_)) => ValueKind::List,
            Self::Is(_) => ValueKind::Scalar,
        }
    }

    fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }

    fn map(self) -> MapSide<'v> {
        match self {
            Self::Is(Value::Object(map)) => MapSide::Is(map),
            Self::Zero => MapSide::Zero,
            Self::Absent | Self::Is(_) => MapSide::Absent,
        }
    }

    fn list(self) -> &'v [Value] {
        match self {
            Self::Is(Value::Array(list)) => list,
            _ => &[],
        }
    }

    /// Whether there is nothing inside to descend into.
    fn is_hollow(self) -> bool {
        match self {
            Self::Is(Value::Object(map)) => map.is_empty(),
            Self::Is(Value::Array(list)) => list.is_empty(),
            _ => true,
        }
    }
}

#[derive(Default)]
struct Mark {
    member: bool,
    below: FieldSet,
}

impl Mark {
    fn is_void(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

/// What a walk found at and below one place.
#[derive(Default)]
struct FieldChanges {
    added: Mark,
    modified: Mark,
    removed: Mark,
}

impl FieldChanges {
    /// Takes over what was found one step below; steps must come in order.
    fn attach(&mut self, step: impl FnOnce() -> String, found: Self) {
        let parts = [
            (&mut self.added, found.added),
            (&mut self.modified, found.modified),
            (&mut self.removed, found.removed),
        ];
        let mut step = Some(step);
        let mut text: Option<String> = None;
        for (mine, theirs) in parts {
            if theirs.is_void() {
                continue;
            }
            let text = match (&text, step.take()) {
                (Some(text), _) => text.clone(),
                (None, Some(make)) => text.insert(make()).clone(),
                (None, None) => continue,
            };
            mine.below.push(text, theirs.member, theirs.below);
        }
    }
}

fn values<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    old: ComparedValue<'_>,
    new: ComparedValue<'_>,
    found: &mut FieldChanges,
) {
    let form = match (old.form(), new.form()) {
        (ValueKind::Any, form) | (form, ValueKind::Any) => form,
        (left, right) if left == right => left,
        _ => return changed_form(schema, node, old, new, found),
    };
    let whole = match form {
        ValueKind::Map => schema.atomic_map(node),
        ValueKind::List => matches!(schema.list(node), ListRule::Atomic),
        ValueKind::Any | ValueKind::Scalar => true,
    };
    // Two empty values differ as a whole or not at all, which keeps null apart from empty.
    if whole || (old.is_hollow() && new.is_hollow()) {
        return leaf(old, new, found);
    }
    if form == ValueKind::Map {
        maps(schema, node, old.map(), new.map(), found);
    } else {
        lists(schema, node, old.list(), new.list(), found);
    }
    if old.is_absent() {
        found.added.member = true;
    } else if new.is_absent() {
        found.removed.member = true;
    }
}

fn leaf(old: ComparedValue<'_>, new: ComparedValue<'_>, found: &mut FieldChanges) {
    match (old, new) {
        (ComparedValue::Absent, _) => found.added.member = true,
        (_, ComparedValue::Absent) => found.removed.member = true,
        (ComparedValue::Zero, ComparedValue::Is(value))
        | (ComparedValue::Is(value), ComparedValue::Zero) => {
            found.modified.member = !is_zero(value);
        }
        (ComparedValue::Is(old), ComparedValue::Is(new)) => found.modified.member = !same(old, new),
        (ComparedValue::Zero, ComparedValue::Zero) => {}
    }
}

/// A map became a list or the like: the old parts are gone, the new ones are there.
fn changed_form<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    old: ComparedValue<'_>,
    new: ComparedValue<'_>,
    found: &mut FieldChanges,
) {
    let mut gone = FieldChanges::default();
    values(schema, node, old, ComparedValue::Absent, &mut gone);
    let mut come = FieldChanges::default();
    values(schema, node, ComparedValue::Absent, new, &mut come);
    found.modified.member = true;
    found.removed.below = gone.removed.below;
    found.added.below = come.added.below;
}

fn maps<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    old: MapSide<'_>,
    new: MapSide<'_>,
    found: &mut FieldChanges,
) {
    let mut left = old.iter();
    let mut right = new.iter();
    let mut visit = |name: &str, old: ComparedValue<'_>, new: ComparedValue<'_>, zero: bool| {
        let member = schema.member(node, name);
        let old = if zero && member.always { ComparedValue::Zero } else { old };
        let mut below = FieldChanges::default();
        values(schema, member.node, old, new, &mut below);
        found.attach(|| element::field(name), below);
    };
    let zero = matches!(old, MapSide::Zero);
    for (name, new) in &mut right {
        while let Some((gone, old)) = left.next_if(|(gone, _)| *gone < name) {
            visit(gone, ComparedValue::Is(old), ComparedValue::Absent, false);
        }
        let old = left.next_if(|(other, _)| *other == name);
        visit(
            name,
            old.map_or(ComparedValue::Absent, |(_, old)| ComparedValue::Is(old)),
            ComparedValue::Is(new),
            zero,
        );
    }
    for (gone, old) in left {
        visit(gone, ComparedValue::Is(old), ComparedValue::Absent, false);
    }
}

/// The items of a list under their steps, in order of the steps; items without one are left out.
fn stepped<'v, S: MergeSchema>(
    schema: &S,
    node: S::Node,
    list: &'v [Value],
) -> Vec<(String, &'v Value)> {
    let step = |item: &'v Value| Some((element::item(schema, node, item)?, item));
    let mut items: Vec<_> = list.iter().filter_map(step).collect();
    items.sort_by(|(left, _), (right, _)| left.cmp(right));
    items
}

fn lists<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    old: &[Value],
    new: &[Value],
    found: &mut FieldChanges,
) {
    let old = stepped(schema, node, old);
    let new = stepped(schema, node, new);
    let mut left = old.chunk_by(|(one, _), (two, _)| one == two).peekable();
    let mut right = new.chunk_by(|(one, _), (two, _)| one == two).peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(old), Some(new)) => step(old).cmp(step(new)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let old = left.next_if(|_| order.is_le()).unwrap_or_default();
        let new = right.next_if(|_| order.is_ge()).unwrap_or_default();
        let below = items(schema, schema.item(node), old, new);
        found.attach(|| step(if old.is_empty() { new } else { old }).to_owned(), below);
    }
}

/// The step that a group of items shares.
fn step<'g>(group: &'g [(String, &Value)]) -> &'g str {
    group.first().map_or("", |(step, _)| step)
}

/// Compares the items of one step; several of them are one unit.
fn items<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    old: &[(String, &Value)],
    new: &[(String, &Value)],
) -> FieldChanges {
    let mut found = FieldChanges::default();
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => {
            let old =
                old.first().map_or(ComparedValue::Absent, |(_, item)| ComparedValue::Is(item));
            let new =
                new.first().map_or(ComparedValue::Absent, |(_, item)| ComparedValue::Is(item));
            values(schema, node, old, new, &mut found);
        }
        (0 | 1, _) => {
            if let Some((_, item)) = old.first() {
                values(schema, node, ComparedValue::Is(item), ComparedValue::Absent, &mut found);
            }
            found.removed.member = false;
            found.added.member = true;
        }
        (_, 0 | 1) => {
            if let Some((_, item)) = new.first() {
                values(schema, node, ComparedValue::Absent, ComparedValue::Is(item), &mut found);
                found.added.member = false;
                found.modified.member = true;
            } else {
                found.removed.member = true;
            }
        }
        _ => {
            let equal = old.len() == new.len()
                && old.iter().zip(new).all(|((_, old), (_, new))| same(old, new));
            found.modified.member = !equal;
        }
    }
    found
}

/// The fields of an applied configuration: leaves, items of lists and keys of maps.
pub fn fields<S: MergeSchema>(schema: &S, object: &Object) -> FieldSet {
    fields_of_map(schema, schema.root(), object)
}

fn fields_of_map<S: MergeSchema>(schema: &S, node: S::Node, map: &Object) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in map {
        let member = schema.member(node, name);
        let mark = fields_of(schema, member.node, value);
        let empty = value.is_null() || value.as_object().is_some_and(Object::is_empty);
        set.push(element::field(name), mark.member || empty || !member.named, mark.below);
    }
    set
}

fn fields_of<S: MergeSchema>(schema: &S, node: S::Node, value: &Value) -> Mark {
    match value {
        Value::Object(map) if !schema.atomic_map(node) => {
            Mark { member: false, below: fields_of_map(schema, node, map) }
        }
        Value::Array(list) if !matches!(schema.list(node), ListRule::Atomic) => {
            let mut below = FieldSet::default();
            let items = stepped(schema, node, list);
            for group in items.chunk_by(|(one, _), (two, _)| one == two) {
                match group {
                    [(step, item)] => {
                        let mark = fields_of(schema, schema.item(node), item);
                        below.push(step.clone(), true, mark.below);
                    }
                    [(step, _), ..] => below.push(step.clone(), true, FieldSet::default()),
                    [] => {}
                }
            }
            Mark { member: false, below }
        }
        _ => Mark { member: true, below: FieldSet::default() },
    }
}

/// Whether the value is what an unset member would be written as.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) => false,
        Value::Object(map) => map.values().all(is_zero),
    }
}

/// Whether two values are equal, with `1` and `1.0` the same number.
#[must_use]
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() != right.is_f64() && left.as_f64() == right.as_f64())
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((a, left), (b, right))| a == b && same(left, right))
        }
        _ => left == right,
    }
}
