//! The ownership report while it runs (A73): the metadata of everything that may be read, looked at once a minute;
//! what is wrong is counted in metrics, and told once in an Event beside its object. Nothing else is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_inspect::{AuditOptions, AuditReport, ClusterReader, Finding, OwnershipAnalysis};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api;
use crate::clock;
use crate::leader::Leadership;
use crate::probe;
use crate::status::ProcessStatus;
use crate::{AttachFeature, NAMESPACE};

/// How often everything is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Deletions that are younger are left to those who look after them.
const STUCK_AFTER: Duration = Duration::from_secs(600);
/// So many Events are written at a time; others wait for the next look.
const EVENTS_AT_ONCE: usize = 50;
/// The longest text of an Event.
const NOTE_MAX: usize = 1_000;

/// How the report runs.
#[derive(Clone, Debug)]
pub struct ReportSettings {
    /// What this replica is called among the others.
    pub identity: String,
    /// Where it answers `/livez`, `/readyz` and `/metrics`; nowhere without one.
    pub listen: Option<SocketAddr>,
    /// How often everything is looked at; once a minute without.
    pub every: Option<Duration>,
}

/// The report while it runs; it ends when this is dropped.
pub struct ReportAttachment {
    tasks: JoinSet<()>,
    leadership: Arc<Leadership>,
    status: Arc<ReportStatus>,
    address: Option<SocketAddr>,
}

/// What was found last.
#[derive(Default)]
struct ReportStatus {
    shown: Mutex<ReportShown>,
}

#[derive(Default)]
struct ReportShown {
    findings: BTreeMap<String, usize>,
    objects: usize,
    unread: usize,
    problem: Option<String>,
    looked: Option<Instant>,
}

impl ReportStatus {
    fn change(&self, change: impl FnOnce(&mut ReportShown)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ProcessStatus for ReportStatus {
    fn unready(&self) -> Vec<String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let none = shown.looked.is_none().then(|| "nothing was looked at yet".to_owned());
        none.into_iter().chain(shown.problem.clone()).collect()
    }

    fn metrics(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let age = shown.looked.map_or(0.0, |at| at.elapsed().as_secs_f64());
        let mut text = crate::status::exposition(&[
            (
                "tenure_ownership_objects",
                "gauge",
                "Objects that were looked at.",
                shown.objects.to_string(),
            ),
            (
                "tenure_ownership_kinds_unread",
                "gauge",
                "Kinds that may not be read, or cannot.",
                shown.unread.to_string(),
            ),
            (
                "tenure_ownership_report_age_seconds",
                "gauge",
                "How long ago everything was looked at.",
                age.to_string(),
            ),
        ]);
        text += "# HELP tenure_ownership_findings What is wrong with owners, by what it is.\n";
        text += "# TYPE tenure_ownership_findings gauge\n";
        for (code, count) in &shown.findings {
            text += &format!("tenure_ownership_findings{{finding=\"{code}\"}} {count}\n");
        }
        text
    }
}

impl ReportAttachment {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        client: kube::Client,
        settings: &ReportSettings,
    ) -> io::Result<ReportAttachment> {
        let status = Arc::new(ReportStatus::default());
        let mut tasks = JoinSet::new();
        let mut address = None;
        if let Some(wanted) = settings.listen {
            let listener = probe::listen(wanted).await?;
            address = Some(listener.local_addr()?);
            tasks.spawn(probe::serve(listener, Arc::clone(&status) as _));
        }
        let lease = format!("tenure-{}", AttachFeature::OwnershipReport.name());
        let leadership =
            Arc::new(Leadership::start(client.clone(), NAMESPACE, &lease, &settings.identity));
        let every = settings.every.unwrap_or(LOOK_EVERY);
        tasks.spawn(run(client, every, Arc::clone(&leadership), Arc::clone(&status)));
        Ok(ReportAttachment { tasks, leadership, status, address })
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The figures, as `/metrics` says them.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.status.metrics()
    }

