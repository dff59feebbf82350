//! Watches that show only what references lead to (referential authorization R155).
//!
//! ```text
//!   an object changed ──┐
//!                       ├──► look at it in one state: was shown? is seen? ──► ADDED, MODIFIED, DELETED
//!   a sight changed ────┘
//! ```
//!
//! Changes of one object between two looks are told as one. What is told never comes from a moment at which it was
//! not seen: a DELETED for lost sight repeats what the client was shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_world::{Record, RevisionError, Watch, WatchEnded, World, WorldHandle};
use tokio::sync::watch;

use super::{
    BOOKMARK_EVERY, EndOfObject, WatchEvent, WatchRequest, WatchResponse, WatchStart, starts_after,
};
use crate::access::refusal;
use crate::clock;
use crate::read::list::expired;
use crate::reference::{Forgotten, Then, Visibility, VisibilityChange};
use crate::registry::ServedKind;
use crate::select::SelectionPredicate;

/// How long a commit may take to be seen.
const COMMIT_MOST: Duration = Duration::from_secs(1);

/// What a client sees of a collection, and what it was shown.
pub(super) struct FilteredView {
    visibility: Visibility,
    world: WorldHandle,
    prefix: String,
    shown: BTreeMap<Arc<str>, Arc<Record>>,
    /// What the client may have been shown before this watch, or not.
    doubtful: BTreeMap<Arc<str>, Arc<Record>>,
    /// The number of the next move of anybody's sight.
    next: u64,
    moved: Option<watch::Receiver<u64>>,
    /// To be looked at again: they have changed after the state that was looked at.
    later: BTreeSet<Arc<str>>,
    /// Everything up to here is told.
    delivered: Revision,
    /// Whether it was looked through since the watch began.
    looked: bool,
}

/// What there is to tell, and when it happened.
struct FilteredEvent {
    at: Revision,
    event: WatchEvent,
}

/// Begins a watch by one who sees a part.
pub(super) async fn begin(
    world: &WorldHandle,
    requested: &WatchRequest,
    visibility: Visibility,
    selection: &SelectionPredicate,
) -> Result<WatchStart, Failure> {
    let prefix = requested.served.collection(&requested.namespace);
    let moved = visibility.movements();
    let filtered_view = |visibility, shown, next, delivered| {
        let (world, prefix, later) = (world.clone(), prefix.clone(), BTreeSet::new());
        let (doubtful, looked) = (BTreeMap::new(), false);
        FilteredView {
            visibility,
            world,
            prefix,
            shown,
            doubtful,
            next,
            moved,
            later,
            delivered,
            looked,
        }
    };
    let Some(after) = starts_after(world, &requested.options) else {
        // The moves are noted first: what changes while the state is looked at is looked at again.
        let next = visibility.end();
        let state = requested.permit.newest(world, requested.options.revision).await?;
        let seen = state.range(&prefix, None);
        let seen = seen.filter(|record| selection.matches(record) && visibility.sees(record));
        let seen: Vec<Arc<Record>> = seen.cloned().collect();
        let forgotten = |gone: Forgotten| expired(state.revision(), gone.oldest);
        let initial = visibility.was_seen(&seen, state.revision()).map_err(forgotten)?;
        let shown = initial.iter().map(|record| (Arc::clone(record.key()), Arc::clone(record)));
        let (shown, after) = (shown.collect(), state.revision());
        let filtered_view = Some(filtered_view(visibility, shown, next, after));
        return Ok(WatchStart { initial, after, resumes: false, filtered_view });
    };
    let forgotten = |gone: Forgotten| expired(after, gone.oldest);
    requested.permit.newest(world, Some(after)).await?;
    let past = at(world, after)?;
    let next = visibility.number_after(after).map_err(forgotten)?;
    let seen = past.range(&prefix, None);
    let seen = seen.filter(|record| selection.matches(record) && visibility.sees(record));
    let mut shown: BTreeMap<Arc<str>, Arc<Record>> =
        seen.map(|record| (Arc::clone(record.key()), Arc::clone(record))).collect();
    // What did not move until now was seen then as it is now, whenever that was looked at; the rest is put right.
    let then = visibility.then(after).map_err(forgotten)?;
    for (target, was_seen) in &then.seen {
        let key = requested.served.key(&target.namespace, &target.name);
        let record = past.get(&key).filter(|record| *was_seen && selection.matches(record));
        match record {
            Some(record) => drop(shown.insert(Arc::clone(record.key()), Arc::clone(record))),
            None => drop(shown.remove(key.as_str())),
        }
    }
    let mut filtered_view = filtered_view(visibility, shown, next, after);
    filtered_view.doubtful = seen_between(world, &requested.served, &then, selection)?;
    if requested.options.revision.is_some() {
        filtered_view.doubt_all_of(after);
    }
    Ok(WatchStart {
        initial: Vec::new(),
        after,
        resumes: false,
        filtered_view: Some(filtered_view),
    })
}

