//! What watches convert, converted once for all of them.
//!
//! ```text
//!   event ──► known? ──► taken
//!        └──► somebody asks? ──► waited for together, success or not
//!        └──► asked, with all events of this watch that nobody asks about
//! ```
//!
//! Known is what was converted last, up to a bound in bytes. An object at a revision never changes, so what
//! is known stays right while its definition stands.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_world::Record;

use super::Conversions;
use crate::registry::ServedKind;

/// How much is known at most.
const KNOWN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// From so many entries on, those that nobody waits for are looked for.
const PENDING_MOST: usize = 4096;

/// An object at a revision, in a version of a definition as it was at a revision.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct ConversionKey {
    key: Arc<str>,
    revision: Revision,
    api_version: Arc<str>,
    definition: Revision,
}

type SharedCall = Shared<BoxFuture<'static, Result<Vec<Arc<Record>>, Failure>>>;
type WeakCall = WeakShared<BoxFuture<'static, Result<Vec<Arc<Record>>, Failure>>>;

#[derive(Default)]
struct SharedState {
    known: HashMap<ConversionKey, Arc<Record>>,
    /// The keys of what is known, oldest first.
    order: VecDeque<ConversionKey>,
    bytes: usize,
    /// What somebody asks about, with the place in the answer.
    pending: HashMap<ConversionKey, (WeakCall, usize)>,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct SharedConversions(Mutex<SharedState>);

impl SharedConversions {
    fn lock(&self) -> MutexGuard<'_, SharedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedState {
    fn know(&mut self, key: ConversionKey, record: Arc<Record>) {
        self.bytes += record.weight();
        match self.known.insert(key.clone(), record) {
            None => self.order.push_back(key),
            Some(before) => self.bytes = self.bytes.saturating_sub(before.weight()),
        }
        while self.bytes > KNOWN_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.known.remove(&oldest);
            self.bytes = self.bytes.saturating_sub(gone.map_or(0, |record| record.weight()));
        }
    }

    fn wait_for(&self, key: &ConversionKey) -> Option<(SharedCall, usize)> {
        let (call, place) = self.pending.get(key)?;
        // One that everybody has left is asked again.
        Some((call.upgrade()?, *place))
    }
}

/// How an event comes by its converted form.
enum Source {
    Here(Arc<Record>),
    From(SharedCall, usize),
}

impl Conversions {
    /// As [`Conversions::records`], for events that many watches are about to convert.
    ///
    /// # Errors
    /// One of them could not be converted.
    pub(crate) async fn events(
        self: &Arc<Conversions>,
        served: &Arc<ServedKind>,
        records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, Failure> {
        let sources = self.sources(served, records);
        let mut converted = Vec::with_capacity(sources.len());
        for source in sources {
            converted.push(match source {
                Source::Here(record) => record,
                Source::From(call, place) => {
                    let lost = || Failure::internal("a conversion without its object");
                    call.await?.get(place).cloned().ok_or_else(lost)?
                }
            });
        }
        Ok(converted)
    }

    /// Where each of some records comes from; what nobody has or asks about is asked in one call.
    fn sources(
        self: &Arc<Conversions>,
        served: &Arc<ServedKind>,
        records: Vec<Arc<Record>>,
    ) -> Vec<Source> {
        let api_version: Arc<str> = served.api_version.as_str().into();
        let definition = served.custom.as_ref().map_or(Revision::ZERO, |custom| custom.revision);
        let key_of = |record: &Record| ConversionKey {
            key: Arc::clone(record.key()),
            revision: record.revision(),
            api_version: Arc::clone(&api_version),
            definition,
        };
        let mut state = self.shared.lock();
        let mut requested: Vec<(usize, ConversionKey, Arc<Record>)> = Vec::new();
        let mut sources = Vec::with_capacity(records.len());
        for record in records {
            let mut source = Source::Here(Arc::clone(&record));
            if served.needs_conversion(&record) {
                let key = key_of(&record);
                match (state.known.get(&key), state.wait_for(&key)) {
                    (Some(known), _) => source = Source::Here(Arc::clone(known)),
                    (None, Some((call, place))) => source = Source::From(call, place),
                    (None, None) => requested.push((sources.len(), key, record)),
                }
            }
            sources.push(source);
        }
        if requested.is_empty() {
            return sources;
        }
        let call = self.begin(served, &requested);
        for (place, (at, key, _)) in requested.into_iter().enumerate() {
            if let Some(weak) = call.downgrade() {
                state.pending.insert(key, (weak, place));
            }
            if let Some(source) = sources.get_mut(at) {
                *source = Source::From(call.clone(), place);
            }
        }
        if state.pending.len() > PENDING_MOST {
            state.pending.retain(|_, (call, _)| call.upgrade().is_some());
        }
        sources
    }

    /// A call that whoever waits for it carries on.
    fn begin(
        self: &Arc<Conversions>,
        served: &Arc<ServedKind>,
        requested: &[(usize, ConversionKey, Arc<Record>)],
    ) -> SharedCall {
        let (conversions, served) = (Arc::clone(self), Arc::clone(served));
        let keys: Vec<ConversionKey> = requested.iter().map(|(_, key, _)| key.clone()).collect();
        let records = requested.iter().map(|(_, _, record)| Arc::clone(record)).collect();
        let call = async move {
            let converted = conversions.records(WATCHES, &served, records).await;
            let mut state = conversions.shared.lock();
            for key in &keys {
                state.pending.remove(key);
            }
            if let Ok(converted) = &converted {
                for (key, record) in keys.into_iter().zip(converted) {
                    state.know(key, Arc::clone(record));
                }
            }
            drop(state);
            converted
        };
        call.boxed().shared()
    }
}

/// In whose turn long work for all watches is done.
const WATCHES: &str = "system:watches";
