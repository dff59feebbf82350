//! The audit log: one JSON line for every answered request, in the form of `audit.k8s.io/v1` (R168).
//!
//! ```text
//!   ApiServer::call ──► AuditContext: what becomes known on the way ──► queue (bounded) ──► thread ──► file
//! ```
//!
//! Whoever serves a request never waits for the file: a line that finds the queue full is lost, counted
//! and spoken of once. Which requests are allowed is decided elsewhere; here it is only written down.

mod entry;
mod policy;
mod queue;
mod tail;
mod trail;

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

pub(crate) use entry::{AuditEvent, sources};
pub use policy::AuditPolicy;
use queue::AuditMessage;
pub(crate) use trail::{AuditContext, AuditGuard};

use crate::clock;

/// How many lines may wait for the file.
const LINES_MAX: usize = 8 * 1024;
/// How many bytes of bodies may wait for the file.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much of a request is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditLevel {
    /// Who asked what, and what came of it.
    #[default]
    Metadata,
    /// And the body of the request.
    Request,
    /// And the body of the answer.
    RequestResponse,
}

impl AuditLevel {
    /// As it stands in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AuditLevel::Metadata => "Metadata",
            AuditLevel::Request => "Request",
            AuditLevel::RequestResponse => "RequestResponse",
        }
    }
}

/// The way to the audit log.
pub struct AuditSink {
    policy: AuditPolicy,
    queue: mpsc::Sender<AuditMessage>,
    bytes_max: usize,
    bytes_waiting: Arc<AtomicUsize>,
    written: Counter,
    lost: Counter,
    // Whether the loss of lines has been spoken of.
    logged: AtomicBool,
}

impl AuditSink {
    /// Starts the thread that writes lines to `out`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(level: AuditLevel, out: Box<dyn Write + Send>) -> io::Result<Arc<AuditSink>> {
        AuditSink::by_policy(AuditPolicy::of_level(level), out)
    }

    /// As [`AuditSink::start`], where a policy says how much of which request is written.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn by_policy(
        policy: AuditPolicy,
        out: Box<dyn Write + Send>,
    ) -> io::Result<Arc<AuditSink>> {
        AuditSink::with_room(policy, out, LINES_MAX, BYTES_MAX)
    }

    /// As [`AuditSink::start`], with room for so many lines and bytes.
    fn with_room(
        policy: AuditPolicy,
        out: Box<dyn Write + Send>,
        lines_max: usize,
        bytes_max: usize,
    ) -> io::Result<Arc<AuditSink>> {
        let (queue, messages) = mpsc::channel(lines_max);
        let audit = Arc::new(AuditSink {
            policy,
            queue,
            bytes_max,
            bytes_waiting: Arc::default(),
            written: Counter::default(),
            lost: Counter::default(),
            logged: AtomicBool::new(false),
        });
        let writer = queue::AuditWriter {
            out: io::BufWriter::new(out),
            bytes_waiting: Arc::clone(&audit.bytes_waiting),
            written: audit.written.clone(),
            lost: audit.lost.clone(),
            logged: false,
        };
        // The thread ends when the last sender is gone.
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(messages))?;
        Ok(audit)
    }

    /// Returns when everything said so far has been handed to the system.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        if self.queue.send(AuditMessage::Flush(done)).await.is_ok() {
            let _ = flushed.await;
        }
    }

    /// Looks up once what the policy says of a request.
    fn decide(&self, entry: &mut AuditEvent) {
        if entry.rule.is_none() {
            let rule = self.policy.decide(entry, &entry.path).clone();
            entry.rule = Some(rule);
        }
    }

    /// How many lines were written, and how many were lost.
    #[must_use]
    pub fn counters(&self) -> (Counter, Counter) {
        (self.written.clone(), self.lost.clone())
    }

    /// Hands a line over, or counts it as lost; nothing if the policy wants no such line.
    pub(crate) fn say(&self, mut entry: Box<AuditEvent>) {
        self.decide(&mut entry);
        if !entry.tells() {
            return;
        }
        entry.at = clock::timestamp();
        let bytes = entry.weight();
        let waiting = self.bytes_waiting.fetch_add(bytes, Ordering::Relaxed);
        let room = waiting.saturating_add(bytes) <= self.bytes_max;
        if room && self.queue.try_send(AuditMessage::Line(entry)).is_ok() {
            return;
        }
        self.bytes_waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.lost.inc();
        if !self.logged.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "audit lines are lost: they come faster than the file takes them; \
                 apiserver_audit_error_total counts them"
            );
        }
    }
}

#[cfg(test)]
mod tests;
