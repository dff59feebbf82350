//! States of the past, made from the nearest known state by undoing the changes since.
//!
//! Pages of one list ask for the same revision again and again, so the last few are kept.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Revision;

use crate::history::RetainedChanges;
use crate::shared::PublishedState;
use crate::snapshot::World;

/// How many states of the past are kept for those who ask again.
const KEPT: usize = 16;

/// Why there is no state at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The history that leads there is gone; the oldest revision still known is given.
    #[error("revision is compacted; the oldest known is {0}")]
    Compacted(Revision),
    /// The revision is yet to come; the newest revision is given.
    #[error("revision is in the future; the newest is {0}")]
    Future(Revision),
}

/// The states that were asked for lately, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Past {
    kept: Mutex<VecDeque<Arc<World>>>,
}

impl Past {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<World>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept state nearest at or after a revision; an exact one moves to the front.
    fn nearest(&self, revision: Revision) -> Option<Arc<World>> {
        let mut kept = self.lock();
        if let Some(at) = kept.iter().position(|world| world.revision == revision) {
            let world = kept.remove(at)?;
            kept.push_front(world.clone());
            return Some(world);
        }
        kept.iter().filter(|w| w.revision > revision).min_by_key(|w| w.revision).cloned()
    }

    fn keep(&self, world: Arc<World>) {
        let mut kept = self.lock();
        if kept.iter().all(|other| other.revision != world.revision) {
            kept.push_front(world);
            kept.truncate(KEPT);
        }
    }

    /// Lets go of the states before a revision.
    pub(crate) fn forget(&self, oldest: Revision) {
        self.lock().retain(|world| world.revision >= oldest);
    }
}

/// The exact state after a revision.
pub(crate) fn at(shared: &PublishedState, revision: Revision) -> Result<Arc<World>, RevisionError> {
    let current = shared.world.load_full();
    let retained = shared.retained.load_full();
    if revision == current.revision {
        return Ok(current);
    }
    if revision > current.revision {
        return Err(RevisionError::Future(current.revision));
    }
    if revision < retained.oldest {
        return Err(RevisionError::Compacted(retained.oldest));
    }
    let base = match shared.past.nearest(revision) {
        Some(world) if world.revision == revision => return Ok(world),
        // One made from a newer state than ours would need changes we did not load.
        Some(world) if world.revision < current.revision => world,
        _ => current,
    };
    let world =
        undo(&base, &retained, revision).ok_or(RevisionError::Compacted(retained.oldest))?;
    let world = Arc::new(world);
    shared.past.keep(world.clone());
    Ok(world)
}

/// Undoes every change after `revision`: each key goes back to what its first such change replaced.
fn undo(base: &World, retained: &RetainedChanges, revision: Revision) -> Option<World> {
    let begin = retained.position(revision).min(base.end);
    let mut objects = base.objects.clone();
    let mut undone: HashSet<&str> = HashSet::new();
    for number in begin..base.end {
        let change = retained.get(number)?;
        if !undone.insert(&change.key) {
            continue;
        }
        match &change.before {
            Some(before) => objects.insert(change.key.clone(), before.clone()),
            None => objects.remove(&change.key),
        };
    }
    Some(World { revision, objects, end: begin })
}
