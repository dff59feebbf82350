//! What each pod of the node was given of its room (R111b): who wants more is compared with all others at one
//! moment, so that two pods never get the same room. What fits is decided by the engine.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tenure_lifecycle::{NodeCapacity, PendingResize, PodRequests, pending_resize};

/// What pods were given, by their uids.
#[derive(Default)]
pub(crate) struct Allocations(Mutex<HashMap<String, PodRequests>>);

impl Allocations {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<String, PodRequests>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod was taken with these requests.
    pub(crate) fn put(&self, uid: &str, given: PodRequests) {
        self.all().insert(uid.to_owned(), given);
    }

    /// A pod needs nothing any more.
    pub(crate) fn remove(&self, uid: &str) {
        self.all().remove(uid);
    }

    /// What a pod was given.
    pub(crate) fn of(&self, uid: &str) -> Option<PodRequests> {
        self.all().get(uid).cloned()
    }

    /// Gives a pod what it wants instead of what it has.
    ///
    /// # Errors
    /// It does not fit.
    pub(crate) fn change(
        &self,
        uid: &str,
        wanted: PodRequests,
        room: &NodeCapacity,
        generation: i64,
    ) -> Result<(), PendingResize> {
        let mut all = self.all();
        let given = all.get(uid).cloned().unwrap_or_default();
        let others: Vec<PodRequests> =
            all.iter().filter(|(other, _)| *other != uid).map(|(_, given)| given.clone()).collect();
        match pending_resize(&given, &wanted, room, &others, generation) {
            Some(pending) => Err(pending),
            None => {
                all.insert(uid.to_owned(), wanted);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r111b_room_is_given_once() {
        let cpu = |cpu_millis| PodRequests { cpu_millis, ..PodRequests::default() };
        let room = NodeCapacity { cpu_millis: 1000, ..NodeCapacity::default() };
        let all = Allocations::default();
        all.put("a", cpu(300));
        all.put("b", cpu(300));
        assert_eq!(all.change("a", cpu(600), &room, 2), Ok(()));
        assert_eq!(all.change("b", cpu(600), &room, 2).unwrap_err().reason(), "Deferred");
        assert_eq!(all.of("b").unwrap(), cpu(300));
        all.remove("a");
        assert_eq!(all.change("b", cpu(600), &room, 2), Ok(()));
    }
}
