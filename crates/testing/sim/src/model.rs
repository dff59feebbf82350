//! The slow, obvious model: what should happen, recomputed from the whole truth each time.
//!
//! It knows no graph, no counts and no memory. Where it and the engine differ, one of them is wrong.

use std::collections::{BTreeMap, BTreeSet};

use tenure_ownership::{DeletionPropagation, Finalizer};

use crate::store::{ROWS, Ref, SimulatedObject, SimulatedStore, same_resource};

/// What a reference is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulatedOwnerState {
    /// The owner lives.
    Solid,
    /// The owner lives and leaves its dependents behind.
    Orphaning,
    /// The owner is being deleted in the foreground.
    Waiting,
    /// There is no such owner.
    Dangling,
    /// Nothing may be concluded.
    Unresolvable,
}

/// What should happen to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Should {
    /// It should be deleted.
    Delete(DeletionPropagation),
    /// It should lose these references.
    Drop(Vec<Ref>),
    /// It should lose this finalizer.
    Finish(Finalizer),
}

/// The row that a reference's kind resolves to.
#[must_use]
pub fn resolve(store: &SimulatedStore, owner: &Ref) -> Option<usize> {
    let same = |number: &usize| {
        ROWS.get(*number)
            .is_some_and(|row| row.api_version == owner.api_version && row.kind == owner.kind)
    };
    store.served.iter().copied().find(same)
}

/// Whether objects of a row live in namespaces.
#[must_use]
pub fn is_namespaced(row: usize) -> bool {
    ROWS.get(row).is_some_and(|row| row.namespaced)
}

/// Whether objects of a row are collected: some version of it is served.
#[must_use]
pub fn collected(store: &SimulatedStore, row: usize) -> bool {
    store.served.iter().any(|served| {
        same_resource(*served, row) && ROWS.get(*served).is_some_and(|row| row.collected)
    })
}

/// The owner that a reference is valid for.
#[must_use]
pub fn valid<'a>(
    store: &'a SimulatedStore,
    dependent: &SimulatedObject,
    owner: &Ref,
) -> Option<&'a SimulatedObject> {
    let row = resolve(store, owner)?;
    let found = store.things.get(&owner.uid)?;
    let namespaced = ROWS.get(row)?.namespaced;
    let namespace = if namespaced { dependent.namespace.as_str() } else { "" };
    let there = same_resource(found.row, row)
        && found.name == owner.name
        && found.namespace == namespace
        && !(namespaced && dependent.namespace.is_empty());
    there.then_some(found)
}

/// What a reference is worth at this moment.
#[must_use]
pub fn worth(
    store: &SimulatedStore,
    dependent: &SimulatedObject,
    owner: &Ref,
) -> SimulatedOwnerState {
    let Some(row) = resolve(store, owner) else { return SimulatedOwnerState::Unresolvable };
    if ROWS.get(row).is_some_and(|row| row.namespaced) && dependent.namespace.is_empty() {
        return SimulatedOwnerState::Unresolvable;
    }
    match valid(store, dependent, owner) {
        None => SimulatedOwnerState::Dangling,
        Some(found) if found.waiting() => SimulatedOwnerState::Waiting,
        Some(found) if found.orphaning() && found.uid != dependent.uid => {
            // Nobody finishes the deletion of what is not collected, so nobody begins it either.
            if collected(store, found.row) {
                SimulatedOwnerState::Orphaning
            } else {
                SimulatedOwnerState::Solid
            }
        }
        Some(_) => SimulatedOwnerState::Solid,
    }
}

/// The collected objects other than itself that refer validly to an owner.
pub fn dependents<'a>(
    store: &'a SimulatedStore,
    owner: &'a SimulatedObject,
) -> impl Iterator<Item = (&'a SimulatedObject, &'a Ref)> {
    let others = store.things.values().filter(|thing| thing.uid != owner.uid);
    others
        .filter(|thing| collected(store, thing.row))
        .flat_map(|thing| thing.owners.iter().map(move |reference| (thing, reference)))
        .filter(|(thing, reference)| {
            reference.uid == owner.uid && valid(store, thing, reference).is_some()
        })
}

/// What should happen to an object, but for rings.
#[must_use]
pub fn should(store: &SimulatedStore, thing: &SimulatedObject) -> Option<Should> {
    if !collected(store, thing.row) {
        return None;
    }
    let of = |wanted: &[SimulatedOwnerState]| -> Vec<Ref> {
        let matching = |owner: &&Ref| wanted.contains(&worth(store, thing, owner));
        thing.owners.iter().filter(matching).cloned().collect()
    };
    let orphaned = of(&[SimulatedOwnerState::Orphaning]);
    if thing.terminating {
        if !orphaned.is_empty() {
            return Some(Should::Drop(orphaned));
        }
        if thing.orphaning() {
            let free = dependents(store, thing).next().is_none();
            return free.then_some(Should::Finish(Finalizer::Orphan));
        }
        let blocked = dependents(store, thing).any(|(_, reference)| reference.block);
        return (thing.waiting() && !blocked).then_some(Should::Finish(Finalizer::Foreground));
    }
    if !orphaned.is_empty() || !of(&[SimulatedOwnerState::Solid]).is_empty() {
        let drops = of(&[
            SimulatedOwnerState::Orphaning,
            SimulatedOwnerState::Waiting,
            SimulatedOwnerState::Dangling,
        ]);
        return (!drops.is_empty()).then_some(Should::Drop(drops));
    }
    if thing.owners.is_empty() || !of(&[SimulatedOwnerState::Unresolvable]).is_empty() {
        return None;
    }
    if !of(&[SimulatedOwnerState::Waiting]).is_empty() && dependents(store, thing).next().is_some()
    {
        return Some(Should::Delete(DeletionPropagation::Foreground));
    }
    Some(Should::Delete(if thing.has("orphan") {
        DeletionPropagation::Orphan
    } else if thing.has("foregroundDeletion") {
        DeletionPropagation::Foreground
    } else {
        DeletionPropagation::Background
    }))
}

/// The blocking references between waiting objects, by dependent: where rings may lie.
#[must_use]
pub fn ties(store: &SimulatedStore) -> BTreeMap<String, BTreeSet<String>> {
    let mut ties: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for owner in store.things.values().filter(|thing| thing.waiting()) {
        for (dependent, reference) in dependents(store, owner) {
            if dependent.waiting() && reference.block {
                ties.entry(dependent.uid.clone()).or_default().insert(owner.uid.clone());
            }
        }
    }
    ties
}

/// Whether one object can be reached from another along ties.
#[must_use]
pub fn reaches(ties: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut left, mut seen) = (vec![from.to_owned()], BTreeSet::new());
    while let Some(at) = left.pop() {
        for next in ties.get(&at).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    false
}

/// Whether a reference names a namespaced owner from outside its namespace.
#[must_use]
pub fn crosses(store: &SimulatedStore, dependent: &SimulatedObject, owner: &Ref) -> bool {
    let elsewhere = store
        .things
        .get(&owner.uid)
        .is_some_and(|found| !found.namespace.is_empty() && found.namespace != dependent.namespace);
    let scope = resolve(store, owner)
        .is_some_and(|row| ROWS.get(row).is_some_and(|row| row.namespaced))
        && dependent.namespace.is_empty();
    elsewhere || scope
}
