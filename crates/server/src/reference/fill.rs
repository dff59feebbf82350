//! Telling the index many origins beside the commits (R174): no commit waits for more than a few of them.
//!
//! ```text
//!   commit of a strategy ──► a state is kept ──► read some, without a lock ──► tell them ──► read some …
//!   commit of an origin  ──► told at once, and marked: what is kept of it is old
//! ```
//!
//! Only for a type of which nothing was told before, and for a new strategy: what comes late is what is added, never
//! what is taken away, and nothing that was there is interrupted. Whoever wrote the strategy is answered afterwards.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tenure_reference::Outputs;
use tenure_world::{Record, World};

use super::feed::Fed;
use crate::access::Access;

/// Up to so many origins are told within the commit.
pub(super) const WITHIN_COMMIT: usize = 32;
/// So many are told before a commit may come between.
const AT_ONCE: usize = 64;
/// Commits that wait get their turn meanwhile.
const PAUSE: Duration = Duration::from_micros(50);

/// A type that is being told; the commits know of it.
pub(super) struct Ongoing {
    /// The type, at its version.
    pub(super) fed: Fed,
    /// What commits have told themselves. Locked only by whoever has the index.
    told: Mutex<HashSet<Arc<str>>>,
    ended: AtomicBool,
}

impl Ongoing {
    /// A commit has told this one.
    pub(super) fn mark(&self, key: &Arc<str>) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(key));
    }

    fn is_told(&self, key: &str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Whether all was told, or nobody wants it any more.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Nothing more is told; whether something would have been. Called by whoever has the index.
    pub(super) fn end(&self, access: &Access) -> bool {
        let was_going = !self.ended.swap(true, Ordering::AcqRel);
        if was_going {
            access.standing().filling(false);
        }
        was_going
    }
}

/// Starts telling all of a type; `None` if that cannot be done beside the commits.
pub(super) fn start(access: &Arc<Access>, world: &World, fed: Fed) -> Option<Arc<Ongoing>> {
    let ongoing = Ongoing { fed, told: Mutex::default(), ended: AtomicBool::new(false) };
    let ongoing = Arc::new(ongoing);
    let filler = Filler {
        access: Arc::downgrade(access),
        world: world.clone(),
        ongoing: Arc::clone(&ongoing),
    };
    access.standing().filling(true);
    let thread = std::thread::Builder::new().name("reference-fill".to_owned());
    match thread.spawn(move || filler.run()) {
        Ok(_) => Some(ongoing),
        Err(error) => {
            tracing::warn!(%error, "origins are told within the commit");
            ongoing.end(access);
            None
        }
    }
}

struct Filler {
    access: Weak<Access>,
    /// The state at the start; what has changed since is marked.
    world: World,
    ongoing: Arc<Ongoing>,
}

impl Filler {
    fn run(self) {
        let mut after: Option<Arc<str>> = None;
        loop {
            // Reading costs most, and needs no lock.
            let read = self.read(after.as_deref());
            after = read.last().map(|(record, _)| Arc::clone(record.key()));
            let Some(access) = self.access.upgrade() else { return };
            if self.tell(&access, &read) {
                return;
            }
            drop(access);
            std::thread::sleep(PAUSE);
        }
    }

    fn read(&self, after: Option<&str>) -> Vec<(Arc<Record>, Option<Value>)> {
        let served = &self.ongoing.fed.served;
        let records = self.world.range(&served.prefix, after).take(AT_ONCE);
        records
            .map(|record| (Arc::clone(record), served.read(record).ok().map(Value::Object)))
            .collect()
    }

    /// Tells what was read; whether that was the end.
    fn tell(&self, access: &Access, read: &[(Arc<Record>, Option<Value>)]) -> bool {
        let (standing, ongoing) = (access.standing(), &*self.ongoing);
        let mut index = standing.index_to_change();
        if ongoing.is_ended() {
            return true;
        }
        let mut out = Outputs::default();
        for (record, object) in read {
            if let Some(object) = object.as_ref().filter(|_| !ongoing.is_told(record.key())) {
                ongoing.fed.put_read(&mut index, record, object, &mut out);
            }
        }
        let ends = read.len() < AT_ONCE;
        if ends {
            ongoing.fed.synced(&mut index, &mut out);
        }
        standing.publish(&mut index, self.world.revision(), &out);
        standing.teller().tell(self.world.revision(), &mut out.reports);
        if ends {
            ongoing.end(access);
        }
        ends
    }
}
