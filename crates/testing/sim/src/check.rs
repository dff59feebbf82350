//! The safety properties of spec/ownership.md 19.5, looked up in the truth at the moment of a write.

use std::collections::BTreeMap;

use tenure_ownership::{Action, Finalizer, Policy, Write};

use crate::model::{self, Worth};
use crate::ops::World;
use crate::store::{Ref, Store, Thing};

/// How exactly a host can know the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Guards are checked in the same commit.
    Exact,
    /// Only the object itself is; other objects may have moved on.
    Lagging,
}

/// Whether a write may be carried out now.
///
/// # Errors
/// The property that would be broken.
pub fn write(store: &Store, write: &Write, sight: Sight) -> Result<(), String> {
    let Some(thing) = store.things.get(&*write.key.uid) else { return Ok(()) };
    // Required by uid only (R146), the object itself may have moved on too.
    if write.revision.is_none() && sight == Sight::Lagging {
        return Ok(());
    }
    let told = |refs: &[tenure_ownership::Reference]| -> Vec<Ref> {
        thing
            .owners
            .iter()
            .filter(|owner| refs.iter().any(|told| owner.is(told)))
            .cloned()
            .collect()
    };
    let worths: Vec<Worth> =
        thing.owners.iter().map(|owner| model::worth(store, thing, owner)).collect();
    match &write.action {
        Action::Delete(policy) => delete(store, thing, *policy, &worths, sight),
        Action::DropReferences(drops) => {
            for reference in told(drops) {
                let worth = model::worth(store, thing, &reference);
                let solid = model::valid(store, thing, &reference)
                    .is_some_and(|owner| worth == Worth::Solid && !owner.terminating);
                ensure(
                    sight == Sight::Lagging || worth != Worth::Solid,
                    "S6: a solid one dropped",
                )?;
                ensure(!solid, "S6: a reference to a living owner is dropped")?;
                ensure(
                    sight == Sight::Lagging || worth != Worth::Unresolvable,
                    "S2: an unresolvable reference is dropped",
                )?;
            }
            let survives = told(drops).len() < thing.owners.len();
            let orphaned = worths.contains(&Worth::Orphaning);
            ensure(survives || orphaned || sight == Sight::Lagging, "S7: no reference is left")
        }
        Action::Unblock(open) => {
            let ties = model::ties(store);
            for reference in told(open) {
                let on_ring = model::reaches(&ties, &reference.uid, &thing.uid)
                    && ties.get(&thing.uid).is_some_and(|owners| owners.contains(&reference.uid));
                let justified = on_ring || sight == Sight::Lagging || !reference.block;
                ensure(justified, "S8: an edge outside rings is unblocked")?;
            }
            Ok(())
        }
        Action::DropFinalizer(finalizer) if sight == Sight::Exact => {
            let mut dependents = model::dependents(store, thing);
            match finalizer {
                Finalizer::Foreground => ensure(
                    !dependents.any(|(_, reference)| reference.block),
                    "S4: a blocking dependent lives",
                ),
                Finalizer::Orphan => {
                    ensure(dependents.next().is_none(), "S9: somebody still refers to the owner")
                }
            }
        }
        Action::DropFinalizer(_) => Ok(()),
    }
}

fn delete(
    store: &Store,
    thing: &Thing,
    policy: Policy,
    worths: &[Worth],
    sight: Sight,
) -> Result<(), String> {
    ensure(!thing.owners.is_empty(), "S5: an object without references is deleted")?;
    for (owner, worth) in thing.owners.iter().zip(worths) {
        let living = model::valid(store, thing, owner).is_some_and(|owner| !owner.terminating);
        ensure(!living, "S1: an object with a living owner is deleted")?;
        if sight == Sight::Exact {
            ensure(!matches!(worth, Worth::Solid | Worth::Orphaning), "S1: a solid owner")?;
            ensure(*worth != Worth::Unresolvable, "S2: a reference is unresolvable")?;
        } else if store.types_revision == 0 {
            ensure(*worth != Worth::Unresolvable, "S2: a reference is unresolvable")?;
        }
    }
    if sight == Sight::Exact && !thing.terminating {
        let should = model::should(store, thing);
        let right = should == Some(model::Should::Delete(policy));
        // Dependents that went meanwhile leave nothing for the foreground to wait for.
        let idle = policy == Policy::Foreground && worths.contains(&Worth::Waiting);
        ensure(right || idle, &format!("S12: policy {policy:?}, the model says {should:?}"))?;
    }
    Ok(())
}

