//! The audit log: one JSON line for every answered request, in the form of `audit.k8s.io/v1` (R168).
//!
//! ```text
//!   Api::call ──► Trail: what becomes known on the way ──► queue (bounded) ──► thread ──► file
//! ```
//!
//! Whoever serves a request never waits for the file: a line that finds the queue full is lost, counted
//! and spoken of once. Which requests are allowed is decided elsewhere; here it is only written down.

mod entry;
mod queue;
mod tail;
mod trail;

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

pub(crate) use entry::{Entry, sources};
use queue::Message;
pub(crate) use trail::{Ending, Trail};

/// How many lines may wait for the file.
const LINES_MAX: usize = 8 * 1024;
/// How many bytes of bodies may wait for the file.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of a request is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Who asked what, and what came of it.
    #[default]
    Metadata,
    /// And the body of the request.
    Request,
    /// And the body of the answer.
    RequestResponse,
}

impl Level {
    /// As it stands in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// The way to the audit log.
pub struct Audit {
    level: Level,
    queue: mpsc::Sender<Message>,
    bytes_max: usize,
    bytes_waiting: Arc<AtomicUsize>,
    written: Counter,
    lost: Counter,
    // Whether the loss of lines has been spoken of.
    told: AtomicBool,
}

impl Audit {
    /// Starts the thread that writes lines to `out`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(level: Level, out: Box<dyn Write + Send>) -> io::Result<Arc<Audit>> {
        Audit::with_room(level, out, LINES_MAX, BYTES_MAX)
    }

    /// As [`Audit::start`], with room for so many lines and bytes.
    fn with_room(
        level: Level,
        out: Box<dyn Write + Send>,
        lines_max: usize,
        bytes_max: usize,
    ) -> io::Result<Arc<Audit>> {
        let (queue, messages) = mpsc::channel(lines_max);
        let audit = Arc::new(Audit {
            level,
            queue,
            bytes_max,
            bytes_waiting: Arc::default(),
            written: Counter::default(),
            lost: Counter::default(),
            told: AtomicBool::new(false),
        });
        let writer = queue::Writer {
            out: io::BufWriter::new(out),
            bytes_waiting: Arc::clone(&audit.bytes_waiting),
            written: audit.written.clone(),
            lost: audit.lost.clone(),
            told: false,
        };
        // The thread ends when the last sender is gone.
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(messages))?;
        Ok(audit)
    }

    /// Returns when everything said so far has been handed to the system.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(Message::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    /// How many lines were written, and how many were lost.
    #[must_use]
    pub fn counters(&self) -> (Counter, Counter) {
        (self.written.clone(), self.lost.clone())
    }

    /// Hands a line over, or counts it as lost.
    pub(crate) fn say(&self, mut entry: Box<Entry>) {
        entry.at = jiff::Timestamp::now();
        let bytes = entry.weight();
        let waiting = self.bytes_waiting.fetch_add(bytes, Ordering::Relaxed);
        let room = waiting.saturating_add(bytes) <= self.bytes_max;
        if room && self.queue.try_send(Message::Line(entry)).is_ok() {
            return;
        }
        self.bytes_waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.lost.inc();
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "audit lines are lost: they come faster than the file takes them; \
                 apiserver_audit_error_total counts them"
            );
        }
    }
}

#[cfg(test)]
mod tests;
