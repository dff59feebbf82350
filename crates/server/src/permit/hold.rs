//! A permit that is held while a stream is open: a watch, a log, a command, a forwarded port.
//!
//! ```text
//!   a right was taken away ──┐
//!   an account, pod … went  ─┼──► look again ──► it holds, or the stream ends
//!   the credential ends     ─┤
//!   webhooks let it pass     ┘ every ten seconds they are asked again
//! ```
//!
//! Nobody looks again but when something has happened. How a stream ends is said by whoever has it.

use std::sync::Arc;
use std::time::Duration;

use tenure_machinery::Failure;
use tenure_world::{Interest, Watch, WatchEnded, WorldHandle};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{AuthorizedRequest, Basis, Permit};
use crate::access::refusal;
use crate::clock;
use crate::read::list::expired;

/// How often webhooks are asked again what they let pass; what they say is kept as their configuration says.
const REVIEW_EVERY: Duration = Duration::from_secs(10);

/// See the head of this file.
pub(crate) struct Hold {
    permit: Permit,
    world: WorldHandle,
    /// Wakes after a role was taken away.
    roles: Option<watch::Receiver<u64>>,
    /// Wakes after a reference was.
    references: Option<watch::Receiver<std::time::Instant>>,
    /// What the credential ends with.
    relied_on: Vec<Watch>,
    /// When the credential ends.
    expires: Option<Instant>,
    /// Says whether webhooks still let it pass.
    webhooks: Option<WebhookReviewer>,
    /// The revocations and moves that were looked at.
    generation: u64,
    moved: u64,
}

impl Hold {
    pub(super) fn new(permit: &Permit, world: &WorldHandle) -> Hold {
        let (permit, world) = (permit.clone(), world.clone());
        let mut hold = Hold {
            permit,
            world,
            roles: None,
            references: None,
            relied_on: Vec::new(),
            expires: None,
            webhooks: None,
            generation: 0,
            moved: 0,
        };
        if let Some(granted) = hold.permit.granted.clone() {
            hold.subscribe(&granted);
        }
        hold
    }

    /// What happens from now on is heard of; what happened before is looked at by the first check.
    fn subscribe(&mut self, granted: &Arc<AuthorizedRequest>) {
        let is_master = granted.caller.user.groups.iter().any(|group| group == "system:masters");
        let references = granted.access.reference_authorizer();
        if !is_master || granted.caller.impersonator.is_some() {
            self.roles = Some(granted.access.revocations().subscribe());
        }
        if matches!(granted.basis, Basis::Reference | Basis::References) {
            self.references = Some(references.revocations());
        }
        self.generation = granted.generation;
        self.moved = references.moved_until();
        self.follow_credential(granted);
        self.webhooks = granted.by_webhook.then(|| WebhookReviewer::start(granted, &self.world));
    }

    /// Follows the objects that the credential ends with, from the newest state on.
    fn follow_credential(&mut self, granted: &AuthorizedRequest) {
        let state = self.world.current();
        let credential = &granted.caller.credential;
        let watch = |key| self.world.watch(state.revision(), Interest::Key(key)).ok();
        self.relied_on = credential.keys().into_iter().filter_map(watch).collect();
        let left = credential.seconds_left(&state).map(Duration::from_secs);
        self.expires = left.and_then(|left| clock::timer_instant().checked_add(left));
    }

    /// Whether a reference is what it rests on: the client is told when it goes (referential authorization R123).
    pub(crate) fn is_by_reference(&self) -> bool {
        let granted = self.permit.granted.as_ref();
        granted.is_some_and(|granted| granted.basis == Basis::Reference)
    }

    /// How long ago a reference was last taken away, if one is what it rests on.
    pub(crate) fn count_revocation(&self) {
        if let (Some(granted), Some(revoked)) = (&self.permit.granted, &self.references) {
            granted.access.reference_authorizer().tally().ended(revoked.borrow().elapsed());
        }
    }

