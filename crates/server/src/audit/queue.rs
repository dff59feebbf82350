//! The thread that writes audit lines. Nothing here knows what a request is.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};

use super::entry::AuditEvent;

/// What the thread is told.
pub(super) enum AuditMessage {
    /// Write this.
    Line(Box<AuditEvent>),
    /// Hand everything to the system, then say so.
    Flush(oneshot::Sender<()>),
}

/// The end of the queue.
pub(super) struct AuditWriter<W: Write> {
    pub(super) out: W,
    pub(super) bytes_waiting: Arc<AtomicUsize>,
    pub(super) written: Counter,
    pub(super) lost: Counter,
    /// Whether a failure to write has been spoken of.
    pub(super) logged: bool,
}

impl<W: Write> AuditWriter<W> {
    /// Writes until nobody can say anything any more.
    pub(super) fn run(mut self, mut messages: mpsc::Receiver<AuditMessage>) {
        while let Some(message) = messages.blocking_recv() {
            self.take(message);
            while let Ok(message) = messages.try_recv() {
                self.take(message);
            }
            // Somebody may be reading along, so nothing is kept back when it is quiet.
            let flushed = self.out.flush();
            self.judge(flushed);
        }
    }

    fn take(&mut self, message: AuditMessage) {
        match message {
            AuditMessage::Line(entry) => {
                let mut line = entry.line();
                line.push(b'\n');
                let written = self.out.write_all(&line);
                match written {
                    Ok(()) => self.written.inc(),
                    Err(_) => self.lost.inc(),
                };
                self.judge(written);
                self.bytes_waiting.fetch_sub(entry.weight(), Ordering::Relaxed);
            }
            AuditMessage::Flush(done) => {
                let flushed = self.out.flush();
                self.judge(flushed);
                let _ = done.send(());
            }
        }
    }

    /// A full disk must not fill the log as well, so it is told once.
    fn judge(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.logged, true)
        {
            tracing::error!(%error, "audit lines cannot be written");
        }
    }
}
