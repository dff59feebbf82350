//! The safety properties of spec/ownership.md 19.5, looked up in the truth at the moment of a write.
//!
//! With one order (`up`) each of S1 to S9 is checked as it is written. S12 speaks of the decision: a
//! policy must be the one of R91 or R92 at the revision it was decided at. No guard names the dependents
//! that a deletion in the foreground waits for, so that those may go before it is committed; it then
//! waits for nobody, which harms nobody.
//!
//! Without one (`attach`) no commit can hold other objects still, so a write is judged twice:
//!
//! ```text
//!   by what its host had been told   S1, S2, S4, S6, S7, S8, S9 as written: the decision is right
//!   by the truth                     what cannot be undone: no owner that lives untouched loses a
//!                                    dependent (S1) or a reference (S6); what moved, had moved before
//! ```
//!
//! What remains is upstream's own race: a dependent that nobody has told of yet (R118, closed in `up`),
//! an owner that stops waiting, a kind that is served no longer. S12 is not asked there, because a
//! waiting owner may be known by an answer only, which no watch has shown.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Revision;
use tenure_ownership::{
    DeletionPropagation, Finalizer, OwnerIdentity, OwnershipRule, OwnershipWrite, WriteAction,
};

use crate::model::{self, SimulatedOwnerState};
use crate::ops::SimulatedWorld;
use crate::store::{Ref, SimulatedObject, SimulatedStore, StoreEvent};

/// Whether a write of a host with one order may be carried out now; all its guards hold.
///
/// # Errors
/// The property that would be broken.
pub fn exact(
    store: &SimulatedStore,
    write: &OwnershipWrite,
    decided: Revision,
) -> Result<(), String> {
    let Some(thing) = store.things.get(&*write.key.uid) else { return Ok(()) };
    right(store, thing, write)?;
    match write.action {
        WriteAction::Delete(policy) if !thing.terminating => {
            policy_of(store, thing, policy, decided)
        }
        _ => Ok(()),
    }
}

/// Whether a write of a host without one order may be carried out now. `seen` is what the host has been
/// told; `None` for a write that is on its way although something newer has superseded it.
///
/// # Errors
/// The property that would be broken.
pub fn lagging(
    truth: &SimulatedStore,
    seen: Option<&SimulatedStore>,
    write: &OwnershipWrite,
) -> Result<(), String> {
    let uid = &*write.key.uid;
    if let Some(seen) = seen
        && let Some(thing) = seen.things.get(uid)
    {
        right(seen, thing, write).map_err(|broken| format!("{broken}, as the host knows"))?;
    }
    // Required by uid only (R146), the object itself may have moved on too.
    let there = truth.things.get(uid).filter(|_| write.revision.is_some());
    there.map_or(Ok(()), |thing| harmless(truth, thing, write))
}

