//! Which of several replicas writes: the one that holds a Lease, which was installed and is never created here.
//!
//! ```text
//!   renewed every 2 s ──► writes for 8 s after the last renewal was sent ──► may be taken after 15 s
//! ```
//!
//! Requests end within 5 s, so that the last of one leader is over before another begins.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::{self, ApiError, text};
use crate::clock;

/// How long a Lease holds, in seconds, as it says itself.
const HELD_SECONDS: u32 = 15;
/// How often it is renewed, or looked at.
const RENEW_PAUSE: Duration = Duration::from_secs(2);
/// How long whoever renewed it may write.
const LEADS: Duration = Duration::from_secs(8);
/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(3);

/// Whether this process is the one that writes.
pub(crate) struct Leadership {
    until: watch::Receiver<Option<Instant>>,
    problem: watch::Receiver<Option<String>>,
    leaving: watch::Sender<bool>,
    task: Mutex<JoinSet<()>>,
}

/// A Lease, and who wants it.
struct LeaseHolder {
    client: kube::Client,
    path: String,
    identity: String,
    /// What the Lease said last, and when it began to say so.
    seen: Option<((String, String), Instant)>,
}

impl Leadership {
    /// Tries for the Lease from now on.
    pub(crate) fn start(
        client: kube::Client,
        namespace: &str,
        name: &str,
        identity: &str,
    ) -> Leadership {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
        let (until_sender, until) = watch::channel(None);
        let (problem_sender, problem) = watch::channel(None);
        let (leaving, left) = watch::channel(false);
        let holder = LeaseHolder { client, path, identity: identity.to_owned(), seen: None };
        let mut task = JoinSet::new();
        task.spawn(hold(holder, left, until_sender, problem_sender));
        Leadership { until, problem, leaving, task: Mutex::new(task) }
    }

    /// Writes no more, and lets go of the Lease, so that another need not wait for its end.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let _ = self.task.lock().await.join_next().await;
    }

    /// Whether it may write now.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        !*self.leaving.borrow() && self.until.borrow().is_some_and(|until| now < until)
    }

    /// Why it cannot be known who writes.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }
}

/// Tries for the Lease, and renews it, until it is to be let go of.
async fn hold(
    mut holder: LeaseHolder,
    mut left: watch::Receiver<bool>,
    until: watch::Sender<Option<Instant>>,
    problem: watch::Sender<Option<String>>,
) {
    loop {
        let begin = clock::timer_instant();
        let wants = !*left.borrow_and_update();
        let said = match tokio::time::timeout(REQUEST_LIMIT, holder.turn(wants)).await {
            Ok(Ok(is_ours)) => {
                until.send_replace(is_ours.then_some(begin + LEADS));
                None
            }
            // Until its time is over it still leads: the Lease says so.
            Ok(Err(error)) => Some(error.reason()),
            Err(_) => Some("the server does not answer in time".to_owned()),
        };
        if let Some(why) = &said {
            tracing::warn!(path = holder.path, why, "the Lease cannot be renewed");
        }
        problem.send_replace(said);
        if !wants {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW_PAUSE) => {}
            changed = left.changed() => if changed.is_err() { return },
        }
    }
}

impl LeaseHolder {
    /// Takes or renews the Lease, or lets go of it; whether it is ours now.
    async fn turn(&mut self, wants: bool) -> Result<bool, ApiError> {
        let mut lease = api::get(&self.client, &self.path).await?;
        let holder = text(&lease, "/spec/holderIdentity").to_owned();
        let renewed = text(&lease, "/spec/renewTime").to_owned();
        let is_ours = holder == self.identity;
        if !wants && !is_ours {
            return Ok(false);
        }
        if !is_ours && !self.is_free((holder, renewed), &lease) {
            return Ok(false);
        }
        let now = format!("{:.6}", clock::timestamp());
        let spec = match wants {
            true => {
                let before = lease.pointer("/spec/leaseTransitions").and_then(Value::as_u64);
                let taken = lease.pointer("/spec/acquireTime").filter(|_| is_ours).cloned();
                json!({
                    "holderIdentity": self.identity,
                    "leaseDurationSeconds": HELD_SECONDS,
                    "acquireTime": taken.unwrap_or_else(|| now.clone().into()),
                    "renewTime": now,
                    "leaseTransitions": before.unwrap_or_default() + u64::from(!is_ours),
                })
            }
            false => json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now }),
        };
        if let Some(fields) = lease.as_object_mut() {
            fields.insert("spec".to_owned(), spec);
        }
        match api::replace(&self.client, &self.path, &lease).await {
            Ok(_) => Ok(wants),
            // Another was faster.
            Err(error) if error.code() == Some(409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether nobody holds it: given back, or not renewed for as long as it holds. Clocks of others are not trusted:
    /// what counts is how long it has said the same.
    fn is_free(&mut self, says: (String, String), lease: &Value) -> bool {
        if says.0.is_empty() {
            return true;
        }
        let now = clock::timer_instant();
        let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        let held = Duration::from_secs(seconds.unwrap_or(u64::from(HELD_SECONDS)));
        match &self.seen {
            Some((before, since)) if *before == says => now.duration_since(*since) >= held,
            _ => {
                self.seen = Some((says, now));
                false
            }
        }
    }
}
