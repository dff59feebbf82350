//! What may be read at this moment because something refers to it: the authorizer after roles (R155).
//!
//! ```text
//!   feed ──► Index (one writer) ──► View (replaced whole) ──► may(user, asked)
//!                └─► revoked ──► open watches look again (R123)
//! ```
//!
//! Readers wait for nobody. Why something is allowed is looked up in the index when somebody wants to read it; a
//! writer may hold the index, or the reference may be gone by then: then it is said without the why.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};
use tenure_core::Revision;
use tenure_rbac::RequestAttributes;
use tenure_reference::{
    Attributes, CapabilityView, Index, Outputs, RefQuery, Resource, Subject, Verdict,
};
use tokio::sync::{OwnedMutexGuard, watch};

use super::expression::Cel;
use super::feeds::Feeds;
use super::origin_events::ReportQueue;
use super::recent::{MovedSince, RecentMoves};
use super::tally::ReferenceMetrics;
use super::visibility::Moves;
use super::{AuthorizerMode, ReferenceOptions};
use crate::authenticate::User;
use crate::clock::{self, Chance};

/// Said when the reason cannot be looked up without waiting.
const REASON: &str = "reference: allowed";
/// How often readers of a view are given the processor before it is copied.
const PATIENCE: usize = 1_000;

/// Who consumes references to what.
pub(super) type Consumed = (Subject, Vec<Resource>);

/// The index and what readers see of it.
pub(crate) struct ReferenceAuthorizer {
    view: ArcSwap<CapabilityView>,
    index: Mutex<Index>,
    consumed: ArcSwap<Vec<Consumed>>,
    /// What strategies point at.
    pointed_at: ArcSwap<BTreeSet<Resource>>,
    /// When something was last revoked.
    revoked: watch::Sender<Instant>,
    tally: ReferenceMetrics,
    teller: ReportQueue,
    /// Which types are told.
    feeds: Mutex<Feeds>,
    /// The newest revision that a commit has come to the index with, and the newest that the index has.
    reached: AtomicU64,
    applied: AtomicU64,
    /// How many types of origins are being told beside the commits.
    filling: watch::Sender<usize>,
    /// Whether the index is being cleared beside the commits.
    clearing: AtomicBool,
    /// Whose turn it is to prepare a strategy.
    turn: Arc<tokio::sync::Mutex<()>>,
    authorizer: AuthorizerMode,
    /// What changed whose sight, where collections are filtered.
    moves: Option<Moves>,
    /// What moved lately, for permits.
    recent: RecentMoves,
}

impl Default for ReferenceAuthorizer {
    fn default() -> ReferenceAuthorizer {
        ReferenceAuthorizer::new(ReferenceOptions::default())
    }
}

impl ReferenceAuthorizer {
    /// Nothing is referenced yet; references are treated as said.
    pub(crate) fn new(settings: ReferenceOptions) -> ReferenceAuthorizer {
        let index = Index::new(Chance::default().seed()).with_selectors(settings.selectors);
        let index = index.with_expressions(Arc::new(Cel::default()));
        let mut index = index.with_background_clearing();
        ReferenceAuthorizer {
            view: ArcSwap::new(index.publish()),
            index: Mutex::new(index),
            consumed: ArcSwap::default(),
            pointed_at: ArcSwap::default(),
            revoked: watch::Sender::new(clock::instant()),
            tally: ReferenceMetrics::default(),
            teller: ReportQueue::default(),
            feeds: Mutex::default(),
            reached: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            filling: watch::Sender::new(0),
            clearing: AtomicBool::new(false),
            turn: Arc::default(),
            authorizer: settings.authorizer,
            moves: settings.filtered_lists.then(Moves::default),
            recent: RecentMoves::default(),
        }
    }

    /// Whether what is referenced may be read because of that (D15).
    fn is_on(&self) -> bool {
        self.authorizer == AuthorizerMode::On
    }