/// S1, S2 and S4 to S9, as they are written, on one state.
fn right(
    store: &SimulatedStore,
    thing: &SimulatedObject,
    write: &OwnershipWrite,
) -> Result<(), String> {
    let worths: Vec<SimulatedOwnerState> =
        thing.owners.iter().map(|owner| model::worth(store, thing, owner)).collect();
    match &write.action {
        WriteAction::Delete(_) => {
            ensure(!thing.owners.is_empty(), "S5: an object without references is deleted")?;
            let solid = |worth: &SimulatedOwnerState| {
                matches!(worth, SimulatedOwnerState::Solid | SimulatedOwnerState::Orphaning)
            };
            ensure(!worths.iter().any(solid), "S1: an object with an owner is deleted")?;
            ensure(
                !worths.contains(&SimulatedOwnerState::Unresolvable),
                "S2: a reference is unresolvable",
            )
        }
        WriteAction::DropReferences(drops) => {
            let told = named_references(thing, drops);
            for reference in &told {
                let worth = model::worth(store, thing, reference);
                ensure(worth != SimulatedOwnerState::Solid, "S6: a solid reference is dropped")?;
                ensure(
                    worth != SimulatedOwnerState::Unresolvable,
                    "S2: an unresolvable reference is dropped",
                )?;
            }
            let survives = told.len() < thing.owners.len();
            ensure(survives || write.rule != OwnershipRule::R90, "S7: no reference is left")
        }
        WriteAction::Unblock(open) => {
            let ties = model::ties(store);
            for reference in named_references(thing, open) {
                let on_ring = model::reaches(&ties, &reference.uid, &thing.uid)
                    && ties.get(&thing.uid).is_some_and(|owners| owners.contains(&reference.uid));
                ensure(on_ring || !reference.block, "S8: an edge outside rings is unblocked")?;
            }
            Ok(())
        }
        WriteAction::DropFinalizer(finalizer) => {
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
    }
}

/// What may not be undone in the truth, however old the news was that a host decided on.
fn harmless(
    truth: &SimulatedStore,
    thing: &SimulatedObject,
    write: &OwnershipWrite,
) -> Result<(), String> {
    let gone: Vec<Ref> = match &write.action {
        WriteAction::Delete(_) => thing.owners.clone(),
        WriteAction::DropReferences(drops) => named_references(thing, drops),
        WriteAction::Unblock(open) => {
            let ties = ties_ever(truth);
            for reference in named_references(thing, open) {
                let ring = model::reaches(&ties, &reference.uid, &thing.uid);
                ensure(ring || !reference.block, "S8: an edge that never was on a ring")?;
            }
            return Ok(());
        }
        WriteAction::DropFinalizer(_) => return Ok(()),
    };
    for owner in &gone {
        let namespaced = model::resolve(truth, owner).is_some_and(model::is_namespaced);
        let never = namespaced && thing.namespace.is_empty();
        ensure(!never, "S2: a reference that can never be resolved (R16)")?;
        let served = model::resolve(truth, owner).is_some() || truth.types_revision > 0;
        ensure(served, "S2: a reference of a kind that never was served")?;
        let Some(owner) = model::valid(truth, thing, owner) else { continue };
        ensure(owner.terminating, "S1, S6: a living owner loses a dependent")?;
        // Deletion cannot be taken back, but an owner may wait no longer.
        let moved = |thing: &SimulatedObject| thing.waiting() || thing.orphaning();
        ensure(ever(truth, &owner.uid, moved), "S1, S6: an owner that never let go")?;
    }
    Ok(())
}

/// The policy of a deletion is the one of R91 or R92, now or when it was decided (S12).
fn policy_of(
    store: &SimulatedStore,
    thing: &SimulatedObject,
    policy: DeletionPropagation,
    decided: Revision,
) -> Result<(), String> {
    let wanted = Some(model::Should::Delete(policy));
    if model::should(store, thing) == wanted {
        return Ok(());
    }
    let past = store.at(decided.0);
    let then = past.things.get(&thing.uid).and_then(|thing| model::should(&past, thing));
    ensure(then == wanted, &format!("S12: policy {policy:?}, the model says {then:?}"))
}

/// The references of an object that an intent tells of.
fn named_references(thing: &SimulatedObject, refs: &[OwnerIdentity]) -> Vec<Ref> {
    let told = |owner: &&Ref| refs.iter().any(|told| owner.is(told));
    thing.owners.iter().filter(told).cloned().collect()
}

/// Whether an object was ever so.
fn ever(store: &SimulatedStore, uid: &str, so: impl Fn(&SimulatedObject) -> bool) -> bool {
    store.log.iter().any(|(_, event)| match event {
        StoreEvent::Put(thing) | StoreEvent::Gone(thing) => thing.uid == uid && so(thing),
        StoreEvent::Types(..) => false,
    })
}

/// Every tie that there ever was between objects that ever waited.
fn ties_ever(store: &SimulatedStore) -> BTreeMap<String, BTreeSet<String>> {
    let mut ties: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, event) in &store.log {
        let StoreEvent::Put(thing) = event else { continue };
        if thing.waiting() {
            let owners = thing.owners.iter().filter(|owner| owner.block);
            let owners = owners.map(|owner| owner.uid.clone());
            ties.entry(thing.uid.clone()).or_default().extend(owners);
        }
    }
    ties
}

/// At rest nothing is left to do, and nothing waits without a reason.
///
/// # Errors
/// What is left to do.
pub fn at_rest(world: &SimulatedWorld) -> Result<(), String> {
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

/// After everybody let go, only what in the end waits for an unresolvable reference, or is not
/// collected, may still be Terminating.
///
/// # Errors
/// Who still is.
pub fn all_released(world: &SimulatedWorld) -> Result<(), String> {
    let store = &world.store;
    let left = || store.things.values().filter(|thing| thing.terminating);
    let frozen = |thing: &SimulatedObject| {
        let unclear =
            |owner: &Ref| model::worth(store, thing, owner) == SimulatedOwnerState::Unresolvable;
        thing.owners.iter().any(unclear)
    };
    let mut excused: BTreeSet<&str> = BTreeSet::new();
    loop {
        let holds = |(dependent, reference): (&SimulatedObject, &Ref), owner: &SimulatedObject| {
            let waited_for = reference.block || owner.orphaning();
            waited_for && (frozen(dependent) || excused.contains(&*dependent.uid))
        };
        let excuse = |thing: &&SimulatedObject| {
            !model::collected(store, thing.row)
                || model::dependents(store, thing).any(|dependent| holds(dependent, thing))
        };
        let now: BTreeSet<&str> = left().filter(excuse).map(|thing| &*thing.uid).collect();
        if now.len() == excused.len() {
            break;
        }
        excused = now;
    }
    let stuck = left().find(|thing| !excused.contains(&*thing.uid));
    ensure(stuck.is_none(), &format!("L2, L3: {:?} is still Terminating", stuck.map(|t| &t.uid)))
}

/// What the engine wants, by uid, is what the model wants.
///
/// # Errors
/// Where they differ.
pub fn same_as_model(
    store: &SimulatedStore,
    wants: &BTreeMap<String, OwnershipWrite>,
) -> Result<(), String> {
    let mut ties = model::ties(store);
    for thing in store.things.values() {
        let should = model::should(store, thing);
        let want = wants.get(&thing.uid).map(|write| &write.action);
        let same = match (&should, want) {
            (None, Some(WriteAction::Unblock(open))) => {
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
            (Some(model::Should::Delete(a)), Some(WriteAction::Delete(b))) => a == b,
            (Some(model::Should::Finish(a)), Some(WriteAction::DropFinalizer(b))) => a == b,
            (Some(model::Should::Drop(a)), Some(WriteAction::DropReferences(b))) => {
                // Who must first lose a reference to an orphaning owner opens its ring afterwards.
                ties.remove(&thing.uid);
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
        let left = model::reaches(&ties, uid, uid);
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
