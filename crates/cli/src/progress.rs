//! How far something is that takes longer than a second, on stderr: one line that changes on a terminal,
//! a line now and then elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::clock;

/// What is done sooner is not spoken of.
const QUIET: Duration = Duration::from_secs(1);
/// How often the line on a terminal changes.
const REWRITE_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written where all of them stay.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// Says that something goes on while it is waited for, on a thread of its own until this is dropped.
pub(crate) struct WaitIndicator {
    done: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WaitIndicator {
    pub(crate) fn new(what: &'static str) -> WaitIndicator {
        let (done, over) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().spawn(move || {
            let mut progress = ProgressLine::new(what, Unit::Objects);
            while over.recv_timeout(REWRITE_EVERY)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                progress.go_on();
            }
        });
        // Where no thread can be had, nothing is said.
        WaitIndicator { done: Some(done), thread: thread.ok() }
    }
}

impl Drop for WaitIndicator {
    /// Waits until the line is cleared, so that what is said next has one of its own.
    fn drop(&mut self) {
        self.done.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One piece of work.
pub(crate) struct ProgressLine {
    /// What is done, as `saving`.
    what: &'static str,
    /// What is counted, as `objects`.
    unit: Unit,
    begin: Instant,
    shown: Option<Instant>,
    rewrites: bool,
}

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Objects,
    Bytes,
    Revisions,
}

impl ProgressLine {
    pub(crate) fn new(what: &'static str, unit: Unit) -> ProgressLine {
        let rewrites = std::io::stderr().is_terminal();
        ProgressLine { what, unit, begin: clock::instant(), shown: None, rewrites }
    }

    /// So much is done, of so much; whether that was said.
    pub(crate) fn tell(&mut self, done: u64, all: u64) -> bool {
        self.say(|progress| line(progress.what, progress.unit, done, all))
    }

    /// It goes on, and how much there is of it is not known.
    pub(crate) fn go_on(&mut self) -> bool {
        self.say(|progress| {
            format!("{} for {} s", progress.what, progress.begin.elapsed().as_secs())
        })
    }

    fn say(&mut self, line: impl Fn(&ProgressLine) -> String) -> bool {
        let now = clock::instant();
        if !self.is_due(now) {
            return false;
        }
        self.shown = Some(now);
        let line = line(self);
        // The rest of a longer line before is cleared; a closed stderr leaves nobody to tell.
        let text = if self.rewrites { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        true
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.shown {
            None => now.duration_since(self.begin) >= QUIET,
            Some(shown) if self.rewrites => now.duration_since(shown) >= REWRITE_EVERY,
            Some(shown) => now.duration_since(shown) >= WRITE_EVERY,
        }
    }
}

impl Drop for ProgressLine {
    /// Leaves the terminal as it was found.
    fn drop(&mut self) {
        if self.rewrites && self.shown.is_some() {
            let _ = std::io::stderr().lock().write_all(b"\r\x1b[K");
        }
    }
}

fn line(what: &str, unit: Unit, done: u64, all: u64) -> String {
    let percent = done.saturating_mul(100).checked_div(all).unwrap_or(0).min(100);
    match unit {
        Unit::Objects => {
            format!("{what}: {} of {} objects ({percent} %)", grouped(done), grouped(all))
        }
        Unit::Bytes => format!("{what}: {} of {} ({percent} %)", size(done), size(all)),
        Unit::Revisions => format!("{what}: {percent} %"),
    }
}

/// A number as people read it: `1,200,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size as people say it.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_reads_like_this() {
        let objects = line("saving", Unit::Objects, 120_000, 1_500_000);
        assert_eq!(objects, "saving: 120,000 of 1,500,000 objects (8 %)");
        assert_eq!(
            line("restoring", Unit::Bytes, 999, 2_500_000),
            "restoring: 999 B of 2 MB (0 %)"
        );
        assert_eq!(line("compacting", Unit::Revisions, 5, 10), "compacting: 50 %");
        assert_eq!(line("saving", Unit::Objects, 0, 0), "saving: 0 of 0 objects (0 %)");
    }

    #[test]
    fn what_is_quick_is_not_spoken_of() {
        let mut progress = ProgressLine::new("saving", Unit::Objects);
        progress.rewrites = false;
        assert!(!progress.is_due(progress.begin + Duration::from_millis(900)));
        let first = progress.begin + QUIET;
        assert!(progress.is_due(first));
        progress.shown = Some(first);
        assert!(!progress.is_due(first + Duration::from_secs(9)));
        assert!(progress.is_due(first + WRITE_EVERY));
        progress.rewrites = true;
        assert!(progress.is_due(first + REWRITE_EVERY));
        progress.shown = None;
    }
}