    /// Whether references let a user read what is asked for.
    pub(crate) fn may(&self, user: &User, requested: &RequestAttributes<'_>) -> bool {
        let requested = attributes(user, requested);
        requested.is_some_and(|requested| self.decides(&requested)) && self.is_on()
    }

    /// Why [`ReferenceAuthorizer::may`] allowed it, as far as that can be said by now (R130). Finding all chains to
    /// a target takes longer than the decision, so this is for those who show it to somebody.
    pub(crate) fn reason(&self, user: &User, requested: &RequestAttributes<'_>) -> String {
        let reason =
            attributes(user, requested).and_then(|requested| match self.index.try_lock() {
                Ok(index) => index.reason(&requested),
                Err(TryLockError::Poisoned(index)) => index.into_inner().reason(&requested),
                Err(TryLockError::WouldBlock) => None,
            });
        reason.unwrap_or_else(|| REASON.to_owned())
    }

    /// Whether references lead to what is asked for, whatever comes of it; counted, unless nobody wants to know.
    fn decides(&self, requested: &Attributes<'_>) -> bool {
        if self.authorizer == AuthorizerMode::Off || !requested.is_eligible() {
            return false;
        }
        let begin = clock::instant();
        let allowed = self.view.load().decide(requested).is_allowed();
        let took = begin.elapsed();
        let is_target = allowed || self.is_target(requested.group, requested.resource);
        self.tally.decided(requested, is_target, allowed, took);
        allowed
    }

    /// As [`ReferenceAuthorizer::may`], for one who was allowed before and looks again: not counted.
    pub(crate) fn still_may(&self, user: &User, requested: &RequestAttributes<'_>) -> bool {
        attributes(user, requested).is_some_and(|requested| self.decide(&requested))
    }

    /// What a reader of a state must know beside [`ReferenceAuthorizer::still_may`]: what moved with a later commit (R180).
    pub(crate) fn moved_after_state(
        &self,
        user: &User,
        requested: &RequestAttributes<'_>,
        state: Revision,
    ) -> MovedSince {
        let requested = attributes(user, requested);
        requested.map(|requested| self.recent.after_state(&requested, state)).unwrap_or_default()
    }

    /// The same for one who reads on from a revision: what a client that knows it may not know.
    pub(crate) fn moved_after(
        &self,
        user: &User,
        requested: &RequestAttributes<'_>,
        revision: Revision,
    ) -> MovedSince {
        let requested = attributes(user, requested);
        requested
            .map(|requested| self.recent.after_revision(&requested, revision))
            .unwrap_or_default()
    }

    /// The same for one who has looked before, at a number of [`ReferenceAuthorizer::moved_until`].
    pub(crate) fn moved_from(
        &self,
        user: &User,
        requested: &RequestAttributes<'_>,
        number: u64,
    ) -> MovedSince {
        let requested = attributes(user, requested);
        requested.map(|requested| self.recent.since_number(&requested, number)).unwrap_or_default()
    }

    /// As long as this stays the same, so does every decision.
    pub(crate) fn moved_until(&self) -> u64 {
        self.recent.published()
    }

    /// Whether references let it be read at this moment.
    pub(super) fn decide(&self, requested: &Attributes<'_>) -> bool {
        self.is_on() && self.view.load().decide(requested).is_allowed()
    }

    /// Whether consumers see what is theirs of whole collections (R155).
    pub(crate) fn filters(&self) -> bool {
        self.moves.is_some() && self.is_on()
    }

    /// Whether a user consumes references to such objects.
    pub(crate) fn consumes(&self, user: &User, group: &str, resource: &str) -> bool {
        self.consumed.load().iter().any(|(subject, targets)| {
            subject.matches(&user.name, &user.groups)
                && targets.iter().any(|to| to.group == group && to.resource == resource)
        })
    }

    /// Whether references lead a user there, whatever comes of it; not counted.
    pub(crate) fn leads_to(&self, user: &User, requested: &RequestAttributes<'_>) -> bool {
        let requested = attributes(user, requested);
        requested.is_some_and(|requested| self.view.load().decide(&requested).is_allowed())
    }

