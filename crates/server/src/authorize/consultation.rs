//! Decisions that need answers of webhooks: broken off, and made again once the answers are there (R154d).
//!
//! ```text
//!   settle ──► work ──► may this? ──► answer known: yes, or no
//!                │                └─► not known: noted, and no for now
//!                └──► was something noted? ask for it, all at once, and work again
//! ```
//!
//! What was answered counts for one step of a request; what counts for longer is kept by the webhook itself. Work must
//! be such that it can be done again. Whoever does not settle what was noted gets no.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use tenure_machinery::Failure;
use tenure_rbac::RequestAttributes;

use super::question::AccessQuestion;
use super::webhook::{ReviewOutcome, WebhookAuthorizer, WebhookQuestion};
use crate::access::{AccessGrant, AccessJudgement, AccessRefusal, AuthorizerChain, refused};
use crate::authenticate::User;
use crate::fair;

/// How often work is done again: a question may only arise from the answer to another one.
const ROUNDS_MAX: usize = 64;
/// How many questions one round asks.
const QUESTIONS_MAX: usize = 256;

/// See the head of this file.
#[derive(Clone, Default)]
pub(crate) struct Consultation(Arc<Mutex<ConsultationState>>);

#[derive(Default)]
struct ConsultationState {
    /// By webhook and question.
    answers: HashMap<(u64, Arc<str>), ReviewOutcome>,
    open: Vec<(Arc<WebhookAuthorizer>, WebhookQuestion)>,
}

impl Consultation {
    /// Does some work, and does it again until nothing is noted any more.
    ///
    /// # Errors
    /// What the work ends with, or that it does not end.
    pub(crate) async fn settle<T>(
        &self,
        mut work: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.forget();
        for _ in 0..ROUNDS_MAX {
            let made = work();
            if !self.answer().await {
                return made;
            }
        }
        Err(Failure::internal("authorizers raise questions without an end"))
    }

    /// As [`Consultation::settle`], where nobody can wait: fails if somebody would have to be asked.
    pub(crate) fn settle_now<T>(
        &self,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.forget();
        let made = work();
        match self.has_open() {
            true => Err(Failure::internal("an authorizer must be asked that cannot be waited for")),
            false => made,
        }
    }

    /// For work that waits: whether it must be done again, because something was noted and is answered now.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) async fn goes_on(&self, round: &mut usize) -> Result<bool, Failure> {
        *round += 1;
        if !self.answer().await {
            return Ok(false);
        }
        match *round < ROUNDS_MAX {
            true => Ok(true),
            false => Err(Failure::internal("authorizers raise questions without an end")),
        }
    }

    /// Decides one question.
    pub(crate) async fn decide(
        &self,
        access: &AuthorizerChain,
        user: &User,
        question: &AccessQuestion<'_>,
    ) -> Result<AccessGrant, AccessRefusal> {
        for _ in 0..ROUNDS_MAX {
            match access.judge(user, question, Some(self)) {
                AccessJudgement::Allowed(grant) => return Ok(grant),
                AccessJudgement::Refused(refusal) => return Err(refusal),
                AccessJudgement::Open => {
                    self.answer().await;
                }
            }
        }
        Err(AccessRefusal::failed("authorizers raise questions without an end"))
    }

    /// Passes if the user may do something, whatever may be read only because something refers to it.
    ///
    /// # Errors
    /// What a client is told.
    pub(crate) async fn must(
        &self,
        access: &AuthorizerChain,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> Result<(), Failure> {
        let question = AccessQuestion { references: false, ..AccessQuestion::plain(*requested) };
        let decided = self.decide(access, user, &question).await;
        decided.map(drop).map_err(|why| refused(user, requested, &why, ""))
    }

    /// Whether the user may do it; no for now where nobody can say yet.
    pub(crate) fn may(
        &self,
        access: &AuthorizerChain,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> bool {
        self.allows(access, user, &AccessQuestion::plain(*requested))
    }

    /// As [`Consultation::may`], but what the user may do only because something refers to it does not count
    /// (referential authorization R104).
    pub(crate) fn may_without_references(
        &self,
        access: &AuthorizerChain,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> bool {
        let question = AccessQuestion { references: false, ..AccessQuestion::plain(*requested) };
        self.allows(access, user, &question)
    }

    fn allows(&self, access: &AuthorizerChain, user: &User, question: &AccessQuestion<'_>) -> bool {
        matches!(access.judge(user, question, Some(self)), AccessJudgement::Allowed(_))
    }

    /// Whether something was noted that nobody has answered.
    pub(crate) fn has_open(&self) -> bool {
        !self.state().open.is_empty()
    }

    /// Begins anew: what was answered before may not hold any more.
    pub(crate) fn forget(&self) {
        *self.state() = ConsultationState::default();
    }

    /// What a webhook has answered to a question in this step.
    pub(super) fn answered(&self, webhook: u64, question: &Arc<str>) -> Option<ReviewOutcome> {
        self.state().answers.get(&(webhook, Arc::clone(question))).cloned()
    }

    /// Notes a question.
    pub(super) fn note(&self, webhook: &Arc<WebhookAuthorizer>, question: WebhookQuestion) {
        let mut state = self.state();
        let same = |(other, known): &(Arc<WebhookAuthorizer>, WebhookQuestion)| {
            other.id() == webhook.id() && known.text == question.text
        };
        // What does not fit into this round is noted again in the next.
        if state.open.len() < QUESTIONS_MAX && !state.open.iter().any(same) {
            state.open.push((Arc::clone(webhook), question));
        }
    }

    /// Asks for what was noted; whether there was anything.
    pub(crate) async fn answer(&self) -> bool {
        let open = std::mem::take(&mut self.state().open);
        if open.is_empty() {
            return false;
        }
        // Whoever waits here works elsewhere.
        fair::rest();
        let asking = open.into_iter().map(|(webhook, question)| async move {
            let outcome = webhook.ask(&question).await;
            ((webhook.id(), question.text), outcome)
        });
        let answers = join_all(asking).await;
        self.state().answers.extend(answers);
        true
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ConsultationState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
