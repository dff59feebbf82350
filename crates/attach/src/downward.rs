//! Owner references in pods by an admission webhook, for servers before MutatingAdmissionPolicy (A57). Nothing is
//! written, and nothing is read but what is asked.

mod rewrite;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::text;
use crate::https::{self, WebhookAnswers, WebhookError, WebhookSettings};
use crate::status::{MetricRow, ProcessStatus, exposition};

/// The webhook while it runs; it ends when this is dropped.
pub struct DownwardAttachment {
    tasks: JoinSet<()>,
    address: SocketAddr,
}

/// How often objects were looked at and changed.
#[derive(Default)]
struct DownwardState {
    reviews: AtomicU64,
    changed: AtomicU64,
}

impl ProcessStatus for DownwardState {
    fn unready(&self) -> Vec<String> {
        Vec::new()
    }

    fn metrics(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        let rows: [MetricRow; 2] = [
            (
                "tenure_downward_reviews_total",
                "counter",
                "Objects that were looked at.",
                count(&self.reviews),
            ),
            (
                "tenure_downward_changes_total",
                "counter",
                "Objects that were changed.",
                count(&self.changed),
            ),
        ];
        exposition(&rows)
    }
}

impl WebhookAnswers for DownwardState {
    fn path(&self) -> &'static str {
        "/downward"
    }

    fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        let review: Value = serde_json::from_slice(body).ok()?;
        let is_review = text(&review, "/kind") == "AdmissionReview"
            && text(&review, "/apiVersion") == "admission.k8s.io/v1";
        let request = review.get("request").filter(|_| is_review)?;
        let uid = request.get("uid").and_then(Value::as_str)?;
        self.reviews.fetch_add(1, Ordering::Relaxed);
        let patch = rewrite::patch(request);
        let mut response = json!({ "uid": uid, "allowed": true });
        if let (false, Some(fields)) = (patch.is_empty(), response.as_object_mut()) {
            self.changed.fetch_add(1, Ordering::Relaxed);
            fields.insert("patchType".to_owned(), "JSONPatch".into());
            let text = Value::Array(patch).to_string();
            fields.insert("patch".to_owned(), STANDARD.encode(text).into());
        }
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        Some(answer.to_string().into_bytes())
    }
}

impl DownwardAttachment {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// A file or an address cannot be used.
    pub async fn start(settings: &WebhookSettings) -> Result<DownwardAttachment, WebhookError> {
        let state = Arc::new(DownwardState::default());
        let mut tasks = JoinSet::new();
        let answers: Arc<dyn WebhookAnswers> = Arc::clone(&state) as _;
        let address = https::start(settings, answers, state, &mut tasks).await?;
        Ok(DownwardAttachment { tasks, address })
    }

    /// Where API servers ask.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for an end that nobody asked for: a part of it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}
