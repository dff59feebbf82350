//! Referential authorization as an authorization webhook, where the flags of the API server are yours (A10 to A13).
//!
//! ```text
//!   three kinds, origins ──► ClusterReferences ──┐
//!   API server ── mutual TLS, HTTP/2 ── SubjectAccessReview ──► allowed, or no opinion
//! ```
//!
//! Nothing is written to the cluster.

mod review;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_references::live::ClusterReferences;
use tokio::task::JoinSet;

use crate::https::{self, WebhookAnswers, WebhookError, WebhookSettings};
use crate::status::{MetricRow, ProcessStatus, exposition};

use review::Reviewed;

/// What is known, and how often it was asked for.
struct AuthorizerState {
    references: ClusterReferences,
    allowed: AtomicU64,
    no_opinion: AtomicU64,
    not_ready: AtomicU64,
}

impl AuthorizerState {
    fn is_ready(&self) -> bool {
        let nothing = tenure_references::Attributes {
            user: "",
            groups: &[],
            verb: "",
            group: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
        };
        self.references.decides(&nothing).is_some()
    }
}

impl ProcessStatus for AuthorizerState {
    fn unready(&self) -> Vec<String> {
        match self.is_ready() {
            true => Vec::new(),
            false => {
                let mut lines = vec!["not everything was read yet".to_owned()];
                lines.extend(self.references.problem());
                lines
            }
        }
    }

    fn metrics(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
        let rows: [MetricRow; 4] = [
            (
                "tenure_ref_index_ready",
                "gauge",
                "Whether everything has been read once.",
                u8::from(self.is_ready()).to_string(),
            ),
            (
                "tenure_authorizer_allowed_total",
                "counter",
                "Reviews that a reference answered.",
                count(&self.allowed),
            ),
            (
                "tenure_authorizer_no_opinion_total",
                "counter",
                "Reviews that no reference answered.",
                count(&self.no_opinion),
            ),
            (
                "tenure_authorizer_not_ready_total",
                "counter",
                "Reviews before everything was read.",
                count(&self.not_ready),
            ),
        ];
        exposition(&rows)
    }
}

/// The authorizer while it runs; it ends when this is dropped.
pub struct AuthorizerAttachment {
    tasks: JoinSet<()>,
    state: Arc<AuthorizerState>,
    address: SocketAddr,
}

impl WebhookAnswers for AuthorizerState {
    fn path(&self) -> &'static str {
        "/authorize"
    }

    fn answer(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (reviewed, answer) = review::answer(body, |asked| self.references.decides(asked))?;
        let counter = match reviewed {
            Reviewed::Allowed => &self.allowed,
            Reviewed::NoOpinion => &self.no_opinion,
            Reviewed::NotReady => &self.not_ready,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        Some(answer)
    }
}

impl AuthorizerAttachment {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// A file or an address cannot be used.
    pub async fn start(
        client: kube::Client,
        settings: &WebhookSettings,
    ) -> Result<AuthorizerAttachment, WebhookError> {
        let state = Arc::new(AuthorizerState {
            references: ClusterReferences::start(client),
            allowed: AtomicU64::new(0),
            no_opinion: AtomicU64::new(0),
            not_ready: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        let answers: Arc<dyn WebhookAnswers> = Arc::clone(&state) as _;
        let address = https::start(settings, answers, Arc::clone(&state) as _, &mut tasks).await?;
        Ok(AuthorizerAttachment { tasks, state, address })
    }

    /// Where API servers ask.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stands in the way of its work, a line each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.state.unready()
    }

    /// Waits for an end that nobody asked for: a part of it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}
