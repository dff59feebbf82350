//! What a process that runs says of itself: readiness with reasons, and metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::access::SynthesisCounts;
use crate::clock;

/// The state of synthesis at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SynthesisReport {
    pub(crate) index_ready: bool,
    pub(crate) leads: bool,
    /// Names in Roles, and those that find no room.
    pub(crate) names: (usize, usize),
    pub(crate) behind: usize,
    pub(crate) counts: SynthesisCounts,
    pub(crate) problems: Vec<String>,
}

/// What a process shows of itself at its address.
pub(crate) trait ProcessStatus: Send + Sync {
    /// What stands in the way of readiness, a line each; nothing when it is ready.
    fn unready(&self) -> Vec<String>;

    /// The figures, as Prometheus reads them.
    fn metrics(&self) -> String;
}

/// A figure: its name, kind, meaning and value.
pub(crate) type MetricRow = (&'static str, &'static str, &'static str, String);

/// Figures as Prometheus reads them.
pub(crate) fn exposition(rows: &[MetricRow]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    text
}

/// What is shown; written by the process, read by whoever asks.
#[derive(Default)]
pub(crate) struct AccessStatus {
    inner: Mutex<ShownStatus>,
}

#[derive(Default)]
struct ShownStatus {
    report: SynthesisReport,
    /// Kinds whose watch failed and did not come back, and why.
    watches: BTreeMap<&'static str, String>,
    /// Since when something is wrong with what is read.
    stale: Option<Instant>,
}

impl AccessStatus {
    /// A watch failed, or works again.
    pub(crate) fn watch_failed(&self, plural: &'static str, why: Option<String>) {
        let mut inner = self.lock();
        match why {
            Some(why) => drop(inner.watches.insert(plural, why)),
            None => drop(inner.watches.remove(plural)),
        }
        inner.refresh();
    }

    pub(crate) fn report(&self, report: SynthesisReport) {
        let mut inner = self.lock();
        inner.report = report;
        inner.refresh();
    }

    fn lock(&self) -> MutexGuard<'_, ShownStatus> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcessStatus for AccessStatus {
    fn unready(&self) -> Vec<String> {
        let inner = self.lock();
        let mut lines: Vec<String> =
            inner.watches.iter().map(|(plural, why)| format!("{plural}: {why}")).collect();
        if !inner.report.index_ready {
            lines.push("not everything was read yet".to_owned());
        }
        lines.extend(inner.report.problems.iter().cloned());
        lines
    }

    fn metrics(&self) -> String {
        let inner = self.lock();
        let SynthesisReport {
            leads,
            names: (names, left_out),
            behind,
            counts,
            problems,
            index_ready,
        } = &inner.report;
        let stale = inner.stale.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let rows = [
            (
                "tenure_ref_index_staleness_seconds",
                "gauge",
                "How long what is read has not been known to be current.",
                stale.to_string(),
            ),
            (
                "tenure_ref_index_ready",
                "gauge",
                "Whether everything has been read once.",
                u8::from(*index_ready).to_string(),
            ),
            (
                "tenure_synthesis_leader",
                "gauge",
                "Whether this process writes.",
                u8::from(*leads).to_string(),
            ),
            (
                "tenure_synthesis_names",
                "gauge",
                "Names that are to stand in Roles.",
                names.to_string(),
            ),
            (
                "tenure_synthesis_names_without_room",
                "gauge",
                "Names that find no room in the Roles of their namespace.",
                left_out.to_string(),
            ),
            (
                "tenure_synthesis_pending",
                "gauge",
                "Roles that wait to be written.",
                behind.to_string(),
            ),
            (
                "tenure_synthesis_problems",
                "gauge",
                "What is wrong now; readiness names it.",
                problems.len().to_string(),
            ),
            (
                "tenure_synthesis_writes_total",
                "counter",
                "Writes of Roles and RoleBindings.",
                counts.writes.to_string(),
            ),
            (
                "tenure_synthesis_write_failures_total",
                "counter",
                "Writes that failed.",
                counts.failures.to_string(),
            ),
            (
                "tenure_synthesis_repairs_total",
                "counter",
                "Changes of others that were undone.",
                counts.repairs.to_string(),
            ),
        ];
        exposition(&rows)
    }
}

impl ShownStatus {
    fn refresh(&mut self) {
        let wrong = !self.watches.is_empty() || !self.report.index_ready;
        self.stale = wrong.then(|| self.stale.unwrap_or_else(clock::timer_instant));
    }
}