/// What was seen at some time after the revision that the client names, and not at it.
///
/// An object keeps its version when it comes into sight, so a client may go on from a version that is older than
/// what it was shown last. It has these, or has them not.
fn seen_between(
    world: &WorldHandle,
    served: &ServedKind,
    then: &Then,
    selection: &SelectionPredicate,
) -> Result<BTreeMap<Arc<str>, Arc<Record>>, Failure> {
    let mut seen = BTreeMap::new();
    for (target, revision) in &then.between {
        // What came into sight between two commits counts as of the next one, which may not be there yet.
        let state = at(world, (*revision).min(world.current().revision()))?;
        let record = state.get(&served.key(&target.namespace, &target.name));
        let record = record.filter(|record| selection.matches(record));
        seen.extend(record.map(|record| (Arc::clone(record.key()), Arc::clone(record))));
    }
    Ok(seen)
}

fn at(world: &WorldHandle, revision: Revision) -> Result<Arc<World>, Failure> {
    world.at(revision).map_err(|error| match error {
        RevisionError::Compacted(oldest) => expired(revision, oldest),
        RevisionError::Future(current) => expired(revision, current),
    })
}

impl WatchResponse {
    /// As [`WatchResponse::follow`], for one who sees a part.
    pub(super) async fn follow_filtered(
        &mut self,
        cursor: &mut Watch,
        mut filtered_view: FilteredView,
    ) {
        let mut bookmark_at = clock::timer_instant() + BOOKMARK_EVERY;
        loop {
            let before = filtered_view.delivered;
            let (bookmark, ends) = if filtered_view.is_current() {
                tokio::select! {
                    ready = cursor.ready() => match ready {
                        Ok(()) | Err(WatchEnded::Compacted { .. }) => (false, false),
                        Err(WatchEnded::Stopped) => return,
                    },
                    () = changed(filtered_view.moved.as_mut()) => (false, false),
                    () = self.hold.changed() => (false, false),
                    () = tokio::time::sleep_until(bookmark_at), if self.bookmarks => (true, false),
                    () = tokio::time::sleep_until(self.deadline) => (self.bookmarks, true),
                    () = self.outlet.closed() => return,
                    _ = self.stop.changed() => return,
                    _ = self.replaced.changed(), if self.encoder.served.custom.is_some() => {
                        (false, !self.is_still_served())
                    }
                }
            } else {
                (false, false)
            };
            let delivered = match self.look(cursor, &mut filtered_view).await {
                Ok(delivered) => delivered,
                Err(failure) => return self.fail(&failure).await,
            };
            if !self.is_permitted().await {
                return;
            }
            // An object that comes into sight has an old version; a client must not go on from there.
            let goes_back = delivered.iter().any(|delivered| delivered.at <= before);
            let bookmark = (bookmark || (goes_back && self.bookmarks)).then(|| {
                bookmark_at = clock::timer_instant() + BOOKMARK_EVERY;
                (filtered_view.delivered, false)
            });
            let events = delivered.into_iter().map(|delivered| delivered.event).collect();
            let Some(events) = self.converted_events(events).await else { return };
            if self.tell(events, bookmark).await.is_none() {
                return;
            }
            if ends {
                return;
            }
        }
    }

    /// Looks at everything that may have changed, in one state; what there is to tell, oldest first.
    async fn look(
        &self,
        cursor: &mut Watch,
        filtered_view: &mut FilteredView,
    ) -> Result<Vec<FilteredEvent>, Failure> {
        filtered_view.looked = true;
        let mut keys = std::mem::take(&mut filtered_view.later);
        // A commit moves sights before others see its state: what it takes away is told with its revision.
        let state = loop {
            let (state, moved) = self.gather(cursor, filtered_view, &mut keys)?;
            if moved <= state.revision() || !filtered_view.world.wait_for(moved, COMMIT_MOST).await
            {
                break state;
            }
        };
        if !filtered_view.visibility.holds() {
            return Err(refusal(
                filtered_view.visibility.user(),
                &filtered_view.visibility.request_attributes(),
            ));
        }
        filtered_view.delivered = state.revision();
        let mut delivered = Vec::new();
        for key in keys {
            let is = state.get(&key).filter(|record| self.selection.matches(record));
            let is = is.filter(|record| filtered_view.visibility.sees(record)).cloned();
            filtered_view.tell(key, is, &mut delivered);
        }
        delivered.sort_by_key(|delivered| delivered.at);
        Ok(delivered)
    }

