//! So many seats and no more: whoever finds none waits in the line of their user.
//!
//! ```text
//!   enter ──► a seat is free and nobody waits ──► seat            (one atomic step)
//!       └───► line of the user ──► next turn ──► seat
//!                   └─ no room, or too long ──► refused
//! ```
//!
//! How many seats something takes, and what is done on them, never lives here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::fair_queue::{FairQueue, Flow, QueueLimits};
use super::metrics::GateMetrics;

use crate::clock;

/// How many may wait for a seat.
const ROOM: QueueLimits = QueueLimits { user: 128, owner: 256, all: 1024 };

/// One that waits is counted here in the word of a gate; free seats are counted below.
const WAITING: u64 = 1 << 32;

/// Why there was no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSeat {
    /// The line is full.
    Full,
    /// It took too long.
    Late,
}

struct SeatRequest {
    width: u32,
    grant: oneshot::Sender<Seat>,
}

/// Some seats and who waits for them.
pub(crate) struct ConcurrencyLimiter {
    seats: u32,
    // INVARIANT: free seats in the low half, those who wait in the high half; the latter is changed only
    // by those who hold the lock of the lines.
    state: AtomicU64,
    lines: Mutex<FairQueue<SeatRequest>>,
    counts: GateMetrics,
}

/// Some seats of a gate, until this is dropped.
pub(crate) struct Seat {
    /// None once somebody else has given the seats back.
    gate: Option<Arc<ConcurrencyLimiter>>,
    width: u32,
    waited: bool,
}

impl Seat {
    /// Whether it was waited for.
    pub(crate) fn has_waited(&self) -> bool {
        self.waited
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.leave(self.width);
        }
    }
}

impl ConcurrencyLimiter {
    pub(super) fn new(seats: u32, counts: GateMetrics) -> Arc<ConcurrencyLimiter> {
        Arc::new(ConcurrencyLimiter {
            seats,
            state: AtomicU64::new(u64::from(seats)),
            lines: Mutex::new(FairQueue::new(ROOM)),
            counts,
        })
    }

    /// Takes seats, in turn with the other users if there are not enough.
    pub(crate) async fn enter(
        self: &Arc<ConcurrencyLimiter>,
        flow: Flow<'_>,
        width: u32,
        most: Duration,
    ) -> Result<Seat, NoSeat> {
        let width = width.clamp(1, self.seats.max(1));
        if let Some(seat) = self.try_enter(width) {
            return Ok(seat);
        }
        let granted = match self.wait(flow, width) {
            Ok(granted) => granted,
            Err(seat) => return seat,
        };
        let begin = clock::instant();
        match tokio::time::timeout(most, granted).await {
            Ok(Ok(seat)) => {
                self.counts.waits.observe(begin.elapsed().as_secs_f64());
                Ok(seat)
            }
            // Somebody who waits for less took the place.
            Ok(Err(_)) => Err(self.refused(NoSeat::Full)),
            Err(_) => Err(self.refused(NoSeat::Late)),
        }
    }

    /// Takes seats if there are enough and nobody waits.
    fn try_enter(self: &Arc<ConcurrencyLimiter>, width: u32) -> Option<Seat> {
        let taken =
            |state: u64| (state < WAITING).then(|| state.checked_sub(width.into())).flatten();
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).ok()?;
        Some(self.seat(width))
    }

    /// A place in line; or the seat after all, or none.
    fn wait(
        self: &Arc<ConcurrencyLimiter>,
        flow: Flow<'_>,
        width: u32,
    ) -> Result<oneshot::Receiver<Seat>, Result<Seat, NoSeat>> {
        let mut lines = self.lock();
        // Counted as waiting in the same step that finds no seat: whoever leaves later sees it.
        let counted = |state: u64| {
            let is_free = state < WAITING && state >= width.into();
            Some(if is_free { state - u64::from(width) } else { state + WAITING })
        };
        let before = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, counted);
        if before.is_ok_and(|state| state < WAITING && state >= width.into()) {
            return Err(Ok(self.seat(width)));
        }
        if !lines.has_room(flow) {
            // Places of those who went away are free.
            let gone = lines.retain(|waiter| !waiter.grant.is_closed());
            self.state.fetch_sub(WAITING * gone as u64, Ordering::AcqRel);
        }
        let (grant, granted) = oneshot::channel();
        if let Err(refused) = lines.push(flow, SeatRequest { width, grant }) {
            // This one, or the last of a longer line; its end of the channel tells it.
            self.state.fetch_sub(WAITING, Ordering::AcqRel);
            drop(refused);
        }
        Ok(granted)
    }

    fn leave(self: &Arc<ConcurrencyLimiter>, width: u32) {
        let before = self.state.fetch_add(width.into(), Ordering::AcqRel);
        if before >= WAITING {
            self.dispatch();
        }
    }

    /// Gives free seats to those whose turn it is.
    fn dispatch(self: &Arc<ConcurrencyLimiter>) {
        let mut lines = self.lock();
        while let Some(next) = lines.next() {
            let width = next.width;
            let taken = |state: u64| {
                let free = state % WAITING;
                (free >= width.into()).then(|| state - u64::from(width) - WAITING)
            };
            if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_err() {
                return;
            }
            let Some(waiter) = lines.pop() else { return };
            let mut seat = self.seat(width);
            seat.waited = true;
            if let Err(mut seat) = waiter.grant.send(seat) {
                // Nobody waits any more. Its seats go to the next just here, where the lock is held.
                seat.gate = None;
                self.state.fetch_add(width.into(), Ordering::AcqRel);
            }
        }
    }

    fn seat(self: &Arc<ConcurrencyLimiter>, width: u32) -> Seat {
        Seat { gate: Some(Arc::clone(self)), width, waited: false }
    }

    fn refused(&self, why: NoSeat) -> NoSeat {
        match why {
            NoSeat::Full => self.counts.full.inc(),
            NoSeat::Late => self.counts.late.inc(),
        };
        why
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<SeatRequest>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many seats there are.
    pub(super) fn seats(&self) -> u32 {
        self.seats
    }

    /// How many seats are taken, and how many wait.
    pub(super) fn load(&self) -> (u64, u64) {
        let state = self.state.load(Ordering::Acquire);
        (u64::from(self.seats).saturating_sub(state % WAITING), state / WAITING)
    }
}

#[cfg(test)]
#[path = "gate/tests.rs"]
mod tests;
