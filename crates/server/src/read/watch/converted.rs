//! Watches of objects that a webhook brings into the version that is watched (R129).
//!
//! ```text
//!   changes that wait together ──► converted, shared with other watches ──► events
//! ```
//!
//! An object that cannot be converted ends its watch with an event that says why: a client that goes on
//! without it would miss it. Nobody else waits meanwhile.

use std::future::Future;
use std::sync::Arc;

use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_world::{Change, Record};

use super::{WatchEvent, WatchResponse};

/// How many objects of the present state are converted before they are told.
const STATE_AT_ONCE: usize = 500;

impl WatchResponse {
    /// What some changes are to this watch. None if the stream has come to its end.
    pub(super) async fn events(&mut self, changes: &[Arc<Change>]) -> Option<Vec<WatchEvent>> {
        let served = &self.encoder.served;
        let as_stored = |change: &Arc<Change>| {
            self.event(change, change.before.as_ref(), change.after.as_ref())
        };
        if !served.may_convert() {
            return Some(changes.iter().filter_map(as_stored).collect());
        }
        if self.selection.is_by_identity() {
            let events = changes.iter().filter_map(as_stored).collect();
            return self.converted_events(events).await;
        }
        // Whether an object is selected depends on what it says in the version, before and after.
        let states = changes.iter().flat_map(|change| [&change.before, &change.after]);
        let states: Vec<Arc<Record>> = states.flatten().cloned().collect();
        let mut converted = self.converted(states).await?.into_iter();
        let mut events = Vec::new();
        for change in changes {
            let was = change.before.as_ref().and_then(|_| converted.next());
            let is = change.after.as_ref().and_then(|_| converted.next());
            events.extend(self.event(change, was.as_ref(), is.as_ref()));
        }
        Some(events)
    }

    /// Events with their objects in the version that is watched. None if the stream has come to its end.
    pub(super) async fn converted_events(
        &mut self,
        mut events: Vec<WatchEvent>,
    ) -> Option<Vec<WatchEvent>> {
        let served = &self.encoder.served;
        if !events.iter().any(|event| served.needs_conversion(&event.record)) {
            return Some(events);
        }
        let records = events.iter().map(|event| Arc::clone(&event.record)).collect();
        let converted = self.converted(records).await?;
        for (event, record) in events.iter_mut().zip(converted) {
            event.record = record;
        }
        Some(events)
    }

    /// Tells the present state, a part at a time, as far as it is selected in the version that is watched.
    pub(super) async fn send_converted(
        &mut self,
        initial: Vec<Arc<Record>>,
        bookmark: Option<(Revision, bool)>,
    ) -> Option<()> {
        for part in initial.chunks(STATE_AT_ONCE) {
            let user = self.user.name.clone();
            let (conversions, served) =
                (Arc::clone(&self.conversions), Arc::clone(&self.encoder.served));
            let part = part.to_vec();
            let requested = async move { conversions.records(&user, &served, part).await };
            let converted = self.wait_for(requested).await?;
            let selected = converted.into_iter().filter(|record| self.selection.matches(record));
            let added = |record| WatchEvent { kind: "ADDED", record, gone: None };
            let added: Vec<WatchEvent> = selected.map(added).collect();
            self.tell(added, None).await?;
        }
        self.tell(Vec::new(), bookmark).await
    }

    async fn converted(&mut self, records: Vec<Arc<Record>>) -> Option<Vec<Arc<Record>>> {
        let (conversions, served) =
            (Arc::clone(&self.conversions), Arc::clone(&self.encoder.served));
        self.wait_for(async move { conversions.events(&served, records).await }).await
    }

    /// Waits for a webhook as long as there is somebody to tell.
    async fn wait_for<T>(
        &mut self,
        requested: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Option<T> {
        let answered = tokio::select! {
            answered = requested => answered,
            () = self.outlet.closed() => return None,
            _ = self.stop.changed() => return None,
        };
        // It may have taken long.
        if !self.is_permitted().await {
            return None;
        }
        match answered {
            Ok(converted) => Some(converted),
            Err(failure) => {
                self.fail(&failure).await;
                None
            }
        }
    }
}