    /// Whether any strategy finds references to such objects.
    pub(crate) fn is_pointed_at(&self, group: &str, resource: &str) -> bool {
        let targets = self.pointed_at.load();
        targets.iter().any(|to| to.group == group && to.resource == resource)
    }

    /// Whether anybody consumes references to such objects.
    pub(crate) fn is_target(&self, group: &str, resource: &str) -> bool {
        let consumed = self.consumed.load();
        let mut targets = consumed.iter().flat_map(|(_, targets)| targets);
        targets.any(|to| to.group == group && to.resource == resource)
    }

    /// What is counted.
    pub(crate) fn tally(&self) -> &ReferenceMetrics {
        &self.tally
    }

    /// Looks up how much there is, for those who read metrics; whether a subject may write a type is asked.
    pub(crate) fn measure(&self, may_write: &dyn Fn(&Subject, &Resource) -> bool) {
        self.tally.measure(|| self.index(), may_write);
    }

    /// Whether one reference is allowed, and by what (R113), as `say` puts it.
    pub(crate) fn check<T>(&self, query: &RefQuery<'_>, say: impl FnOnce(&Verdict<'_>) -> T) -> T {
        say(&self.index().check(query))
    }

    /// What authors of origins should hear of.
    pub(crate) fn teller(&self) -> &ReportQueue {
        &self.teller
    }

    /// What readers see.
    pub(super) fn view(&self) -> Guard<Arc<CapabilityView>> {
        self.view.load()
    }

    /// Whether consumers see their part of collections that they may not read whole (R155).
    pub(crate) fn filters_lists(&self) -> bool {
        self.moves.is_some() && self.is_on()
    }

    pub(super) fn moves(&self) -> Option<&Moves> {
        self.moves.as_ref()
    }

    /// What to tell somebody who was refused: the same for all targets of a type, whether they exist or not
    /// (R97, R131).
    pub(crate) fn hint(
        &self,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> Option<&'static str> {
        let requested = attributes(user, requested)?;
        let consumes = self.is_on() && self.consumes(user, requested.group, requested.resource);
        consumes.then_some(if requested.is_eligible() {
            "no live reference for you leads there"
        } else {
            "references let you read one named object at a time"
        })
    }

    /// Every name in a namespace that references let a user read, by resource, sorted (R96).
    pub(crate) fn names(&self, user: &User, namespace: &str) -> Vec<(Resource, Vec<String>)> {
        if !self.is_on() {
            return Vec::new();
        }
        let mut found: BTreeMap<Resource, Vec<String>> = BTreeMap::new();
        for part in 0..CapabilityView::PARTS {
            let view = self.view.load();
            for target in view.live_part(part, &user.name, &user.groups) {
                if target.namespace == namespace || target.namespace.is_empty() {
                    let resource = Resource::new(target.group, target.resource);
                    found.entry(resource).or_default().push(target.name);
                }
            }
        }
        found.values_mut().for_each(|names| names.sort_unstable());
        found.into_iter().collect()
    }

    /// Tells when something may have been revoked.
    pub(crate) fn revocations(&self) -> watch::Receiver<Instant> {
        self.revoked.subscribe()
    }

    /// Waits until no origins are left to be told beside the commits (R174).
    pub(crate) async fn filled(&self) {
        // The sender lives as long as this does.
        let _ = self.filling.subscribe().wait_for(|ongoing| *ongoing == 0).await;
    }

    /// One more type is being told beside the commits, or one less.
    pub(super) fn filling(&self, more: bool) {
        self.filling.send_modify(|ongoing| {
            *ongoing = if more { ongoing.saturating_add(1) } else { ongoing.saturating_sub(1) };
        });
    }

    /// Which types are told. Whoever locks this and the index locks the index first.
    pub(super) fn feeds(&self) -> MutexGuard<'_, Feeds> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit comes, and looks afterwards whether it concerns the index: who adds a type, and looks at this
    /// afterwards, knows which commits may not have seen the type.
    pub(super) fn reach(&self, revision: Revision) {
        self.reached.store(revision.0, Ordering::SeqCst);
    }

    /// The newest revision that a commit has come with.
    pub(super) fn reached(&self) -> Revision {
        Revision(self.reached.load(Ordering::SeqCst))
    }

    /// A commit has been told. Called by whoever has the index.
    pub(super) fn apply(&self, revision: Revision) {
        self.applied.store(revision.0, Ordering::Release);
    }

    /// The newest commit that has been told; exact while collections are filtered and something is told beside
    /// the commits, for whoever has the index.
    pub(super) fn applied(&self) -> Revision {
        Revision(self.applied.load(Ordering::Acquire))
    }

    /// Whether commits that say nothing to the index must be noted nevertheless.
    pub(super) fn follows_commits(&self, feeds: &Feeds) -> bool {
        self.moves.is_some() && feeds.is_filling()
    }

    /// Says whether the index is being cleared; what was said before.
    pub(super) fn set_clearing(&self, clearing: bool) -> bool {
        self.clearing.swap(clearing, Ordering::AcqRel)
    }

    /// Waits for one's turn to prepare a strategy.
    pub(super) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// The index, to look at.
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index, for the one who changes it.
    ///
    /// A decision takes less than a microsecond. Whoever still makes one in the view that is changed next is
    /// waited for, because otherwise that view would be copied, with all of its targets.
    pub(super) fn index_to_change(&self) -> MutexGuard<'_, Index> {
        let index = self.index();
        for _ in 0..PATIENCE {
            if index.is_free() {
                break;
            }
            std::thread::yield_now();
        }
        index
    }

    /// Everything up to a revision has been told; what happened on the way is nobody's to know.
    pub(super) fn start(&self, at: Revision) {
        self.recent.start(at);
        if let Some(moves) = &self.moves {
            moves.start(at);
        }
    }

    /// Lets readers see the index as it is; open watches look again if something may be gone.
    pub(super) fn publish(&self, index: &mut Index, revision: Revision, out: &Outputs) {
        self.recent.note(revision, false, index, out);
        self.publish_as_of(index, (revision, revision), out);
    }

    fn publish_as_of(&self, index: &mut Index, at: (Revision, Revision), out: &Outputs) {
        let publish = |index: &mut Index| self.view.store(index.publish());
        match &self.moves {
            Some(moves) => moves.note(at, index, out, publish),
            None => publish(index),
        }
        self.recent.publish();
        if !out.subjects.is_empty() || out.transitions.iter().any(|moved| !moved.live) {
            self.revoked.send_replace(clock::instant());
        }
    }

    /// The same between two commits. What moves then moved after everything that clients have seen, so it counts
    /// as of the revision that comes next: who goes on from an earlier one is told of it, or lists again.
    pub(super) fn publish_late(&self, index: &mut Index, out: &Outputs) {
        // The newest commit may say nothing to the index, and clients know of it.
        self.recent.note(self.reached(), true, index, out);
        let (next, state) = (Revision(self.applied().0.saturating_add(1)), self.applied());
        self.publish_as_of(index, (next, state), out);
    }

    pub(super) fn set_pointed_at(&self, targets: BTreeSet<Resource>) {
        self.pointed_at.store(Arc::new(targets));
    }

    pub(super) fn set_consumed(&self, consumed: Vec<Consumed>) {
        self.consumed.store(Arc::new(consumed));
    }
}

fn attributes<'a>(user: &'a User, requested: &RequestAttributes<'a>) -> Option<Attributes<'a>> {
    let RequestAttributes::Resource { verb, group, resource, subresource, name, .. } = *requested
    else {
        return None;
    };
    let namespace = requested.object_namespace();
    let (user, groups) = (user.name.as_str(), user.groups.as_slice());
    Some(Attributes { user, groups, verb, group, resource, subresource, namespace, name })
}