/// At rest nothing is left to do, and nothing waits without a reason.
///
/// # Errors
/// What is left to do.
pub fn at_rest(world: &World) -> Result<(), String> {
    let store = &world.store;
    for thing in store.things.values() {
        if let Some(should) = model::should(store, thing) {
            return Err(format!("L1-L4: at rest, but {} should {should:?}", thing.uid));
        }
    }
    let ties = model::ties(store);
    for uid in ties.keys() {
        ensure(!model::reaches(&ties, uid, uid), &format!("L2: {uid} is on a ring at rest"))?;
    }
    Ok(())
}

/// After everybody let go, only what depends on an unresolvable reference may still be Terminating.
///
/// # Errors
/// Who still is.
pub fn all_released(world: &World) -> Result<(), String> {
    let store = &world.store;
    for thing in store.things.values().filter(|thing| thing.terminating) {
        let excused = !model::collected(store, thing.row)
            || model::dependents(store, thing).any(|(dependent, reference)| {
                (reference.block || thing.orphaning())
                    && (dependent.terminating
                        || dependent.owners.iter().any(|owner| {
                            model::worth(store, dependent, owner) == Worth::Unresolvable
                        }))
            });
        ensure(excused, &format!("L2, L3: {} is still Terminating", thing.uid))?;
    }
    Ok(())
}

/// What the engine wants, by uid, is what the model wants.
///
/// # Errors
/// Where they differ.
pub fn same_as_model(store: &Store, wants: &BTreeMap<String, Write>) -> Result<(), String> {
    let mut ties = model::ties(store);
    let mut excused = false;
    for thing in store.things.values() {
        let should = model::should(store, thing);
        let want = wants.get(&thing.uid).map(|write| &write.action);
        let same = match (&should, want) {
            (None, Some(Action::Unblock(open))) => {
                for told in open {
                    let ring = model::reaches(&model::ties(store), &told.uid, &thing.uid);
                    ensure(ring, "S8: the engine opens what is no ring")?;
                    if let Some(owners) = ties.get_mut(&thing.uid) {
                        owners.remove(&*told.uid);
                    }
                }
                true
            }
            (None, None) => true,
            (Some(model::Should::Delete(a)), Some(Action::Delete(b))) => a == b,
            (Some(model::Should::Finish(a)), Some(Action::DropFinalizer(b))) => a == b,
            (Some(model::Should::Drop(a)), Some(Action::DropReferences(b))) => {
                excused |= thing.terminating;
                a.iter().all(|owner| b.iter().any(|told| owner.is(told)))
                    && b.iter().all(|told| a.iter().any(|owner| owner.is(told)))
            }
            _ => false,
        };
        ensure(
            same,
            &format!("model: {} should {should:?}, the engine wants {want:?}", thing.uid),
        )?;
    }
    let ghosts = wants.keys().find(|uid| !store.things.contains_key(*uid));
    ensure(ghosts.is_none(), &format!("model: the engine wants something of a ghost {ghosts:?}"))?;
    for uid in ties.keys() {
        // Who must first lose a reference to an orphaning owner opens its ring afterwards.
        let left = !excused && model::reaches(&ties, uid, uid);
        ensure(!left, &format!("model: no opening for the ring of {uid}"))?;
    }
    Ok(())
}

/// Fails with a property when it does not hold.
///
/// # Errors
/// The property.
pub fn ensure(holds: bool, property: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(property.to_owned()) }
}