    /// Passes if everything up to now may be sent. Asked after it was read and before it is sent.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        let Some(granted) = self.permit.granted.clone() else { return Ok(()) };
        if self.webhooks.as_ref().is_some_and(WebhookReviewer::is_lost) {
            return Err(refusal(&granted.caller.user, &granted.line.attributes()));
        }
        let is_expired = self.expires.is_some_and(|end| end <= clock::timer_instant());
        let relies_on_moved =
            self.relied_on.iter_mut().any(|of| !matches!(of.try_next(), Ok(None)));
        let generation = granted.access.revocations().generation();
        let moved = granted.access.reference_authorizer().moved_until();
        let by_node = granted.basis == Basis::Node;
        let same = generation == self.generation && (moved == self.moved || !self.is_referential());
        if same && !is_expired && !relies_on_moved && !by_node {
            return Ok(());
        }
        if relies_on_moved || is_expired {
            self.follow_credential(&granted);
        }
        granted.check(&self.world.current(), true)?;
        let from = std::mem::replace(&mut self.moved, moved);
        self.generation = generation;
        if granted.basis == Basis::Reference && from != moved {
            unbroken(&granted, from, &self.world)?;
        }
        Ok(())
    }

    fn is_referential(&self) -> bool {
        self.references.is_some()
    }

    /// Waits until it may hold no longer; then it is to be checked.
    pub(crate) async fn changed(&mut self) {
        let Hold { roles, references, relied_on, expires, webhooks, .. } = self;
        tokio::select! {
            () = changed(webhooks.as_mut().map(|webhooks| &mut webhooks.lost)) => {}
            () = changed(roles.as_mut()) => {}
            () = changed(references.as_mut()) => {}
            () = any_ready(relied_on) => {}
            () = until(*expires) => {}
        }
    }

    /// Waits until it holds no longer.
    pub(crate) async fn ended(&mut self) {
        while self.check().is_ok() {
            self.changed().await;
        }
    }
}

/// Asks webhooks again while a stream is open (R154f).
struct WebhookReviewer {
    lost: watch::Receiver<bool>,
    reviewing: JoinHandle<()>,
}

impl Drop for WebhookReviewer {
    fn drop(&mut self) {
        self.reviewing.abort();
    }
}

impl WebhookReviewer {
    fn start(granted: &Arc<AuthorizedRequest>, world: &WorldHandle) -> WebhookReviewer {
        let (say, lost) = watch::channel(false);
        let reviewing = review(Arc::clone(granted), world.clone(), say);
        WebhookReviewer { lost, reviewing: tokio::spawn(reviewing) }
    }

    fn is_lost(&self) -> bool {
        // Who has ended without a word has not found that it holds.
        *self.lost.borrow() || self.reviewing.is_finished()
    }
}

/// Runs until webhooks let it pass no longer.
async fn review(granted: Arc<AuthorizedRequest>, world: WorldHandle, say: watch::Sender<bool>) {
    let mut reordered = granted.access.reordered();
    loop {
        tokio::select! {
            () = tokio::time::sleep(REVIEW_EVERY) => {}
            () = changed(Some(&mut reordered)) => {}
        }
        if !granted.passes_webhooks(&world.current()).await {
            say.send_replace(true);
            return;
        }
    }
}

/// What was lost and gained again since it was looked at may not have held in between: its client lists again.
fn unbroken(granted: &AuthorizedRequest, from: u64, world: &WorldHandle) -> Result<(), Failure> {
    let (user, requested) = (&granted.caller.user, granted.line.attributes());
    let moved = granted.access.reference_authorizer().moved_from(user, &requested, from);
    if (moved.forgotten || moved.broken) && !granted.has_role() {
        let now = world.current().revision();
        return Err(expired(moved.newest, now));
    }
    Ok(())
}

/// Waits for a revocation; for ever where there is nothing to revoke.
async fn changed<T>(revoked: Option<&mut watch::Receiver<T>>) {
    let Some(revoked) = revoked else { return std::future::pending().await };
    if revoked.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn any_ready(of: &mut [Watch]) {
    match of {
        [] => std::future::pending().await,
        [one] => ready(one).await,
        [one, other, ..] => tokio::select! {
            () = ready(one) => {}
            () = ready(other) => {}
        },
    }
}

/// Waits for a change; for ever once nothing changes any more.
async fn ready(of: &mut Watch) {
    if let Err(WatchEnded::Stopped) = of.ready().await {
        std::future::pending().await
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