    /// Lets another replica begin at once.
    pub async fn leave(self) {
        self.leadership.leave().await;
    }

    /// Waits for an end that nobody asked for: a part of it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}

async fn run(
    client: kube::Client,
    every: Duration,
    leadership: Arc<Leadership>,
    status: Arc<ReportStatus>,
) {
    let reader = ClusterReader::with(client.clone(), "default");
    let mut told = BTreeSet::new();
    loop {
        match reader.read().await {
            Err(error) => {
                let why = std::iter::once(error.to_string()).chain(error.causes());
                let why: Vec<String> = why.collect();
                tracing::warn!(why = why.join(": "), "the cluster cannot be read");
                status.change(|shown| shown.problem = Some(why.join(": ")));
            }
            Ok(facts) => {
                let scope = AuditOptions { namespace: None, stuck_after: STUCK_AFTER };
                let audit = OwnershipAnalysis::new(facts).audit(&scope);
                status.change(|shown| *shown = shown_of(&audit));
                if leadership.leads(clock::timer_instant()) {
                    tell(&client, &audit, &mut told).await;
                }
            }
        }
        tokio::time::sleep(every).await;
    }
}

fn shown_of(audit: &AuditReport) -> ReportShown {
    let mut findings = BTreeMap::new();
    for finding in &audit.findings {
        *findings.entry(code_of(finding)).or_default() += 1;
    }
    let (objects, unread) = (audit.objects, audit.unread.len());
    ReportShown { findings, objects, unread, problem: None, looked: Some(clock::timer_instant()) }
}

/// What a finding is called in metrics and Events.
fn code_of(finding: &Finding) -> String {
    let code = serde_json::to_value(finding.code).unwrap_or_default();
    code.as_str().unwrap_or_default().to_owned()
}

/// Writes an Event for each finding that has none. Its name is made from the finding, so that whoever comes after
/// a restart finds it there.
async fn tell(client: &kube::Client, audit: &AuditReport, told: &mut BTreeSet<String>) {
    let now: BTreeSet<String> = audit.findings.iter().map(event_name).collect();
    // What is gone and comes back is told again.
    told.retain(|name| now.contains(name));
    let fresh = audit.findings.iter().filter(|finding| !told.contains(&event_name(finding)));
    let fresh: Vec<&Finding> = fresh.take(EVENTS_AT_ONCE).collect();
    for finding in fresh {
        let namespace = match finding.object.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        match api::create(client, &path, &event(finding, namespace)).await {
            Ok(_) => {}
            Err(error) if error.code() == Some(409) => {}
            Err(error) => {
                tracing::warn!(
                    object = finding.object.place(),
                    why = error.reason(),
                    "a finding could not be told"
                );
                continue;
            }
        }
        told.insert(event_name(finding));
    }
}

fn event(finding: &Finding, namespace: &str) -> Value {
    let object = &finding.object;
    let mut note = finding.what.clone();
    for cause in &finding.causes {
        note = format!("{note}; {cause}");
    }
    let end = (0..=NOTE_MAX.min(note.len())).rev().find(|at| note.is_char_boundary(*at));
    note.truncate(end.unwrap_or_default());
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": event_name(finding), "namespace": namespace },
        "eventTime": format!("{:.6}", clock::timestamp()),
        "type": "Warning", "reason": reason_of(finding), "action": "Audit", "note": note,
        "reportingController": "tenure.dev/ownership-report", "reportingInstance": "tenure",
        "regarding": {
            "apiVersion": object.api_version, "kind": object.kind, "namespace": object.namespace,
            "name": object.name, "uid": object.uid,
        },
    })
}

/// `cross-namespace` as `CrossNamespace`.
fn reason_of(finding: &Finding) -> String {
    let code = code_of(finding);
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    code.split('-').map(word).collect()
}

/// The same for the same finding, in every process.
fn event_name(finding: &Finding) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let parts = [code_of(finding), finding.object.uid.clone(), finding.what.clone()];
    for byte in parts.join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("tenure-{}.{hash:016x}", code_of(finding))
}
