//! Telling the index many origins beside the commits (R174): no commit waits for more than a few of them.
//!
//! ```text
//!   a state is kept ──► read some, without a lock ──► tell them ──► read some …
//!   commit of an origin ──► told at once, and marked: what is kept of it is old
//! ```
//!
//! Only what is added comes late, never what is taken away. A strategy is told before it is stored (`prepare.rs`);
//! what a new form or version of a type brings, afterwards, and its writer is answered when all is told.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::Value;
use tenure_reference::{Outputs, PathFailure};
use tenure_world::{Record, World};
use tokio::sync::watch;

use super::clear;
use super::feeds::Fed;
use crate::access::AuthorizerChain;
use crate::clock;

/// So many are read together.
const AT_ONCE: usize = 64;
/// How long commits may have to wait for their turn.
pub(super) const SLICE: Duration = Duration::from_micros(300);
/// Commits that wait get their turn meanwhile.
pub(super) const PAUSE: Duration = Duration::from_micros(50);

/// A type that is being told; the commits know of it.
pub(super) struct Ongoing {
    /// The type, at its version.
    pub(super) fed: Fed,
    /// Whether somebody counts on it already; otherwise it is for a strategy that is to be stored.
    stored: bool,
    /// What commits have told themselves. Locked only by whoever has the index.
    marked: Mutex<HashSet<Arc<str>>>,
    /// What authors of origins should hear of once the strategy is stored.
    reports: Mutex<Vec<PathFailure>>,
    /// How it ended; whoever has the index ends it.
    end: watch::Sender<Option<FillOutcome>>,
}

/// How telling a type ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillOutcome {
    /// All of them were told.
    Announced,
    /// Nobody wants to hear of them any more, or not in this form.
    Cut,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ongoing {
    /// A type that is to be told because of what is stored.
    pub(super) fn stored(access: &AuthorizerChain, fed: Fed) -> Arc<Ongoing> {
        access.reference_authorizer().filling(true);
        Arc::new(Ongoing::new(fed, true))
    }

    /// A type that is to be told before a strategy is stored.
    pub(super) fn prepared(fed: Fed) -> Arc<Ongoing> {
        Arc::new(Ongoing::new(fed, false))
    }

    fn new(fed: Fed, stored: bool) -> Ongoing {
        Ongoing {
            fed,
            stored,
            marked: Mutex::default(),
            reports: Mutex::default(),
            end: watch::Sender::new(None),
        }
    }

    /// A commit has told this one.
    pub(super) fn mark(&self, key: &Arc<str>) {
        lock(&self.marked).insert(Arc::clone(key));
    }

    /// Whether all was told, or nobody wants it any more.
    pub(super) fn is_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Waits for that.
    pub(super) async fn ended(&self) {
        // The sender lives as long as this does.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Nothing more is told.
    pub(super) fn cut(&self, access: &AuthorizerChain) {
        self.set_end(access, FillOutcome::Cut);
    }

    fn set_end(&self, access: &AuthorizerChain, end: FillOutcome) {
        let set = |is: &mut Option<FillOutcome>| is.is_none() && is.replace(end).is_none();
        if self.end.send_if_modified(set) && self.stored {
            access.reference_authorizer().filling(false);
        }
    }

    /// What was to be reported meanwhile.
    pub(super) fn reports(&self) -> Vec<PathFailure> {
        std::mem::take(&mut *lock(&self.reports))
    }

    /// Starts to tell what a state has, in which everything is that commits have not marked; whether that is possible.
    pub(super) fn start(self: &Arc<Ongoing>, access: &Arc<AuthorizerChain>, world: World) -> bool {
        let filler = Filler { access: Arc::downgrade(access), world, ongoing: Arc::clone(self) };
        let thread = std::thread::Builder::new().name("reference-fill".to_owned());
        let (weak, ongoing) = (Arc::downgrade(access), Arc::clone(self));
        let started = thread.spawn(move || {
            let Err(panic) = catch_unwind(AssertUnwindSafe(|| filler.run())) else { return };
            let why = tenure_supervise::message(&*panic);
            tracing::error!(
                why,
                "telling the origins of a strategy panicked; the others are not told"
            );
            // Whoever waits for the end must not wait for ever.
            if let Some(access) = weak.upgrade() {
                ongoing.cut(&access);
            }
        });
        if let Err(error) = &started {
            tracing::warn!(%error, "origins are told within the commit");
            self.cut(access);
        }
        started.is_ok()
    }
}

type ParsedRecord = (Arc<Record>, Option<Value>);

struct Filler {
    access: Weak<AuthorizerChain>,
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
            let last = read.len() < AT_ONCE;
            let mut read = read.into_iter();
            while !read.as_slice().is_empty() || last {
                let Some(access) = self.access.upgrade() else { return };
                if self.tell(&access, &mut read, last) {
                    return;
                }
                drop(access);
                clock::block_for(PAUSE);
            }
        }
    }

    fn read(&self, after: Option<&str>) -> Vec<ParsedRecord> {
        let fed = &self.ongoing.fed;
        let records = self.world.range(&fed.served.prefix, after).take(AT_ONCE);
        records.map(|record| (Arc::clone(record), fed.read(record))).collect()
    }

    /// Tells some of what was read; whether that was the end.
    fn tell(
        &self,
        access: &Arc<AuthorizerChain>,
        read: &mut std::vec::IntoIter<ParsedRecord>,
        last: bool,
    ) -> bool {
        let (authorizer, ongoing) = (access.reference_authorizer(), &*self.ongoing);
        let mut index = authorizer.index_to_change();
        if ongoing.is_ended() {
            return true;
        }
        let begin = clock::instant();
        let mut out = Outputs::default();
        while begin.elapsed() < SLICE
            && let Some((record, object)) = read.next()
        {
            if !lock(&ongoing.marked).contains(record.key()) {
                ongoing.fed.put_read(&mut index, &record, object.as_ref(), &mut out);
            }
        }
        let ends = last && read.as_slice().is_empty();
        let mut reports = lock(&ongoing.reports);
        reports.append(&mut out.reports);
        if ongoing.stored {
            authorizer.teller().tell(authorizer.applied(), &mut reports);
            if ends {
                ongoing.fed.synced(&mut index, &mut out);
            }
        } else if ends {
            index.prepared();
        }
        drop(reports);
        authorizer.publish_late(&mut index, &out);
        if ends {
            ongoing.set_end(access, FillOutcome::Announced);
            clear::start(access, &index);
        }
        ends
    }
}
