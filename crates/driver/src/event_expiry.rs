//! Deletes events whose time is over (api-server R146, R187). When that is is decided in engine `workload`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tenure_core::Revision;
use tenure_machinery::Object;
use tenure_server::internal_writer::InternalWriter;
use tenure_workload::event_expiry::Expiry;
use tenure_world::{Change, Interest, Record, World};
use tokio::sync::mpsc;

use crate::clock;
use crate::follow::{self, Follower, Want};
use crate::progress::{FollowerProgress, Load};

/// What readiness calls it.
pub(crate) const NAME: &str = "event-expiry";
const PREFIX: &str = "/registry/events/";
/// How many deletes wait for the log at the same time.
const DELETES_AT_ONCE: usize = 256;
/// How long a delete that was not taken waits before it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The follower.
pub(crate) struct EventExpiry {
    writer: InternalWriter,
    /// How long an event lives after it was last written.
    life: Duration,
    /// What the engine's times are counted from.
    begin: Instant,
    expiry: Expiry,
    /// How many deletes are under way.
    under_way: usize,
}

/// The events of a round that stay for now.
pub(crate) struct Stayed(Vec<Arc<str>>);

impl EventExpiry {
    pub(crate) fn new(writer: InternalWriter, life: Duration) -> EventExpiry {
        let begin = clock::instant();
        EventExpiry { writer, life, begin, expiry: Expiry::new(life), under_way: 0 }
    }
}

/// Deletes events that were last written `life` ago, and does nothing else, until the world stops.
pub async fn run(writer: InternalWriter, life: Duration) {
    let ((progress, _), (_unheard, silence)) =
        (FollowerProgress::new(NAME), mpsc::unbounded_channel());
    let world = writer.world().clone();
    follow::run(&world, EventExpiry::new(writer, life), silence, progress).await;
}

impl Follower for EventExpiry {
    type Ended = Stayed;
    type Message = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        let (clock, now) = (clock::timestamp(), self.begin.elapsed());
        self.expiry = Expiry::new(self.life);
        self.under_way = 0;
        for record in state.range(PREFIX, None) {
            let event: Object = serde_json::from_slice(record.bytes()).unwrap_or_default();
            self.expiry.found(record.key(), &event, clock, now);
        }
        vec![Interest::Prefix(PREFIX.into())]
    }

    fn see(&mut self, _state: &World, change: &Change) {
        match &change.after {
            Some(record) => self.expiry.written(record.key(), self.begin.elapsed()),
            None => self.expiry.gone(&change.key),
        }
    }

    fn hear(&mut self, message: Infallible) {
        match message {}
    }

    fn next(&mut self, now: Instant, _seen: Revision) -> Want<Stayed> {
        if self.under_way > 0 {
            return Want::Rest(None);
        }
        let keys = self.expiry.take(now.duration_since(self.begin), DELETES_AT_ONCE);
        if keys.is_empty() {
            return Want::Rest(self.expiry.due().and_then(|due| self.begin.checked_add(due)));
        }
        let state = self.writer.world().current();
        let due: Vec<Arc<Record>> =
            keys.iter().filter_map(|key| state.get(key)).map(Arc::clone).collect();
        self.under_way = due.len().max(1);
        let writer = self.writer.clone();
        Want::Task(Box::pin(async move {
            let done = join_all(due.iter().map(|record| writer.expire(record))).await;
            let stayed = due.iter().zip(done).filter_map(|(record, done)| {
                // An event that was written or deleted meanwhile is seen as a change.
                let failure = done.err()?;
                tracing::debug!(key = %record.key(), reason = %failure.message, "an event stays");
                Some(Arc::clone(record.key()))
            });
            Stayed(stayed.collect())
        }))
    }

    fn ended(&mut self, Stayed(keys): Stayed, now: Instant) {
        self.under_way = 0;
        for key in keys {
            self.expiry.again(&key, now.duration_since(self.begin) + TRY_AGAIN);
        }
    }

    fn load(&self) -> Load {
        Load { depth: self.under_way, idle: self.under_way == 0, ..Load::default() }
    }
}