    /// Adds what may have changed; the state to look at it in, and one that has everything that moved.
    fn gather(
        &self,
        cursor: &mut Watch,
        filtered_view: &mut FilteredView,
        keys: &mut BTreeSet<Arc<str>>,
    ) -> Result<(Arc<World>, Revision), Failure> {
        // In this order: everything up to the state is then behind the cursor and among the moves.
        let state = filtered_view.world.current();
        loop {
            match cursor.try_next() {
                Ok(Some(change)) => {
                    if change.revision > state.revision() {
                        filtered_view.later.insert(Arc::clone(&change.key));
                    }
                    keys.insert(Arc::clone(&change.key));
                }
                Ok(None) | Err(WatchEnded::Stopped) => break,
                Err(WatchEnded::Compacted { oldest }) => {
                    return Err(expired(filtered_view.delivered, oldest));
                }
            }
        }
        if let Some(moved) = filtered_view.moved.as_mut() {
            moved.borrow_and_update();
        }
        let forgotten = |gone: Forgotten| expired(filtered_view.delivered, gone.oldest);
        let (moved, of) =
            filtered_view.visibility.moved(&mut filtered_view.next).map_err(forgotten)?;
        match moved {
            VisibilityChange::Some(targets) => {
                let served = &self.encoder.served;
                let of = targets.iter().map(|to| served.key(&to.namespace, &to.name).into());
                keys.extend(of);
            }
            VisibilityChange::All => {
                keys.extend(filtered_view.shown.keys().cloned());
                let all = state.range(&filtered_view.prefix, None);
                keys.extend(all.map(|record| Arc::clone(record.key())));
            }
        }
        Ok((state, of))
    }
}

impl FilteredView {
    /// Whether there is nothing to look at yet.
    fn is_current(&self) -> bool {
        let still = |moved: &watch::Receiver<u64>| !moved.has_changed().unwrap_or(false);
        self.looked && self.later.is_empty() && self.moved.as_ref().is_none_or(still)
    }

    /// A stream that was cut inside a revision may have shown one of its objects and not another: if there are
    /// several, all are told again (R104).
    fn doubt_all_of(&mut self, revision: Revision) {
        let of = self.shown.values().filter(|record| record.revision() == revision);
        let of: Vec<Arc<Record>> = of.cloned().collect();
        if of.len() < 2 {
            return;
        }
        for record in of {
            let key = Arc::clone(record.key());
            self.shown.remove(&key);
            self.later.insert(Arc::clone(&key));
            self.doubtful.insert(key, record);
        }
    }

    /// Compares what is seen of an object with what was shown.
    fn tell(&mut self, key: Arc<str>, is: Option<Arc<Record>>, delivered: &mut Vec<FilteredEvent>) {
        let was = self.shown.get(&key).cloned();
        let doubtful = self.doubtful.remove(&key);
        let shown = |kind, record: &Arc<Record>| {
            let event = WatchEvent { kind, record: Arc::clone(record), gone: None };
            FilteredEvent { at: record.revision(), event }
        };
        let gone = |record: Arc<Record>, at| FilteredEvent {
            at,
            event: WatchEvent {
                kind: "DELETED",
                record,
                gone: Some(EndOfObject { at, last_state: None }),
            },
        };
        match (was, is) {
            (None, None) => delivered.extend(doubtful.map(|record| gone(record, self.delivered))),
            (None, Some(is)) => {
                delivered.push(shown("ADDED", &is));
                self.shown.insert(key, is);
            }
            (Some(was), None) => {
                delivered.push(gone(was, self.delivered));
                self.shown.remove(&key);
            }
            (Some(was), Some(is)) if was.uid() != is.uid() => {
                let at = is.revision();
                delivered.extend([gone(was, at), shown("ADDED", &is)]);
                self.shown.insert(key, is);
            }
            (Some(was), Some(is)) if was.revision() != is.revision() => {
                delivered.push(shown("MODIFIED", &is));
                self.shown.insert(key, is);
            }
            (Some(_), Some(_)) => {}
        }
    }
}

/// Waits until something moves; for ever where nothing does.
async fn changed<T>(moved: Option<&mut watch::Receiver<T>>) {
    let Some(moved) = moved else { return std::future::pending().await };
    if moved.changed().await.is_err() {
        std::future::pending().await
    }
}
